"""Runs work on large objects in a thread, so that the event loop can serve other requests meanwhile.

Offloaded work is pure: it decodes, completes, compares and validates trees. Reads and writes of the store stay on the
event loop. The thread releases the interpreter lock every few milliseconds, so a timer on the loop is late by that much
and not by the length of the work. One thread works for users and another for the controllers of this process, so that
a user's request does not delay writes of the controllers. Each user has at most one large request in progress.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar, cast

from pykueue.api.core import Json
from pykueue.apiserver.storage.writer import InThread
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.protobuf import MEDIA as PROTOBUF
from pykueue.apiserver.wire.statuserrors import StatusError

T = TypeVar("T")

NODES: Final = 1000
"""An object with more values is large: the most expensive ones take some 50 microseconds each."""
TEXT_SHIFT: Final = 6
"""64 characters of text count as one value."""
PROTOBUF_SHIFT: Final = 2
"""4 bytes of protobuf count as one value; the smallest takes 2."""
SEPARATORS: Final = b",{[\n"
"""Each value of a JSON or YAML text has one of these."""
OLDER_THRESHOLD: Final = 1_000_000
"""Collections of young objects before one of older ones, while large objects are processed."""


def is_large_body(body: bytes, media: str = "") -> bool:
    """Whether a body may hold more values than the event loop should process at once."""
    if media == PROTOBUF:
        return len(body) >> PROTOBUF_SHIFT > NODES
    left = NODES - (len(body) >> TEXT_SHIFT)
    # Counting takes milliseconds for a body of megabytes, which is large by its length alone.
    return left < 0 or (len(body) > NODES and len(body) - len(body.translate(None, SEPARATORS)) > left)


def is_large(value: Json) -> bool:
    """Whether a tree has more values than the event loop should process at once; stops counting at the limit."""
    left = NODES
    waiting: list[Json] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            left -= len(one)
            inner = [*one.values()] if left >= 0 else []
        elif isinstance(one, list):
            left -= len(one)
            inner = one if left >= 0 else []
        else:
            continue
        if left < 0:
            return True
        for part in inner:
            if isinstance(part, str):
                left -= len(part) >> TEXT_SHIFT
            elif isinstance(part, dict | list):
                waiting.append(part)
    return left < 0


def tried(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    """The result of work, or the error that it raised."""
    try:
        return work(), None
    except StatusError as error:
        # Its frames refer to the refused object and to the waiter, which would stay in memory until the next full
        # collection. A refusal needs no traceback.
        return None, error.with_traceback(None)
    except BaseException as error:
        return None, error


def settle(future: "asyncio.Future[T]", outcome: tuple[T | None, BaseException | None]) -> None:
    """Set the outcome of a future that still waits for it."""
    value, error = outcome
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(cast("T", value))


class Offload:
    """The worker threads, and the queue of large requests per user."""

    def __init__(self, *, inline: bool = False) -> None:
        self.inline = inline
        """Whether all work runs on the event loop, in a deterministic order."""
        self.lanes: dict[bool, InThread] = {}
        """The threads, by whether they work for our own controllers; started on first use."""
        self.turns: dict[str, asyncio.Lock] = {}
        """Users with a large request in progress."""
        self.collector = Collector()

    async def run(self, work: Callable[[], T], *, large: bool, who: Identity) -> T:
        """The result of pure work; large work runs in a thread."""
        if self.inline or not large:
            return work()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self.collector:
            self.lane(who).run(partial(tried, work), partial(settle, future))
            try:
                return await future
            finally:
                # An error refers to the frames that it passed, including this one.
                del future

    def lane(self, who: Identity) -> InThread:
        """The thread for users or for controllers."""
        ours = who.is_controller
        if ours not in self.lanes:
            self.lanes[ours] = InThread("pykueue-large-system" if ours else "pykueue-large-users")
        return self.lanes[ours]

    @asynccontextmanager
    async def turn(self, who: Identity, *, large: bool) -> AsyncIterator[None]:
        """Handle a request; a large one waits for the user's earlier large requests."""
        if self.inline or not large:
            yield
            return
        lock = self.turns.setdefault(who.name, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and self.turns.get(who.name) is lock:
                del self.turns[who.name]


class Collector:
    """Limits the garbage collector to young objects while any block is active.

    A full collection that scans a tree of a million values holds the interpreter lock for hundreds of milliseconds,
    and frees nothing of it.
    """

    def __init__(self) -> None:
        self.active = 0
        self.thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        if not self.active:
            self.thresholds = gc.get_threshold()
            gc.set_threshold(self.thresholds[0], OLDER_THRESHOLD, OLDER_THRESHOLD)
        self.active += 1

    def __exit__(self, *failure: object) -> None:
        self.active -= 1
        if not self.active:
            gc.set_threshold(*self.thresholds)
