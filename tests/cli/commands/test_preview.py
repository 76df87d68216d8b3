"""Does `pykueue preview` answer every input with a table, a document or a clear mistake?"""

import csv
import io
import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from pykueue.api.previews import Affected, Effect, PreviewSpec, PreviewStatus
from pykueue.cli.main import cli
from pykueue.cli.queues import whatif
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced
from pykueue.engine.record.journal import Recorder
from pykueue.sim.trace import START, read_trace
from tests.sim.builders import FLAVOR, job, priority, queue

ROOT = Path(__file__).resolve().parents[3]
LATE = "2026-01-01T12:10:00Z"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Two jobs that fit, and one that waits."""
    file = tmp_path / "dump.yaml"
    within = queue(cpu=2, preemption="{withinClusterQueue: LowerPriority}")
    file.write_text(FLAVOR + within + priority("high", 9) + job("a") + job("b") + job("c"))
    return file


def preview(dump: Path, *words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["preview", "--from", str(dump), *words], input=stdin)


def test_a_new_job_comes_after_those_of_the_dump(dump: Path) -> None:
    found = preview(dump, "-f", "-", stdin=job("new"))
    assert found.exit_code == 0
    row = found.output.splitlines()[1].split()
    assert row[:4] == ["default/new", "main", "waits", "2"]


@pytest.mark.parametrize(
    ("words", "stdin", "code"),
    [
        pytest.param(["--set", "cq/main.cpu=2"], None, 0, id="nothing"),
        pytest.param(["-f", "-"], job("new"), 0, id="a job that waits"),
        pytest.param(["-f", "-"], job("new", 2, klass="high"), 3, id="victims"),
        pytest.param(["-f", "-"], job("new", 9), 3, id="never"),
        pytest.param(["-f", "-"], job("new", queue="nope"), 3, id="no such queue"),
        pytest.param(["--drain", "localqueue/main"], None, 3, id="drained"),
        pytest.param(["--set", "cq/main.cpu=3"], None, 4, id="more room"),
        pytest.param(["--delete", "job/a"], None, 4, id="deleted"),
    ],
)
def test_the_exit_code_says_what_would_change(dump: Path, words: list[str], stdin: str | None, code: int) -> None:
    assert preview(dump, *words, stdin=stdin).exit_code == 0
    found = preview(dump, *words, "--exit-code", stdin=stdin)
    assert found.exit_code == code, found.output


def test_the_answer_in_other_formats(dump: Path) -> None:
    words = ("--set", "clusterqueue/main.cpu=3")
    tree = msgspec.json.decode(preview(dump, *words, "-o", "json").output)
    assert [(one["job"], one["effect"], one["flavors"]) for one in tree["affected"]] == [("c", "Starts", ["default"])]
    assert (tree["queues"][0]["pendingBefore"], tree["queues"][0]["pending"]) == (1, 0)
    assert "effect: Starts" in preview(dump, *words, "-o", "yaml").output
    (header, row) = csv.reader(io.StringIO(preview(dump, *words, "-o", "csv").output))
    assert header == ["JOB", "CLUSTERQUEUE", "EFFECT", "PLACE", "FLAVOR", "WHY", "WORKLOAD"]
    assert row[:5] == ["default/c", "main", "starts", "1 > -", "default"]
    assert preview(dump, *words, "-o", "name").output.startswith("default/job-c-")


def test_waits_are_shown_if_they_are_asked_for(dump: Path) -> None:
    words = ("--set", "clusterqueue/main.cpu=3")
    assert "START" not in preview(dump, *words).output
    found = preview(dump, *words, "--waits").output
    header, row = (line.split() for line in found.splitlines()[:2])
    assert header == ["JOB", "CLUSTERQUEUE", "EFFECT", "PLACE", "START", "FLAVOR", "WHY"]
    assert row[:3] == ["default/c", "main", "starts"]
    assert re.search(r"1 > -  (... )?\d\d:\d\d > now  default", found)
    assert re.search(r"\nmain +2 > 3 +1 > 0 +\d+:\d\d:00 > 0:00:00 +cpu of default: 2 > 3 of 2 > 3\n", found)
    assert "Note: starts are medians of 20 runs with the same run times on both sides; 3 of 3" in found
    tree = msgspec.json.decode(preview(dump, *words, "--waits", "-o", "json").output)
    [one] = tree["affected"]
    assert (one["start"], one["waitSeconds"], tree["runs"]) == (tree["at"], 0, 20)
    assert one["startBefore"] > one["start"]
    assert one["waitSecondsBefore"] == tree["queues"][0]["medianWaitSecondsBefore"] > 0
    assert tree["queues"][0]["medianWaitSeconds"] == 0
    csv_header, _ = csv.reader(io.StringIO(preview(dump, *words, "--waits", "-o", "csv").output))
    assert "START" in csv_header


def test_a_later_start_is_listed_and_does_not_count_for_the_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "dump.yaml"
    cohort = {"cohortName": "team"}
    queues = queue("one", 1, **cohort) + queue("two", 1, **cohort)
    file.write_text(FLAVOR + queues + job("a", queue="one") + job("b", queue="two") + job("c", 2, queue="two"))
    found = preview(file, "-f", "-", "--waits", "--exit-code", stdin=job("new", queue="one"))
    assert found.exit_code == 0, found.output
    late = next(line for line in found.output.splitlines() if line.startswith("default/c"))
    assert re.search(r"two +starts later +1 +(... )?\d\d:\d\d > ", late)
    assert "waits: 1; starts later: 1." in found.output


def test_a_change_that_moves_no_start_says_so(dump: Path) -> None:
    words = ("--set", "cq/main.cpu=2500m")
    same = "Nothing changes: the same workloads run, in the same order"
    assert f"{same}.\n" in preview(dump, *words).output
    assert f"{same}, and start at the same times.\n" in preview(dump, *words, "--waits").output


@pytest.mark.parametrize(
    ("one", "text"),
    [
        pytest.param(Affected("a/b", Effect.EVICTED, start=LATE, wait_seconds=600), "running > 12:10", id="evicted"),
        pytest.param(Affected("a/b", Effect.WAITS, start=LATE, wait_seconds=600), "12:10", id="new"),
        pytest.param(Affected("a/b", Effect.WAITS), "-", id="new and never"),
        pytest.param(
            Affected("a/b", Effect.MOVES, place=1, place_before=2, start=LATE, wait_seconds=600),
            "- > 12:10",
            id="at last",
        ),
        pytest.param(
            Affected("a/b", Effect.MOVES, start_before=LATE, start=LATE, wait_seconds_before=600, wait_seconds=600),
            "12:10",
            id="the same",
        ),
        pytest.param(
            Affected(
                "a/b", Effect.NOT_STARTED, start_before=LATE, wait_seconds_before=30, start=LATE, wait_seconds=600
            ),
            "now > 12:10",
            id="not now",
        ),
    ],
)
def test_starts_are_short(one: Affected, text: str) -> None:
    assert whatif.start(one, datetime(2026, 1, 1, 12, tzinfo=UTC)) == text


def test_a_server_that_does_not_know_waits_is_named() -> None:
    status, asked = PreviewStatus(), PreviewSpec(waits=True)
    assert whatif.noting_an_older_server(status, asked, asked) == status
    assert "older" in whatif.noting_an_older_server(status, asked, PreviewSpec()).notes[0]


def test_a_journal_is_a_dump_too(tmp_path: Path) -> None:
    trace = read_trace([("test", (FLAVOR + queue(cpu=1) + job("a") + job("b")).encode())])
    engine, lines = Engine(trace.options), [b""]
    recorder = Recorder(engine, lines.append)
    for thing in (*trace.things, *(one.workload for one in trace.arrivals)):
        recorder.observe(Seen(thing))
    recorder.observe(Synced())
    recorder.decide(START)
    file = tmp_path / "journal.jsonl"
    # The last line was cut off when the server was killed.
    file.write_bytes(b"".join(lines) + b'{"type":"Obs')
    found = preview(file, "--delete", f"workload/{trace.arrivals[0].workload.key}", "-o", "json")
    assert found.exit_code == 0, found.output
    assert [one["effect"] for one in msgspec.json.decode(found.output)["affected"]] == ["Deleted", "Starts"]
    waits = preview(file, "--delete", f"workload/{trace.arrivals[0].workload.key}", "--waits", "-o", "json")
    assert [one.get("waitSeconds") for one in msgspec.json.decode(waits.output)["affected"]] == [None, 0]
    file.write_bytes(b"".join(lines[:2]))
    assert "this one is empty" in preview(file, "--drain", "cq/main").stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param([], "nothing to preview", id="no change"),
        pytest.param(["--set", "cq/main.cpus=3"], "--set cq/main.cpus=3: there is no cpus in it", id="no such field"),
        pytest.param(["-f", "missing.yaml"], "missing.yaml: cannot be read: No such file", id="no such file"),
        pytest.param(["--delete", "pod/x"], "--delete pod/x: write a kind and a name", id="no such kind"),
        pytest.param(["--delete", "job/zz"], "there is no pending or running job default/zz", id="no such job"),
    ],
)
def test_bad_input_is_refused_in_words(dump: Path, words: list[str], says: str) -> None:
    found = preview(dump, *words)
    assert (found.exit_code, found.stdout) == (2, "")
    assert says in found.stderr


def test_mistakes_have_the_position_in_the_file(dump: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(job("fine") + job("wrong", cpu=-1) + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
    found = preview(dump, "-f", str(file))
    assert found.exit_code == 2
    first, second = found.stderr.splitlines()
    assert f"{file}: document 2: Job wrong: " in first + second
    assert f"{file}: document 3: Pod p: kind: 'Pod' is not simulated" in first + second


def test_the_dump_itself_is_validated(tmp_path: Path) -> None:
    file = tmp_path / "dump.yaml"
    file.write_text(queue(cpu=-3))
    found = preview(file, "--set", "cq/main.cpu=1")
    assert (found.exit_code, "must be greater than or equal to 0" in found.stderr) == (2, True)


def test_control_characters_do_not_reach_the_terminal(dump: Path) -> None:
    found = preview(dump, "--set", "cq/main.\x1b[31m=1")
    assert "\x1b" not in found.output
