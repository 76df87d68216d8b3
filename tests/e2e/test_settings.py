"""What do settings of the Configuration and gates change on a cluster?"""

import pytest

from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import condition

UNNAMED = pytest.mark.manager(
    config={
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchLabels": {"managed": "yes"}},
    }
)


@UNNAMED
@covers("L18")
def test_a_job_without_a_queue_is_held_back_where_all_jobs_are_managed(team: Team) -> None:
    free = team.job("free")
    team.client.wait_for("Job", "free", team.namespace, lambda tree: tree["status"].get("active") == 1)
    assert free.find_workload() is None
    team.client.patch("Namespace", team.namespace, {"metadata": {"labels": {"managed": "yes"}}})
    team.sleep(0.5)
    held = team.job("held")
    tree = held.workload()
    assert not tree["spec"].get("queueName")
    held.is_suspended()
    held.never_runs(1)
    assert condition(held.workload(), "Admitted").get("status") != "True"
    queue = team.queue(cpu=1)
    held.label(queue_name=queue.name)
    held.runs()


@pytest.mark.manager(gates={"UnadmittedWorkloadsObservability": False})
def test_without_the_finer_reasons_a_job_waits_for_the_older_ones(team: Team) -> None:
    queue = team.queue(cpu=1)
    queue.job("running").runs()
    waiting = queue.job("waiting")
    tree = waiting.waits("Pending")
    message = condition(tree, "QuotaReserved")["message"]
    assert message.startswith("couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor")
    waiting.workload_event("Pending", message, "Warning")
    lost = team.job("lost", "nowhere")
    lost.waits("Inadmissible", "LocalQueue nowhere doesn't exist")
    check = team.check("slow")
    checked = team.queue("checked", cpu=1, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    reserved = checked.job("reserved")
    reserved.shows("QuotaReserved", True)
    team.sleep(0.5)
    assert condition(reserved.workload(), "Admitted").get("status") != "True"


@pytest.mark.manager(gates={"PartialAdmission": False})
def test_without_partial_admission_a_job_gets_all_its_pods_or_none(team: Team) -> None:
    queue = team.queue(cpu=3)
    job = queue.job("one", pods=5, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    tree = job.waits("ExceedsMaxQuota")
    assert "minCount" not in tree["spec"]["podSets"][0]


@pytest.mark.manager(gates={"PriorityBoost": True})
def test_a_boost_moves_a_workload_ahead(team: Team) -> None:
    queue = team.queue(cpu=1, queueingStrategy="StrictFIFO")
    running = queue.job("running")
    running.runs()
    first = queue.job("first")
    first.waits("WaitingForQuota")
    second = queue.job("second")
    second.workload()
    team.client.patch(
        "Workload",
        second.workload_name,
        {"metadata": {"annotations": {"kueue.x-k8s.io/priority-boost": "5"}}},
        team.namespace,
    )
    team.sleep(0.5)
    running.ends()
    second.runs()
    first.never_runs(0.5)


@pytest.mark.manager(gates={"ShortWorkloadNames": True})
def test_names_of_workloads_can_be_kept_short(team: Team) -> None:
    job = team.queue(cpu=1).job("a-name-of-some-length-that-is-longer-than-a-label-may-be-in-all")
    assert len(job.runs()["metadata"]["name"]) == 63


@pytest.mark.manager(gates={"AssignQueueLabelsForPods": False})
def test_pods_need_not_be_told_their_queues(team: Team) -> None:
    job = team.queue(cpu=1).job("one")
    job.runs()
    labels = job.tree()["spec"]["template"]["metadata"]["labels"]
    assert "kueue.x-k8s.io/local-queue-name" not in labels
    assert "kueue.x-k8s.io/cluster-queue-name" not in labels


# The class would be given to the jobs of other stories too.
@pytest.mark.manager(alone=True)
def test_the_priority_class_named_default_is_everybodys(team: Team) -> None:
    team.client.apply(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": "default"},
            "value": 0,
        }
    )
    try:
        team.sleep(1)
        job = team.queue(cpu=1).job("one")
        assert job.tree()["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "default"
        job.runs()
    finally:
        team.client.delete("WorkloadPriorityClass", "default")


@pytest.mark.manager(config={"apiVersion": "config.kueue.x-k8s.io/v1beta1"})
@covers("KEP349-15")
def test_an_older_configuration_has_readiness_off_unless_enabled(team: Team) -> None:
    job = team.queue(cpu=1).job("one", ready="never")
    job.runs()
    job.stays(1)
    assert not condition(job.workload(), "PodsReady")


@pytest.mark.manager(config={"integrations": {"labelKeysToCopy": ["team.example.com/name"]}})
def test_labels_that_are_to_be_copied_reach_the_workload(team: Team) -> None:
    job = team.queue(cpu=1).job("one", labels={"team.example.com/name": "blue", "other": "x"})
    labels = job.runs()["metadata"]["labels"]
    assert labels["team.example.com/name"] == "blue"
    assert "other" not in labels


@pytest.mark.manager(config={"resources": {"excludeResourcePrefixes": ["example.com/"]}})
def test_resources_that_are_excluded_are_not_counted(team: Team) -> None:
    job = team.queue(cpu=1).job("one", requests={"cpu": 1, "example.com/gpu": 1})
    tree = job.runs()
    assert tree["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] == {"cpu": "1"}
