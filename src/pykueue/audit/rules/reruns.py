"""No work is run twice: what Jobs count as done, and pods that are created for it nevertheless.

Pods are not counted: one that succeeds while its Job is being suspended may not count, and is rightly replaced.
"""

from collections.abc import Iterator
from typing import Final

from pykueue.api.workload import Workload
from pykueue.audit.rules.starts import queued
from pykueue.audit.times import Instant
from pykueue.audit.views import Job, Pod, controller_uid, finished
from pykueue.audit.world import Change, Finding, World

RULE: Final = "rerun"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEXES_MAX: Final = 100_000
"""The most indexes of a Job; a text that lists more is not read further."""


class Reruns:
    """The rule that a queued Job runs to completion once."""

    def __init__(self) -> None:
        self.over: set[str] = set()
        """UIDs of the Jobs that have ended."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Violations by this change."""
        pod, job, workload = change.of(Pod), change.of(Job), change.of(Workload)
        if pod is not None and pod[0] is None and pod[1] is not None and not change.listed:
            yield from made(change, world, pod[1])
        elif job is not None:
            yield from self.went_back(change, *job)
        elif workload is not None and workload[0] is None and workload[1] is not None:
            owner = controller_uid(workload[1], "Job")
            if owner in self.over and not change.listed:
                yield change.found(RULE, f"Workload {change.key}", "was created for a Job that is already finished")

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Nothing: a Job is rerun at once or not at all."""
        yield from ()

    def went_back(self, change: Change, old: Job | None, new: Job | None) -> Iterator[Finding]:
        """What is wrong with a Job whose progress decreased; also forgets deleted Jobs."""
        if new is None:
            if old is not None:
                self.over.discard(old.metadata.uid or "")
            return
        uid, about = new.metadata.uid or "", f"Job {change.key}"
        if finished(new):
            self.over.add(uid)
        elif uid in self.over and queued(new):
            self.over.discard(uid)
            yield change.found(RULE, about, "was finished but no longer is")
        if old is None or old.metadata.uid != new.metadata.uid or not queued(new):
            return
        before, now = old.status.succeeded or 0, new.status.succeeded or 0
        if now < before:
            yield change.found(RULE, about, f"counted {before} succeeded pods but now counts {now}")


def made(change: Change, world: World, pod: Pod) -> Iterator[Finding]:
    """What is wrong with a new pod."""
    job = world.job_of(pod)
    if job is None or not queued(job):
        return
    about, index = f"Job {job.namespace}/{job.name}", pod.metadata.annotations.get(INDEX, "")
    wanted, done = job.spec.completions, job.status.succeeded or 0
    if finished(job):
        yield change.found(RULE, about, f"is finished, but pod {pod.name} was created")
    elif wanted is not None and done >= wanted:
        yield change.found(RULE, about, f"{done} of {wanted} pods have succeeded, but pod {pod.name} was created")
    elif index.isdecimal() and int(index) in indexes(job.status.completed_indexes or ""):
        yield change.found(RULE, about, f"completed index {index}, but pod {pod.name} was created for it again")


def indexes(text: str) -> set[int]:
    """The indexes in a text such as `1,3-5,7`; malformed parts are skipped."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and int(last or first) - int(first) < INDEXES_MAX:
            found.update(range(int(first), int(last or first) + 1))
    return found
