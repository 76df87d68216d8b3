"""What time is it? The only module that reads a clock; everyone else is handed an `Instant` or a `Clock`."""

import time
from typing import Protocol

from pykueue.base.units import MICROS, Instant


class Clock(Protocol):
    """A source of time."""

    def now(self) -> Instant:
        """The present instant."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> Instant:
        """The present instant."""
        return Instant(time.time_ns() // 1_000)


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: Instant) -> None:
        self.instant = start

    def now(self) -> Instant:
        """The instant it was last moved to."""
        return self.instant

    def advance(self, seconds: float) -> None:
        """Move on by so many seconds."""
        self.instant = Instant(self.instant + round(seconds * MICROS))
