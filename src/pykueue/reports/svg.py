"""Pieces of plots as SVG: a plot with its title and description, axes, and lines of steps."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.text import shortened
from pykueue.base.units import Instant
from pykueue.reports.curves import Curve
from pykueue.reports.markup import Attributes, Child, Markup, element, figure
from pykueue.reports.records import Period
from pykueue.reports.units import number

NAMESPACE: Final = "http://www.w3.org/2000/svg"
GLYPH: Final = 6.4
"""About the width of a character, in the units of a plot."""


class Plot:
    """A drawing with its size, and words for those who cannot see it."""

    def __init__(self, ident: str, title: str, description: str, width: float, height: float) -> None:
        self.ident = ident
        self.title = title
        self.description = description
        self.width = width
        self.height = height
        self.parts: list[Markup] = []

    def add(self, tag: str, attributes: Attributes, *children: Child) -> None:
        """Add an element."""
        self.parts.append(element(tag, attributes, *children))

    def text(self, x: float, y: float, words: str, kind: str = "", *, anchor: str = "", full: str = "") -> None:
        """Add a text; `full` is shown where the pointer rests, for one that is shortened."""
        title = () if not full or full == words else (element("title", {}, full),)
        attributes: Attributes = {"x": x, "y": y, "class": kind or None, "text-anchor": anchor or None}
        self.add("text", attributes, *title, words)

    def line(self, x: tuple[float, float], y: tuple[float, float], kind: str) -> None:
        """Add a straight line."""
        self.add("line", {"x1": x[0], "x2": x[1], "y1": y[0], "y2": y[1], "class": kind})

    def rect(self, x: tuple[float, float], y: tuple[float, float], kind: str, words: str = "") -> None:
        """Add a rectangle; words are shown where the pointer rests."""
        title = (element("title", {}, words),) if words else ()
        width, height = max(0.0, x[1] - x[0]), max(0.0, y[1] - y[0])
        self.add("rect", {"x": x[0], "y": y[0], "width": width, "height": height, "class": kind}, *title)

    def path(self, steps: Iterable[str], kind: str, fill: str | None = None) -> None:
        """Add a path; nothing if it is empty."""
        if drawn := "".join(steps):
            self.add("path", {"d": drawn, "class": kind, "fill": fill})

    def hatch(self, kind: str) -> str:
        """Define a pattern of diagonal lines; returns how to refer to it."""
        name = f"{self.ident}-{kind}"
        stripe = element("path", {"d": "M0,6 L6,0 M-1,1 L1,-1 M5,7 L7,5", "class": f"{kind}-stripe"})
        ground = element("rect", {"width": 6, "height": 6, "class": f"{kind}-ground"})
        size: Attributes = {"id": name, "width": 6, "height": 6, "patternUnits": "userSpaceOnUse"}
        self.add("defs", {}, element("pattern", size, ground, stripe))
        return f"url(#{name})"

    def markup(self, place: tuple[float, float] | None = None) -> Markup:
        """The drawing, as large as its container, or at a place in another one."""
        named: dict[str, str | float | None] = {
            "role": "img",
            "aria-labelledby": f"{self.ident}-title {self.ident}-desc",
        }
        box: dict[str, str | float | None] = {"viewBox": f"0 0 {figure(self.width)} {figure(self.height)}"}
        if place is not None:
            box |= {"x": place[0], "y": place[1], "width": self.width, "height": self.height}
        title = element("title", {"id": f"{self.ident}-title"}, self.title)
        description = element("desc", {"id": f"{self.ident}-desc"}, self.description)
        return element("svg", {**box, **named, "class": "plot"}, title, description, *self.parts)


class Frame(Frozen):
    """The part of a plot inside its axes, and what its edges mean."""

    left: float
    right: float
    top: float
    bottom: float
    period: Period
    peak: float = 1.0
    """The value at the top."""

    def x(self, at: int) -> float:
        """The place of an instant."""
        share = (at - self.period.begin) / self.period.length
        return self.left + (self.right - self.left) * min(1.0, max(0.0, share))

    def y(self, value: float) -> float:
        """The place of a value."""
        return self.bottom - (self.bottom - self.top) * value / self.peak


def draw_axes(
    plot: Plot, frame: Frame, ticks: Sequence[tuple[Instant, str]], values: Sequence[float], size: float = 1.0
) -> None:
    """Draw horizontal lines with their values, and the ticks of time below; values are shown in units of this size."""
    for value in values:
        y = frame.y(value)
        plot.line((frame.left, frame.right), (y, y), "base" if value == 0 else "grid")
        plot.text(frame.left - 7, y + 3.5, number(value / size), "tick", anchor="end")
    draw_time(plot, frame, ticks)


def draw_time(plot: Plot, frame: Frame, ticks: Sequence[tuple[Instant, str]]) -> None:
    """Draw the ticks of time."""
    taken = -1.0
    for at, words in ticks:
        x, half = frame.x(at), len(words) * GLYPH / 2
        plot.line((x, x), (frame.bottom, frame.bottom + 4), "base")
        # Labels at the edges stay inside, and none overlaps another.
        x = min(max(x, half), plot.width - half)
        if x - half > taken:
            plot.text(x, frame.bottom + 16, words, "tick", anchor="middle")
            taken = x + half + GLYPH


def pieces(curve: Curve) -> Iterator[tuple[Instant, Instant, float]]:
    """The pieces of a curve: from, to, and the value."""
    yield from zip(curve.times, (*curve.times[1:], curve.end), curve.values, strict=True)


def outline(frame: Frame, curve: Curve) -> str:
    """The steps of a curve as a line."""
    drawn, last = [], None
    for begin, end, value in pieces(curve):
        y = figure(frame.y(value))
        lead = f"M{figure(frame.x(begin))},{y}" if last is None else "" if y == last else f"V{y}"
        drawn.append(f"{lead}H{figure(frame.x(end))}")
        last = y
    return "".join(drawn)


def area(frame: Frame, curve: Curve) -> str:
    """The area between a curve and 0."""
    line = outline(frame, curve)
    if not line:
        return ""
    base = figure(frame.y(0))
    return f"{line}V{base}H{figure(frame.x(curve.times[0]))}Z"


def above(frame: Frame, curve: Curve, limit: Curve) -> Iterator[str]:
    """The areas where a curve is above another one."""
    times = sorted({*curve.times, *limit.times})
    for begin, end in zip(times, (*times[1:], curve.end), strict=True):
        value, most = curve.at(begin), limit.at(begin)
        if value > most:
            left, right = figure(frame.x(begin)), figure(frame.x(end))
            yield f"M{left},{figure(frame.y(most))}V{figure(frame.y(value))}H{right}V{figure(frame.y(most))}Z"


def fitting(name: str, width: float) -> str:
    """A name that is shortened to about this width."""
    return shortened(name, max(4, int(width / GLYPH)))
