"""How does a test run a program beside itself so that nothing is left when the test is gone?

A `Program` runs in a session of its own, writes its log to a file, and dies with whoever started it: at exit, at a
signal, and by the kernel's own hand when the starter is killed outright.
"""

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
"""Put before a command (setpriv is part of util-linux): the kernel kills it when the thread that started it ends."""

RUNNING: "list[Program]" = []


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now, each another one."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


class Program:
    """A program that runs until it is stopped, with its log in a file."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self.began = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                [*DIE_WITH_PARENT, *(str(word) for word in command)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        RUNNING.append(self)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def alive(self) -> bool:
        return self.popen.poll() is None

    def tail(self, lines: int = 30, about: str = "") -> str:
        """The last lines of its log; only those with `about` in them where that is given."""
        with self.log.open("rb") as file:
            file.seek(self.began)
            text = file.read().decode(errors="replace")
        chosen = [line for line in text.splitlines() if about in line]
        return "\n".join(chosen[-lines:])

    def logged(self) -> str:
        """Everything it has written since it started."""
        with self.log.open("rb") as file:
            file.seek(self.began)
            return file.read().decode(errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal to the program and whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, number)

    def stop(self, timeout: float = 10.0) -> float:
        """Seconds from SIGTERM to its end; killed, with an error, when it does not end in time."""
        start = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            self.popen.send_signal(signal.SIGTERM)
        try:
            self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {timeout} s of SIGTERM:\n{self.tail()}") from None
        took = time.monotonic() - start
        self.kill()
        return took

    def kill(self) -> None:
        """End it and its children at once."""
        self.signal(signal.SIGKILL)
        self.popen.wait()
        if self in RUNNING:
            RUNNING.remove(self)

    def kept_waiting(self) -> float:
        """Seconds for which it was ready to run and the processors were busy with others."""
        waits = [file.read_text().split()[1] for file in Path(f"/proc/{self.pid}/task").glob("*/schedstat")]
        return max((int(wait) for wait in waits), default=0) / 1e9

    def cpu_seconds(self) -> float:
        """Processor time it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kill_all() -> None:
    """End every program that this process started and has not stopped."""
    for program in list(reversed(RUNNING)):
        program.kill()


def ended(number: int, _frame: FrameType | None) -> None:
    # pytest and others clean up on SystemExit and KeyboardInterrupt, not on a SIGTERM that nobody handles.
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def stop_on_signals() -> None:
    """Have SIGTERM and SIGHUP end this process in an orderly way, so that everything is stopped."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended)


atexit.register(kill_all)
