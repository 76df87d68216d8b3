"""Clusters and workloads of known shape for benchmarks, including those of Kueue's own tests."""

from collections.abc import Iterator

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced
from pykueue.engine.model import (
    ClusterQueue,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    Policy,
    Preemption,
    Quota,
    ResourceGroup,
    Selector,
    ShareStrategy,
    Workload,
)

START = Instant(1_767_225_600_000_000)
MILLIS = 1_000
CPU = 1_000
"""One core, as the engine counts it."""
FAIR = Options(fair_sharing=(ShareStrategy.FINAL, ShareStrategy.INITIAL))
RECLAIM_ANY = Preemption(within_queue=Policy.LOWER, reclaim=Policy.ANY)


class Kind(Frozen):
    """A stream of equal workloads into one ClusterQueue."""

    name: str
    count: int
    cpu: int
    priority: int
    run_millis: int
    every_millis: int


class Load(Frozen):
    """A whole benchmark: cohorts of ClusterQueues, each with the same streams of workloads."""

    cohorts: int
    queues: int
    kinds: tuple[Kind, ...]
    nominal: int = 20
    borrowing_limit: int = 100


BASELINE = Load(
    5,
    6,
    (
        Kind("small", count=350, cpu=1, priority=50, run_millis=200, every_millis=100),
        Kind("medium", count=100, cpu=5, priority=100, run_millis=500, every_millis=500),
        Kind("large", count=50, cpu=20, priority=200, run_millis=1000, every_millis=1200),
    ),
)
LARGE = Load(
    10,
    100,
    (
        Kind("small", count=35, cpu=1, priority=50, run_millis=150, every_millis=60),
        Kind("medium", count=11, cpu=5, priority=100, run_millis=350, every_millis=300),
        Kind("large", count=4, cpu=20, priority=200, run_millis=700, every_millis=700),
    ),
)


class Arrival(Frozen):
    """A workload that is created at an instant and runs for a fixed time once it is admitted."""

    at: Instant
    workload: Workload
    run_micros: int


def queue(
    name: str, nominal: int, *, cohort: str = "", limit: int | None = None, preemption: Preemption
) -> ClusterQueue:
    """A ClusterQueue with this many cores of one flavor."""
    return ClusterQueue(
        name,
        cohort=cohort,
        groups=(ResourceGroup(("cpu",), ("default",)),),
        quotas=(Quota("default", "cpu", nominal * CPU, None if limit is None else limit * CPU),),
        namespaces=Selector(),
        preemption=preemption,
    )


def cluster(*queues: ClusterQueue, options: Options | None = None) -> Engine:
    """An engine that has observed these queues, each with a LocalQueue of its name, and is ready to decide."""
    engine = Engine(options or Options())
    engine.observe(Seen(Namespace("default")))
    engine.observe(Seen(Flavor("default")))
    for spec in queues:
        engine.observe(Seen(spec))
        engine.observe(Seen(LocalQueue(f"default/{spec.name}", spec.name)))
    engine.observe(Synced())
    return engine


def workload(name: str, queue: str, *, cpu: int, priority: int = 0, created: Instant = START) -> Workload:
    """One pod that requests this many thousandths of a core."""
    pods = (PodSet("main", 1, (("cpu", cpu),)),)
    return Workload(f"default/{name}", f"uid-{name}", f"default/{queue}", created, pods, priority)


def cluster_of(load: Load, options: Options | None = None) -> Engine:
    """An engine that has observed the queues of a load."""
    return cluster(
        *(
            queue(
                f"q-{cohort}-{index}",
                load.nominal,
                cohort=f"cohort-{cohort}",
                limit=load.borrowing_limit,
                preemption=RECLAIM_ANY,
            )
            for cohort in range(load.cohorts)
            for index in range(load.queues)
        ),
        options=options,
    )


def arrivals_of(load: Load) -> Iterator[Arrival]:
    """Every workload of a load."""
    for cohort in range(load.cohorts):
        for index in range(load.queues):
            for kind in load.kinds:
                for number in range(kind.count):
                    at = Instant(START + number * kind.every_millis * MILLIS)
                    name = f"{kind.name}-{cohort}-{index}-{number}"
                    found = workload(
                        name, f"q-{cohort}-{index}", cpu=kind.cpu * CPU, priority=kind.priority, created=at
                    )
                    yield Arrival(at, found, kind.run_millis * MILLIS)
