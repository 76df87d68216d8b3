"""Decisions are told in the words of Kueue's events."""

from typing import Final

import pytest
from msgspec.structs import replace

from pykueue.base.units import Instant, Seconds, parse_instant
from pykueue.bridge import inbound
from pykueue.bridge.decisionevents import CONTROLLER, SCHEDULER, Note, notes
from pykueue.engine import model
from pykueue.engine.decisions import (
    Admit,
    AfterEviction,
    Bypassed,
    Considered,
    Deactivate,
    DeactivationCause,
    Decision,
    Evict,
    EvictionReason,
    GatedBy,
    GatesCleared,
    NoLongerFits,
    OverCapacity,
    PreemptionReason,
    Queued,
    QueueMissing,
    Requeue,
    RequeueReason,
    Reserve,
    Short,
    Unreserve,
    Wait,
    WaitReason,
)
from tests.bridge.test_outbound import ADMISSION, NOW, condition, reserving, stored

OPTIONS: Final = model.Options()
BOOSTED: Final = model.Options(priority_boost=True)
WAITED: Final = "wait time since queued was 600s"
PREEMPTOR: Final = model.Workload("ns/hi", "u2", "ns/lq", Instant(0), priority=7, boost=2)


def said(decision: Decision, options: model.Options = OPTIONS, *, holding: bool = True) -> tuple[Note, ...]:
    seen = stored(reserving() if holding else None)
    level = replace(inbound.workload(seen), max_run=Seconds(60))
    return notes(decision, seen, level, PREEMPTOR, options)


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        pytest.param(
            Admit("ns/w", ADMISSION, 0, NOW),
            [
                Note("ns/w", "QuotaReserved", f"Quota reserved in ClusterQueue cq, {WAITED}"),
                Note("ns/w", "Admitted", "Admitted by ClusterQueue cq, wait time since reservation was 0s"),
            ],
            id="an admission at once",
        ),
        pytest.param(
            Reserve("ns/w", ADMISSION, 0, NOW),
            [Note("ns/w", "QuotaReserved", f"Quota reserved in ClusterQueue cq, {WAITED}")],
            id="a reservation",
        ),
        pytest.param(
            Admit("ns/w", ADMISSION, 0, NOW, reserved_before=True),
            [
                Note(
                    "ns/w",
                    "Admitted",
                    "Admitted by ClusterQueue cq, wait time since reservation was 600s",
                    reporter=CONTROLLER,
                )
            ],
            id="an admission after checks",
        ),
        pytest.param(
            Evict("ns/w", EvictionReason.PODS_READY_TIMEOUT, "late", NOW, cause="WaitForStart"),
            [Note("ns/w", "EvictedDueToPodsReadyTimeout", "late", reporter=CONTROLLER)],
            id="an eviction",
        ),
        pytest.param(
            Evict("ns/w", EvictionReason.DEACTIVATED, "bye", NOW, cause="RequeuingLimitExceeded"),
            [Note("ns/w", "EvictedDueToDeactivatedDueToRequeuingLimitExceeded", "bye", reporter=CONTROLLER)],
            id="a deactivation with a cause",
        ),
        pytest.param(
            Evict("ns/w", EvictionReason.PREEMPTED, "go", NOW, by="ns/hi", preemption=PreemptionReason.IN_QUEUE),
            [
                Note("ns/w", "EvictedDueToPreempted", "go"),
                Note(
                    "ns/w",
                    "Preempted",
                    "go; preemptor effective priority: 7 (base: 7, boost: 0); "
                    "preemptee effective priority: 0 (base: 0, boost: 0)",
                ),
                Note(
                    "ns/hi",
                    "PreemptedWorkload",
                    "Preempted workload ns/w (UID: u) in ClusterQueue cq; preemptor effective priority: 7 (base: 7, "
                    "boost: 0); preemptee effective priority: 0 (base: 0, boost: 0)",
                ),
            ],
            id="a preemption",
        ),
        pytest.param(
            Deactivate("ns/w", DeactivationCause.MAX_RUN, "exceeding", NOW),
            [
                Note(
                    "ns/w",
                    "MaximumExecutionTimeExceeded",
                    "The maximum execution time (60s) exceeded",
                    warning=True,
                    reporter=CONTROLLER,
                )
            ],
            id="a run that is too long",
        ),
        pytest.param(
            Deactivate("ns/w", DeactivationCause.ADMISSION_CHECK, 'AdmissionCheck in Rejected state: "c"', NOW),
            [
                Note(
                    "ns/w",
                    "AdmissionCheckRejected",
                    'Deactivated due to AdmissionCheck in Rejected state: "c"',
                    warning=True,
                    reporter=CONTROLLER,
                )
            ],
            id="a check that says no",
        ),
        pytest.param(Deactivate("ns/w", DeactivationCause.REQUEUE_LIMIT, "often", NOW), [], id="too many tries"),
        pytest.param(
            Wait("ns/w", WaitReason.GATED, GatedBy("a.b/c"), NOW),
            [Note("ns/w", "AdmissionGated", "Workload admission is gated by: a.b/c", reporter=CONTROLLER)],
            id="a gate",
        ),
        pytest.param(
            Wait("ns/w", WaitReason.PENDING_EVALUATION, GatesCleared(), NOW),
            [
                Note(
                    "ns/w",
                    "AdmissionGateCleared",
                    "Admission gate cleared, workload is now admissible",
                    reporter=CONTROLLER,
                )
            ],
            id="no gate any more",
        ),
        pytest.param(
            Wait("ns/w", WaitReason.WAITING_FOR_QUOTA, NoLongerFits(), NOW),
            [
                Note(
                    "ns/w",
                    "WaitingForQuota",
                    "Workload no longer fits after processing another workload",
                    warning=True,
                    reporter=SCHEDULER,
                )
            ],
            id="a wait that an evaluation found",
        ),
        pytest.param(Wait("ns/w", WaitReason.PENDING_EVALUATION, Queued(), NOW), [], id="its turn is to come"),
        pytest.param(Wait("ns/w", WaitReason.WAITING_FOR_QUOTA, Bypassed(), NOW), [], id="its equal was judged"),
        pytest.param(
            Wait("ns/w", WaitReason.MISCONFIGURED, QueueMissing("LocalQueue", "lq"), NOW), [], id="a queue is missing"
        ),
        pytest.param(
            Unreserve("ns/w", WaitReason.PENDING_EVALUATION, AfterEviction("go"), NOW), [], id="quota given back"
        ),
        pytest.param(Requeue("ns/w", RequeueReason.REACTIVATED, NOW), [], id="queued again"),
    ],
)
def test_a_decision_is_told_like_this(decision: Decision, expected: list[Note]) -> None:
    assert list(said(decision)) == expected


def test_reservation_and_admission_in_one_write_may_share_an_event() -> None:
    seen = stored(None)
    level = inbound.workload(seen)
    at_once, later = (Admit("ns/w", ADMISSION, 0, NOW, reserved_before=before) for before in (False, True))
    text = f"Admitted, quota reserved in ClusterQueue cq, {WAITED}"
    assert notes(at_once, seen, level, None, OPTIONS, merged=True) == (Note("ns/w", "Admitted", text),)
    assert notes(later, seen, level, None, OPTIONS, merged=True) == notes(later, seen, level, None, OPTIONS)


def test_a_boost_counts_only_with_its_gate() -> None:
    decision = Evict("ns/w", EvictionReason.PREEMPTED, "go", NOW, by="ns/hi", preemption=PreemptionReason.IN_QUEUE)
    assert "preemptor effective priority: 9 (base: 7, boost: 2)" in said(decision, BOOSTED)[1].text


def test_nothing_is_said_of_an_eviction_without_quota() -> None:
    assert said(Evict("ns/w", EvictionReason.DEACTIVATED, "bye", NOW), holding=False) == ()


def test_flavors_that_did_not_simply_fit_are_named() -> None:
    tried = (
        Considered("main", "a", "NoFit", 0, (OverCapacity("a", "cpu", 0, 3000, 1000),)),
        Considered("main", "b", "Preempt", 0, (Short("b", "cpu", 1000),)),
        Considered("side", "c", "Fit", 1),
    )
    (note, _) = said(Admit("ns/w", ADMISSION, 1, NOW, considered=tried))
    assert note.text.endswith(
        "; Flavors considered: main: a(NoFit;insufficient quota for cpu in flavor a, previously considered podsets "
        "requests (0) + current podset request (3) > maximum capacity (1)), b(preemptionMode=Preempt;insufficient "
        "unused quota for cpu in flavor b, 1 more needed) | side: c(Fit;borrow=1)"
    )


def test_waiting_counts_from_when_it_was_put_back() -> None:
    requeued = condition("Requeued", True, "Preempted", at="2026-01-01T00:09:30Z")
    seen = stored({"conditions": [requeued]})
    (note, _) = notes(Admit("ns/w", ADMISSION, 0, NOW), seen, inbound.workload(seen), None, OPTIONS)
    assert note.text == "Quota reserved in ClusterQueue cq, wait time since queued was 30s"
    assert parse_instant("2026-01-01T00:09:30Z") < NOW
