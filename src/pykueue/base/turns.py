"""Share the event loop: long work runs in pieces, and each turn of the loop has a budget.

Work is measured in the microseconds that it is expected to take, not those that it took, so that the same calls lead to
the same order of events in every run.
"""

import asyncio
from collections import deque
from typing import Final

TURN_MICROS: Final = 10_000
"""Budget of one turn for everyone who shares a `Turns`; a single piece may be longer."""
ITEM_MICROS: Final = 4
"""Cost of reading and passing on an object, besides its bytes."""
COPIED: Final = 30
"""Bytes read from the store, passed on or encrypted per microsecond."""
DECODED: Final = 15
"""Bytes of JSON decoded, inspected and encoded again per microsecond."""


class Turns:
    """The turns of an event loop, and a FIFO queue of tasks that wait for one."""

    def __init__(self, limit: int = TURN_MICROS) -> None:
        self.limit = limit
        self.spent = 0
        """Microseconds of work in this turn."""
        self.waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self.called = False
        """Whether `begin` is scheduled for the next turn."""

    async def take(self, micros: int) -> None:
        """Wait until work of this many microseconds may run: now, or in a later turn with budget left."""
        if not self.waiting and (not self.spent or self.spent + micros <= self.limit):
            self.spend(micros)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((waiter, micros))
        await waiter

    def spend(self, micros: int) -> None:
        """Count work against this turn."""
        self.spent += micros
        if not self.called:
            self.called = True
            asyncio.get_running_loop().call_soon(self.begin)

    def begin(self) -> None:
        """Start a new turn and release waiters while the budget lasts."""
        self.called = False
        self.spent = 0
        while self.waiting:
            waiter, micros = self.waiting[0]
            if waiter.done():
                # The waiter may have been cancelled.
                self.waiting.popleft()
            elif not self.spent or self.spent + micros <= self.limit:
                self.waiting.popleft()
                self.spend(micros)
                waiter.set_result(None)
            else:
                return
