"""What becomes of a Job that is deactivated, and what of one whose Workload is deleted?"""

import pytest

from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import condition

DEACTIVATED = "The workload is deactivated"
MAX_TIME = "kueue.x-k8s.io/max-exec-time-seconds"


@covers("L43", "L51")
def test_a_deactivated_job_frees_its_quota_at_once_and_stops(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("one", stop="3s")
    job.runs()
    waiting = queue.job("waiting")
    waiting.workload()
    with team.recorded() as versions:
        job.set_active(False)
        waiting.runs()
    # Kubernetes counts a pod that is ending as one that is gone, so the quota is kept for a moment only.
    evicted = [tree for tree in versions[job.workload_name] if condition(tree, "Evicted").get("status") == "True"]
    assert condition(evicted[0], "QuotaReserved")["status"] == "True"
    job.is_evicted("Deactivated", DEACTIVATED)
    job.workload_event("EvictedDueToDeactivated", DEACTIVATED)
    job.event("Stopped", DEACTIVATED)
    job.waits("Deactivated", DEACTIVATED)
    job.shows("Requeued", False, "Deactivated", DEACTIVATED)


@covers("L44")
def test_an_activated_job_is_queued_again(team: Team) -> None:
    job = team.queue(cpu=1).job("one")
    job.runs()
    job.set_active(False)
    job.waits("Deactivated")
    job.set_active(True)
    job.shows("Requeued", True, "Reactivated", "The workload was reactivated")
    job.runs()


@covers("L47")
def test_a_waiting_job_that_is_deactivated_says_so_without_an_event(team: Team) -> None:
    queue = team.queue(cpu=1)
    queue.job("running").runs()
    waiting = queue.job("waiting")
    waiting.waits("WaitingForQuota")
    waiting.set_active(False)
    waiting.waits("Deactivated", DEACTIVATED)
    waiting.is_evicted("Deactivated", DEACTIVATED)
    queue.has_status(pendingWorkloads=0)
    assert not team.events(waiting.workload_name, "EvictedDueToDeactivated")


@covers("L49")
def test_a_job_whose_workload_is_deleted_stops_and_gets_a_new_one_of_the_same_name(team: Team) -> None:
    job = team.queue(cpu=1).job("one")
    first = job.runs()
    team.client.delete("Workload", first["metadata"]["name"], team.namespace)
    job.event("Stopped", "Workload is deleted")
    second = job.until(lambda tree: tree["metadata"]["uid"] != first["metadata"]["uid"], "a new Workload")
    assert second["metadata"]["name"] == first["metadata"]["name"]
    job.runs()


@covers("L80", "L46")
def test_a_maximum_run_time_deactivates_the_job(team: Team) -> None:
    job = team.queue(cpu=1).job("one", labels={MAX_TIME: "4"})
    assert job.runs()["spec"]["maximumExecutionTimeSeconds"] == 4
    tree = job.is_evicted(
        "DeactivatedDueToMaximumExecutionTimeExceeded",
        "The workload is deactivated due to exceeding the maximum execution time",
    )
    assert tree["spec"]["active"] is False
    job.workload_event("MaximumExecutionTimeExceeded", "The maximum execution time (4s) exceeded", "Warning")
    job.waits("Deactivated")


@covers("L80")
def test_run_time_is_summed_over_evictions(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    queue = team.queue(cpu=1, preemption={"withinClusterQueue": "LowerPriority"})
    job = queue.job("one", priority=low, labels={MAX_TIME: "60"})
    job.runs()
    team.sleep(2.1)
    urgent = queue.job("urgent", priority=high)
    urgent.runs()
    tree = job.until(lambda tree: tree["status"].get("accumulatedPastExecutionTimeSeconds", 0) >= 2, "2 s on record")
    urgent.ends()
    before = tree["status"]["accumulatedPastExecutionTimeSeconds"]
    tree = job.runs()
    assert tree["status"]["accumulatedPastExecutionTimeSeconds"] == before


@pytest.mark.ours("Kueue leaves a mark behind by which the workload falls back to inactive at once")
@covers("L46")
def test_a_job_deactivated_for_its_run_time_runs_again_when_it_is_activated(team: Team) -> None:
    job = team.queue(cpu=1).job("one", labels={MAX_TIME: "3"})
    job.is_evicted("DeactivatedDueToMaximumExecutionTimeExceeded")
    job.waits("Deactivated")
    assert not condition(job.workload(), "DeactivationTarget")
    job.set_active(True)
    job.shows("Requeued", True, "Reactivated", "The workload was reactivated")
    job.runs()


@pytest.mark.ours("Kueue does not stop a running job whose label names a missing priority class")
@covers("L52")
def test_a_job_whose_label_names_a_missing_priority_class_is_stopped_all_the_same(team: Team) -> None:
    low = team.priority("low", 1)
    job = team.queue(cpu=1).job("one", priority=low)
    job.runs()
    job.label(priority_class=team.own("gone"))
    job.event("WorkloadPriorityClassNotFound", f'WorkloadPriorityClass "{team.own("gone")}" not found', "Warning")
    job.set_active(False)
    job.waits("Deactivated")
    assert job.workload()["spec"]["priority"] == 1
