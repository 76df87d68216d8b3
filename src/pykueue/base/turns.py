"""How does long work share the event loop? In pieces, of which only so many pass in one turn of the loop.

Work is counted in microseconds that it is expected to take, never in time that it took, so that the same calls lead to
the same order of events in every run.
"""

import asyncio
from collections import deque
from typing import Final

TURN_MICROS: Final = 10_000
"""Work of all who share a `Turns` in one turn of the loop; a single piece may be longer."""
ITEM_MICROS: Final = 4
"""What it costs to read and pass on an object, beside its bytes."""
COPIED: Final = 30
"""Bytes that are read from the store, passed on or encrypted in a microsecond."""
DECODED: Final = 15
"""Bytes of JSON that are decoded, looked at and encoded again in a microsecond."""


class Turns:
    """Turns of the event loop, and those who wait for one, in the order in which they came."""

    def __init__(self, limit: int = TURN_MICROS) -> None:
        self.limit = limit
        self.spent = 0
        """Microseconds of work in this turn."""
        self.waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self.called = False
        """Whether `begin` is to run in the next turn."""

    async def take(self, micros: int) -> None:
        """Return when work of so many microseconds may be done: at once, or in a later turn if this one has no room."""
        if not self.waiting and (not self.spent or self.spent + micros <= self.limit):
            self.spend(micros)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((waiter, micros))
        await waiter

    def spend(self, micros: int) -> None:
        """Count work in this turn."""
        self.spent += micros
        if not self.called:
            self.called = True
            asyncio.get_running_loop().call_soon(self.begin)

    def begin(self) -> None:
        """A new turn of the loop: let in as many of those who wait as it has room for."""
        self.called = False
        self.spent = 0
        while self.waiting:
            waiter, micros = self.waiting[0]
            if waiter.done():
                # Whoever was cancelled does not come.
                self.waiting.popleft()
            elif not self.spent or self.spent + micros <= self.limit:
                self.waiting.popleft()
                self.spend(micros)
                waiter.set_result(None)
            else:
                return
