"""What has happened to jobs, by their rows before and after?"""

import msgspec
import pytest

from pykueue.api.jobsummary import FinishedJob, JobState, JobSummary
from pykueue.base.clock import START
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.cli.dashboard.changes import CHANGES_MAX, Changes, Occurrence, at_first, between, of_end

AT = "2027-01-15T08:00:00Z"
LATER = "2027-01-15T08:01:00Z"


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
        pytest.param(RUNNING, PENDING, "evicted", id="evicted"),
        pytest.param(RUNNING, row(JobState.PENDING, reason="preempted for x"), "preempted", id="preempted"),
        pytest.param(
            row(JobState.STOPPING, reason="preempted for x"), PENDING, "preempted", id="preempted after it has stopped"
        ),
        pytest.param(RUNNING, HELD, "held", id="held while it ran"),
        pytest.param(STOPPING, RUNNING, None, id="another attempt"),
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


def test_why_a_job_was_evicted_is_told_while_it_stops() -> None:
    stops = row(JobState.STOPPING, reason="The ClusterQueue is stopped")
    (found,) = between(stops, row(JobState.PENDING, reason="ClusterQueue q is inactive", since=LATER), "now")
    assert found == Occurrence(LATER, "evicted", "j", "n", "q", "The ClusterQueue is stopped")


def test_a_job_that_has_started_again_between_two_lists() -> None:
    before = row(JobState.RUNNING, since=AT)
    assert [one.kind for one in between(before, row(JobState.RUNNING, since=LATER), "now")] == ["evicted", "started"]
    assert [*between(before, row(JobState.FAILING, since=AT), "now")] == []


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
    names = {"reason": "preempted for x", "evicted": "preempted for another"}
    again = row(JobState.PENDING, since=LATER, **names)
    assert [(one.kind, one.text) for one in at_first(again, LATER)] == [("preempted", "preempted for x")]


@pytest.mark.parametrize(
    ("why", "kind"), [("preempted for another", "preempted"), ("its pods were not ready in time", "evicted")]
)
def test_an_eviction_before_the_first_look_is_told_though_its_reason_is_another_by_now(why: str, kind: str) -> None:
    again = row(JobState.PENDING, since=LATER, reason="needs 2 more cpu", evicted=why)
    assert [*at_first(again, LATER)] == [Occurrence(LATER, kind, "j", "n", "q", why)]  # type: ignore[arg-type]  # a kind
    assert [*at_first(again, "2027-01-15T08:02:00Z")] == []
    assert [(one.kind, one.text) for one in between(RUNNING, again, "now")] == [(kind, why)]


def test_a_job_that_has_ended_was_submitted_and_started_before() -> None:
    changes = Changes()
    ended = "2027-01-15T08:02:00Z"
    end = FinishedJob("n", "j", "1", JobState.COMPLETED, "ann", "q", submitted=AT, started=LATER, ended=ended)
    changes.add_ends([end])
    assert [(one.kind, one.at, one.text) for one in changes.kept] == [
        ("finished", ended, "ran for 0 s"),
        ("started", LATER, ""),
        ("submitted", AT, "by ann"),
    ]


def test_what_was_seen_of_a_job_is_not_told_again_when_it_ends() -> None:
    changes = Changes()
    changes.add(between(None, row(JobState.RUNNING, since="2027-01-15T08:00:59Z"), "now"))
    changes.add_ends([FinishedJob("n", "j", "1", JobState.FAILED, submitted=AT, started=LATER, ended=LATER)])
    assert sorted(one.kind for one in changes.kept) == ["failed", "started", "submitted"]


def test_the_last_hour_newest_first_and_bounded() -> None:
    changes = Changes()
    times = [format_instant(Instant(START - number * 60 * MICROS)) for number in range(90)]
    changes.add(Occurrence(at, "started", f"j{number}", "n", "q") for number, at in enumerate(times))
    changes.add([Occurrence(times[0], "started", "j0", "n", "q"), Occurrence("", "started", "x", "n", "q")])
    shown = changes.shown(START)
    assert [one.job for one in shown] == [f"j{number}" for number in range(60)]
    changes.add(Occurrence(times[0], "started", f"k{number}", "n", "q") for number in range(2 * CHANGES_MAX))
    assert len(changes.shown(START)) == CHANGES_MAX
