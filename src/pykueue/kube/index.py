"""An index of objects by values of theirs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class Index(Generic[T]):
    """Objects by a value of theirs."""

    def __init__(self, keys: Callable[[T], Iterable[str]]) -> None:
        self.keys = keys
        self.values: dict[str, tuple[str, T] | dict[str, T]] = {}
        """Most values belong to one object only, and a dict is large."""

    def get(self, value: str) -> Mapping[str, T]:
        """The present objects with this value, by key; valid until the next change."""
        held = self.values.get(value, {})
        return dict((held,)) if isinstance(held, tuple) else held

    def update(self, key: str, old: T | None, new: T | None) -> None:
        """Apply a change of an object."""
        left = set() if old is None else set(self.keys(old))
        if new is not None:
            for value in self.keys(new):
                left.discard(value)
                self.add(value, key, new)
        for value in left:
            self.remove(value, key)

    def add(self, value: str, key: str, new: T) -> None:
        """Add an object to this value."""
        held = self.values.get(value)
        if held is None:
            self.values[value] = (key, new)
        elif isinstance(held, tuple) and held[0] == key:
            self.values[value] = (held[0], new)
        elif isinstance(held, tuple):
            self.values[value] = {held[0]: held[1], key: new}
        else:
            held[key] = new

    def remove(self, value: str, key: str) -> None:
        """Remove an object from this value."""
        held = self.values.get(value)
        if isinstance(held, dict):
            held.pop(key, None)
        if not held or (isinstance(held, tuple) and held[0] == key):
            self.values.pop(value, None)
