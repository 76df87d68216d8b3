"""Wait for a condition, with a bound that scales with the speed of the machine.

Bounds are set for a machine as fast as the reference of the benchmarks. Once a bound has passed, the machine is timed,
and the wait continues by the factor by which it is slower. So a machine that others use makes a test slow, not red.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from bench import kernel

SOON_SECONDS = 20.0
PAUSE_MAX_SECONDS = 0.2

T = TypeVar("T")


def slowness() -> float:
    """By what factor the benchmarks' kernel takes longer than at the reference, in wall time."""
    start = time.monotonic()
    kernel.work()
    return max(1.0, (time.monotonic() - start) / kernel.REFERENCE)


def overdue(start: float, seconds: float) -> bool:
    """Whether a wait that started at this monotonic time has taken too long for this machine."""
    waited = time.monotonic() - start
    return waited > seconds and waited > seconds * slowness()


def soon(condition: Callable[[], T], seconds: float = SOON_SECONDS, pause: float = 0.02) -> T:
    """The first true result of a condition; the last false one if it is overdue.

    The condition is evaluated often at first, then a few times a second.
    """
    start = time.monotonic()
    while not (found := condition()):
        if overdue(start, seconds):
            break
        time.sleep(pause)
        pause = min(pause * 1.3, PAUSE_MAX_SECONDS)
    return found


async def soon_async(condition: Callable[[], T], seconds: float = SOON_SECONDS, pause: float = 0.005) -> T:
    """The same, and the event loop runs in the meantime."""
    start = time.monotonic()
    while not (found := condition()):
        if overdue(start, seconds):
            break
        await asyncio.sleep(pause)
    return found
