"""The engine's state of a workload: `Item`, and the `Shape` that equal workloads share."""

from enum import IntEnum
from typing import TYPE_CHECKING

from pykueue.base.struct import Frozen
from pykueue.base.units import UNLIMITED, Instant
from pykueue.engine.decisions import Obstacle, Why
from pykueue.engine.model import Admission, ClusterQueue, Options, PodSet, Workload, resource_rank

if TYPE_CHECKING:
    # Only the type of a plan is needed here, so there is no import cycle at run time.
    from pykueue.engine.flavors import FlavorPlan

Totals = tuple[tuple[str, int], ...]
Holding = tuple[tuple[tuple[int, int], ...], frozenset[int]]
"""The amounts that a reservation uses by the number of their (flavor, resource) pair, and all pairs that it has."""
Tried = tuple[tuple[tuple[str, int], ...], ...]
"""For each pod set, the flavor that the scan of each resource reached."""


class Place(IntEnum):
    """Where a workload is; always in exactly one place."""

    IDLE = 0
    """Not schedulable: finished, inactive, gated, or its queue is missing or stopped."""
    QUEUED = 1
    """In its ClusterQueue's order, unless its whole class is parked."""
    PARKED = 2
    """Waits for an event before it is evaluated again."""
    HOLDING = 3
    """Holds quota."""


IDLE, QUEUED, PARKED, HOLDING = Place
# Names of their own, here and for other enumerations, since Python 3.11 takes ten times as long to find `Place.IDLE`.


class Bookmark(Frozen):
    """Where the scan of flavors continues, for each pod set and resource; -1 means from the start."""

    tried: Tried
    generation: int
    """The ClusterQueue's generation when it was recorded."""
    cycle: int
    shape: int
    """The shape it was recorded for, as a hash."""
    round: int = 0
    """How many scans in a row have continued where the previous one ended."""

    def start(self, pod_set: int, resource: str) -> int:
        """The index of the flavor to try first."""
        if pod_set < len(self.tried):
            for name, index in self.tried[pod_set]:
                if name == resource:
                    return index + 1
        return 0


class Shape:
    """The properties shared by workloads that no scheduling decision distinguishes, computed once for all of them."""

    __slots__ = (
        "__weakref__",
        "counts",
        "digest",
        "epoch",
        "held",
        "named",
        "obstacles",
        "plans",
        "pod_sets",
        "priority",
        "shrinks",
        "totals",
    )

    def __init__(self, pod_sets: tuple[PodSet, ...], priority: int, named: tuple[PodSet, ...]) -> None:
        self.pod_sets = pod_sets
        """The pod sets with the pods that still have to run, and without their names, which affect no decision."""
        self.named = named
        """The same with the names that the first workload of the shape gives them; all with these names share it."""
        self.counts = tuple(max(0, p.count) for p in pod_sets)
        self.priority = priority
        self.shrinks = any(p.min_count is not None for p in pod_sets)
        """Whether it may start with fewer pods."""
        self.totals = tuple(totals_of(p, n) for p, n in zip(pod_sets, self.counts, strict=True))
        self.digest = 0
        self.epoch = -1
        self.obstacles: dict[tuple[int, str], Obstacle | None] = {}
        """Whether a pod set's node selection excludes a flavor; valid for one epoch of the flavors."""
        self.plans: dict[str, tuple[ClusterQueue, FlavorPlan]] = {}
        """By ClusterQueue, a plan on the first flavors without borrowing; as valid, and until the queue changes."""
        self.held: dict[str, tuple[Admission, Holding]] = {}
        """By ClusterQueue, a reservation that equal workloads share, and what it uses."""


def totals_of(pod_set: PodSet, count: int) -> Totals:
    """The total requests of this many pods, in the order in which resources are visited."""
    ordered = sorted(pod_set.requests, key=lambda request: resource_rank(request[0]))
    return tuple((resource, max(0, min(amount * count, UNLIMITED))) for resource, amount in ordered)


def effective_counts(workload: Workload, options: Options) -> tuple[int, ...]:
    """How many pods of each pod set still have to run: those not reclaimed."""
    if not workload.reclaimable or not options.reclaimable_pods:
        return tuple([max(0, p.count) for p in workload.pod_sets])
    # spec: REQ-4
    reclaimed = dict(workload.reclaimable)
    return tuple(max(0, p.count - max(0, reclaimed.get(p.name, 0))) for p in workload.pod_sets)


class Item:
    """One workload: its assumed level, its confirmed level, and its place."""

    __slots__ = (
        "bookmark",
        "buffered",
        "claim",
        "confirmed",
        "entry",
        "frs",
        "group",
        "in_flight",
        "key",
        "namespace",
        "place",
        "priority",
        "queue",
        "reported",
        "seen_at",
        "settled",
        "shape",
        "stamp",
        "starts",
        "stopped",
        "timer",
        "uid",
        "usage",
        "version",
        "was_stopped",
        "workload",
    )

    def __init__(self, workload: Workload, shape: Shape, stamp: Instant) -> None:
        self.key = workload.key
        self.namespace = workload.namespace
        self.uid = workload.uid
        self.workload = workload
        self.shape = shape
        self.priority = shape.priority
        self.stamp = stamp
        self.version = 0
        self.confirmed: Workload | None = None
        """The level to return to if a write is refused; None while nothing is assumed."""
        self.in_flight: tuple[Workload, ...] = ()
        """The levels after each write in flight, in order."""
        self.buffered: tuple[Workload, int] | None = None
        self.place = Place.IDLE
        self.settled: Workload | None = None
        """The level at which it was last placed."""
        self.queue = ""
        self.entry = 0
        """Which of its entries in the queue's heap is the valid one."""
        self.group: Shape | str = ""
        """The key of its class in the queue: its shape, or its own key if classes are off."""
        self.usage: tuple[tuple[int, int], ...] = ()
        self.frs: frozenset[int] = frozenset()
        self.bookmark: Bookmark | None = None
        self.claim: Claim | None = None
        self.seen_at = -1
        """The version of its tree at which it was last evaluated."""
        self.starts: tuple[Tried | None, ...] = ()
        """From which bookmarks it was evaluated at that version, in order."""
        self.timer: Instant | None = None
        self.reported: Why | None = None
        self.stopped = False
        self.was_stopped = False
        """Whether its pods had stopped at the `confirmed` level."""


class Claim:
    """The quota that a preemptor's victims release, kept for it until it is admitted or can no longer use it."""

    __slots__ = ("counts", "start", "usage", "victims")

    def __init__(
        self,
        usage: tuple[tuple[int, int], ...],
        victims: tuple[Item, ...],
        counts: tuple[int, ...],
        start: Bookmark | None,
    ) -> None:
        self.usage = usage
        self.victims = victims
        self.counts = counts
        """The number of pods of each pod set that the claim is for; planning more could need more victims."""
        self.start = start
        """Where the scan that led to the claim started; a scan from there finds the same flavors."""
