"""Does the search under fair sharing find the victims that the rules name, whatever the tree and the strategies?"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykueue.engine.decisions import SparedReason
from pykueue.engine.fairsearch import FairSearch, search_for
from pykueue.engine.model import ClusterQueue, Cohort, Options, Policy, Preemption, Quota, ShareStrategy
from pykueue.engine.preempt import Search
from tests.engine.fairreference import SlowSearch
from tests.engine.fairscene import CPU, fair_trees
from tests.engine.reference import Holder
from tests.engine.test_preempt import NOW, Scene

FINAL, INITIAL = ShareStrategy.FINAL, ShareStrategy.INITIAL
LISTS = ((FINAL, INITIAL), (FINAL,), (INITIAL,))
BOTH = Options(fair_sharing=(FINAL, INITIAL))


class FairScene(Scene):
    """A scene in which the search is that of fair sharing."""

    def __init__(
        self,
        queues: list[ClusterQueue],
        holders: list[Holder],
        preemptor: Holder,
        cohorts: tuple[Cohort, ...] = (),
        options: Options = BOTH,
    ) -> None:
        super().__init__(queues, holders, preemptor, cohorts)
        mine = self.forest.queues[preemptor.queue]
        self.search = FairSearch(self.snapshot, mine, self.item(preemptor), NOW, options)


@settings(max_examples=300)
@given(fair_trees(), st.sampled_from(LISTS), st.integers(1, 4), st.integers(-1, 2))
def test_the_victims_are_those_of_the_rules(
    tree: tuple[list[ClusterQueue], list[Cohort], list[Holder]],
    strategies: tuple[ShareStrategy, ...],
    amount: int,
    priority: int,
) -> None:
    queues, cohorts, holders = tree
    preemptor = Holder("p", queues[0].name, ((CPU, amount),), priority, 3)
    scene = FairScene(queues, holders, preemptor, tuple(cohorts), Options(fair_sharing=strategies))
    before = scene.usage()
    expected = SlowSearch(scene.numbers, preemptor, scene.short(), strategies).run() if scene.short() else {}
    assert scene.victims() == expected
    assert scene.usage() == before, "what was tried is undone"
    if expected:
        left = scene.numbers.without(expected)
        assert left.fits(preemptor.queue, dict(preemptor.usage)), "the preemptor fits once the victims have left"


def test_the_options_choose_the_search() -> None:
    scene = FairScene([ClusterQueue("mine", quotas=(Quota(*CPU, 1),))], [], Holder("p", "mine", ((CPU, 1),)))
    mine, item = scene.forest.queues["mine"], scene.search.item
    assert type(search_for(scene.snapshot, mine, item, NOW, Options())) is Search
    assert type(search_for(scene.snapshot, mine, item, NOW, Options(fair_sharing=(FINAL,)))) is FairSearch


def borrower(name: str, weight: float = 1.0) -> ClusterQueue:
    policies = Preemption(Policy.LOWER, Policy.ANY)
    return ClusterQueue(name, "all", quotas=(Quota(*CPU, 0),), preemption=policies, weight=weight)


LENDER = ClusterQueue("lender", "all", quotas=(Quota(*CPU, 9),))


def test_who_is_spared_and_why() -> None:
    holders = [Holder(f"b{number}", "b", ((CPU, 1),)) for number in range(6)]
    holders += [Holder(f"c{number}", "c", ((CPU, 1),)) for number in range(3)]
    scene = FairScene([borrower("a"), borrower("b"), borrower("c"), LENDER], holders, Holder("p", "a", ((CPU, 1),)))
    assert list(scene.victims()) == ["b0"]
    assert scene.selection.spared == 8
    reasons = {one.workload: one.reason for one in scene.selection.named}
    assert reasons == {"b1": SparedReason.TIE, "b2": SparedReason.TIE, "b3": SparedReason.TIE}


def test_candidates_of_a_queue_from_which_nothing_is_taken_have_a_smaller_share() -> None:
    holders = [Holder("b0", "b", ((CPU, 3),)), Holder("b1", "b", ((CPU, 3),)), Holder("c0", "c", ((CPU, 3),))]
    scene = FairScene([borrower("a"), borrower("b"), borrower("c"), LENDER], holders, Holder("p", "a", ((CPU, 1),)))
    assert list(scene.victims()) == ["b0"]
    reasons = {one.workload: one.reason for one in scene.selection.named}
    assert reasons == {"b1": SparedReason.TIE, "c0": SparedReason.SMALLER_SHARE}


def test_who_may_not_be_taken_is_named_as_such() -> None:
    # The first strategy refuses b, and takes from c.
    queues = [borrower("a"), borrower("b", weight=0.5), borrower("c"), LENDER]
    holders = [Holder("big", "b", ((CPU, 4),)), *(Holder(f"c{n}", "c", ((CPU, 1),)) for n in range(5))]
    scene = FairScene(queues, holders, Holder("p", "a", ((CPU, 2),)), options=Options(fair_sharing=(FINAL,)))
    assert sorted(scene.victims()) == ["c0", "c1"]
    assert (scene.selection.named[0].workload, scene.selection.named[0].reason) == ("big", SparedReason.FAIR_SHARE)


@pytest.mark.parametrize("amount", [1, 3])
def test_nobody_is_taken_from_a_queue_that_borrows_less(amount: int) -> None:
    holders = [Holder("a0", "a", ((CPU, 5),)), *(Holder(f"b{n}", "b", ((CPU, 1),)) for n in range(4))]
    preemptor = Holder("p", "a", ((CPU, amount),))
    assert FairScene([borrower("a"), borrower("b"), LENDER], holders, preemptor).victims() == {}


@pytest.mark.parametrize("strategies", LISTS)
def test_nobody_is_taken_for_a_share_that_would_be_equal(strategies: tuple[ShareStrategy, ...]) -> None:
    holders = [Holder("own", "lender", ((CPU, 5),)), Holder("b0", "b", ((CPU, 4),))]
    preemptor = Holder("p", "a", ((CPU, 4),))
    scene = FairScene(
        [borrower("a"), borrower("b"), LENDER], holders, preemptor, options=Options(fair_sharing=strategies)
    )
    assert scene.victims() == {}
