"""Does the fork server start containers in turn, probes at once, and read no more than it can keep?"""

import marshal
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import pytest

from pykueue.node.supervision import forkserver
from pykueue.node.supervision.command import Request
from pykueue.node.supervision.forkserver import REQUEST_BYTES_MAX, ForkServer


class StartedServer(ForkServer):
    """A fork server that starts nothing; a start is complete when its pipe in `begun` is closed."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control, -1, control)
        self.keys: list[object] = []
        self.begun: list[int] = []

    def start(self, request: Request, begins: int = -1) -> None:
        self.keys.append(request["key"])
        if begins >= 0:
            self.begun.append(os.dup(begins))


Starting: TypeAlias = tuple[StartedServer, socket.socket, Callable[[], bool]]


@pytest.fixture
def starting() -> Iterator[Starting]:
    """A fork server that starts two at a time, the socket of its client, and its next turn."""
    ours, theirs = socket.socketpair()
    wake, waker = os.pipe2(os.O_NONBLOCK)
    server = StartedServer(theirs)
    server.starting_max = 2
    with ours, theirs:
        yield server, ours, lambda: server.turn(wake)
    for fd in (wake, waker, *server.starting, *server.begun):
        os.close(fd)


def framed(*requests: Mapping[str, object]) -> bytes:
    bodies = [marshal.dumps(dict(one)) for one in requests]
    return b"".join(len(one).to_bytes(4, "big") + one for one in bodies)


def test_containers_start_a_few_at_a_time(starting: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    server, client, turn = starting
    monkeypatch.setattr(forkserver, "SLOW_SECONDS", 600.0)
    client.sendall(framed(*({"key": name} for name in "abcd")))
    assert turn()
    assert server.keys == ["a", "b"]
    client.sendall(framed({"key": "probe", "once": True}))
    assert turn()
    assert server.keys == ["a", "b", "probe"], "a probe does not wait for containers"
    os.close(server.begun.pop())
    assert turn()
    assert server.keys == ["a", "b", "probe", "c"]
    client.close()
    assert not turn()
    assert server.keys == ["a", "b", "probe", "c"], "the server has ended, so the rest is dropped"


def test_slow_starts_do_not_keep_others_waiting(starting: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    server, client, turn = starting
    monkeypatch.setattr(forkserver, "SLOW_SECONDS", 0.001)
    client.sendall(framed(*({"key": name} for name in "abcd")))
    assert turn()
    while len(server.keys) < 4:
        assert turn(), "nothing else wakes it"
    assert server.keys == ["a", "b", "c", "d"]
    assert len(server.starting) <= 2, "no descriptors are left behind"


def test_the_fork_server_reads_no_further_while_large_requests_wait(
    starting: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client, turn = starting
    monkeypatch.setattr(forkserver, "SLOW_SECONDS", 600.0)
    monkeypatch.setattr(forkserver, "REQUEST_BYTES_MAX", 1000)
    for name in "abcd":
        client.sendall(framed({"key": name * 600}))
        assert turn()
    assert [one["key"] for _, one in server.waiting] == ["c" * 600, "d" * 600]
    client.sendall(framed({"key": "e"}))
    os.close(server.begun.pop())
    assert turn()
    assert [one["key"] for _, one in server.waiting] == ["d" * 600], "what came later is still in the socket"
    assert turn()
    assert [one["key"] for _, one in server.waiting] == ["d" * 600, "e"]


def test_the_fork_server_skips_a_request_that_is_too_long(
    starting: Starting,
) -> None:
    server, client, _ = starting
    stream = framed(*({"key": "x" * size} for size in (10, REQUEST_BYTES_MAX + 1, 10)))
    for begin in range(0, len(stream), 50_000):
        client.sendall(stream[begin : begin + 50_000])
        assert server.receive()
        assert len(server.buffer) < 100_000
    assert [one for _, one in server.waiting] == [{"key": "x" * 10}] * 2


def test_a_long_request_is_received_in_linear_time(
    starting: Starting,
) -> None:
    server, client, _ = starting
    stream = framed({"key": "x" * (8 << 20)})
    buffer = server.buffer
    for begin in range(0, len(stream), 50_000):
        client.sendall(stream[begin : begin + 50_000])
        assert server.receive()
    assert server.buffer is buffer, "it is extended, not copied"
    assert len(server.waiting) == 1
