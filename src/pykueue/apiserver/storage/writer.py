"""Runs the work of the store in one thread, so that the event loop does not wait for the disk; or on the loop.

Work runs in the thread, and its outcome is delivered on the event loop. At most one piece of work runs at a time: the
caller waits for its outcome before it submits the next.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Protocol, TypeVar

T = TypeVar("T")


class Writer(Protocol):
    """Someone to write."""

    def run(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Have work done, and its outcome told in the event loop."""

    def close(self) -> None:
        """No more work will come."""


class InLoop:
    """Work is done at once; for databases in memory, where nothing waits for a disk."""

    def run(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Do it."""
        asyncio.get_running_loop().call_soon(done, work())

    def close(self) -> None:
        """Nothing is left to do."""


class InThread:
    """Work is done in a thread of its own. It must not raise."""

    def __init__(self, name: str) -> None:
        self.work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon: a process that forgot to close the store ends all the same, and nothing acknowledged is lost.
        self.thread = Thread(target=self.labour, name=name, daemon=True)
        self.thread.start()

    def run(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Hand it over."""
        loop = asyncio.get_running_loop()

        def whole() -> None:
            outcome = work()
            # A loop that is closed has nobody left to be told.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done, outcome)

        self.work.put(whole)

    def labour(self) -> None:
        """Take work until there is to be no more."""
        while (work := self.work.get()) is not None:
            work()
            # It may hold megabytes, and the next may be long in coming.
            del work

    def close(self) -> None:
        """Wait until all work is done."""
        self.work.put(None)
        self.thread.join()
