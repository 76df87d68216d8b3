"""Which object is looked at next? A queue of keys: none in it twice, none worked on twice at once, some of them later.

Nothing here waits or reads a clock; `controller` does both.
"""

from collections import deque
from heapq import heappop, heappush
from typing import Final

from pykueue.base.units import MICROS, Moment

FIRST_MICROS: Final = 5_000
LAST_MICROS: Final = 60 * MICROS
DOUBLINGS_MAX: Final = 14
"""Doublings of the first delay that pass the last one; more would only make large numbers."""


def backoff(failures: int, jitter: float) -> int:
    """Microseconds to wait after so many failures in a row: doubled each time, less a random part of up to half."""
    whole = min(LAST_MICROS, FIRST_MICROS << min(failures - 1, DOUBLINGS_MAX))
    return int(whole * (0.5 + jitter / 2))


class WorkQueue:
    """Keys that wait to be worked on, in the order in which they came."""

    def __init__(self) -> None:
        self.ready: deque[str] = deque()
        self.waiting: set[str] = set()
        """The keys in `ready`."""
        self.working: set[str] = set()
        self.again: set[str] = set()
        """Keys that were added while they were worked on."""
        self.later: dict[str, Moment] = {}
        """Keys to be added by themselves at a moment; of several, the earliest."""
        self.timers: list[tuple[Moment, str]] = []
        """A heap over `later`; what `later` no longer says is passed over."""
        self.failures: dict[str, int] = {}

    def add(self, key: str) -> None:
        """Have a key worked on; one that is being worked on comes again afterwards."""
        if key in self.working:
            self.again.add(key)
        elif key not in self.waiting:
            self.waiting.add(key)
            self.ready.append(key)

    def add_at(self, key: str, due: Moment) -> None:
        """Have a key added at a moment, unless it is to be added earlier anyway."""
        known = self.later.get(key)
        if known is None or due < known:
            self.later[key] = due
            heappush(self.timers, (due, key))

    def due(self) -> Moment | None:
        """When the next late key is to be added; None if there is none."""
        while self.timers and self.later.get(self.timers[0][1]) != self.timers[0][0]:
            heappop(self.timers)
        return self.timers[0][0] if self.timers else None

    def wake(self, now: Moment) -> None:
        """Add every late key whose time has come."""
        while (due := self.due()) is not None and due <= now:
            key = heappop(self.timers)[1]
            del self.later[key]
            self.add(key)

    def take(self) -> str | None:
        """The next key, which is then being worked on until `done` or `failed`; None if none is ready."""
        if not self.ready:
            return None
        key = self.ready.popleft()
        self.waiting.remove(key)
        self.working.add(key)
        return key

    def done(self, key: str) -> None:
        """The work on a key is over, and well."""
        self.failures.pop(key, None)
        self.over(key)

    def failed(self, key: str, now: Moment, jitter: float) -> Moment:
        """The work on a key is over, and must be done again: the moment at which that will be."""
        count = self.failures.get(key, 0) + 1
        self.failures[key] = count
        due = Moment(now + backoff(count, jitter))
        self.add_at(key, due)
        self.over(key)
        return due

    def over(self, key: str) -> None:
        """A key is no longer worked on; if it was added meanwhile, it is ready now."""
        self.working.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.add(key)
