"""Do edits, bookings and releases in any order leave the numbers that a recount gives?"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pykueue.base.units import Instant
from pykueue.engine import quota
from pykueue.engine.items import Item, Place
from pykueue.engine.model import ClusterQueue, Cohort, Options, Quota, Workload
from pykueue.engine.world import World
from tests.engine.reference import Holder, Node, Numbers, Pair

PAIRS: tuple[Pair, ...] = (("spot", "cpu"), ("spot", "memory"), ("fast", "cpu"))
QUEUES = st.sampled_from(("north", "south", "east"))
COHORTS = st.sampled_from(("land", "sea", "world"))
EDGE = st.one_of(st.just(""), COHORTS)
AMOUNT = st.integers(0, 9)
LIMIT = st.one_of(st.none(), AMOUNT)
USAGE = st.lists(st.tuples(st.sampled_from(PAIRS), AMOUNT), min_size=1, unique_by=lambda used: used[0]).map(tuple)


@st.composite
def quotas(draw: st.DrawFn) -> tuple[Quota, ...]:
    pairs = draw(st.lists(st.sampled_from(PAIRS), unique=True))
    return tuple(Quota(*pair, draw(AMOUNT), draw(LIMIT), draw(LIMIT)) for pair in pairs)


class QuotaMachine(RuleBasedStateMachine):
    """A forest under edits, beside the list of specs and holders that it stands for."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Options())
        self.forest = self.world.forest
        self.queues: dict[str, ClusterQueue] = {}
        self.cohorts: dict[str, Cohort] = {}
        self.holders: dict[str, tuple[Item, Holder]] = {}
        self.started = 0

    @rule(name=QUEUES, cohort=EDGE, owned=quotas())
    def put_queue(self, name: str, cohort: str, owned: tuple[Quota, ...]) -> None:
        self.queues[name] = ClusterQueue(name, cohort, quotas=owned)
        self.forest.put_queue(self.queues[name])
        self.forest.refresh()

    @rule(name=COHORTS, parent=EDGE, owned=quotas())
    def put_cohort(self, name: str, parent: str, owned: tuple[Quota, ...]) -> None:
        self.cohorts[name] = Cohort(name, parent, owned)
        self.forest.put_cohort(self.cohorts[name])
        self.forest.refresh()

    @rule(name=COHORTS)
    def drop_cohort(self, name: str) -> None:
        self.cohorts.pop(name, None)
        self.forest.drop_cohort(name)
        self.forest.refresh()

    @rule(name=QUEUES)
    def drop_queue(self, name: str) -> None:
        self.queues.pop(name, None)
        self.holders = {key: both for key, both in self.holders.items() if both[1].queue != name}
        self.forest.drop_queue(name)
        self.forest.refresh()

    @rule(name=QUEUES, usage=USAGE)
    def hold(self, name: str, usage: tuple[tuple[Pair, int], ...]) -> None:
        if name not in self.queues:
            return
        self.started += 1
        key = f"default/w{self.started}"
        workload = Workload(key, key, "", Instant(0))
        item = Item(workload, self.world.shape(workload), Instant(0))
        item.place, item.queue = Place.HOLDING, name
        item.usage = tuple((self.forest.flavors.id(*pair), amount) for pair, amount in usage)
        self.holders[key] = item, Holder(key, name, usage)
        self.forest.hold(self.forest.queues[name], item)

    @rule(which=st.integers(0))
    def release(self, which: int) -> None:
        if self.holders:
            key = sorted(self.holders)[which % len(self.holders)]
            item, holder = self.holders.pop(key)
            self.forest.release(self.forest.queues[holder.queue], item)

    @invariant()
    def counts_as_the_reference_does(self) -> None:
        numbers = Numbers(self.queues.values(), self.cohorts.values(), [holder for _, holder in self.holders.values()])
        known = {("queue", name) for name in self.forest.queues} | {("cohort", name) for name in self.forest.cohorts}
        assert known == set(numbers.nodes())
        for node in numbers.nodes():
            self.compare(node, numbers)

    def compare(self, node: Node, numbers: Numbers) -> None:
        kind, name = node
        found = self.forest.queues[name] if kind == "queue" else self.forest.cohorts[name]
        assert (found.tree is None) == numbers.cut_off(node)
        if found.tree is None:
            return
        assert found.height == numbers.height(node)
        for pair in PAIRS:
            fr = self.forest.flavors.id(*pair)
            assert found.usage.get(fr, 0) == numbers.usage(node, pair)
            assert found.subtree.get(fr, 0) == numbers.subtree(node, pair)
            assert found.local.get(fr, 0) == numbers.local(node, pair)
            assert quota.available(found, fr) == numbers.available(node, pair)
            assert quota.potential(found, fr) == numbers.potential(node, pair)
            if kind == "queue":
                for amount in (0, 1, 4, 12):
                    assert quota.lowest_fit(found, fr, amount) == numbers.lowest_fit(name, pair, amount)


TestQuotaMachine = QuotaMachine.TestCase
