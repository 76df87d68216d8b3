"""What does a client of the stream get: at first, later, when it lags, and when its session ends?"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from pykueue.web.stream import BEAT, FINISHED_MAX, Feed
from pykueue.web.tables import CHUNK_ROWS
from tests.patience import slowness, soon_async

Seen = tuple[str, Any]


def row(number: int, **more: object) -> bytes:
    return json.dumps({"n": number, **more}).encode()


def parsed(piece: bytes) -> Seen:
    """The name and the data of an event."""
    if piece == BEAT:
        return "beat", None
    number, name, data, *rest = piece.decode().split("\n")
    assert number.startswith("id: ")
    assert rest == ["", ""]
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def personal(overview: bytes) -> bytes:
    return b'{"meta":"ann",%b' % overview[1:]


def opened(feed: Feed, open_: list[bool] | None = None) -> AsyncIterator[bytes]:
    state = open_ if open_ is not None else [True]
    return feed.events(personal, lambda: state[0])


async def taken(events: AsyncIterator[bytes], count: int) -> list[Seen]:
    return [parsed(await asyncio.wait_for(anext(events), 20)) for _ in range(count)]


async def filled(**options: float) -> Feed:
    feed = Feed(gap=options.get("gap", 0.01), beat=options.get("beat", 15), look=options.get("look", 0.05))
    feed.put("a", row(1))
    feed.show(b'{"counts":1}')
    feed.add_finished([row(9)])
    await feed.filled()
    return feed


async def test_a_stream_begins_with_everything_and_goes_on_with_differences() -> None:
    feed = await filled()
    async with aclosing(opened(feed)) as events:  # type: ignore[type-var]  # it is a generator
        assert await taken(events, 3) == [
            ("overview", {"meta": "ann", "counts": 1}),
            ("jobs", {"first": True, "rows": [{"n": 1}], "more": False}),
            ("finished", {"rows": [{"n": 9}]}),
        ]
        feed.put("a", None)
        feed.put("b", row(2))
        assert await taken(events, 1) == [("delta", {"set": [{"n": 2}], "del": ["a"]})]
        feed.show(b'{"counts":1}')
        feed.show(b'{"counts":2}')
        feed.show(b'{"counts":2}', again=True)
        feed.add_finished([row(11), row(10)])
        assert await taken(events, 3) == [
            ("overview", {"meta": "ann", "counts": 2}),
            ("overview", {"meta": "ann", "counts": 2}),
            ("finished", {"rows": [{"n": 11}, {"n": 10}]}),
        ]
        assert feed.clients == 1
    assert feed.clients == 0
    assert [*feed.finished] == [row(11), row(10), row(9)]
    feed.close()


async def test_the_overview_does_not_wait_for_the_rows() -> None:
    feed = Feed(gap=0.01, look=0.05)
    events = opened(feed)
    first = asyncio.ensure_future(taken(events, 1))
    await asyncio.sleep(0.1)
    assert not first.done()
    feed.show(b'{"counts":0}')
    assert (await first)[0][0] == "overview"
    feed.put("a", row(1))
    await feed.filled()
    assert [name for name, _ in await taken(events, 3)] == ["overview", "jobs", "finished"]


async def test_many_changes_are_one_event_and_at_most_ten_a_second() -> None:
    feed = await filled(gap=0.1)
    events = opened(feed)
    await taken(events, 3)
    began = time.monotonic()
    sent = 0
    while time.monotonic() - began < 0.55:
        sent += 1
        feed.put("a", row(1, v=sent))
        await asyncio.sleep(0.002)
    await asyncio.sleep(0.3)
    got: list[Seen] = []
    while not got or got[-1][1]["set"][0]["v"] != sent:
        got += await taken(events, 1)
    assert sent > 50
    assert len(got) <= 8


async def test_a_client_that_lags_gets_everything_again_and_costs_nothing() -> None:
    feed = Feed(gap=0, look=0.05, ring=10_000)
    feed.show(b'{"counts":0}')
    await feed.filled()
    events = opened(feed)
    await taken(events, 3)
    for number in range(100):
        feed.put("a", row(number, pad="x" * 1_000))
        await soon_async(lambda: feed.flushing is None)
    assert feed.held <= 10_000 + 2_000
    assert [name for name, _ in await taken(events, 3)] == ["overview", "jobs", "finished"]
    feed.put("b", row(1))
    assert await taken(events, 1) == [("delta", {"set": [{"n": 1}], "del": []})]


async def test_a_stream_ends_with_its_session() -> None:
    feed = await filled()
    state = [True]
    events = opened(feed, state)
    await taken(events, 3)
    waiting = asyncio.ensure_future(anext(events, b"end"))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    state[0] = False
    assert await asyncio.wait_for(waiting, 20) == b"end"
    assert feed.clients == 0


async def test_silence_is_broken_by_beats() -> None:
    feed = await filled(beat=0.1, look=0.02)
    events = opened(feed)
    await taken(events, 3)
    assert await taken(events, 2) == [("beat", None), ("beat", None)]


async def test_whether_it_was_used() -> None:
    feed = await filled()
    assert feed.take_used()
    assert not feed.take_used()
    events = opened(feed)
    await taken(events, 1)
    assert feed.take_used()


async def test_finished_jobs_are_bounded() -> None:
    feed = await filled()
    feed.add_finished([row(number) for number in range(FINISHED_MAX + 7)])
    assert len(feed.finished) == FINISHED_MAX
    assert feed.finished[0] == row(0)


async def test_no_step_of_fifty_thousand_rows_takes_long() -> None:
    feed = Feed(gap=0)
    feed.show(b'{"counts":0}')
    rows = {f"n/{number}": b'{"name":"job-%d","reason":"%b"}' % (number, b"x" * 300) for number in range(50_000)}
    steps = []
    pieces = feed.table.take(rows)
    began = time.process_time()
    for delta in pieces:
        feed.post("delta", delta.encoded())
        steps.append(time.process_time() - began)
        began = time.process_time()
    await feed.filled()
    events = opened(feed)
    got = []
    for _ in range(2 + 50_000 // CHUNK_ROWS):
        began = time.process_time()
        got.append(await anext(events))
        steps.append(time.process_time() - began)
    assert sum(len(parsed(one)[1].get("rows", ())) for one in got) == 50_000
    # Single steps may be delayed by the garbage collector of the test process.
    assert sorted(steps)[-3] < 0.02 * slowness(), sorted(steps)[-5:]
