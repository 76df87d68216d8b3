"""Does a pod fit where it may run and where there is room, and is the reason given in the scheduler's words?"""

from typing import Any

import msgspec
import pytest

from pykueue.api.pods import PodSpec, read_special
from pykueue.kubecontrollers.podfit import Blocked, Node, blocked, message, read_node, requested

NODE = Node("here", 1, {"zone": "a", "cores": "8"}, amounts={"cpu": 4000, "memory": 8 << 30, "pods": 3})
SELECTOR = ("node(s) didn't match Pod's node affinity/selector",)
TAINTED = ("node(s) had untolerated taint(s)",)


def spec(**fields: Any) -> PodSpec:
    return msgspec.convert({"containers": [{"name": "main"}]} | fields, PodSpec, dec_hook=read_special)


def container(name: str = "main", restart: str | None = None, **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}} | ({"restartPolicy": restart} if restart else {})


def required(*requirements: dict[str, Any], fields: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    term = {"matchExpressions": list(requirements), "matchFields": list(fields)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(
            {"containers": [container(cpu="500m"), container("b", cpu="1", memory="1Gi")]},
            {"cpu": 1500, "memory": 1 << 30},
            id="containers together",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="3"), container("j", cpu="2")]},
            {"cpu": 3000},
            id="the largest init container",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("s", "Always", cpu="1")]},
            {"cpu": 2000},
            id="a sidecar runs beside",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("s", "Always", cpu="1"), container("i", cpu="3")],
            },
            {"cpu": 4000},
            id="an init container beside the sidecars before it",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, {"cpu": 1250}, id="what running costs"
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "3"}}},
            {"cpu": 3000},
            id="the pod as a whole",
        ),
        pytest.param(
            {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
            {"nvidia.com/gpu": 1},
            id="a limit without a request",
        ),
    ],
)
def test_requests(fields: dict[str, Any], expected: dict[str, int]) -> None:
    assert requested(spec(**fields)) == expected


@pytest.mark.parametrize(
    ("fields", "node", "used", "reasons"),
    [
        pytest.param({}, {}, {}, None, id="room enough"),
        pytest.param({"containers": [container(cpu="4")]}, {}, {}, None, id="all that there is"),
        pytest.param({"containers": [container(cpu="4")]}, {}, {"cpu": 1}, ("Insufficient cpu",), id="no cpu left"),
        pytest.param(
            {"containers": [container(**{"example.com/x": "1", "memory": "9Gi", "cpu": "1"})]},
            {},
            {"cpu": 4000},
            ("Insufficient cpu", "Insufficient memory", "Insufficient example.com/x"),
            id="several things are missing",
        ),
        pytest.param({"nodeSelector": {"zone": "a"}}, {}, {}, None, id="the selector matches"),
        pytest.param({"nodeSelector": {"zone": "b"}}, {}, {}, SELECTOR, id="the selector does not match"),
        pytest.param({"affinity": required(expression("zone", "In", "a", "b"))}, {}, {}, None, id="in"),
        pytest.param({"affinity": required(expression("zone", "NotIn", "a"))}, {}, {}, SELECTOR, id="not in"),
        pytest.param({"affinity": required(expression("gone", "NotIn", "a"))}, {}, {}, None, id="absent is not in"),
        pytest.param({"affinity": required(expression("zone", "Exists"))}, {}, {}, None, id="exists"),
        pytest.param({"affinity": required(expression("zone", "DoesNotExist"))}, {}, {}, SELECTOR, id="does not"),
        pytest.param({"affinity": required(expression("cores", "Gt", "7"))}, {}, {}, None, id="greater"),
        pytest.param({"affinity": required(expression("cores", "Lt", "8"))}, {}, {}, SELECTOR, id="not less"),
        pytest.param({"affinity": required(expression("zone", "Gt", "1"))}, {}, {}, SELECTOR, id="no number"),
        pytest.param({"affinity": required(expression("zone", "Near", "a"))}, {}, {}, SELECTOR, id="unknown"),
        pytest.param({"affinity": required()}, {}, {}, SELECTOR, id="an empty term holds nowhere"),
        pytest.param(
            {"affinity": required(fields=(expression("metadata.name", "In", "here"),))}, {}, {}, None, id="by name"
        ),
        pytest.param({}, {"unschedulable": True}, {}, ("node(s) were unschedulable",), id="cordoned"),
        pytest.param(
            {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
            {"unschedulable": True},
            {},
            None,
            id="cordoned, but tolerated",
        ),
    ],
)
def test_fits(
    fields: dict[str, Any], node: dict[str, Any], used: dict[str, int], reasons: tuple[str, ...] | None
) -> None:
    pod = spec(**fields)
    found = blocked(pod, requested(pod), msgspec.structs.replace(NODE, **node), used, 2)
    assert (None if found is None else found.reasons) == reasons


@pytest.mark.parametrize(
    ("toleration", "effect", "fits"),
    [
        pytest.param(None, "NoSchedule", False, id="not tolerated"),
        pytest.param(None, "PreferNoSchedule", True, id="only a wish"),
        pytest.param({"key": "gpu", "operator": "Exists"}, "NoSchedule", True, id="any value"),
        pytest.param({"key": "gpu", "value": "yes"}, "NoSchedule", True, id="the same value"),
        pytest.param({"key": "gpu", "value": "no"}, "NoSchedule", False, id="another value"),
        pytest.param({"operator": "Exists"}, "NoExecute", True, id="everything"),
        pytest.param({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, "NoSchedule", False, id="effect"),
        pytest.param({"key": "gpu", "operator": "Gt", "value": "1"}, "NoSchedule", False, id="unknown operator"),
    ],
)
def test_taints(toleration: dict[str, str] | None, effect: str, fits: bool) -> None:
    tree = {
        "metadata": {"name": "here", "resourceVersion": "7"},
        "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": effect}], "unschedulable": None},
        "status": {"allocatable": {"pods": "1", "cpu": "2"}},
    }
    node = read_node(msgspec.json.encode(tree))
    found = blocked(spec(tolerations=[toleration] if toleration else []), {}, node, {}, 0)
    assert (None if found is None else found.reasons) == (None if fits else TAINTED)


def test_too_many_pods() -> None:
    assert blocked(spec(), {}, NODE, {}, 3) == Blocked(("Too many pods",), hopeless=False)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param((), "no nodes available to schedule pods", id="no nodes"),
        pytest.param(
            (Blocked(("Insufficient cpu",), hopeless=False),),
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
            id="one node that is full",
        ),
        pytest.param(
            (Blocked(TAINTED), Blocked(TAINTED), Blocked(("Insufficient cpu", "Insufficient memory"), hopeless=False)),
            "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 2 node(s) had untolerated taint(s). "
            "no new claims to deallocate, preemption: 0/3 nodes are available: "
            "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
            id="reasons are counted",
        ),
    ],
)
def test_message(found: tuple[Blocked, ...], expected: str) -> None:
    assert message(found) == expected
