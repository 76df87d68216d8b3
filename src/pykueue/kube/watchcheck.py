"""Detects that a watch skips changes, or is silent although there is something to show.

A watch shows every change of a kind, in the order of versions. So each version that the server returned as the response
to a write must come by the watch too. If a higher one comes first, the change was skipped. If nothing comes at all for
some seconds, the watch has stalled.

After a skipped change the kind is listed by pages, and again until the watch has missed nothing between two lists.
"""

import logging
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from pykueue.base.timers import Timer, uptime

LOG: Final = logging.getLogger(__name__)

ECHO_SECONDS: Final = 10.0
"""How long a watch may be silent while a change of ours has not come."""
RECHECK_SECONDS: Final = 10.0
"""How long after a list the next one follows, while the watch is not trusted."""
DELETIONS_MAX: Final = 1000
"""How many deletions are remembered: a response to a write may arrive after the deletion that followed it."""


class WatchCheck:
    """What a watch still has to show, and whether it is trusted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.awaited: list[int] = []
        """A heap of the versions that the server returned and the watch has not shown."""
        self.deletions: dict[str, int] = {}
        """The versions of the latest deletions, by key."""
        self.floor = 0
        """The highest version of the last list and its objects; the watch need not show what is older."""
        self.trusted = True
        self.missed = False
        """Whether the watch skipped something since the last list."""
        self.end: Callable[[], None] | None = None
        """Ends the watch; None while there is none."""
        self.heard = 0.0
        """When the watch last showed something while something was awaited."""
        self.timer: Timer | None = None

    def begin(self, end: Callable[[], None]) -> None:
        """Check a watch that has just begun, and that `end` ends."""
        self.end = end
        if self.awaited:
            self.wait()

    def stop(self) -> None:
        """Check nothing until the next watch begins."""
        self.end = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def returned(self, version: int) -> None:
        """Expect the watch to show a version that the server returned."""
        if self.end is None or version <= self.floor:
            return
        if not self.awaited:
            self.wait()
        heappush(self.awaited, version)

    def wait(self) -> None:
        """Give the watch some time from now."""
        self.heard = uptime()
        if self.timer is None:
            self.timer = Timer(ECHO_SECONDS, self.look)

    def look(self) -> None:
        """End the watch if it has been silent for too long."""
        self.timer = None
        if not self.awaited or self.end is None:
            return
        silent = uptime() - self.heard
        if silent < ECHO_SECONDS:
            self.timer = Timer(ECHO_SECONDS - silent, self.look)
        else:
            LOG.warning("%s: watch shows no changes, opening it again silent_seconds=%.0f", self.name, silent)
            self.end()

    def shown(self, version: int) -> None:
        """Handle that the watch has come to a version."""
        if not self.awaited:
            return
        self.heard = uptime()
        while self.awaited and self.awaited[0] <= version:
            first = heappop(self.awaited)
            if first < version:
                self.skipped(first)

    def deleted(self, key: str, version: int) -> None:
        """Remember a deletion that the watch has shown."""
        self.deletions.pop(key, None)
        self.deletions[key] = version
        if len(self.deletions) > DELETIONS_MAX:
            del self.deletions[next(iter(self.deletions))]

    def listed(self, version: int) -> None:
        """Handle a list of this version: it shows everything up to there."""
        self.floor = max(self.floor, version)
        while self.awaited and self.awaited[0] <= self.floor:
            heappop(self.awaited)

    def is_missing(self, key: str, version: int, *, told: int) -> bool:
        """Whether a version that the cache lacks should have come by the watch, which is at version `told`."""
        return self.floor < version <= told and self.deletions.get(key, 0) < version

    def skipped(self, version: int) -> None:
        """Handle that the watch has skipped a change: stop trusting it."""
        self.missed = True
        if self.trusted:
            LOG.warning("%s: watch skipped a change, listing again version=%d", self.name, version)
            self.trusted = False
            if self.end is not None:
                self.end()

    def settle(self) -> None:
        """Trust the watch if it has missed nothing since the list before the last one."""
        self.trusted, self.missed = not self.missed, False
