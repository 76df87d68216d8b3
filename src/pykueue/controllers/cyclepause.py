"""The pause after a cycle that started nothing: until quota is given back, or for a tenth of a second.

Workloads that arrive meanwhile are considered together, because a cycle per arrival would find the same full queues
each time. A release of quota ends the pause after a moment, in which more of it may follow. The moment lasts as long as
an average write, so it is short compared with the write of the admission that follows. And cycles that start nothing
take at most a fifth of the time, unless one takes longer than a fifth of the pause.

Only a workload that gives its quota back ends the pause. What else may let one start, such as an edited queue or a
preemptor that no longer claims its quota, is rare enough to wait for the end.
"""

import asyncio
from typing import Final

from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, Moment
from pykueue.engine import model
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Gone, Refused, Seen, Stopped

LONGEST_MICROS: Final = MICROS // 10
ONE_PART_IN: Final = 5
"""Cycles that start nothing take at most one part in this many of the time."""


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
        """Whether a workload that has quota gives some of it back by this fact."""
        match fact:
            case Seen(thing=model.Workload() as now):
                known = self.holder(now.key)
                return known is not None and (
                    now.admission is None or (known.active and not now.active) or now.reclaimable != known.reclaimable
                )
            case Gone(kind="Workload", name=key) | Stopped(key) | Refused(key):
                return self.holder(key) is not None
            case _:
                return False

    def holder(self, key: str) -> model.Workload | None:
        """A workload that has quota; None if there is none of this key."""
        known = self.engine.workload(key)
        return None if known is None or known.admission is None else known

    async def wait(self, began: Moment, write_micros: int) -> None:
        """Wait until the next cycle, after one that began at this moment; `write_micros` is the average of a write."""
        self.freed.clear()
        cycle = self.clock.moment() - began
        end = Moment(began + LONGEST_MICROS)
        alarm = asyncio.get_running_loop().create_task(self.end(end), name="cycle pause")
        try:
            await self.freed.wait()
        finally:
            alarm.cancel()
        enough = max(began + ONE_PART_IN * cycle, self.clock.moment() + write_micros)
        await self.clock.sleep_to(min(end, Moment(enough)))

    async def end(self, moment: Moment) -> None:
        """End the pause at this moment."""
        await self.clock.sleep_to(moment)
        self.freed.set()
