"""Does an estimate tell when a workload starts, how sure that is, and what it does not know?"""

from typing import Any

import pytest
from msgspec.structs import replace

from pykueue.api.estimates import EstimateStatus
from pykueue.base.units import MICROS, Instant, Seconds, parse_instant
from pykueue.bridge.estimates import RUNS_MIN, EstimateQuestion
from pykueue.bridge.runtimes import JobKind, Learned, LearnedKind
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen
from pykueue.engine.model import LocalQueue, PodSet, StopPolicy
from pykueue.engine.record.checkpoint import checkpoint
from pykueue.sim.estimates import estimate
from pykueue.sim.refusal import RefusedError
from tests.engine.test_engine import NOW, engine_with, queue, run, workload

LATER = Instant(NOW + 100 * MICROS)
"""When the questions are asked; what runs has run for this long."""
MINUTES = 60 * MICROS


def learned(*seconds: int, queue: str = "red/q", cpu: int = 4, per_day: float = 0) -> Learned:
    return Learned((LearnedKind(JobKind(queue, (("cpu", cpu),)), seconds, per_day),))


def asked(engine: Engine, name: str, **question: Any) -> EstimateStatus:
    wanted = EstimateQuestion(f"red/{name}", LATER, **{"runs": RUNS_MIN, **question})
    return estimate(wanted, checkpoint(engine))


def waiting(*names: str, **fields: Any) -> Engine:
    """An engine with one workload that runs, and others that wait in this order."""
    engine = engine_with()
    for number, name in enumerate(("runs", *names)):
        engine.observe(Seen(workload(name, created=number + 1, **fields)))
    run(engine)
    return engine


def between(found: EstimateStatus) -> tuple[float, float]:
    """The range, in minutes after the question."""
    ends = (parse_instant(found.earliest), parse_instant(found.latest))
    first, last = ((one - LATER) / MINUTES for one in ends)
    return first, last


def test_the_next_starts_when_the_running_one_has_run_as_long_as_those_before_it() -> None:
    found = asked(waiting("next"), "next", learned=learned(*[3600] * 30))
    assert (found.runs, found.runs_that_start) == (RUNS_MIN, RUNS_MIN)
    first, last = between(found)
    # It has run for 100 s of an hour; rarely one is shorter or longer than all before.
    assert first <= 60 <= last + 1
    assert parse_instant(found.median) == pytest.approx(NOW + 3600 * MICROS, abs=5 * MINUTES)


def test_the_third_waits_twice_as_long() -> None:
    known = learned(*[3600] * 30)
    second, third = (asked(waiting("b", "c"), name, learned=known) for name in ("b", "c"))
    wait = [parse_instant(one.median) - NOW for one in (second, third)]
    assert wait[1] == pytest.approx(2 * wait[0], rel=0.15)
    assert [(one.ahead, one.ahead_without_limit, one.ahead_guessed) for one in (second, third)] == [
        (1, 1, 0),
        (2, 2, 0),
    ]


def test_a_limit_bounds_the_wait() -> None:
    found = asked(waiting("next", max_run=Seconds(600)), "next")
    assert between(found)[1] <= 10
    assert (found.ahead, found.ahead_without_limit) == (1, 0)


def test_the_limit_of_a_job_counts_as_well() -> None:
    found = asked(waiting("next", job_uid="job"), "next", limits={"job": 600})
    assert between(found)[1] <= 10
    assert found.ahead_without_limit == 0


def test_what_nothing_is_known_about_is_said_to_be_a_guess() -> None:
    found = asked(waiting("next"), "next")
    assert (found.ahead_without_limit, found.ahead_guessed) == (1, 1)
    first, last = between(found)
    assert first < 10
    assert last > 60


def test_an_estimate_by_very_few_finished_jobs_is_wide_and_says_so() -> None:
    found = asked(waiting("next"), "next", learned=learned(600))
    assert (found.ahead_guessed, found.ahead_few, found.fewest) == (0, 1, 1)
    assert between(found)[1] > 120
    found = asked(waiting("next"), "next", learned=learned(*[600] * 5))
    assert (found.ahead_few, found.fewest) == (0, 0)


def test_a_workload_that_fits_starts_now() -> None:
    engine = engine_with()
    engine.observe(Seen(workload("fits")))
    found = asked(engine, "fits")
    assert between(found)[1] <= 1
    assert found.ahead == 0


@pytest.mark.parametrize(
    "fields", [{"cpu": 5}, {"active": False}, {"local": "missing"}], ids=["too large", "held", "without a queue"]
)
def test_what_cannot_start_never_does(fields: dict[str, Any]) -> None:
    engine = waiting()
    engine.observe(Seen(workload("never", created=9, **fields)))
    run(engine)
    found = asked(engine, "never", learned=learned(60))
    assert (found.runs_that_start, found.earliest, found.latest, found.median) == (0, "", "", "")


def test_a_stopped_queue_starts_nothing() -> None:
    engine = waiting("next")
    engine.observe(Seen(queue(stop=StopPolicy.HOLD)))
    assert asked(engine, "next").runs_that_start == 0


def test_a_workload_that_is_not_there_is_refused() -> None:
    with pytest.raises(RefusedError, match="red/gone does not exist"):
        asked(waiting(), "gone")


def test_the_same_question_has_the_same_answer() -> None:
    first, second = (asked(waiting("b", "c"), "c") for _ in range(2))
    assert first == second
    assert asked(waiting("b", "c"), "c", seed=1) != first


def test_jobs_of_other_trees_change_nothing() -> None:
    engine = waiting("next")
    alone = asked(engine, "next")
    for thing in (queue("isle"), LocalQueue("red/isle", "isle"), workload("far", local="isle")):
        engine.observe(Seen(thing))
    run(engine)
    engine.observe(Seen(workload("farther", local="isle", created=3)))
    assert asked(engine, "next") == alone


def test_jobs_that_arrive_and_go_first_delay_it() -> None:
    engine = waiting()
    pods = (PodSet("main", 1, (("cpu", 1),)),)
    engine.observe(Seen(workload("first", priority=1, created=2)))
    engine.observe(Seen(replace(workload("last", created=3), pod_sets=pods)))
    run(engine)
    known = learned(*[600] * 30, per_day=144.0)
    without, with_them = (asked(engine, "last", learned=known, arrivals=arrivals) for arrivals in (False, True))
    assert (without.arrivals, with_them.arrivals) == ("ignored", "learned")
    assert not with_them.median or with_them.median > without.median


def test_decisions_in_flight_count_as_carried_out() -> None:
    engine = engine_with(workload("runs", created=1), workload("next", created=2))
    engine.decide(NOW)
    found = asked(engine, "next", learned=learned(*[3600] * 30))
    assert found.ahead == 1
    assert found.runs_that_start == RUNS_MIN
