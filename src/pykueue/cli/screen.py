"""A table on a terminal that is repainted in place, and the terminal as it was afterwards."""

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Final

from pykueue.base.text import printable
from pykueue.base.timers import timeout
from pykueue.kube.port import UnansweredError

ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""Use the alternate screen and hide the cursor."""
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
HOME: Final = "\x1b[H"
LINE_END: Final = "\x1b[K"
REST: Final = "\x1b[J"
CLEAR: Final = "\x1b[2J"
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a command that shows something until it is ended."""
HOW_TO_STOP: Final = "Ctrl-C to stop"


@contextlib.contextmanager
def alternate() -> Iterator[None]:
    """Use the alternate screen of the terminal within this context."""
    sys.stdout.write(ENTER)
    try:
        yield
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


def frame(lines: Sequence[str], last: str, width: int, height: int) -> str:
    """What repaints the screen with these lines, as many as it has room for, and a last line."""
    room = max(1, height - 1)
    shown = list(lines) if len(lines) <= room else [*lines[: room - 1], f"and {len(lines) - room + 1} more"]
    return f"{painted(shown, width)}{last[:width]}{LINE_END}{REST}"


def painted(lines: Iterable[str], width: int) -> str:
    """What paints these lines over the top of the screen."""
    return HOME + "".join(f"{line[:width]}{LINE_END}\n" for line in lines)


async def until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Run until a signal ends it: also where SIGINT is ignored, as shells do for jobs in the background."""
    task = asyncio.ensure_future(work)
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def repaint(read: Callable[[], Awaitable[tuple[Sequence[str], str]]], seconds: float) -> None:
    """Show what `read` returns, lines and a note, again after each interval, until a signal ends it.

    While the server does not respond, the last lines stay and the note says so.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    lines, note = await read()
    with alternate():
        while not stopped.is_set():
            width, height = shutil.get_terminal_size()
            sys.stdout.write(frame(lines, note or HOW_TO_STOP, width, height))
            sys.stdout.flush()
            with contextlib.suppress(TimeoutError):
                async with timeout(seconds):
                    await stopped.wait()
            try:
                lines, note = await read()
            except UnansweredError as error:
                note = printable(f"out of date, the server does not respond: {error}")
