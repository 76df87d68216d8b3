"""Does the search name victims that suffice, that the policies allow, and of whom none could have stayed?

Against an exhaustive search over subsets two things can be compared. Whatever the search finds must suffice, and of its
victims at most one, the last that it let go, could have stayed: Kueue never reconsiders that one, and neither do we.
Where nobody but the preemptor's own queue has candidates, the search must also find something whenever any subset
suffices. With candidates in other queues that does not hold: a queue is protected as soon as it is back at its own
quota, so what one victim's leaving forbids depends on the order, and the search takes one order only.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykueue.base.units import Instant
from pykueue.engine.candidates import policy_allows
from pykueue.engine.decisions import PreemptionReason, SparedReason
from pykueue.engine.forest import Forest
from pykueue.engine.items import Item, Place
from pykueue.engine.model import ClusterQueue, Cohort, Evicted, Options, Policy, Preemption, Quota, Workload
from pykueue.engine.preempt import NOTHING, SPARED_MAX, Search
from pykueue.engine.snapshot import Snapshot, fits
from pykueue.engine.world import World
from tests.engine.reference import Holder, Numbers, Pair, allowed, redundant, sufficient

CPU, GPU = ("spot", "cpu"), ("spot", "gpu")
NOW = Instant(100)


class Scene:
    """A small tree with holders, and a workload of the queue `mine` that wants room."""

    def __init__(
        self, queues: list[ClusterQueue], holders: list[Holder], preemptor: Holder, cohorts: tuple[Cohort, ...] = ()
    ) -> None:
        self.forest = Forest()
        for cohort in cohorts:
            self.forest.put_cohort(cohort)
        for queue in queues:
            self.forest.put_queue(queue)
        self.forest.refresh()
        self.world = World(Options())
        self.items = {holder.key: self.item(holder) for holder in holders}
        for item in self.items.values():
            self.forest.hold(self.forest.queues[item.queue], item)
        self.numbers = Numbers(queues, cohorts, holders)
        self.preemptor = preemptor
        self.asked = {self.forest.flavors.id(*pair): amount for pair, amount in preemptor.usage}
        self.snapshot = Snapshot(self.forest)
        mine = self.forest.queues[preemptor.queue]
        self.search = Search(self.snapshot, mine, self.item(preemptor), NOW, Options())
        self.selection = NOTHING

    def item(self, holder: Holder) -> Item:
        stamp = Instant(holder.stamp)
        seen = Workload(holder.key, holder.key, "", stamp, priority=holder.priority, reserved_at=stamp)
        item = Item(seen, self.world.shape(seen), stamp)
        item.place, item.queue = Place.HOLDING, holder.queue
        item.usage = tuple((self.forest.flavors.id(*pair), amount) for pair, amount in holder.usage)
        item.frs = frozenset(fr for fr, _ in item.usage)
        return item

    def usage(self) -> dict[str, dict[int, int]]:
        nodes = (*self.forest.queues.values(), *self.forest.cohorts.values())
        return {node.name: {fr: amount for fr, amount in node.usage.items() if amount} for node in nodes}

    def short(self) -> frozenset[Pair]:
        """The pairs of which there is too little."""
        return frozenset(p for p, n in self.preemptor.usage if not self.numbers.fits(self.preemptor.queue, {p: n}))

    def contended(self) -> frozenset[int]:
        return frozenset(self.forest.flavors.id(*pair) for pair in self.short())

    def victims(self) -> dict[str, PreemptionReason]:
        contended = self.contended()
        self.selection = self.search.selection(self.asked, contended) if contended else NOTHING
        return {victim.item.key: victim.reason for victim in self.selection.victims}


def queue(name: str, nominal: int, cohort: str = "all", **policies: Policy) -> ClusterQueue:
    return ClusterQueue(name, cohort, quotas=(Quota(*CPU, nominal),), preemption=replace(Preemption(), **policies))


def holder(key: str, queue: str, amount: int, priority: int = 0, stamp: int = 0) -> Holder:
    return Holder(key, queue, ((CPU, amount),), priority, stamp)


@pytest.mark.parametrize(
    ("policy", "preemptor", "victim", "expected"),
    [
        pytest.param(Policy.NEVER, (9, 0), (0, 5), False, id="never"),
        pytest.param(Policy.ANY, (0, 5), (9, 0), True, id="any, even the important"),
        pytest.param(Policy.LOWER, (1, 5), (0, 0), True, id="the less important"),
        pytest.param(Policy.LOWER, (1, 0), (1, 5), False, id="not the equal"),
        pytest.param(Policy.LOWER_OR_NEWER, (1, 0), (1, 5), True, id="the equal that is newer"),
        pytest.param(Policy.LOWER_OR_NEWER, (1, 5), (1, 5), False, id="not the equal of the same age"),
        pytest.param(Policy.LOWER_OR_NEWER, (0, 0), (1, 5), False, id="not the more important though newer"),
    ],
)
def test_whom_a_policy_allows(
    policy: Policy, preemptor: tuple[int, int], victim: tuple[int, int], expected: bool
) -> None:
    ours, theirs = holder("p", "mine", 1, *preemptor), holder("v", "mine", 1, *victim)
    scene = Scene([queue("mine", 1, "")], [theirs], ours)
    assert policy_allows(policy, scene.search.item, scene.items["v"]) is expected
    assert allowed(policy, ours, theirs) is expected


@pytest.mark.parametrize(
    ("queues", "holders", "preemptor", "expected"),
    [
        pytest.param(
            [queue("mine", 4, "", within_queue=Policy.LOWER)],
            [holder("low", "mine", 2, -1), holder("mid", "mine", 2)],
            holder("p", "mine", 2, 1),
            {"low": PreemptionReason.IN_QUEUE},
            id="the least important of its own queue",
        ),
        pytest.param(
            [queue("mine", 4, "", within_queue=Policy.LOWER)],
            [holder("low", "mine", 1, -1), holder("mid", "mine", 3)],
            holder("p", "mine", 3, 1),
            {"mid": PreemptionReason.IN_QUEUE},
            id="who need not have left comes back",
        ),
        pytest.param(
            [queue("mine", 4, reclaim=Policy.ANY), queue("theirs", 4)],
            [holder("a", "theirs", 4, 9), holder("b", "theirs", 4, 9)],
            holder("p", "mine", 4),
            {"a": PreemptionReason.RECLAIM},
            id="what is ours comes back, however important its user",
        ),
        pytest.param(
            [queue("mine", 4, reclaim=Policy.LOWER), queue("theirs", 4)],
            [holder("a", "theirs", 4, 9), holder("b", "theirs", 4, 9)],
            holder("p", "mine", 4),
            {},
            id="nobody less important",
        ),
        pytest.param(
            [queue("mine", 4, reclaim=Policy.ANY), queue("theirs", 4)],
            [holder("a", "theirs", 4), holder("b", "mine", 4)],
            holder("p", "mine", 4, 9),
            {},
            id="who stays within its own is safe",
        ),
        pytest.param(
            [
                queue("mine", 2, reclaim=Policy.LOWER, borrow_within_cohort=Policy.LOWER),
                queue("theirs", 2),
                queue("rich", 2),
            ],
            [holder("a", "theirs", 4), holder("b", "rich", 2)],
            holder("p", "mine", 4, 1),
            {"a": PreemptionReason.RECLAIM_WHILE_BORROWING},
            id="a borrower may preempt a lesser borrower",
        ),
        pytest.param(
            [queue("mine", 2, reclaim=Policy.LOWER), queue("theirs", 2), queue("rich", 2)],
            [holder("a", "theirs", 4), holder("b", "rich", 2)],
            holder("p", "mine", 4, 1),
            {},
            id="a borrower preempts no borrower unless it may",
        ),
    ],
)
def test_who_must_leave(
    queues: list[ClusterQueue], holders: list[Holder], preemptor: Holder, expected: dict[str, PreemptionReason]
) -> None:
    assert Scene(queues, holders, preemptor).victims() == expected


def test_who_is_leaving_already_is_taken_first() -> None:
    scene = Scene(
        [queue("mine", 4, "", within_queue=Policy.LOWER)],
        [holder("low", "mine", 2, -1), holder("leaving", "mine", 2)],
        holder("p", "mine", 2, 1),
    )
    leaving = scene.items["leaving"]
    leaving.workload = Workload("leaving", "leaving", "", Instant(0), evicted=Evicted("Preempted", NOW))
    assert list(scene.victims()) == ["leaving"]


def spared(scene: Scene) -> tuple[int, dict[str, SparedReason]]:
    """How many stay, and why some of them do."""
    assert scene.victims(), "there must be victims"
    return scene.selection.spared, {one.workload: one.reason for one in scene.selection.named}


@pytest.mark.parametrize(
    ("queues", "holders", "preemptor", "expected"),
    [
        pytest.param(
            [queue("mine", 4, "", within_queue=Policy.LOWER)],
            [holder("low", "mine", 1, -1), holder("mid", "mine", 3)],
            holder("p", "mine", 3, 1),
            (1, {"low": SparedReason.NOT_NEEDED}),
            id="who need not have left",
        ),
        pytest.param(
            [queue("mine", 4, "", within_queue=Policy.LOWER)],
            [holder("new", "mine", 1, 0, 9), holder("old", "mine", 1, 0, 1), holder("high", "mine", 2, 1)],
            holder("p", "mine", 1, 2),
            (2, {"old": SparedReason.ADMITTED_EARLIER, "high": SparedReason.HIGHER_PRIORITY}),
            id="who comes later",
        ),
        pytest.param(
            [queue("mine", 4, within_queue=Policy.LOWER, reclaim=Policy.ANY), queue("theirs", 4)],
            [holder("own", "mine", 2, -1), holder("a", "theirs", 3, 9), holder("b", "theirs", 3, 9)],
            holder("p", "mine", 2),
            (2, {"b": SparedReason.TIE, "own": SparedReason.OWN_QUEUE}),
            id="those of other queues go first, and of equals the first by uid",
        ),
        pytest.param(
            [queue("mine", 6, reclaim=Policy.ANY), queue("theirs", 3), queue("others", 3)],
            [holder("a", "theirs", 4, -2), holder("b", "theirs", 3, -1), holder("c", "others", 5)],
            holder("p", "mine", 6),
            (1, {"b": SparedReason.WITHIN_QUOTA}),
            id="a queue that is back within its own keeps the rest",
        ),
        pytest.param(
            [
                queue("mine", 2, within_queue=Policy.LOWER, reclaim=Policy.ANY, borrow_within_cohort=Policy.LOWER),
                queue("theirs", 2),
                queue("others", 2),
            ],
            [holder("equal", "theirs", 3), holder("low", "others", 3, -1)],
            holder("p", "mine", 3),
            (1, {"equal": SparedReason.HIGHER_PRIORITY}),
            id="a borrower takes the least important first",
        ),
        pytest.param(
            [
                queue("mine", 3, within_queue=Policy.LOWER, reclaim=Policy.ANY, borrow_within_cohort=Policy.LOWER),
                queue("theirs", 3),
            ],
            [holder("equal", "theirs", 4), holder("own", "mine", 2, -1)],
            holder("p", "mine", 2),
            (1, {"equal": SparedReason.WHILE_BORROWING}),
            id="a borrower may not take an equal",
        ),
    ],
)
def test_who_stays_and_why(
    queues: list[ClusterQueue],
    holders: list[Holder],
    preemptor: Holder,
    expected: tuple[int, dict[str, SparedReason]],
) -> None:
    assert spared(Scene(queues, holders, preemptor)) == expected


def test_those_who_leave_anyway_are_not_spared() -> None:
    scene = Scene(
        [queue("mine", 4, "", within_queue=Policy.LOWER)],
        [holder("low", "mine", 1, -1), holder("gone", "mine", 1), holder("leaving", "mine", 2)],
        holder("p", "mine", 2, 1),
    )
    for name in ("leaving", "gone"):
        scene.items[name].workload = Workload(name, name, "", Instant(0), evicted=Evicted("Preempted", NOW))
    assert spared(scene) == (1, {"low": SparedReason.NOT_LEAVING})
    assert list(scene.victims()) == ["leaving"]


def test_of_many_only_some_are_named_and_one_of_each_kind() -> None:
    low = [holder(f"low-{number}", "mine", 1, -1, 9 - number) for number in range(3)]
    mid = [holder("large", "mine", 4, 0, 9), *(holder(f"mid-{number}", "mine", 1, 0, 1) for number in range(5))]
    scene = Scene([queue("mine", 12, "", within_queue=Policy.LOWER)], low + mid, holder("p", "mine", 4, 1))
    count, named = spared(scene)
    assert count == 8
    assert named == {
        "low-0": SparedReason.NOT_NEEDED,
        "mid-0": SparedReason.ADMITTED_EARLIER,
        "low-1": SparedReason.NOT_NEEDED,
    }


OWNED = st.sampled_from((4, 5, 3, 6, 0))
LIMIT = st.one_of(st.none(), st.none(), OWNED)
USED = st.sampled_from((2, 1, 3, 0))


@st.composite
def quotas(draw: st.DrawFn, *, limits: bool) -> tuple[Quota, ...]:
    limit = LIMIT if limits else st.none()
    return tuple(Quota(*pair, draw(OWNED), draw(limit), draw(limit)) for pair in (CPU, GPU))


@st.composite
def scenes(draw: st.DrawFn, *, alone: bool) -> Scene:
    """Three queues that are rather full; alone, only the preemptor's own queue has candidates."""
    names = ("mine", "theirs", "others")
    queues = []
    for name in names:
        cohort = draw(st.sampled_from(("low", "low", "top", "")))
        policies = Preemption(
            draw(st.sampled_from((Policy.LOWER, Policy.LOWER_OR_NEWER, Policy.NEVER))),
            Policy.NEVER if alone else draw(st.sampled_from((Policy.ANY, Policy.LOWER))),
            draw(st.sampled_from((Policy.NEVER, Policy.LOWER))),
            draw(st.sampled_from((None, 0))),
        )
        queues.append(ClusterQueue(name, cohort, quotas=draw(quotas(limits=bool(cohort))), preemption=policies))
    cohorts = (Cohort("low", "top", draw(quotas(limits=True))),) if draw(st.booleans()) else ()
    homes = ("mine", "mine", "theirs") if alone else ("theirs", "theirs", "mine", "others")
    holders = [
        Holder(
            f"h{number}",
            draw(st.sampled_from(homes)),
            ((CPU, draw(USED)), (GPU, draw(USED)))[: draw(st.integers(1, 2))],
            draw(st.sampled_from((0, -1, 1))),
            draw(st.integers(0, 3)),
        )
        for number in range(draw(st.integers(3, 7)))
    ]
    wanted = ((CPU, draw(OWNED)), (GPU, draw(USED)))[: draw(st.integers(1, 2))]
    return Scene(
        queues, holders, Holder("p", "mine", wanted, draw(st.sampled_from((1, 0, 2))), draw(st.integers(0, 3))), cohorts
    )


def over_before_the_last_left(scene: Scene, queue: str, victims: frozenset[str]) -> bool:
    """Whether a queue was above its own until one of its victims, whichever came last, had left."""
    own = [holder.key for holder in scene.numbers.holders if holder.queue == queue and holder.key in victims]
    return any(
        scene.numbers.without(victims - {last}).borrows_with(("queue", queue), pair, 0)
        for last in own
        for pair in scene.short()
    )


@given(scenes(alone=False))
def test_victims_suffice_are_allowed_and_are_needed(scene: Scene) -> None:
    before = scene.usage()
    victims = frozenset(scene.victims())
    assert scene.usage() == before, "a question changes nothing"
    if not victims:
        return
    requests = dict(scene.preemptor.usage)
    policies = scene.forest.queues["mine"].spec.preemption
    for holder in scene.numbers.holders:
        if holder.key not in victims:
            continue
        own = holder.queue == "mine"
        assert allowed(policies.within_queue if own else policies.reclaim, scene.preemptor, holder)
        assert not scene.short().isdisjoint(pair for pair, _ in holder.usage), "it uses what there is too little of"
        over = any(scene.numbers.borrows_with(("queue", holder.queue), pair, 0) for pair in scene.short())
        assert own or over, "a queue within its own quota is safe"
    for queue in {holder.queue for holder in scene.numbers.holders if holder.key in victims} - {"mine"}:
        assert over_before_the_last_left(scene, queue, victims), "a queue gives no more than it has borrowed"
    without = scene.numbers.without(victims)
    assert without.fits("mine", requests)
    spared = [
        len(redundant(scene.numbers, "mine", requests, victims, borrow=borrow))
        for borrow in (True, False)
        if without.fits("mine", requests, borrow=borrow)
    ]
    assert min(spared) <= 1, "only the last to go is never asked back"


@given(scenes(alone=False))
def test_those_who_stay_are_candidates_and_no_victims(scene: Scene) -> None:
    victims = scene.victims()
    found = scene.selection
    search, contended = scene.search, scene.contended()
    candidates = search.candidates(search.levels(scene.asked), contended)
    eligible = {one.item.key for one in candidates}
    named = [one.workload for one in found.named]
    assert len(named) == len({*named}) == min(found.spared, SPARED_MAX)
    assert {*named} <= eligible - victims.keys()
    assert found.spared == (len(eligible - victims.keys()) if victims else 0)
    assert all(key in scene.forest.queues[scene.items[key].queue].holders for key in named)


@given(scenes(alone=True))
def test_in_its_own_queue_the_search_finds_victims_whenever_there_are_any(scene: Scene) -> None:
    if not scene.short():
        return
    policy = scene.forest.queues["mine"].spec.preemption.within_queue
    eligible = [
        holder.key
        for holder in scene.numbers.holders
        if holder.queue == "mine"
        and allowed(policy, scene.preemptor, holder)
        and not scene.short().isdisjoint(pair for pair, _ in holder.usage)
    ]
    possible = sufficient(scene.numbers, "mine", dict(scene.preemptor.usage), eligible)
    found = scene.victims()
    assert bool(found) == bool(possible)
    assert not found or frozenset(found) in possible
    with scene.snapshot.without(scene.items[key] for key in found):
        assert not found or fits(scene.forest.queues["mine"], scene.asked.items())
