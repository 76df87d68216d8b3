"""For how long workloads have waited, summed over workloads, by LocalQueue and reason.

The sum grows while they wait, so that a long wait shows before it ends. Nothing is kept per workload.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from pykueue.base.units import MICROS, Moment

Slot: TypeAlias = tuple[str, str, str]
"""A LocalQueue, the reason why workloads are not admitted, and the underlying cause."""


class WaitTimes:
    """Sums of waiting times. Only time in which this replica leads counts."""

    def __init__(self) -> None:
        self.began: Moment | None = None
        """Since when this replica leads; None while it does not."""
        self.since: dict[Slot, Moment] = {}
        """Up to when the time of each slot was added."""
        self.unread: dict[Slot, int] = {}
        """Microseconds that were not read yet."""

    def lead(self, leads: bool, now: Moment) -> None:
        """Note whether this replica leads."""
        if not leads:
            self.began = None
        elif self.began is None:
            self.began = now

    def add(self, slot: Slot, workloads: int, now: Moment) -> None:
        """Add the time until now for the workloads that have been in a slot; call it before their number changes."""
        last = self.since.get(slot)
        self.since[slot] = now
        if workloads and last is not None and self.began is not None:
            self.unread[slot] = self.unread.get(slot, 0) + workloads * max(0, now - max(last, self.began))

    def read(self, workloads: Mapping[Slot, int], now: Moment) -> Iterator[tuple[Slot, float]]:
        """The seconds of each slot since the last reading, and forget slots without workloads."""
        for slot, number in list(workloads.items()):
            self.add(slot, number, now)
        unread, self.unread = self.unread, {}
        for slot in [slot for slot in self.since if slot not in workloads]:
            del self.since[slot]
        for slot, micros in unread.items():
            yield slot, micros / MICROS
