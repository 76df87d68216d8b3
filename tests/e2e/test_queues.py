"""What do stopping, draining, deleting and editing a queue do to the Jobs in it?"""

import pytest

from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import ApiError, condition


@covers("L116")
def test_hold_on_a_cluster_queue_lets_what_runs_run_and_takes_back_what_is_only_reserved(team: Team) -> None:
    check = team.check("slow")
    queue = team.queue(cpu=2, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    running, reserved = queue.job("running"), queue.job("reserved")
    running.shows("QuotaReserved", True)
    running.set_check(check, "Ready")
    running.runs()
    reserved.shows("QuotaReserved", True)
    queue.edit(stopPolicy="Hold")
    reserved.waits("Suspended", f"ClusterQueue {queue.cluster_queue} is inactive")
    assert not condition(reserved.workload(), "Evicted")
    queue.says("Active", False, "Stopped", "Can't admit new workloads: is stopped.")
    queue.local_says("Active", False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
    running.stays(0.5)
    queue.edit(stopPolicy="None")
    reserved.shows("QuotaReserved", True)


@covers("L117")
def test_draining_a_cluster_queue_evicts_and_lifting_it_brings_all_back(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("one")
    job.runs()
    queue.edit(stopPolicy="HoldAndDrain")
    job.is_evicted("ClusterQueueStopped", "The ClusterQueue is stopped")
    job.workload_event("EvictedDueToClusterQueueStopped", "The ClusterQueue is stopped")
    job.shows("Requeued", False, "ClusterQueueStopped", "The ClusterQueue is stopped")
    job.waits("Suspended", f"ClusterQueue {queue.cluster_queue} is inactive")
    queue.edit(stopPolicy="None")
    job.shows("Requeued", True, "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped")
    job.runs()


@covers("L118", "S41")
def test_draining_a_local_queue_does_the_same_for_its_own_jobs(team: Team) -> None:
    queue = team.queue(cpu=3)
    other = team.local_queue("other", queue.cluster_queue)
    mine, theirs = queue.job("mine", stop="3s"), other.job("theirs")
    mine.runs()
    theirs.runs()
    queue.edit_local(stopPolicy="HoldAndDrain")
    mine.is_evicted("LocalQueueStopped", "The LocalQueue is stopped")
    queue.local_says("Active", False, "Stopped", "LocalQueue is stopped")
    mine.shows("Requeued", False, "LocalQueueStopped", "The LocalQueue is stopped")
    mine.waits("Suspended", "LocalQueue main is inactive")
    queue.local_has_status(pendingWorkloads=0, admittedWorkloads=0)
    theirs.stays(0.5)
    queue.edit_local(stopPolicy="None")
    mine.shows("Requeued", True, "LocalQueueRestarted", "The LocalQueue was restarted after being stopped")
    mine.runs()


@pytest.mark.ours("in Kueue the one that waits in the other LocalQueue is not tried again")
@covers("L119")
def test_a_job_that_ends_in_a_stopped_local_queue_makes_room_for_the_others(team: Team) -> None:
    stopped = team.queue("stopped", cpu=1)
    other = team.local_queue("other", stopped.cluster_queue)
    running = stopped.job("running")
    running.runs()
    waiting = other.job("waiting")
    waiting.waits("WaitingForQuota")
    stopped.edit_local(stopPolicy="Hold")
    stopped.local_says("Active", False, "Stopped", "LocalQueue is stopped")
    running.ends()
    waiting.runs()


@covers("L120")
def test_deleting_a_local_queue_lets_what_runs_run(team: Team) -> None:
    check = team.check("slow")
    queue = team.queue(cpu=2, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    running, reserved = queue.job("running"), queue.job("reserved")
    running.shows("QuotaReserved", True)
    running.set_check(check, "Ready")
    running.runs()
    reserved.shows("QuotaReserved", True)
    team.client.delete("LocalQueue", "main", team.namespace)
    reserved.waits("Misconfigured", "LocalQueue main doesn't exist")
    running.stays(0.5)
    queue.uses(reserved=1, used=1)


@covers("L121")
def test_a_deleted_cluster_queue_waits_for_what_runs_in_it(team: Team) -> None:
    queue = team.queue(cpu=2)
    running = queue.job("running")
    running.runs()
    team.client.delete("ClusterQueue", queue.cluster_queue)
    queue.says("Active", False, "Terminating", "Can't admit new workloads; clusterQueue is terminating")
    late = queue.job("late")
    late.waits("Suspended", f"ClusterQueue {queue.cluster_queue} is inactive")
    running.stays(0.5)
    running.ends()
    running.finishes()
    team.client.wait_gone("ClusterQueue", queue.cluster_queue)
    late.waits("Misconfigured", f"ClusterQueue {queue.cluster_queue} doesn't exist")


@covers("L122")
def test_a_deleted_cluster_queue_with_nothing_but_reservations_goes_at_once(team: Team) -> None:
    check = team.check("slow")
    queue = team.queue(cpu=2, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    job = queue.job("one")
    job.shows("QuotaReserved", True)
    team.client.delete("ClusterQueue", queue.cluster_queue)
    team.client.wait_gone("ClusterQueue", queue.cluster_queue)
    if team.on_kueue:  # which of its three texts is the last one depends on who comes first
        job.shows("QuotaReserved", False)
    else:
        job.waits("Misconfigured", f"ClusterQueue {queue.cluster_queue} doesn't exist")


@covers("L123")
def test_a_quota_lowered_under_its_use_evicts_nobody_and_counts_as_borrowed(team: Team) -> None:
    cohort = team.own("all")
    queue = team.queue(cpu=3, cohortName=cohort)
    job = queue.job("one", cpu=3)
    job.runs()
    queue.set_quota(1)
    tree = team.client.wait_for(
        "ClusterQueue",
        queue.cluster_queue,
        until=lambda tree: tree["status"]["flavorsUsage"][0]["resources"][0].get("borrowed") == "2",
        what="2 borrowed",
    )
    assert tree["status"]["flavorsUsage"][0]["resources"][0]["total"] == "3"
    job.stays(0.5)
    late = queue.job("late")
    late.waits("WaitingForQuota")


def test_a_raised_quota_lets_in_what_waits(team: Team) -> None:
    queue = team.queue(cpu=1)
    queue.job("first").runs()
    second = queue.job("second")
    second.waits("WaitingForQuota")
    queue.set_quota(2)
    second.runs()


def test_a_queue_that_joins_a_cohort_may_borrow_from_then_on(team: Team) -> None:
    cohort = team.own("all")
    team.queue("rich", cpu=2, cohortName=cohort)
    poor = team.queue("poor", cpu=1)
    job = poor.job("one", cpu=2)
    job.waits("ExceedsMaxQuota")
    poor.edit(cohortName=cohort)
    job.runs()
    poor.has_status(admittedWorkloads=1)


@covers("L124")
def test_a_flavor_in_use_stays_until_no_queue_names_it(team: Team) -> None:
    queue = team.queue(cpu=1)
    flavor = team.own("default")
    team.client.delete("ResourceFlavor", flavor)
    team.sleep(0.5)
    assert "deletionTimestamp" in team.get("ResourceFlavor", flavor)["metadata"]
    queue.job("one").runs()
    other = team.flavor("other")
    groups = team.get("ClusterQueue", queue.cluster_queue)["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["name"] = other
    queue.edit(resourceGroups=groups)
    team.client.wait_gone("ResourceFlavor", flavor)


@covers("L103")
def test_a_check_in_use_stays_until_no_queue_names_it(team: Team) -> None:
    check = team.check("slow")
    queue = team.queue(cpu=1, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    team.eventually(lambda: bool(team.get("AdmissionCheck", check)["metadata"].get("finalizers")), "it is held on to")
    team.client.delete("AdmissionCheck", check)
    team.sleep(0.5)
    assert "deletionTimestamp" in team.get("AdmissionCheck", check)["metadata"]
    queue.edit(admissionChecksStrategy=None)
    team.client.wait_gone("AdmissionCheck", check)


@covers("L125")
def test_edited_taints_of_a_flavor_are_judged_anew_for_those_that_wait(team: Team) -> None:
    taint = {"key": "dirty", "value": "yes", "effect": "NoSchedule"}
    flavor = team.flavor("tainted", nodeTaints=[taint])
    queue = team.queue(flavors={flavor: {"cpu": 2}})
    job = queue.job("one")
    tree = job.waits("NoMatchingFlavor")
    assert "untolerated taint" in condition(tree, "QuotaReserved")["message"]
    team.client.patch("ResourceFlavor", flavor, {"spec": {"nodeTaints": []}})
    job.runs()
    team.client.patch("ResourceFlavor", flavor, {"spec": {"nodeTaints": [taint]}})
    job.stays(1)


@covers("L126")
def test_the_status_of_a_queue_is_written_seldom_and_is_exact_in_the_end(team: Team) -> None:
    queue = team.queue(cpu=10)
    with team.recorded("ClusterQueue") as versions:
        jobs = [queue.job(f"job-{number}") for number in range(10)]
        for job in jobs:
            job.runs()
        queue.has_status(pendingWorkloads=0, reservingWorkloads=10, admittedWorkloads=10)
    queue.local_has_status(pendingWorkloads=0, reservingWorkloads=10, admittedWorkloads=10)
    # One for each second of the burst, and not three for each job.
    assert 2 <= len(versions[queue.cluster_queue]) <= 15


def test_a_local_queue_reports_its_own_part_of_the_usage(team: Team) -> None:
    queue = team.queue(cpu=4)
    other = team.local_queue("other", queue.cluster_queue)
    queue.job("mine", cpu=1).runs()
    other.job("theirs", cpu=2).runs()
    usage = [{"name": team.own("default"), "resources": [{"name": "cpu", "total": "2"}]}]
    other.local_has_status(
        reservingWorkloads=1, admittedWorkloads=1, pendingWorkloads=0, flavorsReservation=usage, flavorsUsage=usage
    )
    queue.uses(reserved=3, used=3)


def test_the_cluster_queue_of_a_local_queue_cannot_be_changed(team: Team) -> None:
    queue = team.queue(cpu=1)
    with pytest.raises(ApiError, match="field is immutable"):
        queue.edit_local(clusterQueue="other")
