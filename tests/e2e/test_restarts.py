"""What does the manager find again when it comes back, and what does it leave alone?"""

import pytest

from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import condition

pytestmark = [
    pytest.mark.manager(none=True, alone=True),
    pytest.mark.ours("it is about our own process"),
]


def test_a_restart_restarts_no_job_and_loses_none(team: Team) -> None:
    with team.backend.manager() as manager:
        queue = team.queue(cpu=1)
        running = queue.job("running")
        running.runs()
        waiting = queue.job("waiting")
        waiting.waits("WaitingForQuota")
        waiting.shows("PodsReady", False, "WaitForStart")
        manager.stop()
    before = waiting.workload()["metadata"]["resourceVersion"]
    with team.backend.manager():
        running.stays(1)
        # A workload that keeps waiting for the same reason costs no write.
        assert waiting.workload()["metadata"]["resourceVersion"] == before
        running.ends()
        waiting.runs()


def test_a_job_that_ends_while_nobody_looks_is_finished_at_the_next_start(team: Team) -> None:
    with team.backend.manager() as manager:
        queue = team.queue(cpu=1)
        running = queue.job("running")
        running.runs()
        waiting = queue.job("waiting")
        waiting.waits("WaitingForQuota")
        manager.kill()
    running.ends()
    team.client.wait_for("Job", "running", team.namespace, lambda job: job["status"].get("succeeded") == 1)
    with team.backend.manager():
        running.finishes()
        waiting.runs()


def test_a_job_whose_forerunner_ends_while_nobody_looks_starts_at_the_next_start(team: Team) -> None:
    gate = {"kueue.x-k8s.io/admission-gated-by": "pykueue.io/dependencies"}
    with team.backend.manager() as manager:
        queue = team.queue(cpu=4)
        first = queue.job("first")
        first.runs()
        waiting = queue.job("waiting", annotations={**gate, "pykueue.io/after-ok": "first"})
        timed = queue.job("timed", annotations={**gate, "pykueue.io/begin": "2999-01-01T00:00:00Z"})
        waiting.waits("AdmissionGated")
        manager.kill()
    first.ends()
    team.client.wait_for("Job", "first", team.namespace, lambda job: job["status"].get("succeeded") == 1)
    with team.backend.manager():
        waiting.runs()
        timed.never_runs(0.5)


@covers("L39")
def test_a_restart_in_the_middle_of_a_backoff_keeps_the_backoff(team: Team) -> None:
    config = {"waitForPodsReady": {"timeout": "3s", "requeuingStrategy": {"backoffBaseSeconds": 8}}}
    with team.backend.manager(config) as manager:
        queue = team.queue(cpu=1)
        job = queue.job("never", ready="never")
        job.is_evicted("PodsReadyTimeout")
        job.shows("Requeued", False, "PodsReadyTimeout")
        due = job.workload()["status"]["requeueState"]["requeueAt"]
        manager.stop()
    with team.backend.manager(config):
        team.queue("other", cpu=1).job("other").runs()
        tree = job.workload()
        assert tree["status"]["requeueState"]["requeueAt"] == due
        assert condition(tree, "QuotaReserved")["status"] == "False"
        job.shows("Requeued", True, "BackoffFinished")
        job.runs()


@covers("L58")
def test_the_time_that_a_finished_workload_is_kept_goes_on_over_a_restart(team: Team) -> None:
    config = {"objectRetentionPolicies": {"workloads": {"afterFinished": "5s"}}}
    with team.backend.manager(config) as manager:
        job = team.queue(cpu=1).job("one")
        job.runs()
        job.ends()
        name = job.finishes()["metadata"]["name"]
        began = team.backend.now()
        manager.stop()
    with team.backend.manager(config):
        team.get("Workload", name, team.namespace)
        team.client.wait_gone("Workload", name, team.namespace)
        assert 3 <= team.backend.now() - began <= 9


def test_a_part_that_is_turned_off_leaves_the_rest_at_work(team: Team) -> None:
    with team.backend.manager() as manager:
        queue = team.queue(cpu=1)
        manager.stop()
    with team.backend.manager(without="scheduling"):
        job = queue.job("one")
        job.workload()
        job.never_runs(1)
        assert condition(job.workload(), "QuotaReserved").get("status") != "True"
    with team.backend.manager():
        job.runs()


@pytest.mark.manager(none=True, alone=True)
def test_without_scheduling_all_but_admission_and_preemption_goes_on(team: Team) -> None:
    patient = {"waitForPodsReady": {"timeout": "5m", "requeuingStrategy": {"backoffBaseSeconds": 1}}}
    waiting = {"waitForPodsReady": {"timeout": "4s", "requeuingStrategy": {"backoffBaseSeconds": 1}}}
    check = team.check("slow")
    high = team.priority("high", 10)
    with team.backend.manager(patient):
        queue = team.queue("main", cpu=3, preemption={"withinClusterQueue": "LowerPriority"})
        checked = team.queue("checked", cpu=1, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
        reserved = checked.job("reserved")
        reserved.shows("QuotaReserved", True)
        stays = queue.job("stays")
        stays.runs()
        idle = queue.job("idle")
        idle.runs()
        slow = queue.job("slow", ready="never")
        slow.runs()
        for ready in (stays, idle):
            ready.shows("PodsReady", True)
        queue.has_status(admittedWorkloads=3)
    with team.backend.manager(waiting, without="scheduling"):
        # What Kueue's workload controller does.
        reserved.set_check(check, "Ready")
        reserved.runs()
        idle.set_active(False)
        idle.is_evicted("Deactivated")
        idle.is_suspended()
        slow.is_evicted("PodsReadyTimeout")
        slow.is_suspended()
        slow.shows("Requeued", True, "BackoffFinished")
        # What its queue controllers do.
        queue.has_status(admittedWorkloads=1, reservingWorkloads=1, pendingWorkloads=1)
        queue.edit(stopPolicy="Hold")
        queue.says("Active", False, "Stopped", "Can't admit new workloads: is stopped.")
        queue.edit(stopPolicy="None")
        queue.says("Active", True, "Ready", "Can admit new workloads")
        # What its scheduler does.
        urgent = queue.job("urgent", pods=3, priority=high)
        queue.has_status(admittedWorkloads=1, pendingWorkloads=2)
        urgent.never_runs(2)
        stays.stays()
    with team.backend.manager(patient):
        urgent.runs()
        stays.is_evicted("Preempted")
