"""Lists the jobs that run or wait, from what the controllers of this process know; reads nothing from the store."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.jobsummary import JobSummary
from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload, condition
from pykueue.app.controllers import Controllers
from pykueue.base.struct import Frozen
from pykueue.base.turns import in_steps
from pykueue.base.units import MICROS
from pykueue.bridge.outbound import pending_condition
from pykueue.controllers.jobsummaries import PodFacts, between_attempts, dependency, other_of, summary_of
from pykueue.jobs.batch import JobView
from pykueue.jobs.dependencies import Other
from pykueue.jobs.workload import prebuilt_name, workload_name
from pykueue.kube.informer import Change
from pykueue.kubecontrollers.jobcontroller import JobController
from pykueue.kubecontrollers.jobplan import NO_BACKOFF
from pykueue.kubecontrollers.jobviews import Job

YIELD_EVERY: Final = 1_000
"""Units of work before other tasks run; to list a job is `LISTED` of them, to look up another that it names is one."""
LISTED: Final = 10


class Line(Frozen):
    """What a job is listed as, and what that was made of."""

    job: JobView
    workload: Workload | None
    pods: tuple[PodFacts, ...]
    told: tuple[str, str]
    """Reason and message of the condition that is about to be written."""
    depends: str
    """Which jobs it waits for."""
    delay: str
    """When its next attempt starts."""
    key: str
    """Of the Workload."""
    summary: JobSummary
    body: bytes
    """In JSON, without its place in line."""


class JobBoard:
    """The jobs that run or wait."""

    def __init__(self, jobs: JobController, controllers: Callable[[], Controllers]) -> None:
        self.jobs = jobs
        self.controllers = controllers
        self.gpus: Callable[[str], tuple[int, ...]] = no_gpus
        """The numbers of the GPUs that a pod of this UID has."""
        self.active: dict[str, None] = {}
        """Keys of Jobs that have not finished."""
        self.looked_up = 0
        """How many jobs were looked up because others wait for them."""
        self.lines: dict[str, Line] = {}
        """Kept between lists, as few jobs change from one to the next."""
        jobs.jobs.listen(self.changed)

    def changed(self, change: Change[Job]) -> None:
        """Follow which Jobs have not finished."""
        if change.new is None or change.new.ended is not None:
            self.active.pop(change.key, None)
            self.lines.pop(change.key, None)
        else:
            self.active[change.key] = None

    async def list(
        self, namespace: str, whole: Callable[[str], bool], selects: Callable[[Mapping[str, str]], bool] | None
    ) -> list[bytes]:
        """The jobs of a namespace, or of all if that is empty, in JSON, oldest first.

        Jobs of a namespace that is not `whole` are listed without what only its users may see; a selector of labels
        finds none of them, as its results would show their labels.
        """
        cluster = self.controllers().cluster
        for one in (self.jobs.jobs, self.jobs.pods, cluster.jobs, cluster.workloads):
            await one.synced.wait()
        found: list[tuple[str, bytes]] = []
        places: dict[str, dict[str, int]] = {}
        work = YIELD_EVERY
        for key in list(self.active):
            if work >= YIELD_EVERY:
                work = 0
                await asyncio.sleep(0)
            before = self.looked_up
            within = key.partition("/")[0]
            if namespace and within != namespace:
                continue
            line = self.line(key)
            work += LISTED + self.looked_up - before
            if line is None:
                continue
            created = line.job.metadata.creation_timestamp or ""
            if not whole(within):
                if selects is None:
                    found.append((created, public(line.summary)))
            elif selects is None or selects(line.job.metadata.labels):
                place = await self.place(line, places)
                found.append((created, line.body if place is None else b'%b,"place":%d}' % (line.body[:-1], place)))
        # A stable sort by age keeps the order of creation within a second.
        found.sort(key=lambda one: one[0])
        return [body for _, body in found]

    def line(self, key: str) -> Line | None:
        """The line of a Job; None if it has finished or is not known yet."""
        controllers = self.controllers()
        job = controllers.cluster.jobs.get(key)
        if job is None or key not in self.active:
            return None
        before = self.lines.get(key)
        within = key.partition("/")[0]
        known = before is not None and before.job is job and before.workload is not None
        keys = (before.key,) if before is not None and known else (f"{within}/{name}" for name in workload_names(job))
        found = ((where, controllers.cluster.workloads.get(where)) for where in keys)
        workload_key, workload = next(((where, one) for where, one in found if one is not None), ("", None))
        told = None if workload is None else self.told(controllers, workload_key, workload)
        said = ("", "") if told is None else (str(told["reason"]), str(told["message"]))

        def other(name: str) -> Other | None:
            self.looked_up += 1
            found = controllers.cluster.jobs.get(f"{within}/{name}")
            return None if found is None else other_of(found)

        depends = dependency(job, other, self.jobs.clock.now())
        delay = self.delay(key) if between_attempts(job) else ""
        pods = tuple(
            PodFacts(pod.problem, self.gpus(pod.uid), pod.unplaced)
            for pod in self.jobs.by_job.get(key).values()
            if pod.active
        )
        if (
            before is not None
            and before.job is job
            and before.workload is workload
            and (before.pods, before.told, before.depends, before.delay) == (pods, said, depends, delay)
        ):
            return before
        summary = summary_of(job, workload, pods, told, depends, delay)
        made = Line(job, workload, pods, said, depends, delay, workload_key, summary, msgspec.json.encode(summary))
        self.lines[key] = made
        return made

    def delay(self, key: str) -> str:
        """When the next attempt of a Job starts."""
        left = self.jobs.backoffs.get(key, ("", NO_BACKOFF))[1].due() - self.jobs.clock.now()
        return f"in {-(-left // MICROS)} s" if left > 0 else "now"

    def told(self, controllers: Controllers, key: str, workload: Workload) -> Tree | None:
        """The condition that is about to be written to a Workload without one; None if there is none."""
        if condition(workload, WorkloadCondition.QUOTA_RESERVED) is not None:
            return None
        found = controllers.pump.reasons.of(key)
        return None if found is None else pending_condition(found)

    async def place(self, line: Line, places: dict[str, dict[str, int]]) -> int | None:
        """The place in line of a job; None if it does not wait for quota."""
        engine = self.controllers().pump.engine
        item = engine.item(line.key)
        queue = "" if item is None else item.queue
        if not queue:
            return None
        if queue not in places:
            ordered = await in_steps(engine.line(queue))
            places[queue] = {one.key: number for number, one in enumerate(ordered, 1)}
        return places[queue].get(line.key)


def workload_names(job: JobView) -> Iterator[str]:
    """The names that the Workload of a Job may have."""
    if named := prebuilt_name(job.metadata, annotations=True):
        yield named
    name, uid = job.metadata.name or "", job.metadata.uid or ""
    yield workload_name(kind="Job", group="batch", name=name, uid=uid)
    yield workload_name(kind="Job", group="batch", name=name, uid=uid, short=True)


def public(summary: JobSummary) -> bytes:
    """What everyone may see of a job, in JSON: name, owner, queue, requests, state and since when."""
    return msgspec.json.encode(
        JobSummary(
            namespace=summary.namespace,
            name=summary.name,
            state=summary.state,
            owner=summary.owner,
            queue=summary.queue,
            requests=summary.requests,
            requests_left_out=summary.requests_left_out,
            since=summary.since,
        )
    )


def no_gpus(uid: str) -> tuple[int, ...]:
    """The GPUs of a pod where none are given out."""
    return ()
