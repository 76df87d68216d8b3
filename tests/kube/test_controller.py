"""Is every change acted on, once at a time, and again when that failed?"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pykueue.base.clock import ManualClock
from pykueue.kube.controller import Controller
from pykueue.kube.port import ConflictError, NotFoundError, UnansweredError
from tests.fakes.faulty import settle


class Worker:
    """Reconciles as it is told to, and remembers when it began and ended what."""

    def __init__(self, workers: int = 1) -> None:
        self.clock = ManualClock()
        self.controller = Controller("test", self.reconcile, self.clock, workers, rng=lambda: 1.0)
        self.log: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.outcomes: dict[str, list[float | Exception | None]] = {}

    async def reconcile(self, key: str) -> float | None:
        self.log.append(f"+{key}")
        if key in self.gates:
            await self.gates[key].wait()
        self.log.append(f"-{key}")
        left = self.outcomes.get(key)
        outcome = left.pop(0) if left else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def said(self) -> str:
        """What happened since it was asked last."""
        await settle()
        log, self.log = self.log, []
        return " ".join(log)


@asynccontextmanager
async def working(workers: int = 1) -> AsyncIterator[Worker]:
    """A worker whose controller runs, for at most 10 seconds."""
    worker = Worker(workers)
    task = asyncio.create_task(worker.controller.run())
    await settle()
    try:
        async with asyncio.timeout(10):
            yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def test_a_key_that_is_added_several_times_is_worked_on_once() -> None:
    async with working() as worker:
        for key in ("a", "b", "a", "a"):
            worker.controller.add(key)
        assert await worker.said() == "+a -a +b -b"


async def test_a_key_that_is_added_while_it_is_worked_on_comes_again_afterwards() -> None:
    async with working(workers=3) as worker:
        worker.gates["a"] = asyncio.Event()
        worker.controller.add("a")
        assert await worker.said() == "+a"
        worker.controller.add("a")
        worker.controller.add("a")
        worker.controller.add("b")
        assert await worker.said() == "+b -b"
        worker.gates["a"].set()
        assert await worker.said() == "-a +a -a"


async def test_as_many_are_worked_on_at_once_as_there_are_workers() -> None:
    async with working(workers=2) as worker:
        worker.gates = {key: asyncio.Event() for key in "abc"}
        for key in "abc":
            worker.controller.add(key)
        assert await worker.said() == "+a +b"
        worker.gates["b"].set()
        assert await worker.said() == "-b +c"


async def test_as_many_workers_are_woken_as_there_are_keys() -> None:
    async with working(workers=9) as worker:
        for key in "abc":
            worker.controller.add(key)
        assert len(worker.controller.idle) == 6
        assert await worker.said() == "+a -a +b -b +c -c"
        assert len(worker.controller.idle) == 9
        worker.gates = {key: asyncio.Event() for key in "ab"}
        for key in "ab":
            worker.controller.add(key)
        assert await worker.said() == "+a +b"
        assert len(worker.controller.idle) == 7


async def test_a_key_comes_after_a_while() -> None:
    async with working() as worker:
        worker.controller.add_after("late", 10)
        await settle()
        worker.controller.add_after("soon", 1)
        worker.controller.add_after("late", 20)
        worker.controller.add_after("now", 0)
        assert await worker.said() == "+now -now"
        await worker.clock.advance(0.9)
        assert await worker.said() == ""
        await worker.clock.advance(0.1)
        assert await worker.said() == "+soon -soon"
        await worker.clock.advance(9)
        assert await worker.said() == "+late -late"
        await worker.clock.advance(60)
        assert await worker.said() == ""


async def test_what_reconciling_asks_for_is_done() -> None:
    async with working() as worker:
        worker.outcomes["a"] = [5.0, None]
        worker.controller.add("a")
        assert await worker.said() == "+a -a"
        await worker.clock.advance(5)
        assert await worker.said() == "+a -a"
        await worker.clock.advance(500)
        assert await worker.said() == ""


async def test_what_fails_is_tried_again_after_longer_and_longer_waits(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "pykueue"):
        async with working() as worker:
            worker.outcomes["a"] = [
                UnansweredError("patch things default/a", 0, "ConnectionLost", "gone"),
                ValueError("what?"),
                ConflictError("patch things default/a", 409, "Conflict", "changed"),
            ]
            worker.controller.add("a")
            assert await worker.said() == "+a -a"
            for wait in (0.005, 0.010, 0.020):
                await worker.clock.advance(wait - 0.001)
                assert await worker.said() == ""
                await worker.clock.advance(0.001)
                assert await worker.said() == "+a -a"
            await worker.clock.advance(500)
            assert await worker.said() == ""
    told = [(record.levelname, record.message, bool(record.exc_info)) for record in caplog.records]
    assert told == [
        (
            "WARNING",
            "test: cannot reconcile, will retry seconds=0.005 error=patch things default/a: gone",
            False,
        ),
        ("ERROR", "test: cannot reconcile, will retry seconds=0.010 error=ValueError('what?')", True),
        (
            "DEBUG",
            "test: cannot reconcile, will retry seconds=0.020 error=patch things default/a: changed",
            False,
        ),
    ]
    assert {vars(record)["object"] for record in caplog.records} == {"a"}


async def test_every_attempt_is_told_to_whoever_observes() -> None:
    async with working() as worker:
        told: list[tuple[str, str, float]] = []
        worker.controller.observe = lambda name, outcome, seconds: told.append((name, outcome, seconds))
        worker.gates["a"] = asyncio.Event()
        worker.outcomes["a"] = [1.0, ValueError("what?"), None]
        worker.controller.add("a")
        await settle()
        await worker.clock.advance(3)
        worker.gates.pop("a").set()
        await settle()
        await worker.clock.advance(1)
        await worker.clock.advance(1)
        assert told == [("test", "requeue_after", 3.0), ("test", "error", 0.0), ("test", "success", 0.0)]


async def test_what_is_not_there_is_done() -> None:
    async with working() as worker:
        worker.outcomes["a"] = [NotFoundError("get things default/a", 404, "NotFound", "")]
        worker.controller.add("a")
        assert await worker.said() == "+a -a"
        await worker.clock.advance(500)
        assert await worker.said() == ""


async def test_keys_added_before_the_start_are_worked_on() -> None:
    worker = Worker()
    worker.controller.add("a")
    worker.controller.add_after("b", 1)
    task = asyncio.create_task(worker.controller.run())
    assert await worker.said() == "+a -a"
    await worker.clock.advance(1)
    assert await worker.said() == "+b -b"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_cancelling_ends_what_is_under_way() -> None:
    async with working() as worker:
        worker.gates["a"] = asyncio.Event()
        worker.controller.add("a")
        assert await worker.said() == "+a"


async def test_many_keys_that_need_nothing_do_not_block_other_tasks() -> None:
    async with working(workers=4) as worker:
        for number in range(1000):
            worker.controller.add(str(number))
        turns = 0
        while len(worker.log) < 2000:
            await asyncio.sleep(0)
            turns += 1
        assert turns > 20
