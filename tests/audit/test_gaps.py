"""What does the auditor make of a time in which it could not look?"""

from tests.audit.told import Tale, condition, counted, evicted


def tale() -> Tale:
    told = Tale(lag_seconds=0)
    told.queue("q", 4)
    told.reserve("a", "q", 3)
    told.workload("b", "q", 2)
    return told


def unseen(told: Tale, other: Tale, *names: str) -> None:
    """Have one tale take over Workloads as another tells them, as of a list."""
    for name in names:
        told.put("Workload", other.trees["Workload", f"ns/{name}"], "LISTED")


def test_what_was_over_when_we_began_may_only_fall() -> None:
    other = tale()
    other.reserve("b", "q", 2)
    told = Tale(lag_seconds=0)
    for kind, name in (("ClusterQueue", "/q"), ("LocalQueue", "ns/q"), ("Workload", "ns/a"), ("Workload", "ns/b")):
        told.put(kind, other.trees[kind, name], "LISTED")
    told.workload("c", "q", 1)
    assert told.found == []
    told.reserve("c", "q", 1)
    assert told.rules() == ["overuse"]


def test_steps_that_were_taken_meanwhile_are_not_judged() -> None:
    told, other = tale(), tale()
    other.reserve("a", "q", 3, *evicted(), status=counted(1))
    other.workload("a", "q", 3, *evicted(), condition("QuotaReserved", False), status=counted(1))
    other.reserve("b", "q", 2)
    # In the order of a list, the one that took the room comes before the one that gave it.
    unseen(told, other, "b", "a")
    told.workload("c", "q", 1)
    assert told.found == []


def test_what_came_to_be_over_meanwhile_is_found() -> None:
    told, other = tale(), tale()
    other.reserve("b", "q", 2)
    unseen(told, other, "b")
    told.workload("c", "q", 1)
    assert told.found == [
        "overuse: ClusterQueue q: holds 5 cpu of flavor default but may hold only 4; while not watching"
    ]


def test_what_a_cut_of_quota_stranded_meanwhile_is_excused() -> None:
    told, other = tale(), tale()
    other.queue("q", 1)
    told.put("ClusterQueue", other.trees["ClusterQueue", "/q"], "LISTED")
    told.workload("c", "q", 1)
    assert told.found == []


def test_what_vanished_meanwhile_holds_nothing() -> None:
    told = tale()
    told.put("Workload", {"metadata": {"namespace": "ns", "name": "a"}}, "VANISHED")
    told.reserve("b", "q", 2)
    assert told.found == []
