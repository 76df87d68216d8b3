"""Are supervisors that rest found, confirmed and reused, without anything of the attempt before?"""

import errno
import os
import resource
import select
import signal
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pykueue.node import spawn
from pykueue.node.attempts import Attempt
from pykueue.node.spawn import PROGRAM, Start
from pykueue.node.supervision import reuse
from pykueue.node.supervision.command import Request
from pykueue.node.supervision.followers import boot_seconds
from pykueue.node.supervision.forkserver import ForkServer
from pykueue.node.supervision.processes import process_start
from pykueue.node.supervision.reuse import (
    REUSE_BYTES_MAX,
    USES_MAX,
    Resting,
    is_plain,
    next_request,
)
from tests.node.watchedspawner import ENV, Watched, spawner
from tests.patience import soon_async

REST_SECONDS = 60.0
"""How long supervisors rest here, so that a busy machine does not end their rest between two attempts."""


@pytest.fixture(autouse=True)
def long_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the supervisors of fork servers rest for longer."""
    setting = f"from pykueue.node.supervision import reuse; reuse.REST_SECONDS = {REST_SECONDS}; main("
    monkeypatch.setattr(spawn, "PROGRAM", PROGRAM.replace("main(", setting))


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resting]:
    """Supervisors that rest until something ends their rest."""
    monkeypatch.setattr(reuse, "REST_SECONDS", 600.0)
    made = Resting()
    yield made
    made.close()
    made.reporter.close()


class Sleeper:
    """A supervisor that rests, played by a thread, and the request that ended its rest."""

    def __init__(self, resting: Resting, key: str) -> None:
        self.got: tuple[Request, int, int] | None = None
        self.thread = threading.Thread(target=self.rest, args=(resting.reporter, key))
        self.thread.start()
        # The report is sent before it waits.
        select.select([resting.reports], [], [], 10)

    def rest(self, reporter: socket.socket, key: str) -> None:
        self.got = next_request(reporter, key)

    def woken(self) -> Request | None:
        """The request, once it has come or can no longer come."""
        self.thread.join(30)
        assert not self.thread.is_alive(), "it rests forever"
        if self.got is None:
            return None
        for fd in self.got[1:]:
            os.close(fd)
        return self.got[0]


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """A lock and the pipe of a start."""
    made = os.pipe2(os.O_CLOEXEC)
    yield made
    for fd in made:
        os.close(fd)


def test_a_request_reaches_a_supervisor_only_after_its_end_was_confirmed(
    resting: Resting, ends: tuple[int, int]
) -> None:
    sleeper = Sleeper(resting, "a")
    assert resting.receive() == (os.getpid(), "a")
    assert resting.use({"key": "b"}, *ends) == 0, "the server may still signal it because of the first attempt"
    resting.confirm("another")
    assert resting.use({"key": "b"}, *ends) == 0
    resting.confirm("a")
    assert resting.use({"key": "b"}, *ends) == os.getpid()
    assert sleeper.woken() == {"key": "b"}
    assert resting.use({"key": "c"}, *ends) == 0, "it is used once"


def test_a_supervisor_that_nobody_needs_ends(
    resting: Resting, ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse, "REST_SECONDS", 0.05)
    sleeper = Sleeper(resting, "a")
    resting.receive()
    resting.confirm("a")
    assert sleeper.woken() is None
    assert resting.use({"key": "b"}, *ends) == 0


def test_a_request_that_was_sent_at_the_last_moment_is_served(
    resting: Resting, ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class LateSocket(socket.socket):
        """Sends the request in the moment between the end of the rest and the refusal of requests."""

        def shutdown(self, how: int) -> None:
            resting.receive()
            resting.confirm("a")
            assert resting.use({"key": "b"}, *ends)
            super().shutdown(how)

    def pair(*args: int) -> tuple[socket.socket, socket.socket]:
        ours, theirs = make(*args)
        return LateSocket(fileno=ours.detach()), theirs

    make = socket.socketpair
    monkeypatch.setattr(socket, "socketpair", pair)
    monkeypatch.setattr(reuse, "REST_SECONDS", 0.0)
    found = next_request(resting.reporter, "a")
    assert found is not None
    assert found[0] == {"key": "b"}
    for fd in found[1:]:
        os.close(fd)


def test_a_supervisor_ends_with_the_fork_server(resting: Resting) -> None:
    sleeper = Sleeper(resting, "a")
    resting.receive()
    resting.close()
    assert sleeper.woken() is None
    assert next_request(resting.reporter, "b") is None, "the fork server no longer receives reports"


def test_a_forgotten_supervisor_is_not_used(resting: Resting, ends: tuple[int, int]) -> None:
    sleeper = Sleeper(resting, "a")
    pid, _ = resting.receive() or (0, "")
    resting.forget(pid)
    assert sleeper.woken() is None
    resting.confirm("a")
    assert not resting.ready
    assert resting.use({"key": "b"}, *ends) == 0


def test_without_descriptors_a_supervisor_ends(resting: Resting, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*args: int) -> tuple[socket.socket, socket.socket]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "socketpair", none_left)
    assert next_request(resting.reporter, "a") is None


@pytest.fixture
def serving(resting: Resting) -> Iterator[tuple[ForkServer, socket.socket]]:
    """A fork server that these supervisors report to, and the server's end of its socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = ForkServer(theirs, -1, theirs)
        server.resting.close()
        server.resting.reporter.close()
        server.resting = resting
        yield server, ours


def test_a_report_of_a_supervisor_that_was_killed_since_is_dropped(
    resting: Resting, serving: tuple[ForkServer, socket.socket]
) -> None:
    server, ours = serving
    sleeper = Sleeper(resting, "a")
    server.rest()
    assert sleeper.woken() is None
    ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        ours.recv(1)
    assert not server.children


def test_the_end_of_a_supervisor_is_news_until_the_server_knows_of_the_end_of_its_attempt(
    resting: Resting, serving: tuple[ForkServer, socket.socket]
) -> None:
    server, _ = serving
    server.children[os.getpid()] = "a"
    sleeper = Sleeper(resting, "a")
    server.rest()
    assert server.children == {os.getpid(): "a"}
    server.confirm("a")
    assert server.children == {os.getpid(): ""}
    resting.forget(os.getpid())
    assert sleeper.woken() is None


def test_only_so_many_rest(resting: Resting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse, "RESTING_MAX", 0)
    sleeper = Sleeper(resting, "a")
    resting.receive()
    resting.confirm("a")
    assert sleeper.woken() is None


def test_some_requests_need_a_supervisor_of_their_own(resting: Resting, ends: tuple[int, int]) -> None:
    assert is_plain({"key": "b", "once": False, "console": None, "notify": None})
    sleeper = Sleeper(resting, "a")
    resting.receive()
    resting.confirm("a")
    others: list[Request] = [
        {"key": "b", "once": True},
        {"key": "b", "console": (False, True, False, None, False)},
        {"key": "b", "notify": ([b"mail"], {})},
        {"key": "b", "argv": [b"x" * REUSE_BYTES_MAX]},
    ]
    assert [resting.use(one, *ends) for one in others] == [0, 0, 0, 0]
    assert resting.use({"key": "b"}, *ends) == os.getpid()
    assert sleeper.woken() == {"key": "b"}


async def in_turn(watched: Watched, numbers: range, script: str) -> list[Attempt]:
    """The ends of attempts that ran one after the other."""
    ends = []
    for number in numbers:
        key = f"u/main/{number}"
        watched.start(script.format(number), key)
        ends.append(await watched.over(key))
        await watched.until(partial(watched.gone.count, key))
    return ends


def descriptors(pid: int) -> list[str]:
    """What a process has open."""
    return sorted(os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir())


async def settled_descriptors(pid: int) -> list[str]:
    """The kinds of what a process has open while it rests: it polls, and has closed what it passed on."""
    status = Path(f"/proc/{pid}/status")
    assert await soon_async(lambda: "State:\tS" in status.read_text())
    return [kind.partition(":")[0] for kind in descriptors(pid)]


async def test_a_supervisor_is_reused_and_keeps_nothing_of_the_attempt_before(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        left = f"{tmp_path}/left-{{0}}"
        leaving = f"setsid sh -c 'echo $$ > {left}; sleep 1000' & until [ -s {left} ]; do :; done"
        script = f"echo x >> {tmp_path}/began-{{0}}; echo {{0}}; {leaving}; exit {{0}}"
        first = await in_turn(watched, range(2), script)
        one = first[-1].supervisor.pid
        before = await settled_descriptors(one)
        later = await in_turn(watched, range(2, 20), script)
        assert {end.supervisor.pid for end in (*first, *later)} == {one}
        assert [end.code for end in (*first, *later)] == [*range(20)]
        assert [watched.printed(f"u/main/{number}") for number in range(20)] == [str(number) for number in range(20)]
        assert {(tmp_path / f"began-{number}").read_text() for number in range(20)} == {"x\n"}, "each has begun once"
        for number in range(20):
            assert not process_start(int((tmp_path / f"left-{number}").read_text())), "it ended with its attempt"
        assert await settled_descriptors(one) == before, "no descriptors are left behind"
        # The lock is free while it rests, so a successor need not wait for it.
        assert not [path for path in descriptors(one) if path.endswith(".lock")]


async def test_the_surroundings_of_an_attempt_are_not_those_of_the_attempt_before(tmp_path: Path) -> None:
    script = "umask; pwd; echo ${A-none}; ulimit -n; ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status"
    async with spawner(tmp_path) as watched:
        for number in range(3):
            odd = number == 1
            command = Start(
                f"u/main/{number}",
                ("sh", "-c", script),
                {**ENV, "A": "secret"} if odd else ENV,
                "/usr" if odd else "/",
                umask=0o077 if odd else 0o022,
                rlimits=((resource.RLIMIT_NOFILE, 64),) if odd else (),
            )
            watched.spawner.start(command)
            await watched.over(command.key)
            await watched.until(partial(watched.gone.count, command.key))
        assert len({one.supervisor for one in watched.known.values() if one is not None}) == 1
        assert watched.printed("u/main/1").splitlines()[:4] == ["0077", "/usr", "secret", "64"]
        assert watched.printed("u/main/2") == watched.printed("u/main/0")
        assert watched.printed("u/main/2").splitlines()[:3] == ["0022", "/", "none"]


async def test_a_supervisor_that_was_used_often_enough_is_replaced(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        ends = await in_turn(watched, range(USES_MAX + 5), "exit 0")
        assert len({end.supervisor for end in ends}) == 2
        assert len(watched.gone) == USES_MAX + 5, "each attempt was requested once and ended once"


async def test_a_signal_because_of_the_attempt_before_has_no_effect(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:

        def late(key: str) -> None:
            attempt = watched.known[key]
            assert attempt is not None
            for number in (signal.SIGTERM, signal.SIGUSR1):
                assert watched.spawner.send(attempt.supervisor, number)
            watched.gone.append(key)

        watched.spawner.gone = late
        ends = await in_turn(watched, range(5), "sleep 0.01; exit 3")
        assert [(end.code, end.terminated) for end in ends] == [(3, False)] * 5
        assert len({end.supervisor for end in ends}) == 1


async def test_a_reused_supervisor_is_signalled_because_of_its_present_attempt_only(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        (first,) = await in_turn(watched, range(1), "exit 0")
        # Signals while it rests have no effect.
        for number in (signal.SIGTERM, signal.SIGUSR1):
            assert watched.spawner.send(first.supervisor, number)
        watched.start("trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done", "u/main/1")
        second = await watched.running("u/main/1")
        assert second.supervisor == first.supervisor
        await watched.until((watched.folder / "u/main/1/0.log").exists)
        assert watched.spawner.send(second.supervisor, signal.SIGTERM)
        end = await watched.over("u/main/1")
        assert (end.code, end.terminated) == (5, True)
        assert watched.known["u/main/0"] == first, "the record of the first attempt has not changed"


async def test_attempts_that_overlap_have_supervisors_of_their_own(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        keys = [f"u/main/{number}" for number in range(5)]
        for key in keys:
            watched.start(f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done", key)
        found = [await watched.running(key) for key in keys]
        assert len({one.supervisor.pid for one in found}) == 5
        (tmp_path / "go").touch()
        for key in keys:
            assert (await watched.over(key)).code == 0


async def test_a_supervisor_that_was_killed_while_it_rested_is_replaced(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        (first,) = await in_turn(watched, range(1), "exit 0")
        os.kill(first.supervisor.pid, signal.SIGKILL)
        await watched.until(lambda: not process_start(first.supervisor.pid))
        (second,) = await in_turn(watched, range(1, 2), "exit 3")
        assert second.code == 3
        assert second.supervisor != first.supervisor
        assert watched.gone == ["u/main/0", "u/main/1"]


async def test_the_death_of_a_reused_supervisor_is_that_of_its_present_attempt(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        (first,) = await in_turn(watched, range(1), "exit 0")
        watched.start("sleep 1000 & echo $!; wait", "u/main/1")
        second = await watched.running("u/main/1")
        assert second.supervisor == first.supervisor
        await watched.until(lambda: (watched.folder / "u/main/1/0.log").exists() and watched.printed("u/main/1"))
        os.kill(second.supervisor.pid, signal.SIGKILL)
        await watched.until(lambda: watched.gone == ["u/main/0", "u/main/1"])
        assert not process_start(int(watched.printed("u/main/1"))), "what it ran has ended before"
        watched.known.clear()


async def test_a_supervisor_whose_command_could_not_start_is_not_reused(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        watched.spawner.start(Start("u/main/0", ("/none",), ENV, str(tmp_path), "n/p"))
        first = await watched.over("u/main/0")
        await watched.until(partial(watched.gone.count, "u/main/0"))
        (second,) = await in_turn(watched, range(1, 2), "exit 0")
        assert second.supervisor != first.supervisor


async def test_a_supervisor_with_a_notifier_is_not_reused(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        pids = []
        for number in range(2):
            key = f"u/main/{number}"
            watched.start("exit 0", key, notify=("true",))
            pids.append((await watched.over(key)).supervisor.pid)
            await watched.until(partial(watched.gone.count, key))
        assert len({*pids}) == 2


async def test_no_supervisor_rests_once_the_server_has_ended(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        (end,) = await in_turn(watched, range(1), "exit 0")
        began = boot_seconds()
        await watched.spawner.close()
        assert await soon_async(lambda: not process_start(end.supervisor.pid))
        assert boot_seconds() - began < REST_SECONDS / 2, "it does not wait for the end of its rest"
