"""What if? A scratch world over the live tree: everything done in it can be undone. Next: `preempt`, `cycle`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pykueue.engine.forest import Forest, Tree
from pykueue.engine.items import Item
from pykueue.engine.quota import QuotaNode, Usage, book, free, unbook


class Snapshot:
    """The world of one cycle. It books on the live tree and keeps a journal, so that no copy is ever made."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.journal: list[tuple[QuotaNode, Usage, bool]] = []
        self.gone: set[str] = set()
        """Holders that have left in this world."""

    def book(self, queue: QuotaNode, usage: Usage) -> None:
        """Use so much more."""
        book(queue, usage)
        self.journal.append((queue, usage, True))

    def unbook(self, queue: QuotaNode, usage: Usage) -> None:
        """Use so much less."""
        unbook(queue, usage)
        self.journal.append((queue, usage, False))

    def leave(self, item: Item) -> None:
        """A holder leaves."""
        self.gone.add(item.key)
        self.unbook(self.forest.queues[item.queue], item.usage)

    def come_back(self, item: Item) -> None:
        """A holder that left is back."""
        self.gone.discard(item.key)
        self.book(self.forest.queues[item.queue], item.usage)

    def rewind(self, mark: int = 0) -> None:
        """Undo what was booked since the journal had this length."""
        journal = self.journal
        while len(journal) > mark:
            queue, usage, booked = journal.pop()
            (unbook if booked else book)(queue, usage)

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Whatever is done in this block is undone at its end."""
        before, mark = set(self.gone), len(self.journal)
        try:
            yield
        finally:
            self.rewind(mark)
            self.gone = before

    def as_it_is(self, tree: Tree) -> dict[str, QuotaNode]:
        """Copies of a tree's queues, and of the cohorts above them, as they are without what this world has booked."""
        journal = list(self.journal)
        self.rewind()
        copies: dict[QuotaNode, QuotaNode] = {}
        queues = {queue.name: copied(queue, copies) for queue in tree.queues}
        for queue, usage, booked in journal:
            (self.book if booked else self.unbook)(queue, usage)
        return queues

    @contextmanager
    def without(self, leaving: Iterable[Item]) -> Iterator[None]:
        """The world in which these holders have left, for the length of a block."""
        with self.scratch():
            for item in leaving:
                if item.key not in self.gone:
                    self.leave(item)
            yield


def copied(node: QuotaNode, copies: dict[QuotaNode, QuotaNode]) -> QuotaNode:
    """A node whose usage can be changed without changing the original, below a copy of its parent."""
    copy = copies.get(node)
    if copy is None:
        copy = copies[node] = QuotaNode(node.name, is_queue=node.is_queue)
        copy.subtree, copy.local, copy.borrow, copy.usage = node.subtree, node.local, node.borrow, dict(node.usage)
        copy.parent = None if node.parent is None else copied(node.parent, copies)
    return copy


def fits(queue: QuotaNode, usage: Usage) -> bool:
    """Whether a queue has room for all of this now."""
    for fr, amount in usage:  # noqa: SIM110
        if amount > free(queue, fr):
            return False
    return True
