"""What was released lately, so that a decision can be judged by the usage that its maker may have seen."""

from collections import deque
from collections.abc import Mapping

from pykueue.audit.times import Instant
from pykueue.audit.tree import Amounts, Slot


class Releases:
    """The amounts that each ClusterQueue released, for as long as they may matter."""

    def __init__(self, keep_micros: int) -> None:
        self.keep_micros = keep_micros
        self.log: deque[tuple[Instant, str, str, Amounts]] = deque()
        """When, by which Workload, of which queue, how much."""

    def add(self, at: Instant, key: str, queue: str, released: Amounts) -> None:
        """Record a release, and forget old ones."""
        while self.log and self.log[0][0] < at - self.keep_micros:
            self.log.popleft()
        if released:
            self.log.append((at, key, queue, released))

    def most(self, held: Mapping[str, Amounts], since: Instant, without: frozenset[str]) -> dict[str, dict[Slot, int]]:
        """An upper bound of each queue's usage at any time since then: present usage, and all that was released.

        What the Workloads in `without` released does not count.
        """
        found = {queue: dict(slots) for queue, slots in held.items()}
        for at, key, queue, released in self.log:
            if at >= since and key not in without:
                booked = found.setdefault(queue, {})
                for slot, amount in released.items():
                    booked[slot] = booked.get(slot, 0) + amount
        return found

    def keys(self, since: Instant) -> set[str]:
        """The Workloads that have released something since then."""
        return {key for at, key, _, _ in self.log if at >= since}
