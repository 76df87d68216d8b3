"""Applies each fact to the engine's state. No decisions are made here."""

from collections.abc import Mapping

from msgspec.structs import replace

from pykueue.engine import charges
from pykueue.engine.items import Item, Shape
from pykueue.engine.model import Check, ClusterQueue, Cohort, Flavor, LocalQueue, Namespace, Thing, Workload
from pykueue.engine.order import queue_stamp
from pykueue.engine.pending import PendingQueue
from pykueue.engine.placement import drop_claim, leave_place
from pykueue.engine.releases import forget_releases, is_releasing, note_releases
from pykueue.engine.world import World


def see(world: World, thing: Thing, version: int) -> None:
    """Apply the state of an object; ignored if its version is older than the known one."""
    if isinstance(thing, Workload):
        see_workload(world, thing, version)
        return
    slot = slot_of(thing)
    if version and version < world.versions.get(slot, 0):
        return
    world.versions[slot] = version
    match thing:
        case Flavor():
            see_flavor(world, thing)
        case Cohort():
            see_cohort(world, thing)
        case ClusterQueue():
            see_queue(world, thing)
        case LocalQueue():
            see_local_queue(world, thing)
        case Namespace():
            see_namespace(world, thing)
        case Check():
            if world.checks.get(thing.name) != thing:
                world.checks[thing.name] = thing
                recheck_users_of_check(world, thing.name)


def slot_of(thing: Thing) -> tuple[str, str]:
    """An object's kind and name."""
    return type(thing).__name__, thing.key if isinstance(thing, LocalQueue | Workload) else thing.name


def see_flavor(world: World, flavor: Flavor) -> None:
    """Apply the state of a flavor, and re-evaluate the queues that use it."""
    if world.flavors.get(flavor.name) == flavor:
        return
    world.flavors[flavor.name] = flavor
    world.epoch += 1
    recheck_users_of_flavor(world, flavor.name)


def recheck_users_of_flavor(world: World, flavor: str) -> None:
    """Re-evaluate queues that use a flavor: they may be active or inactive now, and parked workloads may fit."""
    for name, queue in world.forest.queues.items():
        if any(flavor in group.flavors for group in queue.spec.groups):
            world.to_recheck[name] = None
            world.forest.stale[queue] = None


def recheck_users_of_check(world: World, check: str) -> None:
    """Re-evaluate queues that require a check: they may be active or inactive now."""
    for name, queue in world.forest.queues.items():
        if any(rule.check == check for rule in queue.spec.checks):
            world.to_recheck[name] = None


def see_cohort(world: World, cohort: Cohort) -> None:
    """Apply the state of a cohort, and re-evaluate its tree and the tree that it left."""
    node = world.forest.cohorts.get(cohort.name)
    if node is None or node.object != cohort:
        world.forest.put_cohort(cohort)


def see_queue(world: World, spec: ClusterQueue) -> None:
    """Apply the state of a ClusterQueue, and re-evaluate its tree and the tree that it left."""
    node = world.forest.queues.get(spec.name)
    if node is not None and node.spec == spec:
        return
    before = None if node is None else node.spec
    world.forest.put_queue(spec)
    pending = world.pending.get(spec.name)
    if pending is None:
        pending = world.pending[spec.name] = PendingQueue(world.options, world.numbers)
    pending.set_strategy(spec.strategy)
    charges.see_queue(world, spec.name)
    world.to_recheck[spec.name] = None
    if before is None or matters_to_members(before, spec):
        touch_members_of_queue(world, spec.name)


def touch(world: World, items: Mapping[str, Item]) -> None:
    """Schedule a review of these workloads, in the order of their keys."""
    for key in sorted(items):
        world.touched[key] = items[key]


def touch_members_of_queue(world: World, name: str) -> None:
    """Schedule a review of all workloads of a ClusterQueue, with or without quota."""
    for local in sorted(world.local_queues_by_queue.get(name, ())):
        touch(world, world.members.get(local, {}))
    node = world.forest.queues.get(name)
    if node is not None:
        touch(world, node.holders)
    touch(world, {key: item for key, item in world.without_queue.items() if holds_in(item.workload, name)})


def holds_in(workload: Workload, queue: str) -> bool:
    """Whether a workload has quota in this ClusterQueue."""
    return workload.admission is not None and workload.admission.queue == queue


def see_local_queue(world: World, local: LocalQueue) -> None:
    """Apply the state of a LocalQueue, and schedule a review of its workloads."""
    before = world.local_queues.get(local.key)
    if before == local:
        return
    if before is not None:
        world.local_queues_by_queue[before.queue].discard(local.key)
    world.local_queues[local.key] = local
    world.local_queues_by_queue.setdefault(local.queue, set()).add(local.key)
    charges.see_local_queue(world, local)
    if before is None or placing(before) != placing(local):
        # Past use is written often, and the LocalQueue may have many workloads.
        touch(world, world.members.get(local.key, {}))


def placing(local: LocalQueue) -> LocalQueue:
    """A LocalQueue without what affects only the order of its workloads."""
    return replace(local, weight=1.0, consumed=(), last_update=None)


def see_namespace(world: World, namespace: Namespace) -> None:
    """Apply the state of a namespace, and retry the queues that now select it."""
    if world.namespaces.get(namespace.name) == namespace:
        return
    before = {name for name, queue in world.forest.queues.items() if world.serves(queue, namespace.name)}
    world.namespaces[namespace.name] = namespace
    for name, queue in world.forest.queues.items():
        if name not in before and world.serves(queue, namespace.name):
            world.to_flush[name] = None
    touch_namespace(world, namespace.name)


def touch_namespace(world: World, namespace: str) -> None:
    """Schedule a review of all workloads of a namespace."""
    for item in world.items.values():
        if item.workload.namespace == namespace:
            world.touched[item.key] = item


def see_workload(world: World, workload: Workload, version: int) -> None:
    """Apply the state of a workload; it is buffered while a write is in flight, and ignored if it is outdated."""
    item = world.items.get(workload.key)
    if item is None:
        shape = world.shape(workload)
        workload = with_pod_sets_of(shape, workload)
        item = Item(workload, shape, queue_stamp(workload, world.options))
        item.version = version
        world.items[workload.key] = item
        world.members.setdefault(workload.local_queue, {})[item.key] = item
    elif item.in_flight:
        if not version or version > item.version:
            item.buffered = (workload, version)
        return
    elif version and version < item.version:
        return
    else:
        item.version = version
        if item.workload == workload:
            return
        adopt(world, item, workload)
    world.touched[item.key] = item


def adopt(world: World, item: Item, workload: Workload) -> None:
    """Replace the level of a workload with this one."""
    if item.uid != workload.uid:
        leave_place(world, item)
        item.uid, item.bookmark, item.stopped = workload.uid, None, False
    old = item.workload.local_queue
    if old != workload.local_queue:
        world.members.get(old, {}).pop(item.key, None)
        world.members.setdefault(workload.local_queue, {})[item.key] = item
    workload = with_pod_sets_of(world.shape(workload, item.shape), workload)
    edited = workload.generation != item.workload.generation
    if not workload.active or edited:
        drop_claim(world, item)
    if workload.evicted is None:
        item.stopped = False
    item.workload = workload


def with_pod_sets_of(shape: Shape, workload: Workload) -> Workload:
    """Return a workload with the pod sets of its shape where they are equal, so that equal ones are stored once."""
    if shape.named is not workload.pod_sets and shape.named == workload.pod_sets:
        return replace(workload, pod_sets=shape.named)
    return workload


def remove(world: World, kind: str, name: str) -> None:
    """Apply the deletion of an object."""
    world.versions.pop((kind, name), None)
    match kind:
        case "Flavor":
            if world.flavors.pop(name, None) is not None:
                world.epoch += 1
                recheck_users_of_flavor(world, name)
        case "Check":
            if world.checks.pop(name, None) is not None:
                recheck_users_of_check(world, name)
        case "Cohort":
            world.forest.drop_cohort(name)
        case "ClusterQueue":
            remove_queue(world, name)
        case "LocalQueue":
            local = world.local_queues.pop(name, None)
            if local is not None:
                world.local_queues_by_queue[local.queue].discard(name)
                charges.remove_local_queue(world, name)
                touch(world, world.members.get(name, {}))
        case "Namespace":
            if world.namespaces.pop(name, None) is not None:
                touch_namespace(world, name)
        case "Workload":
            remove_workload(world, name)


def remove_queue(world: World, name: str) -> None:
    """Apply the deletion of a ClusterQueue: its workloads have no queue, and its usage no longer counts."""
    node = world.forest.queues.get(name)
    if node is None:
        return
    touch_members_of_queue(world, name)
    for item in [*node.holders.values(), *(item for item, _ in world.pending[name])]:
        leave_place(world, item)
        world.touched[item.key] = item
    world.forest.drop_queue(name)
    del world.pending[name]
    world.to_flush.pop(name, None)
    world.to_recheck.pop(name, None)


def remove_workload(world: World, key: str) -> None:
    """Apply the deletion of a workload, and release its quota."""
    item = world.items.pop(key, None)
    if item is None:
        return
    leave_place(world, item)
    charges.forget(world, key)
    forget_releases(world, item)
    world.touched.pop(key, None)
    world.without_queue.pop(key, None)
    members = world.members.get(item.workload.local_queue, {})
    members.pop(key, None)
    queue = world.queue_of(item.workload)
    if queue:
        world.to_flush[queue] = None


def confirm(world: World, key: str, version: int) -> None:
    """Confirm the oldest write in flight of a workload."""
    item = world.items.get(key)
    if item is None:
        return
    if version > item.version:
        item.version = version
    if item.in_flight:
        if world.releasing:
            forget_releases(world, item)
        if is_releasing(item):
            # It may queue again from now on.
            world.touched[key] = item
        item.confirmed, item.in_flight = item.in_flight[0], item.in_flight[1:]
    if item.in_flight:
        note_releases(world, item)
    else:
        item.confirmed = None
    charges.settle_if_stored(world, item)
    if not item.in_flight:
        unbuffer(world, item)


def take_back(world: World, key: str) -> None:
    """Undo everything assumed of a workload since its last confirmed write, because a write was refused."""
    item = world.items.get(key)
    if item is None or item.confirmed is None:
        return
    forget_releases(world, item)
    before, item.confirmed, item.in_flight, item.reported = item.confirmed, None, (), None
    stopped = item.stopped
    adopt(world, item, before)
    # That its pods have stopped was observed, not assumed.
    item.stopped = (item.was_stopped or stopped) and before.evicted is not None
    world.touched[key] = item
    unbuffer(world, item)


def unbuffer(world: World, item: Item) -> None:
    """Apply the state that was buffered while a write was in flight."""
    buffered, item.buffered = item.buffered, None
    if buffered is not None:
        workload, version = buffered
        if not version or version > item.version:
            see_workload(world, workload, version)


def matters_to_members(before: ClusterQueue, now: ClusterQueue) -> bool:
    """Whether an edit of a queue affects its workloads in other ways than through quota."""
    return (before.stop, before.terminating, before.checks, before.namespaces, before.unbuilt) != (
        now.stop,
        now.terminating,
        now.checks,
        now.namespaces,
        now.unbuilt,
    )
