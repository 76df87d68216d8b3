"""What reaches the page over a real socket, and what does a client meet that is slow, malformed or hostile?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pykueue.base.clock import SystemClock
from pykueue.web import loopback
from pykueue.web.guard import Address
from pykueue.web.loopback import NAMES, Loopback, bind
from pykueue.web.pages import Page
from pykueue.web.sessions import Grant, Sessions
from tests.patience import soon_async
from tests.web.test_pages import FILES, Site
from tests.web.visitor import Visitor, visitor


class Serving:
    """A page on a free port."""

    def __init__(self) -> None:
        self.sock = bind()
        self.port: int = self.sock.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.site = Site()
        self.sessions = Sessions(SystemClock())
        self.server = Loopback(Page(Address("http", NAMES, self.port), self.sessions, self.site, FILES), self.sock)

    def code(self) -> str:
        return self.sessions.issue(Grant("ann"))


@asynccontextmanager
async def serving() -> AsyncIterator[Serving]:
    made = Serving()
    await made.server.start()
    try:
        yield made
    finally:
        await made.server.stop()


@asynccontextmanager
async def entered() -> AsyncIterator[tuple[Serving, Visitor]]:
    async with serving() as up, visitor(up.base) as ann:
        assert await ann.enter(up.code()) == 200
        yield up, ann


async def spoken(up: Serving, text: str) -> bytes:
    """The answer to bytes that a test makes up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
    writer.write(text.encode("latin-1"))
    try:
        return await asyncio.wait_for(reader.read(1 << 16), 20)
    finally:
        writer.close()


async def test_it_listens_on_the_loopback_alone() -> None:
    async with serving() as up:
        assert up.sock.getsockname()[0] == "127.0.0.1"


async def test_a_browser_enters_and_asks() -> None:
    async with entered() as (up, ann):
        assert (await ann.ask("GET", "/ui/"))[1] == "<p>page"
        assert await ann.get("look?name=x&set=a&set=b") == (200, {"said": "done"})
        assert up.site.asked[0].query == {"name": ["x"], "set": ["a", "b"]}
        assert await ann.post("act", {"a": 1}) == (200, {"said": "done"})
        assert (
            await ann.ask("POST", "/ui/api/act", data=b"x" * 300_000, headers={"Content-Type": "application/json"})
        )[0] == 413
        async with visitor(up.base) as other:
            assert (await other.ask("GET", "/ui/"))[0] == 401


async def test_two_servers_on_one_host_do_not_share_sessions() -> None:
    async with entered() as (_, ann), serving() as other:
        # The cookie jar of a browser does not tell ports apart.
        ann.base = other.base
        assert (await ann.ask("GET", "/ui/"))[0] == 401
        assert await ann.enter(other.code()) == 200
        assert len([one for one in ann.session.cookie_jar if one.key.startswith("pykueue-ui-")]) == 2


async def test_headers_that_are_given_twice_count_as_none() -> None:
    async with serving() as up:
        host = f"Host: 127.0.0.1:{up.port}\r\n"
        assert b" 401 " in await spoken(up, f"GET /ui/ HTTP/1.1\r\n{host}\r\n")
        answer = await spoken(up, f"GET /ui/ HTTP/1.1\r\n{host}Host: evil.example\r\n\r\n")
        assert b" 421 " in answer or b" 400 " in answer


@pytest.mark.parametrize(
    "target",
    ["/ui/api/look?name=x%0d%0aSet-Cookie:a", "/ui/%0d%0aX: y", "http://127.0.0.1/ui/", "/ui/api/look?" + "a&" * 500],
)
async def test_nothing_of_a_request_gets_into_the_headers_of_the_answer(target: str) -> None:
    async with serving() as up:
        answer = await spoken(up, f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{up.port}\r\n\r\n".replace(" X:", "%20X:"))
        head = answer.partition(b"\r\n\r\n")[0].lower()
        assert b"set-cookie" not in head
        assert b"\r\nx:" not in head
        assert head.split(b" ", 2)[1][:1] == b"4"


async def test_a_malformed_request_is_refused_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as up:
        assert b" 400 " in await spoken(up, "GET /ui\r\nno header\r\n\r\n")
    assert caplog.text == ""


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "BODY_SECONDS", 0.2)
    async with serving() as up:
        head = (
            f"POST /ui/enter HTTP/1.1\r\nHost: 127.0.0.1:{up.port}\r\nContent-Length: 9\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
        )
        assert b" 408 " in await spoken(up, head)


async def test_a_client_that_does_not_read_is_disconnected_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loopback, "WRITE_SECONDS", 0.3)
    async with entered() as (up, ann):
        feed = up.site.shown
        feed.show(b'{"counts":0}')
        for number in range(3_000):
            feed.put(f"n/{number}", b'{"namespace":"n","name":"%d","pad":"%b"}' % (number, b"x" * 10_000))
        await feed.filled()
        cookie = "; ".join(f"{one.key}={one.value}" for one in ann.session.cookie_jar)
        head = (
            f"GET /ui/api/stream HTTP/1.1\r\nHost: 127.0.0.1:{up.port}\r\n"
            f"Cookie: {cookie}\r\nX-Pykueue-Key: {ann.key}\r\n\r\n"
        )
        _, writer = await asyncio.open_connection("127.0.0.1", up.port, limit=1024)
        writer.write(head.encode())
        try:
            assert await soon_async(lambda: feed.clients == 1)
            async with ann.streaming() as stream:
                await stream.until(lambda seen: seen.complete)
                assert len(stream.rows) == 3_000
            assert await soon_async(lambda: feed.clients == 0)
        finally:
            writer.transport.abort()


async def test_a_stream_ends_when_its_session_does() -> None:
    async with entered() as (up, ann):
        up.site.shown.show(b'{"counts":0}')
        await up.site.shown.filled()
        async with ann.streaming() as stream:
            await stream.until(lambda seen: seen.complete)
            up.sessions.end_all()
            while await stream.next() is not None:
                pass
        assert up.site.shown.clients == 0
        assert (await ann.ask("GET", "/ui/"))[0] == 401
