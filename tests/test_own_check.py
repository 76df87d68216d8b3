"""Does a check of somebody else's work? `examples/own-admission-check` as a process beside `pykueue up`, over HTTP.

The example's own run.sh shows approval and denial; here is what it does not wait for.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.machine import Machine, machine_in
from tests.plane.client import Client, Tree, condition
from tests.plane.process import Program

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "own-admission-check"
DECISION, BY = "approval.example.com/decision", "approval.example.com/by"


class Office:
    """A server with the example's queue, and the example's controller, which comes and goes."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        done = machine.run(
            "up",
            "--detach",
            "--port=0",
            "--cpus=4",
            "--gpus=2",
            "--on-stop=terminate",
            f"--apply={EXAMPLE / 'check.yaml'}",
        )
        assert done.returncode == 0, done.stderr
        self.kubeconfig = machine.data / "kubeconfig"
        config = yaml.safe_load(self.kubeconfig.read_text())
        server, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
        self.client = Client(server, token, str(machine.data / "tls" / "ca.crt"))

    def opens(self, **settings: int) -> Program:
        """Start the controller."""
        waits = {f"APPROVAL_{name.upper()}_SECONDS": str(value) for name, value in settings.items()}
        log = self.machine.data.parent / "approval.log"
        return Program(
            "approval", [sys.executable, EXAMPLE / "approval.py"], log, {"KUBECONFIG": str(self.kubeconfig), **waits}
        )

    def submit(self, name: str, command: str = "true") -> None:
        tree: dict[str, Any] = yaml.safe_load((EXAMPLE / "job.yaml").read_text())
        tree["metadata"]["name"] = name
        tree["spec"]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", command]
        self.client.create(tree)

    def workload(self, job: str, until: Callable[[Tree], bool], what: str) -> Tree:
        """The Workload of a Job once something holds for it."""
        found: list[Tree] = []

        def so() -> bool:
            found[:] = [one for one in self.client.objects("Workload") if f"-{job}-" in one["metadata"]["name"]]
            return bool(found) and until(found[0])

        assert self.client.soon(so), f"{what}: not so; it is {found}"
        return found[0]

    def decide(self, job: str, decision: str) -> None:
        name = self.workload(job, lambda tree: True, "there")["metadata"]["name"]
        body = {"metadata": {"annotations": {DECISION: decision, BY: "alice"}}}
        self.client.patch("Workload", name, body, "default")


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with machine_in(tmp_path_factory.mktemp("office")) as machine:
        made = Office(machine)
        yield made
        made.client.close()


def check(tree: Tree) -> Tree:
    """What the only check of a Workload says."""
    found: list[Tree] = tree.get("status", {}).get("admissionChecks") or [{}]
    return found[0]


def holds(tree: Tree, kind: str) -> bool:
    return condition(tree, kind).get("status") == "True"


def test_what_nobody_answers_leaves_its_quota_to_others_and_comes_back(office: Office) -> None:
    controller = office.opens(hold=2, again=2)
    try:
        office.submit("patient")
        kept = office.workload(
            "patient", lambda tree: holds(tree, "Evicted") and "admission" not in tree["status"], "sent away"
        )
        assert condition(kept, "Evicted")["message"].startswith(
            'Evicted due to AdmissionCheck in Retry state: "approval" (not approved within 2 s;'
        )
        office.workload("patient", lambda tree: holds(tree, "QuotaReserved") and bool(check(tree)), "back in line")
        office.decide("patient", "approved")
        tree = office.workload("patient", lambda tree: holds(tree, "Finished"), "run and done")
        assert condition(tree, "Finished")["reason"] == "Succeeded"
        assert check(tree)["state"] == "Ready"
        (pod,) = (one for one in office.client.objects("Pod") if one["metadata"]["labels"]["job-name"] == "patient")
        assert pod["metadata"]["labels"]["approval.example.com/approved"] == "true"
        assert pod["metadata"]["annotations"][BY] == "alice"
    finally:
        controller.kill()
    assert controller.logged() == ""


def test_what_was_decided_while_it_was_killed_is_found_when_it_is_back(office: Office) -> None:
    office.opens().kill()
    office.submit("lonely", "sleep 60")
    office.workload("lonely", lambda tree: holds(tree, "QuotaReserved"), "given quota, though nobody decides")
    office.decide("lonely", "approved")
    controller = office.opens()
    try:
        office.workload("lonely", lambda tree: holds(tree, "Admitted"), "admitted")
        controller.kill()
        controller = office.opens()
        # A second look changes nothing; an approval that is withdrawn ends what runs.
        before = check(office.workload("lonely", lambda tree: True, "there"))
        office.submit("next")
        waiting = office.workload("next", lambda tree: "waiting for approval" in check(tree).get("message", ""), "seen")
        assert waiting["metadata"]["name"] in check(waiting)["message"]
        assert check(office.workload("lonely", lambda tree: True, "there")) == before
        office.decide("lonely", "denied")
        tree = office.workload("lonely", lambda tree: tree["spec"]["active"] is False, "deactivated")
        tree = office.workload("lonely", lambda tree: holds(tree, "Evicted"), "evicted")
        assert condition(tree, "Evicted")["reason"] == "DeactivatedDueToAdmissionCheck"
        assert condition(tree, "Evicted")["message"].endswith('"approval" (denied by alice)')
    finally:
        controller.kill()
    assert controller.logged() == ""
