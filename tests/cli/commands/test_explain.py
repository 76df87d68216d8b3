"""Do `explain` and `history` answer on a real server, to its administrator and to a user? One server for all."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.cli.machine import Machine, machine_in
from tests.patience import soon


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine_in(tmp_path_factory.mktemp("explain")) as made:
        made.up()
        for name, cpu in (("runs", "4"), ("waits", "3"), ("never", "64")):
            done = made.run("run", "--detach", "-q", "team-a", "--cpu", cpu, "--name", name, "--", "sleep", "600")
            assert done.returncode == 0, done.stderr
        yield made


def test_jobs_and_queues_are_explained(machine: Machine) -> None:
    found = {}

    def is_told() -> bool:
        found["done"] = machine.run("explain", "waits")
        return "waits: needs 3 more cpu" in found["done"].stdout

    assert soon(is_told)
    assert (found["done"].returncode, found["done"].stderr) == (0, "")
    # Jobs of the same second are in an order of their own.
    assert re.search("place in line: [12] of 2", found["done"].stdout)
    assert "  1. wait until work that uses 3 cpu of flavor machine finishes" in found["done"].stdout
    answer = json.loads(machine.run("explain", "job/never", "-o", "json").stdout)
    assert (answer["kind"], answer["state"], answer["canNeverStart"]) == ("WorkloadExplanation", "Pending", True)
    queue = machine.run("explain", "team-a").stdout
    assert "Job runs: 4 cpu of flavor machine" in queue
    assert "\x1b" not in queue, "there is no terminal"


def test_the_history_is_remembered(machine: Machine) -> None:
    assert soon(lambda: "starts: takes 4 cpu" in machine.run("history", "runs").stdout)


def test_what_does_not_exist_gets_a_sentence(machine: Machine) -> None:
    done = machine.run("explain", "wait")
    assert (done.returncode, done.stdout) == (1, "")
    assert "did you mean waits?" in done.stderr


def test_after_a_preemption_the_alternatives_are_told(machine: Machine) -> None:
    """The last test, because the owner of the quota makes `runs` leave."""
    done = machine.run("run", "--detach", "-q", "team-b", "--cpu", "1", "--name", "small", "--", "sleep", "600")
    assert done.returncode == 0, done.stderr
    told = "there was no other candidate"
    assert soon(lambda: told in machine.run("explain", "runs").stdout)
    answer = json.loads(machine.run("explain", "runs", "-o", "json").stdout)["eviction"]
    assert (answer["preemptor"], answer["otherCandidates"]) == ("Job small", 0)
    assert "Job small chose flavor machine for pod set main: needs 1 more cpu" in answer["flavors"][0]
    assert f"it is queued again by itself; {told}" in machine.run("history", "runs").stdout
    assert "evicted for it at" in machine.run("explain", "small").stdout
