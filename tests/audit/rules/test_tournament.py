"""Does the auditor see a head that was passed over under fair sharing, and only if that is certain?"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from pykueue.api.workload import Workload
from pykueue.audit.rules.tournament import certain_head, wins
from pykueue.audit.shares import Share
from pykueue.audit.world import FINAL, INITIAL, Settings
from tests.audit.rules.test_preemption import preempt
from tests.audit.told import Tale, condition, quotas

CPU, GPU = ("default", "cpu"), ("default", "gpu")
FAIR = Settings(fair_sharing=(FINAL, INITIAL))
SHARES_FIRST = Settings(fair_sharing=(FINAL, INITIAL), nominal_first=False)


def workload(priority: int = 0, created: str = "2027-01-15T08:00:00Z") -> Workload:
    tree = {"metadata": {"name": "w", "creationTimestamp": created}, "spec": {"priority": priority}}
    return msgspec.convert(tree, Workload)


OLDER, YOUNGER = workload(), workload(created="2027-01-15T09:00:00Z")


def share(ratio: int, weight: int = 1, *borrowed: tuple[str, str]) -> Share:
    return Share(Fraction(ratio), Fraction(weight), "cpu", frozenset(borrowed))


# Facts of the specification, by their numbers.


def test_128_the_side_with_the_smaller_share_wins_whatever_the_shares_below() -> None:
    left, right = (share(500, 1, CPU), {CPU: 70}, OLDER), (share(505, 1, CPU), {CPU: 1}, OLDER)
    assert wins(FAIR, left, right)
    assert not wins(FAIR, right, left)


def test_129_of_two_weights_of_zero_the_one_that_borrows_less_wins_against_priority() -> None:
    less, more = share(100, 0, CPU), share(200, 0, CPU)
    assert wins(FAIR, (less, {CPU: 1}, OLDER), (more, {CPU: 1}, workload(9001)))
    assert not wins(FAIR, (more, {CPU: 1}, workload(9001)), (less, {CPU: 1}, OLDER))


def test_130_between_equal_shares_priority_decides_then_age() -> None:
    equal = share(100, 1, CPU)
    assert wins(FAIR, (equal, {CPU: 1}, workload(5, "2027-01-15T09:00:00Z")), (equal, {CPU: 1}, OLDER))
    assert wins(FAIR, (equal, {CPU: 1}, OLDER), (equal, {CPU: 1}, YOUNGER))
    assert not wins(FAIR, (equal, {CPU: 1}, YOUNGER), (equal, {CPU: 1}, OLDER))
    assert not wins(FAIR, (equal, {CPU: 1}, OLDER), (equal, {CPU: 1}, OLDER))


@pytest.mark.parametrize(("settings", "first"), [(FAIR, True), (SHARES_FIRST, False)])
def test_131_one_that_does_not_borrow_what_it_requests_goes_first(settings: Settings, first: bool) -> None:
    nominal, borrows = (share(300, 1, GPU), {CPU: 1}, OLDER), (share(100, 1, CPU), {CPU: 1}, OLDER)
    assert wins(settings, nominal, borrows) is first
    assert wins(settings, borrows, nominal) is not first


def test_a_head_is_certain_if_it_is_ahead_of_all_others() -> None:
    assert certain_head({}) == ""
    assert certain_head({"a": OLDER}) == "a"
    assert certain_head({"a": YOUNGER, "b": OLDER}) == "b"
    assert certain_head({"a": OLDER, "b": OLDER}) == ""
    assert certain_head({"a": OLDER, "b": workload(3)}) == "b"


# Stories.


def tale(**settings: Any) -> Tale:
    """The queues rich, which borrows 4 of the 8 cpu of its cohort, and poor, which has 2 cpu and uses none of them."""
    told = Tale(**{"stuck_seconds": 10_000, "fair_sharing": (FINAL, INITIAL), **settings})
    told.cohort("all", 8)
    told.queue("rich", 2, "all")
    told.queue("poor", 2, "all")
    told.reserve("rich1", "rich", 6)
    told.later(20)
    return told


def others(told: Tale, times: int, queue: str = "rich", cpu: int = 2) -> None:
    """Workloads of a queue come, get quota and end, one after the other."""
    for number in range(times):
        name = f"{queue}-{told.seconds + number}"
        told.workload(name, queue, cpu)
        told.later(1)
        told.reserve(name, queue, cpu)
        told.later(1)
        told.reserve(name, queue, cpu, condition("Finished", True, "Odd"))


def passed_over(told: Tale) -> list[str]:
    return [found for found in told.found if found.startswith("tournament: ")]


def test_a_head_with_the_smaller_share_that_is_passed_over_is_found() -> None:
    told = tale()
    told.workload("head", "poor", 2)
    told.later(10)
    others(told, 6)
    told.later(10)
    assert told.rules() == ["tournament"]
    assert told.found[0].startswith(
        "tournament: Workload ns/head: is first in ClusterQueue poor and still pending, but ns/rich-"
    )


def test_one_of_higher_priority_does_not_go_first_with_a_larger_share() -> None:
    told = tale()
    told.workload("head", "poor", 2)
    told.later(10)
    for number in range(6):
        told.workload(f"r{number}", "rich", 2, priority=1000)
        told.reserve(f"r{number}", "rich", 2, priority=1000)
        told.later(2)
        told.reserve(f"r{number}", "rich", 2, condition("Finished", True, "Odd"), priority=1000)
    told.later(10)
    assert len(passed_over(told)) == 1


def test_a_head_with_the_larger_share_waits() -> None:
    told = tale()
    told.workload("head", "rich", 2, priority=1000)
    told.later(10)
    others(told, 6, "poor")
    told.later(10)
    assert told.found == []


def test_a_head_that_gets_quota_soon_after_was_not_passed_over() -> None:
    told = tale()
    told.workload("head", "poor", 2)
    told.later(10)
    others(told, 2)
    told.reserve("head", "poor", 2)
    told.later(10)
    others(told, 6)
    told.later(10)
    assert told.found == []


def nested(**limits: int) -> Tale:
    """A cohort of the queues poor and other beside the queue rich, which borrows."""
    told = Tale(stuck_seconds=10_000, fair_sharing=(FINAL, INITIAL))
    told.cohort("all", 10)
    told.cohort("low", parent="all", **({"cpu": 1, **limits} if limits else {}))
    told.queue("rich", 2, "all")
    told.queue("poor", 0, "low")
    told.queue("other", 0, "low")
    told.reserve("rich1", "rich", 6)
    told.later(20)
    return told


def test_a_head_of_a_cohort_is_compared_by_the_share_of_its_cohort() -> None:
    told = nested()
    told.reserve("other1", "other", 1)
    told.workload("head", "poor", 2)
    told.later(10)
    others(told, 6)
    told.later(10)
    assert len(passed_over(told)) == 1


def test_a_head_whose_cohort_has_the_larger_share_waits() -> None:
    told = nested()
    told.reserve("other1", "other", 5)
    told.workload("head", "poor", 2)
    told.later(10)
    others(told, 6)
    told.later(10)
    assert passed_over(told) == []


def of_higher_priority(told: Tale) -> None:
    told.workload("ahead", "poor", 99, priority=1000)


def larger(told: Tale) -> None:
    told.workload("head", "poor", 3)


def used_before(told: Tale) -> None:
    told.reserve("before", "poor", 8)


def preempting(told: Tale) -> None:
    told.reserve("victim", "poor", 1)
    told.workload("preemptor", "poor", 1, priority=-1)
    preempt(told, "victim", "poor", 1, "preemptor")


@pytest.mark.parametrize("why", [of_higher_priority, larger, used_before, preempting])
def test_a_head_is_not_passed_over_if(why: Callable[[Tale], None]) -> None:
    told = tale()
    told.workload("head", "poor", 2)
    why(told)
    told.later(10)
    others(told, 6)
    told.later(10)
    assert passed_over(told) == []


def test_it_is_not_passed_over_if_a_limit_may_stop_it() -> None:
    told = nested(borrow=9)
    told.workload("head", "poor", 2)
    told.later(10)
    others(told, 6)
    assert passed_over(told) == []


def test_it_is_not_passed_over_if_the_other_takes_what_is_kept_for_it() -> None:
    told = tale()
    told.queue("rich", 9, "all", lend=1)
    told.workload("head", "poor", 2)
    told.later(10)
    others(told, 6)
    assert passed_over(told) == []


def test_it_is_not_passed_over_if_another_may_have_won_on_its_side() -> None:
    told = nested()
    told.workload("head", "poor", 2)
    told.workload("rival", "other", 2)
    told.later(10)
    others(told, 6)
    assert passed_over(told) == []


def test_it_is_not_passed_over_while_others_of_its_queue_get_quota() -> None:
    told = tale()
    told.workload("head", "poor", 2)
    told.later(10)
    for number in range(6):
        others(told, 1)
        told.workload(f"small{number}", "poor", 1)
        told.reserve(f"small{number}", "poor", 1)
        told.reserve(f"small{number}", "poor", 1, condition("Finished", True, "Odd"))
    told.later(10)
    assert passed_over(told) == []


def test_it_is_not_passed_over_if_its_local_queue_was_moved_just_now() -> None:
    told = tale()
    told.tell("LocalQueue", "ns", "moving", spec={"clusterQueue": "rich"})
    told.workload("head", "moving", 2)
    for number in range(6):
        told.tell("LocalQueue", "ns", "moving", spec={"clusterQueue": "rich" if number % 2 else "poor"})
        others(told, 1)
    told.later(10)
    assert passed_over(told) == []


@pytest.mark.parametrize("settings", [{"fair_sharing": ()}, {"block_admission": True}])
def test_where_there_is_no_tournament_nothing_is_found(settings: dict[str, Any]) -> None:
    told = tale(**settings)
    told.workload("head", "poor", 2)
    told.later(10)
    others(told, 6)
    told.later(10)
    assert passed_over(told) == []


def test_where_past_use_orders_the_children_of_a_cohort_nothing_is_found() -> None:
    told = tale()
    mode = {"annotations": {"pykueue.io/admission-mode": "UsageBasedAdmissionFairSharing"}}
    told.tell("Cohort", "", "all", metadata=mode, spec={"resourceGroups": quotas(8)})
    told.workload("head", "poor", 2)
    told.later(10)
    others(told, 6)
    told.later(10)
    assert told.found == []
