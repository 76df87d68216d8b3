"""Would a crash run on one machine notice? What was lost, given twice, started twice, or left running."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pykueue.node.setup.environment import command_line
from pykueue.node.supervision.processes import MARK as ATTEMPT
from tests.crash.embedded import Row, Run, ended, summary
from tests.crash.embedded_load import MARK, Book, Diary, Work, job
from tests.crash.embedded_machine import Machine, left, living
from tests.outcome import Outcome
from tests.plane.client import Tree


def book() -> Book:
    """Three Jobs, of which one was deleted and one perhaps."""
    made = Book()
    made.jobs = {"u1": ("one", 11), "u2": ("two", 12), "u3": ("three", 13)}
    made.deleted = {"u2"}
    made.perhaps = {"u2", "u3"}
    return made


@pytest.mark.parametrize(
    ("there", "says"),
    [
        pytest.param({"u1": 20}, [], id="nothing is missing"),
        pytest.param({"u1": 11, "u3": 13}, [], id="what was perhaps deleted may be there"),
        pytest.param({"u3": 13}, ["Job one (u1), taken at version 11, is not there"], id="a Job that is lost"),
        pytest.param({"u1": 11, "u2": 12}, ["Job two (u2) was deleted and is there"], id="a Job that is back"),
        pytest.param({"u1": 9}, ["Job one (u1) was taken at version 11 and is at 9"], id="a Job of before"),
    ],
)
def test_what_was_acknowledged_and_is_not_so(there: dict[str, int], says: list[str]) -> None:
    assert book().missing(there) == says


def test_a_version_that_was_given_twice() -> None:
    made = Book()
    made.wrote("Job one", 5)
    made.wrote("count 1", 6)
    assert made.wrong == []
    made.wrote("count 2", 6)
    assert made.wrong == ["version 6 was given to count 1 and to count 2"]


def finished(name: str, completions: int, type_: str = "Complete") -> Tree:
    return {
        "metadata": {"name": name},
        "spec": {"completions": completions},
        "status": {"conditions": [{"type": type_, "status": "True"}]},
    }


def test_what_processes_wrote(tmp_path: Path) -> None:
    file = tmp_path / "diary"
    assert Diary.read(file).twice() == []
    file.write_text(
        "start one u/main/0\nend one u/main/0\nstart one v/main/0\nstart two w/main/0\nstart one v/main/0\n"
    )
    diary = Diary.read(file)
    assert diary.twice() == ["v/main/0 was started 2 times"]
    jobs = [finished("one", 1), finished("two", 1), finished("three", 1, "Suspended")]
    assert diary.unearned(jobs) == ["Job two is complete, with 0 of 1 processes at their end"]
    assert [ended(tree) for tree in jobs] == [True, True, False]


@contextlib.contextmanager
def started(folder: Path, attempt: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The process of a Job, as a runner would start it."""
    command = job("one", random.Random(1), folder / "diary", 60.0)["spec"]["template"]["spec"]["containers"][0]
    environment = {"PATH": "/usr/bin:/bin", MARK: str(folder), ATTEMPT: attempt}
    with subprocess.Popen(command["command"], env=environment, start_new_session=True) as process:
        try:
            while not (folder / "diary").exists():
                time.sleep(0.01)
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                # It leads a session of its own, with whatever it started.
                process.send_signal(signal.SIGSTOP)
                subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=False)


def test_a_process_is_found_while_it_runs_and_its_children_too(tmp_path: Path) -> None:
    with started(tmp_path, "u/main/0") as one, started(tmp_path, "u/main/0") as two:
        while len(left(tmp_path)) < 4:
            time.sleep(0.01)
        assert living(tmp_path / "diary") == {"u/main/0": sorted([one.pid, two.pid])}
        assert any("sleep 60" in line for line in left(tmp_path))
    assert living(tmp_path / "diary") == {}
    # A killed process is there until the kernel has taken it down.
    deadline = time.monotonic() + 10
    while left(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left(tmp_path) == []


def test_errors_in_the_log_are_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path, tmp_path)
    assert machine.crashes() == []
    (tmp_path / "up.log").write_text(
        "server: stopping after an internal error\nTraceback (most recent call last):\n  File x\n    line\n"
        "ValueError: no\n2026 info well\n"
    )
    assert machine.crashes() == ["ValueError: no"]


def test_a_summary_fails_with_any_of_its_rows() -> None:
    text, outcome = summary([Row("kills", "3", []), Row("findings", "0", [])])
    assert outcome is Outcome.PASSED
    assert text.splitlines() == ["ok     kills            3", "ok     findings         0"]
    text, outcome = summary([Row("kills", "3", [], ["late"]), Row("findings", "1", ["overuse: x"])])
    assert outcome is Outcome.FAILED
    assert text.splitlines()[2:] == ["FAILED findings         1", " " * 24 + "overuse: x"]


def test_a_run_that_misses_only_a_time_bound_is_late() -> None:
    text, outcome = summary([Row("Jobs", "1 not finished", [], ["not finished: a"]), Row("findings", "0", [])])
    assert outcome is Outcome.LATE
    assert text.splitlines()[:2] == ["LATE   Jobs             1 not finished", " " * 24 + "not finished: a"]


def test_kept_jobs_that_are_missing_are_told() -> None:
    def request(verb: str, path: str) -> Tree:
        """Two namespaces, of which the second has lost a Job."""
        left = 498 if "kept-1/jobs" in path else 499 if "kept-1" in path else 999
        return {"items": [{}], "metadata": {"remainingItemCount": left}}

    made = Run.__new__(Run)
    made.kept = 1500
    made.work = cast("Work", SimpleNamespace(client=SimpleNamespace(request=request)))
    assert made.lost() == ["1499 of 1500 kept Jobs are there"]
    made.kept = 0
    assert made.lost() == []


def test_some_jobs_have_more_parallelism_than_completions() -> None:
    rng = random.Random(1)
    specs = [job(f"job-{number}", rng, Path("diary"))["spec"] for number in range(200)]
    wide = [spec for spec in specs if spec["parallelism"] > spec["completions"] > 1]
    narrow = [spec for spec in specs if spec["parallelism"] < spec["completions"]]
    assert wide
    assert narrow


def test_a_process_of_a_job_writes_at_its_start_and_at_its_end(tmp_path: Path) -> None:
    tree = job("one", random.Random(1), tmp_path / "diary", 0.1)
    command = command_line(tree["spec"]["template"]["spec"]["containers"][0], {})
    subprocess.run(command, env={"PATH": os.environ["PATH"], "PYKUEUE_ATTEMPT": "a"}, check=True, timeout=60)
    assert Diary.read(tmp_path / "diary") == Diary(Counter(["a"]), Counter(["one"]))
