"""Do the starts of both sides of a preview differ by the change, and by nothing else?"""

import random
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykueue.api.previews import Affected, Effect, PreviewStatus
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.bridge.runtimes import JobKind, Learned, LearnedKind, RunTimesTable
from pykueue.engine.facts import Seen
from pykueue.engine.model import Cohort, Flavor, LocalQueue, Thing
from pykueue.engine.record.checkpoint import Checkpoint, checkpoint
from pykueue.sim import waits as module
from pykueue.sim.forward import RunTimeFacts, RunTimeKnowledge
from pykueue.sim.runtimes import Draws, named_streams
from pykueue.sim.waits import RUNS_MAX, Waits, concerned, rounded, wait_seconds, waits
from tests.engine import test_engine as engines
from tests.sim.builders import job, priority, queue
from tests.sim.previewed import NOW, State

HOUR = Learned((LearnedKind(JobKind("default/main", (("cpu", 1000),)), (3600,) * 30, 0),))
"""Jobs of one cpu run for an hour, about."""
MINUTE = 60 * MICROS


def limited(name: str, seconds: int, cpu: int = 1) -> str:
    """A Job with a limit of its run time."""
    return job(name, cpu).replace("spec: {template", f"spec: {{activeDeadlineSeconds: {seconds}, template")


def rows(state: State, found: PreviewStatus) -> Mapping[str, Affected]:
    return {state.names.get(one.workload, one.job): one for one in found.affected}


def test_more_quota_starts_the_next_now_and_the_others_earlier() -> None:
    state = State(queue(cpu=1), *map(job, "abcd")).decided()
    found = state.ask_waits(set="clusterqueue/main.cpu=2", learned=HOUR)
    assert state.told(found) == ["b Starts 1>- default", "c Moves 2>1", "d Moves 3>2"]
    assert found.runs == RUNS_MAX
    told = rows(state, found)
    assert (told["b"].start, told["b"].wait_seconds) == (found.at, 0)
    hours = [(told[name].wait_seconds_before or 0, told[name].wait_seconds or 0) for name in "bcd"]
    assert [(round(was / 3600), round(now / 3600)) for was, now in hours] == [(1, 0), (2, 1), (3, 1)]
    for one in found.affected:
        for start, seconds in ((one.start_before, one.wait_seconds_before), (one.start, one.wait_seconds)):
            assert abs(parse_instant(start) - NOW - (seconds or 0) * MICROS) <= MINUTE
    [main] = found.queues
    assert (main.median_wait_seconds_before, main.median_wait_seconds) == hours[1]


def test_who_starts_earlier_at_the_same_place_is_listed_last() -> None:
    cohort = {"cohortName": "team"}
    first, second = queue("one", 1, **cohort), queue("two", 1, **cohort)
    state = State(first, second, job("a", queue="one"), job("b", queue="two"), job("c", 2, queue="two")).decided()
    found = state.ask_waits(job("new", 1, queue="one"), learned=HOUR)
    assert state.told(found) == ["new Waits ->1", "c StartsLater 1>1"]
    late = rows(state, found)["c"]
    assert (late.wait_seconds or 0) > (late.wait_seconds_before or 0) > 0
    deleted = state.ask_waits(delete="job/default/a")
    assert state.told(deleted) == ["a Deleted", "c StartsEarlier 1>1"]


def test_without_waits_the_answer_has_no_starts() -> None:
    state = State(queue(cpu=1), *map(job, "abc")).decided()
    plain = state.ask(set="clusterqueue/main.cpu=2")
    told = msgspec.json.encode(plain)
    assert [word for word in (b"start", b"wait", b"run ", b'"runs"') if word in told] == []
    with_starts = state.ask_waits(set="clusterqueue/main.cpu=2")
    assert [one.workload for one in with_starts.affected] == [one.workload for one in plain.affected]


def test_a_victim_runs_before_and_starts_again_later_with_the_same_run_time() -> None:
    within = queue(cpu=1, preemption="{withinClusterQueue: LowerPriority}")
    state = State(within, priority("high", 9), limited("a", 7200), job("b")).decided()
    found = state.ask_waits(job("new", klass="high"))
    told = rows(state, found)
    assert told["a"].effect is Effect.EVICTED
    assert (told["a"].start_before, told["a"].wait_seconds_before) == ("", None)
    assert (told["a"].wait_seconds or 0) > 0
    # The victim is first in line, and takes its whole run time once more.
    assert (told["b"].wait_seconds or 0) > (told["a"].wait_seconds or 0) + (told["b"].wait_seconds_before or 0) - 120


def test_a_workload_that_does_not_start_has_no_start() -> None:
    state = State(queue(cpu=2), job("a"), job("large", 3)).decided()
    found = state.ask_waits(set="clusterqueue/main.cpu=3", learned=HOUR)
    one = rows(state, found)["large"]
    assert (one.effect, one.start_before, one.wait_seconds_before) == (Effect.STARTS_EARLIER, "", None)
    assert one.wait_seconds is not None
    [main] = found.queues
    assert main.median_wait_seconds_before is msgspec.UNSET
    assert main.median_wait_seconds == one.wait_seconds
    lost = state.ask_waits(set="clusterqueue/main.cpu=1")
    assert lost.queues[0].median_wait_seconds is msgspec.UNSET


def test_declared_limits_bound_the_starts_and_the_notes_count_guesses() -> None:
    state = State(queue(cpu=1), limited("a", 600), limited("b", 600), job("c")).decided()
    found = state.ask_waits(limited("new", 600), delete="job/default/c")
    assert (rows(state, found)["new"].wait_seconds or 0) <= 20 * 60
    assert found.notes[-1] == (
        f"starts are medians of {RUNS_MAX} runs with the same run times on both sides; 1 of 4 workloads declares no "
        "time limit; no job like it has finished yet, so its run time is a guess"
    )
    assert "guess" not in state.ask_waits(limited("new", 600), learned=HOUR).notes[-1]


def test_nothing_is_run_if_no_queue_differs() -> None:
    found = State(queue(cpu=1), *map(job, "ab")).decided().ask_waits(set="clusterqueue/main.cpu=1")
    assert (found.affected, found.queues, found.notes, found.runs) == ((), (), (), 0)


def test_nothing_is_run_in_queues_without_workloads() -> None:
    found = State(queue(cpu=1), job("a")).decided().ask_waits(queue("isle", 5))
    assert ([one.name for one in found.queues], found.runs) == (["isle"], 0)


def test_only_trees_in_which_something_differs_are_run() -> None:
    engine = engines.engine_with()
    cohorts = [engines.queue(name, cohort=cohort) for name, cohort in (("a", "x"), ("b", "x"), ("c", "y"), ("d", ""))]
    things: list[Thing] = [*cohorts, LocalQueue("red/a", "a"), LocalQueue("red/d", "d")]
    for thing in things:
        engine.observe(Seen(thing))
    engines.run(engine)
    before = checkpoint(engine)

    def with_fact(*facts: Seen) -> Checkpoint:
        other = engines.engine_with()
        for fact in (*before.facts, *facts):
            other.observe(fact)
        engines.run(other)
        return checkpoint(other)

    assert concerned(before, with_fact()) == frozenset()
    assert concerned(before, with_fact(Seen(engines.workload("w", local="a")))) == {"a", "b"}
    assert concerned(before, with_fact(Seen(engines.queue("c", cohort="x")))) == {"a", "b", "c"}
    assert concerned(before, with_fact(Seen(Cohort("y", "x")))) == {"a", "b", "c"}
    assert concerned(before, with_fact(Seen(LocalQueue("red/d", "a")))) == {"a", "b", "d"}
    assert concerned(before, with_fact(Seen(Flavor("spot", (("zone", "a"),))))) == {"a", "b", "c", "d", "q"}
    assert concerned(before, with_fact(Seen(engines.workload("w", local="none")))) == frozenset()


def test_too_many_workloads_end_the_runs_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS_MAX", 40)
    state = State(queue(cpu=1), *(job(f"j{number:02}") for number in range(20))).decided()
    found = state.ask_waits(set="clusterqueue/main.cpu=2", learned=HOUR)
    assert found.runs == 1
    assert "the last starts are not known" in found.notes[-1]
    told = rows(state, found)
    assert told["j02"].start
    assert (told["j19"].start_before, told["j19"].start) == ("", "")
    assert [one.effect for one in found.affected if one.effect in (Effect.STARTS_LATER, Effect.STARTS_EARLIER)] == []


def test_fewer_runs_are_made_of_many_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(queue(cpu=1), *(job(f"j{number:02}") for number in range(20))).decided()
    monkeypatch.setattr(module, "EVENTS_MAX", 500)
    found = state.ask_waits(set="clusterqueue/main.cpu=2", learned=HOUR)
    assert 1 < found.runs < RUNS_MAX


def test_rounded_run_times_keep_their_mean_and_never_lose_what_has_run() -> None:
    rng = random.Random(1)
    draws = Draws(RunTimesTable(Learned()), named_streams("0"))
    kind = JobKind("default/main", ())
    exact, found = [], []
    for number in range(2000):
        known = RunTimeFacts(kind, None, 100, f"j{number}")
        exact.append(rng.randrange(100, 10_000))
        found.append(rounded(known, exact[-1], 0.5, draws))
    assert sum(found) == pytest.approx(sum(exact), rel=0.02)
    assert min(found) >= 100
    assert len({one - 100 for one in found}) < 50
    assert rounded(known, exact[-1], 0.0, draws) == exact[-1]


def test_many_workloads_are_rounded_alike_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(queue(cpu=2), *(job(f"j{number:02}") for number in range(40))).decided()
    exact = state.ask_waits(set="clusterqueue/main.cpu=3", learned=HOUR)
    monkeypatch.setattr(module, "EXACT_MAX", 30)
    assert state.told(state.ask_waits(job("new", 3), learned=HOUR)) == ["new NeverStarts ->39"]
    found = state.ask_waits(set="clusterqueue/main.cpu=3", learned=HOUR)
    seconds = [(one.wait_seconds_before or 0, one.wait_seconds or 0) for one in found.affected]
    assert len(seconds) == 38
    assert [(was, now) for was, now in seconds if now > was] == []
    assert found.affected != exact.affected
    assert seconds[-1][1] == pytest.approx(exact.affected[-1].wait_seconds, rel=0.1)


SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=8)


@settings(max_examples=25)
@given(SIZES, st.integers(1, 4))
def test_a_new_job_that_never_starts_changes_no_start(sizes: list[int], cpu: int) -> None:
    state = State(queue(cpu=cpu), *(job(f"j{index}", size) for index, size in enumerate(sizes))).decided()
    found = state.ask_waits(job("a-new", 9))
    assert found.runs == RUNS_MAX
    assert [one.effect for one in found.affected] == [Effect.NEVER]
    assert [one.median_wait_seconds == one.median_wait_seconds_before for one in found.queues] in ([], [True])


@settings(max_examples=25)
@given(st.integers(1, 8), st.integers(1, 3))
def test_with_more_quota_no_job_of_one_cpu_starts_later(count: int, cpu: int) -> None:
    state = State(queue(cpu=cpu), *(job(f"j{index}") for index in range(count))).decided()
    before = checkpoint(state.engine)
    found = state.ask_waits(set=f"clusterqueue/main.cpu={cpu + 1}")
    assert len(found.affected) == max(0, count - cpu)
    for one in found.affected:
        assert one.wait_seconds is not None
        assert one.wait_seconds_before is not None
        assert one.wait_seconds <= one.wait_seconds_before
    assert waits(before, before, before, NOW, RunTimeKnowledge(Learned(), {})) == Waits(NOW)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(10, 10, None, id="the same"),
        pytest.param(10 * 60, 10 * 60 + 59, None, id="less than a minute"),
        pytest.param(10 * 60, 11 * 60, Effect.STARTS_LATER, id="a minute"),
        pytest.param(10 * 60, 9 * 60, Effect.STARTS_EARLIER, id="a minute less"),
        pytest.param(100_000, 100_900, None, id="less than one percent"),
        pytest.param(100_000, 101_100, Effect.STARTS_LATER, id="more than one percent"),
        pytest.param(100_000, None, Effect.STARTS_LATER, id="never"),
        pytest.param(None, 100_000, Effect.STARTS_EARLIER, id="at last"),
        pytest.param(None, None, None, id="neither"),
    ],
)
def test_small_shifts_are_none(before: int | None, after: int | None, expected: Effect | None) -> None:
    was, now = ({"w": None if one is None else Instant(NOW + one * MICROS)} for one in (before, after))
    found = Waits(NOW, 1, was, now)
    assert found.shift("w") is expected
    assert found.shift("other") is None
    of_queue, of_queue_now = ({} if one is None else {"main": one} for one in (before, after))
    assert Waits(NOW, 1, {}, {}, of_queue, of_queue_now).shift_of_queue("main") is (expected is not None)


def test_waits_are_in_whole_minutes() -> None:
    assert [wait_seconds(Instant(NOW + one * MICROS), NOW) for one in (0, 59, 60, 119, 120)] == [0, 0, 60, 60, 120]
