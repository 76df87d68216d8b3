"""Measure admissions per CPU second over whole loads, from the first arrival to the last end."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean
from time import process_time
from typing import Final

from bench import kernel
from bench.driver import Driver
from bench.shapes import Load, arrivals_of, cluster_of
from pykueue.app.controllers import GC_THRESHOLDS
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS
from pykueue.engine.model import Options

SLICES: Final = 8
"""The kernel is timed after each of this many parts of a load: the speed of a shared machine varies."""


class Throughput(Frozen):
    """The admissions of a load, the CPU seconds of engine and driver, and how slow the machine was."""

    workloads: int
    admissions: int
    """Exceeds the number of workloads if some are admitted again after an eviction."""
    evictions: int
    lost_seconds: float
    """The run time that evictions cost."""
    unserved: int
    """Evictions whose preemptor did not start."""
    waits: int
    cycles: int
    seconds: float
    slowness: float

    @property
    def per_second(self) -> float:
        """Admissions per second of engine and driver together."""
        return self.admissions / self.seconds


@contextmanager
def collecting_like_the_manager() -> Iterator[None]:
    """Collect garbage as the manager and `pykueue up` do once their caches are synced: `Controllers.freeze`."""
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def throughput(load: Load, options: Options | None = None) -> Throughput:
    """Run a load to its end."""
    arrivals = list(arrivals_of(load))
    driver = Driver(cluster_of(load, options), arrivals)
    speeds: list[float] = []
    spent = 0.0
    with collecting_like_the_manager():
        for part in range(1, SLICES + 1):
            start = process_time()
            while driver.events and driver.finished * SLICES < len(arrivals) * part:
                driver.step()
            spent += process_time() - start
            speeds.append(kernel.seconds())
    assert driver.finished == len(arrivals), f"{driver.finished} of {len(arrivals)} workloads came to their end"
    return Throughput(
        driver.finished,
        driver.admitted,
        driver.evicted,
        driver.lost_micros / MICROS,
        driver.unserved,
        driver.waits,
        driver.cycles,
        spent,
        fmean(speeds) / kernel.REFERENCE,
    )
