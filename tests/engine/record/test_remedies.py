"""Is each way out one that would work, and is the easiest the first?"""

from typing import Literal

import pytest

from pykueue.base.units import MICROS, Instant
from pykueue.engine.model import Cohort, LocalQueue, Namespace, Quota, Selector, StopPolicy
from pykueue.engine.record.causes import AwaitEnd, OtherQueue, Raise, Shrink
from pykueue.engine.record.rooms import Limit
from tests.engine.record.explained import System, queue

Field = Literal["nominalQuota", "borrowingLimit"]
BORROWING: Field = "borrowingLimit"
NOMINAL: Field = "nominalQuota"
ONLY_OTHERS = Selector((("team", "In", ("other",)),))


def test_it_waits_for_as_many_as_declare_their_end_and_suffice() -> None:
    system = System(queue("main", 6))
    ends = {}
    for name, seconds in (("late", 900), ("soon", 300), ("later", 600)):
        system.submit(name, "main", 2, max_run=seconds)
        ends[name] = Instant(system.now + seconds * MICROS)
    system.submit("waits", "main", 4)
    (way, *_) = system.why("waits").ways
    assert isinstance(way, AwaitEnd)
    assert (way.holders, way.at, way.holding, way.undeclared) == (("lab/soon", "lab/later"), ends["later"], 3, 0)
    assert "when lab/soon and lab/later will have ended, unless others ahead take the room" in system.text("waits")


def test_it_says_how_many_declare_no_end() -> None:
    system = System(queue("main", 6))
    system.submit("declares", "main", 2, max_run=300)
    system.submit("endless", "main", 4)
    system.submit("waits", "main", 4)
    (way, *_) = system.why("waits").ways
    assert isinstance(way, AwaitEnd)
    assert (way.at, way.holding, way.undeclared) == (None, 2, 1)
    assert "2 workloads use it, one declares a maximum run time" in system.text("waits")


def test_work_of_the_cohort_counts_as_far_as_it_frees_something_for_this_queue() -> None:
    system = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))
    system.submit("theirs", "other", 4, max_run=100)
    system.submit("mine", "main", 4, max_run=200)
    system.submit("waits", "main", 3)
    (way, *_) = system.why("waits").ways
    assert isinstance(way, AwaitEnd)
    assert way.holders == ("lab/theirs",)


def test_another_queue_with_room_is_offered_if_it_takes_the_workload() -> None:
    system = System(
        queue("main", 2),
        queue("free", 8),
        queue("full", 1),
        queue("closed", 8, stop=StopPolicy.HOLD),
        queue("strange", 8, namespaces=ONLY_OTHERS),
    )
    system.see(Namespace("far"), LocalQueue("far/away", "free"), LocalQueue("lab/held", "free", StopPolicy.HOLD))
    system.submit("runs", "main", 2)
    system.submit("waits", "main", 2)
    ways = [one for one in system.why("waits").ways if isinstance(one, OtherQueue)]
    assert ways == [OtherQueue("free", "free", ("default",), 0)]
    text = system.text("waits")
    assert "submit it to queue free (ClusterQueue free), which has room of flavor default now" in text


def test_the_ways_are_ranked_from_waiting_to_an_administrator() -> None:
    system = System(
        Cohort("all"), queue("main", 2, cohort="all", limit=1), queue("other", 4, cohort="all"), queue("free", 8)
    )
    system.submit("runs", "main", 2)
    system.submit("waits", "main", 2)
    wait, *others, shrink, more = system.why("waits").ways
    assert isinstance(wait, AwaitEnd)
    assert [one.queue for one in others if isinstance(one, OtherQueue)] == ["other", "free"]
    assert shrink == Shrink("main", "cpu", 1000, 2000)
    assert more == Raise(Limit("borrowingLimit", "ClusterQueue", "main"), "default", "cpu", 1000, "main")


def test_to_raise_the_limit_by_that_much_lets_it_start() -> None:
    for limit in (1, None):
        system = System(Cohort("all"), queue("main", 2, cohort="all", limit=limit), queue("other", 4, cohort="all"))
        system.submit("runs", "main", 2)
        system.submit("theirs", "other", 1)
        system.submit("waits", "main", 5)
        way = system.why("waits").ways[-1]
        assert isinstance(way, Raise)
        by = way.by // 1000
        if way.limit.field == "borrowingLimit":
            assert limit is not None
            system.see(queue("main", 2, cohort="all", limit=limit + by, generation=2))
        else:
            system.see(queue("main", 2 + by, cohort="all", limit=limit, generation=2))
        system.settle()
        still = system.why("waits")
        if limit is None:
            assert still.admission is not None
        else:
            # Now the cohort as a whole is what binds.
            assert still.pod_sets[0].flavors[0].room.limit == Limit("cohort", "Cohort", "all")


@pytest.mark.parametrize("cohort", ["", "all"])
def test_what_is_used_beyond_a_lowered_quota_has_to_be_given_back_too(cohort: str) -> None:
    system = System(Cohort("all"), queue("main", 4, cohort=cohort))
    for name in ("a", "b", "c"):
        system.submit(name, "main", 1)
    system.see(queue("main", 1, cohort=cohort, generation=2))
    system.submit("waits", "main", 1)
    wait, *_, more = system.why("waits").ways
    assert isinstance(wait, AwaitEnd)
    assert [one.missing for one in wait.short] == [3000]
    assert isinstance(more, Raise)
    assert more.by == 3000
    assert "raise nominalQuota of ClusterQueue main by 3 cpu" in system.text("waits")
    system.see(queue("main", 1 + 2, cohort=cohort, generation=3))
    system.settle()
    assert system.why("waits").admission is None
    system.see(queue("main", 1 + 3, cohort=cohort, generation=4))
    system.settle()
    assert system.why("waits").admission is not None


def test_a_borrowing_limit_is_not_offered_if_the_cohort_has_too_little_without_it() -> None:
    cohort = (Cohort("all"), queue("other", 10, cohort="all"))
    for asked, limit in ((16, BORROWING), (17, NOMINAL), (50, NOMINAL)):
        system = System(*cohort, queue("vision", 6, cohort="all", limit=4))
        system.submit("waits", "vision", asked)
        way = system.why("waits").ways[-1]
        assert way == Raise(Limit(limit, "ClusterQueue", "vision"), "default", "cpu", (asked - 10) * 1000, "vision")
        assert f"an administrator may raise {limit} of ClusterQueue vision by {asked - 10} cpu" in system.text("waits")
        nominal, borrowed = (6, asked - 6) if limit == BORROWING else (asked - 4, 4)
        system.see(queue("vision", nominal, limit=borrowed, cohort="all", generation=2))
        system.settle()
        assert system.why("waits").admission is not None


def test_a_borrowing_limit_is_not_offered_while_others_use_what_it_would_borrow() -> None:
    for theirs, limit in ((0, BORROWING), (1, NOMINAL)):
        system = System(Cohort("all"), queue("other", 4, cohort="all"), queue("main", 2, cohort="all", limit=2))
        system.submit("runs", "main", 2)
        if theirs:
            system.submit("theirs", "other", theirs)
        system.submit("waits", "main", 4)
        way = system.why("waits").ways[-1]
        assert way == Raise(Limit(limit, "ClusterQueue", "main"), "default", "cpu", 2000, "main")


def test_the_limit_of_a_cohort_is_offered_unless_a_limit_below_it_is_in_the_way() -> None:
    for own, limit in ((None, ("borrowingLimit", "Cohort", "team")), (5, ("nominalQuota", "ClusterQueue", "main"))):
        system = System(
            Cohort("all"),
            Cohort("team", "all", (Quota("default", "cpu", 0, 1000),)),
            queue("other", 8, cohort="all"),
            queue("main", 2, cohort="team", limit=own),
        )
        system.submit("waits", "main", 6)
        way = system.why("waits").ways[-1]
        assert isinstance(way, Raise)
        assert (way.limit.field, way.limit.kind, way.limit.name) == limit


def test_while_victims_leave_there_is_nothing_to_do() -> None:
    system = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))
    system.submit("victim", "main", 8)
    system.submit("owner", "other", 4)
    assert [type(one).__name__ for one in system.why("owner").ways] == ["Fix"]
    assert "it can start when they have stopped" in system.text("owner")
