"""Text that is safe to print to a terminal, to open in a spreadsheet or to parse, or short enough to keep."""

import re
from typing import Final

ELLIPSIS: Final = "…"
FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell begins with that a spreadsheet takes for a formula; the last four are full-width forms."""
HARMLESS: Final = re.compile(r"-?([0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?)?")
"""What begins like a formula and is none: a number, or the sign for nothing."""


def shortened(text: str, most: int) -> str:
    """The text with at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + ELLIPSIS


def printable(text: str) -> str:
    """The text with control and other unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def json_escaped(text: str, unsafe: re.Pattern[str]) -> str:
    """JSON with these characters escaped; they occur only within its strings, where an escape means the same."""
    return unsafe.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet would compute a cell; some programs skip blanks before they look for a formula."""
    return cell.lstrip().startswith(FORMULA) and not HARMLESS.fullmatch(cell)


def csv_cell(text: str) -> str:
    """The text as a cell that no spreadsheet computes: one that begins like a formula gets an apostrophe."""
    shown = printable(text)
    return f"'{shown}" if is_formula(shown) else shown
