"""A work queue of keys: without duplicates, one worker per key, with delays and backoff.

Nothing here waits or reads a clock; `controller` does both.
"""

from collections import deque
from heapq import heappop, heappush
from typing import Final

from pykueue.base.units import MICROS, Moment

FIRST_MICROS: Final = 5_000
LAST_MICROS: Final = 60 * MICROS
DOUBLINGS_MAX: Final = 14
"""After this many doublings the delay exceeds the maximum anyway."""


def backoff(failures: int, jitter: float) -> int:
    """The delay in microseconds after this many consecutive failures: doubled each time, minus up to half at random."""
    whole = min(LAST_MICROS, FIRST_MICROS << min(failures - 1, DOUBLINGS_MAX))
    return int(whole * (0.5 + jitter / 2))


class WorkQueue:
    """Keys that wait to be processed, in FIFO order."""

    def __init__(self) -> None:
        self.ready: deque[str] = deque()
        self.waiting: set[str] = set()
        """The keys in `ready`."""
        self.working: set[str] = set()
        self.again: set[str] = set()
        """Keys that were added while they were processed."""
        self.later: dict[str, Moment] = {}
        """Keys to add at a moment; the earliest if there are several."""
        self.timers: list[tuple[Moment, str]] = []
        """A heap over `later`; outdated entries are skipped."""
        self.failures: dict[str, int] = {}

    def add(self, key: str) -> None:
        """Add a key; one that is being processed is added again afterwards."""
        if key in self.working:
            self.again.add(key)
        elif key not in self.waiting:
            self.waiting.add(key)
            self.ready.append(key)

    def add_at(self, key: str, due: Moment) -> None:
        """Add a key at a moment, unless it is due earlier anyway."""
        known = self.later.get(key)
        if known is None or due < known:
            self.later[key] = due
            heappush(self.timers, (due, key))

    def due(self) -> Moment | None:
        """When the next delayed key is due; None if there is none."""
        while self.timers and self.later.get(self.timers[0][1]) != self.timers[0][0]:
            heappop(self.timers)
        return self.timers[0][0] if self.timers else None

    def wake(self, now: Moment) -> None:
        """Add every delayed key that is due."""
        while (due := self.due()) is not None and due <= now:
            key = heappop(self.timers)[1]
            del self.later[key]
            self.add(key)

    def take(self) -> str | None:
        """The next key, which counts as processing until `done` or `failed`; None if none is ready."""
        if not self.ready:
            return None
        key = self.ready.popleft()
        self.waiting.remove(key)
        self.working.add(key)
        return key

    def done(self, key: str) -> None:
        """End the processing of a key successfully."""
        self.failures.pop(key, None)
        self.over(key)

    def failed(self, key: str, now: Moment, jitter: float) -> Moment:
        """End the processing of a key with a failure; returns when it is due again."""
        count = self.failures.get(key, 0) + 1
        self.failures[key] = count
        due = Moment(now + backoff(count, jitter))
        self.add_at(key, due)
        self.over(key)
        return due

    def over(self, key: str) -> None:
        """End the processing of a key; add it if it was added meanwhile."""
        self.working.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.add(key)
