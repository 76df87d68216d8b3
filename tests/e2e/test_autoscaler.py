"""What does the real cluster-autoscaler answer to a ProvisioningRequest? Here nobody but a person asks it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.backend import only_on_plane
from tests.plane.autoscaler import GROUP, Autoscaler, NodeGroup
from tests.plane.client import Client, condition
from tests.plane.plane import Plane

only_on_plane("the real cluster-autoscaler adds nodes to a cluster")

# The tests share a plane of their own, so one worker takes them all.
pytestmark = pytest.mark.xdist_group("autoscaler")

Tree = dict[str, Any]
Said = tuple[str, str, str]
"""Status, reason and message of a condition."""

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
SPACE = "default"

ACCEPTED = ("True", "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")
PROVISIONED = ("True", "CapacityIsProvisioned", "Capacity is found in the cluster")
FOUND = ("True", "CapacityIsFound", "Capacity is found in the cluster")
GRANTED = (PROVISIONED, FOUND)
"""What it says of nodes that it has added. It writes twice in quick succession, and may be refused the second time for
having read what was there before its first; then it finds its own nodes the next time that it looks."""
NOT_FOUND = ("False", "CapacityIsNotFound", "Capacity is not found, CA will try to find it later.")
GIVEN_UP = ("True", "CapacityIsNotFound", "CA could not find requested capacity")


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane.start() as started:
        yield started


@pytest.fixture(scope="module")
def autoscaler(plane: Plane) -> Iterator[Autoscaler]:
    # Each test has a group of its own, of nodes with four CPUs.
    groups = [
        NodeGroup("grows", most=2, labels={"disk": "fast"}),
        NodeGroup("small", most=2),
        NodeGroup("single", most=1),
        NodeGroup("ready", most=1, least=1),
    ]
    with Autoscaler(plane, groups) as running:
        plane.client.report = lambda about: f"The autoscaler's log of it:\n{running.tail(30, about)}"
        yield running


def pods_of(group: str, cpu: str = "3") -> Tree:
    """Pods that only nodes of one group can hold, one each."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {"nodeSelector": {GROUP: group}, "restartPolicy": "Never", "containers": [container]}


def ask(plane: Plane, name: str, class_: str, count: int, spec: Tree, **parameters: str) -> None:
    """Ask for room for so many pods."""
    meta = {"name": name, "namespace": SPACE}
    plane.client.create({"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": {"spec": spec}})
    plane.client.create(request(name, class_, count, parameters))


def request(name: str, class_: str, count: int, parameters: dict[str, str]) -> Tree:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "provisioningClassName": class_,
            "parameters": parameters,
            "podSets": [{"podTemplateRef": {"name": name}, "count": count}],
        },
    }


def said(tree: Tree, type_: str) -> Said | None:
    """What the autoscaler says of a request in one condition."""
    found = condition(tree, type_)
    return (found["status"], found["reason"], found["message"]) if found else None


def answer(plane: Plane, name: str, type_: str) -> Said | None:
    """What it says once it has answered at all."""
    tree = plane.client.wait_for(
        "ProvisioningRequest", name, SPACE, lambda tree: bool(condition(tree, type_)), 30, f"the condition {type_}"
    )
    assert said(tree, "Accepted") == ACCEPTED
    return said(tree, type_)


def test_nodes_appear_for_a_request_and_pods_run_on_them(plane: Plane, autoscaler: Autoscaler) -> None:
    ask(plane, "grows", ATOMIC, 2, pods_of("grows"))
    assert answer(plane, "grows", "Provisioned") in GRANTED
    nodes = autoscaler.nodes("grows")
    assert len(nodes) == 2
    for node in nodes:
        plane.await_node(node)
        assert plane.client.get("Node", node)["metadata"]["labels"]["disk"] == "fast"
    consumes = {
        "autoscaling.x-k8s.io/consume-provisioning-request": "grows",
        "autoscaling.x-k8s.io/provisioning-class-name": ATOMIC,
    }
    for number in range(2):
        meta = {"name": f"grows-{number}", "namespace": SPACE, "annotations": consumes}
        plane.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pods_of("grows")})
    running = [
        plane.client.wait_for("Pod", f"grows-{number}", SPACE, lambda pod: pod["status"]["phase"] == "Running", 30)
        for number in range(2)
    ]
    assert sorted(pod["spec"]["nodeName"] for pod in running) == nodes


def test_no_node_is_added_where_a_group_may_not_grow_enough(plane: Plane, autoscaler: Autoscaler) -> None:
    ask(plane, "large", ATOMIC, 3, pods_of("small"))
    assert answer(plane, "large", "Provisioned") == NOT_FOUND
    assert autoscaler.nodes("small") == []


@pytest.mark.parametrize(
    ("parameters", "type_", "expected"),
    [
        pytest.param({"noRetry": "true"}, "Failed", GIVEN_UP, id="gives up"),
        pytest.param({}, "Provisioned", NOT_FOUND, id="tries again"),
    ],
)
def test_a_check_for_more_than_there_is(
    plane: Plane, autoscaler: Autoscaler, parameters: dict[str, str], type_: str, expected: Said
) -> None:
    name = f"check-{type_.lower()}"
    assert Client.soon(lambda: len(autoscaler.nodes("ready")) == 1)
    ask(plane, name, CHECK, 2, pods_of("ready"), **parameters)
    assert answer(plane, name, type_) == expected
    assert len(autoscaler.nodes("ready")) == 1


@pytest.mark.parametrize("class_", [ATOMIC, CHECK], ids=["atomic", "check"])
def test_what_is_there_already_is_found(plane: Plane, autoscaler: Autoscaler, class_: str) -> None:
    name = class_.split(".")[0]
    spec = {**pods_of("", "1"), "nodeSelector": {"kubernetes.io/hostname": "node-0"}}
    ask(plane, name, class_, 3, spec)
    assert answer(plane, name, "Provisioned") == FOUND


def test_capacity_for_one_is_booked_by_one_until_its_request_goes(plane: Plane, autoscaler: Autoscaler) -> None:
    ask(plane, "first", ATOMIC, 1, pods_of("single"))
    assert answer(plane, "first", "Provisioned") in GRANTED
    ask(plane, "second", ATOMIC, 1, pods_of("single"))
    assert answer(plane, "second", "Provisioned") == NOT_FOUND
    plane.client.delete("ProvisioningRequest", "first", SPACE)
    granted = plane.client.wait_for(
        "ProvisioningRequest", "second", SPACE, lambda tree: said(tree, "Provisioned") == FOUND, 40, "capacity"
    )
    assert said(granted, "Accepted") == ACCEPTED
    assert len(autoscaler.nodes("single")) == 1


def test_a_request_without_its_template_fails(plane: Plane, autoscaler: Autoscaler) -> None:
    plane.client.create(request("blank", CHECK, 1, {}))
    failed = plane.client.wait_for("ProvisioningRequest", "blank", SPACE, lambda tree: bool(said(tree, "Failed")), 30)
    missing = "missing pod templates, 1 pod templates were referenced, 1 templates were missing: blank"
    assert said(failed, "Failed") == ("True", "FailedToCreatePods", missing)
    assert said(failed, "Accepted") is None


def test_an_autoscaler_that_is_stopped_takes_its_nodes_away(plane: Plane, autoscaler: Autoscaler) -> None:
    ask(plane, "last", ATOMIC, 1, pods_of("small"))
    assert answer(plane, "last", "Provisioned") in GRANTED
    (node,) = autoscaler.nodes("small")
    plane.await_node(node)
    autoscaler.stop()
    assert autoscaler.popen.returncode == 0
    assert autoscaler.nodes("small") == autoscaler.nodes("grows") == []
