"""Tests of bindings, evictions and scales."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pykueue.api.core import Tree
from tests.apiserver.desk import JSON, Desk, decoded, pod, refusal


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        yield made


def post(desk: Desk, name: str, part: str, tree: Tree) -> Any:
    work = desk.registry.create(desk.served("pods"), tree, "default", desk.terms(), name=name, subresource=part)
    return decoded(desk.run(work))


def test_a_pod_is_bound_once(desk: Desk) -> None:
    desk.create("pods", pod("p"))
    answer = post(desk, "p", "binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "here"}})
    assert (answer["status"], answer["code"]) == ("Success", 201)
    made = desk.get("pods", "p")
    assert made["spec"]["nodeName"] == "here"
    assert made["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }
    ]
    refused = refusal(lambda: post(desk, "p", "binding", {"target": {"name": "there"}}))
    assert refused.code == 409
    assert refused.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "here"'
    )


def test_a_pod_that_is_held_back_is_not_bound(desk: Desk) -> None:
    desk.create("pods", pod("p", schedulingGates=[{"name": "x.io/wait"}]))
    refused = refusal(lambda: post(desk, "p", "binding", {"target": {"name": "there"}}))
    assert refused.message.endswith("pod p has non-empty .spec.schedulingGates")


def test_an_eviction_says_so_and_deletes(desk: Desk) -> None:
    desk.create("pods", pod("p", nodeName="here"))
    post(desk, "p", "eviction", {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 5}})
    made = desk.get("pods", "p")
    assert made["metadata"]["deletionGracePeriodSeconds"] == 5
    assert made["status"]["conditions"][0]["reason"] == "EvictionByEvictionAPI"


def definition() -> Tree:
    version: Tree = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                },
            }
        },
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }
    names: Tree = {"kind": "Fleet", "plural": "fleets"}
    return {
        "metadata": {"name": "fleets.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def test_a_custom_kind_is_scaled(desk: Desk) -> None:
    desk.create("customresourcedefinitions", definition(), "")
    desk.create("fleets", {"metadata": {"name": "f"}, "spec": {"size": 2}})
    scale = desk.get("fleets", "f", part="scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 2}, {"replicas": 0})
    desk.patch("fleets", "f", {"spec": {"replicas": 5}}, part="scale")
    assert desk.get("fleets", "f")["spec"] == {"size": 5}
    desk.patch("fleets", "f", [{"op": "replace", "path": "/spec/replicas", "value": 6}], how=JSON, part="scale")
    scale = desk.get("fleets", "f", part="scale")
    desk.update("fleets", {**scale, "spec": {"replicas": 7}}, part="scale")
    assert desk.get("fleets", "f")["spec"] == {"size": 7}
    assert refusal(lambda: desk.update("fleets", scale, part="scale")).code == 409
    refused = refusal(lambda: desk.patch("fleets", "f", {"spec": {"replicas": -1}}, part="scale"))
    assert (
        refused.message == 'Fleet.x.io "f" is invalid: .spec.size: Invalid value: -1: should be a non-negative integer'
    )
