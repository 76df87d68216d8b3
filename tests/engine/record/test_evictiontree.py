"""Do the sentences about an eviction say who was spared and which flavors were not chosen?"""

import pytest

from pykueue.base.units import Instant
from pykueue.engine.decisions import Considered, Mismatch, Short, SparedReason
from pykueue.engine.model import Cohort
from pykueue.engine.preempt import Spared
from pykueue.engine.record.causes import HIDDEN
from pykueue.engine.record.evictiontree import flavor_nodes, spared_clause, spared_node, spared_text
from pykueue.engine.record.preemptions import PassedFlavor, Passing, PreemptionRecord
from tests.engine.record.explained import System, lines, queue

SHORT = Short("spot", "cpu", 2000)
NEEDS = "needs 2 more cpu in flavor spot"


def record(
    spared: int = 0, *named: Spared, taken: tuple[Considered, ...] = (), passed: tuple[PassedFlavor, ...] = ()
) -> PreemptionRecord:
    return PreemptionRecord("p", Instant(0), 1, ("v",), spared, named, taken, passed)


def test_candidates_are_told_by_reason_and_the_rest_is_counted() -> None:
    named = (
        Spared("a", SparedReason.NOT_NEEDED),
        Spared("b", SparedReason.HIGHER_PRIORITY),
        Spared(HIDDEN, SparedReason.NOT_NEEDED),
    )
    assert lines(spared_node(record(7, *named))) == [
        "7 other candidates were spared:",
        "  a and 1 of other namespaces were not needed: enough quota is free without them",
        "  b comes later in the order of candidates: higher priority",
        "  4 more",
    ]
    assert spared_clause(record(7, *named)) == "spared: a, b, 1 of other namespaces and 4 more"


def test_one_candidate_and_none_have_their_own_grammar() -> None:
    assert lines(spared_node(record(1, Spared("a", SparedReason.NOT_NEEDED)))) == [
        "1 other candidate was spared:",
        "  a was not needed: enough quota is free without it",
    ]
    assert lines(spared_node(record())) == ["there was no other candidate"]
    assert spared_clause(record()) == "there was no other candidate"


@pytest.mark.parametrize("reason", SparedReason)
def test_every_reason_has_a_sentence_of_its_own(reason: SparedReason) -> None:
    texts = {spared_text(other, 1) for other in SparedReason if other is not reason}
    assert spared_text(reason, 1) not in texts
    assert "comes" not in spared_text(reason, 2)


@pytest.mark.parametrize(
    ("why", "obstacles", "text"),
    [
        (Passing.NO_FIT, (SHORT,), f"{NEEDS}, and it may not preempt for that much there"),
        (Passing.NO_FIT, (Mismatch("spot"),), "selects nodes that flavor spot does not have"),
        (Passing.NO_CANDIDATES, (SHORT,), f"{NEEDS}, and no preemption that is allowed would free enough"),
        (Passing.PREEMPT, (SHORT,), f"{NEEDS}, so it would have to preempt there too"),
        (Passing.RECLAIM, (SHORT,), f"{NEEDS}, so it would have to preempt there too"),
        (Passing.FIT, (), "it would have to borrow there"),
        (Passing.EARLIER, (), "an earlier cycle tried it, and went on to the next"),
        (Passing.UNTRIED, (), "not tried, because the scan ended at a flavor before it (flavorFungibility)"),
    ],
)
def test_why_a_flavor_was_not_chosen(why: Passing, obstacles: tuple[Short | Mismatch, ...], text: str) -> None:
    taken = (Considered("main", "solid", "Preempt", 0, (Short("solid", "cpu", 1000),)),)
    found = record(taken=taken, passed=(PassedFlavor("main", "spot", why, obstacles),))
    assert [one.text for one in flavor_nodes(found, "Job p")] == [
        "Job p chose flavor solid for pod set main: needs 1 more cpu in flavor solid",
        f"Job p did not choose flavor spot for pod set main: {text}",
    ]


def shared() -> System:
    """A queue that borrows with three workloads, of which one leaves for the owner of its quota."""
    system = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))
    system.submit("old", "main", 4)
    system.submit("new", "main", 3)
    system.submit("tiny", "main", 1)
    system.submit("owner", "other", 3)
    return system


def test_the_victim_and_its_preemptor_say_who_was_spared() -> None:
    system = shared()
    told = [
        "    2 other candidates were spared:",
        "      lab/tiny was not needed: enough quota is free without it",
        "      lab/old comes later in the order of candidates: the same priority, but admitted earlier",
    ]
    assert "\n".join(told) in system.text("new")
    mine = ["  evicted for it at 2027-01-15T08:00:04Z: lab/new", *told]
    assert "\n".join(mine) in system.text("owner"), "while it waits"
    system.stop("new")
    assert "\n".join(mine) in system.text("owner"), "when it has started"
    assert "spared" not in system.text("tiny")


def test_what_left_for_it_before_it_was_evicted_itself_is_not_told() -> None:
    system = shared()
    system.stop("new")
    assert system.why("owner").preemption is not None
    system.submit("boss", "other", 4, priority=9)
    assert system.why("owner").preemption is None, "it stops"
    system.stop("owner")
    assert system.why("owner").preemption is None, "it waits again"
