"""Write a report: to a file of the user alone, or to standard output."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from pykueue.api.durations import DurationError
from pykueue.base.clock import SystemClock
from pykueue.base.datafolder import put
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS
from pykueue.cli.amounts import duration_of
from pykueue.cli.serverstate import fail
from pykueue.reports.csvfile import csv_text
from pykueue.reports.curves import DAY
from pykueue.reports.figures import Figures
from pykueue.reports.page import report_page
from pykueue.reports.picture import report_picture

HTML, SVG, CSV = FORMATS = ("html", "svg", "csv")
DIGITS_MAX: Final = 9
LONGEST: Final = 3650 * DAY
SUFFIXES: Final = {".html": HTML, ".htm": HTML, ".svg": SVG, ".csv": CSV}


class Output(Frozen):
    """Where a report goes, and in which format."""

    form: str
    file: str = ""
    """Empty for standard output."""


def output_of(option: str, given: str, forms: tuple[str, ...] = FORMATS, *, to_stdout: bool = True) -> Output:
    """The output that an option names: a file by its suffix, or a format for standard output; exits if it is none."""
    if to_stdout and given in forms:
        return Output(given)
    form = SUFFIXES.get(Path(given).suffix.lower())
    if form is None or form not in forms:
        also = f", or {', '.join(forms)} for standard output" if to_stdout else ""
        fail(f"{option}: {given!r} has no known format; name a file that ends with .{' or .'.join(forms)}{also}")
    folder = Path(given).parent
    if not folder.is_dir():
        fail(f"{option}: {folder} is not a directory; create it, or choose another one")
    return Output(form, given)


def length_of(given: str) -> int:
    """The duration that --since names, in microseconds; exits if it is none."""
    try:
        days = given[:-1] if given.endswith("d") else ""
        found = int(days) * DAY if days.isdecimal() and len(days) <= DIGITS_MAX else duration_of(given)
    except DurationError as error:
        fail(f"--since: {error}, or 7d")
    if not 0 < found <= LONGEST:
        fail(f"--since: {given!r} is out of range; use more than 0 and at most {LONGEST // DAY}d")
    return found


def local_offset() -> int:
    """By how many seconds this machine's clock is ahead of UTC, now."""
    offset = datetime.fromtimestamp(SystemClock().now() / MICROS, UTC).astimezone().utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def rendered(found: Figures, form: str) -> str:
    """A report in a format."""
    match form:
        case "html":
            return report_page(found)
        case "svg":
            return report_picture(found)
        case _:
            return csv_text(found)


def write(output: Output, text: str, option: str) -> None:
    """Write a report; a file replaces an older one at once, and only its owner can read it."""
    if not output.file:
        click.echo(text, nl=False)
        return
    try:
        put(Path(output.file), text.encode())
    except OSError as error:
        fail(f"{option}: {output.file}: {error.strerror}; choose another file", 1)
    click.echo(f"Written to {output.file}.", err=True)
