"""Measure the delay of the event loop by a timer; a thread samples what blocks it.

Everything in this process shares one event loop, so a long step delays every request, decision and deadline. The delay
is a metric. A long one is logged with the stack that caused it and the name of its task, which for a request is its
method, path and user.
"""

import asyncio
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import CLOCK_MONOTONIC, clock_gettime, monotonic, pthread_getcpuclockid
from types import FrameType
from typing import Final, TypeAlias

from pykueue.controllers.metrics.exposition import head
from pykueue.controllers.metrics.families import Family, Kind
from pykueue.controllers.metrics.series import Owner, Starts

LOG: Final = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.05
"""How often the delay is measured; a block that begins just after a tick is measured short by as much."""
IDLE_TICK_SECONDS: Final = 0.2
"""The same while the loop is idle: then only ticks wake the process."""
IDLE_SHARE: Final = 0.02
"""A loop whose thread computes for less than this share of the time is idle."""
FINE_TICK_SECONDS: Final = 0.01
"""How often the delay is measured if every block is logged."""
LATE_SECONDS: Final = 0.04
"""How late a tick must be to be sampled, and how often the thread samples from then on."""
NOTED_SECONDS: Final = 0.025
"""Delays from here on are logged at debug level, each of them."""
HELD_SECONDS: Final = 0.1
"""Delays from here on are logged as warnings, not counting the time that the thread waited for a CPU."""
STARVED_SECONDS: Final = 1.0
"""Delays from here on are logged as warnings even if other processes had the CPU."""
QUIET_SECONDS: Final = 10.0
"""After a warning, others are only counted for this long."""
SCHEDULE: Final = "/proc/self/task/{}/schedstat"
NANOS: Final = 1_000_000_000
FRAMES_MAX: Final = 12
NAME_MAX: Final = 200

Stack: TypeAlias = tuple[str, ...]
"""The stack of the loop's thread, innermost first."""
Sample: TypeAlias = tuple[str, Stack]
"""A task's name, and its stack."""

DELAY: Final = Family(
    "pykueue_event_loop_delay_seconds",
    Kind.HISTOGRAM,
    "Delay of a timer on the event loop, measured twenty times a second, or five times while the loop is idle.",
    (),
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
LONGEST: Final = Family(
    "pykueue_event_loop_delay_max_seconds",
    Kind.GAUGE,
    "The longest delay of the event loop since this process started.",
    (),
)


class Watchdog:
    """Measures the event loop that `run` is called in."""

    def __init__(self, every: float = 0.0) -> None:
        self.every = every
        """Seconds between two ticks; 0 adapts them to the load of the loop."""
        self.delays = Owner()
        self.starts = Starts()
        self.longest = 0.0
        """The longest delay."""
        self.busiest = 0.0
        """The most CPU time of the loop's thread between two ticks: a block that other processes did not cause."""
        self.due = 0.0
        """When the next tick is due."""
        self.began = 0.0
        """When the last tick ran."""
        self.cpu_clock = CLOCK_MONOTONIC
        """The clock of the loop thread's CPU time."""
        self.schedule: int | None = None
        """The file in which the system counts how long that thread waited for a CPU, if it does."""
        self.spent = (0.0, 0.0)
        """Seconds that the thread has computed, and waited for a CPU."""
        self.seen: list[Sample] = []
        """Samples taken while the present tick was late."""
        self.silent_until = 0.0
        self.passed_over = 0
        """Long delays since the last warning."""
        self.timer: asyncio.TimerHandle | None = None
        self.over = threading.Event()

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        ident = threading.get_ident()
        if LOG.isEnabledFor(logging.DEBUG):
            self.every = self.every or FINE_TICK_SECONDS
        self.cpu_clock = pthread_getcpuclockid(ident)
        with suppress(OSError):
            self.schedule = os.open(SCHEDULE.format(threading.get_native_id()), os.O_RDONLY | os.O_CLOEXEC)
        self.spent = self.reading()
        self.began = self.due = monotonic()
        self.tick(loop)
        self.over.clear()
        thread = threading.Thread(target=self.look, args=(loop, ident), name="pykueue-watchdog", daemon=True)
        thread.start()
        try:
            await loop.create_future()
        finally:
            if self.timer is not None:
                self.timer.cancel()
            self.over.set()
            thread.join()
            if self.schedule is not None:
                os.close(self.schedule)
                self.schedule = None

    def tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Measure the delay, and schedule the next tick."""
        now = monotonic()
        computed = self.measured(now - self.due)
        pause = self.every or (IDLE_TICK_SECONDS if computed < IDLE_SHARE * (now - self.began) else TICK_SECONDS)
        # From now, not from when this was due: missed ticks are one delay.
        self.began = monotonic()
        self.due = self.began + pause
        self.timer = loop.call_later(pause, self.tick, loop)

    def reading(self) -> tuple[float, float]:
        """How long the loop's thread has computed, and waited for a CPU."""
        waited = 0.0
        if self.schedule is not None:
            with suppress(OSError, ValueError, IndexError):
                waited = int(os.pread(self.schedule, 100, 0).split()[1]) / NANOS
        return clock_gettime(self.cpu_clock), waited

    def measured(self, delay: float) -> float:
        """Record the delay of a tick; returns how long the loop's thread has computed since the last."""
        self.delays.observe(DELAY, (), delay)
        before, self.spent = self.spent, self.reading()
        computed, starved = (now - then for now, then in zip(self.spent, before, strict=True))
        self.longest = max(self.longest, delay)
        self.busiest = max(self.busiest, computed)
        if delay < NOTED_SECONDS:
            if self.seen:
                self.seen = []
            return computed
        seen, self.seen = self.seen, []
        level = logging.DEBUG
        if delay - starved >= HELD_SECONDS or delay >= STARVED_SECONDS:
            if monotonic() >= self.silent_until:
                level = logging.WARNING
                self.silent_until = monotonic() + QUIET_SECONDS
            else:
                self.passed_over += 1
        if LOG.isEnabledFor(level):
            missed = self.passed_over if level > logging.DEBUG else 0
            LOG.log(level, "%s", report_line(delay, computed, starved, seen, missed))
        if level > logging.DEBUG:
            self.passed_over = 0
        return computed

    def look(self, loop: asyncio.AbstractEventLoop, ident: int) -> None:
        """Sample the loop's thread while a tick is late."""
        while not self.over.wait(max(self.due + LATE_SECONDS - monotonic(), LATE_SECONDS)):
            if monotonic() - self.due < LATE_SECONDS:
                continue
            frame = sys._current_frames().get(ident)
            if frame is not None:
                self.seen.append((task_name(loop), stack_of(frame)))

    def write(self, lines: list[str]) -> Iterator[None]:
        """Add the families with their series, in steps."""
        lines.append(head(DELAY.name, DELAY.kind.value, DELAY.help))
        yield from self.delays.write(DELAY, lines)
        lines.append(head(LONGEST.name, LONGEST.kind.value, LONGEST.help))
        yield from self.starts.write(LONGEST, [((), self.longest)], lines)


def task_name(loop: asyncio.AbstractEventLoop) -> str:
    """The name of the task that a loop is running; empty if unknown."""
    with suppress(RuntimeError):
        task = asyncio.current_task(loop)
        return "" if task is None else task.get_name()
    return ""


def stack_of(frame: FrameType | None) -> Stack:
    """The places of a stack, innermost first, as in `pykueue.apiserver.http.lists.shown:85`."""
    places: list[str] = []
    while frame is not None and len(places) < FRAMES_MAX:
        places.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return tuple(places)


def report_line(delay: float, computed: float, starved: float, seen: Sequence[Sample], passed_over: int) -> str:
    """The log message about a long delay."""
    line = (
        f"event loop: was blocked seconds={delay:.3f} computed={min(computed, delay):.3f} "
        f"waited_for_cpu={min(starved, delay):.3f}"
    )
    if passed_over:
        line += f" unreported={passed_over}"
    if not seen:
        return line
    (name, stack), _ = Counter(seen).most_common(1)[0]
    task = f"task={plain(name)!r} " if name else ""
    return f"{line} {task}stack={' < '.join(stack)}"


def plain(name: str) -> str:
    """A name that clients may have chosen, made safe for a log."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:NAME_MAX])
