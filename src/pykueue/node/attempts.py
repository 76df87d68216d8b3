"""Attempts to run a container: their records on disk, as their supervisors wrote them.

Attempts are in `FOLDER/POD-UID/CONTAINER/NUMBER/`: the record, and the log files. The names come from a client, so they
are validated before they become a path.
"""

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from pykueue.base.clock import Clock, instant_of
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, Moment
from pykueue.node.podstatus import LOST, LOST_CODE, LOST_MESSAGE, OOM, Ended, Running, State, Waiting
from pykueue.node.supervision.processes import boot_id, process_start
from pykueue.node.supervision.supervisor import RECORD

UID: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
CANNOT_START: Final = 128
"""The exit code of a command that cannot be started, as in container runtimes."""
AGREE_MICROS: Final = 100_000
"""Two dates that differ by less are treated as one date, read at two moments."""


Dating: TypeAlias = Callable[[str, str], Instant]
"""Converts a time in a record, and its boot, to a date."""


class Process(Frozen):
    """A process, identified beyond its reusable pid."""

    pid: int
    start: int
    boot: str

    def alive(self, boot: str) -> bool:
        """Whether it exists, given the present boot id."""
        return self.boot == boot and self.start != 0 and process_start(self.pid) == self.start


class Attempt(Frozen):
    """The record of an attempt so far."""

    supervisor: Process
    command: Process | None = None
    began: Instant | None = None
    ended: Instant | None = None
    code: int = 0
    signal: int = 0
    oom: bool = False
    terminated: bool = False
    """Whether its supervisor got SIGTERM."""
    problem: str = ""
    """Why it could not be started."""
    pod: str = ""
    """The namespace and name of its pod."""

    @property
    def over(self) -> bool:
        """Whether it has ended, or never began."""
        return self.ended is not None

    def state(self) -> State:
        """The state of the container."""
        if self.ended is None:
            return Waiting() if self.began is None else Running(self.began)
        if self.problem:
            message = f"failed to start: {self.problem}"
            return Ended(CANNOT_START, self.ended, self.ended, "StartError", message)
        reason = OOM if self.oom and self.code else ""
        return Ended(self.code, self.began or self.ended, self.ended, reason, signal=self.signal)


def lost(attempt: Attempt | None, now: Instant) -> Ended:
    """The end of an attempt whose supervisor died without reporting."""
    began = now if attempt is None or attempt.began is None else attempt.began
    return Ended(LOST_CODE, began, now, LOST, LOST_MESSAGE)


def key_of(uid: str, container: str, number: int) -> str:
    """The path of an attempt in the folder; raises `ValueError` for invalid names."""
    return f"{checked(uid)}/{checked(container)}/{number}"


def checked(name: str) -> str:
    """The name, if it is safe as part of a path."""
    if UID.fullmatch(name) is None:
        raise ValueError(f"{name!r} cannot be the name of a folder; use at most 63 of a-z, 0-9 and -")
    return name


def written(time: str, boot: str) -> Instant:
    """The date in a record."""
    return Instant(int(time.partition("@")[0]) // 1000)


def dated(clock: Clock, present: str) -> Dating:
    """How a server reads the times of records: times since the boot are placed by the uptime.

    The server and its supervisors may disagree about the date after the wall clock was set, but never about the uptime.
    """

    def date(time: str, boot: str) -> Instant:
        recorded, uptime = written(time, boot), time.partition("@")[2]
        if not uptime or boot != present:
            return recorded
        found = instant_of(clock, Moment(int(uptime) // 1000))
        return found if abs(found - recorded) >= AGREE_MICROS else recorded

    return date


def learned(before: Attempt | None, line: str, date: Dating = written) -> Attempt | None:
    """The attempt after one more line of its record; a malformed line changes nothing."""
    kind, _, rest = line.partition(" ")
    try:
        match kind:
            case "supervisor":
                pid, start, boot, *pod = rest.split(" ")
                return Attempt(Process(int(pid), int(start), boot), pod=" ".join(pod))
            case "running" if before is not None:
                pid, start, time = rest.split()
                process = Process(int(pid), int(start), before.supervisor.boot)
                return msgspec.structs.replace(before, command=process, began=date(time, process.boot))
            case "failed" if before is not None:
                time, _, problem = rest.partition(" ")
                ended = date(time, before.supervisor.boot)
                return msgspec.structs.replace(before, ended=ended, problem=problem or "unknown")
            case "exited" if before is not None:
                code, number, time, cause = rest.split()
                return msgspec.structs.replace(
                    before,
                    ended=date(time, before.supervisor.boot),
                    code=int(code),
                    signal=int(number),
                    oom=cause == "1",
                    terminated=cause == "2",
                )
    except ValueError:
        pass
    return before


def parse(text: str, date: Dating = written) -> Attempt | None:
    """Parse a record; None if the attempt was never claimed."""
    attempt = None
    # A line without its end is still being written, or never was completed.
    for line in text.split("\n")[:-1]:
        attempt = learned(attempt, line, date)
    return attempt


def read_attempt(folder: Path, key: str, date: Dating = written) -> Attempt | None:
    """Read the record of an attempt; None if it was never claimed."""
    try:
        return parse((folder / key / RECORD).read_text(encoding="utf-8", errors="replace"), date)
    except OSError:
        return None


def claimed(folder: Path, key: str) -> bool:
    """Whether an attempt was claimed, whatever its result."""
    return (folder / key / RECORD).exists()


def pods(folder: Path) -> list[str]:
    """The pods that have files."""
    try:
        return sorted(entry.name for entry in folder.iterdir() if UID.fullmatch(entry.name))
    except FileNotFoundError:
        return []


def numbers(folder: Path, uid: str, container: str) -> list[int]:
    """The attempts of a container that are kept, in order."""
    try:
        entries = (folder / checked(uid) / checked(container)).iterdir()
        return sorted(int(entry.name) for entry in entries if entry.name.isdecimal())
    except (FileNotFoundError, NotADirectoryError):
        return []


def containers(folder: Path, uid: str) -> list[str]:
    """The containers of a pod that have files."""
    try:
        entries = (folder / checked(uid)).iterdir()
        return sorted(entry.name for entry in entries if entry.is_dir() and UID.fullmatch(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return []


class StillRunning(Frozen):
    """A container that runs, with or without a server."""

    pod: str
    """Its namespace and name."""
    uid: str
    container: str
    pid: int


def folder_of(data: Path) -> Path:
    """The folder of attempts in a server's data folder."""
    return data / "pods"


def still_running(data: Path) -> list[StillRunning]:
    """The containers of a data folder that run now."""
    folder, boot = folder_of(data), boot_id()
    found = []
    for uid in pods(folder):
        for container in containers(folder, uid):
            for number in numbers(folder, uid, container):
                attempt = read_attempt(folder, key_of(uid, container, number))
                if attempt is not None and not attempt.over and attempt.supervisor.alive(boot):
                    command = attempt.command or attempt.supervisor
                    found.append(StillRunning(attempt.pod, uid, container, command.pid))
    return found


def drop(folder: Path, uid: str, container: str, *, keep: Iterable[int]) -> None:
    """Remove all attempts of a container except some."""
    kept = set(keep)
    for number in numbers(folder, uid, container):
        if number not in kept:
            shutil.rmtree(folder / key_of(uid, container, number), ignore_errors=True)


def abandoned(attempt: Attempt) -> bool:
    """Whether the supervisor of an attempt died without reporting."""
    return not attempt.over and not attempt.supervisor.alive(boot_id())
