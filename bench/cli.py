"""Measure the command line: `python -m bench.cli` times commands against a server, in CPU time of the command alone."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from time import sleep
from typing import Final

import uvloop

from bench import kernel
from bench.finishedrecords import RECORDS, recorded
from bench.floors import Floor, Result, run
from bench.machine import at_once
from bench.simulation import JOBS as SIMULATED
from bench.simulation import SHAPES, simulating
from bench.upserver import Server, serving
from bench.waitingjobs import waiting
from pykueue.kube.port import JOBS

FEW: Final = 1_000
MANY: Final = 10_000
RUNS: Final = 3
CHANGES_PER_SECOND: Final = 10
WATCH_SECONDS: Final = 20.0

HELP: Final = Floor("help", "CPU s", 0.15, "`pykueue --help`", scales=True)
ASK: Final = Floor("ask", "CPU s", 0.3, "a command that asks the server: `pykueue jobs` without jobs", scales=True)
JOBS_FEW: Final = Floor(f"jobs, {FEW:,}", "CPU s", 0.5, f"`pykueue jobs` of {FEW:,} that wait", scales=True)
JOBS_MANY: Final = Floor(f"jobs, {MANY:,}", "CPU s", 3, f"`pykueue jobs` of {MANY:,} that wait", scales=True)
REPORT: Final = Floor("report", "CPU s", 5, f"`pykueue report` of {RECORDS:,} finished jobs", scales=True)
WATCH: Final = Floor(
    "watch", "% of a core", 10, f"`jobs --watch` of {MANY:,}, {CHANGES_PER_SECOND} changes a second", scales=True
)

SIMULATE_WHY: Final = f"`pykueue simulate` of {SIMULATED:,} jobs of {SHAPES} pod templates in "


def command(*words: str) -> list[str]:
    """A command of ours."""
    return [sys.executable, "-m", "pykueue", *words]


def cpu_seconds(*words: str) -> float:
    """CPU seconds of a command: the least of some runs."""
    return min(spent(subprocess.Popen(command(*words), stdout=subprocess.DEVNULL)) for _ in range(RUNS))


def spent(popen: "subprocess.Popen[bytes]") -> float:
    """CPU seconds of a process, when it has ended."""
    _, status, usage = os.wait4(popen.pid, 0)
    popen.returncode = os.waitstatus_to_exitcode(status)
    assert popen.returncode == 0, f"{popen.args!r} failed"
    return usage.ru_utime + usage.ru_stime


async def fill(server: Server, first: int, count: int) -> None:
    """Submit Jobs that wait."""
    kube = server.kube()
    try:
        await at_once(count, lambda number: kube.create(JOBS, waiting(f"waits-{first + number}"), "default"))
    finally:
        await kube.close()


async def change(server: Server) -> None:
    """Submit and delete Jobs, so many a second."""
    kube = server.kube()
    try:
        for number in range(int(WATCH_SECONDS * CHANGES_PER_SECOND) // 2):
            await kube.create(JOBS, waiting(f"change-{number}"), "default")
            await asyncio.sleep(1 / CHANGES_PER_SECOND)
            await kube.delete(JOBS, f"change-{number}", "default", propagation="Background")
            await asyncio.sleep(1 / CHANGES_PER_SECOND)
    finally:
        await kube.close()


def starts() -> list[Result]:
    """How long commands take that do next to nothing."""
    before = kernel.seconds()
    helped = cpu_seconds("--help")
    with serving() as server:
        asked = cpu_seconds("jobs", f"--data={server.folder}")
    slow = kernel.slowness(before)
    note = f"the least of {RUNS}"
    return [Result(HELP, helped, slow, note), Result(ASK, asked, slow, note)]


def jobs() -> list[Result]:
    """How long it takes to list jobs, and to watch them."""
    before = kernel.seconds()
    with serving() as server:
        where = f"--data={server.folder}"
        uvloop.run(fill(server, 0, FEW))
        sleep(2)
        few = cpu_seconds("jobs", where)
        uvloop.run(fill(server, FEW, MANY - FEW))
        sleep(2)
        many = cpu_seconds("jobs", where)
        work = server.work_seconds()
        watching = subprocess.Popen(command("jobs", "--watch", where), stdout=subprocess.DEVNULL)
        uvloop.run(change(server))
        watching.send_signal(signal.SIGINT)
        share = max(0.0, spent(watching) - many) / WATCH_SECONDS * 100
        served = (server.work_seconds() - work) / WATCH_SECONDS * 100
    slow = kernel.slowness(before)
    note = f"the least of {RUNS}"
    return [
        Result(JOBS_FEW, few, slow, note),
        Result(JOBS_MANY, many, slow, note),
        Result(WATCH, share, slow, f"over {WATCH_SECONDS:.0f} s, without the first list; the server {served:.0f} %"),
    ]


def report() -> list[Result]:
    """How long a report takes of all finished jobs that a server keeps."""
    before = kernel.seconds()
    with serving(recorded()) as server:
        page = server.folder / "report.html"
        took = cpu_seconds("report", f"--data={server.folder}", "--since=90d", f"--output={page}")
        size = page.stat().st_size / 1e3
    return [Result(REPORT, took, kernel.slowness(before), f"the least of {RUNS}; a page of {size:,.0f} KB")]


def simulate() -> list[Result]:
    """How many jobs a simulation reads, runs and reports in a second of CPU time, the start of the command included."""
    before = kernel.seconds()
    found = simulating(cpu_seconds)
    slow = kernel.slowness(before)
    return [
        Result(
            Floor(f"simulate, {form}", "jobs/CPU s", 2_000, f"{SIMULATE_WHY}{form}", at_least=True, scales=True),
            SIMULATED / took,
            slow,
            f"{took:.2f} CPU s, the least of {RUNS}",
        )
        for form, took in found.items()
    ]


MEASURES: Final[dict[str, Callable[[], list[Result]]]] = {
    "starts": starts,
    "jobs": jobs,
    "report": report,
    "simulate": simulate,
}


if __name__ == "__main__":
    sys.exit(run("bench.cli", "Time commands against their floors.", MEASURES, sys.argv[1:]))
