"""Measure a page of metrics: what it takes to render, and how long its longest step holds the event loop."""

import gc
from time import process_time
from typing import Any, Final

from msgspec.structs import replace

from bench.depth import settle
from bench.shapes import CPU, RECLAIM_ANY, START, cluster, queue, workload
from pykueue.api.config.file import read_configuration
from pykueue.api.core import ObjectMeta
from pykueue.api.kueue import ClusterQueue, LocalQueue
from pykueue.base.clock import ManualClock
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.controllers.metrics import families
from pykueue.controllers.metrics.families import Family, Kind
from pykueue.controllers.metrics.metrics import Metrics
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen
from pykueue.engine.model import LocalQueue as LocalQueueModel

QUEUES: Final = 1_000
COHORTS: Final = 10
PENDING: Final = 50_000
SHAPES: Final = 1_000
RUNS: Final = 3
CHANGED: Final = 5
"""One queue in this many changes between two pages."""
CONFIGURATION: Final = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
metrics: {enableClusterQueueResources: true}
"""


class Known(dict[str, Any]):
    """An informer that knows objects and never tells of changes."""

    def listen(self, _: object) -> None:
        """Do nothing."""


class Objects:
    """The objects that metrics look up."""

    def __init__(self, names: list[str]) -> None:
        self.clock = ManualClock()
        self.workloads = Known()
        self.jobs = Known()
        self.cohorts = Known()
        self.cluster_queues = Known({name: ClusterQueue(metadata=ObjectMeta(name=name)) for name in names})
        keys = {f"default/{name}": name for name in (*names, "other")}
        self.local_queues = Known({key: LocalQueue(metadata=ObjectMeta(name=name)) for key, name in keys.items()})


class PageCost(Frozen):
    """CPU seconds of a page, of its longest step, and its size."""

    seconds: float
    longest: float
    steps: int
    bytes: int


def metrics_of_many_queues() -> Metrics:
    """Metrics of many ClusterQueues with a LocalQueue each, one of which has a deep line from two LocalQueues.

    Every queue has series in all families.
    """
    names = [f"q-{number}" for number in range(QUEUES)]
    engine = cluster(
        *(
            queue(name, 1, cohort=f"cohort-{number % COHORTS}", preemption=RECLAIM_ANY)
            for number, name in enumerate(names)
        )
    )
    engine.observe(Seen(LocalQueueModel("default/other", names[0])))
    fill(engine, names)
    metrics = Metrics(read_configuration(CONFIGURATION))
    metrics.watch(Objects(names), engine)  # type: ignore[arg-type]  # what rendering needs of a cluster
    count_all(metrics, names)
    for name in names:
        metrics.kept.unadmitted[f"default/{name}", "NoReservation", "WaitingForQuota"] = 3
    return metrics


def fill(engine: Engine, names: list[str]) -> None:
    """Submit workloads: one or two to each queue, the others to the first."""
    for number in range(PENDING):
        name = names[number] if number < QUEUES else names[0] if number % 2 else "other"
        cpu = CPU if number < QUEUES else 2 * QUEUES * CPU + number % SHAPES
        created = Instant(START + number)
        engine.observe(Seen(workload(f"w-{number}", name, cpu=cpu, created=created)))
    settle(engine, Instant(START + PENDING))


def count_all(metrics: Metrics, names: list[str]) -> None:
    """Count something for these queues in every family."""
    for family in families.ALL:
        if family.kind is not Kind.GAUGE:
            for name in names:
                count(metrics, family, name)


def count(metrics: Metrics, family: Family, name: str) -> None:
    """Count something for a queue in a family."""
    owners = {
        "ClusterQueue": (metrics.queues, (name,)),
        "LocalQueue": (metrics.local_queues, (name, "default")),
        "Cohort": (metrics.cohorts, (f"cohort-{int(name[2:]) % COHORTS}",)),
    }
    if family.source is None or family.name == families.CREATION_SECONDS.name:
        return
    known, owner = owners[family.source]
    labels = ("",) * (len(family.labels) - 1 - len(owner))
    if family.kind is Kind.HISTOGRAM:
        known.of(owner).observe(family, labels, 3)
    else:
        known.of(owner).count(family, labels)


def rendered(metrics: Metrics) -> PageCost:
    """Render a page once."""
    steps = metrics.steps()
    longest = total = 0.0
    number = 0
    while True:
        begin = process_time()
        try:
            next(steps)
        except StopIteration as end:
            last = process_time() - begin
            return PageCost(total + last, max(longest, last), number + 1, sum(map(len, end.value)))
        spent = process_time() - begin
        total, longest, number = total + spent, max(longest, spent), number + 1


def page_cost() -> PageCost:
    """The fastest of some pages and the longest step of all, with the caches excluded from garbage collection."""
    metrics = metrics_of_many_queues()
    gc.collect()
    gc.freeze()
    try:
        found = [rendered(metrics)]
        for turn in range(RUNS):
            count_all(metrics, [f"q-{number}" for number in range(turn, QUEUES, CHANGED)])
            found.append(rendered(metrics))
    finally:
        gc.unfreeze()
    fastest = min(found, key=lambda one: one.seconds)
    return replace(fastest, longest=max(one.longest for one in found))
