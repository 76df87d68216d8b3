"""What can the owner of a Job, who may not write its Workload, do with it by annotations?"""

import pytest

from tests.e2e.job import Job
from tests.e2e.team import Team
from tests.plane.client import condition

pytestmark = pytest.mark.ours("Kueue knows no annotation to hold or requeue a Job")

DEACTIVATED = "The workload is deactivated"
BY = "pykueue.io/deactivated-by"


def evictions(job: Job) -> list[tuple[str, int]]:
    """Why its Workload was evicted, and how often."""
    found = job.workload()["status"]["schedulingStats"]["evictions"]
    return [(one["reason"], one["count"]) for one in found]


def test_a_held_job_leaves_its_quota_to_others_until_it_is_released(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("held")
    job.runs()
    other = queue.job("other")
    other.waits("WaitingForQuota")
    job.annotate(hold="true")
    tree = job.is_evicted("Deactivated", DEACTIVATED)
    assert tree["spec"]["active"] is False
    assert tree["metadata"]["annotations"][BY] == "hold"
    job.waits("Deactivated", DEACTIVATED)
    job.event("Held", "Held by the annotation pykueue.io/hold")
    other.runs()
    other.ends()
    job.never_runs()
    job.annotate(hold=None)
    tree = job.runs()
    assert tree["spec"]["active"] is True
    assert BY not in tree["metadata"].get("annotations", {})
    job.event("Released")


def test_a_job_that_is_submitted_held_is_admitted_only_when_it_is_released(team: Team) -> None:
    queue = team.queue(cpu=1)
    with team.recorded() as versions:
        job = queue.job("held", annotations={"pykueue.io/hold": "true"})
        job.waits("Deactivated", DEACTIVATED)
        job.never_runs()
        job.annotate(hold=None)
        job.runs()
    shown = versions[job.workload_name]
    assert shown[0]["spec"]["active"] is False
    assert not any(condition(tree, "Admitted").get("status") == "True" for tree in shown if not tree["spec"]["active"])


def test_a_release_leaves_alone_what_an_administrator_has_deactivated(team: Team) -> None:
    job = team.queue(cpu=1).job("stopped")
    job.runs()
    job.set_active(False)
    job.waits("Deactivated", DEACTIVATED)
    job.annotate(hold="true")
    team.sleep(0.5)
    job.annotate(hold=None, requeue="2026-11-16T10:00:00Z")
    job.until(lambda tree: bool(tree["metadata"].get("annotations", {}).get("pykueue.io/requeued")), "a record")
    job.never_runs()
    job.set_active(True)
    job.runs()


def test_a_requeued_job_starts_once_more(team: Team) -> None:
    job = team.queue(cpu=1).job("again")
    job.runs()
    before = {pod["metadata"]["uid"] for pod in job.pods()}
    job.annotate(requeue="2026-11-16T10:00:00Z")
    job.event("Requeued")
    team.eventually(lambda: bool({pod["metadata"]["uid"] for pod in job.pods()} - before), "another pod")
    job.runs()
    job.stays()
    assert evictions(job) == [("Deactivated", 1)]
    tree = job.workload()
    assert tree["metadata"]["annotations"] == {"pykueue.io/requeued": "2026-11-16T10:00:00Z"}
    assert "requeueState" not in tree["status"]


@pytest.mark.manager(none=True, alone=True)
def test_a_requeue_whose_manager_is_killed_in_the_middle_evicts_once(team: Team) -> None:
    with team.backend.manager() as manager:
        job = team.queue(cpu=1).job("again", stop="2s")
        job.runs()
        before = {pod["metadata"]["uid"] for pod in job.pods()}
        job.annotate(requeue="2026-11-16T10:00:00Z")
        job.until(lambda tree: tree["spec"]["active"] is False, "deactivated")
        manager.kill()
    with team.backend.manager():
        team.eventually(lambda: bool({pod["metadata"]["uid"] for pod in job.pods()} - before), "another pod")
        job.runs()
        job.stays()
        assert evictions(job) == [("Deactivated", 1)]
