"""From when on does a report know, and what does it say of what it may not read? `test_report` asks real servers."""

import pytest

from pykueue.api.jobsummary import FinishedJob, JobState, JobSummary
from pykueue.base.units import Instant, format_instant, parse_instant
from pykueue.cli.jobs.source import Asked, Found
from pykueue.cli.reports.server import ALL_RECORDS, Wanted, known_since, told_once
from pykueue.reports.curves import DAY
from pykueue.reports.records import Period

NOW = parse_instant("2026-03-08T00:00:00Z")
WANTED = Wanted(Asked("", "lab"), Period(Instant(NOW - 7 * DAY), NOW))


def day(number: float) -> Instant:
    return Instant(NOW + int(number * DAY))


def record(submitted: float, ended: float) -> FinishedJob:
    stamps = [format_instant(day(one)) for one in (submitted, ended)]
    return FinishedJob("lab", "x", "u", JobState.COMPLETED, submitted=stamps[0], ended=stamps[1])


@pytest.mark.parametrize(
    ("records", "served", "since"),
    [
        pytest.param([(-9, -8), (-2, -1)], True, -7, id="records go back beyond the time"),
        pytest.param([(-3, -2), (-2, -1)], True, -3, id="nothing was dropped, so there was nothing before"),
        pytest.param([(-3, -2), (-2, -1)], False, -2, id="a cluster may have deleted earlier ones"),
        pytest.param([], True, -0.5, id="only a job that runs"),
        pytest.param([(-9, -1)], True, -7, id="one that was submitted long ago"),
    ],
)
def test_from_when_on_jobs_are_known(records: list[tuple[float, float]], served: bool, since: float) -> None:
    running = JobSummary("lab", "r", JobState.RUNNING, submitted=format_instant(day(-0.5)))
    found = known_since([record(*one) for one in records], Found((running,), "", served), WANTED)
    assert found == day(since)


def test_a_full_table_has_dropped_older_ones() -> None:
    rows = [record(-3, -2)] * ALL_RECORDS
    assert known_since(rows, Found((), ""), WANTED) == day(-2)
    assert known_since(rows[:5000], Found((), "lab"), WANTED) == day(-2), "of one namespace, that may be earlier"
    assert known_since([], Found((), ""), WANTED) == day(-7)


def test_a_note_is_told_once_whatever_the_server_said() -> None:
    assert told_once(["only lab is shown: jobs", "quotas of now", "only lab is shown: records"]) == (
        "only lab is shown: jobs",
        "quotas of now",
    )
