"""Are changes of jobs shown, also when the server goes away?"""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from pykueue.api.jobsummary import FinishedJob, JobState, JobSummary
from pykueue.base.clock import ManualClock
from pykueue.cli.jobs.source import Asked, Found
from pykueue.cli.jobs.watch import BACK, GONE, Changes, Look, Screen, watch
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import UnansweredError

AT = "2026-01-01T00:00:00Z"
ASKED = Asked("lab", "lab")


def row(name: str, state: JobState = JobState.RUNNING, **fields: Any) -> JobSummary:
    return JobSummary("lab", name, state, submitted=AT, since=AT, **fields)


class Server:
    """Answers lists with what a test sets; None if it does not respond."""

    def __init__(self) -> None:
        self.rows: list[JobSummary] | None = []
        self.finished: list[FinishedJob] = []

    async def call(self, call: Call) -> bytes:
        if self.rows is None:
            raise UnansweredError(call.what, 0, "Unreachable", "connection refused")
        return msgspec.json.encode({"items": self.finished if "finishedjobs" in call.path else self.rows})


async def test_changed_rows_are_printed_and_an_outage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    clock, server = ManualClock(), Server()
    changes = Changes(clock, None, all_namespaces=False, no_headers=False)
    first = Found((row("a"), row("b", JobState.PENDING, place=2, reason="needs 1 more cpu")), "lab")
    task = asyncio.ensure_future(watch(cast("HttpKube", server), clock, ASKED, first, changes))
    await clock.settle()
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "a", "b"]
    # A place in line is no news.
    server.rows = [row("a"), row("b", JobState.PENDING, place=1, reason="needs 1 more cpu")]
    await clock.advance(2)
    assert capsys.readouterr().out == ""
    server.rows = None
    await clock.advance(4)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"pykueue: {GONE}\n")
    server.rows = [row("b")]
    server.finished = [FinishedJob("lab", "a", "u", JobState.FAILED, submitted=AT, ended=AT, exit_code=1)]
    await clock.advance(2)
    told = capsys.readouterr()
    assert told.err == f"pykueue: {BACK}\n"
    assert [line.split()[:4] for line in told.out.splitlines()] == [
        ["a", "-", "-", "FAILED"],
        ["b", "-", "-", "RUNNING"],
    ]
    server.rows = []
    for _ in range(8):
        await clock.advance(2)
    assert capsys.readouterr().out == "", "a job without a record is not shown again"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_changes_in_other_formats(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    for output, expected in (
        ("json", '{"namespace":"lab","name":"a","state":"RUNNING",'),
        ("name", "job.batch/a\n"),
        ("yaml", "---\nnamespace: lab\nname: a\n"),
        ("csv", "lab,a,,,RUNNING,"),
    ):
        Changes(clock, output, all_namespaces=False, no_headers=True).show(Look((row("a"),)))
        assert capsys.readouterr().out.startswith(expected)


def test_a_pipe_has_the_same_columns_from_beginning_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    changes = Changes(ManualClock(), None, all_namespaces=False, no_headers=False)
    changes.show(Look((row("a"),)))
    changes.show(Look((row("a"), row("b", progress="1/3"))))
    header, first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert (header[4], first[4], second[4]) == ("TASKS", "-", "1/3")


def test_a_screen_fits_the_terminal_and_is_painted_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "8")
    screen = Screen(ManualClock(), all_namespaces=False)
    rows = tuple(row(f"job-{number}", reason="x" * 100) for number in range(50))
    screen.show(Look(rows))
    screen.show(Look(rows, trouble=GONE))
    first, second = capsys.readouterr().out.removeprefix("\x1b[2J").split("\x1b[H")[1:]
    lines = first.replace("\x1b[K", "").replace("\x1b[J", "").splitlines()
    assert lines[0] == "50 RUNNING"
    assert lines[-1] == "and 46 more"
    assert len(lines) <= 7
    assert max(map(len, lines)) <= 60
    assert second.startswith(f"50 RUNNING; {GONE}"[:60])
