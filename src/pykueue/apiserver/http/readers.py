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
"""The time within which a client must read something."""
FAREWELL_SECONDS: Final = 10
"""The time that a client which is cut off has to read the reason."""
BUFFER_BYTES: Final = 64 * 1024
"""Bytes buffered in a connection at which its response pauses; larger chunks are written in parts of this size."""
INTEGER: Final = Struct("i")
USER_BYTES: Final = 32 * 1024 * 1024
"""The limit on bytes buffered for all unread responses of a user."""


class SlowError(Exception):
    """A client stopped reading, or is the slowest of a user with too much buffered data."""


class Reader:
    """The client of one streamed response."""

    def __init__(self, request: web.BaseRequest, response: Response) -> None:
        self.request = request
        self.writer = cast("StreamWriter", request.writer)
        self.kept = response.held
        """Bytes that the producer holds besides the chunks."""
        self.last_chunk = response.last_chunk
        self.counted = 0
        """Bytes held for it while it waits."""
        self.inside = False
        """Whether a chunk is partly written."""
        self.waiting: asyncio.Future[None] | None = None
        """Done when it is cut off; None while it is not waiting."""
        self.drained: asyncio.Future[None] | None = None
        """Done when its connection has room."""
        self.since = 0.0
        """When it started waiting."""
        self.cut = False

    @property
    def buffered(self) -> int:
        """The bytes that wait in its connection."""
        transport = self.request.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    @property
    def unread(self) -> int:
        """The bytes in its connection and in the kernel's send buffer, which drains only in large steps."""
        transport = self.request.transport
        sock = None if transport is None else transport.get_extra_info("socket")
        if sock is None:
            return self.buffered
        with suppress(OSError):
            (queued,) = INTEGER.unpack(ioctl(sock.fileno(), TIOCOUTQ, bytes(INTEGER.size)))
            return self.buffered + int(queued)
        return self.buffered

    def begin(self) -> asyncio.Future[None]:
        """Start waiting for room in the connection; the returned future is done when the reader is cut off."""
        self.since, self.waiting = uptime(), asyncio.get_running_loop().create_future()
        return self.waiting

    async def wait(self, ended: asyncio.Future[None]) -> None:
        """Return when the connection has room; raises `SlowError` if the reader is cut off first."""
        # A task of its own: after a cancelled wait, the connection cannot be waited for again.
        self.drained = drained = self.drained or asyncio.ensure_future(self.drain())
        try:
            while True:
                before = self.unread
                await waited((drained, ended), WRITE_SECONDS, first=True)
                # A client that reads slowly gets more time; one that reads nothing does not.
                if self.cut or not (drained.done() or self.unread < before):
                    raise SlowError
                if drained.done():
                    self.drained = None
                    return
        finally:
            self.waiting = None

    async def drain(self) -> None:
        """Return when the connection has room or is lost; the next write reports a loss."""
        with suppress(ConnectionError):
            await self.writer.drain()

    async def dismiss(self) -> None:
        """Send the reason and end the response; raises TimeoutError if the client does not read it."""
        if self.inside or not self.last_chunk:
            raise TimeoutError
        async with timeout(FAREWELL_SECONDS):
            await self.writer.write(self.last_chunk, drain=False)
            await self.writer.write_eof()

    def end(self) -> None:
        """Cut off the reader while it waits."""
        self.cut = True
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)

    def close(self) -> None:
        """Stop waiting."""
        if self.drained is not None:
            self.drained.cancel()


class Readers:
    """The clients of streamed responses, by user."""

    def __init__(self, limit: int = USER_BYTES) -> None:
        self.limit = limit
        self.all: dict[str, dict[Reader, None]] = {}
        self.totals: dict[str, int] = {}
        """Bytes held for waiting readers, by user."""

    @contextmanager
    def reading(self, request: web.BaseRequest, response: Response) -> Iterator[Reader]:
        """Register the reader of a response until the end of the block."""
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
        """Record how many bytes are buffered for a reader."""
        self.totals[user] += held - reader.counted
        reader.counted = held

    async def send(self, user: str, reader: Reader, piece: bytes) -> None:
        """Send a chunk of a response; raises `SlowError` when the reader is cut off."""
        if len(piece) <= 2 * BUFFER_BYTES:
            await self.hand_over(user, reader, piece, len(piece))
            return
        reader.inside = True
        parts = memoryview(piece)
        for start in range(0, len(parts), BUFFER_BYTES):
            await self.hand_over(user, reader, parts[start : start + BUFFER_BYTES], len(piece))
        reader.inside = False

    async def hand_over(self, user: str, reader: Reader, part: bytes | memoryview, held: int) -> None:
        """Write a part of a chunk, and wait if the connection is full."""
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
        """Cut off readers of a user until the rest is within the limit."""
        waiting = [one for one in self.all[user] if one.waiting is not None and not one.cut]
        for reader in sorted(waiting, key=lambda one: (not one.last_chunk, one.since)):
            if self.totals[user] <= self.limit:
                return
            # Its bytes are freed soon.
            self.count(user, reader, 0)
            reader.end()
