"""Does the auditor see a preemption that fair sharing does not justify, and only that?"""

from typing import Any

import pytest

from pykueue.audit.world import FINAL, INITIAL, ShareStrategy
from tests.audit.rules.test_preemption import preempt
from tests.audit.told import Tale, Tree, condition, quotas

RECLAIM, FAIR, OWN = "InCohortReclamation", "InCohortFairSharing", "InClusterQueue"
ANY = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
BOTH: tuple[ShareStrategy, ...] = (FINAL, INITIAL)
UNITS = [1, 1, 1, 1, 1]


def sharing(strategies: tuple[ShareStrategy, ...] = BOTH, **weights: str) -> Tale:
    """Three queues of 3 cpu each in one cohort."""
    told = Tale(stuck_seconds=10_000, fair_sharing=strategies)
    for name in "abc":
        weight = {"fairSharing": {"weight": weights[name]}} if name in weights else {}
        told.queue(name, 3, "all", preemption=ANY, **weight)
    return told


def hold(told: Tale, **held: list[int]) -> None:
    """Workloads of these sizes hold quota of each queue, for a while."""
    for queue, sizes in held.items():
        for number, cpu in enumerate(sizes, 1):
            told.reserve(f"{queue}{number}", queue, cpu)
    told.later(20)


def take(told: Tale, victim: str, cpu: int, *, by: str, needs: int, reason: str = FAIR, **spec: Any) -> None:
    """A workload of one queue is preempted for a new one of another, which gets its quota."""
    told.workload("new", by, needs)
    told.later(2)
    preempt(told, victim, victim[0], cpu, "new", reason, **spec)
    told.later(1)
    told.reserve("new", by, needs)
    told.later(30)


def shares(told: Tale) -> list[str]:
    """What the rule has found."""
    return [found for found in told.found if found.startswith("share: ")]


# Each number is that of a fact of the specification.


def test_116_a_queue_below_its_nominal_quota_reclaims_it() -> None:
    told = sharing()
    hold(told, a=[3], b=UNITS, c=[1])
    take(told, "b1", 1, by="c", needs=1, reason=RECLAIM)
    assert told.found == []


def test_116_a_queue_at_its_nominal_quota_has_nothing_to_reclaim() -> None:
    told = sharing()
    hold(told, a=[1], b=UNITS, c=[3])
    take(told, "b1", 1, by="c", needs=1, reason=RECLAIM)
    assert told.found == [
        "share: Workload ns/b1: was preempted as InCohortReclamation for ns/new, "
        "but with it ClusterQueue c exceeds its nominal quota of all that they contest"
    ]


def test_117_one_at_its_nominal_quota_takes_from_one_that_then_has_no_smaller_share() -> None:
    told = sharing()
    hold(told, a=[3], b=UNITS, c=[1])
    take(told, "b1", 1, by="a", needs=1)
    assert told.found == []


def test_118_what_would_reverse_the_imbalance_is_not_taken() -> None:
    told = sharing()
    hold(told, a=[3], b=UNITS, c=[1])
    take(told, "b1", 1, by="a", needs=2)
    assert shares(told) == [
        "share: Workload ns/b1: was preempted as InCohortFairSharing for ns/new, but the share of ClusterQueue a was "
        "at least 222.222 with it, and that of ClusterQueue b at most 222.222 before and 111.111 after"
    ]


def test_119_what_is_within_the_nominal_quota_is_taken_from_a_large_one() -> None:
    told = sharing()
    hold(told, b=[9])
    take(told, "b1", 9, by="a", needs=2, reason=RECLAIM)
    assert told.found == []


@pytest.mark.parametrize(
    ("strategies", "victim", "cpu", "fine"),
    [
        pytest.param((FINAL,), "b1", 1, True, id="final, a small one"),
        pytest.param((FINAL,), "b2", 4, False, id="final, a large one"),
        pytest.param((INITIAL,), "b2", 4, True, id="initial, a large one"),
        pytest.param(BOTH, "b2", 4, True, id="both, a large one"),
    ],
)
def test_120_127_each_strategy_has_its_own_comparison(
    strategies: tuple[ShareStrategy, ...], victim: str, cpu: int, fine: bool
) -> None:
    told = sharing(strategies)
    hold(told, a=[3], b=[1, 4], c=[1])
    take(told, victim, cpu, by="a", needs=1)
    assert (shares(told) == []) is fine


@pytest.mark.parametrize(("weight", "fine"), [("2", True), ("1", False)])
def test_121_a_preemptor_of_twice_the_weight_takes_twice_as_much(weight: str, fine: bool) -> None:
    told = sharing(a=weight)
    hold(told, a=[3], b=UNITS, c=[1])
    take(told, "b1", 1, by="a", needs=2)
    assert (shares(told) == []) is fine


def test_122_all_that_a_queue_of_weight_zero_borrows_can_be_taken() -> None:
    told = sharing(b="0")
    hold(told, a=[3], b=[1, 1, 1, 1], c=[2])
    take(told, "b1", 1, by="a", needs=1)
    assert told.found == []


def test_122_its_nominal_quota_cannot() -> None:
    told = sharing(b="0")
    hold(told, a=[3], b=[1, 1, 1], c=[3])
    take(told, "b1", 1, by="a", needs=1)
    assert shares(told) == [
        "share: Workload ns/b1: was preempted as InCohortFairSharing for ns/new, but ClusterQueue b had not borrowed",
        "share: Workload ns/b1: was preempted as InCohortFairSharing for ns/new, but the share of ClusterQueue a was "
        "at least 111.111 with it, and that of ClusterQueue b at most 0 before and 0 after",
    ]


@pytest.mark.parametrize(("weight", "fine"), [("0", True), ("1", False)])
def test_123_a_preemptor_of_weight_zero_takes_only_from_another(weight: str, fine: bool) -> None:
    told = sharing(a="0", b=weight)
    hold(told, a=[3], b=UNITS, c=[1])
    take(told, "b1", 1, by="a", needs=1)
    assert (shares(told) == []) is fine


def test_124_a_queue_of_weight_zero_reclaims_its_nominal_quota() -> None:
    told = sharing(a="0")
    hold(told, a=[2], b=UNITS, c=[2])
    take(told, "b1", 1, by="a", needs=1, reason=RECLAIM)
    assert told.found == []


def nested() -> Tale:
    """A cohort of the queues a and b, of 3 cpu each, beside the queue c."""
    told = Tale(stuck_seconds=10_000, fair_sharing=BOTH)
    told.cohort("low", parent="top")
    for name, cohort in (("a", "low"), ("b", "low"), ("c", "top")):
        told.queue(name, 3, cohort, preemption=ANY)
    return told


@pytest.mark.parametrize(
    ("a", "b", "fine"),
    [
        pytest.param(UNITS, [1], False, id="the cohort does not borrow"),
        pytest.param(UNITS, [1, 1], True, id="the cohort borrows"),
    ],
)
def test_125_a_cohort_that_does_not_borrow_protects_its_queues(a: list[int], b: list[int], fine: bool) -> None:
    told = nested()
    hold(told, a=a, b=b, c=[2])
    take(told, "a1", 1, by="c", needs=1, reason=RECLAIM)
    assert shares(told) == (
        []
        if fine
        else ["share: Workload ns/a1: was preempted as InCohortReclamation for ns/new, but Cohort low had not borrowed"]
    )


@pytest.mark.parametrize(
    ("b", "c", "needs", "fine"),
    [
        # The queue a borrows 3 cpu. With the new workload, the queue c borrows 1.
        pytest.param([1], [2], 2, False, id="the cohort of the victim borrows 1"),
        pytest.param([2], [1], 3, True, id="the cohort of the victim borrows 2"),
    ],
)
def test_shares_are_compared_where_the_paths_part(b: list[int], c: list[int], needs: int, fine: bool) -> None:
    told = nested()
    hold(told, a=[1] * 6, b=b, c=c)
    take(told, "a1", 1, by="c", needs=needs)
    assert (shares(told) == []) is fine


@pytest.mark.parametrize(("flavor", "fine"), [("spot", True), ("default", False)])
def test_126_only_what_is_contested_must_be_within_the_nominal_quota(flavor: str, fine: bool) -> None:
    told = Tale(stuck_seconds=10_000, fair_sharing=BOTH)
    told.tell("ResourceFlavor", "", "spot")
    (group,), (spot,) = quotas(3), quotas(3, flavor="spot")
    groups = [{**group, "flavors": group["flavors"] + spot["flavors"]}]
    for name in "ab":
        told.queue(name, 3, "all", preemption=ANY, resourceGroups=groups)
    told.reserve("a1", "a", 3)
    told.reserve("b1", "b", 3, flavor="default")
    told.reserve("b2", "b", 1, flavor="spot")
    told.reserve("b3", "b", 1, flavor="default")
    told.reserve("b4", "b", 5, flavor="spot")
    told.later(20)
    victim, cpu = ("b4", 5) if flavor == "spot" else ("b1", 3)
    told.workload("new", "a", 2)
    told.later(2)
    text = "Preempted to accommodate a workload (UID: uid-Workload-new, JobUID: j) due to reclamation within the cohort"
    leaving = [condition("Evicted", True, "Preempted", text), condition("Preempted", True, RECLAIM, text)]
    told.reserve(victim, "b", cpu, *leaving, flavor=flavor)
    told.later(30)
    assert (shares(told) == []) is fine


def test_132_nothing_is_reclaimed_while_borrowing() -> None:
    told = sharing()
    hold(told, a=[3], b=UNITS, c=[1])
    take(told, "b1", 1, by="a", needs=1, reason="InCohortReclaimWhileBorrowing")
    assert shares(told) == [
        "share: Workload ns/b1: was preempted as InCohortReclaimWhileBorrowing for ns/new, "
        "but fair sharing is on, under which borrowWithinCohort does not count"
    ]


def test_without_fair_sharing_shares_do_not_count() -> None:
    told = sharing(())
    hold(told, a=[3], b=UNITS, c=[1])
    take(told, "b1", 1, by="a", needs=2)
    assert shares(told) == []


def test_a_victim_of_the_own_queue_is_judged_by_its_policy_alone() -> None:
    told = sharing()
    hold(told, a=[3, 1], b=UNITS)
    told.workload("new", "a", 1, priority=5)
    preempt(told, "a2", "a", 1, "new", OWN)
    told.later(30)
    assert told.found == []


# What the manager may have seen otherwise.


def unjust(told: Tale) -> list[str]:
    """A preemption that is unjust by the usage that is seen last."""
    take(told, "b1", 1, by="a", needs=2)
    return shares(told)


def test_what_the_victims_side_held_a_moment_ago_counts_for_the_preemptor() -> None:
    told = sharing()
    hold(told, a=[3], b=[*UNITS, 1])
    told.reserve("b6", "b", 1, condition("Finished", True, "Odd"))
    assert unjust(told) == []


def test_what_the_preemptors_side_got_a_moment_ago_does_not_count_against_it() -> None:
    told = sharing()
    hold(told, b=UNITS, c=[1])
    told.reserve("a1", "a", 3)
    assert unjust(told) == []


def test_what_leaves_the_preemptors_side_does_not_count_against_it() -> None:
    told = sharing()
    hold(told, a=[1, 2], b=UNITS, c=[1])
    told.reserve("a1", "a", 1, condition("Evicted", True, "Preempted", "by another"))
    assert unjust(told) == []


@pytest.mark.parametrize("edit", ["quota", "weight", "local queue", "size", "partial"])
def test_what_was_edited_a_moment_ago_is_not_judged(edit: str) -> None:
    told = sharing()
    hold(told, a=[3], b=UNITS, c=[1])
    partial: Tree = {"podSets": [{"name": "main", "count": 2, "minCount": 1, "template": {"spec": {"containers": []}}}]}
    told.workload("new", "a", 2, **(partial if edit == "partial" else {}))
    told.later(2)
    match edit:
        case "quota":
            told.queue("c", 4, "all", preemption=ANY)
        case "weight":
            told.queue("b", 3, "all", preemption=ANY, fairSharing={"weight": "3"})
        case "local queue":
            told.tell("LocalQueue", "ns", "a", spec={"clusterQueue": "a", "stopPolicy": "None"})
        case "size":
            told.workload("new", "a", 3)
    preempt(told, "b1", "b", 1, "new", FAIR)
    told.later(30)
    assert shares(told) == []
