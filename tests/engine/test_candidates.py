"""Are candidates read in the order in which all of them would be sorted, however the rankings of queues came about?"""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykueue.base.units import Instant
from pykueue.engine.candidates import over_users, ranked
from pykueue.engine.items import Item
from pykueue.engine.model import Evicted, Policy
from pykueue.engine.order import VictimKey, victim_key
from pykueue.engine.preempt import Search
from pykueue.engine.quota import QuotaNode
from tests.engine.test_preempt import NOW, Scene, holder, queue, scenes
from tests.engine.test_priority_skip import Sealed

LATER = Instant(NOW + 50)


def key(item: Item, now: Instant) -> VictimKey:
    return victim_key(item, own_queue="mine", entitled=False, now=now)


def by_sorting(search: Search, scene: Scene) -> list[tuple[VictimKey, str]]:
    """Every candidate, collected queue by queue and then sorted."""
    contended, policies = scene.contended(), search.queue.spec.preemption
    places: list[tuple[QuotaNode, bool]] = [(search.queue, False)]
    places += [(q, level.entitled) for level in search.levels(scene.asked) for q in over_users(level, contended)]
    return sorted(
        (victim_key(item, own_queue="mine", entitled=entitled, now=search.now), item.key)
        for queue, entitled in places
        for item in search.holders(
            queue, policies.within_queue if queue is search.queue else policies.reclaim, contended
        )
    )


@given(scenes(alone=False), st.sets(st.integers(0, 6)), st.sets(st.integers(0, 6)))
def test_candidates_are_read_in_the_order_of_their_keys(scene: Scene, leaving: set[int], timeless: set[int]) -> None:
    for number, item in enumerate(scene.items.values()):
        if number in leaving:
            item.workload = replace(item.workload, evicted=Evicted("Preempted", NOW))
        if number in timeless:
            item.workload = replace(item.workload, reserved_at=None)
    search = scene.search
    found = search.candidates(search.levels(scene.asked), scene.contended())
    assert [(one.key, one.item.key) for one in found] == by_sorting(search, scene)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 4)), max_size=20))
def test_a_ranking_follows_holders_that_come_and_go(moves: list[tuple[int, int, int]]) -> None:
    scene = Scene([queue("mine", 4)], [], holder("p", "mine", 1))
    node, known = scene.forest.queues["mine"], dict[int, Item]()
    for number, priority, stamp in moves:
        if number in known:
            scene.forest.release(node, known.pop(number))
        else:
            known[number] = scene.item(holder(f"h{number}", "mine", 1, priority, stamp))
            scene.forest.hold(node, known[number])
        assert ranked(node, NOW) == sorted(known.values(), key=lambda item: key(item, NOW))
        assert node.ranking is ranked(node, LATER), "it is kept until somebody comes or goes"


def test_the_rank_of_a_holder_without_a_time_of_reservation_depends_on_the_time() -> None:
    early, late = holder("timeless", "mine", 1), holder("late", "mine", 1, stamp=NOW + 20)
    scene = Scene([queue("mine", 4)], [early, late], holder("p", "mine", 1))
    timeless = scene.items["timeless"]
    timeless.workload = replace(timeless.workload, reserved_at=None)
    node = scene.forest.queues["mine"]
    assert [item.key for item in ranked(node, NOW)] == ["late", "timeless"]
    assert [item.key for item in ranked(node, LATER)] == ["timeless", "late"]


def test_a_search_reads_no_more_candidates_than_it_needs() -> None:
    queues = [queue("mine", 32, reclaim=Policy.ANY), *(queue(f"q{number}", 0) for number in range(8))]
    holders = [holder(f"h{number}-{place}", f"q{number}", 1) for number in range(8) for place in range(4)]
    scene = Scene(queues, holders, holder("p", "mine", 2))
    search = scene.search
    candidates = search.candidates(search.levels(scene.asked), scene.contended())
    chosen, passed = search.enough(candidates, scene.asked, scene.contended(), borrow=False)
    assert (len(chosen), passed) == (2, False)
    assert len(list(candidates)) == 30


def test_nobody_is_looked_at_whose_quota_may_not_be_taken_while_borrowing() -> None:
    queues = [queue("mine", 1, reclaim=Policy.ANY), queue("theirs", 0), queue("idle", 3)]
    holders = [holder("own", "mine", 1), *(holder(f"h{number}", "theirs", 1) for number in range(3))]
    scene = Scene(queues, holders, holder("p", "mine", 1))
    theirs = scene.forest.queues["theirs"]
    theirs.holders = Sealed(theirs.holders)
    assert scene.victims() == {}
