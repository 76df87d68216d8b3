"""Is it said what became of output that is gone?"""

import time
from typing import Any

import pytest

from pykueue.api.jobsummary import FinishedJob, JobState
from pykueue.cli.jobs.lostoutput import KEEP, of_earlier_runs, of_ended, of_stopped, told

AT = "2026-01-01T01:00:00Z"
HERE = "2026-01-01 02:00:00"


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def failed(reason: str) -> dict[str, Any]:
    one = {"type": "Failed", "status": "True", "reason": reason, "lastTransitionTime": AT}
    return {"status": {"conditions": [one]}}


def evicted(reason: str, ran: int = 5, by: str = "") -> dict[str, Any]:
    one = {"type": "Evicted", "status": "True", "reason": reason, "message": "M", "lastTransitionTime": AT}
    return {
        "metadata": {"annotations": {"pykueue.io/deactivated-by": by} if by else {}},
        "status": {"conditions": [one], "accumulatedPastExecutionTimeSeconds": ran},
    }


def test_of_a_job_that_has_ended() -> None:
    gone = f"it reached its time limit at {HERE} and was stopped, and its output was deleted with its pods; {KEEP}"
    assert of_ended(failed("DeadlineExceeded")) == gone
    assert of_ended(failed("BackoffLimitExceeded")).startswith("its pods were deleted together with their output; ")


@pytest.mark.parametrize(
    ("workload", "was"),
    [
        pytest.param(evicted("Preempted"), "preempted", id="preempted"),
        pytest.param(evicted("Deactivated", by="hold"), "held", id="held"),
        pytest.param(evicted("Deactivated", by="requeue"), "requeued", id="requeued"),
        pytest.param(evicted("PodsReadyTimeout"), "evicted (M)", id="anything else"),
    ],
)
def test_of_a_job_that_was_stopped(workload: Any, was: str) -> None:
    assert of_stopped(workload) == f"it was {was} at {HERE}, and its output was deleted with its pods; {KEEP}"
    assert of_earlier_runs(workload).startswith("it was stopped and started over; the output of its earlier runs")


def test_a_job_that_was_held_before_it_ran_has_lost_nothing() -> None:
    assert of_stopped(evicted("Deactivated", ran=0, by="hold")) == of_earlier_runs({}) == of_stopped({}) == ""


def test_of_a_job_that_is_gone() -> None:
    def record(name: str, state: JobState, started: str = AT) -> FinishedJob:
        return FinishedJob(namespace="lab", name=name, uid="u", state=state, started=started, ended=AT)

    records = (
        record("a", JobState.CANCELLED),
        record("a", JobState.COMPLETED),
        record("b", JobState.FAILED),
        record("c", JobState.CANCELLED, ""),
    )
    assert told(records, "a") == f"it was cancelled at {HERE}, and its output was deleted with its pods; {KEEP}"
    assert told(records, "b") == f"it ended at {HERE}, and was deleted later, with its output"
    assert told(records, "c") == f"it was cancelled at {HERE}, before it ran"
    assert told(records, "d") == ""
