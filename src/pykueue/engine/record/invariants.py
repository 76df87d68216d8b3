"""Invariants of the engine's state. Each rule yields one sentence per violation.

Check them on a leading engine after `decide` and before the next fact, since only `decide` places workloads. The
numbers are recomputed from the specs and the holders, independently of the code that maintains them.
"""

from collections.abc import Callable, Iterator, Mapping

from pykueue.base.units import Instant
from pykueue.engine.decisions import Bypassed, Decision, Wait
from pykueue.engine.engine import Engine
from pykueue.engine.flavors import Planner
from pykueue.engine.forest import Forest, root_of
from pykueue.engine.items import Item, Place
from pykueue.engine.lanes import UsageClass
from pykueue.engine.lifecycle import review
from pykueue.engine.model import Quota, Strategy, Workload
from pykueue.engine.order import victim_key
from pykueue.engine.pending import PendingQueue, ShapeClass, backoff_over
from pykueue.engine.placement import is_admissible
from pykueue.engine.preempt import Search
from pykueue.engine.quota import QuotaNode
from pykueue.engine.releases import released_in
from pykueue.engine.snapshot import Snapshot
from pykueue.engine.world import World, has_failed_check, held

Amounts = dict[int, int]


def broken(engine: Engine) -> Iterator[str]:
    """All violations in an engine's state, one sentence each."""
    rules: tuple[Callable[[Engine], Iterator[str]], ...] = (
        edges,
        tree_numbers,
        holdings,
        places,
        pending_books,
        preemptors,
        memberships,
        readiness,
        past_use,
        releases,
        timers,
    )
    for rule in rules:
        yield from rule(engine)


def at_rest(engine: Engine, now: Instant) -> bool:
    """Whether the engine has nothing left to do at this instant."""
    wake = engine.next_wake()
    return wake is None or wake > now


# The tree.


def edges(engine: Engine) -> Iterator[str]:
    """Nodes have the parents of their specs, and every node without a cycle above it is in the tree of its root."""
    forest = engine.world.forest
    for node in all_nodes(forest):
        wanted = parent_by_spec(node)
        actual = "" if node.parent is None else node.parent.name
        if wanted != actual:
            yield f"{title(node)} has the parent {actual!r}, but its spec names {wanted!r}"
        if node.parent is not None and node not in node.parent.children:
            yield f"{title(node)} is not listed as a child of its cohort {actual}"
        root = root_of(node)
        if root is None:
            if node.tree is not None:
                yield f"{title(node)} is below a cycle of cohorts but belongs to a tree"
        elif node.tree is None or node.tree.root is not root or node.tree not in forest.trees:
            yield f"{title(node)} does not belong to the tree of {title(root)}"
        elif node.is_queue and node not in node.tree.queues:
            yield f"{title(node)} is not listed in its tree"
    for tree in forest.trees:
        for queue in tree.queues:
            if forest.queues.get(queue.name) is not queue:
                yield f"a tree lists {title(queue)}, which no longer exists"
    for name, cohort in forest.cohorts.items():
        if cohort.object is None and not cohort.children:
            yield f"cohort {name} has neither an object nor children but is not removed"


def all_nodes(forest: Forest) -> Iterator[QuotaNode]:
    """Every queue and every cohort."""
    yield from forest.queues.values()
    yield from forest.cohorts.values()


def title(node: QuotaNode) -> str:
    """The name of a node in a sentence."""
    return f"{'queue' if node.is_queue else 'cohort'} {node.name}"


def parent_by_spec(node: QuotaNode) -> str:
    """The cohort that a node's own spec names."""
    if node.is_queue:
        return node.spec.cohort
    return "" if node.object is None else node.object.parent


def quotas_by_spec(node: QuotaNode) -> tuple[Quota, ...]:
    """The quotas that a node's own spec lists."""
    if node.is_queue:
        return node.spec.quotas
    return () if node.object is None else node.object.quotas


class Count:
    """A node's numbers, counted from the specs and holders below it."""

    __slots__ = ("local", "subtree", "usage")

    def __init__(self) -> None:
        self.subtree: Amounts = {}
        self.local: Amounts = {}
        self.usage: Amounts = {}


def counted(node: QuotaNode, world: World, into: dict[QuotaNode, Count]) -> Count:
    """The numbers of a node and, in `into`, of everything below it."""
    flavors = world.forest.flavors
    count = into[node] = Count()
    quotas = quotas_by_spec(node)
    count.subtree = {flavors.id(quota.flavor, quota.resource): quota.nominal for quota in quotas}
    for child in node.children:
        if child.tree is not node.tree:
            # Nested too deep; `edges` checks that.
            continue
        below = counted(child, world, into)
        for fr, owned in below.subtree.items():
            add(count.subtree, fr, owned - below.local.get(fr, 0))
        for fr, used in below.usage.items():
            add(count.usage, fr, max(0, used - below.local.get(fr, 0)))
    for holder in node.holders.values():
        for fr, amount in held(holder.workload, flavors, world.options)[0]:
            add(count.usage, fr, amount)
    for quota in quotas:
        if quota.lending_limit is not None:
            fr = flavors.id(quota.flavor, quota.resource)
            count.local[fr] = max(0, count.subtree.get(fr, 0) - quota.lending_limit)
    return count


def add(amounts: Amounts, fr: int, amount: int) -> None:
    """Add an amount."""
    amounts[fr] = amounts.get(fr, 0) + amount


def tree_numbers(engine: Engine) -> Iterator[str]:
    """Usage, subtree quota and guaranteed quota equal the sums over specs and holders."""
    world = engine.world
    for tree in world.forest.trees:
        counts: dict[QuotaNode, Count] = {}
        counted(tree.root, world, counts)
        for node, count in counts.items():
            for what, kept, wanted in (
                ("usage", node.usage, count.usage),
                ("subtree quota", node.subtree, count.subtree),
                ("guaranteed quota", node.local, count.local),
            ):
                yield from unequal(f"{what} of {title(node)}", kept, wanted, world)


def unequal(what: str, kept: Mapping[int, int], wanted: Mapping[int, int], world: World) -> Iterator[str]:
    """The differences between two tables of amounts; a missing amount is 0."""
    for fr in sorted({*kept, *wanted}):
        if kept.get(fr, 0) != wanted.get(fr, 0):
            flavor, resource = world.forest.flavors.pairs[fr]
            yield f"{what} on {flavor}/{resource} is {kept.get(fr, 0)}, expected {wanted.get(fr, 0)}"


def over_quota(engine: Engine) -> Iterator[str]:
    """Every node that exceeds its quota.

    Edits of quotas, parents or reservations by others may cause this; the engine's decisions do not, as long as no
    workload is admitted into quota that is still held.
    """
    for tree in engine.world.forest.trees:
        waiting = [tree.root]
        while waiting:
            node = waiting.pop()
            waiting.extend(child for child in node.children if child.tree is tree)
            for fr, used in node.usage.items():
                limit = 0 if node.parent is None else node.borrow.get(fr)
                if limit is None:
                    continue
                most = max(node.subtree.get(fr, 0) + limit, node.local.get(fr, 0))
                if used > most:
                    flavor, resource = engine.world.forest.flavors.pairs[fr]
                    yield f"{title(node)} uses {used} of {flavor}/{resource} but may use only {most}"


# Workloads and their places.


def holdings(engine: Engine) -> Iterator[str]:
    """Every holder is known and in one queue, and its usage equals that of its reservation."""
    world = engine.world
    homes: dict[str, str] = {}
    for name, queue in world.forest.queues.items():
        for key, item in queue.holders.items():
            if key in homes:
                yield f"{key} holds quota in queue {name} and in queue {homes[key]}"
            homes[key] = name
            if world.items.get(key) is not item:
                yield f"{key} holds quota in queue {name} but is not a known workload"
            elif item.place is not Place.HOLDING or item.queue != name:
                yield f"{key} holds quota in queue {name}, but its place is {item.place.name} in {item.queue!r}"
            elif (item.usage, item.frs) != held(item.workload, world.forest.flavors, world.options):
                yield f"{key} has another usage booked than its reservation"
        if queue.lowest is not None and queue.lowest != min((h.priority for h in queue.holders.values()), default=None):
            yield f"queue {name} has the wrong lowest priority of its holders"
        if queue.ranking is not None and queue.ranking != in_candidate_order(queue, world.now):
            yield f"queue {name} has its holders in the wrong order for preemption"
    for key, item in world.items.items():
        if item.place is Place.HOLDING and homes.get(key) != item.queue:
            yield f"{key} is HOLDING in queue {item.queue}, which does not list it as a holder"


def in_candidate_order(queue: QuotaNode, now: Instant) -> list[Item]:
    """The holders of a queue as a preemptor of another queue goes through them."""
    return sorted(queue.holders.values(), key=lambda holder: victim_key(holder, own_queue="", entitled=False, now=now))


def places(engine: Engine) -> Iterator[str]:
    """Every workload is in the place that its level requires, unless its review is due."""
    world = engine.world
    for key, item in world.items.items():
        if key in engine.world.touched:
            continue
        wanted, queue = place_by_level(item.workload, world)
        actual = Place.QUEUED if item.place is Place.PARKED else item.place
        if (actual, item.queue) != (wanted, queue):
            yield f"{key} is {item.place.name} in {item.queue!r} but should be {wanted.name} in {queue!r}"
        if item.shape is not world.shape(item.workload) or item.priority != item.shape.priority:
            yield f"{key} has the wrong shape or priority"


def place_by_level(workload: Workload, world: World) -> tuple[Place, str]:
    """The place and queue that a workload's level requires; QUEUED stands for PARKED too."""
    reservation = workload.admission
    if workload.finished or not workload.active:
        return Place.IDLE, ""
    if reservation is not None:
        return (Place.HOLDING, reservation.queue) if reservation.queue in world.forest.queues else (Place.IDLE, "")
    queue = world.queue_of(workload)
    if is_admissible(world, workload) and queue in world.forest.queues:
        return Place.QUEUED, queue
    return Place.IDLE, ""


def pending_books(engine: Engine) -> Iterator[str]:
    """Each queue lists each of its pending workloads once, counts them correctly, and has the right head."""
    world = engine.world
    listed: dict[str, str] = {}
    if world.pending.keys() != world.forest.queues.keys():
        yield "the queues with pending workloads are not the queues that exist"
    for name, pending in world.pending.items():
        for item, _ in pending:
            if item.key in listed:
                yield f"{item.key} is listed in queue {name} and in queue {listed[item.key]}"
            listed[item.key] = name
            if world.items.get(item.key) is not item or item.queue != name:
                yield f"queue {name} lists {item.key}, which is not pending there"
        for key, item in pending.parked.items():
            if item.place is not Place.PARKED or item.entry or item.key != key:
                yield f"{key} is parked in queue {name}, but its place is {item.place.name}"
        for group_key, group in pending.classes.items():
            yield from class_books(f"a class of queue {name}", group_key, group, pending)
        first = min(candidates(pending), key=pending.key, default=None)
        head = pending.head()
        if head is not first and not (pending.sticky and head is pending.preemptor):
            yield f"queue {name} has the head {called(head)}, but first in its order is {called(first)}"
    for key, item in world.items.items():
        if item.place in (Place.QUEUED, Place.PARKED) and listed.get(key) != item.queue:
            yield f"{key} is {item.place.name} in queue {item.queue}, which does not list it"


def class_books(what: str, key: object, group: ShapeClass | UsageClass, pending: PendingQueue) -> Iterator[str]:
    """A class counts its members correctly, and lists only members of its own."""
    members = [item for _, entry, item in group.entries() if item.entry == entry]
    if group.size != len(members):
        yield f"{what} counts {group.size} members but has {len(members)}"
    if not members and group.parked is None:
        yield f"{what} is empty and not parked, but not removed"
    for item in members:
        if item.place is not Place.QUEUED or item.group != key:
            yield f"{what} lists {item.key}, which is in another class or place"
        if pending.options.equivalence and item.group is not item.shape:
            yield f"{what} holds {item.key}, which has another shape"
    if group.parked is not None and pending.strategy is Strategy.STRICT:
        yield f"{what} is parked in a strict queue"


def candidates(pending: PendingQueue) -> list[Item]:
    """The pending workloads that are not parked."""
    return [item for item, parked in pending if not parked]


def called(item: Item | None) -> str:
    """The key of a workload, or `none`."""
    return "none" if item is None else item.key


def preemptors(engine: Engine) -> Iterator[str]:
    """A queue's preemptor is pending there, and only a preemptor has a claim."""
    world = engine.world
    for name, pending in world.pending.items():
        item = pending.preemptor
        if item is not None and (item.queue != name or item.place not in (Place.QUEUED, Place.PARKED)):
            yield f"the preemptor of queue {name}, {item.key}, is not pending there"
        if pending.sticky and item is None:
            yield f"queue {name} has a sticky preemptor but no preemptor"
    for key, item in world.items.items():
        if item.claim is None:
            continue
        queue = world.pending.get(item.queue)
        if queue is None or queue.preemptor is not item:
            yield f"{key} has a claim but is not the preemptor of its queue"


def memberships(engine: Engine) -> Iterator[str]:
    """Each LocalQueue lists exactly the workloads that name it."""
    world = engine.world
    listed = {(local, key) for local, members in world.members.items() for key in members}
    wanted = {(item.workload.local_queue, key) for key, item in world.items.items()}
    for local, key in sorted(listed - wanted):
        yield f"LocalQueue {local} lists {key}, which does not name it"
    for local, key in sorted(wanted - listed):
        yield f"LocalQueue {local} does not list {key}, which names it"


def readiness(engine: Engine) -> Iterator[str]:
    """If unready pods block admission, exactly the holders with unready pods are listed."""
    world = engine.world
    options = world.options.pods_ready
    wanted: set[str] = set()
    if options is not None and options.block_admission:
        wanted = {
            key
            for key, item in world.items.items()
            if item.place is Place.HOLDING and not world.is_ready(item.workload)
        }
    for key in sorted(wanted - world.not_ready.keys()):
        yield f"{key} has unready pods but is not listed as such"
    for key in sorted(world.not_ready.keys() - wanted):
        yield f"{key} is listed as having unready pods but has none"


def past_use(engine: Engine) -> Iterator[str]:
    """Each LocalQueue has an account, which sums up its charges, and all that its workloads hold is counted."""
    past, world = engine.world.past, engine.world
    if past is None:
        return
    if past.accounts.keys() != world.local_queues.keys():
        yield "the LocalQueues with past use are not the LocalQueues that exist"
    pending: dict[str, dict[str, int]] = {}
    for key, charge in past.charges.items():
        if key not in world.items:
            yield f"{key} has a charge but is not a known workload"
        for resource, amount in charge.amounts:
            of_queue = pending.setdefault(charge.local_queue, {})
            of_queue[resource] = of_queue.get(resource, 0) + amount
    for key, account in past.accounts.items():
        if account.pending != pending.get(key, {}):
            yield f"LocalQueue {key} does not sum up its charges"
    holders = [item for item in world.items.values() if item.place is Place.HOLDING]
    if past.holdings.keys() != {item.key for item in holders}:
        yield "the workloads that count for past use are not the holders of quota"
    for item in holders:
        known, level = past.holdings.get(item.key), item.workload
        counted = None if known is None else (known.held, known.local_queue, known.admitted)
        if counted != (item.usage, level.local_queue, level.admitted_at is not None):
            yield f"{item.key} counts for past use with another level than its own"


def releases(engine: Engine) -> Iterator[str]:
    """The unconfirmed releases are exactly those of the unconfirmed decisions."""
    world = engine.world
    listed = {(queue, key) for queue, keys in world.releasing.items() for key in keys}
    wanted = {(queue, key) for key, item in world.items.items() for queue in released_in(item)}
    for queue, key in sorted(listed ^ wanted):
        yield f"{key} is {'not ' if (queue, key) in wanted else ''}recorded as releasing quota of queue {queue}"


def timers(engine: Engine) -> Iterator[str]:
    """No decision is overdue, and every future one has a timer."""
    if not (engine.synced and engine.leading):
        return
    running = set(engine.world.timers)
    for key, item in engine.world.items.items():
        if key in engine.world.touched:
            continue
        found = review(item, engine.world, engine.world.now)
        if found.decision is not None and not shares_a_verdict(found.decision):
            yield f"{key} has an overdue decision: {found.decision}"
        if found.look_again is None:
            continue
        if item.timer is None or item.timer > found.look_again or (item.timer, key) not in running:
            yield f"{key} is due for review at {found.look_again}, but its timer is {item.timer}"


def shares_a_verdict(decision: Decision) -> bool:
    """Whether a decision only reports that a workload's class was evaluated; it may wait for the next review."""
    return isinstance(decision, Wait) and isinstance(decision.why, Bypassed)


# Workloads that wait without reason.


def overlooked(engine: Engine) -> Iterator[str]:
    """Every parked workload that fits now; meaningful while the engine has nothing to do.

    Trees with a claim are skipped, since the claimed quota is not available to others, and so are workloads that
    stepped aside for the head of a StrictFIFO queue.
    """
    world = engine.world
    claims = {item.queue for item in world.items.values() if item.claim is not None}
    for name, pending in world.pending.items():
        queue = world.forest.queues[name]
        if not world.can_admit(queue) or queue.tree is None:
            continue
        if world.options.reserve_for_preemptor and not claims.isdisjoint(q.name for q in queue.tree.queues):
            continue
        for item, parked in pending:
            waits = parked and item.key not in pending.aside and may_be_tried(item, queue, engine)
            if waits and fits_from_the_start(item, queue, engine):
                yield f"{item.key} is parked in queue {name} but fits now"


def may_be_tried(item: Item, queue: QuotaNode, engine: Engine) -> bool:
    """Whether only a lack of quota can keep a pending workload from being admitted."""
    workload, world = item.workload, engine.world
    return (
        backoff_over(workload, engine.world.now)
        and world.serves(queue, workload.namespace)
        and not has_failed_check(workload)
        and not (workload.problem or workload.unbuilt)
        and not world.blocked_by(item)
    )


def fits_from_the_start(item: Item, queue: QuotaNode, engine: Engine) -> bool:
    """Whether all pods of a workload fit without preemption, scanning from the first flavor."""
    world = engine.world
    bookmark, item.bookmark = item.bookmark, None
    try:
        search = Search(Snapshot(world.forest), queue, item, engine.world.now, world.options)
        planner = Planner(queue, item, world.flavors, world.epoch, search, world.options)
        return planner.plan(item.shape.counts).fits
    finally:
        item.bookmark = bookmark
