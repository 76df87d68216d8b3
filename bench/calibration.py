"""How often does a job start when it was estimated? A week of arrivals is simulated, and estimates are taken in it.

`python -m bench.calibration` prints the shares. Run times are drawn from distributions that the estimates do not know;
they learn from the jobs that have finished until then, as a server does.
"""

import random
import sys
from argparse import ArgumentParser
from collections import Counter
from typing import Final, NamedTuple

from bench.shapes import CPU, START
from pykueue.api.durations import Micros
from pykueue.api.estimates import EstimateStatus
from pykueue.base.units import MICROS, Instant, format_instant, parse_instant
from pykueue.bridge.estimates import EstimateQuestion
from pykueue.bridge.runtimes import RunTimes, kind_of
from pykueue.controllers.queries.calibration import result
from pykueue.engine.model import (
    ClusterQueue,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    Quota,
    ResourceGroup,
    Selector,
    Workload,
)
from pykueue.engine.record.checkpoint import checkpoint
from pykueue.sim.estimates import estimate
from pykueue.sim.plans import RunPlan
from pykueue.sim.trace import Arrival, Trace
from pykueue.sim.world import MomentKind, World

HOUR: Final = 3600 * MICROS
DAYS: Final = 7
CPUS: Final = 16


class Stream(NamedTuple):
    """Jobs of a kind: how many arrive in an hour of the day, what they ask for, and how long they run."""

    name: str
    per_hour: float
    cpu: int
    median_minutes: float
    spread: float
    """The standard deviation of the logarithm of run times."""


STREAMS: Final = (
    Stream("small", 12.0, 1, 10, 0.8),
    Stream("medium", 1.3, 4, 60, 0.7),
    Stream("large", 0.3, 8, 150, 0.6),
)
BUSY_HOURS: Final = range(8, 20)
QUIET: Final = 0.4
"""The share of arrivals at night."""


def arrivals(rng: random.Random) -> list[Arrival]:
    """The jobs of a week."""
    found: list[Arrival] = []
    for stream in STREAMS:
        at = 0.0
        while True:
            at += rng.expovariate(stream.per_hour)
            if at >= DAYS * 24:
                break
            if int(at) % 24 not in BUSY_HOURS and rng.random() > QUIET:
                continue
            instant = Instant(START + int(at * HOUR))
            name = f"{stream.name}-{len(found)}"
            pods = (PodSet("main", 1, (("cpu", stream.cpu * CPU),)),)
            seconds = stream.median_minutes * 60 * rng.lognormvariate(0, stream.spread)
            workload = Workload(f"ns/{name}", name, "ns/main", instant, pods)
            found.append(Arrival(instant, workload, RunPlan(Micros(int(seconds * MICROS))), name))
    return sorted(found, key=lambda one: one.at)


def week(seed: int) -> World:
    """The truth, at its start."""
    group = ResourceGroup(("cpu",), ("default",))
    queue = ClusterQueue("main", groups=(group,), quotas=(Quota("default", "cpu", CPUS * CPU),), namespaces=Selector())
    things = (Namespace("ns"), Flavor("default"), queue, LocalQueue("ns/main", "main"))
    return World(Trace(START, Options(pods_ready=None), things, tuple(arrivals(random.Random(seed)))))


class Taken(NamedTuple):
    """An estimate: for which workload, and with which result."""

    when: Instant
    workload: str
    arrivals: bool
    verdict: str
    width_minutes: float
    wait_minutes: float


def calibrated(asks: int, runs: int, seed: int) -> list[Taken]:
    """Estimates of random workloads at random instants of a week, and what became of them."""
    rng = random.Random(seed)
    world, known = week(seed), RunTimes()
    read = 0
    open_: list[tuple[Instant, str, bool, EstimateStatus]] = []
    for at in sorted(START + rng.randrange(12 * HOUR, DAYS * 24 * HOUR) for _ in range(asks)):
        now = Instant(at)
        world.run(now)
        for moment in world.moments[read:]:
            level = moment.level
            if moment.what is MomentKind.FINISHES and level is not None and level.admitted_at is not None:
                ran = (moment.at - level.admitted_at) // MICROS
                known.add(kind_of(level), moment.at, moment.workload, ran)
        read = len(world.moments)
        waiting = [item.key for item, _ in world.engine.pending("main")]
        if not waiting:
            continue
        key = rng.choice(sorted(waiting))
        saved = checkpoint(world.engine)
        for learned in (False, True):
            asked = EstimateQuestion(key, now, runs, rng.randrange(1000), learned, learned=known.learned(now))
            open_.append((now, key, learned, estimate(asked, saved)))
            print(".", end="", flush=True)
    world.run()
    starts: dict[str, Instant] = {}
    for moment in world.moments:
        if moment.what is MomentKind.STARTS:
            starts.setdefault(moment.workload, moment.at)
    return [taken(now, key, learned, found, starts[key]) for now, key, learned, found in open_]


def taken(now: Instant, key: str, learned: bool, found: EstimateStatus, start: Instant) -> Taken:
    """An estimate and the truth."""
    width = 0.0
    if found.earliest and found.latest:
        width = (parse_instant(found.latest) - parse_instant(found.earliest)) / MICROS / 60
    return Taken(now, key, learned, result(found, format_instant(start)), width, (start - now) / MICROS / 60)


def main(arguments: list[str]) -> int:
    """Print how often the start was within the range."""
    parser = ArgumentParser(prog="python -m bench.calibration", description="Calibrate estimates over a week.")
    parser.add_argument("--asks", type=int, default=100, help="estimates to take; 100")
    parser.add_argument("--runs", type=int, default=40, help="runs of each; 40")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    found = calibrated(options.asks, options.runs, options.seed)
    print()
    for learned in (False, True):
        some = [one for one in found if one.arrivals is learned]
        counts = Counter(one.verdict for one in some)
        width = sorted(one.width_minutes for one in some)[len(some) // 2]
        wait = sorted(one.wait_minutes for one in some)[len(some) // 2]
        print(
            f"arrivals {'learned' if learned else 'ignored'}: {counts['right']} of {len(some)} right, "
            f"{counts['early']} early, {counts['late']} late; median wait {wait:.0f} min, range {width:.0f} min"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
