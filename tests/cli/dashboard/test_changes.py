"""What has happened to jobs, by their rows before and after?"""

import msgspec
import pytest

from pykueue.api.jobsummary import FinishedJob, JobState, JobSummary
from pykueue.base.clock import START
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.cli.dashboard.changes import CHANGES_MAX, Changes, Occurrence, at_first, between, of_end

AT = "2027-01-15T08:00:00Z"


def row(state: JobState, **more: object) -> JobSummary:
    given: dict[str, object] = {"namespace": "n", "name": "j", "state": state, "submitted": AT, "queue": "q", **more}
    return msgspec.convert(given, JobSummary)


PENDING, RUNNING, HELD, STOPPING = map(row, (JobState.PENDING, JobState.RUNNING, JobState.HELD, JobState.STOPPING))


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        pytest.param(None, PENDING, "submitted", id="new"),
        pytest.param(
            RUNNING, row(JobState.PENDING, submitted="2027-01-15T09:00:00Z"), "submitted", id="another of its name"
        ),
        pytest.param(PENDING, RUNNING, "started", id="started"),
        pytest.param(HELD, row(JobState.FAILING), "started", id="started and fails"),
        pytest.param(RUNNING, PENDING, "preempted", id="preempted"),
        pytest.param(STOPPING, PENDING, "preempted", id="preempted after it has stopped"),
        pytest.param(PENDING, PENDING, None, id="nothing"),
        pytest.param(PENDING, HELD, None, id="held"),
        pytest.param(RUNNING, STOPPING, None, id="stops"),
    ],
)
def test_between_two_rows(before: JobSummary | None, after: JobSummary, kind: str | None) -> None:
    assert [one.kind for one in between(before, after, "now")] == ([] if kind is None else [kind])


def test_a_job_that_has_started_before_it_is_seen_was_submitted_too() -> None:
    assert [one.kind for one in between(None, row(JobState.RUNNING, since=AT), "now")] == ["submitted", "started"]


def test_the_reason_of_a_preemption_is_told() -> None:
    again = row(JobState.PENDING, reason="preempted for x", since="2027-01-15T08:01:00Z")
    (found,) = between(RUNNING, again, "now")
    assert found == Occurrence("2027-01-15T08:01:00Z", "preempted", "j", "n", "q", "preempted for x")


@pytest.mark.parametrize(
    ("state", "kind"),
    [(JobState.COMPLETED, "finished"), (JobState.FAILED, "failed"), (JobState.CANCELLED, "cancelled")],
)
def test_how_a_job_ended(state: JobState, kind: str) -> None:
    assert of_end(FinishedJob("n", "j", "1", state, ended=AT)).kind == kind


def test_what_a_first_list_tells() -> None:
    runs = row(JobState.RUNNING, since="2027-01-15T08:02:00Z", owner="ann")
    assert [(one.kind, one.text) for one in at_first(runs, AT)] == [("submitted", "by ann"), ("started", "")]
    assert [one.kind for one in at_first(runs, "2027-01-15T08:01:00Z")] == ["started"]
    assert [*at_first(PENDING, "2027-01-15T08:01:00Z")] == []


def test_the_last_hour_newest_first_and_bounded() -> None:
    changes = Changes()
    times = [format_instant(Instant(START - number * 60 * MICROS)) for number in range(90)]
    changes.add(Occurrence(at, "started", f"j{number}", "n", "q") for number, at in enumerate(times))
    changes.add([Occurrence(times[0], "started", "j0", "n", "q"), Occurrence("", "started", "x", "n", "q")])
    shown = changes.shown(START)
    assert [one.job for one in shown] == [f"j{number}" for number in range(60)]
    changes.add(Occurrence(times[0], "started", f"k{number}", "n", "q") for number in range(2 * CHANGES_MAX))
    assert len(changes.shown(START)) == CHANGES_MAX
