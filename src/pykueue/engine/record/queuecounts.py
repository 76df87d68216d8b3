"""Counts of a ClusterQueue and of its LocalQueues, in steps, because a queue can have very many workloads."""

from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeAlias

from pykueue.base.struct import Frozen
from pykueue.engine.engine import Engine
from pykueue.engine.items import Item, Shape
from pykueue.engine.order import PendingKey
from pykueue.engine.placement import is_admissible
from pykueue.engine.record.tally import Count, Holdings

STEP: Final = 1_000
"""Workloads that one step looks at."""

Group: TypeAlias = tuple[str, ...]
"""What the caller counts workloads by, in addition to their queues."""
GroupOf: TypeAlias = Callable[[str], Group]
"""The group of a workload by its key."""


class Line(Frozen):
    """How many pending workloads and shapes of a queue are active, and how many are parked until something changes.

    A workload that only steps aside for the head of a StrictFIFO queue is active. In a queue that cannot admit, all are
    parked.
    """

    active: int = 0
    parked: int = 0
    active_shapes: int = 0
    parked_shapes: int = 0


class LocalCounts(Frozen):
    """The counts of a LocalQueue in its ClusterQueue; shapes are not counted."""

    line: Line = Line()
    reserved: Holdings = Holdings()
    admitted: Holdings = Holdings()


class QueueCounts(Frozen):
    """The counts of a ClusterQueue. Workloads that change between two steps are counted as before or as after."""

    line: Line
    reserved: Holdings
    admitted: Holdings
    """The part of `reserved` whose workloads are admitted."""
    requested: Mapping[str, int]
    """The sum of what all pending workloads request, by resource."""
    first: Item | None
    """The first pending workload in order."""
    local_queues: Mapping[str, LocalCounts]
    """Sorted by key."""
    pending_groups: Mapping[tuple[bool, Group], int]
    """Pending workloads by whether they are parked, and by group; empty if nothing is grouped."""
    admitted_groups: Mapping[tuple[str, Group], int]
    """Admitted workloads by LocalQueue and group; empty if nothing is grouped."""


class Counting:
    """A count of one queue in progress."""

    def __init__(self, engine: Engine, name: str, group_of: GroupOf | None) -> None:
        self.world = engine.world
        self.group_of = group_of
        self.queue = self.world.forest.queues[name]
        self.pending = self.world.pending[name]
        self.active = self.world.can_admit(self.queue)
        self.keys = sorted(engine.local_queues_of(name))
        self.by_local_queue = len(self.keys) != 1
        self.sizes = [0, 0]
        """Active and parked workloads."""
        self.shapes: tuple[set[object], set[object]] = (set(), set())
        """Active and parked shapes."""
        self.requested: dict[Shape, int] = {}
        self.first: tuple[PendingKey, Item] | None = None
        self.lines: dict[str, list[int]] = {}
        self.reserved: dict[str, Count] = {}
        self.admitted: dict[str, Count] = {}
        self.pending_groups: dict[tuple[bool, Group], int] = {}
        self.admitted_groups: dict[tuple[str, Group], int] = {}

    def count_classes(self) -> Generator[None, None, None]:
        """Count the pending workloads that are in classes."""
        each = self.by_local_queue or self.group_of is not None
        seen = 0
        for key, group in list(self.pending.classes.items()):
            entry = group.first()
            if entry is None:
                continue
            parked = not self.active or group.parked is not None
            self.add(key, entry[0], entry[2], parked, group.size)
            seen += 1
            for _, number, item in list(group.entries()) if each else ():
                if item.entry == number:
                    self.split(item, parked)
                seen += 1
                if seen % STEP == 0:
                    yield
            if seen % STEP == 0:
                yield

    def count_parked(self) -> Generator[None, None, None]:
        """Count the pending workloads that are parked alone."""
        each = self.by_local_queue or self.group_of is not None
        for seen, item in enumerate(list(self.pending.parked.values()), start=1):
            parked = not self.active or item.key not in self.pending.aside
            self.add(item.shape, self.pending.key(item), item, parked, 1)
            if each:
                self.split(item, parked)
            if seen % STEP == 0:
                yield

    def add(self, shape: object, key: PendingKey, item: Item, parked: bool, workloads: int) -> None:
        """Count workloads of one shape, of which this is the first."""
        self.sizes[parked] += workloads
        self.shapes[parked].add(shape)
        self.requested[item.shape] = self.requested.get(item.shape, 0) + workloads
        if self.first is None or key < self.first[0]:
            self.first = key, item

    def split(self, item: Item, parked: bool) -> None:
        """Count a pending workload for its LocalQueue and its group."""
        if self.by_local_queue:
            self.lines.setdefault(item.workload.local_queue, [0, 0])[parked] += 1
        if self.group_of is not None:
            place = (parked, self.group_of(item.key))
            self.pending_groups[place] = self.pending_groups.get(place, 0) + 1

    def count_holders(self) -> Generator[None, None, None]:
        """Count the workloads that hold quota."""
        for seen, item in enumerate(list(self.queue.holders.values()), start=1):
            local = item.workload.local_queue
            self.reserved.setdefault(local, Count()).add(item)
            if item.workload.admitted_at is not None:
                self.admitted.setdefault(local, Count()).add(item)
                if self.group_of is not None:
                    place = (local, self.group_of(item.key))
                    self.admitted_groups[place] = self.admitted_groups.get(place, 0) + 1
            if seen % STEP == 0:
                yield

    def result(self) -> QueueCounts:
        """Return all counts."""
        active, parked = self.shapes
        none = Count()
        held = {key: self.reserved.get(key, none).held(self.world) for key in self.keys}
        run = {key: self.admitted.get(key, none).held(self.world) for key in self.keys}
        return QueueCounts(
            Line(self.sizes[0], self.sizes[1], len(active), len(parked)),
            total(self.reserved).held(self.world),
            total(self.admitted).held(self.world),
            amounts(self.requested),
            None if self.first is None else self.first[1],
            {key: LocalCounts(self.line_of(key), held[key], run[key]) for key in self.keys},
            self.pending_groups,
            self.admitted_groups,
        )

    def line_of(self, key: str) -> Line:
        """Return the pending counts of a LocalQueue."""
        return Line(*self.lines.get(key, (0, 0))) if self.by_local_queue else Line(*self.sizes)


def queue_counts(
    engine: Engine, name: str, group_of: GroupOf | None = None
) -> Generator[None, None, QueueCounts | None]:
    """Count a ClusterQueue in steps of a few milliseconds; None if there is none.

    The cost is linear in its holders, its shapes, and the workloads that are parked alone; with several LocalQueues, or
    groups, in all its workloads.
    """
    if engine.queue(name) is None:
        return None
    counting = Counting(engine, name, group_of)
    yield from counting.count_classes()
    yield from counting.count_parked()
    yield from counting.count_holders()
    return counting.result()


def waiting_for_queue(engine: Engine, local_queue: str) -> Generator[None, None, int]:
    """Count the workloads of a LocalQueue that wait until its ClusterQueue is created, in steps."""
    world = engine.world
    known = 0
    for seen, item in enumerate(list(world.members.get(local_queue, {}).values()), start=1):
        known += is_admissible(world, item.workload)
        if seen % STEP == 0:
            yield
    return known


def total(counts: Mapping[str, Count]) -> Count:
    """Return the sum of counts."""
    found = Count()
    for one in counts.values():
        found.workloads += one.workloads
        for fr, amount in one.amounts.items():
            found.amounts[fr] = found.amounts.get(fr, 0) + amount
    return found


def amounts(shapes: Mapping[Shape, int]) -> dict[str, int]:
    """Return what this many workloads of each shape request together, by resource."""
    found: dict[str, int] = {}
    for shape, times in shapes.items():
        for totals in shape.totals:
            for resource, amount in totals:
                found[resource] = found.get(resource, 0) + amount * times
    return found
