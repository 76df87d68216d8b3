"""Facts in, decisions out: `observe(fact)`, `decide(now)`, `next_wake()`. No clock, no I/O, no randomness.

Everything outside the engine reads its state through the methods of `Engine` and `record.tally`, never through `world`.
"""

from collections.abc import Collection, Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from heapq import heappop
from typing import assert_never

from pykueue.base.units import Instant
from pykueue.engine.charges import take_lead
from pykueue.engine.cycle import Cycle
from pykueue.engine.decisions import Decision, WaitReason, Why
from pykueue.engine.entries import Entry
from pykueue.engine.facts import Fact, Gone, Leading, Refused, Seen, Stopped, Synced, Written
from pykueue.engine.flavors import start_of
from pykueue.engine.forest import Tree, root_of
from pykueue.engine.items import Item
from pykueue.engine.learn import confirm, remove, see, take_back, touch_members_of_queue
from pykueue.engine.lifecycle import earlier, review_until_settled, verdict
from pykueue.engine.model import ClusterQueue, LocalQueue, Options, Workload
from pykueue.engine.pastuse import PastUse, value_of
from pykueue.engine.pending import Ahead
from pykueue.engine.quota import QuotaNode
from pykueue.engine.shares import NO_SHARE, Share, share
from pykueue.engine.treeuse import TreeUse
from pykueue.engine.world import World, assigned_flavors


class Engine:
    """Decides which workload may start, when, and on which quota. It holds all the state that decisions depend on."""

    def __init__(self, options: Options | None = None) -> None:
        self.world = World(options or Options())
        self.synced = False
        self.leading = True
        self.evaluations = 0
        """How many heads were planned so far; the benchmarks read it."""
        self.entries: list[Entry] = []
        """The heads of the cycle that the last `decide` ran, with their results."""

    def observe(self, fact: Fact) -> None:
        """Record a fact. Nothing is decided here, and observing a fact twice changes nothing."""
        match fact:
            case Seen():
                see(self.world, fact.thing, fact.version)
            case Written():
                confirm(self.world, fact.workload, fact.version)
            case Stopped(key):
                item = self.world.items.get(key)
                if item is not None and item.workload.admission is not None and item.workload.evicted is not None:
                    item.stopped = True
                    self.world.touched[key] = item
            case Gone(kind, name):
                remove(self.world, kind, name)
            case Synced():
                self.synced = True
            case Leading(leading):
                self.leading = leading
                if not leading and self.world.past is not None:
                    self.world.past.drop_all()
            case Refused(key):
                take_back(self.world, key)
            case _:
                assert_never(fact)

    def decide(self, now: Instant) -> list[Decision]:
        """Return what to do at this instant: what time and facts require, then the result of one scheduling cycle.

        Without `Options.scheduling` there is no cycle.
        """
        if not (self.synced and self.leading):
            return []
        world = self.world
        stepped_back, world.now = now < world.now, now
        if stepped_back:
            # What was due is due again, later.
            world.touched.update(sorted(world.items.items()))
        self.entries = []
        decisions: list[Decision] = []
        self.refresh()
        if world.past is not None:
            self.sample(world.past, stepped_back=stepped_back)
        while world.timers and world.timers[0][0] <= now:
            due, key = heappop(world.timers)
            item = world.items.get(key)
            if item is not None and item.timer == due:
                item.timer = None
                world.touched[key] = item
        while world.touched:
            touched, world.touched = world.touched, {}
            for item in touched.values():
                review_until_settled(world, item, decisions)
        self.redo_trees()
        self.flush()
        trees = sorted(world.forest.dirty, key=Tree.place)
        if trees and world.options.scheduling:
            cycle = Cycle(world)
            cycle.run(trees)
            decisions += cycle.decisions
            self.entries = cycle.entries
            self.evaluations += sum([entry.planner is not None for entry in cycle.entries])
            for tree in trees:
                if not self.is_dirty(tree):
                    tree.rest()
        return decisions

    def sample(self, past: PastUse, *, stepped_back: bool) -> None:
        """Sample the use of LocalQueues in each interval, and run a cycle where their order gives another head."""
        world = self.world
        if past.sample_number is None:
            take_lead(world)
            return
        if stepped_back:
            past.begin(world.now)
        elif past.sample_number != past.number(world.now):
            past.sample_all(world.now)
            world.relist(past.accounts)
            for queue in world.forest.queues.values():
                if queue.past is not None and queue.tree is not None and self.is_dirty(queue.tree):
                    world.forest.dirty[queue.tree] = None
            for tree in world.forest.trees:
                order = TreeUse(world).order(tree)
                if order != tree.order:
                    # Room that was kept for the head of one child may now be another's.
                    tree.order = order
                    tree.touch()

    def next_wake(self) -> Instant | None:
        """Return when to call `decide` again if nothing is observed before: now, later, or never (None)."""
        if not (self.synced and self.leading):
            return None
        world = self.world
        stale = world.forest.is_dirty() if world.options.scheduling else bool(world.forest.stale)
        if world.touched or world.to_flush or world.to_recheck or stale:
            return world.now
        while world.timers:
            due, key = world.timers[0]
            item = world.items.get(key)
            if item is not None and item.timer == due:
                return earlier(due, self.next_sample())
            heappop(world.timers)
        return self.next_sample()

    def next_sample(self) -> Instant | None:
        """Return when a sample may change the order of workloads that are not parked, or of teams; None if none can.

        All past use decays alike, so without present use no order changes. A sample that only changes what is reported
        needs no call of `decide`: the next call makes up for it.
        """
        world = self.world
        if world.past is None or not world.past.holdings or not world.options.scheduling:
            return None
        if any(queue.past is not None and world.pending[name].front for name, queue in world.forest.queues.items()):
            return world.past.next_sample(world.now)
        ordered = (tree for tree in world.forest.trees if tree.usage_based and world.options.fair_sharing)
        if any(len(world.pending[queue.name]) for tree in ordered for queue in tree.queues):
            return world.past.next_sample(world.now)
        return None

    def refresh(self) -> None:
        """Update the trees after edits of queues, cohorts, flavors and checks."""
        world = self.world
        recheck, world.to_recheck = world.to_recheck, {}
        for name in recheck:
            queue = world.forest.queues.get(name)
            if queue is None:
                continue
            active = not world.inactive_because(queue)
            if active != queue.active:
                queue.active = active
                world.forest.stale[queue] = None
                touch_members_of_queue(world, name)
        if world.forest.stale:
            cut_off = {name for name, queue in world.forest.queues.items() if queue.tree is None}
            self.redo_trees()
            for name, queue in world.forest.queues.items():
                if (queue.tree is None) is not (name in cut_off):
                    touch_members_of_queue(world, name)

    def redo_trees(self) -> None:
        """Recompute the trees that edits affected, and retry all workloads in them."""
        world = self.world
        for tree in world.forest.refresh():
            for queue in tree.queues:
                world.to_flush[queue.name] = None
                preemptor = world.pending[queue.name].preemptor
                if preemptor is not None:
                    # The edit may have made its plan impossible.
                    preemptor.claim = None

    def flush(self) -> None:
        """Retry the parked workloads of every tree in which something happened."""
        # spec: QUE-5
        world = self.world
        requests, world.to_flush = world.to_flush, {}
        trees: dict[Tree, None] = {}
        for name in requests:
            queue = world.forest.queues.get(name)
            if queue is not None and queue.tree is not None:
                trees[queue.tree] = None
        for tree in trees:
            tree.touch()
            for queue in tree.queues:
                world.pending[queue.name].flush(world.now, partial(world.serves, queue))

    def is_dirty(self, tree: Tree) -> bool:
        """Return whether another cycle over a tree could decide anything that the last one did not."""
        world = self.world
        keys: list[str] = []
        for queue in tree.queues:
            head = world.pending[queue.name].head() if world.can_admit(queue) else None
            if head is None:
                continue
            keys.append(head.key)
            if head.seen_at != tree.version:
                return True
            begin = start_of(head, queue, tree.cycle + 1, world.options)
            start = None if begin is None else begin.tried
            # Kueue's scan repeats forever; ours ends once every start was tried on this version of the tree.
            if start not in (head.starts if world.options.wrap_scan else head.starts[-1:]):
                return True
        # A head that was parked no longer keeps its quota from the others.
        return keys != tree.heads

    # Reads.

    @property
    def options(self) -> Options:
        """The options that the engine was created with."""
        return self.world.options

    @property
    def now(self) -> Instant:
        """The instant of the last `decide`; 0 before the first."""
        return self.world.now

    @property
    def is_settled(self) -> bool:
        """Whether every observed workload is in its place, so that no count misses one."""
        return not self.world.touched

    @property
    def has_edits(self) -> bool:
        """Whether edits of queues, cohorts, flavors or checks were observed that the next `decide` applies."""
        return bool(self.world.to_recheck or self.world.forest.stale)

    def awaits_review(self, key: str) -> bool:
        """Return whether a workload has changed and is not yet in its place."""
        return key in self.world.touched

    def item(self, key: str) -> Item | None:
        """Return what the engine knows about a workload; None if it knows none of this key."""
        return self.world.items.get(key)

    def items(self) -> Collection[Item]:
        """Return what the engine knows about each workload."""
        return self.world.items.values()

    def workload(self, key: str) -> Workload | None:
        """Return a workload with all decisions about it carried out; None if there is none of this key."""
        item = self.world.items.get(key)
        return None if item is None else item.workload

    def queue(self, name: str) -> ClusterQueue | None:
        """Return a ClusterQueue; None if there is none of this name."""
        node = self.world.forest.queues.get(name)
        return None if node is None else node.spec

    def queues(self) -> Iterator[ClusterQueue]:
        """Yield all ClusterQueues."""
        return (node.spec for node in self.world.forest.queues.values())

    def cohorts(self) -> Collection[str]:
        """Return the names of all cohorts, including those that exist only as a parent."""
        return self.world.forest.cohorts.keys()

    def share_of_queue(self, name: str) -> Share | None:
        """Return the share of a ClusterQueue; None if there is none of this name, or fair sharing is off."""
        return self.share_of(self.world.forest.queues.get(name))

    def share_of_cohort(self, name: str) -> Share | None:
        """Return the share of a cohort; None if there is none of this name, or fair sharing is off."""
        return self.share_of(self.world.forest.cohorts.get(name))

    def share_of(self, node: QuotaNode | None) -> Share | None:
        """Return the share of a node; below a cycle of cohorts, which may have been observed just now, it has none."""
        if node is None or not self.world.options.fair_sharing:
            return None
        return NO_SHARE if root_of(node) is None else share(node)

    def local_queue(self, key: str) -> LocalQueue | None:
        """Return a LocalQueue by namespace/name; None if there is none."""
        return self.world.local_queues.get(key)

    def local_queues_by_queue(self) -> Mapping[str, AbstractSet[str]]:
        """Return the keys of the LocalQueues of each ClusterQueue, which need not exist."""
        return self.world.local_queues_by_queue

    def local_queues_of(self, queue: str) -> Collection[str]:
        """Return the keys of the LocalQueues of a ClusterQueue, which need not exist."""
        return self.world.local_queues_by_queue.get(queue, ())

    def workloads_of(self, local_queue: str) -> Collection[str]:
        """Return the keys of the workloads of a LocalQueue, which need not exist."""
        return self.world.members.get(local_queue, {}).keys()

    def queue_of(self, workload: Workload) -> str:
        """Return the ClusterQueue of a workload's LocalQueue; empty if the LocalQueue does not exist."""
        return self.world.queue_of(workload)

    def pending(self, queue: str) -> Iterator[tuple[Item, bool]]:
        """Yield every pending workload of a ClusterQueue, in no particular order, and whether it is parked."""
        return iter(self.world.pending.get(queue, ()))

    def line(self, queue: str) -> Generator[None, None, list[Item]]:
        """Sort the pending workloads of a ClusterQueue into its order; facts may be observed between the short steps.

        The result is the order as of the first step.
        """
        found = self.world.pending.get(queue)
        return [] if found is None else (yield from found.line())

    def ahead(self, item: Item, most: int) -> Generator[None, None, Ahead]:
        """Count the pending workloads ahead of one in its ClusterQueue; facts may be observed between the short steps.

        The first `most` of them are named.
        """
        found = self.world.pending.get(item.queue)
        return Ahead(0, 0, ()) if found is None else (yield from found.ahead(item, most))

    def equal_workloads(self, item: Item) -> Iterator[Item]:
        """Yield the workloads, this one included, that share its verdict; none if it has a verdict of its own."""
        pending = self.world.pending.get(item.queue)
        if pending is not None and pending.verdict(item) is not None:
            yield from pending.equals(item)

    def pending_reason(self, item: Item) -> tuple[WaitReason, Why] | None:
        """Return why a workload is pending about which nothing was decided, possibly the verdict on an equal one."""
        return verdict(item, self.world)

    def past_use(self, local_queue: str, now: Instant) -> tuple[dict[str, int], Instant] | None:
        """Return the past use of a LocalQueue in billionths, and up to when it counts; None unless it is computed.

        It changes when a charge settles, and once in each sampling interval.
        """
        past = self.world.past
        account = None if past is None else past.accounts.get(local_queue)
        if past is None or past.sample_number is None or account is None or account.at is None:
            return None
        if past.number(now) <= past.number(account.at):
            return dict(account.consumed), account.at
        # As of the beginning of the interval, so that it stays the same until the next one.
        begun = Instant(past.number(now) * past.settings.sampling_micros)
        return past.sampled(local_queue, account, begun), begun

    def past_use_value(self, local_queue: str, now: Instant) -> float | None:
        """Return the same as one number, as it orders LocalQueues, pending charges included."""
        past, found = self.world.past, self.past_use(local_queue, now)
        if past is None or found is None:
            return None
        account = past.accounts[local_queue]
        return value_of(found[0], account.pending, account.weight, past.weights)

    def required_checks(self, workload: Workload) -> tuple[str, ...]:
        """Return the AdmissionChecks that a workload must pass with the flavors that it has reserved."""
        node = None if workload.admission is None else self.world.forest.queues.get(workload.admission.queue)
        return () if node is None else self.world.required_checks(node, assigned_flavors(workload))
