"""Print rows in the format that `-o` chooses: a table that fits the terminal, or text for other programs."""

import csv
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

import click
import msgspec

from pykueue.base.struct import Frozen
from pykueue.base.text import csv_cell, json_escaped, printable
from pykueue.cli.tables import GAP, Align, column_widths, painted, table, wants_colour

FORMATS: Final = ("json", "yaml", "wide", "name", "csv")
SHRUNK_MIN: Final = 12
"""The least width of a column that is shortened to fit the terminal."""
ELLIPSIS: Final = "…"
UNSAFE: Final = re.compile(r"[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Control characters that JSON and YAML may contain, and invisible ones that change the direction of text."""

Row = TypeVar("Row")


class Column(Frozen, Generic[Row]):
    """A column of a table of rows."""

    header: str
    cell: Callable[[Row], str]
    align: Align = "<"
    wide: bool = False
    """Shown only by `-o wide` and `-o csv`."""
    shrinks: bool = False
    """Shortened where the table is wider than the terminal."""
    drops: bool = False
    """Left out where the table would be wider than the terminal even so, the last one first; `-o wide` shows it."""
    colour: Callable[[Row], str | None] | None = None
    """The colour of a cell on a terminal, never the only sign of what it says."""


def yaml_text(value: object) -> str:
    """A value as YAML."""
    # PyYAML takes 30 ms to import.
    import yaml

    plain = msgspec.to_builtins(value)
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).rstrip("\n")
    if UNSAFE.search(text):
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=False).rstrip("\n")
    return text


def json_text(value: object, *, indent: int = 2) -> str:
    """A value as JSON; without an indent, in one line."""
    encoded = msgspec.json.encode(value)
    return json_escaped((msgspec.json.format(encoded, indent=indent) if indent else encoded).decode(), UNSAFE)


def printed(
    rows: Sequence[Row],
    columns: Sequence[Column[Row]],
    output: str | None,
    *,
    name: Callable[[Row], str],
    document: Callable[[], object],
    no_headers: bool = False,
    width: int | None = None,
    gap: str = GAP,
) -> Iterator[str]:
    """The lines of the rows in a format. `document` is what json and yaml show, `name` the line of `-o name`.

    Without a `width`, tables have the width of the terminal, and are never shortened elsewhere.
    """
    match output:
        case "json":
            yield json_text(document())
        case "yaml":
            yield yaml_text(document())
        case "name":
            yield from (printable(name(row)) for row in rows)
        case "csv":
            yield from csv_lines(rows, columns, no_headers=no_headers)
        case _:
            colours = wants_colour(sys.stdout, os.environ)
            wide = output == "wide"
            yield from table_lines(
                rows, columns, wide=wide, no_headers=no_headers, width=width, gap=gap, colours=colours
            )


def table_lines(
    rows: Sequence[Row],
    columns: Sequence[Column[Row]],
    *,
    wide: bool = False,
    no_headers: bool = False,
    width: int | None = None,
    gap: str = GAP,
    colours: bool = False,
) -> list[str]:
    """The rows as a table."""
    shown = [one for one in columns if wide or not one.wide]
    cells = [[printable(one.cell(row)) for one in shown] for row in rows]
    headers = [one.header for one in shown]
    room = terminal_width() if width is None else width
    if room is not None and not wide:
        for index in dropped(headers, cells, shown, room, gap):
            del shown[index], headers[index]
            for cut in cells:
                del cut[index]
        fit(headers, cells, [index for index, one in enumerate(shown) if one.shrinks], room, gap)
    lines = table(headers, cells, "".join(one.align for one in shown), gap)
    if colours:
        widths = column_widths(headers, cells)
        lines[1:] = [coloured(lines[1 + at], row, cells[at], shown, widths, gap) for at, row in enumerate(rows)]
    return lines[1:] if no_headers else lines


def dropped(
    headers: Sequence[str], cells: Sequence[Sequence[str]], shown: Sequence[Column[Row]], width: int, gap: str
) -> list[int]:
    """The columns to leave out, from the last to the first, so that shortening others makes the table fit."""
    widths = column_widths(headers, cells)
    least = [
        min(wanted, max(SHRUNK_MIN, len(one.header))) if one.shrinks else wanted
        for one, wanted in zip(shown, widths, strict=True)
    ]
    excess = sum(least) + len(gap) * (len(least) - 1) - width
    found = []
    for index in reversed(range(len(shown))):
        if excess > 0 and shown[index].drops:
            excess -= least[index] + len(gap)
            found.append(index)
    return found


def coloured(
    line: str, row: Row, cells: Sequence[str], columns: Sequence[Column[Row]], widths: Sequence[int], gap: str
) -> str:
    """A line of a table with its cells in colour, as far as their columns have one; those are aligned to the left."""
    # From the end, so that the positions before stay as they are.
    for index in reversed(range(len(columns))):
        colour = columns[index].colour
        at = sum(widths[:index]) + len(gap) * index
        if colour is not None:
            cell = cells[index]
            line = f"{line[:at]}{painted(cell, colour(row), on=True)}{line[at + len(cell) :]}"
    return line


def fit(headers: Sequence[str], cells: list[list[str]], shrinking: Sequence[int], width: int, gap: str = GAP) -> None:
    """Shorten cells of these columns, the widest first, until the table fits."""
    widths = column_widths(headers, cells)
    excess = sum(widths) + len(gap) * (len(widths) - 1) - width
    for index in sorted(shrinking, key=lambda one: -widths[one]):
        if excess <= 0:
            return
        least = max(SHRUNK_MIN, len(headers[index]))
        target = max(least, widths[index] - excess)
        excess -= max(0, widths[index] - target)
        for row in cells:
            if len(row[index]) > target:
                row[index] = row[index][: target - 1] + ELLIPSIS


def csv_lines(rows: Sequence[Row], columns: Sequence[Column[Row]], *, no_headers: bool) -> list[str]:
    """The rows as comma-separated values, with all columns; no cell is one that a spreadsheet computes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if not no_headers:
        writer.writerow([one.header for one in columns])
    for row in rows:
        writer.writerow([csv_cell(one.cell(row)) for one in columns])
    return text.getvalue().splitlines()


def terminal_width() -> int | None:
    """The width of the terminal; None if standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def echo(lines: Iterator[str] | Sequence[str]) -> None:
    """Print lines that are already safe for a terminal."""
    # One write for all: a write per line takes longer than making the lines.
    if text := "\n".join(lines):
        click.echo(text)
