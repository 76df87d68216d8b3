"""Measure the engine's memory per pending workload in a deep queue, by Python's own count of allocations."""

import gc
import tracemalloc

from bench.depth import settle
from bench.shapes import CPU, START, cluster, queue, workload
from pykueue.base.units import Instant
from pykueue.engine.facts import Seen
from pykueue.engine.model import Preemption

PENDING, SHAPES = 20_000, 1_000


def bytes_per_pending() -> float:
    """Bytes that the engine keeps per pending workload, including its order and its pending reason."""
    engine = cluster(queue("main", 0, limit=0, cohort="all", preemption=Preemption()))
    settle(engine, START)
    gc.collect()
    tracemalloc.start()
    for number in range(PENDING):
        created = Instant(START + number)
        engine.observe(Seen(workload(f"w-{number}", "main", cpu=CPU + number % SHAPES, created=created)))
    admitted = settle(engine, Instant(START + PENDING))
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not admitted, f"{len(admitted)} workloads were admitted to a queue without quota"
    return kept / PENDING
