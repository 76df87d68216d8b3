"""How does a change reach whoever acts on it? Workers that take keys from a queue and reconcile them, one at a time."""

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


class Controller:
    """Reconciles keys: each as often as it changes, none twice at once, again after a while when it fails.

    `reconcile` returns the seconds after which to look at the object again, or None. To find nothing is to be done.
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
        """Told of each attempt: our name, `success`, `requeue_after` or `error`, and the seconds that it took."""
        self.idle: list[asyncio.Future[None]] = []
        """Workers that wait for a key."""
        self.sooner = asyncio.Event()
        """Set when a key is due earlier than the timer knows."""

    def add(self, key: str) -> None:
        """Have an object reconciled soon."""
        self.queue.add(key)
        self.rouse()

    def add_after(self, key: str, seconds: float) -> None:
        """Have an object reconciled after a while, unless it is due earlier anyway."""
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
        """Add late keys when they are due."""
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
        """Return at a moment, or before it when a key is due sooner."""
        waits = {asyncio.ensure_future(self.clock.sleep_to(due)), asyncio.ensure_future(self.sooner.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def work(self) -> None:
        """Take one key after the other."""
        loop = asyncio.get_running_loop()
        while True:
            key = self.queue.take()
            if key is not None:
                await self.attempt(key)
                continue
            free = loop.create_future()
            self.idle.append(free)
            try:
                await free
            finally:
                # Only one that was not roused is still in the list.
                if free in self.idle:
                    self.idle.remove(free)

    async def attempt(self, key: str) -> None:
        """Reconcile one object, and see to it that it is looked at again if need be."""
        after: float | None = None
        began = self.clock.moment()
        try:
            after = await self.reconcile(key)
        except NotFoundError:
            LOG.debug("%s: %s is gone", self.name, key, extra={"object": key})
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
        """Tell whoever observes us how an attempt went."""
        if self.observe is not None:
            self.observe(self.name, outcome, (self.clock.moment() - began) / MICROS)

    def complain(self, key: str, error: Exception, seconds: float) -> None:
        """Say that an object could not be reconciled, as loudly as the reason asks for."""
        match error:
            case ConflictError() | NotLeadingError():
                level = logging.DEBUG
            case KubeError():
                level = logging.WARNING
            case _:
                level = logging.ERROR
        LOG.log(
            level,
            "%s: cannot reconcile %s: %s; trying again in %.3f s",
            self.name,
            key,
            error if isinstance(error, KubeError) else repr(error),
            seconds,
            extra={"object": key},
            # A failure of the world says all in its message; anything else is a mistake of ours.
            exc_info=None if isinstance(error, KubeError) else error,
        )

    def rouse(self) -> None:
        """Have as many idle workers look again as there are keys for."""
        for _ in range(min(len(self.idle), len(self.queue.ready))):
            free = self.idle.pop()
            if not free.done():
                free.set_result(None)
