"""The watch feed: recent changes from memory, older ones from the database, and the watchers that wait for more.

A watcher holds only its position and fetches what comes after it, a few changes at a time. A slow watcher therefore
holds no more than these few; it ends when changes that it has not seen are compacted.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from pykueue.apiserver.storage.database import Database
from pykueue.apiserver.storage.records import Change, CompactedError, Key

RECENT_BYTES: Final = 16 * 1024 * 1024
RECENT_MAX: Final = 10_000
AT_ONCE: Final = 500
"""Most changes that are given in one step."""
AT_ONCE_BYTES: Final = 128 * 1024
"""The change that brings a step to so many bytes is the last one in it."""
SPAN: Final = 2_000
"""Most versions that are looked through in one step; the loop is not to stand still for long."""
OVERHEAD: Final = 400
"""About what a change takes in memory beside its bodies."""


class Log:
    """The last changes of a resource, oldest first."""

    __slots__ = ("changes", "gone")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.gone = 0
        """How many of them have been taken away already."""

    def __len__(self) -> int:
        return len(self.changes) - self.gone

    def append(self, change: Change) -> None:
        """Add the newest."""
        self.changes.append(change)

    def popleft(self) -> Change:
        """Take away the oldest."""
        oldest = self.changes[self.gone]
        self.changes[self.gone] = FORGOTTEN
        self.gone += 1
        if self.gone > len(self.changes) // 2:
            del self.changes[: self.gone]
            self.gone = 0
        return oldest

    def after(self, version: int) -> list[Change]:
        """The first ones after a version, as many as are given in one step."""
        place = bisect_right(self.changes, version, lo=self.gone, key=version_of)
        found = self.changes[place : place + AT_ONCE]
        total = 0
        for count, change in enumerate(found, 1):
            total += size(change)
            if total >= AT_ONCE_BYTES:
                return found[:count]
        return found


FORGOTTEN: Final = Change(0, Key("", "", ""), "DELETED", b"", None)


def version_of(change: Change) -> int:
    """The version of a change."""
    return change.version


class Feed:
    """The changes that were committed, in their order, and the watchers of them."""

    def __init__(self, database: Database, version: int, compacted: int) -> None:
        self.database = database
        self.version = version
        """Of the last change."""
        self.compacted = compacted
        """Changes up to this version may be forgotten."""
        self.began = version
        self.recent: dict[str, Log] = {}
        """The last changes of each resource."""
        self.gone: dict[str, int] = {}
        """The version of the last change of a resource that is no longer in `recent`."""
        self.order: deque[str] = deque()
        """The resource of each change in `recent`, oldest first."""
        self.bytes = 0
        self.waiting: dict[tuple[str, str], dict[asyncio.Future[int], None]] = {}
        """Those who wait for a change, by resource and namespace; the empty one stands for all.

        They are woken in the order in which they came, so that the same story goes the same way each time, and are told
        the version up to which they have missed nothing.
        """
        self.closed = False

    def add(self, changes: Sequence[Change]) -> None:
        """These were committed, and whoever waits for one of them is woken."""
        seen = self.version
        for change in changes:
            resource = change.key.resource
            log = self.recent.get(resource)
            if log is None:
                log = self.recent[resource] = Log()
            log.append(change)
            self.order.append(resource)
            self.bytes += size(change)
            self.version = change.version
        while self.bytes > RECENT_BYTES or len(self.order) > RECENT_MAX:
            resource = self.order.popleft()
            oldest = self.recent[resource].popleft()
            self.gone[resource] = oldest.version
            self.bytes -= size(oldest)
        if self.waiting:
            topics = dict.fromkeys((change.key.resource, "") for change in changes)
            topics.update(dict.fromkeys((change.key.resource, change.key.namespace) for change in changes))
            self.wake(topics, seen)

    def wake(self, topics: Iterable[tuple[str, str]], seen: int) -> None:
        """Have those look again who wait for something of these."""
        for topic in topics:
            for waiter in self.waiting.pop(topic, ()):
                if not waiter.done():
                    waiter.set_result(seen)

    def after(self, resource: str, version: int) -> tuple[Sequence[Change], int]:
        """The next changes of a resource after a version, and the version up to which nothing more is to come."""
        if version < self.compacted:
            raise CompactedError(f"changes after version {version} are kept from version {self.compacted} on only")
        if version >= self.gone.get(resource, self.began):
            log = self.recent.get(resource)
            found = log.after(version) if log is not None else []
            if log is None or not found or found[-1] is log.changes[-1]:
                return found, max(version, self.version)
            return found, found[-1].version
        end = min(version + SPAN, self.version)
        stored = self.database.changes(resource, after=version, to=end, limit=AT_ONCE, most=AT_ONCE_BYTES)
        cut = len(stored) == AT_ONCE or sum(map(body_size, stored)) >= AT_ONCE_BYTES
        return stored, stored[-1].version if cut else end

    def close(self) -> None:
        """End every watch."""
        self.closed = True
        self.wake(list(self.waiting), self.version)


def size(change: Change) -> int:
    """About what a change takes in memory."""
    return body_size(change) + OVERHEAD


def body_size(change: Change) -> int:
    """The bytes of a change's bodies."""
    return len(change.body) + len(change.before or b"")


class Watch(AsyncIterator[Sequence[Change]]):
    """The changes of a resource after a version, in batches, without end until the store is closed."""

    def __init__(self, feed: Feed, resource: str, namespace: str, after: int) -> None:
        self.feed = feed
        self.resource = resource
        self.namespace = namespace
        self.position = after
        self.waiter: asyncio.Future[int] | None = None
        if after < feed.compacted:
            feed.after(resource, after)

    @property
    def reached(self) -> int:
        """The version up to which everything was given to whoever iterates; what a bookmark may say."""
        if self.waiter is None or self.waiter.cancelled():
            return self.position
        return max(self.position, self.waiter.result() if self.waiter.done() else self.feed.version)

    async def __anext__(self) -> Sequence[Change]:
        while not self.feed.closed:
            found, reached = self.feed.after(self.resource, self.position)
            behind = reached < self.feed.version
            self.position = reached
            if self.namespace:
                found = [change for change in found if change.key.namespace == self.namespace]
            if found:
                return found
            if behind:
                # Much may have to be looked through: others have their turn in between.
                await asyncio.sleep(0)
            else:
                await self.change()
        raise StopAsyncIteration

    async def change(self) -> None:
        """Wait until there may be something to see."""
        topic = self.resource, self.namespace
        self.waiter = waiter = asyncio.get_running_loop().create_future()
        self.feed.waiting.setdefault(topic, {})[waiter] = None
        try:
            self.position = max(self.position, await waiter)
        finally:
            self.waiter = None
            if waiters := self.feed.waiting.get(topic):
                waiters.pop(waiter, None)
                if not waiters:
                    del self.feed.waiting[topic]
