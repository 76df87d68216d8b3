"""What time is it? The only module that reads a clock; everyone else is handed an `Instant` or a `Clock`."""

import asyncio
import time
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from pykueue.base.units import MICROS, Instant

START: Final = Instant(1_800_000_000 * MICROS)
"""When a manual clock begins: a round number of seconds in January 2027."""
ROUNDS_MAX: Final = 100_000
"""So many turns of the loop at one instant mean that it goes round in circles."""
SPARE: Final = 256
"""So many timers that nobody waits for any more are carried along before they are swept out."""


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


class RestlessError(Exception):
    """Something goes on for ever without time passing."""


class ManualClock:
    """Time that passes only when it is told to: a whole system under it does the same in every run, at once.

    It is for a loop of asyncio's own kind in which nobody reads from outside: no sockets, no threads. Then a loop
    whose queue of callbacks is empty has nothing left to do at this instant, and that is what `settle` waits for.
    """

    def __init__(self, start: Instant = START) -> None:
        self.time = start
        self.sleepers: list[tuple[Instant, int, asyncio.Future[None]]] = []
        """A heap; those who were cancelled are passed over."""
        self.asleep = 0
        self.serial = 0

    def now(self) -> Instant:
        """The present instant."""
        return self.time

    async def sleep_until(self, due: Instant) -> None:
        """Return when it is this late."""
        if due <= self.time:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.serial += 1
        if len(self.sleepers) > 2 * self.asleep + SPARE:
            self.sleepers = [one for one in self.sleepers if not one[2].done()]
            heapify(self.sleepers)
        heappush(self.sleepers, (due, self.serial, woken))
        self.asleep += 1
        try:
            await woken
        finally:
            self.asleep -= 1

    def next_due(self) -> Instant | None:
        """When the next sleeper is to be woken; None where nobody sleeps."""
        while self.sleepers and self.sleepers[0][2].done():
            heappop(self.sleepers)
        return self.sleepers[0][0] if self.sleepers else None

    def turn_to(self, instant: Instant) -> None:
        """Make it this late, and wake whoever slept until then."""
        self.time = max(self.time, instant)
        while (due := self.next_due()) is not None and due <= self.time:
            heappop(self.sleepers)[2].set_result(None)

    async def settle(self) -> None:
        """Return when nothing is left to do at this instant."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:
            raise RestlessError("a manual clock needs asyncio's own event loop; this one does not show what is ready")
        for _ in range(ROUNDS_MAX):
            # Whatever became ready in this turn stands in the queue by the time that we are back.
            await asyncio.sleep(0)
            if not ready:
                return
        raise RestlessError(f"after {ROUNDS_MAX} turns there is still something to do at one instant; {ready[0]}")

    async def advance(self, seconds: float) -> None:
        """Let time pass from timer to timer; at each of them everyone does all there is to do."""
        end = Instant(self.time + round(seconds * MICROS))
        await self.settle()
        while (due := self.next_due()) is not None and due <= end:
            self.turn_to(due)
            await self.settle()
        self.turn_to(end)
        await self.settle()
