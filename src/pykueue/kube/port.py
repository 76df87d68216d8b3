"""The `Kube` protocol: what controllers need of a Kubernetes API, its types and its errors.

Bodies are bytes: callers decode them into the view that they need. `http` implements the protocol for a real API
server; `lease.Fenced` wraps any implementation and allows writes only while leading.
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
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", True)
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
    """The type of a patch."""

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
    """The body of a response that is not an object."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()


class KubeError(Exception):
    """A call that failed: the call, and the server's message."""

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
    """The object has changed, or was replaced by another, since it was read."""


class ExistsError(KubeError):
    """An object of this name exists already."""


class GoneError(KubeError):
    """The version to continue from is no longer kept (410); list again."""


class DeniedError(KubeError):
    """We are not allowed to do this (401, or 403 by the server itself); the message names verb and resource."""


class RejectedError(KubeError):
    """The server or a webhook refused the object (400, 403 by a webhook, 413, 422); a retry does not help."""


class UnansweredError(KubeError):
    """No response, or an overloaded server: the request may have been carried out or not."""


class NotLeadingError(KubeError):
    """Nothing was sent: this process no longer leads."""


class Kube(Protocol):
    """A Kubernetes API. Every call that fails raises a `KubeError` and nothing else."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        """Get an object."""

    def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """List objects, page by page, all of one version."""

    def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """Events after a version, with bookmarks, each a JSON object with `type` and `object`.

        Without a version, all present objects come first, as ADDED, ended by a bookmark with the annotation
        `k8s.io/initial-events-end`; a server without this feature raises `RejectedError`. The iteration ends when the
        server closes the connection; `GoneError` means that the version is too old.
        """

    async def create(self, resource: Resource, body: bytes, namespace: str = "") -> bytes:
        """Create an object."""

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
        """Patch an object; an apply takes over fields that others own."""

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        """Replace an object."""

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
        """Close all connections."""


STATUS: Final = msgspec.json.Decoder(Status)
