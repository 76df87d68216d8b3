"""Do probes find what is there, and count as a kubelet counts?"""

import asyncio
from typing import Any

import pytest

from pykueue.base.clock import SystemClock
from pykueue.node.probes import Answer, Kind, Prober, Timing, ask, port_of, probes_of, timing, within
from pykueue.node.spawn import Outcome
from tests.clocks import SkippingClock

HOST = "127.0.0.1"


async def never(command: tuple[str, ...], seconds: float) -> Outcome:
    raise AssertionError("no command is run")


async def found(probe: dict[str, Any], container: dict[str, Any] | None = None) -> Answer:
    return await ask(probe, container or {}, host=HOST, clock=SystemClock(), run=never)


async def answering(head: bytes, seen: list[bytes]) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readline() + await reader.read(4096) if head else await reader.read())
        writer.write(head)
        writer.close()

    return await asyncio.start_server(answer, HOST, 0)


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", Answer(True)),
        (b"HTTP/1.1 302 Found\r\n\r\n", Answer(True)),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", Answer(False, "HTTP probe failed with statuscode: 404")),
        (b"SSH-2.0-x\r\n", Answer(False, "the response is not HTTP")),
        (
            b"",
            Answer(
                False,
                'Get "http://127.0.0.1:PORT/ready": context deadline exceeded '
                "(Client.Timeout exceeded while awaiting headers)",
            ),
        ),
    ],
)
async def test_http(head: bytes, wanted: Answer) -> None:
    seen: list[bytes] = []
    server = await answering(head, seen)
    async with server:
        port = server.sockets[0].getsockname()[1]
        get = {"path": "/ready", "port": "web", "httpHeaders": [{"name": "X-A", "value": "1\r\nX-B: 2"}]}
        container = {"ports": [{"name": "web", "containerPort": port}]}
        answer = await found({"httpGet": get}, container)
        assert answer == Answer(wanted.well, wanted.message.replace("PORT", str(port)))
        lines = seen[0].decode().split("\r\n")
        assert lines[0] == "GET /ready HTTP/1.1"
        assert "User-Agent: kube-probe/1.36" in lines
        assert "X-A: 1  X-B: 2" in lines, "a header stays one header"


async def test_tcp() -> None:
    server = await answering(b"", [])
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await found({"tcpSocket": {"port": port}}) == Answer(True)
    said = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert await found({"tcpSocket": {"port": port}}) == Answer(False, said)
    assert await found({"httpGet": {"port": port}}) == Answer(False, f'Get "http://127.0.0.1:{port}/": {said}')
    assert not (await found({"tcpSocket": {"port": 99999}})).well


async def test_no_host_name_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that does not answer would keep a thread of the server waiting."""

    async def resolve(*_: object, **__: object) -> None:
        raise AssertionError("a name is resolved")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    server = await answering(b"", [])
    async with server:
        port = server.sockets[0].getsockname()[1]
        for host in ("localhost", HOST):
            assert await found({"tcpSocket": {"host": host, "port": port}}) == Answer(True)
        for probe in ({"tcpSocket": {"host": "db.example", "port": port}}, {"httpGet": {"host": "a b", "port": port}}):
            answer = await found(probe)
            assert not answer.well
            assert "local pods resolve no host names in probes and hooks; give '" in answer.message


@pytest.mark.parametrize(
    ("outcome", "wanted"),
    [
        (Outcome(0, "fine"), Answer(True, "fine")),
        (Outcome(1, "not yet"), Answer(False, "not yet")),
        (Outcome(137, "", True), Answer(False, "command timed out: 'check it' timed out after 1s")),
    ],
)
async def test_commands(outcome: Outcome, wanted: Answer) -> None:
    async def run(command: tuple[str, ...], seconds: float) -> Outcome:
        assert (command, seconds) == (("check", "it"), 1)
        return outcome

    probe = {"exec": {"command": ["check", "it"]}}
    assert await ask(probe, {}, host=HOST, clock=SystemClock(), run=run) == wanted


async def test_grpc_is_refused_clearly() -> None:
    assert "not support gRPC probes" in (await found({"grpc": {"port": 1}})).message


def test_the_defaults_of_the_api() -> None:
    assert timing({}) == Timing(0, 10, 1, 1, 3)
    assert timing({"periodSeconds": 2, "failureThreshold": 1}) == Timing(0, 2, 1, 1, 1)


def test_ports_by_name_and_number() -> None:
    container = {"ports": [{"name": "web", "containerPort": 80}]}
    assert [port_of(container, port) for port in (1, "2", "web", "none", None)] == [1, 2, 80, 0, 0]


def test_the_probes_of_a_container() -> None:
    assert list(probes_of({"livenessProbe": {"exec": {}}, "startupProbe": {"exec": {}}})) == ["startup", "liveness"]


@pytest.mark.parametrize(
    ("kind", "answers", "changes"),
    [
        pytest.param("readiness", "+", [True], id="ready at the first success"),
        pytest.param("readiness", "-", [], id="not ready is how it begins"),
        pytest.param("readiness", "+--", [True], id="two failures are not enough"),
        pytest.param("readiness", "+---", [True, False], id="three are"),
        pytest.param("readiness", "+--+--", [True], id="they count in a row"),
        pytest.param("readiness", "+---+", [True, False, True], id="ready again"),
        pytest.param("liveness", "++", [], id="alive is how it begins"),
        pytest.param("liveness", "---", [False], id="dead after three"),
        pytest.param("startup", "--+", [True], id="started at last"),
        pytest.param("startup", "---", [False], id="never started"),
    ],
)
async def test_what_a_probe_finds_in_a_row(kind: Kind, answers: str, changes: list[bool]) -> None:
    rest = list(answers)
    seen: list[bool] = []
    over = asyncio.Event()

    async def once() -> Answer:
        if not rest:
            over.set()
            await asyncio.get_running_loop().create_future()
        return Answer(rest.pop(0) == "+", "why")

    failed: list[str] = []
    prober = Prober(
        kind,
        {},
        once,
        SkippingClock(),
        changed=lambda kind, well: seen.append(well),
        failed=lambda kind, message: failed.append(message),
    )
    task = asyncio.create_task(prober.run())
    ended = asyncio.create_task(over.wait())
    await asyncio.wait((task, ended), return_when=asyncio.FIRST_COMPLETED)
    for one in (task, ended):
        one.cancel()
    await asyncio.gather(task, ended, return_exceptions=True)
    assert seen == changes
    assert failed == ["why"] * answers.count("-")


async def test_what_takes_too_long_is_given_up() -> None:
    with pytest.raises(TimeoutError):
        await within(SystemClock(), 0.01, asyncio.sleep(100))
    assert await within(SystemClock(), 10, asyncio.sleep(0, "done")) == "done"
