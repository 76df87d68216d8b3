"""Start processes through the fork server, and receive the messages of their supervisors.

The fork server is another program (`forkserver`), started by exec, so our threads and event loops do not affect it.
"""

import asyncio
import contextlib
import errno
import itertools
import logging
import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

import pykueue
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS
from pykueue.node.attempts import Process
from pykueue.node.jobscope import scoped
from pykueue.node.setup.accounts import Account
from pykueue.node.supervision.command import Request
from pykueue.node.supervision.followers import GRACE_SECONDS
from pykueue.node.supervision.forkserver import HEAD, REQUEST_BYTES_MAX
from pykueue.node.supervision.processes import boot_id
from pykueue.node.supervision.supervisor import NOTICES, UMASK

LOG: Final = logging.getLogger(__name__)

LOG_BYTES_MAX: Final = 10 * 1024 * 1024
LOG_FILES_MAX: Final = 5
RECEIVE_BYTES: Final = 4 << 20
NOTICE_BYTES: Final = 64 * 1024
PROGRAM: Final = (
    "import sys; sys.path[:0] = [sys.argv[1]]; from pykueue.node.supervision.forkserver import main; main(*{})"
)
AGAIN_MICROS: Final = 1 * MICROS
"""How long to wait before a failed fork server is started again."""
GRACE_MICROS: Final = 1 * MICROS
"""How much longer than its own limit to wait for a probe."""
UNSENT_BYTES_MAX: Final = 2 * REQUEST_BYTES_MAX
"""How much may wait to be sent to the fork server."""
LARGE_BYTES: Final = 64 * 1024
"""Variables and arguments that are longer are not kept in memory while a container runs."""
KEPT_VARIABLES: Final = ("PATH", "HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR")
"""The variables that a container runtime needs to remove a container."""


class Console(Frozen):
    """How clients can attach to a process."""

    terminal: bool = False
    stdin: bool = False
    once: bool = False
    """Whether its standard input ends when the first client leaves."""
    hangup_seconds: float | None = None
    """How long after its last client has left it is told to end; None for never."""
    expected: bool = False
    """Whether its first client has to attach within that time, too."""

    def request(self) -> tuple[bool, bool, bool, float | None, bool]:
        """The message to the fork server."""
        return self.terminal, self.stdin, self.once, self.hangup_seconds, self.expected


class Start(Frozen):
    """A process to start."""

    key: str
    """The path of its attempt in the folder of attempts."""
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    label: str = ""
    """Its pod's namespace and name, for users."""
    account: Account | None = None
    """The user that it runs as; None for the user of this process."""
    folder: str = ""
    """A folder of that user, created if missing, and removed again if it stays empty."""
    umask: int = UMASK
    rlimits: tuple[tuple[int, int], ...] = ()
    cgroup: str = ""
    cgroup_limits: Mapping[str, str] = {}
    log_bytes_max: int = LOG_BYTES_MAX
    log_files_max: int = LOG_FILES_MAX
    follower: str = ""
    """The hash of the secret of the `run` that its output waits for; empty if there is none."""
    grace_seconds: float = GRACE_SECONDS
    """How long it waits for that `run` to reconnect."""
    console: Console | None = None
    """How clients can attach to it; None for a process with an empty standard input and no terminal."""
    notify: tuple[str, ...] = ()
    """The command that notifies about its start and end; empty if there is none."""
    notify_env: Mapping[str, str] = {}
    """Additional variables of that command."""

    def kept(self) -> "Start":
        """What is kept of it while it runs: without its arguments and most variables if those are large."""
        size = sum(map(len, self.argv)) + sum(len(name) + len(value) for name, value in self.env.items())
        if size <= LARGE_BYTES:
            return self
        env = {name: self.env[name] for name in KEPT_VARIABLES if name in self.env}
        return msgspec.structs.replace(self, argv=(), env=env)

    def request(self) -> Request:
        """The message to the fork server."""
        account = self.account
        return {
            "key": self.key,
            "label": self.label,
            "argv": [os.fsencode(one) for one in self.argv],
            "env": encoded(self.env),
            "cwd": os.fsencode(self.cwd),
            "ids": None if account is None else account.ids(),
            "folder": os.fsencode(self.folder),
            "umask": self.umask,
            "rlimits": [tuple(one) for one in self.rlimits],
            "cgroup": self.cgroup,
            "cgroup_limits": dict(self.cgroup_limits),
            "log": (self.log_bytes_max, self.log_files_max),
            "follower": (self.follower, self.grace_seconds),
            "console": None if self.console is None else self.console.request(),
            "notify": ([os.fsencode(one) for one in self.notify], encoded(self.notify_env)) if self.notify else None,
        }


def encoded(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    """Environment variables as the kernel has them."""
    return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}


class Outcome(Frozen):
    """The result of a command that ran beside a container."""

    code: int
    output: str = ""
    timed_out: bool = False


class SpawnError(Exception):
    """No processes can be started; says why, and what to do."""


class Spawner:
    """Starts processes in a folder of attempts, and passes on their supervisors' messages."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        on_notice: Callable[[str, str], None],
        gone: Callable[[str], None],
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.on_notice = on_notice
        """Called with a key and a line of its record."""
        self.gone = gone
        """Called with the key whose supervisor has died, or could not be started."""
        self.renewed = renewed
        """Called when a new fork server was started: the previous one completed or dropped its requests."""
        self.boot = boot_id()
        self.server: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.reading: asyncio.Task[None] | None = None
        self.ready = False
        """Whether a fork server is running."""
        self.notices: socket.socket | None = None
        self.counter = itertools.count()
        self.onces: dict[str, asyncio.Future[Outcome]] = {}
        self.execs: dict[str, Callable[[], None]] = {}
        """By the key of an `exec`: called when its supervisor has ended, or could not be started."""
        self.closing = False
        self.refusal = ""
        """Why the last process could not be started; empty if it was."""

    async def open(self) -> None:
        """Start the fork server; afterwards nothing that an earlier server requested can still start."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.listen()
        await self.begin()

    def listen(self) -> None:
        """Receive messages of supervisors, including those that an earlier server started."""
        notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        notices.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        path = self.folder / NOTICES
        path.unlink(missing_ok=True)
        # Socket paths are limited in length; through the folder's descriptor this one is always short.
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            notices.bind(f"/proc/self/fd/{folder}/{NOTICES}")
        except OSError as error:
            notices.close()
            raise SpawnError(
                f"{path}: cannot create a socket ({error.strerror}); keep the data on a local file system"
            ) from error
        finally:
            os.close(folder)
        path.chmod(0o600)
        self.notices = notices
        asyncio.get_running_loop().add_reader(notices.fileno(), self.receive_notices)

    @property
    def pid(self) -> int | None:
        """The process of the fork server; None before it was started."""
        return None if self.server is None else self.server.pid

    async def begin(self) -> None:
        """Start a fork server, and wait until it holds the lock."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        root = str(Path(pykueue.__file__).parent.parent)
        program = PROGRAM.format((str(self.folder), theirs.fileno()))
        with theirs:
            try:
                self.server = subprocess.Popen(
                    scoped([sys.executable, "-I", "-S", "-X", "utf8", "-c", program, root]),
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    close_fds=True,
                )
            except OSError as error:
                ours.close()
                raise SpawnError(f"cannot start the fork server: {error}") from error
        reader, self.writer = await asyncio.open_unix_connection(sock=ours)
        while (message := await receive(reader)) is not None:
            if message[0] == "ready":
                self.ready = True
                self.reading = asyncio.create_task(self.read(reader), name="fork server")
                return
            LOG.info("fork server: waiting until the previous one has ended")
        raise SpawnError("the fork server exited at startup; its error is printed above")

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Pass on the fork server's messages; if it ends, start another."""
        while (message := await receive(reader)) is not None:
            with logging_errors(message):
                match message:
                    case ("gone", str(key)):
                        self.over(key)
                    case ("rests", str(key)):
                        self.over(key)
                        # From now on we do not signal this supervisor because of that attempt.
                        with contextlib.suppress(SpawnError):
                            self.ask({"confirm": key})
                    case ("refused", str(key), str(why)):
                        self.refusal = why
                        LOG.error("fork server: cannot start a process attempt=%s error=%s", key, why)
                        self.over(key)
        self.ready = False
        for key in list(self.execs):
            # Nothing will report the end of these.
            self.execs.pop(key)()
        while not self.closing and not self.ready:
            LOG.error("fork server: ended, starting another")
            if self.writer is not None:
                self.writer.close()
            if self.server is not None:
                self.server.wait()
            try:
                await self.begin()
            except (SpawnError, OSError) as error:
                LOG.error("fork server: cannot start error=%s", error)
                await self.clock.sleep(AGAIN_MICROS)
            else:
                with logging_errors("another fork server"):
                    self.renewed()

    def over(self, key: str) -> None:
        """Handle the death of a supervisor, or the end of its attempt."""
        # Its last messages may still be in the socket.
        self.receive_notices()
        waiting, ended = self.onces.pop(key, None), self.execs.pop(key, None)
        if ended is not None:
            ended()
        elif waiting is None:
            self.gone(key)
        elif not waiting.done():
            waiting.set_result(Outcome(CODE_UNKNOWN, self.refusal or "it ended without a message"))

    def receive_notices(self) -> None:
        """Pass on supervisors' messages."""
        assert self.notices is not None, "the socket is there while we listen to it"
        while True:
            try:
                message = self.notices.recv(NOTICE_BYTES)
            except BlockingIOError:
                return
            with logging_errors(message):
                key, _, line = message.partition(b"\0")
                self.received(key.decode(errors="replace"), line)

    def received(self, key: str, line: bytes) -> None:
        """Pass on one line, or complete the waiting `run_once`."""
        if not line.startswith(b"once "):
            self.refusal = ""
            self.on_notice(key, line.decode(errors="replace"))
            return
        waiting = self.onces.get(key)
        if waiting is not None and not waiting.done():
            _, code, late, output = line.split(b" ", 3)
            waiting.set_result(Outcome(int(code), output.decode(errors="replace"), late == b"1"))

    def start(self, start: Start) -> None:
        """Start a process under a supervisor, once; its state is reported later."""
        self.ask(start.request())

    def withdraw(self, key: str) -> None:
        """Drop a start that waits for others, whose supervisor is then reported as gone; one that has begun goes on."""
        # A fork server that is not running starts nothing.
        with contextlib.suppress(SpawnError):
            self.ask({"withdraw": key})

    def exec(self, start: Start, key: str, ended: Callable[[], None]) -> None:
        """Run a command that connects to `console.STREAMS` with this key, and ends with that connection.

        `ended` is called when it has ended with all its descendants, or could not be started.
        """
        self.ask({**start.request(), "key": key, "once": True, "exec": True})
        self.execs[key] = ended

    def clean(self, folder: str, scratch: str, over: list[str], gone: list[str]) -> None:
        """Request the removal of files of pods; a request that cannot be sent is found at the next start."""
        try:
            self.ask({"clean": (folder, scratch, over, gone)})
        except SpawnError:
            LOG.debug("fork server: not running, files are removed at the next start")

    def ask(self, request: Request) -> None:
        """Send a request to the fork server."""
        if not self.ready or self.writer is None:
            raise SpawnError("the fork server is restarting; try again")
        body = marshal.dumps(request)
        if len(body) > REQUEST_BYTES_MAX:
            raise SpawnError(
                f"the command and its variables have {len(body)} bytes, and at most {REQUEST_BYTES_MAX} can be started;"
                " pass data in files"
            )
        if self.writer.transport.get_write_buffer_size() + len(body) > UNSENT_BYTES_MAX:
            raise SpawnError("the fork server is busy with large requests; it is tried again")
        self.writer.write(len(body).to_bytes(HEAD, "big") + body)

    async def run_once(self, start: Start, seconds: float) -> Outcome:
        """Run a command for at most this long: its code and the beginning of its output."""
        key = f"once-{next(self.counter)}"
        request = {**start.request(), "key": key, "once": True, "seconds": seconds, "console": None, "notify": None}
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.onces[key] = answer
        late = asyncio.ensure_future(self.clock.sleep(int(seconds * MICROS) + GRACE_MICROS))
        try:
            self.ask(request)
            await asyncio.wait((answer, late), return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else Outcome(CODE_UNKNOWN, "", timed_out=True)
        finally:
            late.cancel()
            self.onces.pop(key, None)

    def send(self, process: Process, number: signal.Signals) -> bool:
        """Signal exactly this process; returns whether it existed."""
        if process.boot != self.boot:
            return False
        try:
            handle = os.pidfd_open(process.pid)
        except OSError as error:
            if error.errno != errno.ENOSYS or not process.alive(self.boot):
                return False
            os.kill(process.pid, number)
            return True
        try:
            # The pid could be reused between check and signal; the pidfd cannot.
            if not process.alive(self.boot):
                return False
            signal.pidfd_send_signal(handle, number)
            return True
        except OSError:
            return False
        finally:
            os.close(handle)

    async def close(self) -> None:
        """Stop the fork server; supervisors keep running."""
        self.closing = True
        if self.writer is not None:
            self.writer.close()
        if self.reading is not None:
            self.reading.cancel()
            await asyncio.wait((self.reading,))
        if self.server is not None:
            await asyncio.get_running_loop().run_in_executor(None, self.server.wait)
        if self.notices is not None:
            asyncio.get_running_loop().remove_reader(self.notices.fileno())
            self.notices.close()
            self.notices = None


CODE_UNKNOWN: Final = -1
"""The code of a command whose end is unknown."""


@contextlib.contextmanager
def logging_errors(message: object) -> Iterator[None]:
    """Log a message that cannot be handled, and continue with the next."""
    try:
        yield
    except Exception:
        LOG.exception("fork server: cannot handle a message message=%r", message)


async def receive(reader: asyncio.StreamReader) -> tuple[object, ...] | None:
    """The next message of the fork server; None when it has ended."""
    try:
        size = int.from_bytes(await reader.readexactly(HEAD), "big")
        message = marshal.loads(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    assert isinstance(message, tuple)
    return message
