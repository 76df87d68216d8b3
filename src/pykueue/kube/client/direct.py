"""Requests and responses over connections of our own, which are kept and reused.

A general HTTP library takes several times the processor time of all the rest of a write, and does not say whether a
request was sent when its connection breaks; that decides here what may be retried.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from math import inf
from typing import Final, cast
from urllib.parse import urlsplit

from pykueue.base.boottime import block
from pykueue.base.timers import Timer, timeout, uptime
from pykueue.kube.client.message import Answer, MalformedError
from pykueue.kube.client.transport import (
    CALL_SECONDS,
    CONNECT_SECONDS,
    CONNECTIONS_MAX,
    Dialled,
    LostError,
    Request,
    Response,
    UnsentError,
)

CHECKS: Final = 60
"""How often within `CALL_SECONDS` all calls in flight are checked; a timer of its own would cost each call more."""
IDLE_SECONDS: Final = 45.0
"""How long an idle connection may be reused; servers keep them for 90 s."""
GATHER_CALLS: Final = 6
"""With this many calls in flight, the server is busy."""
GATHER_SECONDS: Final = 0.025
"""The longest pause in which responses are gathered."""
GATHER_PART: Final = 5
"""A pause takes at most one part in this many of what calls take on average."""
LATENCY_CALLS: Final = 16
"""About how many calls that average covers."""
WAITING_MAX: Final = 4 << 20
"""Unread bytes of a stream at which reading from the server pauses."""
KEEPALIVE: Final = (
    ("SO_KEEPALIVE", socket.SOL_SOCKET, 1),
    ("TCP_KEEPIDLE", socket.IPPROTO_TCP, 30),
    ("TCP_KEEPINTVL", socket.IPPROTO_TCP, 10),
    ("TCP_KEEPCNT", socket.IPPROTO_TCP, 3),
    ("TCP_USER_TIMEOUT", socket.IPPROTO_TCP, 60_000),
)
"""Options by which the kernel detects a dead peer within a minute."""


class Line(asyncio.Protocol):
    """One connection, and the response that is arriving on it."""

    def __init__(self, pool: "Direct") -> None:
        self.pool = pool
        self.transport: asyncio.Transport | None = None
        self.answer: Answer | None = None
        self.parts: list[bytes] = []
        self.size = 0
        self.waiter: asyncio.Future[None] | None = None
        self.streams = False
        """Whether the waiter wants each piece rather than the whole."""
        self.paused = False
        self.broken: str | None = None
        """Why nothing more will arrive."""
        self.last = False
        """Whether it must not be reused."""
        self.heard = 0.0
        """When data last arrived."""
        self.due = inf
        """When the response must have arrived."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # Transports of other loops than asyncio's own share its methods, not its class.
        self.transport = cast("asyncio.Transport", transport)
        self.pool.lines.add(self)
        found = transport.get_extra_info("socket")
        for name, level, value in KEEPALIVE:
            if found is not None and hasattr(socket, name):
                with contextlib.suppress(OSError):
                    found.setsockopt(level, getattr(socket, name), value)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        answer = self.answer
        if answer is None:
            self.fail("the server sent data without a request")
            return
        try:
            answer.feed(data)
        except MalformedError as error:
            self.fail(f"the response is malformed: {error}")
            return
        if answer.complete and not self.streams:
            self.pool.gather()
        if answer.complete or (self.streams and answer.status):
            self.wake()
        if self.streams:
            self.heard = uptime()
            if self.size > WAITING_MAX and not self.paused and self.transport is not None:
                self.paused = True
                self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the pending response."""
        self.pool.forget(self)
        if self.answer is not None and error is None and self.answer.status:
            self.answer.finish()
        if self.broken is None:
            self.broken = f"the connection was lost: {error}" if error else "the server closed the connection"
        self.transport = None
        self.wake()

    def fail(self, reason: str) -> None:
        """Fail the connection with this reason."""
        if self.broken is None:
            self.broken = reason
        self.abort()
        self.wake()

    def abort(self) -> None:
        """Close the connection at once."""
        self.last = True
        if self.transport is not None:
            self.transport.abort()

    def wake(self) -> None:
        """Wake the waiter."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def send(self, head: bytes, body: bytes | None) -> None:
        """Send a request."""
        if self.transport is None or self.transport.is_closing():
            raise UnsentError(self.broken or "the connection was lost")
        self.answer = Answer(self.take)
        self.transport.write(head + body if body else head)

    def take(self, part: bytes) -> None:
        """Keep a piece of a body."""
        self.parts.append(part)
        self.size += len(part)

    async def wait(self) -> None:
        """Wait for something new."""
        self.waiter = self.pool.loop.create_future()
        await self.waiter

    async def whole(self, began: float) -> Response:
        """The complete response to the request that was sent at this time."""
        self.due = began + CALL_SECONDS
        self.pool.start_checks()
        answer = self.answer
        assert answer is not None, "nothing was sent that could be answered"
        try:
            while not answer.complete:
                if self.broken is not None:
                    raise LostError(self.broken)
                await self.wait()
            body = b"".join(self.parts)
            return Response(answer.status, answer.headers.get(b"retry-after", b"").decode("latin-1"), body)
        finally:
            self.due = inf
            if not answer.complete or not answer.lasts:
                self.abort()
            self.answer = None
            self.parts.clear()
            self.size = 0


class LineStream:
    """A streamed response on a connection of its own."""

    def __init__(self, line: Line, answer: Answer, idle: float) -> None:
        self.line = line
        self.answer = answer
        self.idle = idle
        self.guard = Timer(idle, self.check)

    @property
    def status(self) -> int:
        """The status code."""
        return self.answer.status

    def header(self, name: str) -> str:
        """The value of a header; empty if absent."""
        return self.answer.headers.get(name.lower().encode("latin-1"), b"").decode("latin-1")

    def check(self) -> None:
        """End the stream if it has been silent for too long."""
        silent = uptime() - self.line.heard
        if silent < self.idle or self.line.paused:
            self.guard = Timer(max(0.01, self.idle - silent), self.check)
        else:
            self.line.fail(f"no data for {self.idle:.0f} s")

    async def head(self) -> None:
        """Wait until the status is known."""
        while not self.answer.status:
            if self.line.broken is not None:
                raise LostError(self.line.broken)
            await self.line.wait()

    async def readany(self) -> bytes:
        """The next bytes of the body; empty at its end."""
        line = self.line
        while not line.parts:
            if self.answer.complete:
                return b""
            if line.broken is not None:
                raise LostError(line.broken)
            await line.wait()
        part = line.parts[0] if len(line.parts) == 1 else b"".join(line.parts)
        line.parts.clear()
        line.size = 0
        if line.paused and line.transport is not None:
            line.paused = False
            line.heard = uptime()
            line.transport.resume_reading()
        return part

    def close(self) -> None:
        """Close the connection."""
        self.guard.cancel()
        self.line.abort()


class Direct:
    """A transport without a proxy."""

    def __init__(self, server: str, server_name: str = "", *, gathers: bool = False) -> None:
        url = urlsplit(server)
        self.gathers = gathers
        """Whether responses are gathered while many calls are in flight."""
        self.gathered = False
        """Whether they were in the present turn of the loop."""
        self.calls = 0
        """Calls in flight."""
        self.latency = 0.0
        """Seconds that recent calls took, on average."""
        self.host = url.hostname or ""
        self.port = url.port or (443 if url.scheme == "https" else 80)
        self.encrypted = url.scheme == "https"
        self.server_name = server_name or self.host
        self.authority = url.netloc.rpartition("@")[2]
        self.prefix = url.path.rstrip("/")
        self.tls: ssl.SSLContext | None = None
        self.lines: set[Line] = set()
        self.idle: list[tuple[float, Line]] = []
        """Connections to reuse, the most recent last, with the time since when they are idle."""
        self.slots = asyncio.Semaphore(CONNECTIONS_MAX)
        self.checks: Timer | None = None
        """The timer of the next check, while calls are in flight."""
        self.closed = False
        self.heads: dict[tuple[tuple[str, str], ...], bytes] = {}

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of this transport."""
        return asyncio.get_running_loop()

    def trust(self, tls: ssl.SSLContext | None) -> None:
        """Use these TLS settings on all connections from now on; present ones end after their current request."""
        self.tls = tls
        for line in self.lines:
            line.last = True
        for _, line in self.idle:
            line.abort()
        self.idle.clear()

    async def exchange(self, request: Request) -> Response:
        """Send a request and return the response."""
        async with self.slots:
            line = await self.line()
            began = uptime()
            self.calls += 1
            try:
                self.send(line, request)
                return await line.whole(began)
            finally:
                now = uptime()
                self.calls -= 1
                self.latency += (now - began - self.latency) / LATENCY_CALLS
                if line.last or line.broken is not None or self.closed:
                    line.abort()
                else:
                    self.idle.append((now, line))

    async def open(self, request: Request, idle: float) -> LineStream:
        """Send a request and stream the response; silence for this many seconds ends it."""
        line = await self.connect()
        line.streams = True
        line.heard = uptime()
        try:
            self.send(line, request)
            assert line.answer is not None, "what was sent has an answer coming"
            stream = LineStream(line, line.answer, idle)
        except BaseException:
            line.abort()
            raise
        try:
            await stream.head()
        except BaseException:
            stream.close()
            raise
        return stream

    async def dial(self) -> Dialled:
        """A new connection for another protocol than HTTP."""
        async with self.connecting() as (tls, name):
            reader, writer = await asyncio.open_connection(self.host, self.port, ssl=tls, server_hostname=name)
        return Dialled(reader, writer, self.authority, self.prefix)

    def send(self, line: Line, request: Request) -> None:
        """Send a request, if allowed."""
        if self.closed:
            raise UnsentError("the connections are closed")
        if request.may_send is not None and not request.may_send():
            raise UnsentError("sending is no longer allowed")
        line.send(self.head(request), request.body)

    def head(self, request: Request) -> bytes:
        """A request's bytes before its body."""
        fixed = self.heads.get(request.headers)
        if fixed is None:
            text = "".join(f"{name}: {value}\r\n" for name, value in (("Host", self.authority), *request.headers))
            # Headers change with the token, and old ones are not needed again.
            self.heads = {request.headers: (fixed := text.encode("latin-1"))}
        first = f"{request.method} {self.prefix}{request.path} HTTP/1.1\r\n".encode("ascii")
        if request.body is None:
            return b"%b%b\r\n" % (first, fixed)
        length = len(request.body)
        return b"%b%bContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (first, fixed, request.content.encode(), length)

    async def line(self) -> Line:
        """An idle connection, or a new one."""
        fresh = uptime() - IDLE_SECONDS
        while self.idle:
            since, line = self.idle.pop()
            if since > fresh and line.broken is None and not line.last:
                return line
            line.abort()
        return await self.connect()

    async def connect(self) -> Line:
        """A new connection."""
        if self.closed:
            raise UnsentError("the connections are closed")
        async with self.connecting() as (tls, name):
            _, line = await self.loop.create_connection(
                lambda: Line(self), self.host, self.port, ssl=tls, server_hostname=name
            )
        return line

    @contextlib.asynccontextmanager
    async def connecting(self) -> AsyncIterator[tuple[ssl.SSLContext | None, str | None]]:
        """The TLS settings and the server name of a new connection, whose failure is an `UnsentError`."""
        try:
            async with timeout(CONNECT_SECONDS):
                yield (self.tls, self.server_name) if self.encrypted else (None, None)
        except TimeoutError:
            raise UnsentError(f"{self.authority} cannot be reached within {CONNECT_SECONDS:.0f} s") from None
        except OSError as error:
            raise UnsentError(f"{self.authority} cannot be reached: {error}") from error

    def gather(self) -> None:
        """Pause the loop for a moment while the server is busy, so that more responses and watch events arrive.

        What arrives together is read, decided and written together, in one turn of the loop and with warm caches. That
        takes far less processor time than to wake for every piece, and the pause is short compared with what a call
        takes. Nothing pauses while few calls are in flight.
        """
        if self.gathers and self.calls >= GATHER_CALLS and not self.gathered:
            self.gathered = True
            self.loop.call_soon(self.end_turn)
            block(min(GATHER_SECONDS, self.latency / GATHER_PART))

    def end_turn(self) -> None:
        """Allow another pause."""
        self.gathered = False

    def start_checks(self) -> None:
        """Check the calls in flight from time to time."""
        if self.checks is None:
            self.checks = Timer(CALL_SECONDS / CHECKS, self.check)

    def check(self) -> None:
        """Fail the calls whose response takes too long."""
        self.checks = None
        now = uptime()
        for line in [line for line in self.lines if line.due <= now]:
            line.fail(f"no response within {CALL_SECONDS:.0f} s")
        if any(line.due < inf for line in self.lines):
            self.start_checks()

    def forget(self, line: Line) -> None:
        """Remove a connection that is gone."""
        self.lines.discard(line)
        if line.answer is None:
            self.idle = [(since, one) for since, one in self.idle if one is not line]

    async def close(self) -> None:
        """Close all connections; requests that wait to be sent are not sent."""
        self.closed = True
        if self.checks is not None:
            self.checks.cancel()
        for line in list(self.lines):
            line.fail("the connections were closed")
        self.idle.clear()
        # An aborted transport is closed in one of the next turns of the loop.
        for _ in range(10):
            if not self.lines:
                break
            await asyncio.sleep(0)
