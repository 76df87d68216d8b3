"""The first screen of the page as JSON, from rows and queues that were read; no rule of the scheduler is here. Pure."""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from typing import Final, Literal

import msgspec

from pykueue.api.jobsummary import JobState, JobSummary
from pykueue.api.names import GPU, GPU_SHARE
from pykueue.api.trees import Tree, mapping, text
from pykueue.base.struct import Frozen, Wire
from pykueue.cli.dashboard.changes import Occurrence
from pykueue.cli.follow.reasons import NEVER
from pykueue.cli.queues.policies import Policy
from pykueue.cli.queues.quotas import whole_amount
from pykueue.cli.queues.usage import Usage
from pykueue.node.setup.gpus import WHOLE

SHOWN: Final = 10
STEP_ROWS: Final = 500
HOLDS: Final = frozenset({JobState.RUNNING, JobState.FAILING, JobState.STOPPING})

Unit = Literal["cpu", "bytes", "count"]


class Can(Wire, omit_defaults=False):
    """What the user may do."""

    cancel: bool = False
    hold: bool = False
    apply: bool = False
    logs: bool = False


class Meta(Wire, omit_defaults=False):
    """Where the data come from, and for whom they are."""

    setting: Literal["machine", "cluster"] = "cluster"
    server: str = ""
    user: str = ""
    version: str = ""
    view_only: bool = False
    as_of: str = ""
    stale: str = ""
    """Why the data are out of date; empty if they are not."""
    notes: tuple[str, ...] = ()
    alert: str = ""
    """What everybody has to know: that no manager runs. Empty if all is well."""
    home: str = ""
    """The namespace of the user."""
    namespace: str = ""
    """The only one whose jobs the user may list; empty if that is all."""
    jobs_denied: str = ""
    """That the user may list no jobs, and what to do; empty if some may be listed."""
    queues_denied: str = ""
    """The same of queues."""
    reads_quotas: bool = True
    """Whether the user may read ClusterQueues."""
    can: Can = Can()


class Counts(Wire, omit_defaults=False):
    """Jobs by state."""

    running: int = 0
    pending: int = 0
    held: int = 0
    failing: int = 0
    finished_last_hour: int = 0


class QueueRow(Wire, omit_defaults=False):
    """What a cohort or queue uses of a resource of a flavor."""

    kind: Literal["cohort", "queue", "localqueue"]
    name: str
    cohort: str
    flavor: str
    resource: str
    nominal: int | None
    used: int
    borrowed: int
    lent: int | None
    running: int
    pending: int
    depth: int
    unit: Unit


class Amount(Wire, omit_defaults=False):
    """How much of a resource of the machine is requested by running jobs."""

    capacity: int = 0
    used: int | None = 0
    """None if the user may not learn what the jobs of others request."""
    own: int | None = None
    """What the jobs request that the user may list, if those are not all."""


class Disk(Wire, omit_defaults=False):
    """Bytes of the disk of the data directory."""

    capacity: int
    free: int


class GpuUse(Wire, omit_defaults=False):
    """A GPU, and the job that has it."""

    number: int
    user: str = ""
    job: str = ""


class UserUse(Wire, omit_defaults=False):
    """What the jobs of a user request."""

    name: str
    running: int = 0
    pending: int = 0
    cpu: int = 0
    memory: int = 0
    gpus: int = 0


class MachineUse(Wire, omit_defaults=False):
    """One machine, and who uses it."""

    name: str
    cpus: Amount
    memory: Amount
    gpus: tuple[GpuUse, ...] = ()
    gpus_free: int | None = 0
    """None if the user may not learn which GPUs the jobs of others have."""
    disk: Disk | None = None
    users: tuple[UserUse, ...] = ()


class Overview(Wire, omit_defaults=False):
    """The first screen; `meta` is added for each session."""

    counts: Counts
    queues: Sequence[QueueRow] = ()
    policies: Mapping[str, Policy] = {}
    longest: Sequence[msgspec.Raw] = ()
    next: Sequence[msgspec.Raw] = ()
    changes: Sequence[Occurrence] = ()
    machine: MachineUse | None = None


class Totals(Frozen):
    """What is counted over all rows."""

    states: Mapping[JobState, int] = {}
    longest: tuple[JobSummary, ...] = ()
    next: tuple[JobSummary, ...] = ()
    users: tuple[UserUse, ...] = ()
    gpus: Mapping[int, tuple[str, str]] = {}
    """The user and the job of each GPU by its number."""


def unit_of(resource: str) -> Unit:
    """The unit in which amounts of a resource are given."""
    if resource == "cpu":
        return "cpu"
    return "bytes" if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-") else "count"


def queue_row(row: Usage) -> QueueRow:
    """A row of the tree of queues."""
    return QueueRow(
        row.kind,
        row.name,
        row.cohort,
        row.flavor,
        row.resource,
        row.nominal,
        row.used,
        row.borrowed,
        row.lent,
        row.running,
        row.pending,
        row.depth,
        unit_of(row.resource),
    )


def totals(rows: Mapping[str, JobSummary], places: Mapping[str, int | None]) -> Generator[None, None, Totals]:
    """Count over all rows, in steps."""
    states: Counter[JobState] = Counter()
    users: dict[str, list[int]] = {}
    gpus: dict[int, tuple[str, str]] = {}
    longest: list[JobSummary] = []
    following: list[tuple[int, str, JobSummary]] = []
    keys = tuple(rows)
    for start in range(0, len(keys), STEP_ROWS):
        part = [(key, rows[key]) for key in keys[start : start + STEP_ROWS] if key in rows]
        pending = [(key, row) for key, row in part if row.state is JobState.PENDING]
        longest = nsmallest(SHOWN, (*longest, *(row for _, row in pending)), key=waiting_since)
        placed = [
            (place, row.since, row)
            for key, row in pending
            if (place := places.get(key)) and not row.reason.startswith(NEVER)
        ]
        following = nsmallest(SHOWN, (*following, *placed), key=in_line)
        for key, row in part:
            states[row.state] += 1
            count(row, users.setdefault(row.owner or row.namespace, [0, 0, 0, 0, 0]))
            for number in row.gpus:
                gpus[number] = row.owner, key
        yield
    return Totals(
        states,
        tuple(longest),
        tuple(row for _, _, row in following),
        tuple(UserUse(name, *users[name]) for name in sorted(users)),
        gpus,
    )


def waiting_since(row: JobSummary) -> tuple[str, str, str]:
    """The order of those that wait longest."""
    return row.since or row.submitted, row.namespace, row.name


def in_line(one: tuple[int, str, JobSummary]) -> tuple[int, str]:
    """The order of those that are next: place, then age."""
    return one[:2]


def count(row: JobSummary, user: list[int]) -> None:
    """Add a row to what its user has: running, pending, cpu, memory and GPUs."""
    if row.state not in HOLDS:
        user[1] += 1
        return
    user[0] += 1
    for name, quantity in row.requests.items():
        if name == "cpu":
            user[2] += amount_of(name, quantity)
        elif name == "memory":
            user[3] += amount_of(name, quantity)
        elif name == GPU:
            user[4] += amount_of(name, quantity)


@lru_cache(maxsize=4096)
def amount_of(resource: str, quantity: str) -> int:
    """An amount as a whole number; few different ones are requested."""
    return whole_amount(resource, quantity)


def machine_use(
    nodes: Iterable[Tree], found: Totals, disk: Disk | None, queues: Sequence[QueueRow] = (), *, partial: bool = False
) -> MachineUse | None:
    """The machine and who uses it; None without a node.

    If the rows are `partial`, because others have jobs that the user may not list, the usage of queues gives the sums.
    """
    node = next(iter(nodes), None)
    if node is None:
        return None
    capacity = {name: whole_amount(name, value) for name, value in mapping(node, "status", "allocatable").items()}
    number = capacity.get(GPU, 0) + capacity.get(GPU_SHARE, 0) // WHOLE
    numbers = sorted({*range(number), *found.gpus})
    own = {"cpu": sum(one.cpu for one in found.users), "memory": sum(one.memory for one in found.users)}

    def amount(resource: str) -> Amount:
        mine = own[resource]
        return Amount(
            capacity.get(resource, 0),
            used_by_all(queues, resource, mine) if partial else mine,
            mine if partial else None,
        )

    free: int | None = len(numbers) - len(found.gpus)
    if partial:
        # Queues count shares of a GPU, not the GPUs that are shared.
        taken = None if capacity.get(GPU_SHARE) else used_by_all(queues, GPU, len(found.gpus))
        free = None if taken is None else max(0, len(numbers) - taken)
    return MachineUse(
        text(node, "metadata", "name"),
        amount("cpu"),
        amount("memory"),
        tuple(GpuUse(one, *found.gpus.get(one, ("", ""))) for one in numbers),
        free,
        disk,
        found.users,
    )


def used_by_all(queues: Sequence[QueueRow], resource: str, least: int) -> int | None:
    """How much of a resource the jobs of all queues use; None if the user may not read queues that have it."""
    rows = [one for one in queues if one.kind == "queue" and one.resource == resource]
    # Rows of jobs may be newer than those of queues.
    return max(least, sum(one.used for one in rows)) if rows else None


def counts_of(found: Totals, finished_last_hour: int) -> Counts:
    """Jobs by state."""
    return Counts(
        found.states.get(JobState.RUNNING, 0) + found.states.get(JobState.STOPPING, 0),
        found.states.get(JobState.PENDING, 0),
        found.states.get(JobState.HELD, 0),
        found.states.get(JobState.FAILING, 0),
        finished_last_hour,
    )
