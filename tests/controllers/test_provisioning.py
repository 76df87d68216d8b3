"""Do the checks of capacity hold out where the API server refuses, lags, or does not serve what it needs?"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pykueue.controllers.provisioning import Provisioning
from pykueue.kube.informer import Informer
from pykueue.kube.port import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    WORKLOADS,
    DeniedError,
    NotFoundError,
    RejectedError,
)
from pykueue.testing.kueue import Kueue
from tests import builders
from tests.builders import cluster_queue, local_queue
from tests.fakes.faulty import Faulty

KUEUE = "kueue.x-k8s.io/v1beta2"
CLASS = "story.example.com"
MANY = 200
"""More calls than anything here takes; at so many a loop is stopped, so that the test can tell of it."""

Fault = Callable[[str], None]


def provisioning(kueue: Kueue) -> Provisioning:
    """The controller under test."""
    found = getattr(kueue.embedded.local.controllers.duties["checks"], "__self__", None)
    assert isinstance(found, Provisioning)
    return found


def faulty(kueue: Kueue, fault: Fault = lambda what: None) -> Faulty:
    """Stand between our controllers and the API."""
    made = Faulty(kueue.embedded.clock, kueue.embedded.local.registry)

    def before(what: str) -> None:
        fault(what)
        if len(made.calls) > MANY:
            # What fails is waited for before it is tried again.
            raise RejectedError(what, 400, "BadRequest", "too many calls")

    made.before = before
    cluster = provisioning(kueue).cluster
    cluster.kube = cluster.writes.kube = made
    return made


def queue(
    kueue: Kueue, checks: Sequence[str] = ("cap",), annotations: dict[str, str] | None = None, **config: Any
) -> None:
    """A queue whose jobs wait for capacity that nobody but the test provides."""
    for name in checks:
        spec = {"provisioningClassName": CLASS, **config}
        reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name}
        kueue.apply(
            {"apiVersion": KUEUE, "kind": "ProvisioningRequestConfig", "metadata": {"name": name}, "spec": spec},
            {
                "apiVersion": KUEUE,
                "kind": "AdmissionCheck",
                "metadata": {"name": name, "annotations": annotations or {}},
                "spec": {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": reference},
            },
        )
    kueue.apply(
        {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "default"}},
        cluster_queue(cpu=9, admissionChecksStrategy={"admissionChecks": [{"name": name} for name in checks]}),
        local_queue(),
    )


def requests(kueue: Kueue) -> list[str]:
    """The names of all requests."""
    return sorted(one["metadata"]["name"] for one in kueue.client.list(PROVISIONING_REQUESTS, "default"))


def says(kueue: Kueue, name: str, kind: str, message: str = "") -> None:
    """Answer a request, as an autoscaler would."""
    made = kueue.client.get(PROVISIONING_REQUESTS, name, "default")["metadata"]["creationTimestamp"]
    said = {"type": kind, "status": "True", "reason": "R", "message": message, "lastTransitionTime": made}
    kueue.client.patch(PROVISIONING_REQUESTS, name, {"status": {"conditions": [said]}}, "default", "status")
    kueue.settle()


def states(kueue: Kueue, job: str) -> dict[str, tuple[str, str]]:
    """What each check says of a job."""
    listed = kueue.workload(job)["status"]["admissionChecks"]
    return {one["name"]: (one["state"], one["message"]) for one in listed}


def active(kueue: Kueue) -> tuple[str, str, str]:
    """What the check says of itself."""
    (found,) = kueue.client.get(ADMISSION_CHECKS, "cap")["status"]["conditions"]
    return found["status"], found["reason"], found["message"]


# What cannot be read.


def test_a_request_that_we_deleted_grants_nothing_however_late_we_hear_of_its_end(
    kueue: Kueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(kueue)
    kueue.job("one", queue="main")
    (name,) = requests(kueue)
    says(kueue, name, "Provisioned")
    assert kueue.running() == {"one"}
    follower = provisioning(kueue).requests
    hear, late = follower.event, list[bytes]()

    def lagging(line: bytes, seen: set[str] | None) -> bool:
        if b'"DELETED"' not in line[:40]:
            return hear(line, seen)
        late.append(line)
        return False

    monkeypatch.setattr(follower, "event", lagging)
    for policy in ("HoldAndDrain", "None"):
        kueue.client.patch(CLUSTER_QUEUES, "main", {"spec": {"stopPolicy": policy}})
        kueue.settle()
    assert len(late) == 1
    assert kueue.running() == set()
    assert states(kueue, "one")["cap"][0] == "Pending"
    assert requests(kueue) == [name]
    monkeypatch.undo()
    hear(late[0], None)
    kueue.settle()
    # The news of the old one's end is none of the new one's.
    says(kueue, name, "Provisioned")
    assert kueue.running() == {"one"}
    assert provisioning(kueue).deleted == set()


def test_a_check_says_that_templates_cannot_be_read_and_comes_alive_when_they_can(
    kueue: Kueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = Informer.follow

    async def denied(informer: Informer[Any]) -> None:
        if informer.resource == POD_TEMPLATES and informer.labels:
            raise DeniedError("watch podtemplates", 403, "Forbidden", "may not")
        await follow(informer)

    with monkeypatch.context() as patches:
        patches.setattr(Informer, "follow", denied)
        queue(kueue)
        kueue.job("one", queue="main")
        assert active(kueue) == ("False", "ProvisioningRequestsUnreadable", "watch podtemplates: may not")
        assert kueue.why("one") == "ClusterQueue main is inactive"
    kueue.advance("10s")
    assert active(kueue)[0] == "True"
    assert len(requests(kueue)) == 1


def test_nothing_is_tried_while_the_kind_is_not_served(kueue: Kueue) -> None:
    queue(kueue)
    for name in ("one", "two"):
        kueue.job(name, queue="main")

    def gone(what: str) -> None:
        if " provisioningrequests" in what:
            raise NotFoundError(what, 404, "NotFound", "no such kind")

    spy = faulty(kueue, gone)
    followed = provisioning(kueue).requests
    followed.turn("no such kind")
    for key in list(followed.objects):
        followed.put(key, None)
    kueue.advance("1h")
    assert (spy.sent("create podtemplates"), spy.sent("create provisioningrequests")) == (0, 0)
    assert active(kueue)[2].startswith("no such kind; the CustomResourceDefinition")


# What is refused.


def refusing(name: str) -> Fault:
    """Have one request refused."""

    def fault(what: str) -> None:
        if what.startswith("create provisioningrequests") and what.endswith(name):
            raise RejectedError("create", 422, "Invalid", "no")

    return fault


def test_a_refused_request_keeps_no_other_check_from_asking(kueue: Kueue) -> None:
    queue(kueue, ("a", "b"))
    faulty(kueue, refusing("-a-1"))
    kueue.job("one", queue="main")
    kueue.advance("10s")
    (made,) = requests(kueue)
    assert made.endswith("-b-1")
    state, message = states(kueue, "one")["a"]
    assert state == "Pending"
    assert message.startswith("Error creating ProvisioningRequest")


def test_a_request_that_is_refused_for_ever_keeps_its_template(kueue: Kueue) -> None:
    queue(kueue)
    spy = faulty(kueue, refusing("-cap-1"))
    kueue.job("one", queue="main")
    kueue.advance("1h")
    assert spy.sent("create provisioningrequests") > 1
    assert (spy.sent("create podtemplates"), spy.sent("delete podtemplates")) == (1, 0)
    assert spy.sent("patch workloads") <= 10
    spy.before = lambda what: None
    kueue.advance("2m")
    (made,) = requests(kueue)
    (template,) = kueue.client.list(POD_TEMPLATES, "default")
    assert [one["name"] for one in template["metadata"]["ownerReferences"]] == [made]


@pytest.mark.kueue(gates={"CleanupProvisioningRequestsOnEviction": False})
def test_a_refused_second_attempt_is_complained_of_once_and_tried_slowly(kueue: Kueue) -> None:
    queue(kueue, retryStrategy={"backoffBaseSeconds": 1})
    kueue.job("one", queue="main")
    (first,) = requests(kueue)
    spy = faulty(kueue, refusing("-cap-2"))
    says(kueue, first, "Failed", "no room")
    kueue.advance("30s")
    assert states(kueue, "one")["cap"][1].startswith("Error creating ProvisioningRequest")
    assert spy.sent("patch workloads") <= 10
    assert spy.sent("create provisioningrequests") <= 20


@pytest.mark.kueue(gates={"KeepQuotaForProvReqRetry": True})
def test_what_hinders_an_attempt_is_said_once_though_patience_has_ended(kueue: Kueue) -> None:
    queue(kueue, annotations={"pykueue.io/check-timeout-seconds": "5"}, parameters={"x": "y" * 255})
    spy = faulty(kueue)
    kueue.apply(workload("one", provisioned={"x": "y" * 256}))
    kueue.advance("60s")
    assert spy.sent("patch workloads") <= 10
    (state,) = kueue.client.get(WORKLOADS, "one", "default")["status"]["admissionChecks"]
    assert state["message"] == 'the parameter "x" of the ProvisioningRequest is longer than 255 characters'


def workload(name: str, cpu: str = "1", provisioned: dict[str, str] | None = None) -> dict[str, Any]:
    """A Workload of no job, and the parameters that its annotations set."""
    annotations = {f"provreq.kueue.x-k8s.io/{key}": value for key, value in (provisioned or {}).items()}
    return builders.workload(name, "main", cpu, "default", {"annotations": annotations})


def test_of_two_workloads_whose_requests_would_share_a_name_the_second_takes_nothing_from_the_first(
    kueue: Kueue,
) -> None:
    queue(kueue, ("c", "b-c"))
    kueue.apply(workload("a", cpu="1"))
    before = kueue.client.get(POD_TEMPLATES, "ppt-a-b-c-1-main", "default")
    spy = faulty(kueue)
    kueue.apply(workload("a-b", cpu="3"))
    kueue.advance("60s")
    assert kueue.client.get(POD_TEMPLATES, "ppt-a-b-c-1-main", "default") == before
    owner = kueue.client.get(PROVISIONING_REQUESTS, "a-b-c-1", "default")["metadata"]["ownerReferences"][0]
    assert owner["name"] == "a"
    assert requests(kueue) == ["a-b-b-c-1", "a-b-c-1", "a-c-1"]
    listed = kueue.client.get(WORKLOADS, "a-b", "default")["status"]["admissionChecks"]
    messages = {one["name"]: one["message"] for one in listed}
    assert messages["c"].startswith('Error creating PodTemplate "ppt-a-b-c-1-main"')
    assert len(spy.calls) <= 100


# How long a check is waited for, and how often.


def test_a_check_that_comes_to_what_runs_has_all_of_its_time(kueue: Kueue) -> None:
    queue(kueue, annotations={"pykueue.io/check-timeout-seconds": "60"})
    kueue.client.patch(CLUSTER_QUEUES, "main", {"spec": {"admissionChecksStrategy": None}})
    kueue.job("one", queue="main")
    kueue.advance("10m")
    required = {"admissionChecks": [{"name": "cap"}]}
    kueue.client.patch(CLUSTER_QUEUES, "main", {"spec": {"admissionChecksStrategy": required}})
    kueue.settle()
    assert (kueue.running(), states(kueue, "one")["cap"]) == ({"one"}, ("Pending", ""))
    assert len(requests(kueue)) == 1


def test_a_check_of_some_flavors_comes_to_the_end_of_its_attempts(kueue: Kueue) -> None:
    queue(kueue, retryStrategy={"backoffLimitCount": 1, "backoffBaseSeconds": 10})
    kueue.apply({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "other"}})
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        for name, cpu in (("default", 9), ("other", 0))
    ]
    required = {"admissionChecks": [{"name": "cap", "onFlavors": ["default"]}]}
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    changed = {"spec": {"admissionChecksStrategy": required, "resourceGroups": groups}}
    kueue.client.patch(CLUSTER_QUEUES, "main", changed)
    kueue.job("one", queue="main")
    (first,) = requests(kueue)
    says(kueue, first, "Failed", "no room")
    kueue.advance("15s")
    (second,) = requests(kueue)
    assert (first[-2:], second[-2:]) == ("-1", "-2")
    says(kueue, second, "Failed", "no room")
    assert not kueue.workload("one")["spec"]["active"]
