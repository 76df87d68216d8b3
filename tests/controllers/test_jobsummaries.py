"""What is a job listed as? Each state, with its reason."""

from typing import Any

import msgspec
import pytest

from pykueue.api.codec import decode_as
from pykueue.api.jobsummary import UNQUEUED, JobState
from pykueue.api.workload import Workload
from pykueue.controllers.jobsummaries import (
    DELETED,
    INACTIVE,
    NO_POD,
    NO_QUEUE,
    PROCESSES,
    PodFacts,
    summary_of,
    summary_of_workload,
)
from pykueue.jobs.batch import JobView, read_job
from tests import builders
from tests.builders import condition

AT = "2026-01-01T00:00:00Z"
SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed"
RESERVED = condition("QuotaReserved")
ADMITTED = condition("Admitted", at="2026-01-01T01:00:00Z")


def job(queue: str = "main", metadata: dict[str, Any] | None = None, status: Any = None, **spec: Any) -> JobView:
    about = {"uid": "u", "creationTimestamp": AT, **(metadata or {})}
    tree = builders.job("train", queue, "lab", **spec)
    tree["metadata"] |= about
    return read_job(msgspec.json.encode(tree | {"status": status or {}}))


def workload(*conditions: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> Workload:
    tree = builders.workload("job-train", "main", "2", "lab", {"creationTimestamp": AT}, **spec)
    tree["status"] = {"conditions": [*conditions], **(status or {})}
    return decode_as(Workload, msgspec.json.encode(tree))


def waits(reason: str, message: str) -> dict[str, Any]:
    return condition("QuotaReserved", "False", reason) | {"message": message}


def held_by(what: str) -> Workload:
    """A Workload that the job controller has deactivated."""
    tree = builders.workload("job-train", "main", "2", "lab", {"creationTimestamp": AT}, active=False)
    tree["metadata"]["annotations"] = {"pykueue.io/deactivated-by": what}
    return decode_as(Workload, msgspec.json.encode(tree))


CHECK = {"admissionChecks": [{"name": "slow", "state": "Pending", "message": "ETA 2 s", "lastTransitionTime": AT}]}
CASES: list[tuple[str, JobView, Workload | None, tuple[PodFacts, ...], JobState, str]] = [
    ("is being deleted", job(metadata={"deletionTimestamp": AT}), workload(), (), JobState.STOPPING, DELETED),
    (
        "is held and its processes still run",
        job(suspend=True, status={"terminating": 1}),
        workload(active=False),
        (),
        JobState.STOPPING,
        PROCESSES,
    ),
    (
        "waits between two attempts",
        job(backoffLimit=2, status={"failed": 1}),
        workload(RESERVED, ADMITTED),
        (),
        JobState.RUNNING,
        "attempt 1 of 3 failed; the next one starts after a delay",
    ),
    ("has no Workload yet", job(suspend=True), None, (), JobState.PENDING, UNQUEUED),
    ("is suspended without a queue", job("", suspend=True), None, (), JobState.HELD, NO_QUEUE),
    ("has no queue and no pod yet", job(""), None, (), JobState.PENDING, NO_POD),
    ("runs without a queue", job("", status={"active": 1, "ready": 1}), None, (), JobState.RUNNING, ""),
    ("fails without a queue", job(""), None, (PodFacts("ErrImagePull: no"),), JobState.FAILING, "ErrImagePull: no"),
    ("is not considered yet", job(), workload(), (), JobState.PENDING, "not considered yet"),
    ("waits for quota", job(), workload(waits("Pending", SHORT)), (), JobState.PENDING, "needs 2 more cpu"),
    (
        "waits for a check",
        job(),
        workload(RESERVED, status=CHECK),
        (),
        JobState.PENDING,
        "waiting for admission checks: slow: ETA 2 s",
    ),
    ("is deactivated", job(), workload(active=False), (), JobState.HELD, INACTIVE),
    ("is held", job(), held_by("hold"), (), JobState.HELD, "held by its owner; `pykueue release` queues it again"),
    ("is requeued", job(), held_by("requeue"), (), JobState.HELD, "requeued by its owner"),
    (
        "has been tried too often",
        job(),
        workload(condition("Evicted", reason="PodsReadyTimeout"), active=False),
        (),
        JobState.HELD,
        "its pods were not ready in time",
    ),
    (
        "waits between two attempts",
        job(status={"failed": 1}, backoffLimit=2),
        workload(RESERVED, ADMITTED),
        (),
        JobState.RUNNING,
        "attempt 1 of 3 failed; the next one starts after a delay",
    ),
    ("runs", job(), workload(RESERVED, ADMITTED), (PodFacts(),), JobState.RUNNING, ""),
    ("no room", job(), workload(RESERVED, ADMITTED), (PodFacts(unplaced="x"), PodFacts()), JobState.RUNNING, "x"),
    ("cannot start", job(), workload(RESERVED, ADMITTED), (PodFacts("X: y"),), JobState.FAILING, "X: y"),
    (
        "is evicted",
        job(),
        workload(RESERVED, ADMITTED, condition("Evicted", reason="PodsReadyTimeout")),
        (),
        JobState.STOPPING,
        "its pods were not ready in time",
    ),
]


@pytest.mark.parametrize(("_what", "seen", "queued", "pods", "state", "reason"), CASES, ids=[one[0] for one in CASES])
def test_a_job_that(
    _what: str, seen: JobView, queued: Workload | None, pods: tuple[PodFacts, ...], state: JobState, reason: str
) -> None:
    found = summary_of(seen, queued, pods)
    assert (found.state, found.reason) == (state, reason)
    assert found.since


PREEMPTED = (
    "Preempted to accommodate a workload (UID: u, JobUID: j) due to reclamation within the cohort; "
    "preemptor path: /all/vision; preemptee path: /all/main"
)
BYPASSED = "Bypassed scheduling evaluation because an equivalent workload recently failed"


@pytest.mark.parametrize(
    ("conditions", "why"),
    [
        pytest.param(
            (condition("Evicted", reason="Preempted") | {"message": PREEMPTED},), "preempted for ", id="preempted"
        ),
        pytest.param((condition("Evicted", reason="PodsReadyTimeout"),), "its pods were not ready", id="not ready"),
        pytest.param((condition("Evicted", reason="Deactivated"),), "", id="held and released"),
        pytest.param((), "", id="not evicted"),
    ],
)
def test_why_the_last_run_was_stopped_is_told_while_it_waits(conditions: tuple[dict[str, Any], ...], why: str) -> None:
    seen = workload(waits("WaitingForQuota", BYPASSED), *conditions)
    for found in (summary_of(job(suspend=True), seen, ()), summary_of_workload(seen)):
        assert found.evicted.startswith(why)
        assert bool(found.evicted) == bool(why)
        assert found.reason == "a workload with the same requests was tried and did not fit"
    assert summary_of(job(), workload(RESERVED, ADMITTED, *conditions), ()).evicted == ""


def test_the_full_sentence_is_told_besides_the_phrase() -> None:
    found = summary_of(job(), workload(waits("Pending", SHORT)), ())
    assert (found.reason, found.message) == ("needs 2 more cpu", SHORT)


def test_a_reason_that_is_not_written_yet_is_told() -> None:
    found = summary_of(job(), workload(), (), {"reason": "Pending", "message": SHORT})
    assert found.reason == "needs 2 more cpu"


def test_the_nearest_limit_counts() -> None:
    status = {"startTime": "2026-01-01T01:00:10Z"}
    queued = workload(
        RESERVED, ADMITTED, status={"accumulatedPastExecutionTimeSeconds": 100}, maximumExecutionTimeSeconds=600
    )
    found = summary_of(job(status=status, activeDeadlineSeconds=3600), queued, ())
    assert (found.limit_seconds, found.deadline) == (600, "2026-01-01T01:08:20Z")
    found = summary_of(job(status=status, activeDeadlineSeconds=60), workload(RESERVED, ADMITTED), ())
    assert (found.limit_seconds, found.deadline) == (60, "2026-01-01T01:01:10Z")
    found = summary_of(job(activeDeadlineSeconds=60), workload(), ())
    assert (found.limit_seconds, found.deadline) == (60, "")


def test_what_it_uses_and_how_far_it_is() -> None:
    assignment = {"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "2"}}
    status = {"admission": {"clusterQueue": "main", "podSetAssignments": [assignment]}}
    seen = job(status={"completedIndexes": "0-36"}, completionMode="Indexed", completions=100)
    found = summary_of(seen, workload(RESERVED, ADMITTED, status=status), (PodFacts(gpus=(3,)), PodFacts(gpus=(1,))))
    assert (found.requests, found.gpus, found.progress) == ({"cpu": "2"}, (1, 3), "37/100")


def test_a_workload_of_another_kind_has_the_name_of_its_owner() -> None:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "tune", "uid": "r", "controller": True}
    tree = builders.workload("w", "main", "2", "lab", {"ownerReferences": [owner]})
    tree["status"] = {"conditions": [RESERVED, ADMITTED]}
    found = summary_of_workload(decode_as(Workload, msgspec.json.encode(tree)))
    assert (found.name, found.state, found.queue) == ("tune", JobState.RUNNING, "main")


def test_a_summary_is_small_whatever_its_job_asks_for() -> None:
    many = {f"example.com/r{number:04}": "1" for number in range(5_000)}
    main = {"name": "main", "image": "a:1", "resources": {"requests": {"cpu": "1", **many}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [main]}}
    found = summary_of(job(template=template), None, (PodFacts("p" * 100_000),))
    assert (len(found.requests), found.requests_left_out, found.requests["cpu"]) == (16, 4_985, "1")
    assert len(msgspec.json.encode(found)) < 4_000
    said = summary_of(job(), workload(waits("Pending", "m" * 100_000)), ())
    assert len(msgspec.json.encode(said)) < 4_000
