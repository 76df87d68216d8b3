"""Decisions become the status that Kueue writes."""

from typing import Any, Final

import pytest

from pykueue.api.codec import decode_as
from pykueue.api.core import Json, Tree
from pykueue.api.workload import Workload
from pykueue.base.units import Instant, Seconds, parse_instant
from pykueue.bridge import inbound
from pykueue.bridge.outbound import StatusBuilder, StatusWrite, condition_in, finished, set_condition, slice_of
from pykueue.engine import model
from pykueue.engine.decisions import (
    Admit,
    AfterEviction,
    Deactivate,
    DeactivationCause,
    Decision,
    Evict,
    EvictionReason,
    PreemptionReason,
    Queued,
    QueueMissing,
    Requeue,
    RequeueReason,
    Reserve,
    Unreserve,
    Wait,
    WaitReason,
)
from tests import builders

NOW: Final = parse_instant("2026-01-01T00:10:00Z")
EARLIER: Final = "2026-01-01T00:00:00Z"
ADMISSION: Final = model.Admission(
    "cq", (model.Assignment("main", (("cpu", "default"),), (("cpu", 3000), ("memory", 3 << 30)), 3),)
)
STORED_ADMISSION: Final[Tree] = {
    "clusterQueue": "cq",
    "podSetAssignments": [
        {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "3", "memory": "3Gi"}, "count": 3}
    ],
}


def stored(status: Tree | None = None, **spec: Json) -> Workload:
    """A Workload as the server has it."""
    template: Tree = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}
    metadata = {"uid": "u", "generation": 2, "creationTimestamp": EARLIER}
    asked: dict[str, Any] = {"podSets": [{"name": "main", "count": 3, "template": template}], **spec}
    tree = builders.workload("w", "lq", namespace="ns", metadata=metadata, **asked)
    return decode_as(Workload, {**tree, "status": status or {}})


def condition(
    kind: str, holds: bool, reason: str, text: str = "", at: str = EARLIER, generation: int | None = 2
) -> Tree:
    observed = {} if generation is None else {"observedGeneration": generation}
    return {**builders.condition(kind, str(holds), reason, at), "message": text, **observed}


DEFAULTS: Final = model.Options()
NOW_TEXT: Final = "2026-01-01T00:10:00Z"


def written(seen: Workload, *decisions: Decision, options: model.Options = DEFAULTS) -> list[StatusWrite]:
    builder = StatusBuilder(seen, inbound.workload(seen), options)
    for decision in decisions:
        builder.write(decision)
    return builder.finish()


def status_of(seen: Workload, *decisions: Decision, options: model.Options = DEFAULTS) -> Tree:
    (step,) = written(seen, *decisions, options=options)
    assert step.status is not None
    return step.status


def conditions(status: Tree) -> dict[str, tuple[str, str, str]]:
    found = status["conditions"]
    assert isinstance(found, list)
    return {
        str(c["type"]): (str(c["status"]), str(c["reason"]), str(c["message"])) for c in found if isinstance(c, dict)
    }


def reserving(*, admitted: bool = True, **more: Json) -> Tree:
    held = [condition("QuotaReserved", True, "QuotaReserved", "Quota reserved in ClusterQueue cq")]
    if admitted:
        held.append(condition("Admitted", True, "Admitted", "The workload is admitted"))
    return {"admission": STORED_ADMISSION, "conditions": [*held], **more}


def test_an_admission_without_checks_is_one_write() -> None:
    status = status_of(stored(), Admit("ns/w", ADMISSION, 0, NOW))
    assert status == {
        "admission": STORED_ADMISSION,
        "conditions": [
            condition("QuotaReserved", True, "QuotaReserved", "Quota reserved in ClusterQueue cq", NOW_TEXT),
            condition("Admitted", True, "Admitted", "The workload is admitted", NOW_TEXT),
        ],
    }


def test_a_reservation_says_that_checks_are_awaited() -> None:
    status = status_of(stored(), Reserve("ns/w", ADMISSION, 0, NOW))
    assert conditions(status)["Admitted"] == (
        "False",
        "UnsatisfiedAdmissionChecks",
        "The workload has not all checks ready",
    )


def test_a_reservation_lists_the_checks_of_its_flavors_and_keeps_what_they_said() -> None:
    ready: Json = {"name": "b", "state": "Ready", "message": "yes", "lastTransitionTime": EARLIER}
    other: Json = {"name": "of-another-flavor", "state": "Pending", "message": "", "lastTransitionTime": EARLIER}
    seen = stored({"admissionChecks": [ready, other]})
    status = status_of(seen, Reserve("ns/w", ADMISSION, 0, NOW, checks=("a", "b")))
    assert status["admissionChecks"] == [
        {"name": "a", "state": "Pending", "message": "", "lastTransitionTime": NOW_TEXT},
        ready,
    ]


def test_without_observability_a_reservation_says_nothing_of_admission() -> None:
    status = status_of(stored(), Reserve("ns/w", ADMISSION, 0, NOW), options=model.Options(observability=False))
    assert list(conditions(status)) == ["QuotaReserved"]


def test_a_new_reservation_ends_an_eviction_and_keeps_its_words() -> None:
    evicted = condition("Evicted", True, "Preempted", "Preempted to accommodate")
    preempted = condition("Preempted", True, "InClusterQueue", "Preempted to accommodate", generation=None)
    status = status_of(stored({"conditions": [evicted, preempted]}), Admit("ns/w", ADMISSION, 0, NOW))
    assert conditions(status)["Evicted"] == ("False", "QuotaReserved", "Previously: Preempted to accommodate")
    assert conditions(status)["Preempted"] == ("False", "QuotaReserved", "Previously: Preempted to accommodate")
    ended = [condition_in(status, kind) for kind in ("Evicted", "Preempted")]
    assert [None if one is None else one.get("observedGeneration") for one in ended] == [2, 2]


def test_the_count_of_retries_survives_a_rejection() -> None:
    rejected: Tree = {"name": "a", "state": "Rejected", "message": "no", "lastTransitionTime": EARLIER, "retryCount": 3}
    seen = stored(reserving(admissionChecks=[rejected]))
    status = status_of(seen, Evict("ns/w", EvictionReason.DEACTIVATED, "why", NOW, cause="AdmissionCheck"))
    reset = "Reset to Pending after eviction. Previously: Rejected"
    assert status["admissionChecks"] == [
        {"name": "a", "state": "Pending", "message": reset, "lastTransitionTime": NOW_TEXT, "retryCount": 3}
    ]


def test_an_eviction_keeps_the_quota_resets_the_checks_and_counts_itself() -> None:
    checks: list[Json] = [
        {
            "name": "a",
            "state": "Ready",
            "message": "ok",
            "lastTransitionTime": EARLIER,
            "podSetUpdates": [{"name": "main"}],
        },
        {
            "name": "b",
            "state": "Retry",
            "message": "",
            "lastTransitionTime": EARLIER,
            "requeueAfterSeconds": 8,
            "retryCount": 1,
        },
        {"name": "c", "state": "Pending", "message": "", "lastTransitionTime": EARLIER},
    ]
    seen = stored(reserving(admissionChecks=checks))
    decision = Evict("ns/w", EvictionReason.ADMISSION_CHECK, "why", NOW, requeue_at=Instant(NOW + 8_000_000))
    status = status_of(seen, decision)
    assert status["admission"] == STORED_ADMISSION
    assert conditions(status)["Evicted"] == ("True", "AdmissionCheck", "why")
    assert status["requeueState"] == {"requeueAt": "2026-01-01T00:10:08Z"}
    assert status["schedulingStats"] == {"evictions": [{"reason": "AdmissionCheck", "underlyingCause": "", "count": 1}]}
    reset = "Reset to Pending after eviction. Previously: "
    assert status["admissionChecks"] == [
        {"name": "a", "state": "Pending", "message": f"{reset}Ready", "lastTransitionTime": NOW_TEXT},
        {
            "name": "b",
            "state": "Pending",
            "message": f"{reset}Retry",
            "lastTransitionTime": NOW_TEXT,
            "requeueAfterSeconds": 8,
            "retryCount": 2,
        },
        {"name": "c", "state": "Pending", "message": "", "lastTransitionTime": EARLIER},
    ]


def test_a_second_eviction_for_the_same_reason_is_counted_and_keeps_its_time() -> None:
    stats: Tree = {"evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}]}
    evicted = condition("Evicted", True, "PodsReadyTimeout", "late")
    held = reserving(schedulingStats=stats)
    seen = stored({**held, "conditions": [*(held["conditions"] or ()), evicted]})  # type: ignore[misc]  # a list
    decision = Evict(
        "ns/w", EvictionReason.PODS_READY_TIMEOUT, "late again", NOW, cause="WaitForStart", requeue_count=2
    )
    status = status_of(seen, decision)
    assert status["schedulingStats"] == {
        "evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 2}]
    }
    assert status["requeueState"] == {"count": 2}
    found = status["conditions"]
    assert isinstance(found, list)
    assert found[-1] == condition("Evicted", True, "PodsReadyTimeout", "late again", EARLIER)


def test_a_preemption_is_an_eviction_with_a_condition_of_its_own() -> None:
    decision = Evict("ns/w", EvictionReason.PREEMPTED, "go", NOW, by="ns/x", preemption=PreemptionReason.RECLAIM)
    status = status_of(stored(reserving()), decision)
    assert conditions(status)["Preempted"] == ("True", "InCohortReclamation", "go")
    found = status["conditions"]
    assert isinstance(found, list)
    assert "observedGeneration" not in str(found[-1])


def test_a_second_preemption_observes_no_generation_either() -> None:
    before = condition("Preempted", False, "QuotaReserved", "Previously: go")
    held = reserving()
    seen = stored({**held, "conditions": [*(held["conditions"] or ()), before]})  # type: ignore[misc]  # a list
    decision = Evict("ns/w", EvictionReason.PREEMPTED, "go", NOW, by="ns/x", preemption=PreemptionReason.RECLAIM)
    assert "observedGeneration" not in (condition_in(status_of(seen, decision), "Preempted") or {})


def test_quota_given_back_takes_the_admission_away_and_adds_up_the_time() -> None:
    evicted = condition("Evicted", True, "Preempted", "go")
    held = reserving(accumulatedPastExecutionTimeSeconds=5)
    seen = stored({**held, "conditions": [*(held["conditions"] or ()), evicted]})  # type: ignore[misc]  # a list
    why = AfterEviction("go")
    status = status_of(seen, Unreserve("ns/w", WaitReason.PENDING_EVALUATION, why, NOW, True, "Preempted"))
    assert "admission" not in status
    assert status["accumulatedPastExecutionTimeSeconds"] == 605
    assert conditions(status) == {
        "QuotaReserved": ("False", "PendingEvaluation", "go"),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
        "Evicted": ("True", "Preempted", "go"),
        "Requeued": ("True", "Preempted", "go"),
    }


def test_a_reservation_lost_before_the_job_started_says_nothing_of_requeueing() -> None:
    why = QueueMissing("LocalQueue", "lq", lost_reservation=True)
    status = status_of(stored(reserving(admitted=False)), Unreserve("ns/w", WaitReason.MISCONFIGURED, why, NOW))
    assert conditions(status) == {
        "QuotaReserved": ("False", "Misconfigured", "LocalQueue lq is terminating or missing"),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
    }


def test_requeueing_keeps_the_count_and_drops_the_time() -> None:
    state: Tree = {"count": 2, "requeueAt": EARLIER}
    requeued = condition("Requeued", False, "PodsReadyTimeout", "late")
    seen = stored({"requeueState": state, "conditions": [requeued]})
    status = status_of(seen, Requeue("ns/w", RequeueReason.BACKOFF_FINISHED, NOW))
    assert status["requeueState"] == {"count": 2}
    assert conditions(status)["Requeued"] == ("True", "BackoffFinished", "The workload backoff was finished")


def test_a_deactivation_stores_its_reason_first_then_the_switch_then_the_eviction() -> None:
    seen = stored(reserving(), maximumExecutionTimeSeconds=10)
    steps = written(
        seen,
        Deactivate("ns/w", DeactivationCause.MAX_RUN, "exceeding the maximum execution time", NOW),
        Evict("ns/w", EvictionReason.DEACTIVATED, "bye", NOW, cause="MaximumExecutionTimeExceeded"),
    )
    assert [step.status is None for step in steps] == [False, True, False]
    assert steps[0].status is not None
    assert conditions(steps[0].status)["DeactivationTarget"][1] == "MaximumExecutionTimeExceeded"
    assert steps[2].status is not None
    assert "DeactivationTarget" not in conditions(steps[2].status)
    assert conditions(steps[2].status)["Evicted"][1] == "DeactivatedDueToMaximumExecutionTimeExceeded"
    assert steps[2].status["schedulingStats"] == {
        "evictions": [{"reason": "Deactivated", "underlyingCause": "MaximumExecutionTimeExceeded", "count": 1}]
    }


def test_a_workload_that_is_inactive_already_only_loses_what_would_retry_it() -> None:
    target = condition("DeactivationTarget", True, "RequeuingLimitExceeded", "too often")
    seen = stored({"requeueState": {"count": 3}, "conditions": [target]}, active=False)
    status = status_of(seen, Deactivate("ns/w", None, "", NOW))
    assert status == {"conditions": []}


def test_a_pending_workload_says_why_it_waits_and_what_it_asks_for() -> None:
    status = status_of(stored(), Wait("ns/w", WaitReason.PENDING_EVALUATION, Queued(), NOW))
    assert status["resourceRequests"] == [{"name": "main", "resources": {"cpu": "3", "memory": "3Gi"}}]
    assert conditions(status)["Admitted"] == ("False", "NoReservation", "The workload has no reservation")


def test_an_admission_drops_what_was_asked_for() -> None:
    requests: list[Json] = [{"name": "main", "resources": {"cpu": "3"}}]
    status = status_of(stored({"resourceRequests": requests}), Admit("ns/w", ADMISSION, 0, NOW))
    assert "resourceRequests" not in status


@pytest.mark.parametrize("kind", ["PodsReady", "WaitingForReplacementPods"])
def test_conditions_of_others_are_not_in_the_slice(kind: str) -> None:
    assert slice_of(stored({"conditions": [condition(kind, True, "Started")]})) == {}


def test_a_finished_workload_keeps_what_it_had() -> None:
    status = finished(stored(reserving()), "Succeeded", "Reached expected number of succeeded pods", NOW)
    assert status["admission"] == STORED_ADMISSION
    assert conditions(status)["Finished"] == ("True", "Succeeded", "Reached expected number of succeeded pods")


def test_a_slice_of_everything_says_everything() -> None:
    status = reserving(
        requeueState={"count": 1},
        schedulingStats={"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
        accumulatedPastExecutionTimeSeconds=7,
        clusterName="far",
        nominatedClusterNames=["far"],
        unhealthyNodes=[{"name": "n"}],
        preemptionGates=[{"name": "g", "position": "Open", "lastTransitionTime": EARLIER}],
        admissionChecks=[{"name": "a", "state": "Ready", "message": "", "lastTransitionTime": EARLIER}],
    )
    assert slice_of(stored(status)) == status


def test_the_time_of_a_condition_moves_only_with_its_status() -> None:
    status: Tree = {"conditions": [condition("QuotaReserved", False, "Pending", "a")]}
    set_condition(status, "QuotaReserved", False, "WaitingForQuota", "b", NOW, 3)
    assert status["conditions"] == [condition("QuotaReserved", False, "WaitingForQuota", "b", EARLIER, 3)]
    set_condition(status, "QuotaReserved", True, "QuotaReserved", "c", NOW, 3)
    assert status["conditions"] == [condition("QuotaReserved", True, "QuotaReserved", "c", NOW_TEXT, 3)]


def test_the_slice_of_what_was_written_is_what_was_written() -> None:
    status = status_of(stored(), Admit("ns/w", ADMISSION, 0, NOW))
    assert slice_of(stored(status)) == status


def test_run_time_is_counted_from_whole_seconds() -> None:
    assert inbound.workload(stored(reserving(accumulatedPastExecutionTimeSeconds=9))).past_run == Seconds(9)
