"""Measure the store: concurrent durable writes, their cost to the event loop, and a file of many objects.

`python -m bench.store` writes to a file in the temporary folder, or in the one given: the disk under it counts. With
`--large` it also fills a file with as many objects as 100,000 finished Jobs leave, then opens and lists it in a process
of its own, which has nothing of the filling in memory.
"""

import asyncio
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time
from typing import Final

from bench import kernel
from bench.floors import Floor, Result, best, outcome
from pykueue.api.core import Tree
from pykueue.apiserver.storage.store import Key, Store
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen

WRITERS: Final = 64
WRITES: Final = 20_000
OBJECTS: Final = 300_000
PER_NAMESPACE: Final = 1_000
BODY: Final = "x" * 2_600
"""Padding to about 3 KB per object, the size of a finished Job or its Workload."""
KINDS: Final = ("jobs.batch", "workloads.kueue.x-k8s.io", "pods")
MEBIBYTE: Final = 1024 * 1024

CREATES: Final = Floor(
    "store creates", "/s", 8_000, "four times what is asked of a create through the port", at_least=True, scales=True
)
PUT: Final = Floor(
    "store put", "us", 40, "what a write costs the event loop before it is queued, encoding included", scales=True
)
OPENING: Final = Floor("store opening", "ms", 1_000, "`pykueue up` is to be there in two seconds")
LISTING: Final = Floor("store listing", "ms", 50, f"a namespace of {PER_NAMESPACE} of {OBJECTS} objects, not cached")
MEMORY: Final = Floor("store memory", "MB", 80, f"the process that opened and listed {OBJECTS} objects", timed=False)


class Opened(Frozen):
    """The measurements of a process that opened a large file."""

    opening: float
    listing: float
    bytes: int


def tree(key: Key) -> Tree:
    """An object of typical size."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": {"queue": "main", "team": "a"}},
        "spec": {"parallelism": 1, "template": {"spec": {"containers": [{"name": "c", "command": ["true", BODY]}]}}},
    }


async def creates(path: Path, writes: int) -> tuple[float, float]:
    """Creates per second with `WRITERS` in flight at any time, and the seconds of one `put`."""
    store = Store.open(path, SystemClock())
    spent = 0.0

    async def write(writer: int) -> None:
        nonlocal spent
        for number in range(writes // WRITERS):
            key = Key("jobs.batch", f"team-{writer % 8}", f"job-{writer}-{number}")
            body = tree(key)
            start = thread_time()
            on_its_way = store.put(key, body, uid="0")
            spent += thread_time() - start
            await on_its_way

    begin = perf_counter()
    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    seconds = perf_counter() - begin
    done = writes // WRITERS * WRITERS
    assert store.count("jobs.batch") == done
    await store.close()
    return done / seconds, spent / done


async def fill(path: Path) -> None:
    """Write as many objects as 100,000 finished Jobs leave."""
    store = Store.open(path, SystemClock())
    for start in range(0, OBJECTS, WRITERS):
        keys = [
            Key(KINDS[number % len(KINDS)], f"team-{number // (PER_NAMESPACE * len(KINDS))}", f"job-{number}")
            for number in range(start, min(start + WRITERS, OBJECTS))
        ]
        await asyncio.gather(*(store.put(key, tree(key), uid="0") for key in keys))
    await store.close()


async def looked(path: Path) -> Opened:
    """Open a large file and list one namespace of it."""
    begin = perf_counter()
    store = Store.open(path, SystemClock())
    opening = perf_counter() - begin
    begin = perf_counter()
    found = store.page("jobs.batch", f"team-{OBJECTS // (PER_NAMESPACE * len(KINDS)) // 2}")
    listing = perf_counter() - begin
    assert len(found) == PER_NAMESPACE
    await store.close()
    return Opened(opening, listing, most_resident())


def most_resident() -> int:
    """The peak memory of this process in bytes, without what it inherited at its start."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def measured(folder: Path, writes: int) -> list[Result]:
    """The figures of writes to a new file in this folder."""
    before = kernel.seconds()
    with TemporaryDirectory(dir=folder) as place:
        rate, put = asyncio.run(creates(Path(place, "creates.db"), writes))
    slow = kernel.slowness(before)
    return [
        Result(CREATES, rate, slow, f"{writes} objects of 3 KB, {WRITERS} writers, WAL with synchronous=FULL"),
        Result(PUT, put * 1e6, slow, "CPU time of the loop's thread"),
    ]


def measured_large(folder: Path) -> list[Result]:
    """Fill a file in this folder, and open it in another process."""
    with TemporaryDirectory(dir=folder) as place:
        path = Path(place, "large.db")
        asyncio.run(fill(path))
        command = [sys.executable, "-m", "bench.store", "--look", str(path)]
        opening, listing, used = map(float, subprocess.run(command, check=True, capture_output=True).stdout.split())
        size = path.stat().st_size / MEBIBYTE
    return [
        Result(OPENING, opening * 1e3, 1.0, f"{OBJECTS} objects in {size:.0f} MiB"),
        Result(LISTING, listing * 1e3, 1.0, f"{PER_NAMESPACE} objects"),
        Result(MEMORY, used / MEBIBYTE, 1.0, "most resident memory"),
    ]


def main(arguments: list[str]) -> int:
    """Measure and print; returns whether all floors are met."""
    parser = ArgumentParser(prog="python -m bench.store", description="Time the store against its floors.")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder without it")
    parser.add_argument("--writes", type=int, default=WRITES, help=f"how many objects to create; {WRITES} without it")
    parser.add_argument("--large", action="store_true", help=f"also fill and open a file of {OBJECTS} objects")
    parser.add_argument("--look", type=Path, help="open and list a file that was filled; what --large runs by itself")
    options = parser.parse_args(arguments)
    if options.look:
        found = asyncio.run(looked(options.look))
        print(found.opening, found.listing, found.bytes)
        return 0
    with TemporaryDirectory(dir=options.folder) as folder:
        results = best(lambda: measured(Path(folder), options.writes))
        if options.large:
            results += best(lambda: measured_large(Path(folder)))
    for result in results:
        print(result.line())
    return outcome(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
