"""What was held lately, so that a decision can be judged by the usage that its maker may have seen."""

from collections import deque
from collections.abc import Mapping
from typing import TypeAlias

from pykueue.audit.times import Instant
from pykueue.audit.tree import Amounts, Slot

Holdings: TypeAlias = Mapping[tuple[str, str], Amounts]
"""What each Workload, by key, holds of each queue, by name."""


class Releases:
    """What each Workload held before it released some of it, for as long as that may matter."""

    def __init__(self, keep_micros: int) -> None:
        self.keep_micros = keep_micros
        self.log: deque[tuple[Instant, str, str, Amounts]] = deque()
        """When, which Workload, of which queue, and what it held until then."""

    def add(self, at: Instant, key: str, queue: str, held: Amounts) -> None:
        """Record a release, and forget old ones."""
        while self.log and self.log[0][0] < at - self.keep_micros:
            self.log.popleft()
        self.log.append((at, key, queue, held))

    def most(
        self, charged: Mapping[str, tuple[str, Amounts]], since: Instant
    ) -> dict[tuple[str, str], dict[Slot, int]]:
        """The most that each Workload held of each queue at any time since then, given what it holds now."""
        found = {(key, queue): dict(held) for key, (queue, held) in charged.items()}
        for at, key, queue, held in self.log:
            if at >= since:
                most = found.setdefault((key, queue), {})
                for slot, amount in held.items():
                    most[slot] = max(most.get(slot, 0), amount)
        return found

    def keys(self, since: Instant) -> set[str]:
        """The Workloads that have released something since then."""
        return {key for at, key, _, _ in self.log if at >= since}


def kept(
    charged: Mapping[str, tuple[str, Amounts]], held_since: Mapping[str, Instant], since: Instant
) -> dict[tuple[str, str], Amounts]:
    """What the Workloads that have held quota ever since then hold now; while they hold it, it only shrinks."""
    return {
        (key, queue): held for key, (queue, held) in charged.items() if key in held_since and held_since[key] <= since
    }


def totals(held: Holdings, without: frozenset[str] = frozenset()) -> dict[str, dict[Slot, int]]:
    """The sum for each queue, without some Workloads."""
    found: dict[str, dict[Slot, int]] = {}
    for (key, queue), amounts in held.items():
        if key not in without:
            booked = found.setdefault(queue, {})
            for slot, amount in amounts.items():
                booked[slot] = booked.get(slot, 0) + amount
    return found
