"""A data folder whose table of finished jobs is full, as after weeks of use."""

import random
from functools import cache
from pathlib import Path
from typing import Final

from bench.preparedfolder import prepared
from pykueue.api.core import Tree
from pykueue.api.jobsummary import FinishedJob, JobState
from pykueue.apiserver.storage.finishedjobs import ROWS_MAX, FinishedJobs
from pykueue.apiserver.storage.store import Key, Store
from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS, Instant, format_instant

RECORDS: Final = ROWS_MAX
NAMESPACES: Final = 20
QUEUES: Final = 8
TOGETHER: Final = 10_000
EVERY_SECONDS: Final = 60
"""How far apart the ends of jobs are."""


def record(number: int, at: Instant, luck: random.Random) -> FinishedJob:
    """A job that ended at this time."""
    ran, waited = int(luck.expovariate(1 / 3600)), int(luck.expovariate(1 / 900))
    preempted = luck.random() < 0.02
    lost = luck.randrange(60, 3600) if preempted else 0
    cpu = str(luck.choice((1, 2, 4, 8, 16)))
    return FinishedJob(
        f"user-{number % NAMESPACES}",
        f"train-{number}",
        f"{number:032}",
        JobState.COMPLETED if luck.random() < 0.9 else JobState.FAILED,
        owner=f"user-{number % NAMESPACES}",
        queue=f"team-{number % QUEUES}",
        requests={"cpu": cpu, "memory": "4Gi"},
        submitted=format_instant(Instant(at - (ran + waited + lost) * MICROS)),
        started=format_instant(Instant(at - ran * MICROS)),
        ended=format_instant(at),
        exit_code=0,
        waited_seconds=waited,
        ran_seconds=ran,
        preempted=int(preempted),
        lost_seconds=lost,
        cluster_queue=f"team-{number % QUEUES}",
        flavors={"cpu": "machine"},
    )


@cache
def recorded() -> Path:
    """A data folder with the records, created once and removed when this process ends."""
    return prepared("records", fill)


async def fill(data: Path, records: int = RECORDS) -> None:
    """Write the records into a new data folder."""
    data.mkdir(mode=0o700)
    clock, luck = SystemClock(), random.Random(15)
    store = Store.open(data / "pykueue.db", clock)
    now = clock.now()
    for number in range(NAMESPACES):
        name = f"user-{number}"
        metadata: Tree = {"name": name, "uid": name, "creationTimestamp": format_instant(now)}
        made: Tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "status": {"phase": "Active"}}
        await store.put(Key("namespaces", "", name), made, uid=name)
    table = FinishedJobs(store)
    first = now - records * EVERY_SECONDS * MICROS
    for start in range(0, records, TOGETHER):
        ends = [Instant(first + number * EVERY_SECONDS * MICROS) for number in range(start, start + TOGETHER)]
        await table.add([record(start + place, at, luck) for place, at in enumerate(ends)], now)
    await store.close()
