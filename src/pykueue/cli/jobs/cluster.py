"""Jobs of a server without `pykueue.io/v1alpha1`, such as a cluster: made of its Jobs, Workloads and pods."""

from collections.abc import AsyncIterator, Generator, Mapping
from typing import Final

import msgspec

from pykueue.api.codec import decode_as
from pykueue.api.jobsummary import FinishedJob, JobState, JobSummary
from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload, held
from pykueue.base.clock import Clock, SystemClock
from pykueue.base.units import Instant
from pykueue.controllers.jobsummaries import (
    PodFacts,
    dependency,
    other_of,
    summary_of,
    summary_of_workload,
    workload_owner,
)
from pykueue.jobs.batch import JobView, end_of, read_job
from pykueue.jobs.dependencies import Other, State
from pykueue.kube.port import JOBS, PODS, WORKLOADS, DeniedError, Kube, NotFoundError, Resource
from pykueue.kubecontrollers.finishedrecord import NONE, UNKNOWN, Failures, Past, counted, past_of, record_of
from pykueue.kubecontrollers.jobviews import JobBody, Pod, decoded_job, read_pod

NO_STATES: Final = "states and reasons are omitted"
"""The note of a list without Workloads."""
NO_PROBLEMS: Final = "containers that cannot start are omitted"
"""The note of a list without pods."""
STEP_ROWS: Final = 200
"""Rows that are made between two turns of the event loop."""
ACTIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"


class Items(msgspec.Struct):
    """A page of a list."""

    items: list[msgspec.Raw] | None = None


ITEMS: Final = msgspec.json.Decoder(Items)


class ClusterJobs:
    """The jobs of a namespace, or of all, that have not finished."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.jobs: dict[str, JobView] = {}
        """By UID."""
        self.others: dict[str, Other] = {}
        """Jobs as those see them that wait for them, by namespace and name; also those that have ended."""
        self.complete = False
        """Whether these are all jobs of their namespaces, so that one that is missing does not exist."""
        self.dependent: set[str] = set()
        """UIDs of jobs that wait for others, or for a time."""
        self.workloads: dict[str, Workload] = {}
        """By UID of the job."""
        self.pods: dict[str, dict[str, PodFacts]] = {}
        """By UID of the Job and name of the pod."""
        self.rows: dict[str, JobSummary] = {}
        self.places: Mapping[str, int] = {}
        """The place in line of each job that waits, by UID, as far as the server tells."""
        self.changed: set[str] = set()
        """UIDs of jobs whose rows are out of date."""
        self.ended: dict[str, JobState] = {}
        """By UID, how the jobs ended that have done so since their rows were made."""

    def job(self, old: JobView | None, new: JobView | None) -> None:
        """Follow a Job."""
        self.depend(old, new)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            uid = old.metadata.uid or ""
            self.jobs.pop(uid, None)
            self.changed.add(uid)
            self.ended.setdefault(uid, JobState.CANCELLED)
        if new is not None:
            uid = new.metadata.uid or ""
            self.changed.add(uid)
            over = end_of(new)
            if over is None:
                self.jobs[uid] = new
            else:
                self.jobs.pop(uid, None)
                self.ended[uid] = JobState.COMPLETED if over.type == "Complete" else JobState.FAILED

    def depend(self, old: JobView | None, new: JobView | None) -> None:
        """Follow what a Job waits for, and what is to be said of those that wait for it."""
        either = new or old
        assert either is not None, "a change is of a Job"
        key = f"{either.metadata.namespace or ''}/{either.metadata.name or ''}"
        other = None if new is None else other_of(new)
        if old is not None:
            self.dependent.discard(old.metadata.uid or "")
        if new is not None and other is not None and other.needs is not None:
            self.dependent.add(new.metadata.uid or "")
        if other != self.others.get(key):
            self.changed |= self.dependent
        if other is None:
            self.others.pop(key, None)
        else:
            self.others[key] = other

    def depends(self, job: JobView) -> str:
        """Which jobs a Job waits for; one that may not have been listed is taken for unfinished."""
        within = job.metadata.namespace or ""
        unknown = None if self.complete else Other(State.UNFINISHED)
        return dependency(job, lambda name: self.others.get(f"{within}/{name}", unknown), self.clock.now())

    def workload(self, old: Workload | None, new: Workload | None) -> None:
        """Follow a Workload."""
        for one in (old, new):
            if one is not None:
                uid = workload_owner(one)
                self.changed.add(uid)
                if one is new:
                    self.workloads[uid] = one
                elif new is None:
                    self.workloads.pop(uid, None)

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """Follow a pod."""
        for one in (old, new):
            if one is None or not one.owner:
                continue
            self.changed.add(one.owner)
            if one is new and one.active:
                self.pods.setdefault(one.owner, {})[one.name] = PodFacts(one.problem, unplaced=one.unplaced)
            else:
                self.pods.get(one.owner, {}).pop(one.name, None)

    def endings(self) -> list[JobSummary]:
        """The jobs that have ended since their rows were made."""
        ended = [(self.rows.get(uid), state) for uid, state in self.ended.items()]
        self.ended.clear()
        return [
            msgspec.structs.replace(row, state=state, reason="", message="") for row, state in ended if row is not None
        ]

    def summaries(self) -> list[JobSummary]:
        """The jobs that run or wait, oldest first."""
        self.update()
        return self.in_order()

    def update(self) -> None:
        """Make the rows of jobs that have changed."""
        for _ in self.steps():
            pass

    def steps(self) -> Generator[None, None, dict[str, JobSummary | None]]:
        """Make the rows of jobs that have changed, in steps; returns them by UID, None for those that are gone."""
        changed, self.changed = self.changed, set()
        made: dict[str, JobSummary | None] = {}
        for number, uid in enumerate(changed, 1):
            if number % STEP_ROWS == 0:
                yield
            job, workload = self.jobs.get(uid), self.workloads.get(uid)
            if job is not None:
                pods = tuple(self.pods.get(uid, {}).values())
                self.rows[uid] = summary_of(job, workload, pods, depends=self.depends(job))
            elif workload is not None and is_of_other_kind(workload):
                self.rows[uid] = summary_of_workload(workload)
            else:
                self.rows.pop(uid, None)
            made[uid] = self.rows.get(uid)
        return made

    def in_order(self) -> list[JobSummary]:
        """The rows as they were last made, with the places that are known."""
        rows = [
            msgspec.structs.replace(row, place=self.places.get(uid)) if row.state is JobState.PENDING else row
            for uid, row in self.rows.items()
        ]
        return sorted(rows, key=lambda row: (row.submitted, row.namespace, row.name))

    def waiting_in(self) -> set[tuple[str, str]]:
        """The namespaces and names of the LocalQueues in which jobs wait."""
        return {(row.namespace, row.queue) for row in self.rows.values() if row.state is JobState.PENDING and row.queue}


def is_of_other_kind(workload: Workload) -> bool:
    """Whether a Workload that has not finished belongs to a job of another kind than Job."""
    if held(workload, WorkloadCondition.FINISHED):
        return False
    owner = next((one for one in workload.metadata.owner_references if one.controller), None)
    return owner is not None and owner.kind != "Job"


async def listed(kube: Kube, namespace: str, labels: str) -> tuple[ClusterJobs, list[str]]:
    """The jobs of a namespace, or of all if that is empty, and notes on what could not be read.

    Raises `DeniedError` if the Jobs may not be listed.
    """
    found = ClusterJobs()
    found.complete = not labels
    notes: list[str] = []
    async for raw in items(kube, JOBS, namespace, labels):
        found.job(None, read_job(raw))
    known = set(found.jobs)
    try:
        async for raw in items(kube, WORKLOADS, namespace):
            workload = decode_as(Workload, raw)
            if workload_owner(workload) in known or (not labels and is_of_other_kind(workload)):
                found.workload(None, workload)
    except (DeniedError, NotFoundError) as error:
        notes.append(f"{NO_STATES}: {error.message}")
    try:
        async for raw in items(kube, PODS, namespace, fields=ACTIVE_PODS):
            found.pod(None, read_pod(raw))
    except DeniedError as error:
        notes.append(f"{NO_PROBLEMS}: {error.message}")
    return found, notes


async def finished(kube: Kube, namespace: str, labels: str, now: Instant) -> tuple[list[FinishedJob], list[str]]:
    """The finished Jobs that exist, the newest first, and notes on what could not be read."""
    jobs: list[JobBody] = []
    async for raw in items(kube, JOBS, namespace, labels):
        job = decoded_job(raw)
        if job.status.holds("Complete") or job.status.holds("Failed"):
            # A decoded Raw refers to the whole page.
            msgspec.structs.force_setattr(job.spec, "template", job.spec.template.copy())
            jobs.append(job)
    notes: list[str] = []
    pasts: dict[str, Past] = {}
    failures: dict[str, Failures] = {}
    try:
        async for raw in items(kube, WORKLOADS, namespace):
            workload = decode_as(Workload, raw)
            pasts[workload_owner(workload)] = past_of(workload)
    except (DeniedError, NotFoundError) as error:
        notes.append(f"preemptions and lost work are omitted: {error.message}")
    try:
        async for raw in items(kube, PODS, namespace, fields="status.phase=Failed"):
            pod = read_pod(raw, whole=True)
            failures[pod.owner] = counted(failures.get(pod.owner, NONE), pod)
    except DeniedError as error:
        notes.append(f"exit codes are omitted: {error.message}")
    rows = [
        record_of(job, pasts.get(job.metadata.uid or "", UNKNOWN), failures.get(job.metadata.uid or "", NONE), now)
        for job in jobs
    ]
    return sorted(rows, key=lambda row: row.ended, reverse=True), notes


async def items(
    kube: Kube, resource: Resource, namespace: str, labels: str = "", fields: str = ""
) -> AsyncIterator[bytes]:
    """The objects of a list, one by one."""
    async for page in kube.pages(resource, namespace, labels=labels, fields=fields):
        for raw in ITEMS.decode(page).items or ():
            yield bytes(raw)
