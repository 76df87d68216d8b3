"""The source of time: code that runs in real time takes a `Clock`, everything else an `Instant`."""

import asyncio
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from pykueue.base.boottime import boot_nanos
from pykueue.base.timers import WALL, doze
from pykueue.base.units import MICROS, Instant, Moment

START: Final = Instant(1_800_000_000 * MICROS)
"""When a manual clock begins: a round number of seconds in January 2027."""
ROUNDS_MAX: Final = 100_000
"""More turns of the loop than this at one instant mean an endless loop."""
SPARE: Final = 256
"""How many cancelled timers may stay in the heap before they are removed."""


class Clock(Protocol):
    """A source of time: dates for the timestamps of objects, moments for durations."""

    def now(self) -> Instant:
        """The date, which never goes back or jumps; for timestamps that objects carry."""

    def moment(self) -> Moment:
        """CLOCK_BOOTTIME; for durations and deadlines that begin in this process."""

    async def sleep(self, micros: int) -> None:
        """Sleep for this many microseconds of CLOCK_BOOTTIME."""

    async def sleep_to(self, due: Moment) -> None:
        """Sleep until this moment."""

    async def sleep_until(self, due: Instant) -> None:
        """Sleep until `now` reaches this instant."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """The date, which never goes back or jumps."""
        return Instant(WALL.now() // 1_000)

    def moment(self) -> Moment:
        """CLOCK_BOOTTIME."""
        return Moment(boot_nanos() // 1_000)

    async def sleep(self, micros: int) -> None:
        """Sleep for this many microseconds of CLOCK_BOOTTIME."""
        await self.sleep_to(Moment(self.moment() + micros))

    async def sleep_to(self, due: Moment) -> None:
        """Sleep until this moment."""
        if due <= self.moment():
            await asyncio.sleep(0)
        while (left := due - self.moment()) > 0:
            await doze(left / MICROS)

    async def sleep_until(self, due: Instant) -> None:
        """Sleep until `now` reaches this instant."""
        if due <= self.now():
            await asyncio.sleep(0)
        while (left := WALL.until(due * 1_000)) > 0:
            await doze(left / 1e9)


def instant_of(clock: Clock, moment: Moment) -> Instant:
    """The date of a past moment, by this clock's present offset."""
    return Instant(clock.now() - (clock.moment() - moment))


class RestlessError(Exception):
    """The loop keeps doing work without time passing."""


class ManualClock:
    """A clock that advances only on request, so that every run of a system is identical and takes no real time.

    It needs an asyncio loop without outside input: no sockets, no threads. Then an empty callback queue means that
    nothing is left to do at this instant, which is what `settle` waits for.
    """

    def __init__(self, start: Instant = START) -> None:
        self.time = start
        self.sleepers: list[tuple[Instant, int, asyncio.Future[None]]] = []
        """A heap; cancelled entries are skipped."""
        self.asleep = 0
        self.serial = 0

    def now(self) -> Instant:
        """The date."""
        return self.time

    def moment(self) -> Moment:
        """The present, the same number as `now`."""
        return Moment(self.time)

    async def sleep(self, micros: int) -> None:
        """Sleep for this many microseconds."""
        await self.sleep_until(Instant(self.time + micros))

    async def sleep_to(self, due: Moment) -> None:
        """Sleep until this moment."""
        await self.sleep_until(Instant(due))

    async def sleep_until(self, due: Instant) -> None:
        """Sleep until this instant."""
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
        """When the next sleeper wakes; None if there is none."""
        while self.sleepers and self.sleepers[0][2].done():
            heappop(self.sleepers)
        return self.sleepers[0][0] if self.sleepers else None

    def turn_to(self, instant: Instant) -> None:
        """Set the time to this instant and wake all sleepers that are due."""
        self.time = max(self.time, instant)
        while (due := self.next_due()) is not None and due <= self.time:
            heappop(self.sleepers)[2].set_result(None)

    async def settle(self) -> None:
        """Return when nothing is left to do at this instant."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:
            raise RestlessError("a manual clock needs asyncio's own event loop; this one hides its ready callbacks")
        for _ in range(ROUNDS_MAX):
            # Everything that became ready in this turn is in the queue when this task runs again.
            await asyncio.sleep(0)
            if not ready:
                return
        raise RestlessError(f"the loop is still busy after {ROUNDS_MAX} turns at one instant; next: {ready[0]}")

    async def advance(self, seconds: float) -> None:
        """Let time pass from timer to timer; at each, run until nothing is left to do."""
        end = Instant(self.time + round(seconds * MICROS))
        await self.settle()
        while (due := self.next_due()) is not None and due <= end:
            self.turn_to(due)
            await self.settle()
        self.turn_to(end)
        await self.settle()
