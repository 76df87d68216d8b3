"""Connect clients to containers: run commands beside them (`exec`), or attach to their own command.

A command of `exec` runs like its container (same user, environment, folder and limits) under a supervisor of its own,
which connects to a socket of ours. It ends with that connection, so with this server, and with its container. A
container with `stdin` or `tty` has a supervisor that clients attach to (`supervision.console`); of any other container
an attached client gets the output, which is read from its log.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.trees import text
from pykueue.base.clock import Clock
from pykueue.base.timers import timeout, waited
from pykueue.kube.execs import STDERR, STDOUT, ExecEnd, ExecError, ExecQuery, ExecSession
from pykueue.node.attempts import Process
from pykueue.node.containerlogs import LOOK_MICROS, ContainerLogs, Reader, log_end
from pykueue.node.containers import Container, Sandbox
from pykueue.node.hooks import CANNOT
from pykueue.node.prepare import TERM, StartBuilder
from pykueue.node.setup.containerruntime import exec_argv
from pykueue.node.spawn import Console, Spawner, SpawnError, Start
from pykueue.node.supervision import console, logfiles

LOG: Final = logging.getLogger(__name__)

SESSIONS_MAX: Final = 16
"""The most sessions of one pod."""
START_SECONDS: Final = 30.0
"""How long a command may take to start."""
ACCEPT_SECONDS: Final = 1.0
"""How long the connection of a command that has ended already may take to be accepted."""
END_SECONDS: Final = 5.0
"""How long a pod that has ended waits for commands that were killed."""
BLOCK: Final = 32 * 1024
BACKLOG: Final = 64
CHANNELS: Final = {console.OUTPUT: STDOUT, console.ERRORS: STDERR}
OLD_SUPERVISOR: Final = (
    "nothing can be attached to this container, because an earlier version of pykueue started it; "
    "`kubectl logs -f` shows its output, and `kubectl exec` works"
)
GONE: Final = "the container ended"


class Session:
    """A connection to a supervisor; an `ExecSession`."""

    def __init__(self, container: Container) -> None:
        self.uid = container.uid
        self.container = container.name
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.process: Process | None = None
        """The supervisor of an `exec`; None for that of a container, which goes on."""
        self.connected = asyncio.Event()
        self.answered = asyncio.Event()
        """Set when it is connected, and when its supervisor has ended."""
        self.over = asyncio.Event()
        self.killed = False
        self.size = b""
        """The size of the terminal that has yet to be sent."""
        self.resizing: asyncio.Task[None] | None = None
        """Sends the size when there is room for it."""
        self.input_ended = False

    def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use this connection."""
        self.reader, self.writer = reader, writer
        self.connected.set()
        self.answered.set()

    def ended(self) -> None:
        """Handle the end of the supervisor of an `exec`."""
        self.over.set()
        self.answered.set()

    async def receive(self) -> tuple[int, bytes] | ExecEnd:
        """The next output with its channel, or how it ended."""
        assert self.reader is not None, "a session is connected before it is used"
        while True:
            try:
                kind, payload = await received(self.reader)
            except (asyncio.IncompleteReadError, OSError):
                return ExecEnd(problem=GONE)
            if kind in CHANNELS:
                return CHANNELS[kind], payload
            if kind == console.EXITED:
                return ExecEnd(int(payload) if self.process is not None else 0)
            if kind == console.FAILED:
                return ExecEnd(problem=payload.decode(errors="replace"))

    async def send(self, data: bytes) -> None:
        """Write standard input, and wait until there is room for more."""
        self.tell_size()
        for at in range(0, len(data), BLOCK):
            self.tell(console.INPUT, data[at : at + BLOCK])
            await self.drain()

    def end_input(self) -> None:
        """End the standard input; a second call does nothing."""
        if not self.input_ended:
            self.input_ended = True
            self.tell_size()
            self.tell(console.INPUT)

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal; of several that wait until there is room, only the last is sent."""
        self.size = f"{columns} {rows}".encode()
        if self.resizing is None or self.resizing.done():
            self.resizing = asyncio.create_task(self.send_size())

    async def send_size(self) -> None:
        """Send the size of the terminal when there is room for it."""
        await self.drain()
        self.tell_size()

    def tell_size(self) -> None:
        """Send the size of the terminal, if it changed."""
        if self.size:
            self.tell(console.RESIZE, self.size)
            self.size = b""

    async def drain(self) -> None:
        """Wait until there is room for more."""
        if self.writer is not None:
            with contextlib.suppress(OSError):
                await self.writer.drain()

    def tell(self, kind: bytes, payload: bytes = b"") -> None:
        """Send a message, unless the connection is lost."""
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(console.message(kind, payload))

    def close(self) -> None:
        """Disconnect."""
        if self.resizing is not None:
            self.resizing.cancel()
        if self.writer is not None:
            self.writer.transport.abort()
        if self.process is None:
            self.over.set()


class LogSession:
    """The output of a container without standard input and terminal, from now on; an `ExecSession`."""

    def __init__(self, container: Container, folder: Path, clock: Clock) -> None:
        self.uid = container.uid
        self.container = container.name
        self.key = container.key
        self.clock = clock
        self.logs = ContainerLogs(folder, clock)
        self.reader = Reader(folder / container.key)
        self.found: list[tuple[int, bytes]] = []
        self.over = asyncio.Event()
        self.process: Process | None = None
        self.killed = False

    async def begin(self) -> None:
        """Skip what was printed so far."""
        self.reader.position = await asyncio.to_thread(log_end, self.reader.folder)

    async def receive(self) -> tuple[int, bytes] | ExecEnd:
        """The next output with its channel, or that it ended."""
        while not self.found:
            # Checked before reading: output from before the end is then read after this check.
            ended = self.logs.over(self.key)
            records = await asyncio.to_thread(self.reader.read)
            if not records and ended:
                return ExecEnd()
            self.found = [
                (STDOUT if one.stream == logfiles.STDOUT else STDERR, one.data[at : at + BLOCK])
                for one in records
                for at in range(0, len(one.data), BLOCK)
            ]
            if not records:
                await self.clock.sleep(LOOK_MICROS)
        return self.found.pop(0)

    async def send(self, data: bytes) -> None:
        """Discard standard input: the container has none."""

    def end_input(self) -> None:
        """Do nothing: the container has no standard input."""

    def resize(self, columns: int, rows: int) -> None:
        """Do nothing: the container has no terminal."""

    def close(self) -> None:
        """End the session."""
        self.over.set()


class Execs:
    """The sessions of all pods of this machine; an `ExecSource`."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        spawner: Spawner,
        builder: StartBuilder,
        sandboxes: Mapping[str, Sandbox],
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.spawner = spawner
        self.builder = builder
        self.sandboxes = sandboxes
        self.sessions: dict[asyncio.Task[None], Session | LogSession] = {}
        """All sessions, each with the task that waits for its end."""
        self.opening: dict[str, Session] = {}
        """By key: commands whose supervisor has not connected yet."""
        self.server: asyncio.Server | None = None

    async def listen(self) -> None:
        """Accept the connections of supervisors."""
        path = self.folder / console.STREAMS
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Socket paths are limited in length; through the folder's descriptor this one is always short.
            listener.bind(f"/proc/self/fd/{folder}/{console.STREAMS}")
        except OSError as error:
            listener.close()
            raise SpawnError(f"{path}: cannot create a socket: {error.strerror}") from error
        finally:
            os.close(folder)
        path.chmod(0o600)
        self.server = await asyncio.start_unix_server(self.accept, sock=listener, backlog=BACKLOG)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Give a supervisor's connection to the session that waits for it."""
        session: Session | None = None
        with contextlib.suppress(asyncio.IncompleteReadError, OSError, ValueError, TimeoutError):
            async with timeout(START_SECONDS):
                kind, payload = await received(reader)
            key, pid, start = payload.decode().split()
            if kind == console.HELLO and (session := self.opening.pop(key, None)) is not None:
                session.process = Process(int(pid), int(start), self.spawner.boot)
                session.connect(reader, writer)
        if session is None:
            # The server or the client that requested it is gone.
            writer.transport.abort()

    async def close(self) -> None:
        """End all sessions; commands of `exec` are told to end."""
        if self.server is not None:
            self.server.close()
        for task, session in list(self.sessions.items()):
            session.close()
            task.cancel()
        await asyncio.gather(*self.sessions, return_exceptions=True)

    def running(self, pod: Tree, asked: ExecQuery) -> tuple[Sandbox, Container]:
        """The container of a query; raises an `ExecError` if it does not run."""
        phase, name = text(pod, "status", "phase"), text(pod, "metadata", "name")
        if phase in ("Succeeded", "Failed"):
            raise ExecError(f"cannot exec into a container in a completed pod; current phase is {phase}")
        if not text(pod, "spec", "nodeName"):
            raise ExecError(f"pod {name} does not have a host assigned")
        sandbox = self.sandboxes.get(text(pod, "metadata", "uid"))
        container = None if sandbox is None else sandbox.containers.get(asked.container)
        if sandbox is None or container is None or not container.running:
            raise ExecError(f'container not found ("{asked.container}")', 404)
        return sandbox, container

    def check(self, pod: Tree, asked: ExecQuery) -> None:
        """Raise an `ExecError` if this container cannot be connected to."""
        _, container = self.running(pod, asked)
        if sum(one.uid == container.uid for one in self.sessions.values()) >= SESSIONS_MAX:
            message = f"{SESSIONS_MAX} sessions of this pod are open, and that is the most; close one, then retry"
            raise ExecError(message, 429)
        if not asked.command and self.has_console(container) and not self.socket(container).exists():
            raise ExecError(OLD_SUPERVISOR)

    def has_console(self, container: Container) -> bool:
        """Whether a container has a standard input or a terminal."""
        return container.spec.get("stdin") is True or container.spec.get("tty") is True

    def socket(self, container: Container) -> Path:
        """The socket on which the supervisor of a container listens."""
        return self.folder / container.key / console.SOCKET

    async def open(self, pod: Tree, asked: ExecQuery) -> ExecSession:
        """Connect to a container; raises an `ExecError` if that fails."""
        self.check(pod, asked)
        sandbox, container = self.running(pod, asked)
        if asked.command:
            return await self.exec(sandbox, container, asked)
        if self.has_console(container):
            return await self.attach(container)
        session = LogSession(container, self.folder, self.clock)
        self.keep(session)
        await session.begin()
        return session

    def keep(self, session: Session | LogSession) -> None:
        """Count a session until it is over."""

        async def wait() -> None:
            await session.over.wait()

        task = asyncio.create_task(wait(), name=f"session of {session.uid}")
        self.sessions[task] = session
        task.add_done_callback(lambda done: self.sessions.pop(done, None))

    async def exec(self, sandbox: Sandbox, container: Container, asked: ExecQuery) -> Session:
        """Run a command beside a container."""
        session = Session(container)
        key = f"exec-{secrets.token_hex(8)}"
        self.opening[key] = session
        self.keep(session)
        try:
            start = await self.start(sandbox, container, asked)
            self.spawner.exec(start, key, session.ended)
            async with timeout(START_SECONDS):
                await session.answered.wait()
            # We may hear of the end of a short command before we have accepted its connection.
            async with timeout(ACCEPT_SECONDS):
                await session.connected.wait()
        except TimeoutError:
            pass
        except CANNOT as error:
            raise ExecError(str(error), 500) from error
        finally:
            self.opening.pop(key, None)
            if key not in self.spawner.execs:
                # Nothing was started, or it has ended.
                session.over.set()
        if session.writer is None:
            raise ExecError(self.spawner.refusal or "the command did not start in time", 500)
        if session.killed or not container.running:
            self.kill(session)
        return session

    async def start(self, sandbox: Sandbox, container: Container, asked: ExecQuery) -> Start:
        """How to run a command like a container."""
        start = container.start = container.start or await self.builder.start(
            sandbox.pod, container.spec, container.number
        )
        runtime, argv = self.builder.runtime, asked.command
        if runtime is not None:
            argv = exec_argv(runtime, container.key, argv, stdin=asked.stdin, tty=asked.tty)
        variables = {"TERM": TERM, **start.env} if asked.tty else start.env
        attached = Console(asked.tty, asked.stdin, once=True)
        return msgspec.structs.replace(start, argv=argv, env=variables, console=attached)

    async def attach(self, container: Container) -> Session:
        """Connect to the supervisor of a container."""
        folder = os.open(self.folder / container.key, os.O_RDONLY | os.O_DIRECTORY)
        try:
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{console.SOCKET}")
        except OSError as error:
            raise ExecError(f'container not found ("{container.name}")', 404) from error
        finally:
            os.close(folder)
        session = Session(container)
        session.connect(reader, writer)
        self.keep(session)
        return session

    def end(self, uid: str, container: str = "") -> bool:
        """Kill the commands that run beside a container, or a whole pod; returns whether any are left."""
        left = False
        for session in self.sessions.values():
            if session.uid == uid and session.container == (container or session.container):
                self.kill(session)
                left |= isinstance(session, Session) and session.process is not None
        return left

    def kill(self, session: Session | LogSession) -> None:
        """Kill the command of a session; one that is attached to ends with its container."""
        session.killed = True
        if session.process is not None:
            self.spawner.send(session.process, signal.SIGUSR1)

    async def ended(self, uid: str) -> None:
        """Kill the commands that run beside a pod, and wait until they have ended, though not for long."""
        self.end(uid)
        tasks = [task for task, session in self.sessions.items() if session.uid == uid and session.process is not None]
        await waited(tasks, END_SECONDS)


async def received(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The next message of a supervisor."""
    kind, size = console.HEAD.unpack(await reader.readexactly(console.HEAD.size))
    return kind, await reader.readexactly(min(size, console.MESSAGE_MAX))
