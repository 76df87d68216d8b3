"""Can commands be run beside a container, and clients be attached to it? Real processes and real terminals."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pykueue.kube.execs import STDERR, STDOUT, ExecEnd, ExecError, ExecQuery, ExecSession
from pykueue.kube.port import PODS
from pykueue.node import execs
from pykueue.node.containers import Container
from pykueue.node.spawn import Start
from pykueue.node.supervision.processes import process_start
from tests.node.podhost import Host, host, pod_api, shell
from tests.patience import soon_async

FOREVER = shell("echo begun; exec sleep 1000")


@contextlib.asynccontextmanager
async def running(tmp_path: Path, container: dict[str, Any] = FOREVER, **more: Any) -> AsyncIterator[Host]:
    """A host with a running pod."""
    settings = {name: more.pop(name) for name in ("grace_seconds",) if name in more}
    async with host(tmp_path, **settings) as on:
        await on.pod("p", container, **more)
        await on.phase("p", "Running")
        yield on


def command(*words: str, **more: Any) -> ExecQuery:
    return ExecQuery("main", words, **more)


def script(text: str, **more: Any) -> ExecQuery:
    return command("sh", "-c", text, **more)


async def opened(on: Host, asked: ExecQuery) -> ExecSession:
    return await on.runner.execs.open(on.stored("p"), asked)


async def rest(session: ExecSession) -> tuple[dict[int, bytes], ExecEnd]:
    """All that a session prints, by channel, and its end."""
    printed = {STDOUT: b"", STDERR: b""}
    while not isinstance(found := await asyncio.wait_for(session.receive(), 60), ExecEnd):
        printed[found[0]] += found[1]
    session.close()
    return printed, found


async def until_printed(session: ExecSession, text: bytes) -> bytes:
    """What a session prints up to a text."""
    printed = b""
    while text not in printed:
        found = await asyncio.wait_for(session.receive(), 60)
        assert not isinstance(found, ExecEnd), (found, printed)
        printed += found[1]
    return printed


def container_of(on: Host) -> Container:
    (sandbox,) = on.runner.sandboxes.values()
    return sandbox.containers["main"]


async def test_a_command_runs_like_its_container(tmp_path: Path) -> None:
    variables = [{"name": "RATE", "value": "0.5"}]
    limits = {"limits": {"nvidia.com/gpu": "1", "memory": "512Mi"}}
    async with host(tmp_path, gpus=2) as on:
        await on.pod("p", {**FOREVER, "env": variables, "resources": limits})
        await on.phase("p", "Running")
        text = "echo $RATE $CUDA_VISIBLE_DEVICES $PYKUEUE_ATTEMPT; pwd; ulimit -d; echo bad >&2; exit 7"
        printed, end = await rest(await opened(on, script(text)))
        container = container_of(on)
        folder = on.runner.builder.folder(container.uid, "main")
        # Where cgroups can be used, they limit the memory.
        limit = "unlimited" if "memory" in on.runner.limits.controllers else "524288"
        assert printed[STDOUT].decode().split() == ["0.5", "0", container.key, str(folder), limit]
        assert printed[STDERR] == b"bad\n"
        assert end == ExecEnd(7)
        assert end.status()["details"] == {"causes": [{"reason": "ExitCode", "message": "7"}]}
        _, end = await rest(await opened(on, command("nonesuch")))
        assert end.problem == 'exec: "nonesuch": executable file not found in $PATH'
        await on.until(lambda: not on.runner.execs.sessions, "the end of all sessions")
        assert on.state("p")["running"], "the container does not notice"


async def test_standard_input_reaches_the_command_whole(tmp_path: Path) -> None:
    async with running(tmp_path) as on:
        session = await opened(on, script("sleep 0.3; wc -c", stdin=True))
        for _ in range(64):
            await session.send(b"x" * 100_000)
        session.end_input()
        printed, end = await rest(session)
        assert (int(printed[STDOUT]), end.code) == (6_400_000, 0)
        printed, _ = await rest(await opened(on, command("wc", "-c")))
        assert int(printed[STDOUT]) == 0, "without stdin it reads an empty one"


async def test_a_terminal_has_a_size_and_ctrl_c_interrupts(tmp_path: Path) -> None:
    async with running(tmp_path) as on:
        session = await opened(on, command("sh", stdin=True, tty=True))
        session.resize(132, 43)
        await session.send(b"stty size; tty; echo $TERM; echo errors >&2\n")
        printed = await until_printed(session, b"\r\nerrors\r\n")
        assert b"43 132\r\n" in printed
        assert b"/dev/pts/" in printed
        assert b"xterm\r\n" in printed
        session.resize(100, 30)
        await session.send(b"stty size; echo sle''eps; sleep 1000\n")
        assert b"30 100\r\n" in await until_printed(session, b"sleeps\r\n")
        await asyncio.sleep(0.2)
        await session.send(b"\x03")
        await session.send(b"echo code $?\n")
        await until_printed(session, b"code 130\r\n")
        session.end_input()
        _, end = await rest(session)
        assert end.problem == "", "the end of its input ends a shell"


async def test_sizes_and_ends_of_input_do_not_pile_up(tmp_path: Path) -> None:
    """Only the last size is kept while the supervisor does not read, and it precedes what is typed next."""
    async with running(tmp_path) as on:
        session = await opened(on, command("sh", stdin=True, tty=True))
        assert isinstance(session, execs.Session)
        assert session.process is not None
        assert session.writer is not None
        os.kill(session.process.pid, signal.SIGSTOP)
        for columns in range(1, 30_001):
            session.resize(columns, 43)
            if not columns % 2:
                await asyncio.sleep(0)
        held = session.writer.transport.get_write_buffer_size()
        os.kill(session.process.pid, signal.SIGCONT)
        assert held < 100_000
        await session.send(b"stty size\n")
        await until_printed(session, b"43 30000\r\n")
        held = session.writer.transport.get_write_buffer_size()
        for _ in range(10_000):
            session.end_input()
        assert session.writer.transport.get_write_buffer_size() <= held + 5
        _, end = await rest(session)
        assert end.problem == ""


async def test_a_command_ends_with_its_client(tmp_path: Path) -> None:
    async with running(tmp_path) as on:
        trap = f"trap 'echo hung up > {tmp_path}/left; exit' HUP"
        session = await opened(on, script(f"{trap}; (setsid sleep 1000) & echo $$ $!; while :; do sleep 0.1; done"))
        first, second = (int(one) for one in (await until_printed(session, b"\n")).split())
        session.close()
        await on.until(lambda: not process_start(first) and not process_start(second), "the end of the command")
        assert (tmp_path / "left").read_text() == "hung up\n"
        await on.until(lambda: not on.runner.execs.sessions, "the end of the session")


async def test_a_command_ends_with_its_container_before_the_pod_is_finished(tmp_path: Path) -> None:
    async with running(tmp_path, shell(f"until [ -e {tmp_path}/go ]; do sleep 0.05; done")) as on:
        session = await opened(on, script("trap '' HUP TERM; echo $$; while :; do sleep 0.1; done"))
        pid = int(await until_printed(session, b"\n"))
        (tmp_path / "go").touch()
        await on.phase("p", "Succeeded")
        assert not process_start(pid)
        _, end = await rest(session)
        assert end.code == 128 + signal.SIGKILL
        with pytest.raises(
            ExecError, match="cannot exec into a container in a completed pod; current phase is Succeeded"
        ):
            await opened(on, command("true"))


async def test_a_deleted_pod_takes_its_commands_along(tmp_path: Path) -> None:
    async with running(tmp_path) as on:
        session = await opened(on, script("trap '' HUP TERM; echo $$; while :; do sleep 0.1; done"))
        pid = int(await until_printed(session, b"\n"))
        await on.api.delete(PODS, "p", "default", grace=0)
        await on.until(lambda: not process_start(pid) and not on.runner.sandboxes, "the end of the command")
        session.close()


async def test_a_command_that_nobody_reads_blocks(tmp_path: Path) -> None:
    """Neither its supervisor nor the server buffers more than a bounded amount."""
    async with running(tmp_path) as on:
        count, line = tmp_path / "count", "x" * 500
        counting = f"i=0; while :; do echo $i; echo {line}; i=$((i+1)); echo $i > {count}; done"
        session = await opened(on, script(counting))
        assert isinstance(session, execs.Session)
        await on.until(count.exists)

        async def stands() -> bool:
            before = count.read_text()
            await asyncio.sleep(0.5)
            # The file is empty for a moment at each count.
            return before != "" and count.read_text() == before

        for _ in range(60):
            if await stands():
                break
        assert await stands(), "it goes on although nobody reads"
        assert session.process is not None
        status = Path(f"/proc/{session.process.pid}/status").read_text()
        resident = int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1])
        assert resident < 40_000, "kilobytes of the supervisor"
        await until_printed(session, b"\n1000\n")
        session.close()


async def test_the_number_of_sessions_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execs, "SESSIONS_MAX", 3)
    async with running(tmp_path) as on:
        sessions = [await opened(on, ExecQuery("main")), *[await opened(on, command("sleep", "99")) for _ in range(2)]]
        with pytest.raises(ExecError, match="3 sessions of this pod are open") as refused:
            await opened(on, command("true"))
        assert refused.value.code == 429
        for session in sessions:
            session.close()
        await on.until(lambda: not on.runner.execs.sessions, "the end of all sessions")
        assert (await rest(await opened(on, command("true"))))[1] == ExecEnd()


async def test_a_command_whose_end_is_reported_before_its_connection_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as on:
        spawner = on.runner.spawner
        start_exec = spawner.exec

        def end_early(start: Start, key: str, ended: Callable[[], None]) -> None:
            start_exec(start, key, ended)
            ended()

        monkeypatch.setattr(spawner, "exec", end_early)
        assert await rest(await opened(on, command("echo", "short"))) == ({STDOUT: b"short\n", STDERR: b""}, ExecEnd())


async def test_many_sessions_leave_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as on:
        for _ in range(5):
            await rest(await opened(on, command("true")))
        before, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        for _ in range(1000):
            session = await opened(on, ExecQuery("main"))
            session.close()
            await asyncio.sleep(0)
        for _ in range(25):
            await rest(await opened(on, command("true")))
            (await opened(on, command("sleep", "99"))).close()
        await on.until(lambda: not on.runner.execs.sessions, "the end of all sessions")
        await soon_async(lambda: len(os.listdir("/proc/self/fd")) <= before)
        assert len(os.listdir("/proc/self/fd")) <= before
        assert len(asyncio.all_tasks()) <= tasks
        assert not on.runner.execs.opening
        assert not on.runner.spawner.execs


async def test_attached_to_a_container_without_input_one_gets_its_output(tmp_path: Path) -> None:
    text = f"echo before; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo out; echo err >&2"
    async with running(tmp_path, shell(text)) as on:
        await soon_async(lambda: any(on.runner.folder.rglob("*.log")))
        session = await opened(on, ExecQuery("main", stdin=True))
        await session.send(b"ignored")
        session.end_input()
        (tmp_path / "go").touch()
        assert await rest(session) == ({STDOUT: b"out\n", STDERR: b"err\n"}, ExecEnd())


async def test_attached_to_a_terminal(tmp_path: Path) -> None:
    """The first client sees the prompt from before; the next one what was printed since."""
    container = {**shell("PS1='prompt: ' exec sh -i"), "stdin": True, "tty": True}
    async with running(tmp_path, container) as on:
        await asyncio.sleep(0.3)
        session = await opened(on, ExecQuery("main", stdin=True, tty=True))
        await until_printed(session, b"prompt: ")
        await session.send(b"echo fir''st; sleep 0.5; echo sec''ond\n")
        await until_printed(session, b"first\r\n")
        session.close()
        await asyncio.sleep(1)
        session = await opened(on, ExecQuery("main", stdin=True, tty=True))
        await until_printed(session, b"second\r\n")
        await session.send(b"exit 3\n")
        _, end = await rest(session)
        assert end == ExecEnd(), "as in Kubernetes, the exit code is in the pod's status"
        await on.phase("p", "Failed")
        assert on.state("p")["terminated"]["exitCode"] == 3
        assert "second" in await on.printed("p"), "the log has it all"


async def test_standard_input_that_ends_with_its_client(tmp_path: Path) -> None:
    container = {**shell("wc -c"), "stdin": True, "stdinOnce": True}
    async with running(tmp_path, container) as on:
        session = await opened(on, ExecQuery("main", stdin=True))
        await session.send(b"12345")
        session.close()
        await on.phase("p", "Succeeded")
        assert int(await on.printed("p")) == 5


@pytest.mark.parametrize("attached", [True, False], ids=["its client has left", "nobody ever came"])
async def test_an_interactive_job_ends_without_its_terminal(tmp_path: Path, attached: bool) -> None:
    # Who ignores the hangup is killed.
    container = {
        **shell(f"trap '{'' if attached else 'exit 4'}' HUP; sleep 1000"),
        "stdin": True,
        "stdinOnce": True,
        "tty": True,
    }
    annotations = {"pykueue.io/interactive": "true"}
    async with running(tmp_path, container, annotations=annotations, grace_seconds=0.5) as on:
        if attached:
            session = await opened(on, ExecQuery("main", stdin=True, tty=True))
            await asyncio.sleep(1)
            assert on.state("p")["running"]
            session.close()
        await on.phase("p", "Failed")
        assert on.state("p")["terminated"]["exitCode"] == (137 if attached else 4)


async def test_a_container_waits_for_its_client_to_read(
    tmp_path: Path,
) -> None:
    text = f"read go; head -c 3000000 /dev/zero; touch {tmp_path}/printed; exec sleep 1000"
    async with running(tmp_path, {**shell(text), "stdin": True}) as on:
        session = await opened(on, ExecQuery("main", stdin=True))
        await session.send(b"go\n")
        await asyncio.sleep(1)
        assert not (tmp_path / "printed").exists(), "it waits for its client"
        assert len(await rest_of_zeros(session)) == 3_000_000
        await on.until((tmp_path / "printed").exists)
        session.close()


async def rest_of_zeros(session: ExecSession) -> bytes:
    printed = b""
    while len(printed) < 3_000_000:
        found = await asyncio.wait_for(session.receive(), 60)
        assert not isinstance(found, ExecEnd)
        printed += found[1]
    return printed


async def test_after_a_restart_of_the_server(tmp_path: Path) -> None:
    """Commands of exec end with the server; containers go on, and can be entered and attached to again."""
    api = pod_api()
    first = Host(tmp_path, api)
    await first.begin()
    await first.pod("p", {**shell("read word; echo got $word; exec sleep 1000"), "stdin": True})
    await first.phase("p", "Running")
    session = await opened(first, script("echo $$; sleep 1000"))
    pid = int(await until_printed(session, b"\n"))
    await first.end()
    async with host(tmp_path, api) as on:
        await on.until(lambda: not process_start(pid), "the end of the command")
        assert (await rest(await opened(on, script("exit 4"))))[1] == ExecEnd(4)
        session = await opened(on, ExecQuery("main", stdin=True))
        await session.send(b"hello\n")
        await until_printed(session, b"got hello\n")
        # A supervisor of an earlier version has no socket.
        on.runner.execs.socket(container_of(on)).unlink()
        with pytest.raises(ExecError, match="an earlier version of pykueue started it"):
            await opened(on, ExecQuery("main", stdin=True))
        session.close()
