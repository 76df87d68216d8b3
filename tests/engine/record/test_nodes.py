"""Are names, amounts and durations told as people read them?"""

import pytest

from pykueue.base.units import MICROS, UNLIMITED
from pykueue.engine.record.causes import HIDDEN
from pykueue.engine.record.nodes import listed, number, span


@pytest.mark.parametrize(
    ("keys", "total", "text"),
    [
        (("a",), 1, "a"),
        (("a", "b"), 2, "a and b"),
        (("a", HIDDEN, "b", HIDDEN), 7, "a, b, 2 of other namespaces and 3 more"),
        ((HIDDEN,), 1, "1 of other namespaces"),
    ],
)
def test_those_that_may_not_be_named_are_counted(keys: tuple[str, ...], total: int, text: str) -> None:
    assert listed(keys, total) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_599, "59 min"), (3_600, "1 h"), (3_900, "1 h 5 min")],
)
def test_durations_have_two_units_at_most(seconds: int, text: str) -> None:
    assert span(seconds * MICROS) == text


def test_an_amount_without_a_limit_has_no_number() -> None:
    assert (number("cpu", 1500), number("cpu", UNLIMITED)) == ("1500m", "no limit")
