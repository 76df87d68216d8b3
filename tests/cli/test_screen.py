"""A screen that is repainted in place."""

import re

from pykueue.cli.screen import frame


def rows(drawn: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9?]*[A-Za-z]", "", drawn).split("\n")


def test_lines_are_cut_at_the_edge_and_the_last_line_stays() -> None:
    assert rows(frame(["abcdef", "x"], "to stop", 4, 10)) == ["abcd", "x", "to s"]


def test_what_has_no_room_is_counted() -> None:
    assert rows(frame([str(one) for one in range(10)], "end", 80, 4)) == ["0", "1", "and 8 more", "end"]
    assert rows(frame([str(one) for one in range(3)], "end", 80, 4)) == ["0", "1", "2", "end"]


def test_each_line_erases_what_was_there() -> None:
    drawn = frame(["a", "b"], "end", 80, 10)
    assert drawn.startswith("\x1b[H")
    assert drawn.count("\x1b[K") == 3
    assert drawn.endswith("\x1b[J")
