"""The job reconciler, one for every kind: keep jobs and their Workloads in line (read, plan, act).

It reads from the informers; `jobs.plan` decides; every write goes to the informers at once, and each change there
triggers the job again. So a pass needs no memory of the previous one, and after a kill between any two writes the next
process continues where this one stopped.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from pykueue.api.core import controller_of, matches
from pykueue.api.names import Annotation
from pykueue.api.workload import Workload
from pykueue.base.clock import instant_of
from pykueue.base.timers import timeout
from pykueue.base.units import MICROS, Instant, Moment
from pykueue.bridge.unbuilt import unbuilt
from pykueue.controllers.ancestors import NO_OWNERS, Ancestors, group_kind
from pykueue.controllers.cluster import Cluster, Settings
from pykueue.controllers.jobwrites import JobWrites
from pykueue.controllers.metrics.customlabels import copied_keys
from pykueue.jobs.actions import (
    Actions,
    Await,
    CreateWorkload,
    DeleteWorkload,
    LookAgain,
    Notice,
    PatchJob,
    SendEvent,
    Stopped,
    Write,
)
from pykueue.jobs.batch import JobView
from pykueue.jobs.dependencies import Other, State, followed, needs_of
from pykueue.jobs.kind import JobKind
from pykueue.jobs.plan import plan
from pykueue.jobs.podsets import Injection
from pykueue.jobs.seen import JobInput, Rules, admitted, finished, key_of
from pykueue.jobs.workload import Classes, prebuilt_name
from pykueue.jobs.workloadsync import new_name
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import JOBS, WORKLOADS, ConflictError, NotFoundError, RejectedError, Resource

LOG: Final = logging.getLogger(__name__)

LARGE_BYTES: Final = 64 * 1024
"""Pod templates larger than this are planned in a thread."""
WORKERS: Final = 10
CLASSES_SECONDS: Final = 5.0
"""How long to wait for the priority classes at the start."""
NEWS_SECONDS: Final = 1.0
"""When to look again if an informer was behind, in case it stays behind."""
FRESH: Final = 1 * MICROS
"""How long a new Workload is left to the scheduler's first write, and its pods have to become ready."""
FRESH_CROWD: Final = 15 * MICROS
"""The same while many jobs arrive: each then takes longer to start."""
CROWD: Final = 50
"""More new jobs than this are many."""
UNSURE: Final = 1 * MICROS
"""How long pods may appear after a stop that came before, or just after, the job's controller noticed its start."""
REJECTED_SECONDS: Final = 10.0
"""When to retry what the server refused, unless something changes before."""

Stop: TypeAlias = Callable[[str], None]


def rules_of(settings: Settings) -> Rules:
    """The rules for jobs from the Configuration and the gates."""
    configuration, gates = settings.loaded.configuration, settings.gates
    # A Workload has the labels by which its metrics are told apart from its job.
    labels, annotations = copied_keys(configuration.metrics.custom_labels if gates["CustomMetricLabels"] else ())
    return Rules(
        queueless=configuration.manage_jobs_without_queue_name,
        pods_ready=configuration.wait_for_pods_ready is not None,
        labels_to_copy=(*configuration.integrations.label_keys_to_copy, *labels),
        annotations_to_copy=annotations,
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
    """All kinds of job that are queued."""

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
        """The controllers, one per kind."""
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
            async with timeout(CLASSES_SECONDS):
                await cluster.priority_classes.synced.wait()
                await cluster.pod_priority_classes.synced.wait()
        except TimeoutError:
            LOG.warning("jobs: continuing without all priority classes, jobs that name an unknown one wait")
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
        self.writes = JobWrites(cluster, resource, jobs, kind.framework)
        self.stopped = stopped
        self.group_kind = (kind.group, kind.kind)
        self.rules = rules_of(cluster.settings)
        configuration = cluster.settings.loaded.configuration
        workers = configuration.controller.group_kind_concurrency.get(f"{kind.kind}.{kind.group}", 0)
        self.controller = Controller(kind.framework, self.reconcile, cluster.clock, max(workers, WORKERS))
        self.classes: Classes | None = None
        """The present classes; None after a change."""
        self.sent: dict[str, frozenset[Notice]] = {}
        """The last Event about a job that belonged to no write, so that it is sent once."""
        self.fresh: dict[str, Moment] = {}
        """Jobs whose Workload was just created, and until when that counts."""
        self.unsure: dict[str, Moment] = {}
        """Jobs that were stopped before their start was noticed, and until when pods may still appear."""
        self.waiting: set[str] = set()
        """Jobs that wait for a priority class or a flavor."""
        self.owned = cluster.workloads.index(owner_keys)
        self.by_prebuilt = jobs.index(self.prebuilt_keys)
        self.by_owner = jobs.index(owner_uids)
        self.by_namespace = jobs.index(lambda job: (job.namespace,))
        self.by_need = jobs.index(needed_keys)
        jobs.listen(self.job_changed)
        cluster.workloads.listen(self.workload_changed)
        cluster.namespaces.listen(self.namespace_changed)
        cluster.priority_classes.listen(self.classes_changed)
        cluster.pod_priority_classes.listen(self.classes_changed)
        cluster.flavors.listen(self.retry_waiting)

    # Triggers.

    def prebuilt_keys(self, job: JobView) -> Iterable[str]:
        """The Workload that a job names."""
        name = prebuilt_name(job.metadata, annotations=self.rules.prebuilt_annotations)
        return (f"{job.namespace}/{name}",) if name else ()

    def job_changed(self, change: Change[JobView]) -> None:
        """Reconcile a job, and those that wait for it if its part in that has changed."""
        self.controller.add(change.key)
        waiting = self.by_need.get(change.key)
        if waiting and self.other(change.old) != self.other(change.new):
            self.add_all(waiting)

    def other(self, job: JobView | None) -> Other | None:
        """A job as those see it that wait for it."""
        if job is None:
            return None
        outcome = self.kind.finished(job)
        ended = State.UNFINISHED if outcome is None else State.SUCCEEDED if outcome.success else State.FAILED
        return Other(ended, needs_of(job.metadata.annotations))

    def others(self, job: JobView) -> dict[str, Other]:
        """The jobs that a job waits for, by name."""
        needs = needs_of(job.metadata.annotations)
        if needs is None:
            return {}
        return followed(needs, lambda name: self.other(self.jobs.get(f"{job.namespace}/{name}")))

    def workload_changed(self, change: Change[Workload]) -> None:
        """Reconcile the Workload's job, the job that names it, and jobs that belong to its job."""
        for seen in (change.old, change.new):
            owner = None if seen is None else controller_of(seen.metadata)
            if seen is not None and owner is not None:
                if group_kind(owner) == self.group_kind:
                    self.controller.add(f"{seen.namespace}/{owner.name}")
                self.add_all(self.by_owner.get(owner.uid))
        self.add_all(self.by_prebuilt.get(change.key))

    def namespace_changed(self, change: Change[Any]) -> None:
        """Reconcile the jobs of a namespace whose labels changed, since its selection may have changed."""
        if change.new is not None and (change.old is None or change.old.metadata.labels != change.new.metadata.labels):
            self.add_all(self.by_namespace.get(change.key))

    def classes_changed(self, change: Change[Any]) -> None:
        """Drop the cached classes, and retry jobs that wait for one."""
        self.classes = None
        self.retry_waiting(change)

    def retry_waiting(self, change: Change[Any]) -> None:
        """Retry jobs that may wait for this object."""
        if change.old is None:
            waiting, self.waiting = self.waiting, set()
            self.add_all(waiting)

    def add_all(self, keys: Iterable[str]) -> None:
        """Reconcile jobs soon."""
        for key in list(keys):
            self.controller.add(key)

    # Reconciliation.

    async def reconcile(self, key: str) -> float | None:
        """Bring a job and its Workload in line; returns the seconds after which to look again."""
        seen = await self.read(key)
        actions = await planned(seen, self.cluster.clock.now())
        self.send_events(key, seen, actions)
        if not actions:
            return None
        if await self.overlooked(key, seen, actions):
            return NEWS_SECONDS
        again: list[float] = []
        for action in actions:
            match action:
                case LookAgain(seconds):
                    again.append(seconds)
                case Stopped(workload):
                    self.stopped(key_of(workload))
                case Await():
                    self.waiting.add(key)
                case SendEvent():
                    pass  # Sent by `send_events` above.
                case _:
                    self.remember(key, seen, action)
                    try:
                        await self.writes.carry_out(seen, action)
                    except RejectedError as error:
                        # The server may accept later what it refuses now.
                        name = self.controller.name
                        LOG.warning("%s: write refused error=%.1000s", name, error, extra={"object": key})
                        return REJECTED_SECONDS
                    except ConflictError as error:
                        # What has changed triggers the next pass as soon as the informers show it, if they did not do
                        # so by now. A write before that would be refused, too.
                        LOG.debug("%s: write conflicts error=%s", self.controller.name, error, extra={"object": key})
                        return min([*again, NEWS_SECONDS])
        return min(again, default=None)

    def remember(self, key: str, seen: JobInput, action: Write) -> None:
        """Record what the API does not show, and drop what is no longer needed."""
        now = self.cluster.clock.moment()
        if isinstance(action, CreateWorkload):
            self.fresh[key] = Moment(now + (FRESH_CROWD if len(self.fresh) > CROWD else FRESH))
        elif isinstance(action, PatchJob) and action.stops and not self.kind.noticed(seen.job):
            self.unsure[key] = Moment(now + UNSURE)

    async def read(self, key: str) -> JobInput:
        """Everything that decides what to do for a job."""
        namespace = key.partition("/")[0]
        cluster, job = self.cluster, self.jobs.get(key)
        workloads = tuple(self.owned.get(f"{self.kind.group}/{self.kind.kind}/{key}").values())
        if job is None:
            self.forget(key)
            return JobInput(self.kind, namespace, None, workloads, rules=self.rules)
        prebuilt = prebuilt_name(job.metadata, annotations=self.rules.prebuilt_annotations)
        owners = NO_OWNERS if controller_of(job.metadata) is None else await self.ancestors.of(job)
        return JobInput(
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
            others=self.others(job),
            rules=self.rules,
            fresh_until=self.lasting(self.fresh, key),
            unsure_until=self.lasting(self.unsure, key),
        )

    def forget(self, key: str) -> None:
        """Forget a job that no longer exists."""
        self.waiting.discard(key)
        self.fresh.pop(key, None)
        self.unsure.pop(key, None)

    def lasting(self, until: dict[str, Moment], key: str) -> Instant | None:
        """Until when something holds for a job; None if it no longer does."""
        found = until.get(key)
        if found is not None and found <= self.cluster.clock.moment():
            del until[key]
            return None
        return None if found is None else instant_of(self.cluster.clock, found)

    def selected(self, namespace: str) -> bool:
        """Whether the jobs of a namespace are managed."""
        found = self.cluster.namespaces.get(namespace)
        selector = self.cluster.settings.intake.namespaces
        return found is not None and (selector is None or matches(selector, found.metadata.labels))

    def known_classes(self) -> Classes:
        """The present priority classes."""
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
        """What a job uses that is not supported yet."""
        asked = job.metadata.annotations.get(Annotation.ELASTIC_JOB)
        if asked is None or not self.cluster.settings.gates["ElasticJobsViaWorkloadSlices"]:
            return unbuilt(self.kind.kind, job)
        elastic = {"metadata": {"annotations": {Annotation.ELASTIC_JOB.value: asked}}}
        return (*unbuilt(self.kind.kind, job), *unbuilt("Workload", elastic))

    async def overlooked(self, key: str, seen: JobInput, actions: Actions) -> bool:
        """Whether the informers were behind, checked before an action that cannot be undone."""
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
        """Whether the server has a newer version of an object; if so, it is in the informer now, or soon."""
        namespace, _, name = key.partition("/")
        known = informer.get(key)
        try:
            raw = await self.cluster.kube.get(resource, name, namespace)
        except NotFoundError:
            return known is not None
        found = informer.learn(raw)
        return known is None or known.metadata.resource_version != found.metadata.resource_version

    def send_events(self, key: str, seen: JobInput, actions: Actions) -> None:
        """Send Events that belong to no write, unless they were sent last time."""
        if not actions and key not in self.sent:
            return
        notices = tuple(one.notice for one in actions if isinstance(one, SendEvent))
        before = self.sent.get(key, frozenset())
        self.writes.send_events(seen, *(one for one in notices if one not in before))
        if notices:
            self.sent[key] = frozenset(notices)
        elif before:
            del self.sent[key]


def owner_keys(workload: Workload) -> Iterable[str]:
    """The job that controls a Workload: group, kind, namespace and name."""
    owner = controller_of(workload.metadata)
    if owner is None:
        return ()
    group, kind = group_kind(owner)
    return (f"{group}/{kind}/{workload.namespace}/{owner.name}",)


def needed_keys(job: JobView) -> Iterable[str]:
    """The jobs that a job waits for."""
    needs = needs_of(job.metadata.annotations)
    return () if needs is None else {f"{job.namespace}/{name}" for name in needs.jobs}


def owner_uids(job: JobView) -> Iterable[str]:
    """The object that controls a job."""
    owner = controller_of(job.metadata)
    return () if owner is None else (owner.uid,)


async def planned(seen: JobInput, now: Instant) -> Actions:
    """The plan; very large pod templates are handled in a thread."""
    size = memoryview(seen.job.spec.template).nbytes if isinstance(seen.job, JobView) else 0
    for workload in seen.workloads:
        for one in workload.spec.pod_sets:
            size += memoryview(one.template).nbytes
    if size <= LARGE_BYTES:
        return plan(seen, now)
    # Flavors may change meanwhile.
    settled = msgspec.structs.replace(seen, flavors=dict(seen.flavors))
    return await asyncio.to_thread(plan, settled, now)
