"""Can a person read, stop, hold and wait for jobs without kubectl? Real servers, with real processes."""

import csv
import io
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from pykueue.api.core import Tree
from pykueue.cli.jobs.chosen import Named, named
from pykueue.cli.jobs.verbs import VERBS, cancelled, deactivated, done_to_jobs, is_deactivated
from pykueue.cli.main import cli
from pykueue.kube.port import JOBS, DeniedError, Kube, NotFoundError, Resource
from tests.cli.machine import Machine, machine_in
from tests.clocks import SkippingClock
from tests.patience import soon

INDEXED = """
apiVersion: batch/v1
kind: Job
metadata: {name: sweep, labels: {kueue.x-k8s.io/queue-name: team-a, sweep: "7"}}
spec:
  completions: 3
  parallelism: 3
  completionMode: Indexed
  backoffLimitPerIndex: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: none
        command: [sh, -c, "echo index $JOB_COMPLETION_INDEX; exit $((JOB_COMPLETION_INDEX * 2))"]
        resources: {requests: {cpu: 100m}}
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A server that tests share which leave it as it is."""
    folder = tmp_path_factory.mktemp("running")
    (folder / "sweep.yaml").write_text(INDEXED)
    with machine_in(folder) as made:
        made.up("--apply", str(folder / "sweep.yaml"))
        yield made


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        pytest.param("Deactivated", "is deactivated: spec.active of its Workload is false; ", id="by anybody"),
        pytest.param("DeactivatedDueToX", "is deactivated: exceeded the maximum number of retries; ", id="by Kueue"),
    ],
)
def test_a_job_that_was_deactivated_says_by_what_as_far_as_it_is_known(reason: str, says: str) -> None:
    message = "exceeded the maximum number of retries"
    evicted = {"type": "Evicted", "status": "True", "reason": reason, "message": message}
    workload = {"metadata": {"name": "w"}, "spec": {"active": False}, "status": {"conditions": [evicted]}}
    assert is_deactivated(workload)
    assert deactivated(workload).text.startswith(says)
    assert "`pykueue resume workload w`" in deactivated(workload).text


def detached(machine: Machine, name: str, script: str, *flags: str) -> None:
    done = machine.run("run", "-q", "team-a", "--name", name, *flags, "--detach", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr


def told(done: "subprocess.CompletedProcess[str]") -> list[str]:
    return [line.removeprefix("pykueue: ") for line in done.stderr.splitlines()]


def test_the_output_of_a_job_is_printed_while_it_runs_and_after(running: Machine, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo one; echo two; echo wrong >&2; until test -e {go}; do sleep 0.05; done; printf three; exit 3"
    detached(running, "prints", script)
    assert soon(lambda: running.run("logs", "prints").stdout == "one\ntwo\n")
    assert running.run("logs", "--tail", "1", "prints").stderr == "wrong\n"
    assert running.run("logs", "--tail", "2", "prints").stdout == "two\n"
    following = running.start("logs", "-f", "prints")
    attached = running.start("attach", "prints")
    go.touch()
    assert following.communicate(timeout=60)[0] == "one\ntwo\nthree"
    assert following.returncode == 0, "the output was shown, whatever the job's exit code"
    assert attached.communicate(timeout=60)[0] == "one\ntwo\nthree"
    assert attached.returncode == 3
    again = running.run("attach", "prints")
    assert (again.returncode, again.stdout) == (3, "one\ntwo\nthree")
    waited = running.run("wait", "prints")
    assert waited.returncode == 3
    assert told(waited) == ["job default/prints failed with exit code 3: Job has reached the specified backoff limit"]


def test_each_index_has_its_own_output_and_exit_code(running: Machine) -> None:
    done = running.run("wait", "sweep")
    assert done.returncode == 4, "the exit code of the last index that failed"
    done = running.run("logs", "job/sweep")
    assert done.stdout == "index 0\nindex 1\nindex 2\n"
    assert [line.rpartition(", ")[2] for line in told(done)] == ["index 0:", "index 1:", "index 2:"]
    assert running.run("logs", "sweep:1").stdout == running.run("logs", "-l", "sweep=7", "--index", "1").stdout
    assert running.run("wait", "sweep:0").returncode == 0
    assert running.run("wait", "sweep", "--index", "1").returncode == 2
    assert told(running.run("logs", "sweep:3")) == ["job default/sweep has no index 3; use 0 to 2"]


def test_a_job_is_held_released_requeued_and_cancelled(running: Machine, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    detached(running, "again", f"echo x >> {starts}; sleep 600")

    def started(times: int) -> bool:
        return soon(lambda: starts.exists() and starts.read_text() == "x\n" * times)

    assert started(1)
    assert told(running.run("hold", "again")) == ["job default/again held; it was running and is being stopped"]
    assert told(running.run("requeue", "again")) == ["job default/again is held; use `pykueue release again`"]
    held = "default/again in team-a: held by its owner; `pykueue release` queues it again"
    assert soon(lambda: held in " ".join(running.run("status").stdout.split()))
    done = running.run("release", "again")
    assert (done.returncode, told(done)[0].startswith("job default/again released")) == (0, True), done.stderr
    assert started(2)
    done = running.run("requeue", "again")
    assert (done.returncode, told(done)) == (0, ["job default/again requeued"])
    assert started(3)
    assert told(running.run("release", "again")) == ["job default/again is not held"]
    waiting = running.start("wait", "again", "--timeout", "10m")
    first, never = running.start("wait", "again", "sweep", "--any"), running.run("wait", "again", "--timeout", "100ms")
    assert first.wait(60) == 4
    first.communicate()
    assert never.returncode == 124
    done = running.run("cancel", "again", "xyzzy", "sweep")
    assert done.returncode == 1
    assert told(done) == [
        "no job 'xyzzy' in namespace default; `pykueue jobs` lists them",
        "job default/again cancelled",
        "job default/sweep has already ended",
    ]
    assert waiting.communicate(timeout=60)[1].endswith("pykueue: job default/again was deleted\n")
    assert waiting.returncode == 1
    assert running.run("cancel", "--all").returncode == 0


@pytest.mark.parametrize("verb", ["hold", "cancel"])
def test_no_pending_job_starts_while_several_are_held_or_cancelled(running: Machine, tmp_path: Path, verb: str) -> None:
    starts = tmp_path / "starts"
    for number in range(6):
        script = f"echo {number} >> {starts}; exec sleep 600"
        detached(running, f"{verb}-{number}", script, "--cpu", "4", "--label", f"many={verb}")
    assert soon(starts.exists)
    done = running.run(verb, "-l", f"many={verb}")
    assert (done.returncode, len(told(done))) == (0, 6), done.stderr
    assert soon(lambda: "RUNNING" not in running.run("jobs").stdout)
    assert starts.read_text() == "0\n"
    assert running.run("cancel", "--all").returncode == 0


def test_a_job_stops_until_its_processes_have_ended_and_its_output_is_gone(running: Machine, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"trap '' TERM; echo ready; until test -e {go}; do sleep 0.05; done"

    def state(name: str) -> str:
        rows = csv.DictReader(io.StringIO(running.run("jobs", "-o", "csv").stdout))
        return next((row["STATE"] for row in rows if row["NAME"] == name), "")

    def printed(name: str) -> bool:
        return running.run("logs", name).stdout == "ready\n"

    for name in ("kept", "stopped"):
        detached(running, name, script)
        assert soon(partial(printed, name))
    assert running.run("hold", "kept").returncode == 0
    assert running.run("cancel", "stopped").returncode == 0
    assert (state("kept"), state("stopped")) == ("STOPPING", "STOPPING")
    assert "was already cancelled; its processes have not ended yet" in running.run("cancel", "stopped").stderr
    done = running.run("run", "-q", "team-a", "--name", "stopped", "--detach", "--", "true")
    assert "is being deleted, and its processes have not ended yet; wait, or use another name" in done.stderr
    go.touch()
    assert soon(lambda: (state("kept"), state("stopped")) == ("HELD", ""))
    done = running.run("logs", "kept")
    assert (done.returncode, "default/kept: it was held at 20" in done.stderr) == (1, True), done.stderr
    gone = "no job 'stopped' in namespace default: it was cancelled at 20"
    assert soon(lambda: gone in running.run("logs", "stopped").stderr)
    assert running.run("cancel", "kept").returncode == 0


def test_the_output_of_a_job_that_reached_its_time_limit_is_gone(running: Machine) -> None:
    done = running.run("run", "-q", "team-a", "--name", "slow", "--timeout", "1s", "--", "sleep", "600")
    assert done.returncode == running.run("wait", "slow").returncode == 124, done.stderr
    done = running.run("logs", "slow")
    assert (done.returncode, "default/slow: it reached its time limit at 20" in done.stderr) == (1, True), done.stderr


def test_what_cannot_be_done_is_said(running: Machine) -> None:
    done = running.run("attach", "sweap")
    assert (done.returncode, told(done)) == (1, ["no job 'sweap' in namespace default; did you mean sweep?"])
    done = running.run("hold", "sweep")
    assert (done.returncode, told(done)) == (1, ["job default/sweep has already ended"])
    done = running.run("logs", "-l", "sweep=8")
    assert (done.returncode, told(done)) == (1, ["no job in namespace default has the labels sweep=8"])
    detached(running, "later", "true", "--cpu", "100")
    done = running.run("logs", "later")
    assert (done.returncode, "job default/later has not started" in done.stderr) == (0, True)
    done = running.run("requeue", "later")
    assert (done.returncode, told(done)) == (0, ["job default/later is already pending"])
    running.run("cancel", "later")


def test_a_restart_of_the_server_interrupts_neither_attach_nor_wait(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with machine_in(tmp_path) as machine:
        machine.up()
        detached(machine, "long", f"echo before; until test -e {go}; do sleep 0.05; done; echo after; exit 5")
        attached, waiting = machine.start("attach", "long"), machine.start("wait", "long")
        assert attached.stdout is not None
        assert attached.stdout.readline() == "before\n"
        pid = machine.pid
        os.kill(pid, signal.SIGKILL)
        assert soon(lambda: not Path(f"/proc/{pid}/exe").exists())
        go.touch()
        machine.up()
        assert (attached.communicate(timeout=60)[0], attached.returncode) == ("after\n", 5)
        said = waiting.communicate(timeout=60)[1]
        assert waiting.returncode == 5, said


def test_ctrl_c_detaches_and_leaves_the_job_running(running: Machine) -> None:
    detached(running, "stays", "echo ready; sleep 600")
    attached = running.start("attach", "stays")
    assert attached.stdout is not None
    assert attached.stdout.readline() == "ready\n"
    attached.send_signal(signal.SIGINT)
    said = attached.communicate(timeout=60)[1]
    assert attached.returncode == 130
    assert "detached: job default/stays continues; to follow it again: pykueue attach --data" in said
    done = running.run("cancel", "stays")
    assert told(done) == ["job default/stays cancelled"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["cancel"], "specify a job, or select jobs by label with -l", id="nothing is named"),
        pytest.param(["logs", "a", "-l", "x=1"], "--selector: cannot be combined with names", id="both"),
        pytest.param(["cancel", "--all", "a"], "--all: cannot be combined", id="all, and a name"),
        pytest.param(["cancel", "a:3"], "a:3: one index of a job cannot be cancelled", id="one index"),
        pytest.param(["hold", "a:3"], "a:3: all indexes of a job are admitted together", id="an index to hold"),
        pytest.param(
            ["wait", "a:x"], "'a:x': 'x' is not the number of a task; use a whole number, e.g. a:1", id="no number"
        ),
        pytest.param(["wait", "a:1", "--index", "2"], "differs from --index 2", id="two indexes"),
        pytest.param(["wait", "a", "--timeout", "10"], "--timeout: '10' has no unit; write 10s", id="no unit"),
        pytest.param(["attach", ":1"], "':1' is not the name of a job", id="no name"),
    ],
)
def test_bad_input_is_answered_before_anybody_is_asked(words: list[str], says: str) -> None:
    found = CliRunner().invoke(cli, words)
    assert found.exit_code == 2
    assert says in found.stderr


def test_names_are_read_as_kubectl_prints_them() -> None:
    assert named("job.batch/train") == Named("train")
    assert named("train:07") == Named("train", 7)


class Stub:
    """A server with one Job, whose user may do little."""

    def __init__(self, *, workload: Tree | None, denied: str = "") -> None:
        metadata = {"name": "train", "namespace": "lab", "uid": "u-1", "annotations": {"pykueue.io/created-by": "bob"}}
        self.job: Tree = {"metadata": metadata, "spec": {"suspend": True}}  # type: ignore[dict-item]  # decoded JSON
        self.workload = workload
        self.denied = denied
        self.deleted: list[str] = []

    async def get(self, _resource: Resource, name: str, _namespace: str = "") -> bytes:
        if name != "train":
            raise NotFoundError("get", 404, "NotFound", "not found")
        return msgspec.json.encode(self.job)

    async def pages(self, resource: Resource, _namespace: str = "", **_selectors: str) -> AsyncIterator[bytes]:
        if resource == JOBS:
            yield msgspec.json.encode({"items": [self.job]})
        elif self.denied == "workloads":
            raise DeniedError("list", 403, "Forbidden", "may not list workloads")
        else:
            yield msgspec.json.encode({"items": [] if self.workload is None else [self.workload]})

    async def patch(self, *_args: Any, **_how: Any) -> bytes:
        if self.denied == "jobs":
            raise DeniedError("patch", 403, "Forbidden", 'it was created by "alice"')
        return b"{}"

    async def create(self, _resource: Resource, _body: bytes, _namespace: str = "") -> bytes:
        return b'{"status": {"userInfo": {"username": "alice"}}}'

    async def delete(self, _resource: Resource, name: str, _namespace: str = "", **_how: Any) -> None:
        self.deleted.append(name)


WORKLOAD: Tree = {"metadata": {"labels": {"kueue.x-k8s.io/job-uid": "u-1"}}, "spec": {"active": True}}


@pytest.mark.parametrize(
    ("stub", "code", "says"),
    [
        pytest.param(
            Stub(workload=WORKLOAD, denied="jobs"), 1, 'job lab/train: it was created by "alice"', id="another's job"
        ),
        pytest.param(
            Stub(workload=WORKLOAD, denied="workloads"), 0, "you may not read Workloads", id="a user with few rights"
        ),
        pytest.param(Stub(workload=WORKLOAD), 1, "and Kueue ignores the annotation pykueue.io/hold", id="Kueue"),
        pytest.param(Stub(workload=None), 1, "has no Workload after 10 s: it is not queued", id="not queued"),
    ],
)
async def test_a_hold_without_an_effect_is_said(
    stub: Any, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await done_to_jobs(stub, VERBS["hold"], "lab", [Named("train")], None, SkippingClock()) == code
    assert says in capsys.readouterr().err


async def test_cancelling_all_leaves_the_jobs_of_others_alone(capsys: pytest.CaptureFixture[str]) -> None:
    stub: Any = Stub(workload=None)
    kube: Kube = stub
    assert await cancelled(kube, "lab", (), None) == 0
    assert stub.deleted == []
    assert "nothing to cancel" in capsys.readouterr().err
