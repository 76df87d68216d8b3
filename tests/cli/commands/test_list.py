"""Do kueuectl's verbs work on a real server? All tests share one."""

import json
import shutil
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from pykueue.cli.main import cli
from tests.cli.machine import Machine, machine_in
from tests.patience import soon


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A server with a job that runs and one that waits."""
    with machine_in(tmp_path_factory.mktemp("verbs")) as made:
        made.up()
        for name in ("runs", "waits"):
            done = made.run("run", "--detach", "-q", "team-a", "--cpu", "3", "--name", name, "--", "sleep", "600")
            assert done.returncode == 0, done.stderr
        soon(lambda: statuses(made) == {"runs": "ADMITTED", "waits": "PENDING"})
        yield made


def statuses(machine: Machine) -> dict[str, str]:
    """The status of each Workload by the name of its job."""
    lines = said(machine, "list", "kwl", "-A", "-o", "csv").splitlines()
    return {row[3]: row[6] for row in (line.split(",") for line in lines[1:])}


def workload(machine: Machine, job: str) -> str:
    return (
        said(machine, "list", "workload", "--for", f"job/{job}", "-o", "name")
        .strip()
        .removeprefix("workload.kueue.x-k8s.io/")
    )


def said(machine: Machine, *words: str, code: int = 0, typed: str = "") -> str:
    """What a command prints, to either stream. It runs in this process, and asks the real server."""
    done = CliRunner().invoke(cli, machine.command(*words)[3:], input=typed)
    assert done.exit_code == code, done.output
    return done.output


def test_lists(machine: Machine) -> None:
    wanted = [["team-a", "machine", "1", "1", "true"], ["team-b", "machine", "0", "0", "true"]]
    # The status of a queue counts jobs a moment later.
    assert soon(lambda: [line.split()[:5] for line in said(machine, "list", "cq").splitlines()[1:]] == wanted)
    # The columns are as far apart as those of kueuectl.
    assert said(machine, "list", "rf").startswith("NAME      NODE LABELS   AGE\nmachine                 ")
    assert said(machine, "list", "lq", "-c", "team-b", "--no-headers").split()[:2] == ["team-b", "team-b"]
    waits = workload(machine, "waits")
    row = said(machine, "list", "kwl", "--status", "pending", "-A", "-c", "team-a").splitlines()[1].split()
    assert row[:-1] == ["default", waits, "job", "waits", "team-a", "team-a", "PENDING", "0"]
    document = json.loads(said(machine, "list", "rf", "-o", "json"))
    assert (document["kind"], [one["metadata"]["name"] for one in document["items"]]) == (
        "ResourceFlavorList",
        ["machine"],
    )
    pods = said(machine, "list", "pods", "--for", "job/runs").splitlines()
    assert pods[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert pods[1].startswith("runs-")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["list", "cohort"], 0, "No resources found\n"),
        (["list", "lq", "-n", "empty"], 0, "No resources found in empty namespace.\n"),
        (["list", "kwl", "--for", "job/none"], 1, "--for: jobs.batch none not found in namespace default\n"),
        (["list", "kwl", "--for", "none/x"], 1, '--for: the server doesn\'t have a resource type "none"\n'),
        (["list", "pods", "--for", "cq/team-a"], 1, "unsupported kind: ClusterQueue\n"),
        (["list", "pods", "--for", "a/b/c"], 1, "arguments in resource/name form may not have more than one slash\n"),
        (["delete", "kwl", "x"], 0, 'workloads.kueue.x-k8s.io "x" not found\n'),
    ],
)
def test_what_is_said(machine: Machine, words: list[str], code: int, says: str) -> None:
    assert said(machine, *words, code=code).startswith(says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("list kwl --status lost", 'invalid status value (lost). Must be "all", "pending", "quotareserved", '),
        ("list cq --active=true --active=false", "only one active flag can be provided\n"),
        ("create rf x --dry-run no", 'invalid dry-run value (no). Must be "none", "server", or "client"\n'),
        ("create cq x --nominal-quota a:cpu=x", "invalid resource quota: --nominal-quota: cpu: "),
        ("create cq x --namespace-selector a", "--namespace-selector: a must be formatted as key=value\n"),
        ("create rf x --node-taints a:No", "invalid taint effect: No, unsupported taint effect\n"),
        ("delete kwl", "requires at least 1 arg(s), only received 0\n"),
        ("delete kwl x --all", "name cannot be provided when a selector is specified\n"),
        ("delete kwl x -A", "a resource cannot be retrieved by name across all namespaces\n"),
    ],
)
def test_invalid_words_are_refused_before_a_server_is_asked(words: str, says: str) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert (done.exit_code, done.stderr[: len(says)]) == (2, says)


def test_create_and_dry_runs(machine: Machine) -> None:
    main = ("create", "cq", "main", "--nominal-quota", "machine:cpu=1;memory=1Gi", "--cohort", "lab")
    assert said(machine, *main, "--dry-run", "client") == "clusterqueue.kueue.x-k8s.io/main created (client dry run)\n"
    assert said(machine, *main, "--dry-run", "server") == "clusterqueue.kueue.x-k8s.io/main created (server dry run)\n"
    assert "main" not in said(machine, "list", "cq", "-o", "name")
    shown = json.loads(said(machine, *main, "--dry-run", "client", "-o", "json"))
    assert shown["spec"] == {
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {
                        "name": "machine",
                        "resources": [
                            {"name": "cpu", "nominalQuota": "1"},
                            {"name": "memory", "nominalQuota": "1Gi"},
                        ],
                    }
                ],
            }
        ],
        "cohortName": "lab",
        "queueingStrategy": "BestEffortFIFO",
        "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
    }
    assert said(machine, *main) == "clusterqueue.kueue.x-k8s.io/main created\n"
    assert 'clusterqueues.kueue.x-k8s.io "main" already exists' in said(machine, *main, code=1)
    assert 'clusterqueues.kueue.x-k8s.io "none" not found' in said(machine, "create", "lq", "q", "-c", "none", code=1)
    assert said(machine, "create", "lq", "q", "-c", "none", "-i") == "localqueue.kueue.x-k8s.io/q created\n"
    flavor = ("create", "rf", "spot", "--node-labels", "a=b", "--node-taints", "t=1:NoSchedule", "--tolerations", "t=1")
    assert said(machine, *flavor) == "resourceflavor.kueue.x-k8s.io/spot created\n"
    assert "a=b" in said(machine, "list", "rf")


def test_stop_and_resume(machine: Machine) -> None:
    def policy() -> str:
        queues = json.loads(said(machine, "list", "cq", "--field-selector", "metadata.name=team-b", "-o", "json"))
        return str(queues["items"][0]["spec"].get("stopPolicy"))

    queue = "clusterqueue.kueue.x-k8s.io/team-b"
    assert said(machine, "stop", "cq", "team-b", "--dry-run", "server") == f"{queue}  (server dry run)\n"
    assert policy() == "None"
    assert said(machine, "stop", "cq", "team-b", "--keep-already-running") == f"{queue}\n"
    assert policy() == "Hold"
    assert said(machine, "stop", "cq", "team-b") == f"{queue}\n"
    assert policy() == "HoldAndDrain"
    assert said(machine, "resume", "cq", "team-b") == f"{queue}\n"
    assert policy() == "None"
    assert said(machine, "stop", "lq", "team-b", "--dry-run", "client").endswith("/team-b  (client dry run)\n")
    name = workload(machine, "waits")
    assert said(machine, "stop", "kwl", name) == f"workload.kueue.x-k8s.io/{name} stopped\n"
    assert said(machine, "resume", "workload", name) == f"workload.kueue.x-k8s.io/{name} resumed\n"
    assert 'clusterqueues.kueue.x-k8s.io "none" not found' in said(machine, "stop", "cq", "none", code=1)


def test_a_workload_goes_with_its_job_if_that_is_confirmed(machine: Machine) -> None:
    done = machine.run("run", "--detach", "-q", "team-a", "--cpu", "4", "--name", "doomed", "--", "true")
    assert done.returncode == 0, done.stderr
    soon(lambda: "doomed" in statuses(machine))
    name = workload(machine, "doomed")
    asked = (
        "This operation will also delete:\n"
        f"  - jobs.batch/doomed associated with the default/{name} workload\n"
        "Do you want to proceed (y/n)? "
    )

    assert said(machine, "delete", "kwl", name, typed="n\n") == f"{asked}Deletion is canceled\n"
    assert said(machine, "delete", "kwl", name, "--dry-run", "server") == "jobs.batch/doomed deleted (server dry run)\n"
    assert "doomed" in statuses(machine)
    assert said(machine, "delete", "kwl", name, typed="y\n") == f"{asked}jobs.batch/doomed deleted\n"
    soon(lambda: "doomed" not in statuses(machine))


def test_changes_are_printed_as_they_come(machine: Machine) -> None:
    watching = machine.start("list", "lq", "-w")
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline().startswith("NAME ")
        assert said(machine, "create", "lq", "fresh", "-c", "team-a").endswith("created\n")
        while not watching.stdout.readline().startswith("fresh "):
            pass
    finally:
        watching.kill()
        watching.communicate()


def test_pass_through_and_version(machine: Machine) -> None:
    lines = said(machine, "version").splitlines()
    assert lines[0].startswith("Client Version: v")
    assert lines[1].startswith("Server Version: v1.")
    if shutil.which("kubectl") is not None:
        done = machine.run("get", "cq", "team-a", "-o", "name")
        assert (done.returncode, done.stdout) == (0, "clusterqueue.kueue.x-k8s.io/team-a\n")
