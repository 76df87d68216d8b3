"""Supervise one process from a small process of its own, which outlives the server.

It runs in a fork of the fork server (`forkserver`), so it imports next to nothing. It starts the command, copies its
output into log files (`logfiles`), stops copying while the `run` that follows the command has to catch up
(`followers`), passes signals on, waits for the end, kills what the command left behind, and writes all that
into the record of the attempt:

    supervisor PID START BOOT POD    written with O_EXCL before anything else: an attempt begins once or never
    running PID START TIME           the command runs
    failed TIME TEXT                 it could not be started
    exited CODE SIGNAL TIME CAUSE    CAUSE is 1 if it ran out of memory, 2 if the supervisor got SIGTERM, else 0

TIME is `DATE@UPTIME`, both in nanoseconds: the server uses the second if the wall clock was set. Each line is also sent
to the server, if it is running. `attempts` reads the record.
"""

import contextlib
import os
import select
import signal
import socket
import time
from typing import Final

from pykueue.base.boottime import SteadyWall, boot_nanos
from pykueue.node.supervision.command import LIBC, Request, Streams, start
from pykueue.node.supervision.console import FAILED, Console, exited_frame
from pykueue.node.supervision.followers import Gate, boot_seconds
from pykueue.node.supervision.logfiles import STDERR, STDOUT, Capture, LogFiles
from pykueue.node.supervision.pipes import Pipe
from pykueue.node.supervision.processes import content, descendants, kill_below, process_start, signal_group, signal_one

RECORD: Final = "record"
NOTICES: Final = ".notices"
"""The socket beside the attempts on which the server receives messages."""
PR_SET_CHILD_SUBREAPER: Final = 36
SEND_TRIES: Final = 100
FOLDER_TRIES: Final = 100
CGROUP_TRIES: Final = 20
LAST_BLOCKS: Final = 64
GATE_SECONDS: Final = 0.02
"""How often a supervisor that waits for a reader checks whether it still has to."""
LOOK_SECONDS: Final = 1.0
"""How often it reads the clock while it has a deadline: the poller does not count a suspend."""
HANGUP_SECONDS: Final = 5.0
"""How long a command has to end after a hangup."""
START_SECONDS: Final = 30.0
"""How long a command may take to be loaded: from a slow disk, or found in a long PATH."""
END_TRIES: Final = 500
RECORD_TRIES: Final = 3600
SIGNALS: Final = (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)
"""The signals of a supervisor: end gracefully, end now, and a child has ended."""
UMASK: Final = 0o022
"""The umask of a command, unless its request has another."""


class Supervisor:
    """Supervises one process, from its start to its end."""

    def __init__(self, request: Request, boot: str, notices: socket.socket, begins: int = -1) -> None:
        self.request = request
        self.begins = begins
        """A pipe to the fork server, closed once the command has started or cannot start; -1 if there is none."""
        self.notices = notices
        self.boot = boot
        self.key = str(request["key"])
        self.cgroup = str(request.get("cgroup") or "")
        self.once = bool(request.get("once"))
        """Whether it runs beside a container, as a probe, a hook or an `exec`: no record and no log."""
        self.exec = bool(request.get("exec"))
        """Whether this is a command of `kubectl exec`, which a client is attached to."""
        self.console = Console()
        self.record = -1
        self.recorded = True
        """Whether every line is in the record."""
        self.child = 0
        self.status: int | None = None
        self.output: LogFiles | Capture = Capture()
        self.gate = Gate("", "", 0)
        self.ending = False
        """Whether the command has ended, or was signalled to end."""
        self.terminated = False
        """Whether we got SIGTERM, from the server or because the machine shuts down."""
        self.kill_at: float | None = None
        """When everything is killed, in seconds since boot."""
        # The fork server may have been running for long, so the date is read again.
        self.wall = SteadyWall()

    def claim(self) -> bool:
        """Claim this attempt; False if it was claimed before."""
        if self.once:
            return True
        os.makedirs(self.key, 0o700, exist_ok=True)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self.record = os.open(f"{self.key}/{RECORD}", flags, 0o600)
        except FileExistsError:
            return False
        own = os.getpid()
        line = f"supervisor {own} {process_start(own)} {self.boot} {self.request['label']}".encode(errors="replace")
        try:
            rest = line + b"\n"
            while rest:
                rest = rest[os.write(self.record, rest) :]
        except OSError:
            # On a full disk the attempt is not claimed, and nothing has begun.
            os.unlink(f"{self.key}/{RECORD}")
            raise
        self.send(line)
        files = self.request["log"]
        assert isinstance(files, tuple)
        self.output = LogFiles(self.key, files[0], files[1], self.wall.now)
        follower = self.request.get("follower") or ("", 0.0)
        assert isinstance(follower, tuple)
        with contextlib.suppress(OSError):
            # On a full disk the job does not wait for its follower.
            self.gate = Gate(self.key, *follower)
        return True

    def note(self, line: str) -> None:
        """Write a line into the record, and send it to the server; only the write waits for a full disk."""
        data = line.encode(errors="replace")
        rest = data + b"\n"
        sent = False
        for _ in range(RECORD_TRIES):
            try:
                while rest:
                    # If a line is written only in part, the rest follows when there is room.
                    rest = rest[os.write(self.record, rest) :]
                break
            except OSError:
                if not sent:
                    self.send(data)
                    sent = True
                time.sleep(1)
        self.recorded = self.recorded and not rest
        if not sent:
            self.send(data)

    def time(self) -> str:
        """The present time, for the record."""
        return f"{self.wall.now()}@{boot_nanos()}"

    def send(self, line: bytes) -> None:
        """Send a line to the server; if that does not listen, it reads the record later."""
        message = self.key.encode() + b"\0" + line
        for _ in range(SEND_TRIES):
            try:
                self.notices.sendto(message, NOTICES)
                return
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                return

    def run(self) -> bool:
        """Run the command to its end; returns whether all is recorded, and all that was started has ended."""
        adopt_orphans()
        wake, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        try:
            self.open_console()
        except OSError:
            # The server that requested it has ended.
            return False
        terminal = self.console.terminal
        pipes = (Pipe(STDOUT, terminal=True),) if terminal else (Pipe(STDOUT), Pipe(STDERR))
        self.console.begin(pipes[0].fd)
        try:
            self.make_folder()
            self.fence()
            problem = self.launch(pipes, wake)
        except OSError as error:
            problem = error.strerror or str(error)
        if self.begins >= 0:
            os.close(self.begins)
        for pipe in pipes:
            os.close(pipe.end)
        self.console.close_end()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        if problem:
            self.failed(problem)
        else:
            self.follow(pipes, wake)
        self.unfence()
        signal.set_wakeup_fd(-1)
        for fd in (wake, waker, self.record, *(pipe.fd for pipe in pipes)):
            if fd >= 0:
                os.close(fd)
        self.output.close()
        # A command that could not start may have failed because of this process.
        return self.recorded and not problem and not self.reap()

    def open_console(self) -> None:
        """Let clients attach to the command, if its request says so."""
        wanted = self.request.get("console")
        if wanted is None:
            return
        assert isinstance(wanted, tuple)
        terminal, stdin, once, hangup, expected = wanted
        self.console = Console(terminal=terminal, stdin=stdin, once=once)
        if self.exec:
            self.console.connect(self.key)
        else:
            with contextlib.suppress(OSError):
                # On a full disk no client can attach; the container runs all the same.
                self.console.listen(self.key, hangup=hangup, expected=expected)

    def make_folder(self) -> None:
        """Create the folder of the container, and give it to its user; its parent stays ours."""
        folder, ids = self.request["folder"], self.request["ids"]
        assert isinstance(folder, bytes)
        if not folder or self.once or os.path.isdir(folder):
            return
        above = os.path.dirname(folder)
        for _ in range(FOLDER_TRIES):
            # Another container of the pod that ends now removes the parent if it is empty.
            with contextlib.suppress(FileExistsError):
                os.mkdir(above, 0o700)
            try:
                os.mkdir(folder, 0o700)
                break
            except FileNotFoundError:
                continue
        if isinstance(ids, tuple):
            os.chmod(above, 0o711)
            os.chown(folder, ids[0], ids[1], follow_symlinks=False)

    def remove_folder(self) -> None:
        """Remove the folder of the container if it is empty, and its parent likewise."""
        folder = self.request["folder"]
        assert isinstance(folder, bytes)
        if folder and not self.once:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
                os.rmdir(os.path.dirname(folder))

    def fence(self) -> None:
        """Create the cgroup, with its limits."""
        if not self.cgroup:
            return
        os.makedirs(self.cgroup, 0o755, exist_ok=True)
        limits = self.request["cgroup_limits"]
        assert isinstance(limits, dict)
        for name, value in limits.items():
            with open(f"{self.cgroup}/{name}", "w") as file:
                file.write(value)

    def unfence(self) -> None:
        """Kill what is left in the cgroup, and remove it; the server finds it again if that fails."""
        if not self.cgroup or self.once:
            return
        for _ in range(CGROUP_TRIES):
            try:
                os.rmdir(self.cgroup)
                return
            except OSError:
                with contextlib.suppress(OSError), open(f"{self.cgroup}/cgroup.kill", "w") as file:
                    file.write("1")
                time.sleep(0.01)

    def launch(self, pipes: tuple[Pipe, ...], wake: int) -> str:
        """Start the command; returns what went wrong, or an empty text."""
        terminal = self.console.terminal
        standard_input = pipes[0].end if terminal else self.console.input_end
        streams = Streams(standard_input, pipes[0].end, pipes[-1].end, terminal)
        self.child, report = start(self.request, self.cgroup, streams)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        problem = self.problem(report, wake)
        os.close(report)
        if problem and self.status is None:
            os.waitpid(self.child, 0)
        if not problem and not self.once:
            self.note(f"running {self.child} {process_start(self.child)} {self.time()}")
        return problem.decode(errors="replace")

    def problem(self, report: int, wake: int) -> bytes:
        """Why the fork could not become the command; empty once it has, or was ended.

        The fork has the rights of its user before it becomes the command, and so its user may stop it.
        """
        due = boot_seconds() + START_SECONDS
        found = b""
        poller = select.poll()
        poller.register(report, select.POLLIN)
        poller.register(wake, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll(min(LOOK_SECONDS, max(0.0, due - boot_seconds())) * 1000)}
            if wake in ready:
                for number in os.read(wake, 512):
                    self.handle_signal(number)
                if self.ending:
                    signal_one(self.child, signal.SIGKILL)
            if report in ready:
                block = os.read(report, 4096)
                if not block:
                    return found
                found += block
            if boot_seconds() >= due:
                signal_one(self.child, signal.SIGKILL)
                return f"the command did not start within {START_SECONDS:.0f} s".encode()

    def follow(self, pipes: tuple[Pipe, ...], wake: int) -> None:
        """Copy output and pass signals on until the command has ended; then end what it left."""
        if "seconds" in self.request:
            self.kill_at = boot_seconds() + float(str(self.request["seconds"]))
        timed_out = False
        while self.status is None:
            # Read once: the follower may read on at any moment, and a wait without a limit would not notice that.
            unread = self.unread()
            waits = self.waits(unread)
            poller = select.poll()
            poller.register(wake, select.POLLIN)
            self.console.register(poller)
            for pipe in pipes:
                if pipe.open and not waits:
                    poller.register(pipe.fd, select.POLLIN)
            # While it waits for its reader, the command blocks as soon as the pipes are full.
            dues = [] if waits else [pipe.due for pipe in pipes if pipe.held]
            now = boot_seconds()
            limits = self.console.dues() + ([] if self.kill_at is None else [self.kill_at])
            dues += [*limits, now + LOOK_SECONDS] if limits else []
            dues += [now + GATE_SECONDS] if waits and unread else []
            events = dict(poller.poll(max(0.0, min(dues) - now) * 1000 if dues else None))
            if self.kill_at is not None and boot_seconds() >= self.kill_at:
                timed_out, self.kill_at = True, None
                self.end_all(signal.SIGKILL)
            if wake in events:
                for number in os.read(wake, 512):
                    self.handle_signal(number)
            self.console.handle(events)
            if self.console.hung_up():
                self.hang_up()
            for pipe in pipes:
                # The previous block may have filled the last file that there is room for.
                if not self.waits(self.unread()):
                    self.copy(pipe, ready=pipe.fd in events)
        self.ending = True
        self.end_rest()
        for pipe in pipes:
            for _ in range(LAST_BLOCKS):
                # Do not wait for processes that have escaped and keep printing.
                if not self.copy(pipe, ready=pipe.open):
                    break
            self.write(pipe, pipe.take(len(pipe.held)))
        with contextlib.suppress(BlockingIOError):
            # At a shutdown the command may get the signal before we do.
            self.terminated |= signal.SIGTERM in os.read(wake, 512)
        self.report_end(timed_out)

    def waits(self, unread: bool) -> bool:
        """Whether the command has to wait for a reader; not while it ends, since it may have to print for that."""
        return not self.ending and (self.console.full or unread)

    def unread(self) -> bool:
        """Whether more output would remove some that the follower has not read."""
        position = self.output.removes()
        return position is not None and self.gate.closed(position)

    def copy(self, pipe: Pipe, *, ready: bool) -> bool:
        """Copy the available output; False if there is none."""
        now = boot_seconds()
        block = pipe.read(now) if ready else None
        self.write(pipe, pipe.overdue(now) if block is None else block)
        return block is not None

    def write(self, pipe: Pipe, block: bytes) -> None:
        """Write some output to the log."""
        if block:
            self.output.take(pipe.stream, block, keep=self.ending and self.unread())
            self.console.send(pipe.stream, block)

    def handle_signal(self, number: int) -> None:
        """Handle a signal."""
        if number == signal.SIGCHLD:
            self.reap()
        elif number == signal.SIGTERM:
            self.ending = self.terminated = True
            self.end_all(signal.SIGTERM)
        elif number == signal.SIGUSR1:
            self.ending = True
            self.end_all(signal.SIGKILL)

    def hang_up(self) -> None:
        """End a command whose last client has left: SIGHUP, and SIGKILL some time later."""
        self.ending = True
        for number in (signal.SIGHUP, signal.SIGCONT):
            self.end_all(number)
        self.kill_at = boot_seconds() + HANGUP_SECONDS

    def reap(self) -> bool:
        """Reap ended children; returns whether any are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == self.child:
                self.status = status
            if not pid:
                return True

    def end_all(self, number: int) -> None:
        """Signal the command and all its descendants, in whatever process group they are."""
        if number == signal.SIGKILL:
            self.kill_tree()
            return
        if self.status is None:
            signal_group(self.child, number)
        for pid, group in descendants(os.getpid()).items():
            if group != self.child:
                signal_one(pid, number)

    def kill_tree(self) -> None:
        """Kill the command and all its descendants."""
        if self.cgroup and not self.once:
            with contextlib.suppress(OSError), open(f"{self.cgroup}/cgroup.kill", "w") as file:
                file.write("1")
        kill_below(os.getpid())

    def end_rest(self) -> None:
        """End what the command left behind."""
        for attempt in range(END_TRIES):
            if not self.reap():
                return
            if attempt % 50 == 0:
                self.kill_tree()
            time.sleep(0.001 if attempt < 50 else 0.02)

    def report_end(self, timed_out: bool) -> None:
        """Record how it ended."""
        assert self.status is not None, "the end is reported only after it was seen"
        self.remove_folder()
        code = os.waitstatus_to_exitcode(self.status)
        number = -code if code < 0 else 0
        code = 128 + number if number else code
        if self.exec:
            self.console.finish(*exited_frame(code))
        elif self.once:
            assert isinstance(self.output, Capture)
            self.send(b"once %d %d " % (code, timed_out) + self.output.text)
        else:
            cause = 1 if self.oom() else 2 if self.terminated else 0
            self.note(f"exited {code} {number} {self.time()} {cause}")
            self.console.finish(*exited_frame(code))

    def oom(self) -> bool:
        """Whether the kernel killed part of it for exceeding its memory limit."""
        if not self.cgroup:
            return False
        try:
            lines = content(f"{self.cgroup}/memory.events").splitlines()
        except OSError:
            return False
        return any(line.startswith(b"oom_kill ") and line.split()[1] != b"0" for line in lines)

    def failed(self, problem: str) -> None:
        """Record that it could not be started."""
        self.remove_folder()
        line = problem.replace("\n", " ")
        if self.exec:
            self.console.finish(FAILED, line.encode(errors="replace"))
        elif self.once:
            self.send(b"once 128 0 " + line.encode(errors="replace"))
        else:
            self.note(f"failed {self.time()} {line}")
            self.console.finish(FAILED, line.encode(errors="replace"))


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, however they have detached themselves."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def supervise(request: Request, boot: str, notices: socket.socket, lock: int, begins: int) -> bool:
    """Supervise one attempt in this process, from beginning to end; returns whether this left nothing behind.

    The lock is released once the attempt is claimed.
    """
    supervisor = Supervisor(request, boot, notices, begins)
    mine = supervisor.claim()
    os.close(lock)
    return mine and supervisor.run()
