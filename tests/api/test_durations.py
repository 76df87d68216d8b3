"""Durations are read and printed as Go does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.durations import DurationError, Micros, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "micros", "printed"),
    [
        pytest.param("0", 0, "0s", id="a bare zero needs no unit"),
        pytest.param("0s", 0, "0s", id="zero seconds"),
        pytest.param("5m", 300_000_000, "5m0s", id="minutes"),
        pytest.param("1h30m", 5_400_000_000, "1h30m0s", id="hours and minutes"),
        pytest.param("2h", 7_200_000_000, "2h0m0s", id="hours print their minutes and seconds"),
        pytest.param("1.5s", 1_500_000, "1.5s", id="a fraction"),
        pytest.param(".5s", 500_000, "500ms", id="a fraction without a whole part"),
        pytest.param("1.s", 1_000_000, "1s", id="a point without a fraction"),
        pytest.param("300ms", 300_000, "300ms", id="milliseconds"),
        pytest.param("1500us", 1_500, "1.5ms", id="microseconds"),
        pytest.param("7\N{MICRO SIGN}s", 7, "7\N{MICRO SIGN}s", id="the micro sign"),
        pytest.param("7\N{GREEK SMALL LETTER MU}s", 7, "7\N{MICRO SIGN}s", id="the letter mu"),
        pytest.param("1ns", 1, "1\N{MICRO SIGN}s", id="finer than we count is rounded up"),
        pytest.param("-1ns", -1, "-1\N{MICRO SIGN}s", id="a negative one stays negative"),
        pytest.param("-1m", -60_000_000, "-1m0s", id="a sign"),
        pytest.param("+1m", 60_000_000, "1m0s", id="a plus"),
        pytest.param("1m1m", 120_000_000, "2m0s", id="a unit may come twice"),
    ],
)
def test_a_duration_is_read_and_printed(text: str, micros: int, printed: str) -> None:
    assert parse_duration(text) == micros
    assert format_duration(Micros(micros)) == printed


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("5", id="no unit"),
        pytest.param("5 m", id="a space"),
        pytest.param("m", id="no number"),
        pytest.param(".s", id="a point alone"),
        pytest.param("1d", id="days are no unit of Go"),
        pytest.param("--1s", id="two signs"),
        pytest.param("\N{ARABIC-INDIC DIGIT FIVE}s", id="another script's digits"),
        pytest.param("2562048h", id="longer than Go can hold"),
        pytest.param("9" * 70 + "s", id="too many digits"),
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)


@given(st.integers(-(10**15), 10**15))
def test_what_is_printed_reads_the_same(micros: int) -> None:
    assert parse_duration(format_duration(Micros(micros))) == micros


@given(st.text(alphabet="0123456789.hmsunµ+-", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        duration = parse_duration(text)
    except DurationError:
        return
    assert parse_duration(format_duration(duration)) == duration
