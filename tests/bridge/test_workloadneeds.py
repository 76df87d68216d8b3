"""What does a Workload need beside being scheduled, and is the answer nothing where it should be?"""

from typing import Any

import pytest

from pykueue.api.codec import decode_as
from pykueue.api.core import Tree
from pykueue.api.durations import Micros
from pykueue.api.kueue import ClusterQueue
from pykueue.api.names import Finalizer
from pykueue.api.trees import items, text
from pykueue.api.workload import Workload
from pykueue.base.units import Instant
from pykueue.bridge.workloadneeds import (
    Expire,
    Finish,
    LookAgain,
    Need,
    ReleaseFinalizer,
    Rules,
    SyncChecks,
    need,
    with_checks,
)
from pykueue.kube.port import CLUSTER_QUEUES, WORKLOADS
from tests import builders
from tests.builders import made

NOW = Instant(1_800_000_000_000_000)
HOUR = Micros(3_600_000_000)
OURS = str(Finalizer.RESOURCE_IN_USE)
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}
LABEL = {"kueue.x-k8s.io/job-uid": "u"}
GONE = "2027-01-15T07:59:00Z"


def condition(kind: str, status: str = "True") -> Tree:
    return builders.condition(kind, status, at="2027-01-15T07:30:00Z")


def workload(metadata: dict[str, Any] | None = None, **status: Any) -> Workload:
    return decode_as(Workload, made(WORKLOADS, "w", "n", metadata, spec={"queueName": "q"}, status=status))


def queue(*rules: tuple[str, tuple[str, ...]]) -> ClusterQueue:
    flavors: list[Any] = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": 1}]} for name in ("a", "b")]
    spec: Tree = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}
    if rules:
        checks: list[Any] = [{"name": name, "onFlavors": list(flavors)} for name, flavors in rules]
        spec["admissionChecksStrategy"] = {"admissionChecks": checks}
    return decode_as(ClusterQueue, made(CLUSTER_QUEUES, "q", spec=spec))


FINISHED = {"conditions": [condition("Finished")]}
ON_B = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "b"}}]}
PENDING = {"name": "all", "state": "Pending", "message": "", "lastTransitionTime": GONE}


@pytest.mark.parametrize(
    ("seen", "rules", "expected"),
    [
        pytest.param(workload(), Rules(), None, id="made by hand"),
        pytest.param(workload({"labels": LABEL}), Rules(), Finish(), id="orphan"),
        pytest.param(workload({"labels": LABEL}), Rules(finish_orphans=False), None, id="orphan, gate off"),
        pytest.param(workload({"labels": LABEL, "ownerReferences": [OWNER]}), Rules(), None, id="owned"),
        pytest.param(
            workload({"labels": LABEL, "finalizers": [OURS]}, **FINISHED),
            Rules(),
            ReleaseFinalizer(),
            id="finished orphan",
        ),
        pytest.param(workload({"labels": LABEL}, **FINISHED), Rules(), None, id="finished orphan, let go of"),
        pytest.param(
            workload({"deletionTimestamp": GONE, "finalizers": [OURS]}),
            Rules(),
            ReleaseFinalizer(),
            id="deleted by hand",
        ),
        pytest.param(
            workload({"deletionTimestamp": GONE, "finalizers": ["x"]}), Rules(), None, id="kept by others' finalizers"
        ),
        pytest.param(workload(None, **FINISHED), Rules(), None, id="kept forever"),
        pytest.param(
            workload(None, **FINISHED),
            Rules(keep_finished=HOUR),
            LookAgain(Instant(NOW + HOUR // 2)),
            id="kept for another half hour",
        ),
        pytest.param(workload(None, **FINISHED), Rules(keep_finished=Micros(0)), Expire(), id="kept no time at all"),
        pytest.param(
            workload({"deletionTimestamp": GONE, "finalizers": [OURS], "ownerReferences": [OWNER]}, **FINISHED),
            Rules(keep_finished=Micros(0)),
            ReleaseFinalizer(),
            id="on its way out already",
        ),
    ],
)
def test_what_a_workload_needs(seen: Workload, rules: Rules, expected: Need | None) -> None:
    assert need(seen, queue(), rules, NOW) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, SyncChecks(("all", "both")), id="before it has flavors"),
        pytest.param({"admission": ON_B}, SyncChecks(("all", "both", "on-b")), id="on a flavor"),
        pytest.param({"admissionChecks": [PENDING]}, SyncChecks(("all", "both")), id="some are missing"),
        pytest.param({"admissionChecks": [{**PENDING, "name": "both"}, PENDING]}, None, id="all are listed"),
        pytest.param(
            {"admissionChecks": [{**PENDING, "name": name} for name in ("all", "both", "old")]},
            SyncChecks(("all", "both")),
            id="one too many",
        ),
        pytest.param(FINISHED, None, id="finished"),
        pytest.param(
            {"admissionChecks": [{**PENDING, "name": name} for name in ("all", "both", "on-b")]},
            SyncChecks(("all", "both")),
            id="of a flavor that it has no more",
        ),
        pytest.param(
            {"admissionChecks": [{**PENDING, "name": name, "retryCount": 1} for name in ("all", "both", "on-b")]},
            None,
            id="of a flavor that it has no more, with a count of its attempts",
        ),
        pytest.param(
            {"admissionChecks": [{**PENDING, "name": "on-a", "retryCount": 1}], "admission": ON_B},
            SyncChecks(("all", "both", "on-b")),
            id="on another flavor than before, the count is over",
        ),
        pytest.param(
            {"admissionChecks": [{**PENDING, "name": name, "retryCount": 1} for name in ("all", "both", "old")]},
            SyncChecks(("all", "both")),
            id="one that the queue no longer has, for all its count",
        ),
    ],
)
def test_which_checks_a_workload_lists(status: dict[str, Any], expected: Need | None) -> None:
    rules = (("both", ("a", "b")), ("all", ()), ("on-a", ("a",)), ("on-b", ("b",)))
    assert need(workload(None, **status), queue(*rules), Rules(), NOW) == expected


def test_without_a_queue_nothing_is_known_of_checks() -> None:
    assert need(workload(None, admissionChecks=[PENDING]), None, Rules(), NOW) is None


def test_the_list_keeps_what_is_said_and_adds_what_is_missing() -> None:
    ready = {**PENDING, "state": "Ready", "message": "go", "retryCount": 2}
    seen = workload(None, admissionChecks=[ready, {**PENDING, "name": "old"}], conditions=[condition("QuotaReserved")])
    status = with_checks(seen, ("all", "new"), NOW)
    added = {"name": "new", "state": "Pending", "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    assert status["admissionChecks"] == [ready, added]
    assert [text(one, "type") for one in items(status, "conditions")] == ["QuotaReserved"]
    assert "admissionChecks" not in with_checks(seen, (), NOW)


@pytest.mark.parametrize(
    ("conditions", "reset"),
    [
        pytest.param([condition("Evicted")], True, id="left already"),
        pytest.param([condition("Evicted"), condition("QuotaReserved")], False, id="still leaving"),
        pytest.param([], True, id="never started"),
        pytest.param([condition("QuotaReserved", status="False")], True, id="waiting for quota"),
        pytest.param([condition("QuotaReserved")], False, id="with quota"),
    ],
)
@pytest.mark.parametrize(("state", "counted"), [("Retry", 1), ("Rejected", None)])
def test_a_check_that_turns_down_a_workload_without_quota_is_reset(
    conditions: list[Tree], reset: bool, state: str, counted: int | None
) -> None:
    said = {**PENDING, "state": state, "requeueAfterSeconds": 5}
    seen = workload(None, admissionChecks=[said], conditions=conditions)
    assert need(seen, queue(("all", ())), Rules(), NOW) == (SyncChecks(("all",)) if reset else None)
    (found,) = items(with_checks(seen, ("all",), NOW), "admissionChecks")
    assert isinstance(found, dict)
    assert (found["state"], found.get("retryCount"), found["requeueAfterSeconds"]) == (
        ("Pending", counted, 5) if reset else (state, None, 5)
    )


def test_a_check_that_is_ready_before_there_is_quota_stays_so() -> None:
    seen = workload(None, admissionChecks=[{**PENDING, "state": "Ready"}])
    assert need(seen, queue(("all", ())), Rules(), NOW) is None
