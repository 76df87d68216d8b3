"""How do jobs follow their Workloads, and Workloads their jobs? One reconciler for every kind: read, plan, do.

What is read comes from the informers; `jobs.plan` says what to do; every write is taken into the informers at once, and
what changed there has the job looked at again. So a pass needs no memory of the one before, and a process that was
killed between any two writes is followed by one that goes on where it stopped.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, assert_never

import msgspec

from pykueue.api.core import Tree, matches
from pykueue.api.names import Annotation, Finalizer, WorkloadCondition
from pykueue.api.workload import Workload
from pykueue.base.units import format_instant
from pykueue.bridge.outbound import finished as finished_status
from pykueue.bridge.unbuilt import unbuilt
from pykueue.controllers.ancestors import NO_OWNERS, Ancestors, controller_ref, group_kind
from pykueue.controllers.cluster import Cluster, Settings
from pykueue.controllers.events import Ref, ref
from pykueue.jobs.actions import (
    Action,
    Actions,
    Await,
    CreateWorkload,
    DeleteJob,
    DeleteWorkload,
    Finish,
    LookAgain,
    Notice,
    PatchJob,
    RemoveFinalizer,
    Stopped,
    Tell,
    UpdateWorkload,
    WritePodsReady,
    WriteReclaimable,
)
from pykueue.jobs.batch import JobView
from pykueue.jobs.kind import JobKind
from pykueue.jobs.plan import plan
from pykueue.jobs.podsets import Injection
from pykueue.jobs.seen import Rules, Seen, admitted, finished, holds_on, key_of
from pykueue.jobs.upkeep import new_name
from pykueue.jobs.workload import Classes, prebuilt_name
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import JOBS, WORKLOADS, ExistsError, NotFoundError, Patch, RejectedError, Resource

LOG: Final = logging.getLogger(__name__)

MANAGER: Final = "kueue"
PODS_READY_MANAGER: Final = "kueue-job-controller-PodsReady"
RECLAIMABLE_MANAGER: Final = "kueue-reclaimable-pods"
WORKERS: Final = 10
CLASSES_SECONDS: Final = 5.0
"""How long the priority classes are waited for at the beginning."""
NEWS_SECONDS: Final = 1.0
"""When to look again if an informer was behind, in case it stays behind."""
REJECTED_SECONDS: Final = 10.0
"""When to try again what the server judged wrong, unless something changes before."""

Stop: TypeAlias = Callable[[str], None]


def rules_of(settings: Settings) -> Rules:
    """What a Configuration and the gates say about jobs."""
    configuration, gates = settings.loaded.configuration, settings.gates
    return Rules(
        queueless=configuration.manage_jobs_without_queue_name,
        pods_ready=configuration.wait_for_pods_ready is not None,
        labels_to_copy=tuple(configuration.integrations.label_keys_to_copy),
        delete_after=configuration.object_retention_policies.workloads.after_deactivated_by_kueue,
        reclaimable=gates["ReclaimablePods"],
        finish_orphans=gates["FinishOrphanedWorkloads"],
        prebuilt_annotations=gates["WorkloadIdentifierAnnotations"],
        partial=gates["PartialAdmission"],
        gated=gates["AdmissionGatedBy"],
        short_names=gates["ShortWorkloadNames"],
        injection=Injection(gates["AssignQueueLabelsForPods"], gates["TopologyAwareScheduling"]),
    )


class Jobs:
    """Every kind of job that is queued."""

    def __init__(self, cluster: Cluster, kinds: tuple[JobKind[Any], ...], stopped: Stop) -> None:
        followed = {("batch", "Job"): (JOBS, cluster.jobs)}
        self.cluster = cluster
        self.reconcilers = tuple(Reconciler(cluster, kind, *followed[kind.group, kind.kind], stopped) for kind in kinds)
        ancestors = Ancestors(
            cluster.kube,
            {one.group_kind: one.jobs.get for one in self.reconcilers},
            self.is_admitted,
            external=tuple(cluster.settings.loaded.configuration.integrations.external_frameworks),
            queueless=cluster.settings.loaded.configuration.manage_jobs_without_queue_name,
        )
        for one in self.reconcilers:
            one.ancestors = ancestors

    @property
    def controllers(self) -> tuple[Controller, ...]:
        """The work queues, one for each kind."""
        return tuple(one.controller for one in self.reconcilers)

    def is_admitted(self, kind: tuple[str, str], key: str) -> bool:
        """Whether the job of this kind and key has an unfinished Workload that is admitted."""
        owned = next(one for one in self.reconcilers if one.group_kind == kind).owned
        return any(admitted(one) and not finished(one) for one in owned.get(f"{kind[0]}/{kind[1]}/{key}").values())

    async def run(self) -> None:
        """Reconcile until cancelled."""
        cluster = self.cluster
        await asyncio.gather(cluster.workloads.synced.wait(), *(one.jobs.synced.wait() for one in self.reconcilers))
        try:
            async with asyncio.timeout(CLASSES_SECONDS):
                await cluster.priority_classes.synced.wait()
                await cluster.pod_priority_classes.synced.wait()
        except TimeoutError:
            LOG.warning("going on without all priority classes; jobs that name one they do not know of must wait")
        async with asyncio.TaskGroup() as tasks:
            for one in self.reconcilers:
                tasks.create_task(one.controller.run())


class Reconciler:
    """Jobs of one kind."""

    ancestors: Ancestors

    def __init__(
        self, cluster: Cluster, kind: JobKind[Any], resource: Resource, jobs: Informer[JobView], stopped: Stop
    ) -> None:
        self.cluster = cluster
        self.kind = kind
        self.resource = resource
        self.jobs = jobs
        self.stopped = stopped
        self.group_kind = (kind.group, kind.kind)
        self.rules = rules_of(cluster.settings)
        self.reporter = f"{kind.framework}-kueue-controller"
        configuration = cluster.settings.loaded.configuration
        workers = configuration.controller.group_kind_concurrency.get(f"{kind.kind}.{kind.group}", 0)
        self.controller = Controller(kind.framework, self.reconcile, cluster.clock, max(workers, WORKERS))
        self.classes: Classes | None = None
        """Those there are, until one changes."""
        self.told: dict[str, frozenset[Notice]] = {}
        """What was told of a job that no write went with, so that it is told once."""
        self.waiting: set[str] = set()
        """Jobs that wait for a priority class or a flavor."""
        self.owned = cluster.workloads.index(owner_keys)
        self.by_prebuilt = jobs.index(self.prebuilt_keys)
        self.by_owner = jobs.index(owner_uids)
        self.by_namespace = jobs.index(lambda job: (job.namespace,))
        jobs.listen(lambda change: self.controller.add(change.key))
        cluster.workloads.listen(self.workload_changed)
        cluster.namespaces.listen(self.namespace_changed)
        cluster.priority_classes.listen(self.classes_changed)
        cluster.pod_priority_classes.listen(self.classes_changed)
        cluster.flavors.listen(self.rouse)

    # Who is looked at again, and when.

    def prebuilt_keys(self, job: JobView) -> Iterable[str]:
        """The Workload that a job names."""
        name = prebuilt_name(job.metadata, annotations=self.rules.prebuilt_annotations)
        return (f"{job.namespace}/{name}",) if name else ()

    def workload_changed(self, change: Change[Workload]) -> None:
        """A Workload concerns its job, the job that names it, and jobs that belong to its job."""
        for seen in (change.old, change.new):
            owner = None if seen is None else controller_ref(seen.metadata)
            if seen is not None and owner is not None:
                if group_kind(owner) == self.group_kind:
                    self.controller.add(f"{seen.namespace}/{owner.name}")
                self.add_all(self.by_owner.get(owner.uid))
        self.add_all(self.by_prebuilt.get(change.key))

    def namespace_changed(self, change: Change[Any]) -> None:
        """A namespace whose labels change may be selected now, or no more."""
        if change.new is not None and (change.old is None or change.old.metadata.labels != change.new.metadata.labels):
            self.add_all(self.by_namespace.get(change.key))

    def classes_changed(self, change: Change[Any]) -> None:
        """Another class, or another value: it is read anew, and those that wait for one try again."""
        self.classes = None
        self.rouse(change)

    def rouse(self, change: Change[Any]) -> None:
        """Something is new that jobs may wait for."""
        if change.old is None:
            waiting, self.waiting = self.waiting, set()
            self.add_all(waiting)

    def add_all(self, keys: Iterable[str]) -> None:
        """Have jobs looked at soon."""
        for key in list(keys):
            self.controller.add(key)

    # Read, plan, do.

    async def reconcile(self, key: str) -> float | None:
        """Bring a job and its Workload in line; the seconds after which to look again."""
        seen = await self.read(key)
        actions = plan(seen, self.cluster.clock.now())
        self.tell(key, seen, actions)
        if not actions:
            return None
        if await self.overlooked(key, seen, actions):
            return NEWS_SECONDS
        again: float | None = None
        for action in actions:
            try:
                await self.carry_out(key, seen, action)
            except RejectedError as error:
                # What the server will not have now it may have later, as when a pod comes back to life on its way out.
                LOG.warning("%s: %s: %s", self.controller.name, key, error.args[0], extra={"object": key})
                return REJECTED_SECONDS
            if isinstance(action, LookAgain):
                again = action.seconds
        return again

    async def read(self, key: str) -> Seen:
        """All that decides what becomes of a job."""
        namespace = key.partition("/")[0]
        cluster, job = self.cluster, self.jobs.get(key)
        workloads = tuple(self.owned.get(f"{self.kind.group}/{self.kind.kind}/{key}").values())
        if job is None:
            return Seen(self.kind, namespace, None, workloads, rules=self.rules)
        prebuilt = prebuilt_name(job.metadata, annotations=self.rules.prebuilt_annotations)
        owners = NO_OWNERS if controller_ref(job.metadata) is None else await self.ancestors.of(job)
        return Seen(
            self.kind,
            namespace,
            job,
            workloads,
            prebuilt=cluster.workloads.get(f"{namespace}/{prebuilt}") if prebuilt else None,
            selected=self.selected(namespace),
            owners=owners,
            classes=self.known_classes(),
            flavors=cluster.flavors.objects,
            beyond=self.beyond(job),
            rules=self.rules,
        )

    def selected(self, namespace: str) -> bool:
        """Whether the jobs of a namespace are ours."""
        found = self.cluster.namespaces.get(namespace)
        selector = self.cluster.settings.intake.namespaces
        return found is not None and (selector is None or matches(selector, found.metadata.labels))

    def known_classes(self) -> Classes:
        """The priority classes there are."""
        if self.classes is None:
            pods = self.cluster.pod_priority_classes.objects
            defaults = sorted((one.value, name) for name, one in pods.items() if one.global_default)
            self.classes = Classes(
                {name: one.value for name, one in self.cluster.priority_classes.objects.items()},
                {name: one.value for name, one in pods.items()},
                defaults[0][1] if defaults else "",
            )
        return self.classes

    def beyond(self, job: JobView) -> tuple[str, ...]:
        """What a job asks for that we cannot do yet."""
        asked = job.metadata.annotations.get(Annotation.ELASTIC_JOB)
        if asked is None or not self.cluster.settings.gates["ElasticJobsViaWorkloadSlices"]:
            return unbuilt(self.kind.kind, job)
        elastic = {"metadata": {"annotations": {Annotation.ELASTIC_JOB.value: asked}}}
        return (*unbuilt(self.kind.kind, job), *unbuilt("Workload", elastic))

    async def overlooked(self, key: str, seen: Seen, actions: Actions) -> bool:
        """Whether the informers were behind, before something is done that could not be made good again."""
        if seen.job is None:
            return await self.is_news(self.resource, self.jobs, key)
        deletes = any(isinstance(one, DeleteWorkload) for one in actions)
        if not deletes and not any(isinstance(one, PatchJob) and one.confirm for one in actions):
            return False
        names = {one.name for one in seen.workloads} or {new_name(seen, seen.job)}
        names |= {prebuilt_name(seen.job.metadata, annotations=self.rules.prebuilt_annotations)} - {""}
        looks = [self.is_news(WORKLOADS, self.cluster.workloads, f"{seen.namespace}/{name}") for name in sorted(names)]
        if deletes:
            looks.append(self.is_news(self.resource, self.jobs, key))
        return any(await asyncio.gather(*looks))

    async def is_news(self, resource: Resource, informer: Informer[Any], key: str) -> bool:
        """Whether the server knows more of an object than we do; if so, we know it now, or soon."""
        namespace, _, name = key.partition("/")
        known = informer.get(key)
        try:
            raw = await self.cluster.kube.get(resource, name, namespace)
        except NotFoundError:
            return known is not None
        found = informer.learn(raw)
        return known is None or known.metadata.resource_version != found.metadata.resource_version

    async def carry_out(self, key: str, seen: Seen, action: Action) -> None:
        """Do one thing."""
        match action:
            case CreateWorkload():
                await self.create(seen, action)
            case UpdateWorkload(workload, body, notices):
                await self.patch_workload(workload, body)
                self.say(seen, *notices)
            case DeleteWorkload():
                await self.delete(seen, action)
            case RemoveFinalizer(workload, notice):
                await self.remove_finalizer(workload)
                self.say(seen, *(() if notice is None else (notice,)))
            case WriteReclaimable(workload, counts):
                listed: Tree = {"reclaimablePods": [{"name": name, "count": count} for name, count in counts]}
                await self.cluster.writes.own(workload, listed, RECLAIMABLE_MANAGER)
            case WritePodsReady():
                await self.cluster.writes.own(action.workload, self.readiness(action), PODS_READY_MANAGER)
            case Finish(workload, reason, message, notice):
                status = finished_status(workload, reason, message, self.cluster.clock.now())
                await self.cluster.writes.admission(workload, status)
                self.say(seen, *(() if notice is None else (notice,)))
            case PatchJob():
                await self.patch_job(seen, action)
            case DeleteJob(notice):
                await self.delete_job(seen)
                self.say(seen, notice)
            case Stopped(workload):
                self.stopped(key_of(workload))
            case Await():
                self.waiting.add(key)
            case Tell() | LookAgain():
                pass  # `reconcile` has seen to these.
            case _:
                assert_never(action)

    # The writes.

    async def create(self, seen: Seen, action: CreateWorkload) -> None:
        """Create a Workload; one of that name that we have not heard of is looked at."""
        body = msgspec.json.encode(action.tree)
        try:
            raw = await self.cluster.kube.create(WORKLOADS, body, seen.namespace)
        except ExistsError:
            assert seen.job is not None, "a Workload is created for a job"
            name = new_name(seen, seen.job)
            found = self.cluster.workloads.learn(await self.cluster.kube.get(WORKLOADS, name, seen.namespace))
            owner = controller_ref(found.metadata)
            if owner is None or owner.uid != seen.job.metadata.uid:
                said = f"A Workload named {name} exists already and does not belong to this job; delete it"
                raise RejectedError(f"create {WORKLOADS} {seen.namespace}/{name}", 409, "AlreadyExists", said) from None
            return
        self.cluster.workloads.learn(raw)
        self.say(seen, action.notice)

    async def patch_workload(self, workload: Workload, body: Tree) -> None:
        """Patch a Workload as it was seen."""
        raw = await self.cluster.kube.patch(
            WORKLOADS,
            workload.name,
            guarded(workload.metadata.uid, workload.metadata.resource_version, body),
            workload.namespace,
            how=Patch.MERGE,
            manager=MANAGER,
        )
        if workload.metadata.deletion_timestamp is None:
            # One that is being deleted may be gone by now, and the watch says so.
            self.cluster.workloads.learn(raw)

    async def remove_finalizer(self, workload: Workload) -> None:
        """Let go of a Workload."""
        left = [one for one in workload.metadata.finalizers if one != Finalizer.RESOURCE_IN_USE]
        body: Tree = {"metadata": {"finalizers": list(left)}}
        if not self.cluster.settings.gates["RemoveFinalizersWithStrictPatch"]:
            workload = await self.newest(workload)
        await self.patch_workload(workload, body)

    async def newest(self, workload: Workload) -> Workload:
        """The Workload as it is now."""
        return self.cluster.workloads.learn(await self.cluster.kube.get(WORKLOADS, workload.name, workload.namespace))

    async def delete(self, seen: Seen, action: DeleteWorkload) -> None:
        """Delete a Workload that is one too many; it is told when it was not being deleted already."""
        workload = action.workload
        try:
            if holds_on(workload):
                await self.remove_finalizer(workload)
            if workload.metadata.deletion_timestamp is not None:
                return
            uid = workload.metadata.uid or ""
            await self.cluster.kube.delete(WORKLOADS, workload.name, workload.namespace, uid=uid)
        except NotFoundError:
            return
        self.say(seen, action.notice)

    def readiness(self, action: WritePodsReady) -> Tree:
        """The condition that says whether the pods are ready."""
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

    async def patch_job(self, seen: Seen, action: PatchJob) -> None:
        """Patch the job as it was seen."""
        assert seen.job is not None, "there is a job to patch"
        metadata = seen.job.metadata
        raw = await self.cluster.kube.patch(
            self.resource,
            metadata.name or "",
            guarded(metadata.uid, metadata.resource_version, action.body),
            seen.namespace,
            how=Patch.MERGE,
            subresource="status" if action.status else "",
            manager=MANAGER,
        )
        self.jobs.learn(raw)
        self.say(seen, *(() if action.notice is None else (action.notice,)))

    async def delete_job(self, seen: Seen) -> None:
        """Delete the job."""
        assert seen.job is not None, "there is a job to delete"
        metadata = seen.job.metadata
        await self.cluster.kube.delete(self.resource, metadata.name or "", seen.namespace, uid=metadata.uid or "")

    # What people hear.

    def about(self, seen: Seen) -> Ref | None:
        """The job, as an Event names it."""
        return None if seen.job is None else ref(self.resource, seen.job.metadata)

    def say(self, seen: Seen, *notices: Notice) -> None:
        """Tell people."""
        about = self.about(seen)
        if about is None:
            return
        for one in notices:
            tell = self.cluster.events.warning if one.warning else self.cluster.events.normal
            tell(about, one.reason, one.text, self.reporter)

    def tell(self, key: str, seen: Seen, actions: Actions) -> None:
        """Tell people what no write goes with, unless they were told last time."""
        notices = tuple(one.notice for one in actions if isinstance(one, Tell))
        before = self.told.get(key, frozenset())
        self.say(seen, *(one for one in notices if one not in before))
        if notices:
            self.told[key] = frozenset(notices)
        elif before:
            del self.told[key]


def guarded(uid: str | None, version: str | None, body: Tree) -> bytes:
    """A patch that changes nothing but the object at the version that was seen."""
    metadata = body.get("metadata")
    more = metadata if isinstance(metadata, dict) else {}
    return msgspec.json.encode({**body, "metadata": {**more, "uid": uid, "resourceVersion": version}})


def owner_keys(workload: Workload) -> Iterable[str]:
    """The job that controls a Workload: group, kind, namespace and name."""
    owner = controller_ref(workload.metadata)
    if owner is None:
        return ()
    group, kind = group_kind(owner)
    return (f"{group}/{kind}/{workload.namespace}/{owner.name}",)


def owner_uids(job: JobView) -> Iterable[str]:
    """The object that controls a job."""
    owner = controller_ref(job.metadata)
    return () if owner is None else (owner.uid,)
