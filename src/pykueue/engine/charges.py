"""When a workload counts for the past use of its LocalQueue, and when its reservation is charged.

A reservation is charged when it is decided, if past use orders its ClusterQueue or the children of a cohort above it.
The charge settles when the reservation, or without `Options.afs_anchor` the admission, is stored. It is dropped if
neither can happen any more.
"""

from pykueue.engine.items import HOLDING, Item
from pykueue.engine.model import LocalQueue, Options, Workload
from pykueue.engine.pastuse import Charge, Holding, PastUse, read
from pykueue.engine.quota import QuotaNode
from pykueue.engine.world import World


def follow(world: World, item: Item, before: Workload | None) -> None:
    """Count what a workload uses now, and charge its LocalQueue if it has a reservation that it did not have before."""
    past = world.past
    if past is None:
        return
    now, key = item.workload, item.key
    if now.admission is None and key not in past.holdings and key not in past.charges:
        # A pending workload, as most are.
        return
    count(world, past, item)
    if before is now:
        return
    same = before is not None and before.uid == now.uid
    charge = past.charges.get(key)
    if charge is not None and (not same or is_void(charge, now)):
        drop(world, past, key)
    if now.admission is not None and not (same and before is not None and before.admission is not None):
        charge_reservation(world, past, item)
    settle_if_stored(world, item)


def count(world: World, past: PastUse, item: Item) -> None:
    """Count what a workload holds at present for its LocalQueue."""
    if item.place is not HOLDING:
        past.count(item.key, None)
        return
    local_queue, admitted = item.workload.local_queue, item.workload.admitted_at is not None
    known = past.holdings.get(item.key)
    if known is not None and known.held == item.usage:
        if known.local_queue == local_queue and known.admitted == admitted:
            return
        usage = known.usage
    else:
        totals: dict[str, int] = {}
        for fr, amount in item.usage:
            resource = world.forest.flavors.pairs[fr][1]
            totals[resource] = totals.get(resource, 0) + amount
        usage = tuple(totals.items())
    past.count(item.key, Holding(local_queue, usage, admitted, item.usage))


def is_void(charge: Charge, now: Workload) -> bool:
    """Whether a charge cannot settle any more.

    It stays if the workload is evicted before it is admitted: the next reservation replaces it.
    """
    # spec: AFS-4
    if now.finished or now.local_queue != charge.local_queue:
        return True
    return now.admission is None and not (now.active and charge.stored)


def charge_reservation(world: World, past: PastUse, item: Item) -> None:
    """Charge a new reservation.

    One that was not decided here is charged if its charge would not have settled yet: the process that decided it had
    the charge in memory only.
    """
    # spec: AFS-3
    level = item.workload
    assert level.admission is not None, "only a reservation is charged"
    queue = world.forest.queues.get(level.admission.queue)
    if queue is None or not world.counts_past_use(queue) or level.finished:
        return
    if not item.in_flight and (level.admitted_at is not None or world.options.afs_anchor):
        return
    amounts = price(world.options, past, queue, item)
    past.charge(item.key, Charge(level.local_queue, amounts, stored=not item.in_flight))


def price(options: Options, past: PastUse, queue: QuotaNode, item: Item) -> tuple[tuple[str, int], ...]:
    """Return what a reservation of a workload costs in a ClusterQueue, in billionths."""
    totals = tuple(
        (resource, amount)
        for requests in item.shape.totals
        for resource, amount in requests
        if not options.ignore_undeclared or resource in queue.groups
    )
    return past.charge_for(totals)


def settle_if_stored(world: World, item: Item) -> None:
    """Settle the charge of a workload if what it is charged for is stored."""
    # spec: AFS-5
    past = world.past
    charge = None if past is None else past.charges.get(item.key)
    if past is None or charge is None:
        return
    level = item.workload if item.confirmed is None else item.confirmed
    if level.admission is None:
        return
    if not charge.stored:
        past.charges[item.key] = Charge(charge.local_queue, charge.amounts, stored=True)
    if level.admitted_at is None and not world.options.afs_anchor:
        return
    if not level.active or level.finished or level.local_queue != charge.local_queue:
        return
    if not world.counts_past_use(world.forest.queues.get(level.admission.queue)):
        drop(world, past, item.key)
        return
    value = past.value(charge.local_queue)
    past.settle(item.key, world.now)
    if past.value(charge.local_queue) < value:
        world.relist((charge.local_queue,))


def drop(world: World, past: PastUse, workload: str) -> None:
    """Drop the charge of a workload, which moves its LocalQueue forward."""
    charge = past.drop(workload)
    if charge is not None:
        world.relist((charge.local_queue,))


def forget(world: World, key: str) -> None:
    """Forget a workload that was deleted."""
    if world.past is not None:
        world.past.count(key, None)
        drop(world, world.past, key)


def see_local_queue(world: World, local: LocalQueue) -> None:
    """Apply the weight of a LocalQueue, and its stored past use unless this process computes it already."""
    past = world.past
    if past is None:
        return
    known = past.accounts.get(local.key)
    weight = None if known is None else known.weight
    account = past.open(local.key, local.weight)
    if known is None or past.sample_number is None:
        past.seed(account, read(local.consumed), local.last_update)
        if past.sample_number is not None and (account.at is None or account.at > world.now):
            account.at = world.now
    world.relist((local.key,))
    queue = world.forest.queues.get(local.queue)
    if weight != local.weight and queue is not None and queue.past is not None and queue.tree is not None:
        queue.tree.dirty[queue.tree] = None


def see_queue(world: World, name: str) -> None:
    """Let past use order the workloads of a ClusterQueue if it is usage-based, from now on."""
    queue = world.forest.queues[name]
    past = world.past if queue.spec.usage_based else None
    if past is queue.past:
        return
    queue.past = past
    world.pending[name].order_by(past)


def remove_local_queue(world: World, key: str) -> None:
    """Drop the account of a LocalQueue that was deleted."""
    if world.past is not None:
        world.past.close(key)


def take_lead(world: World) -> None:
    """Begin to compute past use: from what is stored, and with a charge for each reservation that has not settled."""
    # spec: AFS-7
    past = world.past
    if past is None:
        return
    past.begin(world.now)
    for item in world.items.values():
        level = item.workload
        if level.admission is not None and level.admitted_at is None and item.key not in past.charges:
            charge_reservation(world, past, item)
