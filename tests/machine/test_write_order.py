"""Is what is stored within every quota, in whatever order the writes of decisions are stored?

The machine holds the stored Workloads. Decisions wait to be stored: those on one Workload in their order, those that
name others `after` the releases of these, and otherwise in any order. A write may also be refused, and then so is every
write that was to come after it.
"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from pykueue.base.units import MICROS, Instant, Seconds
from pykueue.engine.assume import after
from pykueue.engine.decisions import Admit, Deactivate, Decision, Reserve, Unreserve
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Gone, Leading, Refused, Seen, Stopped, Synced, Written
from pykueue.engine.model import (
    Check,
    CheckRule,
    CheckState,
    ClusterQueue,
    Flavor,
    LocalQueue,
    Namespace,
    PodSet,
    Policy,
    Preemption,
    Quota,
    ResourceGroup,
    Selector,
    StopPolicy,
    Thing,
    Workload,
)
from pykueue.engine.record.checkpoint import checkpoint, restore
from pykueue.engine.record.invariants import broken
from tests.engine.reference import Holder, Numbers

KEYS = tuple(f"ns/w{number}" for number in range(8))
START = Instant(1_700_000_000 * MICROS)


def queue(name: str, cpu: int, cohort: str = "", checks: tuple[CheckRule, ...] = ()) -> ClusterQueue:
    return ClusterQueue(
        name,
        cohort,
        (ResourceGroup(("cpu",), ("spot",)),),
        (Quota("spot", "cpu", cpu),),
        namespaces=Selector(),
        preemption=Preemption(Policy.LOWER, Policy.ANY),
        checks=checks,
    )


QUEUES = (queue("north", 3, "land"), queue("south", 3, "land", (CheckRule("budget"),)), queue("isle", 3))


@st.composite
def workloads(draw: st.DrawFn, key: str, number: int, now: Instant) -> Workload:
    return Workload(
        key,
        f"uid-{number}",
        draw(st.sampled_from([f"ns/{one.name}" for one in QUEUES])),
        now,
        (PodSet("main", 1, (("cpu", draw(st.integers(1, 3))),)),),
        priority=draw(st.integers(0, 2)),
        max_run=draw(st.sampled_from((None, Seconds(5)))),
    )


def gives_back(decision: Decision) -> bool:
    return isinstance(decision, Unreserve | Deactivate)


class WriteOrderMachine(RuleBasedStateMachine):
    """A store of Workloads whose writes arrive in any order that the decisions allow."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.engine = Engine()
        self.store: dict[str, Workload] = {}
        self.version = 0
        self.unwritten: list[Decision] = []

    def see(self, thing: Thing) -> None:
        self.version += 1
        self.engine.observe(Seen(thing, self.version))

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        for thing in (Namespace("ns"), Flavor("spot"), Check("budget", active=True), *QUEUES):
            self.see(thing)
        for one in QUEUES:
            self.see(LocalQueue(f"ns/{one.name}", one.name))
        self.engine.observe(Synced())
        self.create(data)
        self.decide_and_store_all(data, 0)

    # The cluster.

    @rule(data=st.data())
    def create(self, data: st.DataObject) -> None:
        """Create every Workload that does not exist."""
        for key in KEYS:
            if key not in self.store:
                self.store[key] = data.draw(workloads(key, self.version, self.now))
                self.see(self.store[key])

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: str) -> None:
        if self.store.pop(key, None) is not None:
            self.unwritten = [decision for decision in self.unwritten if decision.workload != key]
            self.engine.observe(Gone("Workload", key))

    @rule(key=st.sampled_from(KEYS))
    def finish(self, key: str) -> None:
        self.edit(key, finished=True)

    @rule(key=st.sampled_from(KEYS), state=st.sampled_from(("Ready", "Ready", "Retry", "Rejected")))
    def report_check(self, key: str, state: str) -> None:
        self.edit(key, checks=(CheckState("budget", state, self.now),))

    def edit(self, key: str, **changes: object) -> None:
        """Someone else changes a Workload; writes of ours that wait are then refused."""
        if key in self.store:
            self.refuse(key)
            self.store[key] = replace(self.store[key], **changes)
            self.see(self.store[key])

    @rule(name=st.sampled_from([one.name for one in QUEUES]), stop=st.sampled_from(StopPolicy))
    def stop_queue(self, name: str, stop: StopPolicy) -> None:
        self.see(LocalQueue(f"ns/{name}", name, stop))

    # The engine, and the writes of its decisions.

    @rule(seconds=st.sampled_from((0, 10)), cycles=st.integers(1, 6))
    def decide(self, seconds: int, cycles: int) -> None:
        """Some time passes, in which the jobs of evicted Workloads stop; then the engine decides several times."""
        self.now = Instant(self.now + seconds * MICROS)
        for key, workload in self.store.items():
            if workload.evicted is not None:
                self.engine.observe(Stopped(key))
        for _ in range(cycles):
            self.unwritten += self.engine.decide(self.now)
            assert not list(broken(self.engine))

    @rule(data=st.data(), seconds=st.sampled_from((0, 10)))
    def decide_and_store_all(self, data: st.DataObject, seconds: int) -> None:
        for _ in range(3):
            self.decide(seconds, 3)
            self.store_some(data, len(self.unwritten))

    def may_be_stored(self, index: int) -> bool:
        """Whether no earlier write has to be stored first."""
        decision, earlier = self.unwritten[index], self.unwritten[:index]
        named = decision.after if isinstance(decision, Admit | Reserve) else ()
        return not any(
            one.workload == decision.workload or (one.workload in named and gives_back(one)) for one in earlier
        )

    @rule(data=st.data(), times=st.integers(1, 6))
    def store_some(self, data: st.DataObject, times: int) -> None:
        for _ in range(min(times, len(self.unwritten))):
            free = [index for index in range(len(self.unwritten)) if self.may_be_stored(index)]
            decision = self.unwritten.pop(data.draw(st.sampled_from(free[::-1])))
            self.version += 1
            self.store[decision.workload] = after(self.store[decision.workload], decision)
            self.engine.observe(Written(decision.workload, self.version))
            self.stored_is_within_quota()

    @rule(key=st.sampled_from(KEYS))
    def refuse(self, key: str) -> None:
        refused = {key}
        kept: list[Decision] = []
        lost: set[str] = set()
        for decision in self.unwritten:
            if isinstance(decision, Admit | Reserve) and not lost.isdisjoint(decision.after):
                refused.add(decision.workload)
            if decision.workload not in refused:
                kept.append(decision)
            elif gives_back(decision):
                lost.add(decision.workload)
        told = sorted({decision.workload for decision in self.unwritten if decision.workload in refused})
        self.unwritten = [decision for decision in kept if decision.workload not in refused]
        for one in told:
            self.engine.observe(Refused(one))

    @rule()
    def lose_the_lead_and_regain_it(self) -> None:
        self.engine.observe(Leading(False))
        for key in list(self.store):
            self.refuse(key)
        self.engine.observe(Leading(True))

    @rule()
    def restart_from_a_checkpoint(self) -> None:
        self.engine = restore(checkpoint(self.engine))

    @invariant()
    def stored_is_within_quota(self) -> None:
        holders = [
            Holder(
                key,
                workload.admission.queue,
                tuple(
                    ((flavor, resource), amount)
                    for part in workload.admission.assignments
                    for (resource, flavor), (_, amount) in zip(part.flavors, part.usage, strict=True)
                ),
            )
            for key, workload in self.store.items()
            if workload.admission is not None and workload.active and not workload.finished
        ]
        assert not list(Numbers(QUEUES, (), holders).overdrawn())


TestWriteOrder = WriteOrderMachine.TestCase
