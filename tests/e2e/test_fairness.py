"""Is borrowed quota divided by weight under fair sharing, and do queues and cohorts show their shares?"""

import pytest

from tests.e2e.job import Job
from tests.e2e.team import Queue, Team
from tests.plane.client import condition

FAIR = pytest.mark.manager(
    config={"fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}}
)
RECLAIM = {"reclaimWithinCohort": "Any"}


def pool(team: Team, cpu: int) -> str:
    """A Cohort that owns this much cpu."""
    team.shared_flavor()
    quota = {"name": team.own("default"), "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}
    return team.cohort("all", resourceGroups=[{"coveredResources": ["cpu"], "flavors": [quota]}])


def has_share(team: Team, kind: str, name: str, share: int) -> None:
    """Wait until the status of an object has this share."""
    team.client.wait_for(
        kind,
        name,
        "",
        lambda tree: tree.get("status", {}).get("fairSharing") == {"weightedShare": share},
    )


def runs_one(queue: Queue, name: str) -> Job:
    """A job of one cpu that runs."""
    job = queue.job(name, cpu=1)
    job.runs()
    return job


@FAIR
def test_what_is_borrowed_is_divided_by_weight(team: Team) -> None:
    cohort = pool(team, 4)
    greedy = team.queue("greedy", cpu=0, cohortName=cohort, preemption=RECLAIM)
    late = team.queue("late", cpu=0, cohortName=cohort, preemption=RECLAIM, fairSharing={"weight": "3"})
    has_share(team, "ClusterQueue", greedy.cluster_queue, 0)
    has_share(team, "Cohort", cohort, 0)
    first = [runs_one(greedy, f"first-{number}") for number in range(4)]
    has_share(team, "ClusterQueue", greedy.cluster_queue, 1000)
    for number in range(3):
        runs_one(late, f"second-{number}")
    evicted = [job for job in first if condition(job.workload(), "Evicted").get("status") == "True"]
    assert len(evicted) == 3
    preempted = condition(evicted[0].workload(), "Preempted")
    assert preempted["reason"] == "InCohortFairSharing"
    assert "due to Fair Sharing within the cohort; preemptor path: " in preempted["message"]
    has_share(team, "ClusterQueue", greedy.cluster_queue, 250)
    has_share(team, "ClusterQueue", late.cluster_queue, 250)
    one_more = late.job("one-more", cpu=1)
    one_more.waits("WaitingForQuota")
    one_more.never_runs(1)
    has_share(team, "Cohort", cohort, 0)


@FAIR
def test_a_queue_of_weight_zero_borrows_what_nobody_else_wants(team: Team) -> None:
    cohort = pool(team, 1)
    scraps = team.queue("scraps", cpu=0, cohortName=cohort, fairSharing={"weight": "0"})
    other = team.queue("other", cpu=0, cohortName=cohort, preemption=RECLAIM)
    victim = runs_one(scraps, "victim")
    has_share(team, "ClusterQueue", scraps.cluster_queue, 2**63 - 1)
    runs_one(other, "wanted")
    victim.is_evicted("Preempted")
    has_share(team, "ClusterQueue", scraps.cluster_queue, 0)


def test_without_fair_sharing_nobody_is_preempted_by_share(team: Team) -> None:
    cohort = pool(team, 1)
    greedy = team.queue("greedy", cpu=0, cohortName=cohort)
    late = team.queue("late", cpu=0, cohortName=cohort, preemption=RECLAIM, fairSharing={"weight": "3"})
    first = runs_one(greedy, "first")
    late.job("second", cpu=1).waits("WaitingForQuota")
    first.stays(1)
    assert "fairSharing" not in team.client.get("ClusterQueue", greedy.cluster_queue)["status"]
