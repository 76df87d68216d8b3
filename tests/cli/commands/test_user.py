"""Who gets in, with what, and as whom do their jobs run?"""

import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.apiserver.auth.kubeconfigs import kubeconfig, write
from pykueue.apiserver.auth.users import Users
from pykueue.base.units import Instant
from pykueue.cli.commands.user import put
from pykueue.cli.main import cli
from pykueue.cli.serverstate import OWN_KUBECONFIG, ServerRecord, write_record
from pykueue.node.supervision.processes import process_start
from tests.cli.machine import Machine, machine_in
from tests.patience import soon

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a job as another user")
NOBODY = "nobody"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A server that the tests share."""
    with machine_in(tmp_path_factory.mktemp("machine")) as made:
        made.up()
        yield made


@pytest.fixture
def machine(served: Machine) -> Machine:
    """The server as it is before anybody is let in."""
    users = Users(served.data)
    if users.named(NOBODY):
        users.revoke(NOBODY)
    served.cwd = None
    return served


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may write in."""
    folder = Path(tempfile.mkdtemp(prefix="pykueue-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def kubectl(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    return subprocess.run(
        ["kubectl", "--kubeconfig", str(file), *words], capture_output=True, text=True, timeout=30, check=False
    )


@AS_ROOT
def test_a_user_has_a_namespace_queues_and_rights_there_alone(machine: Machine, open_folder: Path) -> None:
    file = open_folder / "kubeconfig"
    done = machine.run("user", "add", NOBODY, "--namespace", "lab", "--queue", "team-b", "--out", str(file))
    assert done.returncode == 0, done.stderr
    assert f"{NOBODY} added: user of namespace lab, kubeconfig {file}" in done.stdout
    assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o600, pwd.getpwnam(NOBODY).pw_uid)
    assert kubectl(file, "get", "localqueues", "-o", "name").stdout == "localqueue.kueue.x-k8s.io/team-b\n"
    assert kubectl(file, "get", "clusterqueues", "-o", "name").returncode == 0
    refused = kubectl(file, "get", "secrets", "-n", "default")
    assert (
        f'User "{NOBODY}" cannot list resource "secrets" in API group "" in the namespace "default"' in refused.stderr
    )
    assert "cannot delete" in kubectl(file, "delete", "clusterqueue", "team-a").stderr
    listed = {line.split()[0]: line.split()[1:] for line in machine.run("user", "list").stdout.splitlines()}
    assert listed["admin"] == ["admin", "(all)", "root", "never"]
    assert listed[NOBODY] == ["user", "lab", NOBODY, "never"]


@AS_ROOT
def test_a_job_runs_as_the_user_who_submitted_it(machine: Machine, open_folder: Path) -> None:
    file = open_folder / "kubeconfig"
    machine.run("user", "add", NOBODY, "--out", str(file))
    machine.cwd = open_folder
    done = machine.run("run", "--kubeconfig", str(file), "-q", "team-a", "--", "sh", "-c", "id -un; touch mine")
    assert (done.returncode, done.stdout) == (0, f"{NOBODY}\n"), done.stderr
    assert (open_folder / "mine").stat().st_uid == pwd.getpwnam(NOBODY).pw_uid
    machine.cwd = None
    done = machine.run("run", "-q", "team-a", "--", "id", "-un")
    assert (done.returncode, done.stdout) == (0, "root\n"), done.stderr


@AS_ROOT
def test_who_is_removed_or_added_anew_gets_in_no_more_with_the_old_kubeconfig(
    machine: Machine, open_folder: Path
) -> None:
    old, new = open_folder / "old", open_folder / "new"
    machine.run("user", "add", NOBODY, "--out", str(old))
    assert "updated with a new kubeconfig" in machine.run("user", "add", NOBODY, "--out", str(new)).stdout
    assert kubectl(old, "get", "jobs").returncode != 0
    assert kubectl(new, "get", "jobs").returncode == 0
    assert machine.run("user", "remove", NOBODY).returncode == 0
    again = machine.run("user", "remove", NOBODY)
    assert again.returncode == 2
    assert f"{NOBODY!r} is not a user any more; users: admin\n" in again.stderr
    assert "Unauthorized" in kubectl(new, "get", "jobs").stderr or "logged in" in kubectl(new, "get", "jobs").stderr
    assert NOBODY not in machine.run("user", "list").stdout


@AS_ROOT
def test_a_kubeconfig_that_expires_and_one_that_replaces_it(machine: Machine, open_folder: Path) -> None:
    old, new = open_folder / "old", open_folder / "new"
    done = machine.run("user", "add", NOBODY, "--namespace", "lab", "--expires", "3s", "--out", str(old))
    assert re.search(r"valid until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n", done.stdout), done.stderr
    assert soon(lambda: kubectl(old, "get", "jobs").returncode != 0)
    expired = machine.run("status", "--kubeconfig", str(old))
    assert re.search(rf"the credentials of {NOBODY} expired at .*`pykueue user rotate {NOBODY} --exp", expired.stderr)
    assert re.search(rf"{NOBODY} .* expired \d{{4}}-", machine.run("user", "list").stdout)
    refused = machine.run("user", "rotate", NOBODY, "--out", str(new))
    assert (refused.returncode, new.exists()) == (2, False)
    assert "set how long the new ones are valid with --expires" in refused.stderr
    done = machine.run("user", "rotate", NOBODY, "--expires", "30d", "--out", str(new))
    assert f"{NOBODY} updated with a new kubeconfig: {new}, valid until " in done.stdout, done.stderr
    assert (new.stat().st_mode & 0o777, new.stat().st_uid) == (0o600, pwd.getpwnam(NOBODY).pw_uid)
    assert kubectl(new, "get", "localqueues", "-o", "name").stdout.split() == [
        "localqueue.kueue.x-k8s.io/team-a",
        "localqueue.kueue.x-k8s.io/team-b",
    ]
    again = machine.run("user", "rotate", NOBODY, "--out", str(old))
    assert again.stdout.rpartition("valid until")[2] == done.stdout.rpartition("valid until")[2]
    assert kubectl(new, "get", "jobs").returncode != 0
    assert kubectl(old, "get", "jobs").returncode == 0


def test_the_servers_own_kubeconfig_is_replaced(machine: Machine, tmp_path: Path) -> None:
    stolen = tmp_path / "stolen"
    shutil.copy(machine.data / "kubeconfig", stolen)
    done = machine.run("user", "rotate", "admin")
    assert done.stdout == f"admin updated with a new kubeconfig: {machine.data}/kubeconfig\n", done.stderr
    assert kubectl(stolen, "get", "jobs").returncode != 0
    assert machine.kubectl("get", "namespace", "default", "-o", "name") == "namespace/default\n"
    assert "no user 'somebody" in machine.run("user", "rotate", "somebody").stderr


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ("soon", "'soon' is not a time; write it as in 30d, 12h,"),
        ("d", "'d' is not a time"),
        ("99999999999d", "is not a time"),
        ("2020-01-31", "2020-01-31T00:00:00Z is not in the future"),
        ("-1h", "is not in the future"),
    ],
)
def test_a_time_that_is_none(machine: Machine, when: str, says: str) -> None:
    done = machine.run("user", "add", NOBODY, f"--expires={when}")
    assert done.returncode == 2
    assert f"--expires: {says}" in done.stderr or (done.stderr.startswith("--expires: ") and says in done.stderr)


@AS_ROOT
def test_what_somebody_has_submitted_goes_on_after_they_are_removed(machine: Machine, open_folder: Path) -> None:
    file = open_folder / "kubeconfig"
    machine.run("user", "add", NOBODY, "--out", str(file))
    script = f"id -un >> {open_folder}/ran; while [ ! -e {open_folder}/go ]; do sleep 0.05; done"
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script], "workingDir": str(open_folder)}
    pod = {"restartPolicy": "Never", "containers": [container]}
    tree = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "twice"}}
    (open_folder / "job.json").write_text(json.dumps({**tree, "spec": {"completions": 2, "template": {"spec": pod}}}))
    assert kubectl(file, "create", "-f", str(open_folder / "job.json")).returncode == 0
    assert soon((open_folder / "ran").exists)
    assert machine.run("user", "remove", NOBODY).returncode == 0
    (open_folder / "go").touch()
    machine.kubectl("wait", "-n", NOBODY, "--for=condition=complete", "--timeout=20s", "job/twice")
    assert (open_folder / "ran").read_text() == f"{NOBODY}\n" * 2


@AS_ROOT
def test_who_is_added_again_keeps_namespace_and_queues(machine: Machine, open_folder: Path) -> None:
    file = open_folder / "kubeconfig"
    machine.run("user", "add", NOBODY, "--namespace", "kept", "--queue", "team-b", "--out", str(file))
    done = machine.run("user", "add", NOBODY, "--out", str(file))
    assert f"{NOBODY} updated with a new kubeconfig: user of namespace kept" in done.stdout
    assert "queues: team-b\n" in done.stdout
    assert machine.kubectl("get", "localqueues", "-n", "kept", "-o", "name") == "localqueue.kueue.x-k8s.io/team-b\n"
    wider = machine.run("user", "add", NOBODY, "--queue", "team-a", "--out", str(file))
    assert "queues: team-a\n" in wider.stdout


@AS_ROOT
@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param(["--out", "/root/none/kubeconfig"], "cannot be written as user nobody", id="a file of another's"),
        pytest.param(
            ["--namespace", "kube-system"], "--namespace: kube-system is a system namespace", id="the system's"
        ),
        pytest.param(["--namespace", "default"], "--namespace: default is a system namespace", id="everybody's"),
        pytest.param(["--namespace", "No_Name"], "a namespace is at most 63", id="no name"),
    ],
)
def test_who_cannot_be_added_leaves_nothing_behind(machine: Machine, flags: list[str], says: str) -> None:
    users = (machine.data / "users.json").read_bytes()
    spaces = machine.kubectl("get", "namespaces,localqueues", "-A", "-o", "name")
    done = machine.run("user", "add", NOBODY, *flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert (machine.data / "users.json").read_bytes() == users
    assert machine.kubectl("get", "namespaces,localqueues", "-A", "-o", "name") == spaces


def test_the_servers_own_user_cannot_be_removed(machine: Machine) -> None:
    done = machine.run("user", "remove", "admin")
    assert done.returncode == 2
    assert "'admin' is the server's own administrator" in done.stderr
    assert machine.kubectl("get", "namespaces")


@AS_ROOT
@pytest.mark.parametrize("name", ["admin", "system:pykueue"], ids=["the server's own user", "one of the system"])
def test_nobody_is_added_by_a_name_of_the_servers_own(machine: Machine, name: str) -> None:
    before = (machine.data / "users.json").read_bytes()
    done = machine.run("user", "add", name)
    assert done.returncode == 2
    assert f"{name!r} is reserved for the server" in done.stderr
    assert (machine.data / "users.json").read_bytes() == before


def test_nobody_is_added_to_a_server_of_somebody_who_is_not_root(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.data.mkdir(mode=0o700)
    write_record(machine.data, ServerRecord(os.getpid(), process_start(os.getpid()), "https://x", 1, Instant(0)))
    if os.geteuid() == 0:
        os.chown(machine.data, pwd.getpwnam(NOBODY).pw_uid, -1)
    done = machine.run("user", "add", NOBODY)
    assert done.returncode == 2
    assert "the server was not started by root" in done.stderr
    assert not (machine.data / "users.json").exists()


@AS_ROOT
def test_in_anothers_home_a_kubeconfig_is_written_as_that_user(open_folder: Path, tmp_path: Path) -> None:
    nobody = pwd.getpwnam(NOBODY)
    put(open_folder / "own/config", "text", nobody)
    assert (open_folder / "own/config").stat().st_uid == nobody.pw_uid
    (open_folder / ".config").symlink_to(tmp_path)
    with pytest.raises(SystemExit):
        put(open_folder / ".config/pykueue/config", "text", nobody)
    assert [*tmp_path.iterdir()] == []


def test_where_nothing_runs_nobody_is_added(tmp_path: Path) -> None:
    done = Machine(tmp_path).run("user", "add", NOBODY)
    assert done.returncode == 1
    assert f"start it with `pykueue up --data {tmp_path / 'data'}` first" in done.stderr


def test_who_is_no_user_cannot_be_removed(machine: Machine) -> None:
    done = machine.run("user", "remove", "somebody")
    assert done.returncode == 2
    assert "no user 'somebody'; users: admin\n" in done.stderr


def test_who_is_no_user_cannot_be_given_a_new_kubeconfig(machine: Machine) -> None:
    done = machine.run("user", "rotate", "somebody")
    assert (done.returncode, done.stderr) == (2, "no user 'somebody'; users: admin\n")


@pytest.mark.parametrize("words", [["list"], ["remove", "ann"], ["rotate", "ann"], ["add", "ann"]], ids=" ".join)
def test_who_only_has_access_is_told_that_administrators_manage_users(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    write(tmp_path / OWN_KUBECONFIG, kubeconfig("https://shared:1", b"", user="ann", token="t"))
    done = CliRunner().invoke(cli, ["user", *words])
    assert done.exit_code == 2
    assert done.stderr.startswith("only an administrator can list or change the users; ask ")


def test_where_nothing_was_started_there_are_no_users(tmp_path: Path) -> None:
    for words in (("user", "list"), ("user", "remove", NOBODY)):
        done = Machine(tmp_path).run(*words)
        assert done.returncode == 2
        assert "no server was ever started here" in done.stderr


@AS_ROOT
def test_who_is_no_user_of_the_machine_cannot_be_added(machine: Machine, open_folder: Path) -> None:
    done = machine.run("user", "add", "somebody")
    assert done.returncode == 2
    assert "no user 'somebody' on this machine" in done.stderr
    done = machine.run("user", "add", NOBODY, "--queue", "team-z", "--out", str(open_folder / "kubeconfig"))
    assert done.returncode == 2
    assert "--queue: no ClusterQueue 'team-z'; use one of: team-a, team-b" in done.stderr
