"""Does a job wait for the `run` that follows it, and for nothing else? Real processes with a small log."""

import asyncio
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS
from pykueue.kube.logs import LogQuery
from pykueue.node.containerlogs import ContainerLogs, begins, log_end
from pykueue.node.supervision import followers
from pykueue.node.supervision.followers import Gate, digest_of
from pykueue.node.supervision.logfiles import STDOUT, Records
from pykueue.node.supervision.pipes import Pipe
from pykueue.node.supervision.supervisor import Supervisor
from tests.node.watchedspawner import Watched, spawner

KEY = "u/main/0"
POD: dict[str, Any] = {"metadata": {"name": "p", "uid": "u"}, "status": {"phase": "Running"}}
SECRET = "of this run alone"
GRACE = 1.5
"""Seconds; longer than a busy machine keeps the heartbeat of a follower waiting."""
LOG = {"log_bytes_max": 1 << 20, "log_files_max": 3}
WINDOW = 3 * ((1 << 20) + (1 << 18))
COUNT = 1_500_000
"""Numbers that a job prints: several times what its log keeps."""


def numbers() -> bytes:
    return subprocess.run(["seq", "1", str(COUNT)], capture_output=True, check=True).stdout


def job(watched: Watched, script: str = f"seq 1 {COUNT}", grace: float = GRACE, secret: str = SECRET) -> ContainerLogs:
    """Start a job that waits for the one who has the secret; where its output is read."""
    watched.start(script, KEY, follower=digest_of(secret) if secret else "", grace_seconds=grace, **LOG)
    return ContainerLogs(watched.folder, SystemClock())


async def rest(logs: ContainerLogs, secret: str = SECRET, position: int = 0) -> tuple[bytes, int]:
    """What is printed from a position on, as a follower reads it, and where it could begin."""
    found, records, began = b"", Records(), None
    while not (part := await logs.part(POD, LogQuery("main", position=position, secret=secret))).ended:
        began = part.position if began is None else began
        assert part.position in (position, began), "nothing is removed while it is read"
        position = part.position + len(part.data)
        found += b"".join(one.data for one in records.feed(part.data))
    return found, began or 0


async def stands(watched: Watched) -> int:
    """Where the log ends when it has not grown for twice the grace."""
    end = await watched.until(lambda: log_end(watched.folder / KEY))
    for _ in range(100):
        await asyncio.sleep(2 * GRACE)
        before, end = end, log_end(watched.folder / KEY)
        if before == end:
            return end
    raise AssertionError("it never stopped growing")


async def test_a_job_waits_as_long_as_its_follower_is_connected_and_then_nothing_is_missing(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        logs = job(watched)
        await watched.running()
        logs.hold_micros = int(GRACE * MICROS / 5)
        held = logs.hold(KEY, SECRET)
        holding = asyncio.ensure_future(anext(held, b""))
        assert await stands(watched) <= WINDOW
        assert begins(watched.folder / KEY)[0] == 0, "nothing was removed"
        assert not (await watched.running()).over, "it waits, connected, beyond the grace"
        assert await rest(logs) == (numbers(), 0)
        assert (await watched.over()).code == 0
        assert logs.held("u"), "its output is kept for the follower, whatever becomes of the pod"
        holding.cancel()
        await asyncio.wait((holding,))


class ReadOnMeanwhile(Supervisor):
    """Supervises a job whose follower reads on right after the first look, until the job's output is read."""

    looks = 0

    def unread(self) -> bool:
        self.looks += 1
        return self.looks == 1

    def copy(self, pipe: Pipe, *, ready: bool) -> bool:
        self.status = 0 if ready else None
        return False

    def end_rest(self) -> None:
        pass

    def report_end(self, timed_out: bool) -> None:
        pass


def test_a_follower_that_reads_on_while_its_supervisor_begins_to_wait_is_noticed() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        supervisor = ReadOnMeanwhile({"key": KEY}, "", notices)
        pipe = Pipe(STDOUT)
        wake, waker = os.pipe2(os.O_NONBLOCK)
        os.write(pipe.end, b"more\n")
        thread = threading.Thread(target=supervisor.follow, args=((pipe,), wake), daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), "it waits without a limit, and does not read its command's output"
        for fd in (pipe.fd, pipe.end, wake, waker):
            os.close(fd)


async def test_a_reader_by_position_alone_keeps_it_waiting_for_the_grace(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        logs = job(watched, grace=20)
        await watched.running()
        assert await rest(logs) == (numbers(), 0)
        assert (await watched.over()).code == 0


async def test_when_its_follower_is_gone_for_the_grace_a_job_goes_on_and_the_gap_is_known(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        logs = job(watched)
        await watched.running()
        part = await logs.part(POD, LogQuery("main", position=0, secret=SECRET))
        assert part.position == 0
        assert (await watched.over()).code == 0, "nobody reads, and it goes on"
        found, began = await rest(logs, position=len(part.data))
        assert began > len(part.data), "what was removed is not passed over in silence"
        assert numbers().endswith(found)


async def test_a_follower_that_never_connects_is_waited_for_as_long_as_the_grace(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        job(watched)
        assert (await watched.over()).code == 0
        assert begins(watched.folder / KEY)[0] > 0


async def test_a_job_without_a_follower_never_waits(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        logs = job(watched, grace=1000, secret="")
        assert (await watched.over()).code == 0
        assert not (watched.folder / KEY / followers.FILE).exists()
        assert not logs.follows("u", "")


async def test_nobody_else_can_make_it_wait(tmp_path: Path) -> None:
    async def holding(logs: ContainerLogs, secret: str) -> None:
        assert [piece async for piece in logs.hold(KEY, secret)] == []

    async with spawner(tmp_path) as watched:
        logs = job(watched)
        await watched.running()
        others = [asyncio.create_task(holding(logs, secret)) for secret in ("", "guessed", digest_of(SECRET))]
        assert not logs.follows("u", "guessed")
        assert logs.follows("u", SECRET)
        assert (await watched.over()).code == 0
        await asyncio.gather(*others)


async def test_a_job_that_waits_can_be_ended(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:
        logs = job(watched, f"trap 'echo told; exit 7' TERM; seq 1 {COUNT} & wait", grace=1000)
        attempt = await watched.running()
        await stands(watched)
        watched.spawner.send(attempt.supervisor, signal.SIGTERM)
        assert (await watched.over()).code == 7
        found, began = await rest(logs)
        assert (began, found[: 1 << 17]) == (0, numbers()[: 1 << 17]), "what was printed is kept"
        assert b"told\n" in found, "and so is what it printed when it was told to end"


def test_a_gate_is_open_without_its_file(tmp_path: Path) -> None:
    gate = Gate(str(tmp_path), digest_of(SECRET), 1000)
    assert gate.closed(1)
    assert not gate.closed(0)
    assert followers.connected(tmp_path, SECRET, 10)
    assert not gate.closed(10)
    assert gate.closed(11)
    assert not followers.connected(tmp_path, "guessed", 100)
    assert gate.closed(11)
    assert followers.connected(tmp_path, SECRET, 5)
    assert (read := followers.read_follower(tmp_path)) is not None
    assert read.position == 10, "what was read stays read"
    (tmp_path / followers.FILE).unlink()
    assert not gate.closed(11), "where the folder is removed, nothing is waited for"


@pytest.mark.parametrize("digest", ["", "no hash", "ä" * 64, "a b\n" * 16, "/" * 64])
def test_an_annotation_that_is_no_hash_is_no_follower(tmp_path: Path, digest: str) -> None:
    assert not Gate(str(tmp_path), digest, 1000).closed(1)
    assert [*tmp_path.iterdir()] == []
