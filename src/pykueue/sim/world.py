"""The simulation: virtual time, a heap of events, and the loop around the engine; jobs follow their plans."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from heapq import heappop, heappush
from sys import maxsize
from typing import Final, assert_never

from msgspec.structs import replace

from pykueue.api.durations import Micros
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, Seconds, parse_instant
from pykueue.engine.decisions import Admit, Deactivate, Decision, Evict, Requeue, Reserve, Unreserve, Wait, Why
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Stopped, Synced, Written
from pykueue.engine.model import Check, CheckState, PodsReady, Workload
from pykueue.engine.record.checkpoint import restore
from pykueue.engine.record.workloadcauses import reason_of
from pykueue.sim.plans import RunPlan
from pykueue.sim.provisioning import Provisioner
from pykueue.sim.trace import Arrival, Trace

CHECK_RETRY: Final = Seconds(60)
"""How long a check that asks for a retry waits for it."""
TRIES_SHOWN: Final = 3
"""How often a job whose pods are never ready is started before repetitions are omitted."""
ROUNDS_BASE: Final = 10_000
ROUNDS_EACH: Final = 500
"""Rounds of deciding that indicate an endless loop: this many, and this many more for each workload."""
END_OF_TIME: Final = parse_instant("9000-01-01T00:00:00Z")

CHECK_STATES: Final = {"ready": "Ready", "pending": "Pending", "retry": "Retry", "rejected": "Rejected"}


class MomentKind(StrEnum):
    """Kinds of event of a workload."""

    ARRIVES = "arrives"
    WAITS = "waits"
    RESERVES = "reserves"
    STARTS = "starts"
    RUNS = "runs"
    FINISHES = "finishes"
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    RELEASES = "releases"
    REQUEUES = "requeues"
    DEACTIVATED = "deactivated"


class Moment(Frozen):
    """One event, with the decision behind it if the engine made one."""

    at: Instant
    workload: str
    what: MomentKind
    decision: Decision | None = None
    level: Workload | None = None
    """The workload as it was then."""


class End(StrEnum):
    """Why the simulation ended."""

    REST = "rest"
    """Nothing is left to happen."""
    UNTIL = "until"
    """The requested time is over."""
    REPEATS = "repeats"
    """The rest would repeat itself forever."""
    BOUND = "bound"
    """It exceeded the bound on rounds or events."""
    STARTED = "started"
    """The workload that was awaited has started."""


class Past(Frozen):
    """Everything that happened."""

    trace: Trace
    moments: tuple[Moment, ...]
    end: Instant
    ended: End
    levels: tuple[Workload, ...]
    """Every workload in its final state, in order of arrival."""
    reasons: Mapping[str, Why]
    """Why each workload that has arrived and holds no quota is pending at the end."""


class Event(StrEnum):
    """Events of the cluster itself."""

    ARRIVE = "arrive"
    READY = "ready"
    FINISH = "finish"
    STOPPED = "stopped"
    PROVISION = "provision"


class Run:
    """The state of one job."""

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self.attempt = 0
        """Counts admissions, so that events of an earlier one are recognized."""
        self.since: Instant | None = None
        """Since when all its pods run."""
        self.done = arrival.done
        """How much of its run is done: what earlier attempts have saved, and what this one did before the start."""
        self.retried: set[str] = set()
        """Checks that have asked for a retry."""
        self.looks: set[Instant] = set()
        """When its requests for capacity are checked again."""

    @property
    def plan(self) -> RunPlan:
        """How the job behaves."""
        return self.arrival.plan


class World:
    """A cluster whose clock jumps from one event to the next."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.now = trace.start
        self.engine = Engine(trace.options) if trace.begin is None else restore(trace.begin)
        self.heap: list[tuple[Instant, int, Event, str, int]] = []
        self.planned = 0
        self.rounds = 0
        self.rounds_max = ROUNDS_BASE + ROUNDS_EACH * len(trace.arrivals)
        self.moments: list[Moment] = []
        self.moments_max = maxsize
        """The most events before it ends."""
        self.provisioner = Provisioner(trace.provisioned)
        self.checks = {thing.name for thing in trace.things if isinstance(thing, Check)}
        self.awaited = ""
        """The workload at whose start to end; empty for none."""
        self.grain = Micros(1)
        """Jobs end at multiples of this, so that many end at the same instant and cost one evaluation of the queue."""
        self.rounding = 0
        """By how much the ends so far were moved to the past; the next makes up for it."""
        for thing in trace.things if trace.begin is None else ():
            self.engine.observe(Seen(thing))
        self.engine.observe(Synced())
        self.runs = {arrival.workload.key: Run(arrival) for arrival in trace.arrivals}
        for key, run in self.runs.items():
            known = self.engine.item(key)
            if known is None:
                self.plan(run.arrival.at, Event.ARRIVE, key)
                continue
            for _ in tuple(known.in_flight):
                self.engine.observe(Written(key))
            self.resume(run, key)

    def run(self, until: Instant | None = None) -> Past:
        """Run until an instant, or until nothing is left to happen."""
        ended = self.proceed(END_OF_TIME if until is None else min(until, END_OF_TIME), bounded=until is None)
        if ended is not End.UNTIL:
            # The engine may have repeated decisions that were settled; they are not part of the result.
            self.now = self.moments[-1].at if self.moments else self.trace.start
        levels = tuple(self.level(key) for key in self.runs)
        return Past(self.trace, tuple(self.moments), self.now, ended, levels, dict(self.reasons()))

    def reasons(self) -> Iterator[tuple[str, Why]]:
        """Yield why each pending workload is pending now: the verdict on its class, or what was decided about it."""
        for key in self.runs:
            item = self.engine.item(key)
            if item is None or item.workload.admission is not None or item.workload.finished:
                continue
            _, why = reason_of(self.engine, item)
            if why is not None:
                yield key, why

    def proceed(self, until: Instant, *, bounded: bool) -> End:
        """Go from one instant to the next; returns why it ended."""
        while True:
            if not self.settle():
                return End.BOUND
            if self.has_started(self.awaited):
                return End.STARTED
            found = self.next_instant()
            if found is None:
                return End.REST
            if found > until:
                self.now = max(self.now, until)
                return End.UNTIL
            if bounded and self.repeats():
                return End.REPEATS
            self.now = found
            while self.heap and self.heap[0][0] <= self.now:
                _, _, event, key, attempt = heappop(self.heap)
                self.happen(event, self.runs[key], key, attempt)

    def has_started(self, key: str) -> bool:
        """Whether a workload is admitted; empty keys are of no workload."""
        level = self.engine.workload(key)
        return level is not None and level.admitted_at is not None and level.evicted is None

    def settle(self) -> bool:
        """Let the engine decide until nothing changes at this instant; returns whether it settled."""
        while (wake := self.engine.next_wake()) is not None and wake <= self.now:
            self.rounds += 1
            if self.rounds > self.rounds_max or len(self.moments) > self.moments_max:
                return False
            decisions = self.engine.decide(self.now)
            for decision in decisions:
                self.engine.observe(Written(decision.workload))
            for decision in decisions:
                self.carry_out(decision, self.runs[decision.workload])
        return True

    def next_instant(self) -> Instant | None:
        """The next instant with an event of the cluster or a timer of the engine."""
        found = [self.heap[0][0]] if self.heap else []
        wake = self.engine.next_wake()
        if wake is not None:
            found.append(wake)
        return min(found, default=None)

    def repeats(self) -> bool:
        """Whether the rest only restarts jobs whose pods are never ready."""
        waiting = self.trace.options.pods_ready
        if self.heap or waiting is None or waiting.backoff_limit is not None:
            return False
        moving = [
            level
            for level in map(self.level, self.runs)
            if level.active and not level.finished and (level.admitted_at is not None or level.requeue_at is not None)
        ]
        return bool(moving) and all(
            self.runs[level.key].plan.ready is None
            and self.runs[level.key].attempt >= TRIES_SHOWN
            and level.max_run is None
            for level in moving
        )

    def level(self, key: str) -> Workload:
        """A workload's present state; its initial state if it has not arrived."""
        level = self.engine.workload(key)
        return self.runs[key].arrival.workload if level is None else level

    def plan(self, at: Instant, event: Event, key: str) -> None:
        """Schedule an event; those of one instant happen in the order in which they were scheduled."""
        self.planned += 1
        heappush(self.heap, (at, self.planned, event, key, self.runs[key].attempt))

    def later(self, delay: Micros) -> Instant:
        """The instant this much later."""
        return Instant(self.now + delay)

    def record(self, key: str, what: MomentKind, decision: Decision | None = None) -> None:
        """Record an event."""
        self.moments.append(Moment(self.now, key, what, decision, self.level(key)))

    # Events of the cluster itself.

    def happen(self, event: Event, run: Run, key: str, attempt: int) -> None:
        """Handle an event that the engine did not decide."""
        level = self.level(key)
        current = attempt == run.attempt
        match event:
            case Event.ARRIVE:
                self.engine.observe(Seen(run.arrival.workload))
                self.record(key, MomentKind.ARRIVES)
                self.resume(run, key)
            case Event.READY if current and level.admitted_at is not None and level.evicted is None:
                self.become_ready(run, key, level)
            case Event.FINISH if current and level.evicted is None and level.active:
                self.engine.observe(Seen(replace(level, finished=True)))
                self.record(key, MomentKind.FINISHES)
                self.provision(run, key)
            case Event.PROVISION:
                run.looks.discard(self.now)
                self.provision(run, key)
            case Event.STOPPED if level.evicted is not None and level.admission is not None:
                self.engine.observe(Seen(replace(level, pods_ready=self.not_ready())))
                self.engine.observe(Stopped(key))
            case _:
                pass  # It was evicted before its pods were ready or done.

    def resume(self, run: Run, key: str) -> None:
        """Continue a workload whose manifest says that it holds quota already."""
        level = self.level(key)
        if level.admission is None or level.finished:
            return
        if level.evicted is not None:
            self.plan(self.later(run.plan.stop), Event.STOPPED, key)
        elif level.admitted_at is None:
            self.answer(run, key)
        elif level.pods_ready is not None and level.pods_ready.ready:
            self.proceed_to_end(run, key)
        elif run.plan.ready is not None:
            self.plan(self.later(run.plan.ready), Event.READY, key)

    def become_ready(self, run: Run, key: str, level: Workload) -> None:
        """All pods run; from now on the job makes progress."""
        self.engine.observe(Seen(replace(level, pods_ready=PodsReady(True, "Started", self.now))))
        self.record(key, MomentKind.RUNS)
        self.proceed_to_end(run, key)

    def proceed_to_end(self, run: Run, key: str) -> None:
        """Schedule the end of a job that makes progress from now on."""
        run.since = self.now
        exact = self.later(Micros(max(0, run.plan.run - run.done))) + self.rounding
        at = max(self.now, (exact + self.grain // 2) // self.grain * self.grain)
        self.rounding = min(exact - at, self.grain)
        self.plan(Instant(at), Event.FINISH, key)

    def not_ready(self) -> PodsReady:
        """The condition of a job whose pods have not started."""
        return PodsReady(False, "WaitForStart", self.now)

    # Decisions of the engine.

    def carry_out(self, decision: Decision, run: Run) -> None:
        """Carry out a decision."""
        key = decision.workload
        match decision:
            case Wait():
                self.record(key, MomentKind.WAITS, decision)
            case Reserve():
                self.record(key, MomentKind.RESERVES, decision)
                self.answer(run, key)
            case Admit():
                self.record(key, MomentKind.STARTS, decision)
                self.start(run, key)
                self.provision(run, key)
            case Evict(preemption=preemption):
                self.record(key, MomentKind.EVICTED if preemption is None else MomentKind.PREEMPTED, decision)
                self.stop(run, key)
                self.provision(run, key)
            case Unreserve():
                self.record(key, MomentKind.RELEASES, decision)
            case Requeue():
                self.record(key, MomentKind.REQUEUES, decision)
            case Deactivate(cause=cause):
                if cause is not None:
                    self.record(key, MomentKind.DEACTIVATED, decision)
            case _:
                assert_never(decision)

    def start(self, run: Run, key: str) -> None:
        """Start the job: its pods are created, and are ready when its plan says."""
        run.attempt += 1
        run.since = None
        self.engine.observe(Seen(replace(self.level(key), pods_ready=self.not_ready())))
        if run.plan.ready is not None:
            self.plan(self.later(run.plan.ready), Event.READY, key)

    def stop(self, run: Run, key: str) -> None:
        """Stop the job: its pods are gone after a while, and so is its progress unless it was saved."""
        level = self.level(key)
        progress = 0 if run.since is None else self.now - run.since
        run.done = Micros(run.done + progress if run.plan.checkpoint else 0)
        run.since = None
        if level.admission is not None:
            delay = Micros(0) if level.admitted_at is None else run.plan.stop
            self.plan(self.later(delay), Event.STOPPED, key)

    def answer(self, run: Run, key: str) -> None:
        """Let every AdmissionCheck of the workload's queue answer as the manifests say."""
        level = self.level(key)
        if level.admission is None or self.engine.queue(level.admission.queue) is None:
            return
        required = self.engine.required_checks(level)
        states = tuple(self.check_state(run, level, check) for check in required if check in self.checks)
        self.engine.observe(Seen(replace(level, checks=states)))
        self.provision(run, key)

    def check_state(self, run: Run, level: Workload, check: str) -> CheckState:
        """The state of one check of a workload; it asks for a retry only once."""
        if check in self.provisioner.known.checks:
            known = next((one for one in level.checks if one.name == check), None)
            return CheckState(check, "Pending", self.now) if known is None else known
        answer = self.trace.answers.get(check, "ready")
        if answer == "retry" and check in run.retried:
            answer = "ready"
        if answer == "retry":
            run.retried.add(check)
            return CheckState(check, CHECK_STATES[answer], self.now, requeue_after=CHECK_RETRY)
        return CheckState(check, CHECK_STATES[answer], self.now)

    def provision(self, run: Run, key: str) -> None:
        """Update the workload's provisioning checks from the state of their requests."""
        level = self.level(key)
        if not self.provisioner.concerns(level):
            return
        arrival = run.arrival
        states, again = self.provisioner.turn(arrival.view, level, self.now, may_run_again=arrival.may_run_again)
        if states != level.checks:
            self.engine.observe(Seen(replace(level, checks=states)))
        if again is not None and again not in run.looks:
            run.looks.add(again)
            self.plan(again, Event.PROVISION, key)
