"""Answers `explanations`: why a workload waits and who holds the quota of a queue, from the engine of the leader."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api.codec import decode_as
from pykueue.api.explanations import QUEUE_EXPLANATION, WORKLOAD_EXPLANATION
from pykueue.api.names import DEPENDENCIES_GATE, GROUP, Annotation, WorkloadCondition
from pykueue.api.query import EXPLANATIONS
from pykueue.api.workload import Workload, held
from pykueue.base.turns import in_steps
from pykueue.base.units import Instant, Seconds, after, parse_instant
from pykueue.bridge.explanations import (
    Naming,
    local_queues_in,
    named_local_queues,
    named_queue,
    named_workload,
    queue_explanation,
    workload_explanation,
    workloads_in,
)
from pykueue.bridge.sentences import BY_OWNER, end_text
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.events import owner
from pykueue.controllers.jobsummaries import dependency
from pykueue.controllers.queries.group import check_leads
from pykueue.controllers.queries.owners import finder, job_of
from pykueue.controllers.queries.readable import readable
from pykueue.controllers.scheduling import Pump
from pykueue.engine import model
from pykueue.engine.decisions import GatedBy
from pykueue.engine.lifecycle import run_end
from pykueue.engine.record.causes import HIDDEN, QueueCause, QueueCauses, State, WorkloadCauses
from pykueue.engine.record.queuecauses import of_local_queue, of_queue
from pykueue.engine.record.workloadcauses import of_workload
from pykueue.jobs.batch import end_of
from pykueue.jobs.dependencies import GATED, NEVER
from pykueue.kube.aggregated import AggregatedCall, AggregatedResource, Answer, not_found
from pykueue.kube.informer import Informer
from pykueue.kube.port import WORKLOADS, KubeError

OF_WORKLOADS: Final = AggregatedResource("workloads", "workload", EXPLANATIONS, WORKLOAD_EXPLANATION, namespaced=True)
OF_LOCAL_QUEUES: Final = AggregatedResource(
    "localqueues", "localqueue", EXPLANATIONS, QUEUE_EXPLANATION, namespaced=True
)
OF_QUEUES: Final = AggregatedResource("clusterqueues", "clusterqueue", EXPLANATIONS, QUEUE_EXPLANATION)


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
        causes = self.with_owner(causes, await self.finish(key))
        name, local_name = await self.naming(call, causes)
        named = named_local_queues(named_workload(causes, name), local_name)
        return msgspec.json.encode(workload_explanation(named))

    async def finish(self, key: str) -> Instant:
        """When a Workload finished; 0 if it has not, or if that cannot be read."""
        seen = self.cluster().workloads.get(key)
        over = None if seen is None else held(seen, WorkloadCondition.FINISHED)
        if over is not None and not over.last_transition_time:
            # Of a finished Workload only a reduced form is kept.
            namespace, _, name = key.partition("/")
            try:
                stored = decode_as(Workload, await self.cluster().reading.get(WORKLOADS, name, namespace))
            except KubeError:
                return Instant(0)
            over = held(stored, WorkloadCondition.FINISHED)
        return parse_instant(over.last_transition_time) if over and over.last_transition_time else Instant(0)

    def with_owner(self, causes: WorkloadCauses, finish: Instant) -> WorkloadCauses:
        """An explanation with what the Job tells: how it ended, or a hold, or jobs or a time to wait for."""
        seen = self.cluster().workloads.get(causes.key)
        if seen is None:
            return causes
        over = held(seen, WorkloadCondition.FINISHED)
        if over is not None:
            job = job_of(self.cluster(), seen)
            said = (None if job is None else end_of(job)) or over
            ended = end_text(said.type, said.reason, said.message)
            return replace(causes, state=State.FINISHED, since=finish, ended=ended)
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
        cluster = self.cluster()
        job = job_of(cluster, seen)
        return "" if job is None else dependency(job, finder(cluster, seen.metadata.namespace), cluster.clock.now())

    async def of_local_queue(self, call: AggregatedCall) -> bytes:
        """A QueueExplanation of a LocalQueue, in JSON."""
        engine = check_leads(self.pump().engine)
        causes = await in_steps(of_local_queue(engine, f"{call.namespace}/{call.name}", self.end))
        if causes is None:
            raise not_found(GROUP, OF_LOCAL_QUEUES.plural, call.name)
        name, local_name = await self.naming(call, causes)
        return msgspec.json.encode(queue_explanation(named_local_queues(named_queue(causes, name), local_name)))

    async def of_queue(self, call: AggregatedCall) -> bytes:
        """A QueueExplanation of a ClusterQueue, in JSON."""
        engine = check_leads(self.pump().engine)
        causes = await in_steps(of_queue(engine, call.name, ends=self.end))
        if causes is None:
            raise not_found(GROUP, OF_QUEUES.plural, call.name)
        name, local_name = await self.naming(call, causes)
        return msgspec.json.encode(queue_explanation(named_local_queues(named_queue(causes, name), local_name)))

    def end(self, workload: model.Workload) -> Instant | None:
        """When a workload is stopped at the latest, by its own maximum or by the deadline of its Job."""
        own = run_end(workload)
        cluster = self.cluster()
        seen = cluster.workloads.get(workload.key)
        job = None if seen is None else job_of(cluster, seen)
        if job is None or workload.admitted_at is None:
            return own
        seconds = job.spec.active_deadline_seconds
        deadline = None if seconds is None else after(workload.admitted_at, Seconds(seconds))
        return min((one for one in (own, deadline) if one is not None), default=None)

    async def naming(self, call: AggregatedCall, causes: WorkloadCauses | QueueCauses) -> tuple[Naming, Naming]:
        """How the caller knows the workloads and the LocalQueues of an answer.

        Those of namespaces in which they may not list Workloads are hidden.
        """
        keys = [*workloads_in(causes), *local_queues_in(causes)]
        seen = await readable(call.caller, call.namespace, (key.partition("/")[0] for key in keys if key))
        workloads = self.cluster().workloads

        def name(key: str) -> str:
            return title(workloads, key, call.namespace) if key.partition("/")[0] in seen else HIDDEN

        def local_name(key: str) -> str:
            within, _, short = key.partition("/")
            return HIDDEN if within not in seen else short if within == call.namespace else key

        return name, local_name


def title(workloads: Informer[Workload], key: str, namespace: str) -> str:
    """A workload as people know it: by its Job, with the namespace unless it is this one."""
    within, _, name = key.partition("/")
    place = "" if within == namespace else f"{within}/"
    found = workloads.get(key)
    job = None if found is None else owner(found.metadata)
    return f"Workload {place}{name}" if job is None else f"{job.kind} {place}{job.name}"
