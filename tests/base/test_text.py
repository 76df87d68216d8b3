"""Text from outside cannot control the terminal or a spreadsheet."""

import pytest

from pykueue.base.text import csv_cell, printable, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("café, 3 µs", "café, 3 µs", id="printable"),
        pytest.param("a\nb\tc", "a\\nb\\tc", id="line breaks"),
        pytest.param("\x1b[31mred", "\\x1b[31mred", id="an escape sequence"),
        pytest.param("a\u202eb", "a\\u202eb", id="a change of direction"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_text_is_shortened_only_where_it_is_too_long() -> None:
    assert (shortened("abc", 3), shortened("abcd", 3)) == ("abc", "ab…")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        (" =1", "' =1"),
        ("\t=1", "\\t=1"),
        ("-2.5", "-2.5"),
        ("-1e+06", "-1e+06"),
        ("-", "-"),
        ("-cmd", "'-cmd"),
        ("\uff1d1", "'\uff1d1"),
        ("train", "train"),
    ],
)
def test_cells_that_begin_like_a_formula_are_quoted(text: str, shown: str) -> None:
    assert csv_cell(text) == shown
