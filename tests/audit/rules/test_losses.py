"""Does the auditor see Jobs that nobody looks after, and quota that nobody uses?"""

from typing import Any

from tests.audit.told import Tale, condition


def tale(**settings: Any) -> Tale:
    told = Tale(lost_seconds=10, stuck_seconds=1000, **settings)
    told.queue("q", 4)
    told.later(60)
    return told


def test_a_queued_job_has_its_workload() -> None:
    told = tale()
    told.job("a")
    told.later(9)
    told.workload("a", "q", 1, job="a")
    told.later(30)
    assert told.found == []


def test_a_job_without_a_workload_is_found() -> None:
    told = tale()
    told.job("a")
    told.later(13)
    assert told.found == ["lost: Job ns/a: has no Workload, for 11 s"]


def test_a_job_with_two_workloads_is_found() -> None:
    told = tale()
    told.job("a")
    told.workload("a", "q", 1, job="a")
    told.workload("again", "q", 1, job="a")
    told.later(13)
    assert told.found == ["lost: Job ns/a: has the Workloads a and again, for 11 s"]


def test_a_workload_that_vanishes_is_found() -> None:
    told = tale()
    told.job("a")
    told.workload("a", "q", 1, job="a")
    told.later(60)
    told.gone("Workload", "ns", "a")
    assert told.found == ["lost: Workload ns/a: was deleted, but Job a still exists unchanged"]


def test_that_its_job_was_just_started_does_not_explain_why_a_workload_vanishes() -> None:
    told = tale()
    told.job("a")
    told.workload("a", "q", 1, job="a")
    told.later(60)
    told.reserve("a", "q", 1, job="a")
    told.job("a", suspend=False)
    told.gone("Workload", "ns", "a")
    assert told.found == ["lost: Workload ns/a: was deleted, but Job a still exists unchanged"]


def test_a_job_that_was_edited_may_take_long_to_stop_before_its_workload_is_replaced() -> None:
    told = tale()
    told.job("a", suspend=False)
    told.reserve("a", "q", 1, job="a")
    told.later(60)
    told.job("a", suspend=False, parallelism=2)
    told.later(1)
    told.job("a", suspend=True, parallelism=2)
    told.later(8)
    told.gone("Workload", "ns", "a")
    assert told.found == []


def test_one_of_two_workloads_may_be_deleted() -> None:
    told = tale()
    told.job("a")
    told.workload("a", "q", 1, job="a")
    told.workload("again", "q", 1, job="a")
    told.later(8)
    told.gone("Workload", "ns", "again")
    assert told.found == []


def test_a_workload_may_be_made_anew_for_a_job_that_was_edited() -> None:
    told = tale()
    told.job("a")
    told.workload("a", "q", 1, job="a")
    told.later(60)
    told.job("a", parallelism=2)
    told.gone("Workload", "ns", "a")
    told.workload("other", "q", 1, job="a")
    told.later(60)
    assert told.found == []


def test_where_people_delete_workloads_too_it_must_only_be_made_anew() -> None:
    told = tale(alone=False)
    told.job("a")
    told.workload("a", "q", 1, job="a")
    told.later(60)
    told.gone("Workload", "ns", "a")
    told.later(9)
    assert told.found == []
    told.later(5)
    assert told.found == ["lost: Job ns/a: has no Workload, for 11 s"]


def test_jobs_that_are_none_of_our_business_need_no_workload() -> None:
    told = tale()
    told.job("free", "")
    told.job("done", "q", condition("Complete", True))
    told.tell(
        "Job",
        "ns",
        "child",
        labels={"kueue.x-k8s.io/queue-name": "q"},
        spec={},
        metadata={
            "ownerReferences": [{"apiVersion": "x/v1", "kind": "Set", "name": "s", "uid": "s", "controller": True}]
        },
    )
    told.later(60)
    assert told.found == []


def test_quota_for_a_job_that_has_ended_is_found() -> None:
    told = tale()
    told.job("a", "q")
    told.reserve("a", "q", 1, job="a")
    told.job("a", "q", condition("Complete", True))
    told.later(9)
    assert told.found == []
    told.later(5)
    assert told.found == ["lost: Workload ns/a: holds quota for Job a, which is finished, for 11 s"]


def test_quota_for_a_job_that_is_gone_is_found() -> None:
    told = tale()
    told.job("a", "q")
    told.reserve("a", "q", 1, job="a")
    told.gone("Job", "ns", "a")
    told.later(13)
    assert told.found == ["lost: Workload ns/a: holds quota for a Job that no longer exists, for 11 s"]


def test_a_workload_that_the_manager_has_released_may_wait_for_the_garbage_collector() -> None:
    told = tale()
    told.job("a", "q")
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    held = {**deleted, "finalizers": ["kueue.x-k8s.io/resource-in-use", "foregroundDeletion"]}
    told.reserve("a", "q", 1, job="a", metadata={**deleted, "finalizers": ["foregroundDeletion"]})
    told.job("a", "q", condition("Complete", True))
    told.later(60)
    assert told.found == []
    told.reserve("a", "q", 1, job="a", metadata=held)
    told.later(13)
    assert told.rules() == ["lost"]


def test_time_without_a_manager_does_not_count() -> None:
    told = tale(lease="kueue/lock")
    lease = {"holderIdentity": "one", "leaseDurationSeconds": 3}
    told.job("a")
    told.later(60)
    assert told.found == []
    for _ in range(11):
        told.tell("Lease", "kueue", "lock", spec=lease)
        told.later(1)
    assert told.found == []
    told.tell("Lease", "kueue", "lock", spec=lease)
    told.later(1)
    assert told.rules() == ["lost"]


def test_nor_does_the_rest_of_a_lease_that_is_no_longer_renewed() -> None:
    told = tale(lease="kueue/lock")
    told.job("a")
    for _ in range(5):
        told.tell("Lease", "kueue", "lock", spec={"holderIdentity": "one", "leaseDurationSeconds": 60})
        told.later(1)
    told.later(50)
    assert told.found == []


def test_a_new_leader_begins_anew() -> None:
    told = tale(lease="kueue/lock")
    told.job("a")
    for second in range(20):
        holder = "one" if second < 10 else "two"
        told.tell("Lease", "kueue", "lock", spec={"holderIdentity": holder, "leaseDurationSeconds": 3})
        told.later(1)
    assert told.found == []


def test_while_we_are_asked_to_look_away_nothing_is_late() -> None:
    told = tale()
    told.job("a")
    told.auditor.uptime.pause()
    told.later(60)
    assert told.found == []
    told.auditor.uptime.resume(told.auditor.looked)
    told.later(10)
    assert told.found == []
    told.later(2)
    assert told.rules() == ["lost"]
