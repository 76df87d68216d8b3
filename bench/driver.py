"""Carry out the engine's decisions in virtual time: jobs that run and end."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from bench.shapes import Arrival
from pykueue.base.units import Instant
from pykueue.engine.decisions import Admit, Decision, Evict, Wait
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Stopped, Written
from pykueue.engine.record.unserved import Preemptors

ARRIVES = 0
"""The attempt number of a workload's creation; its attempts to run count from one."""


class Driver:
    """Carries out decisions at once: admitted workloads run to their end, evicted ones stop."""

    def __init__(self, engine: Engine, arrivals: Iterable[Arrival]) -> None:
        self.engine = engine
        self.arrivals = {arrival.workload.key: arrival for arrival in arrivals}
        self.attempts: dict[str, int] = {}
        """The running attempt of each workload, so that the end of an evicted one is ignored."""
        self.events: dict[Instant, list[tuple[int, str]]] = {}
        """What happens at each instant: the attempts that arrive or end, and their workloads."""
        for key, arrival in self.arrivals.items():
            self.events.setdefault(arrival.at, []).append((ARRIVES, key))
        self.instants = list(self.events)
        """The keys of `events`, as a heap."""
        heapify(self.instants)
        self.now = Instant(0)
        self.cycles = self.admitted = self.evicted = self.waits = self.finished = 0
        self.lost_micros = self.unserved = 0
        """The run time that evictions cost, and how many of them did not help the preemptor."""
        self.started: dict[str, Instant] = {}
        self.preemptors = Preemptors()

    def step(self) -> None:
        """Advance to the next instant at which something happens, and process it."""
        self.now = heappop(self.instants)
        for attempt, key in sorted(self.events.pop(self.now)):
            self.happen(key, attempt)
        self.settle()

    def happen(self, key: str, attempt: int) -> None:
        """Create a workload, or end its current attempt successfully."""
        if attempt == ARRIVES:
            self.engine.observe(Seen(self.arrivals[key].workload))
        elif attempt == self.attempts[key]:
            self.finished += 1
            level = self.engine.workload(key)
            assert level is not None, f"{key} is running"
            self.engine.observe(Seen(replace(level, finished=True)))

    def settle(self) -> None:
        """Decide and carry out until nothing is left to decide at this instant."""
        engine = self.engine
        wake = engine.next_wake()
        while wake is not None and wake <= self.now:
            self.cycles += 1
            decisions = engine.decide(self.now)
            self.unserved += sum(one.evictions for one in self.preemptors.note(engine, decisions))
            for decision in decisions:
                engine.observe(Written(decision.workload))
                self.carry_out(decision)
            wake = engine.next_wake()

    def carry_out(self, decision: Decision) -> None:
        """Apply a decision to a job."""
        key = decision.workload
        match decision:
            case Admit():
                self.admitted += 1
                self.started[key] = self.now
                attempt = self.attempts[key] = self.attempts.get(key, ARRIVES) + 1
                end = Instant(self.now + self.arrivals[key].run_micros)
                if end not in self.events:
                    self.events[end] = []
                    heappush(self.instants, end)
                self.events[end].append((attempt, key))
            case Evict():
                self.evicted += 1
                self.lost_micros += self.now - self.started[key]
                self.attempts[key] += 1
                self.engine.observe(Stopped(key))
            case Wait():
                self.waits += 1
