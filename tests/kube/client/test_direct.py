"""Do requests reach the server, and do we know whether they did?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from pykueue.kube.client import direct as connections
from pykueue.kube.client.direct import GATHER_CALLS, GATHER_PART, GATHER_SECONDS, Direct
from pykueue.kube.client.transport import CONNECTIONS_MAX, LostError, Request, UnsentError
from tests.kube.client.listening import listening

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Peer:
    """A server that says what a test tells it to, connection by connection."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.connections = 0
        self.heads: list[bytes] = []
        self.url = ""

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["Peer"]:
        async with listening(self.meet) as port:
            self.url = f"http://127.0.0.1:{port}"
            yield self

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await self.talk(reader, writer)
        finally:
            writer.close()

    async def heard(self, reader: asyncio.StreamReader) -> bytes:
        """The next request, body and all."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        _, _, after = head.partition(b"Content-Length: ")
        return await reader.readexactly(int(after.split(b"\r\n")[0])) if after else b""


def request(method: str = "GET", path: str = "/x", body: bytes | None = None) -> Request:
    return Request(method, path, (("Accept", "application/json"),), body, "application/json")


@contextlib.asynccontextmanager
async def connected(talk: Callable[[Peer], Talk]) -> AsyncIterator[tuple[Peer, Direct]]:
    """A peer that talks like this and a client of it, for at most 20 seconds."""

    def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Awaitable[None]:
        return talk(peer)(reader, writer)

    peer = Peer(late)
    async with peer.serve():
        direct = Direct(peer.url)
        try:
            async with asyncio.timeout(20):
                yield peer, direct
        finally:
            await direct.close()


def answering(*answers: bytes) -> Callable[[Peer], Talk]:
    """One answer after the other on each connection, then its end."""

    def talk(peer: Peer) -> Talk:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for answer in answers:
                await peer.heard(reader)
                writer.write(answer)
                await writer.drain()

        return speak

    return talk


async def test_a_request_is_written_as_http_has_it() -> None:
    async with connected(answering(OK)) as (peer, direct):
        answer = await direct.exchange(request("POST", "/a%2Fb?c=d", b"{}"))
        assert (answer.status, answer.body) == (200, b"ok")
        host = peer.url.removeprefix("http://").encode()
        assert peer.heads == [
            b"POST /a%2Fb?c=d HTTP/1.1\r\nHost: " + host + b"\r\nAccept: application/json\r\n"
            b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n"
        ]


async def test_a_connection_is_used_again() -> None:
    async with connected(answering(OK, OK, OK)) as (peer, direct):
        for _ in range(3):
            assert (await direct.exchange(request())).body == b"ok"
        assert peer.connections == 1


async def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    async with connected(answering(OK)) as (peer, direct):
        for _ in range(3):
            assert (await direct.exchange(request())).body == b"ok"
            await asyncio.sleep(0.02)
        assert peer.connections == 3
        assert direct.lines == set()


async def test_a_connection_that_says_close_is_not_used_again() -> None:
    last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    async with connected(answering(last, last)) as (peer, direct):
        await direct.exchange(request())
        await direct.exchange(request())
        assert peer.connections == 2


async def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.01)
    async with connected(answering(OK, OK)) as (peer, direct):
        await direct.exchange(request())
        await asyncio.sleep(0.05)
        await direct.exchange(request())
        assert peer.connections == 2


async def test_only_so_many_calls_are_under_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 3)
    async with connected(answering(*[OK] * 12)) as (peer, direct):
        answers = await asyncio.gather(*(direct.exchange(request()) for _ in range(12)))
        assert len(answers) == 12
        assert peer.connections == 3


async def test_a_server_that_is_not_there_was_sent_nothing() -> None:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    direct = Direct(f"http://127.0.0.1:{port}")
    with pytest.raises(UnsentError, match="cannot be reached"):
        await direct.exchange(request())
    await direct.close()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="with no answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Len", id="within the head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", id="within the body"),
        pytest.param(b"what?\r\n\r\n", id="with something else than an answer"),
    ],
)
async def test_a_connection_that_ends_after_sending_is_a_loss(answer: bytes) -> None:
    async with connected(answering(answer)) as (peer, direct):
        with pytest.raises(LostError):
            await direct.exchange(request("POST", body=b"{}"))
        assert len(peer.heads) == 1


async def test_an_answer_that_does_not_come_in_time_is_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CALL_SECONDS", 0.05)

    def silent(peer: Peer) -> Talk:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await peer.heard(reader)
            await reader.read()

        return speak

    async with connected(silent) as (_, direct):
        with pytest.raises(LostError, match="no response"):
            await direct.exchange(request())


@pytest.mark.parametrize(
    ("gathers", "calls", "pauses"),
    [
        pytest.param(True, GATHER_CALLS, True, id="many in flight"),
        pytest.param(True, GATHER_CALLS - 1, False, id="few in flight"),
        pytest.param(False, GATHER_CALLS, False, id="not asked for"),
    ],
)
async def test_responses_are_gathered_while_many_calls_are_in_flight(
    monkeypatch: pytest.MonkeyPatch, gathers: bool, calls: int, pauses: bool
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(connections, "block", slept.append)
    all_here = asyncio.Event()

    def together(peer: Peer) -> Talk:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await peer.heard(reader)
            if len(peer.heads) == calls:
                all_here.set()
            await all_here.wait()
            writer.write(OK)

        return speak

    async with connected(together) as (_, direct):
        direct.gathers, direct.latency = gathers, 0.05
        await asyncio.gather(*(direct.exchange(request()) for _ in range(calls)))
    assert slept == ([pytest.approx(0.05 / GATHER_PART)] if pauses else [])


async def test_a_pause_is_short_however_long_calls_take(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(connections, "block", slept.append)
    direct = Direct("http://localhost", gathers=True)
    direct.calls, direct.latency = GATHER_CALLS, 30.0
    direct.gather()
    direct.gather()
    assert slept == [GATHER_SECONDS], "one pause in each turn of the loop"
    await asyncio.sleep(0)
    direct.gather()
    assert slept == [GATHER_SECONDS, GATHER_SECONDS]


async def test_the_duration_of_recent_calls_is_known() -> None:
    async with connected(answering(OK, OK)) as (_, direct):
        await direct.exchange(request())
        assert 0 < direct.latency < 1
        assert direct.calls == 0


async def test_a_cancelled_call_does_not_leave_its_answer_to_the_next() -> None:
    release = asyncio.Event()

    def slow(peer: Peer) -> Talk:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await peer.heard(reader)
            if peer.connections == 1:
                await release.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
            else:
                writer.write(OK)
            await writer.drain()

        return speak

    async with connected(slow) as (_, direct):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(direct.exchange(request()), 0.05)
        release.set()
        assert (await direct.exchange(request())).body == b"ok"


async def test_nothing_is_sent_once_it_may_not_be() -> None:
    async with connected(answering(OK)) as (peer, direct):
        with pytest.raises(UnsentError, match="no longer allowed"):
            await direct.exchange(Request("POST", "/x", (), b"{}", "application/json", lambda: False))
        await asyncio.sleep(0.02)
        assert peer.heads == []


async def test_closing_ends_what_is_under_way_and_what_waits() -> None:
    def silent(peer: Peer) -> Talk:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await peer.heard(reader)
            await reader.read()

        return speak

    async with connected(silent) as (peer, direct):
        calls = [asyncio.create_task(direct.exchange(request())) for _ in range(CONNECTIONS_MAX + 2)]
        while len(peer.heads) < CONNECTIONS_MAX:
            await asyncio.sleep(0.01)
        await direct.close()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes[-2:]) == ["UnsentError"] * 2
        assert all(isinstance(outcome, LostError) for outcome in outcomes[:-2])
        assert len(peer.heads) == CONNECTIONS_MAX


async def test_a_stream_that_falls_silent_is_ended() -> None:
    begins = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"

    def silent(peer: Peer) -> Talk:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await peer.heard(reader)
            writer.write(begins)
            await reader.read()

        return speak

    async with connected(silent) as (_, direct):
        stream = await direct.open(request(), idle=0.1)
        assert (stream.status, await stream.readany()) == (200, b"abc")
        with pytest.raises(LostError, match="no data"):
            await stream.readany()
        stream.close()


async def test_a_stream_whose_reader_is_slow_makes_the_server_wait() -> None:
    piece = b"x" * 65536
    sent = 0

    def endless(peer: Peer) -> Talk:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await peer.heard(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while sent < 1024:
                writer.write(piece)
                await writer.drain()
                sent += 1

        return speak

    async with connected(endless) as (_, direct):
        stream = await direct.open(request(), idle=30)
        await asyncio.sleep(0.5)
        waited_at = sent
        assert waited_at < 1024
        size = 0
        while part := await stream.readany():
            size += len(part)
        assert size == 1024 * len(piece)
        stream.close()
