"""Do webhook bodies stay within their memory, and do honest senders get through beside others?"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pykueue.controllers.endpoints.bodies import Bodies, BodyError, BodyLimits

TIGHT = BodyLimits(bytes_max=100, start_seconds=0.3, rate=1000)


async def stuck(*pieces: bytes) -> AsyncIterator[bytes]:
    """Some bytes, and then nothing."""
    for piece in pieces:
        yield piece
    await asyncio.Event().wait()


async def at_once(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def slowly(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        await asyncio.sleep(0.05)
        yield b"x"


async def read(bodies: Bodies, pieces: AsyncIterator[bytes], address: str = "a", most: int = 100) -> bytes:
    async with bodies.read(address, pieces, most) as body:
        return bytes(body.pieces)


async def test_a_body_is_read_whole_and_counts_until_it_is_let_go() -> None:
    bodies = Bodies(TIGHT)
    async with bodies.read("a", at_once(b"one ", b"two"), 100) as body:
        assert body.pieces == b"one two"
        assert [one.size for one in bodies.held] == [7]
        body.become(3)
        assert [one.size for one in bodies.held] == [3]
    assert not bodies.held


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        pytest.param(lambda: at_once(b"x" * 60), 413, id="too large"),
        pytest.param(lambda: stuck(b"x"), 408, id="it stops"),
        pytest.param(lambda: slowly(1000), 408, id="it trickles"),
    ],
)
async def test_a_body_that_is_too_large_or_too_slow_is_refused(pieces: object, status: int) -> None:
    bodies = Bodies(TIGHT)
    with pytest.raises(BodyError) as raised:
        await read(bodies, pieces(), most=50)  # type: ignore[operator]  # each case is a function
    assert raised.value.status == status
    assert not bodies.held


async def test_when_memory_is_short_whoever_holds_most_gives_way_and_the_rest_go_on() -> None:
    bodies = Bodies(BodyLimits(bytes_max=100, start_seconds=20.0))
    trickling = [asyncio.create_task(read(bodies, stuck(b"x" * 30), "far")) for _ in range(3)]
    await asyncio.sleep(0.05)
    assert await read(bodies, at_once(b"y" * 50, b"y" * 10), "near") == b"y" * 60
    done, left = await asyncio.wait(trickling, timeout=1)
    assert [one.exception().status for one in done] == [503, 503]  # type: ignore[union-attr]  # a BodyError
    assert trickling[0] in done, "the oldest goes first"
    for one in left:
        one.cancel()
    await asyncio.gather(*trickling, return_exceptions=True)


async def test_what_is_being_worked_on_is_not_dropped() -> None:
    bodies = Bodies(BodyLimits(bytes_max=100))
    async with bodies.read("a", at_once(b"x" * 90), 100) as body:
        with pytest.raises(BodyError) as raised:
            await read(bodies, at_once(b"y" * 20), "b")
        assert raised.value.status == 503
        assert body.pieces == b"x" * 90
