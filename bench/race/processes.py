"""What does each process cost? CPU time and peak memory of a session's processes, read from /proc."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Final

from pykueue.base.struct import Frozen

PROC: Final = Path("/proc")
TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
KILOBYTE: Final = 1024

# Places in /proc/PID/stat, counted after the name in parentheses, which may hold anything.
PARENT, SESSION, USER, SYSTEM = 1, 3, 11, 12


class Stat(Frozen):
    """What /proc/PID/stat says of a process."""

    name: str
    parent: int
    session: int
    seconds: float
    """CPU time of all its threads, in user and system mode."""


def read_stat(text: str) -> Stat:
    """A line of /proc/PID/stat, read."""
    before, _, after = text.rpartition(")")
    fields = after.split()
    return Stat(
        before.partition("(")[2],
        int(fields[PARENT]),
        int(fields[SESSION]),
        (int(fields[USER]) + int(fields[SYSTEM])) * TICK,
    )


def stat(pid: int) -> Stat | None:
    """What is known of a process; None when it is gone."""
    try:
        return read_stat((PROC / str(pid) / "stat").read_text())
    except (OSError, ValueError, IndexError):
        return None


def read_peak(text: str) -> int:
    """The peak memory in /proc/PID/status, in bytes; 0 when it names none, as for a process that has ended."""
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * KILOBYTE
    return 0


def peak(pid: int) -> int:
    """The most memory a process has had resident so far, in bytes; 0 when it is gone."""
    try:
        return read_peak((PROC / str(pid) / "status").read_text())
    except OSError:
        return 0


def read_busy(text: str) -> float:
    """CPU seconds that all cores together have spent on anything, from /proc/stat."""
    user, nice, system, _idle, _waiting, hard, soft, *_ = map(int, text.split("\n", 1)[0].split()[1:])
    return (user + nice + system + hard + soft) * TICK


def busy() -> float:
    """CPU seconds that the machine has spent since its start, whoever asked for them."""
    return read_busy((PROC / "stat").read_text())


def everyone() -> dict[int, Stat]:
    """All processes there are."""
    pids = (int(name) for name in os.listdir(PROC) if name.isdigit())
    return {pid: found for pid in pids if (found := stat(pid))}


def children(parent: int) -> dict[int, Stat]:
    """The processes that one started itself."""
    return {pid: found for pid, found in everyone().items() if found.parent == parent}


def end_session(leader: subprocess.Popen[bytes]) -> None:
    """Leave no process of a session behind; those that a killed parent orphaned belong to the session too."""
    while left := [pid for pid, found in everyone().items() if found.session == leader.pid]:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Until its parent has asked for its exit code, a process is still listed.
        leader.poll()
        sleep(0.01)
