"""What neither the scheduler nor jobs do for Workloads: orphans, retention, lists of checks, priority classes.

The needs of a Workload are computed when it changes, and most need nothing: then nothing is queued and nothing is kept.
"""

import asyncio
import logging
from typing import Final, assert_never

import msgspec

from pykueue.api.core import Tree
from pykueue.api.kueue import ClusterQueue, LocalQueue, WorkloadPriorityClass
from pykueue.api.names import OWNER_NOT_FOUND, OWNER_NOT_FOUND_SAYS, Finalizer, WorkloadCondition
from pykueue.api.workload import Workload, held
from pykueue.base.units import MICROS
from pykueue.bridge.decisionevents import CONTROLLER
from pykueue.bridge.outbound import finished
from pykueue.bridge.workloadneeds import (
    Expire,
    Finish,
    LookAgain,
    Need,
    ReleaseFinalizer,
    Rules,
    SyncChecks,
    need,
    rejects_without_quota,
    with_checks,
)
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.events import ref
from pykueue.controllers.status import Decider
from pykueue.jobs.workload import WORKLOAD_CLASS
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change
from pykueue.kube.port import WORKLOADS, ConflictError, NotFoundError, Patch, RejectedError

LOG: Final = logging.getLogger(__name__)

WORKERS: Final = 4
YIELD_EVERY: Final = 500
"""Workloads that are considered at a time at the start."""
LISTING_SECONDS: Final = 1.0
RESET_SECONDS_MAX: Final = 300.0
"""A check that turns down a Workload without quota is reset after a second, and each time it does so again after twice
as long, up to this."""


class Workloads:
    """Reconciles what neither the scheduler nor their jobs do for Workloads."""

    def __init__(self, cluster: Cluster, pump: Decider) -> None:
        self.cluster = cluster
        self.pump = pump
        self.acts = False
        """Whether we lead; earlier changes are considered when we start to."""
        gates, configuration = cluster.settings.gates, cluster.settings.loaded.configuration
        retention = configuration.object_retention_policies.workloads.after_finished
        self.rules = Rules(gates["FinishOrphanedWorkloads"], retention)
        self.strict = gates["RemoveFinalizersWithStrictPatch"]
        self.resets: dict[str, int] = {}
        """How often the checks of a Workload were reset since it last held quota, by key."""
        self.controller = Controller("workload", self.reconcile, cluster.clock, WORKERS)
        self.classes = Controller("workloadpriorityclass", self.spread, cluster.clock)
        cluster.workloads.listen(self.workload_changed)
        cluster.cluster_queues.listen(self.queue_changed)
        cluster.local_queues.listen(self.local_queue_changed)
        cluster.priority_classes.listen(self.class_changed)

    def workload_changed(self, change: Change[Workload]) -> None:
        """Queue a Workload, now or later, if it needs anything."""
        new = change.new
        if change.key in self.resets and (new is None or held(new, WorkloadCondition.QUOTA_RESERVED) is not None):
            del self.resets[change.key]
        if new is not None and self.acts:
            self.consider(change.key, new)

    def consider(self, key: str, seen: Workload) -> None:
        """Queue a Workload that needs something."""
        match self.need(seen):
            case None:
                return
            case LookAgain(at):
                self.controller.add_after(key, (at - self.cluster.clock.now()) / MICROS)
            case SyncChecks() if held(seen, WorkloadCondition.QUOTA_RESERVED) is None:
                # Most get quota right away, and their checks are listed with it.
                self.controller.add_after(key, self.reset_after(key))
            case _:
                self.controller.add(key)

    def reset_after(self, key: str) -> float:
        """After how many seconds the checks of a Workload without quota are listed, or reset."""
        return min(RESET_SECONDS_MAX, LISTING_SECONDS * (1 << min(self.resets.get(key, 0), 10)))

    def need(self, seen: Workload) -> Need | None:
        """What a Workload needs at present."""
        local = self.cluster.local_queues.get(f"{seen.namespace}/{seen.spec.queue_name}")
        queue = None if local is None else self.cluster.cluster_queues.get(local.spec.cluster_queue or "")
        return need(seen, queue, self.rules, self.cluster.clock.now())

    def queue_changed(self, change: Change[ClusterQueue]) -> None:
        """Consider the workloads of a ClusterQueue whose checks changed."""
        old, new = change.old, change.new
        if new is None or (old is not None and old.metadata.generation == new.metadata.generation):
            return
        for local_queue in self.pump.engine.local_queues_of(change.key):
            self.consider_behind(local_queue)

    def local_queue_changed(self, change: Change[LocalQueue]) -> None:
        """Consider the workloads of a new LocalQueue."""
        if change.old is None and change.new is not None:
            self.consider_behind(change.key)

    def consider_behind(self, local_queue: str) -> None:
        """Consider all Workloads of a LocalQueue."""
        if not self.acts:
            return
        for key in self.pump.engine.workloads_of(local_queue):
            seen = self.cluster.workloads.get(key)
            if seen is not None:
                self.consider(key, seen)

    def class_changed(self, change: Change[WorkloadPriorityClass]) -> None:
        """Apply a class that is new or has another value to its workloads."""
        old, new = change.old, change.new
        if new is not None and (old is None or old.value != new.value) and self.acts:
            self.classes.add(change.key)

    async def run(self) -> None:
        """Reconcile all Workloads until cancelled; only while leading."""
        self.acts = True
        try:
            for name in self.cluster.priority_classes.objects:
                self.classes.add(name)
            # Those that change meanwhile are considered then, too.
            for number, (key, seen) in enumerate(list(self.cluster.workloads.objects.items())):
                if number % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                self.consider(key, seen)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.controller.run())
                tasks.create_task(self.classes.run())
        finally:
            self.acts = False
            self.resets.clear()

    async def reconcile(self, key: str) -> float | None:
        """Do what a Workload needs; further needs follow from its next change."""
        seen = self.cluster.workloads.get(key)
        if seen is None:
            return None
        now = self.cluster.clock.now()
        found = self.need(seen)
        match found:
            case None:
                pass
            case LookAgain(at):
                return max(0, at - now) / MICROS
            case Finish():
                status = finished(seen, OWNER_NOT_FOUND, OWNER_NOT_FOUND_SAYS, now)
                await self.cluster.writes.admission(seen, status)
                LOG.info("workloads: finished a Workload whose owner is gone", extra={"object": key})
            case ReleaseFinalizer():
                await self.remove_finalizer(seen)
            case Expire():
                await self.expire(seen)
            case SyncChecks(names):
                if any(rejects_without_quota(seen, one) for one in seen.status.admission_checks):
                    self.resets[key] = self.resets.get(key, 0) + 1
                await self.cluster.writes.admission(seen, with_checks(seen, names, now))
            case _:
                assert_never(found)
        return None

    async def remove_finalizer(self, seen: Workload) -> Workload:
        """Remove our finalizer from a Workload."""
        left = [one for one in seen.metadata.finalizers if one != Finalizer.RESOURCE_IN_USE]
        metadata: Tree = {"uid": seen.metadata.uid, "finalizers": [*left] or None}
        if self.strict:
            metadata["resourceVersion"] = seen.metadata.resource_version
        return await self.patch(seen, {"metadata": metadata})

    async def expire(self, seen: Workload) -> None:
        """Delete a Workload whose retention time is over."""
        if Finalizer.RESOURCE_IN_USE in seen.metadata.finalizers:
            seen = await self.remove_finalizer(seen)
        await self.cluster.kube.delete(WORKLOADS, seen.name, seen.namespace, uid=seen.metadata.uid or "")
        about = ref(WORKLOADS, seen.metadata)
        self.cluster.events.normal(about, "Deleted", "Deleted finished workload due to elapsed retention", CONTROLLER)

    async def spread(self, name: str) -> float | None:
        """Apply the value of a class to every Workload that refers to it, including finished ones."""
        found = self.cluster.priority_classes.get(name)
        if found is None:
            return None
        stale = (
            seen
            for seen in list(self.cluster.workloads.objects.values())
            if refers_to(seen, name) and seen.spec.priority != found.value
        )

        async def work() -> None:
            for seen in stale:
                await self.prioritize(seen, found.value)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(work())
        return None

    async def prioritize(self, seen: Workload, priority: int) -> None:
        """Set the priority of a Workload."""
        try:
            await self.patch(seen, {"metadata": {"uid": seen.metadata.uid}, "spec": {"priority": priority}})
        except (NotFoundError, ConflictError):
            # It is gone, or was replaced by one of the same name, which has the new value already.
            LOG.debug("workloads: priority not set, the Workload is gone or was replaced", extra={"object": seen.name})
        except RejectedError as error:
            LOG.error("workloads: cannot set the priority error=%s", error, extra={"object": seen.name})

    async def patch(self, seen: Workload, body: Tree) -> Workload:
        """Apply a merge patch to a Workload."""
        raw = await self.cluster.kube.patch(
            WORKLOADS, seen.name, msgspec.json.encode(body), seen.namespace, how=Patch.MERGE
        )
        return self.cluster.workloads.learn(raw)


def refers_to(seen: Workload, name: str) -> bool:
    """Whether a Workload's priority comes from this WorkloadPriorityClass."""
    named = seen.spec.priority_class_ref
    return named is not None and named.kind == WORKLOAD_CLASS and named.name == name
