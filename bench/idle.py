"""Measure how long a Workload waits for its admission on an idle cluster, and compare another commit.

    python -m bench.idle                     this checkout alone
    python -m bench.idle --against COMMIT    and COMMIT, in turns; fails if this one is slower

A real control plane, the manager of each checkout in turn, and one Workload at a time: from the request that creates it
until a watch shows it admitted. Optimisations for a busy cluster must not show here.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any, Final

import msgspec
import uvloop

from bench.provisioning import NAMESPACE, EventSeen, admitted_by, followed, named, workload
from bench.race.contenders import ROOT, split
from pykueue.base.clock import SystemClock
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.kubeconfig import connection
from pykueue.kube.port import WORKLOADS, Kube
from tests.plane.plane import Plane

WORKLOADS_COUNT: Final = 200
TURNS: Final = 8
"""How often each manager is started; the Workloads are divided between its turns."""
AT_MOST: Final = 1.05
"""The most that this commit may take, relative to the other."""
PATIENCE_SECONDS: Final = 60.0
CONFIGURATION: Final = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection:
  leaderElect: false
metrics:
  bindAddress: "0"
health:
  healthProbeBindAddress: "0"
"""
PAUSE_SECONDS: Final = 0.05
"""Between two Workloads, so that the manager is idle again."""


def surroundings() -> list[dict[str, Any]]:
    """A queue with quota for everything."""
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "100k"}]}
    return [
        named("ResourceFlavor", "default", {}),
        named(
            "ClusterQueue",
            "queue",
            {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]},
        ),
        named("LocalQueue", "queue", {"clusterQueue": "queue"}, NAMESPACE),
    ]


@contextmanager
def managing(tree: Path, kubeconfig: Path, folder: Path) -> Iterator[None]:
    """The manager of a checkout, until the block ends."""
    configuration, log = folder / "configuration.yaml", folder / "manager.log"
    configuration.write_text(CONFIGURATION)
    command = [sys.executable, "-m", "pykueue", "manager", "--kubeconfig", str(kubeconfig)]
    command += ["--config", str(configuration)]
    command += ["--controllers", "*,-jobs,-webhooks", "--log-level", "warning", "--no-metrics-secure"]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    with log.open("ab") as out:
        process = subprocess.Popen(command, cwd=tree, env=environment, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


async def until_admitted(events: AsyncIterator[EventSeen], name: str) -> None:
    """Return when the watch shows that a Workload is admitted."""
    async for event in events:
        if admitted_by(event) == name:
            return


async def admissions(kube: Kube, label: str, count: int) -> list[float]:
    """Seconds from creation to admission, one Workload after the other; the first one waits for the manager."""
    found = []
    async with asyncio.timeout(PATIENCE_SECONDS + count), aclosing(followed(kube, WORKLOADS)) as events:
        for number in range(count + 1):
            name = f"{label}-{number}"
            begin = perf_counter()
            await kube.create(WORKLOADS, workload(name, "queue"), NAMESPACE)
            await until_admitted(events, name)
            found.append(perf_counter() - begin)
            await asyncio.sleep(PAUSE_SECONDS)
    return found[1:]


async def turn(kubeconfig: Path, label: str, count: int) -> list[float]:
    """The figures of one turn."""
    kube = HttpKube(connection(str(kubeconfig)), SystemClock(), agent="bench")
    try:
        return await admissions(kube, label, count)
    finally:
        await kube.close()


def crds() -> list[dict[str, Any]]:
    """The definitions of this checkout, without their webhook."""
    command = [sys.executable, "-m", "pykueue", "manifests", "--only", "crds"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return [msgspec.json.decode(text) for _, text in split(done.stdout)]


def measured(trees: dict[str, Path], folder: Path) -> dict[str, list[float]]:
    """Seconds until admission with the manager of each checkout, in turns on one control plane."""
    found: dict[str, list[float]] = {name: [] for name in trees}
    with Plane.start(pods=False) as plane:
        plane.apply_all(crds())
        plane.apply_all(surroundings())
        for number in range(TURNS):
            for name, tree in trees.items():
                with managing(tree, plane.kubeconfig, folder):
                    label = f"{name}-{number}"
                    found[name] += uvloop.run(turn(plane.kubeconfig, label, WORKLOADS_COUNT // TURNS))
            print(f"turn {number + 1} of {TURNS}", flush=True)
    return found


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Another commit's files."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", commit, "src"], check=True, stdout=subprocess.PIPE, cwd=ROOT)
        subprocess.run(["tar", "x", "-C", folder], check=True, input=packed.stdout)
        yield Path(folder)


def line(name: str, seconds: list[float]) -> tuple[float, float]:
    """Print the median and the 95th percentile, and return them."""
    figures = median(seconds), quantiles(seconds, n=20)[-1]
    print(f"{name:<8} median {figures[0] * 1000:6.1f} ms, 95th percentile {figures[1] * 1000:6.1f} ms")
    return figures


def main(arguments: list[str]) -> int:
    """Measure, compare and print."""
    parser = ArgumentParser(prog="python -m bench.idle", description="Time to admission on an idle cluster.")
    parser.add_argument("--against", metavar="COMMIT", help="compare this commit, in turns")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if asked.against is None:
            line("this", measured({"this": ROOT}, Path(folder))["this"])
            return 0
        with checkout(asked.against) as other:
            found = measured({"other": other, "this": ROOT}, Path(folder))
    before, now = line("other", found["other"]), line("this", found["this"])
    ratios = [mine / theirs for mine, theirs in zip(now, before, strict=True)]
    print(f"ratios {ratios[0]:.3f} and {ratios[1]:.3f}, at most {AT_MOST}")
    return 0 if max(ratios) <= AT_MOST else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
