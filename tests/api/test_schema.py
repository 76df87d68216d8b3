"""Are all mistakes of shape found, at once, whatever is sent?"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykueue.api.checks import (
    AdmissionCheck,
    MultiKueueCluster,
    MultiKueueConfig,
    ProvisioningRequest,
    ProvisioningRequestConfig,
)
from pykueue.api.core import KubeObject, Tree
from pykueue.api.kinds import KINDS
from pykueue.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Topology, WorkloadPriorityClass
from pykueue.api.schema import (
    ERRORS_MAX,
    SUGGESTIONS_MAX,
    TypeNode,
    defaults,
    helpful,
    node_of,
    problems,
    unknown_fields,
    unknown_problems,
)
from pykueue.api.workload import Workload


def queue(**spec: object) -> dict[str, Any]:
    return {"spec": spec}


def group(**changes: object) -> dict[str, Any]:
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


@pytest.mark.parametrize(
    ("kind", "tree", "ending"),
    [
        pytest.param(
            ClusterQueue,
            queue(cohortName="Team A"),
            "; use lower-case letters, digits, '-' and '.', as in team-a",
            id="a name",
        ),
        pytest.param(
            Workload, workload(name="A"), "; use lower-case letters, digits and '-', as in team-a", id="a label"
        ),
        pytest.param(Topology, {"spec": {"levels": [{"nodeLabel": "a b"}]}}, ", as in example.com/rack", id="a key"),
        pytest.param(
            ClusterQueue,
            group(resources=[{"name": "cpu", "nominalQuota": "1 GB"}]),
            "; write a number with an optional suffix, as in 500m, 2, 1.5Gi",
            id="a quantity",
        ),
        pytest.param(
            ResourceFlavor, {"spec": {"nodeLabels": {"a": 1}}}, "; put the value in quotes", id="a number for a text"
        ),
        pytest.param(
            ResourceFlavor,
            {"spec": {"nodeLabels": {"a": []}}},
            'must be of type string: "array"',
            id="a list for a text",
        ),
        pytest.param(WorkloadPriorityClass, {}, "value: Required value", id="nothing to add"),
    ],
)
def test_a_mistake_says_what_to_do(kind: type[KubeObject], tree: object, ending: str) -> None:
    (error,) = problems(kind, tree)
    assert helpful(error).startswith(str(error))
    assert helpful(error).endswith(ending)


def test_ten_thousand_groups_are_one_mistake() -> None:
    found = problems(ClusterQueue, queue(resourceGroups=[group()["spec"]["resourceGroups"][0]] * 10_000))
    assert [str(error) for error in found] == ["spec.resourceGroups: Too many: 10000: must have at most 16 items"]


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
    assert [error.path for error in problems(Workload, workload(template=deep))] == [
        "spec.podSets[0].template.spec.containers"
    ]
    assert unknown_fields(Workload, workload(template=deep)) == ("spec.podSets[0].template.spec.spec",)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def shaped(node: TypeNode) -> st.SearchStrategy[object]:
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
    for version in ("v1beta1", "v1beta2"):
        for error in (*problems(view, tree, version), *unknown_problems(view, tree, version)):
            assert str(error)
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
        "spec.podSets[0].template.any",
        "spec.podSets[1].futureField",
    )


def test_the_nearest_name_is_offered_while_slips_are_few() -> None:
    tree = {"spec": {f"priorit{n}": 1 for n in range(SUGGESTIONS_MAX + 1)}}
    found = [str(error) for error in unknown_problems(Workload, tree)]
    assert found[0] == "spec.priorit0: unknown field; did you mean priority?"
    assert found[-1] == f"spec.priorit{SUGGESTIONS_MAX}: unknown field; correct its name or remove it"


def slices(**assignment: object) -> dict[str, object]:
    return {"status": {"admission": {"podSetAssignments": [{"topologyAssignment": {"levels": ["l"], **assignment}}]}}}


V1BETA2_ONLY = "write the object in v1beta2, or remove the field"
TA = "status.admission.podSetAssignments[0].topologyAssignment"


@pytest.mark.parametrize(
    ("kind", "tree", "texts"),
    [
        pytest.param(
            ClusterQueue,
            {"spec": {"cohort": "c", "admissionChecks": ["a"]}, "status": {"pendingWorkloadsStatus": {}}},
            [],
            id="what only v1beta1 has",
        ),
        pytest.param(AdmissionCheck, {"spec": {"retryDelayMinutes": 15}}, [], id="a delay that is gone"),
        pytest.param(LocalQueue, {"status": {"flavorUsage": [], "flavors": []}}, [], id="usage by its old name"),
        pytest.param(
            Workload,
            {
                "spec": {"priorityClassName": "p", "priorityClassSource": ""},
                "status": {"accumulatedPastExexcutionTimeSeconds": 1},
            },
            [],
            id="a priority by name and source",
        ),
        pytest.param(Workload, slices(domains=[{"values": ["a"], "count": 1}]), [], id="domains"),
        pytest.param(Workload, slices(domains="many"), [], id="domains of the wrong type"),
        pytest.param(MultiKueueCluster, {"spec": {"kubeConfig": {"location": "s"}}}, [], id="a kubeconfig"),
        pytest.param(
            ClusterQueue,
            {"spec": {"cohortName": "c", "concurrentAdmissionPolicy": {}}},
            [
                "spec.cohortName: unknown field; did you mean cohort?",
                f"spec.concurrentAdmissionPolicy: unknown field; {V1BETA2_ONLY}",
            ],
            id="a queue of v1beta2",
        ),
        pytest.param(
            LocalQueue,
            {"status": {"flavorsUsage": []}},
            ["status.flavorsUsage: unknown field; did you mean flavorUsage?"],
            id="usage by its new name",
        ),
        pytest.param(
            Workload,
            {
                "spec": {
                    "priorityClassRef": {},
                    "preemptionGates": [],
                    "podSets": [{"topologyRequest": {"podsetSliceRequiredTopologyConstraints": []}}],
                },
                "status": {"preemptionGates": []},
            },
            [
                "spec.priorityClassRef: unknown field; did you mean priorityClassName?",
                f"spec.preemptionGates: unknown field; {V1BETA2_ONLY}",
                "spec.podSets[0].topologyRequest.podsetSliceRequiredTopologyConstraints: unknown field; "
                + V1BETA2_ONLY,
                f"status.preemptionGates: unknown field; {V1BETA2_ONLY}",
            ],
            id="a workload of v1beta2",
        ),
        pytest.param(Workload, slices(slices=[]), [f"{TA}.slices: unknown field; did you mean domains?"], id="slices"),
        pytest.param(
            MultiKueueCluster,
            {"spec": {"clusterSource": {"kubeConfig": {}}}},
            ["spec.clusterSource: unknown field; did you mean kubeConfig?"],
            id="a cluster of v1beta2",
        ),
        pytest.param(
            MultiKueueConfig,
            {"spec": {"clusters": [], "quotaManagement": "Manual"}},
            [f"spec.quotaManagement: unknown field; {V1BETA2_ONLY}"],
            id="quota of v1beta2",
        ),
        pytest.param(
            ClusterQueue,
            {"spec": {"cohorts": "c", "stopPolicies": "None"}},
            [
                "spec.cohorts: unknown field; did you mean cohort?",
                "spec.stopPolicies: unknown field; did you mean stopPolicy?",
            ],
            id="a slip is near a name of v1beta1",
        ),
        pytest.param(
            MultiKueueCluster,
            {"spec": {"kubeConfig": {"location": "s", "locationtype": "Path"}}},
            ["spec.kubeConfig.locationtype: unknown field; did you mean locationType?"],
            id="a slip in what moves",
        ),
        pytest.param(ClusterQueue, [], [], id="a list"),
    ],
)
def test_unknown_fields_of_v1beta1(kind: type[KubeObject], tree: object, texts: list[str]) -> None:
    assert [str(error) for error in unknown_problems(kind, tree, "v1beta1")] == texts
    assert unknown_fields(kind, tree, "v1beta1") == tuple(text.partition(":")[0] for text in texts)


@pytest.mark.parametrize(
    ("kind", "tree", "texts"),
    [
        pytest.param(
            ClusterQueue,
            {"spec": {"cohort": "A"}},
            [f'spec.cohort: Invalid value: "A": spec.cohort in body should match {SUBDOMAIN}'],
            id="a cohort",
        ),
        pytest.param(
            ClusterQueue,
            {"spec": {"admissionChecks": ["a", ""]}},
            [
                'spec.admissionChecks[1]: Invalid value: "": '
                "spec.admissionChecks[1] in body should be at least 1 chars long"
            ],
            id="a check in a list",
        ),
        pytest.param(
            ClusterQueue,
            {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": ""}]}}},
            [
                'spec.admissionChecksStrategy.admissionChecks[0].name: Invalid value: "": '
                "spec.admissionChecksStrategy.admissionChecks[0].name in body should be at least 1 chars long"
            ],
            id="a check in a strategy",
        ),
        pytest.param(
            Workload,
            {"spec": {"priorityClassSource": "x", "priorityClassName": "p"}},
            [
                'spec.priorityClassSource: Unsupported value: "x": supported values: '
                '"kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""'
            ],
            id="a source that is none",
        ),
        pytest.param(
            Workload,
            {"spec": {"priorityClassSource": "scheduling.k8s.io/priorityclass", "priorityClassName": "P"}},
            [f'spec.priorityClassName: Invalid value: "P": spec.priorityClassName in body should match {SUBDOMAIN}'],
            id="the name of a class",
        ),
        pytest.param(
            Workload,
            {"status": {"accumulatedPastExexcutionTimeSeconds": "1"}},
            [
                'status.accumulatedPastExexcutionTimeSeconds: Invalid value: "string": '
                'status.accumulatedPastExexcutionTimeSeconds in body must be of type integer: "string"'
            ],
            id="past seconds",
        ),
        pytest.param(
            MultiKueueCluster,
            {"spec": {"kubeConfig": {"location": "s", "locationType": "X"}}},
            ['spec.kubeConfig.locationType: Unsupported value: "X": supported values: "Secret", "Path"'],
            id="a kubeconfig",
        ),
        pytest.param(MultiKueueCluster, {"spec": {}}, ["spec.kubeConfig: Required value"], id="no kubeconfig"),
        pytest.param(ClusterQueue, group(), [], id="a good queue"),
        pytest.param(ClusterQueue, 5, ['Invalid value: "integer": body must be of type object: "integer"'], id="five"),
    ],
)
def test_mistakes_in_v1beta1_go_by_the_names_that_it_has(
    kind: type[KubeObject], tree: object, texts: list[str]
) -> None:
    assert [str(error) for error in problems(kind, tree, "v1beta1")] == texts


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
