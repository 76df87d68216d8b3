"""Does the auditor judge by when things happen, whatever the clock of the manager says?"""

from pykueue.base.units import MICROS, Instant, format_instant, micro_time
from tests.audit.told import Tale, condition, counted, evicted

LEASE = "kueue-system/lease"


class Skewed(Tale):
    """A history whose manager has a clock that is so many seconds ahead of ours."""

    def __init__(self, ahead: int) -> None:
        super().__init__(lease=LEASE, lag_seconds=5)
        self.ahead = ahead
        self.queue("q", 4, preemption={"withinClusterQueue": "LowerPriority"})

    def pass_time(self, seconds: int) -> None:
        """Let time pass, with a renewal of the lease each second."""
        for _ in range(seconds):
            self.later(1)
            now = Instant((self.seconds + self.ahead) * MICROS)
            spec = {"holderIdentity": "one", "leaseDurationSeconds": 3, "renewTime": micro_time(now)}
            self.tell("Lease", "kueue-system", "lease", spec=spec)

    def stamp(self, later: int = 0) -> str:
        """The time by the manager's clock."""
        return format_instant(Instant((self.seconds + self.ahead + later) * MICROS))

    def back_off(self, seconds: int) -> None:
        """Have a workload wait for so long after its eviction."""
        self.workload(
            "a",
            "q",
            1,
            condition("QuotaReserved", False),
            *evicted("PodsReadyTimeout"),
            status={**counted(1, "PodsReadyTimeout"), "requeueState": {"count": 1, "requeueAt": self.stamp(seconds)}},
        )


def test_a_backoff_ends_by_the_clock_of_a_manager_that_is_ahead() -> None:
    told = Skewed(600)
    told.pass_time(30)
    told.back_off(5)
    state = told.trees["Workload", "ns/a"]["status"]["requeueState"]
    told.pass_time(6)
    told.reserve("a", "q", 1, condition("Evicted", False), status={**counted(1), "requeueState": state})
    assert told.found == []


def test_a_backoff_that_has_not_ended_by_the_managers_clock_either_is_found() -> None:
    told = Skewed(600)
    told.pass_time(30)
    told.back_off(60)
    state = told.trees["Workload", "ns/a"]["status"]["requeueState"]
    told.pass_time(6)
    told.reserve("a", "q", 1, condition("Evicted", False), status={**counted(1), "requeueState": state})
    (found,) = told.found
    assert found.startswith("reservation: Workload ns/a: got quota although it had to wait until ")


def test_a_backoff_of_another_manager_lasts_longer_for_one_that_is_behind() -> None:
    told = Skewed(0)
    told.pass_time(30)
    told.back_off(5)
    told.ahead = -600
    told.pass_time(60)
    assert told.found == []
    told.ahead = 0
    told.pass_time(20)
    assert told.rules() == ["stuck"]


def test_what_just_got_quota_did_not_hold_it_for_long_although_a_clock_is_behind() -> None:
    told = Skewed(-600)
    told.pass_time(700)
    told.reserve("a", "q", 3)
    told.workload("b", "q", 3, priority=1)
    told.pass_time(1)
    stamped = {**condition("QuotaReserved", True), "lastTransitionTime": told.stamp()}
    told.reserve("b", "q", 3, stamped, priority=1)
    told.reserve("a", "q", 3, *evicted(), status=counted(1))
    assert "preemption" not in told.rules()
