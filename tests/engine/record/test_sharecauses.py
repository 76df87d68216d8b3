"""Does an explanation under fair sharing say who goes first and who is protected, with the shares of the engine?"""

import pytest

from pykueue.engine.model import Cohort, Options, Preemption, ShareStrategy
from pykueue.engine.record.causes import Precedence
from pykueue.engine.record.sharecauses import passes
from pykueue.engine.record.sharetree import share_text
from pykueue.engine.shares import Share
from tests.engine.record.explained import System, queue

FAIR = Options(fair_sharing=(ShareStrategy.FINAL, ShareStrategy.INITIAL))


def three(options: Options = FAIR) -> System:
    """Queues a, b and c of 2 cpu each; c has twice the weight, and no workloads."""
    things = [queue(name, 2, cohort="all", weight=weight) for name, weight in (("a", 1.0), ("b", 1.0), ("c", 2.0))]
    return System(Cohort("all"), *things, options=options)


def test_without_fair_sharing_no_share_is_mentioned() -> None:
    system = three(Options())
    system.submit("runs", "a", 6)
    system.submit("waits", "a", 1)
    assert system.why("waits").share is None
    assert "share" not in system.text("waits") + system.queue_text("a")


def test_without_a_cohort_no_share_is_mentioned() -> None:
    system = System(queue("a", 1), options=FAIR)
    system.submit("runs", "a", 1)
    system.submit("waits", "a", 1)
    assert system.why("waits").share is None


def test_a_queue_with_a_smaller_share_is_protected() -> None:
    system = three()
    for number in range(3):
        system.submit(f"a{number}", "a", 1)
        system.submit(f"b{number}", "b", 1)
    system.submit("waits", "a", 1)
    found = system.why("waits").share
    assert found is not None
    assert found.queue.share == pytest.approx(1000 / 6)
    assert found.with_it == pytest.approx(2000 / 6)
    text = system.text("waits")
    assert "share: ClusterQueue a has 0.167, and would have 0.334 with it" in text
    refusal = "it may not preempt in b: with it, a would have a share of 0.334, not below the 0.167 of b"
    assert refusal in text


def test_with_the_first_strategy_alone_the_share_without_the_victim_counts() -> None:
    system = three(Options(fair_sharing=(ShareStrategy.FINAL,)))
    system.submit("a0", "a", 2)
    system.submit("b0", "b", 4)
    system.submit("waits", "a", 1)
    text = system.text("waits")
    assert "it may not preempt in b: with it, a would have a share of 0.167, above 0, that of b without one" in text


def test_the_queue_that_goes_first_is_named_with_its_share() -> None:
    system = three()
    system.see(queue("c", 2, cohort="all", weight=2.0, preemption=Preemption()))
    system.submit("c0", "c", 2)
    for number in range(2):
        system.submit(f"a{number}", "a", 1)
        system.submit(f"b{number}", "b", 1)
    system.submit("later", "a", 1)
    system.submit("first", "c", 1)
    found = system.why("later").share
    assert found is not None
    assert [(one.queue, one.why) for one in found.earlier] == [("c", Precedence.SHARE)]
    text = "c goes first: with its next workload, the share of c is 0.084, below 0.167, that of a with this one"
    assert text in system.text("later")


def test_a_preemptor_that_waits_for_its_room_goes_first() -> None:
    system = three()
    system.submit("a0", "a", 3)
    system.submit("b0", "b", 3)
    system.submit("later", "a", 3)
    system.submit("first", "c", 2)
    assert "c goes first: room is kept for its next workload, for which others were preempted" in system.text("later")


def test_between_equal_shares_the_older_goes_first() -> None:
    system = three()
    system.submit("c0", "c", 2)
    for number in range(2):
        system.submit(f"a{number}", "a", 1)
        system.submit(f"b{number}", "b", 1)
    system.submit("first", "b", 1)
    system.submit("later", "a", 1)
    assert "b goes first: the shares are equal" in system.text("later")
    assert "goes first" not in system.text("first")


def test_a_queue_that_need_not_borrow_goes_first() -> None:
    system = three()
    system.see(queue("c", 2, cohort="all", preemption=Preemption()))
    system.submit("a0", "a", 3)
    system.submit("b0", "b", 3)
    system.submit("first", "c", 2)
    system.submit("later", "a", 1)
    text = "c goes first: it need not borrow for its next workload, and a has to borrow for this one"
    assert text in system.text("later")


@pytest.mark.parametrize(
    ("strategies", "own", "initial", "final", "expected"),
    [
        ((ShareStrategy.FINAL,), 100.0, 200.0, 100.0, True),
        ((ShareStrategy.FINAL,), 101.0, 200.0, 100.0, False),
        ((ShareStrategy.INITIAL,), 101.0, 200.0, 100.0, True),
        ((ShareStrategy.INITIAL,), 200.0, 200.0, 100.0, False),
        ((ShareStrategy.FINAL, ShareStrategy.INITIAL), 150.0, 200.0, 100.0, True),
    ],
)
def test_which_strategy_lets_a_preemptor_pass(
    strategies: tuple[ShareStrategy, ...], own: float, initial: float, final: float, expected: bool
) -> None:
    shares = [Share(ratio, 1.0, "cpu", (0,)) for ratio in (own, initial, final)]
    assert passes(strategies, *shares) is expected


def test_an_infinite_share_passes_only_another() -> None:
    infinite, finite = Share(1.0, 0.0, "cpu", (0,)), Share(1.0, 1.0, "cpu", (0,))
    assert not passes(FAIR.fair_sharing, infinite, finite, finite)
    assert passes(FAIR.fair_sharing, finite, infinite, infinite)


def test_the_share_of_a_queue_is_compared_with_its_siblings() -> None:
    system = three()
    system.submit("a0", "a", 3)
    system.submit("b0", "b", 3)
    text = system.queue_text("a")
    assert "share of what its cohort lends: 0.167\n    ClusterQueue b: 0.167\n    ClusterQueue c: 0 (weight 2)" in text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0"), (83.333, "0.084"), (142.857, "0.143"), (310.0, "0.31"), (2500.0, "2.5"), (float("inf"), "infinite")],
)
def test_shares_are_written_as_parts_of_one_and_rounded_up_as_in_status(share: float, text: str) -> None:
    assert share_text(share) == text
