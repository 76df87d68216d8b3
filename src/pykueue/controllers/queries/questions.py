"""Answers expensive questions in a child process of low priority: one per user at a time, and few in all.

The child gets the question on its standard input and writes the answer to its standard output. It has only what it
reads there, so a question costs the manager no more than the snapshot that it sends.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from pykueue.base.timers import timeout
from pykueue.kube.aggregated import AggregatedError, too_many

LOG: Final = logging.getLogger(__name__)

AT_ONCE_MAX: Final = 4
"""The most questions that are answered at a time."""
TIME_MAX_SECONDS: Final = 55
"""An API server that forwards a question waits for a minute."""
ANSWER_MAX: Final = 32 * 1024 * 1024
"""The most bytes of an answer."""
PIECE: Final = 256 * 1024
ERROR_SHOWN_MAX: Final = 2000
"""Characters of a failed child's last words that are logged."""
RETRY_SECONDS: Final = 2
REFUSED: Final = 3
"""The exit code of a child that refuses a question; its output is the sentence that says why."""
COMMAND: Final = (sys.executable, "-P", "-m", "pykueue.app.answering")


class Questions:
    """Runs the children. `command` is another one in tests."""

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self.command = command
        self.asking: set[str] = set()
        """The users whose questions are being answered."""

    def check(self, user: str) -> None:
        """Raise `AggregatedError` if a user has to wait; cheap, so that it can come before the question is read."""
        if user in self.asking:
            raise too_many("your last question of this kind is not answered yet; one at a time", RETRY_SECONDS)
        if len(self.asking) >= AT_ONCE_MAX:
            raise too_many("questions of other users are answered first; try again", RETRY_SECONDS)

    async def ask(self, user: str, question: AsyncIterable[bytes]) -> bytes:
        """The answer to a question, which is sent in pieces; raises `AggregatedError`."""
        self.check(user)
        self.asking.add(user)
        try:
            async with timeout(TIME_MAX_SECONDS):
                return await self.answered(question)
        except ExceptionGroup as errors:
            # Of several that fail together, the first is the cause.
            raise errors.exceptions[0] from None
        except TimeoutError:
            message = f"there was no answer within {TIME_MAX_SECONDS} s; ask for less, or when the machine is less busy"
            raise AggregatedError(504, "Timeout", message) from None
        finally:
            self.asking.discard(user)

    async def answered(self, question: AsyncIterable[bytes]) -> bytes:
        """Send a question to a new child and read its answer."""
        async with child(self.command) as process:
            assert process.stdin is not None, "a pipe was asked for"
            assert process.stdout is not None, "a pipe was asked for"
            assert process.stderr is not None, "a pipe was asked for"
            async with asyncio.TaskGroup() as group:
                group.create_task(send(process.stdin, question))
                reading = group.create_task(read(process.stdout, ANSWER_MAX))
                complaining = group.create_task(read(process.stderr, ANSWER_MAX))
            code = await process.wait()
        answer, complaint = reading.result(), complaining.result().decode(errors="replace").strip()
        if code == 0:
            return answer
        if code == REFUSED:
            raise AggregatedError(422, "Invalid", answer.decode(errors="replace"))
        LOG.error("a question was not answered: exit code %d: %s", code, complaint[-ERROR_SHOWN_MAX:])
        why = "it needs more memory than it may have" if "MemoryError" in complaint else "the manager's log says how"
        raise AggregatedError(500, "InternalError", f"the manager failed on this question; {why}")


@asynccontextmanager
async def child(command: tuple[str, ...]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a process, and kill it if it is not done at the end."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def send(stdin: asyncio.StreamWriter, question: AsyncIterable[bytes]) -> None:
    """Send a question; a child that stops reading has its reason on its other streams."""
    try:
        async for piece in question:
            stdin.write(piece)
            await stdin.drain()
        stdin.close()
        await stdin.wait_closed()
    except (BrokenPipeError, ConnectionResetError):
        pass


async def read(stream: asyncio.StreamReader, most: int) -> bytes:
    """Everything that a child writes; raises `AggregatedError` if it is more than this."""
    found = bytearray()
    while piece := await stream.read(PIECE):
        found += piece
        if len(found) > most:
            raise AggregatedError(413, "RequestEntityTooLarge", "the answer is too large; ask for less")
    return bytes(found)
