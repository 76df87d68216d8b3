"""Does the date never go back or jump, whatever happens to the wall clock?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.boottime import Reading, SteadyWall, boot_nanos, reading

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND


class Hands:
    """Clocks that a test moves."""

    def __init__(self) -> None:
        self.boot, self.monotonic, self.wall = 5 * SECOND, 4 * SECOND, START

    def read(self) -> Reading:
        return self.boot, self.monotonic, self.wall

    def run(self, seconds: float) -> None:
        nanos = int(seconds * SECOND)
        self.boot, self.monotonic, self.wall = self.boot + nanos, self.monotonic + nanos, self.wall + nanos

    def step(self, seconds: float) -> None:
        self.wall += int(seconds * SECOND)

    def suspend(self, seconds: float) -> None:
        self.boot, self.wall = self.boot + int(seconds * SECOND), self.wall + int(seconds * SECOND)


def shown(wall: SteadyWall) -> float:
    """Seconds since the start."""
    return (wall.look() - START) / SECOND


def test_it_starts_at_the_wall_clock_and_runs_with_it() -> None:
    hands = Hands()
    wall = SteadyWall(hands.read)
    assert shown(wall) == 0
    hands.run(7)
    assert shown(wall) == 7
    assert (wall.offset_nanos, wall.steps, wall.suspends) == (0, 0, 0)


@pytest.mark.parametrize("step", [-3600, -1, 1, 3600])
def test_it_follows_a_step_by_a_tenth_of_the_time_that_passes(step: int) -> None:
    hands = Hands()
    wall = SteadyWall(hands.read)
    told: list[tuple[str, float]] = []
    wall.told = lambda kind, seconds: told.append((kind, seconds))
    hands.step(step)
    assert shown(wall) == 0
    assert wall.offset_nanos == step * SECOND
    sign = 1 if step > 0 else -1
    for second in range(1, 10):
        hands.run(1)
        assert shown(wall) == pytest.approx(second + sign * second / 10)
    for _ in range(10 * abs(step)):
        hands.run(1)
        wall.look()
    assert wall.offset_nanos == 0
    assert (told, wall.steps, wall.suspends) == ([("step", step)], 1, 0)


def test_a_suspend_is_no_step_and_the_date_goes_on_with_it() -> None:
    hands = Hands()
    wall = SteadyWall(hands.read)
    told: list[tuple[str, float]] = []
    wall.told = lambda kind, seconds: told.append((kind, seconds))
    hands.suspend(3600)
    assert shown(wall) == 3600
    assert (wall.offset_nanos, told, wall.steps, wall.suspends) == (0, [("suspend", 3600)], 0, 1)


def test_a_step_is_followed_from_when_it_is_seen() -> None:
    hands = Hands()
    wall = SteadyWall(hands.read)
    hands.run(36_000)
    hands.step(-3600)
    assert shown(wall) == 36_000
    hands.run(10)
    assert shown(wall) == 36_009


def test_between_two_looks_it_goes_on_as_it_did() -> None:
    hands = Hands()
    wall = SteadyWall(hands.read, lambda: hands.boot)
    hands.step(100)
    wall.look()
    hands.run(0.05)
    assert wall.now() == START + int(0.055 * SECOND)
    hands.step(-200)
    # Nobody has looked, and when somebody does nothing of it is taken back.
    assert wall.now() == wall.look() == START + int(0.055 * SECOND)
    hands.run(0.1)
    assert wall.now() == START + int(0.145 * SECOND)
    assert wall.steps == 2


@pytest.mark.parametrize(
    ("offset", "left", "passes"),
    [
        pytest.param(0, 50, 50, id="as late as the wall clock"),
        pytest.param(100, 11, 10, id="behind it, and due before it is caught up with"),
        pytest.param(1, 50, 49, id="behind it, and due after"),
        pytest.param(-100, 9, 10, id="ahead of it, and due before it has caught up"),
        pytest.param(-1, 50, 51, id="ahead of it, and due after"),
        pytest.param(0, -1, -1, id="due already"),
        pytest.param(-100, -1, -1, id="due already, and ahead of it"),
    ],
)
def test_how_long_it_takes_until_it_is_this_late(offset: int, left: int, passes: int) -> None:
    hands = Hands()
    wall = SteadyWall(hands.read)
    hands.step(offset)
    due = START + left * SECOND
    assert wall.until(due) == passes * SECOND
    while passes > 0:
        assert wall.look() < due
        hands.run(1)
        passes -= 1
    assert wall.look() >= due


EVENTS = st.one_of(
    st.tuples(st.just("run"), st.floats(0, 20)),
    st.tuples(st.just("step"), st.floats(-3600, 3600)),
    st.tuples(st.just("suspend"), st.floats(0, 3600)),
)


@given(st.lists(EVENTS))
def test_whatever_happens_it_neither_goes_back_nor_runs_faster_than_it_may(events: list[tuple[str, float]]) -> None:
    hands = Hands()
    wall = SteadyWall(hands.read)
    for what, seconds in events:
        before, boot = wall.look(), hands.boot
        getattr(hands, what)(seconds)
        moved, passed = wall.look() - before, hands.boot - boot
        assert passed - passed // 10 - 1 <= moved <= passed + passed // 10 + 1


def test_the_machine_has_these_clocks() -> None:
    before = boot_nanos()
    boot, monotonic, wall = reading()
    assert before <= boot <= boot_nanos()
    assert 0 < monotonic <= boot_nanos()
    assert wall > START - 10 * 365 * 86_400 * SECOND
