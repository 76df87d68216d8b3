"""Which writes wait for the manager? Those that are its business; here nobody is behind the webhooks to answer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykueue.api.config.types import FRAMEWORKS, Configuration, Integrations
from pykueue.api.install.install import Install
from pykueue.api.install.manifests import manifests
from pykueue.api.install.webhooks import webhooks
from pykueue.kube.port import Resource
from tests import builders
from tests.e2e.backend import only_on_plane
from tests.plane.client import ApiError, Client
from tests.plane.plane import Plane

only_on_plane("what waits for a webhook that nobody answers is decided by a real API server")

# The tests share a plane of their own, so one worker takes them all.
pytestmark = pytest.mark.xdist_group("webhook-reach")

ACCOUNT = "kueue-controller-manager"
QUEUE = "kueue.x-k8s.io/queue-name"
REGISTRATION = "admissionregistration.k8s.io"
POLICY = Resource(REGISTRATION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy")
BINDING = Resource(REGISTRATION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding")


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane.start(pods=False) as started:
        started.apply_all(json.loads(json.dumps(manifests(Install(), ("namespace", "crds", "rbac", "webhooks")))))
        for namespace in ("plain", "served", "stopped"):
            started.namespace(namespace)
        for namespace, policy in (("served", "None"), ("stopped", "Hold")):
            started.retried(lambda: started.client.create(local_queue(namespace, policy)))  # noqa: B023
        assert Client.soon(lambda: waits_for_us(started, job("served", "warm-up")), 30)
        yield started


def local_queue(namespace: str, policy: str) -> dict[str, Any]:
    return builders.local_queue("default", namespace, "queue", stopPolicy=policy)


def job(namespace: str, name: str, labels: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return builders.job(name, namespace=namespace, metadata={"labels": labels or {}, **metadata})


def waits_for_us(plane: Plane, tree: dict[str, Any], client: Client | None = None) -> bool:
    """Whether a creation is held up because nobody answers the webhook; an object that comes through is removed."""
    asked = client or plane.client
    try:
        asked.create(tree)
    except ApiError as error:
        if "failed calling webhook" not in error.message:
            raise
        return True
    plane.client.delete(tree["kind"], tree["metadata"]["name"], tree["metadata"].get("namespace", ""))
    return False


OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "1", "controller": True}


@pytest.mark.parametrize(
    ("tree", "waits"),
    [
        pytest.param(job("plain", "nobody"), False, id="no queue"),
        pytest.param(job("plain", "blank", {QUEUE: ""}), False, id="an empty queue name"),
        pytest.param(job("plain", "queued", {QUEUE: "a"}), True, id="a queue"),
        pytest.param(job("served", "nobody"), True, id="no queue, but a default one is there"),
        pytest.param(job("stopped", "nobody"), False, id="the default queue is stopped"),
        pytest.param(job("served", "child", ownerReferences=[OWNER]), False, id="a part of another Job"),
        pytest.param(job("kueue-system", "ours", {QUEUE: "a"}), False, id="a namespace that is not managed"),
        pytest.param(job("kube-system", "system"), False, id="the system's own"),
    ],
)
def test_a_job_waits_for_us_only_if_it_is_ours(plane: Plane, tree: dict[str, Any], waits: bool) -> None:
    assert waits_for_us(plane, tree) is waits


def test_an_update_that_takes_the_queue_away_is_ours_too(plane: Plane) -> None:
    plane.client.create(job("plain", "edited"))
    plane.client.patch("Job", "edited", {"metadata": {"labels": {"other": "label"}}}, "plain")
    with pytest.raises(ApiError, match=r"failed calling webhook \"vjob\.kb\.io\""):
        plane.client.patch("Job", "edited", {"metadata": {"labels": {QUEUE: "a"}}}, "plain")


def test_the_managers_own_writes_do_not_wait_for_the_manager(plane: Plane) -> None:
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": []}}}
    tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "one", "namespace": "plain"},
        "spec": {"podSets": [pod_set]},
    }
    itself = Client(plane.url, plane.token("kueue-system", ACCOUNT), str(plane.ca))
    assert waits_for_us(plane, tree)
    assert not waits_for_us(plane, tree, itself)
    itself.close()


def test_without_policies_a_job_is_held_up_for_two_seconds_at_most(plane: Plane) -> None:
    plane.client.delete(POLICY, "kueue-default-queue")
    plane.client.delete(BINDING, "kueue-default-queue-binding")
    plane.apply_all(json.loads(json.dumps(webhooks(Install(default_queues="webhook")))))
    assert Client.soon(lambda: not waits_for_us(plane, job("served", "nobody")), 30)


def test_every_job_waits_where_every_job_is_managed(plane: Plane) -> None:
    everything = Install(configuration=Configuration(manage_jobs_without_queue_name=True))
    plane.apply_all(json.loads(json.dumps(webhooks(everything))))
    assert Client.soon(lambda: waits_for_us(plane, job("plain", "nobody")), 30)
    assert not waits_for_us(plane, job("kube-system", "system"))


def test_jobs_of_kinds_that_are_not_built_never_wait_for_us(plane: Plane) -> None:
    every = Install(configuration=Configuration(integrations=Integrations(frameworks=tuple(FRAMEWORKS))))
    plane.apply_all(json.loads(json.dumps(webhooks(every))))
    found = plane.client.get("ValidatingWebhookConfiguration", "kueue-validating-webhook-configuration")
    assert {"vpod.kb.io", "vrayjob.kb.io"} <= {hook["name"] for hook in found["webhooks"]}
    pod = {"containers": [{"name": "main", "image": "busybox"}]}
    for name, owners in (("bare", []), ("owned", [{**OWNER, "kind": "StatefulSet", "apiVersion": "apps/v1"}])):
        metadata = {"name": name, "namespace": "plain", "labels": {QUEUE: "a"}, "ownerReferences": owners}
        assert not waits_for_us(plane, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
