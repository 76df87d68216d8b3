"""What the controllers share: the API, the clock, the settings, and an informer for every kind they read."""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol, TypeVar

import msgspec

from pykueue.api.checks import AdmissionCheck
from pykueue.api.codec import decode_as
from pykueue.api.config.file import Loaded
from pykueue.api.core import KubeObject, Namespace
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass
from pykueue.api.pods import LimitRange, RuntimeClass, decode
from pykueue.api.priorityclass import PriorityClass
from pykueue.api.workload import Workload
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.bridge.options import Intake, intake, options
from pykueue.bridge.runtimes import RunTimes
from pykueue.controllers.events import Recorder
from pykueue.controllers.finishedviews import reducer
from pykueue.controllers.workloadwrites import Writes
from pykueue.engine.model import Options
from pykueue.jobs.batch import JobView, read_job
from pykueue.kube.informer import Informer
from pykueue.kube.port import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Kube,
    Resource,
)

View = TypeVar("View", bound=KubeObject)

PRIORITY_CLASS: Final = msgspec.json.Decoder(PriorityClass)
UNREAD: Final = "not listed yet"
LEARNED_MAX: Final = 5_000
"""From how many finished Workloads of the first list to learn run times."""
LOOK_AGAIN: Final = 10_000
"""Microseconds between two checks whether the first lists are complete."""


class Followed(Protocol):
    """The common interface of the informers of all kinds."""

    resource: Resource
    synced: asyncio.Event
    trouble: str

    def doubt(self, key: str) -> None:
        """Handle that the server refused a write because the object has changed or is gone."""

    async def run(self) -> None:
        """Follow the kind until cancelled."""


class Settings(Frozen):
    """Configuration and gates, resolved once."""

    loaded: Loaded
    options: Options
    intake: Intake
    gates: Mapping[str, bool]
    namespace: str
    merged_events: bool = False
    """Whether an admission has one Event, also for the reservation in the same write."""


def settings(loaded: Loaded, seed: int = 0, *, scheduling: bool = True, merged_events: bool = False) -> Settings:
    """The controllers' settings for a Configuration; the seed feeds the jitter of backoffs.

    Without `scheduling` nothing is admitted and nothing preempted.
    """
    gates = loaded.gates.values
    chosen = msgspec.structs.replace(options(loaded, seed), scheduling=scheduling)
    return Settings(loaded, chosen, intake(loaded), gates, loaded.configuration.namespace, merged_events)


class Cluster:
    """The informers, and the API for writes."""

    def __init__(
        self,
        kube: Kube,
        reading: Kube,
        clock: Clock,
        chosen: Settings,
        *,
        instance: str,
        with_jobs: bool = True,
        run_times: RunTimes | None = None,
    ) -> None:
        self.kube = kube
        """For writes that must stop when the lease is lost."""
        self.reading = reading
        self.clock = clock
        self.settings = chosen
        self.run_times = run_times or RunTimes()
        """How long jobs run, by the Workloads that have finished."""
        self.listed = 0
        """How many finished Workloads the first list had so far."""

        def following(resource: Resource, view: type[View]) -> Informer[View]:
            return Informer(reading, resource, lambda raw: decode_as(view, raw), clock)

        retention = chosen.loaded.configuration.object_retention_policies.workloads
        self.workloads = Informer(
            reading,
            WORKLOADS,
            lambda raw: decode_as(Workload, raw),
            clock,
            shrink=reducer(timed=retention.after_finished is not None, whole=self.finished),
        )
        self.cluster_queues = following(CLUSTER_QUEUES, ClusterQueue)
        self.local_queues = following(LOCAL_QUEUES, LocalQueue)
        self.cohorts = following(COHORTS, Cohort)
        self.flavors = following(RESOURCE_FLAVORS, ResourceFlavor)
        self.checks = following(ADMISSION_CHECKS, AdmissionCheck)
        self.namespaces = following(NAMESPACES, Namespace)
        self.priority_classes = following(WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)
        self.pod_priority_classes: Informer[PriorityClass] = Informer(
            reading, PRIORITY_CLASSES, PRIORITY_CLASS.decode, clock
        )
        self.limit_ranges: Informer[LimitRange] = Informer(
            reading, LIMIT_RANGES, lambda raw: decode(raw, LimitRange), clock
        )
        self.runtime_classes: Informer[RuntimeClass] = Informer(
            reading, RUNTIME_CLASSES, lambda raw: decode(raw, RuntimeClass), clock
        )
        self.jobs: Informer[JobView] = Informer(reading, JOBS, read_job, clock)
        self.writes = Writes(kube, self.workloads, merge=chosen.gates["WorkloadRequestUseMergePatch"])
        self.events = Recorder(kube, clock, instance)

        self.essential: tuple[Followed, ...] = (
            self.namespaces,
            self.flavors,
            self.cohorts,
            self.cluster_queues,
            self.local_queues,
            self.workloads,
        )
        """Nothing is decided before the first lists of these are complete."""
        self.others: tuple[Followed, ...] = (
            self.checks,
            self.priority_classes,
            self.pod_priority_classes,
            self.limit_ranges,
            self.runtime_classes,
            *((self.jobs,) if with_jobs else ()),
        )
        """If one of these cannot be read, that is reported, and everything else continues."""

    def finished(self, seen: Workload) -> None:
        """Learn from a finished Workload; of a long first list, from some."""
        if not self.workloads.synced.is_set():
            self.listed += 1
            if self.listed > LEARNED_MAX:
                return
        self.run_times.learn(seen)

    def doubt(self, resource: Resource, key: str) -> None:
        """Handle that the server refused a write because the object has changed or is gone."""
        for one in (*self.essential, *self.others):
            if one.resource == resource:
                one.doubt(key)

    def missing(self) -> tuple[str, ...]:
        """The kinds whose first list is missing, each with the reason."""
        return tuple(
            f"{one.resource}: {one.trouble or UNREAD}"
            for one in (*self.essential, *self.others)
            if not one.synced.is_set() and not (one.trouble and one in self.others)
        )

    async def until_synced(self) -> None:
        """Wait until the first lists are complete."""
        while self.missing():
            await self.clock.sleep(LOOK_AGAIN)

    async def follow(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for one in (*self.essential, *self.others):
                tasks.create_task(one.run(), name=f"follow {one.resource}")
