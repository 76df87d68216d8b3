"""Every object as of the latest event, and the relations between them."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias, cast

from pykueue.api.checks import AdmissionCheck, ProvisioningRequest
from pykueue.api.core import Namespace
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from pykueue.api.workload import Workload
from pykueue.audit.times import Instant
from pykueue.audit.views import SOURCES, Event, Job, Pod, PodTemplate, Thing, View, controller_uid, key_of
from pykueue.base.struct import Frozen

ShareStrategy: TypeAlias = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
FINAL: Final = "LessThanOrEqualToFinalShare"
INITIAL: Final = "LessThanInitialShare"


class Transformation(Frozen):
    """What a requested resource is charged as."""

    input: str = ""
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: str = ""
    outputs: Mapping[str, str] = {}
    """The quantity of each resource that one of the input is charged as."""


class Settings(Frozen):
    """How long things may take, in seconds, and facts about the cluster."""

    stuck_seconds: int = 10
    """How long a workload that would fit may wait."""
    lost_seconds: int = 10
    """How long a queued Job may be without its one Workload."""
    stop_seconds: int = 10
    """How long pods may run without an admission."""
    lag_seconds: int = 5
    """How long other controllers and writes in flight may act on earlier state."""
    lease: str = ""
    """Namespace and name of the manager's Lease; waiting counts only while it is held. Without it, always."""
    alone: bool = True
    """Whether only the manager starts Jobs and deletes Workloads; otherwise users may do so too."""
    plain_resources: bool = False
    """Whether pods are charged what they request, apart from the next two settings."""
    exclude_prefixes: tuple[str, ...] = ()
    """Prefixes of the names of resources that are not charged."""
    transformations: tuple[Transformation, ...] = ()
    """What resources are charged as."""
    block_admission: bool = False
    """Whether the manager admits nothing while an admitted workload's pods are not ready."""
    cleans_up: bool = True
    """Whether the manager deletes the ProvisioningRequests of workloads that were evicted."""
    fair_sharing: tuple[ShareStrategy, ...] = ()
    """The strategies by which workloads are preempted under fair sharing; empty if fair sharing is off."""
    nominal_first: bool = True
    """Whether, under fair sharing, heads that do not borrow go first, whatever the shares."""


class Finding(Frozen):
    """A violation: the rule, the object, and what was seen."""

    rule: str
    about: str
    message: str
    version: int
    at: Instant

    def __str__(self) -> str:
        return f"{self.rule}: {self.about}: {self.message} (version {self.version})"


class Change(Frozen):
    """The effect of an event on an object; `listed` if we did not see it happen."""

    kind: str
    key: str
    old: Thing | None
    new: Thing | None
    version: int
    at: Instant
    listed: bool = False

    def of(self, view: type[View]) -> tuple[View | None, View | None] | None:
        """The object before and after, if it is of this kind."""
        if view.__name__ != self.kind:
            return None
        old = self.old if isinstance(self.old, view) else None
        return old, self.new if isinstance(self.new, view) else None

    def found(self, rule: str, about: str, message: str) -> Finding:
        """A finding at this change."""
        return Finding(rule, about, message, self.version, self.at)


class World:
    """All objects, each kind by its key, as of the latest event."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Thing]] = {kind: {} for kind in SOURCES}
        # Each dict holds only its own kind, which `take` ensures.
        self.workloads = cast("dict[str, Workload]", self.objects["Workload"])
        self.queues = cast("dict[str, ClusterQueue]", self.objects["ClusterQueue"])
        self.cohorts = cast("dict[str, Cohort]", self.objects["Cohort"])
        self.local_queues = cast("dict[str, LocalQueue]", self.objects["LocalQueue"])
        self.flavors = cast("dict[str, ResourceFlavor]", self.objects["ResourceFlavor"])
        self.namespaces = cast("dict[str, Namespace]", self.objects["Namespace"])
        self.jobs = cast("dict[str, Job]", self.objects["Job"])
        self.pods = cast("dict[str, Pod]", self.objects["Pod"])
        self.checks = cast("dict[str, AdmissionCheck]", self.objects["AdmissionCheck"])
        self.requests = cast("dict[str, ProvisioningRequest]", self.objects["ProvisioningRequest"])
        self.templates = cast("dict[str, PodTemplate]", self.objects["PodTemplate"])
        self.version = 0
        self.job_keys: dict[str, str] = {}
        """Key of each Job by its UID."""
        self.workload_keys: dict[str, dict[str, None]] = {}
        """Keys of the Workloads of each Job, by the Job's UID."""
        self.pod_keys: dict[str, dict[str, None]] = {}
        """Keys of the pods of each Job, by the Job's UID."""
        self.request_keys: dict[str, dict[str, None]] = {}
        """Keys of the ProvisioningRequests of each Workload, by the Workload's UID."""
        self.uids: dict[str, dict[str, str]] = {"Job": self.job_keys, "Workload": {}, "ProvisioningRequest": {}}
        """Key of each object that others belong to, by kind and UID."""
        self.edited: dict[tuple[str, str], Instant] = {}
        """When each object's specification or labels were last seen to change, by kind and key."""

    @property
    def limited(self) -> set[str]:
        """The namespaces that have a LimitRange."""
        return {thing.namespace for thing in self.objects["LimitRange"].values()}

    def take(self, event: Event) -> Change:
        """Apply an event, and return the change."""
        key, known = key_of(event.object), self.objects[event.kind]
        old = known.get(key)
        new = None if event.type in ("DELETED", "VANISHED") else event.object
        if new is None:
            known.pop(key, None)
        else:
            known[key] = new
        self.link(event.kind, key, old, present=False)
        self.link(event.kind, key, new, present=True)
        self.version = max(self.version, event.version)
        listed = event.type in ("LISTED", "VANISHED")
        if not listed and edited(old, new):
            self.edited[event.kind, key] = event.at
        return Change(event.kind, key, old, new, event.version, event.at, listed)

    def link(self, kind: str, key: str, thing: Thing | None, *, present: bool) -> None:
        """Record or forget what this object belongs to."""
        if thing is None:
            return
        if kind in self.uids:
            uid = thing.metadata.uid or ""
            if present:
                self.uids[kind][uid] = key
            else:
                self.uids[kind].pop(uid, None)
        owned, owner = {
            "Workload": (self.workload_keys, "Job"),
            "Pod": (self.pod_keys, "Job"),
            "ProvisioningRequest": (self.request_keys, "Workload"),
        }.get(kind, ({}, ""))
        uid = controller_uid(thing, owner)
        if not uid:
            return
        if present:
            owned.setdefault(uid, {})[key] = None
        else:
            owned.get(uid, {}).pop(key, None)
            if not owned.get(uid):
                owned.pop(uid, None)

    def job_of(self, thing: Workload | Pod) -> Job | None:
        """The Job that controls this object; None if it is gone."""
        return self.jobs.get(self.job_keys.get(controller_uid(thing, "Job"), ""))

    def workload_of(self, request: ProvisioningRequest) -> Workload | None:
        """The Workload that a request belongs to; None if it is gone."""
        return self.workloads.get(self.uids["Workload"].get(controller_uid(request, "Workload"), ""))

    def requests_of(self, workload: Workload) -> Iterator[ProvisioningRequest]:
        """The requests of a Workload that are not being deleted."""
        for key in self.request_keys.get(workload.metadata.uid or "", ()):
            if self.requests[key].metadata.deletion_timestamp is None:
                yield self.requests[key]

    def workloads_of(self, job: Job) -> Iterator[Workload]:
        """The Workloads of a Job."""
        for key in self.workload_keys.get(job.metadata.uid or "", ()):
            yield self.workloads[key]

    def pods_of(self, job: Job) -> Iterator[Pod]:
        """The pods of a Job."""
        for key in self.pod_keys.get(job.metadata.uid or "", ()):
            yield self.pods[key]

    def queue_name_of(self, workload: Workload) -> str:
        """The name of the ClusterQueue of its LocalQueue; empty if there is none."""
        found = self.local_queues.get(f"{workload.namespace}/{workload.spec.queue_name or ''}")
        return (found.spec.cluster_queue or "") if found is not None else ""

    def quiet(self, kind: str, key: str, at: Instant, lag_micros: int) -> bool:
        """Whether this object has not been edited for this long."""
        return at - self.edited.get((kind, key), -lag_micros) >= lag_micros


def edited(old: Thing | None, new: Thing | None) -> bool:
    """Whether an object was created, deleted, or changed in its spec or labels."""
    if old is None or new is None:
        return old is not new
    before, after = old.metadata, new.metadata
    return (
        before.generation != after.generation
        or before.labels != after.labels
        or before.deletion_timestamp != after.deletion_timestamp
    )
