"""How does the output of a command come in? By a pipe for each stream, in whole lines where they come quickly.

Supervisors read them, so this module imports little.
"""

import contextlib
import fcntl
import os
from typing import Final

BLOCK: Final = 1 << 18
LINE_BYTES: Final = 16 * 1024
"""A line that is longer is passed on in parts."""
LINE_SECONDS: Final = 0.02
"""How long the rest of a line is waited for, so that lines of the two streams do not cut each other up."""


class Pipe:
    """One of the two output streams of a command."""

    def __init__(self, stream: bytes) -> None:
        self.stream = stream
        self.fd, self.end = os.pipe2(os.O_CLOEXEC)
        """The end that is read, and the one that the command writes to."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, BLOCK)
        os.set_blocking(self.fd, False)
        self.open = True
        """Whether more may come: a command can close its output and live on."""
        self.held = b""
        """The beginning of a line whose end has not come yet."""
        self.due = 0.0
        """When that is passed on without its end."""

    def read(self, now: float) -> bytes | None:
        """What is to be passed on of the output that there is; None if there is none, or no more."""
        try:
            block = os.read(self.fd, BLOCK)
        except BlockingIOError:
            return None
        if not block:
            self.open = False
            return None
        self.held += block
        self.due = now + LINE_SECONDS
        end = self.held.rfind(b"\n") + 1
        return self.take(end if len(self.held) - end <= LINE_BYTES else len(self.held))

    def overdue(self, now: float) -> bytes:
        """The beginning of a line whose end was waited for long enough."""
        return self.take(len(self.held)) if self.held and now >= self.due else b""

    def take(self, size: int) -> bytes:
        """So much of what is held."""
        taken, self.held = self.held[:size], self.held[size:]
        return taken
