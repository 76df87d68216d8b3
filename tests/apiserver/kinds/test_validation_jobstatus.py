"""Tests of what may be said of a Job."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.desk import Desk, job, refusal

TIME = "2027-01-15T08:00:00Z"


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        made.create("jobs", job("x"))
        yield made


def told(desk: Desk, **status: Any) -> Any:
    return desk.patch("jobs", "x", {"status": status}, part="status")


def conditions(*kinds: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True"} for kind in kinds]


def test_a_job_that_runs_and_completes_may_say_so(desk: Desk) -> None:
    told(desk, active=1, ready=1, startTime=TIME)
    made = told(
        desk,
        active=0,
        ready=0,
        succeeded=1,
        completionTime=TIME,
        conditions=conditions("SuccessCriteriaMet", "Complete"),
    )
    assert "active" not in made["status"]
    assert made["status"]["ready"] == 0


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ({"active": -1}, "status.active: Invalid value: -1: must be greater than or equal to 0"),
        ({"active": 1, "ready": 2}, "status.ready: Invalid value: 2: cannot set more ready pods than active"),
        (
            {"conditions": conditions("Complete"), "startTime": TIME, "completionTime": TIME},
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true "
            "condition",
        ),
        (
            {"conditions": conditions("Failed"), "startTime": TIME},
            "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true "
            "condition",
        ),
        (
            {"conditions": conditions("FailureTarget", "Failed"), "startTime": TIME, "active": 1},
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
        ),
        (
            {"conditions": conditions("SuccessCriteriaMet", "Complete"), "startTime": TIME},
            "status.completionTime: Required value: completionTime is required for Complete jobs",
        ),
        (
            {"conditions": conditions("FailureTarget", "Failed")},
            "status.startTime: Required value: startTime is required for finished job",
        ),
        (
            {"completionTime": TIME},
            f'status.completionTime: Invalid value: "{TIME}": cannot set completionTime when there is no Complete=True '
            "condition",
        ),
        (
            {"completedIndexes": "0"},
            'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed '
            "completion mode",
        ),
        (
            {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}},
            'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"',
        ),
    ],
)
def test_what_contradicts_itself_is_refused(desk: Desk, status: Any, error: str) -> None:
    assert error in refusal(lambda: told(desk, **status)).message


def test_what_is_over_is_over(desk: Desk) -> None:
    told(desk, failed=2, startTime=TIME, conditions=conditions("FailureTarget", "Failed"))
    assert "cannot decrease the failed counter" in refusal(lambda: told(desk, failed=1)).message
    assert "cannot disable the terminal Failed=True condition" in refusal(lambda: told(desk, conditions=None)).message
