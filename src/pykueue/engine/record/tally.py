"""How do the queues stand? What each holds and how many wait, counted from what the engine believes; nothing changes.

What was decided and is still being written counts as done, as it does for the next decision.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from pykueue.base.struct import Frozen
from pykueue.engine.decisions import Overlap
from pykueue.engine.entries import Entry, Postponed
from pykueue.engine.forest import root_of
from pykueue.engine.items import Item, Shape
from pykueue.engine.model import StopPolicy
from pykueue.engine.pending import PendingQueue
from pykueue.engine.placement import is_admissible
from pykueue.engine.quota import QuotaNode
from pykueue.engine.world import World

Pair: TypeAlias = tuple[str, str]
"""A flavor and a resource."""

CYCLE = ("CohortCycle", "its cohorts form a cycle, or go too deep")


class Holdings(Frozen):
    """How many workloads hold quota, and how much of what."""

    workloads: int = 0
    amounts: Mapping[Pair, int] = {}


class Tally(Frozen):
    """How a ClusterQueue stands, or the part of a LocalQueue in it."""

    pending: int = 0
    reserved: Holdings = Holdings()
    admitted: Holdings = Holdings()
    """The part of what is reserved whose jobs may run."""


class Count:
    """A sum that is being made."""

    __slots__ = ("amounts", "workloads")

    def __init__(self) -> None:
        self.workloads = 0
        self.amounts: dict[int, int] = {}

    def add(self, item: Item) -> None:
        """Count one more holder."""
        self.workloads += 1
        amounts = self.amounts
        for fr, amount in item.usage:
            amounts[fr] = amounts.get(fr, 0) + amount

    def held(self, world: World) -> Holdings:
        """The sum, by the names of flavors and resources."""
        pairs = world.forest.flavors.pairs
        return Holdings(self.workloads, {pairs[fr]: amount for fr, amount in self.amounts.items()})


def is_settled(world: World) -> bool:
    """Whether every workload that we heard of stands where it belongs, so that nobody is missing from a count."""
    return not world.touched


def of_queue(world: World, name: str) -> Tally | None:
    """How a ClusterQueue stands; None when there is no such queue. It costs as much as it has holders."""
    queue = world.forest.queues.get(name)
    if queue is None:
        return None
    reserved, admitted = Count(), Count()
    for item in queue.holders.values():
        reserved.add(item)
        if item.workload.admitted_at is not None:
            admitted.add(item)
    return Tally(len(world.pending[name]), reserved.held(world), admitted.held(world))


def of_local_queue(world: World, key: str) -> Tally | None:
    """How a LocalQueue stands; None when there is no such queue.

    What its workloads hold in a ClusterQueue that it no longer leads to is not counted.
    """
    local = world.local_queues.get(key)
    if local is None:
        return None
    queue = world.forest.queues.get(local.queue)
    reserved, admitted = Count(), Count()
    if queue is not None:
        for item in queue.holders.values():
            if item.workload.local_queue == key:
                reserved.add(item)
                if item.workload.admitted_at is not None:
                    admitted.add(item)
    return Tally(waiting_behind(world, key), reserved.held(world), admitted.held(world))


def waiting_behind(world: World, key: str) -> int:
    """How many workloads of a LocalQueue wait; none do in one that is stopped."""
    local = world.local_queues.get(key)
    if local is None or local.stop is not StopPolicy.NONE or local.terminating:
        return 0
    pending = world.pending.get(local.queue)
    if pending is None:
        # They wait for the ClusterQueue itself.
        return sum(is_admissible(world, item.workload) for item in world.members.get(key, {}).values())
    if len(world.doors.get(local.queue, ())) == 1:
        return len(pending)
    return sum(item.workload.local_queue == key for item, _ in pending)


def of_doors(world: World, name: str) -> dict[str, Tally]:
    """How each LocalQueue that leads to a ClusterQueue stands, in one pass over its holders and waiters."""
    reserved: dict[str, Count] = {}
    admitted: dict[str, Count] = {}
    queue = world.forest.queues.get(name)
    for item in () if queue is None else queue.holders.values():
        local = item.workload.local_queue
        reserved.setdefault(local, Count()).add(item)
        if item.workload.admitted_at is not None:
            admitted.setdefault(local, Count()).add(item)
    waiting = waiters(world, name)
    none = Count()
    return {
        key: Tally(waiting.get(key, 0), reserved.get(key, none).held(world), admitted.get(key, none).held(world))
        for key in sorted(world.doors.get(name, ()))
    }


def waiters(world: World, name: str) -> dict[str, int]:
    """How many workloads wait behind each LocalQueue that leads to a ClusterQueue."""
    doors = world.doors.get(name, ())
    pending = world.pending.get(name)
    if pending is None or len(doors) <= 1:
        return {key: waiting_behind(world, key) for key in doors}
    found: dict[str, int] = {}
    for item, _ in pending:
        found[item.workload.local_queue] = found.get(item.workload.local_queue, 0) + 1
    return found


def pairs_of(queue: QuotaNode) -> dict[str, tuple[str, ...]]:
    """The flavors of a ClusterQueue in its own order, and the resources of each by name."""
    found: dict[str, set[str]] = {}
    for group in queue.spec.groups:
        for flavor in group.flavors:
            found.setdefault(flavor, set()).update(group.resources)
    return {flavor: tuple(sorted(resources)) for flavor, resources in found.items()}


def nominal_of(queue: QuotaNode) -> dict[Pair, int]:
    """What a ClusterQueue owns, by flavor and resource."""
    return {(quota.flavor, quota.resource): quota.nominal for quota in queue.spec.quotas}


def inactive_because(world: World, queue: QuotaNode) -> tuple[tuple[str, str], ...]:
    """Why a ClusterQueue cannot admit, as (reason, text) in Kueue's order; empty when it can."""
    found = world.inactive_because(queue)
    return found if found or root_of(queue) is not None else (CYCLE,)


def uses_flavor(world: World, name: str) -> bool:
    """Whether some ClusterQueue has quota in a flavor."""
    return any(name in group.flavors for queue in world.forest.queues.values() for group in queue.spec.groups)


def uses_check(world: World, name: str) -> bool:
    """Whether some ClusterQueue demands an AdmissionCheck."""
    return any(rule.check == name for queue in world.forest.queues.values() for rule in queue.spec.checks)


class Line(Frozen):
    """How many workloads of a queue are in line, and how many are set aside until something happens; and their shapes.

    In a queue that cannot admit, all are set aside.
    """

    active: int = 0
    parked: int = 0
    active_shapes: int = 0
    parked_shapes: int = 0


def line(world: World, queue: QuotaNode) -> Line:
    """Who of a ClusterQueue's workloads is in line; it costs as much as it has classes, and workloads parked alone."""
    pending = world.pending[queue.name]
    active = sum(group.size for group in pending.classes.values() if group.parked is None)
    whole = len(pending)
    in_line: set[object] = {key for key, group in pending.classes.items() if group.parked is None and group.size}
    aside: set[object] = {key for key, group in pending.classes.items() if group.parked is not None and group.size}
    aside.update(item.shape for item in pending.parked.values())
    if not world.can_admit(queue):
        return Line(0, whole, 0, len(in_line | aside))
    return Line(active, whole - active, len(in_line), len(aside))


def lines_of_doors(world: World, queue: QuotaNode) -> dict[str, Line]:
    """The same for each LocalQueue that leads to a ClusterQueue, without the shapes."""
    doors = sorted(world.doors.get(queue.name, ()))
    if len(doors) == 1:
        return {doors[0]: line(world, queue)}
    found = dict.fromkeys(doors, Line())
    for item, parked in world.pending[queue.name]:
        known = found.get(item.workload.local_queue, Line())
        aside = parked or not world.can_admit(queue)
        found[item.workload.local_queue] = Line(known.active + (not aside), known.parked + aside)
    return found


def requested(pending: PendingQueue) -> dict[str, int]:
    """What all pending workloads of a queue ask for together, by resource; each shape is counted once."""
    shapes: dict[Shape, int] = {}
    for item, _ in pending:
        shapes[item.shape] = shapes.get(item.shape, 0) + 1
    found: dict[str, int] = {}
    for shape, times in shapes.items():
        for totals in shape.totals:
            for resource, amount in totals:
                found[resource] = found.get(resource, 0) + amount * times
    return found


def queues_below(cohort: QuotaNode) -> Iterator[QuotaNode]:
    """The ClusterQueues of a cohort and of the cohorts within it; each once, also where cohorts form a cycle."""
    waiting, seen = [cohort], {cohort}
    while waiting:
        here = waiting.pop()
        for child in here.children:
            if child.is_queue:
                yield child
            elif child not in seen:
                seen.add(child)
                waiting.append(child)


class CycleTally(Frozen):
    """What happened to the preemptions of one cycle's heads, by ClusterQueue."""

    skipped: Mapping[str, int] = {}
    """How many were put off, because another head had claimed the same victims; 0 where none was."""
    replanned: Mapping[tuple[str, str], int] = {}
    """How many were planned anew for that reason, by what came of it."""


def of_cycle(entries: Iterable[Entry]) -> CycleTally:
    """What happened to the preemptions of these heads."""
    skipped: dict[str, int] = {}
    replanned: dict[tuple[str, str], int] = {}
    for entry in entries:
        name = entry.queue.name
        overlap = isinstance(entry.result, Postponed) and isinstance(entry.result.why, Overlap)
        skipped[name] = skipped.get(name, 0) + overlap
        if entry.replanned is not None:
            result = entry.replanned.value
            replanned[name, result] = replanned.get((name, result), 0) + 1
    return CycleTally(skipped, replanned)
