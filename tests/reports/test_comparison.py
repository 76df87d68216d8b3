"""Are two simulations compared in every measure, on common axes, and safely?"""

import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from pykueue.reports.comparison import Compared, by_queue, compared_page, compared_picture, overall, signed
from pykueue.reports.curves import HOUR
from pykueue.reports.figures import figures
from pykueue.reports.records import Period
from tests.reports.samples import HOSTILE, Reader, day, foreign, hour


def compared(name: str = "lab/train") -> Compared:
    """A day, and one in which nothing is preempted, and which is shorter."""
    first = replace(day(name, name, name), elapsed=True)
    better = replace(first.jobs[0], preempted=0, lost=0, waited=HOUR, runs=first.jobs[0].runs[1:], state="finished")
    second = replace(first, jobs=(better, *first.jobs[1:]), period=Period(hour(0), hour(20)))
    return Compared(figures(first), figures(second), (name, "other.yaml"))


def test_every_measure_has_a_difference() -> None:
    found = {one.measure: (one.first, one.second, one.change) for one in overall(compared())}
    assert found["Time until the end"] == ("1 d", "20 h", "-4 h (-17 %)")
    assert found["Jobs that finished"] == ("0", "1", "+1")
    assert found["Preemptions"] == ("1", "0", "-1 (-100 %)")
    assert found["Work lost to evictions"] == ("1 h", "0 s", "-1 h (-100 %)")
    assert found["Wait, longest"] == ("4 h", "4 h", "=")
    assert found["Use of cpu · spot"] == ("40.6 %", "43.8 %", "+3.1 points")
    queues = [(queue, one.measure, one.change) for queue, one in by_queue(compared("red"))]
    assert ("red", "Preemptions", "-1 (-100 %)") in queues
    assert ("blue", "Wait, median", "=") in queues


@pytest.mark.parametrize(("first", "second", "text"), [(2, 2, "="), (0, 3, "+3"), (4, 3, "-1 (-25 %)")])
def test_differences_have_a_sign(first: int, second: int, text: str) -> None:
    assert signed(first, second, str) == text


def test_the_page_and_the_picture_have_both() -> None:
    page = Reader(compared_page(compared()))
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for words in ("Differences", "B: other.yaml", "blue · A", "blue · B", "Jobs over time, B"):
        assert words in page.text
    root = ET.fromstring(compared_picture(compared()))
    assert len(root.findall("{http://www.w3.org/2000/svg}svg")) == 2 + 4


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_add_nothing(name: str) -> None:
    assert foreign(compared_page(compared(name))) == []
    ET.fromstring(compared_picture(compared(name)))


def test_a_queue_that_only_one_of_them_has() -> None:
    first = replace(day(), elapsed=True)
    second = replace(first, jobs=first.jobs[2:], holdings=first.holdings[2:], quotas=first.quotas[1:])
    found = Compared(figures(first), figures(second), ("a", "b"))
    assert [one.change for queue, one in by_queue(found) if queue == "red"][2] == "-1 (-100 %)"
    assert foreign(compared_page(found)) == []
