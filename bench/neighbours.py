"""Measure what one user's load does to another's latency: requests and Jobs of one, alone and beside the other's.

The loud user sends requests as fast as they are answered, from a process of its own: it creates ConfigMaps and Jobs,
and lists and watches all ConfigMaps, on as many connections as it has workers. Latency is measured by the CPU clock of
the server: how much it works between a request and its response. A busy machine or disk does not change that. The
figures are ratios of two medians of one run.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, NamedTuple

import msgspec
import uvloop

from bench.floors import Floor, Result
from bench.upserver import CONFIG_MAPS, Server, job, serving
from pykueue.apiserver.auth.users import Users
from pykueue.app.machine import token_in
from pykueue.base.clock import SystemClock
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.kubeconfig import connection
from pykueue.kube.port import CLUSTER_QUEUES, JOBS
from pykueue.node.setup.accounts import Account

LOUD: Final = "loud"
CREATORS: Final = 64
SUBMITTERS: Final = 4
LISTERS: Final = 4
WATCHERS: Final = 4
ROUNDS: Final = 40
PAUSE_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 0.002

GET: Final = Floor("get beside load", "times", 30, "a user's GET, beside another's load and alone")
POST: Final = Floor("post beside load", "times", 30, "a user's POST, beside another's load and alone")
RUN: Final = Floor("run beside load", "times", 12, "from a user's Job to its process, beside another's load and alone")


class Took(NamedTuple):
    """The milliseconds that the server works in each round."""

    get: list[float]
    post: list[float]
    run: list[float]


def config_map(name: str) -> bytes:
    """A small object."""
    metadata = {"name": name, "namespace": "default"}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})


async def quiet(server: Server, folder: Path, prefix: str) -> Took:
    """The latencies of a user who does one thing after the other."""
    kube = server.kube()
    took = Took([], [], [])
    try:
        for number in range(ROUNDS):
            start = server.work_seconds()
            await kube.get(CLUSTER_QUEUES, "bench")
            took.get.append((server.work_seconds() - start) * 1000)
            await asyncio.sleep(PAUSE_SECONDS)
            start = server.work_seconds()
            await kube.create(CONFIG_MAPS, config_map(f"{prefix}-{number}"), "default")
            took.post.append((server.work_seconds() - start) * 1000)
            await asyncio.sleep(PAUSE_SECONDS)
            file = folder / f"{prefix}-{number}"
            start = server.work_seconds()
            await kube.create(JOBS, job(f"{prefix}-{number}", ["/usr/bin/touch", str(file)]), "default")
            while not file.exists():
                await asyncio.sleep(LOOK_SECONDS)
            took.run.append((server.work_seconds() - start) * 1000)
            await asyncio.sleep(PAUSE_SECONDS)
    finally:
        await kube.close()
    return took


async def load(file: str) -> None:
    """Send requests as fast as they are answered, until the process is killed."""
    kube = HttpKube(connection(file), SystemClock(), agent="bench")
    numbers = iter(range(1_000_000_000))

    async def create() -> None:
        for number in numbers:
            await kube.create(CONFIG_MAPS, config_map(f"{LOUD}-{number}"), "default")

    async def submit() -> None:
        for number in numbers:
            # Its queue does not exist, so it stays pending.
            tree = job(f"{LOUD}-{number}", ["true"]).replace(b'queue-name":"bench"', b'queue-name":"none"')
            await kube.create(JOBS, tree, "default")

    async def enumerate_all() -> None:
        while True:
            async for _ in kube.pages(CONFIG_MAPS, "default"):
                pass

    async def watch() -> None:
        while True:
            async for _ in kube.watch(CONFIG_MAPS, "default"):
                pass

    print("begins", flush=True)
    work = [create] * CREATORS + [submit] * SUBMITTERS + [enumerate_all] * LISTERS + [watch] * WATCHERS
    await asyncio.gather(*(one() for one in work))


@contextlib.contextmanager
def loud(file: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The load of a user until the end of the block."""
    command = [sys.executable, "-m", "bench.neighbours", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the load did not begin"
            yield process
        finally:
            process.kill()


def neighbours() -> list[Result]:
    """A user's latency beside another's load, as multiples of the latency alone."""
    with TemporaryDirectory(prefix="bench-neighbours-") as parent:
        folder = Path(parent)
        data = folder / "data"
        data.mkdir(mode=0o700)
        token = Users(data).add(LOUD, role="admin", os_user=Account.of_this_process().name)
        with serving(data) as server:
            alone = uvloop.run(quiet(server, folder, "alone"))
            file = folder / "loud.kubeconfig"
            admin = data / "kubeconfig"
            file.write_text(admin.read_text().replace(token_in(admin), token))
            with loud(file) as process:
                before, began = server.cpu_seconds(), perf_counter()
                beside = uvloop.run(quiet(server, folder, "beside"))
                busy = (server.cpu_seconds() - before) / (perf_counter() - began) * 100
                assert process.poll() is None, "the load ended"
    results = []
    for floor, fast, slow in zip((GET, POST, RUN), alone, beside, strict=True):
        note = f"{median(slow):.1f} and {median(fast):.1f} ms of work; the server used {busy:.0f} % of a core"
        results.append(Result(floor, median(slow) / median(fast), 1, note))
    return results


if __name__ == "__main__":
    uvloop.run(load(sys.argv[1]))
