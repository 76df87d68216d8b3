"""Text that is safe to print to a terminal, or short enough to keep."""

from typing import Final

ELLIPSIS: Final = "…"


def shortened(text: str, most: int) -> str:
    """The text with at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + ELLIPSIS


def printable(text: str) -> str:
    """The text with control and other unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
