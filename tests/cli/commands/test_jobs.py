"""Does `pykueue jobs` list what a machine does and has done? Real processes, one server for all."""

import contextlib
import csv
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.cli.jobs.watch import BACK, GONE
from pykueue.cli.main import cli
from tests.cli.machine import SOON, Machine, machine_in
from tests.patience import soon


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine_in(tmp_path_factory.mktemp("jobs")) as made:
        made.up()
        yield made


def rows(machine: Machine, *words: str) -> list[dict[str, str]]:
    done = machine.run("jobs", "-o", "csv", *words)
    assert done.returncode == 0, done.stderr
    return [*csv.DictReader(done.stdout.splitlines())]


def submit(machine: Machine, name: str, *words: str, cpu: str = "1") -> None:
    done = machine.run("run", "--detach", "-q", "team-a", "--cpu", cpu, "--name", name, "--", *words)
    assert done.returncode == 0, done.stderr


def test_jobs_from_their_submission_to_their_record(machine: Machine) -> None:
    submit(machine, "runs", "sleep", "600")
    submit(machine, "waits", "true", cpu="64")
    submit(machine, "fails", "sh", "-c", "exit 3")
    assert soon(lambda: {row["NAME"]: row["STATE"] for row in rows(machine)} == {"runs": "RUNNING", "waits": "PENDING"})
    waits = rows(machine, "-l", "kueue.x-k8s.io/queue-name=team-a", "-q", "team-a", "--mine")[1]
    assert waits["REASON"] == "can never start: asks for 64 cpu, this queue can have 4 at most"
    assert (waits["OWNER"], waits["PLACE"], waits["USES"]) == ("admin", "1", "cpu=64")
    assert rows(machine, "-q", "team-b") == []
    done = machine.run("jobs", "-q", "team-c")
    unknown = "--queue: no LocalQueue 'team-c' in namespace default; use one of: team-a, team-b\n"
    assert (done.returncode, done.stderr) == (1, unknown)
    table = machine.run("jobs", "-A").stdout.splitlines()
    assert table[0].split() == ["NAME", "QUEUE", "OWNER", "STATE", "USES", "SINCE", "LEFT", "PLACE", "REASON"]
    assert table[1].split()[:5] == ["default/runs", "team-a", "admin", "RUNNING", "1"]
    items = json.loads(machine.run("jobs", "-o", "json").stdout)["items"]
    assert [one["name"] for one in items] == ["runs", "waits"]
    assert machine.run("jobs", "-o", "name").stdout == "job.batch/runs\njob.batch/waits\n"
    assert soon(lambda: [row["EXIT_CODE"] for row in rows(machine, "--finished")] == ["3"])
    # The record outlives the Job; one that is deleted is cancelled; kill -9 loses nothing.
    machine.kubectl("delete", "job", "fails", "waits")
    os.kill(machine.pid, signal.SIGKILL)
    machine.up()
    assert soon(lambda: len(rows(machine, "--finished")) == 2)
    states = {row["NAME"]: row["STATE"] for row in rows(machine, "--finished")}
    assert states == {"fails": "FAILED", "waits": "CANCELLED"}
    assert [row["NAME"] for row in rows(machine)] == ["runs"]


def on_a_terminal(machine: Machine, *words: str, **environment: str) -> bytes:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(machine.command(*words), env=machine.environment | environment, stdout=theirs) as process:
        os.close(theirs)
        printed = b""
        # At the end of the other side, reading fails.
        with contextlib.suppress(OSError):
            while block := os.read(ours, 1 << 16):
                printed += block
    os.close(ours)
    assert process.returncode == 0
    return printed


def test_colours_are_for_terminals_alone_and_can_be_turned_off(machine: Machine) -> None:
    submit(machine, "coloured", "sleep", "600")
    assert soon(lambda: [row["STATE"] for row in rows(machine) if row["NAME"] == "coloured"] == ["RUNNING"])
    assert b"\x1b[32mRUNNING\x1b[0m" in on_a_terminal(machine, "jobs")
    for words in (("jobs",), ("jobs", "-o", "wide"), ("top", "--once"), ("status",)):
        assert b"\x1b" not in on_a_terminal(machine, *words, NO_COLOR="1"), words
        assert "\x1b" not in machine.run(*words).stdout, words
    assert machine.run("cancel", "coloured").returncode == 0


def test_a_watch_in_a_pipe_prints_what_changes_and_survives_a_restart(machine: Machine, tmp_path: Path) -> None:
    submit(machine, "long", "sleep", "600")
    out, err = tmp_path / "out", tmp_path / "err"
    command = machine.command("jobs", "--watch", "-o", "csv", "--no-headers")
    with (
        out.open("wb") as stdout,
        err.open("wb") as stderr,
        subprocess.Popen(command, env=machine.environment, stdout=stdout, stderr=stderr) as watching,
    ):
        try:
            assert soon(lambda: "default,long,team-a,admin," in out.read_text())
            machine.run("down")
            assert soon(lambda: f"pykueue: {GONE}" in err.read_text())
            machine.up()
            assert soon(lambda: f"pykueue: {BACK}" in err.read_text())
            assert machine.run("run", "-q", "team-b", "--name", "short", "--", "sleep", "4").returncode == 0
            assert soon(lambda: "default,short,team-b,admin,RUNNING," in out.read_text())
            assert soon(lambda: "default,short,team-b,admin,COMPLETED," in out.read_text()), out.read_text()
        finally:
            watching.send_signal(signal.SIGINT)
        assert watching.wait(SOON) == 0


def test_a_server_that_does_not_run(tmp_path: Path) -> None:
    with machine_in(tmp_path) as nowhere:
        done = nowhere.run("jobs")
    assert done.returncode == 2
    assert "no server found" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--finished", "--watch"], "--finished cannot be combined with --watch."),
        (["--finished", "-l", "a=b"], "--finished cannot be combined with --selector."),
        (["-o", "xml"], "is not one of"),
    ],
)
def test_what_cannot_be_asked(words: list[str], says: str) -> None:
    done = CliRunner().invoke(cli, ["jobs", *words])
    assert done.exit_code == 2
    assert says in done.output


def test_squeue_is_another_name_and_help_imports_little() -> None:
    shown = CliRunner().invoke(cli, ["squeue", "--help"])
    assert shown.exit_code == 0
    assert "pykueue jobs --mine --watch" in shown.output
    code = "import sys; from pykueue.cli.commands import jobs; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.split()
    assert not {"aiohttp", "pykueue.kube.client.http", "yaml"} & {*loaded}
