"""How does a Job get its quota, and what does it see while it waits?"""

import pytest

from tests.e2e.backend import on_plane
from tests.e2e.job import KUEUE
from tests.e2e.team import Queue, Team
from tests.facts import covers
from tests.plane.client import WAIT, Tree, condition

TWO_SECONDS = WAIT if on_plane() else 2.0
"""How long it takes until a reason is written; a control plane that other stories use too has more time."""
GATED = "kueue.x-k8s.io/admission-gated-by"


@covers("L1")
def test_a_job_with_room_is_admitted_by_one_write(team: Team) -> None:
    queue = team.queue(cpu=4)
    with team.recorded() as versions:
        job = queue.job("one", pods=2, cpu=1)
        job.runs()
    kept = versions[job.workload_name]
    assert {condition(tree, "QuotaReserved").get("status") for tree in kept} <= {None, "True"}
    first = next(tree for tree in kept if condition(tree, "QuotaReserved"))
    assert condition(first, "QuotaReserved")["message"] == f"Quota reserved in ClusterQueue {queue.cluster_queue}"
    assert condition(first, "Admitted")["status"] == "True"
    assert first["status"]["admission"]["podSetAssignments"] == [
        {"name": "main", "count": 2, "flavors": {"cpu": team.own("default")}, "resourceUsage": {"cpu": "2"}}
    ]
    job.event("CreatedWorkload", f"Created Workload: {team.namespace}/{job.workload_name}")
    job.event("Started", f"Admitted by clusterQueue {queue.cluster_queue}")
    job.workload_event("QuotaReserved")
    job.workload_event("Admitted")
    job.ends()
    job.finishes("Succeeded", "Reached expected number of succeeded pods")
    job.event("FinishedWorkload", f"Workload '{team.namespace}/{job.workload_name}' is declared finished")


@covers("L3", "L127")
def test_a_job_with_a_check_holds_its_quota_until_the_check_is_ready(team: Team) -> None:
    check = team.check("approval")
    queue = team.queue(cpu=2, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    job = queue.job("one")
    job.shows("QuotaReserved", True, "QuotaReserved", f"Quota reserved in ClusterQueue {queue.cluster_queue}")
    job.shows("Admitted", False, "UnsatisfiedAdmissionChecks", "The workload has not all checks ready")
    job.check_is(check, "Pending")
    queue.uses(reserved=1, used=0)
    job.never_runs(0.5)
    job.set_check(check, "Ready", "go ahead")
    job.runs()
    queue.uses(reserved=1, used=1)


@covers("L4", "L127")
def test_a_job_without_room_waits_and_says_why(team: Team) -> None:
    queue = team.queue(cpu=2)
    first = queue.job("first", cpu=2)
    first.runs()
    second = queue.job("second", cpu=1)
    message = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor "
        f"{team.own('default')}, 1 more needed"
    )
    tree = second.waits("WaitingForQuota", message)
    assert condition(tree, "Admitted")["reason"] == "NoReservation"
    assert condition(tree, "Admitted")["message"] == "The workload has no reservation"
    second.workload_event("WaitingForQuota", message, "Warning")
    queue.has_status(pendingWorkloads=1, reservingWorkloads=1, admittedWorkloads=1)
    first.ends()
    second.runs()


@covers("L5", "S36")
def test_four_equal_jobs_and_room_for_one_all_three_that_wait_say_why(team: Team) -> None:
    queue = team.queue(cpu=1)
    first = queue.job("first", cpu=1)
    first.runs()
    others = [queue.job(name, cpu=1) for name in ("second", "third", "fourth")]
    message = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor "
        f"{team.own('default')}, 1 more needed"
    )
    for job in others:
        tree = job.waits("WaitingForQuota", message, TWO_SECONDS)
        assert condition(tree, "Admitted")["reason"] == "NoReservation"
        job.workload_event("WaitingForQuota", message, "Warning")
    queue.has_status(pendingWorkloads=3)
    first.ends()
    queue.has_status(pendingWorkloads=2, admittedWorkloads=1)


@covers("L5")
def test_a_job_behind_the_head_of_a_strict_queue_says_that_it_is_in_line(team: Team) -> None:
    queue = team.queue(cpu=1, queueingStrategy="StrictFIFO")
    queue.job("first", cpu=1).runs()
    queue.job("second", cpu=1).waits("WaitingForQuota")
    third = queue.job("third", cpu=1)
    third.waits("PendingEvaluation", "Workload is pending evaluation in the scheduling queue", TWO_SECONDS)


@covers("L5")
def test_a_hundred_jobs_that_wait_say_why_within_two_seconds(team: Team) -> None:
    queue = team.queue(cpu=1)
    queue.job("runs", cpu=1).runs()
    jobs = [queue.job(f"waits-{number}", cpu=1) for number in range(100)]
    last = jobs[-1].workload_name

    def silent() -> list[str]:
        found = team.client.objects("Workload", team.namespace)
        return [tree["metadata"]["name"] for tree in found if not condition(tree, "QuotaReserved")]

    team.eventually(lambda: last not in silent(), "a reason for the last one", TWO_SECONDS)
    assert silent() == []


@covers("L5")
def test_when_the_verdict_changes_it_changes_for_all_equal_jobs(team: Team) -> None:
    queue = team.queue(cpu=2)
    queue.job("runs", cpu=1).runs()
    jobs = [queue.job(name, cpu=2) for name in ("first", "second", "third")]
    for job in jobs:
        job.waits("WaitingForQuota")
    queue.set_quota(1)
    for job in jobs:
        job.waits("ExceedsMaxQuota")


def test_a_job_that_can_never_start_says_so_at_once_in_an_event(team: Team) -> None:
    queue = team.queue(cpu=4)
    words = "can never start: asks for 9 cpu, this queue can have 4 at most"
    for name in ("huge", "equal"):
        job = queue.job(name, cpu=9)
        assert job.event("CanNeverStart", words, "Warning")["reportingController"] == "pykueue"
        job.waits("ExceedsMaxQuota")


@covers("L6")
def test_a_job_waits_for_its_local_queue_to_exist(team: Team) -> None:
    team.shared_flavor()
    cluster_queue = team.cluster_queue("main", {team.own("default"): {"cpu": 2}})
    job = team.job("one", "later")
    job.waits("Misconfigured", "LocalQueue later doesn't exist")
    team.local_queue("later", cluster_queue)
    job.runs()


@covers("L7")
def test_a_job_waits_for_its_cluster_queue_to_exist(team: Team) -> None:
    team.shared_flavor()
    queue = team.local_queue("main", team.own("later"))
    job = queue.job("one")
    job.waits("Misconfigured", f"ClusterQueue {team.own('later')} doesn't exist")
    queue.local_says("Active", False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue")
    team.cluster_queue("later", {team.own("default"): {"cpu": 2}})
    job.runs()


@covers("L8")
def test_a_cluster_queue_without_its_flavor_is_inactive_until_the_flavor_comes(team: Team) -> None:
    name = team.cluster_queue("main", {team.own("default"): {"cpu": 2}})
    queue = team.local_queue("main", name)
    job = queue.job("one")
    job.waits("Suspended", f"ClusterQueue {name} is inactive")
    missing = f"references missing ResourceFlavor(s): {team.own('default')}."
    queue.says("Active", False, "FlavorNotFound", f"Can't admit new workloads: {missing}")
    team.shared_flavor()
    job.runs()
    queue.says("Active", True, "Ready", "Can admit new workloads")
    queue.local_says("Active", True, "Ready", "Can submit new workloads to localQueue")


@covers("L9", "L11")
def test_a_namespace_gets_in_by_its_labels_and_its_running_jobs_stay_when_the_label_goes(team: Team) -> None:
    queue = team.queue(cpu=2, namespaceSelector={"matchLabels": {"open": team.name}})
    job = queue.job("one")
    job.waits("Misconfigured", "workload namespace doesn't match ClusterQueue selector")
    team.client.patch("Namespace", team.namespace, {"metadata": {"labels": {"open": team.name}}})
    job.runs()
    team.client.patch("Namespace", team.namespace, {"metadata": {"labels": {"open": None}}})
    job.stays()


@covers("L10")
def test_a_cluster_queue_without_a_namespace_selector_admits_nothing(team: Team) -> None:
    queue = team.queue(cpu=2, namespaceSelector=None)
    queue.job("one").waits("Misconfigured", "workload namespace doesn't match ClusterQueue selector")


@covers("L12")
def test_a_gated_job_stays_out_of_line_until_its_last_gate_is_gone(team: Team) -> None:
    queue = team.queue(cpu=2)
    job = queue.job("one", annotations={GATED: "a.example.com/x,b.example.com/y"})
    job.waits("AdmissionGated", "Admission is gated by: a.example.com/x,b.example.com/y")
    job.workload_event("AdmissionGated", "Workload admission is gated by: a.example.com/x,b.example.com/y")
    queue.has_status(pendingWorkloads=0)
    job.patch({"metadata": {"annotations": {GATED: "b.example.com/y"}}})
    job.until(lambda tree: tree["metadata"]["annotations"].get(GATED) == "b.example.com/y", "one gate less")
    job.never_runs(0.5)
    job.patch({"metadata": {"annotations": {GATED: None}}})
    job.runs()
    job.workload_event("AdmissionGateCleared", "Admission gate cleared, workload is now admissible")


@covers("L13", "S42")
def test_a_waiting_job_that_moves_to_another_queue_keeps_its_age(team: Team) -> None:
    full, other = team.queue("full", cpu=1), team.queue("other", cpu=1)
    first, second = full.job("first"), other.job("second")
    first.runs()
    second.runs()
    moved = full.job("moved")
    moved.waits("WaitingForQuota")
    # Creation times have whole seconds; the younger one is to be younger by more than its UID.
    team.sleep(1.1)
    younger = other.job("younger", cpu="0.9")
    younger.waits("WaitingForQuota")
    moved.label(queue_name="other")
    moved.until(lambda tree: tree["spec"]["queueName"] == "other", "the new queue name")
    other.has_status(pendingWorkloads=2)
    second.ends()
    moved.runs()
    younger.waits("WaitingForQuota")


@covers("L14")
def test_a_waiting_job_whose_priority_is_raised_takes_its_new_place(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    queue = team.queue(cpu=1, queueingStrategy="StrictFIFO")
    running = queue.job("running", priority=high)
    running.runs()
    first, second = queue.job("first", priority=low), queue.job("second", priority=low)
    second.workload()
    second.label(priority_class=high)
    tree = second.until(lambda tree: tree["spec"]["priority"] == 10, "its new priority")
    assert tree["spec"]["priorityClassRef"]["name"] == high
    second.event("UpdatedWorkload", f"Updated workload priority class: {team.namespace}/{second.workload_name}")
    running.ends()
    second.runs()
    first.never_runs(0.5)


@covers("L15")
def test_a_running_job_whose_priority_falls_can_be_displaced_from_then_on(team: Team) -> None:
    low, mid, high = team.priority("low", 1), team.priority("mid", 5), team.priority("high", 10)
    queue = team.queue(cpu=1, preemption={"withinClusterQueue": "LowerPriority"})
    running = queue.job("running", priority=high)
    running.runs()
    waiting = queue.job("waiting", priority=mid)
    waiting.waits("WaitingForQuota")
    running.label(priority_class=low)
    running.until(lambda tree: tree["spec"]["priority"] == 1, "its new priority")
    running.is_evicted("Preempted")
    waiting.runs()


@covers("L16")
def test_a_new_value_of_a_priority_class_reaches_every_workload_that_names_it(team: Team) -> None:
    name = team.priority("middle", 5)
    queue = team.queue(cpu=2)
    done, running = queue.job("done", priority=name), queue.job("running", priority=name)
    done.runs()
    done.ends()
    done.finishes()
    running.runs()
    waiting = queue.job("waiting", cpu=2, priority=name)
    waiting.waits("WaitingForQuota")
    team.client.patch("WorkloadPriorityClass", name, {"value": 7})
    for job in (done, running, waiting):
        job.until(lambda tree: tree["spec"]["priority"] == 7, "the new value")


def limit_range(team: Team, **item: Tree) -> None:
    """A LimitRange of the story's namespace, for containers."""
    team.create(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "small", "namespace": team.namespace},
            "spec": {"limits": [{"type": "Container", **item}]},
        }
    )


@covers("L17")
def test_a_limit_range_that_comes_later_stops_what_waits_and_leaves_what_runs(team: Team) -> None:
    queue = team.queue(cpu=2)
    running = queue.job("running", cpu=2)
    running.runs()
    waiting = queue.job("waiting", cpu=2)
    waiting.waits("WaitingForQuota")
    limit_range(team, max={"cpu": "1"})
    tree = waiting.waits("Misconfigured")
    assert condition(tree, "QuotaReserved")["message"].startswith(
        "resources didn't satisfy LimitRange constraints: "
    ), condition(tree, "QuotaReserved")
    running.stays(0.5)


@pytest.mark.parametrize("way", ["raised", "deleted"])
def test_a_limit_range_that_is_relaxed_wakes_the_jobs_that_it_kept_from_starting(team: Team, way: str) -> None:
    limit_range(team, max={"cpu": "1"})
    queue = team.queue(cpu=2)
    job = queue.job("large", cpu=2)
    job.waits("Misconfigured")
    if way == "raised":
        raised = {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}}
        team.client.patch("LimitRange", "small", {"spec": {"limits": [raised]}}, team.namespace)
    else:
        team.client.delete("LimitRange", "small", team.namespace)
    job.runs()


@covers("S143")
def test_a_job_with_limits_alone_is_charged_its_limits_whatever_the_limit_range_says(team: Team) -> None:
    limit_range(team, default={"cpu": "2"}, defaultRequest={"cpu": "1"})
    queue = team.queue(cpu=4)
    container = {"name": "main", "image": "example.com/none", "resources": {"limits": {"cpu": "3"}}}
    job = queue.job("limited", template={"containers": [container]})
    job.runs()
    queue.uses(reserved=3, used=3)
    (pod,) = job.pods()
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "3"}
    queue.job("second", cpu=2).waits("WaitingForQuota")


@covers("L19")
def test_of_equal_jobs_the_older_goes_first(team: Team) -> None:
    queue = team.queue(cpu=1)
    running = queue.job("running")
    running.runs()
    older = queue.job("older", cpu="0.6")
    older.waits("WaitingForQuota")
    team.sleep(1.1)
    younger = queue.job("younger", cpu="0.7")
    younger.waits("WaitingForQuota")
    running.ends()
    older.runs()
    younger.never_runs(0.5)


def test_a_workload_of_somebody_else_is_admitted_like_one_of_ours(team: Team) -> None:
    queue = team.queue(cpu=2)
    raw(team, queue, "raw")
    team.client.wait_for(
        "Workload",
        "raw",
        team.namespace,
        lambda tree: condition(tree, "Admitted").get("status") == "True",
        what="Admitted",
    )
    queue.uses(reserved=1, used=1)


@covers("L42")
def test_an_evicted_workload_that_nobody_stops_stays_reserved(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    queue = team.queue(cpu=1, preemption={"withinClusterQueue": "LowerPriority"})
    raw(team, queue, "raw", priority=low)
    team.client.wait_for(
        "Workload", "raw", team.namespace, lambda tree: condition(tree, "Admitted").get("status") == "True"
    )
    job = queue.job("high", priority=high)
    team.client.wait_for(
        "Workload", "raw", team.namespace, lambda tree: condition(tree, "Evicted").get("status") == "True"
    )
    job.never_runs(1.0)
    tree = team.get("Workload", "raw", team.namespace)
    assert condition(tree, "QuotaReserved")["status"] == "True"


def pod_set(name: str, count: int, cpu: int, **more: object) -> Tree:
    """A pod set of pods that ask for so much cpu each."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "name": name,
        "count": count,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        **more,
    }


def raw(team: Team, queue: Queue, name: str, priority: str = "", pod_sets: list[Tree] | None = None) -> None:
    """A Workload that belongs to no Job."""
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": priority}
    team.create(
        {
            "apiVersion": KUEUE,
            "kind": "Workload",
            "metadata": {"name": name, "namespace": team.namespace},
            "spec": {
                "queueName": queue.name,
                "podSets": pod_sets or [pod_set("main", 1, 1)],
                **({"priorityClassRef": ref, "priority": 1} if priority else {}),
            },
        }
    )


def test_a_pod_set_with_a_minimum_of_none_may_be_left_out(team: Team) -> None:
    queue = team.queue(cpu=2)
    raw(team, queue, "raw", pod_sets=[pod_set("lead", 1, 2), pod_set("more", 3, 1, minCount=0)])
    tree = team.client.wait_for(
        "Workload",
        "raw",
        team.namespace,
        lambda tree: condition(tree, "Admitted").get("status") == "True",
        what="Admitted",
    )
    given = {one["name"]: one["count"] for one in tree["status"]["admission"]["podSetAssignments"]}
    assert given == {"lead": 1, "more": 0}
    queue.uses(reserved=2, used=2)
