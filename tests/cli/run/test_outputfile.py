"""Where does a job write its output?"""

import os
import subprocess
from pathlib import Path

from pykueue.cli.run.outputfile import has_patterns, unknown_patterns, writing


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
