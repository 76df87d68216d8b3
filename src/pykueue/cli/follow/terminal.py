"""Connect this process's terminal, or its standard streams, to the command of a pod.

With a terminal, every key goes to the command, Ctrl-C and Ctrl-Z too, and so does the size of the window. The terminal
is in raw mode only in between, and is restored however this ends, unless the process is killed by SIGKILL.
"""

import asyncio
import contextlib
import os
import select
import signal
import stat
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from typing import Final, Literal

import msgspec

from pykueue.api.core import Tree
from pykueue.api.trees import mappings, member, text
from pykueue.base.struct import Frozen
from pykueue.base.timers import uptime
from pykueue.cli.follow.output import Sink
from pykueue.cli.messages import tell
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.streams import ChannelStream, connect
from pykueue.kube.client.transport import LostError
from pykueue.kube.execs import ERROR, RESIZE, STDERR, STDIN, STDOUT, ExecQuery
from pykueue.kube.port import STATUS, UnansweredError

READ_BYTES: Final = 16 * 1024
AGAIN_SECONDS: Final = 0.5
RECONNECT_SECONDS: Final = 30.0
"""How long to try to connect again: after as long, the server tells an interactive job to end."""


class Attached(Frozen):
    """How a connection to a pod ended."""

    how: Literal["ended", "lost", "closed"]
    """The command has ended or the server has ended the connection; it was lost; or our terminal is gone."""
    message: str = ""


def has_terminal() -> bool:
    """Whether standard input and output are a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def has_input(fd: int) -> bool:
    """Whether a file or pipe with something to read is connected to this descriptor; False for a terminal."""
    try:
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode):
            return found.st_size > os.lseek(fd, 0, os.SEEK_CUR)
        if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            return any(event & select.POLLIN for _, event in poller.poll(0))
    except OSError:
        pass
    return False


def warn_of_input() -> None:
    """Say that standard input is not passed on, if there is some."""
    if sys.stdin is not None and has_input(sys.stdin.fileno()):
        tell(
            "standard input is not passed to the command; redirect inside the command, "
            "sh -c 'COMMAND < FILE', or use --interactive on a terminal"
        )


def size_of(fd: int) -> tuple[int, int]:
    """Columns and rows of a terminal; 80 by 24 if it does not know them."""
    try:
        found = os.get_terminal_size(fd)
    except OSError:
        return 80, 24
    return found.columns or 80, found.lines or 24


@contextlib.contextmanager
def raw(fd: int) -> Iterator[None]:
    """Pass every key on unchanged until the block ends."""
    before = termios.tcgetattr(fd)
    try:
        # What was typed ahead is kept.
        tty.setraw(fd, termios.TCSANOW)
        yield
    finally:
        with contextlib.suppress(termios.error):
            # Not after pending output, which a terminal that is gone never takes.
            termios.tcsetattr(fd, termios.TCSANOW, before)


async def attach(
    kube: HttpKube, pod: Tree, container: str, *, stdin: bool = True, output: bool = True, quiet: bool = False
) -> Attached:
    """Connect our standard streams to a container's own command until it ends; raises a `KubeError` if refused.

    Of a container with a terminal, ours is used if we have one. Without `output`, only standard input is passed on. A
    lost connection is opened again for a while; with `quiet`, nothing is printed about that.
    """
    asked = asked_of(pod, container, stdin=stdin, output=output)
    meta = pod.get("metadata")
    name, namespace = text(meta, "name"), text(meta, "namespace")
    lost_at: float | None = None
    while True:
        try:
            stream = await connect(kube, namespace, name, asked)
        except UnansweredError as error:
            if lost_at is None or uptime() - lost_at > RECONNECT_SECONDS:
                raise
            last = str(error)
        else:
            lost_at = None
            end = await Attachment(stream, asked).run()
            if end.how != "lost":
                return end
            last = end.message
            if not quiet:
                print("pykueue: connection lost, reconnecting", file=sys.stderr)
        now = uptime()
        lost_at = now if lost_at is None else lost_at
        if now - lost_at > RECONNECT_SECONDS:
            return Attached("lost", last)
        await asyncio.sleep(AGAIN_SECONDS)


def asked_of(pod: Tree, container: str, *, stdin: bool, output: bool = True) -> ExecQuery:
    """What to ask for: a terminal if the container has one and we do, and standard input if both want it."""
    spec = next((one for _, one in mappings(pod, "spec", "containers") if text(one, "name") == container), {})
    terminal = member(spec, "tty") is True
    return ExecQuery(
        container,
        stdin=stdin and member(spec, "stdin") is True,
        stdout=output,
        stderr=output and not terminal,
        tty=terminal,
    )


class Attachment:
    """One connection between our standard streams and a container."""

    def __init__(self, stream: ChannelStream, asked: ExecQuery) -> None:
        self.stream = stream
        self.asked = asked
        self.sinks = {STDOUT: Sink(sys.stdout.fileno()), STDERR: Sink(sys.stderr.fileno())} if asked.stdout else {}
        self.raw = asked.tty and asked.stdin and has_terminal()
        self.resized = asyncio.Event()

    async def run(self) -> Attached:
        """Pass data on in both directions until one side ends."""
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(self.output())]
        with raw(sys.stdin.fileno()) if self.raw else contextlib.nullcontext():
            if self.asked.stdin:
                tasks.append(asyncio.create_task(self.input()))
            if self.asked.tty and sys.stdout.isatty():
                loop.add_signal_handler(signal.SIGWINCH, self.resized.set)
                tasks.append(asyncio.create_task(self.sizes()))
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                return next(task.result() for task in tasks if task in done)
            finally:
                loop.remove_signal_handler(signal.SIGWINCH)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self.stream.close()

    async def output(self) -> Attached:
        """Write what the command prints until it ends."""
        try:
            while (found := await self.stream.receive()) is not None:
                channel, data = found
                if channel in self.sinks:
                    await self.sinks[channel].write(data)
                elif channel == ERROR and data:
                    with contextlib.suppress(msgspec.DecodeError):
                        said = STATUS.decode(data)
                        return Attached("ended", said.message)
        except LostError as error:
            return Attached("lost", str(error))
        return Attached("ended")

    async def input(self) -> Attached:
        """Send what is typed, or what standard input contains; returns if our terminal is gone."""
        async for block in blocks(sys.stdin.fileno()):
            await self.stream.send(STDIN, block)
        if self.raw:
            return Attached("closed", "the terminal was closed")
        await self.stream.end(STDIN)
        await asyncio.Event().wait()
        raise AssertionError("the wait above ends only by cancellation")

    async def sizes(self) -> Attached:
        """Send the size of the window whenever it changes."""
        columns, rows = size_of(sys.stdout.fileno())
        # A program draws its screen again when the size changes, and a prompt from before appears.
        await self.resize(columns + 1, rows + 1)
        while True:
            await self.resize(*size_of(sys.stdout.fileno()))
            await self.resized.wait()
            self.resized.clear()

    async def resize(self, columns: int, rows: int) -> None:
        """Send the size of a window."""
        await self.stream.send(RESIZE, msgspec.json.encode({"Width": columns, "Height": rows}))


async def blocks(fd: int) -> AsyncIterator[bytes]:
    """The blocks of a descriptor as they become readable, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    while True:
        try:
            loop.add_reader(fd, ready.set)
        except PermissionError:
            # A regular file cannot be polled.
            block = await asyncio.to_thread(os.read, fd, READ_BYTES)
        else:
            try:
                await ready.wait()
            finally:
                loop.remove_reader(fd)
            ready.clear()
            try:
                block = os.read(fd, READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return
        if not block:
            return
        yield block
