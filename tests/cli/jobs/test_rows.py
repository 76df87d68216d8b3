"""How are jobs shown?"""

import csv
import time
from collections.abc import Iterator

import pytest

from pykueue.api.jobsummary import FinishedJob, JobState, JobSummary
from pykueue.base.units import parse_instant
from pykueue.cli.formats import csv_lines, table_lines
from pykueue.cli.jobs.rows import columns, finished_columns, uses

NOW = parse_instant("2026-01-01T02:00:00Z")
RUNS = JobSummary(
    "lab",
    "train",
    JobState.RUNNING,
    "ann",
    "team-a",
    {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "2"},
    (0, 1),
    "2026-01-01T00:30:00Z",
    "2026-01-01T01:00:00Z",
    limit_seconds=7200,
    deadline="2026-01-01T03:00:00Z",
)
WAITS = JobSummary(
    "lab",
    "next",
    JobState.PENDING,
    queue="team-a",
    requests={"cpu": "1"},
    since="2026-01-01T01:59:57Z",
    limit_seconds=60,
    place=3,
    reason="needs 1 more cpu",
    message="couldn't assign flavors",
)


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables have local times."""
    monkeypatch.setenv("TZ", "UTC-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_table() -> None:
    rows = [RUNS, WAITS]
    assert table_lines(rows, columns(rows, None, NOW, all_namespaces=False)) == [
        "NAME   QUEUE   OWNER  STATE    USES                           SINCE     LEFT  PLACE  REASON",
        "train  team-a  ann    RUNNING  2 cpu, 4Gi mem, 2 gpu (0,1)  1:00:00  1:00:00      -  -",
        "next   team-a  -      PENDING  1 cpu                        0:00:03  0:01:00      3  needs 1 more cpu",
    ]


def test_names_have_their_namespace_where_all_are_shown_and_wide_tables_have_all() -> None:
    rows = [WAITS]
    (line,) = table_lines(rows, columns(rows, "wide", NOW, all_namespaces=True), wide=True, no_headers=True)
    assert line.startswith("lab/next  team-a")
    assert "2026-01-01 02:59:57" in line
    assert line.endswith("couldn't assign flavors")


def test_tasks_are_shown_if_there_are_any() -> None:
    array = JobSummary("lab", "array", JobState.RUNNING, progress="37/100")
    header, line = table_lines([array], columns([array], None, NOW, all_namespaces=False))
    assert "TASKS" in header
    assert "37/100" in line


def test_hostile_names_do_not_reach_the_terminal_or_a_spreadsheet() -> None:
    evil = JobSummary("lab", "\x1b[2Jx", JobState.PENDING, "=cmd()", reason="a\nb\x07")
    for lines in (
        table_lines([evil], columns([evil], None, NOW, all_namespaces=False)),
        csv_lines([evil], columns([evil], "csv", NOW, all_namespaces=False), no_headers=False),
    ):
        assert len(lines) == 2
        assert "\x1b" not in lines[1]
        assert "\x07" not in lines[1]
        assert "\\x1b[2Jx" in lines[1]
    assert "'=cmd()" in lines[1]


def test_csv_has_one_column_per_fact() -> None:
    rows = [RUNS]
    (found,) = csv.DictReader(csv_lines(rows, columns(rows, "csv", NOW, all_namespaces=False), no_headers=False))
    assert found["NAMESPACE"] == "lab"
    assert found["USES"] == "cpu=2 memory=4Gi nvidia.com/gpu=2"
    assert (found["GPUS"], found["DEADLINE"], found["PLACE"]) == ("0 1", "2026-01-01T03:00:00Z", "")


def test_other_resources_keep_their_names() -> None:
    assert uses({"example.com/fpga": "1", "cpu": "500m"}) == "500m cpu, 1 example.com/fpga"
    assert uses({}) == "-"


def test_finished_jobs() -> None:
    rows = [
        FinishedJob(
            "lab",
            "bad",
            "u",
            JobState.FAILED,
            "ann",
            "team-a",
            {"cpu": "1"},
            ended="2026-01-01T01:00:00Z",
            exit_code=3,
            waited_seconds=61,
            ran_seconds=3600,
            preempted=2,
            lost_seconds=10,
        ),
        FinishedJob("lab", "gone", "v", JobState.CANCELLED, ended="2026-01-01T01:00:00Z"),
    ]
    assert table_lines(rows, finished_columns(rows, None, all_namespaces=False)) == [
        "NAME  QUEUE   OWNER  STATE      EXIT  USED   ENDED                 WAITED      RAN  PREEMPTED     LOST",
        "bad   team-a  ann    FAILED        3  1 cpu  2026-01-01 02:00:00  0:01:01  1:00:00          2  0:00:10",
        "gone  -       -      CANCELLED     -  -      2026-01-01 02:00:00  0:00:00  0:00:00          0  0:00:00",
    ]
    narrow = table_lines(rows, finished_columns(rows, None, all_namespaces=False), width=80)
    assert max(map(len, narrow)) <= 80
    assert {"NAME", "STATE", "EXIT", "WAITED", "RAN", "PREEMPTED", "LOST"} <= set(narrow[0].split())
    (found, _) = csv.DictReader(csv_lines(rows, finished_columns(rows, "csv", all_namespaces=False), no_headers=False))
    assert (found["EXIT_CODE"], found["LOST_SECONDS"]) == ("3", "10")
