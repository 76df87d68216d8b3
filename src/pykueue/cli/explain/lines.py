"""Print explanations and decisions for people: with indentation, and times in the local time zone."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from pykueue.api.explanations import PastDecision, Sentence
from pykueue.base.text import printable
from pykueue.cli.tables import WIDTH, hanging, in_local_time, local_time, painted, wants_colour

INDENT: Final = "  "
COLOURS: Final = {
    "never": "red",
    "stopped": "red",
    "waits": "yellow",
    "evicted": "yellow",
    "stops": "yellow",
    "runs": "green",
    "ways": "green",
}
"""The colours of sentences on a terminal; the words say the same."""
NUMBERED: Final = "ways"
"""The sentence whose children have an order."""


def tree_lines(title: str, tree: Sentence) -> Iterator[str]:
    """The lines of an explanation."""
    colours, width = wants_colour(sys.stdout, os.environ), line_width()
    yield from sentence_lines(f"{title}: {tree.text}", tree, 0, "", colours=colours, width=width)


def plain_lines(title: str, tree: Sentence) -> Iterator[str]:
    """The lines of an explanation without colours, each sentence on one line."""
    yield from sentence_lines(f"{title}: {tree.text}", tree, 0, "", colours=False, width=WIDTH * 100)


def line_width() -> int:
    """The width of the terminal, if there is one."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH * 100


def sentence_lines(text: str, tree: Sentence, depth: int, lead: str, *, colours: bool, width: int) -> Iterator[str]:
    """The lines of a sentence and of those below it."""
    for line in hanging(INDENT * depth + lead, printable(in_local_time(text)), width):
        yield painted(line, COLOURS.get(tree.code), on=colours)
    for number, child in enumerate(tree.children, 1):
        mark = f"{number}. " if tree.code == NUMBERED else ""
        yield from sentence_lines(child.text, child, depth + 1, mark, colours=colours, width=width)


def decision_lines(decisions: Iterable[PastDecision]) -> Iterator[str]:
    """The lines of decisions."""
    width = line_width()
    for one in decisions:
        yield from hanging(f"{local_time(one.time)}  ", printable(in_local_time(one.text)), width)
