"""The order of heads under fair sharing: a tournament in each tree, from the ClusterQueues up to the root.

In each cohort the winners of its children compete; the share of each child, with its winner admitted, decides first,
in a usage-based cohort its past use. The winner at the root is considered next, and the tournament goes on without it,
on the usage as it is then. A share depends only on the node's own usage, so that only the nodes above a changed queue
compete again.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush

from pykueue.engine.entries import Entry, Started
from pykueue.engine.forest import Tree
from pykueue.engine.model import Options
from pykueue.engine.quota import QuotaNode, ancestors
from pykueue.engine.shares import Standing, share_with
from pykueue.engine.snapshot import Snapshot
from pykueue.engine.treeuse import TreeUse
from pykueue.engine.world import World

FairKey = tuple[bool, bool, float, Standing, int, int, str]


def fair_key(entry: Entry, side: QuotaNode, used: float, *, promised: bool, options: Options) -> FairKey:
    """Order of heads in a cohort: those with a claim first, then those that do not borrow, smaller share, as usual.

    `side` is the child of the cohort that the head comes from, and `used` its past use if that comes before the share.
    """
    # spec: SHR-3
    usage = entry.usage()
    share = share_with(side, entry.queue, usage)
    return (
        not promised,
        options.fair_prefers_nonborrowing and share.borrows_any(usage),
        used,
        share.standing,
        -entry.item.priority if options.priority_sorting else 0,
        entry.item.stamp,
        entry.queue.name,
    )


class Contest:
    """The contest in one cohort: the winner of each of its children, in order."""

    __slots__ = ("keys", "order", "winners")

    def __init__(self) -> None:
        self.winners: dict[QuotaNode, Entry] = {}
        self.keys: dict[QuotaNode, FairKey] = {}
        self.order: list[tuple[FairKey, str, QuotaNode]] = []
        """The children as a heap; an entry whose key is not the child's current one is outdated."""

    def put(self, child: QuotaNode, winner: Entry, key: FairKey) -> None:
        """Set the winner of a child."""
        self.winners[child] = winner
        if self.keys.get(child) != key:
            self.keys[child] = key
            heappush(self.order, (key, child.name, child))

    def remove(self, child: QuotaNode) -> None:
        """Record that a child has no head left."""
        self.winners.pop(child, None)
        self.keys.pop(child, None)

    def best(self) -> Entry | None:
        """Return the winner among all children; None if no child has one."""
        order = self.order
        while order:
            key, _, child = order[0]
            if self.keys.get(child) == key:
                return self.winners[child]
            heappop(order)
        return None


class Tournament:
    """The heads of one tree that are still to be considered in this cycle."""

    def __init__(self, world: World, tree: Tree, snapshot: Snapshot, is_promised: Callable[[Entry], bool]) -> None:
        self.root = tree.root
        self.snapshot = snapshot
        self.is_promised = is_promised
        self.options = world.options
        self.use = TreeUse(world)
        self.entries: dict[QuotaNode, Entry] = {}
        self.contests: dict[QuotaNode, Contest] = {}
        self.seen = 0
        """How much of the snapshot's journal the contests account for."""

    def run(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield these heads in order; the caller considers each, and so changes the snapshot, before the next."""
        self.seen = len(self.snapshot.journal)
        for entry in entries:
            self.add(entry)
        while self.entries:
            best = next(iter(self.entries.values())) if self.root.is_queue else self.contests[self.root].best()
            assert best is not None, "a head is left"
            del self.entries[best.queue]
            self.contend(best.queue)
            yield best
            if isinstance(best.result, Started):
                self.use.charge(best)
            self.catch_up()

    def add(self, entry: Entry) -> None:
        """Let a head take part."""
        self.entries[entry.queue] = entry
        self.contend(entry.queue)

    def catch_up(self) -> None:
        """Repeat the contests above every queue whose usage has changed since the last time."""
        journal = self.snapshot.journal
        for queue in dict.fromkeys(queue for queue, _, _ in journal[self.seen :]):
            self.contend(queue)
        self.seen = len(journal)

    def contend(self, queue: QuotaNode) -> None:
        """Repeat the contests on the path from a queue to the root."""
        child, winner = queue, self.entries.get(queue)
        for cohort in ancestors(queue):
            contest = self.contests.get(cohort)
            if contest is None:
                contest = self.contests[cohort] = Contest()
            if winner is None:
                contest.remove(child)
            else:
                promised, used = self.is_promised(winner), self.use.place(child)
                contest.put(child, winner, fair_key(winner, child, used, promised=promised, options=self.options))
            child, winner = cohort, contest.best()
