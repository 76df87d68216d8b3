"""How many workloads are admitted in a second? Whole loads, from the first arrival to the last end, by CPU time."""

from time import process_time

from bench.driver import Driver
from bench.shapes import Load, arrivals_of, cluster_of
from pykueue.base.struct import Frozen


class Throughput(Frozen):
    """What a load came to: admissions, those of them that were repeated after an eviction, and CPU seconds."""

    workloads: int
    admissions: int
    evictions: int
    waits: int
    cycles: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Admissions for each second of engine and driver together."""
        return self.admissions / self.seconds


def throughput(load: Load) -> Throughput:
    """Run a load to its end."""
    arrivals = list(arrivals_of(load))
    driver = Driver(cluster_of(load), arrivals)
    start = process_time()
    driver.run()
    seconds = process_time() - start
    assert driver.finished == len(arrivals), f"{driver.finished} of {len(arrivals)} workloads came to their end"
    return Throughput(driver.finished, driver.admitted, driver.evicted, driver.waits, driver.cycles, seconds)
