"""Is a job's notification command run at its start and end, as the job's user, and never in the job's way?"""

import contextlib
import os
import pwd
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from pykueue.node.setup.accounts import Account
from pykueue.node.spawn import Start
from pykueue.node.supervision.notifier import EVENT, PREEMPTED
from tests.node.watchedspawner import ENV, Watched, spawner
from tests.patience import soon_async

NOBODY = 65534
NOTE = 'echo "$PYKUEUE_EVENT $PYKUEUE_JOB [$PYKUEUE_EXIT_CODE] $(id -u) $WORD" >> "$0"'


def start(watched: Watched, script: str, notify: tuple[str, ...], **more: Any) -> None:
    job = {"PYKUEUE_JOB": "train"}
    environment = {**ENV, "WORD": "mine"}
    command = ("sh", "-c", script)
    watched.spawner.start(Start("u/main/0", command, environment, "/", "n/p", notify=notify, notify_env=job, **more))


async def lines(file: Path, count: int) -> list[str]:
    """The lines of a file, once there are so many."""
    assert await soon_async(lambda: file.exists() and len(file.read_text().splitlines()) >= count)
    return file.read_text().splitlines()


async def test_it_runs_at_the_start_and_at_the_end(tmp_path: Path) -> None:
    said = tmp_path / "said"
    async with spawner(tmp_path) as watched:
        start(watched, "exit 3", ("sh", "-c", NOTE, str(said)))
        assert (await watched.over()).code == 3
        uid = os.getuid()
        assert await lines(said, 2) == [f"started train [] {uid} mine", f"ended train [3] {uid} mine"]


async def test_an_evicted_job_is_preempted_and_not_ended(tmp_path: Path) -> None:
    said = tmp_path / "said"
    async with spawner(tmp_path) as watched:
        start(watched, "sleep 100", ("sh", "-c", 'echo "$PYKUEUE_EVENT" >> "$0"', str(said)))
        attempt = await watched.running()
        assert await lines(said, 1) == ["started"]
        (watched.folder / "u/main/0" / EVENT).write_bytes(PREEMPTED)
        watched.spawner.send(attempt.supervisor, signal.SIGTERM)
        await watched.over()
        assert await lines(said, 2) == ["started", "preempted"]


async def test_a_command_that_hangs_does_not_delay_the_end(tmp_path: Path) -> None:
    said = tmp_path / "said"
    async with spawner(tmp_path) as watched:
        start(watched, "exit 0", ("sh", "-c", f"echo $$ >> {said}; exec sleep 1000"))
        assert (await watched.over()).code == 0
        assert await soon_async(lambda: watched.gone == ["u/main/0"])
        first = int((await lines(said, 1))[0])
        assert Path(f"/proc/{first}").exists(), "the job has ended while the command for its start was running"
        os.kill(first, 9)
        second = int((await lines(said, 2))[1])
        os.kill(second, 9)


@pytest.mark.slow("waits for the limit of 30 s")
async def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    async with spawner(tmp_path) as watched:
        start(watched, "exit 0", ("sh", "-c", f"trap '' TERM; echo $$ >> {said}; while :; do sleep 1; done"))
        await watched.over()
        first, second = await lines(said, 2)
        assert not Path(f"/proc/{first}").exists(), "that for the start ends 10 s after the job"
        assert await soon_async(lambda: not Path(f"/proc/{second}").exists(), 40)


@pytest.mark.parametrize("command", ["false", "/nonesuch"])
async def test_a_command_that_fails_changes_nothing(tmp_path: Path, command: str) -> None:
    async with spawner(tmp_path) as watched:
        start(watched, "echo fine; exit 4", (command,))
        assert (await watched.over()).code == 4
        assert watched.printed() == "fine"
        assert await soon_async(lambda: watched.gone == ["u/main/0"])


async def test_a_job_that_cannot_start_has_ended(tmp_path: Path) -> None:
    said = tmp_path / "said"
    async with spawner(tmp_path) as watched:
        notify = ("sh", "-c", 'echo "$PYKUEUE_EVENT $PYKUEUE_EXIT_CODE" >> "$0"', str(said))
        watched.spawner.start(Start("u/main/0", ("/nonesuch",), ENV, "/", "n/p", notify=notify))
        await watched.over()
        assert await lines(said, 1) == ["ended 128"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a job as another user")
async def test_it_has_the_rights_and_limits_of_the_job(tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.touch()
    shutil.chown(said, NOBODY)
    for parent in (tmp_path, *list(tmp_path.parents)[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    account = Account.of(pwd.getpwuid(NOBODY))
    note = 'echo "$PYKUEUE_EVENT $(id -u) $(ulimit -n) $(cat /etc/shadow 2>/dev/null | wc -l)" >> "$0"'
    async with spawner(tmp_path) as watched:
        start(watched, "exit 0", ("sh", "-c", note, str(said)), account=account, rlimits=((7, 64),))
        await watched.over()
        assert await lines(said, 2) == [f"started {NOBODY} 64 0", f"ended {NOBODY} 64 0"]


async def test_a_job_that_notifies_counts_as_started_once_it_runs(tmp_path: Path) -> None:
    async with spawner(tmp_path) as watched:

        def pipes() -> set[str]:
            folder = f"/proc/{watched.spawner.pid}/fd"
            found = set()
            for name in os.listdir(folder):
                with contextlib.suppress(FileNotFoundError):
                    found.add(os.readlink(f"{folder}/{name}"))
            return {one for one in found if one.startswith("pipe:")}

        start(watched, "sleep 100", ("sleep", "100"))
        await watched.running()
        # One pipe for signals is left: that of the start is closed once its other end is closed everywhere.
        assert await soon_async(lambda: len(pipes()) == 1)
