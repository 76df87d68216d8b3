"""Measure mass preemption: a preemptor among a thousand candidates, of which it needs half."""

from time import process_time

from bench.shapes import CPU, FAIR, RECLAIM_ANY, START, cluster, queue, workload
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.decisions import Admit, Evict
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Stopped, Written

CANDIDATES, NEEDED = 1_000, 500
SINGLY = 100
"""How many victims stop one by one, with a decision after each; the others stop together."""
SECOND = 1_000_000


class Storm(Frozen):
    """How many were evicted, the seconds to choose them, and the seconds to continue after each that stopped."""

    victims: int
    choosing: float
    leaving: float


def within_queue() -> Storm:
    """A full queue and a workload of higher priority than any admitted one."""
    engine = cluster(queue("main", CANDIDATES, preemption=RECLAIM_ANY))
    fill(engine, "main")
    return blow(engine, "main")


def within_cohort() -> Storm:
    """A queue that has borrowed all of its cohort, and an owner that reclaims its quota."""
    engine = cluster(
        queue("lender", NEEDED, cohort="all", preemption=RECLAIM_ANY),
        queue("borrower", CANDIDATES - NEEDED, cohort="all", preemption=RECLAIM_ANY),
    )
    fill(engine, "borrower")
    return blow(engine, "lender")


def by_share() -> Storm:
    """A queue that has borrowed all of its cohort, and another borrower that is entitled to half of it."""
    engine = cluster(
        queue("lender", CANDIDATES, cohort="all", preemption=RECLAIM_ANY),
        queue("late", 0, cohort="all", preemption=RECLAIM_ANY),
        queue("borrower", 0, cohort="all", preemption=RECLAIM_ANY),
        options=FAIR,
    )
    fill(engine, "borrower")
    return blow(engine, "late")


def fill(engine: Engine, name: str) -> None:
    """Admit a thousand small workloads."""
    for number in range(CANDIDATES):
        created = Instant(START + number)
        engine.observe(Seen(workload(f"low-{number}", name, cpu=CPU, priority=number % 10, created=created)))
    admitted, _ = settle(engine, Instant(START + SECOND))
    assert len(admitted) == CANDIDATES, f"{len(admitted)} of {CANDIDATES} holders were admitted"


def blow(engine: Engine, name: str) -> Storm:
    """Add the preemptor, and stop its victims."""
    now = Instant(START + 2 * SECOND)
    engine.observe(Seen(workload("high", name, cpu=NEEDED * CPU, priority=100, created=now)))
    start = process_time()
    _, victims = settle(engine, now)
    chosen = process_time()
    for number, victim in enumerate(victims[:SINGLY], start=1):
        engine.observe(Stopped(victim))
        settle(engine, Instant(now + number))
    left = process_time()
    for victim in victims[SINGLY:]:
        engine.observe(Stopped(victim))
    admitted, _ = settle(engine, Instant(now + SECOND))
    assert admitted == ["default/high"], f"after {len(victims)} evictions these were admitted: {admitted[:3]}"
    return Storm(len(victims), chosen - start, (left - chosen) / SINGLY)


def settle(engine: Engine, now: Instant) -> tuple[list[str], list[str]]:
    """Decide until nothing is left to decide now; returns the admitted and the evicted workloads."""
    admitted: list[str] = []
    evicted: list[str] = []
    wake = engine.next_wake()
    while wake is not None and wake <= now:
        for decision in engine.decide(now):
            engine.observe(Written(decision.workload))
            if isinstance(decision, Admit):
                admitted.append(decision.workload)
            elif isinstance(decision, Evict):
                evicted.append(decision.workload)
        wake = engine.next_wake()
    return admitted, evicted
