"""Tests of what is wrong with pods, and of what the server fills in."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pykueue.apiserver.kinds.poddefaults import amount_text, pull_policy
from pykueue.apiserver.kinds.validation_pods import quality
from tests.apiserver.desk import Desk, pod, refusal


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        yield made


def container(**more: Any) -> dict[str, Any]:
    return {"name": "c", "image": "x", **more}


def test_a_pod_shows_what_was_filled_in(desk: Desk) -> None:
    spec = desk.create(
        "pods",
        pod(
            "p",
            containers=[
                container(
                    ports=[{"containerPort": 80}],
                    readinessProbe={"httpGet": {"port": 80}},
                    env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    resources={"limits": {"cpu": "1000m", "memory": 1024}},
                    volumeMounts=[{"name": "v", "mountPath": "/v"}],
                )
            ],
            volumes=[{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}],
        ),
    )["spec"]
    made = spec["containers"][0]
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["securityContext"] == {}
    assert spec["enableServiceLinks"] is True
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert spec["volumes"] == [
        {"name": "v", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}},
    ]
    assert made["imagePullPolicy"] == "Always"
    assert (made["terminationMessagePath"], made["terminationMessagePolicy"]) == ("/dev/termination-log", "File")
    assert made["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert made["readinessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert made["env"][0]["valueFrom"]["fieldRef"] == {"apiVersion": "v1", "fieldPath": "metadata.name"}
    assert made["resources"] == {
        "limits": {"cpu": "1", "memory": "1024"},
        "requests": {"cpu": "1", "memory": "1024"},
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("host:5000/busybox", "Always"),
        ("host:5000/busybox:1.2", "IfNotPresent"),
        ("busybox@sha256:0123", "IfNotPresent"),
        ("NoSuchName", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_an_image_is_fetched_anew_if_it_may_have_changed(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize(
    ("given", "shown"), [("1000m", "1"), ("0.5", "500m"), ("1e3", "1e3"), ("100u", "1m"), ("1024Ki", "1Mi"), ("x", "")]
)
def test_an_amount_has_one_spelling(given: str, shown: str) -> None:
    assert amount_text(given) == shown


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"containers": [{"name": "", "image": "x"}]}, "spec.containers[0].name: Required value"),
        ({"containers": [container(), container()]}, 'spec.containers[1].name: Duplicate value: "c"'),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image: Required value"),
        (
            {"restartPolicy": "Maybe"},
            'spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"',
        ),
        ({"dnsPolicy": "Odd"}, 'spec.dnsPolicy: Unsupported value: "Odd"'),
        (
            {"activeDeadlineSeconds": 0},
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        (
            {"containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            {"containers": [container(resources={"requests": {"nvidia.com/gpu": "1"}})]},
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            {"containers": [container(resources={"limits": {"nvidia.com/gpu": "500m"}})]},
            'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
        ),
        (
            {"containers": [container(resources={"limits": {"gold": "1"}})]},
            'spec.containers[0].resources.limits[gold]: Invalid value: "gold": must be a standard resource for '
            "containers",
        ),
        (
            {"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])]},
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            {"volumes": [{"name": "A", "emptyDir": {}}]},
            'spec.volumes[0].name: Invalid value: "A": a lowercase RFC 1123 label',
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        ),
        (
            {"containers": [container(livenessProbe={})]},
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            {"containers": [container(ports=[{"containerPort": 70000}])]},
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Odd"}]},
            'spec.tolerations[0].operator: Unsupported value: "Odd": supported values: "Equal", "Exists"',
        ),
        (
            {"initContainers": [{"name": "i", "image": "x", "lifecycle": {}}]},
            "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without "
            "restartPolicy=Always",
        ),
        (
            {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "../x"}])],
            },
            "spec.containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'",
        ),
        (
            {"volumes": [{"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "/x"}]}}]},
            'spec.volumes[0].configMap.items[0].path: Invalid value: "/x": must be a relative path',
        ),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "c", "items": [{"key": "a", "path": "..x"}]}}]},
            "spec.volumes[0].secret.items[0].path: Invalid value: \"..x\": must not start with '..'",
        ),
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]},
            "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
        ),
        (
            {"schedulingGates": [{"name": "a.io/b"}, {"name": "a.io/b"}]},
            'spec.schedulingGates[1]: Duplicate value: "a.io/b"',
        ),
    ],
)
def test_a_pod_that_breaks_rules_is_refused(desk: Desk, spec: dict[str, Any], error: str) -> None:
    refused = refusal(lambda: desk.create("pods", pod("p", **spec)))
    assert refused.code == 422
    assert error in refused.message


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"spec": {"activeDeadlineSeconds": 60}}, id="a deadline"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, id="labels"),
        pytest.param({"spec": {"containers": [{"name": "c", "image": "other"}]}}, id="an image"),
    ],
)
def test_little_of_a_pod_may_change(desk: Desk, patch: Any) -> None:
    made = desk.create("pods", pod("p"))
    if "containers" in patch.get("spec", {}):
        patch["spec"]["containers"] = [{**made["spec"]["containers"][0], "image": "other"}]
    desk.patch("pods", "p", patch)


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ({"spec": {"nodeName": "here"}}, "spec: Forbidden: pod updates may not change fields other than"),
        ({"spec": {"tolerations": None}}, "spec.tolerations: Forbidden: existing toleration can not be modified"),
        (
            {"spec": {"schedulingGates": [{"name": "x.io/a"}]}},
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'x.io/a'",
        ),
        ({"spec": {"containers": []}}, "spec.containers: Forbidden: pod updates may not add or remove containers"),
    ],
)
def test_the_rest_of_a_pod_stays(desk: Desk, patch: Any, error: str) -> None:
    desk.create("pods", pod("p"))
    assert error in refusal(lambda: desk.patch("pods", "p", patch)).message


def test_a_pod_that_is_held_back_says_so_and_may_be_let_go(desk: Desk) -> None:
    made = desk.create("pods", pod("p", schedulingGates=[{"name": "x.io/wait"}]))
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    desk.patch("pods", "p", {"spec": {"nodeSelector": {"a": "b"}}})
    made = desk.patch("pods", "p", {"spec": {"schedulingGates": None}})
    assert made["spec"]["nodeSelector"] == {"a": "b"}
    assert "schedulingGates" not in made["spec"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_a_pod_has_a_class_of_service(resources: dict[str, Any], expected: str) -> None:
    assert quality({"spec": {"containers": [container(resources=resources)]}}) == expected


def test_a_name_that_is_no_host_name_is_warned_of(desk: Desk) -> None:
    desk.create("pods", pod("with.dots"))
    assert desk.warnings == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
        "recommended: [must not contain dots]"
    ]
