"""The start of a server is reported on the terminal, or through a pipe to the parent of a detached one."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykueue.cli.localserver.report import Report


class Pipe:
    """A report through a pipe, and what its reader gets."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        self.report = Report(writer)

    def received(self) -> Any:
        return json.loads(os.read(self.reader, 4096))


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    os.close(made.reader)


def test_the_terminal_gets_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    Report(None).ready("it runs")
    assert capsys.readouterr() == ("it runs\n", "")


def test_the_terminal_gets_the_error_and_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        Report(None).fail("port in use", 1)
    assert exit_.value.code == 1
    out, err = capsys.readouterr()
    assert (out, "port in use" in err) == ("", True)


def test_the_parent_gets_the_text(pipe: Pipe, capsys: pytest.CaptureFixture[str]) -> None:
    pipe.report.ready("it runs")
    assert pipe.received() == {"code": 0, "text": "it runs"}
    assert os.read(pipe.reader, 1) == b""  # closed, so that the parent does not wait for more
    assert capsys.readouterr() == ("", "")


def test_the_parent_gets_the_error_and_the_exit_code(pipe: Pipe, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        pipe.report.fail("port in use")
    assert exit_.value.code == 2
    assert pipe.received() == {"code": 2, "text": "port in use"}
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told_that_the_server_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    name = f"@pykueue-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(name.replace("@", "\0", 1))
        notices.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        Report(None).ready("it runs")
        assert notices.recv(100) == b"READY=1"
    # Nobody listens any more.
    Report(None).ready("it runs")
