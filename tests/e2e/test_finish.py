"""How does a Job's Workload end, and what is cleaned up?"""

import pytest

from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import condition

IN_USE = "kueue.x-k8s.io/resource-in-use"
GONE = "The workload's owner no longer exists"


@covers("L54")
def test_a_finished_job_frees_its_quota_and_keeps_what_it_had(team: Team) -> None:
    queue = team.queue(cpu=1)
    first = queue.job("first")
    first.runs()
    second = queue.job("second")
    first.ends()
    tree = first.finishes("Succeeded", "Reached expected number of succeeded pods")
    assert condition(tree, "QuotaReserved")["status"] == "True"
    assert condition(tree, "Admitted")["status"] == "True"
    second.runs()
    first.until(lambda tree: IN_USE not in tree["metadata"].get("finalizers", []), "no finalizer of ours")


@covers("L55")
def test_a_failed_job_finishes_as_failed(team: Team) -> None:
    job = team.queue(cpu=1).job("one", run="200ms", fail=True, backoffLimit=0)
    job.finishes("Failed", "Job has reached the specified backoff limit")


@covers("L56")
def test_a_deleted_job_takes_its_workload_along(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("one")
    name = job.runs()["metadata"]["name"]
    waiting = queue.job("waiting")
    with team.recorded() as versions:
        job.delete()
        team.client.wait_gone("Workload", name, team.namespace)
        waiting.runs()
    ends = [condition(tree, "Finished") for tree in versions[name] if condition(tree, "Finished")]
    assert [(one["reason"], one["message"]) for one in ends[:1]] in ([], [("OwnerNotFound", GONE)])


@covers("L57")
def test_a_job_deleted_without_its_workload_leaves_it_finished(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("one")
    job.runs()
    job.delete("Orphan")
    job.finishes("OwnerNotFound", GONE)
    job.until(lambda tree: "ownerReferences" not in tree["metadata"], "no owner")
    job.until(lambda tree: IN_USE not in tree["metadata"].get("finalizers", []), "no finalizer of ours")
    queue.uses(reserved=0)


@covers("L60")
def test_a_job_made_anew_under_its_name_gets_a_workload_of_its_own(team: Team) -> None:
    queue = team.queue(cpu=1)
    first = queue.job("one")
    name = first.runs()["metadata"]["name"]
    first.delete()
    team.client.wait_gone("Job", "one", team.namespace)
    second = queue.job("one")
    assert second.runs()["metadata"]["name"] != name


@covers("L61")
def test_what_its_user_does_to_a_finished_job_is_left_alone(team: Team) -> None:
    job = team.queue(cpu=1).job("one")
    job.runs()
    job.ends()
    tree = job.finishes()
    job.patch({"spec": {"suspend": True}})
    team.sleep(1)
    assert job.tree()["spec"]["suspend"] is True
    assert (
        job.workload()["metadata"]["resourceVersion"]
        == team.get("Workload", tree["metadata"]["name"], team.namespace)["metadata"]["resourceVersion"]
    )


RETENTION = pytest.mark.manager(
    config={
        "objectRetentionPolicies": {"workloads": {"afterFinished": "2s", "afterDeactivatedByKueue": "0s"}},
        "waitForPodsReady": {"timeout": "3s", "requeuingStrategy": {"backoffLimitCount": 0}},
    }
)


@RETENTION
@covers("L58")
def test_a_finished_workload_is_deleted_when_its_time_is_over_and_the_job_stays(team: Team) -> None:
    job = team.queue(cpu=1).job("one")
    job.runs()
    job.ends()
    name = job.finishes()["metadata"]["name"]
    team.client.wait_gone("Workload", name, team.namespace)
    team.event(name, "Deleted", "Deleted finished workload due to elapsed retention")
    job.tree()


@RETENTION
@covers("L50")
def test_a_job_that_was_deactivated_for_it_is_deleted_and_one_by_its_user_is_not(team: Team) -> None:
    queue = team.queue(cpu=2)
    never, idle = queue.job("never", ready="never"), queue.job("idle")
    idle.runs()
    idle.set_active(False)
    idle.waits("Deactivated")
    team.client.wait_gone("Job", "never", team.namespace)
    never.event("Deleted", "Deleted job: deactivation retention period expired")
    idle.tree()


@RETENTION
@covers("L59")
def test_a_finished_workload_that_is_being_deleted_only_loses_the_finalizer(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("one")
    job.runs()
    name = job.workload_name
    job.ends()
    job.finishes()
    team.client.patch("Workload", name, {"metadata": {"finalizers": [IN_USE, "e2e.pykueue.io/mine"]}}, team.namespace)
    team.client.delete("Workload", name, team.namespace)
    team.client.wait_for(
        "Workload",
        name,
        team.namespace,
        lambda tree: tree["metadata"].get("finalizers") == ["e2e.pykueue.io/mine"],
        what="only the foreign finalizer",
    )
    team.client.patch("Workload", name, {"metadata": {"finalizers": None}}, team.namespace)
    team.client.wait_gone("Workload", name, team.namespace)
    assert not team.events(name, "Deleted")
