"""Does the auditor see when someone holds more than it may, and only then?"""

import pytest

from tests.audit.told import Tale, condition, counted, evicted


def tale() -> Tale:
    told = Tale(lag_seconds=0)
    told.queue("q", 4, preemption={"withinClusterQueue": "LowerPriority"})
    return told


def test_a_queue_may_be_full() -> None:
    told = tale()
    told.reserve("a", "q", 3)
    told.reserve("b", "q", 1)
    assert told.found == []


def test_one_too_many_is_found() -> None:
    told = tale()
    told.reserve("a", "q", 3)
    told.reserve("b", "q", 2)
    assert told.found == [
        "overuse: ClusterQueue q: holds 5 cpu of flavor default but may hold only 4; caused by Workload ns/b"
    ]


def test_a_reservation_counts_before_it_is_admitted() -> None:
    told = tale()
    told.reserve("a", "q", 3)
    told.reserve("b", "q", 2, condition("Admitted", False))
    assert told.rules() == ["overuse"]


@pytest.mark.parametrize("way", ["finished", "inactive", "deleted", "evicted and stopped"])
def test_room_that_was_given_back_may_be_taken(way: str) -> None:
    told = tale()
    told.reserve("a", "q", 3)
    told.workload("b", "q", 2, priority=1)
    if way == "finished":
        told.reserve("a", "q", 3, condition("Finished", True, "Odd"))
    elif way == "inactive":
        told.reserve("a", "q", 3, active=False)
    elif way == "deleted":
        told.gone("Workload", "ns", "a")
    else:
        told.reserve("a", "q", 3, *evicted(), status=counted(1))
        told.workload("a", "q", 3, *evicted(), status=counted(1))
    told.reserve("b", "q", 2, priority=1)
    assert told.found == []


def test_a_workload_that_is_being_evicted_still_holds_its_room() -> None:
    told = tale()
    told.reserve("a", "q", 3)
    told.workload("b", "q", 2, priority=1)
    told.reserve("a", "q", 3, *evicted(), status=counted(1))
    told.reserve("b", "q", 2, priority=1)
    assert told.rules() == ["overuse"]


def test_pods_that_are_done_give_back_their_part() -> None:
    told = tale()
    told.reserve("a", "q", 1, pods=4)
    told.reserve("a", "q", 1, pods=4, status={"reclaimablePods": [{"name": "main", "count": 2}]})
    told.reserve("b", "q", 2)
    assert told.found == []
    told.reserve("c", "q", 1)
    assert told.rules() == ["overuse"]


def test_a_cohort_may_not_be_overdrawn_though_each_queue_could_borrow() -> None:
    told = Tale(lag_seconds=0)
    told.queue("left", 4, "co")
    told.queue("right", 4, "co")
    told.reserve("a", "left", 5)
    told.reserve("b", "right", 3)
    assert told.found == []
    told.reserve("c", "right", 1)
    assert told.found == [
        "overuse: Cohort co: with its subtree holds 9 cpu of flavor default but may hold only 8; "
        "caused by Workload ns/c"
    ]


def test_a_limit_of_borrowing_is_found_below_a_cohort_with_room() -> None:
    told = Tale(lag_seconds=0)
    told.queue("left", 4, "co", borrow=1)
    told.queue("right", 4, "co")
    told.reserve("a", "left", 6)
    assert told.rules() == ["overuse"]
    assert "ClusterQueue left" in told.found[0]


def test_a_flavor_that_the_queue_does_not_have_is_overuse() -> None:
    told = tale()
    told.reserve("a", "q", 1, flavor="other")
    assert told.rules() == ["overuse"]


def test_what_a_cut_of_quota_stranded_may_only_fall() -> None:
    told = tale()
    told.reserve("a", "q", 2)
    told.reserve("b", "q", 2)
    told.workload("c", "q", 1)
    told.queue("q", 1)
    assert told.found == []
    told.gone("Workload", "ns", "a")
    assert told.found == []
    told.reserve("c", "q", 1)
    assert told.found == [
        "overuse: ClusterQueue q: holds 3 cpu of flavor default but may hold only 1; caused by Workload ns/c"
    ]


def test_a_reservation_on_its_way_during_a_cut_of_quota_is_excused_for_a_while() -> None:
    told = Tale(lag_seconds=5)
    told.queue("q", 4)
    told.reserve("a", "q", 2)
    told.later(60)
    told.queue("q", 1)
    told.later(1)
    told.reserve("b", "q", 2)
    assert told.found == []
    told.later(5)
    told.reserve("c", "q", 1)
    assert told.rules() == ["overuse"]


@pytest.mark.parametrize("before", [4, 6])
def test_an_edit_excuses_only_what_fitted_before_it(before: int) -> None:
    told = Tale()
    told.queue("q", before)
    told.later(60)
    told.queue("q", 5)
    told.later(2)
    told.reserve("a", "q", 50)
    assert told.rules() == ["overuse"]
    told.later(600)
    assert told.rules() == ["overuse"]


def test_an_edit_of_another_tree_excuses_nothing() -> None:
    told = Tale()
    told.queue("q", 5)
    told.queue("other", 50)
    told.later(60)
    told.queue("other", 1)
    told.reserve("a", "q", 50)
    assert told.rules() == ["overuse"]


def test_a_queue_that_leaves_its_cohort_strands_what_it_borrowed() -> None:
    told = Tale(lag_seconds=0)
    told.queue("left", 4, "co")
    told.queue("right", 4, "co")
    told.reserve("a", "left", 6)
    told.queue("left", 4)
    assert told.found == []
    told.reserve("b", "left", 1)
    assert told.rules() == ["overuse"]


def test_a_stop_of_the_queue_is_no_edit_of_its_quotas() -> None:
    told = tale()
    told.reserve("a", "q", 5)
    assert told.rules() == ["overuse"]
    told.queue("q", 4, stopPolicy="Hold")
    told.queue("q", 4)
    told.reserve("b", "q", 1)
    assert told.rules() == ["overuse", "overuse"]


def test_a_workload_that_is_turned_on_again_while_it_is_evicted_is_someone_elses_doing() -> None:
    told = tale()
    told.reserve("a", "q", 3)
    told.reserve("a", "q", 3, active=False)
    told.reserve("b", "q", 3)
    told.reserve("a", "q", 3)
    assert told.found == []


def test_so_is_a_reservation_that_was_in_flight_when_it_was_turned_on() -> None:
    told = Tale(lag_seconds=5)
    told.queue("q", 4)
    told.reserve("a", "q", 3)
    told.reserve("a", "q", 3, active=False)
    told.reserve("a", "q", 3)
    told.reserve("b", "q", 3)
    assert told.found == []
    # What would not have fitted beside it either is found, and so is what comes later.
    told.reserve("c", "q", 3)
    assert told.rules() == ["overuse"]


def test_but_not_one_that_was_decided_later() -> None:
    told = Tale(lag_seconds=5)
    told.queue("q", 4)
    told.reserve("a", "q", 3)
    told.reserve("a", "q", 3, active=False)
    told.reserve("a", "q", 3)
    told.later(6)
    told.reserve("b", "q", 3)
    assert told.rules() == ["overuse"]
