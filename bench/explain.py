"""Measure how long an answer to `explanations` takes while many workloads wait or run, and the longest of its steps."""

from collections.abc import Generator
from statistics import median
from time import process_time
from typing import TypeVar

import msgspec

from bench.depth import settle
from bench.shapes import CPU, RECLAIM_ANY, START, cluster, queue, workload
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.bridge.explanations import named_workload, workload_explanation
from pykueue.engine.facts import Seen
from pykueue.engine.model import Preemption
from pykueue.engine.record.queuecauses import of_queue
from pykueue.engine.record.recent import Recent
from pykueue.engine.record.rooms import HOLDERS_MAX, TRIED_MAX
from pykueue.engine.record.workloadcauses import of_workload

PENDING, SHAPES, ROOM = 50_000, 1_000, 8
ASKED = (0, PENDING // 2, PENDING - 1)
ROUNDS = 3
RUNNING = 10_000
Result = TypeVar("Result")


class Explaining(Frozen):
    """CPU seconds of an answer, and of the longest step of any."""

    answer: float
    step: float


def explaining() -> Explaining:
    """The first, the middle and the last of the workloads that wait are explained in turn; the median counts."""
    engine = cluster(queue("main", ROOM, preemption=Preemption()))
    engine.observe(Seen(workload("holder", "main", cpu=(ROOM - 1) * CPU)))
    for number in range(PENDING):
        created = Instant(START + number)
        engine.observe(Seen(workload(f"w-{number}", "main", cpu=2 * CPU + number % SHAPES, created=created)))
    settle(engine, Instant(START + PENDING))
    recent = Recent()
    answers: list[float] = []
    steps: list[float] = []
    for number in ASKED * ROUNDS:
        begun = process_time()
        longest, causes = walked(of_workload(engine, f"default/w-{number}", recent))
        assert causes is not None, f"workload {number} is known"
        assert causes.place is not None, f"workload {number} waits"
        assert causes.place.ahead == number, f"{causes.place.ahead} ahead of workload {number}"
        encoding = process_time()
        msgspec.json.encode(workload_explanation(named_workload(causes, str)))
        answers.append(process_time() - begun)
        steps.append(max(longest, process_time() - encoding))
    return Explaining(median(answers), median(steps))


def explaining_queue() -> float:
    """CPU seconds of the longest step of explaining a queue that lends all of its quota.

    The newcomer that the answer tells of looks for victims among those that borrow: too many for that, or as many as it
    may look at, of which it must try almost as many as it may.
    """
    several = CPU // (TRIED_MAX - 1) + 1
    return max(lending(RUNNING, CPU, too_many=True), lending(HOLDERS_MAX, several, too_many=False))


def lending(running: int, cpu: int, *, too_many: bool) -> float:
    """CPU seconds of the longest step of explaining the lender of all that so many workloads use; the median counts."""
    lent = running * cpu // CPU // 2
    engine = cluster(
        queue("lender", lent, cohort="all", preemption=RECLAIM_ANY),
        queue("borrower", running * cpu // CPU - lent, cohort="all", preemption=RECLAIM_ANY),
    )
    for number in range(running):
        engine.observe(Seen(workload(f"w-{number}", "borrower", cpu=cpu, created=Instant(START + number))))
    admitted = settle(engine, Instant(START + running))
    assert len(admitted) == running, f"{len(admitted):,} of {running:,} run"
    steps: list[float] = []
    for _ in range(ROUNDS):
        longest, causes = walked(of_queue(engine, "lender"))
        assert causes is not None, "the queue exists"
        (met,) = causes.newcomers
        assert (met.too_many, met.victims > 0) == (too_many, not too_many), f"the newcomer preempts {met.victims}"
        steps.append(longest)
    return median(steps)


def walked(work: Generator[None, None, Result]) -> tuple[float, Result]:
    """The CPU seconds of the longest step of some work, and its result."""
    longest = 0.0
    while True:
        before = process_time()
        try:
            next(work)
        except StopIteration as end:
            return max(longest, process_time() - before), end.value
        longest = max(longest, process_time() - before)
