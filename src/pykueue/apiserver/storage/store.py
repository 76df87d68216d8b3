"""The object store: versioned objects over one SQLite file, or in memory.

Everything here runs on one event loop. A write is decided synchronously, so that nothing can happen between reading an
object and writing it, and is then pending: `latest` sees it at once; `get`, lists and watches see it when it is
committed, and only then is it acknowledged. Writes that arrive during a commit are committed together. If a write
fails, so do the pending writes that were based on it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from pykueue.api.core import Tree
from pykueue.apiserver.storage import datafile
from pykueue.apiserver.storage.cache import Cache
from pykueue.apiserver.storage.database import BATCH_BYTES, Database
from pykueue.apiserver.storage.datafile import Lock
from pykueue.apiserver.storage.feed import Feed, Watch
from pykueue.apiserver.storage.logsize import LOG_BYTES, LogSize
from pykueue.apiserver.storage.pendingwrite import Write
from pykueue.apiserver.storage.records import (
    Change,
    CompactedError,
    FullError,
    How,
    Key,
    StoredObject,
    StoreError,
    TooLargeError,
    cut,
    encoded,
    place,
)
from pykueue.apiserver.storage.writer import InLoop, InThread, Writer
from pykueue.base.clock import Clock
from pykueue.base.timers import Timer
from pykueue.base.units import MICROS, Moment

T = TypeVar("T")

__all__ = [
    "Change",
    "CompactedError",
    "FullError",
    "How",
    "Key",
    "Store",
    "StoreError",
    "StoredObject",
    "TooLargeError",
    "Watch",
]

BATCH: Final = 256
"""The most writes in one commit."""
KEPT: Final = 10_000
KEPT_MAX: Final = 100_000
KEPT_MICROS: Final = 5 * 60 * MICROS
"""The log keeps this many changes and this much time, whichever is more, but never more than `KEPT_MAX`."""
MARK_MICROS: Final = 10 * MICROS
"""The resolution of the times of versions."""
UPKEEP_MICROS: Final = 10 * MICROS
"""How long after writes maintenance runs."""
RECORD_SECONDS: Final = 0.01
"""How long a record waits for another write to be committed with."""
CHUNK: Final = 500
"""Versions compacted in one step; a write waits for at most one step."""


class Store:
    """Objects, their versions and their changes."""

    def __init__(self, database: Database, writer: Writer, clock: Clock, lock: Lock | None) -> None:
        self.database = database
        self.writer = writer
        self.clock = clock
        self.lock = lock
        version = database.version()
        self.feed = Feed(database, version, database.compacted())
        self.cache = Cache()
        self.issued = version
        """The last version given to a write; a failed write keeps its version."""
        self.pending: dict[Key, list[Write]] = {}
        """The pending writes of each object, oldest first."""
        self.queue: deque[Write] = deque()
        """Writes not yet given to the writer."""
        self.busy = False
        """Whether the writer is busy."""
        self.called = False
        """Whether `hand_over` is scheduled."""
        self.urgent = False
        """Whether the queue has to be committed now: it holds more than records, or they have waited long enough."""
        self.forgotten = self.feed.compacted
        """The version up to which the file is compacted; it follows `feed.compacted`."""
        self.checkpoint_due = False
        self.chores: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        """Work on other tables, which alternates with writes."""
        self.stalled = False
        """Whether maintenance failed and waits for its next run."""
        self.wrote = True
        """Whether the last work was a write; maintenance and writes alternate."""
        self.marks: deque[tuple[Moment, int]] = deque([(clock.moment(), version)])
        """When which version was the last one, oldest first."""
        self.log_size = LogSize()
        self.unwritten = 0
        """The bytes of pending writes."""
        if self.is_short():
            # The log of an earlier server takes room that deletions need.
            self.feed.compacted = version
        self.maintenance: asyncio.Task[None] | None = None
        self.quiet: asyncio.Future[None] | None = None
        """Done when nothing is queued or in progress, for `close`."""
        self.closing = False

    @classmethod
    def open(cls, path: Path | None, clock: Clock) -> Self:
        """The store in a file, created if it is missing; without a file, an empty store in memory.

        In memory, everything runs on the event loop, in a deterministic order.
        """
        if path is None:
            return cls(datafile.in_memory(), InLoop(), clock, None)
        database, lock = datafile.opened(path)
        try:
            return cls(database, InThread("pykueue-store"), clock, lock)
        except BaseException:
            database.close()
            lock.close()
            raise

    @property
    def version(self) -> int:
        """The version of the last committed write."""
        return self.feed.version

    @property
    def compacted(self) -> int:
        """The oldest version from which a watch can continue."""
        return self.feed.compacted

    def get(self, key: Key) -> StoredObject | None:
        """The committed state of an object."""
        if writes := self.pending.get(key):
            return writes[0].before
        return self.read(key)

    def latest(self, key: Key) -> StoredObject | None:
        """The state of an object after all pending writes, on which the next write is based."""
        if writes := self.pending.get(key):
            return writes[-1].after
        return self.read(key)

    def remembered(self, key: Key) -> StoredObject | None:
        """The same without reading the file: None for an object that is not in memory."""
        return self.latest(key) if key in self.pending or key in self.cache else None

    def last_pending(self, key: Key) -> asyncio.Future[StoredObject] | None:
        """The last pending write of an object, to be awaited and not cancelled; None if there is none."""
        writes = self.pending.get(key)
        return writes[-1].future if writes else None

    def read(self, key: Key) -> StoredObject | None:
        """The committed state of an object without pending writes."""
        if key in self.cache:
            return self.cache.use(key)
        held = self.database.get(key)
        self.cache.keep(key, held)
        return held

    def page(
        self, resource: str, namespace: str = "", *, after: tuple[str, str] | None = None, limit: int = 0
    ) -> list[StoredObject]:
        """Committed objects sorted by namespace and name, after this position; a limit of 0 means none."""
        return self.piece(resource, namespace, after=after, limit=limit)[0]

    def piece(
        self, resource: str, namespace: str = "", *, after: tuple[str, str] | None = None, limit: int = 0, most: int = 0
    ) -> tuple[list[StoredObject], tuple[str, str] | None]:
        """Committed objects as in a page, up to about this many bytes, and the position up to which they are complete.

        The position is None at the end of the list. A piece may be empty before that.
        """
        start = after or ("", "")
        if namespace:
            if start[0] > namespace:
                return [], None
            start = (namespace, start[1] if start[0] == namespace else "")
        pending = self.pending_keys(resource, namespace)
        # The writer may have committed some of these already, but they are not acknowledged yet.
        wanted = limit + len(pending) if limit else -1
        found = self.database.page(resource, namespace, start, wanted, most=most)
        end = place(found[-1]) if found and (len(found) == wanted or cut(found, most)) else None
        if pending:
            held = {one.key: one for one in found}
            for key in pending:
                where = key.namespace, key.name
                if where > start and (end is None or where <= end):
                    before = self.get(key)
                    if before is None:
                        held.pop(key, None)
                    else:
                        held[key] = before
            found = sorted(held.values(), key=place)
        if limit and len(found) > limit:
            found = found[:limit]
            end = place(found[-1])
        return found, end

    def count(self, resource: str, namespace: str = "") -> int:
        """The number of committed objects."""
        pending = self.pending_keys(resource, namespace)
        return self.database.count(resource, namespace, pending) + sum(self.get(key) is not None for key in pending)

    def pending_keys(self, resource: str, namespace: str) -> list[Key]:
        """The objects of a list that have pending writes."""
        return [
            key for key in self.pending if key.resource == resource and (not namespace or key.namespace == namespace)
        ]

    def put(
        self, key: Key, tree: Tree, *, uid: str, bytes_max: int = 0, record: bool = False
    ) -> Awaitable[StoredObject]:
        """Create or replace an object; awaiting the result returns the committed object or raises `FullError`.

        The tree is not modified; a copy with the new version is stored. Raises `TooLargeError` if its JSON is longer
        than `bytes_max`; 0 means no limit. A record, such as an event, has a name that was never used. It waits for a
        moment, to be committed with another write, so that the writer is free when that comes.
        """
        return self.enqueue(key, tree, uid, bytes_max=bytes_max, record=record)

    def is_short(self) -> bool:
        """Whether the disk is so full that new objects are refused."""
        return self.database.reserve is not None and self.database.reserve.short(self.unwritten)

    def spare_reserve(self, key: Key, *, record: bool = False) -> None:
        """Raise `FullError` if writing this object would use the space that is kept for other writes.

        A small record of our controllers, such as an event, may use the margin before that space.
        """
        reserve = self.database.reserve
        if reserve is not None and (reserve.low if record else reserve.short(self.unwritten)):
            # A checkpoint completes the reserve, if there is room again.
            self.checkpoint_due, self.stalled = True, False
            self.call()
            raise reserve.refusal(key)

    def drop(self, key: Key, tree: Tree) -> Awaitable[StoredObject]:
        """Delete an object; watchers receive this tree with the new version."""
        before = self.latest(key)
        assert before is not None, f"{key} does not exist; ask latest() before drop()"
        return self.enqueue(key, tree, before.uid, "DELETED")

    def enqueue(
        self, key: Key, tree: Tree, uid: str, how: How | None = None, *, bytes_max: int = 0, record: bool = False
    ) -> Awaitable[StoredObject]:
        """Queue a write for the next commit."""
        if self.closing:
            raise StoreError(f"{self.database.place}: is being closed; it can no longer be written")
        loop = asyncio.get_running_loop()
        before = self.remembered(key) if record else self.latest(key)
        version = self.issued + 1
        held = StoredObject(key, version, uid, encoded(tree, version))
        if bytes_max and len(held.body) > bytes_max:
            raise TooLargeError(f"{key}: {len(held.body)} bytes exceed the limit of {bytes_max}")
        self.issued = version
        self.unwritten += len(held.body)
        write = Write(held, how or ("ADDED" if before is None else "MODIFIED"), before, loop.create_future())
        self.pending.setdefault(key, []).append(write)
        self.queue.append(write)
        # A store in memory does not wait for a disk.
        if not record or self.lock is None:
            self.urgent = True
            self.call()
        elif len(self.queue) == 1:
            Timer(RECORD_SECONDS, self.press)
        return write.future

    def press(self) -> None:
        """Commit the queued writes as soon as the writer is free."""
        self.urgent = bool(self.queue)
        self.hand_over()

    def chore(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run work between two commits, in the writer's thread; it must not raise."""
        if self.closing:
            raise StoreError(f"{self.database.place}: is being closed; it can no longer be written")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: T) -> None:
            self.busy = False
            if not future.done():
                future.set_result(result)
            self.hand_over()

        self.chores.append((work, done))
        self.call()
        return future

    def call(self) -> None:
        """Schedule the commit of queued writes at the end of this turn of the event loop."""
        if not self.busy and not self.called:
            self.called = True
            asyncio.get_running_loop().call_soon(self.hand_over)

    def hand_over(self) -> None:
        """Give the writer its next work, if it is idle and there is any."""
        self.called = False
        if self.busy:
            return
        maintenance = self.maintenance_work() if self.wrote or not self.queue else None
        self.wrote = maintenance is None
        if maintenance is not None:
            self.busy = True
            self.writer.run(*maintenance)
        elif self.urgent and (batch := self.take()):
            self.busy = True
            self.urgent = bool(self.queue)
            self.writer.run(partial(self.database.write, [write.row() for write in batch]), partial(self.settle, batch))
        elif self.quiet is not None and not self.quiet.done():
            self.quiet.set_result(None)

    def take(self) -> list[Write]:
        """The writes of the next commit."""
        batch: list[Write] = []
        reserve = self.database.reserve
        left = reserve.batch_bytes(BATCH_BYTES) if reserve is not None and reserve.short() else BATCH_BYTES
        while self.queue and len(batch) < BATCH and (not batch or len(self.queue[0].held.body) <= left):
            write = self.queue.popleft()
            if write.lost:
                self.unwritten -= len(write.held.body)
            else:
                batch.append(write)
                left -= len(write.held.body)
        return batch

    def settle(self, batch: Sequence[Write], failures: Mapping[int, Exception]) -> None:
        """Complete the writes of a committed batch, and fail those that failed."""
        self.busy = False
        self.unwritten -= sum(len(write.held.body) for write in batch)
        if failures:
            self.stalled = False
            for place, error in failures.items():
                self.fail(batch[place], error)
            batch = [write for place, write in enumerate(batch) if place not in failures]
        else:
            # The queued writes do not depend on the rest, so the writer can continue.
            self.hand_over()
        for write in batch:
            writes = self.pending[write.held.key]
            assert writes[0] is write, f"{write.held.key} was committed out of turn"
            if len(writes) == 1:
                del self.pending[write.held.key]
            else:
                del writes[0]
            self.cache.keep(write.held.key, write.after)
        if batch:
            self.feed.add([write.change() for write in batch])
            self.limit_log(sum(len(write.held.body) for write in batch))
            self.mark()
        for write in batch:
            if not write.future.done():
                write.future.set_result(write.held)
        if not self.busy:
            self.hand_over()

    def fail(self, write: Write, error: Exception) -> None:
        """Fail a write, and all pending writes that were based on it."""
        if write.lost:
            return
        # Earlier writes of the batch are settled in the same step, afterwards; the object falls back to their result.
        writes = self.pending[write.held.key]
        place = writes.index(write)
        for gone in writes[place:]:
            gone.lost = True
            if not gone.future.done():
                why = f"{gone.held.key}: could not be stored ({error}); check the disk and its free space"
                gone.future.set_exception(FullError(why))
        del writes[place:]
        if not writes:
            del self.pending[write.held.key]

    def limit_log(self, written: int) -> None:
        """Limit the bytes of the log, further if the disk is nearly full: their space is then needed for deletions."""
        reserve = self.database.reserve
        most = reserve.log_bytes if reserve is not None and reserve.short() else LOG_BYTES
        self.forget_to(self.log_size.add(self.version, written, most))

    def mark(self) -> None:
        """Record the time of this version, and limit the length of the log."""
        now = self.clock.moment()
        if now - self.marks[-1][0] >= MARK_MICROS:
            self.marks.append((now, self.version))
        if self.lock is None:
            if self.version - self.compacted > 2 * KEPT:
                self.forget_to(self.floor(now))
            return
        if self.version - self.compacted > KEPT_MAX + CHUNK:
            self.forget_to(self.floor(now))
        if self.maintenance is None:
            self.maintenance = asyncio.get_running_loop().create_task(self.maintain())

    def floor(self, now: Moment) -> int:
        """The version up to which changes need not be kept."""
        while len(self.marks) > 1 and self.marks[1][0] <= now - KEPT_MICROS:
            self.marks.popleft()
        aged = self.marks[0][1] if self.marks[0][0] <= now - KEPT_MICROS else 0
        return max(min(aged, self.version - KEPT), self.version - KEPT_MAX)

    async def maintain(self) -> None:
        """Compact the log and checkpoint the file after writes, when due."""
        while True:
            await self.clock.sleep(UPKEEP_MICROS)
            if self.busy or self.queue:
                continue
            now = self.clock.moment()
            if self.version != self.marks[-1][1]:
                self.marks.append((now, self.version))
            self.forget_to(self.floor(now))
            self.checkpoint_due = True
            self.stalled = False
            self.call()
            if self.version - self.compacted <= KEPT:
                break
        self.maintenance = None

    def compact(self, keep: int = 0) -> None:
        """Drop all changes but the most recent; watches that are further behind end with `CompactedError`."""
        self.forget_to(self.version - keep)
        self.stalled = False
        self.call()

    def forget_to(self, version: int) -> None:
        """Refuse watches before a version, and compact the file later."""
        self.feed.compacted = max(self.feed.compacted, version)

    def maintenance_work(self) -> tuple[Callable[[], bool], Callable[[bool], None]] | None:
        """The next chore or maintenance task and the handler of its result; None if nothing is due."""
        if self.chores:
            return self.chores.popleft()
        if self.closing or self.stalled:
            return None
        if self.forgotten < self.feed.compacted:
            to = min(self.forgotten + CHUNK, self.feed.compacted)
            return partial(self.database.forget, since=self.forgotten, to=to), partial(self.maintained, to)
        if self.checkpoint_due:
            self.checkpoint_due = False
            return self.database.checkpoint, partial(self.maintained, self.forgotten)
        return None

    def maintained(self, to: int, well: bool) -> None:
        """Handle the result of a maintenance task; a failed one is retried at the next maintenance."""
        self.busy = False
        if well:
            self.forgotten = to
        self.stalled = not well
        self.hand_over()

    def watch(self, resource: str, *, after: int, namespace: str = "") -> Watch:
        """Batches of committed changes after a version; raises `CompactedError` if they are no longer kept."""
        return Watch(self.feed, resource, namespace, after)

    def changes(self, resource: str, *, after: int, namespace: str = "") -> list[Change]:
        """All changes committed after a version; raises `CompactedError` if they are no longer kept."""
        found: list[Change] = []
        while True:
            some, after = self.feed.after(resource, after)
            found += [change for change in some if not namespace or change.key.namespace == namespace]
            if after >= self.version:
                return found

    def backup(self, path: Path) -> None:
        """Write a consistent copy to a new file; for a store in a file, from any thread."""
        if self.lock is None:
            datafile.copy(self.database.reader, path)
        else:
            datafile.backup(Path(self.database.place), path)

    async def close(self) -> None:
        """Commit pending writes, end all watches, and close the file."""
        if self.closing:
            return
        self.closing = True
        loop = asyncio.get_running_loop()
        if self.maintenance is not None:
            self.maintenance.cancel()
            await asyncio.gather(self.maintenance, return_exceptions=True)
        while self.busy or self.queue or self.called or self.chores:
            self.quiet = loop.create_future()
            self.press()
            await self.quiet
        self.feed.close()
        closed: asyncio.Future[None] = loop.create_future()
        self.writer.run(self.database.close, closed.set_result)
        await closed
        self.writer.close()
        if self.lock is not None:
            self.lock.close()
