"""Does the auditor see a preemption that the policies forbid, or that nobody needed, and only that?"""

from typing import Any

import pytest

from pykueue.base.units import MICROS, Instant, format_instant
from tests.audit.told import Tale, Tree, condition, counted

LOWER = {"withinClusterQueue": "LowerPriority"}
NEWER = {"withinClusterQueue": "LowerOrNewerEqualPriority"}
WORDS = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
    "InCohortFairSharing": "Fair Sharing within the cohort",
}


def preempted(by: str, reason: str = "InClusterQueue") -> list[Tree]:
    text = f"Preempted to accommodate a workload (UID: uid-Workload-{by}, JobUID: j) due to {WORDS[reason]}"
    return [condition("Evicted", True, "Preempted", text), condition("Preempted", True, reason, text)]


def preempt(told: Tale, name: str, queue: str, cpu: int, by: str, reason: str = "InClusterQueue", **spec: Any) -> None:
    """A workload is evicted, its Job stops, and its quota is released."""
    told.reserve(name, queue, cpu, *preempted(by, reason), status=counted(1), **spec)
    told.workload(
        name, queue, cpu, *preempted(by, reason), condition("QuotaReserved", False), status=counted(1), **spec
    )


def since(told: Tale) -> list[Tree]:
    """A reservation of this moment."""
    now = format_instant(Instant(told.seconds * MICROS))
    return [{**condition("QuotaReserved", True), "lastTransitionTime": now}]


def alone(policies: Tree, *, victim: int, preemptor: int, cpu: int = 4, quota: int = 4) -> Tale:
    """A queue in which one workload is preempted for another that was created a minute later."""
    told = Tale(stuck_seconds=10_000)
    told.queue("q", quota, preemption=policies)
    told.reserve("a", "q", cpu, priority=victim)
    told.later(60)
    told.workload("b", "q", cpu, priority=preemptor)
    preempt(told, "a", "q", cpu, "b", priority=victim)
    told.reserve("b", "q", cpu, priority=preemptor)
    told.later(30)
    return told


def test_one_of_lower_priority_may_be_preempted_for_its_room() -> None:
    assert alone(LOWER, victim=0, preemptor=1).found == []


def test_a_victim_of_higher_priority_under_never_with_room_free_is_found() -> None:
    told = alone({}, victim=1000, preemptor=1, cpu=1, quota=10)
    assert told.found == [
        "preemption: Workload ns/a: was preempted as InClusterQueue for ns/b, "
        "but withinClusterQueue of ClusterQueue q is Never",
        "preemption: Workload ns/a: was preempted for ns/b, which had room without that",
    ]


@pytest.mark.parametrize(
    ("policies", "victim", "preemptor"),
    [
        pytest.param({}, 0, 1, id="never"),
        pytest.param(LOWER, 1, 1, id="equal priority"),
        pytest.param(LOWER, 2, 1, id="higher priority"),
        pytest.param(NEWER, 1, 1, id="equal priority but older"),
    ],
)
def test_a_victim_that_the_queue_protects_is_found(policies: Tree, victim: int, preemptor: int) -> None:
    assert alone(policies, victim=victim, preemptor=preemptor).rules() == ["preemption"]


def test_a_newer_one_of_equal_priority_may_be_preempted() -> None:
    told = Tale(stuck_seconds=10_000)
    told.queue("q", 4, preemption=NEWER)
    told.workload("b", "q", 4)
    told.later(60)
    told.reserve("a", "q", 4)
    told.later(2)
    preempt(told, "a", "q", 4, "b")
    assert "preemption" not in told.rules()


def test_a_priority_that_was_just_changed_is_not_judged() -> None:
    told = Tale(stuck_seconds=10_000)
    told.queue("q", 4, preemption=LOWER)
    told.reserve("a", "q", 4, priority=1)
    told.workload("b", "q", 4, priority=2)
    told.later(60)
    told.workload("b", "q", 4, priority=0)
    preempt(told, "a", "q", 4, "b", priority=1)
    assert told.found == []


def test_a_policy_that_was_just_changed_is_not_judged() -> None:
    told = Tale(stuck_seconds=10_000)
    told.queue("q", 4, preemption=LOWER)
    told.reserve("a", "q", 4)
    told.workload("b", "q", 4, priority=2)
    told.later(60)
    told.queue("q", 4)
    preempt(told, "a", "q", 4, "b")
    assert told.found == []


def cohort(policies: Tree, *, left: int = 4, right: int = 4) -> Tale:
    """Two queues of a cohort; the left one may preempt."""
    told = Tale(stuck_seconds=10_000)
    told.queue("left", left, "co", preemption=policies)
    told.queue("right", right, "co")
    return told


def reclaim(
    policies: Tree, reason: str = "InCohortReclamation", *, victim: int = 6, preemptor: int = 4, priority: int = 0
) -> Tale:
    """The right queue holds more than its 4 cpu, and is preempted for a workload of the left, which has 4 too."""
    told = cohort(policies)
    told.reserve("a", "right", victim)
    told.later(60)
    told.workload("b", "left", preemptor, priority=priority)
    preempt(told, "a", "right", victim, "b", reason)
    told.reserve("b", "left", preemptor, priority=priority)
    told.later(30)
    return told


def test_what_was_borrowed_may_be_reclaimed() -> None:
    assert reclaim({"reclaimWithinCohort": "Any"}).found == []


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(lambda: reclaim({"reclaimWithinCohort": "Never"}), id="never"),
        pytest.param(lambda: reclaim({"reclaimWithinCohort": "LowerPriority"}), id="not of lower priority"),
        pytest.param(lambda: reclaim({"reclaimWithinCohort": "Any"}, preemptor=5), id="would borrow itself"),
        pytest.param(lambda: reclaim({"reclaimWithinCohort": "Any"}, "InClusterQueue"), id="another queue"),
        pytest.param(
            lambda: reclaim({"reclaimWithinCohort": "Any"}, "InCohortReclaimWhileBorrowing", preemptor=5, priority=1),
            id="while borrowing, never",
        ),
        pytest.param(
            lambda: reclaim(
                {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}},
                "InCohortReclaimWhileBorrowing",
                preemptor=5,
            ),
            id="while borrowing, not of lower priority",
        ),
        pytest.param(
            lambda: reclaim(
                {
                    "reclaimWithinCohort": "Any",
                    "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -1},
                },
                "InCohortReclaimWhileBorrowing",
                preemptor=5,
                priority=1,
            ),
            id="while borrowing, above the threshold",
        ),
    ],
)
def test_a_victim_that_the_cohort_protects_is_found(told: Any) -> None:
    assert told().rules() == ["preemption"]


def test_one_of_lower_priority_may_be_preempted_while_borrowing() -> None:
    policies = {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}
    assert reclaim(policies, "InCohortReclaimWhileBorrowing", preemptor=5, priority=1).found == []


def test_a_queue_that_borrowed_nothing_is_protected() -> None:
    told = cohort({"reclaimWithinCohort": "Any"})
    told.reserve("a", "right", 4)
    told.reserve("c", "left", 4, *since(told))
    told.later(60)
    told.workload("b", "left", 4, priority=1)
    preempt(told, "a", "right", 4, "b", "InCohortReclamation")
    told.later(30)
    assert any("ClusterQueue right had not borrowed" in found for found in told.found)


def test_a_queue_that_had_borrowed_a_moment_ago_is_not_protected() -> None:
    told = cohort({"reclaimWithinCohort": "Any"})
    told.reserve("a", "right", 4)
    told.reserve("c", "right", 4)
    told.later(60)
    told.workload("b", "left", 4)
    told.gone("Workload", "ns", "c")
    told.later(1)
    preempt(told, "a", "right", 4, "b", "InCohortReclamation")
    told.reserve("b", "left", 4)
    told.later(30)
    assert told.found == []


def test_a_victim_beside_enough_others_is_found() -> None:
    told = Tale(stuck_seconds=10_000)
    told.queue("q", 4, preemption=LOWER)
    for name in ("a", "b"):
        told.reserve(name, "q", 2)
    told.later(60)
    told.workload("c", "q", 2, priority=1)
    for name in ("a", "b"):
        preempt(told, name, "q", 2, "c")
    told.reserve("c", "q", 2, priority=1)
    told.later(30)
    assert {
        f"preemption: Workload ns/{name}: was preempted for ns/c, for which the other victims were enough"
        for name in ("a", "b")
    } == set(told.found)


def test_several_victims_may_be_needed() -> None:
    told = Tale(stuck_seconds=10_000)
    told.queue("q", 4, preemption=LOWER)
    for name in ("a", "b"):
        told.reserve(name, "q", 2)
    told.later(60)
    told.workload("c", "q", 3, priority=1)
    for name in ("a", "b"):
        preempt(told, name, "q", 2, "c")
    told.reserve("c", "q", 3, priority=1)
    told.later(30)
    assert told.found == []


@pytest.mark.parametrize("way", ["given to another at once", "free only just now", "of a quota raised just now"])
def test_room_that_the_manager_did_not_have_is_no_room(way: str) -> None:
    told = Tale(stuck_seconds=10_000)
    told.queue("q", 4, preemption=LOWER)
    told.reserve("a", "q", 2)
    told.reserve("d", "q", 2, priority=1)
    told.later(60)
    told.workload("b", "q", 2, priority=1)
    told.workload("c", "q", 2, priority=1)
    if way == "of a quota raised just now":
        told.queue("q", 6, preemption=LOWER)
    else:
        told.gone("Workload", "ns", "d")
    if way == "given to another at once":
        told.later(10)
    preempt(told, "a", "q", 2, "b")
    if way == "given to another at once":
        told.reserve("c", "q", 2, priority=1)
    told.later(3)
    told.reserve("b", "q", 2, priority=1)
    told.later(30)
    assert "preemption" not in told.rules()


def test_a_manager_that_died_may_have_decided_more_than_it_wrote() -> None:
    told = Tale(lease="kueue-system/lease")

    def held_by(holder: str) -> None:
        told.tell("Lease", "kueue-system", "lease", spec={"holderIdentity": holder, "leaseDurationSeconds": 3})

    told.queue("q", 4, preemption=LOWER)
    told.reserve("a", "q", 2)
    for _ in range(30):
        told.later(1)
        held_by("one")
    told.workload("b", "q", 2, priority=1)
    preempt(told, "a", "q", 2, "b")
    told.later(2)
    for _ in range(60):
        told.later(1)
        held_by("two")
    assert "preemption" not in told.rules()


def test_a_preemptor_that_has_quota_needs_no_victim() -> None:
    told = Tale(stuck_seconds=10_000)
    told.queue("q", 4, preemption=LOWER)
    told.reserve("a", "q", 2)
    told.reserve("b", "q", 2, *since(told), priority=1)
    told.later(60)
    preempt(told, "a", "q", 2, "b")
    assert told.found[0] == "preemption: Workload ns/a: was preempted for ns/b, which already holds quota"


def test_nobody_is_preempted_for_itself() -> None:
    told = Tale(stuck_seconds=10_000)
    told.queue("q", 4, preemption=LOWER)
    told.reserve("a", "q", 2)
    preempt(told, "a", "q", 2, "a")
    assert told.found[0] == "preemption: Workload ns/a: was preempted for itself"
