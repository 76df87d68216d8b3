"""What time is it? The only module that reads a clock; everyone else is handed an `Instant` or a `Clock`."""

import time
from typing import Protocol

from pykueue.base.units import Instant


class Clock(Protocol):
    """A source of time."""

    def now(self) -> Instant:
        """The present instant."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> Instant:
        """The present instant."""
        return Instant(time.time_ns() // 1_000)
