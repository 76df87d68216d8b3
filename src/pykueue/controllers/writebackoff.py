"""Backoff for Workloads whose writes fail, and delays of less urgent writes while the server is slow."""

from typing import Final

from pykueue.base.clock import Clock, instant_of
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, Moment

BACKOFF_BASE: Final = MICROS
BACKOFF_MAX: Final = 300 * MICROS
DOUBLINGS_MAX: Final = 20
"""A backoff lasts twice as long after each failure, within these bounds."""
DELAY_MICROS_MAX: Final = 60 * MICROS


def delay_after(took: int, one_part_in: int) -> int:
    """The delay of less urgent writes after writes that took this long.

    Less urgent writes that take as long then take one part in `one_part_in` of the time, as long as the limit allows.
    Admissions come first: the slower the server is, the fewer other writes it gets.
    """
    return min(DELAY_MICROS_MAX, (one_part_in - 1) * took)


class BackedOff(Frozen):
    """A Workload that is left alone for a while, and why; the reason is empty once the backoff is over."""

    why: str
    until: Moment
    failures: int
    """How many writes in a row had failed before the last one."""


class WriteBackoff:
    """The Workloads whose last write failed."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.workloads: dict[str, BackedOff] = {}

    def start(self, key: str, why: str) -> None:
        """Leave a Workload alone because a write on it failed for good; longer each time."""
        known = self.workloads.get(key)
        failures = 0 if known is None else known.failures + 1
        delay = min(BACKOFF_BASE << min(failures, DOUBLINGS_MAX), BACKOFF_MAX)
        self.workloads[key] = BackedOff(why, Moment(self.clock.moment() + delay), failures)

    def clear(self, key: str) -> None:
        """Forget the failures of a Workload: a write was stored, or it is gone."""
        self.workloads.pop(key, None)

    def reason(self, key: str) -> str:
        """Why a Workload is left alone; empty if it is not."""
        found = self.workloads.get(key)
        return "" if found is None else found.why

    def until(self, key: str) -> Instant | None:
        """Until when a Workload is left alone; None if it is not."""
        found = self.workloads.get(key)
        return None if found is None or found.until <= self.clock.moment() else instant_of(self.clock, found.until)

    def end_due(self) -> list[str]:
        """End the backoffs whose time is over; the Workloads that may be written again."""
        now = self.clock.moment()
        due = [key for key, found in self.workloads.items() if found.why and found.until <= now]
        for key in due:
            found = self.workloads[key]
            self.workloads[key] = BackedOff("", found.until, found.failures)
        return due

    def next_end(self) -> Instant | None:
        """When the next backoff ends; None if there is none."""
        soonest = min((found.until for found in self.workloads.values() if found.why), default=None)
        return None if soonest is None else instant_of(self.clock, soonest)
