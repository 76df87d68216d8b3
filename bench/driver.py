"""What would the world do with the engine's decisions? Jobs that run and end, in virtual time."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from bench.shapes import Arrival
from pykueue.base.units import Instant
from pykueue.engine.decisions import Admit, Decision, Evict, Wait
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Stopped, Written

ARRIVES = 0
"""The attempt that stands for a workload's creation; its attempts to run count from one."""


class Driver:
    """Carries decisions out at once: what is admitted runs to its end, what is evicted stops."""

    def __init__(self, engine: Engine, arrivals: Iterable[Arrival]) -> None:
        self.engine = engine
        self.arrivals = {arrival.workload.key: arrival for arrival in arrivals}
        self.attempts: dict[str, int] = {}
        """Which attempt of a workload is running, so that the end of one that was evicted is not heard."""
        self.events = [(arrival.at, ARRIVES, key) for key, arrival in self.arrivals.items()]
        heapify(self.events)
        self.now = Instant(0)
        self.cycles = self.admitted = self.evicted = self.waits = self.finished = 0

    def step(self) -> None:
        """Go on to the next instant at which something happens, and through it."""
        self.now = self.events[0][0]
        while self.events and self.events[0][0] == self.now:
            _, attempt, key = heappop(self.events)
            self.happen(key, attempt)
        self.settle()

    def happen(self, key: str, attempt: int) -> None:
        """A workload is created, or the attempt that it is making ends well."""
        if attempt == ARRIVES:
            self.engine.observe(Seen(self.arrivals[key].workload))
        elif attempt == self.attempts[key]:
            self.finished += 1
            level = self.engine.workload(key)
            assert level is not None, f"{key} is running"
            self.engine.observe(Seen(replace(level, finished=True)))

    def settle(self) -> None:
        """Decide, and carry it out, until there is nothing more to decide at this instant."""
        engine = self.engine
        wake = engine.next_wake()
        while wake is not None and wake <= self.now:
            self.cycles += 1
            for decision in engine.decide(self.now):
                engine.observe(Written(decision.workload))
                self.carry_out(decision)
            wake = engine.next_wake()

    def carry_out(self, decision: Decision) -> None:
        """What a decision does to a job."""
        key = decision.workload
        match decision:
            case Admit():
                self.admitted += 1
                attempt = self.attempts[key] = self.attempts.get(key, ARRIVES) + 1
                heappush(self.events, (Instant(self.now + self.arrivals[key].run_micros), attempt, key))
            case Evict():
                self.evicted += 1
                self.attempts[key] += 1
                self.engine.observe(Stopped(key))
            case Wait():
                self.waits += 1
