"""Is the time that workloads wait summed up while this replica leads, and only then?"""

from pykueue.base.units import MICROS, Moment
from pykueue.controllers.metrics.waittimes import WaitTimes

QUOTA = ("team/main", "NoReservation", "WaitingForQuota")
CHECKS = ("team/main", "UnsatisfiedAdmissionChecks", "")


def at(seconds: float) -> Moment:
    return Moment(int(seconds * MICROS))


def read(waits: WaitTimes, workloads: dict[tuple[str, str, str], int], now: float) -> dict[tuple[str, str, str], float]:
    return dict(waits.read(workloads, at(now)))


def test_workloads_wait_at_the_same_time() -> None:
    waits = WaitTimes()
    waits.lead(True, at(0))
    waits.add(QUOTA, 0, at(1))
    waits.add(QUOTA, 1, at(3))
    assert read(waits, {QUOTA: 2}, 4) == {QUOTA: 2 + 2}
    assert read(waits, {QUOTA: 2}, 4) == {QUOTA: 0}
    assert read(waits, {QUOTA: 2}, 9) == {QUOTA: 10}


def test_a_wait_that_ended_before_the_reading_counts() -> None:
    waits = WaitTimes()
    waits.lead(True, at(0))
    waits.add(CHECKS, 0, at(1))
    waits.add(CHECKS, 1, at(6))
    assert read(waits, {}, 60) == {CHECKS: 5}
    assert waits.since == {}
    assert read(waits, {}, 70) == {}


def test_time_without_the_lead_does_not_count() -> None:
    waits = WaitTimes()
    waits.lead(False, at(0))
    waits.add(QUOTA, 0, at(1))
    waits.add(QUOTA, 1, at(100))
    waits.lead(True, at(200))
    waits.lead(True, at(201))
    assert read(waits, {QUOTA: 2}, 205) == {QUOTA: 10}
    waits.lead(False, at(206))
    assert read(waits, {QUOTA: 2}, 300) == {}
