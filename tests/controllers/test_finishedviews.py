"""Is of a Workload that is over all kept that anybody reads, and nothing more?"""

from typing import Any

import msgspec
import pytest

from pykueue.api.codec import decode_as
from pykueue.api.core import Tree
from pykueue.api.durations import Micros
from pykueue.api.workload import Workload, held
from pykueue.base.units import Instant
from pykueue.bridge.workloadneeds import Expire, ReleaseFinalizer, Rules, need
from pykueue.controllers.finishedviews import reducer
from pykueue.controllers.workloads import refers_to
from pykueue.jobs.seen import has_finalizer, reserved
from tests import builders

FINALIZER = "kueue.x-k8s.io/resource-in-use"
AT = "2026-01-01T12:00:00Z"
OWNER: Tree = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "train",
    "uid": "u-1",
    "controller": True,
    "blockOwnerDeletion": True,
}


def condition(kind: str, status: str = "True", reason: str = "Because") -> Tree:
    return {**builders.condition(kind, status, reason, AT), "message": f"{kind}!"}


def workload(*conditions: Tree, name: str = "w", **metadata: Any) -> Workload:
    stored = {
        "uid": f"u-{name}",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": AT,
        "labels": {"kueue.x-k8s.io/job-uid": "u-1", "mine": "x"},
        "annotations": {"note": "long" * 100},
        "finalizers": [FINALIZER],
        "ownerReferences": [OWNER],
        **metadata,
    }
    high = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    tree = builders.workload(name, "main", namespace="team", metadata=stored, priority=5, priorityClassRef=high)
    admission: Tree = {"clusterQueue": "a", "podSetAssignments": [{"name": "main"}]}
    return decode_as(Workload, {**tree, "status": {"conditions": list(conditions), "admission": admission}})


OVER = (condition("QuotaReserved"), condition("PodsReady", "False"), condition("Finished", reason="Succeeded"))


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(workload(condition("QuotaReserved")), id="running"),
        pytest.param(workload(condition("Finished", "False")), id="not finished after all"),
        pytest.param(workload(condition("Finished", reason="FailedToStart")), id="could not start"),
    ],
)
def test_what_is_not_over_stays_whole(seen: Workload) -> None:
    assert reducer(timed=True)(seen) is seen


def test_who_it_is_and_whose_is_kept() -> None:
    seen = workload(*OVER, deletionTimestamp=AT)
    kept = reducer(timed=False)(seen)
    assert msgspec.structs.replace(kept.metadata, labels={}, annotations={}) == msgspec.structs.replace(
        seen.metadata, labels={}, annotations={}
    )
    assert (kept.api_version, kept.kind, kept.name, kept.namespace) == (seen.api_version, seen.kind, "w", "team")


def test_what_is_most_of_it_is_not_kept() -> None:
    kept = reducer(timed=True)(workload(*OVER))
    assert (kept.spec.pod_sets, kept.status.admission) == ((), None)
    assert (kept.metadata.labels, kept.metadata.annotations) == ({}, {})
    assert {one.message for one in kept.status.conditions} == {""}


def test_its_conditions_and_why_it_is_over_are_kept() -> None:
    kept = reducer(timed=False)(workload(*OVER))
    said = [(one.type, one.status) for one in kept.status.conditions]
    assert said == [("QuotaReserved", "True"), ("PodsReady", "False"), ("Finished", "True")]
    finished = held(kept, "Finished")
    assert finished is not None
    assert (finished.reason, finished.last_transition_time) == ("Succeeded", None)
    assert reserved(kept)
    assert has_finalizer(kept)


def test_when_it_ended_is_kept_where_it_goes_some_time_after() -> None:
    kept = reducer(timed=True)(workload(*OVER))
    rules = Rules(keep_finished=Micros(60_000_000))
    assert need(kept, None, rules, Instant(2**60)) == Expire()
    assert need(kept, None, rules, Instant(0)) == need(workload(*OVER), None, rules, Instant(0))


def test_one_without_an_owner_is_known_to_have_had_one() -> None:
    kept = reducer(timed=False)(workload(*OVER, ownerReferences=[]))
    assert kept.metadata.labels == {"kueue.x-k8s.io/job-uid": "u-1"}
    assert need(kept, None, Rules(), Instant(0)) == ReleaseFinalizer()


def test_its_priority_still_follows_its_class() -> None:
    kept = reducer(timed=False)(workload(*OVER))
    assert refers_to(kept, "high")
    assert (kept.spec.priority, kept.spec.queue_name) == (5, "main")


def test_what_many_have_in_common_is_kept_once() -> None:
    first, second = (reducer(timed=False)(workload(*OVER, name=name)) for name in ("a", "b"))
    assert first.spec is second.spec
    assert first.status is second.status
    assert first.metadata.labels is second.metadata.labels
    assert first.metadata.finalizers is second.metadata.finalizers
    assert first.metadata.owner_references[0].kind is second.metadata.owner_references[0].kind


def test_of_a_husk_another_is_made_that_equals_it() -> None:
    reduced = reducer(timed=True)
    kept = reduced(workload(*OVER))
    assert reduced(kept) == kept
    assert reduced(kept) is not kept
