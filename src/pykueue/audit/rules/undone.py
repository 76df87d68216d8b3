"""What was decided is carried out: admitted Jobs start, evicted ones stop, and stopped queues are drained."""

from collections.abc import Iterator
from typing import Final

from pykueue.api.workload import Workload
from pykueue.audit.rules.overdue import Overdue, Violation
from pykueue.audit.rules.starts import queued
from pykueue.audit.times import Instant
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import finished, holds, key_of, reserving
from pykueue.audit.world import Change, Finding, Settings, World

RULE: Final = "undone"
DRAIN: Final = "HoldAndDrain"


class Undone:
    """The rule that a Job follows its Workload, and a Workload its queues."""

    def __init__(self, settings: Settings, uptime: Uptime) -> None:
        self.settings = settings
        self.overdue = Overdue(uptime, settings.stop_seconds)

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Nothing at once: others need time to act."""
        yield from ()

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """What has not been carried out for too long."""
        wrong = [
            Violation(RULE, f"Workload {key_of(workload)}", message)
            for workload in world.workloads.values()
            if holds(workload, "QuotaReserved") and not holds(workload, "Finished")
            for message in (*self.job_differs(workload, world), *should_leave(workload, world))
        ]
        yield from self.overdue.look(wrong, at, world)

    def job_differs(self, workload: Workload, world: World) -> Iterator[str]:
        """How its Job does not do what the Workload says."""
        job = world.job_of(workload)
        if job is None or finished(job) or not queued(job) or job.metadata.deletion_timestamp is not None:
            return
        if holds(workload, "Evicted") and not job.spec.suspend:
            yield f"is evicted, but Job {job.name} is not suspended"
        leaves = holds(workload, "Evicted") or workload.metadata.deletion_timestamp is not None
        if holds(workload, "Admitted") and reserving(workload) and not leaves and job.spec.suspend:
            yield f"is admitted, but Job {job.name} is suspended"


def should_leave(workload: Workload, world: World) -> Iterator[str]:
    """Why a workload that holds quota should be evicted, and is not."""
    if holds(workload, "Evicted") or workload.metadata.deletion_timestamp is not None:
        return
    if not workload.spec.active:
        yield "is not active, but keeps its quota"
    admission = workload.status.admission
    queue = world.queues.get((admission.cluster_queue or "") if admission is not None else "")
    local = world.local_queues.get(f"{workload.namespace}/{workload.spec.queue_name or ''}")
    for kind, stopped in (("ClusterQueue", queue), ("LocalQueue", local)):
        if stopped is not None and stopped.spec.stop_policy == DRAIN:
            yield f"holds quota, but {kind} {stopped.name} is drained"
