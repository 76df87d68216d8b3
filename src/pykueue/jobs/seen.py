"""The input of `plan`: the job, its Workloads, its owners, and the settings that apply."""

from collections.abc import Mapping
from typing import Any

from pykueue.api.core import controller_of
from pykueue.api.durations import Micros
from pykueue.api.kueue import ResourceFlavor
from pykueue.api.names import Finalizer, WorkloadCondition
from pykueue.api.workload import Workload, held
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.jobs.dependencies import Others
from pykueue.jobs.kind import Described, JobKind
from pykueue.jobs.podsets import Injection
from pykueue.jobs.workload import Classes


class Ancestor(Frozen):
    """The topmost owner of a job that is queued by itself."""

    queue: str
    admitted: bool
    """Whether its Workload is unfinished and admitted."""


class Ancestry(Frozen):
    """What is known of a job's owners."""

    top: Ancestor | None = None
    missing: bool = False
    """Whether an owner does not exist."""
    too_deep: bool = False


class Rules(Frozen):
    """The settings and gates that concern jobs."""

    queueless: bool = False
    """manageJobsWithoutQueueName"""
    pods_ready: bool = False
    """waitForPodsReady"""
    labels_to_copy: tuple[str, ...] = ()
    annotations_to_copy: tuple[str, ...] = ()
    delete_after: Micros | None = None
    """objectRetentionPolicies.workloads.afterDeactivatedByKueue"""
    reclaimable: bool = True
    """ReclaimablePods"""
    finish_orphans: bool = True
    """FinishOrphanedWorkloads"""
    prebuilt_annotations: bool = True
    """WorkloadIdentifierAnnotations"""
    partial: bool = True
    """PartialAdmission"""
    gated: bool = True
    """AdmissionGatedBy"""
    short_names: bool = False
    """ShortWorkloadNames"""
    injection: Injection = Injection()


class JobInput(Frozen):
    """A job and everything that decides what to do with it."""

    kind: JobKind[Any]
    namespace: str
    job: Described | None
    """None if there is no such job."""
    workloads: tuple[Workload, ...] = ()
    """The Workloads whose controller is a job of this kind and name."""
    prebuilt: Workload | None = None
    """The prebuilt Workload that the job names, if it exists."""
    selected: bool = True
    """Whether managedJobsNamespaceSelector selects its namespace."""
    owners: Ancestry = Ancestry()
    classes: Classes = Classes()
    flavors: Mapping[str, ResourceFlavor] = {}
    beyond: tuple[str, ...] = ()
    """What it uses that is not supported yet."""
    others: Others = {}
    """The jobs that it waits for, by name."""
    rules: Rules = Rules()
    fresh_until: Instant | None = None
    """Until when the Workload is so new that the scheduler should write first."""
    unsure_until: Instant | None = None
    """Until when pods may appear that the job's status does not count: it was stopped before its start was noticed."""


def holds(workload: Workload, kind: str) -> bool:
    """Whether a condition of a Workload is true."""
    return held(workload, kind) is not None


def reserved(workload: Workload) -> bool:
    """Whether it holds quota."""
    return held(workload, WorkloadCondition.QUOTA_RESERVED) is not None


def admitted(workload: Workload) -> bool:
    """Whether its job may run."""
    return held(workload, WorkloadCondition.ADMITTED) is not None


def finished(workload: Workload) -> bool:
    """Whether it is finished."""
    return held(workload, WorkloadCondition.FINISHED) is not None


def key_of(workload: Workload) -> str:
    """Namespace and name."""
    return f"{workload.namespace}/{workload.name}"


def has_finalizer(workload: Workload) -> bool:
    """Whether a Workload has our finalizer."""
    return Finalizer.RESOURCE_IN_USE in workload.metadata.finalizers


def owned(job: Described, workload: Workload) -> bool:
    """Whether a Workload belongs to this very job, and not to another of the same name."""
    owner = controller_of(workload.metadata)
    return owner is not None and owner.uid == job.metadata.uid
