"""The Job controller: reads a Job and its pods, plans (`jobplan`), acts, and repeats.

The response to every write goes to the caches at once, so the next plan sees it; deletions have none, and are
remembered until the watch reports them.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.base.clock import Clock
from pykueue.base.units import MICROS
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.notices import Notice, Tell
from pykueue.kube.port import JOBS, PODS, ConflictError, Kube, KubeError, NotFoundError, Patch, Ref
from pykueue.kubecontrollers.jobplan import NO_BACKOFF, Backoff, PodPlan, plan
from pykueue.kubecontrollers.jobstatus import status_patch
from pykueue.kubecontrollers.jobviews import TRACKING, Job, JobStatus, Pod, Work, read_job, read_pod
from pykueue.kubecontrollers.newpods import new_pods

REPORTER: Final = "job-controller"
MANAGER: Final = "kube-controller-manager"
WORKERS: Final = 16
CROWD: Final = 50
"""A Job with more pods than this is not reconciled for each single pod; more new Jobs than this count as many."""
STEPS_MAX: Final = 20
"""Steps in a row for one Job before others get their turn."""
ATTEMPTS_MAX: Final = 5
PAUSE_SECONDS: Final = 0.05
BATCH_SECONDS: Final = 0.1
SUSPENDED_BATCHES: Final = 10
"""How many times as long the write that a new Job is suspended is delayed."""
SUSPENDED_CROWD_BATCHES: Final = 50
"""The same while many Jobs arrive: each then takes longer to be admitted."""
NEW: Final = JobStatus()
IDLE_PLAN: Final = PodPlan()
CLOSING: Final = "because it is being terminated"
"""The server's message about a namespace that is being deleted."""


def jobs_of(pod: Pod) -> tuple[str, ...]:
    """The key of the Job that controls a pod, if any."""
    return (job_of(pod),) if pod.job else ()


def job_of(pod: Pod) -> str:
    """The key of the Job that controls a pod."""
    return f"{pod.namespace}/{pod.job}"


class JobController:
    """Keeps the desired number of pods of every Job running, and counts how they end."""

    def __init__(self, kube: Kube, clock: Clock, notify: Tell, *, batch: float = BATCH_SECONDS) -> None:
        self.kube = kube
        self.clock = clock
        self.notify = notify
        self.batch = batch
        """How many seconds the write that pods are ready may be delayed; a short pod then needs none."""
        self.jobs: Informer[Job] = Informer(kube, JOBS, read_job, clock)
        self.pods: Informer[Pod] = Informer(kube, PODS, read_pod, clock)
        self.by_job = self.pods.index(jobs_of)
        self.controller = Controller("job", self.reconcile, clock, WORKERS)
        self.orphans = Controller("orphan pods", self.free, clock)
        self.backoffs: dict[str, tuple[str, Backoff]] = {}
        """By key of a Job whose pods have failed: its uid, and the failures."""
        self.deleting_uids: set[str] = set()
        """Uids of pods that we have deleted and that the watch still shows."""
        self.jobs.listen(self.job_changed)
        self.pods.listen(self.pod_changed)

    async def run(self) -> None:
        """Reconcile Jobs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.jobs.run(), name="jobs")
            tasks.create_task(self.pods.run(), name="pods of jobs")
            tasks.create_task(self.act(), name="job controller")

    async def act(self) -> None:
        """Reconcile once everything is listed."""
        await self.jobs.synced.wait()
        await self.pods.synced.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.controller.run(), name="jobs to look at")
            tasks.create_task(self.orphans.run(), name="pods that lost their job")

    # Triggers.

    def job_changed(self, change: Change[Job]) -> None:
        """Reconcile a Job that changed, if there may be something to do."""
        work = None if change.new is None else change.new.work
        if change.new is None:
            self.backoffs.pop(change.key, None)
        if change.old is None and work is not None and work.spec.suspend and work.status == NEW:
            # Often it starts a moment later, and neither this write nor a conflict with that of its start is needed.
            crowded = len(self.controller.queue.later) > CROWD
            batches = SUSPENDED_CROWD_BATCHES if crowded else SUSPENDED_BATCHES
            self.controller.add_after(change.key, batches * self.batch)
        elif work is not None or self.by_job.get(change.key):
            self.look(change.key)

    def pod_changed(self, change: Change[Pod]) -> None:
        """Reconcile the Job of a pod that changed, at once if that can change what it needs."""
        old, new = change.old, change.new
        if self.deleting_uids and old is not None and (new is None or new.deleting or new.uid != old.uid):
            self.deleting_uids.discard(old.uid)
        if new is not None and new.tracked and not new.job:
            self.orphans.add(change.key)
        if old is not None and new is not None and new.job == old.job:
            if new.job and stages(old) != stages(new):
                self.look(job_of(new))
            elif old.ready != new.ready:
                self.look(job_of(new), self.batch)
            return
        for pod in (old, new):
            if pod is not None and pod.job:
                self.look(job_of(pod))

    def look(self, key: str, after: float = 0.0) -> None:
        """Reconcile a Job, unless that is in progress: its last plan then sees the change."""
        if key not in self.controller.queue.working:
            crowded = len(self.by_job.get(key)) > CROWD
            self.controller.add_after(key, self.batch if crowded else after)

    # Reconciliation.

    async def reconcile(self, key: str) -> float | None:
        """Do everything for one Job; returns the seconds after which to look again.

        There is no await between the last plan and the end, so no change can be missed.
        """
        for _ in range(STEPS_MAX):
            job, pods = self.jobs.get(key), list(self.by_job.get(key).values())
            work = None if job is None else job.work
            if job is not None and work is None and job.ended is None:
                return None
            own = [] if work is None else [self.as_known(pod) for pod in pods if belongs(pod, work)]
            # Pods whose Job is gone, finished or not ours are not counted.
            strange = [pod for pod in pods if pod.tracked and (work is None or not belongs(pod, work))]
            now = self.clock.now()
            step = IDLE_PLAN if work is None else plan(work, own, now, self.backoff(key, work))
            if not (strange or step.create or step.delete or step.status or step.release):
                if work is None:
                    self.backoffs.pop(key, None)
                return None if step.wake is None else (step.wake - now) / MICROS
            try:
                if strange:
                    await together(self.release(pod) for pod in strange)
                elif job is not None and work is not None:
                    await self.carry_out(job, work, step)
            except NotFoundError:
                # It is gone, and the watch will report it.
                await asyncio.sleep(0)
            except ConflictError:
                await self.catch_up(key)
        return PAUSE_SECONDS

    async def catch_up(self, key: str) -> None:
        """Read a Job again that another client has written; the watch may be behind."""
        namespace, _, name = key.partition("/")
        await asyncio.sleep(0)
        with contextlib.suppress(NotFoundError):
            self.jobs.learn(await self.kube.get(JOBS, name, namespace))

    def backoff(self, key: str, work: Work) -> Backoff:
        """How often the Job's pods have failed recently."""
        uid, backoff = self.backoffs.get(key, ("", NO_BACKOFF))
        return backoff if uid == work.uid else NO_BACKOFF

    def as_known(self, pod: Pod) -> Pod:
        """The pod, marked as deleted if we have deleted it."""
        return msgspec.structs.replace(pod, deleting=True) if pod.uid in self.deleting_uids else pod

    async def carry_out(self, job: Job, work: Work, step: PodPlan) -> None:
        """Carry out a plan in order; a failure is raised after everything else was done."""
        key = f"{job.namespace}/{job.name}"
        failure: Exception | None = None
        try:
            if step.create:
                await self.create(job, work, step)
            if step.delete:
                await together(self.delete(job, work, pod, step.removes_finalizer) for pod in step.delete)
        except Exception as error:
            failure = error
            own = [self.as_known(pod) for pod in self.by_job.get(key).values() if belongs(pod, work)]
            step = plan(work, own, self.clock.now(), self.backoff(key, work), manage_pods=False)
        if step.status is not None:
            await self.write(job, work, step.status)
            if step.backoff != NO_BACKOFF:
                self.backoffs[key] = (work.uid, step.backoff)
            else:
                self.backoffs.pop(key, None)
            for one in step.events:
                self.event(job, work, one.reason, one.note, warning=one.warning)
        if step.release:
            await together(self.release(pod) for pod in step.release)
        if failure is not None:
            raise failure

    async def create(self, job: Job, work: Work, step: PodPlan) -> None:
        """Create pods in batches of 1, 2, 4 and so on, so that an error common to all is not repeated for all."""
        bodies = new_pods(job, work, step.create)
        size = 1
        while bodies:
            batch, bodies = bodies[:size], bodies[size:]
            size *= 2
            await together(self.create_one(job, work, body) for body in batch)

    async def create_one(self, job: Job, work: Work, body: bytes) -> None:
        """Create a pod."""
        try:
            raw = await self.kube.create(PODS, body, job.namespace)
        except KubeError as error:
            if CLOSING not in error.message:
                self.event(job, work, "FailedCreate", f"Error creating: {error.message}", warning=True)
            raise
        self.event(job, work, "SuccessfulCreate", f"Created pod: {self.pods.learn(raw).name}")

    async def delete(self, job: Job, work: Work, pod: Pod, removes_finalizer: bool) -> None:
        """Delete a pod."""
        if removes_finalizer and pod.tracked:
            await self.release(pod)
        self.deleting_uids.add(pod.uid)
        try:
            await self.kube.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        except NotFoundError:
            pass
        except Exception as error:
            self.deleting_uids.discard(pod.uid)
            why = error.message if isinstance(error, KubeError) else repr(error)
            self.event(job, work, "FailedDelete", f"Error deleting: {why}", warning=True)
            raise
        else:
            self.event(job, work, "SuccessfulDelete", f"Deleted pod: {pod.name}")
        known = self.pods.get(f"{pod.namespace}/{pod.name}")
        if known is None or known.uid != pod.uid or known.deleting:
            self.deleting_uids.discard(pod.uid)

    async def write(self, job: Job, work: Work, status: JobStatus) -> None:
        """Write the status of the Job at the version that was seen."""
        guard: Tree = {"uid": work.uid, "resourceVersion": str(job.version)}
        body = msgspec.json.encode({"metadata": guard, "status": status_patch(work.status, status)})
        raw = await self.kube.patch(
            JOBS, job.name, body, job.namespace, how=Patch.MERGE, subresource="status", manager=MANAGER
        )
        self.jobs.learn(raw)

    async def release(self, pod: Pod) -> None:
        """Remove our finalizer from a pod."""
        found = pod
        for attempt in range(ATTEMPTS_MAX):
            if not found.tracked or found.uid != pod.uid:
                return
            left = [one for one in found.finalizers if one != TRACKING]
            guard: Tree = {"uid": pod.uid, "resourceVersion": str(found.version), "finalizers": [*left] or None}
            body = msgspec.json.encode({"metadata": guard})
            try:
                raw = await self.kube.patch(PODS, pod.name, body, pod.namespace, how=Patch.MERGE, manager=MANAGER)
            except ConflictError:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
                # An earlier write of another client may still be in flight.
                await asyncio.sleep(0)
                raw = await self.kube.get(PODS, pod.name, pod.namespace)
            found = self.pods.learn(raw)

    async def free(self, key: str) -> float | None:
        """Remove our finalizer from a pod that no Job controls, since it will not be counted."""
        pod = self.pods.get(key)
        if pod is not None and pod.tracked and not pod.job:
            await self.release(pod)
        return None

    def event(self, job: Job, work: Work, reason: str, note: str, *, warning: bool = False) -> None:
        """Report an event of a Job."""
        about = Ref("batch/v1", "Job", job.namespace, job.name, work.uid, str(job.version))
        self.notify(Notice(about, reason, note, REPORTER, warning))


def belongs(pod: Pod, work: Work) -> bool:
    """Whether a pod belongs to a Job: it names it, and has the same creator, as all pods that we create."""
    return pod.owner == work.uid and pod.creator == work.creator


def stages(pod: Pod) -> tuple[bool, bool, bool, int]:
    """What of a pod changes what its Job needs, apart from its readiness."""
    return pod.over, pod.tracked, pod.deleting, pod.restarts


async def together(calls: Iterable[Awaitable[None]]) -> None:
    """Run calls concurrently; the first failure is raised when all are done, NotFound last."""
    waiting = list(calls)
    if len(waiting) == 1:
        # Most Jobs have one pod, and a task for it would only cost time.
        await waiting[0]
        return
    results = await asyncio.gather(*waiting, return_exceptions=True)
    failures = [one for one in results if isinstance(one, BaseException)]
    if failures:
        raise next((one for one in failures if not isinstance(one, NotFoundError)), failures[0])
