"""Are processes started once, looked after, and ended with all that came of them?"""

import asyncio
import contextlib
import errno
import os
import random
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykueue.base.units import Moment
from pykueue.node import attempts
from pykueue.node.attempts import Attempt
from pykueue.node.setup.limits import Limits, end_cgroup, own_cgroup
from pykueue.node.spawn import Outcome, SpawnError, Start
from pykueue.node.supervision import command, supervisor
from pykueue.node.supervision.command import Streams, execute
from pykueue.node.supervision.logfiles import STDERR, STDOUT, Records
from pykueue.node.supervision.processes import descendants, end_marked, process_start
from pykueue.node.supervision.supervisor import Supervisor
from tests.node.watchedspawner import ENV, Watched, spawner
from tests.patience import soon_async

RESERVED = 0b11 << 31
"""Signals 32 and 33: the C library keeps them to itself, and nobody can set what becomes of them."""


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [
        pytest.param("exit 0", 0, 0, id="well"),
        pytest.param("exit 7", 7, 0, id="with a code"),
        pytest.param("kill -9 $$", 137, 9, id="by a signal"),
        pytest.param("kill -15 $$", 143, 15, id="by another signal"),
    ],
)
async def test_how_a_process_ended(tmp_path: Path, script: str, code: int, number: int) -> None:
    async with spawner(tmp_path) as watched:
        watched.start(script)
        end = await watched.over()
        assert (end.code, end.signal, end.pod) == (code, number, "n/p")
        assert end.began is not None
        assert end.ended is not None
        assert end.began <= end.ended
        await watched.until(lambda: watched.gone == ["u/main/0"])


@pytest.mark.parametrize(
    ("argv", "cwd", "problem"),
    [
        (("nonesuch",), "/", 'exec: "nonesuch": executable file not found in $PATH'),
        (("/nonesuch",), "/", 'exec: "/nonesuch": no such file or directory'),
        (("/etc/passwd",), "/", 'exec: "/etc/passwd": permission denied'),
        (("true",), "/nonesuch", 'chdir to cwd ("/nonesuch") failed: no such file or directory'),
    ],
)
async def test_what_cannot_be_started(tmp_path: Path, argv: tuple[str, ...], cwd: str, problem: str) -> None:
    async with spawner(tmp_path) as watched:
        watched.spawner.start(Start("u/main/0", argv, ENV, cwd))
        assert (await watched.over()).problem == problem


@pytest.mark.parametrize(
    ("names", "error"),
    [
        pytest.param(("empty", "file", "missing"), FileNotFoundError, id="it is nowhere"),
        pytest.param(("empty", "locked", "missing"), PermissionError, id="it may not be executed"),
    ],
)
def test_what_is_said_of_a_command_that_is_not_in_the_path(
    tmp_path: Path, names: tuple[str, ...], error: type[OSError]
) -> None:
    for name in ("empty", "locked"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "locked" / "tool").touch(0o600)
    path = ":".join(str(tmp_path / name) for name in names)
    with pytest.raises(error):
        execute([b"tool"], {b"PATH": path.encode()})


def test_a_fork_that_fails_leaves_no_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "fork", none_left)
    with pytest.raises(BlockingIOError):
        command.start({}, "", Streams(-1, 1, 2, False))
    assert os.listdir("/proc/self/fd") == before


async def test_an_attempt_is_run_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        for number in range(3):
            for _ in range(20):
                watched.start(f"echo x >> {tmp_path}/count")
            # Starts are tried in order, so those before this one have been.
            watched.start("exit 0", f"u/other/{number}")
            await watched.over(f"u/other/{number}")
        await watched.until(lambda: watched.gone.count("u/main/0") >= 3)
        assert (tmp_path / "count").read_text() == "x\n"


async def test_the_surroundings_of_a_process(tmp_path: Path) -> None:
    script = (
        "pwd; echo $A; cat; umask; ps -o sid= -p $$; echo $$; echo err >&2; ls /proc/self/fd | wc -l; "
        "grep -E 'Sig(Blk|Ign)' /proc/self/status"
    )
    start = Start("u/main/0", ("sh", "-c", script), {**ENV, "A": "ä b"}, "/usr", "n/p")
    async with spawner(tmp_path) as watched:
        watched.spawner.start(start)
        assert (await watched.over()).code == 0
        printed = watched.printed("u/main/0", STDOUT)
        folder, variable, umask, session, own, files, *signals = printed.splitlines()
        masks = [int(line.split()[1], 16) & ~RESERVED for line in signals]
        assert masks == [0, 0], "no signal is blocked or ignored"
        assert (folder, variable, umask) == ("/usr", "ä b", "0022")
        assert watched.printed("u/main/0", STDERR) == "err"
        assert session.strip() == own.strip(), "it leads a session of its own"
        assert files.strip() == "4", "stdin, stdout, stderr, and the folder that is read"


async def test_what_ignores_the_gentle_signal_is_killed_by_the_other(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        watched.start("trap 'echo no' TERM; echo up; while :; do sleep 0.05; done")
        attempt = await watched.running()
        await watched.until((watched.folder / "u/main/0/0.log").exists)
        assert watched.spawner.send(attempt.supervisor, signal.SIGTERM)
        await watched.until(lambda: "no" in watched.printed())
        assert watched.spawner.send(attempt.supervisor, signal.SIGUSR1)
        assert (await watched.over()).signal == 9
        await watched.until(lambda: watched.gone)
        # It rests for a moment, and then ends.
        await watched.until(lambda: not watched.spawner.send(attempt.supervisor, signal.SIGTERM))


async def test_daemons_that_left_the_group_and_the_session_end_with_it(tmp_path: Path) -> None:
    daemon = "setsid sh -c '(setsid sleep 1000 & echo $!) ; sleep 1000 & echo $!' ; sleep 1000 & echo $!; echo done"
    async with spawner(tmp_path) as watched:
        watched.start(daemon)
        assert (await watched.over()).code == 0
        *pids, _ = watched.printed().splitlines()
        assert len(pids) == 3
        assert not [pid for pid in pids if process_start(int(pid))]


async def test_all_that_came_of_it_hear_the_gentle_signal(tmp_path: Path) -> None:
    inner = "trap 'echo inner; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    async with spawner(tmp_path) as watched:
        watched.start(
            f"trap 'sleep 0.3; echo outer; exit 5' TERM; setsid sh -c \"{inner}\" & while :; do sleep 0.02; done"
        )
        attempt = await watched.running()
        await watched.until((watched.folder / "u/main/0/0.log").exists)
        watched.spawner.send(attempt.supervisor, signal.SIGTERM)
        assert (await watched.over()).code == 5
        # The shells also say of their own children that these were terminated.
        said = [line for line in watched.printed().splitlines() if line != "Terminated"]
        assert said == ["ready", "inner", "outer"]


async def test_a_process_that_closes_its_output_lives_on(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        watched.start(f"echo before; exec >&- 2>&-; sleep 0.2; touch {tmp_path}/alive; exit 4")
        assert (await watched.over()).code == 4
        assert (tmp_path / "alive").exists()
        assert watched.printed() == "before"


async def test_much_output_is_kept_within_bounds(tmp_path: Path) -> None:
    program = "import sys\nfor _ in range(300): sys.stdout.write(('x' * 99 + '\\n') * 1000)"
    start = Start("u/main/0", (sys.executable, "-c", program), ENV, "/", log_bytes_max=1 << 20, log_files_max=5)
    async with spawner(tmp_path) as watched:
        watched.spawner.start(start)
        assert (await watched.over()).code == 0
        files = sorted((watched.folder / "u/main/0").glob("*.log"), key=lambda path: int(path.stem))
        assert len(files) == 5
        assert sum(file.stat().st_size for file in files) <= 5 * ((1 << 20) + (1 << 19))
        lines = b"".join(one.data for one in Records().feed(files[-1].read_bytes())).splitlines()
        assert {len(line) for line in lines} == {99}


async def test_a_command_beside_it_answers_with_its_code_and_output(tmp_path: Path) -> None:
    def command(script: str) -> Start:
        return Start("ignored", ("sh", "-c", script), ENV, "/")

    async with spawner(tmp_path) as watched:
        once = watched.spawner.run_once
        assert await once(command("echo hi; exit 3"), 5) == Outcome(3, "hi\n")
        assert await once(command("sleep 100"), 0.1) == Outcome(137, "", True)
        assert (await once(command("yes"), 0.1)).output.startswith("y\ny\n")
        missing = await once(Start("ignored", ("nonesuch",), ENV, "/"), 5)
        assert missing == Outcome(128, 'exec: "nonesuch": executable file not found in $PATH')
        assert not attempts.pods(watched.folder)


async def test_a_process_that_removed_files_is_reaped_without_another_job(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        server = watched.spawner.server
        assert server is not None
        watched.start("exit 0")
        await watched.until(lambda: watched.gone == ["u/main/0"])
        watched.spawner.clean(str(watched.folder), str(tmp_path), [], ["u"])
        await watched.until(lambda: not (watched.folder / "u").exists())
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        await watched.until(lambda: not children.read_text())


async def test_too_little_memory_to_load_a_program_is_said(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        limits = ((resource.RLIMIT_DATA, 1),)
        watched.spawner.start(Start("u/main/0", ("true",), ENV, "/", rlimits=limits))
        assert (await watched.over()).problem == "container init was OOM-killed (memory limit too low?)"


async def test_the_umask_of_a_process_may_be_another(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        watched.spawner.start(Start("u/main/0", ("sh", "-c", "umask"), ENV, "/", umask=0o007))
        await watched.over()
        assert watched.printed("u/main/0", STDOUT) == "0007"


async def test_the_fork_server_is_started_again_and_its_supervisors_live_on(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        watched.start("sleep 0.5; exit 3")
        await watched.running()
        server = watched.spawner.server
        assert server is not None
        server.kill()
        server.wait()
        await watched.until(lambda: watched.spawner.server is not server)
        await watched.until(lambda: watched.spawner.ready)
        watched.start("exit 4", "u/main/1")
        assert (await watched.over("u/main/1")).code == 4
        assert (await watched.over()).code == 3


async def test_a_fork_server_that_does_not_come_up_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with spawner(tmp_path) as watched:
        server = watched.spawner.server
        assert server is not None
        monkeypatch.setattr(sys, "executable", "/nonesuch")
        server.kill()
        await watched.until(lambda: not watched.spawner.ready)
        with pytest.raises(SpawnError, match="is restarting"):
            watched.start("exit 0")
        monkeypatch.undo()
        await watched.until(lambda: watched.spawner.ready)
        watched.start("exit 4")
        assert (await watched.over()).code == 4


async def test_a_second_server_waits_for_the_first_and_hears_of_its_processes(tmp_path: Path) -> None:
    first = Watched(tmp_path / "pods")
    await first.spawner.open()
    first.start("sleep 0.5; exit 3")
    attempt = await first.running()
    second = Watched(tmp_path / "pods")
    second.known["u/main/0"] = attempt
    waits = asyncio.create_task(second.spawner.open())
    done, _ = await asyncio.wait((waits,), timeout=0.3)
    assert not done, "it waits for the lock"
    await first.spawner.close()
    await waits
    assert (await second.over()).code == 3
    await second.spawner.close()


async def started(watched: Watched, key: str, script: str) -> tuple[Attempt, int]:
    """An attempt that has left a process behind, and the id of that process."""
    watched.spawner.start(Start(key, ("sh", "-c", script), {**ENV, "PYKUEUE_ATTEMPT": key}, "/"))
    attempt = await watched.running(key)
    await watched.until(lambda: (watched.folder / key / "0.log").exists() and watched.printed(key))
    return attempt, int(watched.printed(key))


async def test_what_a_killed_supervisor_leaves_is_ended_however_it_hides(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        keys = [f"{random.getrandbits(32):08x}/main/0" for _ in range(2)]
        # It has a session, an environment and a parent of its own.
        hidden = "env -i setsid sh -c 'sleep 1000 & echo $!; wait' & sleep 1000"
        (attempt, daemon), (other, spared) = [await started(watched, key, hidden) for key in keys]
        os.kill(attempt.supervisor.pid, signal.SIGKILL)
        await watched.until(lambda: watched.gone == keys[:1])
        assert not process_start(daemon), "it has ended before its quota is free"
        assert process_start(spared)
        os.kill(other.supervisor.pid, signal.SIGUSR1)
        await watched.over(keys[1])
        assert not process_start(spared)
        watched.known.clear()


async def test_nothing_stays_defunct_after_the_last_job(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        watched.start("exit 0")
        await watched.until(lambda: watched.gone)
        (tmp_path / "scratch/u").mkdir(parents=True)
        watched.spawner.clean(str(watched.folder), str(tmp_path / "scratch"), [], ["u"])
        await watched.until(lambda: not (tmp_path / "scratch/u").exists())
        server = watched.spawner.server
        assert server is not None
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        await watched.until(lambda: children.read_text() == "")
        watched.known.clear()


async def test_what_a_supervisor_of_an_earlier_server_leaves_is_found_by_its_mark(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        key = f"{random.getrandbits(32):08x}/main/0"
        attempt, daemon = await started(watched, key, "setsid sleep 1000 & echo $!; sleep 1000")
        assert watched.spawner.server is not None
        watched.spawner.server.kill()
        await watched.until(lambda: not watched.spawner.ready)
        await watched.until(lambda: watched.spawner.ready)
        os.kill(attempt.supervisor.pid, signal.SIGKILL)
        await watched.until(lambda: not process_start(attempt.command.pid))  # type: ignore[union-attr]  # it was started
        assert process_start(daemon), "nobody has ended it yet"
        assert end_marked(key + "0") == 0
        assert end_marked(key) == 2, "the daemon, and the child of the shell that was killed"
        await watched.until(lambda: not process_start(daemon))
        watched.known.clear()


def test_the_processes_below_one() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 100 & wait"]) as process:
        try:
            while len(descendants(os.getpid())) < 2:
                pass
            assert process.pid in descendants(os.getpid())
            (below,) = descendants(process.pid)
            assert descendants(below) == {}
        finally:
            with contextlib.suppress(ProcessLookupError):
                for pid in (*descendants(process.pid), process.pid):
                    os.kill(pid, signal.SIGKILL)


async def test_one_message_that_cannot_be_taken_in_costs_only_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with spawner(tmp_path) as watched:
        heard, gone = watched.spawner.on_notice, watched.spawner.gone

        def once_deaf(key: str, line: str) -> None:
            watched.spawner.on_notice = heard
            raise RuntimeError("not this line")

        def once_blind(key: str) -> None:
            watched.spawner.gone = gone
            raise RuntimeError("not this one")

        watched.spawner.on_notice, watched.spawner.gone = once_deaf, once_blind
        watched.start("exit 0")
        await watched.until(lambda: watched.spawner.gone is gone)
        watched.start("exit 0", "u/main/1")
        await watched.over("u/main/1")
        await watched.until(lambda: watched.gone == ["u/main/1"])
        assert caplog.text.count("cannot handle a message") == 2
        assert watched.spawner.reading is not None
        assert not watched.spawner.reading.done()


def test_a_line_that_the_disk_takes_in_pieces_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, write = tmp_path / "u/main/0/record", os.write
    full = iter([False, True])

    def piecemeal(fd: int, data: bytes) -> int:
        if next(full, False):
            raise OSError(errno.ENOSPC, "full")
        return write(fd, data[:7])

    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as voice:
        one = Supervisor({"key": "u/main/0", "label": "n/p", "log": (1 << 20, 1)}, "boot", voice)
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", piecemeal)
            with pytest.raises(OSError, match="full"):
                one.claim()
            assert not record.exists(), "nothing has begun"
            full = iter([])
            assert one.claim()
            full = iter([False, True])
            patched.setattr("pykueue.node.supervision.supervisor.time.sleep", lambda seconds: None)
            one.note("running 11 6 7000")
            one.note("exited 3 0 9000 0")
    os.close(one.record)
    own = os.getpid()
    said = [f"supervisor {own} {process_start(own)} boot n/p", "running 11 6 7000", "exited 3 0 9000 0"]
    assert record.read_text().splitlines() == said


CHAIN = "import os\nwhile True:\n    if os.fork(): os._exit(0)"
"""Each process forks the next and exits, so that /proc shows only those that have gone."""


@pytest.fixture
def group() -> Iterator[Path]:
    """The cgroup of a container, not yet created."""
    limits = Limits(lambda: Moment(0), name=f"pykueue-test-{os.getpid()}", own=own_cgroup())
    limits.open()
    if limits.base is None:
        pytest.skip("needs a cgroup v2 folder that this user may write to")
    group = limits.base / "u_main_0"
    try:
        yield group
    finally:
        end_cgroup(group)
        limits.close()


async def test_processes_that_fork_faster_than_they_are_found_end_with_their_cgroup(
    tmp_path: Path, group: Path
) -> None:
    async with spawner(tmp_path) as watched:
        argv = (sys.executable, "-S", "-c", CHAIN)
        watched.spawner.start(Start("u/main/0", argv, ENV, str(tmp_path), "n/p", cgroup=str(group)))
        assert (await watched.over()).code == 0
        assert await soon_async(lambda: not group.exists())


@pytest.mark.parametrize("call", [command.CLONE3, -1], ids=["from its beginning", "where the kernel has no such call"])
def test_a_command_is_in_its_cgroup(group: Path, call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "CLONE3", call)
    group.mkdir()
    forked = command.fork_into(str(group))
    if forked == 0:
        os._exit(0)
    assert (forked is None) == (call < 0)
    if forked is not None:
        os.waitpid(forked, 0)
    read, write = os.pipe()
    request = Start("u/main/0", ("cat", "/proc/self/cgroup"), ENV, "/", "n/p").request()
    child, report = command.start(request, str(group), Streams(-1, write, write, False))
    os.close(write)
    with open(report, "rb") as problem, open(read) as output:
        assert problem.read() == b""
        assert output.read().splitlines()[-1].endswith(f"/{group.parent.name}/{group.name}")
    assert os.waitpid(child, 0) == (child, 0)


async def test_a_request_that_is_too_long_is_refused_and_others_are_served(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        with pytest.raises(SpawnError, match="at most 16777216 can be started; pass data in files"):
            watched.start("true", "u/long/0", folder="x" * (16 << 20))
        watched.start("exit 3", "u/main/0")
        assert (await watched.over("u/main/0")).code == 3


async def test_requests_that_the_fork_server_cannot_take_in_time_are_refused(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        for number in range(3):
            watched.start("true", f"u/long{number}/0", folder="x" * (9 << 20))
        with pytest.raises(SpawnError, match="busy with large requests"):
            watched.start("true", "u/long3/0", folder="x" * (9 << 20))


def test_of_a_large_start_little_is_kept() -> None:
    small = Start("u/main/0", ("true",), {"PATH": "/bin"}, "/")
    large = Start("u/main/0", ("true",), {"PATH": "/bin", "LONG": "x" * 100_000}, "/")
    assert small.kept() is small
    assert large.kept() == Start("u/main/0", (), {"PATH": "/bin"}, "/")


@pytest.mark.parametrize("how", ["signal", "deadline"])
def test_a_fork_that_its_user_stopped_before_it_became_the_command_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(supervisor, "START_SECONDS", 0.2 if how == "deadline" else 60.0)
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    os.kill(child.pid, signal.SIGSTOP)
    wake, waker = os.pipe2(os.O_NONBLOCK)
    try:
        notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made = Supervisor({"key": "u/main/0", "once": True}, "", notices)
        made.child = child.pid
        monkeypatch.setattr(made, "end_all", lambda number: None)
        if how == "signal":
            os.write(waker, bytes([signal.SIGUSR1]))
        # The pipe closes with the process, as the one that reports what went wrong.
        problem = made.problem(child.stdout.fileno(), wake)
        assert problem == (b"" if how == "signal" else b"the command did not start within 0 s")
        assert child.wait(60) == -signal.SIGKILL
        notices.close()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        os.close(wake)
        os.close(waker)
