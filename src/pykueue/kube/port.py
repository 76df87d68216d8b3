"""What do controllers need of a Kubernetes API? The `Kube` protocol, what it works on, and how it fails.

Bodies are bytes in and bytes out: whoever needs an object decodes it into the view that it wants. `http` implements it
for a real API server; `lease.Fenced` stands before any implementation and lets only a leader write.
"""

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from pykueue.api.kinds import KINDS
from pykueue.base.struct import Frozen, Wire


class Resource(Frozen):
    """Where the API serves objects of a kind."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        """Group and version as objects name them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Ref(Frozen):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str = ""


def kueue(kind: str) -> Resource:
    """Where the API serves one of our kinds, in its stored version."""
    known = KINDS[kind]
    return Resource(known.group, known.versions[0], known.plural, kind, known.scope == "Namespaced")


WORKLOADS: Final = kueue("Workload")
CLUSTER_QUEUES: Final = kueue("ClusterQueue")
LOCAL_QUEUES: Final = kueue("LocalQueue")
COHORTS: Final = kueue("Cohort")
RESOURCE_FLAVORS: Final = kueue("ResourceFlavor")
ADMISSION_CHECKS: Final = kueue("AdmissionCheck")
PROVISIONING_CONFIGS: Final = kueue("ProvisioningRequestConfig")
PROVISIONING_REQUESTS: Final = kueue("ProvisioningRequest")
WORKLOAD_PRIORITY_CLASSES: Final = kueue("WorkloadPriorityClass")
NAMESPACES: Final = kueue("Namespace")
JOBS: Final = Resource("batch", "v1", "jobs", "Job", True)
PODS: Final = Resource("", "v1", "pods", "Pod", True)
POD_TEMPLATES: Final = Resource("", "v1", "podtemplates", "PodTemplate", True)
NODES: Final = Resource("", "v1", "nodes", "Node")
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange", True)
RUNTIME_CLASSES: Final = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", True)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", True)
CRDS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview")
ACCESS_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview")


class Patch(StrEnum):
    """The kinds of patch, by media type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    """Understood by the API servers of built-in kinds; our controllers do not send it."""
    APPLY = "application/apply-patch+yaml"


class StatusDetails(Wire):
    """What an error is about."""

    name: str = ""
    kind: str = ""
    retry_after_seconds: int = 0


class Status(Wire):
    """The body of an answer that is no object."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()


class KubeError(Exception):
    """A call that failed: what was asked of what, and what the server said."""

    def __init__(self, what: str, code: int, reason: str, message: str) -> None:
        super().__init__(f"{what}: {message or reason or code}")
        self.what = what
        """The verb, the resource and the name, as in `patch workloads.kueue.x-k8s.io team-a/job-x`."""
        self.code = code
        self.reason = reason
        self.message = message


class NotFoundError(KubeError):
    """The object, or the kind, does not exist."""


class ConflictError(KubeError):
    """The object has changed, or its identity is another, since it was read."""


class ExistsError(KubeError):
    """An object of this name exists already."""


class GoneError(KubeError):
    """The version to go on from is no longer kept (410); list anew."""


class DeniedError(KubeError):
    """We may not do this (401 or 403 by the server itself); the message names verb and resource."""


class RejectedError(KubeError):
    """The server, or a webhook, judged the object wrong (400, 403 by a webhook, 413, 422); asking again is no use."""


class UnansweredError(KubeError):
    """No answer came, or the server was overloaded to the end: what was asked may have been done or not."""


class NotLeadingError(KubeError):
    """Nothing was sent: this process may not write any more."""


class Kube(Protocol):
    """A Kubernetes API. Every call raises a `KubeError` and nothing else when it fails."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        """An object."""

    def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """A list, as the list objects of its pages; all of one version."""

    def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """Events after a version, with bookmarks, each a JSON object with `type` and `object`.

        Without a version the objects there are come first, as ADDED, and a bookmark with the annotation
        `k8s.io/initial-events-end` ends them; a server that cannot do this raises `RejectedError`. The iteration ends
        when the server closes the connection; `GoneError` means that the version is too old.
        """

    async def create(self, resource: Resource, body: bytes, namespace: str = "") -> bytes:
        """The object that was created."""

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str = "",
        *,
        how: Patch,
        subresource: str = "",
        manager: str = "",
    ) -> bytes:
        """The object as it is after a patch; an apply takes over fields that others own."""

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        """The object as it is after it was replaced."""

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
        uid: str = "",
        version: str = "",
        grace: int | None = None,
    ) -> None:
        """Delete an object if it still has the given uid and version; `grace` overrides its grace period in seconds."""

    async def close(self) -> None:
        """Let go of all connections."""


STATUS: Final = msgspec.json.Decoder(Status)
