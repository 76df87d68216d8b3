"""Format text for a terminal: columns, wrapped lines and colours."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from textwrap import wrap
from typing import Final, Literal, TextIO

import click

WIDTH: Final = 100
GAP: Final = "  "
KUBECTL_GAP: Final = "   "
"""Between the columns of kubectl and kueuectl."""

UTC_TIME: Final = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z\b")

Align = Literal["<", ">"]


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether to use colours: on a terminal, unless NO_COLOR is set."""
    return not environment.get("NO_COLOR") and stream.isatty()


def painted(text: str, colour: str | None, *, on: bool) -> str:
    """The text in this colour."""
    return click.style(text, fg=colour) if on and colour else text


def duration(micros: int) -> str:
    """A duration as hours, minutes and seconds: 1:02:03."""
    minutes, seconds = divmod(micros // 1_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def local_time(instant: str) -> str:
    """A timestamp in the local time zone, for people: `2026-01-31 13:00:00`; as it is if it is none."""
    try:
        return datetime.fromisoformat(instant).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return instant


def short_time(instant: str, now: datetime) -> str:
    """A timestamp in the time zone of `now`, as short as it is clear: with the day only if it is another."""
    local = datetime.fromisoformat(instant).astimezone(now.tzinfo)
    if local.date() == now.date():
        return f"{local:%H:%M}"
    return f"{local:%a %H:%M}" if 0 < (local.date() - now.date()).days < 7 else f"{local:%Y-%m-%d %H:%M}"


def in_local_time(text: str) -> str:
    """A text with the UTC timestamps in it in the local time zone."""
    return UTC_TIME.sub(lambda found: local_time(found[0]), text)


def column_widths(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column of a table."""
    return [max(len(row[index]) for row in (headers, *rows)) for index in range(len(headers))]


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], align: str, gap: str = GAP) -> list[str]:
    """The rows under their headers; `align` has a `<` or `>` for each column. Cells are never shortened."""
    widths = column_widths(headers, rows)
    return [
        gap.join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)).rstrip()
        for row in (headers, *rows)
    ]


def hanging(lead: str, text: str, width: int = WIDTH) -> list[str]:
    """The text after its lead, wrapped with a hanging indent."""
    room = max(20, width - len(lead))
    # Long names and paths stay whole, so that they can be copied.
    pieces = wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]
    return [f"{lead}{pieces[0]}".rstrip(), *(f"{' ' * len(lead)}{piece}" for piece in pieces[1:])]
