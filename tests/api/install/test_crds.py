"""Do the definitions say what the types and the rules say, in both versions?"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.convert import NEWER, to_v1beta1, to_v1beta2
from pykueue.api.install.crds import CONDITIONS, CONVERTED, ONE_WRITER, at, crd, crds, openapi
from pykueue.api.kinds import KINDS
from pykueue.api.names import GROUP
from pykueue.api.rules.table import BY_WEBHOOK, rules_of

OURS = [kind for kind in KINDS.values() if kind.group == GROUP]
BOTH = [pytest.param(kind.kind, version, id=f"{kind.kind} {version}") for kind in OURS for version in kind.versions]


@lru_cache
def schema(kind: str, version: str = "v1beta2") -> Any:
    return openapi(KINDS[kind], version)


def spec(kind: str, namespace: str = "kueue-system") -> Any:
    return crd(KINDS[kind], namespace)["spec"]


def parts(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every part of a schema, with its path."""
    yield path, node
    for name, inner in node.get("properties", {}).items():
        yield from parts(inner, f"{path}.{name}" if path else name)
    if "items" in node:
        yield from parts(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from parts(node["additionalProperties"], f"{path}{{}}")


def only(kind: str, version: str, path: str) -> Any:
    (found,) = at(schema(kind, version), path)
    return found


def test_there_is_one_for_each_kind_of_ours() -> None:
    labels = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
    assert [made["metadata"] for made in crds()] == [
        {"name": f"{kind.plural}.{GROUP}", "labels": labels} for kind in OURS
    ]
    assert len(OURS) == 11


def test_the_newer_version_is_stored_and_the_older_one_warns() -> None:
    warned = set()
    for kind in OURS:
        newer, older = spec(kind.kind)["versions"]
        assert (newer["name"], newer["served"], newer["storage"]) == ("v1beta2", True, True)
        assert (older["name"], older["served"], older["storage"]) == ("v1beta1", True, False)
        assert "deprecated" not in newer
        warned |= {kind.kind} if "deprecated" in older else set()
    assert warned == {kind.kind for kind in OURS} - {"MultiKueueConfig"}


def test_kinds_whose_versions_differ_are_converted_by_the_webhook() -> None:
    found = {kind.kind: spec(kind.kind, "elsewhere")["conversion"] for kind in OURS}
    assert {kind for kind, how in found.items() if how["strategy"] == "Webhook"} == set(CONVERTED)
    service = found["Workload"]["webhook"]["clientConfig"]["service"]
    assert service == {"namespace": "elsewhere", "name": "kueue-webhook-service", "path": "/convert"}
    assert all(found[kind] == {"strategy": "None"} for kind in found.keys() - set(CONVERTED))


def test_columns_follow_the_version() -> None:
    newer, older = spec("ClusterQueue")["versions"]
    assert newer["additionalPrinterColumns"][0] == {"name": "Cohort", "type": "string", "jsonPath": ".spec.cohortName"}
    assert older["additionalPrinterColumns"][0]["jsonPath"] == ".spec.cohort"
    assert newer["additionalPrinterColumns"][1]["priority"] == 1


def test_only_the_stored_version_can_be_selected_by_a_field() -> None:
    newer, older = spec("Workload")["versions"]
    assert newer["selectableFields"] == [{"jsonPath": ".status.admission.clusterQueue"}]
    assert "selectableFields" not in older


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_every_rule_of_the_schema_stands_where_it_belongs(kind: str, version: str) -> None:
    said = {(rule.cel_at, rule.cel, rule.message) for rule in rules_of(kind, version=version, surface="CEL")}
    found = {
        (path, rule["rule"], rule["message"])
        for path, node in parts(schema(kind, version))
        for rule in node.get("x-kubernetes-validations", [])
    }
    assert found == (set() if (kind, version) in BY_WEBHOOK else said)


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_every_field_has_a_type_and_what_kubectl_explains(kind: str, version: str) -> None:
    for path, node in parts(schema(kind, version)):
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        last = path.rpartition(".")[2]
        if not path.startswith("metadata") and not last.endswith(("[]", "{}")) and "default" not in last:
            assert node.get("description") or version == "v1beta1", path


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_keys_of_lists_are_always_there(kind: str, version: str) -> None:
    for path, node in parts(schema(kind, version)):
        for key in node.get("x-kubernetes-list-map-keys", []):
            inner = node["items"]["properties"][key]
            assert key in node["items"].get("required", []) or "default" in inner, f"{path}: {key}"


def test_a_pod_template_is_kept_as_it_came() -> None:
    template = only("Workload", "v1beta2", "spec.podSets[].template")
    assert template == {
        "description": "Template of the pods.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }


@pytest.mark.parametrize(
    ("kind", "path"), [pytest.param(kind, path, id=path) for kind, paths in ONE_WRITER.items() for path in paths]
)
def test_lists_with_one_writer_are_owned_whole(kind: str, path: str) -> None:
    found = only(kind, "v1beta2", path)
    assert found["x-kubernetes-list-type"] == "atomic"
    assert "x-kubernetes-list-map-keys" not in found


@pytest.mark.parametrize(("kind", "version"), BOTH)
def test_each_condition_is_owned_whole(kind: str, version: str) -> None:
    for condition in at(schema(kind, version), CONDITIONS):
        assert condition["x-kubernetes-map-type"] == "atomic"
        assert only(kind, version, CONDITIONS.removesuffix("[]"))["x-kubernetes-list-type"] == "map"


def test_every_status_but_that_of_cohorts_has_conditions() -> None:
    assert [kind.kind for kind in OURS if kind.status and not [*at(schema(kind.kind), CONDITIONS)]] == ["Cohort"]


@pytest.mark.parametrize("path", ["status.conditions", "status.admissionChecks"])
def test_lists_that_others_write_too_stay_keyed(path: str) -> None:
    assert only("Workload", "v1beta2", path)["x-kubernetes-list-type"] == "map"


@pytest.mark.parametrize(
    ("kind", "path"), [pytest.param(kind, path, id=path) for kind, paths in NEWER.items() for path in paths]
)
def test_the_older_version_lacks_what_is_newer(kind: str, path: str) -> None:
    assert list(at(schema(kind), path))
    assert not list(at(schema(kind, "v1beta1"), path))


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("ClusterQueue", "spec.cohort"),
        ("ClusterQueue", "spec.admissionChecks"),
        ("ClusterQueue", "status.pendingWorkloadsStatus"),
        ("ClusterQueue", "status.fairSharing.admissionFairSharingStatus"),
        ("Cohort", "status.fairSharing.admissionFairSharingStatus"),
        ("LocalQueue", "status.flavorUsage"),
        ("LocalQueue", "status.flavors"),
        ("Workload", "spec.priorityClassName"),
        ("Workload", "spec.priorityClassSource"),
        ("Workload", "status.accumulatedPastExexcutionTimeSeconds"),
        ("Workload", "status.admission.podSetAssignments[].topologyAssignment.domains"),
        ("MultiKueueCluster", "spec.kubeConfig"),
        ("MultiKueueCluster", "spec.clusterProfileRef"),
        ("AdmissionCheck", "spec.retryDelayMinutes"),
    ],
)
def test_the_older_version_has_what_is_gone(kind: str, path: str) -> None:
    assert list(at(schema(kind, "v1beta1"), path))
    assert not list(at(schema(kind), path))


def test_the_older_version_takes_the_old_words() -> None:
    fungibility = only("ClusterQueue", "v1beta1", "spec.flavorFungibility")["properties"]
    assert fungibility["whenCanBorrow"]["enum"] == ["MayStopSearch", "TryNextFlavor", "Borrow"]
    assert fungibility["whenCanPreempt"]["enum"] == ["MayStopSearch", "TryNextFlavor", "Preempt"]
    newer = only("ClusterQueue", "v1beta2", "spec.flavorFungibility")["properties"]
    assert newer["whenCanBorrow"]["enum"] == ["MayStopSearch", "TryNextFlavor"]


def pruned(node: Any, value: Any) -> Any:
    """What a server keeps of a value: the fields that its schema knows."""
    if isinstance(value, dict) and not node.get("x-kubernetes-preserve-unknown-fields"):
        if "additionalProperties" in node:
            return value
        known = node.get("properties", {})
        return {name: pruned(known[name], inner) for name, inner in value.items() if name in known}
    return [pruned(node["items"], item) for item in value] if isinstance(value, list) else value


def values(node: Any) -> st.SearchStrategy[Any]:
    """Objects with some of the fields that a schema knows; what the fields hold is of no interest."""
    if "properties" in node:
        inner = {name: values(known) for name, known in node["properties"].items()}
        return st.fixed_dictionaries({}, optional=inner)
    if "enum" in node:
        return st.sampled_from(node["enum"])
    made: dict[str, st.SearchStrategy[Any]] = {"string": st.just("a"), "integer": st.just(1), "boolean": st.just(True)}
    if node.get("type") == "array":
        return st.lists(values(node["items"]), max_size=2)
    return made.get(node.get("type", "string"), st.just({}))


@pytest.mark.parametrize("kind", CONVERTED)
@given(data=st.data())
def test_nothing_is_lost_on_the_way_to_the_other_version(kind: str, data: st.DataObject) -> None:
    """A converted object has no field that the schema of its new version does not know, so none is pruned."""
    for version, convert in (("v1beta1", to_v1beta2), ("v1beta2", to_v1beta1)):
        other = "v1beta2" if version == "v1beta1" else "v1beta1"
        tree = {name: data.draw(values(only(kind, version, name))) for name in ("spec", "status")}
        there = convert({**tree, "apiVersion": f"{GROUP}/{version}", "kind": kind})
        for name in tree:
            # Slices and domains that make no sense stay as they are, for the schema to complain about.
            kept = without_placement(there[name])
            assert pruned(only(kind, other, name), kept) == kept


def without_placement(status: Any) -> Any:
    """A status without what is converted only where it makes sense."""
    for assignment in (status.get("admission") or {}).get("podSetAssignments", []):
        assignment.pop("topologyAssignment", None)
    return status
