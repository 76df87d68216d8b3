"""Jobs of one shape are validated together, with the same result as one by one."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykueue.sim import manifests
from pykueue.sim.manifests import documents, objects
from pykueue.sim.shapes import shape_of
from pykueue.sim.trace import Invalid, Trace, read_trace
from tests.sim.builders import FLAVOR, job, priority, queue

NAMESPACES = "".join(
    f"---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {{name: {name}, namespace: {space}}}\n"
    "spec: {clusterQueue: main}\n"
    for name, space in (("main", "one"), ("default", "two"))
)
LIMIT_RANGE = (
    "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: limits, namespace: one}\n"
    "spec: {limits: [{type: Container, defaultRequest: {memory: 1Gi}}]}\n"
)
CLUSTER = (FLAVOR + queue() + NAMESPACES + priority("high", 10)).encode()

VALUES: dict[str, st.SearchStrategy[object]] = {
    "name": st.sampled_from(["a", "b", "c.d", "Bad_name", "", "x" * 253, "x" * 254, 7, None]),
    "namespace": st.sampled_from([None, "", "one", "two", "kube-system", "Bad.name"]),
    "uid": st.sampled_from([None, None, None, "u-1"]),
    "queue": st.sampled_from([None, "main", "other", "", "under_score", "-", "x" * 64, 3]),
    "class": st.sampled_from([None, "high", "hihg"]),
    "arrival": st.sampled_from([None, "5", "1m", "soon", "-5", 5, "2026-01-01T00:00:09Z", "9" * 65]),
    "run": st.sampled_from([None, "60", "x", "1h"]),
    "other": st.sampled_from([None, None, "x"]),
    "cpu": st.sampled_from([1, "1", True, 1.0, "x", -1]),
    "field": st.sampled_from([None, None, None, "managedBy", "unknown"]),
}
JOBS = st.lists(st.fixed_dictionaries(VALUES), min_size=2, max_size=8)


def without_nulls(entries: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in entries.items() if value is not None}


def manifest(values: dict[str, Any]) -> dict[str, object]:
    labels = {"kueue.x-k8s.io/queue-name": values["queue"], "kueue.x-k8s.io/priority-class": values["class"]}
    annotations = {
        "pykueue.io/arrival": values["arrival"],
        "pykueue.io/run-seconds": values["run"],
        "pykueue.io/arival": values["other"],
    }
    metadata = {key: values[key] for key in ("name", "namespace", "uid")}
    metadata |= {"labels": without_nulls(labels), "annotations": without_nulls(annotations)}
    container = {"name": "a", "resources": {"requests": {"cpu": values["cpu"]}}}
    spec = {"template": {"spec": {"containers": [container]}}}
    if values["field"]:
        spec[values["field"]] = "kueue.x-k8s.io/multikueue"  # type: ignore[assignment]  # unknown fields have any value
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": without_nulls(metadata), "spec": spec}


def result(jobs: Sequence[object], cluster: bytes) -> Trace | tuple[str, ...]:
    listed = json.dumps({"kind": "List", "items": jobs}).encode()
    try:
        return read_trace([("cluster.yaml", cluster), ("jobs.json", listed)])
    except Invalid as error:
        return tuple(map(str, error.mistakes))


def both(jobs: Sequence[object], cluster: bytes = CLUSTER) -> Trace | tuple[str, ...]:
    together = result(jobs, cluster)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "shape_of", lambda tree: None)
        assert result(jobs, cluster) == together
    return together


@given(JOBS, st.booleans())
@settings(max_examples=300)
def test_jobs_that_are_validated_together_have_the_same_result(jobs: list[dict[str, object]], limits: bool) -> None:
    both([*map(manifest, jobs)], CLUSTER + LIMIT_RANGE.encode() * limits)


VALID: dict[str, st.SearchStrategy[object]] = VALUES | {
    "name": st.uuids().map(str),
    "namespace": st.sampled_from([None, "one", "two"]),
    "queue": st.sampled_from(["main", "other", "x" * 63]),
    "class": st.sampled_from([None, "high"]),
    "arrival": st.sampled_from([None, "5", "1m"]),
    "run": st.sampled_from([None, "60", "1h"]),
    "other": st.none(),
    "cpu": st.sampled_from([1, "1", 1.0]),
    "field": st.none(),
}


@given(st.lists(st.fixed_dictionaries(VALID), min_size=2, max_size=8), st.booleans())
@settings(max_examples=200)
def test_valid_jobs_that_are_validated_together_are_the_same(jobs: list[dict[str, object]], limits: bool) -> None:
    found = both([*map(manifest, jobs)], CLUSTER + LIMIT_RANGE.encode() * limits)
    assert isinstance(found, Trace)
    assert len(found.arrivals) == len(jobs)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        pytest.param(job("a"), job("b", queue="other", arrival="1h"), False, id="another set of annotations"),
        pytest.param(job("a", arrival="5"), job("b", queue="other", arrival="1h"), True, id="name, queue and plan"),
        pytest.param(job("a", 1), job("b", 2), False, id="another request"),
        pytest.param(job("a", 1), job("b", "1.0"), False, id="an equal number of another type"),
        pytest.param(job("a", klass="low"), job("b", klass="high"), True, id="another class"),
        pytest.param(job("a"), job("b", klass="high"), False, id="no class"),
    ],
)
def test_which_jobs_are_of_one_shape(first: str, second: str, same: bool) -> None:
    found, _ = documents("f.yaml", (first + second).encode())
    shapes = [shape_of(one.tree) for one in found]
    assert None not in shapes
    assert (shapes[0] == shapes[1]) is same
    judged, mistakes = objects(found, {})
    assert not mistakes
    assert (judged[0].shape == judged[1].shape) is same


def test_only_valid_jobs_have_a_shape() -> None:
    found, _ = documents("f.yaml", (queue() + job("Bad") + job("a", queue="-") + job("a", arrival="9" * 65)).encode())
    assert [shape_of(one.tree) for one in found] == [None] * 5
