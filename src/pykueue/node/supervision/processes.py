"""Processes in /proc: how to identify, find and signal them.

Supervisors use this too, so it imports next to nothing.
"""

import contextlib
import os
import signal
from collections.abc import Container
from typing import Final

ROUNDS_MAX: Final = 100
"""How often descendants are looked for: some may fork for ever."""
SMALL_BYTES: Final = 4096
MARK: Final = "PYKUEUE_ATTEMPT"
"""The environment variable that marks all processes of an attempt, unless they remove it."""


def process_start(pid: int) -> int:
    """When a process started, in ticks since boot; 0 if it is gone or a zombie.

    Together with the pid it identifies a process.
    """
    try:
        fields = content(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == b"Z" else int(fields[19])


def content(path: str) -> bytes:
    """The content of a small file of the kernel."""
    # `open` would touch more memory, and each page that a fork touches is copied.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, SMALL_BYTES)
    finally:
        os.close(handle)


def boot_id() -> str:
    """The id of this boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def descendants(root: int, but: Container[int] = ()) -> dict[int, int]:
    """All descendants of a process, each with its process group; without some children and what is below them."""
    children: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z":
                children.setdefault(int(fields[1]), []).append((int(name), int(fields[2])))
    found: dict[int, int] = {}
    rest = [root]
    while rest:
        for pid, group in children.get(rest.pop(), ()):
            if pid not in but:
                found[pid] = group
                rest.append(pid)
    return found


def kill_below(root: int, but: Container[int] = ()) -> int:
    """Kill these descendants of a process: stop all first, so that none forks while others die; returns how many.

    Processes that fork and exit faster than they are found escape it; only a cgroup ends those.
    """
    stopped: set[int] = set()
    for _ in range(ROUNDS_MAX):
        fresh = descendants(root, but).keys() - stopped
        if not fresh:
            break
        for pid in fresh:
            signal_one(pid, signal.SIGSTOP)
        stopped |= fresh
    for pid in stopped:
        signal_one(pid, signal.SIGKILL)
    return len(stopped)


def signal_one(pid: int, number: int) -> None:
    """Signal a process, if it exists."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def signal_group(group: int, number: int) -> None:
    """Signal a process group, if it exists."""
    with contextlib.suppress(OSError):
        os.killpg(group, number)


def end_marked(key: str) -> int:
    """Kill all processes marked with an attempt that has no supervisor; returns how many."""
    mark = f"{MARK}={key}".encode()
    ended = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    signal_one(int(name), signal.SIGKILL)
                    ended += 1
    return ended
