"""Where in the line, and how often, is a Job put back whose pods were not ready in time? (KEP-1282)"""

import pytest

from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import condition


def waiting(limit: int | None = None, base: int = 1, **strategy: object) -> dict[str, object]:
    more = {"backoffLimitCount": limit} if limit is not None else {}
    return {
        "waitForPodsReady": {
            "timeout": "6s",
            "requeuingStrategy": {"backoffBaseSeconds": base, **more, **strategy},
        }
    }


CREATION = pytest.mark.manager(config=waiting(base=4, timestamp="Creation"))
ONCE = pytest.mark.manager(config=waiting(1))
NEVER = pytest.mark.manager(config=waiting(0))


@CREATION
@covers("KEP1282-1", "KEP1282-17")
def test_story_1_a_job_whose_nodes_never_came_gets_the_flavor_that_came_free(team: Team) -> None:
    one = team.flavor("one", {"pool": f"{team.name}-one"})
    two = team.flavor("two", {"pool": f"{team.name}-two"})
    team.node("one", {"pool": f"{team.name}-one"})
    queue = team.queue(flavors={one: {"cpu": 1}, two: {"cpu": 1}})
    other = queue.job("other")
    other.runs()
    stuck = queue.job("stuck")
    tree = stuck.runs()
    assert tree["status"]["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": two}
    other.ends()
    stuck.is_evicted("PodsReadyTimeout")
    stuck.shows("PodsReady", True, "Started")
    tree = stuck.runs()
    assert tree["status"]["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": one}


@CREATION
@covers("L33", "KEP1282-6", "KEP1282-19", "KEP1282-2")
def test_by_creation_time_a_job_blocks_nobody_during_its_backoff_and_then_goes_first(team: Team) -> None:
    queue = team.queue(cpu=1, queueingStrategy="StrictFIFO")
    first = queue.job("first", ready="never")
    first.runs()
    team.sleep(1.1)
    second = queue.job("second")
    team.sleep(1.1)
    third = queue.job("third")
    first.is_evicted("PodsReadyTimeout")
    second.runs()
    first.shows("Requeued", True, "BackoffFinished")
    second.ends()
    first.runs()
    assert condition(third.workload(), "Admitted").get("status") != "True"


@CREATION
@covers("KEP1282-18", "KEP1282-21")
def test_a_preempted_job_is_not_admitted_again_before_its_preemptor(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    queue = team.queue(cpu=1, preemption={"withinClusterQueue": "LowerPriority"})
    with team.recorded() as versions:
        victim = queue.job("victim", priority=low)
        victim.runs()
        preemptor = queue.job("preemptor", priority=high)
        preemptor.runs()
        victim.waits("WaitingForQuota")
        preemptor.stays(2.0)
    shown = [condition(tree, "Admitted") for tree in versions[victim.workload_name]]
    assert len({one["lastTransitionTime"] for one in shown if one.get("status") == "True"}) == 1
    assert not condition(preemptor.workload(), "Evicted")


@ONCE
@covers("L23", "L25", "KEP1282-3", "KEP1282-4", "KEP1282-13", "KEP1282-14", "KEP1282-15", "KEP349-13")
def test_a_limit_of_retries_ends_in_deactivation_and_its_user_can_bring_it_back(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("never", ready="never")
    job.is_evicted("PodsReadyTimeout")
    message = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    tree = job.is_evicted("DeactivatedDueToRequeuingLimitExceeded", message, 30)
    assert tree["spec"]["active"] is False
    job.until(lambda tree: not tree["status"].get("requeueState"), "no requeue state")
    job.workload_event("EvictedDueToDeactivatedDueToRequeuingLimitExceeded", message)
    job.waits("Deactivated", "The workload is deactivated")
    other = queue.job("other")
    other.runs()
    other.ends()


@ONCE
@pytest.mark.ours("Kueue leaves a workload that it deactivated itself stuck when it is activated again")
@covers("L45", "KEP1282-4", "KEP1282-15")
def test_story_3_a_job_deactivated_at_the_limit_goes_back_in_line_and_counts_from_zero(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("never", ready="never")
    job.is_evicted("DeactivatedDueToRequeuingLimitExceeded", timeout=40)
    job.is_suspended()
    job.set_active(True)
    job.shows("Requeued", True, "Reactivated", "The workload was reactivated")
    job.runs()
    tree = job.is_evicted("PodsReadyTimeout")
    assert tree["status"]["requeueState"]["count"] == 1


@NEVER
@covers("L24")
def test_a_limit_of_none_deactivates_at_the_first_timeout(team: Team) -> None:
    job = team.queue(cpu=1).job("never", ready="never")
    with team.recorded() as versions:
        job.is_evicted("DeactivatedDueToRequeuingLimitExceeded")
    reasons = {condition(tree, "Evicted").get("reason") for tree in versions[job.workload_name]}
    assert "PodsReadyTimeout" not in reasons
    job.waits("Deactivated")


@NEVER
@covers("L53")
def test_the_mark_of_a_coming_deactivation_goes_with_the_eviction(team: Team) -> None:
    job = team.queue(cpu=1).job("never", ready="never")
    with team.recorded() as versions:
        job.is_evicted("DeactivatedDueToRequeuingLimitExceeded")
    marks = [condition(tree, "DeactivationTarget") for tree in versions[job.workload_name]]
    seen = next(mark for mark in marks if mark)
    assert (seen["reason"], seen["message"]) == (
        "RequeuingLimitExceeded",
        "exceeding the maximum number of re-queuing retries",
    )
    assert not condition(job.workload(), "DeactivationTarget")
