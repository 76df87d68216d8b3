"""A log line names the object and says why, for people or for programs."""

import json
import logging
import sys

import pytest

from pykueue.cli.logsetup import JsonLine, TextLine, begin


def record(*, about: str = "", trace: bool = False) -> logging.LogRecord:
    caught = None
    if trace:
        try:
            raise ValueError("odd")
        except ValueError:
            caught = sys.exc_info()
    made = logging.LogRecord("pykueue.x", logging.WARNING, "x.py", 1, "refused: %s", ("why",), caught)
    made.created = 1_767_225_600.25
    if about:
        made.object = about
    return made


def test_a_line_for_people() -> None:
    assert TextLine().format(record(about="ns/w")) == "2026-01-01T00:00:00.250Z warning refused: why [ns/w]"


def test_a_line_for_programs() -> None:
    assert json.loads(JsonLine().format(record(about="ns/w"))) == {
        "ts": "2026-01-01T00:00:00.250Z",
        "level": "warning",
        "logger": "pykueue.x",
        "msg": "refused: why",
        "object": "ns/w",
    }


@pytest.mark.parametrize("form", [TextLine(), JsonLine()], ids=["text", "json"])
def test_an_error_comes_with_its_trace(form: logging.Formatter) -> None:
    assert "ValueError: odd" in form.format(record(trace=True))


def test_what_is_said_goes_to_the_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        begin("json", "info")
        logging.getLogger("pykueue.y").info("hello")
        logging.getLogger("pykueue.y").debug("not this")
        said = capsys.readouterr()
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert said.out == ""
    assert json.loads(said.err)["msg"] == "hello"
