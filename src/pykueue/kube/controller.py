"""Controllers: workers that take keys from a queue and reconcile them."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, Moment
from pykueue.kube.port import ConflictError, KubeError, NotFoundError, NotLeadingError
from pykueue.kube.workqueue import WorkQueue

LOG: Final = logging.getLogger(__name__)

YIELD_EVERY: Final = 10
"""Keys that a worker reconciles before other tasks run."""


class Controller:
    """Reconciles keys: after each change, one at a time per key, and again with backoff after a failure.

    `reconcile` returns the seconds after which to reconcile again, or None. It must succeed if there is nothing to do.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[str], Awaitable[float | None]],
        clock: Clock,
        workers: int = 1,
        *,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.reconcile = reconcile
        self.clock = clock
        self.workers = workers
        self.rng = rng
        self.queue = WorkQueue()
        self.observe: Callable[[str, str, float], None] | None = None
        """Called after each attempt with our name, `success`, `requeue_after` or `error`, and the seconds it took."""
        self.idle: list[asyncio.Future[None]] = []
        """Workers that wait for a key."""
        self.woken = 0
        """Workers that were woken and have not run yet."""
        self.sooner = asyncio.Event()
        """Set when a key is due earlier than the timer."""

    def add(self, key: str) -> None:
        """Reconcile an object soon."""
        self.queue.add(key)
        self.rouse()

    def add_after(self, key: str, seconds: float) -> None:
        """Reconcile an object after this many seconds, unless it is due earlier anyway."""
        if seconds <= 0:
            self.add(key)
            return
        before = self.queue.due()
        due = Moment(self.clock.moment() + int(seconds * MICROS))
        self.queue.add_at(key, due)
        if before is None or due < before:
            self.sooner.set()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.tick())
            for _ in range(self.workers):
                tasks.create_task(self.work())

    async def tick(self) -> None:
        """Add delayed keys when they are due."""
        while True:
            self.queue.wake(self.clock.moment())
            self.rouse()
            self.sooner.clear()
            due = self.queue.due()
            if due is None:
                await self.sooner.wait()
            else:
                await self.until(due)

    async def until(self, due: Moment) -> None:
        """Wait until a moment, or until a key is due sooner."""
        waits = {asyncio.ensure_future(self.clock.sleep_to(due)), asyncio.ensure_future(self.sooner.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def work(self) -> None:
        """Reconcile one key after the other."""
        loop = asyncio.get_running_loop()
        taken = 0
        while True:
            key = self.queue.take()
            if key is not None:
                await self.attempt(key)
                taken += 1
                if taken % YIELD_EVERY == 0:
                    # Most keys need no write at a start, and reconciling them then never waits.
                    await asyncio.sleep(0)
                continue
            free = loop.create_future()
            self.idle.append(free)
            try:
                await free
            finally:
                if free.done() and not free.cancelled():
                    # It was woken, and is no longer in the list.
                    self.woken -= 1
                elif free in self.idle:
                    self.idle.remove(free)

    async def attempt(self, key: str) -> None:
        """Reconcile one object, and schedule it again if necessary."""
        after: float | None = None
        began = self.clock.moment()
        try:
            after = await self.reconcile(key)
        except NotFoundError:
            LOG.debug("%s: object is gone", self.name, extra={"object": key})
        except Exception as error:
            due = self.queue.failed(key, self.clock.moment(), self.rng())
            self.complain(key, error, (due - self.clock.moment()) / MICROS)
            self.tell("error", began)
            self.sooner.set()
            self.rouse()
            return
        except BaseException:
            self.queue.over(key)
            raise
        self.queue.done(key)
        self.tell("success" if after is None else "requeue_after", began)
        if after is not None:
            self.add_after(key, after)
        self.rouse()

    def tell(self, outcome: str, began: Moment) -> None:
        """Call the observer with the result of an attempt."""
        if self.observe is not None:
            self.observe(self.name, outcome, (self.clock.moment() - began) / MICROS)

    def complain(self, key: str, error: Exception, seconds: float) -> None:
        """Log a failed attempt, at a level that fits the reason."""
        match error:
            case ConflictError() | NotLeadingError():
                level = logging.DEBUG
            case KubeError():
                level = logging.WARNING
            case _:
                level = logging.ERROR
        LOG.log(
            level,
            "%s: cannot reconcile, will retry seconds=%.3f error=%s",
            self.name,
            seconds,
            error if isinstance(error, KubeError) else repr(error),
            extra={"object": key},
            # The message of a KubeError says everything; anything else is a bug and needs its traceback.
            exc_info=None if isinstance(error, KubeError) else error,
        )

    def rouse(self) -> None:
        """Wake as many idle workers as there are keys, less those that were woken for them before."""
        while self.idle and self.woken < len(self.queue.ready):
            free = self.idle.pop()
            if not free.done():
                free.set_result(None)
                self.woken += 1
