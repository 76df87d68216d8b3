"""The names of metrics and labels in a PromQL expression. It finds names by their form and does not parse the rest."""

import re
from collections.abc import Iterator
from typing import NamedTuple

TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
DURATION = re.compile(r"\[[^\]]*\]")
GROUPING = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}")
MATCHER = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)")
NAME = re.compile(r"\b[a-zA-Z_:][a-zA-Z0-9_:]*\b(?!\s*\()")
WORDS = frozenset({"and", "or", "unless", "bool", "by", "without", "on", "ignoring", "offset", "inf", "nan"})
ALL = re.compile(r"label_values\((\w+),\s*(\w+)\)")


class Used(NamedTuple):
    """What an expression uses."""

    selectors: list[tuple[str, tuple[str, ...]]]
    """Metrics, each with the labels by which its series are selected."""
    grouping: list[str]
    """Labels by which results are summed up or matched."""


def used(expression: str) -> Used:
    """What an expression uses; a query for the values of a label, as dashboards have it, is one, too."""
    if values := ALL.fullmatch(expression):
        return Used([(values[1], (values[2],))], [])
    plain = DURATION.sub("", TEXT.sub('""', expression))
    grouping = [label.strip() for _, labels in GROUPING.findall(plain) for label in labels.split(",") if label.strip()]
    plain = GROUPING.sub(" ", plain)
    selectors = [(name, tuple(MATCHER.findall(labels))) for name, labels in SELECTOR.findall(plain)]
    rest = SELECTOR.sub(" ", plain)
    return Used([*selectors, *((name, ()) for name in names(rest))], grouping)


def names(text: str) -> Iterator[str]:
    """The metrics in an expression without selectors and texts."""
    for name in NAME.findall(text):
        if name not in WORDS:
            yield name
