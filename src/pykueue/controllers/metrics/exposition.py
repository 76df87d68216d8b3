"""The text format of Prometheus, version 0.0.4.

A series is written at every scrape, and only its number changes: the text before it is built once.
"""

from collections.abc import Iterable
from functools import cache
from math import isfinite, isnan
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
STEP_PARTS: Final = 300
"""Lines, or histograms, that are written and encoded in one step, in a few milliseconds."""
WHOLE_MAX: Final = 2**53
"""Beyond this, floats cannot represent all integers exactly."""


def head(name: str, kind: str, text: str) -> str:
    """The two header lines of a family."""
    return f"# HELP {name} {text.translate(HELP_ESCAPES)}\n# TYPE {name} {kind}"


def pairs(labels: Iterable[str], values: Iterable[str]) -> str:
    """Labels with their values, as between braces."""
    return ",".join(f'{label}="{value.translate(ESCAPES)}"' for label, value in zip(labels, values, strict=True))


def start(name: str, inside: str) -> str:
    """The text before the number of a series."""
    return f"{name}{{{inside}}} " if inside else f"{name} "


def bucket_start(name: str, inside: str) -> str:
    """The text before the bound of each bucket of a histogram."""
    return f'{name}_bucket{{{inside},le="' if inside else f'{name}_bucket{{le="'


@cache
def bucket_ends(bounds: tuple[float, ...]) -> tuple[str, ...]:
    """The bounds of a histogram, as between `bucket_start` and the number."""
    return tuple(f'{text}"}} ' for text in (*map(number, bounds), "+Inf"))


def number(value: float) -> str:
    """A number in Go's format, as Kueue shows it: `1`, `2.5`, `+Inf`."""
    if value.__class__ is int:
        return str(value)
    if not isfinite(value):
        return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    whole = int(value)
    return str(whole) if whole == value and -WHOLE_MAX < whole < WHOLE_MAX else repr(value)


class Text:
    """A text in the making. Its lines are encoded in pieces, because at once a long text would take too long."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        """Lines, and texts of several lines."""
        self.pieces: list[bytes] = []

    def encode_many(self) -> bool:
        """Encode the lines if there are many; returns whether there were."""
        if len(self.lines) < STEP_PARTS:
            return False
        self.encode()
        return True

    def encode(self) -> None:
        """Encode the lines; invalid Unicode in one must not spoil the rest."""
        if self.lines:
            self.pieces.append("\n".join((*self.lines, "")).encode(errors="replace"))
            self.lines.clear()

    def whole(self) -> list[bytes]:
        """The text, in pieces."""
        self.encode()
        return self.pieces
