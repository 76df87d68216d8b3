"""Answers `explanations`: why a workload waits and who holds the quota of a queue, from the engine of the leader."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api.explanations import QUEUE_EXPLANATION, WORKLOAD_EXPLANATION
from pykueue.api.names import DEPENDENCIES_GATE, GROUP, Annotation, WorkloadCondition
from pykueue.api.query import EXPLANATIONS
from pykueue.api.workload import Workload, held
from pykueue.base.turns import in_steps
from pykueue.base.units import Instant, Seconds, after, parse_instant
from pykueue.bridge.explanations import (
    Naming,
    named_queue,
    named_workload,
    queue_explanation,
    workload_explanation,
    workloads_in,
)
from pykueue.bridge.sentences import BY_OWNER, end_text
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.events import owner
from pykueue.controllers.jobsummaries import dependency, other_of
from pykueue.controllers.queries import check_leads
from pykueue.controllers.scheduling import Pump
from pykueue.engine import model
from pykueue.engine.decisions import GatedBy
from pykueue.engine.lifecycle import run_end
from pykueue.engine.record.causes import HIDDEN, QueueCause, State, WorkloadCauses
from pykueue.engine.record.queuecauses import of_local_queue, of_queue
from pykueue.engine.record.workloadcauses import of_workload
from pykueue.jobs.batch import JobView, end_of
from pykueue.jobs.dependencies import GATED, NEVER, Other
from pykueue.kube.aggregated import AggregatedCall, AggregatedResource, Answer, Caller, not_found
from pykueue.kube.informer import Informer

OF_WORKLOADS: Final = AggregatedResource("workloads", "workload", EXPLANATIONS, WORKLOAD_EXPLANATION, namespaced=True)
OF_LOCAL_QUEUES: Final = AggregatedResource(
    "localqueues", "localqueue", EXPLANATIONS, QUEUE_EXPLANATION, namespaced=True
)
OF_QUEUES: Final = AggregatedResource("clusterqueues", "clusterqueue", EXPLANATIONS, QUEUE_EXPLANATION)
NAMESPACES_MAX: Final = 16
"""The rights of a caller are asked in at most so many namespaces; workloads of any others are not named."""


EPOCH: Final = "1970-01-01T00:00:00Z"


class Explanations:
    """Explains workloads and queues."""

    def __init__(self, cluster: Callable[[], Cluster], pump: Callable[[], Pump]) -> None:
        self.cluster = cluster
        self.pump = pump

    @property
    def handlers(self) -> Mapping[AggregatedResource, Answer]:
        """What is answered, and by whom."""
        return {OF_WORKLOADS: self.of_workload, OF_LOCAL_QUEUES: self.of_local_queue, OF_QUEUES: self.of_queue}

    async def of_workload(self, call: AggregatedCall) -> bytes:
        """A WorkloadExplanation, in JSON."""
        pump = self.pump()
        engine = check_leads(pump.engine)
        key = f"{call.namespace}/{call.name}"
        causes = await in_steps(of_workload(engine, key, pump.recent, self.end))
        if causes is None:
            # The engine forgets a workload that has finished.
            known = self.cluster().workloads.get(key)
            if known is None or held(known, WorkloadCondition.FINISHED) is None:
                raise not_found(GROUP, OF_WORKLOADS.plural, call.name)
            recent, forgotten = pump.recent.of(key), pump.recent.has_forgotten(key)
            causes = WorkloadCauses(
                key, State.FINISHED, Instant(0), QueueCause("", ""), recent=recent, forgotten=forgotten
            )
        causes = self.with_owner(causes)
        name = await self.naming(call, workloads_in(causes))
        return msgspec.json.encode(workload_explanation(named_workload(causes, name)))

    def with_owner(self, causes: WorkloadCauses) -> WorkloadCauses:
        """An explanation with what the Job tells: how it ended, or a hold, or jobs or a time to wait for."""
        seen = self.cluster().workloads.get(causes.key)
        if seen is None:
            return causes
        over = held(seen, WorkloadCondition.FINISHED)
        if over is not None:
            job = self.job_of(seen)
            said = (None if job is None else end_of(job)) or over
            since = parse_instant(over.last_transition_time or seen.metadata.creation_timestamp or EPOCH)
            ended = end_text(said.type, said.reason, said.message)
            return replace(causes, state=State.FINISHED, since=since, ended=ended)
        if causes.state in (State.INACTIVE, State.STOPPING):
            by = "" if seen.spec.active else seen.metadata.annotations.get(Annotation.DEACTIVATED_BY, "")
            return replace(causes, held=BY_OWNER.get(by, ""))
        gated = causes.message in ("", GATED) if causes.why is None else causes.why == GatedBy(DEPENDENCIES_GATE)
        depends = self.depends(seen) if causes.state is State.PENDING and gated else ""
        if not depends:
            return causes
        never, queue = depends if depends.startswith(NEVER) else "", replace(causes.queue, obstacle="")
        return replace(causes, never=never, held=depends, queue=queue, ways=())

    def depends(self, seen: Workload) -> str:
        """Which jobs, or what time, the Job of a Workload waits for; empty if it waits for none."""
        job = self.job_of(seen)
        if job is None:
            return ""
        jobs, within = self.cluster().jobs, seen.metadata.namespace

        def other(name: str) -> Other | None:
            found = jobs.get(f"{within}/{name}")
            return None if found is None else other_of(found)

        return dependency(job, other, self.cluster().clock.now())

    def job_of(self, seen: Workload) -> JobView | None:
        """The Job of a Workload; None if it has none, or if that is not known here."""
        reference = owner(seen.metadata)
        job = None if reference is None else self.cluster().jobs.get(f"{seen.metadata.namespace}/{reference.name}")
        return None if reference is None or job is None or job.metadata.uid != reference.uid else job

    async def of_local_queue(self, call: AggregatedCall) -> bytes:
        """A QueueExplanation of a LocalQueue, in JSON."""
        engine = check_leads(self.pump().engine)
        causes = await in_steps(of_local_queue(engine, f"{call.namespace}/{call.name}", self.end))
        if causes is None:
            raise not_found(GROUP, OF_LOCAL_QUEUES.plural, call.name)
        name = await self.naming(call, workloads_in(causes))
        return msgspec.json.encode(queue_explanation(named_queue(causes, name)))

    async def of_queue(self, call: AggregatedCall) -> bytes:
        """A QueueExplanation of a ClusterQueue, in JSON."""
        engine = check_leads(self.pump().engine)
        causes = await in_steps(of_queue(engine, call.name, ends=self.end))
        if causes is None:
            raise not_found(GROUP, OF_QUEUES.plural, call.name)
        name = await self.naming(call, workloads_in(causes))
        return msgspec.json.encode(queue_explanation(named_queue(causes, name)))

    def end(self, workload: model.Workload) -> Instant | None:
        """When a workload is stopped at the latest, by its own maximum or by the deadline of its Job."""
        own = run_end(workload)
        seen = self.cluster().workloads.get(workload.key)
        job = None if seen is None else self.job_of(seen)
        if job is None or workload.admitted_at is None:
            return own
        seconds = job.spec.active_deadline_seconds
        deadline = None if seconds is None else after(workload.admitted_at, Seconds(seconds))
        return min((one for one in (own, deadline) if one is not None), default=None)

    async def naming(self, call: AggregatedCall, keys: Iterable[str]) -> Naming:
        """How the caller knows the workloads of an answer; those of namespaces that he may not list are hidden."""
        wanted = dict.fromkeys(key.partition("/")[0] for key in keys if key)
        seen = await readable(call.caller, call.namespace, tuple(wanted))
        workloads = self.cluster().workloads

        def name(key: str) -> str:
            return title(workloads, key, call.namespace) if key.partition("/")[0] in seen else HIDDEN

        return name


async def readable(caller: Caller, own: str, namespaces: tuple[str, ...]) -> frozenset[str]:
    """Those of these namespaces in which a caller may list Workloads; `own` is asked first."""
    if not namespaces:
        return frozenset()
    if await caller.may("list", GROUP, "workloads", ""):
        return frozenset(namespaces)
    asked = sorted(namespaces, key=lambda one: one != own)[:NAMESPACES_MAX]
    granted = await asyncio.gather(*(caller.may("list", GROUP, "workloads", one) for one in asked))
    return frozenset(one for one, may in zip(asked, granted, strict=True) if may)


def title(workloads: Informer[Workload], key: str, namespace: str) -> str:
    """A workload as people know it: by its Job, with the namespace unless it is this one."""
    within, _, name = key.partition("/")
    place = "" if within == namespace else f"{within}/"
    found = workloads.get(key)
    job = None if found is None else owner(found.metadata)
    return f"Workload {place}{name}" if job is None else f"{job.kind} {place}{job.name}"
