"""A manual clock that moves by itself."""

import asyncio

from pykueue.base.clock import ManualClock
from pykueue.base.units import MICROS, Instant


class SkippingClock(ManualClock):
    """Ends each sleep at once, at the time at which it was to end; `slept` has the seconds of each."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep_until(self, due: Instant) -> None:
        self.slept.append((due - self.time) / MICROS)
        self.turn_to(due)
        await asyncio.sleep(0)
