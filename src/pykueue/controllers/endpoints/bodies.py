"""Read the bodies of webhook requests within a memory limit.

Any client that reaches the webhook port may send, and the pod's memory is limited. All bodies together stay under a
limit; when it is reached, the slowest body of the address that holds most is dropped. A body must arrive at a minimum
rate, so a slow one holds its bytes only for seconds.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.timers import Timeout, timeout, uptime

LOG: Final = logging.getLogger(__name__)

MEBIBYTE: Final = 1024 * 1024
NO_ROOM: Final = "other requests need the memory; send it again"


class BodyLimits(Frozen):
    """Limits of memory and of the transfer rate."""

    bytes_max: int = 160 * MEBIBYTE
    """For all requests that are read or processed, and all responses that are sent."""
    start_seconds: float = 10.0
    rate: int = 4 * MEBIBYTE
    """Minimum average rate in bytes per second of a request or response after the first seconds."""


class BodyError(Exception):
    """A body was not read completely: the HTTP status, and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Body:
    """A request's body while it is read and processed, then the response while it is sent."""

    __slots__ = ("address", "complete", "dropped", "pieces", "size", "timeout")

    def __init__(self, address: str) -> None:
        self.address = address
        self.pieces = bytearray()
        self.size = 0
        """The bytes that count."""
        self.complete = False
        self.dropped = False
        self.timeout: Timeout | None = None

    def become(self, size: int) -> None:
        """Release the request, and count a response of this size in its place."""
        self.pieces = bytearray()
        self.size = size


class Bodies:
    """The bodies of all requests in flight."""

    def __init__(self, limits: BodyLimits) -> None:
        self.limits = limits
        self.held: dict[Body, None] = {}
        """In order of arrival."""

    @contextlib.asynccontextmanager
    async def read(self, address: str, pieces: AsyncIterator[bytes], most: int) -> AsyncIterator[Body]:
        """Read a complete body, which counts until the block ends; raises `BodyError`."""
        with self.holding(address) as body:
            await self.fill(body, pieces, most)
            yield body

    @contextlib.contextmanager
    def holding(self, address: str) -> Iterator[Body]:
        """Count a body while it is held."""
        body = Body(address)
        self.held[body] = None
        try:
            yield body
        finally:
            del self.held[body]

    async def fill(self, body: Body, pieces: AsyncIterator[bytes], most: int) -> None:
        """Read a body to its end."""
        began = uptime()
        try:
            async with timeout(self.limits.start_seconds) as body.timeout:
                async for piece in pieces:
                    if body.dropped:
                        break
                    if body.size + len(piece) > most:
                        raise BodyError(413, f"the body is larger than {most} bytes")
                    self.make_room(body, len(piece))
                    body.pieces += piece
                    body.size += len(piece)
                    allowed = self.limits.start_seconds + body.size / self.limits.rate
                    body.timeout.restart(began + allowed - uptime())
        except TimeoutError:
            if not body.dropped:
                raise BodyError(408, "the body arrives too slowly") from None
        finally:
            body.timeout = None
        if body.dropped:
            raise BodyError(503, NO_ROOM)
        body.complete = True

    def sending(self, size: int) -> Timeout:
        """A context that raises TimeoutError if a response of this size is not taken in time."""
        return timeout(self.limits.start_seconds + size / self.limits.rate)

    def make_room(self, body: Body, more: int) -> None:
        """Drop other bodies, or refuse this one, until this many more bytes fit."""
        while sum(one.size for one in self.held) + more > self.limits.bytes_max:
            victim = self.victim()
            if victim is None or victim is body:
                raise BodyError(503, NO_ROOM)
            LOG.warning("webhooks: dropped a body bytes=%d address=%s", victim.size, victim.address)
            victim.dropped = True
            victim.become(0)
            assert victim.timeout is not None, "what is incomplete is being read"
            victim.timeout.restart(0)

    def victim(self) -> Body | None:
        """The incomplete body to drop: the oldest of the address that holds most bytes."""
        totals: dict[str, int] = {}
        for one in self.held:
            totals[one.address] = totals.get(one.address, 0) + one.size
        open_ones = [one for one in self.held if not one.complete and one.size]
        return max(open_ones, key=lambda one: totals[one.address], default=None)
