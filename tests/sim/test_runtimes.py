"""Are drawn run times within what is known and possible?"""

import random

import pytest

from pykueue.bridge.runtimes import JobKind, Learned, LearnedKind, RunTimesTable
from pykueue.sim.runtimes import GUESS_LONG_SECONDS, Draws, named_streams, shared_stream

KIND = JobKind("team/main", (("cpu", 1000),))
KNOWN = Learned((LearnedKind(KIND, tuple(range(100, 132)), 0),))


def drawn(learned: Learned, limit: int | None = None, elapsed: int = 0, runs: int = 300) -> list[int]:
    """One run time of each of many runs."""
    table = RunTimesTable(learned)
    return sorted(Draws(table, shared_stream(random.Random(run))).seconds(KIND, limit, elapsed) for run in range(runs))


def test_most_are_between_those_that_are_known_and_few_are_not() -> None:
    found = drawn(KNOWN)
    inside = [one for one in found if 100 <= one <= 131]
    assert 0.85 < len(inside) / len(found) < 1


@pytest.mark.parametrize("learned", [KNOWN, Learned()], ids=["known", "unknown"])
@pytest.mark.parametrize("limit", [None, 50, 120, 1000])
@pytest.mark.parametrize("elapsed", [0, 40, 115, 5000])
def test_a_job_runs_for_at_least_what_it_has_and_at_most_its_limit(
    learned: Learned, limit: int | None, elapsed: int
) -> None:
    found = drawn(learned, limit, elapsed)
    if limit is None:
        assert found[0] >= elapsed
    else:
        assert min(elapsed, limit) <= found[0] <= found[-1] <= limit


def test_very_few_known_run_times_are_not_relied_on() -> None:
    few = drawn(Learned((LearnedKind(KIND, (100, 101), 0),)))
    enough = drawn(Learned((LearnedKind(KIND, (100, 101, 100, 101, 100), 0),)))
    assert few[int(0.9 * len(few))] > 3600, "one in three runs guesses"
    assert 0.5 < sum(one <= 1010 for one in few) / len(few) < 0.95
    assert enough[-1] <= 1010


def test_a_limit_alone_says_anything_up_to_it() -> None:
    found = drawn(Learned(), limit=1000)
    assert found[0] < 200
    assert found[-1] == 1000


def test_without_any_knowledge_the_guess_is_broad_and_the_same_for_the_jobs_of_a_run() -> None:
    found = drawn(Learned())
    assert found[0] < 120
    assert found[-1] > GUESS_LONG_SECONDS / 2
    draws = Draws(RunTimesTable(Learned()), shared_stream(random.Random(3)))
    alike = [draws.seconds(KIND, None, 0) for _ in range(50)]
    assert max(alike) <= 3 * min(alike) + 1


def test_with_named_streams_a_draw_does_not_depend_on_the_others() -> None:
    other = JobKind("team/other", (("cpu", 2000),))
    table = RunTimesTable(KNOWN)
    alone = Draws(table, named_streams("7")).seconds(KIND, None, 0, "a")
    draws = Draws(table, named_streams("7"))
    among = {name: draws.seconds(kind, None, 0, name) for name, kind in (("c", other), ("b", KIND), ("a", KIND))}
    assert among["a"] == alone
    assert among["b"] != alone
    assert Draws(table, named_streams("8")).seconds(KIND, None, 0, "a") != alone
