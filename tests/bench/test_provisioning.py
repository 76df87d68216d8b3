"""Is the race of provisioning checks judged against the better rival?"""

import pytest

from bench.provisioning import WALL, WRITES, best, judged, kept, numbered
from bench.provisioning import Figures as Run
from pykueue.api.codec import decode_as
from pykueue.api.workload import Workload
from tests.outcome import Outcome


@pytest.mark.parametrize(
    ("mine", "outcome"),
    [pytest.param(7.9, Outcome.PASSED, id="within"), pytest.param(8.1, Outcome.LATE, id="above the better one")],
)
def test_the_better_rival_counts(mine: float, outcome: Outcome) -> None:
    found, text = judged(WALL, mine, {"kueue": 20.0, "kueue-unlimited": 10.0})
    assert found is outcome
    assert "(kueue-unlimited)" in text
    assert ("MISSED" in text) == (outcome is Outcome.LATE)


def test_a_count_of_writes_is_not_a_bound_of_time() -> None:
    assert judged(WRITES, 10.0, {"kueue": 10.0})[0] is Outcome.PASSED
    assert judged(WRITES, 10.1, {"kueue": 10.0})[0] is Outcome.FAILED


def test_of_several_runs_the_best_of_each_figure_counts() -> None:
    runs = [Run("pykueue", wall, writes, 1.0, 70.0, 5.0) for wall, writes in ((3.0, 12.0), (9.0, 10.0), (4.0, 11.0))]
    found = best(runs)
    assert (found.wall, found.writes) == (3.0, 10.0)
    slow = Run("kueue", 3.0, 12.0, 1.0, 70.0, 5.0)
    verdicts = kept({"pykueue": found, "kueue": slow})
    assert [outcome for outcome, _ in verdicts] == [Outcome.PASSED, Outcome.LATE]


def test_alone_nobody_is_judged() -> None:
    [(outcome, text)] = kept({"pykueue": Run("pykueue", 3.0, 12.0, 1.0, 70.0, 5.0)})
    assert outcome is Outcome.PASSED
    assert "no floor was judged" in text


def test_its_workloads_can_be_read() -> None:
    seen = decode_as(Workload, numbered(23))
    assert (seen.name, seen.spec.queue_name) == ("workload-23", "queue-3")
