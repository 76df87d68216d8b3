"""Is the right workload next, is who cannot start set aside, and does every event wake whom it may help?"""

from collections.abc import Generator
from typing import Any

import pytest
from msgspec.structs import replace

from pykueue.base.steps import at_once
from pykueue.base.units import Instant
from pykueue.engine.decisions import Unassigned, WaitReason
from pykueue.engine.items import Bookmark, Item, Place
from pykueue.engine.model import Options, PodSet, Requeued, Strategy, Workload
from pykueue.engine.order import queue_stamp
from pykueue.engine.pending import Outcome, PendingQueue, backoff_over
from pykueue.engine.world import World

NOW = Instant(1_000)
REASON = WaitReason.WAITING_FOR_QUOTA
WHY = Unassigned((), inadequate=True)


class Desk:
    """A queue and the workloads that were put into it."""

    def __init__(
        self, strategy: Strategy = Strategy.BEST_EFFORT, options: Options | None = None, world: World | None = None
    ) -> None:
        self.options = options or Options()
        self.world = world or World(self.options)
        self.queue = PendingQueue(self.options, self.world.numbers)
        self.queue.set_strategy(strategy)
        self.items: dict[str, Item] = {}

    def put(self, name: str, cpu: int = 1, created: int = 0, priority: int = 0, **rest: Any) -> Item:
        pods = (PodSet("main", 1, (("cpu", cpu),)),)
        seen = Workload(f"red/{name}", name, "red/q", Instant(created), pods, priority, **rest)
        item = Item(seen, self.world.shape(seen), queue_stamp(seen, self.options))
        self.queue.insert(item, NOW)
        self.items[name] = item
        return item

    def ended(self, name: str, outcome: Outcome) -> None:
        self.queue.requeue(self.items[name], outcome, REASON, WHY, NOW)

    def flush(self, now: Instant = NOW, *, serves: bool = True) -> None:
        self.queue.flush(now, lambda _: serves)

    def head(self) -> str | None:
        found = self.queue.head()
        return None if found is None else found.uid

    def parked(self) -> set[str]:
        return {item.uid for item, parked in self.queue if parked}


def test_the_most_important_then_the_oldest_is_next() -> None:
    desk = Desk()
    desk.put("old", created=1)
    desk.put("new", created=2)
    desk.put("urgent", created=3, priority=1)
    order = []
    while desk.head() is not None:
        order.append(desk.head())
        desk.queue.remove(desk.items[str(order[-1])])
    assert order == ["urgent", "old", "new"]
    assert len(desk.queue) == 0


def test_the_heap_of_heads_does_not_grow_while_many_of_a_shape_start_one_by_one() -> None:
    desk = Desk()
    names = [f"w{number:03}" for number in range(100)]
    for number, name in enumerate(names):
        desk.put(name, created=number)
    for name in names:
        assert desk.head() == name
        assert len(desk.queue.front) <= len(desk.queue) + 1
        desk.queue.remove(desk.items[name])


@pytest.mark.parametrize(
    ("strategy", "outcome", "parked", "head"),
    [
        pytest.param(Strategy.BEST_EFFORT, Outcome.NO_FIT, {"a", "twin"}, "big", id="no fit parks the whole class"),
        pytest.param(Strategy.BEST_EFFORT, Outcome.NO_VICTIMS, {"a", "twin"}, "big", id="no victims parks the class"),
        pytest.param(Strategy.BEST_EFFORT, Outcome.INVALID, {"a"}, "twin", id="an invalid one is parked alone"),
        pytest.param(Strategy.BEST_EFFORT, Outcome.NAMESPACE_MISMATCH, {"a"}, "twin", id="a stranger is parked alone"),
        pytest.param(Strategy.BEST_EFFORT, Outcome.CONTENDED, set(), "a", id="a contended one is tried again"),
        pytest.param(Strategy.BEST_EFFORT, Outcome.PENDING_PREEMPTION, set(), "a", id="a preemptor keeps its place"),
        pytest.param(Strategy.STRICT, Outcome.NO_FIT, set(), "a", id="a strict head blocks the rest"),
        pytest.param(Strategy.STRICT, Outcome.INVALID, set(), "a", id="so does a strict head that is invalid"),
        pytest.param(Strategy.STRICT, Outcome.NAMESPACE_MISMATCH, {"a"}, "twin", id="but no stranger blocks"),
    ],
)
def test_where_a_head_goes(strategy: Strategy, outcome: Outcome, parked: set[str], head: str) -> None:
    desk = Desk(strategy)
    desk.put("a", created=1)
    desk.put("twin", created=2)
    desk.put("big", cpu=9, created=3)
    desk.ended("a", outcome)
    assert desk.parked() == parked
    assert desk.head() == head
    assert len(desk.queue) == 3


def test_without_equivalence_everyone_is_parked_alone() -> None:
    desk = Desk(options=Options(equivalence=False))
    desk.put("a", created=1)
    desk.put("twin", created=2)
    desk.ended("a", Outcome.NO_FIT)
    assert desk.parked() == {"a"}
    assert desk.head() == "twin"


def test_flavors_left_to_try_keep_a_workload_in_line() -> None:
    desk = Desk()
    item = desk.put("a")
    item.bookmark = Bookmark((((("cpu", 0)),),), 0, 0, item.shape.digest)
    desk.ended("a", Outcome.NO_FIT)
    assert desk.head() == "a"


def test_a_newcomer_shares_the_verdict_of_its_class() -> None:
    desk = Desk()
    desk.put("a")
    desk.ended("a", Outcome.NO_FIT)
    late = desk.put("late", created=9)
    assert desk.head() is None
    assert desk.queue.parked_with_class(late) == REASON
    assert desk.queue.verdict(late) == (REASON, WHY)
    assert late.place is Place.QUEUED


def test_a_flush_wakes_classes_and_loners() -> None:
    desk = Desk()
    desk.put("a", created=1)
    desk.put("twin", created=2)
    desk.put("invalid", cpu=5, created=0)
    desk.ended("a", Outcome.NO_FIT)
    desk.ended("invalid", Outcome.INVALID)
    assert desk.head() is None
    desk.flush()
    assert desk.parked() == set()
    assert desk.head() == "invalid"


def test_a_flush_leaves_strangers_and_those_in_backoff() -> None:
    desk = Desk()
    desk.put("stranger")
    desk.ended("stranger", Outcome.NAMESPACE_MISMATCH)
    desk.put("later", requeue_at=Instant(NOW + 5))
    desk.flush(serves=False)
    assert desk.parked() == {"stranger", "later"}
    desk.flush()
    assert desk.parked() == {"later"}
    desk.flush(Instant(NOW + 5))
    assert desk.parked() == set()


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        pytest.param({}, True, id="nothing ever happened to it"),
        pytest.param({"requeue_at": NOW}, True, id="its time has come"),
        pytest.param({"requeue_at": Instant(NOW + 1)}, False, id="one moment too early"),
        pytest.param({"requeued": Requeued(True, "Preempted")}, True, id="it may queue at once"),
        pytest.param({"requeued": Requeued(False, "PodsReadyTimeout")}, False, id="it may not queue yet"),
    ],
)
def test_backoff(rest: dict[str, object], expected: bool) -> None:
    seen = replace(Workload("red/w", "w", "red/q", Instant(0)), **rest)
    assert backoff_over(seen, NOW) is expected


def test_a_preemptor_stays_ahead_under_best_effort_only() -> None:
    for strategy, head in ((Strategy.BEST_EFFORT, "preemptor"), (Strategy.STRICT, "urgent")):
        desk = Desk(strategy)
        desk.put("preemptor")
        desk.ended("preemptor", Outcome.PENDING_PREEMPTION)
        desk.put("urgent", cpu=3, priority=9)
        assert desk.head() == head
        desk.queue.remove(desk.items["preemptor"])
        assert desk.queue.preemptor is None
        assert desk.head() == "urgent"


def test_a_queue_that_becomes_strict_parks_no_class() -> None:
    desk = Desk()
    desk.put("a")
    desk.ended("a", Outcome.NO_FIT)
    desk.queue.set_strategy(Strategy.STRICT)
    assert desk.parked() == set()
    assert desk.head() == "a"


def test_a_workload_that_leaves_and_returns_is_listed_once() -> None:
    desk = Desk()
    item = desk.put("a")
    for _ in range(3):
        desk.queue.take_out(item)
        desk.queue.insert(item, NOW)
    assert [one.uid for one, _ in desk.queue] == ["a"]
    assert len(desk.queue) == 1


def test_a_workload_that_moves_is_forgotten_by_the_queue_it_left() -> None:
    left = Desk()
    entered = Desk(world=left.world)
    item = left.put("a")
    left.queue.remove(item)
    entered.queue.insert(item, NOW)
    assert left.head() is None
    assert list(left.queue) == []
    assert entered.head() == "a"


def walked(work: Generator[None, None, list[Item]]) -> list[str]:
    """The names in the result of a sort in steps."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return [item.uid for item in end.value]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_the_line_has_every_pending_workload_in_order(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykueue.engine.pending.STEP", step)
    desk = Desk()
    for name, created, priority in (("c", 3, 0), ("a", 1, 0), ("high", 9, 5), ("b", 2, 0), ("gone", 0, 0)):
        desk.put(name, created=created, priority=priority, cpu=created)
    desk.queue.remove(desk.items["gone"])
    desk.queue.park(desk.items["b"])
    # An outdated entry stays in the heap of its class.
    desk.queue.insert(desk.items["a"], NOW)
    assert walked(desk.queue.line()) == ["high", "a", "b", "c"]
    desk.queue.remember_preemptor(desk.items["c"])
    assert walked(desk.queue.line()) == ["c", "high", "a", "b"]


def test_a_workload_that_leaves_while_the_line_is_sorted_is_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykueue.engine.pending.STEP", 1)
    desk = Desk()
    for name in ("a", "b", "c"):
        desk.put(name, created=ord(name))
    work = desk.queue.line()
    next(work)
    desk.queue.remove(desk.items["b"])
    desk.put("d", created=ord("d"))
    desk.queue.insert(desk.items["c"], NOW)
    assert walked(work) == ["a", "c"]


@pytest.mark.parametrize("step", [1, 3, 4_000])
@pytest.mark.parametrize("sticky", [False, True])
def test_who_is_ahead_agrees_with_the_whole_line(step: int, sticky: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykueue.engine.pending.COUNTED", step)
    desk = Desk()
    for number in range(30):
        desk.put(f"w{number}", cpu=number % 4, created=number * 7 % 11, priority=number % 3)
    for name in ("w4", "w7"):
        desk.ended(name, Outcome.INVALID)
    for name in ("w1", "w9", "w12"):
        # Leaves an outdated entry, and enters again.
        desk.queue.park(desk.items[name])
        desk.queue.insert(desk.items[name], NOW)
    desk.queue.remove(desk.items.pop("w20"))
    desk.ended("w2", Outcome.NO_FIT)
    if sticky:
        desk.ended("w25", Outcome.PENDING_PREEMPTION)
    order = at_once(desk.queue.line())
    assert len(order) == 29
    for place, item in enumerate(order):
        found = at_once(desk.queue.ahead(item, 4))
        assert (found.count, found.first) == (place, tuple(order[: min(4, place)])), item.uid
        assert found.parked == sum(one.uid in desk.parked() for one in order[:place])
    everyone = at_once(desk.queue.ahead(None, 4))
    assert (everyone.count, everyone.first) == (29, tuple(order[:4]))
