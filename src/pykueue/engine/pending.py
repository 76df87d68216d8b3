"""Pending workloads of each ClusterQueue: their order, the parked ones, and what wakes them.

Pending workloads are grouped into classes by shape, in order. A class whose member was found not to fit is
parked as a whole, in one step, whatever its size. In a usage-based ClusterQueue, the past use of LocalQueues comes
first in the order; `lanes` has the classes of such a queue.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from enum import Enum
from heapq import heapify, heappop, heappush, merge, nsmallest
from itertools import islice
from math import inf
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.decisions import WaitReason, Why
from pykueue.engine.items import IDLE, PARKED, QUEUED, Item, Shape
from pykueue.engine.lanes import Members, UsageClass
from pykueue.engine.model import Options, Strategy, Workload
from pykueue.engine.order import PendingKey, pending_key
from pykueue.engine.pastuse import PastUse


class Outcome(Enum):
    """How an evaluation ended, as far as the queue is concerned."""

    INVALID = "nomination checks failed"
    NAMESPACE_MISMATCH = "the queue does not serve the namespace"
    UNSUPPORTED = "it asks for what this version cannot do"
    NO_FIT = "no flavor fits"
    NO_VICTIMS = "preemption would be needed, and nobody can be preempted"
    PENDING_PREEMPTION = "victims are leaving"
    CONTENDED = "it could have started, but for another workload of the cycle"


SHARED = frozenset({Outcome.NO_FIT, Outcome.NO_VICTIMS})
"""Outcomes that hold for every workload of the same shape."""
PARKED_ANYHOW = frozenset({Outcome.NAMESPACE_MISMATCH, Outcome.UNSUPPORTED})
"""Outcomes after which a workload is parked even in a StrictFIFO queue."""
IMMEDIATE = frozenset({Outcome.PENDING_PREEMPTION, Outcome.CONTENDED})
"""Outcomes after which a workload is tried again in the next cycle."""
PENDING: Final = frozenset({QUEUED, PARKED})
STEP: Final = 1_000
"""Workloads that one step of a long sort handles."""
COUNTED: Final = 4_000
"""Workloads that one step of a count handles."""


class Ahead(Frozen):
    """The workloads ahead of another one in the order of their queue."""

    count: int
    parked: int
    """How many of them wait for an event, so that others may start before them."""
    first: tuple[Item, ...]


BEHIND_ALL: Final[PendingKey] = (inf, 2**63, Instant(0), "")
"""A key after that of every workload."""


def backoff_over(workload: Workload, now: Instant) -> bool:
    """Whether a workload may be evaluated: it is requeued, and its backoff has ended."""
    may = workload.requeued is None or workload.requeued.may
    return may and (workload.requeue_at is None or now >= workload.requeue_at)


class Numbers:
    """Numbers the entries of all queues, so that an outdated heap entry is never mistaken for a current one."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """A new number."""
        self.last += 1
        return self.last


class ShapeClass(Members):
    """The queued workloads of one shape, in order."""

    __slots__ = ("parked", "size", "why")

    def __init__(self) -> None:
        super().__init__()
        self.size = 0
        self.parked: WaitReason | None = None
        self.why: Why | None = None
        """The reason found for the member that was evaluated; it applies to all members while the class is parked."""

    def add(self, entry: tuple[PendingKey, int, Item]) -> PendingKey | None:
        """Add a workload; returns the key of a candidate for the head, otherwise None."""
        heappush(self.members, entry)
        return entry[0]

    def entries(self) -> Iterator[tuple[PendingKey, int, Item]]:
        """Yield all entries, in no particular order; some of them may be outdated."""
        return iter(self.members)


Entries = list[tuple[PendingKey, int, Item]]


def first_of(heaps: list[Entries], most: int, before: PendingKey) -> Iterator[tuple[PendingKey, int, Item]]:
    """The first entries of several heaps in order, up to a number and before a key, without those that are outdated."""
    front = [(members[0][0], number, 0) for number, members in enumerate(heaps) if members]
    heapify(front)
    while front and most:
        key, number, at = heappop(front)
        if key >= before:
            return
        members = heaps[number]
        if members[at][2].entry == members[at][1]:
            most -= 1
            yield members[at]
        for below in (2 * at + 1, 2 * at + 2):
            if below < len(members):
                heappush(front, (members[below][0], number, below))


class PendingQueue:
    """The pending workloads of one ClusterQueue."""

    def __init__(self, options: Options, numbers: Numbers) -> None:
        self.options = options
        self.numbers = numbers
        self.strategy = Strategy.BEST_EFFORT
        self.past: PastUse | None = None
        """The past use of LocalQueues, if it comes first in the order."""
        self.classes: dict[Shape | str, ShapeClass | UsageClass] = {}
        self.classes_of: dict[str, dict[Shape | str, None]] = {}
        """If past use comes first, the classes with workloads of each LocalQueue; some may be gone."""
        self.front: list[tuple[PendingKey, int, ShapeClass | UsageClass]] = []
        """Candidates for the head as a heap, at least one per class that is not parked; `head` drops outdated ones."""
        self.parked: dict[str, Item] = {}
        """Workloads that are parked individually."""
        self.resting: set[str] = set()
        """The keys of those that are parked until their backoff ends."""
        self.aside: dict[str, int] = {}
        """The keys of those that were parked in favor of a StrictFIFO head, with `Tree.news` at that time."""
        self.preemptor: Item | None = None
        self.preemptor_generation = 0
        self.sticky = False

    def insert(self, item: Item, now: Instant) -> None:
        """Queue a pending workload, or park it until its backoff ends. This is the only placement rule."""
        # spec: QUE-1
        self.take_out(item)
        if not backoff_over(item.workload, now):
            self.park(item)
            self.resting.add(item.key)
            return
        self.enter(item, self.numbers.next())

    def enter(self, item: Item, entry: int) -> None:
        """Add a workload to its class with this entry number."""
        item.group = item.shape if self.options.equivalence else item.key
        group = self.classes.get(item.group)
        if group is None:
            group = self.new_class(item.group)
        item.entry = entry
        item.place = QUEUED
        key = group.add((pending_key(item), entry, item))
        group.size += 1
        if self.past is not None:
            local_queue = item.workload.local_queue
            if local_queue not in self.classes_of:
                self.classes_of[local_queue] = {}
            self.classes_of[local_queue][item.group] = None
        if group.parked is None and key is not None:
            heappush(self.front, (key, entry, group))

    def new_class(self, key: Shape | str) -> ShapeClass | UsageClass:
        """Add an empty class."""
        group = self.classes[key] = ShapeClass() if self.past is None else UsageClass(self.past.value)
        return group

    def key(self, item: Item) -> PendingKey:
        """The place of a pending workload in the order, apart from a sticky preemptor."""
        return pending_key(item, 0.0 if self.past is None else self.past.value(item.workload.local_queue))

    def order_by(self, past: PastUse | None) -> None:
        """Let the past use of LocalQueues come first in the order, or with None leave it out of the order."""
        if past is self.past:
            return
        self.past = past
        before, self.classes, self.classes_of, self.front = self.classes, {}, {}, []
        for key, group in before.items():
            after = self.new_class(key)
            after.parked, after.why = group.parked, group.why
            for _, entry, item in group.entries():
                if item.entry == entry:
                    self.enter(item, entry)

    def relist(self, local_queues: Iterable[str]) -> None:
        """Correct the order after the past use of some LocalQueues has become lower."""
        changed: dict[Shape | str, None] = {}
        for local_queue in local_queues:
            known = self.classes_of.get(local_queue, {})
            for key in list(known):
                group = self.classes.get(key)
                if isinstance(group, UsageClass) and local_queue in group.lanes:
                    group.relist(local_queue)
                    changed[key] = None
                else:
                    del known[key]
        for key in changed:
            group = self.classes[key]
            first = group.first() if group.parked is None else None
            if first is not None:
                heappush(self.front, (first[0], first[1], group))

    def park(self, item: Item) -> None:
        """Park one workload until an event makes it eligible again."""
        self.take_out(item)
        item.place = PARKED
        self.parked[item.key] = item

    def remove(self, item: Item) -> None:
        """Remove a workload that is no longer pending in this queue."""
        self.take_out(item)
        if self.preemptor is item:
            self.forget_preemptor()

    def take_out(self, item: Item) -> None:
        """Remove a workload from its class or from the parked ones; the preemptor does not change."""
        if item.place is PARKED:
            del self.parked[item.key]
            self.resting.discard(item.key)
            self.aside.pop(item.key, None)
        elif item.place is QUEUED:
            item.entry = 0
            group = self.classes[item.group]
            group.size -= 1
            if group.size == 0 and group.parked is None:
                del self.classes[item.group]
        item.place = IDLE

    def head(self) -> Item | None:
        """The next workload to evaluate; it stays in the queue."""
        # spec: QUE-3
        sticky = self.preemptor
        if not self.sticky or sticky is None or not sticky.entry or self.classes[sticky.group].parked is not None:
            sticky = None
        if sticky is not None and self.past is None:
            return sticky
        front = self.front
        while front:
            key, entry, group = front[0]
            first = group.first() if group.parked is None else None
            if first is not None and first[1] == entry and first[0] == key:
                return first[2] if sticky is None or key[0] < self.key(sticky)[0] else sticky
            # The next member may be in the heap already, so an entry can be there twice; without this, each head
            # would be there once more than the one before.
            while front and front[0][1] == entry:
                heappop(front)
            if first is not None:
                # It may be the same workload with the same key, if it was inserted again.
                heappush(front, (first[0], first[1], group))
        return None

    def remember_preemptor(self, item: Item) -> None:
        """Record that a workload waits for its victims; with BestEffortFIFO it stays the head until it is admitted."""
        self.preemptor = item
        self.preemptor_generation = item.workload.generation
        self.sticky = self.strategy is Strategy.BEST_EFFORT

    def forget_preemptor(self) -> None:
        """Clear the preemptor; the head is chosen by order again."""
        self.preemptor, self.sticky = None, False

    def requeue(self, item: Item, outcome: Outcome, reason: WaitReason, why: Why, now: Instant) -> None:
        """Put an evaluated workload back: queued, parked individually, or parked with its class."""
        # spec: QUE-2
        if outcome is Outcome.PENDING_PREEMPTION:
            self.remember_preemptor(item)
        elif self.preemptor is item and outcome not in IMMEDIATE and self.options.forget_hopeless_preemptor:
            self.forget_preemptor()
        strict = self.strategy is Strategy.STRICT and outcome not in PARKED_ANYHOW
        if outcome in IMMEDIATE or strict or item.bookmark is not None:
            self.insert(item, now)
        elif outcome in SHARED and self.options.equivalence and self.strategy is Strategy.BEST_EFFORT:
            self.insert(item, now)
            if item.entry:
                # spec: QUE-4
                group = self.classes[item.group]
                group.parked, group.why = reason, why
        else:
            self.park(item)

    def flush(self, now: Instant, serves: Callable[[str], bool]) -> None:
        """Requeue all parked workloads that may be evaluated again."""
        self.unpark_classes()
        for item in list(self.parked.values()):
            if backoff_over(item.workload, now) and serves(item.namespace):
                self.insert(item, now)

    def unpark_classes(self) -> None:
        """Requeue all parked classes."""
        for key, group in list(self.classes.items()):
            if group.parked is not None:
                group.parked = group.why = None
                first = group.first()
                if first is None:
                    del self.classes[key]
                else:
                    heappush(self.front, (first[0], first[1], group))

    def set_strategy(self, strategy: Strategy) -> None:
        """Set the queueing strategy. A StrictFIFO queue has no parked classes."""
        self.strategy = strategy
        if strategy is Strategy.STRICT:
            self.unpark_classes()

    def step_aside(self, item: Item, news: int) -> None:
        """Park a workload until something changes in the tree, so that the next one is evaluated."""
        self.park(item)
        self.aside[item.key] = news

    def step_back(self, news: int, now: Instant) -> None:
        """Requeue workloads that stepped aside, if the tree has changed since."""
        for key in [key for key, then in self.aside.items() if then != news]:
            self.insert(self.parked[key], now)

    def has_rested(self, item: Item, now: Instant) -> bool:
        """Whether a workload was parked for its backoff, which has ended."""
        return item.key in self.resting and backoff_over(item.workload, now)

    def parked_with_class(self, item: Item) -> WaitReason | None:
        """The reason for which a workload's class is parked; None if it is not."""
        return self.classes[item.group].parked if item.entry else None

    def verdict(self, item: Item) -> tuple[WaitReason, Why] | None:
        """Why a workload's class is parked, whichever member was evaluated; None if it is not parked."""
        group = self.classes[item.group] if item.entry else None
        return None if group is None or group.parked is None or group.why is None else (group.parked, group.why)

    def equals(self, item: Item) -> Iterator[Item]:
        """All workloads of the class of this one."""
        group = self.classes[item.group] if item.entry else None
        for _, entry, one in () if group is None else group.entries():
            if one.entry == entry:
                yield one

    def __iter__(self) -> Iterator[tuple[Item, bool]]:
        """Every pending workload, and whether it is parked."""
        for group in self.classes.values():
            for _, entry, item in group.entries():
                if item.entry == entry:
                    yield item, group.parked is not None
        for item in self.parked.values():
            yield item, True

    def line(self) -> Generator[None, None, list[Item]]:
        """Every pending workload in order; yields between steps of a few milliseconds each.

        Those that enter the queue after the first step are left out.
        """
        first = self.preemptor if self.sticky else None
        candidates = [entry[2] for group in self.classes.values() for entry in group.entries()]
        candidates += self.parked.values()
        runs: list[list[tuple[PendingKey, str, Item]]] = []
        seen: set[str] = set()
        for start in range(0, len(candidates), STEP):
            yield
            run = []
            for item in candidates[start : start + STEP]:
                # The entries of a class may be outdated, and then there is another of the same workload.
                if item.place in PENDING and item.key not in seen:
                    seen.add(item.key)
                    run.append((self.key(item), item.key, item))
            runs.append(sorted(run))
        merged = merge(*runs)
        found: list[Item] = []
        while some := [item for _, _, item in islice(merged, STEP)]:
            found += some
            yield
        if first is not None and first.key in seen:
            # `head` returns it before all others with the same past use.
            found.remove(first)
            used = self.key(first)[0]
            found.insert(0 if self.past is None else sum(self.key(one)[0] < used for one in found), first)
        return found

    def ahead(self, item: Item | None, most: int) -> Generator[None, None, Ahead]:
        """The workloads ahead of this one, or all for None, and the first `most` of them; yields between short steps.

        It costs one comparison per workload, where `line` sorts them all.
        """
        sticky = self.preemptor if self.sticky else None
        if sticky is not None and sticky.place not in PENDING:
            sticky = None
        if sticky is not None and sticky is item and self.past is None:
            return Ahead(0, 0, ())
        mine = BEHIND_ALL if item is None else self.key(item)
        if self.past is not None:
            return (yield from self.ahead_by_past_use(item, mine, sticky, most))
        # Copies: the heaps change when facts are observed between steps.
        classes = [group for group in self.classes.values() if isinstance(group, ShapeClass)]
        heaps = [(group, len(group.members) == group.size, [*group.members]) for group in classes]
        parked_alone = [*self.parked.values()]
        first = list(first_of([members for _, _, members in heaps], most, mine))
        count = parked = work = 0
        for group, current, members in heaps:
            for start in range(0, len(members), COUNTED):
                part = members[start : start + COUNTED]
                if current:
                    found = sum([key < mine for key, _, _ in part])
                else:
                    # Some entries are outdated.
                    found = sum([key < mine and one.entry == entry for key, entry, one in part])
                count += found
                parked += found if group.parked is not None else 0
                work += len(part)
                if work >= COUNTED:
                    work = 0
                    yield
        for start in range(0, len(parked_alone), STEP):
            keys = ((pending_key(one), 0, one) for one in parked_alone[start : start + STEP])
            ahead = [one for one in keys if one[0] < mine]
            count, parked = count + len(ahead), parked + len(ahead)
            first = nsmallest(most, first + ahead)
            yield
        leading = [one for _, _, one in first if one is not sticky]
        if sticky is not None:
            # `head` returns it before all others.
            count += pending_key(sticky) > mine
            leading.insert(0, sticky)
        return Ahead(count, parked, tuple(leading[:most]))

    def ahead_by_past_use(
        self, item: Item | None, mine: PendingKey, sticky: Item | None, most: int
    ) -> Generator[None, None, Ahead]:
        """The same as `ahead` where past use comes first in the order, which a sticky preemptor does not change."""

        def place(one: Item) -> tuple[float, bool, PendingKey]:
            key = self.key(one)
            return key[0], one is not sticky, key

        limit = (mine[0], item is not sticky or item is None, mine)
        # A copy: the classes change when facts are observed between steps.
        pending = list(self)
        count = parked = 0
        first: list[tuple[tuple[float, bool, PendingKey], str, Item]] = []
        for start in range(0, len(pending), STEP):
            some = [(place(one), one.key, one, waits) for one, waits in pending[start : start + STEP]]
            ahead = [one for one in some if one[0] < limit]
            count, parked = count + len(ahead), parked + sum(waits for _, _, _, waits in ahead)
            first = nsmallest(most, first + [(key, name, one) for key, name, one, _ in ahead])
            yield
        return Ahead(count, parked, tuple(one for _, _, one in first))

    def __len__(self) -> int:
        return sum(group.size for group in self.classes.values()) + len(self.parked)
