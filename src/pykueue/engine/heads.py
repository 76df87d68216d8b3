"""The heads of a cycle: the next workload of each ClusterQueue of a tree."""

from collections.abc import Iterator

from pykueue.engine.assume import assume
from pykueue.engine.decisions import Bypassed, Queued, Wait, WaitReason
from pykueue.engine.entries import Entry, TreeCycle
from pykueue.engine.forest import Tree
from pykueue.engine.lifecycle import report_wait
from pykueue.engine.model import Strategy
from pykueue.engine.quota import QuotaNode
from pykueue.engine.world import World


def heads(world: World, tree_cycle: TreeCycle, freed: list[QuotaNode]) -> list[Entry]:
    """Return the next workload of each ClusterQueue of a tree; queues that lose a claim are added to `freed`."""
    tree = tree_cycle.tree
    tree.cycle += 1
    return_to_queues(world, tree)
    tree_cycle.news = tree.news
    found = []
    for queue in tree.queues:
        pending = world.pending[queue.name]
        item = pending.head() if world.can_admit(queue) else None
        if item is not None:
            found.append(Entry(item, queue, tree_cycle))
        preemptor = pending.preemptor
        if preemptor is not None and preemptor is not item and preemptor.claim is not None:
            # Only a head may have a claim. This one has another workload before it now, and must not block others.
            preemptor.claim = None
            freed.append(queue)
            tree_cycle.displaced.append(preemptor)
            if world.options.forget_hopeless_preemptor:
                pending.forget_preemptor()
    keys = [entry.item.key for entry in found]
    if keys != tree.heads:
        # Other heads keep other room, so a plan that failed beside the last heads may succeed now.
        tree.heads = keys
        tree.version += 1
    return found


def report_displaced(world: World, tree_cycle: TreeCycle) -> Iterator[Wait]:
    """Assume and yield the decisions that preemptors without a claim wait for their turn, not for their victims."""
    for item in tree_cycle.displaced:
        known = item.workload.waiting
        if item.claim is not None or known is None or known.reason != WaitReason.WAITING_FOR_PREEMPTED:
            continue
        parked = world.pending[item.queue].parked_with_class(item)
        reason, why = (WaitReason.PENDING_EVALUATION, Queued()) if parked is None else (parked, Bypassed())
        wait = report_wait(item, world, reason, why, world.now)
        if wait is not None:
            assume(world, item, wait)
            yield wait


def return_to_queues(world: World, tree: Tree) -> None:
    """Requeue the heads that stepped aside for a StrictFIFO head, if that head or anything else has changed."""
    strict = Strategy.STRICT
    pendings = [world.pending[queue.name] for queue in tree.queues if world.can_admit(queue)]
    strict_heads = [pending.head() for pending in pendings if pending.strategy is strict]
    keys = [head.key for head in strict_heads if head is not None]
    if keys != tree.strict_heads:
        tree.strict_heads = keys
        tree.news += 1
    for pending in pendings:
        if pending.aside:
            pending.step_back(tree.news, world.now)
