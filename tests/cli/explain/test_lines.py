"""Is an explanation printed as a tree, whatever others have put into their names?"""

import time
from collections.abc import Iterator

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


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader nine hours ahead of UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_east")
def test_decisions_have_their_time_in_the_zone_of_the_reader() -> None:
    rows = [PastDecision("2026-01-01T00:00:00Z", "Admit", "starts: \x07 until 2026-01-01T20:00:00Z")]
    assert [*decision_lines(rows)] == ["2026-01-01 09:00:00  starts: \\x07 until 2026-01-02 05:00:00"]


@pytest.mark.usefixtures("far_east")
def test_times_in_sentences_are_in_the_zone_of_the_reader() -> None:
    tree = Sentence("runs", "is admitted since 2026-01-01T20:00:00Z; until 2026-99-99T00:00:00Z")
    assert [*tree_lines("Job a", tree)] == ["Job a: is admitted since 2026-01-02 05:00:00; until 2026-99-99T00:00:00Z"]
