"""Is everything that objects ask for in vain named with its place?"""

from collections.abc import Mapping

import msgspec
import pytest

from pykueue.api.checks import AdmissionCheck
from pykueue.api.core import KubeObject, Tree
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from pykueue.api.names import USAGE_BASED
from pykueue.api.pods import PodTemplate, from_tree
from pykueue.api.workload import Workload
from pykueue.bridge.unbuilt import IDLE_WITHOUT_SHARING, UNBUILT, WEIGHT, Row, idle, unbuilt

VIEWS: Mapping[str, type[KubeObject]] = {
    view.__name__: view for view in (ResourceFlavor, ClusterQueue, AdmissionCheck, Workload, LocalQueue, Cohort)
}
VALUES: Mapping[str, object] = {
    "spec.concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}},
    "spec.podSets[].topologyRequest.unconstrained": True,
    "spec.podSets[].topologyRequest.podSetSliceSize": 2,
    "spec.podSets[].topologyRequest.podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 2}],
    "spec.preemptionGates": [{"name": "g"}],
    "status.nominatedClusterNames": ["c"],
    "status.unhealthyNodes": [{"name": "n"}],
    "status.admission.podSetAssignments[].topologyAssignment": {"levels": ["rack"], "slices": []},
    "spec.resourceClaims": [{"name": "gpu"}],
    "spec.initContainers[].resources.claims": [{"name": "gpu"}],
    "spec.containers[].resources.claims": [{"name": "gpu"}],
    "spec.fairSharing.weight": "0",
}
"""What stands at a path that wants more than a text."""
TABLES = (UNBUILT, IDLE_WITHOUT_SHARING)
ROWS = [(kind, path, row) for table in TABLES for kind, rows in table.items() for path, row in rows.items()]
CASES = [pytest.param(kind, path, row, id=f"{kind} {path}") for kind, path, row in ROWS]
ONE_VALUE = [pytest.param(kind, path, row, id=f"{kind} {path}") for kind, path, row in ROWS if row.only is not None]


def asking(path: str, value: object) -> object:
    """A tree with this value at a path."""
    if not path:
        return value
    if path.startswith("[]"):
        inner = asking(path[2:].removeprefix("."), value)
        assert isinstance(inner, dict), "every list in the tables holds objects"
        return [{"template": {}}, {"template": {}, **inner}]
    if path.startswith("["):
        return {path[1:-1]: value}
    end = min((place for place in (path.find("."), path.find("[")) if place > 0), default=len(path))
    return {path[:end]: asking(path[end:].removeprefix("."), value)}


def seen(kind: str, tree: object) -> object:
    """The tree as whoever asks has it: a view, or as it came."""
    if kind == "Job":
        return tree
    if kind == "PodTemplate":
        return from_tree(tree, PodTemplate)
    return msgspec.json.decode(msgspec.json.encode(tree), type=VIEWS[kind])


@pytest.mark.parametrize(("kind", "path", "row"), CASES)
def test_a_row_is_told_with_its_place(kind: str, path: str, row: Row) -> None:
    tree = asking(path, row.only or VALUES.get(path, "x"))
    (sentence,) = (*unbuilt(kind, seen(kind, tree)), *idle(kind, seen(kind, tree), fair_sharing=False, past_use=False))
    assert sentence == f"{path.replace('[]', '[1]')}: {row.sentence}"


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort"])
def test_under_fair_sharing_weights_have_an_effect(kind: str) -> None:
    tree = asking(WEIGHT, "2")
    assert idle(kind, seen(kind, tree), fair_sharing=True, past_use=True) == ()
    assert len(idle(kind, seen(kind, tree), fair_sharing=False, past_use=False)) == 1


def with_mode(kind: str, mode: str) -> object:
    """An object with an admission mode."""
    return seen(kind, {"metadata": {"name": "all", "annotations": {"pykueue.io/admission-mode": mode}}})


@pytest.mark.parametrize(
    ("kind", "mode", "on", "told"),
    [
        ("Cohort", USAGE_BASED, (True, True), ""),
        ("Cohort", "NoAdmissionFairSharing", (False, False), ""),
        ("Cohort", USAGE_BASED, (False, True), "past use orders the children of a Cohort only with fairSharing"),
        ("Cohort", USAGE_BASED, (True, False), "past use orders the children of a Cohort only with fairSharing"),
        ("Cohort", "usage-based", (True, True), "'usage-based' is not known and has no effect; use UsageBased"),
        ("Cohort", "", (True, True), "'' is not known and has no effect"),
        ("ClusterQueue", USAGE_BASED, (True, True), "has no effect on a ClusterQueue; use spec.admissionScope"),
        ("LocalQueue", USAGE_BASED, (False, False), ""),
    ],
)
def test_an_admission_mode_without_effect_is_told(kind: str, mode: str, on: tuple[bool, bool], told: str) -> None:
    found = idle(kind, with_mode(kind, mode), fair_sharing=on[0], past_use=on[1])
    assert len(found) == bool(told)
    assert all(one.startswith(f"metadata.annotations[pykueue.io/admission-mode]: {told}") for one in found)


def test_a_long_value_is_shown_in_part() -> None:
    (found,) = idle("Cohort", with_mode("Cohort", "x" * 100_000), fair_sharing=True, past_use=True)
    assert len(found) < 300


def test_pods_that_only_count_themselves_ask_for_nothing() -> None:
    request = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
    tree = {"spec": {"podSets": [{"template": {}, "topologyRequest": request}]}}
    assert unbuilt("Workload", seen("Workload", tree)) == ()


@pytest.mark.parametrize(("kind", "path", "row"), ONE_VALUE)
def test_another_value_asks_for_nothing(kind: str, path: str, row: Row) -> None:
    other = {"Pending": "Ready", "UsageBasedAdmissionFairSharing": "NoAdmissionFairSharing"}.get(
        row.only or "", "x.io/y"
    )
    assert unbuilt(kind, seen(kind, asking(path, other))) == ()


@pytest.mark.parametrize("kind", sorted({*UNBUILT, *IDLE_WITHOUT_SHARING}))
@pytest.mark.parametrize(
    "tree",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": {"annotations": {"note": "x"}, "labels": {"a": "b"}}}, id="nothing special"),
    ],
)
def test_an_ordinary_object_asks_for_nothing(kind: str, tree: Tree) -> None:
    thing = tree if kind == "AdmissionCheck" else seen(kind, tree)
    assert (unbuilt(kind, thing), idle(kind, thing, fair_sharing=False, past_use=False)) == ((), ())


def test_empty_fields_ask_for_nothing() -> None:
    tree: Tree = {"spec": {"resourceClaims": [], "containers": [{"resources": {"claims": []}}]}}
    assert unbuilt("PodTemplate", from_tree(tree, PodTemplate)) == ()


def test_all_that_is_asked_for_is_told_in_order() -> None:
    tree: Tree = {
        "metadata": {"annotations": {"kueue.x-k8s.io/elastic-job": "true", "kueue.x-k8s.io/podset-slice-size": "2"}},
        "spec": {"containers": [{"resources": {"claims": [{"name": "a"}]}}, {}, {"resources": {"claims": [{}]}}]},
    }
    assert [one.split(": ")[0] for one in unbuilt("PodTemplate", from_tree(tree, PodTemplate))] == [
        "metadata.annotations[kueue.x-k8s.io/podset-slice-size]",
        "metadata.annotations[kueue.x-k8s.io/elastic-job]",
        "spec.containers[0].resources.claims",
        "spec.containers[2].resources.claims",
    ]


def test_every_sentence_says_that_it_is_not_there_yet() -> None:
    rows = [row for rows in UNBUILT.values() for row in rows.values()]
    assert all("not supported yet" in row.sentence for row in rows)
