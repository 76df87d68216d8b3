"""Is the author of a pod told of every field that one machine does not honour?"""

from typing import Any

import pytest

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.poddefaults import default_pod, default_template
from pykueue.apiserver.schema.schemas import definitions
from pykueue.node.ignoredfields import ROWS, ignored

HONOURED = {
    "PodSpec": {
        "activeDeadlineSeconds",
        "containers",
        "enableServiceLinks",
        "ephemeralContainers",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "resources",
        "restartPolicy",
        "schedulingGates",
        "serviceAccount",
        "terminationGracePeriodSeconds",
        "tolerations",
    },
    "PodSecurityContext": {
        "fsGroup",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "supplementalGroups",
        "supplementalGroupsPolicy",
    },
    "Affinity": {"nodeAffinity"},
    "Container": {
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "livenessProbe",
        "name",
        "readinessProbe",
        "restartPolicy",
        "startupProbe",
        "terminationMessagePolicy",
        "workingDir",
        "stdin",
        "stdinOnce",
        "tty",
    },
    "SecurityContext": {"runAsGroup", "runAsNonRoot", "runAsUser"},
    "VolumeMount": {"mountPath", "name", "subPath", "subPathExpr"},
    "ContainerPort": {"containerPort", "name", "protocol"},
    "Lifecycle": set(),
    "EmptyDirVolumeSource": set(),
}
"""Fields that are honoured, that only name something, or that are refused where they cannot be."""
PLACES = {
    "PodSpec": "",
    "PodSecurityContext": "securityContext.",
    "Affinity": "affinity.",
    "Container": "containers[].",
    "SecurityContext": "containers[].securityContext.",
    "VolumeMount": "containers[].volumeMounts[].",
    "ContainerPort": "containers[].ports[].",
    "Lifecycle": "containers[].lifecycle.",
    "EmptyDirVolumeSource": "volumes[].emptyDir.",
}


def told(spec: Any, *, enforced: frozenset[str] = frozenset(), runtime: bool = False) -> list[str]:
    return [one.partition(":")[0] for one in ignored(spec, "spec", enforced=enforced, runtime=runtime)]


@pytest.mark.parametrize("kind", PLACES)
def test_every_field_is_honoured_or_has_a_row(kind: str) -> None:
    held = definitions("v1")[f"io.k8s.api.core.v1.{kind}"]
    assert isinstance(held, dict)
    fields = held["properties"]
    assert isinstance(fields, dict)
    place = PLACES[kind]
    rows = {row.field.removeprefix(place).partition(".")[0].removesuffix("[]") for row in ROWS if place in row.field}
    assert not rows & HONOURED[kind] - {"securityContext", "containers"}
    assert set(fields) - rows == HONOURED[kind] - rows


def test_each_is_said_once_where_it_first_stands() -> None:
    spec = {
        "hostNetwork": True,
        "containers": [
            {"name": "a"},
            {"name": "b", "securityContext": {"privileged": True, "capabilities": {"drop": ["ALL"]}}},
            {"name": "c", "securityContext": {"privileged": True}},
        ],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "w", "emptyDir": {"sizeLimit": "2Gi"}}],
    }
    assert told(spec) == [
        "spec.hostNetwork",
        "spec.volumes[0].emptyDir.sizeLimit",
        "spec.containers[1].securityContext.capabilities",
        "spec.containers[1].securityContext.privileged",
    ]


def test_init_containers_count_too() -> None:
    spec = {"containers": [{"name": "a"}], "initContainers": [{"name": "b", "volumeDevices": [{}]}]}
    assert told(spec) == ["spec.initContainers[0].volumeDevices"]


def test_what_is_filled_in_by_default_is_not_said() -> None:
    container: Tree = {"name": "a", "image": "x", "securityContext": {"allowPrivilegeEscalation": True}}
    spec: Tree = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}], "hostUsers": True}
    assert told(default_pod({"spec": spec})["spec"]) == []
    assert told(default_template({"spec": spec})["spec"]) == []


@pytest.mark.parametrize(
    ("enforced", "runtime", "said"),
    [
        pytest.param((), False, ["cpu", "ephemeral-storage", "readOnly"], id="by rlimits"),
        pytest.param(("cpu", "memory"), False, ["ephemeral-storage", "readOnly"], id="by cgroups"),
        pytest.param((), True, ["ephemeral-storage"], id="by a container runtime"),
    ],
)
def test_what_this_server_does_honour_is_not_said(enforced: tuple[str, ...], runtime: bool, said: list[str]) -> None:
    container = {
        "resources": {"limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}},
        "volumeMounts": [{"readOnly": True}],
    }
    found = told({"containers": [container]}, enforced=frozenset(enforced), runtime=runtime)
    assert [one.rpartition(".")[2] for one in found] == said
