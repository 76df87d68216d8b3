"""The rows that the page shows: each encoded once, by key, and the difference that a change makes. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykueue.base.struct import Frozen

CHUNK_ROWS: Final = 2_000
"""The most rows in one event."""
CHUNK_BYTES: Final = 1 << 20
"""An event ends with the row that reaches this."""


class Delta(Frozen):
    """Rows that changed, and keys of rows that are gone."""

    rows: tuple[bytes, ...] = ()
    gone: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        """The data of a `delta` event."""
        keys = b",".join(quoted(key) for key in self.gone)
        return b'{"set":[%b],"del":[%b]}' % (b",".join(self.rows), keys)


class Table:
    """Rows by key, in JSON."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}

    def take(self, changes: Mapping[str, bytes | None]) -> Iterator[Delta]:
        """Apply changes (None: the row is gone), in pieces; each is applied when it is yielded."""
        rows: list[bytes] = []
        gone: list[str] = []
        size = 0
        for key, row in changes.items():
            known = self.rows.get(key)
            if row == known:
                continue
            if row is None:
                del self.rows[key]
                gone.append(key)
            else:
                self.rows[key] = row
                rows.append(row)
                size += len(row)
            if len(rows) + len(gone) >= CHUNK_ROWS or size >= CHUNK_BYTES:
                yield Delta(tuple(rows), tuple(gone))
                rows, gone, size = [], [], 0
        if rows or gone:
            yield Delta(tuple(rows), tuple(gone))


def chunks(rows: Sequence[bytes]) -> Iterator[bytes]:
    """The data of the `jobs` events of a whole table; the last one says that the table is complete."""
    start = 0
    while True:
        end, size = start, 0
        while end < len(rows) and end - start < CHUNK_ROWS and size < CHUNK_BYTES:
            size += len(rows[end])
            end += 1
        first = b'"first":true,' if start == 0 else b""
        more = b"true" if end < len(rows) else b"false"
        yield b'{%b"rows":[%b],"more":%b}' % (first, b",".join(rows[start:end]), more)
        if end >= len(rows):
            return
        start = end


def quoted(text: str) -> bytes:
    """A text as JSON."""
    return msgspec.json.encode(text)
