"""Is a held event loop measured, explained and shown as a metric?"""

import asyncio
import logging
import re
from time import thread_time

import pytest
import uvloop

from pykueue.controllers.metrics.watchdog import IDLE_TICK_SECONDS, TICK_SECONDS, Watchdog
from tests.prometheus import Page

LOOPS = pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def busy(seconds: float) -> None:
    """Keep the thread busy for so long, not counting what others take of the CPU, as a long step of a request does."""
    end = thread_time() + seconds
    while thread_time() < end:
        sum(range(1000))


async def watched(dog: Watchdog, *holds: float) -> None:
    """Hold the loop for so long, once after the other, while a watchdog looks."""
    watching = asyncio.create_task(dog.run())
    await asyncio.sleep(5 * TICK_SECONDS)
    for seconds in holds:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("GET /api/v1/pods\n by ann")
        busy(seconds)
        await asyncio.sleep(3 * TICK_SECONDS)
    watching.cancel()
    await asyncio.wait({watching})


def page(dog: Watchdog) -> Page:
    lines: list[str] = []
    assert list(dog.write(lines))
    return Page("\n".join(lines))


@LOOPS
def test_a_held_loop_is_measured(factory: type[asyncio.AbstractEventLoop], caplog: pytest.LogCaptureFixture) -> None:
    dog = Watchdog()
    with asyncio.Runner(loop_factory=factory) as runner, caplog.at_level(logging.WARNING):
        runner.run(watched(dog, 0.6))
    found = page(dog)
    assert found["pykueue_event_loop_delay_max_seconds"] >= 0.6 - IDLE_TICK_SECONDS - TICK_SECONDS
    over = found['pykueue_event_loop_delay_seconds_bucket{le="+Inf"}']
    assert over - found['pykueue_event_loop_delay_seconds_bucket{le="0.25"}'] >= 1
    assert found["pykueue_event_loop_delay_seconds_count"] == over > 2


@LOOPS
def test_what_held_the_loop_is_logged(
    factory: type[asyncio.AbstractEventLoop], caplog: pytest.LogCaptureFixture
) -> None:
    with asyncio.Runner(loop_factory=factory) as runner, caplog.at_level(logging.DEBUG, logger="pykueue"):
        runner.run(watched(Watchdog(), 0.5))
    said = next(message for record in caplog.records if f"{__name__}.busy:" in (message := record.getMessage()))
    parts = r"event loop: was blocked seconds=[\d.]+ computed=[\d.]+ waited_for_cpu=[\d.]+ "
    assert re.match(parts, said)
    assert "task='GET /api/v1/pods? by ann' stack=" in said, "the request is named, without what could forge a line"


async def test_holds_that_follow_each_other_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    dog = Watchdog()
    with caplog.at_level(logging.DEBUG, logger="pykueue"):
        await watched(dog, 0.3, 0.3, 0.3)
        dog.silent_until = 0.0
        await watched(dog, 0.3)
    held = [record for record in caplog.records if record.name.endswith("watchdog")]
    warned = [record.getMessage() for record in held if record.levelno == logging.WARNING]
    assert len(warned) == 2
    more = re.search(r"unreported=(\d+)", warned[1])
    assert more is not None
    assert int(more[1]) >= 2, "those in between are counted"
    assert len(held) >= 4, "and are there for debugging"


async def test_an_idle_loop_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    dog = Watchdog()
    with caplog.at_level(logging.WARNING):
        await watched(dog)
    assert page(dog)["pykueue_event_loop_delay_seconds_count"] > 1


@pytest.mark.parametrize(
    ("delay", "starved", "level"),
    [
        (0.3, 0.0, logging.WARNING),
        (0.3, 0.29, logging.DEBUG),
        (0.3, 0.1, logging.WARNING),
        (1.2, 1.2, logging.WARNING),
    ],
)
def test_a_short_delay_while_others_had_the_cpu_is_no_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, delay: float, starved: float, level: int
) -> None:
    dog = Watchdog()
    dog.spent = (0.0, 0.0)
    monkeypatch.setattr(dog, "reading", lambda: (0.0, starved))
    with caplog.at_level(logging.DEBUG, logger="pykueue"):
        dog.measured(delay)
    assert [record.levelno for record in caplog.records] == [level]
