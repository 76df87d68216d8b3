"""One run of Kueue's own harness around one contender, measured from outside."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from time import monotonic, sleep
from typing import Any, Final

import yaml

from bench import kernel
from bench.race import processes
from bench.race.contenders import RIVALS, WORK, Built, Contender
from bench.race.managermetrics import last_page, said
from bench.race.requests import Server, Tally, writes
from bench.race.result import MILLI, Result, read_classes
from bench.race.shapes import Shape, generator, size
from pykueue.base.struct import Frozen

MEMORY: Final = Path("/dev/shm")
LOOK: Final = 0.05
"""Seconds between two readings of the processes."""
LINGER: Final = 300
"""Seconds for which the API server still answers after SIGTERM, in which its figures are read."""
SCRAPE: Final = "5s"
"""How often the harness reads the manager's metrics; setting it enables them."""
PROGRESS: Final = 20
CALIBRATION: Final = 10
"""Seconds between two measurements of the machine's speed, each of which takes a fifth of a second of one core."""
APISERVER: Final = """\
#!/bin/sh
exec {program} "$@" --shutdown-delay-duration={linger}s
"""
KEPT: Final = ("summary.yaml", "*.stats.yaml", "*.csv", "*.log", "profile.txt", "configuration.yaml")


class RaceError(Exception):
    """A run without a result: why, and where to look."""


class Costs(Frozen):
    """CPU seconds spent so far, by process."""

    apiserver: float
    etcd: float
    manager: float
    runner: float
    machine: float
    stolen: float
    """CPU seconds that the hypervisor gave to other machines."""

    def since(self, begin: "Costs") -> "Costs":
        """The CPU seconds spent between two readings."""
        return Costs(
            self.apiserver - begin.apiserver,
            self.etcd - begin.etcd,
            self.manager,
            self.runner - begin.runner,
            self.machine - begin.machine,
            self.stolen - begin.stolen,
        )

    @property
    def others(self) -> float:
        """The CPU seconds of all other processes of the machine."""
        return max(0.0, self.machine - self.apiserver - self.etcd - self.manager - self.runner)


class Seen(Frozen):
    """The measurements while the manager was running."""

    costs: Costs
    memory: int
    requests: Mapping[str, int]
    tally: Tally
    slowness: float
    """How many times slower than the reference the machine was, on average."""
    seconds: float
    """For how long they were measured."""

    @property
    def stolen(self) -> float:
        """The part of all cores' time that the hypervisor gave to other machines."""
        return self.costs.stolen / (self.seconds * (os.cpu_count() or 1))


class Field:
    """The processes of one run: the harness, and those it starts."""

    def __init__(self, runner: int) -> None:
        self.pids = {"runner": runner}
        self.last: dict[str, float] = {}
        self.memory = 0

    def complete(self) -> bool:
        """Whether all of them have started."""
        for pid, found in processes.children(self.pids["runner"]).items():
            # A child before its exec still has the harness's name.
            if found.name != "runner":
                self.pids[{"kube-apiserver": "apiserver", "etcd": "etcd"}.get(found.name, "manager")] = pid
        return len(self.pids) == 4

    def costs(self) -> Costs:
        """Their costs so far; for one that has ended, as last seen."""
        for name, pid in self.pids.items():
            if found := processes.stat(pid):
                self.last[name] = found.seconds
        self.memory = max(self.memory, processes.peak(self.pids["manager"]))
        cores = processes.cores()
        return Costs(**self.last, machine=cores.busy, stolen=cores.stolen)


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder in memory, or on disk if the machine has no tmpfs."""
    with tempfile.TemporaryDirectory(prefix="race-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)


def run(contender: Contender, shape: Shape, built: Built, date: str) -> Result:
    """One run with a control plane of its own; nothing of it keeps running afterwards."""
    kept = WORK / "runs" / shape.name / contender.name
    document = generator(shape, Path(built.tree))
    with scratch() as folder:
        (folder / "tmp").mkdir()
        assets = lingering(Path(built.assets), folder / "assets")
        (folder / "generator.yaml").write_text(yaml.safe_dump(document))
        with (folder / "runner.log").open("wb") as log:
            harness = subprocess.Popen(
                command(contender, shape, built, folder),
                env=os.environ
                | {
                    "TMPDIR": str(folder / "tmp"),
                    "KUBEBUILDER_ASSETS": str(assets),
                    "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT": f"{LINGER}s",
                    "PROJECT_DIR": str(Path(built.tree) / "Makefile"),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            seen = follow(harness, contender, folder)
            return result(contender, shape, date, seen, folder, size(document).workloads)
        except (OSError, RaceError, subprocess.TimeoutExpired) as error:
            raise RaceError(f"{contender.name}: {error}; read {kept}/runner.log") from error
        finally:
            processes.end_session(harness)
            keep(folder, kept)


def command(contender: Contender, shape: Shape, built: Built, folder: Path) -> list[str]:
    """The command line of the harness."""
    options = {
        "minimalKueue": contender.executable,
        "crds": contender.crds,
        "generatorConfig": folder / "generator.yaml",
        "timeout": f"{shape.minutes}m",
        "metricsScrapeInterval": SCRAPE,
        "o": folder,
    }
    return [str(Path(built.tree) / "bin" / "runner"), *(f"--{name}={value}" for name, value in options.items())]


def follow(harness: subprocess.Popen[bytes], contender: Contender, folder: Path) -> Seen:
    """Follow a run until it ends."""
    field = Field(harness.pid)
    while not field.complete():
        must_live(harness)
        sleep(LOOK)
    started = told = measured = monotonic()
    begin = now = field.costs()
    server = Server(folder / "kubeconfig", folder)
    stats = stats_file(folder, contender)
    # Requests that the API server sends to itself during startup are not counted.
    before = requests = server.requests()
    kernels = [kernel.seconds()]
    while not written(stats):
        must_live(harness)
        sleep(LOOK)
        now = field.costs()
        if monotonic() - measured >= CALIBRATION:
            measured = monotonic()
            kernels.append(kernel.seconds())
        if monotonic() - told >= PROGRESS:
            told = monotonic()
            requests = server.requests()
            print(progress(contender, told - started, now.since(begin), field.memory, requests - before), flush=True)
    now, seconds = field.costs(), monotonic() - started
    requests = server.requests()
    tally = server.tally()
    # The harness writes its figures, this file last, and then waits for the API server.
    while not written(folder / "wlStates.csv"):
        must_live(harness)
        sleep(LOOK)
    slowness = mean(kernels) / kernel.REFERENCE
    return Seen(now.since(begin), field.memory, requests - before, tally, slowness, seconds)


def lingering(assets: Path, folder: Path) -> Path:
    """A folder with the executables of a control plane whose API server does not stop at once."""
    folder.mkdir()
    for name in ("etcd", "kubectl"):
        (folder / name).symlink_to(assets / name)
    script = folder / "kube-apiserver"
    script.write_text(APISERVER.format(program=shlex.quote(str(assets / "kube-apiserver")), linger=LINGER))
    script.chmod(0o755)
    return folder


def written(path: Path) -> bool:
    """Whether a file is not empty."""
    return path.exists() and path.stat().st_size > 0


def must_live(harness: subprocess.Popen[bytes]) -> None:
    """Raise an error if the harness has ended."""
    if harness.poll() is not None:
        raise RaceError(f"the harness ended early with exit code {harness.returncode}")


def stats_file(folder: Path, contender: Contender) -> Path:
    """The file to which the harness writes the manager's cost."""
    return folder / f"{Path(contender.executable).name}.stats.yaml"


def progress(contender: Contender, seconds: float, costs: Costs, memory: int, requests: Mapping[str, int]) -> str:
    """A progress line."""
    return (
        f"  {contender.name}: {seconds:4.0f} s, {writes(requests):,.0f} writes; kube-apiserver "
        f"{costs.apiserver:.0f} CPU s, manager {costs.manager:.1f} and {memory / 2**20:,.0f} MB; "
        f"others {costs.others:.0f}"
    )


def result(contender: Contender, shape: Shape, date: str, seen: Seen, folder: Path, workloads: int) -> Result:
    """The result of a run, from our measurements and the harness's output."""
    stats: dict[str, Any] = yaml.safe_load(stats_file(folder, contender).read_text())
    summary: dict[str, Any] = yaml.safe_load((folder / "summary.yaml").read_text())
    classes = read_classes(summary)
    return Result(
        contender=contender.name,
        shape=shape.name,
        date=date,
        wall=stats["wallMs"] / MILLI,
        manager=(stats["userMs"] + stats["sysMs"]) / MILLI,
        apiserver=seen.costs.apiserver,
        etcd=seen.costs.etcd,
        runner=seen.costs.runner,
        others=seen.costs.others,
        memory=seen.memory,
        workloads=workloads,
        unfinished=workloads - seen.tally.finished,
        dropped=summary["droppedWorkloadEvents"],
        classes=classes,
        requests=seen.requests,
        said=None if contender.name in RIVALS else said(last_page(folder)),
        slowness=(seen.slowness,),
        stolen=(seen.stolen,),
    )


def keep(folder: Path, to: Path) -> None:
    """Save the files of a run for inspection."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for pattern in KEPT:
        for path in folder.glob(pattern):
            shutil.copy(path, to / path.name)
