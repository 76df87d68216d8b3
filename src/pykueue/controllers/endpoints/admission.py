"""What does an incoming object find in the cluster? The informers' picture, as admission needs it."""

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from pykueue.api.config.types import FRAMEWORKS, Configuration
from pykueue.api.core import Namespace, OwnerReference, controller_of, matches
from pykueue.api.kueue import LocalQueue, WorkloadPriorityClass
from pykueue.api.names import DEFAULT_PRIORITY_CLASS, DEFAULT_QUEUE, Label
from pykueue.api.rules.rule import Context
from pykueue.base.timers import timeout
from pykueue.jobs.admit_batch import group_kind
from pykueue.jobs.admit_world import AdmitWorld
from pykueue.jobs.batch import JobView, read_job
from pykueue.kube.informer import Informer
from pykueue.kube.port import JOBS, NAMESPACES, Kube, NotFoundError

WAIT_SECONDS: Final = 5.0
"""How long a question waits for the first picture of the cluster; the API server waits ten seconds for us."""
ANCESTORS_MAX: Final = 10
OWNER: Final = "batch/Job"
NAMESPACE: Final = msgspec.json.Decoder(Namespace)


class Pictured(Protocol):
    """What `Cluster` holds of what admission reads."""

    namespaces: Informer[Namespace]
    local_queues: Informer[LocalQueue]
    priority_classes: Informer[WorkloadPriorityClass]
    jobs: Informer[JobView]


class NotYetError(Exception):
    """A question that came before we know enough to answer it."""


class Admission:
    """The cluster as admission sees it; what an informer has not seen yet is asked of the API server."""

    def __init__(self, kube: Kube, pictured: Pictured, configuration: Configuration, gates: Mapping[str, bool]) -> None:
        self.kube = kube
        self.pictured = pictured
        self.selector = configuration.managed_jobs_namespace_selector
        kinds = (FRAMEWORKS[name].split(".", 2) for name in configuration.integrations.frameworks)
        waits = configuration.wait_for_pods_ready
        self.settled = AdmitWorld(
            gates=Context(gates),
            queueless=configuration.manage_jobs_without_queue_name,
            managed_kinds=frozenset(f"{group}/{kind}" if group else kind for kind, _, group in kinds),
            creation_order=waits is not None and waits.requeuing_strategy.timestamp == "Creation",
        )
        """What is the same for every object."""

    async def world(self, namespace: str, owner: Mapping[str, object] | None) -> AdmitWorld:
        """What an object in this namespace finds, that this reference says to be controlled by another."""
        if not namespace:
            return self.settled
        pictured = self.pictured
        await self.until_pictured(pictured.namespaces, pictured.local_queues, pictured.priority_classes)
        queue = pictured.local_queues.get(f"{namespace}/{DEFAULT_QUEUE}")
        return msgspec.structs.replace(
            self.settled,
            default_queue=queue is not None and queue.spec.stop_policy in (None, "", "None"),
            default_class=pictured.priority_classes.get(DEFAULT_PRIORITY_CLASS) is not None,
            selected=matches(self.selector, await self.labels(namespace)),
            managed_ancestor=owner is not None and await self.managed(namespace, owner),
        )

    async def until_pictured(
        self, *informers: Informer[Namespace] | Informer[LocalQueue] | Informer[WorkloadPriorityClass]
    ) -> None:
        """Return when these have been listed once; what cannot be listed at all is not waited for."""
        try:
            async with timeout(WAIT_SECONDS):
                for one in informers:
                    if not one.trouble:
                        await one.synced.wait()
        except TimeoutError as error:
            raise NotYetError("the manager has just started and does not know the cluster yet; try again") from error

    async def labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace, which may be so new that no informer has seen it."""
        known = self.pictured.namespaces.get(namespace)
        if known is None:
            try:
                known = NAMESPACE.decode(await self.kube.get(NAMESPACES, namespace))
            except NotFoundError:
                return {}
        return known.metadata.labels

    async def managed(self, namespace: str, reference: Mapping[str, object] | None) -> bool:
        """Whether a job's controller, or that one's, and so on, is queued itself, so that the job is not."""
        for _ in range(ANCESTORS_MAX):
            if reference is None or group_kind(reference) != OWNER:
                return False
            job = await self.job(namespace, str(reference.get("name", "")))
            if job is None or job.metadata.uid != reference.get("uid"):
                return False
            if self.settled.queueless or job.metadata.labels.get(Label.QUEUE):
                return True
            reference = described(controller_of(job.metadata))
        return False

    async def job(self, namespace: str, name: str) -> JobView | None:
        """A Job that controls others."""
        known = self.pictured.jobs.get(f"{namespace}/{name}")
        if known is not None:
            return known
        try:
            return read_job(await self.kube.get(JOBS, name, namespace))
        except NotFoundError:
            return None


def described(reference: OwnerReference | None) -> Mapping[str, object] | None:
    """A reference as objects hold it."""
    if reference is None:
        return None
    return {"apiVersion": reference.api_version, "kind": reference.kind, "name": reference.name, "uid": reference.uid}
