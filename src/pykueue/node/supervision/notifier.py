"""Run a job's notification command when the job starts and ends, from a process beside its supervisor.

The fork server forks it together with the supervisor. It reads the record of the attempt, so a notification that fails
or hangs affects neither the job nor its record. The command runs like the job: same user, environment, directory and
limits, in a cgroup of its own. It ends at most `SECONDS` after the supervisor.
"""

import contextlib
import os
import select
import signal
import socket
from typing import Final

from pykueue.node.supervision.command import Request
from pykueue.node.supervision.followers import boot_seconds
from pykueue.node.supervision.supervisor import RECORD, Supervisor

EVENT: Final = "event"
"""The file beside the record in which the server writes `PREEMPTED` before it stops an evicted job."""
PREEMPTED: Final = b"preempted"
SECONDS: Final = 30.0
"""How long a notification command may run."""
EARLIER_SECONDS: Final = 10.0
"""How long the command for the start of a job may continue after its end."""
LOOK_SECONDS: Final = 0.01
LOOK_SECONDS_MAX: Final = 0.2
START_ERROR: Final = b"128"


class Notifier:
    """Notifies about one attempt."""

    def __init__(self, request: Request, boot: str, notices: socket.socket, supervisor: int, done: int) -> None:
        self.request = request
        self.boot = boot
        self.notices = notices
        self.supervisor = supervisor
        self.done = done
        """The end of a pipe that is closed when the supervisor has ended."""
        self.key = str(request["key"])
        self.child = 0
        """The process that notifies about the start, while it runs."""

    def run(self) -> None:
        """Notify about the start and the end of the attempt; about nothing if another supervisor has it."""
        record = self.begun()
        if record is None:
            return
        event = os.open(f"{self.key}/{EVENT}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if has_line(record, b"running"):
            self.notify_start()
        wait(self.done)
        end = boot_seconds()
        self.reap(end + EARLIER_SECONDS)
        which = "preempted" if os.pread(event, len(PREEMPTED), 0) == PREEMPTED else "ended"
        self.notify(which, exit_code(record), SECONDS - (boot_seconds() - end))

    def begun(self) -> int | None:
        """Wait for the start of the command; the record, opened, or None if this supervisor did not claim the attempt.

        An open file can be read even if the pod is deleted meanwhile.
        """
        pause, record = LOOK_SECONDS, None
        while True:
            over = wait(self.done, pause)
            with contextlib.suppress(OSError):
                record = record or os.open(f"{self.key}/{RECORD}", os.O_RDONLY | os.O_CLOEXEC)
                words = content(record).split(None, 2)
                if len(words) > 1 and words[1] != b"%d" % self.supervisor:
                    return None
                if over or has_line(record, b"running"):
                    return record
            if over:
                return None
            pause = min(LOOK_SECONDS_MAX, pause * 1.3)

    def notify_start(self) -> None:
        """Notify about the start while the job runs."""
        self.child = os.fork()
        if not self.child:
            try:
                self.notify("started", b"", SECONDS)
            finally:
                os._exit(0)
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(self.child)
            if wait(handle, but=self.done):
                os.waitpid(self.child, 0)
                self.child = 0
            os.close(handle)

    def reap(self, due: float) -> None:
        """Wait for that process, and end it when its time is over."""
        if not self.child:
            return
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(self.child)
            if not wait(handle, max(0.0, due - boot_seconds())):
                # Tells it to kill its command.
                os.kill(self.child, signal.SIGUSR1)
            os.close(handle)
        with contextlib.suppress(OSError):
            os.waitpid(self.child, 0)

    def notify(self, which: str, code: bytes, seconds: float) -> None:
        """Run the command for one event."""
        request = self.request
        what, env, cwd = request["notify"], request["env"], request["cwd"]
        assert isinstance(what, tuple)
        assert isinstance(env, dict)
        assert isinstance(cwd, bytes)
        argv, more = what
        cgroup = str(request.get("cgroup") or "")
        told = {b"PYKUEUE_EVENT": which.encode(), b"PYKUEUE_EXIT_CODE": code}
        one = Supervisor(
            {
                **request,
                "argv": argv,
                "env": {**env, **more, **told},
                # The working directory of a pod is removed at its end if it is empty.
                "cwd": cwd if os.path.isdir(cwd) else b"/",
                "cgroup": f"{cgroup}-{which}" if cgroup else "",
                "once": True,
                "seconds": seconds,
            },
            self.boot,
            self.notices,
        )
        one.run()
        # Only the cgroup of a container is removed by its own supervisor.
        one.once = False
        one.unfence()


def wait(fd: int, seconds: float | None = None, *, but: int | None = None) -> bool:
    """Wait until a descriptor is ready, or another one; returns whether the first is."""
    poller = select.poll()
    for one in (fd, but):
        if one is not None:
            poller.register(one, select.POLLIN)
    ready = poller.poll(None if seconds is None else seconds * 1000)
    return any(one == fd for one, _ in ready)


def content(record: int) -> bytes:
    """The content of a record."""
    return os.pread(record, 1 << 16, 0)


def has_line(record: int, word: bytes) -> bool:
    """Whether a record has a line that begins with this word."""
    return b"\n" + word + b" " in content(record)


def exit_code(record: int) -> bytes:
    """The exit code in a record; empty if the supervisor was killed before it knew."""
    for line in content(record).splitlines():
        words = line.split()
        if words[:1] == [b"exited"]:
            return words[1]
        if words[:1] == [b"failed"]:
            return START_ERROR
    return b""
