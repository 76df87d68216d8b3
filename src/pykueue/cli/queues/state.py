"""Read and render the state of the queues: the machine, quota usage, and pending jobs with their reasons."""

from collections import Counter
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from pykueue.api.jobsummary import RETRIED, JobState, JobSummary
from pykueue.api.trees import Tree, mapping, text, whole
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.bridge.sentences import condition
from pykueue.cli.amounts import readable
from pykueue.cli.jobend import ends_of, failed_attempt, pods_of
from pykueue.cli.objects import everything
from pykueue.cli.queues.quotas import by_resource, nominal, reserved, whole_amount
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.cli.tables import hanging, table
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.client.transport import LostError, UnsentError
from pykueue.kube.port import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    DeniedError,
    Kube,
    NotFoundError,
)
from pykueue.kubecontrollers.jobplan import Backoff
from pykueue.node.machine import LIMITS

Answer = TypeVar("Answer")

WAITING_SHOWN: Final = 20


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
    """What the machine has, or all nodes of a cluster together."""
    limits: str
    queues: tuple[Queue, ...]
    pending_workloads: tuple[PendingWorkload, ...]
    failing: tuple[FailingJob, ...] = ()
    retrying: tuple[RetryingJob, ...] = ()
    unread: tuple[str, ...] = ()
    """What the server has to read before it admits jobs; empty once it is ready."""
    notes: tuple[str, ...] = ()
    """What is left out, and why."""
    cluster: bool = False
    """Whether it is a cluster, not the one machine of `pykueue up`."""


async def unread(kube: HttpKube) -> tuple[str, ...]:
    """What the server still has to read, according to its readiness probe."""
    try:
        answer = await kube.exchange(Call("GET", "/readyz", "get readiness"))
    except (UnsentError, LostError):
        return ()
    lines = answer.body.decode(errors="replace").splitlines()
    return tuple(line.removeprefix("- ") for line in lines if answer.status == 503 and line.startswith("- "))


async def read_state(kube: Kube, namespace: str, jobs: Sequence[JobSummary], *, cluster: bool = False) -> ServerState:
    """The state that an API reports; the queues of `namespace` if others may not be read."""
    notes: list[str] = []
    nodes = await allowed(everything(kube, NODES), "the cluster is" if cluster else "the machine is", notes) or []
    owners = await allowed(everything(kube, CLUSTER_QUEUES), "quotas are", notes)
    try:
        doors = await everything(kube, LOCAL_QUEUES)
    except DeniedError as error:
        if error.code == UNAUTHORIZED:
            raise
        doors = await everything(kube, LOCAL_QUEUES, namespace)
    # A user who may not read ClusterQueues sees the LocalQueues in their place.
    queue_names = {
        (text(door, "metadata", "namespace"), text(door, "metadata", "name")): text(door, "metadata", "name")
        if owners is None
        else text(door, "spec", "clusterQueue")
        for door in doors
    }
    queued = [(one, queue) for one in jobs if (queue := queue_names.get((one.namespace, one.queue)))]
    waiting = [one for one in jobs if one.state in (JobState.PENDING, JobState.HELD) and one.queue]
    listed = Counter(queue for one, queue in queued if one in waiting)
    queues = map(queue_of, doors if owners is None else owners)
    return ServerState(
        capacity_text(nodes, cluster=cluster),
        text(nodes[0], "metadata", "annotations", LIMITS) if nodes else "",
        # The status of a queue is written with a delay, and leaves out jobs that are held or wait for others.
        tuple(replace(queue, waiting=max(queue.waiting, listed[queue.name])) for queue in queues),
        tuple(PendingWorkload(key_of(one), one.queue, one.reason) for one in waiting),
        tuple(FailingJob(key_of(one), queue, one.reason) for one, queue in queued if one.state is JobState.FAILING),
        tuple([await retrying(kube, one, queue) for one, queue in queued if RETRIED in one.reason]),
        notes=tuple(notes),
        cluster=cluster,
    )


def capacity_text(nodes: Sequence[Tree], *, cluster: bool) -> str:
    """What all nodes have together, and of a cluster their number; empty without nodes."""
    if not nodes:
        return ""
    capacity: Counter[str] = Counter()
    for node in nodes:
        capacity.update(
            {name: whole_amount(name, value) for name, value in mapping(node, "status", "allocatable").items()}
        )
    shown_first = ("cpu", "memory")
    rest = sorted(name for name in capacity if name not in (*shown_first, "pods", "ephemeral-storage"))
    number = [f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"] if cluster else []
    amounts = [f"{readable(name, capacity[name])} {name}" for name in (*shown_first, *rest) if name in capacity]
    return ", ".join([*number, *amounts])


async def allowed(answer: Awaitable[Answer], what: str, notes: list[str]) -> Answer | None:
    """An answer; None, with a note that this is left out, if the user may not have it."""
    try:
        return await answer
    except DeniedError as error:
        if error.code == UNAUTHORIZED:
            raise
        notes.append(f"{what} omitted: {error.message}")
        return None


def key_of(job: JobSummary) -> str:
    """The namespace and name of a job."""
    return f"{job.namespace}/{job.name}"


async def retrying(kube: Kube, job: JobSummary, queue: str) -> RetryingJob:
    """A job that waits between two attempts, and for how long, as far as this user may read it."""
    try:
        tree: Tree = msgspec.json.decode(await kube.get(JOBS, job.name, job.namespace))
        pods = await everything(kube, PODS, job.namespace, labels=pods_of(text(tree, "metadata", "uid")))
    except (DeniedError, NotFoundError):
        return RetryingJob(key_of(job), queue, job.reason)
    due, now = next_attempt(tree, pods), SystemClock().now()
    delay = f"in {-(-(due - now) // MICROS)} s" if due > now else "after a delay"
    return RetryingJob(key_of(job), queue, f"{failed_attempt(tree, pods)}; the next one starts {delay}")


def next_attempt(job: Tree, pods: Sequence[Tree]) -> Instant:
    """When the Job controller replaces the pod that failed last."""
    ends = [at for end in ends_of(pods) if (at := text(end, "finishedAt"))]
    return Backoff(whole(job, "status", "failed") or 0, parse_instant(ends[-1])).due() if ends else Instant(0)


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


def shown(state: ServerState, data: str = "") -> Iterator[str]:
    """The lines for a terminal; `data` is what suggested commands need to mean this server."""
    if state.machine or not state.notes:
        yield f"{'cluster' if state.cluster else 'machine'}: {state.machine or 'no node registered yet'}"
    if state.limits:
        yield f"limits: {state.limits}"
    if state.unread:
        yield from hanging("not ready: ", f"jobs are accepted but not admitted yet; {', '.join(state.unread)}")
    yield ""
    if not state.queues and not state.notes:
        command = "create clusterqueue NAME" if state.cluster else f"queue add NAME{data} --share 50%"
        yield f"No queues yet. Create one with `pykueue {command}`, or apply some with kubectl."
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
