"""The HTTP server of `pykueue dashboard`: the page on a loopback address, and nothing else."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Final, cast
from urllib.parse import parse_qs, unquote

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.http_writer import StreamWriter

from pykueue.base.timers import timeout
from pykueue.web.pages import ROOT, Page, WebError, WebRequest, WebResponse

LOG: Final = logging.getLogger(__name__)

LOCALHOST: Final = "127.0.0.1"
NAMES: Final = (LOCALHOST, "localhost")
BODY_SECONDS: Final = 10.0
"""The time within which a body must arrive."""
WRITE_SECONDS: Final = 60.0
"""The time within which a client must read what was sent."""
BUFFER_BYTES: Final = 64 * 1024
GRACE_SECONDS: Final = 0.3
FIELDS_MAX: Final = 128
SINGLE: Final = ("Host", "Origin", "Cookie", "X-Pykueue-Key", "Content-Type", "Sec-Fetch-Site")
"""Headers that may be given only once."""


def is_own_fault(record: logging.LogRecord) -> bool:
    """Whether a record of aiohttp is not about a malformed request."""
    return not (record.exc_info and isinstance(record.exc_info[1], BadHttpMessage))


PROTOCOL_LOG: Final = logging.getLogger(f"{__name__}.protocol")
PROTOCOL_LOG.addFilter(is_own_fault)


def bind(port: int = 0) -> socket.socket:
    """A listening socket on a loopback address; raises `OSError`."""
    return socket.create_server((LOCALHOST, port))


class Loopback:
    """Serves a page."""

    def __init__(self, page: Page, sock: socket.socket) -> None:
        self.page = page
        self.sock = sock
        self.runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Start to serve."""
        server = web.Server(
            self.handle, handler_cancellation=True, access_log=None, auto_decompress=False, logger=PROTOCOL_LOG
        )
        self.runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=GRACE_SECONDS)
        await self.runner.setup()
        await web.SockSite(self.runner, self.sock).start()

    async def stop(self) -> None:
        """Stop to serve, and close all connections."""
        if self.runner is not None:
            await self.runner.cleanup()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The response to a request."""
        response = await self.page.answer(web_request(request))
        if isinstance(response.body, bytes):
            return web.Response(status=response.code, headers=[*response.headers], body=response.body)
        return await streamed(request, response, response.body)


def web_request(request: web.BaseRequest) -> WebRequest:
    """A request as the page knows it."""
    path, query = split_target(request.raw_path)

    async def read(limit: int) -> bytes:
        return await body_of(request, limit)

    return WebRequest(request.method, path, query, single_headers(request), read)


def split_target(target: str) -> tuple[str, Mapping[str, list[str]]]:
    """The decoded path and the query of a request target."""
    raw, _, query = target.partition("?")
    try:
        return unquote(raw), parse_qs(query, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        return f"{ROOT}/", {}


def single_headers(request: web.BaseRequest) -> Mapping[str, str]:
    """The headers by name in lower case; those that are given twice and must not be are empty."""
    found = {name.lower(): value for name, value in request.headers.items()}
    for name in SINGLE:
        if len(request.headers.getall(name, ())) > 1:
            found[name.lower()] = ""
    return found


async def body_of(request: web.BaseRequest, limit: int) -> bytes:
    """The body of a request; raises `WebError` if it is too large or too slow."""
    if (request.content_length or 0) > limit:
        raise WebError(413, f"the request has more than {limit} bytes")
    body = bytearray()
    try:
        async with timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > limit:
                    raise WebError(413, f"the request has more than {limit} bytes")
    except TimeoutError:
        raise WebError(408, "the request did not arrive in time") from None
    return bytes(body)


async def streamed(request: web.BaseRequest, response: WebResponse, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
    """Send a streamed response until it ends, or the client leaves or stops reading."""
    made = web.StreamResponse(status=response.code, headers=[*response.headers])
    if request.transport is not None:
        request.transport.set_write_buffer_limits(BUFFER_BYTES)
    try:
        await made.prepare(request)
        async for piece in pieces:
            await cast("StreamWriter", request.writer).write(piece, drain=False)
            async with timeout(WRITE_SECONDS):
                await cast("StreamWriter", request.writer).drain()
        await made.write_eof()
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()
    finally:
        if close := getattr(pieces, "aclose", None):
            with contextlib.suppress(RuntimeError, asyncio.CancelledError):
                await close()
    return made
