"""Does the auditor see when more pods run than quota is held for, and only then?"""

from tests.audit.told import Tale


def wide_job(reclaimable: int, lag_seconds: int = 0) -> Tale:
    """A Job of parallelism 10 and completions 4 in a queue of 4 cpu, one of whose four pods has succeeded."""
    told = Tale(lag_seconds=lag_seconds)
    told.queue("q", 4)
    told.job("wide", suspend=False, parallelism=10, completions=4)
    told.reserve("w", "q", 1, pods=4, job="wide")
    for number in range(4):
        told.pod(f"wide-{number}", "wide", "Running")
    told.pod("wide-0", "wide", "Succeeded")
    told.job("wide", suspend=False, parallelism=10, completions=4, status={"succeeded": 1, "active": 3})
    told.reserve("w", "q", 1, pods=4, job="wide", status={"reclaimablePods": [{"name": "main", "count": reclaimable}]})
    return told


def test_the_quota_of_a_pod_that_is_done_may_be_given_back() -> None:
    assert wide_job(1).found == []


def test_the_quota_of_pods_that_run_may_not_be_given_back() -> None:
    assert wide_job(4).found == ["uncovered: Workload ns/w: holds quota for 0 pods, but 3 pods of Job wide are running"]


def test_a_pod_that_is_made_without_quota_is_found() -> None:
    told = wide_job(1)
    told.pod("wide-4", "wide", "Pending")
    told.later(2)
    assert told.found == ["uncovered: Workload ns/w: holds quota for 3 pods, but 4 pods of Job wide are running"]


def test_a_pod_that_the_job_controller_made_too_many_and_takes_away_is_excused() -> None:
    told = wide_job(1, lag_seconds=5)
    told.pod("wide-4", "wide", "Pending")
    told.later(4)
    told.gone("Pod", "ns", "wide-4")
    told.later(10)
    assert told.found == []
    told.pod("wide-5", "wide", "Pending")
    told.later(10)
    assert told.rules() == ["uncovered"]


def test_a_pod_that_is_going_away_needs_no_quota() -> None:
    told = wide_job(1)
    told.pod("wide-1", "wide", "Running", deletionTimestamp="2027-01-15T08:00:00Z")
    told.pod("wide-4", "wide", "Pending")
    told.later(2)
    assert told.found == []


def test_of_a_partial_admission_the_pods_that_were_given_count() -> None:
    told = Tale(lag_seconds=0)
    told.queue("q", 8)
    told.job("some", suspend=False, parallelism=2, completions=8)
    told.reserve("w", "q", 1, pods=8, count=2, job="some", status={"reclaimablePods": [{"name": "main", "count": 6}]})
    told.pod("some-0", "some")
    told.pod("some-1", "some")
    told.later(2)
    assert told.found == []
    told.pod("some-2", "some")
    told.later(2)
    assert told.found == ["uncovered: Workload ns/w: holds quota for 2 pods, but 3 pods of Job some are running"]


def test_a_job_that_its_user_has_just_made_larger_is_left_to_the_manager() -> None:
    told = wide_job(1)
    told.job("wide", suspend=False, parallelism=10, completions=8, status={"succeeded": 1, "active": 3})
    told.pod("wide-4", "wide", "Pending")
    told.later(2)
    assert told.found == []
