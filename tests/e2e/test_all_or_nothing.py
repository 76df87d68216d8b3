"""Can two large Jobs hold half of what they need each, and wait for ever? (KEP-349)"""

import pytest

from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import condition

BLOCKS = pytest.mark.manager(
    config={
        "waitForPodsReady": {
            "timeout": "15s",
            "recoveryTimeout": "15s",
            "blockAdmission": True,
            "requeuingStrategy": {"backoffBaseSeconds": 60},
        }
    },
    alone=True,
)
OFF = pytest.mark.manager(gates={"DisableWaitForPodsReady": True})
WAITS = ("WaitingForPodsReady", "waiting for all admitted workloads to be in PodsReady condition")


@BLOCKS
@covers("KEP349-1", "KEP349-16", "KEP349-17", "L34")
def test_story_1_two_jobs_that_need_all_their_pods_start_one_after_the_other(team: Team) -> None:
    # The quota is for both, but there are nodes for the pods of one.
    team.node("small", {"pool": team.name}, pods=3)
    flavor = team.flavor("pool", {"pool": team.name})
    queue = team.queue(flavors={flavor: {"cpu": 6}})
    first = queue.job("first", pods=3, ready="2s")
    first.runs()
    second = queue.job("second", pods=3)
    second.waits(*WAITS)
    first.shows("PodsReady", True, "Started")
    second.runs()
    first.ends()
    first.finishes()
    second.shows("PodsReady", True, "Started")
    second.ends()
    second.finishes()


@BLOCKS
@covers("KEP349-6", "L34")
def test_a_job_that_is_not_ready_holds_back_every_queue(team: Team) -> None:
    one, two = team.queue("one", cpu=1), team.queue("two", cpu=1)
    first = one.job("first", ready="3s")
    first.runs()
    second = two.job("second")
    second.waits(*WAITS)
    second.runs()
    assert condition(first.workload(), "PodsReady")["status"] == "True"


@BLOCKS
@covers("KEP349-21", "KEP349-12")
def test_a_job_that_is_never_ready_blocks_the_others_no_longer_than_its_timeout(team: Team) -> None:
    queue = team.queue(cpu=4)
    never = queue.job("never", ready="never")
    never.runs()
    next_one = queue.job("next")
    next_one.waits(*WAITS)
    tree = never.is_evicted("PodsReadyTimeout")
    assert tree["status"]["requeueState"]["count"] == 1
    next_one.runs()
    never.is_suspended()


@BLOCKS
@covers("L36")
def test_a_job_that_loses_a_pod_holds_back_the_others_again(team: Team) -> None:
    queue = team.queue(cpu=4)
    first = queue.job("first")
    first.shows("PodsReady", True, "Started")
    first.pods_do("unready")
    first.shows("PodsReady", False, "WaitForRecovery")
    second = queue.job("second")
    second.waits(*WAITS)
    first.pods_do("ready")
    second.runs()


@BLOCKS
@covers("L35")
def test_a_job_that_only_holds_quota_holds_back_the_others_too(team: Team) -> None:
    check = team.check("slow")
    queue = team.queue("checked", cpu=1, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    first = queue.job("first")
    first.shows("QuotaReserved", True)
    second = team.queue("free", cpu=1).job("second")
    second.waits(*WAITS)
    first.set_check(check, "Ready")
    first.shows("PodsReady", True)
    second.runs()


@OFF
@covers("KEP349-3", "KEP349-20")
def test_with_the_feature_off_jobs_start_side_by_side_and_show_no_readiness(team: Team) -> None:
    queue = team.queue(cpu=2)
    first, second = queue.job("first", ready="never"), queue.job("second")
    first.runs()
    second.runs()
    team.sleep(1)
    for job in (first, second):
        assert not condition(job.workload(), "PodsReady")
        assert not condition(job.workload(), "Evicted")
    second.ends()
    second.finishes()
    assert not condition(second.workload(), "PodsReady")


@pytest.mark.manager(
    config={
        "waitForPodsReady": {
            "timeout": "300s",
            "recoveryTimeout": "0s",
            "requeuingStrategy": {"backoffBaseSeconds": 1},
        }
    }
)
@covers("L29", "KEP349-14")
def test_with_no_recovery_timeout_a_job_that_loses_its_pods_stays(team: Team) -> None:
    job = team.queue(cpu=2).job("one", pods=2)
    job.shows("PodsReady", True, "Started")
    job.pods_do("unready")
    job.shows("PodsReady", False, "WaitForRecovery")
    job.stays(3)
    assert not condition(job.workload(), "Evicted")
