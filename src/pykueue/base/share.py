"""How is a value that many have kept only once? Whoever keeps many things for long asks for the one that equals it."""

from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)

MOST: Final = 4096


class Pool(Generic[T]):
    """Values of which there are few, however many have them; it begins anew when there are more than a few."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.known: dict[T, T] = {}

    def same(self, value: T) -> T:
        """The value that was first among those that equal this one."""
        if len(self.known) >= self.most and value not in self.known:
            self.known.clear()
        return self.known.setdefault(value, value)


NAMES: Final = Pool[str](4 * MOST)
"""Names, keys and UIDs: of a job several things are kept in several places, which all hear of it at about one time."""


class Mappings:
    """The same for mappings, which nobody may change."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.known: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}

    def same(self, value: Mapping[str, str]) -> Mapping[str, str]:
        """The mapping that was first among those that equal this one."""
        key = tuple(sorted(value.items()))
        if len(self.known) >= self.most and key not in self.known:
            self.known.clear()
        return self.known.setdefault(key, value)
