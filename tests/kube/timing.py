"""How does a test not wait? A clock that is always as late as anybody waits for."""

import asyncio

from pykueue.base.units import MICROS, Instant
from tests.clocks import OneFace

START = Instant(1_700_000_000 * MICROS)


class SkippingClock(OneFace):
    """Whoever sleeps is woken at once, at the time that they wanted; `slept` has the seconds of each wait."""

    def __init__(self) -> None:
        self.time = START
        self.slept: list[float] = []

    def now(self) -> Instant:
        return self.time

    async def sleep_until(self, due: Instant) -> None:
        self.slept.append((due - self.time) / MICROS)
        self.time = max(self.time, due)
        await asyncio.sleep(0)


class ManualClock(OneFace):
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.time = START
        self.sleepers: list[tuple[Instant, asyncio.Future[None]]] = []

    def now(self) -> Instant:
        return self.time

    async def sleep_until(self, due: Instant) -> None:
        if due > self.time:
            woken = asyncio.get_running_loop().create_future()
            self.sleepers.append((due, woken))
            await woken

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everybody who waited for it go on."""
        self.time = Instant(self.time + int(seconds * MICROS))
        for due, woken in self.sleepers:
            if due <= self.time and not woken.done():
                woken.set_result(None)
        self.sleepers = [(due, woken) for due, woken in self.sleepers if not woken.done()]
        await settle()


async def settle() -> None:
    """Let everything that can go on without time passing go on."""
    for _ in range(20):
        await asyncio.sleep(0)
