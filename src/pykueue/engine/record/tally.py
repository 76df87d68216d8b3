"""Counts of pending, reserving and admitted workloads and their usage, for status, metrics and dashboards.

Everything is computed from the engine's state on request, and nothing is changed. A decision that is still being
written counts as carried out, as it does for the next decision.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from pykueue.base.struct import Frozen
from pykueue.engine.decisions import Overlap
from pykueue.engine.engine import Engine
from pykueue.engine.entries import Entry, Postponed
from pykueue.engine.forest import root_of
from pykueue.engine.items import Item
from pykueue.engine.model import ClusterQueue, StopPolicy
from pykueue.engine.placement import is_admissible
from pykueue.engine.quota import QuotaNode, ancestors
from pykueue.engine.world import World

Pair: TypeAlias = tuple[str, str]
"""A flavor and a resource."""

CYCLE = ("CohortCycle", "its cohorts form a cycle, or go too deep")


class Holdings(Frozen):
    """How many workloads hold quota, and how much of each flavor and resource."""

    workloads: int = 0
    amounts: Mapping[Pair, int] = {}


class Tally(Frozen):
    """The counts of a ClusterQueue, or of a LocalQueue in its ClusterQueue."""

    pending: int = 0
    reserved: Holdings = Holdings()
    admitted: Holdings = Holdings()
    """The part of `reserved` whose workloads are admitted."""


class Count:
    """A sum of holders under construction."""

    __slots__ = ("amounts", "workloads")

    def __init__(self) -> None:
        self.workloads = 0
        self.amounts: dict[int, int] = {}

    def add(self, item: Item) -> None:
        """Add one holder."""
        self.workloads += 1
        amounts = self.amounts
        for fr, amount in item.usage:
            amounts[fr] = amounts.get(fr, 0) + amount

    def held(self, world: World) -> Holdings:
        """Return the sum by the names of flavors and resources."""
        pairs = world.forest.flavors.pairs
        return Holdings(self.workloads, {pairs[fr]: amount for fr, amount in self.amounts.items()})


def of_queue(engine: Engine, name: str) -> Tally | None:
    """Return the counts of a ClusterQueue; None if there is none. The cost is linear in its holders."""
    world = engine.world
    queue = world.forest.queues.get(name)
    if queue is None:
        return None
    reserved, admitted = Count(), Count()
    for item in queue.holders.values():
        reserved.add(item)
        if item.workload.admitted_at is not None:
            admitted.add(item)
    return Tally(len(world.pending[name]), reserved.held(world), admitted.held(world))


def of_local_queue(engine: Engine, key: str) -> Tally | None:
    """Return the counts of a LocalQueue; None if there is none.

    What its workloads hold in a ClusterQueue that it no longer names is not counted.
    """
    world = engine.world
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
    """Return how many workloads of a LocalQueue are pending; 0 if it is stopped."""
    local = world.local_queues.get(key)
    if local is None or local.stop is not StopPolicy.NONE or local.terminating:
        return 0
    pending = world.pending.get(local.queue)
    if pending is None:
        # They are pending until the ClusterQueue is created.
        return sum(is_admissible(world, item.workload) for item in world.members.get(key, {}).values())
    if len(world.local_queues_by_queue.get(local.queue, ())) == 1:
        return len(pending)
    return sum(item.workload.local_queue == key for item, _ in pending)


def of_local_queues(engine: Engine, name: str) -> dict[str, Tally]:
    """Return the counts of each LocalQueue of a ClusterQueue, from one pass over its holders and pending workloads."""
    world = engine.world
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
        for key in sorted(world.local_queues_by_queue.get(name, ()))
    }


def waiters(world: World, name: str) -> dict[str, int]:
    """Return how many workloads of each LocalQueue of a ClusterQueue are pending."""
    keys = world.local_queues_by_queue.get(name, ())
    pending = world.pending.get(name)
    if pending is None or len(keys) <= 1:
        return {key: waiting_behind(world, key) for key in keys}
    found: dict[str, int] = {}
    for item, _ in pending:
        found[item.workload.local_queue] = found.get(item.workload.local_queue, 0) + 1
    return found


def pairs_of(queue: ClusterQueue) -> dict[str, tuple[str, ...]]:
    """Return the flavors of a ClusterQueue in its own order, and the resources of each, sorted by name."""
    found: dict[str, set[str]] = {}
    for group in queue.groups:
        for flavor in group.flavors:
            found.setdefault(flavor, set()).update(group.resources)
    return {flavor: tuple(sorted(resources)) for flavor, resources in found.items()}


def nominal_of(queue: ClusterQueue) -> dict[Pair, int]:
    """Return the nominal quota of a ClusterQueue by flavor and resource."""
    return {(quota.flavor, quota.resource): quota.nominal for quota in queue.quotas}


def owned(queues: Iterable[ClusterQueue]) -> dict[str, int]:
    """Return what ClusterQueues own together of each resource."""
    found: dict[str, int] = {}
    for queue in queues:
        for (_, resource), amount in nominal_of(queue).items():
            found[resource] = found.get(resource, 0) + amount
    return found


def inactive_because(engine: Engine, name: str) -> tuple[tuple[str, str], ...]:
    """Return why a ClusterQueue cannot admit, as (reason, text) in Kueue's order; empty if it can."""
    queue = engine.world.forest.queues[name]
    found = engine.world.inactive_because(queue)
    return found if found or root_of(queue) is not None else (CYCLE,)


def has_holders(engine: Engine, name: str) -> bool:
    """Return whether some workload holds quota of a ClusterQueue."""
    queue = engine.world.forest.queues.get(name)
    return queue is not None and bool(queue.holders)


def uses_flavor(engine: Engine, name: str) -> bool:
    """Return whether some ClusterQueue has quota in a flavor."""
    return any(name in group.flavors for queue in engine.queues() for group in queue.groups)


def uses_check(engine: Engine, name: str) -> bool:
    """Return whether some ClusterQueue requires an AdmissionCheck."""
    return any(rule.check == name for queue in engine.queues() for rule in queue.checks)


class Position(Frozen):
    """Where a ClusterQueue or a cohort is among the cohorts."""

    parent: str
    root: str
    """The cohort at the top; empty inside or below a cycle, and for a ClusterQueue without a cohort."""


class CohortTally(Frozen):
    """The quota and the reservations of a cohort and of everything below it."""

    position: Position
    quota: Mapping[Pair, int]
    reserved: Mapping[Pair, int]
    queues: tuple[str, ...]
    """The ClusterQueues of the cohort and of the cohorts below it."""
    implicit: bool
    """Whether only ClusterQueues name it: it has no object, and is not the parent of one that has."""
    has_object: bool


def of_cohort(engine: Engine, name: str) -> CohortTally:
    """Return the quota and the reservations of a cohort."""
    forest = engine.world.forest
    cohort, pairs = forest.cohorts[name], forest.flavors.pairs
    queues = list(queues_below(cohort))
    reserved: dict[Pair, int] = {}
    for queue in queues:
        for fr, used in queue.usage.items():
            reserved[pairs[fr]] = reserved.get(pairs[fr], 0) + used
    return CohortTally(
        position_of(cohort),
        {pairs[fr]: owned for fr, owned in cohort.subtree.items()},
        reserved,
        tuple(queue.name for queue in queues),
        cohort.object is None and all(child.is_queue for child in cohort.children),
        cohort.object is not None,
    )


def position(engine: Engine, queue: str) -> Position:
    """Return where a ClusterQueue is among the cohorts."""
    return position_of(engine.world.forest.queues[queue])


def position_of(node: QuotaNode) -> Position:
    """Return where a node is among the cohorts; a cohort without a parent is its own root."""
    parent = "" if node.parent is None else node.parent.name
    root = root_of(node)
    return Position(parent, "" if root is None or root.is_queue else root.name)


def cohorts_above(engine: Engine, queue: str) -> tuple[str, ...]:
    """Return the cohorts above a ClusterQueue, nearest first; none for an unknown queue and below a cycle."""
    node = engine.world.forest.queues.get(queue)
    return () if node is None or root_of(node) is None else tuple(cohort.name for cohort in ancestors(node))


def queues_below(cohort: QuotaNode) -> Iterator[QuotaNode]:
    """Yield the ClusterQueues of a cohort and of the cohorts below it, each once, even if the cohorts form a cycle."""
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
    """What happened to the preemptions of the heads of one cycle, by ClusterQueue."""

    skipped: Mapping[str, int] = {}
    """How many were postponed because another head had claimed the same victims; 0 if none was."""
    replanned: Mapping[tuple[str, str], int] = {}
    """How many were planned again for that reason, by result."""


def of_cycle(entries: Iterable[Entry]) -> CycleTally:
    """Return what happened to the preemptions of these heads."""
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


def can_admit(engine: Engine, name: str) -> bool:
    """Return whether the workloads of a ClusterQueue are considered in cycles."""
    return engine.world.can_admit(engine.world.forest.queues[name])
