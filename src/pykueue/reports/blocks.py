"""Blocks of a page: tables, figures, keys of plots, and lists of notes."""

from collections.abc import Iterable, Sequence
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.reports.markup import Child, Markup, element
from pykueue.reports.svg import Plot

KEY_WIDTH: Final = 34.0
KEY_HEIGHT: Final = 14.0


class Column(Frozen):
    """The head of a column of a table."""

    head: str
    end: bool = False
    """Whether it is aligned at its end, as numbers are."""
    whole: bool = False
    """Whether its cells stay on one line."""

    @property
    def kind(self) -> str | None:
        """The class of its cells."""
        return "end" if self.end else "whole" if self.whole else None


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[str]], *, shown: bool = True) -> Markup:
    """A table; the first cell of each row is its head. The caption is not shown where a heading says the same."""
    kinds = [one.kind for one in columns]
    heads = [element("th", {"scope": "col", "class": kind}, one.head) for one, kind in zip(columns, kinds, strict=True)]
    body = []
    for first, *rest in rows:
        cells = [element("td", {"class": kind}, cell) for cell, kind in zip(rest, kinds[1:], strict=True)]
        body.append(element("tr", {}, element("th", {"scope": "row", "class": kinds[0]}, first), *cells))
    return scrolling(
        element(
            "table",
            {},
            *([element("caption", {}, caption)] if shown else []),
            element("thead", {}, element("tr", {}, *heads)),
            element("tbody", {}, *body),
        ),
        caption,
    )


def scrolling(inner: Markup, label: str, kind: str = "wide") -> Markup:
    """Something that may be wider or higher than its place; the keyboard can scroll it."""
    return element("div", {"class": kind, "tabindex": "0", "role": "region", "aria-label": label}, inner)


def folded(words: str, *inner: Markup) -> Markup:
    """Something that is shown on demand."""
    return element("details", {}, element("summary", {}, words), *inner)


def figure_of(plot: Plot, *, caption: str = "", label: str = "", wide: bool = False, tall: bool = False) -> Markup:
    """A plot with its caption."""
    lead: list[Child] = [element("span", {"class": "label"}, label)] if label else []
    words = () if not (label or caption) else (element("figcaption", {}, *lead, caption),)
    drawn = plot.markup()
    if wide or tall:
        drawn = scrolling(drawn, plot.title, "wide tall" if tall else "wide")
    return element("figure", {}, *words, drawn)


def paragraph(words: str, kind: str | None = None) -> Markup:
    """A paragraph."""
    return element("p", {"class": kind}, words)


def notes(lines: Sequence[str]) -> list[Markup]:
    """A list of notes; nothing if there are none."""
    return (
        [element("ul", {"class": "notes"}, *(element("li", {}, line[:1].upper() + line[1:]) for line in lines))]
        if lines
        else []
    )


class Key(Frozen):
    """An entry of the key of plots: how something is drawn, and what it means."""

    kind: str
    """One of the branches of `sample`."""
    words: str


def keys(entries: Sequence[Key]) -> Markup:
    """The key of plots."""
    items = [
        element("li", {}, sample(one.kind, f"key{number}-{one.kind}"), one.words) for number, one in enumerate(entries)
    ]
    return element("ul", {"class": "keys"}, *items)


def sample(kind: str, ident: str) -> Markup:
    """A small drawing of something that plots show."""
    plot = Plot(ident, kind, "", KEY_WIDTH, KEY_HEIGHT)
    middle, ends = KEY_HEIGHT / 2, (2.0, KEY_WIDTH - 2)
    match kind:
        case "nominal" | "edge" | "edge-other" | "waits" | "whisker":
            plot.line(ends, (middle, middle), kind)
        case "over" | "evicted":
            plot.path(["M2,2H32V12H2Z"], "hatched", plot.hatch("over"))
        case "median":
            plot.line((middle, middle), (1, KEY_HEIGHT - 1), kind)
        case "most":
            plot.add("circle", {"cx": middle, "cy": middle, "r": 3, "class": kind})
        case _:
            plot.rect(ends, (2, KEY_HEIGHT - 2), kind)
    # The words beside it say what it is.
    return element(
        "svg", {"viewBox": f"0 0 {KEY_WIDTH:g} {KEY_HEIGHT:g}", "class": "plot", "aria-hidden": "true"}, *plot.parts
    )
