"""Do curves have the right values, whether exact or as means of bins?"""

from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.units import MICROS, Instant
from pykueue.reports.curves import DAY, HOUR, Bins, added, exact, stepwise, width_for
from pykueue.reports.records import Period
from tests.reports.samples import hour

PERIOD = Period(hour(0), hour(24))
STRETCHES = st.lists(
    st.tuples(st.integers(-30, 60), st.integers(0, 40), st.integers(0, 9)).map(
        lambda one: (int(hour(one[0])), int(hour(one[0] + one[1])), one[2])
    ),
    max_size=20,
)


def binned(stretches: list[tuple[int, int, int]], width: int, offset: int = 0) -> Bins:
    bins = Bins(PERIOD, width, offset)
    for begin, end, amount in stretches:
        bins.add(begin, end, amount)
    return bins


def test_steps_are_exact_and_what_is_outside_is_left_out() -> None:
    found = exact(PERIOD, [(hour(-5), hour(2), 3), (hour(1), hour(4), 1), (hour(30), hour(40), 9)])
    assert found.times == (hour(0), hour(1), hour(2), hour(4))
    assert found.values == (3, 4, 1, 0)
    assert (found.peak, found.mean) == (4, (2 * 3 + 3 * 1) / 24)
    assert [found.at(hour(at)) for at in (-1, 1.5, 23)] == [0, 4, 0]


def test_bins_have_means_and_begin_at_round_times_of_the_reader() -> None:
    found = binned([(hour(1), hour(2), 6)], 6 * HOUR).curve()
    assert (found.times, found.values) == ((hour(0), hour(6), hour(12), hour(18)), (1, 0, 0, 0))
    ahead = binned([(hour(0), hour(24), 2)], 6 * HOUR, offset=2 * 3600).curve()
    assert ahead.times == (hour(0), hour(4), hour(10), hour(16), hour(22))
    assert ahead.values == (2, 2, 2, 2, 2), "those at the edges are shorter, not emptier"


@given(stretches=STRETCHES, width=st.sampled_from([HOUR, 3 * HOUR, 7 * HOUR, DAY]), offset=st.integers(-12, 14))
def test_bins_and_steps_have_the_same_total(stretches: list[tuple[int, int, int]], width: int, offset: int) -> None:
    means, steps = binned(stretches, width, offset * 3600).curve(), exact(PERIOD, stretches)
    assert abs(means.total - steps.total) <= 1e-6 * max(1.0, steps.total)
    assert means.peak <= steps.peak + 1e-9
    assert (means.end, means.times[0]) == (steps.end, steps.times[0])


def test_levels_hold_until_the_next_one_and_are_added() -> None:
    first = stepwise(PERIOD, [(0, 2), (hour(6), 4), (hour(30), 9)])
    assert (first.times, first.values) == ((hour(0), hour(6)), (2, 4))
    both = added(PERIOD, [first, stepwise(PERIOD, [(hour(12), 1)])])
    assert (both.times, both.values) == ((hour(0), hour(6), hour(12)), (2, 4, 5))


def test_a_time_without_length_has_a_curve() -> None:
    empty = Period(hour(1), hour(1))
    assert exact(empty, []).values == (0.0,)
    assert Bins(empty, HOUR).curve().values == (0,)


def test_bins_are_as_long_as_people_count() -> None:
    assert width_for(Period(Instant(0), Instant(7 * DAY)), 240) == HOUR
    assert width_for(Period(Instant(0), Instant(90 * DAY)), 240) == 12 * HOUR
    assert width_for(Period(Instant(0), Instant(60 * MICROS)), 240) == MICROS
    assert width_for(Period(Instant(0), Instant(100_000 * DAY)), 240) == -(-100_000 * DAY // 240)
