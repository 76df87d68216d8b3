"""The engine: `observe(fact)`, `decide(now)`, `next_wake()`. Facts in, decisions out; no clock, I/O or randomness."""

from functools import partial
from heapq import heappop
from typing import assert_never

from pykueue.base.units import Instant
from pykueue.engine.cycle import Cycle
from pykueue.engine.decisions import Decision
from pykueue.engine.entries import Entry
from pykueue.engine.facts import Fact, Gone, Leading, Refused, Seen, Stopped, Synced, Written
from pykueue.engine.flavors import start_of
from pykueue.engine.forest import Tree
from pykueue.engine.learn import confirm, lose, see, take_back, touch_members_of_queue
from pykueue.engine.lifecycle import attend
from pykueue.engine.model import Options
from pykueue.engine.world import World


class Engine:
    """Which job may start, when, and on which quota. The only holder of state that matters."""

    def __init__(self, options: Options | None = None) -> None:
        self.world = World(options or Options())
        self.synced = False
        self.leading = True
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
        while world.timers and world.timers[0][0] <= now:
            due, key = heappop(world.timers)
            item = world.items.get(key)
            if item is not None and item.timer == due:
                item.timer = None
                world.touched[key] = item
        while world.touched:
            touched, world.touched = world.touched, {}
            for item in touched.values():
                attend(world, item, decisions)
        self.redo_trees()
        self.flush()
        trees = sorted(world.forest.restless, key=Tree.place)
        if trees and world.options.scheduling:
            cycle = Cycle(world)
            cycle.run(trees)
            decisions += cycle.decisions
            self.entries = cycle.entries
            self.evaluations += sum(entry.planner is not None for entry in cycle.entries)
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
        while world.timers:
            due, key = world.timers[0]
            item = world.items.get(key)
            if item is not None and item.timer == due:
                return due
            heappop(world.timers)
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
