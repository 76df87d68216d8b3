"""Does everything work through a proxy too?"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, Fixed
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import ConflictError, GoneError, NotLeadingError, Patch, UnansweredError
from tests.clocks import SkippingClock
from tests.fakes.tinyapi import THINGS, TinyApi, status, thing
from tests.kube.client.listening import listening
from tests.kube.client.test_connection import serving
from tests.plane.keys import Authority


class Proxy:
    """A proxy that connects to where it is asked to, or refuses."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.refuses = False
        self.url = ""

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["Proxy"]:
        async with listening(self.meet) as port:
            self.url = f"http://user:word@127.0.0.1:{port}"
            yield self

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        if self.refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, _, port = head.split()[1].decode().rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(pour(reader, far_writer), pour(far_reader, writer))


async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def proxied(folder: Path, *, leads: bool = True) -> AsyncIterator[tuple[TinyApi, Proxy, HttpKube]]:
    """A server, a proxy before it and a client of both, for at most 20 seconds."""
    authority = Authority(folder)
    async with TinyApi().serve(serving(authority, "127.0.0.1")) as api, Proxy().serve() as proxy:
        await api.put("things", thing("a", "old"))
        connection = Connection(
            api.url, Fixed(Credential("Bearer t")), authority=authority.pem.decode(), proxy=proxy.url
        )
        kube = HttpKube(connection, SkippingClock(), may_write=lambda: leads)
        try:
            async with asyncio.timeout(20):
                yield api, proxy, kube
        finally:
            await kube.close()


async def test_calls_and_watches_go_through_the_proxy(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (api, proxy, kube):
        events = aiter(kube.watch(THINGS))
        assert json.loads(await anext(events))["type"] == "ADDED"
        raw = await kube.patch(THINGS, "a", b'{"spec":{"value":"new"}}', "default", how=Patch.MERGE)
        assert json.loads(raw)["spec"] == {"value": "new"}
        await anext(events)
        assert json.loads(await anext(events))["object"]["spec"] == {"value": "new"}
        assert {head.split()[0] for head in proxy.asked} == {b"CONNECT"}
        assert all(b"Proxy-Authorization: Basic dXNlcjp3b3Jk" in head for head in proxy.asked)
        assert {headers["Authorization"] for headers in api.headers} == {"Bearer t"}
        assert not any(b"Bearer" in head for head in proxy.asked)
        stale = b'{"metadata":{"resourceVersion":"1"}}'
        with pytest.raises(ConflictError):
            await kube.patch(THINGS, "a", stale, "default", how=Patch.MERGE)
        api.compact()
        with pytest.raises(GoneError):
            await anext(aiter(kube.watch(THINGS, version="1")))


async def test_a_proxy_that_refuses_was_sent_nothing_of_ours(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (api, proxy, kube):
        proxy.refuses = True
        with pytest.raises(UnansweredError, match="407"):
            await kube.create(THINGS, b"{}", "default")
        assert api.log == []
        assert "word" not in str(await caught(kube))


async def caught(kube: HttpKube) -> UnansweredError:
    with pytest.raises(UnansweredError) as found:
        await kube.create(THINGS, b"{}", "default")
    return found.value


async def test_a_write_that_is_lost_is_not_sent_again(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (api, _, kube):

        async def cut(request: web.Request) -> web.StreamResponse | None:
            assert request.transport is not None
            request.transport.abort()
            return status(500, "InternalError")

        api.accident = cut
        with pytest.raises(UnansweredError):
            await kube.create(THINGS, b"{}", "default")
        assert len(api.log) == 1


async def test_nothing_is_written_once_we_may_not(tmp_path: Path) -> None:
    async with proxied(tmp_path, leads=False) as (api, _, kube):
        with pytest.raises(NotLeadingError):
            await kube.create(THINGS, b"{}", "default")
        assert api.log == []
        await kube.close()
        with pytest.raises(UnansweredError, match="closed"):
            await kube.get(THINGS, "a", "default")
