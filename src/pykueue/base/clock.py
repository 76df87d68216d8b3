"""What time is it? The only module that reads a clock; everyone else is handed an `Instant` or a `Clock`."""

import asyncio
import time
from typing import Protocol

from pykueue.base.units import MICROS, Instant


class Clock(Protocol):
    """A source of time."""

    def now(self) -> Instant:
        """The present instant."""

    async def sleep_until(self, due: Instant) -> None:
        """Return when it is this late."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> Instant:
        """The present instant."""
        return Instant(time.time_ns() // 1_000)

    async def sleep_until(self, due: Instant) -> None:
        """Return when it is this late."""
        await asyncio.sleep(max(0, due - self.now()) / MICROS)
