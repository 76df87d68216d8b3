"""Interning: keep one copy of values that many objects hold."""

from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)

MOST: Final = 4096


class Pool(Generic[T]):
    """Interned values of small variety; it starts over when it holds too many."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.known: dict[T, T] = {}

    def same(self, value: T) -> T:
        """The first value seen that equals this one."""
        if len(self.known) >= self.most and value not in self.known:
            self.known.clear()
        return self.known.setdefault(value, value)


NAMES: Final = Pool[str](4 * MOST)
"""Names, keys and UIDs: several parts of the system keep those of one job at about the same time."""


class Mappings:
    """Interned mappings, which must not be changed."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.known: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}

    def same(self, value: Mapping[str, str]) -> Mapping[str, str]:
        """The first mapping seen that equals this one."""
        key = tuple(sorted(value.items()))
        if len(self.known) >= self.most and key not in self.known:
            self.known.clear()
        return self.known.setdefault(key, value)
