"""Who is the autoscaler in a story? The story itself: it sees what is asked for, and answers as the autoscaler would.

    capacity = Capacity(team)
    queue = capacity.queue(cpu=1)
    job = queue.job("one")
    capacity.request(job)                      # the ProvisioningRequest of its first attempt
    capacity.says(job, "Provisioned", "here")
    job.runs()

No autoscaler of anyone's serves its class.
"""

from collections.abc import Mapping
from typing import Any

from tests.e2e.backend import OnPlane
from tests.e2e.job import KUEUE, Job
from tests.e2e.team import Queue, Team
from tests.plane.autoscaler import define_requests
from tests.plane.client import WAIT, Tree, condition

CLASS = "story.example.com"
REQUEST = "ProvisioningRequest"
DEFINITION = "provisioningrequests.autoscaling.x-k8s.io"
CONTROLLER = "kueue.x-k8s.io/provisioning-request"


def serve_requests(team: Team) -> None:
    """Have requests served where that takes a definition."""
    backend = team.backend
    if isinstance(backend, OnPlane) and team.client.find("CustomResourceDefinition", DEFINITION) is None:
        define_requests(backend.plane)


class Capacity:
    """A provisioning check with its configuration, in a story that answers its requests."""

    def __init__(
        self, team: Team, name: str = "capacity", annotations: Mapping[str, str] | None = None, **spec: Any
    ) -> None:
        serve_requests(team)
        self.team = team
        self.client = team.client
        self.check = self.config = team.own(name)
        self.configure(**spec)
        reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": self.config}
        team.create(
            {
                "apiVersion": KUEUE,
                "kind": "AdmissionCheck",
                "metadata": {"name": self.check, "annotations": dict(annotations or {})},
                "spec": {"controllerName": CONTROLLER, "parameters": reference},
            }
        )
        self.is_active()

    # -- what an administrator does

    def configure(self, **spec: Any) -> None:
        """Make the configuration, or change it."""
        if self.client.find("ProvisioningRequestConfig", self.config) is not None:
            self.client.patch("ProvisioningRequestConfig", self.config, {"spec": spec})
            return
        self.team.create(
            {
                "apiVersion": KUEUE,
                "kind": "ProvisioningRequestConfig",
                "metadata": {"name": self.config},
                "spec": {"provisioningClassName": CLASS, **spec},
            }
        )

    def remove_config(self) -> None:
        self.client.delete("ProvisioningRequestConfig", self.config)

    @property
    def required(self) -> Tree:
        """What makes a ClusterQueue require the check."""
        return {"admissionChecks": [{"name": self.check}]}

    def queue(self, name: str = "main", **how: Any) -> Queue:
        """A queue whose jobs need capacity."""
        return self.team.queue(name, admissionChecksStrategy=self.required, **how)

    def is_active(
        self,
        active: bool = True,
        reason: str = "Active",
        message: str = "The admission check is active",
        timeout: float = WAIT,
    ) -> Tree:
        """Wait until the check says of itself whether it can be made."""

        def so(tree: Tree) -> bool:
            one = condition(tree, "Active")
            return [one.get("status"), one.get("reason"), one.get("message")] == [str(active), reason, message]

        return self.client.wait_for(
            "AdmissionCheck", self.check, "", so, timeout, f"Active={active}/{reason} {message}"
        )

    # -- what the autoscaler sees

    def name(self, job: Job, attempt: int = 1) -> str:
        return f"{job.workload_name}-{self.check}-{attempt}"

    def request(self, job: Job, attempt: int = 1, other_than: str = "") -> Tree:
        """The request of an attempt, once it is there; `other_than` is the UID of one that went before."""
        return self.client.wait_for(
            REQUEST,
            self.name(job, attempt),
            self.team.namespace,
            lambda tree: tree["metadata"]["uid"] != other_than and "deletionTimestamp" not in tree["metadata"],
            what="made",
        )

    def requests(self) -> list[str]:
        """The names of all requests of the story."""
        return sorted(tree["metadata"]["name"] for tree in self.client.objects(REQUEST, self.team.namespace))

    def templates(self) -> list[str]:
        """The names of all pod templates of the story."""
        return sorted(tree["metadata"]["name"] for tree in self.client.objects("PodTemplate", self.team.namespace))

    def nothing_is_left(self) -> None:
        """Wait until there is neither a request nor a template."""
        # A cluster's garbage collector looks for new kinds every 30 seconds, and templates belong to one.
        self.team.eventually(lambda: not self.requests() and not self.templates(), "nothing is left", 3 * WAIT)

    def template(self, request: Tree, place: int = 0) -> Tree:
        """The pod template that a request refers to."""
        name = request["spec"]["podSets"][place]["podTemplateRef"]["name"]
        return self.client.get("PodTemplate", name, self.team.namespace)

    # -- what it does

    def says(
        self,
        job: Job,
        type_: str,
        message: str = "",
        status: bool = True,
        attempt: int = 1,
        details: Mapping[str, str] | None = None,
    ) -> None:
        """Write a condition of a request, once it is there."""
        self.write(self.request(job, attempt), type_, message, status, details)

    def write(
        self,
        request: Tree,
        type_: str,
        message: str = "",
        status: bool = True,
        details: Mapping[str, str] | None = None,
    ) -> None:
        """Write a condition of a request, and perhaps details of its class."""
        one = {
            "type": type_,
            "status": str(status),
            "reason": "ByStory",
            "message": message,
            "lastTransitionTime": self.team.instant(),
        }
        others = [other for other in request.get("status", {}).get("conditions") or [] if other["type"] != type_]
        body: Tree = {"conditions": [*others, one]}
        if details is not None:
            body["provisioningClassDetails"] = dict(details)
        name = request["metadata"]["name"]
        self.client.patch(REQUEST, name, {"status": body}, self.team.namespace, subresource="status")

    def provides(self, job: Job, attempt: int = 1, **details: str) -> None:
        """Grant what was asked for."""
        self.says(job, "Provisioned", "Capacity is found in the cluster", attempt=attempt, details=details)
