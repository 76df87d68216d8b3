"""Are the tree's numbers those of the formulas, in the worked rows and in small trees of every kind?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.units import UNLIMITED, Instant
from pykueue.engine.forest import Forest, root_of
from pykueue.engine.items import Item
from pykueue.engine.model import ClusterQueue, Cohort, Options, Quota, Workload
from pykueue.engine.quota import available, borrows_with, free, lowest_fit, path, potential, within_nominal
from pykueue.engine.world import World

PAIR = ("spot", "cpu")


def quota(nominal: int, borrow: int | None = None, lend: int | None = None) -> tuple[Quota, ...]:
    return (Quota(*PAIR, nominal, borrow, lend),)


def queue(name: str, cohort: str, nominal: int, borrow: int | None = None, lend: int | None = None) -> ClusterQueue:
    return ClusterQueue(name, cohort, quotas=quota(nominal, borrow, lend))


def forest_of(*specs: ClusterQueue | Cohort) -> Forest:
    forest = Forest()
    for spec in specs:
        if isinstance(spec, Cohort):
            forest.put_cohort(spec)
        else:
            forest.put_queue(spec)
    forest.refresh()
    return forest


def hold(forest: Forest, name: str, amount: int, key: str = "") -> Item:
    seen = Workload(f"default/{key or name}", "", "", Instant(0))
    item = Item(seen, World(Options()).shape(seen), Instant(0))
    item.queue, item.usage = name, ((forest.flavors.id(*PAIR), amount),)
    forest.hold(forest.queues[name], item)
    return item


def test_the_worked_row_of_three_queues() -> None:
    forest = forest_of(
        Cohort("all", quotas=quota(10)),
        queue("one", "all", 10),
        queue("two", "all", 10, borrow=2),
        queue("three", "all", 10, lend=5),
    )
    fr = forest.flavors.id(*PAIR)
    nodes = [forest.queues[name] for name in ("one", "two", "three")]
    assert [potential(node, fr) for node in nodes] == [35, 12, 40]
    for name, amount in (("one", 20), ("two", 10), ("three", 6)):
        hold(forest, name, amount)
    assert [free(node, fr) for node in nodes] == [4, 2, 4]


def test_a_debt_eats_what_a_neighbour_never_lends() -> None:
    forest = forest_of(
        Cohort("all", quotas=quota(10)), queue("one", "all", 10), queue("two", "all", 10, borrow=0, lend=0)
    )
    fr = forest.flavors.id(*PAIR)
    hold(forest, "one", 31)
    nodes = [forest.queues[name] for name in ("one", "two")]
    assert [available(node, fr) for node in nodes] == [-11, -1]
    assert [free(node, fr) for node in nodes] == [0, 0]


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        pytest.param(4, (0, True), id="of its own"),
        pytest.param(5, (1, True), id="one too many borrows next door"),
        pytest.param(8, (1, True), id="all of the lower cohort"),
        pytest.param(9, (2, False), id="the whole tree"),
        pytest.param(99, (2, False), id="more than there is"),
    ],
)
def test_how_far_up_a_request_borrows(amount: int, expected: tuple[int, bool]) -> None:
    forest = forest_of(
        Cohort("top"), Cohort("low", "top"), queue("mine", "low", 4), queue("next", "low", 4), queue("far", "top", 4)
    )
    assert lowest_fit(forest.queues["mine"], forest.flavors.id(*PAIR), amount) == expected


def test_a_queue_alone_borrows_from_nobody() -> None:
    forest = forest_of(queue("mine", "", 4))
    fr = forest.flavors.id(*PAIR)
    assert lowest_fit(forest.queues["mine"], fr, 9) == (0, False)
    assert free(forest.queues["mine"], fr) == 4


def test_no_limit_is_no_limit_for_anyone() -> None:
    forest = forest_of(queue("rich", "all", UNLIMITED), queue("poor", "all", 0))
    fr = forest.flavors.id(*PAIR)
    hold(forest, "rich", 10)
    assert free(forest.queues["poor"], fr) == UNLIMITED - 10
    assert borrows_with(forest.queues["poor"], fr, 1)


def test_usage_of_what_a_queue_no_longer_owns_stays_booked() -> None:
    forest = forest_of(queue("mine", "all", 4), queue("next", "all", 4))
    fr = forest.flavors.id(*PAIR)
    hold(forest, "mine", 3)
    forest.put_queue(ClusterQueue("mine", "all"))
    forest.refresh()
    assert forest.queues["mine"].usage[fr] == 3
    assert free(forest.queues["next"], fr) == 1
    assert not within_nominal(forest.queues["mine"], [fr])


def test_a_cohort_lives_as_long_as_someone_names_it() -> None:
    forest = forest_of(queue("mine", "all", 4), Cohort("all", "world"))
    assert path(forest.queues["mine"]) == "/world/all/mine"
    forest.drop_cohort("all")
    forest.refresh()
    assert path(forest.queues["mine"]) == "/all/mine"
    assert set(forest.cohorts) == {"all"}
    forest.drop_queue("mine")
    forest.refresh()
    assert not forest.cohorts
    assert not forest.trees


def test_a_cycle_belongs_to_no_tree_until_it_is_broken() -> None:
    forest = forest_of(queue("mine", "a", 4), Cohort("a", "b"), Cohort("b", "a"))
    mine = forest.queues["mine"]
    assert root_of(mine) is None
    assert mine.tree is None
    hold(forest, "mine", 3)
    forest.put_cohort(Cohort("b"))
    forest.refresh()
    assert mine.tree is not None
    assert free(mine, forest.flavors.id(*PAIR)) == 1


@given(st.lists(st.tuples(st.sampled_from(("one", "two", "deep")), st.integers(0, 7)), max_size=12), st.data())
def test_releasing_everything_in_any_order_leaves_nothing(bookings: list[tuple[str, int]], data: st.DataObject) -> None:
    forest = forest_of(
        Cohort("low", "top", quota(2, lend=1)),
        queue("one", "top", 5, borrow=3, lend=2),
        queue("two", "top", 4, lend=0),
        queue("deep", "low", 3, lend=1),
    )
    held = [hold(forest, name, amount, f"w{number}") for number, (name, amount) in enumerate(bookings)]
    for item in data.draw(st.permutations(held)):
        forest.release(forest.queues[item.queue], item)
    nodes = [*forest.queues.values(), *forest.cohorts.values()]
    assert all(used == 0 for node in nodes for used in node.usage.values())


def test_a_tree_that_was_removed_is_not_gone_through_again() -> None:
    forest = forest_of(queue("mine", "old", 10), queue("yours", "new", 10))
    item = hold(forest, "mine", 1)
    forest.put_queue(queue("mine", "new", 10))
    forest.release(forest.queues["mine"], item)
    forest.refresh()
    assert list(forest.dirty) == list(forest.trees)
