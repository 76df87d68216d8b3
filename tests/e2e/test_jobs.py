"""How does a Job follow its Workload, and what if its user edits it meanwhile?"""

from functools import partial
from typing import Any

import pytest

from tests.e2e.job import KUEUE, Job
from tests.e2e.team import Queue, Team
from tests.facts import covers
from tests.plane.client import ApiError, Tree, condition

PREFIX = "kueue.x-k8s.io/"
STOPPING = f"{PREFIX}stopping"
LEAST = f"{PREFIX}job-min-parallelism"
EQUAL = f"{PREFIX}job-completions-equal-parallelism"
PREBUILT = f"{PREFIX}prebuilt-workload-name"
POD_SET = f"{PREFIX}podset"


def template(job: Job) -> Tree:
    found: Tree = job.tree()["spec"]["template"]
    return found


def is_as_before(job: Job) -> bool:
    """Whether nothing is left in a Job of what it was given to run."""
    tree = job.tree()
    made = tree["spec"]["template"]
    return (
        tree["spec"]["suspend"]
        and STOPPING not in tree["metadata"].get("annotations", {})
        and not any(key.startswith(PREFIX) for key in made["metadata"].get("labels", {}))
        and f"{PREFIX}workload" not in made["metadata"].get("annotations", {})
        and not made["spec"].get("nodeSelector")
        and not made["spec"].get("tolerations")
        and "startTime" not in tree.get("status", {})
    )


@covers("L63")
def test_a_job_that_its_user_starts_without_admission_is_suspended_again(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("one", cpu=2)
    job.waits("ExceedsMaxQuota")
    job.patch({"spec": {"suspend": False}})
    job.event("Stopped", "Not admitted by cluster queue")
    job.is_suspended()
    team.eventually(lambda: is_as_before(job), "the Job is as it was")
    job.waits("ExceedsMaxQuota")


@covers("L64")
def test_a_running_job_that_changes_its_parallelism_starts_over_with_a_new_workload(team: Team) -> None:
    queue = team.queue(cpu=4)
    job = queue.job("one", pods=2, completions=4)
    before = job.runs()["metadata"]
    job.patch({"spec": {"parallelism": 3}})
    job.event("Stopped", "No matching Workload; restoring pod templates according to existent Workload")
    job.event("DeletedWorkload", f"Deleted not matching Workload: {team.namespace}/{before['name']}")
    job.until(lambda tree: tree["metadata"]["uid"] != before["uid"], "a new Workload")
    assert job.runs(3)["spec"]["podSets"][0]["count"] == 3
    assert job.workload_name == before["name"]
    queue.uses(reserved=3)
    assert len(team.events("one", "CreatedWorkload")) >= 1


@covers("L65")
def test_a_waiting_job_that_changes_its_pods_keeps_its_workload(team: Team) -> None:
    queue = team.queue(cpu=1)
    job = queue.job("one", pods=3, completions=3)
    before = job.waits("ExceedsMaxQuota")
    job.patch({"spec": {"parallelism": 5}})
    team.sleep(0.5)
    assert job.workload()["metadata"]["generation"] == before["metadata"]["generation"]
    job.patch({"spec": {"parallelism": 2}})
    job.event(
        "UpdatedWorkload", f"Updated not matching Workload for suspended job: {team.namespace}/{job.workload_name}"
    )
    now = job.until(lambda tree: tree["spec"]["podSets"][0]["count"] == 2, "two pods")
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    job.patch({"spec": {"parallelism": 1}})
    job.runs(1)


@covers("L66")
def test_a_job_starts_with_fewer_pods_and_is_put_back_when_it_stops(team: Team) -> None:
    flavor = team.flavor("spot", {"type": "spot"}, tolerations=[{"key": "spot", "operator": "Exists"}])
    team.node("spot", {"type": "spot"})
    queue = team.queue(flavors={flavor: {"cpu": 3}})
    job = queue.job("one", pods=5, annotations={LEAST: "2"})
    tree = job.runs(3)
    assert tree["status"]["admission"]["podSetAssignments"][0]["count"] == 3
    spec = job.tree()["spec"]
    assert (spec["parallelism"], spec["completions"]) == (3, 5)
    assert spec["template"]["spec"]["nodeSelector"] == {"type": "spot"}
    assert {"key": "spot", "operator": "Exists"} in spec["template"]["spec"]["tolerations"]
    job.set_active(False)
    job.waits("Deactivated")
    team.eventually(lambda: is_as_before(job), "the Job is as it was")
    assert job.tree()["spec"]["parallelism"] == 5
    queue.set_quota(4)
    job.set_active(True)
    job.runs(4)


@covers("L67")
def test_the_completions_of_an_indexed_job_follow_its_parallelism(team: Team) -> None:
    queue = team.queue(cpu=3)
    job = queue.job("one", pods=5, annotations={LEAST: "2", EQUAL: "true"}, completionMode="Indexed")
    job.runs(3)
    assert job.tree()["spec"]["completions"] == 3
    job.set_active(False)
    job.waits("Deactivated")
    team.eventually(lambda: is_as_before(job), "the Job is as it was")
    spec = job.tree()["spec"]
    assert (spec["parallelism"], spec["completions"]) == (5, 5)


@covers("L70")
def test_a_check_that_contradicts_the_flavor_ends_the_workload_and_an_edited_job_gets_another(team: Team) -> None:
    check = team.check("zone")
    flavor = team.flavor("zone", {"zone": "a"})
    queue = team.queue(flavors={flavor: {"cpu": 2}}, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    job = queue.job("one", completions=4)
    job.check_is(check, "Pending")
    first = job.workload_name
    job.set_check(check, "Ready", podSetUpdates=[{"name": "main", "nodeSelector": {"zone": "b"}}])
    job.finishes(
        "FailedToStart",
        f'in admission check "{check}": invalid admission check PodSetUpdate: '
        "conflict for nodeSelector: conflict for key=zone, value1=a, value2=b",
    )
    job.never_runs(0.5)
    job.event("FinishedWorkload", f"Workload '{team.namespace}/{first}' is declared finished")
    assert len(team.events("one", "FinishedWorkload")) == 1
    job.patch({"spec": {"parallelism": 2}})
    job.until(lambda tree: not condition(tree, "Finished"), "a new Workload")
    job.check_is(check, "Pending")
    job.set_check(check, "Ready", podSetUpdates=[{"name": "main", "labels": {"x": "y"}}])
    job.shows("Admitted", True)
    team.eventually(lambda: not job.tree()["spec"]["suspend"], "the Job is started")


@covers("L71")
def test_the_pods_of_an_admitted_job_know_where_they_belong(team: Team) -> None:
    check = team.check("zone")
    flavor = team.flavor("spot", {"type": "spot"})
    team.node("spot", {"type": "spot", "zone": "b"})
    queue = team.queue(flavors={flavor: {"cpu": 2}}, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    job = queue.job("one")
    job.check_is(check, "Pending")
    job.set_check(
        check,
        "Ready",
        podSetUpdates=[
            {"name": "main", "nodeSelector": {"zone": "b"}, "labels": {"x": "y"}, "annotations": {"u": "v"}}
        ],
    )
    job.runs()
    made = template(job)
    assert made["spec"]["nodeSelector"] == {"type": "spot", "zone": "b"}
    labels = made["metadata"]["labels"]
    assert (labels[POD_SET], labels[f"{PREFIX}local-queue-name"], labels["x"]) == ("main", queue.name, "y")
    assert labels[f"{PREFIX}cluster-queue-name"] == queue.cluster_queue
    assert made["metadata"]["annotations"][f"{PREFIX}workload"] == job.workload_name
    assert made["metadata"]["annotations"]["u"] == "v"
    (pod,) = job.pods()
    assert pod["metadata"]["labels"][f"{PREFIX}cluster-queue-name"] == queue.cluster_queue


@covers("L72")
def test_a_cluster_queue_whose_name_is_no_label_is_left_out_of_the_pods(team: Team) -> None:
    queue = team.queue("with.dots", cpu=2)
    job = queue.job("one")
    job.runs()
    labels = template(job)["metadata"]["labels"]
    assert labels[f"{PREFIX}local-queue-name"] == "with.dots"
    assert f"{PREFIX}cluster-queue-name" not in labels


def owned_by(job: Job) -> list[Tree]:
    return [{"apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job.uid, "controller": True}]


def child_of(parent: Job, name: str) -> Tree:
    pods = {"containers": [{"name": "a", "image": "example.com/none"}], "restartPolicy": "Never"}
    return parent.client.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": parent.namespace, "ownerReferences": owned_by(parent)},
            "spec": {"template": {"spec": pods}},
        }
    )


@covers("L73")
def test_a_job_of_a_job_runs_only_while_that_one_may_and_has_no_workload(team: Team) -> None:
    queue = team.queue(cpu=1)
    parent = queue.job("parent", cpu=2)
    parent.waits("ExceedsMaxQuota")
    child_of(parent, "child")
    team.event("child", "Suspended", "Kueue managed child job suspended")
    team.client.wait_for("Job", "child", team.namespace, lambda job: bool(job["spec"]["suspend"]))
    assert len(team.client.objects("Workload", team.namespace)) == 1
    queue.set_quota(2)
    parent.runs()
    team.client.patch("Job", "child", {"spec": {"suspend": False}}, team.namespace)
    team.never(lambda: team.get("Job", "child", team.namespace)["spec"]["suspend"], "the child was suspended", 1)
    parent.set_active(False)
    team.client.wait_for("Job", "child", team.namespace, lambda job: bool(job["spec"]["suspend"]))


@covers("L74")
@pytest.mark.manager(config={"managedJobsNamespaceSelector": {"matchLabels": {"batch": "yes"}}})
def test_a_job_in_a_namespace_that_is_not_selected_is_left_alone_until_it_is(team: Team) -> None:
    queue = team.queue(cpu=2)
    job = queue.job("one", suspend=False)
    team.client.wait_for("Job", "one", team.namespace, lambda tree: tree.get("status", {}).get("active") == 1)
    team.sleep(0.5)
    assert job.find_workload() is None
    other = queue.job("two", suspend=True)
    team.sleep(0.5)
    assert other.find_workload() is None
    team.client.patch("Namespace", team.namespace, {"metadata": {"labels": {"batch": "yes"}}})
    other.runs()


def prebuilt(team: Team, queue: Queue, name: str, cpu: object = 1, **metadata: Any) -> Tree:
    """A Workload as somebody would write it, without what the server fills in for Jobs."""
    container = {"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": str(cpu)}}}
    return team.create(
        {
            "apiVersion": KUEUE,
            "kind": "Workload",
            "metadata": {"name": name, "namespace": team.namespace, **metadata},
            "spec": {
                "queueName": queue.name,
                "podSets": [
                    {
                        "name": "main",
                        "count": 1,
                        "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
                    }
                ],
            },
        }
    )


@covers("L75")
def test_a_job_waits_for_the_workload_that_it_names_and_takes_it(team: Team) -> None:
    queue = team.queue(cpu=2)
    job = queue.job("one", labels={PREBUILT: "made"})
    job.never_runs()
    assert team.client.objects("Workload", team.namespace) == []
    prebuilt(team, queue, "made")
    job.runs()
    assert job.workload_name == "made"
    (owner,) = job.workload()["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (job.uid, True)
    job.ends()
    job.finishes()


@covers("L76")
def test_a_prebuilt_workload_that_does_not_equal_its_job_is_over(team: Team) -> None:
    queue = team.queue(cpu=4)
    prebuilt(team, queue, "made", cpu=3)
    job = queue.job("one", annotations={PREBUILT: "made"})
    job.finishes("OutOfSync", "The prebuilt workload is out of sync with its user job")
    job.never_runs(0.5)


@covers("L76")
def test_a_prebuilt_workload_without_what_the_pod_as_a_whole_asks_for_is_over(team: Team) -> None:
    queue = team.queue(cpu=4)
    prebuilt(team, queue, "made")
    job = queue.job("one", annotations={PREBUILT: "made"}, template={"resources": {"requests": {"cpu": "3"}}})
    job.finishes("OutOfSync", "The prebuilt workload is out of sync with its user job")
    job.never_runs(0.5)


def test_a_job_is_charged_what_its_pod_as_a_whole_asks_for(team: Team) -> None:
    queue = team.queue(cpu=4)
    job = queue.job("one", template={"resources": {"requests": {"cpu": "3"}}})
    job.runs()
    queue.uses(reserved=3, used=3)


@covers("L77")
def test_a_prebuilt_workload_of_another_job_counts_as_missing(team: Team) -> None:
    queue = team.queue(cpu=2)
    prebuilt(team, queue, "made")
    first = queue.job("first", labels={PREBUILT: "made"})
    first.runs()
    second = queue.job("second", labels={PREBUILT: "made"})
    second.never_runs()
    (workload,) = team.client.objects("Workload", team.namespace)
    assert workload["metadata"]["ownerReferences"][0]["uid"] == first.uid
    assert condition(workload, "Finished") == {}


@covers("L78")
def test_a_missing_priority_class_is_told_once_and_waited_for(team: Team) -> None:
    queue = team.queue(cpu=2)
    name = team.own("late")
    job = queue.job("one", priority=name)
    job.event("WorkloadPriorityClassNotFound", f'WorkloadPriorityClass "{name}" not found', "Warning")
    team.sleep(0.5)
    assert job.find_workload() is None
    assert len(team.events("one", "WorkloadPriorityClassNotFound")) == 1
    team.priority("late", 7)
    assert job.runs()["spec"]["priority"] == 7


@covers("L79")
def test_a_workload_with_the_class_of_its_pods_keeps_it(team: Team) -> None:
    queue = team.queue(cpu=1)
    name = team.own("pods")
    team.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 9,
        }
    )
    job = queue.job("one", cpu=2, template={"priorityClassName": name})
    spec = job.waits("ExceedsMaxQuota")["spec"]
    reference = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}
    assert (spec["priority"], spec["priorityClassRef"]) == (9, reference)
    job.label(priority_class=team.priority("late", 3))
    team.sleep(0.7)
    assert job.workload()["spec"]["priorityClassRef"] == reference


@covers("L81")
def test_a_stop_that_was_cut_short_is_brought_to_its_end(team: Team) -> None:
    flavor = team.flavor("spot", {"type": "spot"})
    team.node("spot", {"type": "spot"})
    queue = team.queue(flavors={flavor: {"cpu": 2}})
    job = queue.job("one", pods=2)
    job.runs()
    # As if a manager had died after the first write of a stop, and the Workload had stayed admitted.
    job.patch({"metadata": {"annotations": {STOPPING: "true"}}, "spec": {"suspend": True}})
    team.eventually(lambda: STOPPING not in job.tree()["metadata"].get("annotations", {}), "the stop is over")
    job.runs(2)
    assert template(job)["spec"]["nodeSelector"] == {"type": "spot"}


@covers("L82")
def test_a_job_without_a_queue_goes_to_the_default_one(team: Team) -> None:
    queue = team.queue("default", cpu=2)
    job = team.job("one", cpu=2)
    job.runs()
    assert job.tree()["metadata"]["labels"][f"{PREFIX}queue-name"] == queue.name
    waiting = team.job("two", cpu=2)
    waiting.waits("WaitingForQuota")
    with pytest.raises(ApiError, match="queue-name must not be empty in namespace with default queue"):
        waiting.label(queue_name=None)


def test_a_job_that_its_user_edits_while_it_runs_is_put_back_when_it_stops(team: Team) -> None:
    queue = team.queue(cpu=2)
    job = queue.job("one", pods=2)
    job.runs()
    job.patch({"spec": {"suspend": True}})
    job.set_active(False)
    job.waits("Deactivated")
    team.eventually(lambda: is_as_before(job), "the Job is as it was")
    assert len(team.events("one", "Stopped")) <= 1


def test_a_job_moves_from_queue_to_queue_while_it_waits(team: Team) -> None:
    first, second = team.queue("first", cpu=1), team.queue("second", cpu=2)
    job = first.job("one", cpu=2)
    job.waits("ExceedsMaxQuota")
    job.label(queue_name="second")
    job.runs()
    second.uses(reserved=2)


def test_a_job_is_deleted_and_made_again_while_it_waits_and_while_it_runs(team: Team) -> None:
    queue = team.queue(cpu=2)
    for cpu in (4, 2):
        job = queue.job("one", cpu=cpu)
        job.waits("ExceedsMaxQuota") if cpu == 4 else job.runs()
        old = job.workload()["metadata"]["uid"]
        job.delete()
        team.eventually(
            partial(
                lambda uid: (
                    uid not in {one["metadata"]["uid"] for one in team.client.objects("Workload", team.namespace)}
                ),
                old,
            ),
            "the Workload goes with its Job",
        )
    again = queue.job("one", cpu=2)
    again.runs()


@pytest.mark.ours("elastic jobs are not built yet")
def test_a_job_that_asks_for_what_we_cannot_do_yet_hears_of_it_and_stays_suspended(team: Team) -> None:
    queue = team.queue(cpu=2)
    job = queue.job("one", annotations={f"{PREFIX}elastic-job": "true"}, suspend=True)
    note = job.event("Unsupported", type_="Warning")["note"]
    assert "elastic jobs are not supported yet" in note
    job.never_runs(0.5)
    assert job.find_workload() is None
