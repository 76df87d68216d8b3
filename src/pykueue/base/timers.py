"""Timers and timeouts that include time in suspend.

The timers of an event loop run on CLOCK_MONOTONIC, which stops in a suspend. So each loop reads the clocks once a
second, and sets every timer of this module again, for the time that is left, after a suspend or a step of the wall
clock.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from pykueue.base.boottime import SteadyWall, boot_nanos

LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_SECONDS: Final = 1.0
FINEST_SECONDS: Final = 0.1
LEAST_SECONDS: Final = 0.001
"""Some loops have no finer timers, and fire at once for less."""


def log(kind: str, seconds: float) -> None:
    """Log that the machine was suspended or that its wall clock was set."""
    if kind == "suspend":
        LOG.warning("clock: machine was suspended, timers are set again seconds=%.1f", seconds)
    else:
        LOG.warning(
            "clock: wall clock was set, dates follow it gradually direction=%s seconds=%.1f",
            "forward" if seconds > 0 else "back",
            abs(seconds),
        )


WALL: Final = SteadyWall()
"""The date of this process; one object, so that all parts agree."""
WALL.told = log


def uptime() -> float:
    """Seconds of CLOCK_BOOTTIME: `loop.time()` with time in suspend included."""
    return boot_nanos() / 1e9


class Watch:
    """Reads the clocks for one loop, as long as there are timers to set again."""

    def __init__(self) -> None:
        self.timers: set[Callable[[], None]] = set()
        """Callbacks that each set one timer again."""
        self.looks = False
        self.seen = (0, 0)

    def add(self, again: Callable[[], None]) -> None:
        """Register a callback that sets a timer again after a suspend or a step."""
        self.timers.add(again)
        if not self.looks:
            self.seen = WALL.suspends, WALL.steps
            self.looks = True
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self.look)

    def look(self) -> None:
        """Read the clocks, and set all timers again after a suspend or a step."""
        WALL.look()
        found = WALL.suspends, WALL.steps
        if found != self.seen:
            self.seen = found
            for again in tuple(self.timers):
                again()
        self.looks = bool(self.timers)
        if self.looks:
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self.look)


WATCHES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Watch]] = WeakKeyDictionary()
"""The watch of each loop. A watch does not refer to its loop, so both are freed together."""


def watch_of(loop: asyncio.AbstractEventLoop) -> Watch:
    """The watch of a loop, created on first use."""
    found = WATCHES.get(loop)
    if found is None:
        found = WATCHES[loop] = Watch()
    return found


class Timer:
    """Calls a function after this many seconds of CLOCK_BOOTTIME, on the running loop."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.call = call
        self.due = uptime() + seconds
        self.handle = self.loop.call_later(max(seconds, LEAST_SECONDS), self.fire)
        self.watch = watch_of(self.loop)
        self.watch.add(self.again)

    def fire(self) -> None:
        """Call the function."""
        self.watch.timers.discard(self.again)
        self.call()

    def again(self) -> None:
        """Set the loop's timer again for the time that is left."""
        self.handle.cancel()
        self.handle = self.loop.call_later(max(self.due - uptime(), LEAST_SECONDS), self.fire)

    def cancel(self) -> None:
        """Cancel the call."""
        self.handle.cancel()
        self.watch.timers.discard(self.again)


class Timeout:
    """`asyncio.timeout` by CLOCK_BOOTTIME."""

    def __init__(self, seconds: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.due = uptime() + seconds
        self.guard = asyncio.timeout(seconds)

    async def __aenter__(self) -> "Timeout":
        await self.guard.__aenter__()
        watch_of(self.loop).add(self.again)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        watch_of(self.loop).timers.discard(self.again)
        await self.guard.__aexit__(kind, error, trace)

    def restart(self, seconds: float) -> None:
        """Start over with this many seconds from now, or up to a tenth of a second less: it may be called often."""
        due = uptime() + seconds
        if not 0 <= due - self.due < FINEST_SECONDS:
            self.due = due
            self.again()

    def again(self) -> None:
        """Set the loop's timer again for the time that is left."""
        if not self.guard.expired():
            self.guard.reschedule(self.loop.time() + max(0.0, self.due - uptime()))


def timeout(seconds: float) -> Timeout:
    """A context that raises TimeoutError after this many seconds, including time in suspend."""
    return Timeout(seconds)


async def doze(seconds: float) -> None:
    """Sleep for this many seconds, or until the machine resumes or its wall clock is set."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    timers = watch_of(loop)
    handle = loop.call_later(max(seconds, LEAST_SECONDS), wake)
    timers.add(wake)
    try:
        await woken
    finally:
        handle.cancel()
        timers.timers.discard(wake)


async def waited(
    futures: Collection[asyncio.Future[T]], seconds: float, *, first: bool = False
) -> tuple[set[asyncio.Future[T]], set[asyncio.Future[T]]]:
    """`asyncio.wait` with a timeout by CLOCK_BOOTTIME, for all or the first: the done and the pending futures.

    Without any futures, it returns at once.
    """
    if not futures:
        return set(), set()
    try:
        async with timeout(seconds):
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED if first else asyncio.ALL_COMPLETED)
    except TimeoutError:
        pass
    done = {one for one in futures if one.done()}
    return done, set(futures) - done
