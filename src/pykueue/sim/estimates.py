"""Estimates when a workload starts: the state of an engine is run forward many times, with drawn run times."""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import ceil, floor
from typing import BinaryIO, Final

import msgspec
from msgspec.structs import replace

from pykueue.api.durations import Micros
from pykueue.api.estimates import HORIZON_DAYS, EstimateStatus, StartState
from pykueue.base.steps import at_once
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.bridge.estimates import RUNS_MIN, EstimateQuestion
from pykueue.bridge.runtimes import JobKind, RunTimesTable, kind_of
from pykueue.engine.engine import Engine
from pykueue.engine.items import Place
from pykueue.engine.model import ClusterQueue, Cohort, LocalQueue, PodSet, Workload
from pykueue.engine.record.checkpoint import Checkpoint, restore
from pykueue.sim.plans import RunPlan
from pykueue.sim.questions import read
from pykueue.sim.refusal import RefusedError
from pykueue.sim.runtimes import ENOUGH, Draws
from pykueue.sim.trace import Arrival, Trace
from pykueue.sim.world import World

MINUTE: Final = 60 * MICROS
HORIZON: Final = HORIZON_DAYS * 24 * 60 * MINUTE
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
    if question.workload not in asked.workloads:
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
        self.table = RunTimesTable(question.learned)
        self.local = {fact.thing.key: fact.thing.queue for fact in saved.facts if isinstance(fact.thing, LocalQueue)}
        """The ClusterQueue of each LocalQueue."""
        target = next((item.workload for item in saved.items if item.workload.key == question.workload), None)
        self.queues = frozenset() if target is None else self.sharing(self.queue_of(target), saved)
        """The ClusterQueues that may share quota with the workload's."""
        everything = saved.options.pods_ready is not None and saved.options.pods_ready.block_admission
        self.workloads = {
            item.workload.key: item.workload
            for item in saved.items
            if item.workload is target
            or (not item.workload.finished and (everything or self.queue_of(item.workload) in self.queues))
        }
        self.saved = without_others(saved, self.workloads)
        self.things = tuple(fact.thing for fact in saved.facts)
        self.kinds = {key: kind_of(workload) for key, workload in self.workloads.items()}
        self.limits = {key: self.limit(workload) for key, workload in self.workloads.items()}
        self.ahead = () if target is None else ahead_of(restore(self.saved), self.queues, target.key)

    def queue_of(self, workload: Workload) -> str:
        """The ClusterQueue of a workload."""
        return self.local.get(workload.local_queue, "") if workload.admission is None else workload.admission.queue

    def sharing(self, queue: str, saved: Checkpoint) -> frozenset[str]:
        """The ClusterQueues of the same tree of cohorts, this one included."""
        parents = {fact.thing.name: fact.thing.parent for fact in saved.facts if isinstance(fact.thing, Cohort)}
        cohorts = {fact.thing.name: fact.thing.cohort for fact in saved.facts if isinstance(fact.thing, ClusterQueue)}
        if not cohorts.get(queue):
            return frozenset({queue})
        root = root_of(cohorts[queue], parents)
        return frozenset(name for name, cohort in cohorts.items() if cohort and root_of(cohort, parents) == root)

    def limit(self, workload: Workload) -> int | None:
        """How many seconds a workload may run from its admission on."""
        own = None if workload.max_run is None else workload.max_run - workload.past_run
        of_job = self.question.limits.get(workload.job_uid) if workload.job_uid else None
        return min((one for one in (own, of_job) if one is not None), default=None)

    def start(self, number: int) -> Instant | None:
        """When the workload starts in one run; None if it does not within the horizon."""
        rng = random.Random(f"{self.question.seed}/{number}")
        draws = Draws(self.table, rng)
        arrivals = [self.present(workload, draws) for workload in self.workloads.values()]
        if self.question.arrivals:
            arrivals += self.newcomers(draws, rng)
        world = World(Trace(self.now, self.saved.options, self.things, tuple(arrivals), begin=self.saved))
        world.awaited = self.question.workload
        world.grain = Micros(self.grain)
        past = world.run(Instant(self.now + HORIZON))
        self.rounds += world.rounds
        if number == 0:
            self.grain = max(MICROS, (past.end - self.now) // GRAINS)
        level = world.engine.workload(self.question.workload)
        return None if level is None or not world.has_started(level.key) else level.admitted_at

    def present(self, workload: Workload, draws: Draws) -> Arrival:
        """A workload that is there, and how long it runs in this run."""
        key = workload.key
        done = 0
        if workload.admitted_at is not None and workload.evicted is None:
            done = max(0, self.now - workload.admitted_at)
        seconds = draws.seconds(self.kinds[key], self.limits[key], done // MICROS)
        return Arrival(self.now, workload, RunPlan(Micros(seconds * MICROS)), key, done=Micros(done))

    def newcomers(self, draws: Draws, rng: random.Random) -> Iterator[Arrival]:
        """Jobs that arrive in this run, at random, as often as their kinds have finished until now."""
        like = {self.kinds[key]: workload for key, workload in self.workloads.items()}
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
        unlimited = [key for key in self.ahead if self.limits[key] is None]
        known = [len(self.table.find(self.kinds[key]).seconds) for key in unlimited]
        few = [one for one in known if 0 < one < ENOUGH]
        return EstimateStatus(
            StartState.PENDING,
            format_instant(self.now),
            "",
            in_minutes(starts_at[low - 1], up=False, not_before=self.now) if len(starts_at) >= low else "",
            in_minutes(starts_at[high - 1], up=True, not_before=self.now) if len(starts_at) >= high else "",
            format_instant(starts_at[(count - 1) // 2]) if len(starts_at) > (count - 1) // 2 else "",
            count,
            len(starts_at),
            HORIZON_DAYS,
            "learned" if self.question.arrivals else "ignored",
            len(self.ahead),
            len(unlimited),
            known.count(0),
            len(few),
            min(few, default=0),
        )


def without_others(saved: Checkpoint, kept: Collection[str]) -> Checkpoint:
    """The state with these workloads only. Those of another tree of cohorts change nothing for them."""
    return replace(
        saved,
        items=tuple(item for item in saved.items if item.workload.key in kept),
        queues=tuple(
            replace(queue, aside=tuple((key, news) for key, news in queue.aside if key in kept))
            for queue in saved.queues
        ),
        timers=tuple((at, key) for at, key in saved.timers if key in kept),
        touched=tuple(key for key in saved.touched if key in kept),
        not_ready=tuple(key for key in saved.not_ready if key in kept),
        without_queue=tuple(key for key in saved.without_queue if key in kept),
    )


def root_of(cohort: str, parents: Mapping[str, str]) -> str:
    """The root of a cohort's tree; of cohorts in a circle, the first by name."""
    seen: dict[str, None] = {}
    while cohort not in seen:
        seen[cohort] = None
        parent = parents.get(cohort, "")
        if not parent:
            return cohort
        cohort = parent
    return min(seen)


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
    return format_instant(Instant(max(at // MINUTE * MINUTE, not_before)))
