"""Does the engine hear what objects say, and of what it cannot do?"""

import msgspec
import pytest
from msgspec.structs import replace

from pykueue.api.checks import AdmissionCheck
from pykueue.api.codec import decode
from pykueue.api.core import Json, OwnerReference, Tree
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from pykueue.api.workload import Workload
from pykueue.bridge import inbound
from pykueue.bridge.inbound import Surroundings
from pykueue.bridge.options import unqueued_kinds
from pykueue.engine import model

BOOST = "kueue.x-k8s.io/priority-boost"
ACTIVE: Tree = {
    "conditions": [
        {
            "type": "Active",
            "status": "True",
            "reason": "r",
            "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
}


def check(controller: str) -> AdmissionCheck:
    tree = {"metadata": {"name": "c"}, "spec": {"controllerName": controller}, "status": ACTIVE}
    return msgspec.convert(tree, AdmissionCheck)


def workload(annotations: dict[str, str] | None = None, **status: object) -> Workload:
    tree = {
        "metadata": {"name": "w", "namespace": "n", "annotations": annotations or {}},
        "spec": {"podSets": [{"template": {"spec": {"resourceClaims": [{"name": "gpu"}]}}}]},
        "status": status,
    }
    return msgspec.json.decode(msgspec.json.encode(tree), type=Workload)


@pytest.mark.parametrize(
    ("controller", "active"),
    [
        pytest.param("x.io/y", True, id="anybody's check is as active as it says"),
        pytest.param("kueue.x-k8s.io/multikueue", False, id="MultiKueue's never is"),
    ],
)
def test_a_check_is_active(controller: str, active: bool) -> None:
    found = inbound.check(check(controller))
    assert (found.active, found.controller) == (active, controller)


def test_flavors_and_queues_say_what_is_not_built() -> None:
    flavor = msgspec.convert({"metadata": {"name": "f"}, "spec": {"topologyName": "t"}}, ResourceFlavor)
    assert inbound.flavor(flavor).unbuilt.startswith("ResourceFlavor f: spec.topologyName: topology-aware")
    policy = {"migration": {"mode": "TryPreferredFlavors"}}
    queue = msgspec.convert({"metadata": {"name": "q"}, "spec": {"concurrentAdmissionPolicy": policy}}, ClusterQueue)
    assert inbound.cluster_queue(queue).unbuilt.startswith("spec.concurrentAdmissionPolicy: concurrent admission")


@pytest.mark.parametrize(
    ("mode", "usage_based"),
    [("UsageBasedAdmissionFairSharing", True), ("NoAdmissionFairSharing", False), ("usage-based", False)],
)
def test_an_annotation_of_a_cohort_says_whether_past_use_orders_its_children(mode: str, usage_based: bool) -> None:
    annotations = {"pykueue.io/admission-mode": mode}
    cohort = msgspec.convert({"metadata": {"name": "all", "annotations": annotations}}, Cohort)
    assert inbound.cohort(cohort).usage_based is usage_based


@pytest.mark.parametrize(
    ("scope", "usage_based"),
    [
        pytest.param(None, False, id="without a scope"),
        pytest.param({"admissionMode": "UsageBasedAdmissionFairSharing"}, True, id="by usage"),
        pytest.param({"admissionMode": "NoAdmissionFairSharing"}, False, id="not by usage"),
    ],
)
def test_the_admission_scope_says_whether_past_use_orders(scope: dict[str, str] | None, usage_based: bool) -> None:
    queue = msgspec.convert({"metadata": {"name": "q"}, "spec": {"admissionScope": scope}}, ClusterQueue)
    assert inbound.cluster_queue(queue).usage_based is usage_based


def test_a_local_queue_has_a_weight_and_its_stored_past_use() -> None:
    amounts = {"memory": "1Ki", "cpu": "1500m", "gpu": "3n", "odd": "many"}
    past = {"consumedResources": amounts, "lastUpdate": "1970-01-01T00:01:00Z"}
    tree = {
        "metadata": {"name": "q", "namespace": "ns"},
        "spec": {"clusterQueue": "main", "fairSharing": {"weight": "2500m"}},
        "status": {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": past}},
    }
    found = inbound.local_queue(msgspec.convert(tree, LocalQueue))
    assert found.weight == 2.5
    assert found.consumed == (("cpu", "1500m"), ("gpu", "3n"), ("memory", "1Ki")), "what cannot be read is left out"
    assert found.last_update == 60_000_000
    plain = inbound.local_queue(msgspec.convert({"metadata": {"name": "q", "namespace": "ns"}}, LocalQueue))
    assert (plain.weight, plain.consumed, plain.last_update) == (1.0, (), None)


METADATA = (
    b"",
    b"null",
    b"{}",
    b"3",
    b'{"labels":{"a":"b"}}',
    b'{"labels":{"a":1}}',
    b'{"creationTimestamp":null}',
    b'{"annotations":null}',
    b'{"annotations":{"a":null}}',
    b'{"annotations":{"a":"b"}}',
    b'{"annotations":{"kueue.x-k8s.io/podset-required-topology":"x"}}',
    b"[",
)
SPECS = (
    b"",
    b"null",
    b"{}",
    b"3",
    b'{"containers":null}',
    b'{"containers":3}',
    b'{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}',
    b'{"containers":[{"name":"a","resources":{"requests":{"cpu":"x"}}}]}',
    b'{"containers":[{"name":"a","resources":{"claims":[{"name":"x"}]}}]}',
    b'{"resourceClaims":[{"name":"c"}]}',
    b"{",
)


@pytest.mark.parametrize("metadata", METADATA)
@pytest.mark.parametrize("spec", SPECS)
def test_a_template_is_read_apart_as_it_is_as_a_whole(metadata: bytes, spec: bytes) -> None:
    around = inbound.Surroundings()
    parts = [b'"%b":%b' % one for one in ((b"metadata", metadata), (b"spec", spec)) if one[1]]
    for raw in (b"{%b}" % b",".join(parts), b"{%b}" % b",".join(reversed(parts)), metadata, spec):
        assert inbound.read_template(raw, around) == inbound.read_bare_template(raw, around)


def test_workloads_that_differ_in_labels_only_share_what_is_read() -> None:
    around = inbound.Surroundings()
    first, second = (
        inbound.read_template(b'{"metadata":{"labels":{"job-name":"%b"}},"spec":{"priority":1}}' % name, around)
        for name in (b"a", b"b")
    )
    assert first is second
    assert inbound.read_template(b'{"spec":{"priority":2}}', around) != first
    assert inbound.read_template(b'{"spec":{"priority":1}}', inbound.Surroundings()) is not first


def test_a_workload_says_all_that_is_not_built() -> None:
    found = inbound.workload(workload(clusterName="far"))
    assert [one.split(": ")[0] for one in found.unbuilt.split("; ") if ": " in one] == [
        "status.clusterName",
        "spec.podSets[0].template.spec.resourceClaims",
    ]


KINDS = unqueued_kinds(["TrainJob.v1alpha1.trainer.kubeflow.org"])


@pytest.mark.parametrize(
    ("owner", "controls", "left_alone"),
    [
        pytest.param(("ray.io/v1", "RayJob"), True, True, id="a kind that is not built"),
        pytest.param(("ray.io/v2", "RayJob"), True, True, id="another version of it"),
        pytest.param(("v1", "Pod"), False, True, id="a pod of a group"),
        pytest.param(("batch/v1", "Job"), True, False, id="a Job"),
        pytest.param(("example.com/v1", "RayJob"), True, False, id="another group's kind of the same name"),
        pytest.param(("trainer.kubeflow.org/v1alpha1", "TrainJob"), True, False, id="a kind of another controller"),
    ],
)
def test_a_workload_whose_job_nothing_starts_is_left_alone(
    owner: tuple[str, str], controls: bool, left_alone: bool
) -> None:
    reference = OwnerReference(owner[0], owner[1], "mine", "uid", controller=controls)
    seen = workload()
    seen = replace(seen, metadata=replace(seen.metadata, owner_references=(reference,)))
    found = inbound.workload(seen, Surroundings(unqueued=KINDS))
    said = f"{owner[1]} mine: jobs of this kind are not queued yet, so nothing would start this one"
    assert (found.held_off, found.problem) == (left_alone, said if left_alone else "")


@pytest.mark.parametrize(
    ("text", "boost"),
    [
        pytest.param("7", 7, id="more"),
        pytest.param("-7", -7, id="less"),
        pytest.param("+7", 7, id="with a sign"),
        pytest.param("-2147483648", -(2**31), id="the least"),
        pytest.param("0" * 5000 + "1", 1, id="very many zeros"),
    ],
)
def test_a_boost_is_read(text: str, boost: int) -> None:
    found = inbound.workload(workload({BOOST: text}), Surroundings(boosts=True))
    assert (found.boost, found.problem) == (boost, "")


@pytest.mark.parametrize("text", ["", "1_000", " 5", "5 ", "five", "2147483648", "9" * 5000, "\u0661", "1.5"])
def test_a_bad_boost_is_a_problem_only_while_the_gate_is_on(text: str) -> None:
    on = inbound.workload(workload({BOOST: text}), Surroundings(boosts=True))
    assert on.boost == 0
    assert on.problem.startswith(f"metadata.annotations[{BOOST}]: Invalid value: ")
    assert "must be a valid signed integer" in on.problem
    off = inbound.workload(workload({BOOST: text}))
    assert (off.boost, off.problem) == (0, "")


@pytest.mark.parametrize(
    ("kind", "version", "comes_to"),
    [
        pytest.param("ResourceFlavor", "kueue.x-k8s.io/v1beta2", model.Flavor, id="flavor"),
        pytest.param("Cohort", "kueue.x-k8s.io/v1beta1", model.Cohort, id="cohort of the older version"),
        pytest.param("ClusterQueue", "kueue.x-k8s.io/v1beta1", model.ClusterQueue, id="queue of the older version"),
        pytest.param("LocalQueue", "kueue.x-k8s.io/v1beta2", model.LocalQueue, id="local queue"),
        pytest.param("Namespace", "v1", model.Namespace, id="namespace"),
        pytest.param("AdmissionCheck", "kueue.x-k8s.io/v1beta2", model.Check, id="check"),
        pytest.param("Workload", "kueue.x-k8s.io/v1beta2", model.Workload, id="workload"),
        pytest.param("Topology", "kueue.x-k8s.io/v1beta2", type(None), id="a kind the engine is not told of"),
    ],
)
def test_every_kind_comes_to_one_noun(kind: str, version: str, comes_to: type) -> None:
    spec: dict[str, Json] = {"levels": [{"nodeLabel": "rack"}]} if kind == "Topology" else {}
    tree: Tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "ns"}, "spec": spec}
    assert isinstance(inbound.thing(decode(tree)), comes_to)
