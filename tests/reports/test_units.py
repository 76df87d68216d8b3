"""Are amounts, times and ticks written as people read them?"""

import pytest

from pykueue.base.units import MICROS, Instant
from pykueue.reports.curves import DAY, HOUR, MINUTE
from pykueue.reports.records import Period
from pykueue.reports.units import (
    amount,
    duration,
    hours,
    log_place,
    moment,
    nice,
    number,
    percent,
    time_ticks,
    zone,
)
from tests.reports.samples import DAWN, hour


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0 s"),
        (400_000, "0.4 s"),
        (99 * MICROS, "99 s"),
        (100 * MICROS, "1 min 40 s"),
        (HOUR, "1 h"),
        (HOUR + 59 * MICROS, "1 h 1 min"),
        (3 * DAY + 4 * HOUR, "3 d 4 h"),
        (2 * DAY - 1, "2 d"),
        (2000 * DAY, "2,000 d"),
    ],
)
def test_durations(micros: int, text: str) -> None:
    assert duration(micros) == text


def test_amounts() -> None:
    assert amount("cpu", 1500) == "1.5 cores"
    assert amount("memory", 3 * 2**30) == "3 GiB"
    assert amount("nvidia.com/gpu", 2) == "2 GPUs"
    assert amount("example.com/licence", 2) == "2"
    assert hours("cpu", 2000 * HOUR) == "2 core-hours"
    assert (percent(None), percent(0.1234), percent(1)) == ("-", "12.3 %", "100 %")
    assert [number(value) for value in (0, 0.004, 0.25, 9.96, 99.96, 1234.5)] == [
        "0",
        "0.004",
        "0.25",
        "10",
        "100",
        "1,234",
    ]


@pytest.mark.parametrize(
    ("top", "ticks"),
    [
        (0, (0, 1)),
        (1, (0, 0.25, 0.5, 0.75, 1)),
        (12, (0, 5, 10, 15)),
        (16, (0, 5, 10, 15, 20)),
        (31, (0, 10, 20, 30, 40)),
    ],
)
def test_axes_end_at_round_values(top: float, ticks: tuple[float, ...]) -> None:
    assert nice(top) == ticks
    assert nice(top)[-1] >= top


def test_axes_of_counts_have_whole_numbers() -> None:
    assert nice(2, least=1.0) == (0, 1, 2)


def test_ticks_of_the_clock_are_round_for_the_reader() -> None:
    period = Period(hour(0.2), hour(24))
    assert [words for _, words in time_ticks(period, elapsed=False, offset=0, most=4)] == [
        "06:00",
        "12:00",
        "18:00",
        "Mar 3",
    ]
    ahead = time_ticks(period, elapsed=False, offset=2 * 3600, most=4)
    assert ahead[0] == (hour(4), "06:00")
    week = time_ticks(Period(DAWN, Instant(DAWN + 70 * DAY)), elapsed=False, offset=0, most=10)
    assert [words for _, words in week[:2]] == ["Mar 2", "Mar 9"], "weeks begin on a Monday"
    seconds = time_ticks(Period(DAWN, Instant(DAWN + 20 * MICROS)), elapsed=False, offset=0, most=4)
    assert [words for _, words in seconds[1:3]] == ["00:00:05", "00:00:10"]


def test_ticks_of_virtual_time_count_from_the_beginning() -> None:
    period = Period(DAWN, Instant(DAWN + 50 * MINUTE))
    assert [words for _, words in time_ticks(period, elapsed=True, offset=3600, most=5)] == [
        *("0", "10 min", "20 min", "30 min", "40 min", "50 min"),
    ]


def test_the_zone_is_named() -> None:
    assert (zone(0), zone(7200), zone(-12600)) == ("UTC", "UTC+02:00", "UTC-03:30")
    assert moment(DAWN, 5400) == "2026-03-02 01:30"
    assert log_place(0) == 0
