"""Encodes watch events as lines of JSON, once for all watchers that request the same form."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.http.lists import PIECE_BYTES, ROW_MICROS
from pykueue.apiserver.http.tables import partial, table_of
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.verbs.reading import WatchEvent
from pykueue.apiserver.wire.negotiation import Negotiated
from pykueue.apiserver.wire.statuserrors import StatusError, gone
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.turns import DECODED, Turns
from pykueue.base.units import MICROS

KEPT_BYTES: Final = 8 * 1024 * 1024
SMALL_BYTES: Final = 4 * 1024
"""Encoding a stored object up to this size is faster than finding it in the cache."""

Key: TypeAlias = tuple[int, str, "View", bool, int]
"""The version and type of a change, the form, whether column headers are included, and the second."""


class View(Frozen):
    """The form in which a client watches."""

    api_version: str
    choice: Negotiated
    include: str = ""
    """The part of each object that a Table includes."""


class Lines:
    """Encodes events; recent lines are cached, up to a number of bytes."""

    def __init__(self, clock: Clock, turns: Turns, limit: int = KEPT_BYTES) -> None:
        self.clock = clock
        self.turns = turns
        self.limit = limit
        self.kept: dict[Key, bytes] = {}
        self.bytes = 0

    async def pieces(
        self, served: Served, batches: AsyncGenerator[Sequence[WatchEvent], None], choice: Negotiated, include: str
    ) -> AsyncIterator[bytes]:
        """Chunks of whole lines; if the watch fails, the last line is an ERROR event."""
        view = View(served.api_version, choice, include)
        heads = choice.form == "table"
        try:
            async for batch in batches:
                lines: list[bytes] = []
                size = 0
                for seen in batch:
                    lines.append(await self.line(served, seen, view, heads=heads))
                    heads = False
                    size += len(lines[-1])
                    if size >= PIECE_BYTES:
                        yield b"".join(lines)
                        lines, size = [], 0
                if lines:
                    yield b"".join(lines)
        except StatusError as error:
            yield error_line(error)
        finally:
            await batches.aclose()

    async def line(self, served: Served, seen: WatchEvent, view: View, *, heads: bool) -> bytes:
        """The line of an event, with its newline."""
        plain = view.choice.form == "object"
        if not seen.version or (plain and len(seen.body) <= SMALL_BYTES):
            return await self.made(served, seen, view, heads=heads)
        # Ages in a Table depend on the second in which they are rendered.
        second = 0 if plain else self.clock.now() // MICROS
        key = (seen.version, seen.how, view, heads, second)
        found = self.kept.get(key)
        if found is None:
            found = await self.made(served, seen, view, heads=heads)
            self.keep(key, found)
        return found

    def keep(self, key: Key, line: bytes) -> None:
        """Cache a line, and evict the oldest if necessary."""
        self.bytes += len(line) - len(self.kept.pop(key, b""))
        self.kept[key] = line
        while self.bytes > self.limit:
            self.bytes -= len(self.kept.pop(next(iter(self.kept))))

    async def made(self, served: Served, seen: WatchEvent, view: View, *, heads: bool) -> bytes:
        """Encode an event in a form, within the budget of the event loop."""
        if view.choice.form == "object":
            return seen.line() + b"\n"
        await self.turns.take(ROW_MICROS + len(seen.body) // DECODED)
        tree: Tree = msgspec.json.decode(seen.body)
        if view.choice.form == "metadata":
            shown = partial(tree, view.choice.version)
        else:
            now, version = self.clock.now(), view.choice.version
            shown = table_of(served, tree, now, include=view.include, version=version, heads=heads)
        return WatchEvent(seen.how, msgspec.json.encode(shown)).line() + b"\n"


def error_line(error: StatusError) -> bytes:
    """The ERROR event that ends a stream."""
    return b'{"type":"ERROR","object":%s}\n' % msgspec.json.encode(error.status())


def too_slow() -> bytes:
    """The ERROR event for a client that is cut off because it reads too slowly."""
    return error_line(gone("the watch was ended because its events were not read; list again and watch from there"))
