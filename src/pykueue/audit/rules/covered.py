"""A Job runs no more pods than its Workload holds quota for; counted from the pods themselves."""

from collections.abc import Iterator
from typing import Final

from pykueue.api.workload import PodSet, Workload
from pykueue.audit.rules.starts import ended
from pykueue.audit.times import MICROS, Instant
from pykueue.audit.views import Job, reserving
from pykueue.audit.world import Change, Finding, Settings, World

RULE: Final = "uncovered"


class Covered:
    """The rule that quota is held for every running pod: only pods with no work left are reclaimable.

    Quota released too early is found at once. A superfluous pod may come from the Job controller, which acts on earlier
    state, and is found only if it keeps running.
    """

    def __init__(self, settings: Settings) -> None:
        self.lag_micros = settings.lag_seconds * MICROS
        self.beyond: dict[str, Instant] = {}
        """Since when each Workload, by key, has had more pods than quota."""
        self.reported: set[str] = set()
        """Keys of the Workloads that were reported, until the state ends."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Violations by this change, if it releases quota."""
        old, new = change.of(Workload) or (None, None)
        if old is None or new is None or change.listed or change.key in self.reported:
            return
        message = uncovered(new, world)
        if message and pods_held(new) < pods_held(old):
            self.reported.add(change.key)
            yield change.found(RULE, f"Workload {change.key}", message)

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Pods that have run without quota for longer than controllers may lag."""
        wrong = {key: message for key, workload in world.workloads.items() if (message := uncovered(workload, world))}
        self.beyond = {key: self.beyond.get(key, at) for key in wrong}
        self.reported &= wrong.keys()
        for key, since in self.beyond.items():
            if at - since >= self.lag_micros and key not in self.reported:
                self.reported.add(key)
                yield Finding(RULE, f"Workload {key}", wrong[key], world.version, at)


def uncovered(workload: Workload, world: World) -> str:
    """What is wrong if a Workload's Job runs more pods than it holds quota for; empty if it does not."""
    job = world.job_of(workload) if reserving(workload) else None
    if job is None or len(workload.spec.pod_sets) != 1 or not describes(workload.spec.pod_sets[0], job):
        return ""
    held, running = pods_held(workload), sum(not ended(pod) for pod in world.pods_of(job))
    return f"holds quota for {held} pods, but {running} pods of Job {job.name} are running" if running > held else ""


def describes(pod_set: PodSet, job: Job) -> bool:
    """Whether the pod set has room for all pods that the Job runs at once; if not, the Job was just edited."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    completions = parallelism if job.spec.completions is None else job.spec.completions
    return min(parallelism, completions) <= pod_set.count


def pods_held(workload: Workload) -> int:
    """For how many pods of its first pod set a workload holds quota."""
    pod_set, admission = workload.spec.pod_sets[0], workload.status.admission
    given = [one.count for one in admission.pod_set_assignments if one.name == pod_set.name] if admission else []
    done = sum(one.count for one in workload.status.reclaimable_pods if one.name == pod_set.name)
    most = pod_set.count if not given or given[0] is None else given[0]
    return min(most, max(0, pod_set.count - done))
