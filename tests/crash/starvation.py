"""Does the machine itself have the processor? Time that its hypervisor gives to others is not counted as lateness."""

import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

STAT = Path("/proc/stat")
EVERY_SECONDS = 2.0
STOLEN_MOST = 0.4
"""The part of the machine's time beyond which it counts as starved."""
STEAL = 7
"""Where the time given to others is in the first line of /proc/stat, counted after its name."""
TIMES = 8
"""The times of guests, which follow, are counted before."""


class Ticks(NamedTuple):
    """The time of all processors since the start of the machine."""

    stolen: int
    total: int


def ticks(file: Path) -> Ticks:
    """The times in a file such as /proc/stat; none on a system without it."""
    if not file.exists():
        return Ticks(0, 0)
    times = [int(word) for word in file.read_text().splitlines()[0].split()[1 : TIMES + 1]]
    return Ticks(times[STEAL] if len(times) > STEAL else 0, sum(times))


def stolen(before: Ticks, after: Ticks) -> float:
    """The part of the time between two looks that was given to others."""
    return (after.stolen - before.stolen) / max(1, after.total - before.total)


class Starvation:
    """Enters an excuse whenever the machine is starved, and leaves it when it no longer is."""

    def __init__(
        self, excused: Callable[[], AbstractContextManager[None]], look: Callable[[], Ticks] = lambda: ticks(STAT)
    ) -> None:
        self.excused, self.look = excused, look
        self.seconds = 0.0
        """For how long it was starved."""
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, name="starvation", daemon=True)

    def __enter__(self) -> "Starvation":
        self.thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.over.set()
        self.thread.join()

    def run(self) -> None:
        before = self.look()
        with contextlib.ExitStack() as excuse:
            starved = False
            while not self.over.wait(EVERY_SECONDS):
                after = self.look()
                was, starved = starved, stolen(before, after) > STOLEN_MOST
                before = after
                self.seconds += EVERY_SECONDS * starved
                if starved and not was:
                    excuse.enter_context(self.excused())
                elif was and not starved:
                    excuse.close()
