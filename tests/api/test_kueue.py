"""Do the types say what the API says, field by field?"""

from collections.abc import Iterator

import msgspec
import pytest

from pykueue.api.checks import MultiKueueCluster
from pykueue.api.core import KubeObject
from pykueue.api.kinds import KINDS
from pykueue.api.kueue import ClusterQueue, Cohort
from pykueue.api.schema import Property, TypeNode, anchored, node_of
from pykueue.api.workload import Workload


def walk(node: TypeNode, path: str = "") -> Iterator[tuple[str, Property]]:
    for name, known in node.properties.items():
        at = f"{path}.{name}".lstrip(".")
        yield at, known
        inner = known.node
        while inner.items is not None:
            at, inner = f"{at}[]", inner.items
        yield from walk(inner, at)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_field_is_described_and_its_limits_are_usable(name: str) -> None:
    for path, known in walk(node_of(KINDS[name].view)):
        assert known.node.limits.get("description"), f"{path}: describe it with about(...)"
        pattern = known.node.limits.get("pattern")
        if isinstance(pattern, str):
            assert anchored(pattern)
        for key in known.node.map_keys():
            assert known.node.items is not None
            assert key in known.node.items.properties, f"{path}: {key} is no field of the items"


@pytest.mark.parametrize("name", sorted(KINDS))
def test_an_empty_object_can_be_read(name: str) -> None:
    view = KINDS[name].view
    assert msgspec.json.decode(b"{}", type=view) == view()


LIMITS = [
    ("ClusterQueue", "spec.resourceGroups", {"maxItems": 16}),
    ("ClusterQueue", "spec.resourceGroups[].flavors", {"minItems": 1, "maxItems": 64}),
    ("ClusterQueue", "spec.resourceGroups[].coveredResources", {"minItems": 1, "maxItems": 64}),
    ("ClusterQueue", "spec.admissionChecksStrategy.admissionChecks", {"minItems": 1, "maxItems": 64}),
    ("ClusterQueue", "spec.stopPolicy", {"enum": ["None", "Hold", "HoldAndDrain"]}),
    ("ClusterQueue", "spec.cohortName", {"maxLength": 253}),
    ("ClusterQueue", "status.conditions", {"maxItems": 16, "x-kubernetes-list-map-keys": ["type"]}),
    ("ClusterQueue", "status.flavorsUsage", {"maxItems": 64}),
    ("Workload", "spec.podSets", {"minItems": 1, "maxItems": 18}),
    ("Workload", "spec.podSets[].minCount", {"minimum": 0, "format": "int32"}),
    ("Workload", "spec.podSets[].topologyRequest.podsetSliceRequiredTopologyConstraints", {"maxItems": 3}),
    ("Workload", "status.admissionChecks", {"maxItems": 8}),
    ("Workload", "status.nominatedClusterNames", {"maxItems": 20}),
    ("Workload", "status.schedulingStats.evictions", {"x-kubernetes-list-map-keys": ["reason", "underlyingCause"]}),
    ("Workload", "status.admission.podSetAssignments[].topologyAssignment.slices", {"maxItems": 1000}),
    ("AdmissionCheck", "spec.parameters.name", {"minLength": 1, "maxLength": 63}),
    ("ProvisioningRequestConfig", "spec.provisioningClassName", {"minLength": 1, "maxLength": 253}),
    ("ProvisioningRequest", "spec.podSets", {"minItems": 1, "maxItems": 32}),
    ("Topology", "spec.levels[].nodeLabel", {"minLength": 1, "maxLength": 316}),
    ("MultiKueueConfig", "spec.clusters", {"minItems": 1, "maxItems": 20}),
    ("MultiKueueCluster", "spec.clusterSource.kubeConfig.location", {"minLength": 1, "maxLength": 256}),
    ("WorkloadPriorityClass", "description", {"maxLength": 2048}),
]


@pytest.mark.parametrize(("kind", "path", "limits"), [pytest.param(*row, id=f"{row[0]} {row[1]}") for row in LIMITS])
def test_limits(kind: str, path: str, limits: dict[str, object]) -> None:
    found = dict(walk(node_of(KINDS[kind].view)))[path].node.limits
    assert {key: found.get(key) for key in limits} == limits


@pytest.mark.parametrize(
    ("view", "raw", "attribute", "value"),
    [
        pytest.param(ClusterQueue, b'{"spec":{}}', "spec.queueing_strategy", "BestEffortFIFO", id="a default"),
        pytest.param(ClusterQueue, b'{"spec":{}}', "spec.namespace_selector", None, id="no selector"),
        pytest.param(Cohort, b'{"spec":{"parentName":"p"}}', "spec.parent_name", "p", id="a parent"),
        pytest.param(
            MultiKueueCluster,
            b'{"spec":{"clusterSource":{"kubeConfig":{"location":"s"}}}}',
            "spec.cluster_source.kube_config.location_type",
            "Secret",
            id="a nested default",
        ),
        pytest.param(Workload, b'{"metadata":{"name":"w","namespace":"n"}}', "namespace", "n", id="a namespace"),
        pytest.param(Workload, b"{}", "name", "", id="no name"),
        pytest.param(Workload, b"{}", "spec.active", True, id="active by default"),
    ],
)
def test_views(view: type[KubeObject], raw: bytes, attribute: str, value: object) -> None:
    found: object = msgspec.json.decode(raw, type=view)
    for name in attribute.split("."):
        found = getattr(found, name)
    assert found == value


def test_a_limit_does_not_keep_an_old_object_from_being_read() -> None:
    name = "x" * 300
    assert (
        msgspec.json.decode(b'{"spec":{"cohortName":"%s"}}' % name.encode(), type=ClusterQueue).spec.cohort_name == name
    )


def test_a_template_is_kept_byte_for_byte_and_holds_no_message_in_memory() -> None:
    raw = b'{"spec":{"podSets":[{"template":{"x": [1,  2]}}]}}'
    (pod_set,) = msgspec.json.decode(raw, type=Workload).spec.pod_sets
    assert bytes(pod_set.template) == b'{"x": [1,  2]}'
    assert (pod_set.name, pod_set.count) == ("main", 1)
    assert memoryview(pod_set.template).obj is not raw
