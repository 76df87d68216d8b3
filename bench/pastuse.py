"""Measure what it costs to order 1,000 LocalQueues by their past use."""

from itertools import count
from time import process_time

from msgspec.structs import replace

from bench.depth import settle
from bench.shapes import CPU, START, queue
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced
from pykueue.engine.model import (
    AdmissionFairSharing,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    Preemption,
    Thing,
    Workload,
)

LOCAL_QUEUES = 1_000
PENDING = 10_000
KINDS = 20
HOLDERS = 20
TURNS = 1_200
"""As many as there are seconds in four sampling intervals."""
TICK = 1_000_000
SHARING = AdmissionFairSharing(half_life_micros=3_600_000_000)


class Steady:
    """A full ClusterQueue with many LocalQueues: each second a workload ends, one starts and another joins the end."""

    def __init__(self, sharing: AdmissionFairSharing | None) -> None:
        self.engine = Engine(Options(admission_fair_sharing=sharing))
        self.numbers = count()
        self.now = START
        main = replace(queue("main", HOLDERS, preemption=Preemption()), usage_based=True)
        local = (LocalQueue(f"default/local-{number}", "main") for number in range(LOCAL_QUEUES))
        things: list[Thing] = [Namespace("default"), Flavor("default"), main, *local]
        for thing in things:
            self.engine.observe(Seen(thing))
        self.engine.observe(Synced())
        for _ in range(PENDING + HOLDERS):
            self.engine.observe(Seen(self.another()))
        self.running = settle(self.engine, self.now)

    def another(self) -> Workload:
        """The next workload; the LocalQueues take turns."""
        number = next(self.numbers)
        name, pods = f"w-{number}", (PodSet("main", 1, (("cpu", CPU - number % KINDS),)),)
        local = f"default/local-{number * 7 % LOCAL_QUEUES}"
        return Workload(f"default/{name}", f"uid-{name}", local, Instant(START + number), pods)

    def turn(self) -> int:
        """End one workload; returns how many start."""
        self.now = Instant(self.now + TICK)
        level = self.engine.workload(self.running.pop(0))
        assert level is not None, "it is running"
        self.engine.observe(Seen(replace(level, finished=True)))
        self.engine.observe(Seen(self.another()))
        started = settle(self.engine, self.now)
        self.running.extend(started)
        return len(started)

    def seconds(self) -> float:
        """CPU seconds of one turn."""
        start = process_time()
        started = self.turn()
        assert started == 1, f"a workload ended and {started} started; the queue is not steady"
        return process_time() - start


class PastUseCost(Frozen):
    """Seconds per admission without and with past use, and their ratio."""

    without: float
    with_it: float
    ratio: float


def past_use_cost() -> PastUseCost:
    """The cost of an admission with both, in turns, so that whatever else runs on this machine slows both."""
    plain, sharing = Steady(None), Steady(SHARING)
    pairs = [(plain.seconds(), sharing.seconds()) for _ in range(TURNS)]
    without, with_it = sum(one for one, _ in pairs) / TURNS, sum(other for _, other in pairs) / TURNS
    return PastUseCost(without, with_it, with_it / without)
