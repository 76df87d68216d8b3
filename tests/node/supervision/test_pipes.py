"""The output of a command is passed on in whole lines, unless a line is long or its rest is late."""

import os
from collections.abc import Iterator

import pytest

from pykueue.node.supervision.pipes import LINE_BYTES, LINE_SECONDS, Pipe

NOW = 100.0


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe(b"stdout")
    yield made
    os.close(made.fd)
    if made.end >= 0:
        os.close(made.end)


def test_whole_lines_are_passed_on_and_the_rest_is_held(pipe: Pipe) -> None:
    os.write(pipe.end, b"one\ntwo\nthr")
    assert pipe.read(NOW) == b"one\ntwo\n"
    assert pipe.read(NOW) is None
    assert pipe.overdue(NOW) == b""
    os.write(pipe.end, b"ee\n")
    assert pipe.read(NOW) == b"three\n"
    assert pipe.held == b""


def test_an_incomplete_line_is_passed_on_when_its_rest_is_late(pipe: Pipe) -> None:
    os.write(pipe.end, b"50 %")
    assert pipe.read(NOW) == b""
    assert pipe.overdue(NOW + LINE_SECONDS / 2) == b""
    assert pipe.overdue(NOW + LINE_SECONDS) == b"50 %"
    assert pipe.overdue(NOW + LINE_SECONDS) == b""


def test_a_long_line_is_passed_on_in_parts(pipe: Pipe) -> None:
    os.write(pipe.end, b"x" * LINE_BYTES)
    assert pipe.read(NOW) == b""
    os.write(pipe.end, b"y")
    assert pipe.read(NOW) == b"x" * LINE_BYTES + b"y"


def test_a_closed_pipe_has_no_more_to_come_and_keeps_what_it_held(pipe: Pipe) -> None:
    os.write(pipe.end, b"last words")
    assert pipe.read(NOW) == b""
    os.close(pipe.end)
    pipe.end = -1
    assert pipe.read(NOW) is None
    assert not pipe.open
    assert pipe.overdue(NOW + LINE_SECONDS) == b"last words"
