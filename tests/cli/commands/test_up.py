"""Does `pykueue up` serve a machine? Real processes, real HTTP; each test has a folder of its own."""

import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.machine import SOON, Machine, machine_in
from tests.kueueconfig import SHIPPED
from tests.patience import soon


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_in(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A server that tests share which leave it as it is."""
    with machine_in(tmp_path_factory.mktemp("running")) as made:
        made.said = made.up().stdout
        yield made


def test_it_says_what_to_type_next_and_a_second_one_says_that_it_runs(running: Machine) -> None:
    said = running.said
    assert f"export KUBECONFIG={running.data}/kubeconfig" in said
    assert f"pykueue run --data {running.data} -q team-a --cpu 1 -- echo hello" in said
    assert f"pykueue status --data {running.data}\n" in said
    assert f"To stop: `pykueue down --data {running.data}`" in said
    assert (running.data / "kubeconfig").stat().st_mode & 0o777 == 0o600
    assert running.data.stat().st_mode & 0o777 == 0o700
    again = running.run("up", "--port", "0")
    assert again.returncode == 1
    assert "a server is already running" in again.stderr
    assert f"stop it with `pykueue down --data {running.data}`" in again.stderr


def test_a_command_is_run_with_its_output_and_code(running: Machine) -> None:
    done = running.run("run", "-q", "team-a", "--env", "WORD=hello", "--", "sh", "-c", 'echo "$WORD $0"; exit 7', "$5")
    assert (done.returncode, done.stdout) == (7, "hello $5\n")
    assert "submitted to queue team-a" in done.stderr


def test_why_it_waits_is_said_and_ctrl_c_deletes_it(running: Machine) -> None:
    waiting = running.start("run", "-q", "team-a", "--cpu", "64", "--name", "huge", "--", "true")
    assert waiting.stderr is not None
    lines = [waiting.stderr.readline() for _ in range(3)]
    assert f"submitting to https://127.0.0.1:{running.port} (the local server of {running.data})" in lines[0]
    assert "submitted to queue team-a" in lines[1]
    assert lines[2] == "pykueue: can never start: asks for 64 cpu, this queue can have 4 at most\n"
    shown = running.run("status").stdout
    assert "default/huge in team-a: " in shown
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(SOON) == 130
    assert waiting.communicate()[1].splitlines() == [
        "pykueue: deleting job default/huge, even if this terminal is closed; press Ctrl-C again to keep it",
        "pykueue: job default/huge deleted",
    ]
    assert soon(lambda: "job.batch/huge" not in running.kubectl("get", "jobs", "-o", "name"))


CAPACITY_CHECK = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ProvisioningRequestConfig
metadata: {name: slow}
spec: {provisioningClassName: scripted.pykueue.io, parameters: {delaySeconds: "2"}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: slow}
spec:
  controllerName: kueue.x-k8s.io/provisioning-request
  parameters: {apiGroup: kueue.x-k8s.io, kind: ProvisioningRequestConfig, name: slow}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: slow}
spec:
  namespaceSelector: {}
  admissionChecksStrategy: {admissionChecks: [{name: slow}]}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors: [{name: machine, resources: [{name: cpu, nominalQuota: 1}, {name: memory, nominalQuota: 1Gi}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: slow, namespace: default}
spec: {clusterQueue: slow}
"""


def test_what_a_check_waits_for_is_said(running: Machine, tmp_path: Path) -> None:
    file = tmp_path / "check.yaml"
    file.write_text(CAPACITY_CHECK)
    running.kubectl("apply", "-f", str(file))
    done = running.run("run", "-q", "slow", "--", "echo", "hello")
    running.kubectl("delete", "-f", str(file), "--wait=false")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "waiting for admission checks: slow: ETA 2 s\npykueue: running\n" in done.stderr


def test_more_than_the_machine_has_is_said_so(running: Machine) -> None:
    # The tests' server offers 4 cores.
    cores = len(os.sched_getaffinity(0))
    note = f"Note: --cpus sets 4 cpu, more than the {cores} of this machine; jobs will share them."
    assert (note in running.said) == (cores < 4)


def test_fields_are_explained_and_the_server_and_its_node_have_one_version(running: Machine) -> None:
    assert "Specifies the number of retries" in running.kubectl("explain", "job.spec.backoffLimit")
    version = json.loads(running.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    where = "jsonpath={.items[*].status.nodeInfo.kubeletVersion}"
    assert running.kubectl("get", "nodes", "-o", where) == version


def test_a_queue_that_is_not_there_is_named_with_those_that_are(running: Machine) -> None:
    done = running.run("run", "-q", "team-z", "--", "true")
    assert done.returncode == 2
    assert "--queue: no LocalQueue 'team-z' in namespace default; use one of: team-a, team-b" in done.stderr


def test_a_priority_that_is_not_there_is_named_with_those_that_are(running: Machine) -> None:
    done = running.run("run", "-q", "team-a", "--priority", "nonesuch", "--", "true")
    assert done.returncode == 2
    assert "--priority: no WorkloadPriorityClass 'nonesuch'; use one of: normal, spare-time, urgent" in done.stderr


def test_a_job_that_comes_into_no_queue_is_shown_with_the_reason(running: Machine, tmp_path: Path) -> None:
    labels = "{kueue.x-k8s.io/queue-name: team-a, kueue.x-k8s.io/priority-class: nonesuch}"
    pod = "{restartPolicy: Never, containers: [{name: main, image: none, command: ['true']}]}"
    file = tmp_path / "job.yaml"
    file.write_text(
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: lost, labels: {labels}}}\n"
        f"spec: {{template: {{spec: {pod}}}}}\n"
    )
    running.kubectl("apply", "-f", str(file))
    says = "default/lost in team-a: WorkloadPriorityClass nonesuch not found"
    assert soon(lambda: says in running.run("status").stdout)
    running.kubectl("delete", "-f", str(file))
    assert says not in running.run("status").stdout


def test_a_command_that_is_not_there_is_said(running: Machine) -> None:
    done = running.run("run", "-q", "team-a", "--name", "absent", "--", "nonesuch")
    assert done.returncode == 127
    assert done.stderr.endswith("nonesuch: no such command\n")
    assert running.run("run", "-q", "team-a", "--", "/etc/passwd").returncode == 126
    assert "absent" not in running.kubectl("get", "jobs", "-o", "name"), "it is said before anything is submitted"


def test_a_command_that_takes_too_long_is_told_so(running: Machine) -> None:
    done = running.run("run", "-q", "team-a", "--timeout", "1s", "--", "sleep", "60")
    assert done.returncode != 0
    assert "failed: Job was active longer than specified deadline" in done.stderr


def test_who_is_let_in_no_more_is_told_so(running: Machine, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(re.sub("token: .*", "token: stale", (running.data / "kubeconfig").read_text()))
    for words in (
        ("run", "-q", "team-a", "--kubeconfig", str(file), "--", "true"),
        ("status", "--kubeconfig", str(file)),
    ):
        done = running.run(*words)
        assert done.returncode == 2
        assert f"{file}: the server rejected these credentials; ask an administrator" in done.stderr


def test_at_later_starts_a_queue_that_is_stored_is_named(machine: Machine) -> None:
    first = machine.run("up", "--detach", "--port", "0", "--gpus", "0").stdout
    assert "There are no queues yet." in first
    machine.run("down")
    machine.up()
    machine.run("down")
    later = machine.run("up", "--detach", "--gpus", "0").stdout
    assert " -q team-a --cpu 1" in later
    assert "There are no queues" not in later


def test_the_example_never_changes_what_is_there(machine: Machine) -> None:
    """A second `up --example` creates what is missing and says what it kept: an edited quota stays."""
    first = machine.up().stdout
    assert "Already existed" not in first
    quota = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
    machine.kubectl(
        "patch", "clusterqueue", "team-a", "--type=json", "-p", f'[{{"op":"replace","path":"{quota}","value":"3"}}]'
    )
    machine.kubectl("delete", "localqueue", "team-b")
    machine.run("down")
    again = machine.run("up", "--detach", "--cpus", "64", "--gpus", "0", "--example")
    assert "Note: no queue has quota for 59 cpu; to assign it to a queue, set its total quota: " in again.stdout
    assert f"`pykueue queue set team-a --cpu N --data {machine.data}`" in again.stdout
    said = next(line for line in again.stdout.splitlines() if line.startswith("Already existed"))
    assert "ClusterQueue team-a" in said
    assert "WorkloadPriorityClass urgent" in said
    assert "LocalQueue team-b" not in said
    path = "jsonpath={.spec.resourceGroups[0].flavors[0].resources[0].nominalQuota}"
    assert machine.kubectl("get", "clusterqueue", "team-a", "-o", path) == "3"
    assert "team-b" in machine.kubectl("get", "localqueues")


def test_kubectl_sees_the_queues_and_a_detached_job(running: Machine) -> None:
    assert "team-a" in running.kubectl("get", "clusterqueues")
    done = running.run("run", "-q", "team-b", "--name", "greet", "--detach", "--", "echo", "hello there")
    assert done.returncode == 0
    running.kubectl("wait", "--for=condition=complete", "--timeout=20s", "job/greet")
    assert running.kubectl("logs", "job/greet") == "hello there\n"


def test_what_runs_goes_on_without_the_server_and_is_found_again(machine: Machine, tmp_path: Path) -> None:
    machine.up()
    script = f"echo begins; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo went on; exit 5"
    following = machine.start("run", "-q", "team-a", "--name", "long", "--", "sh", "-c", script)
    assert following.stdout is not None
    assert following.stdout.readline() == "begins\n"
    stopped = machine.run("down")
    assert stopped.returncode == 0
    assert "processes still running, which the next `pykueue up` picks up: 1" in stopped.stdout
    assert "default/long-" in stopped.stdout
    machine.up()
    (tmp_path / "go").touch()
    output, errors = following.communicate(timeout=SOON)
    assert (following.returncode, output) == (5, "went on\n"), errors
    assert machine.kubectl("logs", "job/long") == "begins\nwent on\n"


def test_what_runs_is_ended_with_the_server_if_that_was_asked(machine: Machine, tmp_path: Path) -> None:
    machine.up("--on-stop", "terminate")
    script = f"trap 'touch {tmp_path}/told; exit 0' TERM; while :; do sleep 0.05; done"
    machine.run("run", "-q", "team-a", "--name", "long", "--detach", "--", "sh", "-c", script)
    assert soon(lambda: "1/1" in machine.kubectl("get", "pods", "--no-headers"))
    assert machine.run("down").stdout.splitlines()[1:] == []
    assert (tmp_path / "told").exists()


def test_killed_it_loses_nothing_it_has_answered_for(machine: Machine) -> None:
    machine.up()
    machine.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    os.kill(machine.pid, signal.SIGKILL)
    assert soon(lambda: machine.run("status").returncode == 1)
    machine.up()
    assert machine.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"


def test_ctrl_c_stops_it_cleanly(machine: Machine) -> None:
    server = machine.start("up", "--port", "0", "--gpus", "0")
    assert server.stdout is not None
    assert server.stdout.readline().startswith("pykueue is running at https://127.0.0.1:")
    server.send_signal(signal.SIGINT)
    output, errors = server.communicate(timeout=SOON)
    assert (server.returncode, errors) == (0, ""), output


def test_a_backup_is_taken_while_it_runs_and_restored(machine: Machine, tmp_path: Path) -> None:
    machine.up()
    machine.kubectl("create", "configmap", "before", "--from-literal=a=b")
    file = tmp_path / "backup.tar"
    done = machine.run("backup", str(file))
    assert done.returncode == 0, done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert "file exists" in machine.run("backup", str(file)).stderr
    machine.kubectl("create", "configmap", "after", "--from-literal=a=b")
    refused = machine.run("restore", str(file))
    assert refused.returncode == 1
    assert f"stop the server with `pykueue down --data {machine.data}` first" in refused.stderr
    machine.run("down")
    users, certificate = (machine.data / "users.json").read_bytes(), (machine.data / "tls/ca.crt").read_bytes()
    (machine.data / "users.json").write_bytes(users + b"\n")
    assert machine.run("restore", str(file)).returncode == 0
    assert (machine.data / "users.json").read_bytes() == users
    assert (machine.data / "users.json.old").read_bytes() == users + b"\n"
    assert (machine.data / "tls/ca.crt.old").read_bytes() == certificate
    held = (machine.data / "pykueue.db.old").read_bytes()
    assert machine.run("restore", str(file)).returncode == 0
    assert (machine.data / "pykueue.db.old").read_bytes() == held, "what an earlier restore set aside stays"
    assert (machine.data / "pykueue.db.old2").exists()
    assert (machine.data / "users.json.old").read_bytes() == users + b"\n"
    assert (machine.data / "users.json.old2").read_bytes() == users
    machine.up()
    assert "configmap/before" in machine.kubectl("get", "configmaps", "-o", "name")
    assert "configmap/after" not in machine.kubectl("get", "configmaps", "-o", "name")


@pytest.mark.parametrize("content", [b"", b"no archive"], ids=["empty", "no archive"])
def test_what_is_no_backup_is_refused(machine: Machine, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "backup.tar"
    file.write_bytes(content)
    done = machine.run("restore", str(file))
    assert done.returncode == 2
    assert f"{file}: not a backup of pykueue: " in done.stderr
    assert "name a file written by `pykueue backup`" in done.stderr
    assert "\\n" not in done.stderr
    assert not machine.data.exists()


def test_a_link_in_a_backup_is_refused(machine: Machine, tmp_path: Path) -> None:
    file, link = tmp_path / "backup.tar", tarfile.TarInfo("tls/server.key")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/shadow"
    with tarfile.open(file, "w") as archive:
        archive.addfile(tarfile.TarInfo("pykueue.db"))
        archive.addfile(link)
    done = machine.run("restore", str(file))
    assert done.returncode == 2
    assert f"{file}: not a backup of pykueue: tls/server.key is not a regular file; name" in done.stderr


def test_a_backup_that_is_not_there_makes_no_folder(machine: Machine, tmp_path: Path) -> None:
    done = machine.run("restore", str(tmp_path / "none.tar"))
    assert done.returncode == 2
    assert f"{tmp_path}/none.tar: no such file" in done.stderr
    assert not machine.data.exists()


def test_a_port_in_use_is_said(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = machine.run("up", "--port", str(port))
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "choose another" in done.stderr


@pytest.mark.parametrize("detach", [(), ("--detach",)], ids=["in the foreground", "detached"])
def test_a_damaged_database_is_left_alone_and_said(machine: Machine, detach: tuple[str, ...]) -> None:
    machine.data.mkdir(mode=0o700)
    (machine.data / "pykueue.db").write_bytes(b"not a database, but something of somebody's" * 100)
    before = (machine.data / "pykueue.db").read_bytes()
    done = machine.run("up", "--port", "0", *detach)
    assert done.returncode == 2
    assert "is damaged" in done.stderr
    assert "pykueue restore" in done.stderr
    assert (machine.data / "pykueue.db").read_bytes() == before


def test_a_database_of_a_newer_version_is_left_alone(machine: Machine) -> None:
    machine.up()
    machine.run("down")
    with contextlib.closing(sqlite3.connect(machine.data / "pykueue.db")) as connection:
        connection.execute("PRAGMA user_version = 4711")
    done = machine.run("up", "--port", "0")
    assert done.returncode == 2
    assert "was written by a newer pykueue" in done.stderr


def test_a_folder_that_cannot_be_had_is_said(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    machine.data = tmp_path / "file" / "data"
    done = machine.run("up", "--port", "0")
    assert done.returncode == 2
    assert "choose another directory with --data" in done.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param(["--memory", "lots"], "--memory: 'lots' is not a quantity", id="memory"),
        pytest.param(["--config", "/nowhere"], "/nowhere: cannot be read", id="a Configuration that is not there"),
        pytest.param(["--apply", "/nowhere"], "/nowhere: cannot be read", id="manifests that are not there"),
        pytest.param(["--feature-gates", "Nonsense=true"], "Nonsense", id="gates"),
        pytest.param(["--journal", "/nowhere/j"], "--journal: /nowhere is not a writable directory", id="a journal"),
        pytest.param(["--memory", "1GB", "--detach"], "--memory: '1GB' is not a quantity", id="in the background"),
        pytest.param(["--cpus", "0"], "0 is not more than 0; write a number of cores, as in 2 or 0.5", id="no cores"),
        pytest.param(["--gpus", "x"], "'x' is not a whole number; use 0 to 1024", id="no number"),
    ],
)
def test_wrong_flags_are_said_and_leave_no_directory(machine: Machine, flags: list[str], says: str) -> None:
    done = machine.run("up", "--port", "0", *flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert not machine.data.exists()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param(["--listen", "192.0.2.1"], "give an address that this machine has", id="another's address"),
    ],
)
def test_wrong_flags_are_said(machine: Machine, flags: list[str], says: str) -> None:
    done = machine.run("up", "--port", "0", *flags)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_manifest_that_is_refused_is_said(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text("apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: q, namespace: nowhere}\n")
    done = machine.run("up", "--port", "0", "--apply", str(file))
    assert done.returncode == 2
    assert f"{file}: document 1: " in done.stderr
    assert "nowhere" in done.stderr


def test_where_nothing_runs_that_is_said(machine: Machine) -> None:
    assert machine.run("down").stdout == f"no server is running on {machine.data}\n"
    done = machine.run("status")
    assert done.returncode == 1
    assert f"start one with `pykueue up --data {machine.data}`" in done.stderr


def test_it_starts_with_kueues_own_configuration_and_says_what_is_left_out(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(SHIPPED + "featureGates: {Nope: true}\n")
    refused = machine.run("up", "--detach", "--port", "0", "--config", str(file))
    assert (refused.returncode, "unrecognized feature gate: Nope" in refused.stderr) == (2, True)
    machine.up("--config", str(file), "--tolerate-unknown-gates")
    done = machine.run("run", "-q", "team-a", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    said = (machine.data / "up.log").read_text()
    assert said.count("warning: integrations.frameworks: kubeflow.org/mpijob, ") == 1
    assert said.count("warning: ignoring unrecognized feature gate: Nope") == 1
