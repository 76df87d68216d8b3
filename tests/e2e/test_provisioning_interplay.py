"""What becomes of a request when its Job is preempted, put back, shrunk or timed out, and of the quota meanwhile?"""

import pytest

from tests.e2e.capacity import CLASS, REQUEST, Capacity
from tests.e2e.job import KUEUE, QUEUE
from tests.e2e.team import Queue, Team
from tests.facts import covers
from tests.plane.client import Tree, condition

QUICK = {"backoffBaseSeconds": 1, "backoffLimitCount": 1}
BACKOFF = 3
TIMED = pytest.mark.manager(
    config={
        "waitForPodsReady": {
            "timeout": "3s",
            "requeuingStrategy": {"backoffBaseSeconds": BACKOFF, "timestamp": "Eviction"},
        }
    }
)
KEEPS = pytest.mark.manager(gates={"KeepQuotaForProvReqRetry": True})
KEEPS_REQUESTS = pytest.mark.manager(gates={"CleanupProvisioningRequestsOnEviction": False})


# Preemption and deactivation.


@covers("KEP1136-10")
@pytest.mark.parametrize("granted", [False, True], ids=["while it waits", "while it runs"])
def test_a_preempted_job_leaves_no_request_and_must_ask_again(team: Team, granted: bool) -> None:
    capacity = Capacity(team)
    queue = capacity.queue(cpu=1, preemption={"withinClusterQueue": "LowerPriority"})
    low = queue.job("low", priority=team.priority("low", 1))
    first = capacity.request(low)
    if granted:
        capacity.provides(low)
        low.runs()
    high = queue.job("high", priority=team.priority("high", 9))
    low.is_evicted("Preempted")
    low.is_suspended()
    capacity.request(high)
    team.eventually(lambda: capacity.requests() == [capacity.name(high)], "only the request of the winner is left")
    capacity.provides(high)
    high.runs()
    high.ends()
    high.finishes()
    again = capacity.request(low, other_than=first["metadata"]["uid"])
    assert again["metadata"]["name"] == first["metadata"]["name"]
    low.check_is(capacity.check, "Pending")
    low.never_runs(0.5)
    capacity.provides(low)
    low.runs()


def test_a_job_that_is_set_aside_while_it_waits_asks_again_when_it_is_back(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    first = capacity.request(job)
    job.set_active(False)
    job.waits("Deactivated")
    capacity.nothing_is_left()
    job.set_active(True)
    capacity.request(job, other_than=first["metadata"]["uid"])
    capacity.provides(job)
    job.runs()


# The clock of the pods.


@TIMED
@covers("KEP1136-14")
def test_the_clock_of_the_pods_starts_at_admission(team: Team) -> None:
    capacity = Capacity(team)
    queue = capacity.queue(cpu=1)
    job = queue.job("one", ready="never")
    first = capacity.request(job)
    team.sleep(4)
    assert condition(job.workload(), "Evicted").get("status") != "True"
    # Another takes the quota at the eviction: the job cannot ask again before it is looked at, however slow that is.
    other = queue.job("other")
    capacity.provides(job)
    job.runs()
    job.is_evicted("PodsReadyTimeout")
    capacity.request(other)
    team.eventually(lambda: capacity.requests() == [capacity.name(other)], "the request of the evicted job is gone")
    job.shows("Requeued", True, "BackoffFinished")
    other.delete()
    again = capacity.request(job, other_than=first["metadata"]["uid"])
    assert again["metadata"]["name"] == first["metadata"]["name"]
    assert job.workload()["status"]["requeueState"]["count"] == 1


# How many pods.


def test_a_job_that_gets_a_part_of_its_quota_asks_for_that_part(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=3).job("one", pods=5, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    (asked,) = capacity.request(job)["spec"]["podSets"]
    assert asked["count"] == 3
    capacity.provides(job)
    job.runs(pods=3)


def test_pods_that_are_done_give_back_quota_and_leave_the_request_alone(team: Team) -> None:
    capacity = Capacity(team)
    queue = capacity.queue(cpu=3)
    first = queue.job("first", pods=3)
    capacity.provides(first)
    first.runs()
    before = capacity.request(first)
    second = queue.job("second")
    second.waits("WaitingForQuota")
    team.eventually(lambda: all(one.get("status", {}).get("phase") == "Running" for one in first.pods()), "all run")
    first.pods_do("succeeded", 1)
    (asked,) = capacity.request(second)["spec"]["podSets"]
    assert asked["count"] == 1
    assert capacity.request(first)["metadata"]["uid"] == before["metadata"]["uid"]
    first.ends()
    first.finishes()


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        pytest.param(None, [("head", 1), ("tail", 2), ("odd", 1)], id="each for itself"),
        pytest.param("IdenticalPodTemplates", [("head", 1), ("tail", 2), ("odd", 1)], id="none are the same"),
        pytest.param("IdenticalWorkloadSchedulingRequirements", [("head", 3), ("odd", 1)], id="two are alike"),
    ],
)
def test_pod_sets_are_asked_for_together_where_they_can_be(
    team: Team, policy: str | None, asked: list[tuple[str, int]]
) -> None:
    capacity = Capacity(team)
    capacity.configure(podSetMergePolicy=policy)
    queue = capacity.queue(cpu=9)
    # Containers of different names are no identical templates, and need the same nodes.
    name = workload(team, queue, [("head", 1, "a", "1"), ("tail", 2, "b", "1"), ("odd", 1, "a", "2")])
    request = team.client.wait_for(REQUEST, f"{name}-{capacity.check}-1", team.namespace)
    listed = [(one["podTemplateRef"]["name"], one["count"]) for one in request["spec"]["podSets"]]
    assert listed == [(f"ppt-{name}-{capacity.check}-1-{pod_set}", count) for pod_set, count in asked]
    assert capacity.templates() == sorted(template for template, _ in listed)
    capacity.write(request, "Provisioned")
    tree = team.client.wait_for(
        "Workload", name, team.namespace, lambda tree: condition(tree, "Admitted").get("status") == "True"
    )
    given = tree["status"]["admissionChecks"][0]["podSetUpdates"]
    assert [one["name"] for one in given] == ["head", "tail", "odd"]
    assert {one["annotations"]["autoscaling.x-k8s.io/provisioning-class-name"] for one in given} == {CLASS}


def workload(team: Team, queue: Queue, pods: list[tuple[str, int, str, str]]) -> str:
    """A Workload of no job; its pod sets by name, count, name of their container, and cpu."""
    pod_sets = [
        {
            "name": name,
            "count": count,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": container, "image": "none", "resources": {"requests": {"cpu": cpu}}}],
                }
            },
        }
        for name, count, container, cpu in pods
    ]
    tree: Tree = {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": "by-hand", "namespace": team.namespace, "labels": {QUEUE: queue.name}},
        "spec": {"queueName": queue.name, "podSets": pod_sets},
    }
    team.create(tree)
    return "by-hand"


# Quota and requests between attempts.


@covers("KEP1136-3", "KEP1136-4")
def test_between_attempts_others_may_have_the_quota(team: Team) -> None:
    capacity = Capacity(team, retryStrategy={"backoffBaseSeconds": 8, "backoffLimitCount": 3})
    queue = capacity.queue(cpu=1)
    job = queue.job("one")
    capacity.request(job)
    other = queue.job("other")
    other.waits("WaitingForQuota")
    with team.recorded() as versions:
        capacity.says(job, "Failed", "no room")
        job.is_evicted("AdmissionCheck")
        capacity.request(other)
        queue.uses(reserved=1)
        job.shows("Requeued", True, "BackoffFinished")
    assert any("requeueAt" in tree["status"].get("requeueState", {}) for tree in versions[job.workload_name])
    other.delete()
    capacity.provides(job, attempt=2)
    job.runs()


@KEEPS
@covers("KEP1136-9")
def test_with_its_gate_a_job_keeps_its_quota_between_attempts(team: Team) -> None:
    capacity = Capacity(team, retryStrategy={"backoffBaseSeconds": 8, "backoffLimitCount": 1})
    queue = capacity.queue(cpu=1)
    job = queue.job("one")
    capacity.request(job)
    with team.recorded() as versions:
        capacity.says(job, "Failed", "no room")
        job.check_is(capacity.check, "Pending", "Retrying after failure: no room")
        assert capacity.requests() == [capacity.name(job)]
        other = queue.job("other")
        other.waits("WaitingForQuota")
        capacity.request(job, attempt=2)
        team.eventually(lambda: capacity.requests() == [capacity.name(job, 2)], "the first attempt is gone")
    held = [condition(tree, "QuotaReserved").get("status") for tree in versions[job.workload_name]]
    assert set(held) == {"True"}
    capacity.says(job, "Failed", "still no room", attempt=2)
    job.is_evicted("DeactivatedDueToAdmissionCheck")
    capacity.request(other)


@KEEPS_REQUESTS
def test_with_its_gate_off_a_request_outlives_an_eviction_until_there_is_another(team: Team) -> None:
    capacity = Capacity(team, retryStrategy={"backoffBaseSeconds": 8, "backoffLimitCount": 1})
    job = capacity.queue(cpu=1).job("one")
    before = capacity.request(job)
    capacity.says(job, "Failed", "no room")
    job.is_evicted("AdmissionCheck")
    job.shows("QuotaReserved", False)
    assert capacity.request(job)["metadata"]["uid"] == before["metadata"]["uid"]
    capacity.request(job, attempt=2)
    team.eventually(lambda: capacity.requests() == [capacity.name(job, 2)], "the first attempt is gone")
    capacity.provides(job, attempt=2)
    job.runs()
