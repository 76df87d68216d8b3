"""Does the quota of pods that are done come back while the rest of their Job runs? (KEP-78)"""

import pytest

from tests.e2e.job import Job
from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import Tree


def reclaimable(job: Job, count: int) -> Tree:
    return job.until(
        lambda tree: tree.get("status", {}).get("reclaimablePods") == [{"name": "main", "count": count}],
        f"{count} reclaimable",
    )


def succeeded(team: Team, job: Job, count: int) -> None:
    team.client.wait_for("Job", job.name, team.namespace, lambda tree: tree["status"].get("succeeded") == count)


@covers("KEP78-1", "KEP78-4", "KEP78-8", "KEP78-9", "L68")
def test_a_job_that_waits_for_just_that_much_starts_when_a_pod_is_done(team: Team) -> None:
    queue = team.queue(cpu=3)
    first = queue.job("first", pods=3)
    first.runs()
    queue.uses(reserved=3, used=3)
    second = queue.job("second", cpu=1)
    second.waits("WaitingForQuota")
    first.pods_do("succeeded", 1)
    reclaimable(first, 1)
    second.runs()
    second.ends()
    second.finishes()
    queue.uses(reserved=2, used=2)
    first.stays(0.5)
    first.ends()
    first.finishes()
    queue.uses(reserved=0, used=0)


@covers("KEP78-2", "KEP78-5", "KEP78-10")
def test_laggards_keep_their_own_share_until_the_end(team: Team) -> None:
    queue = team.queue(cpu=2)
    first = queue.job("first", pods=2)
    first.runs()
    second = queue.job("second", cpu=2)
    second.waits("WaitingForQuota")
    first.pods_do("succeeded", 1)
    reclaimable(first, 1)
    second.never_runs(1)
    first.ends()
    second.runs()


@covers("L69", "KEP78-3", "KEP78-6")
def test_pods_are_reclaimable_only_once_fewer_are_left_than_may_run_at_once(team: Team) -> None:
    queue = team.queue(cpu=3)
    job = queue.job("many", pods=3, completions=10)
    job.runs()
    for done in range(1, 8):
        job.pods_do("succeeded", 1)
        succeeded(team, job, done)
        job.runs()
    assert "reclaimablePods" not in job.workload()["status"]
    job.pods_do("succeeded", 1)
    reclaimable(job, 1)
    job.client.wait_for("Job", job.name, team.namespace, lambda tree: tree["status"].get("active") == 2)
    job.pods_do("succeeded", 1)
    reclaimable(job, 2)


@covers("KEP78-4", "KEP78-5")
def test_a_job_with_more_parallelism_than_completions_keeps_the_quota_of_its_running_pods(team: Team) -> None:
    queue = team.queue(cpu=4)
    wide = queue.job("wide", pods=10, completions=4)
    wide.runs()
    queue.uses(reserved=4, used=4)
    second = queue.job("second", cpu=4)
    second.waits("WaitingForQuota")
    wide.pods_do("succeeded", 1)
    reclaimable(wide, 1)
    queue.uses(reserved=3, used=3)
    second.never_runs(1)
    assert len(wide.pods()) == 3
    wide.ends()
    second.runs()


@covers("KEP78-7")
def test_pods_that_failed_give_nothing_back(team: Team) -> None:
    queue = team.queue(cpu=2)
    job = queue.job("one", pods=2)
    job.runs()
    job.pods_do("failed", 1)
    team.client.wait_for("Job", "one", team.namespace, lambda tree: tree["status"].get("failed") == 1)
    job.runs()
    assert "reclaimablePods" not in job.workload()["status"]
    queue.uses(reserved=2)


@pytest.mark.manager(gates={"ReclaimablePods": False})
def test_without_the_gate_quota_comes_back_only_at_the_end(team: Team) -> None:
    queue = team.queue(cpu=2)
    job = queue.job("one", pods=2)
    job.runs()
    job.pods_do("succeeded", 1)
    succeeded(team, job, 1)
    team.sleep(1)
    assert "reclaimablePods" not in job.workload()["status"]
    queue.uses(reserved=2)
    job.ends()
    queue.uses(reserved=0)
