"""Carry out the actions planned for a job: each as a write with a precondition, and its Events.

Every response goes to the informers at once, so that the next plan sees it.
"""

from typing import Any, Final, assert_never

import msgspec

from pykueue.api.core import Tree, controller_of
from pykueue.api.names import Finalizer, WorkloadCondition
from pykueue.api.workload import Workload
from pykueue.base.units import format_instant
from pykueue.bridge.outbound import finished as finished_status
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.events import ref
from pykueue.controllers.workloadwrites import MANAGER, guarded
from pykueue.jobs.actions import (
    CreateWorkload,
    DeleteJob,
    DeleteWorkload,
    Finish,
    Notice,
    PatchJob,
    RemoveFinalizer,
    UpdateWorkload,
    Write,
    WritePodsReady,
    WriteReclaimable,
)
from pykueue.jobs.seen import JobInput, has_finalizer
from pykueue.jobs.workloadsync import new_name
from pykueue.kube.informer import Informer
from pykueue.kube.port import WORKLOADS, ExistsError, NotFoundError, Patch, RejectedError, Resource

PODS_READY_MANAGER: Final = "kueue-job-controller-PodsReady"
RECLAIMABLE_MANAGER: Final = "kueue-reclaimable-pods"


class JobWrites:
    """Carries out the actions planned for jobs of one kind."""

    def __init__(self, cluster: Cluster, resource: Resource, jobs: Informer[Any], framework: str) -> None:
        self.cluster = cluster
        self.resource = resource
        self.jobs = jobs
        self.reporter = f"{framework}-kueue-controller"

    async def carry_out(self, seen: JobInput, action: Write) -> None:
        """Carry out one action."""
        match action:
            case CreateWorkload():
                await self.create(seen, action)
            case UpdateWorkload(workload, body, notices):
                await self.patch_workload(workload, body)
                self.send_events(seen, *notices)
            case DeleteWorkload():
                await self.delete(seen, action)
            case RemoveFinalizer(workload, notice):
                await self.remove_finalizer(workload)
                self.send_events(seen, notice)
            case WriteReclaimable(workload, counts):
                listed: Tree = {"reclaimablePods": [{"name": name, "count": count} for name, count in counts]}
                await self.cluster.writes.own(workload, listed, RECLAIMABLE_MANAGER)
            case WritePodsReady():
                await self.cluster.writes.own(action.workload, self.readiness(action), PODS_READY_MANAGER)
            case Finish(workload, reason, message, notice):
                status = finished_status(workload, reason, message, self.cluster.clock.now())
                await self.cluster.writes.admission(workload, status)
                self.send_events(seen, notice)
            case PatchJob():
                await self.patch_job(seen, action)
            case DeleteJob(notice):
                await self.delete_job(seen)
                self.send_events(seen, notice)
            case _:
                assert_never(action)

    # Writes.

    async def create(self, seen: JobInput, action: CreateWorkload) -> None:
        """Create a Workload; an unknown one of that name is read first."""
        body = msgspec.json.encode(action.tree)
        try:
            raw = await self.cluster.kube.create(WORKLOADS, body, seen.namespace)
        except ExistsError:
            assert seen.job is not None, "a Workload is created for a job"
            name = new_name(seen, seen.job)
            found = self.cluster.workloads.learn(await self.cluster.kube.get(WORKLOADS, name, seen.namespace))
            owner = controller_of(found.metadata)
            if owner is None or owner.uid != seen.job.metadata.uid:
                message = f"A Workload named {name} exists already and does not belong to this job; delete it"
                raise RejectedError(
                    f"create {WORKLOADS} {seen.namespace}/{name}", 409, "AlreadyExists", message
                ) from None
            return
        self.cluster.workloads.learn(raw)
        self.send_events(seen, action.notice)

    async def patch_workload(self, workload: Workload, body: Tree) -> None:
        """Patch a Workload at the version that was seen."""
        raw = await self.cluster.kube.patch(
            WORKLOADS,
            workload.name,
            guarded(workload.metadata, body),
            workload.namespace,
            how=Patch.MERGE,
            manager=MANAGER,
        )
        if workload.metadata.deletion_timestamp is None:
            # A Workload in deletion may be gone by now, which the watch reports.
            self.cluster.workloads.learn(raw)

    async def remove_finalizer(self, workload: Workload) -> None:
        """Remove our finalizer from a Workload."""
        left = [one for one in workload.metadata.finalizers if one != Finalizer.RESOURCE_IN_USE]
        body: Tree = {"metadata": {"finalizers": list(left)}}
        if not self.cluster.settings.gates["RemoveFinalizersWithStrictPatch"]:
            workload = await self.newest(workload)
        await self.patch_workload(workload, body)

    async def newest(self, workload: Workload) -> Workload:
        """The Workload as it is now."""
        return self.cluster.workloads.learn(await self.cluster.kube.get(WORKLOADS, workload.name, workload.namespace))

    async def delete(self, seen: JobInput, action: DeleteWorkload) -> None:
        """Delete a superfluous Workload, with an Event unless it was being deleted already."""
        workload = action.workload
        try:
            if has_finalizer(workload):
                await self.remove_finalizer(workload)
            if workload.metadata.deletion_timestamp is not None:
                return
            uid = workload.metadata.uid or ""
            await self.cluster.kube.delete(WORKLOADS, workload.name, workload.namespace, uid=uid)
        except NotFoundError:
            return
        self.send_events(seen, action.notice)

    def readiness(self, action: WritePodsReady) -> Tree:
        """Write the PodsReady condition."""
        condition: Tree = {
            "type": WorkloadCondition.PODS_READY.value,
            "status": "True" if action.ready else "False",
            "reason": action.reason,
            "message": action.message,
            "lastTransitionTime": format_instant(self.cluster.clock.now()),
        }
        if action.workload.metadata.generation is not None:
            condition["observedGeneration"] = action.workload.metadata.generation
        return {"conditions": [condition]}

    async def patch_job(self, seen: JobInput, action: PatchJob) -> None:
        """Patch the job at the version that was seen."""
        assert seen.job is not None, "there is a job to patch"
        metadata = seen.job.metadata
        raw = await self.cluster.kube.patch(
            self.resource,
            metadata.name or "",
            guarded(metadata, action.body),
            seen.namespace,
            how=Patch.MERGE,
            subresource="status" if action.status else "",
            manager=MANAGER,
        )
        self.jobs.learn(raw)
        self.send_events(seen, action.notice)

    async def delete_job(self, seen: JobInput) -> None:
        """Delete the job."""
        assert seen.job is not None, "there is a job to delete"
        metadata = seen.job.metadata
        await self.cluster.kube.delete(self.resource, metadata.name or "", seen.namespace, uid=metadata.uid or "")

    # Events.

    def send_events(self, seen: JobInput, *notices: Notice | None) -> None:
        """Send Events about the job, if it still exists."""
        for one in notices:
            if one is not None and seen.job is not None:
                record = self.cluster.events.warning if one.warning else self.cluster.events.normal
                record(ref(self.resource, seen.job.metadata), one.reason, one.text, self.reporter, by_note=one.by_note)
