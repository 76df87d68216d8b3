"""Is nothing lost between the versions but what one of them cannot say?"""

import copy
from typing import Any, TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pykueue.api.convert import NEWER, V1BETA1, V1BETA2, to_v1beta1, to_v1beta2
from pykueue.api.core import Tree
from pykueue.api.kinds import KINDS
from pykueue.api.schema import TypeNode, node_of
from pykueue.api.trees import nodes

Row: TypeAlias = tuple[str, str, dict[str, object], dict[str, object]]
"""What a row shows, a kind, and an object of it before and after."""

WPC, PC = "kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass"


def ref(group: str, kind: str, **name: str) -> dict[str, object]:
    return {"spec": {"priorityClassRef": {"group": group, "kind": kind, **name}}}


def placed(**assignment: object) -> dict[str, object]:
    return {"status": {"admission": {"podSetAssignments": [{"name": "main", "topologyAssignment": assignment}]}}}


OLD_DOMAINS = placed(levels=["l"], later=1, domains=[{"values": ["n1"], "count": 2}, {"values": ["n2"], "count": 2}])
NEW_SLICES = placed(
    levels=["l"],
    later=1,
    slices=[
        {
            "domainCount": 2,
            "podCounts": {"universal": 2},
            "valuesPerLevel": [{"individual": {"prefix": "n", "roots": ["1", "2"]}}],
        }
    ],
)
ENDLESS = placed(
    levels=["l"],
    slices=[{"domainCount": 10**12, "podCounts": {"universal": 1}, "valuesPerLevel": [{"universal": "a"}]}],
)
CHECKS = {"admissionChecks": [{"name": "a"}, {"name": "b"}]}

BOTH_WAYS: list[Row] = [
    ("cohort", "ClusterQueue", {"spec": {"cohort": "c"}}, {"spec": {"cohortName": "c"}}),
    ("usage of a local queue", "LocalQueue", {"status": {"flavorUsage": []}}, {"status": {"flavorsUsage": []}}),
    (
        "workload priority class",
        "Workload",
        {"spec": {"priorityClassSource": WPC, "priorityClassName": "p"}},
        ref("kueue.x-k8s.io", "WorkloadPriorityClass", name="p"),
    ),
    (
        "pod priority class",
        "Workload",
        {"spec": {"priorityClassSource": PC, "priorityClassName": "p"}},
        ref("scheduling.k8s.io", "PriorityClass", name="p"),
    ),
    (
        "a source without a name",
        "Workload",
        {"spec": {"priorityClassSource": PC}},
        ref("scheduling.k8s.io", "PriorityClass"),
    ),
    (
        "the spelling of past seconds",
        "Workload",
        {"status": {"accumulatedPastExexcutionTimeSeconds": 0}},
        {"status": {"accumulatedPastExecutionTimeSeconds": 0}},
    ),
    ("an assignment", "Workload", OLD_DOMAINS, NEW_SLICES),
    (
        "a kubeconfig",
        "MultiKueueCluster",
        {"spec": {"kubeConfig": {"location": "s", "locationType": "Secret"}}},
        {"spec": {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Secret"}}}},
    ),
    (
        "a cluster profile",
        "MultiKueueCluster",
        {"spec": {"kubeConfig": {"location": ""}, "clusterProfileRef": {"name": "p"}}},
        {"spec": {"clusterSource": {"clusterProfileRef": {"name": "p"}}}},
    ),
    ("only the version", "ResourceFlavor", {"spec": {"nodeLabels": {}}}, {"spec": {"nodeLabels": {}}}),
    ("a kind we do not know", "Later", {"spec": {"cohort": "c"}}, {"spec": {"cohort": "c"}}),
]
UPWARD: list[Row] = [
    (
        "checks replace the strategy",
        "ClusterQueue",
        {"spec": {"admissionChecks": ["a", "b"], "admissionChecksStrategy": {"x": 1}}},
        {"spec": {"admissionChecksStrategy": CHECKS}},
    ),
    (
        "no checks leave the strategy",
        "ClusterQueue",
        {"spec": {"admissionChecks": [], "admissionChecksStrategy": {"x": 1}}},
        {"spec": {"admissionChecksStrategy": {"x": 1}}},
    ),
    (
        "old words for a stop",
        "ClusterQueue",
        {"spec": {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}},
        {"spec": {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}}},
    ),
    (
        "new words for a stop",
        "ClusterQueue",
        {"spec": {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}},
        {"spec": {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}},
    ),
    (
        "status that is gone",
        "ClusterQueue",
        {
            "status": {
                "pendingWorkloadsStatus": {},
                "fairSharing": {"weightedShare": 1, "admissionFairSharingStatus": {}},
            }
        },
        {"status": {"fairSharing": {"weightedShare": 1}}},
    ),
    (
        "a cohort's past usage",
        "Cohort",
        {"status": {"fairSharing": {"weightedShare": 1, "admissionFairSharingStatus": {}}}},
        {"status": {"fairSharing": {"weightedShare": 1}}},
    ),
    (
        "a local queue keeps its past usage",
        "LocalQueue",
        {"status": {"flavors": [], "fairSharing": {"admissionFairSharingStatus": {}}}},
        {"status": {"fairSharing": {"admissionFairSharingStatus": {}}}},
    ),
    (
        "a delay is lost",
        "AdmissionCheck",
        {"spec": {"controllerName": "c", "retryDelayMinutes": 15}},
        {"spec": {"controllerName": "c"}},
    ),
    ("an empty cohort is none", "ClusterQueue", {"spec": {"cohort": ""}}, {"spec": {}}),
    (
        "a class without a source is lost",
        "Workload",
        {"spec": {"priorityClassSource": "", "priorityClassName": "p"}},
        {"spec": {}},
    ),
    (
        "a malformed assignment stays",
        "Workload",
        placed(levels=["l"], domains=[{"values": [], "count": 1}]),
        placed(levels=["l"], domains=[{"values": [], "count": 1}]),
    ),
    ("no domains", "Workload", placed(levels=["l"], domains=[]), placed(levels=["l"], slices=[])),
]
DOWNWARD: list[Row] = [
    ("concurrent admission is lost", "ClusterQueue", {"spec": {"concurrentAdmissionPolicy": {}}}, {"spec": {}}),
    ("the strategy stays", "ClusterQueue",
     {"spec": {"admissionChecksStrategy": CHECKS}}, {"spec": {"admissionChecksStrategy": CHECKS}}),
    ("gates and constraints are lost", "Workload",
     {"spec": {"preemptionGates": [], "podSets": [{"topologyRequest": {"podsetSliceRequiredTopologyConstraints": []}}]},
      "status": {"preemptionGates": []}},
     {"spec": {"podSets": [{"topologyRequest": {}}]}, "status": {}}),
    ("quota management is lost", "MultiKueueConfig",
     {"spec": {"clusters": ["a"], "quotaManagement": "Manual"}}, {"spec": {"clusters": ["a"]}}),
    ("a class of a third kind is lost", "Workload", ref("kueue.x-k8s.io", "PriorityClass", name="p"), {"spec": {}}),
    ("a contradictory assignment stays", "Workload", ENDLESS, ENDLESS),
]  # fmt: skip


def rows(*tables: list[Row]) -> list[object]:
    return [pytest.param(*row[1:], id=row[0]) for table in tables for row in table]


@pytest.mark.parametrize(("kind", "old", "new"), rows(BOTH_WAYS, UPWARD))
def test_to_v1beta2(kind: str, old: Tree, new: Tree) -> None:
    source: Tree = {"apiVersion": V1BETA1, "kind": kind, **old}
    before = copy.deepcopy(source)
    assert to_v1beta2(source) == {"apiVersion": V1BETA2, "kind": kind, **new}
    assert source == before


@pytest.mark.parametrize(("kind", "new", "old"), rows([(i, k, new, old) for i, k, old, new in BOTH_WAYS], DOWNWARD))
def test_to_v1beta1(kind: str, new: Tree, old: Tree) -> None:
    source: Tree = {"apiVersion": V1BETA2, "kind": kind, **new}
    before = copy.deepcopy(source)
    assert to_v1beta1(source) == {"apiVersion": V1BETA1, "kind": kind, **old}
    assert source == before


def test_other_objects_are_left_alone() -> None:
    job: Tree = {"apiVersion": "batch/v1", "kind": "Workload", "spec": {"cohort": "c"}}
    assert to_v1beta2(job) is job
    assert to_v1beta1(job) is job


LEAVES: dict[str, st.SearchStrategy[object]] = {
    "string": st.text("abc", min_size=1, max_size=4),
    "integer": st.integers(0, 9),
    "boolean": st.booleans(),
    "integer,string": st.sampled_from([1, "500m", "1Gi"]),
    "opaque": st.just({"spec": {"containers": []}}),
}


def valid(node: TypeNode) -> st.SearchStrategy[object]:
    """Trees of the schema, each object with a field that no schema knows."""
    if node.shape == "object":
        must = {name: valid(known.node) for name, known in node.properties.items() if known.required}
        may = {name: valid(known.node) for name, known in node.properties.items() if not known.required}
        return st.fixed_dictionaries(must | {"later": st.just([1])}, optional=may)
    if node.shape == "map":
        assert node.items is not None
        return st.dictionaries(LEAVES["string"], valid(node.items), max_size=2)
    if node.shape == "array":
        assert node.items is not None
        return st.lists(valid(node.items), min_size=1, max_size=2)
    enum = node.limits.get("enum")
    return st.sampled_from(enum) if isinstance(enum, list) else LEAVES[node.shape]


def without_losses(tree: Tree) -> dict[str, Any]:
    """The tree less what v1beta1 cannot say."""
    kept: dict[str, Any] = copy.deepcopy(tree)
    spec, status = kept.get("spec"), kept.get("status")
    if isinstance(spec, dict):
        for name in ("concurrentAdmissionPolicy", "preemptionGates", "quotaManagement"):
            spec.pop(name, None)
        for pod_set in spec.get("podSets", []):
            pod_set.get("topologyRequest", {}).pop("podsetSliceRequiredTopologyConstraints", None)
        reference = spec.get("priorityClassRef")
        if reference is not None:
            # A reference has two fields in v1beta1, without room for more.
            reference.pop("later")
    if isinstance(status, dict):
        status.pop("preemptionGates", None)
        # Random slices contradict themselves; assignments that do not are in a table above.
        for assignment in status.get("admission", {}).get("podSetAssignments", []):
            assignment.pop("topologyAssignment", None)
    return kept


VERSIONED = sorted(name for name, kind in KINDS.items() if "v1beta1" in kind.versions)


@given(st.data(), st.sampled_from(VERSIONED))
def test_there_and_back_again(data: st.DataObject, name: str) -> None:
    drawn = data.draw(valid(node_of(KINDS[name].view)))
    assert isinstance(drawn, dict)
    tree = without_losses(drawn | {"apiVersion": V1BETA2, "kind": name})
    reference = tree.get("spec", {}).get(
        "priorityClassRef", {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass"}
    )
    assume((reference["kind"] == "PriorityClass") is (reference["group"] == "scheduling.k8s.io"))
    old = to_v1beta1(tree)
    assert old["apiVersion"] == V1BETA1
    assert to_v1beta2(old) == tree


@pytest.mark.parametrize("kind", sorted(NEWER))
def test_what_only_v1beta2_has_is_lost_or_renamed(kind: str) -> None:
    for path in NEWER[kind]:
        *way, last = path.split(".")
        tree: Tree = {last: {}}
        for step in reversed(way):
            tree = {step.removesuffix("[]"): [tree] if step.endswith("[]") else tree}
        old = to_v1beta1({"apiVersion": V1BETA2, "kind": kind, **tree})
        # What is of the wrong shape for its new name stays as it is.
        assert path.endswith(".slices") or not list(nodes(path, old))


FIELDS = [
    "spec",
    "status",
    "admissionChecks",
    "podSets",
    "topologyRequest",
    "admission",
    "podSetAssignments",
    "topologyAssignment",
    "levels",
    "domains",
    "slices",
    "kubeConfig",
    "clusterSource",
    "priorityClassRef",
    "priorityClassSource",
    "fairSharing",
    "flavorFungibility",
    "cohort",
    "values",
    "count",
    "kind",
    "group",
]
ANY = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=20,
)


@given(st.sampled_from(VERSIONED), ANY, ANY)
def test_any_shape_can_be_converted(name: str, spec: Any, status: Any) -> None:
    for version in (V1BETA1, V1BETA2):
        tree: Tree = {"apiVersion": version, "kind": name, "spec": spec, "status": status}
        assert to_v1beta2(tree)["apiVersion"] == V1BETA2
        assert to_v1beta1(tree)["apiVersion"] == V1BETA1
