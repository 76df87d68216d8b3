"""What would let a pending workload start, the best way first.

To wait costs nothing, another queue is one edit of the owner, a smaller request another; limits are an administrator's.
"""

from collections.abc import Generator, Iterator
from heapq import nsmallest
from typing import Final

from msgspec.structs import replace

from pykueue.engine.decisions import (
    GatedBy,
    Inactive,
    NotNominated,
    Obstacle,
    OverCapacity,
    PodSetObstacles,
    Short,
    Unassigned,
    Why,
)
from pykueue.engine.engine import Engine
from pykueue.engine.forest import root_of
from pykueue.engine.items import Item
from pykueue.engine.lifecycle import run_end
from pykueue.engine.pending import backoff_over
from pykueue.engine.quota import QuotaNode, available, binding, ceiling, local_free, potential
from pykueue.engine.record.causes import AwaitEnd, AwaitTime, Ends, Fix, OtherQueue, PodSetCause, Raise, Shrink, Way
from pykueue.engine.record.explain import nearest_of_each_resource, rank, way, what_helps
from pykueue.engine.record.rooms import Limit, is_consistent, limit_of, neighbours, would_fit
from pykueue.engine.snapshot import Snapshot
from pykueue.engine.world import World

HOLDERS_MAX: Final = 200
"""How many of the running workloads, those that end first, are counted until there is room."""
NAMED_MAX: Final = 3
"""How many of them are named."""
QUEUES_MAX: Final = 50
"""How many other LocalQueues are tried."""
OTHERS_MAX: Final = 3
"""How many of those with room are named."""
STEP: Final = 1_000
ELSEWHERE: Final = Fix("name another queue")
"""What need not be said if such a queue is named."""
WAYS_MAX: Final = 8


def ways_of(
    engine: Engine,
    item: Item,
    why: Why | None,
    found: tuple[PodSetObstacles, ...],
    pod_sets: tuple[PodSetCause, ...],
    ends: Ends = run_end,
) -> Generator[None, None, tuple[Way, ...]]:
    """What would let a pending workload start; yields between short steps.

    `found` are the obstacles of its pod sets, `pod_sets` what its queue has of what they ask for.
    """
    world = engine.world
    queue = world.forest.queues.get(world.queue_of(item.workload))
    ways: list[Way] = []
    if not backoff_over(item.workload, engine.now) and item.workload.requeue_at is not None:
        ways.append(AwaitTime(item.workload.requeue_at))
    if isinstance(why, Unassigned):
        if why.victims:
            return (Fix(*what_helps(why)),)
    elif why is not None:
        ways += [Fix(text) for text in what_helps(why)]
    if isinstance(why, GatedBy | Inactive):
        # No quota would let it start.
        return tuple(ways)
    ranked = sorted({one for each in found for one in each.obstacles}, key=rank)
    short = [one for one in ranked if isinstance(one, Short)]
    if short and queue is not None and not blocked_for_good(found):
        ways.append((yield from awaited(world, queue, nearest_of_each_resource(short), ends)))
    yield
    others = yield from other_queues(world, item)
    ways = [one for one in ways if not (others and one == ELSEWHERE)] + others
    ways += shrinking(item, found)
    ways += [Fix(text) for text in dict.fromkeys(fixes(ranked, pod_sets)) if text]
    if queue is not None and root_of(queue) is not None:
        ways += raising(world, queue, ranked)
    return tuple(ways[:WAYS_MAX])


def blocked_for_good(found: tuple[PodSetObstacles, ...]) -> bool:
    """Whether some pod set has only obstacles that remain when other workloads end."""
    return any(not any(isinstance(one, Short | NotNominated) for one in each.obstacles) for each in found)


def awaited(world: World, queue: QuotaNode, short: list[Short], ends: Ends) -> Generator[None, None, AwaitEnd]:
    """Which workloads have to end before there is enough of what is short."""
    ids = world.forest.flavors.ids
    known = [(one, ids[one.flavor, one.resource]) for one in short if (one.flavor, one.resource) in ids]
    frs = {fr: one.missing for one, fr in known}
    needed = tuple(replace(one, missing=one.missing + overuse(queue, fr)) for one, fr in known)
    users: list[Item] = []
    looked = 0
    for other in neighbours(queue):
        for holder in list(other.holders.values()):
            looked += 1
            if looked % STEP == 0:
                yield
            if not holder.frs.isdisjoint(frs):
                users.append(holder)
    declared = [(end, one.key, one) for one in users if (end := ends(one.workload)) is not None]
    soonest = nsmallest(HOLDERS_MAX, declared)
    holding, undeclared = len(users), len(users) - len(declared)
    if not soonest or not is_consistent(world, queue):
        return AwaitEnd(needed, holding=holding, undeclared=undeclared)
    wanted = {fr: max(0, available(queue, fr)) + missing for fr, missing in frs.items()}
    named: list[str] = []
    snapshot = Snapshot(world.forest)
    # No step ends inside: the bookings are on the live tree.
    with snapshot.scratch():
        for end, key, holder in soonest:
            if key not in world.items or holder.queue not in world.forest.queues:
                continue
            if key not in world.forest.queues[holder.queue].holders:
                continue
            snapshot.leave(holder)
            named.append(key)
            if all(available(queue, fr) >= amount for fr, amount in wanted.items()):
                return AwaitEnd(needed, tuple(named), end, holding, undeclared)
    return AwaitEnd(needed, tuple(named[:NAMED_MAX]), None, holding, undeclared)


def other_queues(world: World, item: Item) -> Generator[None, None, list[Way]]:
    """The other LocalQueues of its namespace that have room for a workload now."""
    workload = item.workload
    own = world.queue_of(workload)
    prefix = f"{workload.namespace}/"
    found: list[Way] = []
    tried = 0
    for key, local in list(world.local_queues.items()):
        if not key.startswith(prefix) or key == workload.local_queue or local.queue == own:
            continue
        queue = world.forest.queues.get(local.queue)
        if queue is None or local.stop != "None" or local.terminating:
            continue
        plan = would_fit(world, queue, item)
        if plan is not None:
            flavors = sorted({choice.flavor for part in plan.pod_sets for choice in part.choices.values()})
            name = key.removeprefix(prefix)
            found.append(OtherQueue(name, queue.name, tuple(flavors), len(world.pending[queue.name])))
        tried += 1
        if tried >= QUEUES_MAX or len(found) >= OTHERS_MAX:
            break
        yield
    return found


def shrinking(item: Item, found: tuple[PodSetObstacles, ...]) -> Iterator[Way]:
    """By how much each pod set asks for too much, in the flavor that is nearest."""
    by_name = {pod_set.name: index for index, pod_set in enumerate(item.workload.pod_sets)}
    for each in found:
        index = by_name.get(each.pod_set)
        if index is None:
            continue
        counts, totals = item.shape.counts[index], dict(item.shape.totals[index])
        nearest: dict[str, int] = {}
        for one in each.obstacles:
            if isinstance(one, Short | OverCapacity):
                least = min(excess(one), nearest.get(one.resource, excess(one)))
                nearest[one.resource] = least
        for resource, by in sorted(nearest.items()):
            asked = totals.get(resource, 0)
            if by >= asked:
                continue
            per_pod = asked // counts if counts else 0
            fewer = -(-by // per_pod) if per_pod and counts > 1 else 0
            yield Shrink(each.pod_set, resource, by, asked, fewer if fewer < counts else 0)


def excess(one: Short | OverCapacity) -> int:
    """How much too much was asked for."""
    return one.missing if isinstance(one, Short) else one.earlier + one.request - one.capacity


def overuse(queue: QuotaNode, fr: int) -> int:
    """How much must be given back before anything is free, because a quota was lowered; what is missing excludes it."""
    return 0 if root_of(queue) is None else max(0, -available(queue, fr))


def fixes(ranked: list[Obstacle], pod_sets: tuple[PodSetCause, ...]) -> Iterator[str]:
    """What has to be corrected in the workload or in the flavors."""
    for part in pod_sets:
        for flavor, key, value in part.conflicts:
            yield f"take {key}={value} out of the node selector of pod set {part.name} to use flavor {flavor}"
    contradicted = {flavor for part in pod_sets for flavor, _, _ in part.conflicts}
    for one in ranked:
        if not isinstance(one, Short | OverCapacity | NotNominated) and getattr(one, "flavor", "") not in contradicted:
            yield way(one)


def raising(world: World, queue: QuotaNode, ranked: list[Obstacle]) -> Iterator[Way]:
    """Which limit to raise, for each resource of which there is too little, in the flavor that is nearest."""
    ids = world.forest.flavors.ids
    done: set[str] = set()
    for one in ranked:
        if not isinstance(one, Short | OverCapacity) or one.resource in done:
            continue
        fr = ids.get((one.flavor, one.resource))
        if fr is None:
            continue
        done.add(one.resource)
        by = excess(one) + (overuse(queue, fr) if isinstance(one, Short) else 0)
        yield Raise(limit_to_raise(queue, fr, one), one.flavor, one.resource, by, queue.name)


def limit_to_raise(queue: QuotaNode, fr: int, one: Short | OverCapacity) -> Limit:
    """The limit that decides, if more of it would be enough; else the nominal quota of the queue, which always is."""
    short = isinstance(one, Short)
    node, borrowing = binding(queue, fr) if short else ceiling(queue, fr)
    if borrowing and not lends_enough(queue, node, fr, excess(one), short=short):
        return limit_of((queue, False))
    return limit_of((node, borrowing))


def lends_enough(queue: QuotaNode, limited: QuotaNode, fr: int, by: int, *, short: bool) -> bool:
    """Whether a queue could use this much more if the borrowing limit of a node above it, or its own, were raised."""
    node = queue
    while node is not limited:
        if fr in node.borrow or node.parent is None:
            # Another limit may be in the way.
            return False
        node = node.parent
    if limited.parent is None:
        return False
    if short:
        return available(limited.parent, fr) + local_free(limited, fr) >= max(0, available(limited, fr)) + by
    return potential(limited.parent, fr) + limited.local.get(fr, 0) >= potential(limited, fr) + by
