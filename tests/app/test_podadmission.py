"""What may a Job ask of the machine? Real kubectl against a real server, which refuses, warns, and runs the rest."""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import builders
from tests.cli.machine import Machine, machine_in
from tests.patience import soon

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a job as another user"),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]
NOBODY = pwd.getpwnam("nobody")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A server with one user, nobody."""
    with machine_in(tmp_path_factory.mktemp("machine")) as made:
        made.up()
        folder = Path(tempfile.mkdtemp(prefix="pykueue-"))
        folder.chmod(0o777)
        done = made.run("user", "add", NOBODY.pw_name, "--out", str(folder / "kubeconfig"))
        assert done.returncode == 0, done.stderr
        made.cwd = folder
        yield made
        made.cwd = None
        shutil.rmtree(folder)


def told(machine: Machine, *words: str, tree: object = None, admin: bool = False) -> subprocess.CompletedProcess[str]:
    """What kubectl says to the user, or to the admin."""
    assert machine.cwd is not None
    file = machine.data / "kubeconfig" if admin else machine.cwd / "kubeconfig"
    return subprocess.run(
        ["kubectl", "--kubeconfig", str(file), *words],
        input=None if tree is None else json.dumps(tree),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def job(name: str, spec: dict[str, Any] | None = None, script: str = "id -u; id -g; id -G", **main: Any) -> Any:
    pod = builders.pod_spec(spec=spec, **{"command": ["sh", "-c", script], "workingDir": "/", **main})
    return builders.job(name, "team-a", backoffLimit=0, template={"spec": pod})


CONTEXTS = [
    pytest.param(job("no", {"securityContext": {"runAsUser": 0}}), "spec.securityContext.runAsUser", id="root"),
    pytest.param(job("no", {"securityContext": {"runAsGroup": 0}}), "spec.securityContext.runAsGroup", id="its group"),
    pytest.param(job("no", {"securityContext": {"fsGroup": 0}}), "spec.securityContext.fsGroup", id="for files"),
    pytest.param(
        job("no", {"securityContext": {"supplementalGroups": [0]}}),
        "spec.securityContext.supplementalGroups",
        id="beside",
    ),
    pytest.param(
        job("no", securityContext={"runAsUser": 0}), "spec.containers[0].securityContext.runAsUser", id="in a container"
    ),
    pytest.param(
        job("no", {"initContainers": [{"name": "i", "image": "x", "securityContext": {"runAsUser": 1}}]}),
        "spec.initContainers[0].securityContext.runAsUser",
        id="in an init container",
    ),
]


@pytest.mark.parametrize(("tree", "field"), CONTEXTS)
@pytest.mark.parametrize("way", [("create",), ("apply",), ("apply", "--server-side"), ("create", "--dry-run=server")])
def test_a_users_job_may_not_name_another_user(machine: Machine, tree: Any, field: str, way: tuple[str, ...]) -> None:
    done = told(machine, *way, "-f", "-", tree=tree)
    assert done.returncode == 1
    assert 'jobs.batch "no" is forbidden: spec.template.' in done.stderr, done.stderr
    assert f"{field}: Forbidden: " in done.stderr
    assert f"the pod runs as its creator's account nobody (user {NOBODY.pw_uid}, groups" in done.stderr
    assert told(machine, "get", "job", "no").returncode == 1, "nothing is stored"


def test_an_admin_who_acts_as_a_user_may_name_no_more_than_that_user(machine: Machine) -> None:
    tree = job("no", {"securityContext": {"runAsUser": 0}})
    done = told(machine, "create", "--as=nobody", "-n", "nobody", "-f", "-", tree=tree, admin=True)
    assert done.returncode == 1
    assert "securityContext.runAsUser: Forbidden: 0 is not allowed" in done.stderr


def test_a_users_template_cannot_be_changed_to_another_user(machine: Machine) -> None:
    tree = job("later")
    tree["spec"]["suspend"] = True
    del tree["metadata"]["labels"]
    assert told(machine, "create", "-f", "-", tree=tree).returncode == 0
    for how, patch in (
        ("merge", {"spec": {"template": {"spec": {"securityContext": {"runAsUser": 0}}}}}),
        ("strategic", {"spec": {"template": {"spec": {"securityContext": {"runAsUser": 0}}}}}),
        ("json", [{"op": "add", "path": "/spec/template/spec/securityContext/runAsUser", "value": 0}]),
    ):
        done = told(machine, "patch", "job", "later", f"--type={how}", "-p", json.dumps(patch))
        assert done.returncode == 1, how
    tree["spec"]["template"]["spec"]["securityContext"] = {"runAsUser": 0}
    assert told(machine, "replace", "-f", "-", tree=tree).returncode == 1
    path = "jsonpath={.spec.template.spec.securityContext}"
    assert told(machine, "get", "job", "later", "-o", path).stdout == "{}"
    assert told(machine, "delete", "job", "later").returncode == 0


def output(machine: Machine, name: str, *, admin: bool) -> list[str]:
    """What a Job has printed when it is complete."""
    done = told(machine, "wait", "--for=condition=complete", "--timeout=30s", f"job/{name}", admin=admin)
    assert done.returncode == 0, done.stderr
    return told(machine, "logs", f"job/{name}", admin=admin).stdout.splitlines()


def test_a_users_job_runs_as_the_user_whatever_it_names_of_its_own(machine: Machine) -> None:
    context = {"runAsUser": NOBODY.pw_uid, "runAsGroup": NOBODY.pw_gid, "runAsNonRoot": True}
    done = told(machine, "create", "-f", "-", tree=job("mine", {"securityContext": context}))
    assert done.returncode == 0, done.stderr
    assert output(machine, "mine", admin=False)[:2] == [str(NOBODY.pw_uid), str(NOBODY.pw_gid)]


def test_an_administrators_job_really_runs_as_whom_it_names(machine: Machine) -> None:
    context = {"runAsUser": 4711, "runAsGroup": 4712, "supplementalGroups": [4713], "fsGroup": 4714}
    done = told(machine, "create", "-f", "-", tree=job("any", {"securityContext": context}), admin=True)
    assert done.returncode == 0, done.stderr
    user, group, groups = output(machine, "any", admin=True)
    assert (user, group) == ("4711", "4712")
    assert sorted(map(int, groups.split())) == [4712, 4713, 4714]


def test_run_as_non_root_waits_as_with_the_kubelet_where_it_would_be_root(machine: Machine) -> None:
    done = told(machine, "create", "-f", "-", tree=job("nonroot", securityContext={"runAsNonRoot": True}), admin=True)
    assert done.returncode == 0, done.stderr
    pods = ("get", "pods", "-l", "job-name=nonroot")
    assert soon(lambda: "CreateContainerConfigError" in told(machine, *pods, admin=True).stdout)
    path = "jsonpath={.items[0].status.containerStatuses[0].state.waiting.message}"
    message = told(machine, *pods, "-o", path, admin=True).stdout
    assert message.startswith('container has runAsNonRoot and image will run as root (pod: "nonroot-')
    assert message.endswith(", container: main)")
    told(machine, "delete", "job", "nonroot", admin=True)


def test_what_is_ignored_is_warned_of_once(machine: Machine) -> None:
    volumes = [{"name": name, "emptyDir": {"sizeLimit": "1Gi"}} for name in ("v", "w")]
    tree = job("warned", {"volumes": volumes, "hostNetwork": True}, "true", securityContext={"privileged": True})
    done = told(machine, "apply", "-f", "-", tree=tree)
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
    assert warnings == [
        "Warning: spec.template.spec.hostNetwork: changes nothing: all pods use the machine's network",
        "Warning: spec.template.spec.volumes[0].emptyDir.sizeLimit: is ignored: nothing limits how much is written to "
        "the folder",
        "Warning: spec.template.spec.containers[0].securityContext.privileged: is ignored: a process has the rights of "
        "its user and no others",
    ]
    again = told(machine, "label", "job", "warned", "x=y")
    assert "Warning" not in again.stderr, "nothing of the spec was changed"
