"""The output of a command: pipes, read in whole lines where they arrive quickly, or a terminal.

Supervisors read them, so this module imports little.
"""

import contextlib
import fcntl
import os
from typing import Final

BLOCK: Final = 1 << 18
LINE_BYTES: Final = 16 * 1024
"""A longer line is passed on in parts."""
LINE_SECONDS: Final = 0.02
"""How long to wait for the rest of a line, so that lines of the two streams are not interleaved."""


class Pipe:
    """One of the two output streams of a command, or its terminal, which is both."""

    def __init__(self, stream: bytes, *, terminal: bool = False) -> None:
        self.stream = stream
        self.terminal = terminal
        self.fd, self.end = os.openpty() if terminal else os.pipe2(os.O_CLOEXEC)
        """The end that is read, and the one that the command writes to."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, BLOCK)
        os.set_blocking(self.fd, False)
        self.open = True
        """Whether more may come: a command can close its output and keep running."""
        self.held = b""
        """The beginning of an incomplete line."""
        self.due = 0.0
        """When it is passed on although incomplete."""

    def read(self, now: float) -> bytes | None:
        """The output to pass on now; None if there is none, or no more."""
        try:
            block = os.read(self.fd, BLOCK)
        except BlockingIOError:
            return None
        except OSError:
            # A terminal that no process has open any more; one may open it again by its name, which is not followed.
            block = b""
        if not block:
            self.open = False
            return None
        if self.terminal:
            # Prompts are incomplete lines, and each key is echoed.
            return block
        self.held += block
        self.due = now + LINE_SECONDS
        end = self.held.rfind(b"\n") + 1
        return self.take(end if len(self.held) - end <= LINE_BYTES else len(self.held))

    def overdue(self, now: float) -> bytes:
        """An incomplete line that has waited long enough."""
        return self.take(len(self.held)) if self.held and now >= self.due else b""

    def take(self, size: int) -> bytes:
        """This much of the held output."""
        taken, self.held = self.held[:size], self.held[size:]
        return taken
