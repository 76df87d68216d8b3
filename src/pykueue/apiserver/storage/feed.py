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
"""The most changes in one batch."""
AT_ONCE_BYTES: Final = 128 * 1024
"""A batch ends with the change that brings it to this many bytes."""
NEAR: Final = 4
"""How many of the last changes are compared one by one before a search."""
SPAN: Final = 2_000
"""The most versions scanned in one step, so that the loop is not blocked for long."""
OVERHEAD: Final = 400
"""The approximate memory of a change besides its bodies."""


class Log:
    """The recent changes of a resource, oldest first."""

    __slots__ = ("changes", "gone")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.gone = 0
        """How many were removed already."""

    def __len__(self) -> int:
        return len(self.changes) - self.gone

    def append(self, change: Change) -> None:
        """Append the newest change."""
        self.changes.append(change)

    def popleft(self) -> Change:
        """Remove the oldest change."""
        oldest = self.changes[self.gone]
        self.changes[self.gone] = FORGOTTEN
        self.gone += 1
        if self.gone > len(self.changes) // 2:
            del self.changes[: self.gone]
            self.gone = 0
        return oldest

    def after(self, version: int) -> list[Change]:
        """The first changes after a version, as many as one batch holds."""
        changes = self.changes
        place = len(changes)
        # Most watchers have seen everything but the last changes.
        while place > self.gone and changes[place - 1].version > version:
            place -= 1
            if len(changes) - place > NEAR:
                place = bisect_right(changes, version, lo=self.gone, hi=place, key=version_of)
                break
        found = changes[place : place + AT_ONCE]
        if len(found) <= 1:
            return found
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
    """Committed changes in order, and their watchers."""

    def __init__(self, database: Database, version: int, compacted: int) -> None:
        self.database = database
        self.version = version
        """The version of the last change."""
        self.compacted = compacted
        """Changes up to this version may be missing."""
        self.began = version
        self.recent: dict[str, Log] = {}
        """The recent changes of each resource."""
        self.gone: dict[str, int] = {}
        """The version of a resource's last change that is no longer in `recent`."""
        self.order: deque[str] = deque()
        """The resource of each change in `recent`, oldest first."""
        self.bytes = 0
        self.waiting: dict[tuple[str, str], dict[asyncio.Future[int], None]] = {}
        """Waiting watchers by resource and namespace, which is empty for all namespaces.

        They are woken in FIFO order, so that runs are deterministic, with the version up to which they missed nothing.
        """
        self.closed = False

    def add(self, changes: Sequence[Change]) -> None:
        """Add committed changes and wake their watchers."""
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
        """Wake the watchers of these resources."""
        for topic in topics:
            for waiter in self.waiting.pop(topic, ()):
                if not waiter.done():
                    waiter.set_result(seen)

    def after(self, resource: str, version: int) -> tuple[Sequence[Change], int]:
        """The next changes of a resource after a version, and the version up to which they are complete."""
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
    """The approximate memory of a change."""
    return body_size(change) + OVERHEAD


def body_size(change: Change) -> int:
    """The bytes of a change's bodies."""
    return len(change.body) + len(change.before or b"")


class Watch(AsyncIterator[Sequence[Change]]):
    """The changes of a resource after a version, in batches, until the store is closed."""

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
        """The version up to which everything was delivered, for bookmarks."""
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
                # There may be many changes to scan; yield to other tasks in between.
                await asyncio.sleep(0)
            else:
                await self.change()
        raise StopAsyncIteration

    async def change(self) -> None:
        """Wait until there may be new changes."""
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
