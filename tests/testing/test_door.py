"""Is what is written completed and judged as our webhooks would on a cluster, and is it known who created it?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykueue.apiserver.wire.messages import request
from pykueue.kube.port import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PODS, WORKLOADS
from pykueue.testing.kueue import ApiError, Client, Kueue
from tests.builders import job

QUEUES = Path(__file__).resolve().parent.parent.parent / "examples/testing/queues.yaml"
QUEUE = "kueue.x-k8s.io/queue-name"
CREATOR = "pykueue.io/created-by"


@pytest.fixture
def ready() -> Iterator[Kueue]:
    made = Kueue()
    made.apply(QUEUES)
    yield made
    made.close()


def suspended(client: Client, tree: dict[str, Any]) -> bool:
    made = client.create(JOBS, tree, tree["metadata"].get("namespace", "default"))
    return bool(made["spec"]["suspend"])


def test_a_job_that_names_a_queue_is_held_back(ready: Kueue) -> None:
    assert suspended(ready.client, job("queued", "red"))
    assert not suspended(ready.client, job("plain"))
    assert not suspended(ready.client, job("blank", metadata={"labels": {QUEUE: ""}}))


def test_a_job_in_a_namespace_that_is_not_managed_is_left_alone(ready: Kueue) -> None:
    assert not suspended(ready.client, job("system", "red", "kube-system"))


def test_a_job_without_a_queue_gets_the_default_one_where_there_is_one(ready: Kueue) -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "default"}}
    ready.client.create(LOCAL_QUEUES, {**queue, "spec": {"clusterQueue": "red"}}, "default")
    made = ready.client.create(JOBS, job("plain"), "default")
    assert made["metadata"]["labels"][QUEUE] == "default"
    assert made["spec"]["suspend"] is True


def test_a_wrong_queue_is_refused_in_the_words_of_a_webhook(ready: Kueue) -> None:
    tree = ready.client.get(CLUSTER_QUEUES, "red")
    quota = tree["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    quota["nominalQuota"] = "-1"
    with pytest.raises(ApiError, match=r'admission webhook "vclusterqueue\.kb\.io" denied the request: spec') as caught:
        ready.client.request("PUT", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/red", tree)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")


def test_a_change_is_judged_too(ready: Kueue) -> None:
    ready.job("runs", queue="red")
    with pytest.raises(ApiError, match=f'admission webhook "vjob.kb.io" denied the request: metadata.labels.*{QUEUE}'):
        ready.client.patch(JOBS, "runs", {"metadata": {"labels": {QUEUE: "blue"}}}, "default")


def test_what_a_user_says_of_a_workload_is_judged_also_in_its_status(ready: Kueue) -> None:
    ready.job("runs", queue="red")
    name = ready.workload("runs")["metadata"]["name"]
    body = {"status": {"admission": {"clusterQueue": "blue", "podSetAssignments": []}}}
    with pytest.raises(ApiError, match="admission"):
        ready.client.patch(WORKLOADS, name, body, "default", subresource="status")


def test_who_created_a_job_cannot_be_said_by_a_client(ready: Kueue) -> None:
    made = ready.client.create(JOBS, job("mine", "red", metadata={"annotations": {CREATOR: "somebody"}}), "default")
    assert made["metadata"]["annotations"][CREATOR] == "admin"
    changed = ready.client.patch(JOBS, "mine", {"metadata": {"annotations": {CREATOR: "somebody"}}}, "default")
    assert changed["metadata"]["annotations"][CREATOR] == "admin"
    ready.settle()
    assert [pod["metadata"]["annotations"][CREATOR] for pod in ready.pods("mine")] == ["admin"]


def test_who_created_a_pod_cannot_be_said_by_way_of_a_part_of_it(ready: Kueue) -> None:
    spec = {"nodeSelector": {"a": "b"}, "containers": [{"name": "main", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "free"}, "spec": spec}
    ready.client.create(PODS, pod, "default")
    binding = {"metadata": {"name": "free", "annotations": {CREATOR: "somebody", "a": "b"}}, "target": {"name": "node"}}
    ready.client.request("POST", "/api/v1/namespaces/default/pods/free/binding", binding)
    annotations = ready.client.get(PODS, "free", "default")["metadata"]["annotations"]
    assert (annotations[CREATOR], annotations["a"]) == ("admin", "b")


def test_a_user_may_not_touch_what_another_has_created(ready: Kueue) -> None:
    users = ready.embedded.front.access.users
    token = users.add("alice", namespace="default")
    ready.job("mine", queue="red")
    pod = ready.pods("mine")[0]["metadata"]["name"]
    core = "/api/v1/namespaces/default"
    for kind in ("ConfigMap", "Secret"):
        made = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "script"}}
        ready.client.request("POST", f"{core}/{kind.lower()}s", made)
    paths = (f"{core}/pods/{pod}", f"{core}/configmaps/script", f"{core}/secrets/script")
    for path in ("/apis/batch/v1/namespaces/default/jobs/mine", *paths):
        asked = request("DELETE", path, b"", {"authorization": f"Bearer {token}"})
        answer = ready.embedded.ask(asked)
        assert answer.code == 403
        assert isinstance(answer.body, bytes)
        assert 'User "alice" may only change or delete objects of their own' in json.loads(answer.body)["message"]
    assert ready.client.get(PODS, pod, "default")["metadata"]["name"] == pod
