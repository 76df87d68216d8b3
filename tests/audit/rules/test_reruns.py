"""Does the auditor see work that is done twice?"""

from typing import Any

import pytest

from pykueue.audit.rules.reruns import indexes
from tests.audit.told import Tale, condition

INDEX = "batch.kubernetes.io/job-completion-index"


def tale(**spec: Any) -> Tale:
    told = Tale()
    told.queue("q", 4)
    told.job("a")
    told.workload("a", "q", 1, job="a")
    told.reserve("a", "q", 1, job="a")
    told.job("a", suspend=False, **spec)
    return told


def test_pods_are_made_until_enough_have_succeeded() -> None:
    told = tale(completions=2)
    told.pod("p", "a", "Succeeded")
    told.job("a", suspend=False, completions=2, status={"succeeded": 1})
    told.pod("p2", "a", "Succeeded")
    told.job("a", "q", condition("Complete", True), suspend=False, completions=2, status={"succeeded": 2})
    assert told.found == []


def test_a_pod_that_succeeded_and_counted_for_nothing_is_rightly_replaced() -> None:
    told = tale(completions=1)
    told.pod("p", "a", "Succeeded")
    told.gone("Pod", "ns", "p")
    told.pod("p2", "a", "Succeeded")
    told.job("a", "q", condition("Complete", True), suspend=False, completions=1, status={"succeeded": 1})
    assert told.found == []


def test_a_pod_for_a_job_that_has_ended_is_found() -> None:
    told = tale(completions=1)
    told.job("a", "q", condition("Complete", True), suspend=False, completions=1, status={"succeeded": 1})
    told.pod("p", "a")
    assert told.found == ["rerun: Job ns/a: is finished, but pod p was created"]


def test_a_pod_beyond_those_that_had_to_succeed_is_found() -> None:
    told = tale(completions=2)
    told.job("a", suspend=False, completions=2, status={"succeeded": 2})
    told.pod("p", "a")
    assert told.found == ["rerun: Job ns/a: 2 of 2 pods have succeeded, but pod p was created"]


def test_an_index_that_is_run_again_is_found() -> None:
    told = tale(completions=4)
    told.job("a", suspend=False, completions=4, status={"succeeded": 2, "completedIndexes": "0,2"})
    told.pod("p", "a", annotations={INDEX: "1"})
    assert told.found == []
    told.pod("p2", "a", annotations={INDEX: "2"})
    assert told.found == ["rerun: Job ns/a: completed index 2, but pod p2 was created for it again"]


def test_what_was_counted_stays_counted() -> None:
    told = tale(completions=4)
    told.job("a", suspend=False, completions=4, status={"succeeded": 2})
    told.job("a", suspend=True, completions=4)
    assert told.found == ["rerun: Job ns/a: counted 2 succeeded pods but now counts 0"]


def test_a_job_of_the_same_name_is_another_job() -> None:
    told = tale(completions=1)
    told.job("a", "q", condition("Complete", True), suspend=False, completions=1, status={"succeeded": 1})
    told.gone("Job", "ns", "a")
    told.gone("Workload", "ns", "a")
    told.tell(
        "Job", "ns", "a", labels={"kueue.x-k8s.io/queue-name": "q"}, spec={"completions": 1}, metadata={"uid": "2"}
    )
    told.tell("Workload", "ns", "a", spec={}, metadata={"uid": "3", "ownerReferences": []})
    assert told.found == []


def test_a_workload_for_a_job_that_has_ended_is_found() -> None:
    told = tale()
    told.job("a", "q", condition("Complete", True))
    told.workload("again", "q", 1, job="a")
    assert told.found == ["rerun: Workload ns/again: was created for a Job that is already finished"]


def test_a_job_that_ended_stays_ended() -> None:
    told = tale()
    told.job("a", "q", condition("Complete", True))
    told.job("a", "q", suspend=False)
    assert told.found == ["rerun: Job ns/a: was finished but no longer is"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", set(), id="none"),
        pytest.param("3", {3}, id="one"),
        pytest.param("1,3-5,7", {1, 3, 4, 5, 7}, id="a range among others"),
        pytest.param("x,5-,-3,2", {2, 5}, id="what cannot be read is left out"),
        pytest.param("0-999999999999", set(), id="more than there can be"),
    ],
)
def test_indexes_are_read_as_kubernetes_writes_them(text: str, found: set[int]) -> None:
    assert indexes(text) == found
