"""Is the Workload for a Job the one that Kueue would make?"""

from hashlib import sha1
from typing import Any

import pytest

from pykueue.api.codec import decode_as
from pykueue.api.core import Json, ObjectMeta, Tree
from pykueue.api.fields import FieldError
from pykueue.api.pods import Job, JobSpec, from_tree
from pykueue.api.workload import Workload
from pykueue.jobs.manifest import (
    Place,
    PodCounts,
    job_pod_counts,
    left_out,
    queue_of,
    with_job_paths,
    workload_tree,
)
from pykueue.jobs.workload import workload_name
from tests import builders

EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
TEMPLATE: Tree = {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}}


def job(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Json) -> Tree:
    marked = {"labels": {builders.QUEUE_NAME: "main", **(labels or {})}, "annotations": {**(annotations or {})}}
    return builders.job("sample", "main", "team", {"uid": "u-1", **marked}, **{"template": TEMPLATE, **spec})


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


def of_class(name: str) -> Tree:
    return job(template={"spec": {"priorityClassName": name, "containers": []}})


@pytest.mark.parametrize(
    ("tree", "place", "found"),
    [
        pytest.param(
            job({"kueue.x-k8s.io/priority-class": "high"}, template={"spec": {"priorityClassName": "low"}}),
            Place(classes={"high": 9}, pod_classes={"low": 1}),
            (9, "kueue.x-k8s.io", "WorkloadPriorityClass", "high"),
            id="the class of its label before that of its pods",
        ),
        pytest.param(
            of_class("low"),
            Place(classes={"default": 9}, pod_classes={"low": 1}),
            (9, "kueue.x-k8s.io", "WorkloadPriorityClass", "default"),
            id="the default of Kueue's before that of its pods",
        ),
        pytest.param(
            of_class("low"),
            Place(pod_classes={"low": 1, "usual": 5}, default_pod_class="usual"),
            (1, "scheduling.k8s.io", "PriorityClass", "low"),
            id="the class of its pods before the global default",
        ),
        pytest.param(
            job(),
            Place(pod_classes={"usual": 5}, default_pod_class="usual"),
            (5, "scheduling.k8s.io", "PriorityClass", "usual"),
            id="the global default",
        ),
        pytest.param(
            of_class("system-node-critical"),
            Place(),
            (2_000_001_000, "scheduling.k8s.io", "PriorityClass", "system-node-critical"),
            id="a class that every cluster has",
        ),
    ],
)
def test_the_priority_comes_from(tree: Tree, place: Place, found: tuple[int, str, str, str]) -> None:
    spec = made(tree, place).spec
    assert spec.priority_class_ref is not None
    reference = spec.priority_class_ref
    assert (spec.priority, reference.group, reference.kind, reference.name) == found


def test_a_missing_class_of_the_pods_is_told() -> None:
    (text,) = refused(of_class("lo"), Place(pod_classes={"other": 1}))
    assert text == (
        'spec.template.spec.priorityClassName: Not found: "lo": create this PriorityClass, or remove the field'
    )


@pytest.mark.parametrize(
    ("tree", "place", "says"),
    [
        pytest.param(job(), Place(), "", id="an ordinary job is queued"),
        pytest.param(job({"kueue.x-k8s.io/queue-name": ""}), Place(), "it has no label kueue", id="no queue"),
        pytest.param(
            job({"kueue.x-k8s.io/queue-name": ""}), Place(queueless=True), "", id="no queue, and held all the same"
        ),
        pytest.param(job(), Place(selected=False), "managedJobsNamespaceSelector does not", id="another's namespace"),
        pytest.param(job(managedBy="kubernetes.io/job-controller"), Place(), "", id="the usual controller's"),
        pytest.param(job({PREBUILT: "w"}), Place(), "its Workload, w, is made before it", id="prebuilt by label"),
        pytest.param(job(None, {PREBUILT: "w"}), Place(), "its Workload, w, is made before it", id="by annotation"),
        *(
            pytest.param(
                {**job(), "status": {"conditions": [{"type": kind, "status": status}]}},
                Place(),
                says,
                id=f"{kind} is {status}",
            )
            for kind, status, says in (
                ("Complete", "True", "it is Complete"),
                ("Failed", "True", "it is Failed"),
                ("Failed", "False", ""),
                ("Suspended", "True", ""),
            )
        ),
    ],
)
def test_a_job_is_left_out(tree: Tree, place: Place, says: str) -> None:
    why = left_out(tree, from_tree(tree, Job), place)
    assert says in why
    assert bool(why) is bool(says)


@pytest.mark.parametrize("text", ["1", "true", "False"])
def test_completions_may_equal_parallelism(text: str) -> None:
    assert refused(job(None, {EQUAL: text}, completionMode="Indexed", parallelism=2, completions=2)) == []


def test_mistakes_do_not_hide_each_other() -> None:
    tree = job(
        {"kueue.x-k8s.io/max-exec-time-seconds": "0", "kueue.x-k8s.io/priority-class": "none"},
        {"kueue.x-k8s.io/job-min-parallelism": "x", EQUAL: "?"},
        parallelism=-1,
    )
    assert len(refused(tree)) == 5
    found: Any = workload_tree(tree, from_tree(tree, Job), Place())[0]
    assert found["spec"]["podSets"][0]["template"] == TEMPLATE


def test_a_job_is_told_of_its_own_fields() -> None:
    assert with_job_paths("spec.podSets[0].template.spec.containers[0]: x; spec.podSets[0].count: y") == (
        "spec.template.spec.containers[0]: x; spec.parallelism: y"
    )


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
            job(None, {EQUAL: "yes"}), f'annotations[{EQUAL}]: Invalid value: "yes": strconv.ParseBool', id="no truth"
        ),
        pytest.param(
            job(None, {EQUAL: "true"}), "should not be enabled for NonIndexed jobs", id="equal, and not indexed"
        ),
        pytest.param(
            job(None, {EQUAL: "true"}, completionMode="Indexed", parallelism=2, completions=3),
            f"spec.completions: Invalid value: 3: should be equal to parallelism when {EQUAL} annotation is true",
            id="equal, and different",
        ),
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


def counting(annotation: str | None = None, *, parallelism: int | None = None, completions: int | None = None) -> Job:
    annotations = {} if annotation is None else {"kueue.x-k8s.io/job-min-parallelism": annotation}
    return Job(ObjectMeta(annotations=annotations), JobSpec(parallelism=parallelism, completions=completions))


@pytest.mark.parametrize(
    ("wanted", "counts"),
    [
        pytest.param(counting(), PodCounts(1), id="one pod unless it says otherwise"),
        pytest.param(counting(parallelism=3), PodCounts(3), id="as many as run at once"),
        pytest.param(counting(parallelism=3, completions=2), PodCounts(2), id="no more than must complete"),
        pytest.param(counting(parallelism=3, completions=9), PodCounts(3), id="no more than run at once"),
        pytest.param(counting(parallelism=0), PodCounts(0), id="none at all"),
        pytest.param(counting("2", parallelism=3), PodCounts(3, 2), id="content with fewer"),
        pytest.param(counting("+1", parallelism=3), PodCounts(3, 1), id="with a sign"),
        pytest.param(counting("002", parallelism=3), PodCounts(3, 2), id="with leading zeros"),
    ],
)
def test_how_many_pods_a_job_wants(wanted: Job, counts: PodCounts) -> None:
    assert job_pod_counts(wanted) == counts


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        pytest.param("3", "Invalid value: 3: should be between 0 and 2", id="as many as wanted"),
        pytest.param("0", "Invalid value: 0: should be between 0 and 2", id="none"),
        pytest.param("-1", "Invalid value: -1: should be between 0 and 2", id="fewer than none"),
        pytest.param("4294967297", "Invalid value: 4294967297: should be between 0 and 2", id="does not wrap around"),
        pytest.param("two", 'Invalid value: "two": strconv.Atoi: parsing "two": invalid syntax', id="a word"),
        pytest.param("", 'Invalid value: "": strconv.Atoi: parsing "": invalid syntax', id="empty"),
        pytest.param("1_0", 'Invalid value: "1_0": strconv.Atoi: parsing "1_0": invalid syntax', id="underscores"),
        pytest.param(
            "9223372036854775808",
            'Invalid value: "9223372036854775808": strconv.Atoi: parsing "9223372036854775808": value out of range',
            id="past 64 bits",
        ),
    ],
)
def test_a_wrong_minimum_is_an_error_with_its_place(annotation: str, message: str) -> None:
    found = job_pod_counts(counting(annotation, parallelism=3))
    assert isinstance(found, FieldError)
    assert str(found) == f"metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: {message}"


def test_a_minimum_of_ten_thousand_digits_is_out_of_range() -> None:
    assert isinstance(job_pod_counts(counting("9" * 10_000, parallelism=3)), FieldError)
