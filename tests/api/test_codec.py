"""Is every object read as what it is, and refused with advice otherwise?"""

from typing import Any

import msgspec
import pytest

from pykueue.api.codec import DecodeError, decode, decode_as, kind_of
from pykueue.api.core import Tree
from pykueue.api.kinds import KINDS
from pykueue.api.kueue import ClusterQueue
from pykueue.api.workload import Workload

V1, V2 = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"


def typed(version: str, kind: str, **rest: Any) -> Tree:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **rest}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind_in_every_version(name: str) -> None:
    for version in KINDS[name].api_versions:
        tree = typed(version, name)
        found = decode(tree)
        assert type(found) is KINDS[name].view
        assert (found.kind, found.name) == (name, "x")
        assert found.api_version == KINDS[name].api_versions[0]
        assert decode(msgspec.json.encode(tree)) == found


def test_older_versions_are_converted() -> None:
    queue = decode(typed(V1, "ClusterQueue", spec={"cohort": "c", "admissionChecks": ["a"]}))
    assert isinstance(queue, ClusterQueue)
    assert queue.spec.cohort_name == "c"
    assert queue.spec.admission_checks_strategy is not None
    assert queue.spec.admission_checks_strategy.admission_checks[0].name == "a"


def test_an_older_assignment_is_converted() -> None:
    assignment = {"levels": ["l"], "domains": [{"values": ["n"], "count": 1}]}
    status = {"admission": {"podSetAssignments": [{"topologyAssignment": assignment}]}}
    found = decode_as(Workload, typed(V1, "Workload", status=status))
    assert found.status.admission is not None
    placed = found.status.admission.pod_set_assignments[0].topology_assignment
    assert placed is not None
    assert placed.slices[0].domain_count == 1


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(None, id="no spec"),
        pytest.param({"podSets": None, "active": None}, id="no fields"),
        pytest.param({"podSets": [{"template": {"x": None}, "count": None}]}, id="no count"),
    ],
)
def test_a_null_is_as_good_as_nothing(spec: object) -> None:
    found = decode_as(Workload, typed(V2, "Workload", spec=spec))
    assert found.spec.active
    assert all(bytes(pod_set.template) == b'{"x":null}' for pod_set in found.spec.pod_sets)


def deep(levels: int) -> bytes:
    return b'{"apiVersion":"%s","kind":"Workload","spec":%s1%s}' % (V2.encode(), b'{"a":' * levels, b"}" * levels)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(typed(V2, "Workloads"), ["kind: 'Workloads'", "did you mean Workload?"], id="nearly a kind"),
        pytest.param(typed(V2, "clusterqueue"), ["did you mean ClusterQueue?"], id="a kind in small letters"),
        pytest.param(typed(V2, "Zebra"), ["kind: 'Zebra'", "ClusterQueue, LocalQueue"], id="no kind of ours"),
        pytest.param({"apiVersion": V2}, ["kind: is missing", "Workload"], id="no kind at all"),
        pytest.param(
            typed("kueue.x-k8s.io/v1", "Workload"),
            ["apiVersion: 'kueue.x-k8s.io/v1'", f"{V2} or {V1}"],
            id="no version",
        ),
        pytest.param(typed("", "Namespace"), ["apiVersion: ''", "write v1"], id="an empty version"),
        pytest.param(
            typed(V2, "LocalQueue", spec={"stopPolicy": "Maybe"}),
            ["LocalQueue x: spec.stopPolicy: invalid enum value 'Maybe'"],
            id="a wrong value",
        ),
        pytest.param(typed(V2, "Workload", spec=[]), ["Workload x: spec: expected `object`"], id="a wrong type"),
        pytest.param(typed(V2, "Workload", metadata=[]), ["Workload (without a name): metadata"], id="no metadata"),
        pytest.param(b"[]", ["send one JSON object"], id="a list"),
        pytest.param(b"{", ["send one JSON object"], id="cut short"),
        pytest.param(b'{"kind":5}', ["send one JSON object"], id="a number for a kind"),
        pytest.param(b"\xff\xfe", ["send one JSON object"], id="no text"),
        pytest.param(deep(100_000), ["send one JSON object"], id="nested without end"),
        pytest.param(typed(V2, "Workload", spec=object()), ["Workload: cannot be written as JSON"], id="not of JSON"),
        pytest.param(typed("x" * 10_000, "Workload"), ["does not serve Workload"], id="an endless version"),
    ],
)
def test_refusals(source: bytes | Tree, words: list[str]) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(source)
    for word in words:
        assert word in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_kind_is_known_by_what_the_object_says() -> None:
    assert kind_of(typed(V1, "Workload")) is KINDS["Workload"]
