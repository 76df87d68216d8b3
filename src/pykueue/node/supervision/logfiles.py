"""The log of a process: files of bounded size, with records that name their stream and time.

A record is a header of fixed length and the bytes that the process printed:

    2026-01-31T12:00:00.123456789Z stdout 000000000004096 0000012<newline>hello there<newline>

The header holds the time, the stream, how many bytes of output came before, and the length of what follows.
All records of a process in a row are its log; a file is named after the position in the log at which it begins, so a
reader can resume at any byte. Supervisors write the files, so this module imports little; `containerlogs` reads them.
"""

import contextlib
import errno
import os
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

STDOUT: Final = b"stdout"
STDERR: Final = b"stderr"
STREAMS: Final = (STDOUT, STDERR)
CAPTURE: Final = 10 * 1024
"""How much of a probe's output is kept."""
STAMP: Final = len(b"2026-01-31T12:00:00.123456789Z ")
HEADER: Final = STAMP + len(b"stdout 000000000004096 0000012\n")
SUFFIX: Final = ".log"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ROTATED: Final = "log rotation removed them"


class LogFiles:
    """Writes the output of a process to files, and removes the oldest file if there are too many."""

    def __init__(self, folder: str, size: int, files: int, clock: Callable[[], int]) -> None:
        self.folder = folder
        self.size = size
        self.files = files
        self.clock = clock
        """Nanoseconds since the epoch."""
        self.position = 0
        """The position in the log at which the next record begins."""
        self.printed = 0
        """Bytes of output in all records so far."""
        self.begins: deque[int] = deque()
        """The positions at which the kept files begin."""
        self.fd = -1
        self.used = 0
        self.inside: set[bytes] = set()
        """The streams whose last byte did not end a line."""
        self.second = -1
        self.stamp = b""
        self.owed = b""
        """The rest of a record of which only the beginning was written."""
        self.lost: dict[bytes, int] = {}
        """Bytes of each stream that were not written and that no record mentions yet."""
        self.why = ""

    def now(self) -> bytes:
        """The time as it is in a header, always of the same length."""
        nanos = self.clock()
        second = nanos // 1_000_000_000
        if second != self.second:
            self.second = second
            self.stamp = (EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S.").encode()
        return b"%s%09dZ " % (self.stamp, nanos % 1_000_000_000)

    def removes(self) -> int | None:
        """The end of what the next `take` removes from the log; None if it removes nothing."""
        if len(self.begins) < self.files or (self.fd >= 0 and self.used < self.size):
            return None
        return self.begins[1] if len(self.begins) > 1 else self.position

    def take(self, stream: bytes, block: bytes, *, keep: bool = False) -> None:
        """Write some output; what cannot be written is lost, and counted.

        On a full disk, the last file may grow until the log is twice as large as otherwise.
        """
        try:
            self.settle()
            if self.fd >= 0 and self.used >= (self.size * self.files if keep else self.size):
                os.close(self.fd)
                self.fd = -1
            if self.fd < 0:
                self.next_file()
            self.write_losses()
            self.put(stream, block)
        except OSError as error:
            self.why = error.strerror or "unknown"
            self.lost[stream] = self.lost.get(stream, 0) + len(block)

    def write_losses(self) -> None:
        """Write into each stream how much of it was lost."""
        for stream, count in list(self.lost.items()):
            line = b"\n" if stream in self.inside else b""
            line += b"[%d bytes of output are lost here: %s]\n" % (count, self.why.encode())
            self.put(stream, line)
            del self.lost[stream]

    def put(self, stream: bytes, data: bytes) -> None:
        """Write a record; raises `OSError` only if nothing of it was written."""
        record = b"%s%s %015d %07d\n%s" % (self.now(), stream, self.printed, len(data), data)
        written = os.write(self.fd, record)
        if data.endswith(b"\n"):
            self.inside.discard(stream)
        else:
            self.inside.add(stream)
        self.used += len(record)
        self.position += len(record)
        self.printed += len(data)
        if written < len(record):
            # A reader may have seen the beginning, so the record is completed as soon as the disk has room.
            self.owed = record[written:]
            with contextlib.suppress(OSError):
                self.settle()

    def settle(self) -> None:
        """Complete a partial record; raises `OSError` while nothing can be written."""
        while self.owed:
            written = os.write(self.fd, self.owed)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.owed = self.owed[written:]

    def next_file(self) -> None:
        """Begin a new file, and remove the oldest if there are too many."""
        path = f"{self.folder}/{self.position}{SUFFIX}"
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.used = 0
        self.begins.append(self.position)
        while len(self.begins) > self.files:
            with contextlib.suppress(OSError):
                os.unlink(f"{self.folder}/{self.begins[0]}{SUFFIX}")
            self.begins.popleft()

    def close(self) -> None:
        """Close the last file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Capture:
    """The beginning of the output of a probe."""

    def __init__(self) -> None:
        self.text = b""

    def take(self, stream: bytes, block: bytes, *, keep: bool = False) -> None:
        """Keep some output, as far as there is room."""
        self.text += block[: CAPTURE - len(self.text)]

    def removes(self) -> int | None:
        """None: nothing that was kept is removed."""
        return None

    def close(self) -> None:
        """Do nothing: there is no file."""


class Record(NamedTuple):
    """A record of a log, or a part of one."""

    stamp: bytes
    """When it was printed, followed by a space; empty if unknown."""
    stream: bytes
    printed: int
    """How many bytes of output precede it."""
    data: bytes


class Records:
    """Parses a log from pieces of any size."""

    def __init__(self) -> None:
        self.rest = b""
        self.head = Record(b"", STDOUT, 0, b"")
        self.left = 0
        """Bytes of the present record that are missing."""
        self.foreign = False
        """Whether this is not a log in our format; its bytes are then passed on unchanged."""

    def feed(self, data: bytes) -> Iterator[Record]:
        """The records in the next piece of the log."""
        data = self.rest + data
        self.rest = b""
        at = 0
        while at < len(data):
            if not self.left:
                if len(data) - at < HEADER and not self.foreign:
                    self.rest = data[at:]
                    return
                at += self.begin(data[at : at + HEADER], len(data) - at)
            part = data[at : at + self.left]
            at += len(part)
            self.left -= len(part)
            head = self.head
            self.head = head._replace(printed=head.printed + len(part))
            if part:
                yield head._replace(data=part)

    def begin(self, header: bytes, rest: int) -> int:
        """Begin a record; returns the length of its header."""
        stream = header[STAMP : STAMP + len(STDOUT)]
        numbers = header[STAMP + len(STDOUT) :].split()
        if self.foreign or stream not in STREAMS or len(numbers) != 2 or not all(one.isdigit() for one in numbers):
            # An earlier version wrote text with a time before each line.
            self.foreign = True
            self.left = rest
            return 0
        self.head = Record(header[:STAMP], stream, int(numbers[0]), b"")
        self.left = int(numbers[1])
        return HEADER


def lost_line(count: int, *, inside: bool) -> bytes:
    """The line that replaces output that is no longer kept."""
    return (b"\n" if inside else b"") + b"[%d bytes of output are lost here: %s]\n" % (count, ROTATED.encode())
