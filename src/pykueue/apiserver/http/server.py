"""The HTTPS server around the Front, with limits on the size and the duration of requests.

A body is refused by its size before it is read, and when it takes too long. A client that does not read its response is
disconnected (`readers`). An idle client costs one connection.
"""

import asyncio
import contextlib
import errno
import gzip
import logging
import os
import socket
import ssl
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from pykueue.apiserver.auth.access import ANONYMOUS
from pykueue.apiserver.auth.authority import LOCALHOST, peer_of
from pykueue.apiserver.http.connections import Connection
from pykueue.apiserver.http.front import Front
from pykueue.apiserver.http.readers import BUFFER_BYTES, Readers, SlowError
from pykueue.apiserver.wire.identity import Peer
from pykueue.apiserver.wire.messages import Request, Response, error_response
from pykueue.apiserver.wire.paths import split
from pykueue.apiserver.wire.statuserrors import (
    BODY_MAX,
    StatusError,
    bad_request,
    too_large,
    too_many,
    unsupported_media,
)
from pykueue.base.timers import timeout
from pykueue.base.turns import COPIED, ITEM_MICROS, USER
from pykueue.kube.acceptor import Acceptor, ConnectionLimits, own_limits

LOG: Final = logging.getLogger(__name__)

BODIES_MAX: Final = 64 * 1024 * 1024
"""Bytes of request bodies that one user may have in flight."""
BODY_SECONDS: Final = 60
"""The time within which a body must arrive."""
IDLE_SECONDS: Final = 600
"""Longer than clients keep an idle connection, so that the server never closes one that is about to be used."""
GRACE_SECONDS: Final = 0.3
"""The time that requests in flight get at shutdown."""
LINGER_SECONDS: Final = 0.2
"""How long a client whose body was refused has to read the response before the connection is closed."""
UNREAD_BYTES: Final = 64 * 1024
"""A body that a page has not read is read up to this size, so that the connection can be used again."""
BACKLOG: Final = 512
PORT_MAX: Final = 65535
READS: Final = ("GET", "HEAD")
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
REQUEST_MICROS: Final = 1_000
"""Expected cost of a request, besides the chunks of a long response."""
GZIP_BYTES: Final = 128 * 1024
"""Larger responses are gzip-compressed for clients that accept it."""
GZIP_LEVEL: Final = 1
LARGE_BYTES: Final = 64 * 1024
"""Smaller responses fit into the buffers of a connection."""
PRESSED: Final = ("application/json", "application/yaml", "text/plain")
WINDOWS: Final = {"gzip": 31, "deflate": 15}
"""The encodings of request bodies that are read, and zlib's parameter for each."""


def is_own_fault(record: logging.LogRecord) -> bool:
    """Whether a record of aiohttp is not about a malformed request, of which a client can send any number."""
    return not (record.exc_info and isinstance(record.exc_info[1], BadHttpMessage))


PROTOCOL_LOG: Final = logging.getLogger(f"{__name__}.protocol")
PROTOCOL_LOG.addFilter(is_own_fault)


class ListenError(Exception):
    """The server cannot listen at an address: what is wrong, and what to do."""


class Pages(Protocol):
    """Serves a web page below a path; it identifies its users itself."""

    root: str
    """The path: it and everything below it is the page's."""

    async def user(self, request: Request) -> str:
        """The user of a request; empty if it has none."""

    async def answer(self, request: Request, read: Callable[[int], Awaitable[bytes]]) -> Response:
        """The response to a request without its body, which `read` reads up to a limit; errors are responses, too."""


class Server:
    """Serves a Front at an address; without a TLS context in plain text, for tests only."""

    def __init__(
        self,
        front: Front,
        context: ssl.SSLContext | None,
        host: str = LOCALHOST,
        port: int = 0,
        *,
        sock: socket.socket | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self.front = front
        self.context = context
        self.host = host
        self.port = port
        """The requested port; once listening, the actual port if 0 was requested."""
        self.sock = sock
        self.limits = limits or own_limits()
        self.acceptor: Acceptor | None = None
        self.runner: web.ServerRunner | None = None
        self.writes: set[asyncio.Future[Response]] = set()
        """Requests in flight, including those whose client has disconnected."""
        self.bodies: Counter[str] = Counter()
        """Bytes of bodies in flight, by user."""
        self.readers = Readers()
        self.pages: Pages | None = None
        """A web page that is served beside the API."""
        self.streams = 0
        """The number of open watches, logs and connections to containers."""

    async def start(self) -> None:
        """Start listening; raises `ListenError` if that fails."""
        bound = self.sock or bind(self.host, self.port)
        runner = web.ServerRunner(
            web.Server(
                self.handle,
                handler_cancellation=True,
                access_log=None,
                keepalive_timeout=IDLE_SECONDS,
                lingering_time=0,
                auto_decompress=False,
                logger=PROTOCOL_LOG,
            ),
            handle_signals=False,
            shutdown_timeout=GRACE_SECONDS,
        )
        await runner.setup()
        assert runner.server is not None, "a runner that is set up has its server"
        self.acceptor = Acceptor(bound, runner.server, self.context, self.limits)
        self.acceptor.start()
        self.port = bound.getsockname()[1]
        self.runner = runner

    async def stop(self) -> None:
        """Stop listening and close all connections, within a second."""
        runner, self.runner = self.runner, None
        if self.acceptor is not None:
            await self.acceptor.stop()
        if runner is not None:
            left = [held.transport for held in runner.server.connections] if runner.server is not None else []
            await runner.cleanup()
            # Do not wait for the TLS shutdown of clients.
            for transport in left:
                if transport is not None:
                    transport.abort()
        if self.writes:
            await asyncio.wait(self.writes)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle a request."""
        assert self.acceptor is not None, "connections come from the acceptor"
        with self.acceptor.serving(request.protocol):
            return await self.serve(request, self.acceptor)

    async def serve(self, request: web.BaseRequest, acceptor: Acceptor) -> web.StreamResponse:
        """Handle a request on a connection whose user is known."""
        try:
            head = head_of(request)
            if self.pages is not None and is_below(self.pages.root, head.path):
                return await self.page(request, head, acceptor, self.pages)
            who = self.front.access.authenticate(head.headers, head.certificate)
            if who != ANONYMOUS:
                self.identify(request, acceptor, who.name)
            if who == ANONYMOUS and request.can_read_body:
                # No request that anonymous clients may make has a body, so it is not read.
                return await refused(request, await self.front.answer(head))
            body = await self.body_of(request, who.name) if request.can_read_body else b""
        except StatusError as error:
            return await refused(request, error_response(error))
        USER.set(who.name)
        response = await self.answer(msgspec.structs.replace(head, body=body), who.name)
        if response.upgrade is not None:
            self.streams += 1
            try:
                return await Connection(request, response.upgrade, self.front.objects.turns).run()
            finally:
                self.streams -= 1
        return await self.sent(request, response)

    async def page(
        self, request: web.BaseRequest, head: Request, acceptor: Acceptor, pages: Pages
    ) -> web.StreamResponse:
        """Serve a web page; its users are counted like those of the API."""

        async def read(limit: int) -> bytes:
            return await self.page_body(request, limit)

        # Before the answer, which may take longer than a connection may stay anonymous.
        self.identify(request, acceptor, await pages.user(head))
        response = await pages.answer(head, read)
        self.identify(request, acceptor, response.reader)
        if isinstance(response.body, bytes) and request.can_read_body and not request.content.at_eof():
            try:
                await self.page_body(request, UNREAD_BYTES)
            except StatusError:
                return await refused(request, response)
        return await self.sent(request, response)

    def identify(self, request: web.BaseRequest, acceptor: Acceptor, user: str) -> None:
        """Count a connection for a user; raises `StatusError` if that user has too many."""
        if user and not acceptor.identify(request.protocol, user):
            raise too_many_connections(user)
        USER.set(user)

    async def page_body(self, request: web.BaseRequest, limit: int) -> bytes:
        """The body of a request to a page; raises `StatusError` if it is too large or too slow."""
        if (request.content_length or 0) > limit:
            raise too_large()
        body = bytearray()
        async for piece in pieces_of(request):
            body += piece
            if len(body) > limit:
                raise too_large()
        return bytes(body)

    async def sent(self, request: web.BaseRequest, response: Response) -> web.StreamResponse:
        """Send a response, complete or streamed."""
        if isinstance(response.body, bytes):
            return await self.whole(request, response, response.body)
        self.streams += 1
        try:
            return await self.streamed(request, response, response.body)
        finally:
            self.streams -= 1

    async def body_of(self, request: web.BaseRequest, user: str) -> bytes:
        """Read the body of a request; its size counts for the user until `answer` returns."""
        body = bytearray()
        try:
            async for piece in pieces_of(request):
                body += piece
                self.bodies[user] += len(piece)
                if len(body) > BODY_MAX:
                    raise too_large()
                if self.bodies[user] > BODIES_MAX:
                    raise too_many(f"{user} has too many large requests under way; wait for their answers", 1)
        except BaseException:
            self.let_go(user, len(body))
            raise
        return bytes(body)

    def let_go(self, user: str, size: int) -> None:
        """Stop counting a body of this size."""
        self.bodies[user] -= size
        if not self.bodies[user]:
            del self.bodies[user]

    async def whole(self, request: web.BaseRequest, response: Response, body: bytes) -> web.StreamResponse:
        """Send a complete response; a large one in chunks, as fast as the client reads."""
        made = web.Response(status=response.code, headers=[*response.headers])
        made.headers.setdefault("Cache-Control", "no-cache, private")
        if len(body) >= GZIP_BYTES and accepts_gzip(request) and made.content_type in PRESSED:
            body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL)
            made.headers["Content-Encoding"] = "gzip"
            made.headers["Vary"] = "Accept-Encoding"
        if len(body) < LARGE_BYTES or request.method == "HEAD":
            made.body = body
            return made
        made.headers["Content-Length"] = str(len(body))
        headers = tuple(made.headers.items())
        large = Response(response.code, b"", headers, reader=response.reader, held=len(body))
        return await self.streamed(request, large, cut(body))

    async def streamed(
        self, request: web.BaseRequest, response: Response, pieces: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        """Send a streamed response until it ends, or the client disconnects or stops reading."""
        made = web.StreamResponse(status=response.code, headers=[*response.headers])
        turns = self.front.objects.turns
        try:
            with self.readers.reading(request, response) as reader:
                if request.transport is not None:
                    request.transport.set_write_buffer_limits(BUFFER_BYTES)
                try:
                    await made.prepare(request)
                    async for piece in pieces:
                        await turns.take(ITEM_MICROS + len(piece) // COPIED)
                        await self.readers.send(response.reader, reader, piece)
                except SlowError:
                    made.force_close()
                    await reader.dismiss()
                else:
                    await made.write_eof()
        except (TimeoutError, ConnectionError, StatusError):
            # A response that has started can only be reported as incomplete.
            abort(request)
        except Exception:
            LOG.exception("%s %s ended early", request.method, request.path)
            abort(request)
        finally:
            if close := getattr(pieces, "aclose", None):
                with contextlib.suppress(RuntimeError):
                    await close()
        return made

    async def answer(self, call: Request, user: str) -> Response:
        """The Front's response. If the client leaves, a read or question is cancelled, and a write is completed."""
        if call.verb in READS or self.front.is_question(call):
            try:
                return await self.in_turn(call)
            finally:
                self.let_go(user, len(call.body))
        task = asyncio.ensure_future(self.in_turn(call))
        self.writes.add(task)
        task.add_done_callback(self.writes.discard)
        task.add_done_callback(lambda _: self.let_go(user, len(call.body)))
        return await asyncio.shield(task)

    async def in_turn(self, call: Request) -> Response:
        """The Front's response; users take turns, so that many requests of one do not delay those of others."""
        await self.front.objects.turns.take(REQUEST_MICROS)
        return await self.front.answer(call)


def is_below(root: str, path: str) -> bool:
    """Whether a path is this one, or below it."""
    return path == root or path.startswith(f"{root}/")


def bind(host: str, port: int) -> socket.socket:
    """A listening socket at an address."""
    if not 0 <= port <= PORT_MAX:
        raise ListenError(f"{port} is not a valid port; choose one up to {PORT_MAX}, or 0 for any free one")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        about_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        advice = "free the port or choose another" if about_port else "give an address that this machine has"
        raise ListenError(f"cannot listen on {host}:{port}: {why}; {advice}") from error


def head_of(request: web.BaseRequest) -> Request:
    """A request without its body."""
    path, query = split(request.raw_path if request.raw_path.startswith("/") else str(request.rel_url))
    headers = {name.lower(): value for name, value in request.headers.items()}
    # A token takes precedence, so the certificate need not be parsed.
    certificate = None if "authorization" in headers else peer(request)
    return Request(request.method, path, query, headers, b"", certificate)


def too_many_connections(user: str) -> StatusError:
    """The 429 error for a user with too many connections in use."""
    return too_many(f"{user} has too many connections open at once; close some, then retry")


async def refused(request: web.BaseRequest, answer: Response) -> web.StreamResponse:
    """Send an error and close the connection without reading the rest of the body."""
    assert isinstance(answer.body, bytes), "a refusal is there at once"
    made = web.Response(status=answer.code, headers=[*answer.headers], body=answer.body)
    made.force_close()
    await made.prepare(request)
    await made.write_eof()
    # Closing may discard what a client has not read yet.
    await asyncio.sleep(LINGER_SECONDS)
    if request.transport is not None:
        # A TLS shutdown would have to read the rest of the body first.
        request.transport.abort()
    return made


async def pieces_of(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """The chunks of a request body; raises `StatusError` if it is too large, too slow or malformed."""
    if (request.content_length or 0) > BODY_MAX:
        raise too_large()
    encoding = request.headers.get("Content-Encoding", "").lower()
    if encoding not in ("", "identity", *WINDOWS):
        raise unsupported_media(
            f"the Content-Encoding {encoding[:64]!r} of the body is not supported; send it with one of: "
            f"{', '.join(WINDOWS)}, or without any"
        )
    unpacking = zlib.decompressobj(WINDOWS[encoding]) if encoding in WINDOWS else None
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(CONTINUE)
        request.writer.output_size = 0
    try:
        async with timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                if unpacking is None:
                    yield piece
                    continue
                rest = piece
                while rest and not unpacking.eof:
                    yield unpacking.decompress(rest, LARGE_BYTES)
                    rest = unpacking.unconsumed_tail
        if unpacking is not None and not unpacking.eof:
            raise bad_request("the body could not be read: its Content-Encoding is incomplete")
    except TimeoutError:
        raise StatusError(408, "Timeout", f"the body did not arrive within {BODY_SECONDS} seconds") from None
    except (BadHttpMessage, web.RequestPayloadError, zlib.error):
        raise bad_request("the body could not be read: malformed Transfer-Encoding or Content-Encoding") from None


def peer(request: web.BaseRequest) -> Peer | None:
    """The subject of the client's certificate."""
    tls = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
    der = tls.getpeercert(binary_form=True) if tls is not None else None
    return peer_of(der) if der else None


async def cut(body: bytes) -> AsyncIterator[bytes]:
    """Split a large body into chunks."""
    for place in range(0, len(body), LARGE_BYTES):
        yield body[place : place + LARGE_BYTES]


def accepts_gzip(request: web.BaseRequest) -> bool:
    """Whether a client accepts a gzip-compressed response."""
    return "gzip" in request.headers.get("Accept-Encoding", "").lower()


def abort(request: web.BaseRequest) -> None:
    """Close a connection at once, without a TLS shutdown."""
    if request.transport is not None:
        request.transport.abort()
