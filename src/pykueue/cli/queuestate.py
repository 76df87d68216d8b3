"""How do the queues stand? What a server says of its machine, its queues, who waits and why; and how that is shown."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api.names import Label, WorkloadCondition
from pykueue.api.trees import Tree, mapping, mappings, member, text, whole
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.units import QuantityError, amount_of, amount_text, parse_quantity
from pykueue.bridge.sentences import condition, said
from pykueue.checks.pendingchecks import awaited
from pykueue.cli.reasons import Preemptors
from pykueue.cli.serverstate import UNAUTHORIZED, accepted_no_more
from pykueue.cli.tables import hanging, table
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import CredentialError
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    DeniedError,
    Kube,
    KubeError,
    NotFoundError,
    Resource,
)
from pykueue.node.machine import LIMITS

WAITING_SHOWN: Final = 20
UNQUEUED: Final = "WorkloadPriorityClassNotFound"
"""The reason of the Event on a Job that comes into no queue."""


class AskError(Exception):
    """A server that does not answer as it should."""


class Queue(Frozen):
    """A ClusterQueue."""

    name: str
    cohort: str
    quotas: Mapping[str, int]
    used: Mapping[str, int]
    running: int
    waiting: int
    problem: str = ""
    """Why it admits nothing; empty where it does."""


class Waiter(Frozen):
    """A workload that waits."""

    job: str
    queue: str
    why: str


class Picture(Frozen):
    """How everything stands."""

    machine: str
    limits: str
    queues: tuple[Queue, ...]
    waiters: tuple[Waiter, ...]


async def ask(connection: Connection, file: str) -> Picture:
    """How everything stands, as far as whoever asks, by this kubeconfig, may see it."""
    kube = HttpKube(connection, SystemClock(), agent="pykueue-status")
    try:
        return await pictured(kube, connection.namespace)
    except (KubeError, CredentialError) as error:
        if isinstance(error, KubeError) and error.code == UNAUTHORIZED:
            raise AskError(accepted_no_more(file)) from error
        raise AskError(f"{connection.server}: {error}") from error
    finally:
        await kube.close()


async def pictured(kube: Kube, namespace: str) -> Picture:
    """How everything stands on an API."""
    nodes = [one async for one in listed(kube, NODES)]
    capacity = mapping(nodes[0], "status", "allocatable") if nodes else {}
    shown_first = ("cpu", "memory")
    rest = sorted(name for name in capacity if name not in (*shown_first, "pods", "ephemeral-storage"))
    machine = ", ".join(
        f"{readable(name, amount(name, capacity[name]))} {name}" for name in (*shown_first, *rest) if name in capacity
    )
    queues = tuple([queue_of(one) async for one in listed(kube, CLUSTER_QUEUES)])
    return Picture(
        machine,
        text(nodes[0], "metadata", "annotations", LIMITS) if nodes else "",
        queues,
        tuple(await waiters(kube, namespace)),
    )


async def waiters(kube: Kube, namespace: str) -> list[Waiter]:
    """Who waits, in the order in which they came."""
    seen = ""
    try:
        doors = [one async for one in listed(kube, LOCAL_QUEUES)]
    except DeniedError as error:
        if error.code == UNAUTHORIZED:
            raise
        seen = namespace
        doors = [one async for one in listed(kube, LOCAL_QUEUES, namespace)]
    # Where nobody waits nothing is listed: of workloads that are over there may be very many.
    crowded = {text(door, "metadata", "namespace"): True for door in doors if is_crowded(door)}
    quiet = {text(door, "metadata", "namespace") for door in doors} - crowded.keys()
    crowded |= {one: True for one in await just_come(kube, seen) if one in quiet} if quiet else {}
    found: list[tuple[str, Waiter, Tree]] = [(came, waiter, {}) for came, waiter in await unqueued(kube, seen)]
    for one in crowded:
        async for workload in listed(kube, WORKLOADS, one):
            waiter = waiter_of(workload)
            if waiter is not None:
                found.append((text(workload, "metadata", "creationTimestamp"), waiter, workload))
    found.sort(key=lambda one: one[0])
    alike = {likeness(tree): tree for _, _, tree in found if condition(tree, WorkloadCondition.QUOTA_RESERVED)}
    told = [await explained(kube, waiter, tree, alike) for _, waiter, tree in found[:WAITING_SHOWN]]
    return [*told, *(waiter for _, waiter, _ in found[WAITING_SHOWN:])]


async def explained(kube: Kube, waiter: Waiter, workload: Tree, alike: Mapping[bytes, Tree]) -> Waiter:
    """Who waits, with the reason that is not written yet, and with names in it.

    A server of ours tells of one object what the engine knows. Elsewhere an equal workload may have been told.
    """
    if not workload:
        return waiter
    reserved = condition(workload, WorkloadCondition.QUOTA_RESERVED)
    if not reserved:
        metadata = mapping(workload, "metadata")
        seen = await looked_up(kube, WORKLOADS, text(metadata, "name"), text(metadata, "namespace"))
        reserved = condition(seen or {}, WorkloadCondition.QUOTA_RESERVED)
        reserved = reserved or condition(alike.get(likeness(workload), {}), WorkloadCondition.QUOTA_RESERVED)
    if text(reserved, "status") != "False":
        return waiter
    return replace(waiter, why=await Preemptors(kube, SystemClock()).said(reserved, workload) or waiter.why)


def likeness(workload: Tree) -> bytes:
    """What workloads of one queue share that no decision could tell apart, or more than that."""
    spec = mapping(workload, "spec")
    pod_sets = [
        {**one, "template": mapping(one, "template", "spec")} for _, one in mappings(workload, "spec", "podSets")
    ]
    place = text(workload, "metadata", "namespace"), text(spec, "queueName")
    return msgspec.json.encode([place, spec.get("priority"), pod_sets], order="deterministic")


async def just_come(kube: Kube, namespace: str) -> set[str]:
    """The namespaces of Jobs that a queue holds back: the status of their queues is written a little later."""
    try:
        return {
            text(one, "metadata", "namespace")
            async for one in listed(kube, JOBS, namespace, fields="status.successful=0")
            if member(one, "spec", "suspend") is True and text(one, "metadata", "labels", Label.QUEUE)
        }
    except DeniedError:
        return set()


async def unqueued(kube: Kube, namespace: str) -> list[tuple[str, Waiter]]:
    """Jobs without a Workload, as the priority class that they name is not there; each with when it came.

    Events tell of them: there are fewer of those than of Jobs that are over.
    """
    try:
        events = [one async for one in listed(kube, EVENTS, namespace, fields=f"reason={UNQUEUED}")]
    except DeniedError:
        return []
    found: list[tuple[str, Waiter]] = []
    for within, name in {(text(one, "regarding", "namespace"), text(one, "regarding", "name")) for one in events}:
        job = await looked_up(kube, JOBS, name, within)
        labels = mapping(job or {}, "metadata", "labels")
        wanted = text(labels, Label.PRIORITY_CLASS)
        if job is None or not wanted or member(job, "spec", "suspend") is not True:
            continue
        if await looked_up(kube, WORKLOAD_PRIORITY_CLASSES, wanted) is None:
            waiter = Waiter(
                f"{within}/{name}", text(labels, Label.QUEUE), f"no WorkloadPriorityClass is named {wanted}"
            )
            found.append((text(job, "metadata", "creationTimestamp"), waiter))
    return found


async def looked_up(kube: Kube, resource: Resource, name: str, namespace: str = "") -> Tree | None:
    """An object; None where it is not there."""
    try:
        found: Tree = msgspec.json.decode(await kube.get(resource, name, namespace))
    except NotFoundError:
        return None
    return found


def is_crowded(door: Tree) -> bool:
    """Whether anybody waits in a LocalQueue: for quota, or with it for admission checks."""
    pending, reserving, admitted = (
        whole(door, "status", f"{state}Workloads") or 0 for state in ("pending", "reserving", "admitted")
    )
    return pending > 0 or reserving > admitted


async def listed(kube: Kube, resource: Resource, namespace: str = "", fields: str = "") -> AsyncIterator[Tree]:
    """All objects of a kind, one by one."""
    async for page in kube.pages(resource, namespace, fields=fields):
        for _, one in mappings(msgspec.json.decode(page), "items"):
            yield one


def queue_of(tree: Tree) -> Queue:
    """What is shown of a ClusterQueue."""
    quotas: dict[str, int] = {}
    used: dict[str, int] = {}
    for _, group in mappings(tree, "spec", "resourceGroups"):
        for _, flavor in mappings(group, "flavors"):
            add(quotas, flavor, "nominalQuota")
    for _, flavor in mappings(tree, "status", "flavorsReservation"):
        add(used, flavor, "total")
    active = next((one for _, one in mappings(tree, "status", "conditions") if text(one, "type") == "Active"), {})
    return Queue(
        text(tree, "metadata", "name"),
        text(tree, "spec", "cohortName"),
        quotas,
        used,
        whole(tree, "status", "reservingWorkloads") or 0,
        whole(tree, "status", "pendingWorkloads") or 0,
        text(active, "message") if text(active, "status") == "False" else "",
    )


def add(amounts: dict[str, int], flavor: Tree, field: str) -> None:
    """Count what a flavor says of its resources."""
    for _, one in mappings(flavor, "resources"):
        name = text(one, "name")
        amounts[name] = amounts.get(name, 0) + amount(name, member(one, field))


def amount(name: str, value: object) -> int:
    """A quantity as a whole number; what cannot be read counts as nothing."""
    try:
        return amount_of(name, parse_quantity(str(value)))
    except QuantityError:
        return 0


def readable(name: str, value: int) -> str:
    """An amount as people write it; of memory no more than a tenth of the unit."""
    if name != "memory":
        return amount_text(name, value)
    for unit, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20)):
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return amount_text(name, value)


def waiter_of(workload: Tree) -> Waiter | None:
    """A workload as one that waits; None where it does not."""
    conditions = {text(one, "type"): one for _, one in mappings(workload, "status", "conditions")}
    for kind in (WorkloadCondition.FINISHED, WorkloadCondition.ADMITTED):
        if text(conditions.get(kind, {}), "status") == "True":
            return None
    reserved = condition(workload, WorkloadCondition.QUOTA_RESERVED)
    checks = "its quota is reserved; its admission checks are not through yet"
    if awaiting := awaited(workload):
        checks = f"waits for its checks: {awaiting}"
    why = checks if text(reserved, "status") == "True" else said(reserved) or "it has just come"
    owners = [one for _, one in mappings(workload, "metadata", "ownerReferences") if member(one, "controller") is True]
    name = text(owners[0], "name") if owners else text(workload, "metadata", "name")
    return Waiter(f"{text(workload, 'metadata', 'namespace')}/{name}", text(workload, "spec", "queueName"), why)


def shown(picture: Picture) -> Iterator[str]:
    """The lines for a terminal."""
    yield f"machine: {picture.machine or 'it has no node yet'}"
    if picture.limits:
        yield f"limits: {picture.limits}"
    yield ""
    if not picture.queues:
        yield "There are no queues yet: `pykueue up --example` brings some, or apply your own with kubectl."
        return
    names = list(dict.fromkeys(name for queue in picture.queues for name in queue.quotas))
    rows = [
        [
            queue.name,
            queue.cohort or "-",
            *(share(queue, name) for name in names),
            str(queue.running),
            str(queue.waiting),
        ]
        for queue in picture.queues
    ]
    headers = ["QUEUE", "COHORT", *(name.upper() for name in names), "RUNNING", "WAITING"]
    yield from table(headers, rows, "<<" + ">" * (len(names) + 2))
    for queue in picture.queues:
        if queue.problem:
            yield from hanging(f"{queue.name} admits nothing: ", queue.problem)
    if picture.waiters:
        yield ""
        yield "waiting, the oldest first:"
    for waiter in picture.waiters[:WAITING_SHOWN]:
        yield from hanging(f"  {waiter.job} in {waiter.queue}: ", waiter.why)
    if len(picture.waiters) > WAITING_SHOWN:
        yield f"  and {len(picture.waiters) - WAITING_SHOWN} more"


def share(queue: Queue, name: str) -> str:
    """How much of its quota a queue uses."""
    if name not in queue.quotas:
        return "-"
    return f"{readable(name, queue.used.get(name, 0))}/{readable(name, queue.quotas[name])}"
