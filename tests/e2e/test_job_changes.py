"""What may the user of a Job change while it waits and while it runs? (`test_jobs` tells the rest.)"""

import pytest

from tests.e2e.team import Team
from tests.plane.client import ApiError


def test_a_waiting_job_whose_template_changes_is_judged_by_the_new_one(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("one", cpu=2)
    job.waits("ExceedsMaxQuota")
    template = job.tree()["spec"]["template"]
    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    job.patch({"spec": {"template": template}})
    job.runs()


def test_a_waiting_job_that_is_deleted_leaves_the_line(team: Team) -> None:
    queue = team.queue(cpu=1, queueingStrategy="StrictFIFO")
    running = queue.job("running")
    running.runs()
    first = queue.job("first")
    first.waits("WaitingForQuota")
    second = queue.job("second", cpu="0.5")
    name = first.workload_name
    first.delete()
    team.client.wait_gone("Workload", name, team.namespace)
    running.ends()
    second.runs()


def test_a_job_without_a_queue_is_none_of_our_business(team: Team) -> None:
    job = team.job("free")
    team.client.wait_for("Job", "free", team.namespace, lambda tree: tree["status"].get("active") == 1)
    assert job.find_workload() is None


def test_a_running_job_cannot_change_its_queue(team: Team) -> None:
    queue = team.queue(cpu=1)
    team.queue("other", cpu=1)
    job = queue.job("one")
    job.runs()
    with pytest.raises(ApiError, match="field is immutable"):
        job.label(queue_name="other")


def test_a_job_that_another_controller_manages_is_not_started_by_us(team: Team) -> None:
    job = team.queue(cpu=1).job("one", managedBy="example.com/other")
    job.shows("Admitted", True)
    team.client.wait_for("Job", "one", team.namespace, lambda tree: tree["spec"]["suspend"] is False)
    assert not job.pods()
