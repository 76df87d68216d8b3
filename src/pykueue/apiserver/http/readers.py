"""Limits the bytes that are buffered for slow clients, per response and per user.

A streamed response is produced as it is read: what is buffered is the chunk being sent, the state of its producer, and
what the connection holds. A client that reads nothing for a while is disconnected. If too much is buffered for one
user, the response that has waited longest is ended, watches first: they can report the reason and be resumed.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from struct import Struct
from termios import TIOCOUTQ
from typing import Final, cast

from aiohttp import web
from aiohttp.http_writer import StreamWriter

from pykueue.apiserver.wire.messages import Response
from pykueue.base.timers import timeout, uptime, waited

WRITE_SECONDS: Final = 60
"""In which a client must take some of what waits for it."""
FAREWELL_SECONDS: Final = 10
"""In which a client that is cut off can still read why."""
BUFFER_BYTES: Final = 64 * 1024
"""What waits in a connection before its answer waits too; larger pieces are handed over in parts of this size."""
INTEGER: Final = Struct("i")
USER_BYTES: Final = 32 * 1024 * 1024
"""What is held for all answers of a user that are not read."""


class SlowError(Exception):
    """A client takes nothing any more, or is the slowest of a user for whom too much is held."""


class Reader:
    """The client of one answer in pieces."""

    def __init__(self, request: web.BaseRequest, response: Response) -> None:
        self.request = request
        self.writer = cast("StreamWriter", request.writer)
        self.kept = response.held
        """What the maker of the pieces keeps beside them."""
        self.farewell = response.farewell
        self.counted = 0
        """The bytes that are held for it, while it waits."""
        self.inside = False
        """Whether a part of a piece is written, and not all of it."""
        self.waiting: asyncio.Future[None] | None = None
        """Done when it is cut off; None while it does not wait."""
        self.drained: asyncio.Future[None] | None = None
        """Done when its connection has room again."""
        self.since = 0.0
        """Since when it has been waiting."""
        self.cut = False

    @property
    def buffered(self) -> int:
        """What waits in its connection."""
        transport = self.request.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    @property
    def unread(self) -> int:
        """What waits in its connection and in the system's buffer for it, which frees itself in large steps only."""
        transport = self.request.transport
        sock = None if transport is None else transport.get_extra_info("socket")
        if sock is None:
            return self.buffered
        with suppress(OSError):
            (queued,) = INTEGER.unpack(ioctl(sock.fileno(), TIOCOUTQ, bytes(INTEGER.size)))
            return self.buffered + int(queued)
        return self.buffered

    def begin(self) -> asyncio.Future[None]:
        """Begin to wait for room in its connection; what is returned is done when it is cut off."""
        self.since, self.waiting = uptime(), asyncio.get_running_loop().create_future()
        return self.waiting

    async def wait(self, ended: asyncio.Future[None]) -> None:
        """Return when there is room in its connection; `SlowError` if it is cut off before that."""
        # A task of its own: the connection cannot be waited for again once somebody gave up waiting for it.
        self.drained = drained = self.drained or asyncio.ensure_future(self.drain())
        try:
            while True:
                before = self.unread
                await waited((drained, ended), WRITE_SECONDS, first=True)
                # One that reads slowly is waited for, and one that does not read at all is not.
                if self.cut or not (drained.done() or self.unread < before):
                    raise SlowError
                if drained.done():
                    self.drained = None
                    return
        finally:
            self.waiting = None

    async def drain(self) -> None:
        """Return when the connection has room, or is lost; the next part finds that out."""
        with suppress(ConnectionError):
            await self.writer.drain()

    async def dismiss(self) -> None:
        """Say why it is cut off, if that can still be said, and end its answer; TimeoutError if that is not read."""
        if self.inside or not self.farewell:
            raise TimeoutError
        async with timeout(FAREWELL_SECONDS):
            await self.writer.write(self.farewell, drain=False)
            await self.writer.write_eof()

    def end(self) -> None:
        """Have it cut off, which waits."""
        self.cut = True
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)

    def close(self) -> None:
        """Wait for nothing any more."""
        if self.drained is not None:
            self.drained.cancel()


class Readers:
    """Those who are being answered in pieces, by user."""

    def __init__(self, limit: int = USER_BYTES) -> None:
        self.limit = limit
        self.all: dict[str, dict[Reader, None]] = {}
        self.totals: dict[str, int] = {}
        """What is held for those who wait, by user."""

    @contextmanager
    def reading(self, request: web.BaseRequest, response: Response) -> Iterator[Reader]:
        """The reader of an answer, counted until the end of the block."""
        user = response.reader
        reader = Reader(request, response)
        self.all.setdefault(user, {})[reader] = None
        self.totals.setdefault(user, 0)
        try:
            yield reader
        finally:
            reader.close()
            del self.all[user][reader]
            if not self.all[user]:
                del self.all[user], self.totals[user]

    def count(self, user: str, reader: Reader, held: int) -> None:
        """So much is held for a reader now."""
        self.totals[user] += held - reader.counted
        reader.counted = held

    async def send(self, user: str, reader: Reader, piece: bytes) -> None:
        """Send a piece of an answer; `SlowError` when the reader is cut off."""
        if len(piece) <= 2 * BUFFER_BYTES:
            await self.hand_over(user, reader, piece, len(piece))
            return
        reader.inside = True
        parts = memoryview(piece)
        for start in range(0, len(parts), BUFFER_BYTES):
            await self.hand_over(user, reader, parts[start : start + BUFFER_BYTES], len(piece))
        reader.inside = False

    async def hand_over(self, user: str, reader: Reader, part: bytes | memoryview, held: int) -> None:
        """Write a part of a piece of so many bytes, and wait if there is no room for more."""
        await reader.writer.write(part, drain=False)
        if reader.buffered <= BUFFER_BYTES:
            return
        self.count(user, reader, reader.buffered + reader.kept + held)
        waiting = reader.begin()
        if self.totals[user] > self.limit:
            self.make_room(user)
        try:
            await reader.wait(waiting)
        finally:
            self.count(user, reader, 0)

    def make_room(self, user: str) -> None:
        """Cut off readers of a user until no more is held for the others than may be."""
        waiting = [one for one in self.all[user] if one.waiting is not None and not one.cut]
        for reader in sorted(waiting, key=lambda one: (not one.farewell, one.since)):
            if self.totals[user] <= self.limit:
                return
            # What is held for it goes before long.
            self.count(user, reader, 0)
            reader.end()
