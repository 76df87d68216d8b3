"""A cache of the most recently used objects, limited by bytes."""

from collections import OrderedDict
from typing import Final

from pykueue.apiserver.storage.records import Key, StoredObject

BYTES: Final = 32 * 1024 * 1024
OVERHEAD: Final = 500
"""The approximate memory of an entry besides its body."""


class Cache:
    """Objects by key, None for one that is known not to exist; evicts the least recently used."""

    def __init__(self, limit: int = BYTES) -> None:
        self.limit = limit
        self.bytes = 0
        self.held: OrderedDict[Key, StoredObject | None] = OrderedDict()
        """Least recently used first."""

    def __contains__(self, key: Key) -> bool:
        return key in self.held

    def use(self, key: Key) -> StoredObject | None:
        """The cached object, which counts as recently used."""
        self.held.move_to_end(key)
        return self.held[key]

    def keep(self, key: Key, held: StoredObject | None) -> None:
        """Cache an object, or that it does not exist."""
        self.drop(key)
        self.held[key] = held
        self.bytes += size(held)
        while self.bytes > self.limit:
            _, oldest = self.held.popitem(last=False)
            self.bytes -= size(oldest)

    def drop(self, key: Key) -> None:
        """Remove an object from the cache."""
        if key in self.held:
            self.bytes -= size(self.held.pop(key))


def size(held: StoredObject | None) -> int:
    """The approximate memory of an entry."""
    return OVERHEAD + (len(held.body) if held is not None else 0)
