"""How much time has passed, and what is the date? The only module that reads the machine's clocks.

It imports nothing but `time`, because every supervisor process loads it.
"""

import time
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeAlias

BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that counts a suspend and that nobody can set; macOS counts a suspend in CLOCK_MONOTONIC."""
SLEW_PART: Final = 10
"""One part in so many of the time that passes goes into following the wall clock."""
FRESH_NANOS: Final = 100_000_000
"""How long the wall clock need not be looked at again."""
STEP_NANOS: Final = 100_000_000
"""A change of the wall clock, or a gap of CLOCK_MONOTONIC, from which on it is a step or a suspend."""
READ_NANOS: Final = 1_000_000
"""All clocks are read within this time, or once more."""
READ_TRIES: Final = 5

Reading: TypeAlias = tuple[int, int, int]
"""CLOCK_BOOTTIME, CLOCK_MONOTONIC and the wall clock at one moment, in nanoseconds."""


def boot_nanos() -> int:
    """Nanoseconds since the machine started, including those in suspend."""
    return time.clock_gettime_ns(BOOT)


def reading() -> Reading:
    """All clocks at one moment."""
    for _ in range(READ_TRIES):
        boot, monotonic, wall = boot_nanos(), time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns()
        # A suspend or a long preemption between two of them would look like a step.
        if boot_nanos() - boot < READ_NANOS:
            break
    return boot, monotonic, wall


class SteadyWall:
    """The date as a clock that never goes back or jumps; any thread may ask.

    It starts at the wall clock, advances with CLOCK_BOOTTIME, and follows a wall clock that was set by running at most
    a tenth faster or slower.
    """

    def __init__(self, read: Callable[[], Reading] = reading, boot: Callable[[], int] = boot_nanos) -> None:
        self.read = read
        self.boot = boot
        self.told: Callable[[str, float], None] | None = None
        """Told of each `step` and `suspend`, and of how many seconds it was."""
        self.lock = Lock()
        self.seen = read()
        self.anchor = self.seen[0], self.seen[2], 0
        """CLOCK_BOOTTIME at the last look, the date, and how far the wall clock was ahead of that."""
        self.steps = 0
        self.suspends = 0

    @property
    def offset_nanos(self) -> int:
        """How far the wall clock was ahead of us at the last look."""
        return self.anchor[2]

    def now(self) -> int:
        """The present, in nanoseconds since the Unix epoch."""
        boot = self.boot()
        return self.date(boot) if boot - self.anchor[0] < FRESH_NANOS else self.look()

    def date(self, boot: int) -> int:
        """The date at a time of CLOCK_BOOTTIME since the last look: what was ahead then is followed since then."""
        at, nanos, offset = self.anchor
        passed = max(0, boot - at)
        most = passed // SLEW_PART
        return nanos + passed + max(-most, min(most, offset))

    def look(self) -> int:
        """The present, after a look at the wall clock."""
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
        """How much time passes until it is this late, in nanoseconds, if nobody sets the wall clock meanwhile."""
        left, offset = nanos - self.look(), self.offset_nanos
        if left <= 0:
            return left
        # An offset is gone after ten times as long, in which we advance eleven or nine times as far.
        pace = SLEW_PART + 1 if offset > 0 else SLEW_PART - 1
        return left * SLEW_PART // pace if left <= abs(offset) * pace else left - offset
