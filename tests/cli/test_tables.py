"""Does it look right in a terminal?"""

import io
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pykueue.cli.tables import duration, hanging, painted, short_time, table, wants_colour

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "wants"),
    [
        pytest.param(Terminal(), {}, True, id="a terminal"),
        pytest.param(Terminal(), {"NO_COLOR": "1"}, False, id="a terminal without colours"),
        pytest.param(Terminal(), {"NO_COLOR": ""}, True, id="an empty NO_COLOR says nothing"),
        pytest.param(io.StringIO(), {}, False, id="a file"),
    ],
)
def test_colours_are_for(stream: io.StringIO, environment: dict[str, str], wants: bool) -> None:
    assert wants_colour(stream, environment) is wants


def test_paint_only_when_wanted() -> None:
    assert painted("x", "red", on=False) == "x"
    assert painted("x", None, on=True) == "x"
    assert painted("x", "red", on=True) == "\x1b[31mx\x1b[0m"


@pytest.mark.parametrize(
    ("micros", "text"),
    [(0, "0:00:00"), (59_999_999, "0:00:59"), (3_723_000_000, "1:02:03"), (360_000_000_000, "100:00:00")],
)
def test_a_duration_has_hours_minutes_and_seconds(micros: int, text: str) -> None:
    assert duration(micros) == text


def test_columns_are_as_wide_as_they_need() -> None:
    assert table(("name", "n"), [("a", "1"), ("longer", "10")], "<>") == ["name     n", "a        1", "longer  10"]


def test_names_are_never_shortened_or_broken() -> None:
    name = "a-very-long-name-" * 8
    assert table(("name", "n"), [(name, "1")], "<>")[1] == f"{name}  1"
    assert name in "\n".join(hanging("why: ", f"waits for {name} in vain", 40)).split()


def test_a_table_without_rows_is_its_headers() -> None:
    assert table(("a", "b"), [], "<>") == ["a  b"]


def test_long_text_hangs_below_where_it_began() -> None:
    assert hanging("why: ", "one two three four five six", 25) == ["why: one two three four", "     five six"]
    assert hanging("why: ", "", 25) == ["why:"]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-01-01T12:10:00Z", "14:10"),
        ("2026-01-01T22:10:00Z", "Fri 00:10"),
        ("2026-01-20T12:10:00Z", "2026-01-20 14:10"),
        ("2025-12-31T12:10:00Z", "2025-12-31 14:10"),
    ],
)
def test_times_are_local_and_short(time: str, expected: str) -> None:
    assert short_time(time, NOW) == expected


def test_the_time_zone_of_the_tests_does_not_matter() -> None:
    assert short_time("2026-01-01T12:10:00Z", datetime(2026, 1, 1, tzinfo=UTC)) == "12:10"
