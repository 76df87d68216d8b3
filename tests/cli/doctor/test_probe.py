"""Does the engine tell how much a queue can ever have?"""

from pykueue.base.units import UNLIMITED
from pykueue.cli.doctor.probe import capacities
from pykueue.engine.model import ClusterQueue, Cohort, Quota, ResourceGroup, StopPolicy, Thing

GROUPS = (ResourceGroup(("cpu",), ("slow", "fast")), ResourceGroup(("gpu",), ("cards",)))


def queue(name: str, cohort: str = "", *quotas: Quota) -> ClusterQueue:
    return ClusterQueue(name, cohort, GROUPS, quotas, stop=StopPolicy.HOLD)


def test_own_quota_and_what_the_cohort_lends() -> None:
    found = capacities(
        [
            queue("a", "all", Quota("slow", "cpu", 3), Quota("fast", "cpu", 1, borrowing_limit=2)),
            queue(
                "b", "all", Quota("slow", "cpu", 5, lending_limit=4), Quota("fast", "cpu", 7), Quota("cards", "gpu", 2)
            ),
            queue("c", "", Quota("slow", "cpu", 1)),
        ]
    )
    assert found == {
        ("a", "slow", "cpu"): 7,
        ("a", "fast", "cpu"): 3,
        ("a", "cards", "gpu"): 2,
        ("b", "slow", "cpu"): 8,
        ("b", "fast", "cpu"): 8,
        ("b", "cards", "gpu"): 2,
        ("c", "slow", "cpu"): 1,
        ("c", "fast", "cpu"): 0,
        ("c", "cards", "gpu"): 0,
    }


def test_of_a_queue_below_a_cycle_nothing_is_known() -> None:
    things: list[Thing] = [queue("a", "x", Quota("slow", "cpu", 3)), Cohort("x", "y"), Cohort("y", "x")]
    assert set(capacities(things).values()) == {UNLIMITED}
