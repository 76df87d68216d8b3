"""The objects that the auditor follows, as wire types, and one event of their history."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from pykueue.api.checks import AdmissionCheck, ProvisioningRequest
from pykueue.api.codec import DecodeError, decode_as
from pykueue.api.core import Condition, KubeObject, Namespace
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from pykueue.api.workload import Workload
from pykueue.audit.times import Instant
from pykueue.base.struct import Frozen, Wire

EventType: TypeAlias = Literal["LISTED", "VANISHED", "ADDED", "MODIFIED", "DELETED"]
"""LISTED is an object that existed when we listed, VANISHED one that no longer did: we did not see the change."""


class PodStatus(Wire):
    """The phase of a pod."""

    phase: str | None = None


class Pod(KubeObject):
    """A pod, for its owner and its phase."""

    status: PodStatus = PodStatus()


class JobSpec(Wire):
    """How many completions a Job needs, and whether it is suspended."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None


class JobStatus(Wire):
    """The progress of a Job."""

    active: int | None = None
    succeeded: int | None = None
    completed_indexes: str | None = None
    conditions: tuple[Condition, ...] | None = None


class Job(KubeObject):
    """A batch/v1 Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class LeaseSpec(Wire):
    """The holder of a lease, its duration, and the time by the holder's clock."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(KubeObject):
    """The lock that the leading manager holds."""

    spec: LeaseSpec = LeaseSpec()


class LimitRange(KubeObject):
    """Bounds and defaults for the pods of a namespace; only its existence matters."""


class PodTemplate(KubeObject):
    """The pods that a ProvisioningRequest refers to; only its owner matters."""


Thing: TypeAlias = (
    Workload
    | ClusterQueue
    | Cohort
    | LocalQueue
    | ResourceFlavor
    | AdmissionCheck
    | ProvisioningRequest
    | Namespace
    | Job
    | Pod
    | PodTemplate
    | Lease
    | LimitRange
)
View = TypeVar(
    "View",
    Workload,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    AdmissionCheck,
    ProvisioningRequest,
    Namespace,
    Job,
    Pod,
    PodTemplate,
    Lease,
    LimitRange,
)


class Source(Frozen):
    """Where the API serves a kind, and how it is read."""

    kind: str
    path: str
    view: type[Thing]
    optional: bool = False
    """Whether a cluster may lack the kind."""


SOURCES: Final[Mapping[str, Source]] = {
    source.kind: source
    for source in (
        Source("Namespace", "/api/v1/namespaces", Namespace),
        Source("ResourceFlavor", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors", ResourceFlavor),
        Source("Cohort", "/apis/kueue.x-k8s.io/v1beta2/cohorts", Cohort),
        Source("ClusterQueue", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", ClusterQueue),
        Source("LocalQueue", "/apis/kueue.x-k8s.io/v1beta2/localqueues", LocalQueue),
        Source("AdmissionCheck", "/apis/kueue.x-k8s.io/v1beta2/admissionchecks", AdmissionCheck),
        Source("Workload", "/apis/kueue.x-k8s.io/v1beta2/workloads", Workload),
        Source(
            "ProvisioningRequest",
            "/apis/autoscaling.x-k8s.io/v1/provisioningrequests",
            ProvisioningRequest,
            optional=True,
        ),
        Source("Job", "/apis/batch/v1/jobs", Job),
        Source("Pod", "/api/v1/pods", Pod),
        Source("PodTemplate", "/api/v1/podtemplates", PodTemplate),
        Source("LimitRange", "/api/v1/limitranges", LimitRange),
        Source("Lease", "/apis/coordination.k8s.io/v1/leases", Lease),
    )
}
OWN_READERS: Final[Mapping[type[Thing], msgspec.json.Decoder[Thing]]] = {
    view: msgspec.json.Decoder(view) for view in (Job, Pod, PodTemplate, Lease, LimitRange)
}


class Event(Frozen):
    """One change of one object: what happened, at which resourceVersion, and when we received it."""

    type: EventType
    kind: str
    version: int
    at: Instant
    object: Thing


class UnreadableError(ValueError):
    """The object does not have the form of its kind."""


def read_object(kind: str, raw: bytes | msgspec.Raw) -> Thing:
    """Decode an object of this kind from JSON; raises only `UnreadableError`."""
    view = SOURCES[kind].view
    text = bytes(raw)
    try:
        found = OWN_READERS[view].decode(text) if view in OWN_READERS else decode_as(view, text)
    except (DecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{kind}: {error}; the auditor skips it") from error
    assert isinstance(found, view), "an object is read as its kind"
    return found


def condition(thing: Workload | Job | AdmissionCheck | ProvisioningRequest, kind: str) -> Condition | None:
    """The condition of this type, if there is one."""
    return next((found for found in thing.status.conditions or () if found.type == kind), None)


def holds(thing: Workload | Job | AdmissionCheck | ProvisioningRequest, kind: str) -> bool:
    """Whether the condition of this type is true."""
    found = condition(thing, kind)
    return found is not None and found.status == "True"


def reserving(workload: Workload) -> bool:
    """Whether the workload holds quota: reserved, active and unfinished."""
    return holds(workload, "QuotaReserved") and not holds(workload, "Finished") and workload.spec.active


def waiting(workload: Workload) -> bool:
    """Whether the workload asks for quota and has none."""
    return (
        workload.spec.active
        and not holds(workload, "QuotaReserved")
        and not holds(workload, "Finished")
        and workload.metadata.deletion_timestamp is None
    )


def finished(job: Job) -> bool:
    """Whether the Job has ended, successfully or not."""
    return holds(job, "Complete") or holds(job, "Failed")


def controller_uid(thing: KubeObject, kind: str) -> str:
    """The UID of the owner of this kind that controls the object; empty if there is none."""
    return next((owner.uid for owner in thing.metadata.owner_references if owner.controller and owner.kind == kind), "")


def key_of(thing: KubeObject) -> str:
    """`namespace/name`, or `name` for a cluster-scoped object."""
    return f"{thing.namespace}/{thing.name}" if thing.namespace else thing.name
