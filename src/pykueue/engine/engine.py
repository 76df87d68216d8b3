"""The front door: `observe(fact)`, `decide(now)`, `next_wake()`. Facts in, decisions out; no clock, no I/O, no luck."""

from functools import partial
from heapq import heappop, heappush
from typing import assert_never

from msgspec.structs import replace

from pykueue.base.units import Instant
from pykueue.engine.assume import assumed
from pykueue.engine.cycle import Cycle, Entry
from pykueue.engine.decisions import Decision
from pykueue.engine.facts import Fact, Gone, Leading, Refused, Seen, Stopped, Synced, Written
from pykueue.engine.flavors import outdated
from pykueue.engine.items import Item, Place
from pykueue.engine.lifecycle import review, tell
from pykueue.engine.model import (
    Check,
    ClusterQueue,
    Cohort,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    StopPolicy,
    Workload,
    effective_priority,
)
from pykueue.engine.order import queue_stamp
from pykueue.engine.pending import SHARED, Outcome, PendingQueue
from pykueue.engine.quota import Node, Tree
from pykueue.engine.world import World, held

REVIEWS_MAX = 16
"""More decisions on one workload at one instant than this would be a rule that never comes to rest."""


class Engine:
    """Which job may start, when, and on which quota. The only holder of state that matters."""

    def __init__(self, options: Options | None = None) -> None:
        self.world = World(options or Options())
        self.synced = False
        self.leading = True
        self.now = Instant(0)
        self.touched: dict[str, Item] = {}
        self.to_flush: dict[str, None] = {}
        self.to_recheck: dict[str, None] = {}
        self.timers: list[tuple[Instant, str]] = []
        self.evaluations = 0
        """How many heads were planned so far; the benchmarks count by it."""

    # What we are told.

    def observe(self, fact: Fact) -> None:
        """Take note of a fact. Nothing is decided here, and hearing it twice changes nothing."""
        match fact:
            case Seen(thing, version):
                self.see(thing, version)
            case Gone(kind, name):
                self.lose(kind, name)
            case Stopped(key):
                item = self.world.items.get(key)
                if item is not None and item.workload.admission is not None and item.workload.evicted is not None:
                    item.stopped = True
                    self.touched[key] = item
            case Synced():
                self.synced = True
            case Leading(leading):
                self.leading = leading
            case Written(key, version):
                self.confirm(key, version)
            case Refused(key):
                self.take_back(key)
            case _:
                assert_never(fact)

    def see(self, thing: Flavor | Cohort | ClusterQueue | LocalQueue | Namespace | Check | Workload, version: int) -> None:
        """An object is like this."""
        if isinstance(thing, Workload):
            self.see_workload(thing, version)
            return
        name = thing.key if isinstance(thing, LocalQueue) else thing.name
        slot = (type(thing).__name__, name)
        if version and version < self.world.versions.get(slot, 0):
            return
        self.world.versions[slot] = version
        match thing:
            case Flavor():
                self.see_flavor(thing)
            case Cohort():
                self.see_cohort(thing)
            case ClusterQueue():
                self.see_queue(thing)
            case LocalQueue():
                self.see_local_queue(thing)
            case Namespace():
                self.see_namespace(thing)
            case Check():
                if self.world.checks.get(thing.name) != thing:
                    self.world.checks[thing.name] = thing
                    self.recheck_users_of_check(thing.name)

    def see_flavor(self, flavor: Flavor) -> None:
        """A flavor is like this; queues that use it are tried again."""
        if self.world.flavors.get(flavor.name) == flavor:
            return
        self.world.flavors[flavor.name] = flavor
        self.world.epoch += 1
        self.recheck_users_of_flavor(flavor.name)

    def recheck_users_of_flavor(self, flavor: str) -> None:
        """Queues that use a flavor may have become active or not, and their parked workloads may now fit."""
        for name, queue in self.world.forest.queues.items():
            if any(flavor in group.flavors for group in queue.spec.groups):
                self.to_recheck[name] = None
                self.to_flush[name] = None

    def recheck_users_of_check(self, check: str) -> None:
        """Queues that demand a check may have become active or not."""
        for name, queue in self.world.forest.queues.items():
            if any(rule.check == check for rule in queue.spec.checks):
                self.to_recheck[name] = None

    def see_cohort(self, cohort: Cohort) -> None:
        """A cohort is like this; its whole tree is tried again, and so is the one it left."""
        node = self.world.forest.cohorts.get(cohort.name)
        if node is not None and node.object == cohort:
            return
        if node is not None:
            self.flush_tree(node)
        node = self.world.forest.put_cohort(cohort)
        self.flush_below(node)

    def see_queue(self, spec: ClusterQueue) -> None:
        """A ClusterQueue is like this; its tree is tried again, and so is the one it left."""
        world = self.world
        node = world.forest.queues.get(spec.name)
        if node is not None and node.spec == spec:
            return
        fresh = node is None
        before = None if node is None else node.spec
        if node is not None:
            self.flush_tree(node)
        node = world.forest.put_queue(spec)
        pending = world.pending.get(spec.name)
        if pending is None:
            pending = world.pending[spec.name] = PendingQueue(world.options)
        pending.restrategize(spec.strategy)
        self.to_flush[spec.name] = None
        self.to_recheck[spec.name] = None
        if fresh or before is None or matters_to_members(before, spec):
            self.touch_members_of_queue(spec.name)

    def touch_members_of_queue(self, name: str) -> None:
        """Look again at all workloads of a ClusterQueue, pending or holding."""
        world = self.world
        for local in world.local_queues.values():
            if local.queue == name:
                self.touched.update(world.members.get(local.key, {}))
        node = world.forest.queues.get(name)
        if node is not None:
            self.touched.update(node.holders)
        for item in world.items.values():
            if item.workload.admission is not None and item.workload.admission.queue == name:
                self.touched[item.key] = item

    def see_local_queue(self, local: LocalQueue) -> None:
        """A LocalQueue is like this."""
        if self.world.local_queues.get(local.key) == local:
            return
        self.world.local_queues[local.key] = local
        self.touched.update(self.world.members.get(local.key, {}))

    def see_namespace(self, namespace: Namespace) -> None:
        """A namespace is like this; queues that newly serve it are tried again."""
        world = self.world
        if world.namespaces.get(namespace.name) == namespace:
            return
        before = {name for name, queue in world.forest.queues.items() if world.serves(queue, namespace.name)}
        world.namespaces[namespace.name] = namespace
        for name, queue in world.forest.queues.items():
            if name not in before and world.serves(queue, namespace.name):
                self.to_flush[name] = None
        self.touch_namespace(namespace.name)

    def touch_namespace(self, namespace: str) -> None:
        """Look again at all workloads of a namespace."""
        for item in self.world.items.values():
            if item.workload.namespace == namespace:
                self.touched[item.key] = item

    def see_workload(self, workload: Workload, version: int) -> None:
        """A workload is like this, unless we know better or a write of ours is still on its way."""
        world = self.world
        item = world.items.get(workload.key)
        if item is None:
            shape = world.shape(workload)
            item = Item(workload, shape, queue_stamp(workload, world.options))
            item.version = version
            world.items[workload.key] = item
            self.adopt(item, workload)
        elif item.in_flight:
            if not version or version > item.version:
                item.buffered = (workload, version)
            return
        elif version and version <= item.version:
            return
        else:
            item.version = version
            if item.workload == workload:
                return
            self.adopt(item, workload)
        self.touched[item.key] = item

    def adopt(self, item: Item, workload: Workload) -> None:
        """Believe this level of a workload."""
        world = self.world
        if item.uid != workload.uid:
            self.leave_place(item)
            item.uid, item.claim, item.bookmark, item.stopped = workload.uid, None, None, False
        old = item.workload.local_queue
        if old != workload.local_queue:
            world.members.get(old, {}).pop(item.key, None)
        world.members.setdefault(workload.local_queue, {})[item.key] = item
        shape = world.shape(workload)
        if shape.pod_sets is not workload.pod_sets and shape.pod_sets == workload.pod_sets:
            # All of a shape share their pod sets, so that equal ones are stored once.
            workload = replace(workload, pod_sets=shape.pod_sets)
        edited = workload.generation != item.workload.generation
        if not item.workload.active or not workload.active or edited:
            item.claim = None
        item.workload = workload

    def lose(self, kind: str, name: str) -> None:
        """An object is gone."""
        world = self.world
        world.versions.pop((kind, name), None)
        match kind:
            case "Flavor":
                if world.flavors.pop(name, None) is not None:
                    world.epoch += 1
                    self.recheck_users_of_flavor(name)
            case "Check":
                if world.checks.pop(name, None) is not None:
                    self.recheck_users_of_check(name)
            case "Cohort":
                node = world.forest.cohorts.get(name)
                if node is not None:
                    self.flush_tree(node)
                    world.forest.drop_cohort(name)
            case "ClusterQueue":
                self.lose_queue(name)
            case "LocalQueue":
                if world.local_queues.pop(name, None) is not None:
                    self.touched.update(world.members.get(name, {}))
            case "Namespace":
                if world.namespaces.pop(name, None) is not None:
                    self.touch_namespace(name)
            case "Workload":
                self.lose_workload(name)

    def lose_queue(self, name: str) -> None:
        """A ClusterQueue is gone; its workloads have no queue, and its usage no longer counts."""
        node = self.world.forest.queues.get(name)
        if node is None:
            return
        self.touch_members_of_queue(name)
        for item in [*node.holders.values(), *(item for item, _ in self.world.pending[name])]:
            self.leave_place(item)
            self.touched[item.key] = item
        self.flush_tree(node)
        self.world.forest.drop_queue(name)
        del self.world.pending[name]
        self.to_flush.pop(name, None)
        self.to_recheck.pop(name, None)

    def lose_workload(self, key: str) -> None:
        """A workload is gone; what it held is free."""
        item = self.world.items.pop(key, None)
        if item is None:
            return
        self.leave_place(item)
        self.touched.pop(key, None)
        members = self.world.members.get(item.workload.local_queue, {})
        members.pop(key, None)
        queue = self.world.queue_of(item.workload)
        if queue:
            self.to_flush[queue] = None

    def confirm(self, key: str, version: int) -> None:
        """A write of ours was stored."""
        item = self.world.items.get(key)
        if item is None:
            return
        item.version = max(item.version, version)
        item.in_flight = max(0, item.in_flight - 1)
        if item.in_flight == 0:
            item.confirmed = None
            self.unbuffer(item)

    def take_back(self, key: str) -> None:
        """A write of ours was refused: what we assumed never happened."""
        item = self.world.items.get(key)
        if item is None or item.confirmed is None:
            return
        before, item.confirmed, item.in_flight, item.told = item.confirmed, None, 0, None
        self.adopt(item, before)
        self.touched[key] = item
        self.unbuffer(item)

    def unbuffer(self, item: Item) -> None:
        """Hear now what was said of a workload while a write was on its way."""
        buffered, item.buffered = item.buffered, None
        if buffered is not None:
            workload, version = buffered
            if version > item.version:
                self.see_workload(workload, version)

    # What we decide.

    def decide(self, now: Instant) -> list[Decision]:
        """What is to be done at this instant: whatever time and facts demand, then one scheduling cycle."""
        if not (self.synced and self.leading):
            return []
        self.now = now
        decisions: list[Decision] = []
        self.refresh()
        while self.timers and self.timers[0][0] <= now:
            due, key = heappop(self.timers)
            item = self.world.items.get(key)
            if item is not None and item.timer == due:
                item.timer = None
                self.touched[key] = item
        while self.touched:
            item = self.touched.pop(next(iter(self.touched)))
            self.attend(item, decisions)
        self.flush()
        trees = [tree for tree in self.world.forest.trees if tree.dirty]
        if trees:
            self.run_cycle(trees, decisions)
            for tree in trees:
                tree.dirty = self.is_restless(tree)
        return decisions

    def next_wake(self) -> Instant | None:
        """When to call `decide` again if nothing is observed before: now, later, or never."""
        if not (self.synced and self.leading):
            return None
        if self.touched or self.to_flush or self.to_recheck or any(tree.dirty for tree in self.world.forest.trees):
            return self.now
        while self.timers:
            due, key = self.timers[0]
            item = self.world.items.get(key)
            if item is not None and item.timer == due:
                return due
            heappop(self.timers)
        return None

    def refresh(self) -> None:
        """Bring the trees up to date with the edits of queues, cohorts, flavors and checks."""
        world = self.world
        recheck, self.to_recheck = self.to_recheck, {}
        for name in recheck:
            queue = world.forest.queues.get(name)
            if queue is None:
                continue
            active = not world.inactive_because(queue)
            if active != queue.active:
                queue.active = active
                world.forest.stale[queue] = None
                if active:
                    self.to_flush[name] = None
                self.touch_members_of_queue(name)
        cut_off_before = {name for name, queue in world.forest.queues.items() if queue.tree is None}
        if world.forest.stale:
            world.forest.refresh()
            for name, queue in world.forest.queues.items():
                if (queue.tree is None) is not (name in cut_off_before):
                    self.touch_members_of_queue(name)

    def attend(self, item: Item, decisions: list[Decision]) -> None:
        """Put a workload in its place, then follow its life as far as it goes at this instant."""
        self.settle(item)
        for _ in range(REVIEWS_MAX):
            found = review(item, self.world, self.now)
            if found.look_again is not None and found.look_again != item.timer:
                item.timer = found.look_again
                heappush(self.timers, (found.look_again, item.key))
            if found.decision is None:
                return
            decisions.append(found.decision)
            self.assume(item, found.decision)
        raise AssertionError(f"{item.key} does not come to rest: {decisions[-REVIEWS_MAX:]}")

    def assume(self, item: Item, decision: Decision) -> None:
        """Believe that a decision is carried out, until a fact says otherwise."""
        if item.confirmed is None:
            item.confirmed = item.workload
        item.in_flight += 1
        assumed(item, decision)
        self.settle(item)

    def settle(self, item: Item) -> None:
        """Put a workload where its level says it belongs."""
        world, workload, before = self.world, item.workload, item.settled
        if before is workload and item.place is not Place.IDLE:
            return
        item.settled = workload
        item.shape = world.shape(workload)
        item.priority = item.shape.priority
        item.stamp = queue_stamp(workload, world.options)
        holds = workload.admission is not None and workload.active and not workload.finished
        if holds and workload.admission is not None and workload.admission.queue in world.forest.queues:
            self.place_holder(item, before)
        elif not holds and self.is_admissible(workload) and world.queue_of(workload) in world.pending:
            self.place_pending(item, before)
        else:
            self.leave_place(item)
            if (workload.finished or not workload.active) and before is not None and before is not workload:
                self.to_flush[world.queue_of(workload)] = None
        self.note_readiness(item)

    def is_admissible(self, workload: Workload) -> bool:
        """Whether a workload may enter a queue at all."""
        local = self.world.local_queues.get(workload.local_queue)
        return (
            workload.active
            and not workload.finished
            and not workload.gated_by
            and not workload.on_hold
            and not workload.replacing
            and workload.admission is None
            and local is not None
            and local.stop is StopPolicy.NONE
        )

    def place_holder(self, item: Item, before: Workload | None) -> None:
        """A workload holds quota."""
        world, workload = self.world, item.workload
        assert workload.admission is not None, "a holder has an admission"
        name = workload.admission.queue
        usage, frs = held(workload, world.forest.flavors, world.options)
        queue = world.forest.queues[name]
        if item.place is Place.HOLDING and item.queue == name:
            queue.generation += 1
            if usage == item.usage and frs == item.frs:
                if before is None or changes_preemption(before, workload):
                    queue.lowest = None
                    if queue.tree is not None:
                        queue.tree.touch()
                if before is not None and changes_room(before, workload):
                    self.to_flush[name] = None
                return
            world.forest.release(queue, item)
            self.to_flush[name] = None
        else:
            self.leave_place(item)
            queue.generation += 1
        item.queue, item.usage, item.frs, item.place = name, usage, frs, Place.HOLDING
        world.forest.hold(queue, item)

    def place_pending(self, item: Item, before: Workload | None) -> None:
        """A workload waits for quota."""
        world, workload = self.world, item.workload
        name = world.queue_of(workload)
        if item.place in (Place.QUEUED, Place.PARKED) and item.queue == name:
            if before is not None and not changes_evaluation(before, workload, world.options):
                return
            world.pending[name].take_out(item)
        else:
            self.leave_place(item)
            item.queue = name
        world.pending[name].insert(item, self.now)
        tree = world.forest.queues[name].tree
        if tree is not None:
            item.seen_at = -1
            tree.dirty = True

    def leave_place(self, item: Item) -> None:
        """A workload leaves its place, and whoever its room may help is tried again."""
        world = self.world
        queue = world.forest.queues.get(item.queue)
        if item.place is Place.HOLDING and queue is not None:
            world.forest.release(queue, item)
            item.stopped = False
            self.to_flush[item.queue] = None
        elif item.place in (Place.QUEUED, Place.PARKED):
            item.claim = None
            if item.queue in world.pending:
                world.pending[item.queue].remove(item)
            if queue is not None and queue.tree is not None:
                queue.tree.touch()
        item.place, item.queue, item.usage, item.frs = Place.IDLE, "", (), frozenset()
        world.not_ready.pop(item.key, None)

    def note_readiness(self, item: Item) -> None:
        """Keep the list of holders whose pods are not ready; when it empties, whoever it blocked is tried again."""
        world, options = self.world, self.world.options.pods_ready
        if options is None or not options.block_admission:
            return
        blocking = bool(world.not_ready)
        if item.place is Place.HOLDING and not world.is_ready(item.workload):
            world.not_ready[item.key] = item
        else:
            world.not_ready.pop(item.key, None)
        if blocking and not world.not_ready:
            for tree in world.forest.trees:
                tree.touch()

    def flush_tree(self, node: Node) -> None:
        """Try again whoever is parked in a node's tree as it is now, before an edit moves the node."""
        if node.tree is not None:
            for queue in node.tree.queues:
                self.to_flush[queue.name] = None

    def flush_below(self, node: Node) -> None:
        """Try again the tree that a node belongs to once the edits are in."""
        waiting, seen = [node], {node}
        while waiting:
            here = waiting.pop()
            for child in here.children.values():
                if child.is_queue:
                    self.to_flush[child.name] = None
                    return
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)

    def flush(self) -> None:
        """Wake the parked workloads of every tree in which something happened; once, however much did."""
        # spec: QUE-5
        world = self.world
        requests, self.to_flush = self.to_flush, {}
        trees: dict[Tree, None] = {}
        for name in requests:
            queue = world.forest.queues.get(name)
            if queue is not None and queue.tree is not None:
                trees[queue.tree] = None
        for tree in trees:
            tree.touch()
            for queue in tree.queues:
                world.pending[queue.name].flush(self.now, partial(world.serves, queue))

    def run_cycle(self, trees: list[Tree], decisions: list[Decision]) -> None:
        """One cycle over the trees in which something changed, and what follows from it."""
        world = self.world
        world.cycle += 1
        cycle = Cycle(world, self.now)
        cycle.run(trees)
        for decision in cycle.decisions:
            decisions.append(decision)
            self.assume(world.items[decision.workload], decision)
        for entry in cycle.entries:
            self.evaluations += entry.plan is not None
            if entry.outcome is not None and entry.why is not None:
                self.put_back(entry, entry.outcome, decisions)

    def put_back(self, entry: Entry, outcome: Outcome, decisions: list[Decision]) -> None:
        """A head stays pending: say why, and put it where it is tried again when that can help."""
        item, options = entry.item, self.world.options
        assert entry.why is not None, "a head that stays pending has a reason"
        wait = tell(item, self.world, entry.reason, entry.why, self.now)
        bookmark = item.bookmark
        resumed = entry.plan is not None and entry.plan.resumed
        if outcome in SHARED and options.wrap_scan and resumed and not (bookmark is not None and bookmark.pending()):
            item.bookmark, outcome = None, Outcome.CONTENDED
        self.world.pending[entry.queue.name].requeue(item, outcome, entry.reason, self.now)
        if wait is not None:
            decisions.append(wait)
            self.assume(item, wait)

    def is_restless(self, tree: Tree) -> bool:
        """Whether another cycle over a tree could decide anything that the last one did not."""
        world = self.world
        heads = [(queue, world.pending[queue.name].head()) for queue in tree.queues if world.can_admit(queue)]
        # A head that was parked no longer keeps its quota from the others.
        if [head.key for _, head in heads if head is not None] != tree.heads:
            return True
        for queue, head in heads:
            if head is None:
                continue
            if head.seen_at != tree.version:
                return True
            fresh = head.bookmark is None or outdated(head, queue, tree.cycle + 1, world.options)
            start = None if fresh or head.bookmark is None else head.bookmark.tried
            # Kueue's own scan goes round and round; ours ends once every way to start was tried on this version.
            if start not in (head.starts if world.options.wrap_scan else head.starts[-1:]):
                return True
        return False


def matters_to_members(before: ClusterQueue, now: ClusterQueue) -> bool:
    """Whether an edit of a queue changes what is said of its workloads, beyond how much room there is."""
    return (before.stop, before.terminating, before.checks, before.namespaces, before.unbuilt) != (
        now.stop,
        now.terminating,
        now.checks,
        now.namespaces,
        now.unbuilt,
    )


def changes_evaluation(before: Workload, now: Workload, options: Options) -> bool:
    """Whether a pending workload could be judged or ordered otherwise than before."""
    return (
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
    )


def changes_room(before: Workload, now: Workload) -> bool:
    """Whether a holder's new level may help others in its tree, though it uses as much as before."""
    return (before.priority, before.boost, before.reclaimable) != (now.priority, now.boost, now.reclaimable)


def changes_preemption(before: Workload, now: Workload) -> bool:
    """Whether a holder could be chosen as a victim otherwise than before."""
    return (before.priority, before.boost, before.evicted, before.reserved_at) != (
        now.priority,
        now.boost,
        now.evicted,
        now.reserved_at,
    )
