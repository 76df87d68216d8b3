"""Is the race of provisioning checks judged against the better rival?"""

import pytest

from bench.provisioning import WALL, WRITES, best, judged, kept, workload
from bench.provisioning import Figures as Run
from pykueue.api.codec import decode_as
from pykueue.api.workload import Workload


@pytest.mark.parametrize(
    ("mine", "kept"), [pytest.param(7.9, True, id="within"), pytest.param(8.1, False, id="above the better one")]
)
def test_the_better_rival_counts(mine: float, kept: bool) -> None:
    ok, text = judged(WALL, mine, {"kueue": 20.0, "kueue-unlimited": 10.0})
    assert ok == kept
    assert "(kueue-unlimited)" in text
    assert ("MISSED" in text) != kept
    assert judged(WRITES, 10.0, {"kueue": 10.0})[0]


def test_of_several_runs_the_best_of_each_figure_counts() -> None:
    runs = [Run("pykueue", wall, writes, 1.0, 70.0, 5.0) for wall, writes in ((3.0, 12.0), (9.0, 10.0), (4.0, 11.0))]
    found = best(runs)
    assert (found.wall, found.writes) == (3.0, 10.0)
    slow = Run("kueue", 3.0, 12.0, 1.0, 70.0, 5.0)
    assert [ok for ok, _ in kept({"pykueue": found, "kueue": slow})] == [True, False]


def test_alone_nobody_is_judged() -> None:
    [(ok, text)] = kept({"pykueue": Run("pykueue", 3.0, 12.0, 1.0, 70.0, 5.0)})
    assert ok
    assert "no floor was judged" in text


def test_its_workloads_can_be_read() -> None:
    seen = decode_as(Workload, workload(23))
    assert (seen.name, seen.spec.queue_name) == ("workload-23", "queue-3")
