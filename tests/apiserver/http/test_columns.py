"""What does `kubectl get` show of Kubernetes' own kinds? States of pods and jobs, ages, and the rest of the cells."""

import pytest

from pykueue.api.core import Json, Tree
from pykueue.apiserver.http.columns import LAYOUTS, OTHERS, human_duration, selector_text, since
from pykueue.apiserver.http.podcolumns import pod_cells
from pykueue.base.units import MICROS, Instant, format_instant

NOW = Instant(1_800_000_000 * MICROS)
MINUTE, HOUR, DAY = 60, 3600, 86400


def ago(seconds: int) -> str:
    return format_instant(Instant(NOW - seconds * MICROS))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (49 * HOUR, "2d1h"),
        (8 * DAY, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (732 * DAY, "2y2d"),
        (9 * 365 * DAY, "9y"),
    ],
)
def test_a_span_of_time_in_few_digits(seconds: int, text: str) -> None:
    assert human_duration(seconds * MICROS) == text


def test_a_moment_that_is_none_is_unknown() -> None:
    assert since(None, NOW) == "<unknown>"
    assert since("yesterday", NOW) == "<invalid>"
    assert since(ago(61), NOW) == "61s"


def container(state: Tree, *, ready: bool = False, restarts: int = 0, last: str = "", name: str = "c") -> Tree:
    made: Tree = {"name": name, "state": state, "ready": ready, "restartCount": restarts}
    if last:
        made["lastState"] = {"terminated": {"finishedAt": last, "exitCode": 1}}
    return made


def pod(
    *statuses: Tree,
    phase: str = "Running",
    init: tuple[Tree, ...] = (),
    init_spec: tuple[Tree, ...] = (),
    conditions: tuple[Tree, ...] = (),
    deleted: bool = False,
    reason: str = "",
) -> Tree:
    status: Tree = {
        "phase": phase,
        "containerStatuses": [*statuses],
        "initContainerStatuses": [*init],
        "conditions": [*conditions],
    }
    if reason:
        status["reason"] = reason
    metadata: Tree = {"name": "p", "creationTimestamp": ago(10)}
    if deleted:
        metadata["deletionTimestamp"] = ago(1)
    containers: list[Json] = [{"name": "c"} for _ in statuses] or [{"name": "c"}]
    return {"metadata": metadata, "spec": {"containers": containers, "initContainers": [*init_spec]}, "status": status}


RUNNING: Tree = {"running": {"startedAt": ago(5)}}
DONE: Tree = {"terminated": {"exitCode": 0, "reason": "Completed"}}
READY: Tree = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("shown", "state", "ready"),
    [
        pytest.param(pod(phase="Pending"), "Pending", "0/1", id="not yet anywhere"),
        pytest.param(
            pod(phase="Pending", conditions=({"type": "PodScheduled", "reason": "SchedulingGated"},)),
            "SchedulingGated",
            "0/1",
            id="gated",
        ),
        pytest.param(
            pod(container({"waiting": {"reason": "ContainerCreating"}}), phase="Pending"),
            "ContainerCreating",
            "0/1",
            id="being created",
        ),
        pytest.param(pod(container(RUNNING, ready=True)), "Running", "1/1", id="running"),
        pytest.param(pod(container(RUNNING)), "Running", "0/1", id="running and not ready"),
        pytest.param(pod(container(DONE), phase="Succeeded"), "Completed", "0/1", id="done"),
        pytest.param(
            pod(container({"terminated": {"exitCode": 3, "reason": "Error"}}), phase="Failed"),
            "Error",
            "0/1",
            id="failed",
        ),
        pytest.param(
            pod(container({"terminated": {"exitCode": 137}}), phase="Failed"), "ExitCode:137", "0/1", id="by its code"
        ),
        pytest.param(
            pod(container({"terminated": {"exitCode": 137, "signal": 9}}), phase="Failed"),
            "Signal:9",
            "0/1",
            id="signal",
        ),
        pytest.param(
            pod(container({"waiting": {"reason": "CrashLoopBackOff"}})), "CrashLoopBackOff", "0/1", id="crashing"
        ),
        pytest.param(
            pod(container(DONE), container(RUNNING, ready=True), conditions=(READY,)),
            "Running",
            "1/2",
            id="one is done",
        ),
        pytest.param(
            pod(container(DONE), container(RUNNING, ready=True)), "NotReady", "1/2", id="one is done, not ready"
        ),
        pytest.param(
            pod(container(DONE), container({"terminated": {"exitCode": 1, "reason": "Error"}}), phase="Failed"),
            "Error",
            "0/2",
            id="one is done, one failed",
        ),
        pytest.param(pod(container(RUNNING, ready=True), deleted=True), "Terminating", "1/1", id="on its way out"),
        pytest.param(
            pod(container(DONE), phase="Succeeded", deleted=True), "Completed", "0/1", id="done and on its way"
        ),
        pytest.param(pod(phase="Failed", reason="Evicted"), "Evicted", "0/1", id="evicted"),
        pytest.param(pod(deleted=True, reason="NodeLost"), "Unknown", "0/1", id="its node is lost"),
        pytest.param(
            pod(container({"waiting": {"reason": "PodInitializing"}}), init=(container(RUNNING),), init_spec=({}, {})),
            "Init:0/2",
            "0/1",
            id="the first init container runs",
        ),
        pytest.param(
            pod(init=(container(DONE), container({"waiting": {"reason": "ImagePullBackOff"}})), init_spec=({}, {})),
            "Init:ImagePullBackOff",
            "0/1",
            id="an init container waits",
        ),
        pytest.param(
            pod(init=(container({"terminated": {"exitCode": 2}}),), init_spec=({},)),
            "Init:ExitCode:2",
            "0/1",
            id="an init container failed",
        ),
        pytest.param(
            pod(
                container(RUNNING, ready=True),
                init=(container(RUNNING, ready=True, name="side") | {"started": True},),
                init_spec=({"name": "side", "restartPolicy": "Always"},),
            ),
            "Running",
            "2/2",
            id="an init container that stays",
        ),
    ],
)
def test_the_state_of_a_pod_in_a_word(shown: Tree, state: str, ready: str) -> None:
    seen = pod_cells(shown)
    assert (seen.state, f"{seen.ready}/{seen.containers}") == (state, ready)


def cells(resource: str, tree: Tree) -> list[Json]:
    layout = LAYOUTS.get(resource, OTHERS)
    made = layout.cells(tree, NOW)
    assert len(made) == len(layout.heads)
    return made


def test_restarts_say_when() -> None:
    crashed = pod(container(RUNNING, ready=True, restarts=3, last=ago(90)))
    assert cells("pods", crashed) == ["p", "1/1", "Running", "3 (90s ago)", "10s", *["<none>"] * 4]


def test_the_wide_cells_of_a_pod() -> None:
    wide = pod(container(RUNNING))
    wide["spec"] = {"containers": [{}], "nodeName": "box", "readinessGates": [{"conditionType": "Ready"}]}
    wide["status"] = {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [READY]}
    assert cells("pods", wide)[5:] == ["10.0.0.1", "box", "<none>", "1/1"]


def job(*conditions: str, deleted: bool = False, **spec: Json) -> Tree:
    metadata: Tree = {"name": "j", "creationTimestamp": ago(60)}
    if deleted:
        metadata["deletionTimestamp"] = ago(1)
    status: Tree = {
        "succeeded": 1,
        "startTime": ago(50),
        "conditions": [{"type": kind, "status": "True"} for kind in conditions],
    }
    template: Tree = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}}
    return {"metadata": metadata, "spec": {"template": template, **spec}, "status": status}


@pytest.mark.parametrize(
    ("shown", "state", "completions"),
    [
        pytest.param(job(completions=2), "Running", "1/2", id="running"),
        pytest.param(job("SuccessCriteriaMet", "Complete", completions=1), "Complete", "1/1", id="complete"),
        pytest.param(job("FailureTarget", "Failed", completions=2), "Failed", "1/2", id="failed"),
        pytest.param(job(completions=2, suspend=True), "Suspended", "1/2", id="suspended just now"),
        pytest.param(job("Suspended", completions=2), "Suspended", "1/2", id="suspended"),
        pytest.param(job("Suspended", completions=2, deleted=True), "Terminating", "1/2", id="on its way out"),
        pytest.param(job("FailureTarget", completions=2), "FailureTarget", "1/2", id="about to fail"),
        pytest.param(job(parallelism=3), "Running", "1/1 of 3", id="a work queue"),
        pytest.param(job(parallelism=1), "Running", "1/1", id="a work queue of one"),
    ],
)
def test_the_state_of_a_job_in_a_word(shown: Tree, state: str, completions: str) -> None:
    assert cells("jobs.batch", shown)[1:5] == [state, completions, "50s", "60s"]


def test_the_wide_cells_of_a_job() -> None:
    assert cells("jobs.batch", job(selector={"matchLabels": {"b": "2", "a": "1"}}))[5:] == ["a,b", "x,y", "a=1,b=2"]


def test_a_job_that_ended_keeps_its_duration() -> None:
    done = job("Complete", completions=1)
    done["status"] = {"startTime": ago(500), "completionTime": ago(100), "conditions": []}
    assert cells("jobs.batch", done)[3] == "6m40s"
    done["status"] = {}
    assert cells("jobs.batch", done)[3] == ""


def test_a_selector_is_written_as_kubectl_writes_it() -> None:
    expressions: list[Json] = [
        {"key": "a", "operator": "In", "values": ["y", "x"]},
        {"key": "b", "operator": "Exists"},
        {"key": "c", "operator": "DoesNotExist"},
    ]
    assert selector_text({"matchExpressions": expressions}) == "a in (x,y),b,!c"
    assert selector_text(None) == "<none>"


def test_the_cells_of_a_node() -> None:
    node: Tree = {
        "metadata": {"name": "box", "creationTimestamp": ago(60), "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6.1", "architecture": "amd64"},
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        },
    }
    assert cells("nodes", node) == [
        "box",
        "Ready,SchedulingDisabled",
        "worker",
        "60s",
        "v1",
        "127.0.0.1",
        "<none>",
        "<unknown>",
        "6.1 (amd64)",
        "<unknown>",
    ]
    assert cells("nodes", {"metadata": {"name": "x"}})[1:3] == ["Unknown", "<none>"]


EVENT: Tree = {
    "metadata": {"name": "e", "creationTimestamp": ago(60)},
    "type": "Normal",
    "reason": "Started",
    "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
    "message": " hello ",
    "source": {"component": "kubelet", "host": "box"},
    "firstTimestamp": ago(60),
    "lastTimestamp": ago(30),
    "count": 4,
}


def test_the_cells_of_an_event_of_either_group() -> None:
    row: list[Json] = ["30s", "Normal", "Started", "pod/p", "spec", "kubelet, box", "hello", "60s", 4, "e"]
    assert cells("events", EVENT) == row
    newer: Tree = {
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"name": "e"},
        "type": "Normal",
        "reason": "Started",
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "hello",
        "reportingController": "us",
        "eventTime": ago(60),
    }
    assert cells("events.events.k8s.io", newer) == [
        *["60s", "Normal", "Started", "pod/p", "", "us", "hello", "60s", 1, "e"]
    ]
    newer["series"] = {"count": 7, "lastObservedTime": ago(5)}
    assert cells("events.events.k8s.io", newer)[0] == "5s"


@pytest.mark.parametrize(
    ("resource", "tree", "row"),
    [
        ("namespaces", {"status": {"phase": "Active"}}, ["x", "Active", "60s"]),
        ("secrets", {"type": "Opaque", "data": {"a": "", "b": ""}}, ["x", "Opaque", 2, "60s"]),
        ("configmaps", {"data": {"a": ""}, "binaryData": {"b": ""}}, ["x", 2, "60s"]),
        ("serviceaccounts", {}, ["x", "60s"]),
        ("leases.coordination.k8s.io", {"spec": {"holderIdentity": "me"}}, ["x", "me", "60s"]),
        (
            "priorityclasses.scheduling.k8s.io",
            {"value": 7, "preemptionPolicy": "Never"},
            ["x", 7, False, "60s", "Never"],
        ),
        ("runtimeclasses.node.k8s.io", {"handler": "h"}, ["x", "h", "60s"]),
        ("podtemplates", {"template": {"metadata": {"labels": {"a": "b"}}}}, ["x", "", "", "a=b"]),
        ("customresourcedefinitions.apiextensions.k8s.io", {}, ["x", ago(60)]),
        ("roles.rbac.authorization.k8s.io", {}, ["x", ago(60)]),
    ],
)
def test_the_cells_of_other_kinds(resource: str, tree: Tree, row: list[Json]) -> None:
    assert cells(resource, {"metadata": {"name": "x", "creationTimestamp": ago(60)}, **tree}) == row


@pytest.mark.parametrize("resource", sorted(LAYOUTS))
def test_an_object_of_which_nothing_is_known_has_a_row_all_the_same(resource: str) -> None:
    cells(resource, {})
    cells(resource, {"metadata": None, "spec": [], "status": "x"})
