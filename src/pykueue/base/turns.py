"""Share the event loop: long work runs in pieces, and each turn of the loop has a budget.

Work is measured in the microseconds that it is expected to take, not those that it took, so that the same calls lead to
the same order of events in every run.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from contextvars import ContextVar
from typing import Final, TypeVar

Result = TypeVar("Result")

TURN_MICROS: Final = 2_000
"""Budget of one turn for everyone who shares a `Turns`; a single piece may be longer."""
ITEM_MICROS: Final = 4
"""Cost of reading and passing on an object, besides its bytes."""
COPIED: Final = 30
"""Bytes read from the store, passed on or encrypted per microsecond."""
DECODED: Final = 15
"""Bytes of JSON decoded, inspected and encoded again per microsecond."""


USER: Final[ContextVar[str]] = ContextVar("user", default="")
"""The user for whom the running task works."""


class Turns:
    """The turns of an event loop, and the tasks that wait for one: users in rotation, and those of a user in order.

    A user with many tasks therefore delays another by one piece of work at a time.
    """

    def __init__(self, limit: int = TURN_MICROS) -> None:
        self.limit = limit
        self.spent = 0
        """Microseconds of work in this turn."""
        self.waiting: dict[str, deque[tuple[asyncio.Future[None], int]]] = {}
        """By user; the first is next."""
        self.called = False
        """Whether `begin` is scheduled for the next turn."""

    async def take(self, micros: int) -> None:
        """Wait until work of this many microseconds may run: now, or in a later turn with budget left."""
        if not self.waiting and (not self.spent or self.spent + micros <= self.limit):
            self.spend(micros)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(USER.get(), deque()).append((waiter, micros))
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
            user, tasks = next(iter(self.waiting.items()))
            waiter, micros = tasks[0]
            # The waiter may have been cancelled.
            if not waiter.done():
                if self.spent and self.spent + micros > self.limit:
                    return
                self.spend(micros)
                waiter.set_result(None)
            tasks.popleft()
            del self.waiting[user]
            if tasks:
                self.waiting[user] = tasks


async def in_steps(work: Generator[None, None, Result]) -> Result:
    """Run work that yields between its steps; other tasks run in between."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: Result = end.value
            return found
        await asyncio.sleep(0)
