"""Is an explanation printed as a tree, whatever others have put into their names?"""

import pytest

from pykueue.api.explanations import PastDecision, Sentence
from pykueue.cli.explain import lines
from pykueue.cli.explain.lines import decision_lines, tree_lines

TREE = Sentence(
    "waits",
    "waits: needs more",
    (
        Sentence("place", "place in line: 2 of 2; ahead: \x1b[31mevil\n", (Sentence("parked", "none fits"),)),
        Sentence("ways", "what would let it start:", (Sentence("AwaitEnd", "wait"), Sentence("Shrink", "ask less"))),
    ),
)


def test_children_are_indented_and_ways_are_numbered() -> None:
    assert [*tree_lines("Job a", TREE)] == [
        "Job a: waits: needs more",
        "  place in line: 2 of 2; ahead: \\x1b[31mevil\\n",
        "    none fits",
        "  what would let it start:",
        "    1. wait",
        "    2. ask less",
    ]


def test_on_a_terminal_lines_have_colours_and_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "wants_colour", lambda *_: True)
    monkeypatch.setattr(lines, "line_width", lambda: 24)
    shown = [*tree_lines("Job a", TREE)]
    assert shown[0].startswith("\x1b[33mJob a: waits")
    assert max(len(line) for line in shown[1:] if "\x1b[" not in line) <= 24


def test_decisions_have_their_time() -> None:
    rows = [PastDecision("2026-01-01T00:00:00Z", "Admit", "starts: \x07")]
    assert [*decision_lines(rows)] == ["2026-01-01T00:00:00Z  starts: \\x07"]
