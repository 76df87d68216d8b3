"""Measure how long the answer to `explanations` takes while many workloads wait, and the longest of its steps."""

from collections.abc import Generator
from statistics import median
from time import process_time

import msgspec

from bench.depth import settle
from bench.shapes import CPU, START, cluster, queue, workload
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.bridge.explanations import named_workload, workload_explanation
from pykueue.engine.facts import Seen
from pykueue.engine.model import Preemption
from pykueue.engine.record.causes import WorkloadCauses
from pykueue.engine.record.recent import Recent
from pykueue.engine.record.workloadcauses import of_workload

PENDING, SHAPES, ROOM = 50_000, 1_000, 8
ASKED = (0, PENDING // 2, PENDING - 1)
ROUNDS = 3


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


def walked(work: Generator[None, None, WorkloadCauses | None]) -> tuple[float, WorkloadCauses | None]:
    """The CPU seconds of the longest step of some work, and its result."""
    longest = 0.0
    while True:
        before = process_time()
        try:
            next(work)
        except StopIteration as end:
            return max(longest, process_time() - before), end.value
        longest = max(longest, process_time() - before)
