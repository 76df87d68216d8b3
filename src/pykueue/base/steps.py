"""Work that yields between its steps, so that others may run in between; `turns.in_steps` runs it in an event loop."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def at_once(work: Generator[None, None, Result]) -> Result:
    """Run work that yields between its steps, without a break."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: Result = end.value
            return found
