"""Are ProvisioningRequests answered from the room on the nodes, and as scripted, in a whole system?"""

from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from pykueue.base.units import format_instant
from pykueue.kube.port import ADMISSION_CHECKS, NODES, POD_TEMPLATES, PODS, PROVISIONING_REQUESTS
from pykueue.kubecontrollers.autoscaler import Room
from pykueue.testing.embedded import Embedded
from pykueue.testing.kueue import ApiError, Client, Kueue

CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
SCRIPTED = "scripted.pykueue.io"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: main}
spec:
  namespaceSelector: {}
  admissionChecksStrategy: {admissionChecks: [{name: prov}]}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 100}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: default}
spec: {clusterQueue: main}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: prov}
spec:
  controllerName: kueue.x-k8s.io/provisioning-request
  parameters: {apiGroup: kueue.x-k8s.io, kind: ProvisioningRequestConfig, name: config}
"""
PLAIN_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: plain}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 100}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: plain, namespace: default}
spec: {clusterQueue: plain}
"""
BY_HAND = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "AdmissionCheck",
    "metadata": {"name": "by-hand"},
    "spec": {"controllerName": "example.com/hand"},
}
THEN = "2026-01-01T00:00:00Z"


def provisioned(kueue: Kueue, kind: str, cpu: int = 4, limit: int = 2, **parameters: str) -> None:
    """A queue whose jobs wait for capacity of a class, and one node with so many cpus."""
    kueue.apply(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ProvisioningRequestConfig",
            "metadata": {"name": "config"},
            "spec": {
                "provisioningClassName": kind,
                "parameters": parameters,
                "retryStrategy": {"backoffLimitCount": limit, "backoffBaseSeconds": 60, "backoffMaxSeconds": 600},
            },
        },
        QUEUES,
    )
    grow(kueue, cpu)


def grow(kueue: Kueue, cpu: int) -> None:
    """Let the node have so many cpus."""
    amounts = {"cpu": str(cpu), "memory": "1Ti", "pods": "100"}
    kueue.client.patch(NODES, "node", {"status": {"allocatable": amounts, "capacity": amounts}}, "", "status")
    kueue.settle()


def requests(kueue: Kueue) -> dict[str, dict[str, Any]]:
    """What is said of each request that there is, by the job's name and the attempt."""
    return {
        one["metadata"]["name"].removeprefix("job-").replace("-prov", ""): {
            said["type"]: (said["status"], said["reason"], said["message"])
            for said in one.get("status", {}).get("conditions", ())
        }
        for one in kueue.client.list(PROVISIONING_REQUESTS, "default")
    }


def said(kueue: Kueue, job: str) -> dict[str, Any]:
    """What is said of the only request of a job."""
    (found,) = [conditions for name, conditions in requests(kueue).items() if name.startswith(f"{job}-")]
    return dict(found)


def check(kueue: Kueue, job: str) -> Mapping[str, Any]:
    """What the check says of a job."""
    (state,) = kueue.workload(job)["status"]["admissionChecks"]
    return dict(state)


def evicted(kueue: Kueue, job: str) -> str:
    """Why a job had to leave."""
    (found,) = [one["message"] for one in kueue.workload(job)["status"]["conditions"] if one["type"] == "Evicted"]
    return str(found)


def test_a_job_runs_when_there_is_room_for_all_its_pods(kueue: Kueue) -> None:
    provisioned(kueue, CHECK_CAPACITY)
    kueue.job("fits", queue="main", cpu=2, pods=2)
    assert kueue.running() == {"fits"}
    assert said(kueue, "fits") == {
        "Accepted": ("True", "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler"),
        "Provisioned": ("True", "CapacityIsFound", "Capacity is found in the cluster"),
    }


@pytest.mark.parametrize("kind", [CHECK_CAPACITY, "best-effort-atomic-scale-up.autoscaling.x-k8s.io"])
def test_a_job_waits_for_room_until_another_ends(kueue: Kueue, kind: str) -> None:
    provisioned(kueue, kind)
    kueue.job("first", queue="main", cpu=3)
    kueue.job("second", queue="main", cpu=2)
    assert kueue.running() == {"first"}
    words = "Capacity is not found, CA will try to find it later."
    assert said(kueue, "second")["Provisioned"] == ("False", "CapacityIsNotFound", words)
    assert kueue.waiting() == {"second": f"waiting for admission checks: prov: {words}"}
    kueue.finish("first")
    assert kueue.running() == {"second"}


def test_a_job_waits_for_room_until_the_node_grows(kueue: Kueue) -> None:
    provisioned(kueue, CHECK_CAPACITY, cpu=1)
    kueue.job("wide", queue="main", cpu=1, pods=3)
    assert kueue.running() == set()
    grow(kueue, 3)
    assert kueue.running() == {"wide"}


def test_of_two_requests_for_capacity_that_suffices_for_one_the_second_waits(kueue: Kueue) -> None:
    provisioned(kueue, CHECK_CAPACITY, cpu=4)
    by_hand = QUEUES.replace("[{name: prov}]", "[{name: prov}, {name: by-hand}]")
    kueue.apply(by_hand, BY_HAND)
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": THEN}
    kueue.client.patch(ADMISSION_CHECKS, "by-hand", {"status": {"conditions": [active]}}, "", "status")
    kueue.settle()
    kueue.job("first", queue="main", cpu=3)
    kueue.job("second", queue="main", cpu=3)
    # None of them runs yet: what the first was promised is gone for the second.
    assert kueue.running() == set()
    assert said(kueue, "first")["Provisioned"][0] == "True"
    assert said(kueue, "second")["Provisioned"][0] == "False"
    kueue.delete("first")
    assert said(kueue, "second")["Provisioned"][0] == "True"


def test_a_booking_that_nobody_takes_expires_after_ten_minutes(kueue: Kueue) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}]}}
    grow(kueue, 4)
    for name in ("a", "b"):
        kueue.client.create(
            POD_TEMPLATES,
            {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name}, "template": template},
            "default",
        )
        kueue.client.create(PROVISIONING_REQUESTS, plain_request(name), "default")
    kueue.advance("9m59s")
    found = requests(kueue)
    assert found["a"]["Provisioned"][0] == "True"
    assert "BookingExpired" not in found["a"]
    assert found["b"]["Provisioned"][0] == "False"
    kueue.advance("2s")
    found = requests(kueue)
    assert found["a"]["BookingExpired"] == (
        "True",
        "CapacityReservationTimeExpired",
        "Capacity reservation time is expired",
    )
    assert found["b"]["Provisioned"][0] == "True"


def test_a_booking_for_more_pods_than_could_ever_run_is_soon_done_with(
    kueue: Kueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, tries = Room.put, count()

    def counted(room: Room, *pod: Any) -> bool:
        assert next(tries) < 100
        return put(room, *pod)

    monkeypatch.setattr(Room, "put", counted)
    grow(kueue, 4)
    spec = {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]}
    template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "huge"}, "template": {"spec": spec}}
    kueue.client.create(POD_TEMPLATES, template, "default")
    asked = [{"podTemplateRef": {"name": "huge"}, "count": 2_000_000_000}]
    kueue.client.create(PROVISIONING_REQUESTS, plain_request("huge", podSets=asked), "default")
    kueue.settle()
    assert requests(kueue)["huge"]["Provisioned"][0] == "False"
    granted = {"type": "Provisioned", "status": "True", "reason": "R", "lastTransitionTime": format_instant(kueue.now)}
    granted["message"] = "by hand"
    kueue.client.patch(PROVISIONING_REQUESTS, "huge", {"status": {"conditions": [granted]}}, "default", "status")
    kueue.client.create(POD_TEMPLATES, {**template, "metadata": {"name": "small"}}, "default")
    kueue.client.create(PROVISIONING_REQUESTS, plain_request("small"), "default")
    kueue.settle()
    assert requests(kueue)["small"]["Provisioned"][0] == "False"


def plain_request(name: str, **spec: Any) -> dict[str, Any]:
    """A request for one pod of the template of the same name."""
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "provisioningClassName": CHECK_CAPACITY,
            "podSets": [{"podTemplateRef": {"name": name}, "count": 1}],
            **spec,
        },
    }


def test_a_request_is_answered_once_its_template_is_there(kueue: Kueue) -> None:
    kueue.client.create(PROVISIONING_REQUESTS, plain_request("early"), "default")
    kueue.settle()
    assert requests(kueue) == {"early": {}}
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    tree = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "early"}, "template": template}
    kueue.client.create(POD_TEMPLATES, tree, "default")
    kueue.settle()
    assert requests(kueue)["early"]["Provisioned"][0] == "True"


def test_without_retry_each_attempt_fails_at_once_until_the_job_is_rejected(kueue: Kueue) -> None:
    provisioned(kueue, CHECK_CAPACITY, limit=2, noRetry="true")
    kueue.job("large", queue="main", cpu=5)
    words = "Retrying after failure: CA could not find requested capacity"
    assert words in kueue.waiting()["large"]
    assert check(kueue, "large")["retryCount"] == 1
    kueue.advance("60s")
    assert check(kueue, "large")["retryCount"] == 2
    kueue.advance("115s")
    assert kueue.workload("large")["spec"]["active"]
    kueue.advance("10s")
    assert not kueue.workload("large")["spec"]["active"]
    assert "AdmissionCheck in Rejected state" in evicted(kueue, "large")


def test_of_a_class_of_others_nothing_is_said(kueue: Kueue) -> None:
    provisioned(kueue, "queued-provisioning.gke.io")
    kueue.job("one", queue="main")
    kueue.advance("5m")
    assert said(kueue, "one") == {}
    assert "No answer from the autoscaler" in kueue.waiting()["one"]


def test_a_scripted_delay_is_announced_as_it_shrinks(kueue: Kueue) -> None:
    provisioned(kueue, SCRIPTED, delaySeconds="300")
    kueue.job("one", queue="main")
    assert kueue.waiting() == {"one": "waiting for admission checks: prov: ETA 5 min"}
    kueue.advance("150s")
    assert kueue.waiting() == {"one": "waiting for admission checks: prov: ETA 2 min 30 s"}
    kueue.advance("135s")
    assert kueue.waiting() == {"one": "waiting for admission checks: prov: ETA 18 s"}
    kueue.advance("20s")
    assert kueue.running() == {"one"}


def test_scripted_failures_come_first_and_then_success(kueue: Kueue) -> None:
    provisioned(kueue, SCRIPTED, failures="2", details="zone=north")
    kueue.job("one", queue="main")
    assert "Retrying after failure: Attempt 1 fails" in kueue.waiting()["one"]
    kueue.advance("60s")
    assert "Attempt 2 fails" in kueue.waiting()["one"]
    kueue.advance("121s")
    assert kueue.running() == {"one"}
    (request,) = kueue.client.list(PROVISIONING_REQUESTS, "default")
    assert request["metadata"]["name"].endswith("-3")
    assert request["status"]["provisioningClassDetails"] == {"zone": "north"}


def test_what_is_revoked_ends_the_job(kueue: Kueue) -> None:
    provisioned(kueue, SCRIPTED, revokeAfterSeconds="120")
    kueue.job("one", queue="main")
    assert kueue.running() == {"one"}
    kueue.advance("115s")
    assert kueue.running() == {"one"}
    kueue.advance("10s")
    assert kueue.running() == set()
    assert not kueue.workload("one")["spec"]["active"]


def test_a_wrong_parameter_is_named_in_the_message(kueue: Kueue) -> None:
    provisioned(kueue, SCRIPTED, limit=0, delaySeconds="soon")
    kueue.job("one", queue="main")
    message = evicted(kueue, "one")
    assert "parameter \"delaySeconds\": 'soon' is not a whole number; write digits alone" in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parameters", {"a": "c"}),
        ("provisioningClassName", "other"),
        ("podSets", [{"podTemplateRef": {"name": "fixed"}, "count": 2}]),
    ],
)
def test_what_is_asked_for_cannot_be_changed(kueue: Kueue, field: str, value: object) -> None:
    kueue.client.create(PROVISIONING_REQUESTS, plain_request("fixed", parameters={"a": "b"}), "default")
    with pytest.raises(ApiError, match=rf"spec\.{field}: Invalid value: .*Value is immutable") as caught:
        kueue.client.patch(PROVISIONING_REQUESTS, "fixed", {"spec": {field: value}}, "default")
    assert caught.value.code == 422
    kueue.client.patch(PROVISIONING_REQUESTS, "fixed", {"metadata": {"labels": {"a": "b"}}}, "default")


def test_a_test_may_play_the_autoscaler_itself() -> None:
    with Embedded(autoscaler=False) as embedded:
        client = Client(embedded)
        client.create(PROVISIONING_REQUESTS, plain_request("mine"), "default")
        template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
        tree = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "mine"}, "template": template}
        client.create(POD_TEMPLATES, tree, "default")
        embedded.advance(5)
        assert "status" not in client.get(PROVISIONING_REQUESTS, "mine", "default")


def test_what_runs_is_not_counted_again_as_booked(kueue: Kueue) -> None:
    provisioned(kueue, CHECK_CAPACITY, cpu=4)
    for name in ("a", "b", "c", "d"):
        kueue.job(name, queue="main")
    kueue.job("e", queue="main")
    assert kueue.running() == {"a", "b", "c", "d"}
    kueue.finish("b")
    # The pods of the others have taken their bookings, and that of b is over with it.
    assert kueue.running() == {"a", "c", "d", "e"}


def test_a_pod_that_is_about_to_be_bound_goes_first(kueue: Kueue) -> None:
    provisioned(kueue, CHECK_CAPACITY, cpu=4)
    kueue.apply(PLAIN_QUEUE)
    kueue.job("busy", queue="plain", cpu=4)
    kueue.job("stuck", queue="plain", cpu=3)
    kueue.job("asks", queue="main", cpu=2)
    assert [one["status"]["phase"] for one in kueue.pods("stuck")] == ["Pending"]
    kueue.finish("busy")
    assert [one["status"]["phase"] for one in kueue.pods("stuck")] == ["Running"]
    assert said(kueue, "asks")["Provisioned"][0] == "False"
    kueue.finish("stuck")
    assert kueue.running() == {"asks"}


def test_the_oldest_request_is_served_first_and_a_smaller_one_beside_it(kueue: Kueue) -> None:
    provisioned(kueue, CHECK_CAPACITY, cpu=4)
    kueue.job("busy", queue="main", cpu=4)
    for name, cpu in (("old", 3), ("middle", 3), ("small", 1)):
        kueue.job(name, queue="main", cpu=cpu)
    kueue.finish("busy")
    assert kueue.running() == {"old", "small"}


def test_of_a_booking_what_its_pods_have_taken_is_no_longer_kept(kueue: Kueue) -> None:
    spec = {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]}
    grow(kueue, 4)
    for name in ("three", "one"):
        tree = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name}, "template": {"spec": spec}}
        kueue.client.create(POD_TEMPLATES, tree, "default")
    three = plain_request("three", podSets=[{"podTemplateRef": {"name": "three"}, "count": 3}])
    kueue.client.create(PROVISIONING_REQUESTS, three, "default")
    consumes = {"autoscaling.x-k8s.io/consume-provisioning-request": "three"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first", "annotations": consumes}, "spec": spec}
    kueue.client.create(PODS, pod, "default")
    kueue.settle()
    assert kueue.client.get(PODS, "first", "default")["spec"]["nodeName"] == "node"
    # One runs, two are to come, and there is room for a fourth.
    kueue.client.create(PROVISIONING_REQUESTS, plain_request("one"), "default")
    kueue.settle()
    assert requests(kueue)["one"]["Provisioned"][0] == "True"
