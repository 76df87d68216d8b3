"""Explanations as data: why a workload waits, runs or was evicted, and who holds the quota of a queue.

Workloads are named by their keys; who may not read some of them gets `HIDDEN` in their place, and counts.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.decisions import Obstacle, PreemptionReason, Short, WaitReason, Why
from pykueue.engine.model import Admission, CheckState, Strategy, Workload
from pykueue.engine.record.preemptions import PreemptionRecord
from pykueue.engine.record.recent import Noted, Overtakings
from pykueue.engine.record.rooms import Limit, Room

HIDDEN: Final = ""
"""The key of a workload that the reader may not see."""
Ends: TypeAlias = Callable[[Workload], Instant | None]
"""When a workload that runs is stopped at the latest; None if it declares no maximum."""


class State(StrEnum):
    """What a workload does."""

    PENDING = "Pending"
    INACTIVE = "Inactive"
    RESERVED = "QuotaReserved"
    """It holds quota and waits for its AdmissionChecks."""
    ADMITTED = "Admitted"
    STOPPING = "Stopping"
    FINISHED = "Finished"


class QueueCause(Frozen):
    """Whether the queues of a workload let it through."""

    local_queue: str
    """Its name, without the namespace."""
    queue: str
    """Empty if the LocalQueue does not exist."""
    obstacle: str = ""
    """Why they admit nothing; empty if they do."""


class PlaceCause(Frozen):
    """The place of a pending workload in line."""

    ahead: int
    parked: int
    """How many of those ahead wait for an event, so that others may start before them."""
    total: int
    first: tuple[str, ...]
    """The keys of the first few ahead."""
    strategy: Strategy
    overtaken: Overtakings
    turns: bool = False
    """Whether it changes with every start, because LocalQueues take turns by their past use."""


class FlavorCause(Frozen):
    """What a pod set asks for of one resource, and what its queue has of it in one flavor."""

    room: Room
    asked: int
    missing: int = 0
    """How much more would be needed, earlier pod sets included; 0 if it is enough, or if that is not known."""
    obstacle: Obstacle | None = None


class PodSetCause(Frozen):
    """What one pod set asks for, and where it could get it."""

    name: str
    count: int
    flavors: tuple[FlavorCause, ...]
    uncovered: tuple[str, ...] = ()
    """Resources that its queue does not cover."""
    conflicts: tuple[tuple[str, str, str], ...] = ()
    """Flavor, key and value of each part of the node selector that contradicts the labels of a flavor."""


class EvictionCause(Frozen):
    """The last eviction of a workload."""

    at: Instant
    reason: str
    message: str
    noted: Noted | None = None
    """The decision, if it was made since this process leads."""
    by: str = ""
    """The preemptor."""
    by_queue: str = ""
    clause: PreemptionReason | None = None
    lost_micros: int | None = None
    """How long it had run; None if that is not known."""
    started_at: Instant | None = None
    """When the preemptor started."""
    still_waits: bool = False
    """Whether the preemptor has not started yet."""
    preemption: PreemptionRecord | None = None
    """What the engine knew when it preempted, if this process did."""


class AwaitTime(Frozen, tag=True):
    """It may be tried again at an instant."""

    at: Instant


class AwaitEnd(Frozen, tag=True):
    """Others have to end."""

    short: tuple[Short, ...]
    holders: tuple[str, ...] = ()
    """The first to end of those that declare when; together they suffice if `at` is known."""
    at: Instant | None = None
    """When they have ended at the latest."""
    holding: int = 0
    """How many workloads use what is short."""
    undeclared: int = 0
    """How many of them declare no maximum run time."""


class OtherQueue(Frozen, tag=True):
    """Another LocalQueue of its namespace has room for it now."""

    local_queue: str
    queue: str
    flavors: tuple[str, ...]
    pending: int
    """How many workloads wait there."""


class Shrink(Frozen, tag=True):
    """It may ask for less."""

    pod_set: str
    resource: str
    by: int
    asked: int
    fewer_pods: int = 0
    """How many pods less would do the same; 0 if it has only one."""


class Fix(Frozen, tag=True):
    """Something has to be corrected."""

    text: str


class Raise(Frozen, tag=True):
    """A limit may be raised."""

    limit: Limit
    flavor: str
    resource: str
    by: int
    queue: str
    """The ClusterQueue of the workload, whose nominal quota may be raised instead."""


Way = AwaitTime | AwaitEnd | OtherQueue | Shrink | Fix | Raise


class ShareRow(Frozen):
    """The share of a ClusterQueue or cohort under fair sharing."""

    kind: str
    name: str
    share: float
    """Per mille, divided by the weight."""
    weight: float
    past_use: float | None = None
    """What orders it among its siblings, divided by the weight; None unless its cohort is usage-based."""


class Precedence(StrEnum):
    """Why one of two heads goes first under fair sharing."""

    CLAIM = "Claim"
    """Room is kept for it, because others were preempted for it."""
    WITHIN_QUOTA = "WithinQuota"
    """Its side borrows nothing that it requests, and the other does."""
    PAST_USE = "PastUse"
    """Its side has used less in the past."""
    SHARE = "Share"
    ORDER = "Order"
    """Priority, age or name."""


class BorrowLead(Frozen):
    """How much a side with a smaller share borrows in total when the other goes first."""

    resource: str
    amount: int


class UseLead(Frozen):
    """What a side with less past use can use until the other goes first, if that uses nothing meanwhile."""

    resource: str
    unit_minutes: float
    """Cores, bytes or pieces, times minutes."""


class Earlier(Frozen):
    """The head of another queue that goes before a workload."""

    queue: str
    theirs: ShareRow
    """The side of the other queue where the paths of the two part, with its head."""
    own: ShareRow
    """The side of the workload's queue, with the workload."""
    why: Precedence
    lead: BorrowLead | UseLead | None = None
    """None unless share or past use decides, and can change."""


class Protected(Frozen):
    """A queue with candidates for preemption that the shares protect from a workload."""

    queue: str
    own: ShareRow
    """The side of the workload's queue, with the workload."""
    theirs: ShareRow
    final: float
    """The share of their side without the candidate that changes it least."""


class ShareCause(Frozen):
    """How the shares stand for a pending workload."""

    queue: ShareRow
    """Its ClusterQueue, as it is."""
    with_it: float
    """The share that its ClusterQueue would have with it."""
    earlier: tuple[Earlier, ...] = ()
    protected: tuple[Protected, ...] = ()


class PastUseRow(Frozen):
    """The past use of a LocalQueue in a usage-based ClusterQueue."""

    local_queue: str
    """Its key."""
    past_use: float
    """The number that orders LocalQueues, divided by the weight; infinite for a weight of 0."""
    weight: float
    pending: int
    """How many of its workloads are pending."""
    at: Instant | None = None
    """Up to when use counts: past use is brought up to date when something is decided."""
    lead: UseLead | None = None
    """How much it can use until the LocalQueue of the explained workload goes first; None if that has no limit."""


class PastUseCause(Frozen):
    """How the past use of LocalQueues stands for a pending workload or a queue."""

    own: PastUseRow | None
    """The LocalQueue that the explanation is about; None for a ClusterQueue."""
    others: tuple[PastUseRow, ...] = ()
    """Other LocalQueues, the least past use first; for a workload those that go before it."""
    count: int = 0
    """How many there are in total."""


class WorkloadCauses(Frozen):
    """Why a workload is where it is."""

    key: str
    state: State
    since: Instant
    queue: QueueCause
    reason: WaitReason | str = ""
    why: Why | None = None
    """Why it is pending; None if it is not, or if only `message` is known."""
    message: str = ""
    never: str = ""
    """Why it can never start as things are; empty if it can."""
    held: str = ""
    """What its owner asked for that keeps it from queueing: a hold, other jobs or a time to wait for; empty if nothing.

    The engine does not know this; the controllers do.
    """
    ended: str = ""
    """How it ended, if it has and that is known; `since` says when."""
    place: PlaceCause | None = None
    share: ShareCause | None = None
    """None without fair sharing."""
    past_use: PastUseCause | None = None
    """None unless its ClusterQueue is usage-based."""
    pod_sets: tuple[PodSetCause, ...] = ()
    admission: Admission | None = None
    borrows: bool = False
    """Whether its queue uses more than its own of what this workload uses."""
    checks: tuple[CheckState, ...] = ()
    """The AdmissionChecks that it has to pass, before quota is reserved those of its queue."""
    until: Instant | None = None
    """When it is stopped at the latest, if it runs."""
    backoff_until: Instant | None = None
    eviction: EvictionCause | None = None
    preemption: PreemptionRecord | None = None
    """What was preempted for it since it waits."""
    ways: tuple[Way, ...] = ()
    """What would let it start, the best first."""
    recent: tuple[Noted, ...] = ()
    forgotten: bool = False
    """Whether there were decisions before the recent ones."""


class Holder(Frozen):
    """A workload that holds quota."""

    key: str
    queue: str
    amounts: tuple[tuple[str, str, int], ...]
    """Flavor, resource and amount."""
    since: Instant | None
    until: Instant | None
    leaving: bool
    """Whether it is evicted and still has to stop."""


class Neighbour(Frozen):
    """What another queue of the same cohorts borrows, or leaves to others."""

    queue: str
    flavor: str
    resource: str
    amount: int


class NewcomerCause(Frozen):
    """What a new workload of one pod would meet."""

    resource: str
    amount: int
    fits: bool
    flavor: str = ""
    borrows: bool = False
    obstacles: tuple[Obstacle, ...] = ()
    victims: int = 0
    """How many workloads it would preempt to start; 0 if it fits, or if preemption does not help."""
    too_many: bool = False
    """Whether there are too many candidates to tell if preemption helps."""


class QueueCauses(Frozen):
    """Who holds the quota of a queue, who borrows it, and what a newcomer would meet."""

    queue: str
    local_queue: str = ""
    """The key of the LocalQueue that was asked about; empty for a ClusterQueue."""
    obstacle: str = ""
    """Why it admits nothing; empty if it does."""
    strategy: Strategy = Strategy.BEST_EFFORT
    cohorts: tuple[str, ...] = ()
    """The cohorts above, nearest first."""
    rooms: tuple[Room, ...] = ()
    holding: int = 0
    """How many workloads hold quota."""
    holders: tuple[Holder, ...] = ()
    """Those that hold most."""
    borrowers: tuple[Neighbour, ...] = ()
    """Other queues that use more than their own."""
    lenders: tuple[Neighbour, ...] = ()
    """Other queues that use less than their own of what this one borrows."""
    pending: int = 0
    parked: int = 0
    """How many of the pending wait for an event."""
    first: tuple[str, ...] = ()
    """The first in line."""
    own_pending: int = 0
    """How many of the pending are of the LocalQueue."""
    own_holding: int = 0
    newcomers: tuple[NewcomerCause, ...] = ()
    share: ShareRow | None = None
    """None without fair sharing."""
    siblings: tuple[ShareRow, ...] = ()
    """The other children of its cohort, those with the least past use or the largest shares first."""
    past_use: PastUseCause | None = None
    """None unless the ClusterQueue is usage-based."""
