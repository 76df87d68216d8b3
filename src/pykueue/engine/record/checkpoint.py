"""The complete state of an engine as plain data, from which `restore` builds an equal engine.

Most of it could be observed again as facts. The rest could not: parked workloads, positions of flavor scans, claims of
preemptors, and decisions that are assumed but not confirmed.

Taking a checkpoint is quick, so that it can be taken between two events. Writing it takes longer: `parts` divides it.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from msgspec import field
from msgspec.structs import replace

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.charges import count
from pykueue.engine.decisions import WaitReason, Why
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen
from pykueue.engine.forest import Tree
from pykueue.engine.items import Bookmark, Claim, Item, Place, Shape, Tried
from pykueue.engine.learn import see, slot_of
from pykueue.engine.model import Options, PodSet, Thing, Workload
from pykueue.engine.order import queue_stamp
from pykueue.engine.pastuse import Charge, PastUse, Stored, read, stored
from pykueue.engine.quota import QuotaNode
from pykueue.engine.releases import note_releases
from pykueue.engine.world import World, held

PART: Final = 500
"""Workloads or other objects in a part of a checkpoint; writing one takes a few milliseconds."""
LENGTH_BYTES: Final = 8
"""Bytes of the length before each part, where parts are sent."""


class RememberedClaim(Frozen):
    """A preemptor's room, by flavor and resource, and its victims."""

    usage: tuple[tuple[str, str, int], ...]
    victims: tuple[str, ...]
    counts: tuple[int, ...]
    start: Bookmark | None = None


class RememberedItem(Frozen):
    """A workload and its state in the engine."""

    workload: Workload
    version: int
    place: Place
    queue: str
    entry: int
    settled: Workload | None = None
    confirmed: Workload | None = None
    in_flight: tuple[Workload, ...] = field(default=(), name="flying")
    buffered: tuple[Workload, int] | None = None
    bookmark: Bookmark | None = None
    claim: RememberedClaim | None = None
    resting: bool = False
    seen_at: int = -1
    starts: tuple[Tried | None, ...] = ()
    timer: Instant | None = None
    reported: Why | None = field(default=None, name="told")
    stopped: bool = False
    was_stopped: bool = False


class RememberedQueue(Frozen):
    """A ClusterQueue's order, beyond its spec and its workloads."""

    name: str
    active: bool
    generation: int
    preemptor: str
    preemptor_generation: int
    sticky: bool
    aside: tuple[tuple[str, int], ...]
    parked: tuple[tuple[tuple[PodSet, ...], int, WaitReason, Why | None], ...]
    """The parked classes, by pod sets and priority, and their verdicts; a class may have lost all its members."""


class RememberedTree(Frozen):
    """The counters of a tree, and its heads."""

    root: str
    is_queue: bool
    version: int
    news: int
    cycle: int
    dirty: bool = field(name="restless")
    strict_heads: tuple[str, ...]
    heads: tuple[str, ...]


class RememberedPastUse(Frozen):
    """The past use of LocalQueues, and the charges that have not settled."""

    sample_number: int | None
    accounts: tuple[tuple[str, Stored, Instant | None], ...]
    charges: tuple[tuple[str, str, Stored, bool], ...]
    """The workload, its LocalQueue, the amounts, and whether the reservation was stored."""


class Checkpoint(Frozen, tag=True):
    """The state of an engine between two calls."""

    options: Options
    synced: bool
    leading: bool
    now: Instant
    evaluations: int
    epoch: int
    entries: int
    facts: tuple[Seen, ...]
    items: tuple[RememberedItem, ...]
    queues: tuple[RememberedQueue, ...]
    trees: tuple[RememberedTree, ...]
    timers: tuple[tuple[Instant, str], ...]
    touched: tuple[str, ...]
    to_flush: tuple[str, ...]
    to_recheck: tuple[str, ...]
    not_ready: tuple[str, ...]
    without_queue: tuple[str, ...] = field(name="homeless")
    past: RememberedPastUse | None = None


class Part(Frozen):
    """Some of what a checkpoint lists."""

    facts: tuple[Seen, ...] = ()
    items: tuple[RememberedItem, ...] = ()
    queues: tuple[RememberedQueue, ...] = ()


def parts(saved: Checkpoint) -> tuple[Checkpoint, Iterator[Part]]:
    """Divide a checkpoint into one without facts, workloads and queues, and parts of those; see `joined`."""

    def rest() -> Iterator[Part]:
        for start in range(0, len(saved.facts), PART):
            yield Part(facts=saved.facts[start : start + PART])
        for start in range(0, len(saved.items), PART):
            yield Part(items=saved.items[start : start + PART])
        for start in range(0, len(saved.queues), PART):
            yield Part(queues=saved.queues[start : start + PART])

    return replace(saved, facts=(), items=(), queues=()), rest()


def joined(saved: Checkpoint, rest: Iterable[Part]) -> Checkpoint:
    """The checkpoint that `parts` has divided."""
    found = tuple(rest)
    return replace(
        saved,
        facts=tuple(one for part in found for one in part.facts),
        items=tuple(one for part in found for one in part.items),
        queues=tuple(one for part in found for one in part.queues),
    )


def checkpoint(engine: Engine) -> Checkpoint:
    """The engine's state. Pending edits of the trees are applied first, so that a restored engine equals this one."""
    engine.refresh()
    world = engine.world
    forest = world.forest
    cohorts = [node.object for node in forest.cohorts.values() if node.object is not None]
    queues = [node.spec for node in forest.queues.values()]
    things: list[Thing] = [
        *world.flavors.values(),
        *cohorts,
        *queues,
        *world.namespaces.values(),
        *world.checks.values(),
        *world.local_queues.values(),
    ]
    return Checkpoint(
        world.options,
        engine.synced,
        engine.leading,
        world.now,
        engine.evaluations,
        world.epoch,
        world.numbers.last,
        tuple(Seen(thing, world.versions.get(slot_of(thing), 0)) for thing in things),
        remembered_items(world),
        tuple(remembered_queue(node, engine) for node in forest.queues.values()),
        tuple(
            RememberedTree(
                t.root.name,
                t.root.is_queue,
                t.version,
                t.news,
                t.cycle,
                t.is_dirty(),
                tuple(t.strict_heads),
                tuple(t.heads),
            )
            for t in forest.trees
        ),
        tuple(world.timers),
        tuple(world.touched),
        tuple(world.to_flush),
        tuple(world.to_recheck),
        tuple(world.not_ready),
        tuple(world.without_queue),
        None if world.past is None else remembered_past_use(world.past),
    )


def remembered_past_use(past: PastUse) -> RememberedPastUse:
    """Past use as data."""
    accounts = past.accounts.items()
    return RememberedPastUse(
        past.sample_number,
        tuple((key, stored(sorted(account.consumed.items())), account.at) for key, account in accounts),
        tuple((key, one.local_queue, stored(one.amounts), one.stored) for key, one in past.charges.items()),
    )


def remembered_items(world: World) -> tuple[RememberedItem, ...]:
    """All workloads as data. This is one expression because it is done for all of them in one go."""
    pairs = world.forest.flavors.pairs
    resting: set[str] = set().union(*(pending.resting for pending in world.pending.values()))
    return tuple(
        [
            RememberedItem(
                item.workload,
                item.version,
                item.place,
                item.queue,
                item.entry,
                item.settled,
                item.confirmed,
                item.in_flight,
                item.buffered,
                item.bookmark,
                None if item.claim is None else remembered_claim(item.claim, pairs),
                item.key in resting,
                item.seen_at,
                item.starts,
                item.timer,
                item.reported,
                item.stopped,
                item.was_stopped,
            )
            for item in world.items.values()
        ]
    )


def remembered_claim(claim: Claim, pairs: Sequence[tuple[str, str]]) -> RememberedClaim:
    """The claim of a preemptor as data."""
    usage = tuple((*pairs[fr], amount) for fr, amount in claim.usage)
    return RememberedClaim(usage, tuple(victim.key for victim in claim.victims), claim.counts, claim.start)


def remembered_queue(node: QuotaNode, engine: Engine) -> RememberedQueue:
    """A queue's order as data."""
    pending = engine.world.pending[node.name]
    shapes = [shape for shape, group in pending.classes.items() if group.parked and isinstance(shape, Shape)]
    parked = []
    for shape in sorted(shapes, key=attrgetter("digest")):
        group = pending.classes[shape]
        if group.parked is not None:
            parked.append((shape.pod_sets, shape.priority, group.parked, group.why))
    return RememberedQueue(
        node.name,
        node.active,
        node.generation,
        "" if pending.preemptor is None else pending.preemptor.key,
        pending.preemptor_generation,
        pending.sticky,
        tuple(pending.aside.items()),
        tuple(parked),
    )


def restore(saved: Checkpoint) -> Engine:
    """An engine that continues exactly where the checkpoint was taken."""
    engine = Engine(saved.options)
    engine.synced, engine.leading, engine.evaluations = saved.synced, saved.leading, saved.evaluations
    world = engine.world
    world.now = saved.now
    for fact in saved.facts:
        see(world, fact.thing, fact.version)
    for kept in saved.items:
        restore_item(engine, kept)
    for kept in saved.items:
        restore_claim(engine, kept)
    for queue in saved.queues:
        world.forest.queues[queue.name].active = queue.active
    world.forest.refresh()
    if saved.past is not None and world.past is not None:
        # Before the pending workloads, whose order depends on it.
        restore_past_use(world, world.past, saved.past)
    for kept in sorted(saved.items, key=lambda one: one.entry):
        restore_place(engine, kept)
    for queue in saved.queues:
        restore_queue(engine, queue)
    restore_trees(engine, saved)
    world.epoch, world.numbers.last = saved.epoch, saved.entries
    world.timers = list(saved.timers)
    world.touched = {key: world.items[key] for key in saved.touched}
    world.to_flush = dict.fromkeys(saved.to_flush)
    world.to_recheck = dict.fromkeys(saved.to_recheck)
    world.not_ready = {key: world.items[key] for key in saved.not_ready}
    world.without_queue = {key: world.items[key] for key in saved.without_queue}
    world.forest.stale.clear()
    return engine


def restore_item(engine: Engine, kept: RememberedItem) -> None:
    """Restore a workload without its place."""
    world = engine.world
    workload = kept.workload
    item = Item(workload, world.shape(workload), queue_stamp(workload, world.options))
    item.version, item.settled, item.confirmed = kept.version, kept.settled, kept.confirmed
    item.in_flight, item.buffered, item.bookmark = kept.in_flight, kept.buffered, kept.bookmark
    item.seen_at, item.starts, item.timer = kept.seen_at, kept.starts, kept.timer
    item.reported, item.stopped, item.was_stopped, item.queue = (
        kept.reported,
        kept.stopped,
        kept.was_stopped,
        kept.queue,
    )
    if kept.settled == workload:
        item.settled = workload
    elif kept.settled is not None:
        item.shape = world.shape(kept.settled)
        item.priority = item.shape.priority
        item.stamp = queue_stamp(kept.settled, world.options)
    world.items[item.key] = item
    note_releases(world, item)
    world.members.setdefault(workload.local_queue, {})[item.key] = item


def restore_claim(engine: Engine, kept: RememberedItem) -> None:
    """Restore the claim of a preemptor; victims that no longer exist are dropped."""
    if kept.claim is None:
        return
    world = engine.world
    usage = tuple((world.forest.flavors.id(flavor, resource), amount) for flavor, resource, amount in kept.claim.usage)
    victims = tuple(world.items[key] for key in kept.claim.victims if key in world.items)
    world.items[kept.workload.key].claim = Claim(usage, victims, kept.claim.counts, kept.claim.start)


def restore_place(engine: Engine, kept: RememberedItem) -> None:
    """Restore the place of a workload."""
    world = engine.world
    item = world.items[kept.workload.key]
    if kept.place is Place.HOLDING:
        item.place = kept.place
        level = item.settled or item.workload
        item.usage, item.frs = held(level, world.forest.flavors, world.options)
        world.forest.hold(world.forest.queues[kept.queue], item)
        if world.past is not None:
            count(world, world.past, item)
    elif kept.place is Place.PARKED:
        world.pending[kept.queue].park(item)
        if kept.resting:
            world.pending[kept.queue].resting.add(item.key)
    elif kept.place is Place.QUEUED:
        world.pending[kept.queue].enter(item, kept.entry)


def restore_past_use(world: World, past: PastUse, kept: RememberedPastUse) -> None:
    """Restore past use; charges of workloads that are left out are dropped."""
    past.sample_number = kept.sample_number
    for key, consumed, at in kept.accounts:
        past.seed(past.accounts[key], read(consumed), at)
    for workload, local_queue, amounts, is_stored in kept.charges:
        if workload in world.items:
            past.charge(workload, Charge(local_queue, read(amounts), is_stored))


def restore_queue(engine: Engine, kept: RememberedQueue) -> None:
    """Restore the order of a queue."""
    world = engine.world
    pending = world.pending[kept.name]
    pending.preemptor = world.items.get(kept.preemptor)
    pending.preemptor_generation, pending.sticky = kept.preemptor_generation, kept.sticky
    pending.aside = dict(kept.aside)
    for pod_sets, priority, verdict, why in kept.parked:
        shape = world.shape_of(pod_sets, priority)
        group = pending.classes.get(shape) or pending.new_class(shape)
        group.parked, group.why = verdict, why
    world.forest.queues[kept.name].generation = kept.generation


def restore_trees(engine: Engine, saved: Checkpoint) -> None:
    """Restore the counters of each tree, and the order of trees."""
    forest = engine.world.forest
    forest.dirty.clear()
    ordered: dict[Tree, None] = {}
    for kept in saved.trees:
        node = (forest.queues if kept.is_queue else forest.cohorts)[kept.root]
        tree = node.tree
        assert tree is not None, f"{kept.root} is the root of a tree"
        tree.version, tree.news, tree.cycle = kept.version, kept.news, kept.cycle
        tree.heads, tree.strict_heads = list(kept.heads), list(kept.strict_heads)
        if kept.dirty:
            forest.dirty[tree] = None
        ordered[tree] = None
    forest.trees = ordered
