"""Run the same jobs through other queues of one machine: task-spooler and Slurm, if they are installed.

`python -m bench.rivals` runs all three in turn and prints jobs a second and the time from submission to start, ours as
ratios to theirs. Debian has them as `task-spooler` and `slurm-wlm`, whose daemons need root here. Slurm is a single
node with its accounting off; its schedulers look again as often as they can be told to.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep, time_ns
from typing import Final

import uvloop

from bench import machine
from bench.upserver import serving
from pykueue.base.struct import Frozen

JOBS: Final = 100
STARTS: Final = 15
PATIENCE_SECONDS: Final = 240.0
STAMP: Final = 'date +%s%N > "$0.new" && mv "$0.new" "$0"'
"""Writes its start time to the given file, atomically."""


class Figures(Frozen):
    """The figures of one queue."""

    name: str
    rate: float
    """Jobs per second, `true` each, from the first submission to the last end."""
    start: float
    """The median of the milliseconds from submission to start on an idle machine."""


def awaited(holds: Callable[[], bool], what: str) -> None:
    """Return when a condition holds."""
    due = perf_counter() + PATIENCE_SECONDS
    while not holds():
        if perf_counter() > due:
            raise RuntimeError(f"{what}: not so after {PATIENCE_SECONDS:.0f} s")
        sleep(0.005)


def measured(name: str, submit: Callable[[list[str]], None], all_done: Callable[[], bool], folder: Path) -> Figures:
    """The figures of a queue whose jobs are submitted by one command each."""
    waits = []
    for number in range(STARTS):
        file = folder / f"{name}-{number}"
        begin = time_ns()
        submit(["/bin/sh", "-c", STAMP, str(file)])
        awaited(file.exists, f"{name} started a job")
        waits.append((int(file.read_text()) - begin) / 1e6)
        sleep(0.2)
    begin_all = perf_counter()
    for _ in range(JOBS):
        submit(["/bin/true"])
    awaited(all_done, f"{name} ended all jobs")
    return Figures(name, JOBS / (perf_counter() - begin_all), median(waits))


def spooled(folder: Path) -> Figures:
    """The figures of task-spooler with a slot for each core."""
    tsp = shutil.which("tsp") or ""
    environment = {**os.environ, "TS_SOCKET": str(folder / "tsp.socket"), "TMPDIR": str(folder)}

    def call(*arguments: str) -> str:
        return subprocess.run([tsp, *arguments], env=environment, check=True, capture_output=True, text=True).stdout

    try:
        call("-S", str(os.cpu_count() or 1))
        call("-C")

        def all_done() -> bool:
            lines = call().splitlines()[1:]
            return all(line.split()[1] == "finished" for line in lines)

        return measured("task-spooler", lambda command: void(call("-n", *command)), all_done, folder)
    finally:
        call("-K")


def void(_value: object) -> None:
    """Nothing."""


def slurmed(folder: Path) -> Figures:
    """The figures of Slurm on one node."""
    with slurm(folder) as environment:

        def call(*command: str) -> str:
            return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

        awaited(lambda: "idle" in call("sinfo", "--noheader", "--format=%t"), "Slurm's node is idle")

        def submit(command: list[str]) -> None:
            script = folder / f"job-{time_ns()}"
            script.write_text('#!/bin/sh\nexec "$@"\n')
            call("sbatch", "--quiet", "--output=/dev/null", str(script), *command)

        return measured("Slurm", submit, lambda: not call("squeue", "--noheader").strip(), folder)


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Slurm's daemons with a configuration of their own, until the end of the block; yields the environment to use."""
    host = socket.gethostname().split(".")[0]
    configuration = folder / "slurm.conf"
    for name in ("state", "spool"):
        (folder / name).mkdir()
    settings = {
        "ClusterName": "bench",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "CredType": "cred/munge",
        "AuthInfo": f"socket={folder / 'munge.socket'}",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd.pid",
        "SlurmctldLogFile": folder / "slurmctld.log",
        "SlurmdLogFile": folder / "slurmd.log",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "sched_interval=1,batch_sched_delay=0,sched_min_interval=1000",
        "MpiDefault": "none",
        "ReturnToService": 2,
        "SlurmctldPort": free_port(),
        "SlurmdPort": free_port(),
    }
    lines = [f"{key}={value}" for key, value in settings.items()]
    lines.append(f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN")
    lines.append(f"PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP")
    configuration.write_text("\n".join(lines) + "\n")
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder / 'munge.socket'}"]
    munge += [f"--pid-file={folder / 'munge.pid'}", f"--seed-file={folder / 'munge.seed'}"]
    munge += [f"--log-file={folder / 'munge.log'}"]
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    with contextlib.ExitStack() as stack:

        def start(command: list[str]) -> None:
            quiet = subprocess.DEVNULL
            popen = subprocess.Popen(command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
            stack.callback(popen.wait)
            stack.callback(popen.terminate)

        start(munge)
        awaited((folder / "munge.socket").exists, "munge is there")
        start(["slurmctld", "-D", "-f", str(configuration)])
        start(["slurmd", "-D", "-f", str(configuration), "-N", host])
        yield environment


def free_port() -> int:
    """An unused port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found: int = taken.getsockname()[1]
    return found


def ours(folder: Path) -> Figures:
    """Our own figures."""
    with serving() as server:
        waits = uvloop.run(machine.starts(server, folder, STARTS))
        rate = uvloop.run(machine.jobs_per_second(server, JOBS))
    return Figures("pykueue", rate, median(waits))


RIVALS: Final[dict[str, tuple[Callable[[Path], Figures], tuple[str, ...], bool]]] = {
    "task-spooler": (spooled, ("tsp",), False),
    "slurm-wlm": (slurmed, ("slurmctld", "slurmd", "sbatch", "munged"), True),
}
"""For each queue: its measurement, the programs it needs, and whether it needs root."""


def main() -> int:
    """Measure every installed queue, and print the figures side by side."""
    with TemporaryDirectory(prefix="bench-rivals-") as place:
        mine = ours(Path(place))
    print(f"{mine.name:<14}{mine.rate:>8.1f} jobs/s{mine.start:>9.1f} ms to start", flush=True)
    for package, (measure, programs, needs_root) in RIVALS.items():
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        absent = [program for program in programs if shutil.which(program, path=path) is None]
        if absent:
            print(f"{package:<14}not installed ({', '.join(absent)}); `apt-get install {package}` brings it")
            continue
        if needs_root and os.geteuid() != 0:
            print(f"{package:<14}not measured: its daemons need root")
            continue
        with TemporaryDirectory(prefix="bench-rivals-") as place:
            theirs = measure(Path(place))
        print(
            f"{theirs.name:<14}{theirs.rate:>8.1f} jobs/s{theirs.start:>9.1f} ms to start; "
            f"ours: {mine.rate / theirs.rate:.2f} times its jobs, {mine.start / theirs.start:.2f} times its start",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
