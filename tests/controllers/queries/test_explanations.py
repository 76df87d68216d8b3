"""Who answers for an explanation, about what, and in whose words?"""

from typing import Any

import pytest

from pykueue.controllers.cluster import Cluster
from pykueue.controllers.queries.explanations import Explanations
from pykueue.controllers.scheduling import Pump
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Leading, Synced
from pykueue.kube.aggregated import AggregatedCall, AggregatedError
from pykueue.kube.port import JOBS
from pykueue.testing.kueue import ApiError, Kueue
from tests.builders import cluster_queue, job, local_queue, pod_spec
from tests.controllers.queries.callers import Reader

ROOT = "/apis/query.pykueue.io/v1alpha1"
FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}


class Follower:
    """What the handlers need of a Pump that does not lead."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.engine.observe(Synced())
        self.engine.observe(Leading(False))


@pytest.mark.parametrize("handler", ["of_workload", "of_local_queue", "of_queue"])
async def test_a_follower_says_so(handler: str) -> None:
    def nothing() -> Cluster:
        raise AssertionError("nobody who may not answer reads the cluster")

    def pump() -> Pump:
        return Follower()  # type: ignore[return-value]  # only its engine is read

    call = AggregatedCall("v1alpha1", "workloads/explanations", "lab", "x", Reader())
    with pytest.raises(AggregatedError) as caught:
        await getattr(Explanations(nothing, pump), handler)(call)
    assert (caught.value.code, "does not lead" in caught.value.message) == (503, True)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("namespaces/default/workloads/none", 'workloads.kueue.x-k8s.io "none" not found'),
        ("namespaces/default/localqueues/none", 'localqueues.kueue.x-k8s.io "none" not found'),
        ("clusterqueues/none", 'clusterqueues.kueue.x-k8s.io "none" not found'),
    ],
)
def test_what_does_not_exist_is_not_found(kueue: Kueue, path: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        kueue.client.request("GET", f"{ROOT}/{path}/explanations")
    assert (caught.value.code, caught.value.message) == (404, message)


def test_workloads_are_named_by_their_jobs_and_a_finished_one_says_so(kueue: Kueue) -> None:
    kueue.apply(FLAVOR, cluster_queue(cpu="4"), local_queue())
    for name in ("runs", "waits"):
        kueue.job(name, queue="main", cpu=4)

    def ask(job: str) -> dict[str, object]:
        name = kueue.workload(job)["metadata"]["name"]
        found: dict[str, object] = kueue.client.request(
            "GET", f"{ROOT}/namespaces/default/workloads/{name}/explanations"
        )
        return found

    kueue.job("behind", queue="main", cpu=4)
    assert ask("behind")["place"] == {
        "position": 2,
        "total": 2,
        "ahead": {"count": 1, "named": ["Job waits"]},
        "aheadNotFitting": 1,
    }
    queue = kueue.client.request("GET", f"{ROOT}/clusterqueues/main/explanations")
    assert [one["name"] for one in queue["holders"]] == ["Job default/runs"]
    kueue.finish("runs")
    finished = ask("runs")
    assert finished["state"] == "Finished"
    assert [one["kind"] for one in finished["decisions"]] == ["Admit", "Finish"]  # type: ignore[attr-defined]  # JSON


def test_the_deadline_of_a_job_says_how_long_to_wait(kueue: Kueue) -> None:
    kueue.apply(FLAVOR, cluster_queue(cpu="4"), local_queue())
    kueue.apply(job("runs", "main", template={"spec": pod_spec("4")}, activeDeadlineSeconds=600))
    kueue.job("waits", queue="main", cpu=4)
    name = kueue.workload("waits")["metadata"]["name"]
    found = kueue.client.request("GET", f"{ROOT}/namespaces/default/workloads/{name}/explanations")
    ways = [one["text"] for one in found["tree"]["children"][-1]["children"]]
    assert "when Job runs will have ended" in ways[0], ways


def about(kueue: Kueue, job: str) -> Any:
    name = kueue.workload(job)["metadata"]["name"]
    return kueue.client.request("GET", f"{ROOT}/namespaces/default/workloads/{name}/explanations")


def dependent(name: str, **annotations: str) -> Any:
    marks = {f"pykueue.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    marks["kueue.x-k8s.io/admission-gated-by"] = "pykueue.io/dependencies"
    return job(name, metadata={"labels": {"kueue.x-k8s.io/queue-name": "main"}, "annotations": marks})


def test_a_job_that_waits_for_others_says_for_what_and_gets_no_false_remedy(kueue: Kueue) -> None:
    kueue.apply(
        FLAVOR, cluster_queue(), local_queue(), cluster_queue("spare"), local_queue("spare", "default", "spare")
    )
    kueue.job("first", queue="main", cpu=4)
    kueue.apply(dependent("second", after_ok="first"), dependent("later", begin="2035-01-01T00:00:00Z"))
    kueue.apply(dependent("lost", after_ok="nonesuch"))
    kueue.settle()
    texts = {name: about(kueue, name)["tree"]["text"] for name in ("second", "later", "lost")}
    assert texts == {
        "second": "waits for job first to succeed",
        "later": "waits until 2035-01-01T00:00:00Z",
        "lost": "can never start: job nonesuch does not exist",
    }
    found = about(kueue, "second")
    assert "remedies" not in found
    assert "queueObstacle" not in found, "the queue is not at fault"
    assert "canNeverStart" not in found
    assert about(kueue, "lost")["canNeverStart"] is True


def test_another_gate_is_named_and_no_other_queue_is_offered(kueue: Kueue) -> None:
    kueue.apply(
        FLAVOR, cluster_queue(), local_queue(), cluster_queue("spare"), local_queue("spare", "default", "spare")
    )
    gated = dependent("gated")
    gated["metadata"]["annotations"]["kueue.x-k8s.io/admission-gated-by"] = "example.com/gate"
    kueue.apply(gated)
    kueue.settle()
    found = about(kueue, "gated")
    assert found["tree"]["text"] == "waits: it is held back by example.com/gate"
    assert [one["kind"] for one in found["remedies"]] == ["Fix"]


def test_a_held_job_says_who_holds_it_as_long_as_that_is_so(kueue: Kueue) -> None:
    kueue.apply(FLAVOR, cluster_queue(cpu="4"), local_queue())
    kueue.job("train", queue="main", cpu=4)
    kueue.client.patch(JOBS, "train", {"metadata": {"annotations": {"pykueue.io/hold": "true"}}}, "default")
    kueue.advance("1m")
    found = about(kueue, "train")
    by_owner = "held by its owner; `pykueue release` queues it again"
    assert found["tree"]["text"] == f"is {by_owner}"
    assert found["tree"]["children"][1]["text"].endswith(f": {by_owner}")
    texts = {one["kind"]: one["text"] for one in found["decisions"]}
    assert (texts["Evict"], texts["Wait"]) == (f"is evicted: {by_owner}", f"waits: {by_owner}")
    kueue.client.patch(JOBS, "train", {"metadata": {"annotations": {"pykueue.io/hold": None}}}, "default")
    kueue.advance("1m")
    texts = {one["kind"]: one["text"] for one in about(kueue, "train")["decisions"]}
    assert "it is held or deactivated" in texts["Evict"]


def test_a_finished_job_says_how_it_ended(kueue: Kueue) -> None:
    kueue.apply(FLAVOR, cluster_queue(cpu="4"), local_queue())
    kueue.job("good", queue="main", cpu=1)
    kueue.apply(job("bad", "main", backoffLimit=0), job("long", "main", activeDeadlineSeconds=60))
    kueue.advance("30s")
    kueue.finish("good")
    kueue.fail("bad")
    kueue.advance("5m")
    ends = {"good": "it succeeded", "long": "it reached its time limit and was stopped", "bad": "it failed: Job has"}
    for name, end in ends.items():
        found = about(kueue, name)
        (over,) = [one for one in kueue.workload(name)["status"]["conditions"] if one["type"] == "Finished"]
        assert found["since"] == over["lastTransitionTime"] != kueue.workload(name)["metadata"]["creationTimestamp"]
        assert found["tree"]["text"].startswith(f"finished at {found['since']}: {end}")
        last = found["decisions"][-1]
        assert (last["kind"], last["time"]) == ("Finish", found["since"])
        assert last["text"].startswith(f"finishes: {end}")


def test_those_who_were_spared_are_named_to_who_may_list_them(kueue: Kueue) -> None:
    kueue.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}})
    policy = {"withinClusterQueue": "LowerPriority"}
    kueue.apply(FLAVOR, cluster_queue(cpu="4", preemption=policy), local_queue(), local_queue("main", "far", "main"))
    kueue.apply({**FLAVOR, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 9})
    kueue.job("stays", queue="main", cpu=2, namespace="far")
    kueue.job("mine", queue="main", cpu=1)
    kueue.advance("1m")
    kueue.job("victim", queue="main", cpu=1)
    kueue.job("urgent", queue="main", cpu=1, priority="high")
    found = about(kueue, "victim")["eviction"]
    assert (found["preemptor"], found["otherCandidates"]) == ("Job urgent", 2)
    assert found["spared"] == [
        {"reason": "AdmittedEarlier", "workloads": {"count": 2, "named": ["Job mine", "Job far/stays"]}}
    ]
    assert about(kueue, "urgent")["preemption"]["victims"] == {"count": 1, "named": ["Job victim"]}


@pytest.mark.kueue(config={"admissionFairSharing": {"usageHalfLifeTime": "5m"}})
def test_local_queues_are_named_with_their_namespace_unless_it_is_that_of_the_answer(kueue: Kueue) -> None:
    kueue.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}})
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    kueue.apply(FLAVOR, cluster_queue(cpu="1", admissionScope=scope))
    kueue.apply(local_queue(), local_queue("main", "far", "main"))
    for name in ("runs", "waits"):
        kueue.job(name, queue="main", cpu=1)
    kueue.job("first", queue="main", cpu=1, namespace="far")
    found = about(kueue, "waits")["pastUse"]
    assert (found["own"]["localQueue"], found["own"]["pending"], found["count"]) == ("main", 1, 1)
    (other,) = found["others"]
    assert (other["localQueue"], other["pastUse"], other["pending"]) == ("far/main", "0", 1)
    sibling = kueue.client.request("GET", f"{ROOT}/namespaces/far/localqueues/main/explanations")["pastUse"]
    assert (sibling["own"]["localQueue"], [one["localQueue"] for one in sibling["others"]]) == (
        "main",
        ["default/main"],
    )
    whole = kueue.client.request("GET", f"{ROOT}/clusterqueues/main/explanations")["pastUse"]
    assert [one["localQueue"] for one in whole["others"]] == ["far/main", "default/main"]
