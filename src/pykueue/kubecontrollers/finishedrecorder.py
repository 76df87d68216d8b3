"""Records every Job that ends in a table that outlives it.

The table knows Jobs by their UID, so recording one twice changes nothing. Nothing is lost in a crash: finished Jobs
without a record are found by listing them, and a deletion leaves the last state of its Job in the table until there is
a record.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from pykueue.api.codec import decode_as
from pykueue.api.jobsummary import FinishedJob, JobState
from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload, held
from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, Instant
from pykueue.jobs.workload import workload_name
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import JOBS, PODS, WORKLOADS, Kube, KubeError, NotFoundError
from pykueue.kubecontrollers.finishedrecord import NONE, UNKNOWN, Failures, Past, counted, past_of, record_of, replaced
from pykueue.kubecontrollers.jobviews import Job, JobBody, Pod, decoded_job, read_pod

LOG: Final = logging.getLogger(__name__)

BATCH_MICROS: Final = 1 * MICROS
"""How long to collect records, so that many Jobs cost few commits."""
RETRY_MICROS: Final = 10 * MICROS
AT_ONCE: Final = 200
MARGIN_MICROS: Final = 10 * 60 * MICROS
"""Jobs that ended this long before the last record are looked up at startup."""
FIRST_RECORDS: Final = 1_000
"""How many Jobs are recorded at startup if the table is empty, as after an upgrade; others follow when they go."""
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"


class Table(Protocol):
    """Where records are kept."""

    async def add(self, jobs: Sequence[FinishedJob], now: Instant) -> None:
        """Store records durably, once per UID; raises if that fails."""

    def last_end(self) -> Instant:
        """About when the last Job of the table ended; 0 if it is empty."""

    def recent(self, since: Instant) -> set[tuple[str, str, Instant]]:
        """Namespace, name and end of the Jobs of the table that ended since."""

    def dropped(self, limit: int) -> list[bytes]:
        """The last state of Jobs that were deleted and have no record yet."""


class Items(msgspec.Struct):
    """A page of a list."""

    items: list[msgspec.Raw] = []


ITEMS: Final = msgspec.json.Decoder(Items)


class FinishedRecorder:
    """Writes a record for every Job that has ended or was deleted."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        table: Table,
        jobs: Informer[Job],
        pods: Informer[Pod],
        workload: Callable[[str], Workload | None],
    ) -> None:
        self.kube = kube
        self.clock = clock
        self.table = table
        self.jobs = jobs
        self.workload = workload
        """A Workload as our controllers know it."""
        self.caught_up = False
        self.ended: dict[str, None] = {}
        """Keys of finished Jobs to record."""
        self.pasts: dict[str, Past] = {}
        """By UID of a Job that has ended or is being deleted: what its Workload said then."""
        self.failures: dict[str, Failures] = {}
        """By UID of a Job some of whose pods have failed."""
        self.news = asyncio.Event()
        self.recording = asyncio.Lock()
        jobs.listen(self.job_changed)
        pods.listen(self.pod_changed)

    async def run(self) -> None:
        """Record Jobs until cancelled; others run the informers."""
        await self.jobs.synced.wait()
        self.catch_up()
        while True:
            await self.news.wait()
            await self.clock.sleep(BATCH_MICROS)
            self.news.clear()
            if not await self.recorded():
                self.news.set()
                await self.clock.sleep(RETRY_MICROS)

    async def flush(self) -> None:
        """Record what is known to have ended, before someone reads the table."""
        if self.caught_up and (self.news.is_set() or self.recording.locked()):
            await self.recorded()

    async def recorded(self) -> bool:
        """Record some of the Jobs that have ended; returns whether that succeeded."""
        async with self.recording:
            try:
                await self.record()
            except Exception:
                LOG.exception("finished jobs: not recorded, will retry")
                return False
        return True

    def catch_up(self) -> None:
        """Look for Jobs that ended and were not recorded before this process started."""
        self.caught_up = True
        last = self.table.last_end()
        since = Instant(max(0, last - MARGIN_MICROS))
        known = self.table.recent(since) if last else set()
        found = sorted(
            (job.ended, key)
            for key, job in self.jobs.objects.items()
            if job.ended is not None and job.ended >= since and (job.namespace, job.name, job.ended) not in known
        )
        self.ended.update((key, None) for _, key in (found if last else found[-FIRST_RECORDS:]))
        if self.ended or self.table.dropped(1):
            self.news.set()

    def job_changed(self, change: Change[Job]) -> None:
        """Note a Job that ends, is being deleted or is gone."""
        if not self.caught_up:
            return
        old, new = change.old, change.new
        work = None if old is None else old.work
        leaves = new is None or new.ended is not None or new.deleting
        if work is not None and leaves and work.uid not in self.pasts:
            known = self.known_workload(old, work.uid)
            if known is not None:
                self.pasts[work.uid] = past_of(known)
        if new is None:
            self.news.set()
        elif new.ended is not None and (old is None or old.ended is None):
            self.ended[change.key] = None
            self.news.set()

    def known_workload(self, job: Job | None, uid: str) -> Workload | None:
        """The Workload of a Job if our controllers know it whole."""
        if job is None:
            return None
        for name in names_of(job.name, uid):
            found = self.workload(f"{job.namespace}/{name}")
            if found is not None:
                # A finished one is kept in a reduced form.
                return None if held(found, WorkloadCondition.FINISHED) else found
        return None

    def pod_changed(self, change: Change[Pod]) -> None:
        """Count a pod that fails, and note one that replaces it."""
        old, new = change.old, change.new
        if new is None or not new.owner:
            return
        if new.phase == "Failed" and (old is None or not old.over):
            self.failures[new.owner] = counted(self.failures.get(new.owner, NONE), new)
        elif old is None and not new.over and new.owner in self.failures:
            self.failures[new.owner] = replaced(self.failures[new.owner], new)

    async def record(self) -> None:
        """Record some of the Jobs that have ended."""
        now = self.clock.now()
        keys = list(self.ended)[:AT_ONCE]
        dropped = self.table.dropped(AT_ONCE)
        found = [decoded_job(raw) for raw in dropped]
        for key in keys:
            namespace, _, name = key.rpartition("/")
            # A Job that is gone is among those that were dropped, or recorded.
            with contextlib.suppress(NotFoundError):
                job = decoded_job(await self.kube.get(JOBS, name, namespace))
                if job.status.holds("Complete") or job.status.holds("Failed"):
                    found.append(job)
        records = [await self.made(job, now) for job in found]
        if records:
            await self.table.add(records, now)
        for key in keys:
            self.ended.pop(key, None)
        for record in records:
            self.pasts.pop(record.uid, None)
            self.failures.pop(record.uid, None)
        if self.ended or len(dropped) == AT_ONCE:
            self.news.set()

    async def made(self, job: JobBody, now: Instant) -> FinishedJob:
        """The record of a Job."""
        uid, name, namespace = job.metadata.uid or "", job.metadata.name or "", job.metadata.namespace or ""
        past = self.pasts.get(uid)
        if past is None:
            past = await self.read_past(names_of(name, uid), namespace)
        failures = self.failures.get(uid)
        record = record_of(job, past, failures or NONE, now)
        if failures is None and record.state is JobState.FAILED and job.status.failed:
            # They failed before this process started.
            record = record_of(job, past, await self.read_failures(uid, namespace), now)
        return record

    async def read_past(self, names: Iterable[str], namespace: str) -> Past:
        """What the stored Workload of a Job tells, if there is one."""
        for name in names:
            with contextlib.suppress(KubeError, msgspec.DecodeError, ValueError):
                return past_of(decode_as(Workload, await self.kube.get(WORKLOADS, name, namespace)))
        return UNKNOWN

    async def read_failures(self, uid: str, namespace: str) -> Failures:
        """What the stored pods of a Job tell."""
        found = NONE
        async for page in self.kube.pages(PODS, namespace, labels=f"{CONTROLLER_UID}={uid}"):
            for raw in ITEMS.decode(page).items:
                pod = read_pod(bytes(raw), whole=True)
                if pod.phase == "Failed":
                    found = counted(found, pod)
        return found


def names_of(name: str, uid: str) -> tuple[str, str]:
    """The names that the Workload of a Job may have."""
    return (
        workload_name(kind="Job", group="batch", name=name, uid=uid),
        workload_name(kind="Job", group="batch", name=name, uid=uid, short=True),
    )
