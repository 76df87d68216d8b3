"""`pykueue queue` on a real server."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.machine import Machine, machine_in
from tests.patience import soon


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine_in(tmp_path_factory.mktemp("queue")) as made:
        done = made.run("up", "--detach", "--port", "0", "--cpus", "4", "--gpus", "2")
        assert done.returncode == 0, done.stderr
        yield made


def queue(machine: Machine, *words: str) -> subprocess.CompletedProcess[str]:
    return machine.run("queue", *words)


def test_a_team_gets_its_share_and_runs_a_job_without_a_line_of_yaml(machine: Machine, tmp_path: Path) -> None:
    machine.cwd = tmp_path
    done = queue(machine, "add", "vision", "--share", "50%")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("queue vision created: it owns 2 cpu, ")
    assert done.stdout.endswith("1 nvidia.com/gpu; submit from namespace default\n")
    assert machine.run("run", "-q", "vision", "--", "echo", "hello").stdout == "hello\n"
    again = queue(machine, "add", "vision", "--share", "50%")
    assert (again.returncode, again.stderr) == (
        1,
        "queue vision already exists; change its quota with `pykueue queue set vision`\n",
    )
    changed = queue(machine, "set", "vision", "--gpu", "2")
    assert changed.stdout.startswith("queue vision changed: it owns 2 cpu, ")
    assert (changed.stdout.endswith(", 2 nvidia.com/gpu\n"), changed.stderr) == (True, "")
    over = queue(machine, "add", "speech", "--cpu", "3")
    assert over.returncode == 0
    assert over.stderr.startswith("warning: all queues together own 5 cpu, but the machine has 4: ")
    assert queue(machine, "remove", "speech").stdout == "LocalQueue default/speech removed\nqueue speech removed\n"
    assert "'speech'" in queue(machine, "remove", "speech").stderr


def test_a_dry_run_prints_what_kubectl_applies_and_changes_nothing(machine: Machine) -> None:
    done = queue(machine, "add", "exam", "--cpu", "2", "--alone", "--dry-run")
    made = list(yaml.safe_load_all(done.stdout))
    assert [(one["kind"], one["metadata"]["name"]) for one in made if one["kind"] != "ResourceFlavor"] == [
        ("ClusterQueue", "exam"),
        ("LocalQueue", "exam"),
    ]
    cluster_queue = next(one for one in made if one["kind"] == "ClusterQueue")
    assert "cohortName" not in cluster_queue["spec"]
    assert "no queue 'exam'" in queue(machine, "set", "exam", "--cpu", "1").stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("add", "x"), 2, "specify a quota: --share 25%"),
        (("add", "x", "--share", "half"), 2, "--share: 'half' is not a share; write it as in 25% or 1/4"),
        (("add", "x", "--memory", "8GB"), 2, "--memory: '8GB' is not a quantity; write 8Gi"),
        (("add", "x", "--cpu", "-1"), 2, "--cpu: '-1' is negative"),
        (("add", "x", "--cpu", "1", "-n", "nowhere"), 1, "--namespace: no namespace 'nowhere'"),
        (("add", "x", "--cpu", "1", "--flavor", "gold"), 1, "--flavor: no ResourceFlavor 'gold'"),
        (("add", "x", "--cpu", "1", "--alone", "--no-lending"), 2, "--alone: cannot be combined with"),
        (("add", "X_y", "--cpu", "1"), 1, "X_y"),
        (("set", "x"), 2, "specify the quota to change"),
        (("remove", "nowhere"), 1, "no queue 'nowhere'; "),
    ],
)
def test_what_cannot_be_done_is_a_sentence(machine: Machine, words: tuple[str, ...], code: int, said: str) -> None:
    done = queue(machine, *words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_queue_in_use_is_kept_unless_forced(machine: Machine, tmp_path: Path) -> None:
    queue(machine, "add", "busy", "--cpu", "1", "--cohort", "other")
    machine.cwd = tmp_path
    os.mkfifo(tmp_path / "gate")
    machine.run("run", "-q", "busy", "--cpu", "9", "--detach", "--", "cat", str(tmp_path / "gate"))
    # The status of the queue counts the job a moment later.
    assert soon(lambda: "add --force" in queue(machine, "remove", "busy", "--dry-run").stderr)
    assert queue(machine, "remove", "busy").returncode == 1
    assert queue(machine, "remove", "busy", "--force").returncode == 0
