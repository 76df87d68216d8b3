"""Is quota divided by weight under fair sharing, by present and by past use, and do queues and cohorts show it?"""

from collections.abc import Mapping

import pytest

from tests.e2e.job import Job
from tests.e2e.team import Queue, Team
from tests.plane.client import condition

SHARING = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
PAST_USE = {"usageHalfLifeTime": "1h", "usageSamplingInterval": "1m", "resourceWeights": {"cpu": 1}}
BY_USAGE = "UsageBasedAdmissionFairSharing"
FAIR = pytest.mark.manager(config={"fairSharing": SHARING})
FAIR_BY_USAGE = pytest.mark.manager(config={"fairSharing": SHARING, "admissionFairSharing": PAST_USE})
RECLAIM = {"reclaimWithinCohort": "Any"}


def pool(team: Team, cpu: int, annotations: Mapping[str, str] = {}) -> str:
    """A Cohort that owns this much cpu."""
    team.shared_flavor()
    quota = {"name": team.own("default"), "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}
    return team.cohort("all", annotations, resourceGroups=[{"coveredResources": ["cpu"], "flavors": [quota]}])


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


def has_used(team: Team, queue: Queue) -> bool:
    """Whether the past use of a LocalQueue is in its status."""
    status = team.get("LocalQueue", queue.name, team.namespace).get("status", {})
    past = status.get("fairSharing", {}).get("admissionFairSharingStatus", {})
    return bool(past.get("consumedResources", {}).get("cpu", "0") != "0")


@FAIR_BY_USAGE
def test_the_local_queue_that_has_used_less_goes_first(team: Team) -> None:
    busy = team.queue("busy", cpu=1, admissionScope={"admissionMode": BY_USAGE})
    idle = team.local_queue("idle", busy.cluster_queue)
    first = runs_one(busy, "first")
    team.eventually(lambda: has_used(team, busy), "past use in the status of the LocalQueue")
    older, younger = busy.job("older", cpu=1), idle.job("younger", cpu=1)
    for job in (older, younger):
        job.waits("WaitingForQuota")
    first.ends()
    younger.runs()
    older.never_runs(1)


@FAIR_BY_USAGE
def test_the_team_that_has_used_less_goes_first_in_an_annotated_cohort(team: Team) -> None:
    cohort = pool(team, 1, {"pykueue.io/admission-mode": BY_USAGE})
    busy, idle = (team.queue(name, cpu=0, cohortName=cohort) for name in ("busy", "idle"))
    first = runs_one(busy, "first")
    team.eventually(lambda: has_used(team, busy), "past use in the status of the LocalQueue")
    older, younger = busy.job("older", cpu=1), idle.job("younger", cpu=1)
    for job in (older, younger):
        job.waits("WaitingForQuota")
    first.ends()
    younger.runs()
    older.never_runs(1)
