"""How is the output of a process kept? In numbered files of bounded size, each line with the time at which it came.

Supervisors write them, so this imports little; `containerlogs` reads them.
"""

import contextlib
import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

LINE_FILES: Final = 2
"""A line longer than so many files is cut, lest it fill the disk."""
CAPTURE: Final = 10 * 1024
"""As much of the output of a probe is kept."""
STAMP: Final = len(b"2026-01-31T12:00:00.123456789Z ")
"""How long the time before each line is."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class LogFiles:
    """The output of a process: numbered files, each line with the time at which it came."""

    def __init__(self, folder: str, size: int, files: int, clock: Callable[[], int]) -> None:
        self.folder = folder
        self.size = size
        self.files = files
        self.clock = clock
        """The nanoseconds since the epoch."""
        self.number = -1
        self.fd = -1
        self.used = 0
        self.at_start = True
        """Whether the next byte begins a line."""
        self.second = -1
        self.stamp = b""
        self.lost = 0
        self.why = ""

    def now(self) -> bytes:
        """The time as it stands before a line, always of the same length."""
        nanos = self.clock()
        second = nanos // 1_000_000_000
        if second != self.second:
            self.second = second
            self.stamp = (EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S.").encode()
        return b"%s%09dZ " % (self.stamp, nanos % 1_000_000_000)

    def take(self, block: bytes) -> None:
        """Write some output."""
        if self.fd >= 0 and self.used >= self.size:
            if not self.at_start:
                # A line stays in one file: this one is finished first.
                end = block.find(b"\n") + 1
                if end:
                    self.put(block[:end])
                    block = block[end:]
                elif self.used < self.size * LINE_FILES:
                    self.put(block)
                    return
                else:
                    self.put(b"\n")
            os.close(self.fd)
            self.fd = -1
        if block:
            self.put(block)

    def put(self, block: bytes) -> None:
        """Write to the present file; what the disk does not take is lost, and counted."""
        stamp = self.now()
        ends = block.endswith(b"\n")
        text = (block[:-1] if ends else block).replace(b"\n", b"\n" + stamp)
        parts = (stamp if self.at_start else b"", text, b"\n" if ends else b"")
        try:
            if self.fd < 0:
                self.next_file()
            if self.lost and self.at_start:
                said = b"%s[%d bytes of output are lost here: %s]\n" % (stamp, self.lost, self.why.encode())
                self.used += os.write(self.fd, said)
                self.lost = 0
            data = b"".join(parts)
            written = os.write(self.fd, data)
            self.used += written
            if written < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.at_start = ends
        except OSError as error:
            self.lost += len(block)
            self.why = error.strerror or "unknown"
            if not self.at_start and self.fd >= 0:
                with contextlib.suppress(OSError):
                    os.write(self.fd, b"\n")
                    self.at_start = True

    def next_file(self) -> None:
        """Begin a new file, and remove the oldest if there are too many."""
        number = self.number + 1
        path = f"{self.folder}/{number}.log"
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.number = number
        self.used = 0
        self.at_start = True
        oldest = number - self.files
        if oldest >= 0:
            with contextlib.suppress(OSError):
                os.unlink(f"{self.folder}/{oldest}.log")


class Capture:
    """The beginning of the output of a probe."""

    def __init__(self) -> None:
        self.text = b""

    def take(self, block: bytes) -> None:
        """Keep some output, as far as there is room."""
        self.text += block[: CAPTURE - len(self.text)]
