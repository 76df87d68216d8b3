"""Trial changes of usage on the live tree that can be undone: workloads that leave or start."""

from collections.abc import Iterable

from pykueue.engine.forest import Forest, Tree
from pykueue.engine.items import Item
from pykueue.engine.quota import QuotaNode, Usage, book, free, unbook


class Snapshot:
    """The trial bookings of one cycle in one tree.

    They change the usage of the live tree and are recorded in a journal, so that no tree has to be copied to try
    something; `rewind` undoes them. Only `as_it_is` makes copies.
    """

    __slots__ = ("forest", "gone", "journal")

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.journal: list[tuple[QuotaNode, Usage, bool]] = []
        self.gone: set[str] = set()
        """The holders whose usage is removed."""

    def book(self, queue: QuotaNode, usage: Usage) -> None:
        """Add usage to a queue."""
        book(queue, usage)
        self.journal.append((queue, usage, True))

    def unbook(self, queue: QuotaNode, usage: Usage) -> None:
        """Remove usage from a queue."""
        unbook(queue, usage)
        self.journal.append((queue, usage, False))

    def leave(self, item: Item) -> None:
        """Remove the usage of a holder."""
        self.gone.add(item.key)
        self.unbook(self.forest.queues[item.queue], item.usage)

    def come_back(self, item: Item) -> None:
        """Undo `leave`."""
        self.gone.discard(item.key)
        self.book(self.forest.queues[item.queue], item.usage)

    def rewind(self, mark: int = 0) -> None:
        """Undo everything that was booked since the journal had this length."""
        journal = self.journal
        while len(journal) > mark:
            queue, usage, booked = journal.pop()
            (unbook if booked else book)(queue, usage)

    def scratch(self) -> "Scratch":
        """Undo, at the end of the block, everything that the block booked."""
        return Scratch(self)

    def as_it_is(self, tree: Tree) -> dict[str, QuotaNode]:
        """Return copies of a tree's queues and of the cohorts above them, without the trial bookings."""
        journal = list(self.journal)
        self.rewind()
        copies: dict[QuotaNode, QuotaNode] = {}
        queues = {queue.name: copied(queue, copies) for queue in tree.queues}
        for queue, usage, booked in journal:
            (self.book if booked else self.unbook)(queue, usage)
        return queues

    def without(self, leaving: Iterable[Item]) -> "Scratch":
        """Remove the usage of these holders for the duration of the block."""
        return Scratch(self, leaving)


class Scratch:
    """A block in which bookings are tried; without these holders, if any. A class, since generators take longer."""

    __slots__ = ("gone", "leaving", "mark", "snapshot")

    def __init__(self, snapshot: Snapshot, leaving: Iterable[Item] = ()) -> None:
        self.snapshot = snapshot
        self.leaving = leaving
        self.gone = snapshot.gone
        self.mark = len(snapshot.journal)

    def __enter__(self) -> None:
        snapshot = self.snapshot
        snapshot.gone = set(self.gone)
        for item in self.leaving:
            if item.key not in snapshot.gone:
                snapshot.leave(item)

    def __exit__(self, *_error: object) -> None:
        self.snapshot.rewind(self.mark)
        self.snapshot.gone = self.gone


def copied(node: QuotaNode, copies: dict[QuotaNode, QuotaNode]) -> QuotaNode:
    """Return a copy of a node and of the nodes above it, whose usage can change without changing the originals."""
    copy = copies.get(node)
    if copy is None:
        copy = copies[node] = QuotaNode(node.name, is_queue=node.is_queue)
        copy.subtree, copy.local, copy.borrow, copy.usage = node.subtree, node.local, node.borrow, dict(node.usage)
        copy.parent = None if node.parent is None else copied(node.parent, copies)
    return copy


def fits(queue: QuotaNode, usage: Usage) -> bool:
    """Return whether a queue has room for all of this usage."""
    for fr, amount in usage:  # noqa: SIM110
        if amount > free(queue, fr):
            return False
    return True
