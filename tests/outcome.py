"""How does a crash run or a benchmark end? The exit codes that CI tells apart."""

from collections.abc import Iterable
from enum import IntEnum


class Outcome(IntEnum):
    """The exit code of a program that checks us."""

    PASSED = 0
    FAILED = 1
    LATE = 75
    """Only time bounds were missed (`EX_TEMPFAIL`): CI runs the program once more before it fails."""

    @classmethod
    def of(cls, outcomes: Iterable["Outcome"]) -> "Outcome":
        """Combine the outcomes of several checks: any failure fails, and lateness alone is late."""
        found = set(outcomes)
        if cls.FAILED in found:
            return cls.FAILED
        return cls.LATE if cls.LATE in found else cls.PASSED
