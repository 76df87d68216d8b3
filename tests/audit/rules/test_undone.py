"""Does the auditor see what was decided and never done?"""

import pytest

from tests.audit.told import Tale, condition, counted, evicted


def tale() -> Tale:
    """A Job that is admitted and runs."""
    told = Tale(stuck_seconds=1000)
    told.queue("q", 4)
    told.job("a", suspend=False)
    told.reserve("a", "q", 1, job="a")
    return told


def test_a_job_that_runs_as_it_should_is_fine() -> None:
    told = tale()
    told.later(60)
    assert told.found == []


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("not started", "is admitted, but Job a is suspended, for 11 s"),
        ("not stopped", "is evicted, but Job a is not suspended, for 11 s"),
        ("not deactivated", "is not active, but keeps its quota, for 11 s"),
        ("not drained", "holds quota, but ClusterQueue q is drained, for 11 s"),
        ("not drained by its own queue", "holds quota, but LocalQueue q is drained, for 11 s"),
    ],
)
def test_what_was_decided_and_not_done_is_found(way: str, says: str) -> None:
    told = tale()
    if way == "not started":
        told.job("a", suspend=True)
    elif way == "not stopped":
        told.reserve("a", "q", 1, *evicted("PodsReadyTimeout"), job="a", status=counted(1))
    elif way == "not deactivated":
        told.reserve("a", "q", 1, job="a", active=False)
    elif way == "not drained":
        told.queue("q", 4, stopPolicy="HoldAndDrain")
    elif way == "not drained by its own queue":
        told.tell("LocalQueue", "ns", "q", spec={"clusterQueue": "q", "stopPolicy": "HoldAndDrain"})
    told.later(10)
    assert told.found == []
    told.later(10)
    assert f"undone: Workload ns/a: {says}" in told.found
    assert told.rules() == ["undone"]


@pytest.mark.parametrize("way", ["ended", "without a queue", "held", "reserved only"])
def test_there_is_nothing_to_do_if(way: str) -> None:
    told = tale()
    if way == "ended":
        told.job("a", "q", condition("Complete", True), suspend=True)
        told.reserve("a", "q", 1, condition("Finished", True, "Succeeded"), job="a")
    elif way == "without a queue":
        told.job("a", "", suspend=True)
    elif way == "held":
        told.queue("q", 4, stopPolicy="Hold")
    else:
        told.job("b", suspend=True)
        told.reserve("b", "q", 1, condition("Admitted", False), job="b")
    told.later(60)
    assert told.found == []
