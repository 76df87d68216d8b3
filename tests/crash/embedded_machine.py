"""Which processes does a run on one machine have? The server, killed and started again, and what it started itself."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.crash.embedded_load import MARK
from tests.plane.client import Client, Late
from tests.plane.process import Program

READY_SECONDS = 60
ATTEMPT = b"PYKUEUE_ATTEMPT="
FLAGS = ("--cpus", "16", "--memory", "64Gi", "--gpus", "0", "--on-stop", "terminate", "--log-level", "info")


class Machine:
    """A data folder, and the server on it."""

    def __init__(self, folder: Path, logs: Path, flags: tuple[str, ...] = ()) -> None:
        self.data = folder / "data"
        self.flags = (*FLAGS, *flags)
        self.diary = folder / "diary"
        self.log = logs / "up.log"
        self.out = logs / "up.out"
        self.server: Program | None = None
        self.starts = 0
        self.began = 0.0
        self.ended: list[str] = []
        """What servers that ended by themselves said last."""
        self.ready_seconds: dict[int, float] = {}
        """How long it took to be up, by the number of the start."""

    def start(self) -> None:
        """Start a server, on the port of last time."""
        self.starts += 1
        port = () if (self.data / "up.json").exists() else ("--port", "0")
        command = [sys.executable, "-m", "pykueue", "up", "--data", str(self.data), "--log-file", str(self.log)]
        self.server = Program("up", [*command, *self.flags, *port], self.out)
        self.began = time.monotonic()

    def kill(self) -> None:
        """End the server, and nothing else, at once."""
        server = self.running()
        if not server.alive():
            self.ended.append(f"exit code {server.popen.returncode}: {server.tail(5)}")
        server.kill()

    def running(self) -> Program:
        assert self.server is not None, "a server has been started"
        return self.server

    def up(self) -> bool:
        """Whether the server says that it is up."""
        with contextlib.suppress(OSError, ValueError):
            return bool(json.loads((self.data / "up.json").read_text())["pid"] == self.running().pid)
        return False

    def mend(self) -> None:
        """Start a server anew that has ended by itself."""
        if not self.running().alive():
            self.kill()
            self.start()

    def await_up(self) -> float:
        """Seconds from the latest start until the server was found to be up."""

        def ready() -> bool:
            self.mend()
            return self.up()

        if not Client.soon(ready, READY_SECONDS):
            raise Late(f"it is not up after {READY_SECONDS} s:\n{self.running().tail()}")
        return self.ready_seconds.setdefault(self.starts, time.monotonic() - self.began)

    def down(self) -> float:
        """Seconds that `pykueue down` takes."""
        start = time.monotonic()
        command = [sys.executable, "-m", "pykueue", "down", "--data", str(self.data)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise AssertionError(f"pykueue down: exit code {done.returncode}: {done.stderr}")
        self.running().kill()
        return time.monotonic() - start

    def crashes(self) -> list[str]:
        """What the servers' logs tell of errors that nobody expected."""
        text = self.log.read_text() if self.log.exists() else ""
        blocks = text.split("Traceback (most recent call last):\n")[1:]
        # Where the lines of the stack end, which are set in, the error stands.
        return [next(line for line in block.splitlines() if not line.startswith(" ")) for block in blocks]


def living(diary: Path) -> dict[str, list[int]]:
    """The processes that are the command of an attempt, by attempt; all of a run name its diary."""
    name = str(diary).encode()
    found: dict[str, list[int]] = {}
    for pid, environment in environments():
        attempt = next((one[len(ATTEMPT) :].decode() for one in environment if one.startswith(ATTEMPT)), "")
        # A command leads its session, and what it starts does not have its arguments.
        if attempt and leads(pid) and name in command_of(pid):
            found.setdefault(attempt, []).append(pid)
    return found


def left(folder: Path) -> list[str]:
    """All processes that have to do with the run in this folder: those of Jobs, and those who look after them."""
    mark, name = f"{MARK}={folder}".encode(), str(folder).encode()
    found = [(pid, "of a Job") for pid, environment in environments() if mark in environment]
    found += [(pid, "of ours") for pid in numbers() if pid != os.getpid() and name in command_of(pid)]
    return [
        f"process {pid} {whose}: {command_of(pid).replace(bytes(1), b' ').decode(errors='replace')[:200]}"
        for pid, whose in dict(found).items()
    ]


def numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environments() -> list[tuple[int, list[bytes]]]:
    """The environment of every process that may be looked at."""
    found = []
    for pid in numbers():
        with contextlib.suppress(OSError):
            found.append((pid, Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")))
    return found


def leads(pid: int) -> bool:
    """Whether a process leads its session and is no mere zombie."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0] != "Z" and int(fields[3]) == pid
    return False


def command_of(pid: int) -> bytes:
    """A process's command and arguments; nothing when it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
