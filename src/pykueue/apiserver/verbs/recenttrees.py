"""The trees of recently written objects, so that the next write need not decode them.

An object that is written is soon written again: a Job, its Workload and its pod each a few times within a second.
Writes never modify a tree; they share its unchanged parts.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.storage.records import Key, StoredObject, stamped

BYTES: Final = 2 * 1024 * 1024
"""The most bytes of JSON whose trees are kept; a tree takes about ten times as much."""
BODY_BYTES: Final = 16 * 1024
"""The tree of a longer body is not kept."""


class RecentTrees:
    """The last written trees, each for one version of its object."""

    def __init__(self, limit: int = BYTES) -> None:
        self.limit = limit
        self.bytes = 0
        self.kept: OrderedDict[Key, tuple[StoredObject, Tree]] = OrderedDict()
        """The oldest first."""

    def of(self, there: StoredObject) -> Tree:
        """The tree of a stored object, which must not be modified."""
        known = self.kept.get(there.key)
        if known is not None and known[0].version == there.version:
            return known[1]
        tree: Tree = msgspec.json.decode(there.body)
        return tree

    def keep(self, held: StoredObject, tree: Tree) -> None:
        """Keep the tree of an object that was stored."""
        self.drop(held.key)
        if len(held.body) > BODY_BYTES:
            return
        self.kept[held.key] = held, stamped(tree, held.version)
        self.bytes += len(held.body)
        while self.bytes > self.limit:
            _, (oldest, _) = self.kept.popitem(last=False)
            self.bytes -= len(oldest.body)

    def drop(self, key: Key) -> None:
        """Drop the tree of an object."""
        known = self.kept.pop(key, None)
        if known is not None:
            self.bytes -= len(known[0].body)
