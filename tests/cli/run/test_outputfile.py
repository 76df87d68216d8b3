"""Where does a job write its output?"""

import os
import subprocess
from pathlib import Path

import pytest

from pykueue.cli.jobs.lostoutput import file_of
from pykueue.cli.run.outputfile import file_problem, has_patterns, recorded, unknown_patterns, writing


def test_patterns_are_replaced_and_all_else_is_literal(tmp_path: Path) -> None:
    command = writing(
        ["sh", "-c", "echo out; echo err >&2"], "$x 'y %x-%j-%a-%u%%", title="a b", user="ann", errors=True
    )
    environment = os.environ | {"PYKUEUE_JOB_NAME": "train-1", "PYKUEUE_ARRAY_TASK_ID": "7"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"$x 'y a b-train-1-7-ann%": "out\nerr\n"}


def test_standard_error_stays_in_the_log(tmp_path: Path) -> None:
    command = writing(["sh", "-c", "echo out; echo err >&2"], "file", title="", user="", errors=False)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr, (tmp_path / "file").read_text()) == ("", "err\n", "out\n")


def test_a_command_that_does_not_exist_has_the_exit_code_of_shells(tmp_path: Path) -> None:
    command = writing(["no-such-command"], "file", title="", user="", errors=False)
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 127


def test_which_patterns_there_are() -> None:
    assert unknown_patterns("%x%j%A%a%u%%") == []
    assert unknown_patterns("%N-%5a") == ["%N", "%5"]
    assert has_patterns("a%j")
    assert not has_patterns("a")


def test_the_annotation_says_which_file_each_task_writes() -> None:
    found = recorded("%x-%u-%j-%a%%.out", title="a%b", user="ann", folder="/home/100%")
    assert file_of(found, "train-1", 7) == "/home/100%/a%b-ann-train-1-7%.out"
    assert file_of(found, "train-1", None) == "/home/100%/a%b-ann-train-1-%a%.out"
    assert file_of(recorded("/tmp/x", title="", user="", folder="/home"), "j", None) == "/tmp/x"


def test_a_file_that_cannot_be_written_is_known_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir").mkdir()
    assert [file_problem(one) for one in ("new", "dir/%j", "%x/new", str(tmp_path / "new"))] == [""] * 4
    assert file_problem("none/%j") == "none/%j: directory none does not exist; create it first"
    assert file_problem("dir") == "dir: Is a directory"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert file_problem("dir/new") == "dir/new: no permission to write in dir"
