"""A Workload whose write failed is left alone, longer after each failure, until one is stored."""

import pytest

from pykueue.base.clock import START, ManualClock
from pykueue.base.units import MICROS, Instant
from pykueue.controllers.writebackoff import BACKOFF_MAX, DOUBLINGS_MAX, WriteBackoff


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def backoff(clock: ManualClock) -> WriteBackoff:
    return WriteBackoff(clock)


def later(seconds: float) -> Instant:
    return Instant(START + round(seconds * MICROS))


def test_a_workload_without_failures_is_not_left_alone(backoff: WriteBackoff) -> None:
    assert (backoff.reason("a"), backoff.until("a"), backoff.next_end(), backoff.end_due()) == ("", None, None, [])


def test_a_failure_has_its_reason_until_its_time_is_over(clock: ManualClock, backoff: WriteBackoff) -> None:
    backoff.start("a", "too large")
    assert (backoff.reason("a"), backoff.until("a"), backoff.next_end()) == ("too large", later(1), later(1))
    clock.turn_to(later(0.999))
    assert backoff.end_due() == []
    clock.turn_to(later(1))
    assert backoff.until("a") is None
    assert backoff.reason("a") == "too large"  # until the engine is told, by `end_due`
    assert backoff.end_due() == ["a"]
    assert (backoff.reason("a"), backoff.next_end(), backoff.end_due()) == ("", None, [])


def test_each_failure_doubles_the_time_up_to_a_maximum(clock: ManualClock, backoff: WriteBackoff) -> None:
    lasted = []
    for _ in range(DOUBLINGS_MAX + 3):
        backoff.start("a", "refused")
        until = backoff.until("a")
        assert until is not None
        lasted.append((until - clock.now()) // MICROS)
        clock.turn_to(until)
        backoff.end_due()
    assert lasted[:9] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert set(lasted[9:]) == {BACKOFF_MAX // MICROS}


def test_a_stored_write_clears_the_failures(backoff: WriteBackoff) -> None:
    backoff.start("a", "refused")
    backoff.start("a", "refused")
    assert backoff.until("a") == later(2)
    backoff.clear("a")
    backoff.clear("a")
    assert (backoff.reason("a"), backoff.until("a"), backoff.next_end()) == ("", None, None)
    backoff.start("a", "refused")
    assert backoff.until("a") == later(1)


def test_workloads_are_backed_off_independently(clock: ManualClock, backoff: WriteBackoff) -> None:
    backoff.start("a", "one")
    backoff.start("a", "two")
    clock.turn_to(later(0.5))
    backoff.start("b", "three")
    assert backoff.next_end() == later(1.5)
    clock.turn_to(later(1.5))
    assert backoff.end_due() == ["b"]
    assert (backoff.reason("a"), backoff.reason("b"), backoff.next_end()) == ("two", "", later(2))
    clock.turn_to(later(2))
    assert backoff.end_due() == ["a"]
