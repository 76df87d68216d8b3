"""Does the filter pass requests on, and do to them what its rule says?"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.plane.filter import CLOSE_SECONDS, Filter, Rule
from tests.plane.keys import Authority


class Noted(Rule):
    """Renames what is asked for, drops lines that say so, and notes the rest."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.closes = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    def path(self, request: web.BaseRequest) -> str:
        return request.raw_path.replace("five", "four")

    async def answered(self, _request: web.BaseRequest, status: int) -> None:
        self.statuses.append(status)

    async def line(self, _request: web.BaseRequest, line: bytes) -> bool:
        return line != b"drop"

    def closed(self, _request: web.BaseRequest) -> None:
        self.loop.call_soon_threadsafe(self.closes.set)


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    """Repeat a request, or send a watch of three lines that stays open."""
    if request.query.get("watch") != "true":
        said = f"{request.method} {request.raw_path} {request.headers.get('Authorization')} {await request.text()}"
        return web.Response(status=201 if request.body_exists else 200, text=said, headers={"Retry-After": "7"})
    response = web.StreamResponse()
    await response.prepare(request)
    for piece in (b"one\ndr", b"op\nthree\n"):
        await response.write(piece)
    await asyncio.sleep(60)
    return response


@contextlib.asynccontextmanager
async def filtered(folder: Path) -> AsyncIterator[tuple[Filter, aiohttp.ClientSession, str]]:
    """A filter before a server, a client that trusts it, and its address."""
    authority = Authority(folder)
    authority.issue("server", hosts=["127.0.0.1"])
    files = folder / "server.crt", folder / "server.key"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    runner = web.ServerRunner(web.Server(answer, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = int(runner.addresses[0][1])
    trusted = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(authority.file)))
    try:
        with Filter(lambda: [port], *files) as proxy:
            async with aiohttp.ClientSession(connector=trusted) as session, asyncio.timeout(20):
                yield proxy, session, f"https://127.0.0.1:{proxy.port}"
            await asyncio.sleep(CLOSE_SECONDS)
    finally:
        await runner.cleanup()


async def test_without_a_rule_everything_passes(tmp_path: Path) -> None:
    async with filtered(tmp_path) as (_, session, url):
        async with session.post(f"{url}/a%2Fb?x=1", data=b"body", headers={"Authorization": "Bearer t"}) as got:
            assert (got.status, got.headers["Retry-After"]) == (201, "7")
            assert await got.text() == "POST /a%2Fb?x=1 Bearer t body"
        async with session.get(f"{url}/w?watch=true") as got:
            assert [await got.content.readline() for _ in range(3)] == [b"one\n", b"drop\n", b"three\n"]


async def test_a_rule_changes_paths_drops_lines_and_hears_of_the_end(tmp_path: Path) -> None:
    async with filtered(tmp_path) as (proxy, session, url):
        proxy.rule = rule = Noted()
        async with session.get(f"{url}/list?limit=five") as got:
            assert await got.text() == "GET /list?limit=four None "
        async with session.get(f"{url}/w?watch=true") as got:
            assert [await got.content.readline() for _ in range(2)] == [b"one\n", b"three\n"]
            assert not rule.closes.is_set()
        await rule.closes.wait()
        assert rule.statuses == [200, 200]


async def test_a_server_that_is_away_is_a_broken_connection(tmp_path: Path) -> None:
    async with filtered(tmp_path) as (proxy, session, url):
        proxy.backends = lambda: []
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{url}/a")
