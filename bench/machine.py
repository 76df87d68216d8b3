"""Measure `pykueue up`: creates, jobs from submission to end, arrays, many kept jobs, idle cost, requests, neighbours.

`python -m bench.machine` measures `pykueue up` as a user has it: a process of its own, its file on the disk of the
temporary folder, asked over TLS. `python -m bench.rivals` runs the same jobs through task-spooler and Slurm.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep, time_ns
from typing import Final

import msgspec
import uvloop

from bench import kernel
from bench.arrays import arrays
from bench.floors import Floor, Result, run
from bench.holds import holds
from bench.keptjobs import KEPT, LISTED, filled
from bench.neighbours import neighbours
from bench.upserver import CONFIG_MAPS, NARROW, NARROW_ROOM, QUEUE, Server, job, serving
from pykueue.api.core import KubeObject
from pykueue.apiserver.inprocess import LocalKube
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.storage.store import Store
from pykueue.apiserver.verbs.registry import Registry
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Wire
from pykueue.kube.port import JOBS, Kube, Resource

WRITES: Final = 4_000
IN_FLIGHT: Final = 64
SUBMITTED: Final = 1_000
"""Jobs of one run: twenty seconds at fifty per second."""
SUBMITTED_NARROW: Final = 300
STARTS: Final = 30
IDLE_SECONDS: Final = 20.0

PORT: Final = Floor(
    "port creates", "/s", 2_000, "durable creates by the controllers' way in", at_least=True, scales=True
)
HTTP: Final = Floor(
    "HTTP creates", "/s", 800, "durable creates by one client with 64 in flight", at_least=True, scales=True
)
RATE: Final = Floor("jobs", "/s", 90, "submitted, admitted, run (`true`) and completed", at_least=True, scales=True)
NARROW_RATE: Final = Floor(
    "jobs, full queue",
    "/s",
    30,
    f"the same with quota for {NARROW_ROOM}: each starts when another ends",
    at_least=True,
    scales=True,
)
START: Final = Floor("submit to start", "ms", 25, "median, when nothing else goes on", scales=True)
UP: Final = Floor("up", "CPU s", 5, f"until it says that it is up, {KEPT:,} finished Jobs kept", scales=True)
READ: Final = Floor("read", "CPU s", 20, f"until all is read and Jobs are admitted, {KEPT:,} of them kept", scales=True)
LISTING: Final = Floor("listing", "ms", 300, f"a namespace of {LISTED:,} finished Jobs, of {KEPT:,}")
MEMORY: Final = Floor("kept jobs", "MB", 500, f"resident with {KEPT:,} finished Jobs kept", timed=False)
IDLE: Final = Floor("idle", "% of a core", 0.5, f"nothing to do, {KEPT:,} finished Jobs kept")


class Event(Wire):
    """The fields of a watch event that are read here."""

    type: str
    object: KubeObject


def config_map(number: int) -> bytes:
    """An object of typical size."""
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"one-{number}", "namespace": "default", "labels": {"app": "bench"}},
            "data": {f"key-{index}": "value " * 8 for index in range(16)},
        }
    )


async def at_once(count: int, do: Callable[[int], Awaitable[object]], width: int = IN_FLIGHT) -> float:
    """Seconds for a number of calls with a number of them in flight."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await do(number)

    start = perf_counter()
    await asyncio.gather(*(worker() for _ in range(width)))
    return perf_counter() - start


async def port_creates() -> float:
    """Durable creates a second through the port, on a file."""
    with TemporaryDirectory(prefix="bench-port-") as folder:
        store = Store.open(Path(folder, "data", "pykueue.db"), SystemClock())
        kube: Kube = LocalKube(Registry(store, Catalog(), SystemClock()))
        namespaces = Resource("", "v1", "namespaces", "Namespace")
        await kube.create(namespaces, b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}')
        took = await at_once(WRITES, lambda number: kube.create(CONFIG_MAPS, config_map(number), "default"))
        await store.close()
    return WRITES / took


async def http_creates(server: Server) -> float:
    """Durable creates a second over TLS."""
    kube = server.kube()
    try:
        took = await at_once(WRITES, lambda number: kube.create(CONFIG_MAPS, config_map(number), "default"))
    finally:
        await kube.close()
    return WRITES / took


async def jobs_per_second(server: Server, count: int = SUBMITTED, queue: str = QUEUE) -> float:
    """Jobs per second from the first submission to the last completion."""
    kube = server.kube()
    quick = f"quick-{queue}-"

    async def finished() -> None:
        done = set()
        async for event in kube.watch(JOBS, "default", fields="status.successful=1"):
            found = msgspec.json.decode(event, type=Event)
            name = found.object.metadata.name or ""
            if found.type == "ADDED" and name.startswith(quick):
                done.add(name)
                if len(done) == count:
                    return

    try:
        start = perf_counter()
        await asyncio.gather(
            finished(),
            at_once(count, lambda number: kube.create(JOBS, job(f"{quick}{number}", ["true"], queue), "default"), 16),
        )
        return count / (perf_counter() - start)
    finally:
        await kube.close()


async def starts(server: Server, folder: Path, count: int = STARTS) -> list[float]:
    """Milliseconds from the submission of a job to its first action, on an idle server."""
    kube = server.kube()
    found: list[float] = []
    try:
        for number in range(count):
            file = folder / f"began-{number}"
            command = ["/bin/sh", "-c", 'date +%s%N > "$0.new" && mv "$0.new" "$0"', str(file)]
            begin = time_ns()
            await kube.create(JOBS, job(f"prompt-{number}", command), "default")
            while not file.exists():
                await asyncio.sleep(0.01)
            found.append((int(file.read_text()) - begin) / 1e6)
            await asyncio.sleep(0.3)
    finally:
        await kube.close()
    return found


async def listing(server: Server) -> float:
    """Milliseconds to list the Jobs of one namespace."""
    kube = server.kube()
    took = []
    try:
        for _ in range(5):
            start = perf_counter()
            count = 0
            async for page in kube.pages(JOBS, "kept-0"):
                count += len(msgspec.json.decode(page)["items"])
            took.append((perf_counter() - start) * 1000)
            assert count == LISTED, f"{count} Jobs are listed instead of {LISTED}"
    finally:
        await kube.close()
    return median(took)


def creates() -> list[Result]:
    """How fast objects are created."""
    before = kernel.seconds()
    port = uvloop.run(port_creates())
    with serving() as server:
        over_http = uvloop.run(http_creates(server))
    slow = kernel.slowness(before)
    note = f"{IN_FLIGHT} in flight"
    return [Result(PORT, port, slow, note), Result(HTTP, over_http, slow, f"{note}, TLS")]


def jobs() -> list[Result]:
    """The throughput of jobs, and how soon one starts."""
    before = kernel.seconds()
    with serving() as server, TemporaryDirectory(prefix="bench-began-") as folder:
        waits = uvloop.run(starts(server, Path(folder)))
        rate = uvloop.run(jobs_per_second(server))
        note = f"{SUBMITTED:,} of them; the server took {server.cpu_seconds():.1f} CPU s and {server.memory():.0f} MB"
        narrow = uvloop.run(jobs_per_second(server, SUBMITTED_NARROW, NARROW))
    slow = kernel.slowness(before)
    return [
        Result(RATE, rate, slow, note),
        Result(NARROW_RATE, narrow, slow, f"{SUBMITTED_NARROW} of them in a queue of {NARROW_ROOM} cores"),
        Result(START, median(waits), slow, f"of {STARTS}; from {min(waits):.0f} to {max(waits):.0f} ms"),
    ]


def kept() -> list[Result]:
    """The cost of many finished jobs."""
    slow = kernel.seconds()
    with serving(filled()) as server:
        up = server.cpu_seconds()
        # Exclude the cost of the startup from that of idling.
        settled(server)
        read = server.cpu_seconds()
        took = uvloop.run(listing(server))
        memory = server.memory()
        before = server.cpu_seconds()
        sleep(IDLE_SECONDS)
        share = (server.cpu_seconds() - before) / IDLE_SECONDS * 100
    slow = kernel.slowness(slow)
    return [
        Result(UP, up, slow, "from its start; it reads on"),
        Result(READ, read, slow, "from its start"),
        Result(LISTING, took, 1, "median of five, over TLS, decoded by the client"),
        Result(MEMORY, memory, 1, "the server's process"),
        Result(IDLE, share, 1, f"over {IDLE_SECONDS:.0f} s"),
    ]


def settled(server: Server) -> None:
    """Return when a server has finished its startup reads."""
    before = server.cpu_seconds()
    while True:
        sleep(3)
        now = server.cpu_seconds()
        if now - before < 0.1:
            return
        before = now


MEASURES: Final[dict[str, Callable[[], list[Result]]]] = {
    "creates": creates,
    "jobs": jobs,
    "arrays": arrays,
    "kept": kept,
    "holds": holds,
    "neighbours": neighbours,
}


if __name__ == "__main__":
    sys.exit(run("bench.machine", "Time `pykueue up` against its floors.", MEASURES, sys.argv[1:]))
