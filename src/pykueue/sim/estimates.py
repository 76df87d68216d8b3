"""Estimates when a workload starts: the state of an engine is run forward many times, with drawn run times."""

import random
from collections.abc import Collection, Iterator, Sequence
from math import ceil, floor
from typing import BinaryIO, Final

import msgspec

from pykueue.api.durations import Micros
from pykueue.api.estimates import HORIZON_DAYS, EstimateStatus, StartState
from pykueue.base.steps import at_once
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.bridge.estimates import RUNS_MIN, EstimateQuestion
from pykueue.bridge.runtimes import JobKind
from pykueue.engine.engine import Engine
from pykueue.engine.items import Place
from pykueue.engine.model import PodSet, Workload
from pykueue.engine.record.checkpoint import Checkpoint, restore
from pykueue.sim.forward import HORIZON, MINUTE, Forward, QueueMap, RunTimeKnowledge, middle, whole_minute
from pykueue.sim.plans import RunPlan
from pykueue.sim.questions import read
from pykueue.sim.refusal import RefusedError
from pykueue.sim.runtimes import Draws, shared_stream
from pykueue.sim.trace import Arrival

ARRIVALS_MAX: Final = 2_000
"""How many jobs arrive in a run at the most."""
ARRIVALS_DAYS: Final = 7
"""For how long jobs arrive in a run."""
NEWCOMER: Final = "\tarrives-"
"""Begins the name of a workload that arrives; no object has such a name."""
GRAINS: Final = 100
"""Into how many steps the time until the start is divided."""
ROUNDS_MAX: Final = 50_000
"""Rounds of decisions after which there are no more runs than the least."""
OUTSIDE: Final = 0.05
"""The share of runs before the range, and of those after it."""


def answer(stream: BinaryIO) -> bytes:
    """The estimate that a question asks for, in JSON; raises `RefusedError`."""
    parameters, saved = read(stream)
    question = msgspec.msgpack.decode(parameters, type=EstimateQuestion)
    return msgspec.json.encode(estimate(question, saved))


def estimate(question: EstimateQuestion, saved: Checkpoint) -> EstimateStatus:
    """When a workload starts, by many runs; raises `RefusedError` if it is not part of the state."""
    asked = Cast(question, saved)
    if question.workload not in asked.forward.workloads:
        raise RefusedError(f"workload {question.workload} does not exist, or is not read yet; try again")
    starts: list[Instant | None] = []
    while len(starts) < question.runs and (len(starts) < RUNS_MIN or asked.rounds < ROUNDS_MAX):
        starts.append(asked.start(len(starts)))
    return asked.status(starts)


class Cast:
    """A question with the state that it is about."""

    def __init__(self, question: EstimateQuestion, saved: Checkpoint) -> None:
        self.question = question
        self.rounds = 0
        """Rounds of decisions in all runs so far."""
        self.grain = MICROS
        """How precisely jobs end in a run; the first run tells how precise that has to be."""
        self.now = max(question.now, saved.now)
        self.knowledge = RunTimeKnowledge(question.learned, question.limits)
        where = QueueMap(saved)
        self.local = where.local
        target = next((item.workload for item in saved.items if item.workload.key == question.workload), None)
        self.queues = frozenset() if target is None else where.sharing(where.queue_of(target))
        """The ClusterQueues that may share quota with the workload's."""
        self.forward = Forward(saved, self.now, self.queues, also=question.workload)
        self.known = {key: self.knowledge.facts(one, self.now) for key, one in self.forward.workloads.items()}
        self.ahead = () if target is None else ahead_of(restore(self.forward.saved), self.queues, target.key)

    def start(self, number: int) -> Instant | None:
        """When the workload starts in one run; None if it does not within the horizon."""
        rng = random.Random(f"{self.question.seed}/{number}")
        draws = Draws(self.knowledge.table, shared_stream(rng))
        arrivals = [self.forward.present(key, draws.seconds(*known)) for key, known in self.known.items()]
        if self.question.arrivals:
            arrivals += self.newcomers(draws, rng)
        world = self.forward.world(arrivals)
        world.awaited = self.question.workload
        world.grain = Micros(self.grain)
        past = world.run(Instant(self.now + HORIZON))
        self.rounds += world.rounds
        if number == 0:
            self.grain = max(MICROS, (past.end - self.now) // GRAINS)
        level = world.engine.workload(self.question.workload)
        return None if level is None or not world.has_started(level.key) else level.admitted_at

    def newcomers(self, draws: Draws, rng: random.Random) -> Iterator[Arrival]:
        """Jobs that arrive in this run, at random, as often as their kinds have finished until now."""
        like = {self.known[key].kind: workload for key, workload in self.forward.workloads.items()}
        learned = self.question.learned.kinds
        kinds = [one for one in learned if one.per_day and self.local.get(one.kind.queue) in self.queues]
        rate = sum(one.per_day for one in kinds)
        days = min(ARRIVALS_DAYS, ARRIVALS_MAX / rate) if rate else 0.0
        number = 0
        for one in kinds:
            at = rng.expovariate(one.per_day)
            while at < days:
                number += 1
                instant = Instant(self.now + round(at * 24 * 60 * MINUTE))
                workload = newcomer(one.kind, like.get(one.kind), number, instant)
                seconds = draws.seconds(one.kind, None, 0)
                yield Arrival(instant, workload, RunPlan(Micros(seconds * MICROS)), workload.key)
                at += rng.expovariate(one.per_day)

    def status(self, starts: Sequence[Instant | None]) -> EstimateStatus:
        """The answer, from the start in each run."""
        starts_at = sorted(one for one in starts if one is not None)
        count = len(starts)
        low, high = max(1, floor(OUTSIDE * (count + 1))), min(count, ceil((1 - OUTSIDE) * (count + 1)))
        median = middle(starts)
        known = self.knowledge.sources([self.known[key] for key in self.ahead])
        return EstimateStatus(
            StartState.PENDING,
            format_instant(self.now),
            "",
            in_minutes(starts_at[low - 1], up=False, not_before=self.now) if len(starts_at) >= low else "",
            in_minutes(starts_at[high - 1], up=True, not_before=self.now) if len(starts_at) >= high else "",
            "" if median is None else format_instant(median),
            count,
            len(starts_at),
            HORIZON_DAYS,
            "learned" if self.question.arrivals else "ignored",
            known.workloads,
            known.without_limit,
            known.guessed,
            known.few,
            known.fewest,
        )


def ahead_of(engine: Engine, queues: Collection[str], key: str) -> tuple[str, ...]:
    """The workloads that hold quota of these queues, and those that wait before this one in its own."""
    item = engine.item(key)
    if item is None or item.place is Place.HOLDING:
        return ()
    holding = [one.key for one in engine.items() if one.place is Place.HOLDING and one.queue in queues]
    line = [one.key for one in at_once(engine.line(item.queue))]
    return (*holding, *(line[: line.index(key)] if key in line else ()))


def newcomer(kind: JobKind, like: Workload | None, number: int, at: Instant) -> Workload:
    """A workload that arrives: like one of its kind that is there, else one pod that asks for all of it."""
    namespace = kind.queue.partition("/")[0]
    key, uid = f"{namespace}/{NEWCOMER}{number}", f"{NEWCOMER}{number}"
    if like is None:
        return Workload(key, uid, kind.queue, at, (PodSet("main", 1, kind.requests),))
    return Workload(key, uid, kind.queue, at, like.pod_sets, like.priority, like.boost)


def in_minutes(at: Instant, *, up: bool, not_before: Instant) -> str:
    """A bound of a range, moved outwards to a whole minute."""
    if up:
        return format_instant(Instant(-(-max(at, not_before + 1) // MINUTE) * MINUTE))
    return format_instant(whole_minute(at, not_before))
