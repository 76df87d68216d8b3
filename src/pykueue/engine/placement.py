"""Places workloads according to their level: holding quota, pending in a queue, or neither."""

from pykueue.engine.charges import follow
from pykueue.engine.decisions import WaitReason
from pykueue.engine.items import HOLDING, IDLE, Holding, Item
from pykueue.engine.model import OPEN, Admission, Options, Workload, effective_priority
from pykueue.engine.order import queue_stamp
from pykueue.engine.pending import PENDING
from pykueue.engine.world import World, held


def settle(world: World, item: Item) -> None:
    """Move a workload to the place that its level requires."""
    workload, before = item.workload, item.settled
    if before is not workload:
        item.settled = workload
        if before is None or changes_shape(before, workload):
            shape = world.shape(workload, item.shape)
            if shape is not item.shape:
                # The claim was made for the old requests.
                drop_claim(world, item)
            item.shape, item.priority = shape, shape.priority
        item.stamp = queue_stamp(workload, world.options)
    admission = workload.admission if workload.active and not workload.finished else None
    if world.without_queue:
        world.without_queue.pop(item.key, None)
    if admission is not None and admission.queue in world.forest.queues:
        place_holder(world, item, before, admission)
    elif admission is not None:
        leave_place(world, item)
        world.without_queue[item.key] = item
    elif is_admissible(world, workload) and (queue := world.queue_of(workload)) in world.pending:
        place_pending(world, item, before, queue)
    else:
        leave_place(world, item)
        if (workload.finished or not workload.active) and before is not None and before is not workload:
            world.to_flush[world.queue_of(workload)] = None
    if world.blocks_admission:
        note_readiness(world, item)
    if world.past is not None:
        follow(world, item, before)


def changes_shape(before: Workload, now: Workload) -> bool:
    """Whether a workload may have another shape than before."""
    return (
        before.pod_sets is not now.pod_sets
        or before.priority != now.priority
        or before.boost != now.boost
        or before.reclaimable != now.reclaimable
    )


def is_admissible(world: World, workload: Workload) -> bool:
    """Whether a workload may be pending in a queue."""
    local = world.local_queues.get(workload.local_queue)
    return (
        workload.active
        and not workload.finished
        and not (workload.gated_by and world.options.admission_gates)
        and not workload.on_hold
        and not workload.replacing
        and not workload.held_off
        and workload.admission is None
        and local is not None
        and local.stop is OPEN
        and not local.terminating
    )


def place_holder(world: World, item: Item, before: Workload | None, admission: Admission) -> None:
    """Place a workload that holds quota by this reservation."""
    name = admission.queue
    workload, queue = item.workload, world.forest.queues[name]
    here = item.place is HOLDING and item.queue == name
    if here and before is workload:
        return
    if here and before is not None and is_same_reservation(before, workload):
        usage, frs = item.usage, item.frs
    else:
        usage, frs = held_by(world, item, admission)
    if here:
        queue.generation += 1
        if usage == item.usage and frs == item.frs:
            if before is None or changes_preemption(before, workload):
                queue.rank_again()
                if queue.tree is not None:
                    queue.tree.touch()
            if before is not None and changes_room(before, workload):
                world.to_flush[name] = None
            return
        world.forest.release(queue, item)
        world.to_flush[name] = None
    else:
        leave_place(world, item, started=True)
        queue.generation += 1
    item.queue, item.usage, item.frs, item.place = name, usage, frs, HOLDING
    world.forest.hold(queue, item)


def held_by(world: World, item: Item, admission: Admission) -> Holding:
    """Return what a workload's reservation uses, computed once for equal workloads that share the reservation."""
    workload, shape = item.workload, item.shape
    if workload.pod_sets is not shape.named:
        return held(workload, world.forest.flavors, world.options)
    known = shape.held.get(admission.queue)
    if known is None or known[0] is not admission:
        known = shape.held[admission.queue] = admission, held(workload, world.forest.flavors, world.options)
    return known[1]


def is_same_reservation(before: Workload, now: Workload) -> bool:
    """Whether a new level of a workload has the very reservation and pods of the old one, and so the same usage."""
    return (
        before.admission is now.admission and before.pod_sets is now.pod_sets and before.reclaimable == now.reclaimable
    )


def place_pending(world: World, item: Item, before: Workload | None, name: str) -> None:
    """Place a workload that waits for quota of this ClusterQueue."""
    workload, pending = item.workload, world.pending[name]
    here = item.place in PENDING and item.queue == name
    changed = not here or before is None or changes_evaluation(before, workload, world.options)
    if changed or pending.has_rested(item, world.now):
        if not here:
            if item.place is not IDLE:
                leave_place(world, item)
            item.queue = name
        pending.insert(item, world.now)
        if before is None and waits_for_victims(workload) and pending.preemptor is None:
            # After a restart, only its condition shows that it waits for victims.
            pending.remember_preemptor(item)
        tree = world.forest.queues[name].tree
        if tree is not None:
            item.seen_at = -1
            tree.dirty[tree] = None
    if pending.parked_with_class(item) is not None and not world.serves(world.forest.queues[name], item.namespace):
        # What requeues its class does not help a workload of this namespace.
        pending.park(item)


def waits_for_victims(workload: Workload) -> bool:
    """Whether a workload's condition says that it waits for preempted workloads."""
    return workload.waiting is not None and workload.waiting.reason == WaitReason.WAITING_FOR_PREEMPTED


def leave_place(world: World, item: Item, *, started: bool = False) -> None:
    """Remove a workload from its place, and retry the queues that may use the quota it held or blocked."""
    queue = world.forest.queues.get(item.queue)
    if item.place is HOLDING and queue is not None:
        world.forest.release(queue, item)
        world.to_flush[item.queue] = None
    elif item.place in PENDING:
        drop_claim(world, item)
        if item.queue in world.pending:
            world.pending[item.queue].remove(item)
        if queue is not None and queue.tree is not None:
            queue.tree.touch()
            if item.key in queue.tree.heads and not started:
                world.to_flush[item.queue] = None
    item.place, item.queue, item.usage, item.frs = IDLE, "", (), frozenset()
    if world.blocks_admission:
        note_readiness(world, item)


def drop_claim(world: World, item: Item) -> None:
    """Drop a preemptor's claim to the quota of its victims, and retry the queues that may use it."""
    if item.claim is not None:
        item.claim = None
        world.to_flush[item.queue] = None


def note_readiness(world: World, item: Item) -> None:
    """Update the set of holders whose pods are not ready; when it becomes empty, every tree is retried."""
    if item.place is HOLDING and not world.is_ready(item.workload):
        world.not_ready[item.key] = item
    elif world.not_ready.pop(item.key, None) is not None and not world.not_ready:
        for tree in world.forest.trees:
            tree.touch()


def changes_evaluation(before: Workload, now: Workload, options: Options) -> bool:
    """Whether the evaluation or the order of a pending workload may differ from before."""
    return before is not now and (
        effective_priority(before, options),
        before.generation,
        before.pod_sets,
        before.reclaimable,
        before.evicted,
        before.requeued,
        before.requeue_at,
        before.checks,
        before.problem,
        before.unbuilt,
        before.local_queue,
    ) != (
        effective_priority(now, options),
        now.generation,
        now.pod_sets,
        now.reclaimable,
        now.evicted,
        now.requeued,
        now.requeue_at,
        now.checks,
        now.problem,
        now.unbuilt,
        now.local_queue,
    )


def changes_room(before: Workload, now: Workload) -> bool:
    """Whether a holder's new level may let others in its tree start although its usage is the same."""
    return (before.priority, before.boost, before.reclaimable) != (now.priority, now.boost, now.reclaimable)


def changes_preemption(before: Workload, now: Workload) -> bool:
    """Whether the choice of a holder as a victim may differ from before."""
    return (before.priority, before.boost, before.evicted, before.reserved_at) != (
        now.priority,
        now.boost,
        now.evicted,
        now.reserved_at,
    )
