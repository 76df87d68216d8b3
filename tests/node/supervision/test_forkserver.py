"""Does the fork server start containers in turn, probes at once, and read no more than it can keep?"""

import errno
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
    server.resting.close()
    server.resting.reporter.close()
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


def messages(client: socket.socket) -> list[object]:
    """What the fork server has sent so far."""
    data = client.recv(1 << 20)
    found: list[object] = []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        found.append(marshal.loads(data[4:end]))
        data = data[end:]
    return found


def test_a_start_that_waits_can_be_withdrawn(starting: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    server, client, turn = starting
    monkeypatch.setattr(forkserver, "SLOW_SECONDS", 600.0)
    client.sendall(framed(*({"key": name} for name in "abccd")))
    assert turn()
    client.sendall(framed({"withdraw": "a"}, {"withdraw": "c"}, {"withdraw": "unknown"}))
    assert turn()
    assert messages(client) == [("gone", "c")], "what has begun is ended by its supervisor"
    os.close(server.begun.pop())
    assert turn()
    assert server.keys == ["a", "b", "d"]
    assert server.waiting_bytes == 0


def test_large_requests_are_refused_while_others_wait(starting: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    server, client, turn = starting
    monkeypatch.setattr(forkserver, "SLOW_SECONDS", 600.0)
    monkeypatch.setattr(forkserver, "WAITING_BYTES_MAX", 1000)
    for name in "abcde":
        client.sendall(framed({"key": name * 600}))
        assert turn()
    client.sendall(framed({"key": "small"}, {"key": "probe", "once": True}))
    assert turn()
    assert [*server.waiting] == ["c" * 600, "small"]
    assert server.keys[-1] == "probe", "the socket is read on"
    assert messages(client) == [("refused", name * 600, "too many large requests wait") for name in "de"]


def test_without_descriptors_a_start_is_refused(starting: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    server, client, turn = starting

    def none_left(flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    client.sendall(framed({"key": "a"}))
    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe2", none_left)
        assert turn()
    assert messages(client) == [("refused", "a", "Too many open files")]
    client.sendall(framed({"key": "a"}))
    assert turn()
    assert server.keys == ["a"]


def test_the_fork_server_skips_a_request_that_is_too_long(
    starting: Starting,
) -> None:
    server, client, _ = starting
    stream = framed({"key": "x" * 10}, {"key": "z" * (REQUEST_BYTES_MAX + 1)}, {"key": "y" * 10})
    for begin in range(0, len(stream), 50_000):
        client.sendall(stream[begin : begin + 50_000])
        assert server.receive()
        assert len(server.buffer) < 100_000
    assert [*server.waiting] == ["x" * 10, "y" * 10]


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


def test_the_end_of_a_fork_server_is_noticed_while_files_are_removed(
    starting: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client, turn = starting
    held, release = os.pipe2(os.O_CLOEXEC)
    server.lock = os.dup(held)
    monkeypatch.setattr(forkserver, "clean", lambda *what: os.read(held, 1))
    client.sendall(framed({"clean": ("", "", [], [])}))
    assert turn()
    (cleaner,) = server.cleaners
    server.control.close()
    client.settimeout(30)
    assert client.recv(1) == b"", "the process that removes files keeps the socket open"
    assert os.waitpid(cleaner, os.WNOHANG) == (0, 0), "it is still at work"
    os.write(release, b"x")
    assert os.waitpid(cleaner, 0) == (cleaner, 0)
    for fd in (held, release, server.lock):
        os.close(fd)
