"""Does the engine keep its promises whatever it is told, in whatever order, and whatever becomes of its writes?

The machine plays the cluster: it holds the objects, edits them, stores the engine's decisions or refuses them, and
lets time pass. All that it says is kept, and said again to a second engine at the end: that must decide the same.
"""

from typing import Any, cast

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from pykueue.base.units import MICROS, Instant, Seconds
from pykueue.engine.assume import after
from pykueue.engine.decisions import Admit, Decision, Evict, Reserve, Unreserve
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Gone, Kind, Leading, Refused, Seen, Stopped, Synced, Written
from pykueue.engine.items import Place
from pykueue.engine.model import (
    KUEUE_SETTING,
    Admission,
    Assignment,
    Check,
    CheckState,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    PodsReady,
    ShareStrategy,
    Thing,
    Workload,
)
from pykueue.engine.preempt import SPARED_MAX
from pykueue.engine.record.invariants import at_rest, broken, over_quota, overlooked
from pykueue.engine.record.preemptions import Preemptions
from pykueue.engine.snapshot import Snapshot, fits
from tests.engine.reference import Holder, Numbers
from tests.machine.cluster import (
    CHANGES,
    FLAVORS,
    KEYS,
    LOCALS,
    NAMESPACES,
    QUEUES,
    RARELY,
    START,
    options,
    pod_sets,
    queues,
    workloads,
)

BOTH = (ShareStrategy.FINAL, ShareStrategy.INITIAL)
CYCLES_MAX = 60
"""So many cycles in a row at one instant would be an engine that does not come to rest."""


def starts(decision: Decision) -> bool:
    """Whether a decision gives a workload quota that it did not have."""
    return isinstance(decision, Reserve) or (isinstance(decision, Admit) and not decision.reserved_before)


class EngineMachine(RuleBasedStateMachine):
    """A cluster around one engine."""

    fixed = True
    """Whether the engine runs with our differences from Kueue, and so keeps the promises that rest on them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.engine = Engine()
        self.options = Options()
        self.script: list[Fact | tuple[Instant, bytes]] = []
        self.store: dict[str, Workload] = {}
        self.version = 0
        self.uids = 0
        self.unwritten: list[Decision] = []
        self.stranded = False
        """Whether an edit or a refusal may have left usage above quota."""
        self.preempted: dict[str, str] = {}
        """Who was evicted for whom, while that one waits as it was."""

    def start(self, chosen: Options) -> None:
        self.options = chosen
        self.engine = Engine(chosen)

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Most of a cluster, so that workloads have somewhere to go from the first step on."""
        self.start(data.draw(options()))
        for name in QUEUES:
            self.see(data.draw(queues(name)))
        self.put_the_rest_in_order()
        self.tell(Synced())
        for _ in range(6):
            self.make(data)
        self.decide_until_quiet()

    def put_the_rest_in_order(self) -> None:
        for name in FLAVORS:
            self.see(Flavor(name, (("kind", name),)))
        for name in NAMESPACES:
            self.see(Namespace(name, (("team", "a"),)))
        self.see(Check("budget", active=True))
        for key in LOCALS:
            self.see(LocalQueue(key, key.partition("/")[2]))

    # What the cluster says.

    def tell(self, fact: Fact) -> None:
        self.script.append(fact)
        self.engine.observe(fact)

    def see(self, thing: Thing) -> None:
        self.version += 1
        self.tell(Seen(thing, self.version))

    def edit(self, key: str, **changes: Any) -> None:
        """Someone else changes a workload. A write of the engine's that is on its way is then refused."""
        if key not in self.store:
            return
        self.store[key] = replace(self.store[key], **changes)
        if any(decision.workload == key for decision in self.unwritten):
            self.refuse(key)
        self.see(self.store[key])

    def refuse(self, key: str) -> None:
        self.unwritten = [decision for decision in self.unwritten if decision.workload != key]
        self.stranded = True
        self.forget_preemption(key)
        self.tell(Refused(key, "conflict"))

    def forget_preemption(self, key: str) -> None:
        """A workload is no longer what it was when others were evicted for it, or it for others."""
        self.preempted = {victim: by for victim, by in self.preempted.items() if key not in (victim, by)}

    # Objects.

    @rule(data=st.data(), kind=st.sampled_from(("queue", "queue", "cohort", "flavor", "local", "namespace", "check")))
    def change_an_object(self, data: st.DataObject, kind: str) -> None:
        gone = data.draw(RARELY)
        if kind in ("queue", "cohort"):
            self.stranded, self.preempted = True, {}
        thing = data.draw(CHANGES[kind])
        if gone:
            name = thing.key if isinstance(thing, LocalQueue | Workload) else thing.name
            self.tell(Gone(cast(Kind, type(thing).__name__), name))
        else:
            self.see(thing)

    @rule()
    def repair(self) -> None:
        """What a disturbance took away is there again, so that it is not the end of the story."""
        self.put_the_rest_in_order()

    # Workloads.

    def make(self, data: st.DataObject, **fixed: Any) -> None:
        free = [key for key in KEYS if key not in self.store]
        if free:
            self.uids += 1
            made = data.draw(workloads(data.draw(st.sampled_from(free)), self.uids))
            self.store[made.key] = replace(made, **fixed)
            self.see(self.store[made.key])

    @rule(data=st.data(), several=st.integers(1, 4))
    def create(self, data: st.DataObject, several: int) -> None:
        for _ in range(several):
            self.make(data)
        self.decide_until_quiet()

    @rule(data=st.data())
    def create_an_important_one(self, data: st.DataObject) -> None:
        """Who finds no room for this one may have to make it."""
        self.make(data, priority=5, gated_by="")
        self.decide_until_quiet()

    @rule(data=st.data(), several=st.integers(2, 6))
    def create_some_that_are_alike(self, data: st.DataObject, several: int) -> None:
        free = [key for key in KEYS if key not in self.store][:several]
        first = data.draw(workloads(KEYS[0], 0))
        for key in free:
            self.uids += 1
            local = f"{key.partition('/')[0]}/{first.local_queue.partition('/')[2]}"
            self.store[key] = replace(first, key=key, uid=f"uid-{self.uids}", local_queue=local)
            self.see(self.store[key])
        self.decide_until_quiet()

    @rule(key=st.sampled_from(KEYS), queue=st.sampled_from(QUEUES))
    def create_with_a_reservation(self, key: str, queue: str) -> None:
        """Someone else gave it quota before we came, in a queue that need not exist."""
        if key in self.store:
            return
        self.uids += 1
        given = Admission(queue, (Assignment("main", (("cpu", "spot"),), (("cpu", 2),), 1),))
        self.store[key] = Workload(
            key,
            f"uid-{self.uids}",
            f"{key.partition('/')[0]}/{queue}",
            START,
            (PodSet("main", 1, (("cpu", 2),)),),
            admission=given,
            reserved_at=self.now,
        )
        self.stranded = True
        self.see(self.store[key])

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: str) -> None:
        if self.store.pop(key, None) is not None:
            self.unwritten = [decision for decision in self.unwritten if decision.workload != key]
            self.forget_preemption(key)
            self.tell(Gone("Workload", key))

    @rule(key=st.sampled_from(KEYS))
    def finish(self, key: str) -> None:
        self.forget_preemption(key)
        self.edit(key, finished=True)

    @rule(key=st.sampled_from(KEYS), priority=st.integers(-1, 2), boost=st.integers(-1, 1))
    def change_priority(self, key: str, priority: int, boost: int) -> None:
        self.forget_preemption(key)
        self.edit(key, priority=priority, boost=boost)

    @rule(key=st.sampled_from(KEYS), data=st.data())
    def change_pods(self, key: str, data: st.DataObject) -> None:
        """A job that waits may be resized; its generation tells."""
        workload = self.store.get(key)
        if workload is not None and workload.admission is None:
            self.forget_preemption(key)
            self.edit(key, pod_sets=(data.draw(pod_sets("main")),), generation=workload.generation + 1, reclaimable=())

    @rule(key=st.sampled_from(KEYS), local=st.sampled_from(LOCALS))
    def move_to_other_queue(self, key: str, local: str) -> None:
        workload = self.store.get(key)
        if workload is not None and workload.admission is None and local.partition("/")[0] == workload.namespace:
            self.forget_preemption(key)
            self.edit(key, local_queue=local, generation=workload.generation + 1)

    @rule(key=st.sampled_from(KEYS), active=st.booleans())
    def activate(self, key: str, active: bool) -> None:
        """The room of an inactive workload is free at once; one activated before it has left may find it taken."""
        self.stranded = True
        self.forget_preemption(key)
        self.edit(key, active=active)

    @rule(key=st.sampled_from(KEYS))
    def open_gate(self, key: str) -> None:
        self.edit(key, gated_by="")

    @rule(key=st.sampled_from(KEYS), done=st.integers(1, 4))
    def reclaim(self, key: str, done: int) -> None:
        """Some pods are done; their number never shrinks."""
        workload = self.store.get(key)
        if workload is not None:
            self.forget_preemption(key)
            before = dict(workload.reclaimable)
            done = max(before.get("main", 0), min(done, workload.pod_sets[0].count))
            self.edit(key, reclaimable=(("main", done),))

    @rule(key=st.sampled_from(KEYS), ready=st.booleans(), reason=st.sampled_from(("WaitForStart", "WaitForRecovery")))
    def report_pods(self, key: str, ready: bool, reason: str) -> None:
        self.edit(key, pods_ready=PodsReady(ready, "PodsReady" if ready else reason, self.now))

    @rule(
        key=st.sampled_from(KEYS),
        state=st.sampled_from(("Pending", "Ready", "Ready", "Retry", "Rejected")),
        delay=st.sampled_from((None, Seconds(20))),
    )
    def report_check(self, key: str, state: str, delay: Seconds | None) -> None:
        self.forget_preemption(key)
        self.edit(key, checks=(CheckState("budget", state, self.now, "", delay),))

    @rule(key=st.sampled_from(KEYS))
    def stop(self, key: str) -> None:
        self.tell(Stopped(key))

    @rule()
    def stop_everyone(self) -> None:
        for key in KEYS:
            self.tell(Stopped(key))

    # The engine at work.

    @rule()
    def lose_the_lead_and_regain_it(self) -> None:
        self.tell(Leading(False))
        assert not self.engine.decide(self.now), "a follower decides nothing"
        assert self.engine.next_wake() is None, "a follower waits for nothing"
        self.tell(Leading(True))

    @rule(seconds=st.sampled_from((0, 1, 15, 40, 120)))
    def pass_time(self, seconds: int) -> None:
        self.now = Instant(self.now + seconds * MICROS)

    @rule()
    def wait_for_wake(self) -> None:
        wake = self.engine.next_wake()
        if wake is not None:
            self.now = max(self.now, wake)

    def ask(self) -> list[Decision]:
        decisions = self.engine.decide(self.now)
        self.script.append((self.now, msgspec.json.encode(decisions)))
        self.check(decisions)
        return decisions

    @rule(refused=st.lists(st.sampled_from(KEYS), max_size=2))
    def decide_once(self, refused: list[str]) -> None:
        self.write_all()
        self.unwritten = self.ask()
        for key in refused:
            if any(decision.workload == key for decision in self.unwritten):
                self.refuse(key)
        self.write_all()

    @precondition(lambda self: not self.unwritten)
    @rule()
    def decide_and_write_later(self) -> None:
        self.unwritten = self.ask()

    @rule()
    def write_all(self) -> None:
        for decision in self.unwritten:
            self.version += 1
            self.store[decision.workload] = after(self.store[decision.workload], decision)
            self.tell(Written(decision.workload, self.version))
        self.unwritten = []

    @rule()
    def decide_until_quiet(self) -> None:
        """As long as there is something to do at this instant, it is done; and that comes to an end."""
        self.write_all()
        for _ in range(CYCLES_MAX if self.fixed else 5):
            self.unwritten = self.ask()
            self.write_all()
            if at_rest(self.engine, self.now):
                break
        else:
            assert not self.fixed, "the engine does not come to rest"
        if self.fixed and at_rest(self.engine, self.now):
            assert not list(overlooked(self.engine))

    # What must hold.

    def check(self, decisions: list[Decision]) -> None:
        assert not list(broken(self.engine))
        self.check_the_spared(decisions)
        if not self.fixed:
            return
        over = list(over_quota(self.engine))
        assert self.stranded or not over, "only an edit leaves usage above quota"
        if not over:
            self.stranded = False
        started = {decision.workload for decision in decisions if starts(decision)}
        if started and over:
            self.check_that_nobody_started_into_debt(started)
        self.check_that_victims_do_not_come_back(decisions)

    def check_the_spared(self, decisions: list[Decision]) -> None:
        """What is recorded of a preemption names no victim as spared, and nobody who has no quota."""
        preemptions = Preemptions(self.engine)
        released = {decision.workload for decision in decisions if isinstance(decision, Unreserve)}
        for decision in decisions:
            if not isinstance(decision, Evict) or not decision.by:
                continue
            record = preemptions.by(decision.by)
            assert record is not None, "every preemption is recorded"
            spared = {one.workload for one in record.named}
            assert decision.workload not in spared
            assert len(spared) == min(record.spared, SPARED_MAX)
            assert all(self.engine.world.items[key].place is Place.HOLDING for key in spared - released)

    def check_that_nobody_started_into_debt(self, started: set[str]) -> None:
        """Where a node is above what it may use, nobody who starts makes it worse."""
        world = self.engine.world
        pairs = world.forest.flavors.pairs
        numbers = Numbers(
            [queue.spec for queue in world.forest.queues.values()],
            [cohort.object for cohort in world.forest.cohorts.values() if cohort.object is not None],
            [
                Holder(item.key, item.queue, tuple((pairs[fr], amount) for fr, amount in item.usage))
                for item in world.items.values()
                if item.place is Place.HOLDING
            ],
        )
        earlier = {(node, pair): over for node, pair, over in numbers.without(started).overdrawn()}
        for node, pair, over in numbers.overdrawn():
            assert over <= earlier.get((node, pair), 0), f"{node} was driven further above its quota of {pair}"

    def check_that_victims_do_not_come_back(self, decisions: list[Decision]) -> None:
        """Who was evicted for another does not start again while that one's claim would suffer."""
        world = self.engine.world
        if not self.options.reserve_for_preemptor:
            return
        for decision in decisions:
            if isinstance(decision, Evict):
                self.preempted.pop(decision.workload, None)
                if decision.by:
                    self.preempted[decision.workload] = decision.by
            elif starts(decision):
                preemptor = world.items.get(self.preempted.pop(decision.workload, ""))
                if preemptor is None or preemptor.claim is None:
                    continue
                snapshot = Snapshot(world.forest)
                leaving = [victim for victim in preemptor.claim.victims if victim.place is Place.HOLDING]
                with snapshot.without(leaving):
                    assert fits(world.forest.queues[preemptor.queue], preemptor.claim.usage), (
                        f"{decision.workload} came back into the room that {preemptor.key} was promised"
                    )

    @invariant()
    def believes_what_is_stored(self) -> None:
        """With no write on its way, the engine's picture of every workload is the cluster's."""
        known = self.engine.world.items
        assert known.keys() == self.store.keys()
        on_the_way = {decision.workload for decision in self.unwritten}
        for key, workload in self.store.items():
            assert key in on_the_way or known[key].workload == workload

    def teardown(self) -> None:
        """The same story, told to a second engine, has the same end."""
        engine = Engine(self.options)
        for line in self.script:
            if isinstance(line, tuple):
                now, decided = line
                assert msgspec.json.encode(engine.decide(now)) == decided
            else:
                engine.observe(line)


class KueueMachine(EngineMachine):
    """The same with every difference from Kueue switched off: the books must be right all the same."""

    fixed = False

    def start(self, chosen: Options) -> None:
        theirs = {
            name: getattr(KUEUE_SETTING, name)
            for name in Options.__struct_fields__
            if getattr(KUEUE_SETTING, name) != getattr(Options(), name)
        }
        super().start(replace(chosen, **theirs))


class FairMachine(EngineMachine):
    """The same under fair sharing."""

    def start(self, chosen: Options) -> None:
        super().start(replace(chosen, fair_sharing=chosen.fair_sharing or BOTH))

    @rule()
    def let_victims_stop(self) -> None:
        """Victims stop, preemptors start, and that ends: evictions do not alternate indefinitely."""
        for _ in range(CYCLES_MAX):
            self.decide_until_quiet()
            places = {item.key: item.place for item in self.engine.items()}
            leaving = [
                key for key, one in self.store.items() if one.evicted is not None and places[key] is Place.HOLDING
            ]
            if not leaving:
                return
            for key in leaving:
                self.tell(Stopped(key))
        raise AssertionError("workloads evict each other in turn")


TestEngineMachine = EngineMachine.TestCase
TestFairMachine = FairMachine.TestCase
TestKueueMachine = KueueMachine.TestCase
