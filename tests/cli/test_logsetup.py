"""A log line names the object and says why, for people or for programs."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from pykueue.cli.logsetup import FILES_KEPT, JsonLine, TextLine, begin
from tests.patience import soon


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


WORDY = """
import logging, sys
from pykueue.cli import logsetup

logsetup.FILE_BYTES = 2000
logsetup.begin("text", "info", sys.argv[1])
sys.stdin.readline()
for number in range(400):
    logging.getLogger("x").info("line %d", number)
    print(f"printed {number}", file=sys.stderr, flush=True)
"""


def test_a_log_rotates_with_all_that_is_printed_into_it_and_a_follower_sees_everything(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    with (
        log.open("ab") as trouble,
        subprocess.Popen([sys.executable, "-c", WORDY, str(log)], stdin=subprocess.PIPE, stderr=trouble) as program,
        (tmp_path / "followed").open("wb") as output,
        subprocess.Popen(["tail", "-n", "+1", "-s", "0.01", "-F", str(log)], stdout=output, stderr=-3) as follower,
    ):
        try:
            program.communicate(b"go\n", timeout=60)
            assert program.returncode == 0
            assert soon(lambda: "printed 399\n" in (tmp_path / "followed").read_text())
        finally:
            follower.terminate()
    kept = sorted(path.name for path in tmp_path.glob("up.log*"))
    assert kept == ["up.log", *(f"up.log.{number}" for number in range(1, FILES_KEPT + 1))]
    assert max(path.stat().st_size for path in tmp_path.glob("up.log*")) < 2100
    newest = log.read_text()
    assert "printed 399\n" in newest
    assert "line 399\n" in newest
    assert log.stat().st_mode & 0o777 == 0o600
