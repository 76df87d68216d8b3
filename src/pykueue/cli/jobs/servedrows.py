"""What changes between two lists of jobs that a server sends, without decoding the rows that are the same.

The embedded server sends each row on a line of its own. A line begins with the namespace and the name, and ends with
the place in line, which changes with every start before it.
"""

from collections.abc import Generator, Iterator
from typing import Final

import msgspec

from pykueue.api.jobsummary import JobSummary
from pykueue.base.struct import Frozen

STEP_ROWS: Final = 500
"""Rows that are compared between two turns of the event loop."""
ITEMS: Final = b'"items":['
BETWEEN: Final = b",\n"
HEAD_END: Final = b',"state":'
PLACE: Final = b',"place":'
ROW: Final = msgspec.json.Decoder(JobSummary)


class RowChanges(Frozen):
    """The difference between two lists."""

    rows: tuple[JobSummary, ...] = ()
    """New ones, and those that differ in more than their place."""
    places: tuple[tuple[str, int | None], ...] = ()
    """Keys of rows of which only the place differs, and the new place."""
    gone: tuple[str, ...] = ()
    """Keys of rows that are no longer listed."""


class Known(msgspec.Struct):
    """What is remembered of a row."""

    key: str
    mark: int
    """The hash of the row without its place."""
    place: int | None
    list: int
    """The number of the last list that had it."""


def key_of(row: JobSummary) -> str:
    """`namespace/name`."""
    return f"{row.namespace}/{row.name}"


class ServedRows:
    """The rows of the last list."""

    def __init__(self) -> None:
        self.known: dict[bytes, Known] = {}
        self.lists = 0

    def take(self, body: bytes) -> Generator[None, None, RowChanges]:
        """Compare a list with the one before, in steps."""
        self.lists += 1
        rows: list[JobSummary] = []
        places: list[tuple[str, int | None]] = []
        for number, line in enumerate(lines(body), 1):
            if number % STEP_ROWS == 0:
                yield
            rest, place = split_place(line)
            head = line[: line.find(HEAD_END)]
            before = self.known.get(head)
            mark = hash(rest)
            if before is None or before.mark != mark:
                row = ROW.decode(line)
                rows.append(row)
                self.known[head] = Known(key_of(row), mark, place, self.lists)
                continue
            if before.place != place:
                before.place = place
                places.append((before.key, place))
            before.list = self.lists
        gone: list[bytes] = []
        for number, (head, one) in enumerate(self.known.items(), 1):
            if number % STEP_ROWS == 0:
                yield
            if one.list != self.lists:
                gone.append(head)
        return RowChanges(tuple(rows), tuple(places), tuple(self.known.pop(head).key for head in gone))


def lines(body: bytes) -> Iterator[bytes]:
    """The rows of a list, each in JSON."""
    at = body.find(ITEMS) + len(ITEMS)
    end = body.rfind(b"]}")
    while at < end:
        following = body.find(BETWEEN, at, end)
        following = end if following < 0 else following
        yield body[at:following]
        at = following + len(BETWEEN)


def split_place(line: bytes) -> tuple[bytes, int | None]:
    """A row without its place, and the place."""
    at = line.rfind(PLACE)
    digits = line[at + len(PLACE) : -1]
    return (line[:at], int(digits)) if at >= 0 and digits.isdigit() else (line, None)
