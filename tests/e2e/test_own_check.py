"""Does the check of `examples/own-admission-check` work on a cluster, with the rights of its manifest alone?"""

import sys
from collections.abc import Iterator

import pytest

from tests.e2e.backend import only_on_plane
from tests.e2e.job import KUEUE
from tests.e2e.team import Team
from tests.plane.client import condition
from tests.plane.plane import ROOT, documents
from tests.plane.process import Program

only_on_plane("it runs a process that speaks to an API server, by the rights of a service account")

EXAMPLE = ROOT / "examples" / "own-admission-check"
DECISION, BY = "approval.example.com/decision", "approval.example.com/by"


@pytest.fixture
def check(team: Team) -> Iterator[str]:
    """An AdmissionCheck that the example's controller answers for."""
    plane = team.cluster.plane
    plane.apply_all(documents((EXAMPLE / "rbac.yaml").read_text()))
    kubeconfig = plane.kubeconfig_for(plane.token("kueue-system", "approval"), "approval")
    controller = Program(
        "approval",
        [sys.executable, EXAMPLE / "approval.py"],
        plane.folder / "approval.log",
        {
            "KUBECONFIG": str(kubeconfig),
            "PYTHONPATH": str(ROOT / "src"),
            "APPROVAL_HOLD_SECONDS": "3",
            "APPROVAL_AGAIN_SECONDS": "2",
        },
    )
    name = team.own("approval")
    team.create(
        {
            "apiVersion": KUEUE,
            "kind": "AdmissionCheck",
            "metadata": {"name": name},
            "spec": {"controllerName": "example.com/approval"},
        }
    )
    yield name
    controller.kill()
    # It could do all that it wanted.
    assert controller.logged() == ""


def test_an_approval_starts_the_job_and_a_denial_ends_it(team: Team, check: str) -> None:
    cheap, dear = team.flavor("cheap"), team.flavor("dear")
    queue = team.queue(
        flavors={cheap: {"cpu": 1}, dear: {"cpu": 1}},
        admissionChecksStrategy={"admissionChecks": [{"name": check, "onFlavors": [dear]}]},
    )
    queue.job("free").runs()
    job = queue.job("dear")
    tree = job.check_is(check, "Pending")
    job.is_evicted("AdmissionCheck")
    assert "waiting for approval" in job.event("UpdatedAdmissionCheck")["note"], tree
    job.check_is(check, "Pending", "Reset to Pending after eviction. Previously: Retry")
    job.shows("Requeued", True, "BackoffFinished")
    job.shows("QuotaReserved", True)
    said = {"metadata": {"annotations": {DECISION: "approved", BY: "alice"}}}
    team.client.patch("Workload", job.workload_name, said, team.namespace)
    job.runs()
    assert all(pod["metadata"]["labels"]["approval.example.com/approved"] == "true" for pod in job.pods())
    job.check_is(check, "Ready", "approved by alice")
    said["metadata"]["annotations"][DECISION] = "denied"
    team.client.patch("Workload", job.workload_name, said, team.namespace)
    job.is_evicted("DeactivatedDueToAdmissionCheck")
    assert condition(job.workload(), "Evicted")["message"].endswith("(denied by alice)")
