import time

import pytest

from tests import patience


@pytest.mark.parametrize(
    ("waited", "slowness", "overdue"),
    [
        pytest.param(1, 1, False, id="within the bound"),
        pytest.param(11, 1, True, id="past it"),
        pytest.param(11, 3, False, id="past it on a slow machine"),
        pytest.param(31, 3, True, id="past the bound of a slow machine"),
    ],
)
def test_a_bound_scales_with_the_machine(
    waited: float, slowness: float, overdue: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "slowness", lambda: slowness)
    assert patience.overdue(time.monotonic() - waited, 10) == overdue


def test_a_condition_that_stays_false_is_given_up() -> None:
    assert not patience.soon(lambda: False, seconds=0)


async def test_a_condition_gives_what_it_found() -> None:
    numbers = iter((0, 0, 3))
    assert await patience.soon_async(lambda: next(numbers)) == 3
