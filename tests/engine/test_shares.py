"""Are shares those of the formula, in the worked rows and in small trees of every kind?"""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.units import UNLIMITED, Instant
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced
from pykueue.engine.forest import Forest
from pykueue.engine.model import ClusterQueue, Cohort, Options, Quota, ShareStrategy
from pykueue.engine.quota import QuotaNode
from pykueue.engine.shares import NO_SHARE, lendable, share, share_with, share_without, sides
from tests.engine.fairreference import borrowed, parting, rank
from tests.engine.fairscene import fair_trees
from tests.engine.reference import Holder, Numbers
from tests.engine.test_quota import forest_of, hold, queue, quota

CPU, GPU = ("spot", "cpu"), ("spot", "gpu")


def three(weight: float = 1.0) -> Forest:
    """Three queues of 3 in a cohort, one of which uses 5."""
    forest = forest_of(
        ClusterQueue("a", "all", quotas=quota(3), weight=weight), queue("b", "all", 3), queue("c", "all", 3)
    )
    hold(forest, "a", 5)
    return forest


@pytest.mark.parametrize(
    ("weight", "value", "rounded"),
    [
        pytest.param(1.0, 2000 / 9, 223, id="the part of what the cohort can lend, per mille, rounded up"),
        pytest.param(2.0, 1000 / 9, 112, id="by weight"),
        pytest.param(0.5, 4000 / 9, 445, id="by a weight below one"),
        pytest.param(0.0, inf, UNLIMITED, id="infinite with a weight of zero"),
    ],
)
def test_what_is_borrowed_counts(weight: float, value: float, rounded: int) -> None:
    found = share(three(weight).queues["a"])
    assert (found.value, found.rounded, found.resource) == (value, rounded, "cpu")


def test_who_borrows_nothing_has_no_share() -> None:
    forest = three()
    assert share(forest.queues["b"]).value == 0
    assert share(forest.cohorts["all"]) is NO_SHARE
    alone = forest_of(queue("alone", "", 1))
    hold(alone, "alone", 5)
    assert share(alone.queues["alone"]) is NO_SHARE


def test_a_pair_that_is_used_but_not_owned_is_ignored() -> None:
    forest = forest_of(queue("a", "all", 3), queue("b", "all", 3))
    item = hold(forest, "a", 3)
    forest.release(forest.queues["a"], item)
    item.usage = ((forest.flavors.id("other", "cpu"), 9),)
    forest.hold(forest.queues["a"], item)
    assert share(forest.queues["a"]).value == 0


def test_what_nobody_can_lend_is_borrowed_without_a_share() -> None:
    forest = forest_of(queue("a", "all", 0), queue("b", "all", 0))
    hold(forest, "a", 1)
    found = share(forest.queues["a"])
    assert found.borrowed
    assert (found.value, found.rounded) == (0, 0)
    assert found.borrows_any([(forest.flavors.id(*CPU), 1)])
    assert not found.borrows_any([(forest.flavors.id(*CPU), 0)])


def test_of_resources_with_the_same_ratio_the_first_by_name_is_dominant() -> None:
    quotas = (Quota(*GPU, 4), Quota(*CPU, 4))
    forest = forest_of(ClusterQueue("a", "all", quotas=()), ClusterQueue("b", "all", quotas=quotas))
    forest.put_queue(ClusterQueue("a", "all", quotas=(Quota(*GPU, 0), Quota(*CPU, 0))))
    forest.refresh()
    item = hold(forest, "a", 1)
    forest.release(forest.queues["a"], item)
    item.usage = ((forest.flavors.id(*GPU), 2), (forest.flavors.id(*CPU), 2))
    forest.hold(forest.queues["a"], item)
    assert (share(forest.queues["a"]).resource, share(forest.queues["a"]).value) == ("cpu", 500)


def test_unlimited_quota_saturates() -> None:
    forest = forest_of(
        Cohort("all", quotas=(Quota("x", "cpu", UNLIMITED), Quota("y", "cpu", UNLIMITED))), queue("a", "all", 0)
    )
    hold(forest, "a", 5)
    assert lendable(forest.cohorts["all"]) == {"cpu": UNLIMITED}
    assert 0 < share(forest.queues["a"]).value < 1


def test_an_edit_of_a_quota_or_a_weight_takes_effect() -> None:
    forest = three()
    forest.put_queue(queue("c", "all", 12))
    forest.refresh()
    assert share(forest.queues["a"]).value == 2000 / 18
    forest.put_queue(ClusterQueue("a", "all", quotas=quota(3), weight=4))
    forest.refresh()
    assert share(forest.queues["a"]).value == 500 / 18


def node_of(forest: Forest, kind: str, name: str) -> QuotaNode:
    return (forest.queues if kind == "queue" else forest.cohorts)[name]


@given(fair_trees())
def test_shares_are_those_of_the_formula(tree: tuple[list[ClusterQueue], list[Cohort], list[Holder]]) -> None:
    queues, cohorts, holders = tree
    forest, numbers = forest_of(*cohorts, *queues), Numbers(queues, cohorts, holders)
    for number, holder in enumerate(holders):
        hold(forest, holder.queue, dict(holder.usage)[("spot", "cpu")], f"h{number}")
    for kind, name in numbers.nodes():
        found = share(node_of(forest, kind, name))
        infinite, value = rank(numbers, (kind, name))
        assert found.standing[0] == infinite
        assert found.standing[1] == pytest.approx(float(value), rel=1e-12)
        assert bool(found.borrowed) == bool(borrowed(numbers, (kind, name)))


@given(fair_trees(), st.integers(0, 20))
def test_more_use_never_makes_a_share_smaller(
    tree: tuple[list[ClusterQueue], list[Cohort], list[Holder]], amount: int
) -> None:
    queues, cohorts, holders = tree
    forest = forest_of(*cohorts, *queues)
    for number, holder in enumerate(holders):
        hold(forest, holder.queue, dict(holder.usage)[("spot", "cpu")], f"h{number}")
    user = forest.queues[queues[0].name]
    usage = ((forest.flavors.id("spot", "cpu"), amount),)
    for node in (*forest.queues.values(), *forest.cohorts.values()):
        before = share(node)
        if node is user or user.parent is node:
            assert before.standing <= share_with(node, user, usage).standing
        else:
            assert share_with(node, user, ()).standing == before.standing
        assert share(node).standing == before.standing, "what was tried is undone"
    for holder in holders[:1]:
        queue_node = forest.queues[holder.queue]
        less = share_without(queue_node, queue_node, ((forest.flavors.id("spot", "cpu"), 1),))
        assert less.standing <= share(queue_node).standing


@given(fair_trees())
def test_sides_are_where_the_ways_up_part(tree: tuple[list[ClusterQueue], list[Cohort], list[Holder]]) -> None:
    queues, cohorts, holders = tree
    forest, numbers = forest_of(*cohorts, *queues), Numbers(queues, cohorts, holders)
    one, other = queues[0].name, queues[-1].name
    if one != other:
        found = sides(forest.queues[one], forest.queues[other])
        assert found == tuple(node_of(forest, *node) for node in parting(numbers, one, other))


def test_a_cycle_that_was_observed_just_now_has_no_shares() -> None:
    engine = Engine(Options(fair_sharing=(ShareStrategy.FINAL,)))
    engine.observe(Seen(ClusterQueue("q", "a", quotas=quota(0))))
    engine.observe(Seen(Cohort("a", "b", quota(3))))
    engine.observe(Synced())
    engine.decide(Instant(0))
    engine.observe(Seen(Cohort("b", "a"), 1))
    assert engine.share_of_queue("q") is NO_SHARE
    assert engine.share_of_cohort("a") is NO_SHARE
    assert engine.share_of_cohort("none") is None
