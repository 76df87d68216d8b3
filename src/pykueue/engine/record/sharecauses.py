"""Explain a pending workload by shares: who goes before it under fair sharing, and in which queues it may not preempt.

Everything is asked of the search for victims and of the order of heads themselves; nothing is decided again.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from pykueue.engine.engine import Engine
from pykueue.engine.entries import Entry, TreeCycle
from pykueue.engine.fairsearch import FairSearch, allows
from pykueue.engine.flavors import FlavorPlan
from pykueue.engine.items import Item
from pykueue.engine.model import ShareStrategy
from pykueue.engine.pastuse import sum_of
from pykueue.engine.pending import PendingQueue
from pykueue.engine.quota import QuotaNode, Usage, available, usage_of, within_nominal
from pykueue.engine.record.causes import (
    BorrowLead,
    Earlier,
    Precedence,
    Protected,
    ShareCause,
    ShareRow,
    UseLead,
)
from pykueue.engine.record.leads import past_use_lead, share_lead
from pykueue.engine.record.rooms import is_consistent, neighbours, planner, requests_of
from pykueue.engine.shares import Share, share, share_with, share_without, sides
from pykueue.engine.snapshot import Snapshot
from pykueue.engine.tournament import fair_key
from pykueue.engine.treeuse import TreeUse
from pykueue.engine.world import World

ROWS_MAX: Final = 4
"""How many queues are named in each list."""
QUEUES_MAX: Final = 64
"""How many queues of a tree are looked at."""
CANDIDATES_MAX: Final = 16
"""How many candidates of a queue are looked at."""
PRECEDENCE: Final = (
    Precedence.CLAIM,
    Precedence.WITHIN_QUOTA,
    Precedence.PAST_USE,
    Precedence.SHARE,
    Precedence.ORDER,
)
"""What the parts of `FairKey` mean, in order; the last is that of all the rest."""


def shares_of(engine: Engine, queue: QuotaNode | None, item: Item) -> ShareCause | None:
    """Explain a pending workload by shares; None without fair sharing, and for a queue that is in no cohort."""
    world = engine.world
    if queue is None or not world.options.fair_sharing or queue.parent is None or not is_consistent(world, queue):
        return None
    usage = usage_of(wanted(world, queue, item))
    return ShareCause(
        row(queue, share(queue), TreeUse(world)),
        share_with(queue, queue, usage).value,
        tuple(islice(earlier(world, queue, item, usage), ROWS_MAX)),
        tuple(islice(protected(world, queue, item, usage), ROWS_MAX)),
    )


def row(node: QuotaNode, found: Share, use: TreeUse | None = None) -> ShareRow:
    """A node and its share, and its past use if that orders it among its siblings."""
    kind = "ClusterQueue" if node.is_queue else "Cohort"
    past_use = None if use is None or use.orders(node) is None else use.place(node)
    return ShareRow(kind, node.name, found.value, node.weight, past_use)


def wanted(world: World, queue: QuotaNode, item: Item) -> dict[int, int]:
    """What a workload would use: in the flavors of its plan, or in the first flavor where it has none."""
    plan = planner(world, queue, item).plan(item.shape.counts)
    found: dict[int, int] = {}
    for index in range(len(item.shape.counts)):
        choices = plan.pod_sets[index].choices if index < len(plan.pod_sets) else {}
        for resource, asked in requests_of(queue, item, index):
            group = queue.groups.get(resource)
            if group is None:
                continue
            chosen = choices.get(resource)
            number = 0 if chosen is None else group.flavors.index(chosen.flavor)
            fr = group.frs[number][resource]
            found[fr] = found.get(fr, 0) + asked
    return found


def earlier(world: World, queue: QuotaNode, item: Item, usage: Usage) -> Iterator[Earlier]:
    """The other queues whose next workload goes before this one, if this one is the next of its queue."""
    mine_entry, use = head(world, queue, item, dict(usage)), TreeUse(world)
    for other in islice(neighbours(queue), QUEUES_MAX):
        first = next_of(world.pending[other.name]) if other is not queue and world.can_admit(other) else None
        if first is None:
            continue
        entry = head(world, other, first, wanted(world, other, first))
        mine, theirs = sides(queue, other)
        first_key, my_key = (
            fair_key(one, side, use.place(side), promised=one.item.claim is not None, options=world.options)
            for one, side in ((entry, theirs), (mine_entry, mine))
        )
        if first_key < my_key:
            differs = next(
                number for number, (one, two) in enumerate(zip(first_key, my_key, strict=True)) if one != two
            )
            why = PRECEDENCE[min(differs, len(PRECEDENCE) - 1)]
            shares = share_with(theirs, other, entry.usage()), share_with(mine, queue, usage)
            yield Earlier(
                other.name,
                row(theirs, shares[0], use),
                row(mine, shares[1], use),
                why,
                lead(why, use, (theirs, shares[0]), (mine, shares[1])),
            )


def lead(
    why: Precedence, use: TreeUse, first: tuple[QuotaNode, Share], own: tuple[QuotaNode, Share]
) -> BorrowLead | UseLead | None:
    """How much the side that goes first can borrow or use until the other does."""
    (theirs, their_share), (mine, my_share) = first, own
    past = use.orders(theirs)
    if why is Precedence.SHARE and past is None:
        return share_lead(theirs, their_share, my_share)
    if why is not Precedence.PAST_USE or past is None:
        return None
    used = sum_of((use.total(past, theirs), use.total(past, mine)))
    return past_use_lead(past, use.place(theirs), use.place(mine), theirs.weight, used)


def next_of(pending: PendingQueue) -> Item | None:
    """The head of a queue; if nothing in it fits now, the first workload that is tried when quota is released."""
    found = pending.head()
    if found is not None:
        return found
    firsts = [first for group in pending.classes.values() if (first := group.first()) is not None]
    return min(firsts, key=lambda one: one[:2])[2] if firsts else None


def head(world: World, queue: QuotaNode, item: Item, usage: dict[int, int]) -> Entry:
    """A workload as the head of its queue that would use this much."""
    assert queue.tree is not None, "the tree is computed"
    entry = Entry(item, queue, TreeCycle(queue.tree, world.forest))
    entry.plan = FlavorPlan()
    entry.plan.usage = usage
    return entry


def protected(world: World, queue: QuotaNode, item: Item, usage: Usage) -> Iterator[Protected]:
    """The queues with candidates in which no strategy lets this workload preempt any."""
    frs = frozenset(fr for fr, amount in usage if amount > available(queue, fr))
    snapshot = Snapshot(world.forest)
    search = FairSearch(snapshot, queue, Item(item.workload, item.shape, item.stamp), world.now, world.options)
    found: list[Protected] = []
    if not frs:
        return
    with snapshot.scratch():
        lines = search.lines(frs)
        snapshot.book(queue, usage)
        if world.options.fair_within_nominal and within_nominal(queue, frs):
            # Shares do not matter then.
            return
        for line in islice(lines, QUEUES_MAX):
            if line.queue is queue or line.first is None:
                continue
            candidates = [line.first, *islice(line.rest, CANDIDATES_MAX - 1)]
            mine, theirs = sides(queue, line.queue)
            own, initial = share(mine), share(theirs)
            finals = [share_without(theirs, line.queue, one.usage) for one in candidates]
            final = max(finals, key=lambda one: one.standing)
            if not passes(world.options.fair_sharing, own, initial, final):
                found.append(Protected(line.queue.name, row(mine, own), row(theirs, initial), final.value))
    yield from found


def passes(strategies: tuple[ShareStrategy, ...], own: Share, initial: Share, final: Share) -> bool:
    """Whether some strategy lets a preemptor with this share take from a side with these shares."""
    return any(allows(strategy, own, initial, lambda: final) for strategy in strategies)
