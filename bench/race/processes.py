"""CPU time and peak memory of a session's processes, read from /proc."""

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

# Positions in /proc/PID/stat, counted after the name in parentheses, which may contain anything.
PARENT, SESSION, USER, SYSTEM = 1, 3, 11, 12


class Stat(Frozen):
    """The fields of /proc/PID/stat."""

    name: str
    parent: int
    session: int
    seconds: float
    """CPU time of all its threads, in user and system mode."""


def read_stat(text: str) -> Stat:
    """Parse a line of /proc/PID/stat."""
    before, _, after = text.rpartition(")")
    fields = after.split()
    return Stat(
        before.partition("(")[2],
        int(fields[PARENT]),
        int(fields[SESSION]),
        (int(fields[USER]) + int(fields[SYSTEM])) * TICK,
    )


def stat(pid: int) -> Stat | None:
    """The state of a process; None if it is gone."""
    try:
        return read_stat((PROC / str(pid) / "stat").read_text())
    except (OSError, ValueError, IndexError):
        return None


def read_peak(text: str) -> int:
    """The peak memory in /proc/PID/status, in bytes; 0 if absent, as for a process that has ended."""
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * KILOBYTE
    return 0


def peak(pid: int) -> int:
    """The peak resident memory of a process so far, in bytes; 0 if it is gone."""
    try:
        return read_peak((PROC / str(pid) / "status").read_text())
    except OSError:
        return 0


class Cores(Frozen):
    """CPU seconds of all cores together since the start of the machine."""

    busy: float
    stolen: float
    """The time for which the hypervisor gave a core to another machine, although this one had work for it."""


def read_cores(text: str) -> Cores:
    """Parse /proc/stat."""
    user, nice, system, _idle, _waiting, hard, soft, stolen, *_ = map(int, text.split("\n", 1)[0].split()[1:])
    return Cores((user + nice + system + hard + soft) * TICK, stolen * TICK)


def cores() -> Cores:
    """CPU seconds of the whole machine so far."""
    return read_cores((PROC / "stat").read_text())


def everyone() -> dict[int, Stat]:
    """All processes."""
    pids = (int(name) for name in os.listdir(PROC) if name.isdigit())
    return {pid: found for pid in pids if (found := stat(pid))}


def children(parent: int) -> dict[int, Stat]:
    """The direct children of a process."""
    return {pid: found for pid, found in everyone().items() if found.parent == parent}


def end_session(leader: subprocess.Popen[bytes]) -> None:
    """End all processes of a session, including those orphaned by a killed parent."""
    while left := [pid for pid, found in everyone().items() if found.session == leader.pid]:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # A process is listed until its parent has read its exit code.
        leader.poll()
        sleep(0.01)
