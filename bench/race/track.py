"""How does one contender do? One run of Kueue's own harness around it, measured from outside."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import yaml

from bench.race import processes
from bench.race.contenders import WORK, Built, Contender
from bench.race.requests import Server, Tally, writes
from bench.race.result import MILLI, Result, read_classes
from bench.race.shapes import Shape, generator, size
from pykueue.base.struct import Frozen

MEMORY: Final = Path("/dev/shm")
LOOK: Final = 0.05
"""Seconds between two looks at the processes."""
LINGER: Final = 300
"""Seconds for which the API server still answers once it is told to stop: then it is asked for its figures."""
SCRAPE: Final = "5s"
"""How often the harness reads the manager's metrics; saying so is what turns them on."""
PROGRESS: Final = 20
APISERVER: Final = """\
#!/bin/sh
exec {program} "$@" --shutdown-delay-duration={linger}s
"""
KEPT: Final = ("summary.yaml", "*.stats.yaml", "*.csv", "*.log", "profile.txt", "configuration.yaml")


class RaceError(Exception):
    """A run that came to no result; says why, and where to look."""


class Costs(Frozen):
    """CPU seconds spent so far, by whom."""

    apiserver: float
    etcd: float
    manager: float
    runner: float
    machine: float

    def since(self, begin: "Costs") -> "Costs":
        """What was spent from then to now."""
        return Costs(
            self.apiserver - begin.apiserver,
            self.etcd - begin.etcd,
            self.manager,
            self.runner - begin.runner,
            self.machine - begin.machine,
        )

    @property
    def others(self) -> float:
        """What the machine spent on none of these."""
        return max(0.0, self.machine - self.apiserver - self.etcd - self.manager - self.runner)


class Seen(Frozen):
    """What was measured while the manager lived."""

    costs: Costs
    memory: int
    requests: Mapping[str, int]
    tally: Tally


class Field:
    """The processes of one run: the harness, and those it starts."""

    def __init__(self, runner: int) -> None:
        self.pids = {"runner": runner}
        self.last: dict[str, float] = {}
        self.memory = 0

    def complete(self) -> bool:
        """Whether all of them are there by now."""
        for pid, found in processes.children(self.pids["runner"]).items():
            # A child that has not become its own program yet still has the harness's name.
            if found.name != "runner":
                self.pids[{"kube-apiserver": "apiserver", "etcd": "etcd"}.get(found.name, "manager")] = pid
        return len(self.pids) == 4

    def costs(self) -> Costs:
        """What they have cost so far; of one that is gone, what was last seen of it."""
        for name, pid in self.pids.items():
            if found := processes.stat(pid):
                self.last[name] = found.seconds
        self.memory = max(self.memory, processes.peak(self.pids["manager"]))
        return Costs(**self.last, machine=processes.busy())


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory for as long as a run lasts; on disk where the machine has no such place."""
    with tempfile.TemporaryDirectory(prefix="race-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)


def run(contender: Contender, shape: Shape, built: Built, date: str) -> Result:
    """One run, with a control plane of its own; whatever happens, nothing of it keeps running."""
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
    """How the harness is called."""
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
    """Watch a run until it ends."""
    field = Field(harness.pid)
    while not field.complete():
        must_live(harness)
        sleep(LOOK)
    started = told = monotonic()
    begin = now = field.costs()
    server = Server(folder / "kubeconfig", folder)
    stats = stats_file(folder, contender)
    # What the API server asks of itself while it starts is nobody's.
    before = requests = server.requests()
    while not written(stats):
        must_live(harness)
        sleep(LOOK)
        now = field.costs()
        if monotonic() - told >= PROGRESS:
            told = monotonic()
            requests = server.requests()
            print(progress(contender, told - started, now.since(begin), field.memory, requests - before), flush=True)
    now = field.costs()
    requests = server.requests()
    tally = server.tally()
    # The harness writes its figures, this file last, and waits for the API server then.
    while not written(folder / "wlStates.csv"):
        must_live(harness)
        sleep(LOOK)
    return Seen(now.since(begin), field.memory, requests - before, tally)


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
    """Whether a file has something in it."""
    return path.exists() and path.stat().st_size > 0


def must_live(harness: subprocess.Popen[bytes]) -> None:
    """Raise when the harness has ended."""
    if harness.poll() is not None:
        raise RaceError(f"the harness ended early with exit code {harness.returncode}")


def stats_file(folder: Path, contender: Contender) -> Path:
    """Where the harness writes what the manager cost."""
    return folder / f"{Path(contender.executable).name}.stats.yaml"


def progress(contender: Contender, seconds: float, costs: Costs, memory: int, requests: Mapping[str, int]) -> str:
    """One line for someone who waits."""
    return (
        f"  {contender.name}: {seconds:4.0f} s, {writes(requests):,.0f} writes; kube-apiserver "
        f"{costs.apiserver:.0f} CPU s, manager {costs.manager:.1f} and {memory / 2**20:,.0f} MB; "
        f"others {costs.others:.0f}"
    )


def result(contender: Contender, shape: Shape, date: str, seen: Seen, folder: Path, workloads: int) -> Result:
    """What a run came to, from what we saw and what the harness wrote."""
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
    )


def keep(folder: Path, to: Path) -> None:
    """Save what a run left, for a closer look."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for pattern in KEPT:
        for path in folder.glob(pattern):
            shutil.copy(path, to / path.name)
