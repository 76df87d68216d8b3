"""What time is it? Everything that lives in real time is handed a `Clock`; everything else an `Instant`."""

import asyncio
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from pykueue.base.boottime import boot_nanos
from pykueue.base.timers import WALL, doze
from pykueue.base.units import MICROS, Instant, Moment

START: Final = Instant(1_800_000_000 * MICROS)
"""When a manual clock begins: a round number of seconds in January 2027."""
ROUNDS_MAX: Final = 100_000
"""So many turns of the loop at one instant mean that it goes round in circles."""
SPARE: Final = 256
"""So many timers that nobody waits for any more are carried along before they are swept out."""


class Clock(Protocol):
    """A source of time with two faces: dates, for what objects say, and moments, for how long something takes."""

    def now(self) -> Instant:
        """The date, which never goes back or jumps; for instants that are read from and written to objects."""

    def moment(self) -> Moment:
        """The present by CLOCK_BOOTTIME; for durations and deadlines that begin in this process."""

    async def sleep(self, micros: int) -> None:
        """Return after so many microseconds by CLOCK_BOOTTIME."""

    async def sleep_to(self, due: Moment) -> None:
        """Return when this moment has come."""

    async def sleep_until(self, due: Instant) -> None:
        """Return when `now` is this late."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> Instant:
        """The date, which never goes back or jumps."""
        return Instant(WALL.now() // 1_000)

    def moment(self) -> Moment:
        """The present by CLOCK_BOOTTIME."""
        return Moment(boot_nanos() // 1_000)

    async def sleep(self, micros: int) -> None:
        """Return after so many microseconds by CLOCK_BOOTTIME."""
        await self.sleep_to(Moment(self.moment() + micros))

    async def sleep_to(self, due: Moment) -> None:
        """Return when this moment has come."""
        if due <= self.moment():
            await asyncio.sleep(0)
        while (left := due - self.moment()) > 0:
            await doze(left / MICROS)

    async def sleep_until(self, due: Instant) -> None:
        """Return when `now` is this late."""
        if due <= self.now():
            await asyncio.sleep(0)
        while (left := WALL.until(due * 1_000)) > 0:
            await doze(left / 1e9)


def instant_of(clock: Clock, moment: Moment) -> Instant:
    """The date of a moment of the past, as this clock has it now."""
    return Instant(clock.now() - (clock.moment() - moment))


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
        """The date."""
        return self.time

    def moment(self) -> Moment:
        """The present, as the same number."""
        return Moment(self.time)

    async def sleep(self, micros: int) -> None:
        """Return after so many microseconds."""
        await self.sleep_until(Instant(self.time + micros))

    async def sleep_to(self, due: Moment) -> None:
        """Return when this moment has come."""
        await self.sleep_until(Instant(due))

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
