"""Does the auditor see work that is done twice?"""

from typing import Any

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


def test_as_many_pods_may_succeed_as_were_asked_for() -> None:
    told = tale(completions=2)
    for name in ("p", "p2"):
        told.pod(name, "a", "Running")
        told.pod(name, "a", "Succeeded")
        told.pod(name, "a", "Succeeded", labels={"seen": "again"})
    assert told.found == []


def test_one_success_too_many_is_found() -> None:
    told = tale(completions=2)
    for name in ("p", "p2", "p3"):
        told.pod(name, "a", "Succeeded")
    assert told.found == ["rerun: Job ns/a: has 3 pods that succeeded, and asked for 2"]


def test_an_index_that_ran_twice_is_found() -> None:
    told = tale(completions=3)
    for name, index in (("p", "0"), ("p2", "1"), ("p3", "0")):
        told.pod(name, "a", "Succeeded", annotations={INDEX: index})
    assert told.found == ["rerun: Job ns/a: ran its index 0 twice"]


def test_a_pod_that_the_job_has_let_go_of_may_succeed_beside_its_successor() -> None:
    told = tale(completions=1)
    told.pod("p", "a", "Succeeded", finalizers=[])
    told.pod("p2", "a", "Succeeded")
    told.pod("p2", "a", "Succeeded", finalizers=[])
    assert told.found == []


def test_a_job_of_the_same_name_is_another_job() -> None:
    told = tale(completions=1)
    told.pod("p", "a", "Succeeded")
    told.gone("Pod", "ns", "p")
    told.gone("Job", "ns", "a")
    told.gone("Workload", "ns", "a")
    told.tell(
        "Job", "ns", "a", labels={"kueue.x-k8s.io/queue-name": "q"}, spec={"completions": 1}, metadata={"uid": "2"}
    )
    told.pod("p2", "a", "Succeeded")
    assert told.found == []


def test_a_workload_for_a_job_that_has_ended_is_found() -> None:
    told = tale()
    told.job("a", "q", condition("Complete", True))
    told.workload("again", "q", 1, job="a")
    assert told.found == ["rerun: Workload ns/again: was made for a Job that has ended already"]


def test_a_job_that_ended_stays_ended() -> None:
    told = tale()
    told.job("a", "q", condition("Complete", True))
    told.job("a", "q", suspend=False)
    assert told.found == ["rerun: Job ns/a: had ended, and now has not"]
