"""What does `pykueue run` tell about the job that it follows? A real server, with real processes."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pykueue.api.core import Tree
from pykueue.cli.follow import output
from pykueue.cli.follow.job import Following
from pykueue.cli.jobend import killed
from pykueue.cli.run.submission import next_name
from pykueue.cli.target import Target
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, Fixed
from pykueue.kube.port import JOBS, UnansweredError
from pykueue.node.attempts import folder_of, key_of, numbers, pods, read_attempt
from tests.cli.machine import Machine, machine_in
from tests.clocks import SkippingClock
from tests.fakes.tinyapi import TinyApi, status
from tests.patience import soon

QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %s, namespace: %s}
spec: {clusterQueue: team-a}
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A server that tests share which leave it as it is."""
    with machine_in(tmp_path_factory.mktemp("running")) as made:
        made.up()
        yield made


@pytest.mark.parametrize(
    ("name", "following"),
    [
        ("train", "train-2"),
        ("train-2", "train-3"),
        ("train-09", "train-10"),
        ("x" * 63, "x" * 61 + "-2"),
        ("7", "7-2"),
    ],
)
def test_the_next_name(name: str, following: str) -> None:
    assert next_name(name) == following


def test_a_process_that_was_killed_is_told_by_its_signal() -> None:
    assert killed({"exitCode": 139, "signal": 11}) == "the command was killed by signal 11 (SIGSEGV)"
    assert killed({"exitCode": 139, "signal": 99}) == "the command was killed by signal 99"
    assert "exceeded its memory limit" in killed({"exitCode": 137, "signal": 9, "reason": "OOMKilled"})
    assert killed({"exitCode": 1}) == ""


def test_a_name_that_is_taken_is_answered_with_the_next_free_one(running: Machine) -> None:
    for name in ("train", "train-2"):
        assert running.run("run", "-q", "team-a", "--name", name, "--", "true").returncode == 0
    done = running.run("run", "-q", "team-a", "--name", "train", "--", "true")
    assert done.returncode == 2
    assert "--name: job default/train already exists and has ended; use another name, e.g. train-3" in done.stderr
    command = done.stderr.partition("or delete it with its output: pykueue ")[2].split()
    assert command[0] == "cancel", done.stderr
    assert "job default/train deleted, with its output" in running.run("cancel", "--ended", "train").stderr
    assert soon(lambda: running.run("run", "-q", "team-a", "--name", "train", "--", "true").returncode == 0)


def test_the_queue_may_be_omitted_where_there_is_no_choice(running: Machine, tmp_path: Path) -> None:
    done = running.run("run", "--", "true")
    assert done.returncode == 2
    assert "--queue: choose the queue to submit to with -q QUEUE; use one of: team-a, team-b" in done.stderr
    running.kubectl("create", "namespace", "lab")
    file = tmp_path / "queue.yaml"
    for name, queue in (("only", "only"), ("default", "default")):
        file.write_text(QUEUE % (name, "lab"))
        running.kubectl("apply", "-f", str(file))
        done = running.run("run", "-n", "lab", "--", "true")
        assert done.returncode == 0, done.stderr
        assert f"submitted to queue {queue}\n" in done.stderr


def test_the_command_has_the_umask_and_shell_of_the_terminal_and_no_input(running: Machine) -> None:
    script = "umask; echo $SHELL $PYTHONUNBUFFERED; cat"
    words = running.command("run", "-q", "team-a", "--", "sh", "-c", script)
    done = subprocess.run(
        ["sh", "-c", 'umask 0002; exec "$@"', "sh", *words],
        env={**running.environment, "SHELL": "/bin/my-shell"},
        input="unread",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "0002\n/bin/my-shell 1\n"), done.stderr
    assert "pykueue: standard input is not passed to the command; redirect inside the command, sh" in done.stderr
    assert "standard input" not in running.run("run", "-q", "team-a", "--", "true").stderr


def test_a_command_that_a_signal_ended_is_told(running: Machine) -> None:
    done = running.run("run", "-q", "team-a", "--", "sh", "-c", "kill -SEGV $$")
    assert done.returncode == 139
    assert "the command was killed by signal 11 (SIGSEGV)" in done.stderr


@pytest.mark.slow("waits for the delay before the next attempt")
def test_a_command_is_tried_again_as_often_as_asked(running: Machine, tmp_path: Path) -> None:
    script = f"echo x >> {tmp_path}/tries; exit $(wc -l < {tmp_path}/tries)"
    done = running.run("run", "-q", "team-a", "--retries", "1", "--", "sh", "-c", script, timeout=120)
    assert done.returncode == 2, "the exit code is that of the last attempt"
    assert (tmp_path / "tries").read_text() == "x\nx\n"
    assert done.stderr.count("attempt 1 of 2 failed with exit code 1; the next one starts after a delay") == 1


def test_a_job_that_borrows_is_said_to_be_preemptible(running: Machine, tmp_path: Path) -> None:
    script = f"until test -e {tmp_path}/told; do sleep 0.1; done"
    borrower = running.start("run", "-q", "team-a", "--cpu", "3", "--", "sh", "-c", script)
    assert borrower.stderr is not None
    lines = [borrower.stderr.readline() for _ in range(3)]
    (tmp_path / "told").touch()
    assert borrower.wait(60) == 0
    borrower.communicate()
    assert lines[-1] == (
        "pykueue: ClusterQueue team-a borrows 1 cpu: the job may be preempted when the owner of this quota needs it\n"
    )


SAMPLE = """
apiVersion: batch/v1
kind: Job
metadata: {name: sample, labels: {kueue.x-k8s.io/queue-name: team-b}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "registry.k8s.io/e2e-test-images/agnhost:2.53", args: [pause]}
"""


def test_a_job_whose_containers_cannot_start_counts_as_failing(running: Machine, tmp_path: Path) -> None:
    file = tmp_path / "sample.yaml"
    file.write_text(SAMPLE)
    assert "FAILING" not in running.run("status").stdout
    running.kubectl("apply", "-f", str(file))
    says = "default/sample in team-b: CreateContainerError: no command specified: local pods run as processes"
    assert soon(lambda: says in running.run("status").stdout)
    # The status of the queue counts the job a second later.
    pattern = r"QUEUE +COHORT .* RUNNING +FAILING +PENDING\n(?:.*\n)*team-b .* 0 +1 +0\n"
    assert soon(lambda: re.search(pattern, running.run("status").stdout) is not None)
    running.kubectl("delete", "-f", str(file))


@pytest.mark.slow("waits for the delay before the next attempt")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_job_whose_machine_went_down_runs_again_unless_it_must_not(tmp_path: Path, number: signal.Signals) -> None:
    with machine_in(tmp_path) as machine:
        machine.up()
        for name, *flags in (("again",), ("once", "--no-requeue")):
            script = f"echo x >> {tmp_path}/{name}; test $(wc -l < {tmp_path}/{name}) = 2 || sleep 600"
            words = ("--detach", "--name", name, *flags, "--", "sh", "-c", script)
            assert machine.run("run", "-q", "team-a", *words).returncode == 0
        assert soon(lambda: all((tmp_path / name).exists() for name in ("again", "once")))
        machine.run("down")
        # What a machine that goes down does to the processes: they are told to end, or just end.
        folder = folder_of(machine.data)
        for uid in pods(folder):
            for attempt in numbers(folder, uid, "main"):
                record = read_attempt(folder, key_of(uid, "main", attempt))
                assert record is not None
                os.kill(record.supervisor.pid, number)
        machine.up()
        wait = ("wait", "--timeout=80s", "job/again", "--for=condition=Complete")
        assert "condition met" in machine.kubectl(*wait)
        assert (tmp_path / "again").read_text() == "x\nx\n"
        assert "condition met" in machine.kubectl("wait", "--timeout=80s", "job/once", "--for=condition=Failed")
        assert (tmp_path / "once").read_text() == "x\n"


SCRIPT = """#!/bin/sh
#SBATCH --job-name=sweep --partition=team-a
#SBATCH --array=1-3%%2 --cpus-per-task=1 --time=10 --mail-type=END
echo "$SLURM_ARRAY_TASK_ID $PYKUEUE_ARRAY_TASK_ID $SLURM_CPUS_PER_TASK $SLURM_SUBMIT_DIR $1" > %s/$SLURM_JOB_ID
test $SLURM_ARRAY_TASK_ID != 2
"""


def test_a_script_for_slurm_runs_as_an_array(running: Machine, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    file = tmp_path / "sweep.sh"
    file.write_text(SCRIPT % results)
    done = running.run("run", str(file), "x")
    assert done.returncode == 1
    assert f"{file}:3: #SBATCH: --mail-type is ignored: mail is not sent\n" in done.stderr
    assert "pykueue: 1 of 3 tasks failed: 2\n" in done.stderr
    assert re.search(r"to read the output of task 2: pykueue logs .*-n default sweep-\w+:2\n", done.stderr)
    assert sorted(one.read_text() for one in results.iterdir()) == [f"{n} {n} 1 {Path.cwd()} x\n" for n in (1, 2, 3)]
    done = running.run("run", "--array", "0-1", "-q", "team-a", "--", "sh", "-c", "exit $PYKUEUE_ARRAY_TASK_ID")
    assert done.returncode == 1
    assert "pykueue: 1 of 2 tasks failed: 1\n" in done.stderr
    done = running.run("run", "--array", "0-1", "-q", "team-a", "--", "true")
    assert (done.returncode, done.stdout) == (0, "")
    assert "pykueue: all 2 tasks succeeded\n" in done.stderr


def test_a_job_starts_after_others_and_not_before_its_time(running: Machine, tmp_path: Path) -> None:
    go, log = tmp_path / "go", tmp_path / "log"
    first = f"until test -e {go}; do sleep 0.1; done; echo first >> {log}; exit 1"
    words = ("run", "-q", "team-b", "--detach", "--name")
    assert running.run(*words, "first", "--", "sh", "-c", first).returncode == 0
    after = running.start("run", "-q", "team-b", "--after", "first", "--", "sh", "-c", f"echo second >> {log}")
    never = running.start("run", "-q", "team-b", "--after-ok", "first", "--name", "never", "--", "touch", str(log))
    assert after.stderr is not None
    assert never.stderr is not None
    assert [after.stderr.readline() for _ in range(3)][2] == "pykueue: pending: waits for job first to end\n"
    assert [never.stderr.readline() for _ in range(3)][2] == "pykueue: pending: waits for job first to succeed\n"
    go.touch()
    assert after.wait(60) == 0
    assert log.read_text() == "first\nsecond\n"
    assert never.stderr.readline() == "pykueue: can never start: job first failed\n"
    never.send_signal(signal.SIGINT)
    assert never.wait(60) == 130
    for one in (after, never):
        one.communicate()
    done = running.run("run", "-q", "team-b", "--begin", "now+1second", "--", "true")
    assert done.returncode == 0
    assert "Admission is gated" not in done.stderr
    done = running.run("run", "-q", "team-b", "--after", "nobody", "--", "true")
    assert done.returncode == 2
    assert "--after: no Job 'nobody' in namespace default; specify a Job that was submitted before" in done.stderr


def test_after_ctrl_c_the_job_is_deleted_even_if_the_terminal_is_closed(running: Machine) -> None:
    process = running.start("run", "-q", "team-a", "--name", "left", "--", "sh", "-c", "echo ready; sleep 600")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    words = "pykueue: deleting job default/left, even if this terminal is closed; press Ctrl-C again to keep it\n"
    assert words in iter(process.stderr.readline, "")
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=60)[1] == "pykueue: job default/left deleted\n"
    assert process.returncode == 130


class Unanswering:
    """A server that does not respond for a while."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def get(self, *_: object) -> bytes:
        self.left -= 1
        if self.left >= 0:
            raise UnansweredError("get jobs.batch default/train", 0, "ConnectionLost", "refused")
        return b"{}"


@pytest.mark.parametrize(
    ("times", "said"),
    [
        pytest.param(3, "", id="a restart"),
        pytest.param(
            30,
            "pykueue: waiting for the server: https://127.0.0.1:1: get jobs.batch default/train: refused\n"
            "pykueue: the server responds again\n",
            id="longer",
        ),
    ],
)
async def test_a_server_that_does_not_respond_is_told_once(
    times: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    following: Any = Following(
        Target(Connection("https://127.0.0.1:1", Fixed(Credential())), "", ()), "default", command="run"
    )
    following.kube, following.clock = Unanswering(times), SkippingClock()
    await following.report_silence()
    assert capsys.readouterr().err == said


def test_a_job_that_takes_the_name_of_ours_is_another() -> None:
    target = Target(Connection("https://127.0.0.1:1", Fixed(Credential())), "", ())
    following = Following(target, "default", command="run")
    following.name, following.uid = "train", "1"
    ours: Tree = {"metadata": {"name": "train", "uid": "1"}}
    following.learn(JOBS, {"type": "ADDED", "object": ours})
    assert (following.job(), following.gone) == (ours, False)
    following.learn(JOBS, {"type": "DELETED", "object": ours})
    another: Tree = {"metadata": {"name": "train", "uid": "2"}}
    following.learn(JOBS, {"type": "ADDED", "object": another})
    assert (following.job(), following.gone) == (None, True)


JOB: Tree = {"metadata": {"name": "train", "namespace": "default", "uid": "u"}}
POD: Tree = {
    "metadata": {"name": "train-1", "namespace": "default", "uid": "p"},
    "spec": {"containers": [{"name": "main"}]},
    "status": {"phase": "Running"},
}


async def followed(api: TinyApi, job: Tree, *, judges: bool = True) -> int:
    """The exit code of following a Job of this server, which runs in a pod."""
    await api.put("jobs", dict(job))
    await api.put("pods", dict(POD))
    following = Following(Target(api.connection(), "", ("f",)), "default", command="run", judges=judges)

    async def start(_kube: object) -> Tree:
        return job

    return await following.run(start, failing=2)


@pytest.mark.parametrize("judges", [True, False])
async def test_a_log_that_cannot_be_served_ends_the_following_after_a_while(
    judges: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "PATIENCE", 100_000)

    async def answer(request: web.Request) -> web.Response | None:
        return status(502, "BadGateway", "dial tcp: i/o timeout") if request.path.endswith("/log") else None

    async with TinyApi().serve() as api:
        api.accident = answer
        assert await followed(api, JOB, judges=judges) == 1
    told = capfd.readouterr().err
    assert "the server cannot send the output, retrying: read the log of pod default/train-1" in told
    again = "job default/train continues; to follow it again: pykueue attach --kubeconfig"
    assert (again in told) is judges


@pytest.mark.parametrize("judges", [True, False])
async def test_who_may_not_read_pods_sees_how_a_job_ends(judges: bool, capfd: pytest.CaptureFixture[str]) -> None:
    said = 'pods is forbidden: User "ann" cannot watch resource "pods"'

    async def answer(request: web.Request) -> web.Response | None:
        return status(403, "Forbidden", said) if request.path.endswith("/pods") else None

    ended: Tree = {"conditions": [{"type": "Failed", "status": "True", "message": "it took too long"}]}
    async with TinyApi().serve() as api:
        api.accident = answer
        assert await followed(api, {**JOB, "status": ended}, judges=judges) == 1
    told = capfd.readouterr().err
    assert said in told
    assert ("the output and the exit code are omitted" in told) is judges
    assert ("failed: it took too long" in told) is judges
