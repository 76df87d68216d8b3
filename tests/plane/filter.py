"""How does a test interfere with single requests? A `Filter`: a proxy that ends TLS, and does what its `Rule` says.

with Filter(lambda: [plane.ports["api"]], plane.folder / "apiserver.crt", plane.folder / "apiserver.key") as proxy:
    member.proxy.backends = lambda: [proxy.port]
    proxy.rule = Slow()   # from now on; without a rule everything passes
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import aiohttp
from aiohttp import web
from yarl import URL

HOP: Final = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})
"""Headers that belong to one connection."""
BODY_MAX: Final = 64 << 20
CLOSE_SECONDS: Final = 0.3
"""How long TLS connections of a closed session take to be closed."""


class Rule:
    """What happens to requests. This one does nothing; the methods of others run on the filter's loop."""

    def path(self, _request: web.BaseRequest) -> str:
        """The path and query to ask the server for."""
        return _request.raw_path

    async def answered(self, _request: web.BaseRequest, _status: int) -> None:
        """Called when the server has answered, before the answer is passed on."""

    async def line(self, _request: web.BaseRequest, _line: bytes) -> bool:
        """Whether to pass on a line of a watch."""
        return True

    def closed(self, _request: web.BaseRequest) -> None:
        """Called when a watch has ended."""


class Filter:
    """A proxy that passes requests on to the first of some ports of 127.0.0.1 that answers."""

    def __init__(
        self,
        backends: Callable[[], list[int]],
        cert: Path,
        key: Path,
        host: str = "127.0.0.1",
        rule: Rule | None = None,
    ) -> None:
        self.backends, self.cert, self.key, self.host = backends, cert, key, host
        self.rule = rule or Rule()
        self.port = 0
        self.loop = asyncio.new_event_loop()
        self.ended = asyncio.Event()
        self.started = threading.Event()
        self.failed: BaseException | None = None
        self.thread = threading.Thread(target=self.run, name="filter", daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        self.started.wait()
        if self.failed is not None:
            raise self.failed
        return self

    def __exit__(self, *_error: object) -> None:
        self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join()

    def run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                runner.run(self.serve())
        except BaseException as error:
            self.failed = error
        finally:
            self.started.set()

    async def serve(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        connector = aiohttp.TCPConnector(ssl=False, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:

            async def handle(request: web.BaseRequest) -> web.StreamResponse:
                return await self.handle(session, request)

            # A request whose client is gone ends there.
            runner = web.ServerRunner(web.Server(handle, handler_cancellation=True), shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
            await site.start()
            self.port = int(runner.addresses[0][1])
            self.started.set()
            await self.ended.wait()
            await runner.cleanup()
        await asyncio.sleep(CLOSE_SECONDS)

    async def handle(self, session: aiohttp.ClientSession, request: web.BaseRequest) -> web.StreamResponse:
        rule = self.rule
        body = await request.content.read(BODY_MAX) if request.body_exists else None
        while body is not None and (more := await request.content.read(BODY_MAX)):
            body += more
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        for port in self.backends():
            url = URL(f"https://127.0.0.1:{port}{rule.path(request)}", encoded=True)
            with contextlib.suppress(aiohttp.ClientConnectorError):
                return await self.ask(session, rule, request, url, headers, body)
        return gone(request)

    async def ask(
        self,
        session: aiohttp.ClientSession,
        rule: Rule,
        request: web.BaseRequest,
        url: URL,
        headers: dict[str, str],
        body: bytes | None,
    ) -> web.StreamResponse:
        """What the server at this address answers."""
        try:
            async with session.request(
                request.method, url, headers=headers, data=body, allow_redirects=False
            ) as answer:
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
                if request.query.get("watch") == "true" and answer.status == 200:
                    await rule.answered(request, answer.status)
                    return await self.watch(rule, request, answer, kept)
                found = await answer.read()
        except aiohttp.ClientConnectorError:
            raise
        except aiohttp.ClientError:
            return gone(request)
        await rule.answered(request, answer.status)
        return web.Response(status=answer.status, headers=kept, body=found)

    async def watch(
        self, rule: Rule, request: web.BaseRequest, answer: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        """Pass a watch on, line by line."""
        response = web.StreamResponse(status=answer.status, headers=headers)
        try:
            await response.prepare(request)
            rest = b""
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if await rule.line(request, line):
                        await response.write(line + b"\n")
        finally:
            rule.closed(request)
        return response


def gone(request: web.BaseRequest) -> web.Response:
    """Break the connection; what is returned does not arrive."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)
