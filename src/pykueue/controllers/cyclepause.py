"""The pause after a cycle that started nothing: until quota is given back, or for a tenth of a second.

Workloads that arrive meanwhile are considered together, because a cycle per arrival would find the same full queues
each time. Quota that is given back ends the pause, after a moment in which more may follow: as long as a write takes at
present, so that a busy API server is not asked sooner for what it could only store later, and as long as cycles need
in order not to take more than a fifth of the time.
"""

import asyncio
from typing import Final

from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, Moment
from pykueue.engine import model
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Gone, Seen, Stopped

LONGEST_MICROS: Final = MICROS // 10
ONE_PART_IN: Final = 5
"""How much of the time cycles take at most that start nothing."""


class CyclePause:
    """Waits between two cycles, and notes the facts that end the wait."""

    def __init__(self, clock: Clock, engine: Engine) -> None:
        self.clock = clock
        self.engine = engine
        self.freed = asyncio.Event()
        """Set when a workload gives its quota back."""

    def note(self, fact: Fact) -> None:
        """Look at a fact before the engine observes it."""
        if not self.freed.is_set() and self.frees_quota(fact):
            self.freed.set()

    def frees_quota(self, fact: Fact) -> bool:
        """Whether a workload that has quota loses it by this fact."""
        match fact:
            case Seen(thing=model.Workload(admission=None, key=key)) | Gone(kind="Workload", name=key) | Stopped(key):
                known = self.engine.workload(key)
                return known is not None and known.admission is not None
            case _:
                return False

    async def wait(self, began: Moment, write_micros: int) -> None:
        """Wait for the next cycle after one that began at this moment; a write takes this long at present."""
        self.freed.clear()
        gather = max(write_micros, (ONE_PART_IN - 1) * (self.clock.moment() - began))
        end = Moment(began + LONGEST_MICROS)
        alarm = asyncio.get_running_loop().create_task(self.end(end), name="cycle pause")
        try:
            await self.freed.wait()
        finally:
            alarm.cancel()
        await self.clock.sleep_to(min(end, Moment(self.clock.moment() + gather)))

    async def end(self, moment: Moment) -> None:
        """End the pause at this moment."""
        await self.clock.sleep_to(moment)
        self.freed.set()
