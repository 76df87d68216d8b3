"""Explain a queue from the state of the engine: who holds its quota, who borrows it, what a newcomer would meet."""

from collections.abc import Generator, Iterable
from heapq import nlargest
from typing import Final

from msgspec.structs import replace

from pykueue.base.units import counts_in_milli
from pykueue.engine import shares
from pykueue.engine.engine import Engine
from pykueue.engine.items import Item
from pykueue.engine.lifecycle import run_end
from pykueue.engine.model import StopPolicy
from pykueue.engine.pending import PENDING
from pykueue.engine.quota import QuotaNode
from pykueue.engine.record.causes import Ends, Holder, Neighbour, NewcomerCause, QueueCauses, ShareRow
from pykueue.engine.record.pastusecauses import past_use_in
from pykueue.engine.record.rooms import is_consistent, neighbours, newcomer, rooms_of
from pykueue.engine.record.sharecauses import row
from pykueue.engine.record.tally import cohorts_above, inactive_because
from pykueue.engine.treeuse import TreeUse
from pykueue.engine.world import World

HOLDERS_MAX: Final = 8
NEIGHBOURS_MAX: Final = 8
FIRST_MAX: Final = 5
NEWCOMERS_MAX: Final = 4
STEP: Final = 2_000


def of_local_queue(engine: Engine, key: str, ends: Ends = run_end) -> Generator[None, None, QueueCauses | None]:
    """Explain a LocalQueue and its ClusterQueue; None if there is no such LocalQueue."""
    local = engine.local_queue(key)
    if local is None:
        return None
    obstacle = ""
    if local.terminating:
        obstacle = f"LocalQueue {key.partition('/')[2]} is being deleted"
    elif local.stop is not StopPolicy.NONE:
        obstacle = f"LocalQueue {key.partition('/')[2]} is stopped ({local.stop})"
    found = yield from of_queue(engine, local.queue, key, ends)
    if found is None:
        return QueueCauses(local.queue, key, f"there is no ClusterQueue {local.queue}")
    return replace(found, obstacle=obstacle) if obstacle else found


def of_queue(
    engine: Engine, name: str, local_queue: str = "", ends: Ends = run_end
) -> Generator[None, None, QueueCauses | None]:
    """Explain a ClusterQueue, and the part of a LocalQueue in it; None if there is none. Yields between short steps."""
    world = engine.world
    queue = world.forest.queues.get(name)
    if queue is None:
        return None
    spec, line = queue.spec, world.pending[name]
    # Read before the first step ends: during a later one the queue may be deleted.
    obstacle = ", ".join(text for _, text in inactive_because(engine, name))
    cohorts = cohorts_above(engine, name)
    rooms = tuple(rooms_of(queue)) if is_consistent(world, queue) else ()
    share, siblings = shares_beside(engine, queue)
    everyone = list(queue.holders.values())
    own_holding = sum(one.workload.local_queue == local_queue for one in everyone) if local_queue else 0
    largest = yield from most_of(everyone, queue)
    borrowers, lenders = others(world, queue)
    yield
    ahead = yield from line.ahead(None, FIRST_MAX)
    own_pending = 0
    if local_queue:
        own_pending = yield from pending_of(engine, name, local_queue)
    past_use = yield from past_use_in(engine, name, local_queue)
    met = yield from newcomers(world, queue)
    return QueueCauses(
        name,
        local_queue,
        obstacle,
        spec.strategy,
        cohorts,
        rooms,
        len(everyone),
        tuple(holder_of(world, one, ends) for one in largest),
        borrowers,
        lenders,
        ahead.count,
        ahead.parked,
        tuple(one.key for one in ahead.first),
        own_pending,
        own_holding,
        met,
        share,
        siblings,
        past_use,
    )


def shares_beside(engine: Engine, queue: QuotaNode) -> tuple[ShareRow | None, tuple[ShareRow, ...]]:
    """The share of a queue, and the largest ones of the other children of its cohort; none without fair sharing."""
    if not engine.options.fair_sharing or queue.parent is None or not is_consistent(engine.world, queue):
        return None, ()
    use = TreeUse(engine.world)
    beside = [row(child, shares.share(child), use) for child in queue.parent.children if child is not queue]
    beside.sort(key=lambda one: (one.past_use or 0.0, -one.share, one.name))
    return row(queue, shares.share(queue), use), tuple(beside[:NEIGHBOURS_MAX])


def most_of(everyone: list[Item], queue: QuotaNode) -> Generator[None, None, list[Item]]:
    """The workloads that hold the largest parts of what a queue owns."""
    found: list[tuple[float, str, Item]] = []
    for start in range(0, len(everyone), STEP):
        part = [(share(one, queue), one.key, one) for one in everyone[start : start + STEP]]
        found = nlargest(HOLDERS_MAX, found + part)
        yield
    return [one for _, _, one in found]


def share(item: Item, queue: QuotaNode) -> float:
    """The largest part that a workload holds of what a queue owns of anything."""
    return max((amount / max(1, queue.subtree.get(fr, 0)) for fr, amount in item.usage), default=0.0)


def holder_of(world: World, item: Item, ends: Ends) -> Holder:
    """A workload and what it holds."""
    pairs, workload = world.forest.flavors.pairs, item.workload
    return Holder(
        item.key,
        item.queue,
        tuple((*pairs[fr], amount) for fr, amount in item.usage if amount),
        workload.reserved_at if workload.admitted_at is None else workload.admitted_at,
        ends(workload),
        workload.evicted is not None,
    )


def others(world: World, queue: QuotaNode) -> tuple[tuple[Neighbour, ...], tuple[Neighbour, ...]]:
    """The queues beside this one that use more than their own of what it has, and those that use less."""
    pairs = world.forest.flavors.pairs
    frs = [fr for group in dict.fromkeys(queue.groups.values()) for each in group.frs for fr in each.values()]
    over: list[Neighbour] = []
    under: list[Neighbour] = []
    borrowed = {fr for fr in frs if queue.usage.get(fr, 0) > queue.nominal.get(fr, 0)}
    for other in neighbours(queue):
        if other is queue:
            continue
        for fr in frs:
            beyond = other.usage.get(fr, 0) - other.nominal.get(fr, 0)
            if beyond > 0:
                over.append(Neighbour(other.name, *pairs[fr], beyond))
            elif beyond < 0 and fr in borrowed:
                under.append(Neighbour(other.name, *pairs[fr], -beyond))
    return largest(over), largest(under)


def largest(found: Iterable[Neighbour]) -> tuple[Neighbour, ...]:
    """Those with the largest amounts."""
    return tuple(sorted(found, key=lambda one: (-one.amount, one.queue, one.flavor, one.resource))[:NEIGHBOURS_MAX])


def pending_of(engine: Engine, queue: str, local_queue: str) -> Generator[None, None, int]:
    """How many pending workloads of a ClusterQueue are of a LocalQueue."""
    found = 0
    for number, key in enumerate(list(engine.workloads_of(local_queue))):
        item = engine.item(key)
        found += item is not None and item.queue == queue and item.place in PENDING
        if number % STEP == STEP - 1:
            yield
    return found


def newcomers(world: World, queue: QuotaNode) -> Generator[None, None, tuple[NewcomerCause, ...]]:
    """What one cpu, and one of each kind of GPU, would meet; each is a step of its own."""
    asked = [name for name in queue.groups if name == "cpu" or "gpu" in name.lower()]
    found: list[NewcomerCause] = []
    for resource in sorted(asked)[:NEWCOMERS_MAX]:
        yield
        # The queue may have changed in the meantime, or be deleted.
        exists = world.forest.queues.get(queue.name) is queue and resource in queue.groups
        if not exists or not world.can_admit(queue) or not is_consistent(world, queue):
            return ()
        found.append(newcomer_of(world, queue, resource))
    return tuple(found)


def newcomer_of(world: World, queue: QuotaNode, resource: str) -> NewcomerCause:
    """What one unit of a resource would meet."""
    amount = 1_000 if counts_in_milli(resource) else 1
    plan, selection = newcomer(world, queue, resource, amount)
    victims = () if selection is None else selection.victims
    if any(one.item.workload.evicted is not None for one in victims):
        # Their room is being made for another workload.
        victims = ()
    (part,) = plan.pod_sets
    chosen = part.choices.get(resource)
    flavor = "" if chosen is None else chosen.flavor
    obstacles, borrows = tuple(part.obstacles), plan.borrowing > 0
    return NewcomerCause(resource, amount, plan.fits, flavor, borrows, obstacles, len(victims), selection is None)
