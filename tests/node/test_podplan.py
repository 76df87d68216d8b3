"""Is it decided rightly what happens to a pod's containers next?"""

from typing import Any

import pytest

from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.node.podplan import Steps, deadline, delay_seconds, held_state, kill_due, restart_due, steps
from pykueue.node.podstatus import ContainerStatus, Ended, Running

NOW = Instant(1_800_000_000 * MICROS)
FINE = ContainerStatus(Ended(0, NOW, NOW))
BROKEN = ContainerStatus(Ended(1, NOW, NOW))
RUNS = ContainerStatus(Running(NOW), ready=True, started=True)
STARTING = ContainerStatus(Running(NOW))
INIT, SECOND, SIDECAR = {"name": "first"}, {"name": "second"}, {"name": "beside", "restartPolicy": "Always"}


def pod(*inits: Any, policy: str = "Never", names: tuple[str, ...] = ("a",), **more: Any) -> dict[str, Any]:
    containers = [{"name": name} for name in names]
    spec = {"containers": containers, "initContainers": list(inits), "restartPolicy": policy, **more}
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}


LATER = Instant(NOW + 10 * MICROS)


@pytest.mark.parametrize(
    ("tree", "containers", "wanted"),
    [
        pytest.param(pod(names=("a", "b")), {}, Steps(("a", "b")), id="all main containers start together"),
        pytest.param(pod(), {"a": RUNS}, Steps(), id="what runs goes on"),
        pytest.param(pod(), {"a": BROKEN}, Steps(), id="what failed stays so"),
        pytest.param(pod(policy="OnFailure"), {"a": FINE}, Steps(), id="what ended well needs no more"),
        pytest.param(pod(policy="OnFailure"), {"a": BROKEN}, Steps(("a",)), id="at first it starts again at once"),
        pytest.param(pod(policy="Always"), {"a": FINE}, Steps(("a",)), id="always again"),
        pytest.param(pod(INIT, SECOND), {}, Steps(("first",)), id="init containers come first"),
        pytest.param(pod(INIT, SECOND), {"first": RUNS}, Steps(), id="one after the other"),
        pytest.param(pod(INIT, SECOND), {"first": FINE}, Steps(("second",)), id="the next init container"),
        pytest.param(pod(INIT), {"first": FINE}, Steps(("a",)), id="then the main ones"),
        pytest.param(pod(INIT), {"first": BROKEN}, Steps(), id="a failed init container is the end"),
        pytest.param(pod(INIT, policy="Always"), {"first": BROKEN}, Steps(("first",)), id="unless it may try again"),
        pytest.param(pod(INIT, policy="Always"), {"first": FINE}, Steps(("a",)), id="an init container runs once"),
        pytest.param(pod(SIDECAR), {}, Steps(("beside",)), id="a sidecar starts in its turn"),
        pytest.param(pod(SIDECAR), {"beside": STARTING}, Steps(), id="the others wait until it has started"),
        pytest.param(pod(SIDECAR), {"beside": RUNS}, Steps(("a",)), id="and then start"),
        pytest.param(pod(SIDECAR), {"beside": BROKEN, "a": RUNS}, Steps(("beside",)), id="a sidecar is kept running"),
        pytest.param(pod(SIDECAR), {"beside": RUNS, "a": FINE}, Steps(end=("beside",)), id="it ends after the others"),
        pytest.param(pod(SIDECAR), {"beside": FINE, "a": FINE}, Steps(), id="and does not come back"),
        pytest.param(
            pod(SIDECAR, INIT),
            {"beside": RUNS, "first": BROKEN},
            Steps(end=("beside",)),
            id="it ends as well",
        ),
    ],
)
def test_steps(tree: dict[str, Any], containers: dict[str, ContainerStatus], wanted: Steps) -> None:
    assert steps(tree, containers, {}, NOW) == wanted


def test_a_container_that_fell_before_is_held_back() -> None:
    plan = steps(pod(policy="Always"), {"a": BROKEN}, {"a": 2}, NOW)
    assert plan == Steps(held={"a": LATER})
    assert plan.wake == LATER
    assert steps(pod(policy="Always"), {"a": BROKEN}, {"a": 2}, LATER) == Steps(("a",))


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (1, 0), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 300), (50, 300)]
)
def test_the_back_off_doubles_up_to_five_minutes(failures: int, seconds: int) -> None:
    assert delay_seconds(failures) == seconds
    assert restart_due(Ended(1, NOW, NOW), failures) == NOW + seconds * MICROS


def test_what_a_kubelet_says_of_a_container_that_is_held() -> None:
    assert held_state(pod(), "a", 2).message == "back-off 10s restarting failed container=a pod=p_n(u)"
    assert held_state(pod(), "a", 5).message.startswith("back-off 1m20s ")
    assert held_state(pod(), "a", 9).message.startswith("back-off 5m0s ")


def test_a_deleted_pod_is_killed_a_second_after_its_time_at_the_latest() -> None:
    tree = pod()
    tree["metadata"] |= {"deletionTimestamp": format_instant(LATER), "deletionGracePeriodSeconds": 10}
    assert kill_due(tree, NOW) == LATER + MICROS
    tree["metadata"]["deletionGracePeriodSeconds"] = 0
    assert kill_due(tree, NOW) == NOW


def test_a_pod_may_be_active_for_so_long() -> None:
    assert deadline(pod()) is None
    assert deadline(pod(activeDeadlineSeconds=10)) is None
    tree = pod(activeDeadlineSeconds=10) | {"status": {"startTime": format_instant(NOW)}}
    assert deadline(tree) == LATER
