"""What do admission checks do to a Job, before and after it was admitted?"""

import pytest

from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import condition


def checked(*checks: str) -> dict[str, object]:
    return {"admissionChecks": [{"name": check} for check in checks]}


@covers("L95", "L96")
def test_a_check_of_one_flavor_is_asked_of_those_alone_who_get_that_flavor(team: Team) -> None:
    check = team.check("costly")
    cheap, dear = team.flavor("cheap"), team.flavor("dear")
    queue = team.queue(
        flavors={cheap: {"cpu": 1}, dear: {"cpu": 1}},
        admissionChecksStrategy={"admissionChecks": [{"name": check, "onFlavors": [dear]}]},
    )
    first = queue.job("first")
    assert "admissionChecks" not in first.runs()["status"]
    second = queue.job("second")
    second.shows("QuotaReserved", True)
    second.check_is(check, "Pending")
    second.never_runs(0.5)
    second.set_check(check, "Ready")
    second.runs()


@covers("L97")
def test_a_check_that_comes_later_takes_nothing_back_until_it_says_retry(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("one")
    job.runs()
    check = team.check("late")
    queue.edit(admissionChecksStrategy=checked(check))
    job.check_is(check, "Pending")
    job.stays(0.5)
    job.set_check(check, "Retry", "not now")
    job.is_evicted("AdmissionCheck", f'Evicted due to AdmissionCheck in Retry state: "{check}" (not now)')


@covers("L98")
def test_of_one_check_in_retry_and_one_rejected_the_rejection_counts(team: Team) -> None:
    a, b = team.check("a"), team.check("b")
    queue = team.queue(cpu=1, admissionChecksStrategy=checked(a, b))
    job = queue.job("one")
    job.check_is(b, "Pending")
    job.shows("QuotaReserved", True)
    tree = job.workload()
    states = [
        {**one, "state": state}
        for one, state in zip(tree["status"]["admissionChecks"], ("Retry", "Rejected"), strict=True)
    ]
    team.client.patch(
        "Workload", job.workload_name, {"status": {"admissionChecks": states}}, team.namespace, subresource="status"
    )
    job.is_evicted("DeactivatedDueToAdmissionCheck")
    job.waits("Deactivated")


def test_a_check_may_say_what_yaml_does_not_allow(team: Team) -> None:
    check = team.check("terse")
    queue = team.queue(cpu=1, admissionChecksStrategy=checked(check))
    job = queue.job("one")
    job.shows("QuotaReserved", True)
    said = "erased\x7f, escaped\x9b, next\x85line\u2028and none\ufffe"
    job.set_check(check, "Ready", said)
    (state,) = job.runs()["status"]["admissionChecks"]
    assert state["message"] == said


@covers("L99")
def test_a_check_in_retry_sends_the_job_back_and_it_is_tried_again(team: Team) -> None:
    check = team.check("slow")
    queue = team.queue(cpu=1, admissionChecksStrategy=checked(check))
    job = queue.job("one")
    job.shows("QuotaReserved", True)
    with team.recorded() as versions:
        job.set_check(check, "Retry", "later")
        job.until(
            lambda tree: (
                condition(tree, "Requeued").get("reason") == "BackoffFinished"
                and condition(tree, "QuotaReserved").get("status") == "True"
            ),
            "reserved again",
        )
    kept = versions[job.workload_name]
    evicted = next(condition(tree, "Evicted") for tree in kept if condition(tree, "Evicted"))
    assert evicted["message"] == f'Evicted due to AdmissionCheck in Retry state: "{check}" (later)'
    (state,) = job.workload()["status"]["admissionChecks"]
    assert (state["state"], state["message"], state["retryCount"]) == (
        "Pending",
        "Reset to Pending after eviction. Previously: Retry",
        1,
    )
    job.set_check(check, "Ready")
    job.runs()


@pytest.mark.ours("Kueue keeps the quota for the whole delay")
@covers("L100", "L101")
def test_a_check_in_retry_with_a_delay_gives_the_quota_back_at_once(team: Team) -> None:
    check = team.check("slow")
    queue = team.queue(cpu=1, admissionChecksStrategy=checked(check))
    job = queue.job("one")
    job.shows("QuotaReserved", True)
    job.set_check(check, "Retry", "later", requeueAfterSeconds=5)
    job.is_evicted("AdmissionCheck")
    other = queue.job("other")
    other.shows("QuotaReserved", True)
    assert "requeueAt" in job.workload()["status"]["requeueState"]
    other.delete()
    job.shows("Requeued", True, "BackoffFinished")
    job.shows("QuotaReserved", True)


@covers("L102")
def test_a_rejection_of_a_running_job_deactivates_it_and_all_checks_begin_anew(team: Team) -> None:
    a, b = team.check("a"), team.check("b")
    queue = team.queue(cpu=1, admissionChecksStrategy=checked(a, b))
    job = queue.job("one")
    job.check_is(b, "Pending")
    job.shows("QuotaReserved", True)
    job.set_check(a, "Ready")
    tree = job.check_is(a, "Ready")
    states = [{**one, "state": "Ready"} for one in tree["status"]["admissionChecks"]]
    team.client.patch(
        "Workload", job.workload_name, {"status": {"admissionChecks": states}}, team.namespace, subresource="status"
    )
    job.runs()
    states[1] |= {"state": "Rejected", "message": "no"}
    team.client.patch(
        "Workload", job.workload_name, {"status": {"admissionChecks": states}}, team.namespace, subresource="status"
    )
    message = f'AdmissionCheck in Rejected state: "{b}" (no)'
    job.is_evicted("DeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {message}")
    job.workload_event("AdmissionCheckRejected", f"Deactivated due to {message}", "Warning")
    job.check_is(a, "Pending", "Reset to Pending after eviction. Previously: Ready")
    job.check_is(b, "Pending", "Reset to Pending after eviction. Previously: Rejected")
    job.waits("Deactivated")


@covers("L104")
def test_an_inactive_check_closes_its_queue_and_leaves_alone_what_runs(team: Team) -> None:
    check = team.check("slow")
    queue = team.queue(cpu=2, admissionChecksStrategy=checked(check))
    job = queue.job("one")
    job.shows("QuotaReserved", True)
    job.set_check(check, "Ready")
    job.runs()
    team.set_check_active(check, False)
    reason = f"references inactive AdmissionCheck(s): {check}."
    queue.says("Active", False, "AdmissionCheckInactive", f"Can't admit new workloads: {reason}")
    job.stays(0.5)
    late = queue.job("late")
    late.waits("Suspended", f"ClusterQueue {queue.cluster_queue} is inactive")
    team.set_check_active(check, True)
    late.shows("QuotaReserved", True)
