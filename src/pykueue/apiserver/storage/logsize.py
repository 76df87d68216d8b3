"""How many bytes the watch log holds, so that it can be limited by size."""

from collections import deque
from typing import Final

LOG_BYTES: Final = 256 * 1024 * 1024
"""The log keeps about this many bytes of new bodies at most."""
STEP_BYTES: Final = 64 * 1024
"""The resolution."""


class LogSize:
    """The bytes that were written up to each version, in steps."""

    def __init__(self) -> None:
        self.steps: deque[tuple[int, int]] = deque()
        """Versions, each with the bytes that were written since the one before, oldest first."""
        self.total = 0

    def add(self, version: int, size: int, most: int) -> int:
        """Count the bytes written up to a version; returns the version up to which the log exceeds `most`, or 0."""
        _, before = self.steps.pop() if self.steps and self.steps[-1][1] < STEP_BYTES else (0, 0)
        self.steps.append((version, before + size))
        self.total += size
        floor = 0
        while self.total > most and len(self.steps) > 1:
            floor, old = self.steps.popleft()
            self.total -= old
        return floor
