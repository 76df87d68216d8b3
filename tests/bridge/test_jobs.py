"""Is the Workload for a Job the one that Kueue would make?"""

from hashlib import sha1

import pytest

from pykueue.api.codec import decode_as
from pykueue.api.core import Tree
from pykueue.api.pods import Job, from_tree
from pykueue.api.workload import Workload
from pykueue.bridge.jobs import Place, queue_of, workload_name, workload_tree

TEMPLATE: Tree = {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}}


def job(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: object) -> Tree:
    tree: Tree = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "sample",
            "namespace": "team",
            "uid": "u-1",
            "labels": {"kueue.x-k8s.io/queue-name": "main", **(labels or {})},
            "annotations": {**(annotations or {})},
        },
        "spec": {"template": TEMPLATE, **spec},  # type: ignore[dict-item]
    }
    return tree


def made(tree: Tree, place: Place | None = None) -> Workload:
    found, errors = workload_tree(tree, from_tree(tree, Job), place or Place())
    assert errors == ()
    return decode_as(Workload, found)


def refused(tree: Tree, place: Place | None = None) -> list[str]:
    return [str(error) for error in workload_tree(tree, from_tree(tree, Job), place or Place())[1]]


def test_the_name_is_kind_name_and_hash() -> None:
    digest = sha1(b"Job\nbatch\nsample\nu-1").hexdigest()[:5]
    assert workload_name(kind="Job", group="batch", name="sample", uid="u-1") == f"job-sample-{digest}"


def test_a_long_name_is_cut_and_still_its_own() -> None:
    long = workload_name(kind="Job", group="batch", name="x" * 253, uid="u-1")
    assert len(long) == 253
    assert long != workload_name(kind="Job", group="batch", name="x" * 253, uid="u-2")


def test_a_job_becomes_a_workload_of_one_pod_set() -> None:
    found = made(job(parallelism=3, completions=2))
    assert found.metadata.namespace == "team"
    assert found.metadata.labels == {"kueue.x-k8s.io/job-uid": "u-1"}
    assert found.spec.queue_name == "main"
    assert [(one.name, one.count, one.min_count) for one in found.spec.pod_sets] == [("main", 2, None)]
    assert (found.spec.priority, found.spec.priority_class_ref) == (0, None)


def test_labels_and_annotations_speak() -> None:
    tree = job(
        {"kueue.x-k8s.io/priority-class": "high", "kueue.x-k8s.io/max-exec-time-seconds": "90"},
        {"kueue.x-k8s.io/job-min-parallelism": "2", "kueue.x-k8s.io/admission-gated-by": "x.io/y", "other": "z"},
        parallelism=4,
    )
    found = made(tree, Place(classes={"high": 7}))
    assert found.spec.priority == 7
    assert found.spec.priority_class_ref is not None
    assert found.spec.priority_class_ref.name == "high"
    assert found.spec.maximum_execution_time_seconds == 90
    assert found.spec.pod_sets[0].min_count == 2
    assert found.metadata.annotations == {"kueue.x-k8s.io/admission-gated-by": "x.io/y"}


@pytest.mark.parametrize(
    ("place", "priority"),
    [
        pytest.param(Place(classes={"default": 5}), 5, id="the class named default"),
        pytest.param(Place(classes={"default": 5}, default_class=False), 0, id="unless the gate is off"),
        pytest.param(Place(classes={"high": 5}), 0, id="no other"),
    ],
)
def test_a_job_without_a_class_gets(place: Place, priority: int) -> None:
    assert made(job(), place).spec.priority == priority


@pytest.mark.parametrize(
    ("queue", "default", "found"),
    [
        pytest.param("main", True, "main", id="the queue it names"),
        pytest.param("", True, "default", id="the default of its namespace"),
        pytest.param("", False, "", id="none"),
    ],
)
def test_a_job_goes_to(queue: str, default: bool, found: str) -> None:
    tree = job({"kueue.x-k8s.io/queue-name": queue})
    assert queue_of(from_tree(tree, Job), Place(default_queue=default)) == found


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        pytest.param(
            job({"kueue.x-k8s.io/queue-name": "A_b"}), "metadata.labels[kueue.x-k8s.io/queue-name]", id="queue"
        ),
        pytest.param(job({"kueue.x-k8s.io/priority-class": "hgih"}), "did you mean high?", id="misspelt class"),
        pytest.param(job({"kueue.x-k8s.io/max-exec-time-seconds": "0"}), "should be greater than 0", id="no time"),
        pytest.param(job({"kueue.x-k8s.io/max-exec-time-seconds": "9" * 99}), "whole number", id="too much time"),
        pytest.param(job(None, {"kueue.x-k8s.io/job-min-parallelism": "9"}), "should be between 0 and 0", id="minimum"),
        pytest.param(job(parallelism=-1), "spec.parallelism", id="fewer pods than none"),
        pytest.param(job(completions=2**31), "spec.completions", id="more pods than can be"),
        pytest.param({"metadata": {"name": "a"}, "spec": {}}, "spec.template: Required value", id="no template"),
    ],
)
def test_a_mistake_is_told_with_its_place(tree: Tree, says: str) -> None:
    (text,) = refused(tree, Place(classes={"high": 7}))
    assert says in text
