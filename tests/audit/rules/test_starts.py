"""Does the auditor see pods that run without admission?"""

from typing import Any

from pykueue.audit.times import MICROS
from tests.audit.told import Tale, condition, counted, evicted


def tale(**settings: Any) -> Tale:
    told = Tale(lag_seconds=5, stop_seconds=10, stuck_seconds=1000, **settings)
    told.queue("q", 1, preemption={"withinClusterQueue": "LowerPriority"})
    told.job("a")
    told.workload("a", "q", 1, job="a")
    told.later(60)
    return told


def started(told: Tale) -> None:
    told.reserve("a", "q", 1, job="a")
    told.job("a", suspend=False)
    told.pod("p", "a", "Running")


def stopped(told: Tale) -> None:
    """Evict the workload and suspend its Job; the pod is still there."""
    told.workload("b", "q", 1, priority=1)
    told.reserve("a", "q", 1, *evicted(), job="a", status=counted(1))
    told.job("a", suspend=True)
    told.workload("a", "q", 1, *evicted(), job="a", status=counted(1))


def test_an_admitted_job_may_start_its_pods() -> None:
    told = tale()
    started(told)
    told.later(30)
    assert told.found == []


def test_a_pod_made_before_admission_is_found() -> None:
    told = tale()
    told.job("a", suspend=False)
    told.pod("p", "a")
    assert told.found == [
        "start: Job ns/a: was started without an admitted Workload",
        "unadmitted: Pod ns/p: was created although Job a is not admitted",
    ]


def test_a_pod_made_while_its_job_is_suspended_is_found() -> None:
    told = tale()
    told.reserve("a", "q", 1, job="a")
    told.pod("p", "a")
    assert told.found == ["unadmitted: Pod ns/p: was created although Job a is suspended"]


def test_pods_of_an_evicted_workload_may_take_their_time_to_end() -> None:
    told = tale()
    started(told)
    stopped(told)
    told.pod("p", "a", "Running", deletionTimestamp="2027-01-15T08:01:00Z")
    told.later(60)
    told.gone("Pod", "ns", "p")
    assert [line for line in told.found if "Pod" in line] == []


def test_quota_is_given_back_only_when_no_pod_is_active() -> None:
    told = tale()
    started(told)
    told.workload("b", "q", 1, priority=1)
    told.reserve("a", "q", 1, *evicted(), job="a", status=counted(1))
    told.workload("a", "q", 1, *evicted(), job="a", status=counted(1))
    assert told.found == ["unadmitted: Workload ns/a: released its quota while Job a still runs"]
    told.reserve("a", "q", 1, job="a", status=counted(1))
    told.reserve("a", "q", 1, *evicted(), job="a", status=counted(2))
    told.job("a", suspend=True, status={"active": 2})
    told.workload("a", "q", 1, *evicted(), job="a", status=counted(2))
    assert told.found[1:] == ["unadmitted: Workload ns/a: released its quota while Job a still has 2 active pods"]


def test_pods_that_nobody_stops_are_found() -> None:
    told = tale()
    started(told)
    stopped(told)
    told.later(10)
    assert [line for line in told.found if "Pod" in line] == []
    told.later(2)
    assert "unadmitted: Pod ns/p: has been running for 11 s although Job a is not admitted" in told.found


def test_the_job_controller_may_hear_late_that_a_job_was_suspended() -> None:
    told = tale()
    started(told)
    stopped(told)
    told.later(1)
    told.pod("late", "a")
    assert told.found == []
    told.later(5)
    told.pod("later", "a")
    assert told.found == ["unadmitted: Pod ns/later: was created although Job a is suspended"]


def test_a_pod_that_was_created_while_we_could_not_watch_may_be_as_old_as_that() -> None:
    told = tale()
    started(told)
    stopped(told)
    told.gone("Pod", "ns", "p")
    told.later(60)
    told.auditor.uptime.interrupted(told.seconds * MICROS)
    told.pod("unseen", "a")
    assert told.found == []
    told.later(5)
    told.pod("seen", "a")
    assert told.found == ["unadmitted: Pod ns/seen: was created although Job a is suspended"]


def test_an_evicted_workload_that_still_holds_its_quota_still_covers_its_pods() -> None:
    told = tale()
    started(told)
    told.workload("b", "q", 1, priority=1)
    told.reserve("a", "q", 1, *evicted(), job="a", status=counted(1))
    told.later(30)
    told.pod("next", "a")
    assert [line for line in told.found if "Pod" in line] == []


def test_pods_of_a_job_without_a_queue_are_none_of_our_business() -> None:
    told = tale()
    told.job("free", "", suspend=False)
    told.pod("p", "free")
    told.later(60)
    assert [line for line in told.found if "Pod" in line] == []


def test_a_finished_jobs_pods_may_stay() -> None:
    told = tale()
    started(told)
    told.pod("p", "a", "Succeeded")
    told.job("a", "q", condition("Complete", True), suspend=False)
    told.reserve("a", "q", 1, condition("Finished", True, "Succeeded"), job="a")
    told.later(60)
    assert told.found == []


def test_where_people_start_jobs_too_only_what_lasts_is_found() -> None:
    told = tale(alone=False)
    told.job("a", suspend=False)
    told.pod("p", "a")
    told.later(10)
    assert told.found == []
    told.later(2)
    assert "unadmitted: Pod ns/p: has been running for 11 s although Job a is not admitted" in told.found
