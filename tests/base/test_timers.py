"""Do timers count a suspend? The process that holds them runs under clocks that the test moves."""

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pykueue.base.clock import SystemClock
from pykueue.base.timers import WATCHES
from tests.clockshim import FakeTime, Shim

HEAD = """
import asyncio, sys, time, uvloop
from pykueue.base.clock import SystemClock
from pykueue.base.timers import Timer, timeout, waited
from pykueue.base.units import Instant
clock = SystemClock()

def ready():
    print("ready", flush=True)
    global began
    began = time.monotonic()

async def never():
    await asyncio.get_running_loop().create_future()

async def main():
    # Once it waits.
    asyncio.get_running_loop().call_later(0.2, ready)
{body}
    print("over", round(time.monotonic() - began, 1), flush=True)

with asyncio.Runner(loop_factory={loop}) as runner:
    runner.run(main())
"""

WAITS = {
    "sleep": "await clock.sleep(600_000_000)",
    "sleep until an instant": "await clock.sleep_until(Instant(clock.now() + 600_000_000))",
    "a timeout": """
    try:
        async with timeout(600):
            await never()
    except TimeoutError:
        pass""",
    "a timeout that was restarted": """
    try:
        async with timeout(5) as guard:
            guard.restart(600)
            await never()
    except TimeoutError:
        pass""",
    "a wait": """
    done, late = await waited([asyncio.ensure_future(never())], 600)
    assert not done and len(late) == 1""",
    "a timer": """
    rung = asyncio.Event()
    Timer(600, rung.set)
    await rung.wait()""",
}


@contextlib.contextmanager
def program(body: str, environment: Mapping[str, str], loop: str) -> "Iterator[subprocess.Popen[str]]":
    """A program that waits; it is ready when the block begins, and gone when that ends."""
    lines = "\n".join(line if line.startswith("    ") else f"    {line}" for line in body.splitlines())
    with subprocess.Popen(
        [sys.executable, "-c", HEAD.format(body=lines, loop=loop)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as made:
        try:
            assert made.stdout is not None
            assert made.stdout.readline() == "ready\n"
            yield made
        finally:
            made.kill()


@pytest.mark.parametrize("loop", ["uvloop.new_event_loop", "asyncio.SelectorEventLoop"])
@pytest.mark.parametrize("wait", WAITS)
def test_what_is_due_in_a_suspend_happens_at_the_resume(tmp_path: Path, wait: str, loop: str) -> None:
    clock = Shim(tmp_path)
    with program(WAITS[wait], clock.environment, loop) as one:
        clock.suspend(3600)
        said, _ = one.communicate(timeout=30)
        assert said.startswith("over ")
        assert one.returncode == 0


@pytest.mark.parametrize("seconds", [-3600, -1, 1, 3600])
def test_a_sleep_lasts_as_long_as_it_says_although_the_wall_clock_is_set(tmp_path: Path, seconds: int) -> None:
    clock = FakeTime(tmp_path)
    with program("await clock.sleep(1_200_000)", clock.environment, "uvloop.new_event_loop") as one:
        clock.step(seconds)
        said, _ = one.communicate(timeout=30)
        assert 0.9 <= float(said.split()[1]) < 10


@pytest.mark.slow("sleeps for ten seconds")
@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_sleep_until_an_instant_is_off_by_a_tenth_at_most(tmp_path: Path, seconds: int) -> None:
    clock = FakeTime(tmp_path)
    body = "await clock.sleep_until(Instant(clock.now() + 10_200_000))"
    with program(body, clock.environment, "uvloop.new_event_loop") as one:
        clock.step(seconds)
        said, _ = one.communicate(timeout=30)
        # At eleven tenths or nine tenths of the usual rate; how late it may be is up to how busy the machine is.
        assert (9.0 if seconds > 0 else 10.9) < float(said.split()[1]) < 20


def test_the_watch_of_a_loop_goes_with_it() -> None:
    gc.collect()
    before = len(WATCHES)
    asyncio.run(SystemClock().sleep(1000))
    gc.collect()
    assert len(WATCHES) == before
