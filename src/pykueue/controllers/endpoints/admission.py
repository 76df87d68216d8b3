"""The cluster state that admission needs, from the informers."""

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
from pykueue.jobs.admit_world import AdmitWorld, TemplateCheck
from pykueue.jobs.batch import JobView, read_job
from pykueue.kube.informer import Informer
from pykueue.kube.port import JOBS, NAMESPACES, Kube, NotFoundError

WAIT_SECONDS: Final = 5.0
"""How long a request waits for the first lists; the API server waits ten seconds for us."""
ANCESTORS_MAX: Final = 10
OWNER: Final = "batch/Job"
NAMESPACE: Final = msgspec.json.Decoder(Namespace)


class Informers(Protocol):
    """The parts of `Cluster` that admission reads."""

    namespaces: Informer[Namespace]
    local_queues: Informer[LocalQueue]
    priority_classes: Informer[WorkloadPriorityClass]
    jobs: Informer[JobView]


class NotYetError(Exception):
    """A request arrived before the cluster state is known."""


class Admission:
    """The cluster as admission sees it; what the informers do not know yet is read from the API server."""

    def __init__(
        self,
        kube: Kube,
        informers: Informers,
        configuration: Configuration,
        gates: Mapping[str, bool],
        templates: TemplateCheck | None = None,
    ) -> None:
        self.kube = kube
        self.informers = informers
        self.selector = configuration.managed_jobs_namespace_selector
        kinds = (FRAMEWORKS[name].split(".", 2) for name in configuration.integrations.frameworks)
        waits = configuration.wait_for_pods_ready
        self.settled = AdmitWorld(
            gates=Context(gates),
            queueless=configuration.manage_jobs_without_queue_name,
            managed_kinds=frozenset(f"{group}/{kind}" if group else kind for kind, _, group in kinds),
            creation_order=waits is not None and waits.requeuing_strategy.timestamp == "Creation",
            fair_sharing=configuration.fair_sharing is not None,
            past_use=configuration.admission_fair_sharing is not None,
            templates=templates,
        )
        """The part that is the same for every object."""

    async def world(self, namespace: str, owner: Mapping[str, object] | None) -> AdmitWorld:
        """The world for an object in this namespace, with the reference to its controller."""
        if not namespace:
            return self.settled
        informers = self.informers
        await self.until_synced(informers.namespaces, informers.local_queues, informers.priority_classes)
        queue = informers.local_queues.get(f"{namespace}/{DEFAULT_QUEUE}")
        return msgspec.structs.replace(
            self.settled,
            default_queue=queue is not None and queue.spec.stop_policy in (None, "", "None"),
            default_class=informers.priority_classes.get(DEFAULT_PRIORITY_CLASS) is not None,
            selected=matches(self.selector, await self.labels(namespace)),
            managed_ancestor=owner is not None and await self.managed(namespace, owner),
        )

    async def until_synced(
        self, *informers: Informer[Namespace] | Informer[LocalQueue] | Informer[WorkloadPriorityClass]
    ) -> None:
        """Wait until these kinds are listed, except those that cannot be listed at all."""
        if all(one.trouble or one.synced.is_set() for one in informers):
            # So it is after the start, when a timer for each request would be in vain.
            return
        try:
            async with timeout(WAIT_SECONDS):
                for one in informers:
                    if not one.trouble:
                        await one.synced.wait()
        except TimeoutError as error:
            raise NotYetError("the manager has just started and does not know the cluster yet; try again") from error

    async def labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace, which may be too new for the informer."""
        known = self.informers.namespaces.get(namespace)
        if known is None:
            try:
                known = NAMESPACE.decode(await self.kube.get(NAMESPACES, namespace))
            except NotFoundError:
                return {}
        return known.metadata.labels

    async def managed(self, namespace: str, reference: Mapping[str, object] | None) -> bool:
        """Whether one of a job's controllers, direct or indirect, is queued itself, so that the job is not."""
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
        known = self.informers.jobs.get(f"{namespace}/{name}")
        if known is not None:
            return known
        try:
            return read_job(await self.kube.get(JOBS, name, namespace))
        except NotFoundError:
            return None


def described(reference: OwnerReference | None) -> Mapping[str, object] | None:
    """A reference as the wire type of objects."""
    if reference is None:
        return None
    return {"apiVersion": reference.api_version, "kind": reference.kind, "name": reference.name, "uid": reference.uid}
