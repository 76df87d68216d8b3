"""Start processes fast: a small process that forks one supervisor per request.

The server starts it with few imports, so that a fork takes a millisecond and little memory. It ends with the server;
the supervisors keep running. It holds a lock on the folder of attempts, and a supervisor keeps a copy of that lock
until it has claimed its attempt: the holder of the lock knows that nothing else can start.

Containers start a few at a time: many at once would take turns with the server on its own core, and all take longer.

If a supervisor is killed, its descendants become children of the fork server, which ends them. Supervisors of an
earlier fork server have no such parent; what they leave is found by its environment alone (`processes.end_marked`).
"""

import contextlib
import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import sys
import traceback
from collections import OrderedDict
from typing import Final

from pykueue.node.supervision.command import Request, ignored
from pykueue.node.supervision.followers import boot_seconds
from pykueue.node.supervision.notifier import Notifier
from pykueue.node.supervision.processes import boot_id, kill_below
from pykueue.node.supervision.removal import clean
from pykueue.node.supervision.reuse import USES_MAX, Resting, is_plain, next_request
from pykueue.node.supervision.supervisor import SIGNALS, adopt_orphans, supervise

IGNORED: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
"""Signals that must not end a fork server or a supervisor; commands get the defaults."""
LOCK: Final = ".lock"
ORPHAN_TRIES: Final = 50
ORPHAN_SECONDS: Final = 0.01
HEAD: Final = 4
"""Size of a message's length prefix."""
REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
"""The longest request: variables and arguments, each up to the limit of `environment`, and the rest."""
WAITING_BYTES_MAX: Final = REQUEST_BYTES_MAX
"""How large the requests that wait may be together; others are refused."""
SLOW_SECONDS: Final = 0.05
"""A start that takes longer, as from a slow disk, no longer keeps others waiting."""


def send(control: socket.socket, *message: str | int) -> None:
    """Send a message to the server."""
    body = marshal.dumps(message)
    control.sendall(len(body).to_bytes(HEAD, "big") + body)


class ForkServer:
    """Forks supervisors, and reports when they have ended."""

    def __init__(self, control: socket.socket, lock: int, notices: socket.socket) -> None:
        self.control = control
        self.notices = notices
        self.lock = lock
        self.buffer = bytearray()
        self.skipped = 0
        """How much of a request that is too long is still to come."""
        self.waiting: OrderedDict[str, tuple[int, Request]] = OrderedDict()
        """Containers to start by key, each with the size of its request."""
        self.waiting_bytes = 0
        self.starting: dict[int, float] = {}
        """Supervisors whose command has not started: a pipe that each closes then, and when it counts as slow."""
        self.starting_max = max(1, len(os.sched_getaffinity(0)) - 1)
        """How many containers start at once: one core is left for the server."""
        self.children: dict[int, str] = {}
        """Supervisors, each with the key of its attempt; empty for those that rest."""
        self.resting = Resting()
        self.cleaners: set[int] = set()
        """Processes that remove files or notify."""
        self.boot = boot_id()

    def run(self) -> None:
        """Serve until the server has ended; requests that still wait are then dropped."""
        wake, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        while self.turn(wake):
            pass

    def turn(self, wake: int) -> bool:
        """Wait for something to do, and do it; False when the server has ended."""
        poller = select.poll()
        reports = self.resting.reports.fileno()
        for fd in (wake, reports, self.control.fileno(), *self.starting):
            poller.register(fd, select.POLLIN)
        for fd, _ in poller.poll(self.patience()):
            if fd == wake:
                os.read(wake, 4096)
                self.reap()
            elif fd == reports:
                self.rest()
            elif fd in self.starting:
                self.started(fd)
            elif not self.receive():
                return False
        self.start_waiting()
        return True

    def patience(self) -> float | None:
        """Milliseconds until the next start counts as slow; None if no request waits for that."""
        if not self.waiting:
            return None
        return max(0.0, min(self.starting.values()) - boot_seconds()) * 1000

    def started(self, pipe: int) -> None:
        """Stop counting a start, which is complete or slow."""
        del self.starting[pipe]
        os.close(pipe)

    def start_waiting(self) -> None:
        """Start as many of the waiting containers as may start now."""
        if self.waiting:
            now = boot_seconds()
            for pipe in [pipe for pipe, slow_at in self.starting.items() if slow_at <= now]:
                self.started(pipe)
        while self.waiting and len(self.starting) < self.starting_max:
            key, (size, request) = self.waiting.popitem(last=False)
            self.waiting_bytes -= size
            try:
                begun, begins = os.pipe2(os.O_CLOEXEC)
            except OSError as error:
                self.refuse(key, error.strerror or str(error))
                continue
            self.starting[begun] = boot_seconds() + SLOW_SECONDS
            pid = self.resting.use(request, self.lock, begins)
            if pid:
                self.children[pid] = key
            else:
                self.start(request, begins)
            os.close(begins)

    def rest(self) -> None:
        """Report the end of an attempt whose supervisor can be reused."""
        found = self.resting.receive()
        if found is None:
            return
        pid, key = found
        if pid not in self.children:
            # It was killed since, and its end was reported.
            self.resting.forget(pid)
            return
        send(self.control, "rests", key)

    def confirm(self, key: str) -> None:
        """Allow the reuse of a supervisor whose attempt the server knows to be over; its own end is then no news."""
        pid = self.resting.confirm(key)
        if pid in self.children:
            self.children[pid] = ""

    def enqueue(self, key: str, size: int, request: Request) -> None:
        """Let a container wait for its start, once."""
        if key in self.waiting:
            return
        if self.waiting and self.waiting_bytes + size > WAITING_BYTES_MAX:
            self.refuse(key, "too many large requests wait")
            return
        self.waiting[key] = size, request
        self.waiting_bytes += size

    def withdraw(self, key: str) -> None:
        """Drop a start that still waits."""
        found = self.waiting.pop(key, None)
        if found is not None:
            self.waiting_bytes -= found[0]
            send(self.control, "gone", key)

    def refuse(self, key: str, why: str) -> None:
        """Report that a process was not started."""
        send(self.control, "refused", key, why)

    def receive(self) -> bool:
        """Read the server's requests; False when it has ended."""
        block = self.control.recv(1 << 20)
        self.buffer += block[self.skipped :]
        self.skipped = max(0, self.skipped - len(block))
        while len(self.buffer) >= HEAD:
            end = HEAD + int.from_bytes(self.buffer[:HEAD], "big")
            if end > HEAD + REQUEST_BYTES_MAX:
                # The server sends none; it would keep others waiting.
                self.skipped = max(0, end - len(self.buffer))
                del self.buffer[:end]
                continue
            if len(self.buffer) < end:
                break
            request = marshal.loads(self.buffer[HEAD:end])
            del self.buffer[:end]
            if "clean" in request:
                self.clean(request)
            elif "withdraw" in request:
                self.withdraw(str(request["withdraw"]))
            elif "confirm" in request:
                self.confirm(str(request["confirm"]))
            elif request.get("once"):
                # The command is a probe or has a client, and its time has begun.
                self.start(request)
            else:
                self.enqueue(str(request["key"]), end, request)
        return bool(block)

    def start(self, request: Request, begins: int = -1) -> None:
        """Fork a supervisor, which closes the given pipe once its command has started."""
        # The supervisor keeps one end open until it has ended.
        done, open_end = os.pipe2(os.O_CLOEXEC) if request.get("notify") else (-1, -1)
        # Signals that arrive before it is ready stay pending.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            pid = os.fork()
        except OSError as error:
            self.refuse(str(request["key"]), error.strerror or str(error))
        else:
            if not pid:
                self.in_child(request, begins)
            self.children[pid] = str(request["key"])
            if done >= 0:
                self.begin_notifier(request, pid, done, (open_end, begins))
        finally:
            for fd in (done, open_end):
                if fd >= 0:
                    os.close(fd)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def begin_notifier(self, request: Request, supervisor: int, done: int, ends: tuple[int, int]) -> None:
        """Fork the process that notifies about an attempt; if that fails, the job runs without.

        It closes the ends of pipes by which the supervisor is followed.
        """
        with contextlib.suppress(OSError):
            if pid := os.fork():
                self.cleaners.add(pid)
                return
            try:
                self.close_inherited()
                for fd in (self.lock, *ends):
                    if fd >= 0:
                        os.close(fd)
                os.setsid()
                Notifier(request, self.boot, self.notices, supervisor, done).run()
            finally:
                os._exit(0)

    def clean(self, request: Request) -> None:
        """Fork a process that removes files."""
        with contextlib.suppress(OSError):
            if pid := os.fork():
                self.cleaners.add(pid)
            else:
                try:
                    what = request["clean"]
                    assert isinstance(what, tuple)
                    self.close_inherited()
                    os.close(self.lock)
                    clean(*what)
                finally:
                    os._exit(0)

    def in_child(self, request: Request, begins: int) -> None:
        """Become a supervisor; does not return."""
        try:
            self.close_inherited()
            os.setsid()
            lock = self.lock
            for uses_left in reversed(range(USES_MAX)):
                spotless = supervise(request, self.boot, self.notices, lock, begins)
                if not (spotless and uses_left and is_plain(request)):
                    break
                following = next_request(self.resting.reporter, str(request["key"]))
                if following is None:
                    break
                signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
                request, lock, begins = following
        except BaseException:
            try:
                with open(f"{request['key']}/trouble", "a", encoding="utf-8") as file:
                    traceback.print_exc(file=file)
            finally:
                os._exit(1)
        finally:
            os._exit(0)

    def close_inherited(self) -> None:
        """Close, in a fork, what only the fork server uses: were it to end, the server could not notice otherwise."""
        signal.set_wakeup_fd(-1)
        self.control.close()
        self.resting.close()
        for fd in self.starting:
            os.close(fd)

    def reap(self) -> None:
        """Report supervisors that have ended; end what is left of those that were killed."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self.cleaners.discard(pid)
            self.resting.forget(pid)
            key = self.children.pop(pid, None)
            if key is not None and status:
                # A supervisor that ends by itself has ended everything before.
                self.end_orphans()
            if key:
                send(self.control, "gone", key)

    def end_orphans(self) -> None:
        """Kill children that are no supervisors, cleaners or notifiers, with their descendants, and wait a moment."""
        for _ in range(ORPHAN_TRIES):
            if not kill_below(os.getpid(), self.children.keys() | self.cleaners):
                return
            select.select((), (), (), ORPHAN_SECONDS)


def ignore_signal(number: int, frame: object) -> None:
    """Do nothing: the loop reads the signal from the wake-up pipe."""


def prepare() -> socket.socket:
    """Set up once what all forks of this process share: signals, standard streams, and the socket for messages."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for number in SIGNALS:
        signal.signal(number, ignore_signal)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices.setblocking(False)
    return notices


def main(folder: str, fd: int) -> None:
    """Serve requests from a socket, for the attempts in a folder."""
    os.chdir(folder)
    # Files of supervisors are readable only by our user.
    os.umask(0o077)
    control = socket.socket(fileno=fd)
    control.set_inheritable(False)
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        send(control, "waiting")
        fcntl.flock(lock, fcntl.LOCK_EX)
    server = ForkServer(control, lock, prepare())
    adopt_orphans()
    # Computed once; all forks inherit it.
    ignored()
    gc.disable()
    gc.freeze()
    try:
        send(control, "ready", os.getpid())
        server.run()
    except (ConnectionError, KeyboardInterrupt):
        # The server has ended, so this process ends too.
        sys.exit(0)
