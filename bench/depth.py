"""Measure the cost of a decision by queue depth, and how much of a deep queue is evaluated."""

from itertools import count
from statistics import median
from time import process_time

from msgspec.structs import replace

from bench.shapes import CPU, START, cluster, queue, workload
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.decisions import Admit
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Written
from pykueue.engine.model import Preemption, Workload

SHALLOW, DEEP = 1_000, 50_000
KINDS = 20
HOLDERS = 20
TURNS = 100
BLOCKS = 9
TICK = 1_000
SHAPES = 1_000
FITTING = 10
ROOM = 2_000


class Steady:
    """A queue that stays full: each time a workload ends, one starts and another joins the end."""

    def __init__(self, depth: int) -> None:
        self.engine = cluster(queue("main", HOLDERS, preemption=Preemption()))
        self.numbers = count()
        self.now = START
        self.running: list[str] = []
        for _ in range(depth + HOLDERS):
            self.engine.observe(Seen(self.another()))
        self.running = settle(self.engine, self.now)

    def another(self) -> Workload:
        """The next workload; it requests a whole core less a few thousandths, by its number."""
        number = next(self.numbers)
        return workload(f"w-{number}", "main", cpu=CPU - number % KINDS, created=Instant(START + number))

    def turn(self) -> int:
        """End one workload; returns how many start."""
        self.now = Instant(self.now + TICK)
        ended = self.running.pop(0)
        level = self.engine.workload(ended)
        assert level is not None, f"{ended} is running"
        self.engine.observe(Seen(replace(level, finished=True)))
        self.engine.observe(Seen(self.another()))
        started = settle(self.engine, self.now)
        self.running.extend(started)
        return len(started)

    def block(self) -> float:
        """CPU seconds per started workload, over some turns."""
        start = process_time()
        started = sum(self.turn() for _ in range(TURNS))
        assert started == TURNS, f"{TURNS} workloads ended and {started} started; the queue is not steady"
        return (process_time() - start) / started


def settle(engine: Engine, now: Instant) -> list[str]:
    """Decide until nothing is left to decide now; returns the admitted workloads, in order."""
    admitted = []
    wake = engine.next_wake()
    while wake is not None and wake <= now:
        for decision in engine.decide(now):
            engine.observe(Written(decision.workload))
            if isinstance(decision, Admit):
                admitted.append(decision.workload)
        wake = engine.next_wake()
    return admitted


class Depths(Frozen):
    """Seconds per admission from a shallow and a deep queue, measured alternately, and their ratio."""

    shallow: float
    deep: float
    ratio: float


def depths() -> Depths:
    """The cost of an admission at both depths."""
    shallow, deep = Steady(SHALLOW), Steady(DEEP)
    pairs = [(shallow.block(), deep.block()) for _ in range(BLOCKS)]
    return Depths(median(s for s, _ in pairs), median(d for _, d in pairs), median(d / s for s, d in pairs))


class Dig(Frozen):
    """How many workloads of a queue were evaluated to find those at its end that fit, and how long that took."""

    evaluations: int
    admitted: int
    seconds: float


def dig() -> Dig:
    """A full queue in which only the last shapes of the order fit into what is left."""
    engine = cluster(queue("main", ROOM, preemption=Preemption()))
    engine.observe(Seen(workload("holder", "main", cpu=(ROOM - FITTING) * CPU, priority=SHAPES)))
    settle(engine, START)
    for number in range(DEEP):
        shape = number % SHAPES
        fitting = shape >= SHAPES - FITTING
        cpu = CPU if fitting else (FITTING + 1 + shape) * CPU
        created = Instant(START + number)
        engine.observe(Seen(workload(f"w-{number}", "main", cpu=cpu, priority=SHAPES - shape, created=created)))
    before, start = engine.evaluations, process_time()
    admitted = settle(engine, Instant(START + DEEP))
    return Dig(engine.evaluations - before, len(admitted), process_time() - start)
