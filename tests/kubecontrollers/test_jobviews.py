"""Is what matters of Jobs and pods read, and the rest left out?"""

from typing import Any

import msgspec
import pytest

from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.kubecontrollers.jobviews import Pod, read_job, read_pod

NOW = Instant(1_800_000_000 * MICROS)


def at(seconds: int) -> str:
    return format_instant(Instant(NOW + seconds * MICROS))


def instant(seconds: int) -> Instant:
    return Instant(NOW + seconds * MICROS)


OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid", "controller": True}
METADATA: dict[str, Any] = {
    "name": "train-x",
    "namespace": "team-a",
    "uid": "u",
    "resourceVersion": "7",
    "creationTimestamp": at(0),
    "ownerReferences": [OWNER],
    "finalizers": ["batch.kubernetes.io/job-tracking"],
}


def pod(metadata: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any) -> Pod:
    tree = {"metadata": METADATA | (metadata or {}), "spec": spec or {}, "status": status}
    return read_pod(msgspec.json.encode(tree))


def container(name: str, code: int | None = None, ended: int | None = None, restarts: int = 0) -> dict[str, Any]:
    state = (
        {} if code is None else {"terminated": {"exitCode": code, "finishedAt": None if ended is None else at(ended)}}
    )
    return {"name": name, "restartCount": restarts, "state": state}


def test_a_pod_of_a_job() -> None:
    found = pod(
        {"annotations": {"batch.kubernetes.io/job-completion-index": "3"}},
        {"nodeName": "here", "restartPolicy": "OnFailure"},
        phase="Running",
        conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": at(5)}],
        containerStatuses=[container("a", restarts=2), container("b", restarts=1)],
    )
    assert found == Pod(
        "team-a",
        "train-x",
        7,
        "u",
        "train",
        "job-uid",
        "Running",
        True,
        False,
        3,
        "here",
        True,
        instant(5),
        instant(0),
        Instant(0),
        3,
        2,
        True,
        (),
        (("Ready", "True"),),
        finalizers=("batch.kubernetes.io/job-tracking",),
    )


@pytest.mark.parametrize(
    ("annotation", "index"),
    [("0", 0), ("-1", None), ("x", None), ("", None), ("99999999999999999999", None)],
)
def test_index(annotation: str, index: int | None) -> None:
    assert pod({"annotations": {"batch.kubernetes.io/job-completion-index": annotation}}).index == index


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"ownerReferences": []}, id="of nobody"),
        pytest.param({"ownerReferences": [OWNER | {"controller": False}]}, id="not controlled"),
        pytest.param({"ownerReferences": [OWNER | {"apiVersion": "apps/v1", "kind": "ReplicaSet"}]}, id="of another"),
    ],
)
def test_pods_of_others_are_husks(metadata: dict[str, Any]) -> None:
    found = pod({"finalizers": [], **metadata}, phase="Running")
    assert found == Pod("team-a", "train-x", 7, phase="Running")
    # But for our finalizer, which they are to lose.
    held = pod(metadata, phase="Running")
    assert held == msgspec.structs.replace(found, uid="u", tracked=True, finalizers=tuple(METADATA["finalizers"]))


def test_a_pod_that_ended_and_is_counted_is_a_husk() -> None:
    found = pod({"finalizers": []}, phase="Succeeded", containerStatuses=[container("a", 0, 9)])
    assert found == Pod("team-a", "train-x", 7, phase="Succeeded", ended=instant(9))


def test_exit_codes_of_init_containers_come_last() -> None:
    found = pod(
        phase="Failed",
        containerStatuses=[container("a", 0, 1), container("b", 3, 1)],
        initContainerStatuses=[container("i", 2, 1)],
    )
    assert found.exits == (("b", 3), ("i", 2))
    assert found.exit_code == 3


def test_exit_codes_are_those_of_shells_where_they_are_shown() -> None:
    missing = {"exitCode": 128, "reason": "StartError", "message": 'exec: "x": executable file not found in $PATH'}
    found = pod(phase="Failed", containerStatuses=[{"name": "a", "state": {"terminated": missing}}])
    assert (found.exits, found.exit_code) == ((("a", 128),), 127), "policies compare the code of Kubernetes"
    late = pod(phase="Failed", reason="DeadlineExceeded", containerStatuses=[container("a", 143, 1)])
    assert late.exit_code == 124


READY_ENDED = {"type": "Ready", "status": "False", "lastTransitionTime": at(20)}


@pytest.mark.parametrize(
    ("metadata", "status", "ended"),
    [
        pytest.param(
            {}, {"containerStatuses": [container("a", 1, 5), container("b", 0, 9)]}, 9, id="the last container"
        ),
        pytest.param(
            {},
            {"containerStatuses": [container("a", 1, 5)], "initContainerStatuses": [container("side", 0, 30)]},
            30,
            id="a sidecar may end later",
        ),
        pytest.param(
            {},
            {"containerStatuses": [container("a", 1, 5)], "initContainerStatuses": [container("i", 0, 30)]},
            5,
            id="init",
        ),
        pytest.param(
            {}, {"containerStatuses": [container("a", 1)], "conditions": [READY_ENDED]}, 20, id="the end of readiness"
        ),
        pytest.param({"deletionTimestamp": at(50), "deletionGracePeriodSeconds": 30}, {}, 20, id="when it was deleted"),
        pytest.param({}, {}, 0, id="when it was created"),
    ],
)
def test_when_a_pod_ended(metadata: dict[str, Any], status: dict[str, Any], ended: int) -> None:
    spec = {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "i"}]}
    assert pod(metadata, spec, phase="Failed", **status).ended == instant(ended)


def job(spec: dict[str, Any] | None = None, **status: Any) -> Any:
    metadata = {"name": "train", "namespace": "team-a", "uid": "job-uid", "resourceVersion": "9"}
    return read_job(msgspec.json.encode({"metadata": metadata, "spec": spec or {}, "status": status}))


def test_a_finished_job_is_a_husk() -> None:
    done = {"type": "Complete", "status": "True", "lastTransitionTime": at(3)}
    found = job({"ttlSecondsAfterFinished": 5, "template": {"spec": {}}}, conditions=[done])
    assert (found.work, found.ended, found.ttl, found.version) == (None, instant(3), 5, 9)


def test_a_job_of_another_controller_is_a_husk_that_has_not_ended() -> None:
    found = job({"managedBy": "example.com/other"})
    assert (found.work, found.ended) == (None, None)
    assert job({"managedBy": "kubernetes.io/job-controller"}).work is not None


def test_nulls_stand_for_absent_fields() -> None:
    found = job({"suspend": None, "parallelism": None, "completions": 3}, startTime=None)
    assert (found.work.spec.suspend, found.work.spec.parallelism, found.work.spec.completions) == (False, 1, 3)


@pytest.mark.parametrize(
    ("spec", "retries"),
    [({}, 6), ({"backoffLimit": 2}, 2), ({"backoffLimitPerIndex": 1}, 2**31 - 1), ({"backoffLimit": 0}, 0)],
)
def test_retries(spec: dict[str, Any], retries: int) -> None:
    assert job(spec).work.spec.retries == retries
