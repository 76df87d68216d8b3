"""Are all mistakes of shape found, at once, whatever is sent?"""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykueue.api.checks import AdmissionCheck, MultiKueueConfig, ProvisioningRequest, ProvisioningRequestConfig
from pykueue.api.codec import KINDS
from pykueue.api.core import KubeObject, Tree
from pykueue.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Topology, WorkloadPriorityClass
from pykueue.api.schema import ERRORS_MAX, Node, defaults, node_of, problems, unknown_fields
from pykueue.api.workload import Workload


def queue(**spec: object) -> dict[str, object]:
    return {"spec": spec}


def group(**changes: object) -> dict[str, object]:
    flavor = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": 1}]}
    return queue(resourceGroups=[{"coveredResources": ["cpu"], "flavors": [flavor | changes]}])


def workload(**changes: object) -> dict[str, object]:
    return {"spec": {"podSets": [{"name": "main", "count": 1, "template": {}} | changes]}}


SUBDOMAIN = r"'^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'"
RG = "spec.resourceGroups[0]"


@pytest.mark.parametrize(
    ("kind", "tree", "texts"),
    [
        pytest.param(
            ClusterQueue,
            queue(queueingStrategy="X"),
            ['spec.queueingStrategy: Unsupported value: "X": supported values: "StrictFIFO", "BestEffortFIFO"'],
            id="none of the choices",
        ),
        pytest.param(
            ClusterQueue,
            queue(admissionScope={"admissionMode": "X"}),
            [
                'spec.admissionScope.admissionMode: Unsupported value: "X": '
                'supported values: "UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"'
            ],
            id="none of the choices of a lenient view",
        ),
        pytest.param(
            Workload,
            workload(count=-1),
            [
                "spec.podSets[0].count: Invalid value: -1: "
                "spec.podSets[0].count in body should be greater than or equal to 0"
            ],
            id="less than the least",
        ),
        pytest.param(
            Workload,
            workload(count="3"),
            [
                'spec.podSets[0].count: Invalid value: "string": '
                'spec.podSets[0].count in body must be of type integer: "string"'
            ],
            id="a text for a number",
        ),
        pytest.param(
            Workload,
            workload(count=True),
            [
                'spec.podSets[0].count: Invalid value: "boolean": '
                'spec.podSets[0].count in body must be of type integer: "boolean"'
            ],
            id="a boolean is no number",
        ),
        pytest.param(
            Workload,
            workload(count=2**31),
            ["spec.podSets[0].count: Invalid value: 2147483648: spec.podSets[0].count in body must be of type int32"],
            id="more than 32 bits",
        ),
        pytest.param(Workload, {"spec": {"podSets": [{}]}}, ["spec.podSets[0].template: Required value"], id="missing"),
        pytest.param(
            Workload, workload(template=None), ["spec.podSets[0].template: Required value"], id="null is missing"
        ),
        pytest.param(
            Workload,
            {"spec": {"podSets": []}},
            ["spec.podSets: Invalid value: 0: spec.podSets in body should have at least 1 items"],
            id="too few",
        ),
        pytest.param(
            Workload,
            {"spec": {"podSets": [{"template": {}}, {"template": {}, "name": "main"}]}},
            ['spec.podSets[1]: Duplicate value: {"name":"main"}'],
            id="the same name twice, once by default",
        ),
        pytest.param(
            Workload,
            {"status": {"schedulingStats": {"evictions": [{"reason": "a", "underlyingCause": "", "count": 1}] * 2}}},
            ['status.schedulingStats.evictions[1]: Duplicate value: {"reason":"a","underlyingCause":""}'],
            id="two keys the same",
        ),
        pytest.param(
            ClusterQueue,
            queue(cohortName="x" * 300),
            ["spec.cohortName: Too long: may not be more than 253 bytes"],
            id="a name of 300 characters",
        ),
        pytest.param(
            ClusterQueue,
            queue(cohortName="A"),
            [f'spec.cohortName: Invalid value: "A": spec.cohortName in body should match {SUBDOMAIN}'],
            id="a capital in a name",
        ),
        pytest.param(
            ClusterQueue,
            queue(cohortName="a\n"),
            [f'spec.cohortName: Invalid value: "a\\n": spec.cohortName in body should match {SUBDOMAIN}'],
            id="a newline after a name",
        ),
        pytest.param(
            AdmissionCheck,
            {"spec": {"controllerName": "", "parameters": {"apiGroup": "g", "kind": "KiND", "name": "n"}}},
            ['spec.controllerName: Invalid value: "": spec.controllerName in body should be at least 1 chars long'],
            id="an empty name, and a kind in capitals",
        ),
        pytest.param(
            ClusterQueue,
            group(resources=[{"name": "cpu", "nominalQuota": "1x"}]),
            [f'{RG}.flavors[0].resources[0].nominalQuota: Invalid value: "1x": '],
            id="no quantity",
        ),
        pytest.param(
            ClusterQueue,
            group(resources=[{"name": "cpu", "nominalQuota": "1e1.5"}]),
            [f'{RG}.flavors[0].resources[0].nominalQuota: Invalid value: "1e1.5": '],
            id="no quantity though the pattern lets it pass",
        ),
        pytest.param(
            ClusterQueue,
            group(resources=[{"name": "cpu", "nominalQuota": 1.5}]),
            [
                f'{RG}.flavors[0].resources[0].nominalQuota: Invalid value: "number": '
                f'{RG}.flavors[0].resources[0].nominalQuota in body must be of type integer,string: "number"'
            ],
            id="a fraction for a quantity",
        ),
        pytest.param(
            ClusterQueue,
            queue(admissionChecksStrategy={"admissionChecks": [{"name": "c", "onFlavors": ["a", "b", "a"]}]}),
            ['spec.admissionChecksStrategy.admissionChecks[0].onFlavors[2]: Duplicate value: "a"'],
            id="the same twice in a set",
        ),
        pytest.param(
            ClusterQueue,
            queue(admissionChecksStrategy={}),
            ["spec.admissionChecksStrategy.admissionChecks: Required value"],
            id="required though a view can do without",
        ),
        pytest.param(
            ResourceFlavor,
            {"spec": {"nodeLabels": {str(n): "x" for n in range(9)}}},
            ["spec.nodeLabels: Too many: 9: must have at most 8 items"],
            id="too many labels",
        ),
        pytest.param(
            ResourceFlavor,
            {"spec": {"nodeLabels": {"a": 1}}},
            [
                'spec.nodeLabels.a: Invalid value: "integer": '
                'spec.nodeLabels.a in body must be of type string: "integer"'
            ],
            id="a number for a label",
        ),
        pytest.param(
            ProvisioningRequestConfig,
            {"spec": {"provisioningClassName": "c", "parameters": {"a": "x" * 256}}},
            ["spec.parameters.a: Too long: may not be more than 255 bytes"],
            id="a parameter too long",
        ),
        pytest.param(
            LocalQueue,
            {
                "status": {
                    "conditions": [
                        {"type": "T", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "yesterday"}
                    ]
                }
            },
            [
                'status.conditions[0].lastTransitionTime: Invalid value: "yesterday": '
                'status.conditions[0].lastTransitionTime in body must be of type date-time: "yesterday"'
            ],
            id="no date",
        ),
        pytest.param(WorkloadPriorityClass, {}, ["value: Required value"], id="a field at the root"),
        pytest.param(Topology, {"spec": {}}, ["spec.levels: Required value"], id="no levels"),
        pytest.param(
            MultiKueueConfig,
            {"spec": {"clusters": "a"}},
            ['spec.clusters: Invalid value: "string": spec.clusters in body must be of type array: "string"'],
            id="a text for a list",
        ),
        pytest.param(ProvisioningRequest, {}, ["spec: Required value"], id="no spec where one must be"),
        pytest.param(ClusterQueue, {}, [], id="no spec where none need be"),
        pytest.param(ClusterQueue, [], ['Invalid value: "array": body must be of type object: "array"'], id="a list"),
        pytest.param(ClusterQueue, None, ['Invalid value: "null": body must be of type object: "null"'], id="nothing"),
        pytest.param(ClusterQueue, group(), [], id="a good queue"),
        pytest.param(Workload, workload(), [], id="a good workload"),
    ],
)
def test_problems(kind: type[KubeObject], tree: object, texts: list[str]) -> None:
    found = [str(error) for error in problems(kind, tree)]
    assert len(found) == len(texts)
    for text, start in zip(found, texts, strict=True):
        assert text.startswith(start) if start.endswith(": ") else text == start


def test_every_mistake_is_listed() -> None:
    tree = queue(queueingStrategy="X", cohortName="A", stopPolicy=1, preemption={"withinClusterQueue": "Y"})
    assert [error.path for error in problems(ClusterQueue, tree)] == [
        "spec.cohortName",
        "spec.queueingStrategy",
        "spec.preemption.withinClusterQueue",
        "spec.stopPolicy",
    ]


def test_ten_thousand_groups_are_one_mistake() -> None:
    started = time.perf_counter()
    found = problems(ClusterQueue, queue(resourceGroups=[group()["spec"]["resourceGroups"][0]] * 10_000))  # type: ignore[index]
    assert [str(error) for error in found] == ["spec.resourceGroups: Too many: 10000: must have at most 16 items"]
    assert time.perf_counter() - started < 1


def test_a_million_mistakes_are_cut_short() -> None:
    tree = {"spec": {"managedResources": [1] * 1_000_000, "parameters": 5}}
    assert len(problems(ProvisioningRequestConfig, tree)) <= ERRORS_MAX
    assert len(problems(AdmissionCheck, {"metadata": {"finalizers": [1] * 1_000_000}})) == ERRORS_MAX


def test_nesting_beyond_the_schema_is_not_followed() -> None:
    deep: object = {}
    for _ in range(100_000):
        deep = {"spec": deep}
    assert [error.path for error in problems(ClusterQueue, {"spec": {"stopPolicy": deep, "later": deep}})] == [
        "spec.stopPolicy"
    ]
    assert problems(Workload, workload(template=deep)) == ()


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def shaped(node: Node) -> st.SearchStrategy[object]:
    """Trees with the schema's field names, and anything at all in some of them."""
    if node.shape == "object":
        fields = {name: TREES | shaped(known.node) for name, known in node.properties.items()}
        return st.fixed_dictionaries({}, optional=fields)
    if node.shape in ("array", "map") and node.items is not None:
        inner = shaped(node.items) | TREES
        return st.lists(inner, max_size=2) if node.shape == "array" else st.dictionaries(st.text(), inner, max_size=2)
    return TREES


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(sorted(KINDS)))
def test_nothing_that_is_sent_is_an_exception(data: st.DataObject, name: str) -> None:
    view = KINDS[name].view
    tree = data.draw(shaped(node_of(view)))
    for error in problems(view, tree):
        assert str(error)
    unknown_fields(view, tree)
    if isinstance(tree, dict):
        filled = defaults(view, tree)
        assert defaults(view, filled) == filled


def test_unknown_fields() -> None:
    tree = {
        "apiVersion": "x",
        "kind": "y",
        "extra": 1,
        "metadata": {"name": "a", "managedFields": [{"x": 1}], "colour": 1, "labels": {"any": "thing"}},
        "spec": {"later": {}, "podSets": [{"template": {"any": 1}}, {"futureField": 1}]},
    }
    assert unknown_fields(Workload, tree) == (
        "extra",
        "metadata.colour",
        "spec.later",
        "spec.podSets[1].futureField",
    )


@pytest.mark.parametrize(
    ("kind", "tree", "expected"),
    [
        pytest.param(ClusterQueue, {}, {}, id="no spec, no defaults"),
        pytest.param(
            ClusterQueue,
            {"spec": {"later": None, "fairSharing": {}}},
            {
                "spec": {
                    "later": None,
                    "fairSharing": {"weight": 1},
                    "queueingStrategy": "BestEffortFIFO",
                    "stopPolicy": "None",
                    "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
                    "preemption": {
                        "reclaimWithinCohort": "Never",
                        "withinClusterQueue": "Never",
                        "borrowWithinCohort": {"policy": "Never"},
                    },
                }
            },
            id="a queue",
        ),
        pytest.param(
            Workload,
            {"spec": {"podSets": [{"template": {"x": None}, "count": None}], "priority": None}},
            {"spec": {"podSets": [{"template": {"x": None}, "name": "main", "count": 1}], "active": True}},
            id="nulls are absent but for templates",
        ),
        pytest.param(
            ProvisioningRequestConfig,
            {"spec": {"retryStrategy": {"backoffLimitCount": 0}}},
            {"spec": {"retryStrategy": {"backoffLimitCount": 0, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}}},
            id="part of an object",
        ),
        pytest.param(LocalQueue, {"spec": {}}, {"spec": {"stopPolicy": "None"}}, id="a local queue"),
        pytest.param(LocalQueue, {"spec": 5}, {"spec": 5}, id="of the wrong type"),
        pytest.param(WorkloadPriorityClass, {}, {}, id="a required field has none"),
    ],
)
def test_defaults(kind: type[KubeObject], tree: Tree, expected: Tree) -> None:
    assert defaults(kind, tree) == expected
