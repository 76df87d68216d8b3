"""Rows in each format."""

import csv
import json
import re
import sys

import pytest
import yaml

from pykueue.cli.formats import Column, printed, table_lines

Pair = tuple[str, str]
COLUMNS: list[Column[Pair]] = [
    Column("NAME", lambda row: row[0]),
    Column("REASON", lambda row: row[1], shrinks=True),
    Column("LENGTH", lambda row: str(len(row[1])), align=">", wide=True),
]
ROWS = [("a", "short"), ("b", "a reason that is much longer than the terminal is wide")]


def lines(output: str | None, rows: list[Pair] = ROWS, *, no_headers: bool = False) -> list[str]:
    found = printed(
        rows, COLUMNS, output, name=lambda row: f"job/{row[0]}", document=lambda: rows, no_headers=no_headers
    )
    return "\n".join(found).splitlines()


def test_a_table_is_whole_where_there_is_no_terminal() -> None:
    assert lines(None) == ["NAME  REASON", "a     short", f"b     {ROWS[1][1]}"]


def test_a_table_fits_the_terminal_by_shortening_what_may_be() -> None:
    found = table_lines(ROWS, COLUMNS, width=30)
    assert found == ["NAME  REASON", "a     short", "b     a reason that is much l…"]
    assert max(map(len, found)) == 30


def test_columns_that_may_be_are_left_out_where_shortening_is_not_enough() -> None:
    queue, time = "a-queue-of-a-team", "2026-01-01T00:00:00Z"
    wide: list[Column[Pair]] = [
        COLUMNS[0],
        Column("QUEUE", lambda _: queue, drops=True),
        COLUMNS[1],
        Column("ENDED", lambda _: time, drops=True),
    ]
    assert table_lines(ROWS, wide, width=60)[0].split() == ["NAME", "QUEUE", "REASON", "ENDED"]
    assert table_lines(ROWS, wide, width=50)[0].split() == ["NAME", "QUEUE", "REASON"]
    found = table_lines(ROWS, wide, width=30)
    assert found == table_lines(ROWS, COLUMNS, width=30)
    assert table_lines(ROWS, wide, wide=True, width=30)[0].split() == ["NAME", "QUEUE", "REASON", "ENDED"]


def test_a_name_is_never_shortened() -> None:
    assert table_lines([("n" * 50, "why")], COLUMNS, width=30)[1].startswith("n" * 50)


def test_a_wide_table_has_every_column_and_is_not_shortened() -> None:
    assert lines("wide")[2].split("  ")[-1] == str(len(ROWS[1][1]))
    assert table_lines(ROWS, COLUMNS, wide=True, width=30)[2] == lines("wide")[2]


def test_names_json_and_yaml() -> None:
    assert lines("name") == ["job/a", "job/b"]
    assert json.loads("\n".join(lines("json"))) == [list(row) for row in ROWS]
    assert yaml.safe_load("\n".join(lines("yaml"))) == [list(row) for row in ROWS]


def test_csv_has_every_column_and_no_formula() -> None:
    found = list(csv.reader(lines("csv", [("a", '=HYPERLINK("x"),1'), ("b", "-")])))
    assert found == [["NAME", "REASON", "LENGTH"], ["a", '\'=HYPERLINK("x"),1', "17"], ["b", "-", "1"]]


@pytest.mark.parametrize("cell", ["-1000", "-0.5", "-", "7"])
def test_a_number_in_csv_stays_one(cell: str) -> None:
    assert lines("csv", [("a", cell)])[1].split(",")[1] == cell


@pytest.mark.parametrize("cell", ["-1+1", "-1-1", "--1", "-cmd", "+1", "@SUM(A1)", "=1", "-1.", "-\u0661"])
def test_what_a_spreadsheet_computes_becomes_text_in_csv(cell: str) -> None:
    assert lines("csv", [("a", cell)])[1].split(",")[1] == f"'{cell}"


COLOURED = (
    Column[Pair]("NAME", lambda row: row[0]),
    Column[Pair]("STATE", lambda row: row[1], colour=lambda row: "red" if row[1] == "FAILED" else None),
    Column[Pair]("END", lambda row: "x", colour=lambda row: "green"),
)


def test_colours_change_neither_words_nor_columns() -> None:
    rows = [("a", "FAILED"), ("longer", "RUNNING")]
    plain, painted = table_lines(rows, COLOURED), table_lines(rows, COLOURED, colours=True)
    assert painted[1] == "a       \x1b[31mFAILED\x1b[0m   \x1b[32mx\x1b[0m"
    assert [re.sub(r"\x1b\[[0-9]+m", "", line) for line in painted] == plain


@pytest.mark.parametrize(
    ("terminal", "no_color", "colours"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_colours_are_for_terminals_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, no_color: str, colours: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    found = [*printed([("a", "FAILED")], COLOURED, None, name=lambda row: row[0], document=dict)]
    assert ("\x1b" in "".join(found)) is colours
    for output in ("csv", "json", "name", "yaml"):
        found = [*printed([("a", "FAILED")], COLOURED, output, name=lambda row: row[0], document=dict)]
        assert "\x1b" not in "".join(found)


def test_headers_can_be_left_out() -> None:
    assert lines(None, no_headers=True) == lines(None)[1:]
    assert lines("csv", no_headers=True) == lines("csv")[1:]


def test_escape_sequences_never_reach_the_terminal() -> None:
    for output in (None, "wide", "name", "csv"):
        assert "\x1b" not in "\n".join(lines(output, [("\x1b[31mred", "\x1b]0;title\x07")]))


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_json_and_yaml_escape_what_a_terminal_acts_on_and_keep_the_rest(output: str) -> None:
    name = "é \u202e\u2066\u009b31m\x7f\u2028\ufeff\x1b"
    found = "\n".join(printed([], COLUMNS, output, name=lambda row: row[0], document=lambda: [name]))
    assert all(one.isprintable() or one == "\n" for one in found)
    assert yaml.safe_load(found) == [name]
    plain = "\n".join(printed([], COLUMNS, output, name=lambda row: row[0], document=lambda: ["é"]))
    assert "é" in plain
