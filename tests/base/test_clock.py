"""Does time pass only when it is told to, and does everyone do all there is to do before it does?"""

import asyncio

import pytest

from pykueue.base import clock as clock_module
from pykueue.base.clock import START, ManualClock, RestlessError, SystemClock
from pykueue.base.units import MICROS, Instant


def at(seconds: float) -> Instant:
    return Instant(START + round(seconds * MICROS))


async def test_sleepers_are_woken_in_order_each_at_its_time() -> None:
    clock = ManualClock()
    woken: list[tuple[str, Instant]] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep_until(at(seconds))
        woken.append((name, clock.now()))

    tasks = [asyncio.ensure_future(sleep(name, due)) for name, due in (("late", 3), ("early", 1), ("same", 1))]
    await clock.advance(0.5)
    assert woken == []
    await clock.advance(2)
    assert clock.now() == at(2.5)
    await clock.advance(10)
    assert all(task.done() for task in tasks)
    assert woken == [("early", at(1)), ("same", at(1)), ("late", at(3))]


async def test_what_a_sleeper_does_is_done_before_the_next_one_wakes() -> None:
    clock = ManualClock()
    done: list[str] = []
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def give() -> None:
        await clock.sleep_until(at(1))
        queue.put_nowait("given")

    async def take() -> None:
        word = await queue.get()
        for _ in range(50):
            await asyncio.sleep(0)
        done.append(f"{word} at {clock.now() - START}")

    async def later() -> None:
        await clock.sleep_until(at(1.000001))
        done.append("later")

    tasks = [asyncio.ensure_future(one()) for one in (give, take, later)]
    await clock.advance(2)
    await asyncio.gather(*tasks)
    assert done == ["given at 1000000", "later"]


async def test_a_timer_that_is_set_on_the_way_counts_too() -> None:
    clock = ManualClock()
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await clock.sleep_until(Instant(clock.now() + MICROS))
            ticks += 1

    task = asyncio.ensure_future(tick())
    await clock.advance(5)
    assert clock.next_due() == at(6)
    task.cancel()
    await clock.settle()
    assert clock.next_due() is None
    assert ticks == 5


async def test_who_sleeps_no_more_is_forgotten() -> None:
    clock = ManualClock()
    for _ in range(5_000):
        task = asyncio.ensure_future(clock.sleep_until(at(1_000)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
    assert len(clock.sleepers) < 1_000
    assert clock.next_due() is None


async def test_to_sleep_until_the_past_gives_others_a_turn() -> None:
    clock = ManualClock()
    said: list[str] = []
    other = asyncio.ensure_future(clock.sleep_until(at(-1)))
    other.add_done_callback(lambda _: said.append("other"))
    await clock.sleep_until(clock.now())
    await clock.settle()
    assert said == ["other"]


async def test_what_never_rests_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "ROUNDS_MAX", 100)

    async def story() -> None:
        async def circle() -> None:
            while True:
                await asyncio.sleep(0)

        task = asyncio.ensure_future(circle())
        try:
            await ManualClock().settle()
        finally:
            task.cancel()

    with pytest.raises(RestlessError, match="at one instant"):
        await story()


async def test_the_machines_clock_sleeps_no_shorter_than_asked() -> None:
    clock = SystemClock()
    began = clock.now()
    await clock.sleep_until(Instant(began + 2_000))
    assert clock.now() - began >= 2_000
