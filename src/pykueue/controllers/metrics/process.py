"""Metrics of the process: those from /proc, under the names that all exporters use, and its version."""

import os
import platform
import resource
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from pykueue.controllers.metrics.exposition import head, number, pairs, start

PROC: Final = Path("/proc")


def write(lines: list[str], proc: Path = PROC) -> None:
    """Add the known values; nothing on a system without /proc."""
    try:
        found = tuple(readings(proc))
    except (OSError, ValueError, IndexError):
        return
    for name, kind, text, value in found:
        lines.append(head(name, kind, text))
        lines.append(f"{name} {number(value)}")


def readings(proc: Path) -> Iterator[tuple[str, str, str, float]]:
    """Name, kind, help and value of each."""
    own = proc / "self"
    # The second field is a name that may contain anything; the third is the first after its closing parenthesis.
    fields = (own / "stat").read_text(errors="replace").rpartition(")")[2].split()
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    used = (int(fields[11]) + int(fields[12])) / ticks
    yield "process_cpu_seconds_total", "counter", "Used CPU time, in seconds.", used
    boot = next((line for line in (proc / "stat").read_text().splitlines() if line.startswith("btime ")), "")
    began = int(boot.split()[1]) + int(fields[19]) / ticks
    yield "process_start_time_seconds", "gauge", "Start time, in seconds since the Unix epoch.", began
    yield "process_virtual_memory_bytes", "gauge", "Address space, in bytes.", int(fields[20])
    yield "process_resident_memory_bytes", "gauge", "Memory, in bytes.", int(fields[21]) * page
    yield "process_open_fds", "gauge", "Open files and connections.", len(os.listdir(own / "fd"))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    infinite = most == resource.RLIM_INFINITY
    yield "process_max_fds", "gauge", "Limit of open files and connections.", float("inf") if infinite else most


def build_info() -> tuple[str, str]:
    """The version and build of this program, in Kueue's labels."""
    try:
        ours = f"v{version('pykueue')}"
    except PackageNotFoundError:
        ours = "unknown"
    labels = {
        "git_version": ours,
        "git_commit": "",
        "build_date": "",
        "go_version": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{platform.machine()}",
    }
    name = "kueue_build_info"
    return head(name, "gauge", "Version and build of this program."), start(name, pairs(labels, labels.values())) + "1"
