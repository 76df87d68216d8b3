"""Does a Job run more pods than its Workload holds quota for? The pods themselves are counted."""

from collections.abc import Iterator
from typing import Final

from pykueue.api.workload import PodSet, Workload
from pykueue.audit.starts import ended
from pykueue.audit.views import Job, Pod, reserving
from pykueue.audit.world import Change, Finding, World
from pykueue.base.units import Instant

RULE: Final = "uncovered"


class Covered:
    """The rule that quota is held for every pod that runs: reclaimable pods are only those with no work left."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """What this change breaks: a pod that was made, or quota that was given back."""
        workload, pod = change.of(Workload), change.of(Pod)
        if change.listed:
            return
        if workload is not None and workload[1] is not None:
            yield from self.judged(change, world, workload[1])
        elif pod is not None and pod[0] is None and pod[1] is not None:
            job = world.job_of(pod[1])
            for mine in () if job is None else world.workloads_of(job):
                yield from self.judged(change, world, mine)

    def judged(self, change: Change, world: World, workload: Workload) -> Iterator[Finding]:
        """The finding that more pods run than quota is held for, if it is so."""
        job, pod_sets = world.job_of(workload), workload.spec.pod_sets
        if job is None or len(pod_sets) != 1 or not reserving(workload) or not describes(pod_sets[0], job):
            return
        held, running = pods_held(workload, pod_sets[0]), sum(not ended(pod) for pod in world.pods_of(job))
        if running > held:
            about = f"Workload {workload.namespace}/{workload.name}"
            yield change.found(RULE, about, f"holds quota for {held} pods, and {running} of Job {job.name} run")

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Nothing: a pod is paid for at once or not at all."""
        yield from ()


def describes(pod_set: PodSet, job: Job) -> bool:
    """Whether the pod set has room for all pods that the Job runs at once; if not, someone has just edited the Job."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    completions = parallelism if job.spec.completions is None else job.spec.completions
    return min(parallelism, completions) <= pod_set.count


def pods_held(workload: Workload, pod_set: PodSet) -> int:
    """For how many pods of its one pod set a workload holds quota."""
    admission = workload.status.admission
    given = [one.count for one in admission.pod_set_assignments if one.name == pod_set.name] if admission else []
    done = sum(one.count for one in workload.status.reclaimable_pods if one.name == pod_set.name)
    most = pod_set.count if not given or given[0] is None else given[0]
    return min(most, max(0, pod_set.count - done))
