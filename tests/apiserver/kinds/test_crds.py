"""Tests of CustomResourceDefinitions: what they define comes and goes."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.storage.store import Store
from pykueue.apiserver.verbs.registry import Registry
from pykueue.apiserver.wire.writeterms import Terms
from pykueue.base.clock import ManualClock
from tests.apiserver.desk import ADMIN, Desk, refusal
from tests.apiserver.verbs.test_subresources import definition


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        yield made


def conditions(tree: Any) -> dict[str, str]:
    return {one["type"]: one["status"] for one in tree["status"]["conditions"]}


def test_a_definition_is_established_and_its_kind_is_served(desk: Desk) -> None:
    heard: list[int] = []
    desk.registry.heard.append(lambda: heard.append(desk.registry.catalog.stamp))
    made = desk.create("customresourcedefinitions", definition(), "")
    assert made["spec"]["names"] == {"kind": "Fleet", "plural": "fleets", "singular": "fleet", "listKind": "FleetList"}
    assert conditions(desk.get("customresourcedefinitions", "fleets.x.io", "")) == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    served = desk.registry.catalog.find("x.io", "v1", "fleets")
    assert served is not None
    assert set(served.subresources) == {"status", "scale"}
    assert heard


def test_objects_are_pruned_defaulted_and_judged_by_the_schema(desk: Desk) -> None:
    tree: Any = definition()
    properties = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["color"] = {"type": "string", "default": "red", "enum": ["red", "blue"]}
    desk.create("customresourcedefinitions", tree, "")
    made = desk.create("fleets", {"metadata": {"name": "f"}, "spec": {"odd": 1}})
    assert made["spec"] == {"color": "red"}
    assert desk.warnings == ['unknown field "spec.odd"']
    assert made["metadata"]["generation"] == 1
    bad: Tree = {"metadata": {"name": "g"}, "spec": {"size": "big", "color": "green"}}
    refused = refusal(lambda: desk.create("fleets", bad))
    assert refused.code == 422
    assert 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"' in refused.message
    assert 'spec.color: Unsupported value: "green": supported values: "red", "blue"' in refused.message


def test_what_was_wrong_before_does_not_keep_the_rest_from_changing(desk: Desk) -> None:
    desk.create("customresourcedefinitions", definition(), "")
    desk.create("fleets", {"metadata": {"name": "f"}, "spec": {"size": 20}})
    stricter: Any = desk.get("customresourcedefinitions", "fleets.x.io", "")
    spec = stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["size"]["maximum"] = 10
    desk.update("customresourcedefinitions", stricter, "")
    assert desk.patch("fleets", "f", {"metadata": {"labels": {"a": "b"}}})["spec"] == {"size": 20}
    assert refusal(lambda: desk.patch("fleets", "f", {"spec": {"size": 30}})).code == 422


def test_a_definition_that_goes_takes_its_objects_along(desk: Desk) -> None:
    desk.create("customresourcedefinitions", definition(), "")
    desk.create("fleets", {"metadata": {"name": "f"}})
    desk.create("fleets", {"metadata": {"name": "held", "finalizers": ["x.io/hold"]}})
    desk.delete("customresourcedefinitions", "fleets.x.io", "")
    assert desk.names("fleets") == ["held"]
    assert conditions(desk.get("customresourcedefinitions", "fleets.x.io", ""))["Terminating"] == "True"
    desk.patch("fleets", "held", {"metadata": {"finalizers": None}})
    assert desk.names("customresourcedefinitions") == []
    assert desk.registry.catalog.find("x.io", "v1", "fleets") is None


def test_a_kind_that_a_webhook_would_convert_is_not_served(desk: Desk) -> None:
    tree: Any = definition()
    tree["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    desk.create("customresourcedefinitions", tree, "")
    made = desk.get("customresourcedefinitions", "fleets.x.io", "")
    assert conditions(made)["Established"] == "False"
    assert made["status"]["conditions"][1]["message"] == (
        "conversion by a webhook is not supported by this server; use strategy None"
    )
    assert desk.registry.catalog.find("x.io", "v1", "fleets") is None


def test_rules_that_are_not_evaluated_are_warned_of(desk: Desk) -> None:
    tree: Any = definition()
    schema = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": "self.spec.size > 1"}]
    desk.create("customresourcedefinitions", tree, "")
    assert desk.warnings == ["x-kubernetes-validations rules are not evaluated by this server"]


def test_names_that_are_taken_are_not_accepted(desk: Desk) -> None:
    desk.create("customresourcedefinitions", definition(), "")
    second: Any = definition()
    second["metadata"]["name"] = "navies.x.io"
    second["spec"]["names"] = {"kind": "Fleet", "plural": "navies"}
    desk.create("customresourcedefinitions", second, "")
    assert conditions(desk.get("customresourcedefinitions", "navies.x.io", "")) == {
        "NamesAccepted": "False",
        "Established": "False",
    }


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"scope": "Both"}, 'spec.scope: Unsupported value: "Both": supported values: "Cluster", "Namespaced"'),
        (
            {"group": "other.io"},
            'metadata.name: Invalid value: "fleets.x.io": must be spec.names.plural+"."+spec.group',
        ),
        ({"group": "nodots"}, 'spec.group: Invalid value: "nodots": should be a domain with at least one dot'),
    ],
)
def test_a_definition_that_breaks_rules_is_refused(desk: Desk, change: Any, error: str) -> None:
    tree: Any = definition()
    tree["spec"] |= change
    assert error in refusal(lambda: desk.create("customresourcedefinitions", tree, "")).message


def test_our_own_kinds_stay_whatever_is_installed(desk: Desk) -> None:
    tree: Any = definition()
    tree["metadata"]["name"] = "workloads.kueue.x-k8s.io"
    tree["spec"] |= {"group": "kueue.x-k8s.io", "names": {"kind": "Workload", "plural": "workloads"}}
    before = desk.registry.catalog.find("kueue.x-k8s.io", "v1beta2", "workloads")
    desk.create("customresourcedefinitions", tree, "")
    assert desk.registry.catalog.find("kueue.x-k8s.io", "v1beta2", "workloads") is before
    desk.delete("customresourcedefinitions", "workloads.kueue.x-k8s.io", "")
    assert desk.registry.catalog.find("kueue.x-k8s.io", "v1beta2", "workloads") is before


async def test_what_was_installed_is_there_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    store = Store.open(tmp_path / "store.db", clock)
    registry = Registry(store, Catalog(), clock)
    served = registry.catalog.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    assert served is not None
    tree = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **definition()}
    await registry.create(served, tree, "", Terms(who=ADMIN))
    await store.close()
    store = Store.open(tmp_path / "store.db", clock)
    assert Registry(store, Catalog(), clock).catalog.find("x.io", "v1", "fleets") is not None
    await store.close()
