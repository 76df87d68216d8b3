"""The engine: `observe(fact)`, `decide(now)`, `next_wake()`. Facts in, decisions out; no clock, I/O or randomness."""

from functools import partial
from heapq import heappop, heappush
from typing import assert_never

from pykueue.base.units import Instant
from pykueue.engine.assume import assumed
from pykueue.engine.cycle import Cycle, Entry
from pykueue.engine.decisions import Decision, NoLongerFits, WaitReason
from pykueue.engine.facts import Fact, Gone, Leading, Refused, Seen, Stopped, Synced, Written
from pykueue.engine.flavors import start_of
from pykueue.engine.forest import Tree
from pykueue.engine.items import Item
from pykueue.engine.learn import confirm, lose, see, take_back, touch_members_of_queue
from pykueue.engine.lifecycle import review, tell
from pykueue.engine.model import Options, Policy, Strategy
from pykueue.engine.pending import SHARED, Outcome
from pykueue.engine.placement import settle
from pykueue.engine.world import World

REVIEWS_MAX = 16
"""More decisions on one workload at one instant than this would be a rule that never comes to rest."""


class Engine:
    """Which job may start, when, and on which quota. The only holder of state that matters."""

    def __init__(self, options: Options | None = None) -> None:
        self.world = World(options or Options())
        self.synced = False
        self.leading = True
        self.timers: list[tuple[Instant, str]] = []
        self.evaluations = 0
        """How many heads were planned so far; the benchmarks count by it."""
        self.entries: list[Entry] = []
        """The heads of the last call's cycle, and what became of them."""

    def observe(self, fact: Fact) -> None:
        """Take note of a fact. Nothing is decided here, and hearing it twice changes nothing."""
        match fact:
            case Seen(thing, version):
                see(self.world, thing, version)
            case Gone(kind, name):
                lose(self.world, kind, name)
            case Stopped(key):
                item = self.world.items.get(key)
                if item is not None and item.workload.admission is not None and item.workload.evicted is not None:
                    item.stopped = True
                    self.world.touched[key] = item
            case Synced():
                self.synced = True
            case Leading(leading):
                self.leading = leading
            case Written(key, version):
                confirm(self.world, key, version)
            case Refused(key):
                take_back(self.world, key)
            case _:
                assert_never(fact)

    def decide(self, now: Instant) -> list[Decision]:
        """What is to be done at this instant: whatever time and facts demand, then one scheduling cycle.

        With `Options.scheduling` off there is no cycle.
        """
        if not (self.synced and self.leading):
            return []
        world = self.world
        world.now = now
        self.entries = []
        decisions: list[Decision] = []
        self.refresh()
        while self.timers and self.timers[0][0] <= now:
            due, key = heappop(self.timers)
            item = world.items.get(key)
            if item is not None and item.timer == due:
                item.timer = None
                world.touched[key] = item
        while world.touched:
            touched, world.touched = world.touched, {}
            for item in touched.values():
                self.attend(item, decisions)
        self.redo_trees()
        self.flush()
        trees = sorted(world.forest.restless, key=Tree.place)
        if trees and world.options.scheduling:
            self.run_cycle(trees, decisions)
            for tree in trees:
                if not self.is_restless(tree):
                    tree.rest()
        return decisions

    def next_wake(self) -> Instant | None:
        """When to call `decide` again if nothing is observed before: now, later, or never."""
        if not (self.synced and self.leading):
            return None
        world = self.world
        stale = world.forest.is_restless() if world.options.scheduling else bool(world.forest.stale)
        if world.touched or world.to_flush or world.to_recheck or stale:
            return world.now
        while self.timers:
            due, key = self.timers[0]
            item = world.items.get(key)
            if item is not None and item.timer == due:
                return due
            heappop(self.timers)
        return None

    def refresh(self) -> None:
        """Bring the trees up to date with the edits of queues, cohorts, flavors and checks."""
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
        """Redo the trees that edits touched, and try everyone in them again."""
        world = self.world
        for tree in world.forest.refresh():
            for queue in tree.queues:
                world.to_flush[queue.name] = None
                preemptor = world.pending[queue.name].preemptor
                if preemptor is not None:
                    # What an edit may have made impossible is planned anew.
                    preemptor.claim = None

    def attend(self, item: Item, decisions: list[Decision]) -> None:
        """Put a workload in its place, then follow its life as far as it goes at this instant."""
        settle(self.world, item)
        for _ in range(REVIEWS_MAX):
            found = review(item, self.world, self.world.now)
            if found.look_again != item.timer:
                item.timer = found.look_again
                if found.look_again is not None:
                    heappush(self.timers, (found.look_again, item.key))
            if found.decision is None:
                return
            decisions.append(found.decision)
            self.assume(item, found.decision)
        raise AssertionError(f"{item.key} does not come to rest: {decisions[-REVIEWS_MAX:]}")

    def assume(self, item: Item, decision: Decision) -> None:
        """Believe that a decision is carried out, until a fact says otherwise."""
        if item.confirmed is None:
            item.confirmed, item.was_stopped = item.workload, item.stopped
        assumed(item, decision)
        item.flying.append(item.workload)
        settle(self.world, item)

    def flush(self) -> None:
        """Wake the parked workloads of every tree in which something happened; once, however much did."""
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

    def run_cycle(self, trees: list[Tree], decisions: list[Decision]) -> None:
        """One cycle over the trees in which something changed, and what follows from it."""
        world = self.world
        cycle = Cycle(world, world.now)
        cycle.run(trees)
        self.entries = cycle.entries
        for decision in cycle.decisions:
            decisions.append(decision)
            self.assume(world.items[decision.workload], decision)
        for decision in cycle.decisions:
            self.attend(world.items[decision.workload], decisions)
        world.to_flush.update(dict.fromkeys(queue.name for queue in cycle.freed))
        for tree in cycle.kept:
            tree.touch()
        for entry in cycle.entries:
            self.evaluations += entry.planner is not None
            if entry.outcome is not None and entry.why is not None:
                self.put_back(entry, entry.outcome, decisions)
        if world.options.retry_beside_borrowers:
            for tree in cycle.lent:
                self.wake_rivals(tree)

    def put_back(self, entry: Entry, outcome: Outcome, decisions: list[Decision]) -> None:
        """A head stays pending: say why, and put it where it is tried again when that can help."""
        item, world, reason, why = entry.item, self.world, entry.reason, entry.why
        assert why is not None, "a head that stays pending has a reason"
        wait = tell(item, world, reason, why, world.now)
        if outcome in SHARED and world.options.wrap_scan:
            if entry.start is not None and not entry.replanned:
                # What only some of the flavors said is no verdict; the last full one stands.
                wait = None
                stands = None if item.workload.waiting is None else item.workload.waiting.reason
                reason = next((known for known in WaitReason if known == stands), reason)
                why = item.told or why
            if self.came_round(entry):
                item.bookmark = None
                outcome = outcome if None in item.starts and not entry.replanned else Outcome.CONTENDED
        pending = world.pending[entry.queue.name]
        pending.requeue(item, outcome, reason, why, world.now)
        if self.is_kept_out(entry) and pending.strategy is Strategy.BEST_EFFORT:
            pending.step_aside(item, entry.scene.news)
        if wait is not None:
            decisions.append(wait)
            self.assume(item, wait)

    def is_kept_out(self, entry: Entry) -> bool:
        """Whether a head fits but for room that is kept for heads of strict queues, which will keep it again."""
        scene = entry.scene
        if not self.world.options.step_aside or not isinstance(entry.why, NoLongerFits) or not scene.keepers:
            return False
        lasting = all(queue.spec.strategy is Strategy.STRICT for queue in scene.keepers)
        return lasting and scene.tree.news == scene.news and entry.item.claim is None

    def wake_rivals(self, tree: Tree) -> None:
        """Someone has borrowed: whoever found nobody to preempt, and may preempt borrowers, looks again."""
        for queue in tree.queues:
            if queue.spec.preemption.borrow_within_cohort is not Policy.NEVER:
                self.world.pending[queue.name].unpark_classes()

    def came_round(self, entry: Entry) -> bool:
        """Whether a head's scans have tried every way to begin, or long enough, and are to start over."""
        bookmark = entry.item.bookmark
        if bookmark is None or bookmark.tried in entry.item.starts:
            return True
        flavors = {flavor for group in entry.queue.groups.values() for flavor in group.flavors}
        return bookmark.round > len(flavors) * len(entry.plan.pod_sets)

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
            begin = start_of(head, queue, tree.cycle + 1, world.options)
            start = None if begin is None else begin.tried
            # Kueue's own scan goes round and round; ours ends once every way to start was tried on this version.
            if start not in (head.starts if world.options.wrap_scan else head.starts[-1:]):
                return True
        return False
