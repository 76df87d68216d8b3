"""Do rows of a server become the records that a report counts?"""

from typing import Any

import pytest

from pykueue.api.jobsummary import FinishedJob, JobState, JobSummary
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.cli.reports.jobrecords import Queues, active_job, finished_job, others_of, queues_of
from pykueue.kubecontrollers.finishedrecord import UNKNOWN, Past
from pykueue.reports.records import Holding, Others, Quota, Run

NOW = parse_instant("2026-03-02T12:00:00Z")


def at(hour: int) -> Instant:
    return parse_instant(f"2026-03-02T{hour:02}:00:00Z")


def queue(name: str, *flavors: str, **status: int) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominalQuota": 4}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": one, "resources": resources} for one in flavors]}]
    return {"metadata": {"name": name}, "spec": {"resourceGroups": groups}, "status": status}


def local(name: str, to: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "lab"}, "spec": {"clusterQueue": to}}


KNOWN = queues_of([local("team", "red"), local("wide", "two")], [queue("red", "spot"), queue("two", "a", "b")], [])
ROW = FinishedJob(
    "lab",
    "train",
    "u",
    JobState.COMPLETED,
    queue="team",
    requests={"cpu": "2", "memory": "1Gi"},
    submitted="2026-03-02T01:00:00Z",
    started="2026-03-02T04:00:00Z",
    ended="2026-03-02T06:00:00Z",
    waited_seconds=3600,
    ran_seconds=7200,
    preempted=1,
    lost_seconds=7200,
)


def test_a_finished_job_held_its_requests_in_its_last_run() -> None:
    job, held = finished_job(ROW, KNOWN)
    assert (job.name, job.queue, job.state, job.submitted, job.ended) == ("lab/train", "red", "completed", at(1), at(6))
    assert (job.waited, job.preempted, job.lost) == (3600 * MICROS, 1, 7200 * MICROS)
    assert (job.runs, job.waits) == ((Run(at(4), at(6)),), ((at(1), at(2)),))
    assert held == [Holding("red", "spot", "cpu", 2000, at(4), at(6))], "memory is not counted by this queue"
    assert job.requests == {"cpu": 2000, "memory": 2**30}


def test_the_record_knows_better_than_the_queues_of_now() -> None:
    row = type(ROW)(
        **{
            **{name: getattr(ROW, name) for name in ROW.__struct_fields__},
            "cluster_queue": "old",
            "flavors": {"cpu": "gone"},
        }
    )
    job, held = finished_job(row, KNOWN)
    assert (job.queue, {(one.flavor, one.resource) for one in held}) == ("old", {("gone", "cpu"), ("", "memory")})


def test_a_job_that_never_ran_only_waited() -> None:
    row = FinishedJob(
        "lab",
        "x",
        "u",
        JobState.CANCELLED,
        submitted="2026-03-02T01:00:00Z",
        ended="2026-03-02T02:00:00Z",
        waited_seconds=3600,
    )
    job, held = finished_job(row, Queues())
    assert (job.queue, job.started, job.runs, held) == ("(none)", None, (), [])
    assert job.waits == ((at(1), at(2)),)


@pytest.mark.parametrize(
    ("state", "waited", "pending", "running"),
    [
        (JobState.RUNNING, 1, False, True),
        (JobState.STOPPING, 1, False, True),
        (JobState.PENDING, 10, True, False),
        (JobState.HELD, 0, False, False),
    ],
)
def test_active_jobs_count_until_now(state: JobState, waited: int, pending: bool, running: bool) -> None:
    row = JobSummary(
        "lab",
        "x",
        state,
        queue="team",
        requests={"cpu": "1"},
        submitted="2026-03-02T01:00:00Z",
        since="2026-03-02T02:00:00Z",
        reason="short",
        message="in full",
    )
    job, held = active_job(row, KNOWN, UNKNOWN, NOW)
    assert (job.waited, job.pending, job.running) == (waited * 3600 * MICROS, pending, running)
    assert job.reason == ("short" if pending else "")
    assert held == ([Holding("red", "spot", "cpu", 1000, at(2), NOW)] if running else [])


def test_earlier_runs_of_a_job_that_runs_again_are_lost_work_and_no_wait() -> None:
    row = JobSummary(
        "lab",
        "x",
        JobState.RUNNING,
        queue="team",
        requests={"cpu": "2"},
        submitted="2026-03-02T01:00:00Z",
        since="2026-03-02T03:00:00Z",
    )
    job, held = active_job(row, KNOWN, Past(preempted=1, lost_seconds=3600), NOW)
    assert (job.preempted, job.lost, job.requests) == (1, 3600 * MICROS, {"cpu": 2000})
    assert (job.waited, job.waits) == (3600 * MICROS, ((at(1), at(2)),))
    assert [(one.begin, one.end) for one in held] == [(at(3), NOW)]


def test_of_several_flavors_the_workload_tells_which() -> None:
    row = JobSummary(
        "lab", "x", JobState.RUNNING, queue="wide", requests={"cpu": "1"}, submitted="2026-03-02T01:00:00Z"
    )
    assert [one.flavor for one in active_job(row, KNOWN, UNKNOWN, NOW)[1]] == [""]
    assert [one.flavor for one in active_job(row, KNOWN, Past(flavors={"cpu": "b"}), NOW)[1]] == ["b"]


def test_quotas_of_queues_and_cohorts_and_of_some_queues_alone() -> None:
    found = queues_of([], [queue("red", "spot")], [queue("lab", "spot")])
    assert found.quotas == (Quota("red", "spot", "cpu", 4000), Quota("lab", "spot", "cpu", 4000, of_cohort=True))
    assert found.only(["red"]).quotas == (Quota("red", "spot", "cpu", 4000),)
    assert found.queue_of("lab", "unknown") == "lab/unknown"


def test_malformed_rows_are_harmless() -> None:
    row = FinishedJob(
        "lab",
        "x",
        "u",
        JobState.FAILED,
        requests={"cpu": "much"},
        submitted="once",
        started="x",
        ended="then",
        ran_seconds=5,
    )
    job, held = finished_job(row, Queues())
    assert (job.submitted, held) == (0, [])


def test_others_are_numbers() -> None:
    job, _ = active_job(JobSummary("lab", "x", JobState.RUNNING, queue="team"), KNOWN, UNKNOWN, NOW)
    trees = [queue("red", "spot", reservingWorkloads=3, pendingWorkloads=2), queue("two", "a", pendingWorkloads=0)]
    assert list(others_of(trees, [job])) == [Others("red", 2, 2)]
