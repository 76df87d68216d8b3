"""Elapsed time and the date: the only module that uses the machine's clocks.

It imports next to nothing, because every supervisor process loads it.
"""

import time
from _thread import allocate_lock
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that includes time in suspend and that cannot be set. On macOS, CLOCK_MONOTONIC includes it."""
SLEW_PART: Final = 10
"""The date follows the wall clock by at most one part in this many of the elapsed time."""
FRESH_NANOS: Final = 100_000_000
"""How long a reading of the wall clock is reused."""
STEP_NANOS: Final = 100_000_000
"""A jump of the wall clock, or a gap of CLOCK_MONOTONIC, of at least this size is a step or a suspend."""
READ_NANOS: Final = 1_000_000
"""All clocks must be read within this time; otherwise they are read again."""
READ_TRIES: Final = 5

boot_nanos: Final[Callable[[], int]] = partial(time.clock_gettime_ns, BOOT)
"""Nanoseconds since the machine booted, including time in suspend."""

Reading: TypeAlias = tuple[int, int, int]
"""CLOCK_BOOTTIME, CLOCK_MONOTONIC and the wall clock at one moment, in nanoseconds."""


def block(seconds: float) -> None:
    """Block this thread, and with it the event loop that runs in it."""
    time.sleep(seconds)


def reading() -> Reading:
    """Read all clocks at one moment."""
    for _ in range(READ_TRIES):
        boot, monotonic, wall = boot_nanos(), time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns()
        # A suspend or a long preemption between two of them would look like a step.
        if boot_nanos() - boot < READ_NANOS:
            break
    return boot, monotonic, wall


class SteadyWall:
    """A date that never goes back or jumps; safe to call from any thread.

    It starts at the wall clock, advances with CLOCK_BOOTTIME, and follows a wall clock that was set by running at most
    a tenth faster or slower.
    """

    def __init__(self, read: Callable[[], Reading] = reading, boot: Callable[[], int] = boot_nanos) -> None:
        self.read = read
        self.boot = boot
        self.told: Callable[[str, float], None] | None = None
        """Called with `step` or `suspend` and its length in seconds."""
        self.lock = allocate_lock()
        self.seen = read()
        self.anchor = self.seen[0], self.seen[2], 0
        """CLOCK_BOOTTIME at the last reading, the date then, and how far the wall clock was ahead of that date."""
        self.steps = 0
        self.suspends = 0

    @property
    def offset_nanos(self) -> int:
        """How far the wall clock was ahead of this date at the last reading."""
        return self.anchor[2]

    def now(self) -> int:
        """Nanoseconds since the Unix epoch."""
        boot = self.boot()
        return self.date(boot) if boot - self.anchor[0] < FRESH_NANOS else self.look()

    def date(self, boot: int) -> int:
        """The date at a later CLOCK_BOOTTIME: part of the offset of the last reading has been worked off by then."""
        at, nanos, offset = self.anchor
        passed = boot - at
        if passed <= 0:
            return nanos
        most = passed // SLEW_PART
        if -most <= offset <= most:
            return nanos + passed + offset
        return nanos + passed + (most if offset > 0 else -most)

    def look(self) -> int:
        """Read the wall clock and return the date."""
        with self.lock:
            before, self.seen = self.seen, self.read()
            boot, monotonic, wall = self.seen
            nanos = self.date(boot)
            self.anchor = boot, nanos, wall - nanos
            passed = boot - before[0]
            step, suspended = wall - before[2] - passed, passed - (monotonic - before[1])
            is_step, is_suspend = abs(step) >= STEP_NANOS, suspended >= STEP_NANOS
            self.steps += is_step
            self.suspends += is_suspend
        if self.told is not None:
            if is_suspend:
                self.told("suspend", suspended / 1e9)
            if is_step:
                self.told("step", step / 1e9)
        return nanos

    def until(self, nanos: int) -> int:
        """Nanoseconds until this date is reached, assuming that the wall clock is not set meanwhile."""
        left, offset = nanos - self.look(), self.offset_nanos
        if left <= 0:
            return left
        # Working off an offset takes ten times as long; meanwhile the date advances eleven or nine times as far.
        pace = SLEW_PART + 1 if offset > 0 else SLEW_PART - 1
        return left * SLEW_PART // pace if left <= abs(offset) * pace else left - offset
