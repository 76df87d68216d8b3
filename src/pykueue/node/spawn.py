"""How does the server have processes started, and hear of them? It asks the fork server, and listens to supervisors.

The fork server is another program (`forkserver`), started by exec, so neither threads nor loops of ours matter to it.
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

import pykueue
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS
from pykueue.node.accounts import Account
from pykueue.node.attempts import Process
from pykueue.node.supervision.followers import GRACE_SECONDS
from pykueue.node.supervision.forkserver import HEAD
from pykueue.node.supervision.processes import boot_id
from pykueue.node.supervision.supervisor import NOTICES, Request

LOG: Final = logging.getLogger(__name__)

LOG_BYTES_MAX: Final = 10 * 1024 * 1024
LOG_FILES_MAX: Final = 5
RECEIVE_BYTES: Final = 4 << 20
NOTICE_BYTES: Final = 64 * 1024
PROGRAM: Final = (
    "import sys; sys.path[:0] = [sys.argv[1]]; from pykueue.node.supervision.forkserver import main; main(*{})"
)
AGAIN_MICROS: Final = 1 * MICROS
"""How long it takes until a fork server that did not come up is tried again."""
GRACE_MICROS: Final = 1 * MICROS
"""How much longer than its own limit a probe is waited for."""


class Start(Frozen):
    """A process to start."""

    key: str
    """Where its attempt lies in the folder of attempts."""
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    label: str = ""
    """Whose process it is, for people: the namespace and name of its pod."""
    account: Account | None = None
    """Who it runs as; None: the user that we are."""
    folder: str = ""
    """A folder of theirs that is made where it is missing, and removed again if nothing is left in it."""
    rlimits: tuple[tuple[int, int], ...] = ()
    cgroup: str = ""
    cgroup_limits: Mapping[str, str] = {}
    log_bytes_max: int = LOG_BYTES_MAX
    log_files_max: int = LOG_FILES_MAX
    follower: str = ""
    """The hash of the secret of the `run` that its output waits for; empty: it waits for none."""
    grace_seconds: float = GRACE_SECONDS
    """How long it waits for that `run` to connect again."""

    def request(self) -> Request:
        """As the fork server reads it."""
        account = self.account
        return {
            "key": self.key,
            "label": self.label,
            "argv": [os.fsencode(one) for one in self.argv],
            "env": {os.fsencode(name): os.fsencode(value) for name, value in self.env.items()},
            "cwd": os.fsencode(self.cwd),
            "ids": None if account is None else account.ids(),
            "folder": os.fsencode(self.folder),
            "rlimits": [tuple(one) for one in self.rlimits],
            "cgroup": self.cgroup,
            "cgroup_limits": dict(self.cgroup_limits),
            "log": (self.log_bytes_max, self.log_files_max),
            "follower": (self.follower, self.grace_seconds),
        }


class Outcome(Frozen):
    """How a command that was run beside a container ended."""

    code: int
    output: str = ""
    timed_out: bool = False


class SpawnError(Exception):
    """No processes can be started; says why, and what to do."""


class Spawner:
    """Has processes started in a folder of attempts, and passes on what their supervisors say."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        heard: Callable[[str, str], None],
        gone: Callable[[str], None],
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.heard = heard
        """Told a key and a line of its record."""
        self.gone = gone
        """Told the key whose supervisor is no more, or could not be made."""
        self.renewed = renewed
        """Told that another fork server was started: what the one before was asked, it has done or never will."""
        self.boot = boot_id()
        self.server: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.reading: asyncio.Task[None] | None = None
        self.ready = False
        """Whether a fork server is there to be asked."""
        self.notices: socket.socket | None = None
        self.counter = itertools.count()
        self.onces: dict[str, asyncio.Future[Outcome]] = {}
        self.closing = False
        self.refusal = ""
        """Why the last process could not be made; empty when it could."""

    async def open(self) -> None:
        """Start the fork server; returns when whatever an earlier server had begun has begun or never will."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.listen()
        await self.begin()

    def listen(self) -> None:
        """Hear what supervisors say, also those that an earlier server had started."""
        notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        notices.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        path = self.folder / NOTICES
        path.unlink(missing_ok=True)
        # The path of a socket may not be long; by the folder's number it never is.
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            notices.bind(f"/proc/self/fd/{folder}/{NOTICES}")
        except OSError as error:
            notices.close()
            raise SpawnError(
                f"{path}: no socket can be made there ({error.strerror}); keep the data on a local file system"
            ) from error
        finally:
            os.close(folder)
        path.chmod(0o600)
        self.notices = notices
        asyncio.get_running_loop().add_reader(notices.fileno(), self.hear)

    async def begin(self) -> None:
        """Start a fork server, and wait until it holds the lock."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        root = str(Path(pykueue.__file__).parent.parent)
        program = PROGRAM.format((str(self.folder), theirs.fileno()))
        with theirs:
            try:
                self.server = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-X", "utf8", "-c", program, root],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    close_fds=True,
                )
            except OSError as error:
                ours.close()
                raise SpawnError(f"cannot start the fork server with {sys.executable}: {error}") from error
        reader, self.writer = await asyncio.open_unix_connection(sock=ours)
        while (message := await receive(reader)) is not None:
            if message[0] == "ready":
                self.ready = True
                self.reading = asyncio.create_task(self.read(reader), name="fork server")
                return
            LOG.info("the processes of an earlier server are still being started; waiting for that to end")
        raise SpawnError("the fork server ended before it began; its error is printed above")

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Pass on what the fork server says; if it ends, start another."""
        while (message := await receive(reader)) is not None:
            with costing_itself(message):
                match message:
                    case ("gone", str(key)):
                        self.over(key)
                    case ("refused", str(key), str(why)):
                        self.refusal = why
                        LOG.error("no process can be made for %s: %s", key, why)
                        self.over(key)
        self.ready = False
        while not self.closing and not self.ready:
            LOG.error("the fork server has ended; starting another")
            if self.writer is not None:
                self.writer.close()
            if self.server is not None:
                self.server.wait()
            try:
                await self.begin()
            except (SpawnError, OSError) as error:
                LOG.error("%s", error)
                await self.clock.sleep(AGAIN_MICROS)
            else:
                with costing_itself("another fork server"):
                    self.renewed()

    def over(self, key: str) -> None:
        """A supervisor is gone."""
        # What it said last may still lie in the socket.
        self.hear()
        waiting = self.onces.pop(key, None)
        if waiting is None:
            self.gone(key)
        elif not waiting.done():
            waiting.set_result(Outcome(CODE_UNKNOWN, self.refusal or "it ended without a word"))

    def hear(self) -> None:
        """Pass on what supervisors said."""
        assert self.notices is not None, "the socket is there while we listen to it"
        while True:
            try:
                said = self.notices.recv(NOTICE_BYTES)
            except BlockingIOError:
                return
            with costing_itself(said):
                key, _, line = said.partition(b"\0")
                self.said(key.decode(errors="replace"), line)

    def said(self, key: str, line: bytes) -> None:
        """Pass on one line, or answer who asked for a command to be run."""
        if not line.startswith(b"once "):
            self.refusal = ""
            self.heard(key, line.decode(errors="replace"))
            return
        waiting = self.onces.get(key)
        if waiting is not None and not waiting.done():
            _, code, late, output = line.split(b" ", 3)
            waiting.set_result(Outcome(int(code), output.decode(errors="replace"), late == b"1"))

    def start(self, start: Start) -> None:
        """Have a process started under a supervisor, once; what becomes of it is heard."""
        self.ask(start.request())

    def clean(self, folder: str, scratch: str, over: list[str], gone: list[str]) -> None:
        """Have the files of pods removed; what cannot be asked for now is found at the next start."""
        try:
            self.ask({"clean": (folder, scratch, over, gone)})
        except SpawnError:
            LOG.debug("nobody is there to clean up")

    def ask(self, request: Request) -> None:
        """Send a request to the fork server."""
        if not self.ready or self.writer is None:
            raise SpawnError("the fork server is being started again; try once more")
        body = marshal.dumps(request)
        self.writer.write(len(body).to_bytes(HEAD, "big") + body)

    async def run_once(self, start: Start, seconds: float) -> Outcome:
        """Run a command to its end, for so long at most: its code and the beginning of its output."""
        key = f"once-{next(self.counter)}"
        request = {**start.request(), "key": key, "once": True, "seconds": seconds}
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
        """Send a signal to exactly this process; whether it was there."""
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
            # Between the two, the number could have gone to another; the handle cannot.
            if not process.alive(self.boot):
                return False
            signal.pidfd_send_signal(handle, number)
            return True
        except OSError:
            return False
        finally:
            os.close(handle)

    async def close(self) -> None:
        """Let the fork server go; supervisors stay."""
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
"""The code of a command of which nobody knows how it ended."""


@contextlib.contextmanager
def costing_itself(message: object) -> Iterator[None]:
    """A message that cannot be taken in is said to be so, and those after it are heard all the same."""
    try:
        yield
    except Exception:
        LOG.exception("cannot take in %r", message)


async def receive(reader: asyncio.StreamReader) -> tuple[object, ...] | None:
    """The next message of the fork server; None when it has ended."""
    try:
        size = int.from_bytes(await reader.readexactly(HEAD), "big")
        message = marshal.loads(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    assert isinstance(message, tuple)
    return message
