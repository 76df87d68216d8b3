"""Are clients connected to containers by Kubernetes' protocol, and only those that may?"""

import asyncio
import contextlib
import os
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from pykueue.api.core import Tree
from pykueue.apiserver.http import connections
from pykueue.apiserver.http.server import Server
from pykueue.base.turns import TURN_MICROS
from pykueue.base.units import MICROS, Instant
from pykueue.kube.execs import CLOSED, ERROR, RESIZE, STDERR, STDIN, STDOUT, V4, V5, ExecEnd, ExecError, ExecQuery
from pykueue.kube.websocket import BINARY, CLOSE, PING, POLICY, PONG, TEXT, Frames, Message, accepted, frame
from tests.apiserver.desk import pod
from tests.apiserver.standing import Stand, told
from tests.patience import soon_async

MASK = b"abcd"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
LAB = "/api/v1/namespaces/lab/pods"
EXEC = f"{LAB}/p/exec?command=sh&stdin=true&stdout=true&stderr=true"


class Echo:
    """A session that prints what is typed; its input ends it with code 5."""

    def __init__(self, asked: ExecQuery) -> None:
        self.asked = asked
        self.found: asyncio.Queue[tuple[int, bytes] | ExecEnd] = asyncio.Queue(8)
        self.sizes: list[tuple[int, int]] = []
        self.sent = 0
        self.closed = False
        self.found.put_nowait((STDOUT, b"hello"))
        self.found.put_nowait((STDERR, b"warning"))

    async def receive(self) -> tuple[int, bytes] | ExecEnd:
        return await self.found.get()

    async def send(self, data: bytes) -> None:
        await self.found.put((STDOUT, data))
        self.sent += len(data)

    def end_input(self) -> None:
        self.found.put_nowait(ExecEnd(5))

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    def close(self) -> None:
        self.closed = True


class Echoes:
    """Containers in which every command is an `Echo`."""

    def __init__(self) -> None:
        self.sessions: list[Echo] = []
        self.refusal: ExecError | None = None

    def check(self, pod: Tree, asked: ExecQuery) -> None:
        if self.refusal is not None:
            raise self.refusal

    async def open(self, pod: Tree, asked: ExecQuery) -> Echo:
        if asked.command == ("nonesuch",):
            raise ExecError("nonesuch: no such file")
        self.sessions.append(Echo(asked))
        return self.sessions[-1]


class Client:
    """A client of the protocol, which does as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self.reader = reader
        self.writer = writer
        self.head = head
        self.frames = Frames(from_client=False)
        self.arrived: list[Message] = []

    def send(self, channel: int, data: bytes) -> None:
        self.write(frame(BINARY, bytes([channel]) + data, mask=MASK))

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def next(self) -> Message | None:
        """The next message; None at the end of the connection."""
        while not self.arrived:
            try:
                block = await asyncio.wait_for(self.reader.read(1 << 16), 60)
            except ConnectionError:
                return None
            if not block:
                return None
            self.arrived = list(self.frames.feed(block))
        return self.arrived.pop(0)

    async def rest(self) -> list[Message]:
        found = []
        while (message := await self.next()) is not None:
            found.append(message)
        return found


class Site:
    """A server with pods of several creators in the namespace of bob and carl."""

    def __init__(self, stand: Stand, server: Server, echoes: Echoes) -> None:
        self.stand = stand
        self.server = server
        self.echoes = echoes

    @contextlib.asynccontextmanager
    async def connect(self, target: str = EXEC, who: str = "bob", **headers: str) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        sent = {
            "Host": "x",
            "Authorization": f"Bearer {self.stand.tokens[who]}",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": KEY,
            "Sec-WebSocket-Protocol": V5,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        writer.write("\r\n".join([f"GET {target} HTTP/1.1", *map(": ".join, sent.items()), "", ""]).encode())
        try:
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).decode()
            yield Client(reader, writer, head)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def call(self, verb: str, target: str, body: object = b"", **more: Any) -> Any:
        return await self.stand.call(verb, target, body, **more)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    stand, echoes = Stand(), Echoes()
    await stand.furnish()
    stand.front.objects.execs = echoes
    server = Server(stand.front, None)
    await server.start()
    for name, who in (("p", "bob"), ("q", "carl"), ("r", "admin")):
        made = await stand.call("POST", LAB, pod(name), who=who, headers={"content-type": "application/json"})
        assert made.code == 201, told(made)
    yield Site(stand, server, echoes)
    await server.stop()
    await stand.store.close()


def status(message: Message) -> Mapping[str, Any]:
    """The Status in a message of the error channel."""
    assert message.data[0] == ERROR
    found: Mapping[str, Any] = msgspec.json.decode(message.data[1:])
    return found


@pytest.mark.parametrize("protocol", [V5, V4])
async def test_a_session_from_start_to_end(site: Site, protocol: str) -> None:
    async with site.connect(Sec_WebSocket_Protocol=f"other, {protocol}") as client:
        assert client.head.startswith("HTTP/1.1 101 ")
        assert accepted(KEY) in client.head
        assert f"Sec-WebSocket-Protocol: {protocol}" in client.head
        assert await client.next() == Message(BINARY, b"\x01hello")
        assert await client.next() == Message(BINARY, b"\x02warning")
        client.send(RESIZE, b'{"Width":132,"Height":43}')
        client.send(STDIN, b"typed")
        assert await client.next() == Message(BINARY, b"\x01typed")
        client.write(frame(PING, b"there?", mask=MASK))
        assert await client.next() == Message(PONG, b"there?")
        (session,) = site.echoes.sessions
        assert session.asked == ExecQuery("c", ("sh",), stdin=True)
        assert session.sizes == [(132, 43)]
        client.send(CLOSED, bytes([STDIN]))
        last = await client.next()
        assert last is not None
        if protocol == V4:
            assert last.opcode == CLOSE, "version 4 has no such channel"
            return
        assert status(last)["details"] == {"causes": [{"reason": "ExitCode", "message": "5"}]}
        assert (await client.next() or last).opcode == CLOSE
        client.write(frame(CLOSE, b"", mask=MASK))
        assert await client.next() is None
    await soon_async(lambda: session.closed)
    assert session.closed


async def test_a_command_that_cannot_start_says_why(site: Site) -> None:
    async with site.connect(f"{LAB}/p/exec?command=nonesuch&stdout=true") as client:
        assert status(await client.next() or Message(0, b"\0"))["message"].endswith("nonesuch: no such file")


async def test_output_that_is_not_wanted_is_left_out(site: Site) -> None:
    async with site.connect(f"{LAB}/p/attach?stdin=true&stderr=true") as client:
        assert await client.next() == Message(BINARY, b"\x02warning")


@pytest.mark.parametrize(
    ("target", "who", "says"),
    [
        pytest.param(f"{LAB}/q/exec?command=sh&stdout=true", "bob", 'created by "carl"', id="a second user"),
        pytest.param(f"{LAB}/r/exec?command=sh&stdout=true", "bob", 'created by "admin"', id="an administrator's pod"),
        pytest.param(f"{LAB}/q/attach?stdout=true", "bob", 'created by "carl"', id="attach"),
        pytest.param(f"{LAB}/p/exec?command=sh&stdout=true", "ann", "cannot", id="another namespace"),
        pytest.param(f"{LAB}/p/exec?command=sh&stdout=true", "bob", "", id="one's own"),
        pytest.param(f"{LAB}/q/exec?command=sh&stdout=true", "admin", "", id="an administrator"),
    ],
)
async def test_only_the_creator_and_administrators_may(site: Site, target: str, who: str, says: str) -> None:
    async with site.connect(target, who=who) as client:
        assert client.head.split()[1] == ("403" if says else "101")
        if says:
            assert says in msgspec.json.decode(await client.reader.read(1 << 16))["message"]
    # kubectl repeats it over SPDY, and access reviews agree.
    assert (await site.call("POST", target, who=who)).code == (403 if says else 400)
    name, part = target.removeprefix(f"{LAB}/").partition("?")[0].split("/")
    for verb in ("get", "create"):
        attributes = {"namespace": "lab", "verb": verb, "resource": "pods", "subresource": part, "name": name}
        review = {"spec": {"resourceAttributes": attributes}}
        target = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        made = await site.call("POST", target, review, who=who, headers={"content-type": "application/json"})
        assert told(made)["status"]["allowed"] is not bool(says)


@pytest.mark.parametrize("how", ["removed", "rotated", "expired", "deleted pod"])
async def test_an_open_stream_ends_with_the_right_to_it(site: Site, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(connections, "CHECK_SECONDS", 0.05)
    users = site.stand.users
    async with site.connect() as client:
        assert await client.next() == Message(BINARY, b"\x01hello")
        match how:
            case "removed":
                users.revoke("bob")
            case "rotated":
                users.rotate("bob")
            case "expired":
                soon = Instant(site.stand.clock.now() + MICROS // 20)
                users.known = {**users.known, "bob": msgspec.structs.replace(users.known["bob"], expires=soon)}
            case _:
                deleted = await site.call("DELETE", f"{LAB}/p", who="bob")
                assert deleted.code == 200
                made = await site.call("POST", LAB, pod("p"), who="carl", headers={"content-type": "application/json"})
                assert made.code == 201
        found = await client.rest()
        assert status(found[-2])["reason"] == ("Forbidden" if how == "deleted pod" else "Unauthorized")
        assert found[-1].opcode == CLOSE
    await soon_async(lambda: site.echoes.sessions[0].closed)
    assert site.echoes.sessions[0].closed


async def test_clients_that_cannot_be_served_get_a_sentence(site: Site) -> None:
    refused = await site.call("POST", EXEC, who="bob", headers={"upgrade": "SPDY/3.1"})
    assert (refused.code, "use kubectl 1.31 or later" in told(refused)["message"]) == (400, True)
    async with site.connect(Sec_WebSocket_Protocol="v3.channel.k8s.io") as client:
        assert client.head.split()[1] == "400"
    async with site.connect(Sec_WebSocket_Key="short") as client:
        assert client.head.split()[1] == "400"
    for query, says in (
        ("stdout=true", "at least 1 command"),
        ("command=sh", "at least 1 of stdin, stdout, stderr"),
        ("command=a%00b&stdout=true", "NUL"),
        ("command=sh&stdout=true&container=x", "container x is not valid for pod p"),
    ):
        refused = await site.call("GET", f"{LAB}/p/exec?{query}", who="bob")
        assert (refused.code, says in told(refused)["message"]) == (400, True)
    for code in (404, 429, 500):
        site.echoes.refusal = ExecError("not now", code)
        assert (await site.call("GET", EXEC, who="bob")).code == code
    assert (await site.call("GET", f"{LAB}/none/exec?command=sh&stdout=true", who="bob")).code == 404


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(frame(BINARY, b"\0x"), 1002, id="not masked"),
        pytest.param(b"\x83\x80" + MASK, 1002, id="an unknown opcode"),
        pytest.param(b"\x82\xff" + (1 << 40).to_bytes(8, "big") + MASK, 1009, id="a terabyte"),
        pytest.param(b"\x02\x81" + MASK + b"x" + b"\x02\x81" + MASK + b"y", 1002, id="two beginnings"),
        pytest.param(frame(TEXT, b"0text", mask=MASK), 1003, id="text"),
        pytest.param(frame(BINARY, b"", mask=MASK), 1002, id="no channel"),
        pytest.param(frame(BINARY, b"\x01x", mask=MASK), 1002, id="a channel of the server"),
        pytest.param(frame(BINARY, b'\x04{"Width":-1,"Height":1}', mask=MASK), 1002, id="a negative size"),
        pytest.param(frame(BINARY, b"\x04[]", mask=MASK), 1002, id="no size"),
        pytest.param(
            frame(BINARY, b'\x04{"Width":1,"Height":1' + b" " * 300 + b"}", mask=MASK), 1002, id="a long size"
        ),
        pytest.param(b"\x02\x80" + MASK + (b"\x00\x80" + MASK) * 2000, 1008, id="empty fragments"),
    ],
)
async def test_hostile_frames_end_the_connection(site: Site, sent: bytes, code: int) -> None:
    async with site.connect() as client:
        client.write(sent)
        last = (await client.rest())[-1]
        assert (last.opcode, int.from_bytes(last.data[:2], "big")) == (CLOSE, code)
    await soon_async(lambda: site.echoes.sessions[0].closed)
    assert site.echoes.sessions[0].closed
    async with site.connect() as client:
        assert client.head.startswith("HTTP/1.1 101 "), "the server lives"


FLOODS = [
    pytest.param(frame(PING, b"", mask=MASK), id="pings"),
    pytest.param(frame(PONG, b"", mask=MASK), id="pongs"),
    pytest.param(frame(BINARY, b'\x04{"Width":80,"Height":24}', mask=MASK), id="sizes"),
    pytest.param(frame(BINARY, bytes([CLOSED, STDOUT]), mask=MASK), id="closed channels"),
    pytest.param(frame(BINARY, bytes([STDIN]), mask=MASK), id="empty input"),
]


@pytest.mark.parametrize("sent", FLOODS)
async def test_many_messages_without_input_end_the_connection(
    site: Site, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 600.0)
    monkeypatch.setattr(connections, "IDLE_MAX", 100)
    async with site.connect() as client:
        client.write(sent * 100 + frame(BINARY, b"\0typed", mask=MASK))
        while await client.next() != Message(BINARY, b"\x01typed"):
            pass
        client.write(sent)
        last = (await client.rest())[-1]
        assert (last.opcode, int.from_bytes(last.data[:2], "big")) == (CLOSE, POLICY)
        assert last.data[2:].startswith(b"more than 100 messages without input")


@pytest.mark.parametrize("sent", [*FLOODS, pytest.param(b"\x00\x80" + MASK, id="empty fragments")])
async def test_a_flood_of_frames_is_parsed_in_turns(site: Site, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """A turn of the event loop parses a bounded number, so another user's request waits for few of them."""
    monkeypatch.setattr(connections, "IDLE_MAX", 1_000_000)
    monkeypatch.setattr("pykueue.kube.websocket.FRAGMENTS_MAX", 1_000_000)
    turn, parsed = 0, Counter[int]()
    parse = Frames.parse

    def counted(frames: Frames) -> Message | None:
        parsed[turn] += frames.from_client
        return parse(frames)

    monkeypatch.setattr(Frames, "parse", counted)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    async with site.connect() as client:
        counting = asyncio.create_task(count_turns())
        begin = b"\x02\x80" + MASK if sent[0] == 0 else b""
        client.write(begin + sent * 20_000)
        await soon_async(lambda: parsed.total() > 500)
        before = parsed.total()
        assert (await site.call("GET", "/readyz", who="ann")).code == 200
        assert parsed.total() - before < 5_000
        reading = asyncio.create_task(client.rest())
        await soon_async(lambda: parsed.total() > 20_000)
        counting.cancel()
        reading.cancel()
    assert max(parsed.values()) <= 2 * TURN_MICROS // connections.FRAME_MICROS


async def test_one_who_does_not_read_takes_little_memory(site: Site) -> None:
    """What it sends is not read either: there is no room for the echo."""
    async with site.connect() as client:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            client.writer.transport.set_write_buffer_limits(1)
            block = frame(BINARY, b"\0" + b"x" * 30_000, mask=MASK)
            for _ in range(2000):
                client.write(block)
                try:
                    await asyncio.wait_for(client.writer.drain(), 0.5)
                except TimeoutError:
                    break
            else:
                raise AssertionError("60 MB were taken although nothing was read")
            client.writer.transport.abort()
            held = tracemalloc.get_traced_memory()[0] - before
            assert held < 8_000_000
        finally:
            tracemalloc.stop()
    await soon_async(lambda: site.echoes.sessions[0].closed)
    assert site.echoes.sessions[0].closed


async def test_a_thousand_connections_leave_nothing_behind(site: Site) -> None:
    async def once() -> None:
        async with site.connect() as client:
            assert client.head.startswith("HTTP/1.1 101 ")

    await once()
    await soon_async(lambda: site.server.streams == 0)
    descriptors, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
    for _ in range(100):
        await asyncio.gather(*(once() for _ in range(10)))
    await soon_async(lambda: site.server.streams == 0 and len(asyncio.all_tasks()) <= tasks)
    assert all(session.closed for session in site.echoes.sessions)
    await soon_async(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert len(asyncio.all_tasks()) <= tasks
    assert site.server.streams == 0
