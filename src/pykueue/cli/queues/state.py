"""Read and render the state of the queues: the machine, quota usage, and pending jobs with their reasons."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api.names import Label, WorkloadCondition
from pykueue.api.trees import Tree, mapping, mappings, member, text, whole
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.bridge.sentences import condition, held_text, pending_text
from pykueue.checks.pendingchecks import NOT_CONSIDERED, awaited_text, check_states
from pykueue.cli.amounts import readable
from pykueue.cli.follow.admitted import start_problem
from pykueue.cli.follow.jobend import end_of, ends_of, failed_attempt, pods_of
from pykueue.cli.follow.reasons import Preemptors
from pykueue.cli.objects import each
from pykueue.cli.queues.quotas import by_resource, nominal, reserved, whole_amount
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.cli.tables import hanging, table
from pykueue.jobs.dependencies import GATED
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.client.transport import LostError, UnsentError
from pykueue.kube.port import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    DeniedError,
    Kube,
    NotFoundError,
    Resource,
)
from pykueue.kubecontrollers.jobplan import Backoff
from pykueue.node.machine import LIMITS

ClusterQueues = Mapping[tuple[str, str], str]
"""By the namespace and name of a LocalQueue."""

WAITING_SHOWN: Final = 20
UNQUEUED: Final = "WorkloadPriorityClassNotFound"
"""The reason of the Event on a Job that cannot be queued."""
DEPENDENT: Final = "waits for other jobs or for a time; `pykueue jobs` says which"


class Queue(Frozen):
    """A ClusterQueue."""

    name: str
    cohort: str
    quotas: Mapping[str, int]
    used: Mapping[str, int]
    running: int
    waiting: int
    problem: str = ""
    """Why it is inactive; empty while it is active."""


class PendingWorkload(Frozen):
    """A pending workload."""

    job: str
    queue: str
    why: str


class FailingJob(Frozen):
    """A job that holds quota and whose containers cannot start."""

    job: str
    queue: str
    """Its ClusterQueue."""
    why: str


class RetryingJob(Frozen):
    """A job that holds quota and waits between two attempts."""

    job: str
    queue: str
    """Its ClusterQueue."""
    why: str


class ServerState(Frozen):
    """The state of a server."""

    machine: str
    limits: str
    queues: tuple[Queue, ...]
    pending_workloads: tuple[PendingWorkload, ...]
    failing: tuple[FailingJob, ...] = ()
    retrying: tuple[RetryingJob, ...] = ()
    unread: tuple[str, ...] = ()
    """What the server has to read before it admits jobs; empty once it is ready."""


async def whole_state(kube: HttpKube, namespace: str) -> ServerState:
    """The state of a server, as far as the user of this connection may see it."""
    return replace(await read_state(kube, namespace), unread=await unread(kube))


async def unread(kube: HttpKube) -> tuple[str, ...]:
    """What the server still has to read, according to its readiness probe."""
    try:
        answer = await kube.exchange(Call("GET", "/readyz", "get readiness"))
    except (UnsentError, LostError):
        return ()
    lines = answer.body.decode(errors="replace").splitlines()
    return tuple(line.removeprefix("- ") for line in lines if answer.status == 503 and line.startswith("- "))


async def read_state(kube: Kube, namespace: str) -> ServerState:
    """The state that an API reports."""
    nodes = [one async for one in each(kube, NODES)]
    capacity = mapping(nodes[0], "status", "allocatable") if nodes else {}
    shown_first = ("cpu", "memory")
    rest = sorted(name for name in capacity if name not in (*shown_first, "pods", "ephemeral-storage"))
    machine = ", ".join(
        f"{readable(name, whole_amount(name, capacity[name]))} {name}"
        for name in (*shown_first, *rest)
        if name in capacity
    )
    queues = tuple([queue_of(one) async for one in each(kube, CLUSTER_QUEUES)])
    seen = ""
    try:
        doors = [one async for one in each(kube, LOCAL_QUEUES)]
    except DeniedError as error:
        if error.code == UNAUTHORIZED:
            raise
        seen = namespace
        doors = [one async for one in each(kube, LOCAL_QUEUES, namespace)]
    admitting = {
        (text(door, "metadata", "namespace"), text(door, "metadata", "name")): text(door, "spec", "clusterQueue")
        for door in doors
    }
    pending = tuple(await pending_workloads(kube, seen, doors))
    return ServerState(
        machine,
        text(nodes[0], "metadata", "annotations", LIMITS) if nodes else "",
        tuple(counted(queues, pending, admitting)),
        pending,
        tuple(await failing_jobs(kube, seen, admitting)),
        tuple(await retrying_jobs(kube, seen, admitting, SystemClock().now())),
    )


def counted(queues: Sequence[Queue], pending: Sequence[PendingWorkload], admitting: ClusterQueues) -> Iterator[Queue]:
    """The queues with all jobs counted that are listed as pending.

    The status of a queue is written with a delay, and leaves out jobs that are held or wait for others.
    """
    listed = Counter(admitting.get((one.job.partition("/")[0], one.queue), "") for one in pending)
    for queue in queues:
        yield replace(queue, waiting=max(queue.waiting, listed[queue.name]))


async def failing_jobs(kube: Kube, namespace: str, admitting: ClusterQueues) -> list[FailingJob]:
    """Jobs whose containers cannot start, by name; those that no queue admitted are not ours to report."""
    found: dict[str, FailingJob] = {}
    try:
        # A pod whose first container cannot start is Pending, as is one that waits for a node.
        async for pod in each(kube, PODS, namespace, fields="status.phase=Pending"):
            within, owner = text(pod, "metadata", "namespace"), controller_of(pod)
            if not (why := start_problem(pod)) or f"{within}/{owner}" in found:
                continue
            job = await looked_up(kube, JOBS, owner, within) if owner else None
            queue = admitting.get((within, text(job or {}, "metadata", "labels", Label.QUEUE)))
            if queue:
                found[f"{within}/{owner}"] = FailingJob(f"{within}/{owner}", queue, why)
    except DeniedError:
        return []
    return [found[name] for name in sorted(found)]


async def retrying_jobs(kube: Kube, namespace: str, admitting: ClusterQueues, now: Instant) -> list[RetryingJob]:
    """Jobs that wait between two attempts, and for how long."""
    found: list[RetryingJob] = []
    try:
        async for job in each(kube, JOBS, namespace, fields="status.successful=0"):
            metadata = mapping(job, "metadata")
            within, name = text(metadata, "namespace"), text(metadata, "name")
            queue = admitting.get((within, text(metadata, "labels", Label.QUEUE)))
            if queue and between_attempts(job):
                pods = [one async for one in each(kube, PODS, within, labels=pods_of(text(metadata, "uid")))]
                due = next_attempt(job, pods)
                if due > now:
                    delay = f"the next one starts in {-(-(due - now) // MICROS)} s"
                    found.append(RetryingJob(f"{within}/{name}", queue, f"{failed_attempt(job, pods)}; {delay}"))
    except DeniedError:
        return []
    return found


def between_attempts(job: Tree) -> bool:
    """Whether a Job may run, and has failed pods and none that is active."""
    return (
        bool(whole(job, "status", "failed"))
        and not whole(job, "status", "active")
        and member(job, "spec", "suspend") is not True
        and whole(job, "spec", "backoffLimitPerIndex") is None
        and not text(job, "metadata", "deletionTimestamp")
        and end_of(job) is None
    )


def next_attempt(job: Tree, pods: Sequence[Tree]) -> Instant:
    """When the Job controller replaces the pod that failed last."""
    ends = [at for end in ends_of(pods) if (at := text(end, "finishedAt"))]
    return Backoff(whole(job, "status", "failed") or 0, parse_instant(ends[-1])).due() if ends else Instant(0)


def controller_of(tree: Tree) -> str:
    """The name of the object that controls this one; empty if none does."""
    owners = [one for _, one in mappings(tree, "metadata", "ownerReferences") if member(one, "controller") is True]
    return text(owners[0], "name") if owners else ""


async def pending_workloads(kube: Kube, seen: str, doors: Sequence[Tree]) -> list[PendingWorkload]:
    """Pending workloads of a namespace, or of all if that is empty; oldest first."""
    # Skip namespaces without pending workloads: they may hold very many finished ones.
    crowded = {text(door, "metadata", "namespace"): True for door in doors if is_crowded(door)}
    quiet = {text(door, "metadata", "namespace") for door in doors} - crowded.keys()
    crowded |= {one: True for one in await unsettled_namespaces(kube, seen) if one in quiet} if quiet else {}
    found: list[tuple[str, PendingWorkload, Tree]] = [
        (came, pending, {}) for came, pending in await unqueued(kube, seen)
    ]
    for one in crowded:
        async for workload in each(kube, WORKLOADS, one):
            pending = pending_workload(workload)
            if pending is not None:
                found.append((text(workload, "metadata", "creationTimestamp"), pending, workload))
    found.sort(key=lambda one: one[0])
    alike = {likeness(tree): tree for _, _, tree in found if condition(tree, WorkloadCondition.QUOTA_RESERVED)}
    told = [await explained(kube, pending, tree, alike) for _, pending, tree in found[:WAITING_SHOWN]]
    return [*told, *(pending for _, pending, _ in found[WAITING_SHOWN:])]


async def explained(
    kube: Kube, pending: PendingWorkload, workload: Tree, alike: Mapping[bytes, Tree]
) -> PendingWorkload:
    """The workload with its reason, even if the status does not show it yet, and with names in place of UIDs.

    The embedded server adds the engine's reason to a GET. Elsewhere, use the reason of an equal workload.
    """
    if not workload or held_text(workload):
        return pending
    reserved = condition(workload, WorkloadCondition.QUOTA_RESERVED)
    if not reserved:
        metadata = mapping(workload, "metadata")
        seen = await looked_up(kube, WORKLOADS, text(metadata, "name"), text(metadata, "namespace"))
        reserved = condition(seen or {}, WorkloadCondition.QUOTA_RESERVED)
        reserved = reserved or condition(alike.get(likeness(workload), {}), WorkloadCondition.QUOTA_RESERVED)
    if text(reserved, "status") != "False":
        return pending
    return replace(pending, why=await Preemptors(kube, SystemClock()).said(reserved, workload) or pending.why)


def likeness(workload: Tree) -> bytes:
    """A key that is equal only for workloads that get the same decision."""
    spec = mapping(workload, "spec")
    pod_sets = [
        {**one, "template": mapping(one, "template", "spec")} for _, one in mappings(workload, "spec", "podSets")
    ]
    place = text(workload, "metadata", "namespace"), text(spec, "queueName")
    return msgspec.json.encode([place, spec.get("priority"), pod_sets], order="deterministic")


async def unsettled_namespaces(kube: Kube, namespace: str) -> set[str]:
    """The namespaces of suspended Jobs, whose queues may not count them yet."""
    try:
        return {
            text(one, "metadata", "namespace")
            async for one in each(kube, JOBS, namespace, fields="status.successful=0")
            if member(one, "spec", "suspend") is True and text(one, "metadata", "labels", Label.QUEUE)
        }
    except DeniedError:
        return set()


async def unqueued(kube: Kube, namespace: str) -> list[tuple[str, PendingWorkload]]:
    """Jobs without a Workload because their priority class does not exist; each with its creation time.

    They are found by their Events, which are far fewer than finished Jobs.
    """
    try:
        events = [one async for one in each(kube, EVENTS, namespace, fields=f"reason={UNQUEUED}")]
    except DeniedError:
        return []
    found: list[tuple[str, PendingWorkload]] = []
    for within, name in {(text(one, "regarding", "namespace"), text(one, "regarding", "name")) for one in events}:
        job = await looked_up(kube, JOBS, name, within)
        labels = mapping(job or {}, "metadata", "labels")
        wanted = text(labels, Label.PRIORITY_CLASS)
        if job is None or not wanted or member(job, "spec", "suspend") is not True:
            continue
        if await looked_up(kube, WORKLOAD_PRIORITY_CLASSES, wanted) is None:
            pending = PendingWorkload(
                f"{within}/{name}", text(labels, Label.QUEUE), f"WorkloadPriorityClass {wanted} not found"
            )
            found.append((text(job, "metadata", "creationTimestamp"), pending))
    return found


async def looked_up(kube: Kube, resource: Resource, name: str, namespace: str = "") -> Tree | None:
    """An object; None if it does not exist."""
    try:
        found: Tree = msgspec.json.decode(await kube.get(resource, name, namespace))
    except NotFoundError:
        return None
    return found


def is_crowded(door: Tree) -> bool:
    """Whether a LocalQueue has workloads that wait for quota or for admission checks."""
    pending, reserving, admitted = (
        whole(door, "status", f"{state}Workloads") or 0 for state in ("pending", "reserving", "admitted")
    )
    return pending > 0 or reserving > admitted


def queue_of(tree: Tree) -> Queue:
    """What is shown of a ClusterQueue."""
    active = condition(tree, "Active")
    return Queue(
        text(tree, "metadata", "name"),
        text(tree, "spec", "cohortName"),
        nominal([tree]),
        by_resource(reserved(tree).items()),
        whole(tree, "status", "reservingWorkloads") or 0,
        whole(tree, "status", "pendingWorkloads") or 0,
        text(active, "message") if text(active, "status") == "False" else "",
    )


def pending_workload(workload: Tree) -> PendingWorkload | None:
    """The workload if it is pending, else None."""
    conditions = {text(one, "type"): one for _, one in mappings(workload, "status", "conditions")}
    for kind in (WorkloadCondition.FINISHED, WorkloadCondition.ADMITTED):
        if text(conditions.get(kind, {}), "status") == "True":
            return None
    reserved = condition(workload, WorkloadCondition.QUOTA_RESERVED)
    if text(reserved, "status") == "True":
        why = awaited_text(check_states(workload))
    else:
        gated = DEPENDENT if text(reserved, "message") == GATED else ""
        why = held_text(workload) or gated or pending_text(reserved) or NOT_CONSIDERED
    name = controller_of(workload) or text(workload, "metadata", "name")
    return PendingWorkload(
        f"{text(workload, 'metadata', 'namespace')}/{name}", text(workload, "spec", "queueName"), why
    )


def shown(state: ServerState, data: str = "") -> Iterator[str]:
    """The lines for a terminal; `data` is what suggested commands need to mean this server."""
    yield f"machine: {state.machine or 'no node registered yet'}"
    if state.limits:
        yield f"limits: {state.limits}"
    if state.unread:
        yield from hanging("not ready: ", f"jobs are accepted and not admitted yet; {', '.join(state.unread)}")
    yield ""
    if not state.queues:
        yield f"No queues yet. Create one with `pykueue queue add NAME{data} --share 50%`, or apply some with kubectl."
        return
    failing = Counter(one.queue for one in state.failing)
    names = list(dict.fromkeys(name for queue in state.queues for name in queue.quotas))
    rows = [
        [
            queue.name,
            queue.cohort or "-",
            *(share(queue, name) for name in names),
            str(max(0, queue.running - failing[queue.name])),
            *([str(failing[queue.name])] if failing else []),
            str(queue.waiting),
        ]
        for queue in state.queues
    ]
    counts = ["RUNNING", *(["FAILING"] if failing else []), "PENDING"]
    headers = ["QUEUE", "COHORT", *(name.upper() for name in names), *counts]
    yield from table(headers, rows, "<<" + ">" * (len(names) + len(counts)))
    for queue in state.queues:
        if queue.problem:
            yield from hanging(f"{queue.name} is inactive: ", queue.problem)
    if state.failing:
        yield ""
        yield "failing, because their containers cannot start:"
    for one in state.failing[:WAITING_SHOWN]:
        yield from hanging(f"  {one.job} in {one.queue}: ", one.why)
    if len(state.failing) > WAITING_SHOWN:
        yield f"  and {len(state.failing) - WAITING_SHOWN} more"
    if state.retrying:
        yield ""
        yield "waiting before the next attempt:"
    for again in state.retrying[:WAITING_SHOWN]:
        yield from hanging(f"  {again.job} in {again.queue}: ", again.why)
    if len(state.retrying) > WAITING_SHOWN:
        yield f"  and {len(state.retrying) - WAITING_SHOWN} more"
    if state.pending_workloads:
        yield ""
        yield "pending, oldest first:"
    for pending in state.pending_workloads[:WAITING_SHOWN]:
        yield from hanging(f"  {pending.job} in {pending.queue}: ", pending.why)
    if len(state.pending_workloads) > WAITING_SHOWN:
        yield f"  and {len(state.pending_workloads) - WAITING_SHOWN} more"


def share(queue: Queue, name: str) -> str:
    """How much of its quota a queue uses."""
    if name not in queue.quotas:
        return "-"
    return f"{readable(name, queue.used.get(name, 0))}/{readable(name, queue.quotas[name])}"
