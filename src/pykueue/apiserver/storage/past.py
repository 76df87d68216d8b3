"""Reconstructs a list as it was at an earlier version, from the current objects and the changes since."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, TypeAlias

from pykueue.apiserver.storage.feed import Feed
from pykueue.apiserver.storage.records import Change, CompactedError, Key, StoredObject
from pykueue.base.turns import COPIED

PAST_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of earlier bodies held for one page; a version that needs more is reported as too old."""

Place: TypeAlias = tuple[str, str]
"""The position of an object in a list: its namespace and name."""


class Past:
    """The earlier state of objects after a position in a list that have changed since a version."""

    def __init__(self, feed: Feed, resource: str, namespace: str, version: int, after: Place | None) -> None:
        self.feed = feed
        self.resource = resource
        self.namespace = namespace
        self.after = after
        """The position that the list has reached; earlier objects are not needed."""
        self.position = version
        """Changes up to this version were read."""
        self.bodies: dict[Key, bytes | None] = {}
        """The earlier state of changed objects; None for those that did not exist."""
        self.ahead: list[tuple[Place, Key]] = []
        """The positions of those that did exist, as a heap."""
        self.bytes = 0

    @property
    def behind(self) -> bool:
        """Whether there are changes that were not read yet."""
        return self.position < self.feed.version

    @property
    def created(self) -> int:
        """How many objects were created since."""
        return sum(1 for body in self.bodies.values() if body is None)

    def step(self) -> int:
        """Read some more changes; returns the estimated microseconds. Raises `CompactedError` if they are gone."""
        found, self.position = self.feed.after(self.resource, self.position)
        for change in found:
            if not self.namespace or change.key.namespace == self.namespace:
                self.learn(change)
        return len(found) + sum(len(change.body) for change in found) // COPIED

    def learn(self, change: Change) -> None:
        """Record the state of an object before its first change."""
        where = place(change.key)
        if change.key in self.bodies or (self.after is not None and where <= self.after):
            return
        self.bodies[change.key] = change.before
        if change.before is not None:
            heappush(self.ahead, (where, change.key))
            self.bytes += len(change.before)
            if self.bytes > PAST_BYTES:
                raise CompactedError(f"too much has changed since version {self.position}")

    def merged(self, page: Sequence[StoredObject], end: Place | None) -> Iterator[StoredObject]:
        """The objects of a page in their earlier state; the page ends at this position or at the end of the list."""
        for held in page:
            yield from self.up_to(place(held.key))
            if held.key not in self.bodies:
                yield held
        yield from self.up_to(end)
        self.after = end

    def up_to(self, end: Place | None) -> Iterator[StoredObject]:
        """The changed objects up to a position, in their earlier state."""
        while self.ahead and (end is None or self.ahead[0][0] <= end):
            _, key = heappop(self.ahead)
            yield StoredObject(key, 0, "", self.bodies[key] or b"{}")


def place(key: Key) -> Place:
    """The position of an object in a list."""
    return key.namespace, key.name
