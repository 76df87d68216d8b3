"""Are pods given what they need, put back as they were, and told apart rightly?"""

from typing import Any

import msgspec
import pytest

from pykueue.api.core import Json, Tree
from pykueue.jobs.podsets import (
    Info,
    Injection,
    InjectionError,
    MissingFlavorError,
    Shape,
    fill_in,
    injected,
    looks,
    merged,
    pod_set,
    pull_policy,
    put_back,
    running_shapes,
    same_shapes,
    shapes_of,
)
from tests.jobs.objects import ADMITTED, NAME, PLAIN, RESERVED, SPOT, TEMPLATE, flavor, workload

SPOT_TAINT: Tree = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}


def template(*containers: Tree, **spec: Json) -> Tree:
    return {"spec": {"containers": list(containers), **spec}}


def test_a_pod_set_has_no_nulls_and_each_variable_once() -> None:
    container: Tree = {
        "name": "a",
        "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}, {"name": "X", "value": "3"}],
    }
    found = pod_set("main", {"metadata": {"creationTimestamp": None}, **template(container)}, 2, 1)
    assert found == {
        "name": "main",
        "count": 2,
        "minCount": 1,
        "template": {
            "metadata": {},
            "spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "3"}, {"name": "Y", "value": "2"}]}]},
        },
    }


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        pytest.param(Info(labels={"a": "1"}), Info(labels={"a": "2"}), "labels", id="labels"),
        pytest.param(Info(annotations={"a": "1"}), Info(annotations={"a": "2"}), "annotations", id="annotations"),
        pytest.param(Info(node_selector={"a": "1"}), Info(node_selector={"a": "2"}), "nodeSelector", id="selectors"),
        pytest.param(
            Info(labels={"a": "1"}, annotations={"a": "1"}),
            Info(labels={"a": "2"}, annotations={"a": "2"}),
            "annotations",
            id="annotations before labels",
        ),
    ],
)
def test_two_that_say_different_things_cannot_be_merged(first: Info, second: Info, says: str) -> None:
    with pytest.raises(InjectionError) as caught:
        merged(first, second)
    assert str(caught.value) == (
        f"invalid admission check PodSetUpdate: conflict for {says}: conflict for key=a, value1=1, value2=2"
    )


def test_what_both_say_is_said_once() -> None:
    equal: Tree = {"key": "a", "value": "b", "operator": "Equal"}
    first = Info("main", 2, {"a": "1"}, tolerations=({"key": "a", "value": "b"},), gates=({"name": "g"},))
    second = Info("", 0, {"a": "1", "b": "2"}, tolerations=(equal, SPOT_TAINT), gates=({"name": "g"}, {"name": "h"}))
    assert merged(first, second) == Info(
        "main",
        2,
        {"a": "1", "b": "2"},
        tolerations=({"key": "a", "value": "b"}, SPOT_TAINT),
        gates=({"name": "g"}, {"name": "h"}),
    )


# What an admission gives.


def given(
    *conditions: Tree, flavors: dict[str, Any] | None = None, chosen: Injection | None = None, **parts: Any
) -> Info:
    (found,) = injected(workload(RESERVED, *conditions, **parts), flavors or {"spot": SPOT}, chosen or Injection())
    return found


def test_pods_are_given_their_flavor_their_queues_and_their_workload() -> None:
    assert given() == Info(
        "main",
        3,
        {
            "kueue.x-k8s.io/podset": "main",
            "kueue.x-k8s.io/local-queue-name": "main",
            "kueue.x-k8s.io/cluster-queue-name": "shared",
        },
        {"kueue.x-k8s.io/workload": NAME},
        {"pool": "spot"},
        (SPOT_TAINT,),
    )


def test_gates_decide_what_pods_are_given() -> None:
    found = given(chosen=Injection(queue_labels=False, workload=False))
    assert (found.labels, found.annotations) == ({"kueue.x-k8s.io/podset": "main"}, {})


def test_a_queue_whose_name_is_no_label_is_left_out() -> None:
    status: Tree = {"admission": {"clusterQueue": "a.b", "podSetAssignments": [{"name": "main"}]}}
    assert "kueue.x-k8s.io/cluster-queue-name" not in given(status=status).labels


def test_flavors_are_given_once_each_in_the_order_of_their_resources() -> None:
    flavors = {"a": flavor("a", {"x": "a"}), "b": flavor("b", {"x": "b", "y": "b"})}
    found = given(given={"flavors": {"memory": "a", "cpu": "b", "gpu": "b"}}, flavors=flavors)
    assert found.node_selector == {"x": "a", "y": "b"}


def test_a_flavor_that_is_not_there_is_missed() -> None:
    with pytest.raises(MissingFlavorError, match="spot"):
        injected(workload(RESERVED), {}, Injection())


def test_the_count_is_that_of_the_admission() -> None:
    assert given(given={"count": 2}).count == 2


def test_checks_add_theirs_in_order() -> None:
    def check(name: str, **update: Json) -> Tree:
        return {"name": name, "state": "Ready", "podSetUpdates": [{"name": "other"}, {"name": "main", **update}]}

    both: list[Json] = [check("a", labels={"x": "1"}), check("b", nodeSelector={"zone": "z"}, tolerations=[SPOT_TAINT])]
    found = given(status={"admissionChecks": both})
    assert found.labels["x"] == "1"
    assert found.node_selector == {"pool": "spot", "zone": "z"}
    assert found.tolerations == (SPOT_TAINT,)
    worse: list[Json] = [check("a", labels={"x": "1"}), check("b", labels={"x": "2"})]
    with pytest.raises(InjectionError) as caught:
        given(status={"admissionChecks": worse})
    assert str(caught.value) == (
        'in admission check "b": invalid admission check PodSetUpdate: '
        "conflict for labels: conflict for key=x, value1=1, value2=2"
    )


def test_a_worker_of_another_cluster_marks_its_pods() -> None:
    labels: Tree = {"kueue.x-k8s.io/multikueue-origin": "main"}
    assert given(metadata={"labels": labels}).labels["kueue.x-k8s.io/multikueue-worker-workload-pod"] == "true"


def test_a_workload_without_quota_gives_nothing() -> None:
    assert injected(workload(), {}, Injection()) == ()


# Filled in and put back.


def applied(tree: Json, patch: Json) -> Json:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    found: Tree = dict(tree) if isinstance(tree, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = applied(found.get(key), value)
    return found


def test_what_is_filled_in_can_be_put_back() -> None:
    original = template({"name": "a"}, tolerations=[{"key": "mine"}], nodeSelector={"disk": "ssd"})
    info = given()
    filled = applied(original, fill_in(original, info))
    assert isinstance(filled, dict)
    assert filled["spec"] == {
        "containers": [{"name": "a"}],
        "tolerations": [{"key": "mine"}, SPOT_TAINT],
        "nodeSelector": {"disk": "ssd", "pool": "spot"},
    }
    assert fill_in(filled, info) == {}
    restored = applied(filled, put_back(filled, original, frozenset()))
    assert restored == {**original, "metadata": {"labels": {}, "annotations": {}}}


def test_labels_of_the_job_controller_are_kept() -> None:
    kept = frozenset({"job-name", "controller-uid", "batch.kubernetes.io/controller-uid"})
    assert put_back(TEMPLATE, PLAIN, kept) == {}
    assert put_back(TEMPLATE, PLAIN, frozenset()) != {}


# Told apart.


def shape(tree: Tree) -> tuple[bytes, bytes]:
    return looks(msgspec.json.encode(tree))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"image": "a:1"}, {"image": "a:1", "imagePullPolicy": "IfNotPresent"}, id="pull policy"),
        pytest.param({"image": "a"}, {"image": "a", "imagePullPolicy": "Always"}, id="pull policy of the latest"),
        pytest.param(
            {}, {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}, id="end"
        ),
        pytest.param(
            {"ports": [{"containerPort": 1}]}, {"ports": [{"containerPort": 1, "protocol": "TCP"}]}, id="port"
        ),
        pytest.param(
            {"readinessProbe": {"httpGet": {"port": 1}}},
            {
                "readinessProbe": {
                    "httpGet": {"port": 1, "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                }
            },
            id="probe",
        ),
        pytest.param(
            {"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            {"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "x", "apiVersion": "v1"}}}]},
            id="field",
        ),
        pytest.param({"resources": {}, "env": [], "tty": None}, {}, id="nothing"),
        pytest.param(
            {"resources": {"requests": {"cpu": 1, "memory": "1Gi"}}},
            {"resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}},
            id="amounts",
        ),
        pytest.param(
            {"env": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]},
            {"env": [{"name": "a", "value": "2"}]},
            id="variables",
        ),
    ],
)
def test_containers_are_the_same_that_differ_only_in(first: Tree, second: Tree) -> None:
    assert shape(template({"name": "c", **first})) == shape(template({"name": "c", **second}))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(template({"image": "a:1"}), template({"image": "a:2"}), id="the image"),
        pytest.param(template({"image": "a"}), template({"image": "a", "imagePullPolicy": "Never"}), id="pull policy"),
        pytest.param(template({"command": ["a"]}), template({"command": ["b"]}), id="the command"),
        pytest.param(
            template({"resources": {"requests": {"cpu": "1"}}}),
            template({"resources": {"requests": {"cpu": "2"}}}),
            id="amounts",
        ),
        pytest.param(
            template({"resources": {"requests": {"cpu": "what"}}}),
            template({"resources": {"requests": {"cpu": True}}}),
            id="what are no amounts",
        ),
        pytest.param(template({"name": "a"}, {"name": "b"}), template({"name": "b"}, {"name": "a"}), id="their order"),
        pytest.param(template(), template(initContainers=[{"name": "a"}]), id="init containers"),
        pytest.param(template(), template(tolerations=[{"key": "a"}]), id="tolerations"),
        pytest.param(template(), template(resources={"requests": {"cpu": "100"}}), id="what the pod asks for"),
        pytest.param(
            template(resources={"limits": {"cpu": "1"}}),
            template(resources={"limits": {"cpu": "2"}}),
            id="what the pod may use",
        ),
        pytest.param(template(), template(resourceClaims=[{"name": "gpu"}]), id="claims"),
        pytest.param(template(), template(overhead={"cpu": "1"}), id="overhead"),
        pytest.param(template(runtimeClassName="a"), template(runtimeClassName="b"), id="the runtime class"),
    ],
)
def test_pods_are_different_that_differ_in(first: Tree, second: Tree) -> None:
    assert shape(first) != shape(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(template(nodeSelector={"a": "b"}), template(), id="selectors"),
        pytest.param({"metadata": {"labels": {"a": "b"}}, **template()}, template(), id="labels"),
        pytest.param(template(volumes=[{"name": "v"}]), template(), id="volumes"),
        pytest.param(template(priorityClassName="p"), template(), id="class"),
        pytest.param(
            template(tolerations=[{"key": "a", "operator": "Equal"}]), template(tolerations=[{"key": "a"}]), id="words"
        ),
        pytest.param(
            template(resources={"requests": {"cpu": "1000m"}, "limits": {}}, overhead={"cpu": 1}),
            template(resources={"requests": {"cpu": 1}}, overhead={"cpu": "1"}, resourceClaims=[]),
            id="how what the pod asks for is written",
        ),
    ],
)
def test_pods_are_the_same_that_differ_only_in(first: Tree, second: Tree) -> None:
    assert shape(first) == shape(second)


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("example.com:5000/a/b", "Always"),
        ("example.com:5000/a/b:1", "IfNotPresent"),
        ("a@sha256:00", "IfNotPresent"),
        ("a:1@sha256:00", "IfNotPresent"),
        ("", "Always"),
    ],
)
def test_an_image_is_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_running_pods_have_what_they_were_given() -> None:
    known = workload(RESERVED, ADMITTED, count=5, pod_set={"minCount": 2}, given={"count": 3})
    infos = injected(known, {"spot": SPOT}, Injection())
    (running,) = running_shapes(known, infos) or ()
    (resting,) = shapes_of(known)
    assert (running.count, resting.count) == (3, 5)
    assert running.needs == resting.needs
    assert running.tolerations != resting.tolerations
    assert same_shapes((running,), (msgspec.structs.replace(resting, count=3),), tolerations=False)
    assert not same_shapes((running,), (msgspec.structs.replace(resting, count=3),), tolerations=True)


def test_a_workload_that_cannot_fall_short_runs_as_many_pods_as_it_says() -> None:
    known = workload(RESERVED, given={"count": 2})
    (found,) = running_shapes(known, injected(known, {"spot": SPOT}, Injection())) or ()
    assert found.count == 3


def test_pods_that_contradict_their_admission_cannot_run() -> None:
    known = workload(RESERVED, template=template({"name": "a"}, nodeSelector={"pool": "mine"}))
    assert running_shapes(known, injected(known, {"spot": SPOT}, Injection())) is None
    assert running_shapes(known, ()) is None


def test_a_template_that_changes_is_looked_at_again() -> None:
    labelled = template({"name": "a"}, tolerations=[{"key": "spot"}])
    labelled["metadata"] = {"labels": {"job-name": "one"}}
    relabelled: Tree = {**labelled, "metadata": {"labels": {"job-name": "another"}}}
    other = template({"name": "a", "image": "other"}, tolerations=[{"key": "spot"}])
    untolerant = template({"name": "a"})
    for _ in range(2):
        assert shape(labelled) == shape(relabelled)
        assert shape(labelled)[0] != shape(other)[0]
        assert shape(labelled)[0] == shape(untolerant)[0]
        assert shape(labelled)[1] != shape(untolerant)[1]


@pytest.mark.parametrize("raw", [b"null", b"[1]", b'"text"', b'{"spec":null}', b'{"spec":[1]}', b'{"metadata":{}}'])
def test_a_template_without_a_spec_needs_nothing(raw: bytes) -> None:
    assert looks(raw) == shape({})


def test_what_pods_have_of_themselves_is_read_again_when_it_changes() -> None:
    def running(pool: str) -> object:
        known = workload(RESERVED, template=template({"name": "a"}, nodeSelector={"pool": pool}))
        return running_shapes(known, injected(known, {"spot": SPOT}, Injection()))

    for _ in range(2):
        assert running("mine") is None
        assert running("spot") is not None


def test_another_number_of_pod_sets_is_another_shape() -> None:
    one = Shape(1, None, b"", b"")
    assert not same_shapes((one,), (one, one), tolerations=True)
    assert not same_shapes((one,), (msgspec.structs.replace(one, min_count=1),), tolerations=True)
