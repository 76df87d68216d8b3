"""Are limits and times read as Slurm reads them?"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from pykueue.base.units import format_instant
from pykueue.cli.run.times import TimeError, begin_time, limit_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("10", 600, id="minutes"),
        pytest.param("1:30", 90, id="MM:SS"),
        pytest.param("02:30:00", 9000, id="HH:MM:SS"),
        pytest.param("1-12", 36 * 3600, id="D-HH"),
        pytest.param("1-0:30", 86_400 + 1800, id="D-HH:MM"),
        pytest.param("2-03:04:05", 2 * 86_400 + 3 * 3600 + 4 * 60 + 5, id="D-HH:MM:SS"),
        pytest.param("0", None, id="zero is no limit"),
        pytest.param("UNLIMITED", None, id="no limit by name"),
    ],
)
def test_a_limit_is_read_as_in_slurm(text: str, seconds: int | None) -> None:
    assert limit_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "2h", "1:2:3:4", "-5", "1-", "10m", "1-2-3", "999999-0", "\u0661\u0660"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(TimeError):
        limit_seconds(text)


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NOW = datetime(2027, 1, 31, 11, 0, 30, tzinfo=UTC)
"""12:00:30 in Berlin."""


@pytest.mark.parametrize(
    ("text", "when"),
    [
        pytest.param("now", "2027-01-31T11:00:30Z", id="now"),
        pytest.param("now+1hour", "2027-01-31T12:00:30Z", id="an hour"),
        pytest.param("now+2hours", "2027-01-31T13:00:30Z", id="two hours"),
        pytest.param("now + 3 days", "2027-02-03T11:00:30Z", id="with spaces"),
        pytest.param("now+60", "2027-01-31T11:01:30Z", id="seconds"),
        pytest.param("now+1h30m", "2027-01-31T12:30:30Z", id="a duration of ours"),
        pytest.param("16:00", "2027-01-31T15:00:00Z", id="later today"),
        pytest.param("12:00", "2027-02-01T11:00:00Z", id="tomorrow, because it is past"),
        pytest.param("12:00:45", "2027-01-31T11:00:45Z", id="with seconds"),
        pytest.param("noon", "2027-02-01T11:00:00Z", id="noon"),
        pytest.param("midnight", "2027-01-31T23:00:00Z", id="midnight"),
        pytest.param("tomorrow", "2027-01-31T23:00:00Z", id="tomorrow"),
        pytest.param("today", "2027-01-31T11:00:30Z", id="today"),
        pytest.param("2027-07-01T12:00", "2027-07-01T10:00:00Z", id="in summer"),
        pytest.param("2027-07-01", "2027-06-30T22:00:00Z", id="a day"),
        pytest.param("2027-01-31T12:00:00Z", "2027-01-31T12:00:00Z", id="with a time zone"),
        pytest.param("2027-01-31T12:00:00-05:00", "2027-01-31T17:00:00Z", id="with an offset"),
    ],
)
def test_a_time_is_read_as_in_slurm(text: str, when: str) -> None:
    assert format_instant(begin_time(text, NOW.astimezone())) == when


@pytest.mark.parametrize("text", ["", "soon", "25:00", "12:60", "now+", "now+x", "now-1hour", "2027-13-01", "9" * 30])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(TimeError, match="is not a time; write now"):
        begin_time(text, NOW.astimezone())
