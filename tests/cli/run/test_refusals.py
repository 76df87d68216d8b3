"""What does `pykueue run` refuse before it submits a job, and where is the output of a job that writes a file?"""

import os
import pwd
from pathlib import Path

from tests.cli.machine import machine_in
from tests.patience import soon


def test_what_cannot_run_is_not_submitted_and_a_file_of_output_is_named(tmp_path: Path) -> None:
    with machine_in(tmp_path) as machine:
        machine.up()
        queue = ("-q", "team-a", "--detach")
        for word, says in (("nosuch-command", "no such command"), ("./nosuch.sh", "no such file")):
            done = machine.run("run", *queue, "--", word)
            assert (done.returncode, f"{word}: {says}" in done.stderr) == (127, True), done.stderr
        done = machine.run("run", *queue, "--output", str(tmp_path / "none" / "%j"), "--", "true")
        assert (done.returncode, "does not exist; create it first" in done.stderr) == (2, True), done.stderr
        assert "No running or pending jobs" in machine.run("jobs").stderr

        file = str(tmp_path / "%u-%j.txt")
        done = machine.run("run", *queue, "--name", "writes", "--output", file, "--", "echo", "hello")
        assert done.returncode == 0, done.stderr
        written = tmp_path / f"{pwd.getpwuid(os.getuid()).pw_name}-writes.txt"
        assert soon(lambda: written.exists() and written.read_text() == "hello\n")
        assert soon(lambda: f"its standard output is in {written}" in machine.run("logs", "writes").stderr)
        array = ("--array", "3-4", "--name", "tasks", "--output", str(tmp_path / "%a.txt"))
        assert machine.run("run", *queue, *array, "--", "true").returncode == 0
        assert soon((tmp_path / "4.txt").exists)
        assert soon(lambda: f"is in {tmp_path}/4.txt" in machine.run("logs", "tasks:4").stderr)
        assert f"is in {tmp_path}/%a.txt" in machine.run("logs", "tasks").stderr
        missing = machine.run("jobs", "-n", "nosuch")
        assert (missing.returncode, "no namespace nosuch" in missing.stderr) == (1, True), missing.stderr
