"""Does a pod's status say what a kubelet would say?"""

from typing import Any

import pytest

from pykueue.api.trees import text
from pykueue.base.units import Instant
from pykueue.node.podstatus import (
    ContainerStatus,
    Ended,
    Running,
    Waiting,
    conditions_of,
    final_phase,
    phase_of,
    status_of,
)

NOW = Instant(1_800_000_000_000_000)
MOMENT = "2027-01-15T08:00:00Z"
FINE = Ended(0, NOW, NOW)
BROKEN = Ended(1, NOW, NOW)
RUNS = ContainerStatus(Running(NOW), ready=True, started=True)


def pod(*names: str, inits: tuple[Any, ...] = (), policy: str = "Never", **more: Any) -> dict[str, Any]:
    containers = [{"name": name, "image": "a:1"} for name in names]
    return {
        "metadata": {"name": "p", "generation": 2},
        "spec": {"containers": containers, "initContainers": list(inits), "restartPolicy": policy},
        **more,
    }


INIT = {"name": "first"}
SIDECAR = {"name": "beside", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("tree", "containers", "phase"),
    [
        pytest.param(pod("a"), {}, "Pending", id="nothing has started"),
        pytest.param(pod("a"), {"a": RUNS}, "Running", id="it runs"),
        pytest.param(pod("a", "b"), {"a": RUNS}, "Pending", id="one of two has not started"),
        pytest.param(pod("a"), {"a": ContainerStatus(FINE)}, "Succeeded", id="it ended well"),
        pytest.param(pod("a"), {"a": ContainerStatus(BROKEN)}, "Failed", id="it ended badly"),
        pytest.param(pod("a", "b"), {"a": ContainerStatus(BROKEN), "b": RUNS}, "Running", id="one failed and one runs"),
        pytest.param(
            pod("a", "b"), {"a": ContainerStatus(BROKEN), "b": ContainerStatus(FINE)}, "Failed", id="one of two failed"
        ),
        pytest.param(pod("a", policy="OnFailure"), {"a": ContainerStatus(BROKEN)}, "Running", id="it will run again"),
        pytest.param(
            pod("a", policy="OnFailure"), {"a": ContainerStatus(FINE)}, "Succeeded", id="no need to run again"
        ),
        pytest.param(pod("a", policy="Always"), {"a": ContainerStatus(FINE)}, "Running", id="it always runs again"),
        pytest.param(
            pod("a", policy="Always"),
            {"a": ContainerStatus(Waiting("CrashLoopBackOff"), BROKEN, 1)},
            "Running",
            id="held back",
        ),
        pytest.param(pod("a", inits=(INIT,)), {"first": RUNS}, "Pending", id="an init container runs"),
        pytest.param(
            pod("a", inits=(INIT,)), {"first": ContainerStatus(BROKEN)}, "Failed", id="an init container failed"
        ),
        pytest.param(
            pod("a", inits=(INIT,), policy="OnFailure"),
            {"first": ContainerStatus(BROKEN)},
            "Pending",
            id="an init container runs again",
        ),
        pytest.param(pod("a", inits=(INIT,)), {"first": ContainerStatus(FINE), "a": RUNS}, "Running", id="after init"),
        pytest.param(
            pod("a", inits=(SIDECAR,)), {"beside": RUNS, "a": ContainerStatus(FINE)}, "Running", id="a sidecar is left"
        ),
        pytest.param(
            pod("a", inits=(SIDECAR,)),
            {"beside": ContainerStatus(BROKEN), "a": ContainerStatus(FINE)},
            "Succeeded",
            id="all ended",
        ),
    ],
)
def test_phase(tree: dict[str, Any], containers: dict[str, ContainerStatus], phase: str) -> None:
    assert phase_of(tree, containers) == phase


def test_a_pod_that_was_made_to_end_failed_unless_all_of_it_ended_well() -> None:
    assert final_phase(pod("a", "b"), {"a": ContainerStatus(FINE), "b": ContainerStatus(FINE)}) == "Succeeded"
    assert final_phase(pod("a", "b"), {"a": ContainerStatus(FINE)}) == "Failed"
    assert final_phase(pod("a"), {"a": ContainerStatus(Ended(143, NOW, NOW))}) == "Failed"


def test_the_status_of_a_running_pod() -> None:
    assert status_of(pod("a"), {"a": ContainerStatus(Running(NOW), None, 1, True, True, "u/a/1")}, NOW) == {
        "observedGeneration": 2,
        "phase": "Running",
        "conditions": [
            condition("PodReadyToStartContainers", "True"),
            condition("Initialized", "True"),
            condition("Ready", "True"),
            condition("ContainersReady", "True"),
        ],
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "startTime": MOMENT,
        "containerStatuses": [
            {
                "name": "a",
                "state": {"running": {"startedAt": MOMENT}},
                "lastState": {},
                "ready": True,
                "restartCount": 1,
                "image": "a:1",
                "imageID": "",
                "started": True,
                "containerID": "process://u/a/1",
            }
        ],
    }


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": kind,
        "status": status,
        "observedGeneration": 2,
        "lastProbeTime": None,
        "lastTransitionTime": MOMENT,
    }
    return made | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def test_an_end_is_written_with_its_code_signal_and_times() -> None:
    ended = Ended(137, NOW, Instant(NOW + 2_000_000), "OOMKilled", "too much", 9)
    status: Any = status_of(pod("a"), {"a": ContainerStatus(ended, attempt="u/a/0")}, NOW)
    assert status["containerStatuses"][0]["state"] == {
        "terminated": {
            "exitCode": 137,
            "signal": 9,
            "reason": "OOMKilled",
            "message": "too much",
            "startedAt": MOMENT,
            "finishedAt": "2027-01-15T08:00:02Z",
            "containerID": "process://u/a/0",
        }
    }


@pytest.mark.parametrize(
    ("containers", "wanted"),
    [
        pytest.param(
            {"a": ContainerStatus(Running(NOW), started=True)},
            ("ContainersNotReady", "containers with unready status: [a]"),
            id="its probe has not said so yet",
        ),
        pytest.param({"a": ContainerStatus(FINE)}, ("PodCompleted", ""), id="it is over"),
        pytest.param({"a": ContainerStatus(BROKEN)}, ("PodFailed", ""), id="it failed"),
    ],
)
def test_why_a_pod_is_not_ready(containers: dict[str, ContainerStatus], wanted: tuple[str, str]) -> None:
    found = {text(one, "type"): one for one in conditions_of(pod("a"), containers, phase_of(pod("a"), containers), NOW)}
    assert found["Ready"] == condition("Ready", "False", *wanted)
    assert found["ContainersReady"] == condition("ContainersReady", "False", *wanted)


def test_conditions_of_others_stay_and_a_condition_keeps_the_time_of_its_change() -> None:
    scheduled = {"type": "PodScheduled", "status": "True"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    tree = pod("a", status={"conditions": [scheduled, ready], "qosClass": "BestEffort"})
    status: Any = status_of(tree, {"a": RUNS}, NOW)
    found = {one["type"]: one for one in status["conditions"]}
    assert found["PodScheduled"] == scheduled
    assert found["Ready"]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert found["ContainersReady"]["lastTransitionTime"] == MOMENT
    assert status["qosClass"] == "BestEffort"


def test_a_readiness_gate_that_does_not_hold_keeps_the_pod_from_being_ready() -> None:
    tree = pod("a")
    tree["spec"]["readinessGates"] = [{"conditionType": "example.com/lb"}]
    found: Any = {text(one, "type"): one for one in conditions_of(tree, {"a": RUNS}, "Running", NOW)}
    assert found["ContainersReady"]["status"] == "True"
    assert found["Ready"]["reason"] == "ReadinessGatesNotReady"
    assert found["Ready"]["message"] == (
        'corresponding condition of pod readiness gate "example.com/lb" does not exist.'
    )
    tree["status"] = {"conditions": [{"type": "example.com/lb", "status": "True"}]}
    found = {text(one, "type"): one for one in conditions_of(tree, {"a": RUNS}, "Running", NOW)}
    assert found["Ready"]["status"] == "True"


def test_main_containers_wait_for_the_init_containers() -> None:
    status: Any = status_of(pod("a", inits=(INIT,)), {"first": RUNS}, NOW)
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert status["initContainerStatuses"][0]["ready"] is False
    found = {one["type"]: one for one in status["conditions"]}
    assert found["Initialized"] == condition(
        "Initialized", "False", "ContainersNotInitialized", "containers with incomplete status: [first]"
    )
    done: Any = status_of(pod("a", inits=(INIT,)), {"first": ContainerStatus(FINE), "a": RUNS}, NOW)
    assert done["initContainerStatuses"][0]["ready"] is True


def test_a_pod_that_is_over_waits_for_nothing() -> None:
    held = ContainerStatus(Waiting("CrashLoopBackOff", "back-off"), BROKEN, 3)
    status: Any = status_of(pod("a"), {"a": held}, NOW, phase="Failed", reason="DeadlineExceeded", message="too long")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert status["containerStatuses"][0]["restartCount"] == 3
    assert (status["reason"], status["message"]) == ("DeadlineExceeded", "too long")
    assert status["phase"] == "Failed"


def test_what_was_said_of_a_pod_that_waited_is_gone_when_it_runs() -> None:
    status = status_of(pod("a", status={"reason": "Unschedulable", "message": "no room"}), {"a": RUNS}, NOW)
    assert "reason" not in status
    assert "message" not in status
