"""Who holds a queue, who borrows from whom, and what would a newcomer meet?"""

import pytest
from msgspec.structs import replace

from pykueue.base.steps import at_once
from pykueue.base.units import MICROS, Instant
from pykueue.engine.decisions import Short
from pykueue.engine.facts import Gone
from pykueue.engine.model import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    PodSet,
    Policy,
    Preemption,
    Quota,
    ResourceGroup,
    StopPolicy,
    Strategy,
)
from pykueue.engine.record import rooms
from pykueue.engine.record.causes import Neighbour, NewcomerCause
from pykueue.engine.record.queuecauses import HOLDERS_MAX, of_local_queue, of_queue
from tests.engine.record.explained import System, queue


def shared() -> System:
    return System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))


def test_holders_are_named_by_size_with_their_ends() -> None:
    system = shared()
    system.submit("small", "main", 1)
    system.submit("large", "main", 5, max_run=60)
    found = system.queue("main")
    large, small = found.holders
    assert (large.key, large.amounts, large.until) == (
        "lab/large",
        (("default", "cpu", 5000),),
        Instant(system.now + 60 * MICROS),
    )
    assert (small.key, small.until, found.holding) == ("lab/small", None, 2)
    for number in range(HOLDERS_MAX):
        system.submit(f"zero-{number}", "other", 0)
    assert len(system.queue("other").holders) == HOLDERS_MAX


def test_borrower_and_lender_see_each_other() -> None:
    system = shared()
    system.submit("borrows", "main", 6)
    mine, theirs = system.queue("main"), system.queue("other")
    assert mine.lenders == (Neighbour("other", "default", "cpu", 4000),)
    assert theirs.borrowers == (Neighbour("main", "default", "cpu", 2000),)
    assert (mine.rooms[0].borrowed, theirs.rooms[0].lent) == (2000, 2000)
    assert "ClusterQueue main: 2 cpu of flavor default" in system.queue_text("other")


def test_a_newcomer_starts_borrows_or_waits() -> None:
    system = shared()
    assert system.queue("main").newcomers == (NewcomerCause("cpu", 1000, True, "default"),)
    system.submit("owns", "main", 4)
    assert system.queue("main").newcomers == (NewcomerCause("cpu", 1000, True, "default", True),)
    system.submit("rest", "main", 4)
    (full,) = system.queue("main").newcomers
    assert not full.fits
    assert "a new job with 1 cpu would wait: needs 1 more cpu in flavor default" in system.queue_text("main")


def test_a_newcomer_waits_behind_the_head_of_a_strict_queue() -> None:
    system = System(queue("main", 4, strategy=Strategy.STRICT))
    system.submit("runs", "main", 2)
    system.submit("head", "main", 4)
    text = "a new job with 1 cpu would wait behind 1 other, because the queue is StrictFIFO"
    assert text in system.queue_text("main")


def test_a_newcomer_that_would_preempt_starts() -> None:
    system = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))
    system.submit("borrows", "other", 8)
    (found,) = system.queue("main").newcomers
    assert (found.fits, found.victims) == (False, 1)
    assert "a new job with 1 cpu would start by preempting 1 workload in flavor default" in system.queue_text("main")


def test_a_newcomer_preempts_no_equal_that_came_before() -> None:
    policy = Preemption(within_queue=Policy.LOWER_OR_NEWER)
    system = System(queue("main", 4, preemption=policy))
    system.submit("runs", "main", 4)
    assert "a new job with 1 cpu would wait" in system.queue_text("main")
    system.submit("low", "main", 1, priority=-1)
    system.submit("urgent", "main", 4, priority=5)
    assert "a new job with 1 cpu would wait" in system.queue_text("main"), "the victim leaves for another workload"


@pytest.mark.parametrize(("limit", "most"), [("HOLDERS_MAX", 2), ("TRIED_MAX", 1)])
def test_with_too_many_candidates_it_is_not_computed_who_is_preempted(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    system = System(queue("main", 3))
    for name in ("a", "b", "c"):
        system.submit(name, "main", pod_sets=(PodSet("main", 1, (("cpu", 500),)),), priority=-1)
    system.submit("runs", "main", pod_sets=(PodSet("main", 1, (("cpu", 1500),)),))
    (found,) = system.queue("main").newcomers
    assert (found.victims, found.too_many) == (2, False)
    monkeypatch.setattr(rooms, limit, most)
    before = dict(system.engine.world.forest.queues["main"].usage)
    (found,) = system.queue("main").newcomers
    assert (found.fits, found.victims, found.too_many) == (False, 0, True)
    assert system.engine.world.forest.queues["main"].usage == before, "nothing is left of the search"
    text = "a new job with 1 cpu does not fit now: needs 1 more cpu in flavor default; whether it would preempt others"
    assert text in system.queue_text("main")


def test_a_search_that_ends_within_its_limits_finds_what_one_without_them_does(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 2, cohort="all"))
    for number in range(6):
        system.submit(f"w-{number}", "other", 1)
    monkeypatch.setattr(rooms, "HOLDERS_MAX", 6)
    monkeypatch.setattr(rooms, "TRIED_MAX", 1)
    assert system.queue("main").newcomers == (
        NewcomerCause("cpu", 1000, False, "default", obstacles=(Short("default", "cpu", 1000),), victims=1),
    )


def test_a_queue_that_is_deleted_meanwhile_is_told_as_far_as_it_was_read() -> None:
    system = shared()
    system.submit("runs", "main", 1)
    work = of_queue(system.engine, "main")
    next(work)
    system.engine.observe(Gone("ClusterQueue", "main"))
    system.settle()
    found = at_once(work)
    assert found is not None
    assert (found.holding, found.newcomers) == (1, ())


def test_a_newcomer_may_ask_for_a_gpu() -> None:
    gpus = ClusterQueue(
        "gpus",
        groups=(ResourceGroup(("memory", "nvidia.com/gpu"), ("default",)),),
        quotas=(Quota("default", "memory", 1), Quota("default", "nvidia.com/gpu", 1)),
        namespaces=queue("x", 1).namespaces,
    )
    system = System(gpus)
    assert system.queue("gpus").newcomers == (NewcomerCause("nvidia.com/gpu", 1, True, "default"),)


def test_a_local_queue_has_its_own_counts_and_its_own_obstacles() -> None:
    system = shared()
    system.see(LocalQueue("lab/second", "main"))
    system.submit("first", "main", 8)
    system.submit("second", "second", 1)
    found = system.local_queue("second")
    assert (found.own_holding, found.own_pending, found.holding, found.pending) == (0, 1, 1, 1)
    system.see(LocalQueue("lab/second", "main", StopPolicy.HOLD))
    system.settle()
    assert system.local_queue("second").obstacle == "LocalQueue second is stopped (Hold)"
    system.see(LocalQueue("lab/lost", "none"))
    assert system.local_queue("lost").obstacle == "there is no ClusterQueue none"


def test_a_queue_that_is_stopped_says_why() -> None:
    system = shared()
    system.see(replace(queue("main", 4, cohort="all"), stop=StopPolicy.HOLD))
    system.settle()
    found = system.queue("main")
    assert (found.obstacle, found.newcomers) == ("is stopped", ())
    assert system.queue_text("main").startswith("admits nothing: is stopped")


def test_a_queue_in_a_cycle_of_cohorts_has_no_numbers() -> None:
    system = System(Cohort("a", "b"), Cohort("b", "a"), queue("main", 4, cohort="a"))
    found = system.queue("main")
    assert (found.rooms, "cycle" in found.obstacle) == ((), True)


def test_what_does_not_exist_has_no_explanation() -> None:
    system = shared()
    assert at_once(of_queue(system.engine, "none")) is None
    assert at_once(of_local_queue(system.engine, "lab/none")) is None
