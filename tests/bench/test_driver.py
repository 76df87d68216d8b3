from bench.driver import Driver
from bench.shapes import Kind, Load, arrivals_of, cluster_of

QUIET = Kind("quiet", count=4, cpu=1, priority=0, run_millis=10_000, every_millis=0)


def ran(load: Load) -> Driver:
    driver = Driver(cluster_of(load), arrivals_of(load))
    while driver.events:
        driver.step()
    return driver


def test_what_fits_is_admitted_once_and_ends() -> None:
    driver = ran(Load(1, 2, (QUIET,), nominal=4))
    assert (driver.admitted, driver.evicted, driver.finished) == (8, 0, 8)


def test_what_is_evicted_is_admitted_again_and_its_first_end_is_not_heard() -> None:
    late = Kind("late", count=2, cpu=2, priority=9, run_millis=1_000, every_millis=500)
    driver = ran(Load(1, 1, (QUIET, late), nominal=5))
    assert driver.finished == 6
    assert driver.evicted > 0
    assert driver.admitted == driver.finished + driver.evicted
