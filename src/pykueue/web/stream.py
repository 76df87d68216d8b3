"""Server-sent events from one shared snapshot.

Each event is encoded once, and kept for a while in a ring that all clients read at their own pace; a client holds its
position and nothing else. One that falls behind the ring gets the whole snapshot again. The work is done in pieces of a
few milliseconds.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.timers import timeout, uptime
from pykueue.web.tables import Table, chunks

GAP_SECONDS: Final = 0.1
"""Between two rounds of deltas: at most ten a second."""
BEAT_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 1.0
"""How often a stream checks whether its session is still open."""
RING_BYTES: Final = 8 << 20
RING_EVENTS: Final = 1_000
FINISHED_MAX: Final = 500
BEAT: Final = b": beat\n\n"
OVERVIEW: Final = "overview"


class Event(Frozen):
    """An event in the ring."""

    number: int
    data: bytes
    """On the wire; of an overview, its data, which is completed for each client."""
    is_overview: bool = False

    def wire(self, personal: Callable[[bytes], bytes]) -> bytes:
        """The event as one client gets it."""
        return framed(self.number, OVERVIEW, personal(self.data)) if self.is_overview else self.data


def framed(number: int, name: str, data: bytes) -> bytes:
    """An event on the wire."""
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (number, name.encode(), data)


class Feed:
    """The snapshot of one set of rights, and its latest events."""

    def __init__(
        self,
        *,
        gap: float = GAP_SECONDS,
        beat: float = BEAT_SECONDS,
        look: float = LOOK_SECONDS,
        ring: int = RING_BYTES,
    ) -> None:
        self.gap, self.beat, self.look = gap, beat, look
        self.ring_bytes = ring
        self.number = 0
        """Of the last event."""
        self.overview = b""
        """The data of the last overview; empty before the first."""
        self.table = Table()
        self.complete = False
        """Whether the table has been filled for the first time."""
        self.finished: deque[bytes] = deque(maxlen=FINISHED_MAX)
        """The newest first."""
        self.ring: deque[Event] = deque()
        self.held = 0
        """Bytes in the ring."""
        self.pending: dict[str, bytes | None] = {}
        """Changes of rows that no event has yet."""
        self.woken: set[asyncio.Future[None]] = set()
        self.flushing: asyncio.Task[None] | None = None
        self.clients = 0
        self.used = True
        """Whether there was a client since `take_used` was last called."""

    # The source's side.

    def show(self, overview: bytes, *, again: bool = False) -> None:
        """Replace the overview, and send it if it differs, or if what is added for each client does (`again`)."""
        if again or overview != self.overview:
            self.overview = overview
            self.post(OVERVIEW, overview)

    def put(self, key: str, row: bytes | None) -> None:
        """Change a row, or remove it; it is sent with the next round of deltas."""
        self.pending[key] = row
        if self.flushing is None:
            self.flushing = asyncio.ensure_future(self.flush())

    async def flush(self) -> None:
        """Send changes of rows, one round at a time, until there are none."""
        try:
            while self.pending:
                changes, self.pending = self.pending, {}
                for delta in self.table.take(changes):
                    self.post("delta", delta.encoded())
                    await asyncio.sleep(0)
                await asyncio.sleep(self.gap)
        finally:
            self.flushing = None

    async def filled(self) -> None:
        """Say that the table has all rows: streams begin with it."""
        while self.flushing is not None:
            await asyncio.shield(self.flushing)
        self.complete = True
        self.wake()

    def add_finished(self, rows: Sequence[bytes]) -> None:
        """Add jobs that have ended, the newest first."""
        if rows:
            self.finished.extendleft(reversed(rows[:FINISHED_MAX]))
            self.post("finished", finished_data(rows[:FINISHED_MAX]))

    def post(self, name: str, data: bytes) -> None:
        """Append an event to the ring."""
        self.number += 1
        is_overview = name == OVERVIEW
        event = Event(self.number, data if is_overview else framed(self.number, name, data), is_overview)
        self.ring.append(event)
        self.held += len(event.data)
        while len(self.ring) > RING_EVENTS or (self.held > self.ring_bytes and len(self.ring) > 1):
            self.held -= len(self.ring.popleft().data)
        self.wake()

    def wake(self) -> None:
        """Wake the clients that wait for an event."""
        for one in self.woken:
            if not one.done():
                one.set_result(None)
        self.woken.clear()

    def take_used(self) -> bool:
        """Whether there was a client since this was last called."""
        used, self.used = self.used, False
        return used

    def close(self) -> None:
        """Stop sending."""
        if self.flushing is not None:
            self.flushing.cancel()
        self.wake()

    # The client's side.

    def after(self, number: int) -> list[Event] | None:
        """The events after one; None if some of them are no longer kept."""
        if number >= self.number:
            return []
        if not self.ring or self.ring[0].number > number + 1:
            return None
        return [event for event in self.ring if event.number > number]

    async def events(self, personal: Callable[[bytes], bytes], is_open: Callable[[], bool]) -> AsyncIterator[bytes]:
        """What one client reads, until its session ends.

        `personal` completes an overview for this client.
        """
        self.clients += 1
        self.used = True
        try:
            async for piece in self.followed(personal):
                if not is_open():
                    return
                if piece:
                    yield piece
        finally:
            self.clients -= 1

    async def followed(self, personal: Callable[[bytes], bytes]) -> AsyncIterator[bytes]:
        """The snapshot and the events after it; empty pieces come while there is nothing to send."""
        shown = False
        while not (self.overview and self.complete):
            # The overview is small and comes first: it need not wait for all rows.
            if self.overview and not shown:
                shown = True
                yield framed(self.number, OVERVIEW, personal(self.overview))
            await self.wait()
            yield b""
        while True:
            at = self.number
            yield framed(at, OVERVIEW, personal(self.overview))
            finished = finished_data(self.finished)
            for data in chunks(tuple(self.table.rows.values())):
                yield framed(at, "jobs", data)
                await asyncio.sleep(0)
            yield framed(at, "finished", finished)
            beaten = uptime()
            while (newer := self.after(at)) is not None:
                for event in newer:
                    yield event.wire(personal)
                    at = event.number
                    beaten = uptime()
                if not newer:
                    await self.wait()
                    due = uptime() - beaten >= self.beat
                    beaten = uptime() if due else beaten
                    yield BEAT if due else b""

    async def wait(self) -> None:
        """Return when there is an event, or when it is time to look at the session."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.woken.add(woken)
        try:
            async with timeout(self.look):
                await woken
        except TimeoutError:
            pass
        finally:
            self.woken.discard(woken)


def finished_data(rows: Sequence[bytes] | deque[bytes]) -> bytes:
    """The data of a `finished` event."""
    return b'{"rows":[%b]}' % b",".join(rows)
