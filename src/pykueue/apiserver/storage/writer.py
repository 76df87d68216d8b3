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
    """Runs the work of the store."""

    def run(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run work, and deliver its result on the event loop."""

    def close(self) -> None:
        """Finish; no more work is submitted."""


class InLoop:
    """Runs work at once, for in-memory databases, which do not wait for a disk."""

    def run(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run the work now."""
        asyncio.get_running_loop().call_soon(done, work())

    def close(self) -> None:
        """Do nothing: no work is pending."""


class InThread:
    """Runs work in a thread. Work must not raise."""

    def __init__(self, name: str) -> None:
        self.work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon thread does not keep a process alive that forgot to close the store; acknowledged writes are durable.
        self.thread = Thread(target=self.run_queue, name=name, daemon=True)
        self.thread.start()

    def run(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Submit the work to the thread."""
        loop = asyncio.get_running_loop()

        def whole() -> None:
            outcome = work()
            # A closed loop has no receivers.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done, outcome)

        self.work.put(whole)

    def run_queue(self) -> None:
        """Run work until the end of the queue."""
        while (work := self.work.get()) is not None:
            work()
            # Release it: it may hold megabytes, and the next work may take long to arrive.
            del work

    def close(self) -> None:
        """Wait until all work is done."""
        self.work.put(None)
        self.thread.join()
