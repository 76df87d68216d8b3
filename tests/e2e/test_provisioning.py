"""Does a Job with quota wait until there is room for its pods, and what becomes of it when there is none? (KEP-1136)

Here the story answers in the autoscaler's place; `test_autoscaler` has the real one.
"""

import pytest

from tests.e2e.capacity import CLASS, REQUEST, Capacity
from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import Tree, condition

CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
BY_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
DEPRECATED = "cluster-autoscaler.kubernetes.io/"
GPU = "example.com/gpu"
QUICK = {"backoffBaseSeconds": 1, "backoffLimitCount": 1}
"""One more attempt, after a second."""


# From quota to capacity.


@covers("L105", "KEP1136-2")
def test_a_job_with_quota_has_a_request_made_for_its_pods(team: Team) -> None:
    capacity = Capacity(team, parameters={"speed": "high", "tier": "one"})
    spot = team.flavor("spot", {"pool": team.own("spot")})
    queue = capacity.queue(flavors={spot: {"cpu": 3}})
    job = queue.job("one", pods=3, annotations={"provreq.kueue.x-k8s.io/zone": "west"})
    request = capacity.request(job)
    name = f"{job.workload_name}-{capacity.check}-1"
    workload = job.shows("QuotaReserved", True)
    (owner,) = request["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
        "Workload",
        workload["metadata"]["name"],
        workload["metadata"]["uid"],
        True,
    )
    assert request["metadata"]["name"] == name
    assert request["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true"}
    assert request["spec"] == {
        "provisioningClassName": CLASS,
        "parameters": {"speed": "high", "tier": "one", "zone": "west"},
        "podSets": [{"podTemplateRef": {"name": f"ppt-{name}-main"}, "count": 3}],
    }
    assert not [key for key in request["metadata"]["annotations"] if key.startswith(DEPRECATED)]
    job.workload_event("ProvisioningRequestCreated", f'Created ProvisioningRequest: "{name}"')
    template = team.client.wait_for(
        "PodTemplate",
        f"ppt-{name}-main",
        team.namespace,
        lambda tree: [one["uid"] for one in tree["metadata"]["ownerReferences"]] == [request["metadata"]["uid"]],
        what="the request's",
    )
    assert template["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true"}
    spec = template["template"]["spec"]
    assert spec["nodeSelector"] == {"pool": team.own("spot")}
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert "kueue.x-k8s.io/podset" not in template["template"]["metadata"].get("labels", {})
    job.check_is(capacity.check, "Pending")
    job.never_runs(0.5)


@covers("L108", "KEP1136-1", "KEP1136-2")
def test_a_job_runs_on_the_nodes_that_were_added_for_it(team: Team) -> None:
    group = {"key": "example.com/group", "valueFromProvisioningClassDetail": "node-group"}
    unknown = {"key": "example.com/rack", "valueFromProvisioningClassDetail": "rack"}
    capacity = Capacity(team, podSetUpdates={"nodeSelector": [group, unknown]})
    queue = capacity.queue(cpu=2)
    job = queue.job("one", pods=2)
    capacity.says(job, "Accepted", "accepted")
    queue.uses(reserved=2, used=0)
    job.never_runs(0.5)
    node = team.node("added", {"example.com/group": team.name})
    capacity.says(job, "Provisioned", "two nodes", details={"node-group": team.name, "spare": "x"})
    tree = job.runs()
    name = capacity.name(job)
    (state,) = tree["status"]["admissionChecks"]
    assert (state["state"], state["message"]) == ("Ready", "two nodes")
    consumes = {CONSUMES: name, BY_CLASS: CLASS}
    assert state["podSetUpdates"] == [
        {"name": "main", "annotations": consumes, "nodeSelector": {"example.com/group": team.name}}
    ]
    note = f"Admission check {capacity.check} updated state from Pending to Ready with message: two nodes"
    job.workload_event("AdmissionCheckUpdated", note)
    team.eventually(lambda: {pod["spec"].get("nodeName") for pod in job.pods()} == {node}, "the pods are on that node")
    for pod in job.pods():
        assert pod["metadata"]["annotations"].items() >= consumes.items()
        assert not [key for key in pod["metadata"]["annotations"] if key.startswith(DEPRECATED)]
    queue.uses(reserved=2, used=2)
    job.ends()
    job.finishes()
    capacity.nothing_is_left()


@covers("KEP1136-1")
def test_a_job_whose_capacity_was_only_checked_runs_where_there_is_room(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    capacity.provides(job)
    job.runs()
    capacity.request(job)
    assert "nodeSelector" not in job.tree()["spec"]["template"]["spec"]


@covers("L106")
def test_every_change_of_the_time_of_arrival_is_told(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    capacity.says(job, "Accepted")
    for message in ("in 10 min", "in 5 min", "in 6 min after all"):
        capacity.says(job, "Provisioned", message, status=False)
        job.check_is(capacity.check, "Pending", message)
        job.event("UpdatedAdmissionCheck", f"{capacity.check}: {message}")
    job.never_runs(0.5)
    capacity.provides(job)
    job.runs()


@covers("L111", "KEP1136-2")
def test_pods_without_a_managed_resource_need_no_request(team: Team) -> None:
    capacity = Capacity(team, managedResources=[GPU])
    queue = capacity.queue(flavors={team.flavor(): {"cpu": 2, GPU: 1}})
    plain = queue.job("plain")
    plain.runs()
    plain.check_is(capacity.check, "Ready", "the provisioning request is not needed")
    assert capacity.requests() == []
    large = queue.job("large", requests={"cpu": 1, GPU: 1})
    capacity.provides(large)
    large.runs()
    assert capacity.requests() == [capacity.name(large)]


# Failures.


def said(versions: list[Tree]) -> list[Tree]:
    """What checks said in the versions of a Workload."""
    return [one for tree in versions for one in tree.get("status", {}).get("admissionChecks", [])]


@covers("L107", "KEP1136-7")
def test_a_failed_request_is_tried_again_and_at_the_limit_the_job_is_deactivated(team: Team) -> None:
    capacity = Capacity(team, retryStrategy=QUICK)
    job = capacity.queue(cpu=1).job("one")
    with team.recorded() as versions:
        capacity.says(job, "Failed", "no room")
        second = capacity.request(job, attempt=2)
    assert capacity.requests() == [second["metadata"]["name"]]
    kept = versions[job.workload_name]
    why = "Retrying after failure: no room"
    retry = next(one for one in said(kept) if one["state"] == "Retry")
    assert (retry["message"], retry["requeueAfterSeconds"]) == (why, 1)
    evicted = next(one for tree in kept if (one := condition(tree, "Evicted")).get("status") == "True")
    assert evicted["message"] == f'Evicted due to AdmissionCheck in Retry state: "{capacity.check}" ({why})'
    assert job.workload()["status"]["admissionChecks"][0]["retryCount"] == 1
    capacity.says(job, "BookingExpired", "too late", attempt=2)
    job.is_evicted("DeactivatedDueToAdmissionCheck")
    job.waits("Deactivated")
    note = f"Admission check {capacity.check} updated state from Pending to Rejected with message: too late"
    job.workload_event("AdmissionCheckUpdated", note)
    capacity.nothing_is_left()
    assert job.workload()["spec"]["active"] is False


@covers("KEP1136-6", "L107")
def test_unless_told_otherwise_it_is_tried_again_after_a_minute(team: Team) -> None:
    capacity = Capacity(team)
    spec = team.get("ProvisioningRequestConfig", capacity.config)["spec"]
    assert spec["retryStrategy"] == {"backoffBaseSeconds": 60, "backoffLimitCount": 3, "backoffMaxSeconds": 1800}
    queue = capacity.queue(cpu=1)
    job = queue.job("one")
    with team.recorded() as versions:
        capacity.says(job, "Failed", "no room")
        job.is_evicted("AdmissionCheck")
        other = queue.job("other")
        capacity.provides(other)
        other.runs()
    states = said(versions[job.workload_name])
    assert next(one["requeueAfterSeconds"] for one in states if one["state"] == "Retry") == 60
    job.shows("Requeued", False, "AdmissionCheck")
    assert "requeueAt" in job.workload()["status"]["requeueState"]


@covers("KEP1136-6")
def test_the_delay_grows_with_each_attempt(team: Team) -> None:
    capacity = Capacity(team, retryStrategy={"backoffBaseSeconds": 1, "backoffLimitCount": 3, "backoffMaxSeconds": 3})
    job = capacity.queue(cpu=1).job("one")
    with team.recorded() as versions:
        for attempt in (1, 2, 3, 4):
            capacity.says(job, "Failed", f"no room, {attempt}", attempt=attempt)
        job.is_evicted("DeactivatedDueToAdmissionCheck")
    states = said(versions[job.workload_name])
    delays = {one["message"]: one["requeueAfterSeconds"] for one in states if one["state"] == "Retry"}
    assert delays == {
        f"Retrying after failure: no room, {attempt}": delay for attempt, delay in ((1, 1), (2, 2), (3, 3))
    }
    assert next(one["message"] for one in states if one["state"] == "Rejected") == "no room, 4"
    capacity.nothing_is_left()
    (left,) = said([job.workload()])
    assert (left["state"], left["retryCount"]) == ("Pending", 3)
    job.set_active(True)
    capacity.says(job, "Failed", "no room, still", attempt=4)
    job.until(lambda tree: not tree["spec"]["active"], "the next rejection")


@covers("KEP1136-5")
def test_without_retries_the_first_failure_is_the_last(team: Team) -> None:
    capacity = Capacity(team, retryStrategy={"backoffLimitCount": 0})
    job = capacity.queue(cpu=1).job("one")
    capacity.says(job, "Failed", "no room")
    message = f'AdmissionCheck in Rejected state: "{capacity.check}" (no room)'
    job.is_evicted("DeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {message}")
    job.workload_event("AdmissionCheckRejected", f"Deactivated due to {message}", "Warning")
    capacity.nothing_is_left()
    job.set_active(True)
    capacity.provides(job)
    job.runs()


@covers("KEP1136-7")
def test_a_booking_that_expires_while_another_check_is_waited_for_is_a_failure(team: Team) -> None:
    capacity = Capacity(team, retryStrategy=QUICK)
    slow = team.check("slow")
    queue = team.queue(cpu=1, admissionChecksStrategy={"admissionChecks": [{"name": capacity.check}, {"name": slow}]})
    job = queue.job("one")
    capacity.provides(job)
    job.check_is(capacity.check, "Ready")
    job.never_runs(0.5)
    capacity.says(job, "BookingExpired", "too late")
    capacity.provides(job, attempt=2)
    job.check_is(capacity.check, "Ready")
    job.check_is(slow, "Pending")
    job.set_check(slow, "Ready")
    tree = job.runs()
    (update,) = next(one for one in tree["status"]["admissionChecks"] if one["name"] == capacity.check)["podSetUpdates"]
    assert update["annotations"][CONSUMES] == capacity.name(job, 2)


# Capacity that is taken away.


@covers("L109", "KEP1136-7", "KEP1136-8")
def test_what_runs_outlives_its_booking_and_is_deactivated_when_its_capacity_is_revoked(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    capacity.provides(job)
    job.runs()
    capacity.says(job, "BookingExpired", "over")
    job.stays(1)
    job.check_is(capacity.check, "Ready")
    capacity.says(job, "CapacityRevoked", "taken away")
    message = f'AdmissionCheck in Rejected state: "{capacity.check}" (taken away)'
    job.is_evicted("DeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {message}")
    note = f"Admission check {capacity.check} updated state from Ready to Rejected with message: taken away"
    job.workload_event("AdmissionCheckUpdated", note)
    job.workload_event("AdmissionCheckRejected", f"Deactivated due to {message}", "Warning")
    job.waits("Deactivated")
    assert job.workload()["spec"]["active"] is False
    capacity.nothing_is_left()


@pytest.mark.ours("Kueue deactivates it all the same")
@covers("L109", "KEP1136-8")
def test_a_job_that_may_not_run_again_is_left_to_fail_by_itself(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one", backoffLimit=0)
    capacity.provides(job)
    job.runs()
    capacity.says(job, "CapacityRevoked", "taken away")
    job.stays(1)
    job.check_is(capacity.check, "Ready")
    job.pods_do("failed")
    job.finishes("Failed")
    capacity.nothing_is_left()


# What others do.


@covers("L110")
def test_a_request_deleted_by_hand_is_made_again_only_while_it_is_needed(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    first = capacity.request(job)
    team.client.delete(REQUEST, first["metadata"]["name"], team.namespace)
    second = capacity.request(job, other_than=first["metadata"]["uid"])
    assert second["spec"] == first["spec"]
    capacity.provides(job)
    job.runs()
    team.client.delete(REQUEST, second["metadata"]["name"], team.namespace)
    team.never(lambda: capacity.requests() != [], "a request was made for a job that runs", 1)
    job.stays(0.5)


@covers("L112", "KEP1136-13")
def test_without_its_configuration_a_check_is_inactive_and_its_requests_go(team: Team) -> None:
    capacity = Capacity(team)
    queue = capacity.queue(cpu=2)
    running = queue.job("running")
    capacity.provides(running)
    running.runs()
    job = queue.job("one")
    first = capacity.request(job)
    capacity.remove_config()
    missing = f'ProvisioningRequestConfig.kueue.x-k8s.io "{capacity.config}" not found'
    capacity.is_active(False, "BadParametersRef", missing)
    job.check_is(capacity.check, "Pending", "the check is not active")
    team.eventually(lambda: capacity.requests() == [capacity.name(running)], "the request has gone")
    reason = f"references inactive AdmissionCheck(s): {capacity.check}."
    queue.says("Active", False, "AdmissionCheckInactive", f"Can't admit new workloads: {reason}")
    running.stays(0.5)
    capacity.configure()
    capacity.is_active()
    capacity.request(job, other_than=first["metadata"]["uid"])
    capacity.provides(job)
    job.runs()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"provisioningClassName": "other.example.com"}, id="class"),
        pytest.param({"parameters": {"speed": "low"}}, id="parameters"),
    ],
)
@covers("L113", "KEP1136-13")
def test_a_change_of_the_configuration_replaces_the_request(team: Team, change: dict[str, object]) -> None:
    capacity = Capacity(team, retryStrategy=QUICK)
    job = capacity.queue(cpu=1).job("one")
    capacity.says(job, "Failed", "no room")
    before = capacity.request(job, attempt=2)
    capacity.configure(**change)
    after = capacity.request(job, attempt=2, other_than=before["metadata"]["uid"])
    assert after["spec"] == {**before["spec"], **change}
    assert capacity.requests() == [capacity.name(job, 2)]
    assert job.workload()["status"]["admissionChecks"][0]["retryCount"] == 1
    capacity.provides(job, attempt=2)
    job.runs()
    capacity.configure(parameters={"speed": "high"})
    team.sleep(0.5)
    assert capacity.request(job, attempt=2)["metadata"]["uid"] == after["metadata"]["uid"]


@pytest.mark.ours("Kueue makes such a request and deletes it, endlessly")
@covers("L114")
def test_an_annotation_goes_over_a_parameter_of_the_configuration(team: Team) -> None:
    capacity = Capacity(team, parameters={"speed": "low"})
    job = capacity.queue(cpu=1).job("one", annotations={"provreq.kueue.x-k8s.io/speed": "high"})
    request = capacity.request(job)
    assert request["spec"]["parameters"] == {"speed": "high"}
    team.sleep(1)
    assert capacity.request(job)["metadata"]["uid"] == request["metadata"]["uid"]
    assert not team.events(job.workload_name, "FailedCreate")
    assert len(team.events(job.workload_name, "ProvisioningRequestCreated")) == 1


@covers("L115")
def test_a_request_outlives_a_hold_of_its_queue(team: Team) -> None:
    capacity = Capacity(team)
    queue = capacity.queue(cpu=1)
    job = queue.job("one")
    before = capacity.request(job)
    queue.edit(stopPolicy="Hold")
    job.shows("QuotaReserved", False)
    team.sleep(0.5)
    assert capacity.requests() == [before["metadata"]["name"]]
    queue.edit(stopPolicy="None")
    job.shows("QuotaReserved", True)
    capacity.provides(job)
    job.runs()
    assert capacity.request(job)["metadata"]["uid"] == before["metadata"]["uid"]


@covers("KEP1136-11")
@pytest.mark.parametrize("granted", [False, True], ids=["while it waits", "while it runs"])
def test_a_deleted_job_leaves_no_request(team: Team, granted: bool) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    capacity.request(job)
    if granted:
        capacity.provides(job)
        job.runs()
    job.delete()
    capacity.nothing_is_left()


def test_a_workload_that_is_made_anew_asks_for_itself(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    before = capacity.request(job)
    team.client.delete("Workload", job.workload_name, team.namespace)
    after = capacity.request(job, other_than=before["metadata"]["uid"])
    job.until(lambda tree: tree["metadata"]["uid"] == after["metadata"]["ownerReferences"][0]["uid"], "the owner")
    capacity.provides(job)
    job.runs()


@covers("KEP1136-12")
def test_a_queue_that_requires_no_check_any_more_admits_what_waits(team: Team) -> None:
    capacity = Capacity(team)
    queue = capacity.queue(cpu=1)
    job = queue.job("one")
    capacity.request(job)
    queue.edit(admissionChecksStrategy=None)
    job.runs()
    capacity.nothing_is_left()
