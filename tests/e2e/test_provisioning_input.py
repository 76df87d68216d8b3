"""What does bad input do to provisioning, and an autoscaler that is not there? It is said, and the rest goes on."""

from typing import Any

import pytest

from tests.e2e.capacity import CLASS, CONTROLLER, DEFINITION, REQUEST, Capacity, serve_requests
from tests.e2e.job import KUEUE
from tests.e2e.team import Team
from tests.plane.client import ApiError, Tree, condition

TIMEOUT = "pykueue.io/check-timeout-seconds"
SPEED = "provreq.kueue.x-k8s.io/speed"
LONG = "x" * 300


# Parameters.


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"parameters": {"speed": LONG}}, id="a parameter too long"),
        pytest.param({"parameters": {f"key-{number}": "x" for number in range(101)}}, id="too many parameters"),
        pytest.param({"provisioningClassName": "No Class"}, id="no name of a class"),
        pytest.param({"podSetMergePolicy": "Whatever"}, id="no such policy"),
        pytest.param({"retryStrategy": {"backoffLimitCount": "often"}}, id="no number"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(team: Team, spec: dict[str, Any]) -> None:
    tree = {
        "apiVersion": KUEUE,
        "kind": "ProvisioningRequestConfig",
        "metadata": {"name": team.own("bad")},
        "spec": {"provisioningClassName": CLASS, **spec},
    }
    with pytest.raises(ApiError) as caught:
        team.create(tree)
    assert caught.value.code == 422


def test_a_parameter_too_long_by_annotation_is_told_and_can_be_mended(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one", annotations={SPEED: LONG})
    why = 'the parameter "speed" of the ProvisioningRequest is longer than 255 characters'
    job.check_is(capacity.check, "Pending", why)
    job.workload_event("FailedCreate", why, "Warning")
    job.never_runs(1)
    assert len(team.events(job.workload_name, "FailedCreate")) == 1
    team.client.patch("Workload", job.workload_name, {"metadata": {"annotations": {SPEED: "low"}}}, team.namespace)
    capacity.provides(job)
    job.runs()


def test_a_check_says_what_is_wrong_with_its_parameters_until_they_are_there(team: Team) -> None:
    serve_requests(team)
    check = team.own("bare")
    body = {"controllerName": CONTROLLER}
    team.create({"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": check}, "spec": body})
    says(team, check, False, "BadParametersRef", "missing parameters reference")
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "later"}
    team.client.patch("AdmissionCheck", check, {"spec": {"parameters": reference}})
    wrong = 'wrong kind "MultiKueueConfig", expecting "ProvisioningRequestConfig": bad parameters reference'
    says(team, check, False, "BadParametersRef", wrong)
    name = team.own("later")
    reference |= {"kind": "ProvisioningRequestConfig", "name": name}
    team.client.patch("AdmissionCheck", check, {"spec": {"parameters": reference}})
    says(team, check, False, "BadParametersRef", f'ProvisioningRequestConfig.kueue.x-k8s.io "{name}" not found')
    spec = {"provisioningClassName": CLASS}
    team.create({"apiVersion": KUEUE, "kind": "ProvisioningRequestConfig", "metadata": {"name": name}, "spec": spec})
    says(team, check, True, "Active", "The admission check is active")


def says(team: Team, check: str, active: bool, reason: str, message: str | None = None, timeout: float = 20.0) -> Tree:
    """The check once it says this of itself."""

    def so(tree: Tree) -> bool:
        one = condition(tree, "Active")
        return (one.get("status"), one.get("reason")) == (str(active), reason) and message in (None, one.get("message"))

    return team.client.wait_for("AdmissionCheck", check, "", so, timeout, f"Active={active}/{reason} {message}")


# Objects in the way, changed or lost.


def test_a_request_whose_template_is_deleted_is_made_anew(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    before = capacity.request(job)
    (template,) = capacity.templates()
    team.client.delete("PodTemplate", template, team.namespace)
    after = capacity.request(job, other_than=before["metadata"]["uid"])
    assert after["spec"] == before["spec"]
    team.eventually(lambda: capacity.templates() == [template], "the template is there again")
    assert job.workload()["status"]["admissionChecks"][0].get("retryCount", 0) == 0
    capacity.provides(job)
    job.runs()


def test_a_template_that_somebody_edits_is_made_anew_with_its_request(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    before = capacity.request(job)
    (name,) = capacity.templates()
    template = team.get("PodTemplate", name, team.namespace)["template"]
    container = {**template["spec"]["containers"][0], "resources": {"requests": {"cpu": "64"}}}
    body = {"template": {"spec": {"containers": [container]}}}
    team.client.patch("PodTemplate", name, body, team.namespace)
    after = capacity.request(job, other_than=before["metadata"]["uid"])
    assert after["spec"] == before["spec"]
    team.eventually(
        lambda: (team.client.find("PodTemplate", name, team.namespace) or {}).get("template") == template,
        "the template is as it was",
    )
    capacity.provides(job)
    job.runs()


def test_a_request_that_somebody_changed_is_replaced(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    before = capacity.request(job)
    name = before["metadata"]["name"]
    # Its spec cannot be changed by anyone; what stands for the pods can.
    body = {"metadata": {"annotations": {"pykueue.io/asked-for": "something else"}}}
    team.client.patch(REQUEST, name, body, team.namespace)
    after = capacity.request(job, other_than=before["metadata"]["uid"])
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    capacity.provides(job)
    job.runs()


@pytest.mark.parametrize("kind", ["PodTemplate", REQUEST])
def test_somebody_elses_object_of_the_same_name_is_left_alone_and_told(team: Team, kind: str) -> None:
    capacity = Capacity(team)
    queue = capacity.queue(cpu=1)
    queue.edit(stopPolicy="Hold")
    job = queue.job("one")
    name = capacity.name(job)
    taken = name if kind == REQUEST else f"ppt-{name}-main"
    meta = {"name": taken, "namespace": team.namespace}
    body: Tree = {"template": {"spec": {"containers": [{"name": "main", "image": "none"}]}}}
    spec = {"provisioningClassName": CLASS, "podSets": [{"podTemplateRef": {"name": "theirs"}, "count": 1}]}
    tree: Tree = (
        {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": REQUEST, "metadata": meta, "spec": spec}
        if kind == REQUEST
        else {"apiVersion": "v1", "kind": kind, "metadata": meta, **body}
    )
    theirs = team.create(tree)
    queue.edit(stopPolicy="None")
    start = f'Error creating {kind} "{taken}": '
    job.until(
        lambda tree: any(one["message"].startswith(start) for one in tree.get("status", {}).get("admissionChecks", [])),
        start,
    )
    job.never_runs(0.5)
    assert team.get(kind, taken, team.namespace)["metadata"]["uid"] == theirs["metadata"]["uid"]
    if kind == "PodTemplate":
        # What was there before stands for no quota, and no capacity is asked for by it.
        assert capacity.requests() == []
    team.client.delete(kind, taken, team.namespace)
    capacity.request(job, other_than=theirs["metadata"]["uid"])
    capacity.provides(job)
    job.runs()


def test_a_request_that_is_held_while_it_is_deleted_is_waited_for(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    before = capacity.request(job)
    name = before["metadata"]["name"]
    team.client.patch(REQUEST, name, {"metadata": {"finalizers": ["example.com/hold"]}}, team.namespace)
    team.client.delete(REQUEST, name, team.namespace)
    job.never_runs(1)
    assert capacity.requests() == [name]
    team.client.patch(REQUEST, name, {"metadata": {"finalizers": None}}, team.namespace)
    capacity.request(job, other_than=before["metadata"]["uid"])
    capacity.provides(job)
    job.runs()


def test_a_condition_of_an_odd_kind_is_no_answer(team: Team) -> None:
    capacity = Capacity(team)
    job = capacity.queue(cpu=1).job("one")
    capacity.says(job, "Whatever", "odd")
    capacity.says(job, "Provisioned", "perhaps", status=False)
    job.never_runs(0.5)
    job.check_is(capacity.check, "Pending", "")
    capacity.provides(job)
    job.runs()


# Nobody answers.


def test_an_autoscaler_that_never_answers_is_told_with_its_age(team: Team) -> None:
    capacity = Capacity(team, provisioningClassName="unheard.example.com")
    job = capacity.queue(cpu=1).job("one")
    capacity.request(job)
    said = 'No answer from the autoscaler for 1 min; does it serve the class "unheard.example.com"?'
    job.until(lambda tree: [one["message"] for one in tree["status"]["admissionChecks"]] == [said], said, timeout=80)
    job.event("UpdatedAdmissionCheck", f"{capacity.check}: {said}")
    capacity.says(job, "Accepted")
    capacity.says(job, "Provisioned", "soon", status=False)
    job.check_is(capacity.check, "Pending", "soon")


def test_with_a_timeout_silence_becomes_a_retry_and_then_the_end(team: Team) -> None:
    strategy = {"backoffBaseSeconds": 1, "backoffLimitCount": 1}
    capacity = Capacity(team, annotations={TIMEOUT: "2"}, retryStrategy=strategy)
    job = capacity.queue(cpu=1).job("one")
    first = capacity.request(job)
    capacity.says(job, "Accepted", "seen, and put off")
    why = "Retrying after timeout: no capacity within 2 s"
    job.is_evicted("AdmissionCheck", f'Evicted due to AdmissionCheck in Retry state: "{capacity.check}" ({why})')
    second = capacity.request(job, attempt=2)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    job.is_evicted("DeactivatedDueToAdmissionCheck")
    message = f'AdmissionCheck in Rejected state: "{capacity.check}" (no capacity within 2 s)'
    job.workload_event("AdmissionCheckRejected", f"Deactivated due to {message}", "Warning")
    capacity.nothing_is_left()


def test_a_timeout_that_is_no_number_is_told_and_has_no_effect(team: Team) -> None:
    capacity = Capacity(team)
    body = {"metadata": {"annotations": {TIMEOUT: "soon"}}}
    team.client.patch("AdmissionCheck", capacity.check, body)
    idle = f"the annotation {TIMEOUT} has no effect: 'soon' is not a number of seconds"
    capacity.is_active(message=f"The admission check is active; {idle}")
    job = capacity.queue(cpu=1).job("one")
    capacity.request(job)
    body["metadata"]["annotations"][TIMEOUT] = "1"
    team.client.patch("AdmissionCheck", capacity.check, body)
    capacity.is_active()
    job.is_evicted("AdmissionCheck")


# The kind itself.


@pytest.mark.plane("the embedded API always serves the kind")
@pytest.mark.manager(none=True, alone=True)
def test_a_check_comes_alive_when_the_kind_does(team: Team) -> None:
    if team.client.find("CustomResourceDefinition", DEFINITION) is not None:
        team.client.delete("CustomResourceDefinition", DEFINITION)
        team.eventually(lambda: team.client.find("CustomResourceDefinition", DEFINITION) is None, "the kind is gone")
    how = f"the CustomResourceDefinition {DEFINITION} comes with the cluster autoscaler"
    with team.backend.manager():
        plain = team.queue("plain", cpu=1).job("plain")
        plain.runs()
        config = {"provisioningClassName": CLASS}
        name = team.own("late")
        team.create(
            {"apiVersion": KUEUE, "kind": "ProvisioningRequestConfig", "metadata": {"name": name}, "spec": config}
        )
        reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name}
        spec = {"controllerName": CONTROLLER, "parameters": reference}
        team.create({"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": name}, "spec": spec})
        tree = says(team, name, False, "ProvisioningRequestsUnreadable")
        assert how in condition(tree, "Active")["message"]
        team.shared_flavor()
        flavors = {team.own("default"): {"cpu": 1}}
        strategy = {"admissionChecks": [{"name": name}]}
        queue = team.local_queue("late", team.cluster_queue("late", flavors, admissionChecksStrategy=strategy))
        job = queue.job("one")
        job.waits("Suspended")
        serve_requests(team)
        says(team, name, True, "Active", "The admission check is active", timeout=30)
        request = team.client.wait_for(REQUEST, f"{job.workload_name}-{name}-1", team.namespace)
        assert request["spec"]["provisioningClassName"] == CLASS
        plain.stays(0.5)
