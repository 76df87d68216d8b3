"""Measure estimates of starts: how long one takes, and how long the snapshot for it holds the event loop."""

import random
from time import process_time
from typing import Final

from bench import kernel
from bench.shapes import CPU, START
from pykueue.base.units import MICROS, Instant
from pykueue.bridge.estimates import RUNS_MIN, EstimateQuestion
from pykueue.bridge.runtimes import RunTimes, kind_of
from pykueue.controllers.queries.snapshots import question
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced, Written
from pykueue.engine.model import (
    ClusterQueue,
    Flavor,
    LocalQueue,
    Namespace,
    PodSet,
    Quota,
    ResourceGroup,
    Selector,
    Workload,
)
from pykueue.engine.record.checkpoint import checkpoint
from pykueue.sim.estimates import estimate

PENDING: Final = 1_000
SNAPSHOT: Final = 10_000
SHAPES: Final = 10
RUNNING: Final = 50
"""How many run at the same time, about."""
NOW: Final = Instant(START + 600 * MICROS)


def filled(pending: int) -> tuple[Engine, list[Workload]]:
    """A queue in which some workloads run and so many wait, of a few shapes; and all of them, in order."""
    engine = Engine()
    quota = Quota("default", "cpu", RUNNING * CPU * (SHAPES + 1) // 2)
    group = ResourceGroup(("cpu",), ("default",))
    queue = ClusterQueue("main", groups=(group,), quotas=(quota,), namespaces=Selector())
    for thing in (Namespace("ns"), Flavor("default"), queue, LocalQueue("ns/main", "main")):
        engine.observe(Seen(thing))
    engine.observe(Synced())
    made = []
    for number in range(RUNNING + pending):
        pods = (PodSet("main", 1, (("cpu", CPU * (1 + number % SHAPES)),)),)
        made.append(Workload(f"ns/{number:06}", f"{number:06}", "ns/main", Instant(START + number), pods))
        engine.observe(Seen(made[-1]))
    while (wake := engine.next_wake()) is not None and wake <= START + MICROS:
        for decision in engine.decide(Instant(START + MICROS)):
            engine.observe(Written(decision.workload))
    return engine, made


def estimate_seconds(pending: int = PENDING, runs: int = RUNS_MIN) -> tuple[float, float]:
    """The CPU time of an estimate of the last of a queue, and how slow the machine was."""
    before = kernel.seconds()
    engine, made = filled(pending)
    rng = random.Random(1)
    known = RunTimes()
    for number, one in enumerate(made[:300]):
        known.add(kind_of(one), Instant(START - number * MICROS), one.uid, int(rng.lognormvariate(7, 1)))
    saved = checkpoint(engine)
    asked = EstimateQuestion(made[-1].key, NOW, runs, learned=known.learned(NOW))
    begin = process_time()
    found = estimate(asked, saved)
    took = process_time() - begin
    assert (found.runs, found.runs_that_start) == (runs, runs), found
    return took, kernel.slowness(before)


def snapshot_slices(workloads: int = SNAPSHOT) -> tuple[list[float], float]:
    """The CPU time of each step of sending a snapshot, and how slow the machine was."""
    before = kernel.seconds()
    engine, _ = filled(workloads)
    pieces = question("estimate", b"", engine)
    slices: list[float] = []
    while True:
        step = pieces.__anext__().__await__()
        try:
            while True:
                begin = process_time()
                try:
                    next(step)
                finally:
                    slices.append(process_time() - begin)
        except StopIteration:
            continue
        except StopAsyncIteration:
            return slices, kernel.slowness(before)
