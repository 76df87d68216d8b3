"""What becomes of a Job whose pods are not ready, and when is it tried again? (KEP-349, KEP-1282)"""

from datetime import datetime

import pytest

from tests.e2e.job import Job
from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import Late, Tree, condition

TIMEOUT = 8
"""Seconds for pods to be ready; a busy machine needs several of them."""
BASE = 3
pytestmark = pytest.mark.manager(
    config={
        "waitForPodsReady": {
            "timeout": f"{TIMEOUT}s",
            "recoveryTimeout": f"{TIMEOUT}s",
            "requeuingStrategy": {"backoffBaseSeconds": BASE, "timestamp": "Eviction"},
        }
    }
)
ALL_READY = "All pods reached readiness and the workload is running"
NOT_READY = "Not all pods are ready or succeeded"
LOST = "At least one pod has failed, waiting for recovery"


def seconds(tree: Tree, type_: str) -> float:
    return instant_of(condition(tree, type_)["lastTransitionTime"])


def instant_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def is_ready(job: Job, reason: str = "Started") -> Tree:
    return job.shows("PodsReady", True, reason, ALL_READY)


@covers("L2")
def test_a_job_shows_that_it_waits_for_its_start_before_it_holds_any_quota(team: Team) -> None:
    queue = team.queue(cpu=1)
    queue.job("running").runs()
    waiting = queue.job("waiting")
    tree = waiting.shows("PodsReady", False, "WaitForStart", NOT_READY)
    assert condition(tree, "QuotaReserved").get("status") != "True"


@covers("L21", "L22", "L26", "KEP349-18", "KEP1282-12", "KEP1282-20")
def test_a_job_that_is_never_ready_is_evicted_and_comes_back_after_its_backoff(team: Team) -> None:
    queue = team.queue(cpu=1)
    with team.recorded() as versions:
        job = queue.job("never", ready="never")
        began = seconds(job.runs(), "Admitted")
        message = f"Exceeded the PodsReady timeout {team.namespace}/{job.workload_name}"
        tree = job.is_evicted("PodsReadyTimeout", message)
        assert tree["status"]["requeueState"]["count"] == 1
        assert TIMEOUT - 1 <= seconds(tree, "Evicted") - began <= TIMEOUT + 2
        wait = instant_of(tree["status"]["requeueState"]["requeueAt"]) - seconds(tree, "Evicted")
        assert BASE - 1 <= wait <= BASE + 1
        job.workload_event("EvictedDueToPodsReadyTimeout", message)
        job.event("Stopped", message)
        job.shows("Requeued", False, "PodsReadyTimeout", message)
        job.is_suspended()
        job.shows("Requeued", True, "BackoffFinished", "The workload backoff was finished")
        job.shows("Evicted", False, "QuotaReserved", f"Previously: {message}")
        job.runs()
        tree = job.is_evicted("PodsReadyTimeout", message)
        assert tree["status"]["requeueState"]["count"] == 2
        wait = instant_of(tree["status"]["requeueState"]["requeueAt"]) - seconds(tree, "Evicted")
        assert 2 * BASE - 1 <= wait <= 2 * BASE + 1
    # Where there is room at the end of the backoff, one write may say both that it is over and that quota is reserved.
    seen = [step for step in steps(versions[job.workload_name]) if step != "requeueAt cleared, Requeued True"]
    assert seen[:5] == [
        "reserved",
        "evicted, requeueAt set",
        "released, Requeued False",
        "reserved",
        "evicted, requeueAt set",
    ]


def steps(versions: list[Tree]) -> list[str]:
    """What a workload went through, one word for each state that was seen, repetitions left out."""
    told: list[str] = []
    for tree in versions:
        status = tree.get("status", {})
        reserved = condition(tree, "QuotaReserved").get("status") == "True"
        evicted = condition(tree, "Evicted").get("status") == "True"
        requeued = condition(tree, "Requeued").get("status")
        due = "requeueAt" in status.get("requeueState", {})
        if reserved and evicted:
            word = f"evicted, requeueAt {'set' if due else 'missing'}"
        elif reserved:
            word = "reserved"
        elif due:
            word = f"released, Requeued {requeued}"
        elif requeued == "True":
            word = "requeueAt cleared, Requeued True"
        else:
            continue
        if told[-1:] != [word]:
            told.append(word)
    return told


@covers("L48")
def test_evictions_are_counted_by_reason_and_cause(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("never", ready="never")
    tree = job.until(
        lambda tree: (
            tree.get("status", {}).get("schedulingStats", {}).get("evictions")
            == [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 2}]
        ),
        "two evictions counted",
        40,
    )
    assert tree["status"]["requeueState"]["count"] == 2
    if not team.on_kueue:  # whose metrics need files that only its own image has
        labels = {"cluster_queue": queue.cluster_queue, "reason": "PodsReadyTimeout"}
        assert team.metric("kueue_evicted_workloads_total", **labels) == 2
        assert team.metric("kueue_evicted_workloads_once_total", **labels) == 1
        assert team.metric("pykueue_lost_work_seconds_total", **labels) > 0
        assert team.metric("pykueue_wait_seconds_total", cluster_queue=queue.cluster_queue) > 0
        assert team.metric("pykueue_api_writes_total", kind="Workload", verb="patch", result="ok") > 0
        assert team.metric("pykueue_leading") == 1


@covers("L31")
def test_a_ready_job_that_is_evicted_waits_for_its_start_again(team: Team) -> None:
    job = team.queue(cpu=1).job("one")
    is_ready(job)
    with team.recorded() as versions:
        job.set_active(False)
        job.waits("Deactivated")
        job.shows("PodsReady", False, "WaitForStart", NOT_READY)
    reasons = [condition(tree, "PodsReady")["reason"] for tree in versions[job.workload_name]]
    assert reasons[-1] == "WaitForStart"
    assert set(reasons) <= {"Started", "WaitForRecovery", "WaitForStart"}


@covers("L27", "KEP349-4", "KEP349-9", "KEP349-11")
def test_a_job_that_loses_a_pod_and_gets_it_back_in_time_goes_on(team: Team) -> None:
    job = team.queue(cpu=2).job("one", pods=2)
    is_ready(job)
    job.pods_do("unready", 1)
    job.shows("PodsReady", False, "WaitForRecovery", LOST)
    job.pods_do("ready", 1)
    is_ready(job, "Recovered")
    job.pods_do("unready", 1)
    job.shows("PodsReady", False, "WaitForRecovery", LOST)
    job.pods_do("ready", 1)
    is_ready(job, "Recovered")
    assert not condition(job.workload(), "Evicted")


@covers("L28", "L30", "KEP349-2", "KEP349-8", "KEP349-19", "KEP349-23")
def test_a_failed_pod_whose_replacement_never_runs_costs_the_job_its_place(team: Team) -> None:
    node = team.node("only", {"pool": team.name})
    flavor = team.flavor("pool", {"pool": team.name})
    queue = team.queue(flavors={flavor: {"cpu": 2}})
    job = queue.job("one", pods=2)
    is_ready(job)
    team.client.patch("Node", node, {"spec": {"unschedulable": True}})
    job.pods_do("failed", 1)
    lost = job.shows("PodsReady", False, "WaitForRecovery", LOST)
    tree = job.is_evicted("PodsReadyTimeout")
    assert TIMEOUT - 1 <= seconds(tree, "Evicted") - seconds(lost, "PodsReady") <= TIMEOUT + 2
    assert tree["status"]["schedulingStats"]["evictions"] == [
        {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForRecovery", "count": 1}
    ]
    job.shows("PodsReady", False, "WaitForStart", NOT_READY)
    team.client.patch("Node", node, {"spec": {"unschedulable": False}})
    tree = job.runs()
    assert tree["status"]["admission"]["clusterQueue"] == queue.cluster_queue
    is_ready(job)


@covers("L32", "KEP349-5")
def test_pods_that_succeeded_count_as_ready_ones(team: Team) -> None:
    job = team.queue(cpu=2).job("one", pods=2)
    with team.recorded() as versions:
        is_ready(job)
        job.pods_do("succeeded", 1)
        team.client.wait_for("Job", "one", team.namespace, lambda tree: tree["status"].get("succeeded") == 1)
        job.stays(1.0)
        job.ends()
        job.finishes()
    reasons = [condition(tree, "PodsReady").get("reason") for tree in versions[job.workload_name]]
    assert "WaitForRecovery" not in reasons


@covers("L33", "KEP1282-5")
def test_by_eviction_time_a_job_goes_behind_those_that_waited(team: Team) -> None:
    queue = team.queue(cpu=1)
    first = queue.job("first", ready="never")
    first.runs()
    second = queue.job("second", cpu="0.9")
    second.waits("WaitingForQuota")
    first.is_evicted("PodsReadyTimeout")
    second.runs()
    first.shows("Requeued", True, "BackoffFinished")
    first.waits("WaitingForQuota")


@covers("L37")
def test_no_timeout_evicts_what_is_finished_or_deactivated(team: Team) -> None:
    queue = team.queue(cpu=2)
    done, idle = queue.job("done"), queue.job("idle", ready="never")
    done.runs()
    done.ends()
    done.finishes()
    idle.runs()
    idle.set_active(False)
    idle.is_evicted("Deactivated", "The workload is deactivated")
    team.sleep(TIMEOUT + 1)
    assert not condition(done.workload(), "Evicted")
    assert condition(idle.workload(), "Evicted")["reason"] == "Deactivated"
    assert "requeueState" not in idle.workload()["status"]


@covers("L38")
def test_a_job_deactivated_during_its_backoff_forgets_it(team: Team) -> None:
    job = team.queue(cpu=1).job("never", ready="never")
    job.is_evicted("PodsReadyTimeout")
    job.shows("Requeued", False, "PodsReadyTimeout")
    job.set_active(False)
    tree = job.waits("Deactivated", "The workload is deactivated")
    assert condition(tree, "Evicted")["reason"] == "PodsReadyTimeout"
    job.until(lambda tree: not tree["status"].get("requeueState"), "no requeue state")
    job.set_active(True)
    job.shows("Requeued", True, "BackoffFinished", "The workload backoff was finished")
    job.runs()


@covers("L62")
def test_an_admitted_job_that_its_user_suspends_is_started_again(team: Team) -> None:
    job = team.queue(cpu=1).job("one")
    is_ready(job)
    before = {pod["metadata"]["uid"] for pod in job.pods()}
    with team.recorded() as versions:
        job.patch({"spec": {"suspend": True}})
        job.runs()
        job.until(lambda tree: len(team.events(job.name, "Started")) + repeats(team, job) >= 2, "a second Started")
        try:
            is_ready(job, "Recovered")
        except Late:
            # We may be so fast that the Job controller never sees the Job suspended; then its pods run on.
            assert {pod["metadata"]["uid"] for pod in job.pods()} == before
            return
    reasons = [condition(tree, "PodsReady").get("reason") for tree in versions[job.workload_name]]
    assert "WaitForRecovery" in reasons
    assert not condition(job.workload(), "Evicted")


def repeats(team: Team, job: Job) -> int:
    """How often the newest Started event has been repeated."""
    return sum((tree.get("series") or {}).get("count", 1) - 1 for tree in team.events(job.name, "Started"))


@covers("KEP349-10", "KEP349-22")
def test_a_job_that_fails_and_recovers_for_ever_is_ended_by_its_maximum_run_time(team: Team) -> None:
    job = team.queue(cpu=2).job("loop", pods=2, labels={"kueue.x-k8s.io/max-exec-time-seconds": "30"})
    is_ready(job)
    for _ in range(2):
        job.pods_do("unready", 1)
        job.shows("PodsReady", False, "WaitForRecovery")
        job.pods_do("ready", 1)
        is_ready(job, "Recovered")
    assert not condition(job.workload(), "Evicted")
    job.is_evicted(
        "DeactivatedDueToMaximumExecutionTimeExceeded",
        "The workload is deactivated due to exceeding the maximum execution time",
    )
    job.is_suspended()


@covers("KEP349-7")
def test_the_start_timeout_counts_from_the_admission_of_the_workload(team: Team) -> None:
    check = team.check("slow")
    queue = team.queue(cpu=1, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    job = queue.job("one", ready="never")
    job.shows("QuotaReserved", True)
    team.sleep(TIMEOUT + 1)
    assert not condition(job.workload(), "Evicted")
    job.set_check(check, "Ready")
    began = seconds(job.runs(), "Admitted")
    tree = job.is_evicted("PodsReadyTimeout")
    assert seconds(tree, "Evicted") - began >= TIMEOUT - 1


def test_the_reason_of_older_versions_counts_as_waiting_for_the_start(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("never", ready="never")
    job.runs()
    tree = job.until(lambda tree: bool(condition(tree, "PodsReady")), "a PodsReady condition")
    older = {**condition(tree, "PodsReady"), "reason": "PodsReady"}
    rest = [one for one in tree["status"]["conditions"] if one["type"] != "PodsReady"]
    team.client.patch(
        "Workload",
        tree["metadata"]["name"],
        {"status": {"conditions": [*rest, older]}},
        team.namespace,
        subresource="status",
    )
    job.is_evicted("PodsReadyTimeout")
    tree = job.workload()
    assert tree["status"]["schedulingStats"]["evictions"][0]["underlyingCause"] == "WaitForStart"
