"""Was anything run twice? Pods that succeeded, counted against what each Job asked for."""

from collections.abc import Iterator
from typing import Final

from pykueue.api.workload import Workload
from pykueue.audit.starts import queued
from pykueue.audit.views import Job, Pod, controller_uid, finished
from pykueue.audit.world import Change, Finding, World
from pykueue.base.units import Instant

RULE: Final = "rerun"
TRACKED: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"


class Reruns:
    """The rule that a queued Job runs to completion once."""

    def __init__(self) -> None:
        self.succeeded: dict[str, dict[str, str]] = {}
        """Pods that succeeded, by their Job's UID and their own, with their completion index."""
        self.over: set[str] = set()
        """UIDs of the Jobs that have ended."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """What this change breaks."""
        pod, job, workload = change.of(Pod), change.of(Job), change.of(Workload)
        if pod is not None and pod[1] is not None:
            yield from self.counted(change, world, pod[1])
        elif job is not None:
            yield from self.ended(change, *job)
        elif workload is not None and workload[0] is None and workload[1] is not None:
            owner = controller_uid(workload[1], "Job")
            if owner in self.over and not change.listed:
                yield change.found(RULE, f"Workload {change.key}", "was made for a Job that has ended already")

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Nothing: a Job is run again at once or not at all."""
        yield from ()

    def counted(self, change: Change, world: World, pod: Pod) -> Iterator[Finding]:
        """What is wrong once this pod has succeeded."""
        job, uid = world.job_of(pod), pod.metadata.uid or ""
        if job is None or not queued(job) or pod.status.phase != "Succeeded":
            return
        mine = self.succeeded.setdefault(job.metadata.uid or "", {})
        # The Job controller lets go of a pod before it deletes it; what becomes of the pod then counts for nothing.
        if uid in mine or TRACKED not in pod.metadata.finalizers:
            return
        index = pod.metadata.annotations.get(INDEX, "")
        again = index and index in mine.values()
        mine[uid] = index
        wanted = job.spec.completions
        if again:
            yield change.found(RULE, f"Job {job.namespace}/{job.name}", f"ran its index {index} twice")
        elif wanted is not None and len(mine) == wanted + 1:
            says = f"has {len(mine)} pods that succeeded, and asked for {wanted}"
            yield change.found(RULE, f"Job {job.namespace}/{job.name}", says)

    def ended(self, change: Change, old: Job | None, new: Job | None) -> Iterator[Finding]:
        """What is wrong with a Job that ended before; forgets Jobs that are gone."""
        if new is None:
            if old is not None:
                self.over.discard(old.metadata.uid or "")
                self.succeeded.pop(old.metadata.uid or "", None)
            return
        uid = new.metadata.uid or ""
        if finished(new):
            self.over.add(uid)
        elif uid in self.over and queued(new):
            self.over.discard(uid)
            yield change.found(RULE, f"Job {change.key}", "had ended, and now has not")
