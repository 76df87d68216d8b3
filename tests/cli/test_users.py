"""Who gets in, with what, and as whom do their jobs run?"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.machine import Machine, machine_in

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a job as another user")
NOBODY = "nobody"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A server that the tests share; each adds its users anew."""
    with machine_in(tmp_path_factory.mktemp("machine")) as made:
        made.up()
        yield made


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
    assert f"{NOBODY} is a user of namespace lab: {file}" in done.stdout
    assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o600, pwd.getpwnam(NOBODY).pw_uid)
    assert kubectl(file, "get", "localqueues", "-o", "name").stdout == "localqueue.kueue.x-k8s.io/team-b\n"
    assert kubectl(file, "get", "clusterqueues", "-o", "name").returncode == 0
    refused = kubectl(file, "get", "secrets", "-n", "default")
    assert (
        f'User "{NOBODY}" cannot list resource "secrets" in API group "" in the namespace "default"' in refused.stderr
    )
    assert "cannot delete" in kubectl(file, "delete", "clusterqueue", "team-a").stderr
    listed = {line.split()[0]: line.split()[1:] for line in machine.run("user", "list").stdout.splitlines()}
    assert listed["admin"] == ["admin", "(all)", "root"]
    assert listed[NOBODY] == ["user", "lab", NOBODY]


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
    assert "again, with a new kubeconfig" in machine.run("user", "add", NOBODY, "--out", str(new)).stdout
    assert kubectl(old, "get", "jobs").returncode != 0
    assert kubectl(new, "get", "jobs").returncode == 0
    assert machine.run("user", "remove", NOBODY).returncode == 0
    assert "Unauthorized" in kubectl(new, "get", "jobs").stderr or "logged in" in kubectl(new, "get", "jobs").stderr
    assert NOBODY not in machine.run("user", "list").stdout


def test_where_nothing_runs_nobody_is_added(tmp_path: Path) -> None:
    done = Machine(tmp_path).run("user", "add", NOBODY)
    assert done.returncode == 1
    assert "start it with `pykueue up` first" in done.stderr


def test_who_is_no_user_cannot_be_removed(machine: Machine) -> None:
    done = machine.run("user", "remove", "somebody")
    assert done.returncode == 2
    assert "'somebody' is no user; there are: admin" in done.stderr


@AS_ROOT
def test_who_is_no_user_of_the_machine_cannot_be_added(machine: Machine) -> None:
    done = machine.run("user", "add", "somebody")
    assert done.returncode == 2
    assert "'somebody' is no user of this machine" in done.stderr
    done = machine.run("user", "add", NOBODY, "--queue", "team-z")
    assert done.returncode == 2
    assert "--queue: 'team-z' is no ClusterQueue; use one of: team-a, team-b" in done.stderr
