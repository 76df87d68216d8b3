"""Delete finished Jobs after their `ttlSecondsAfterFinished`, pods first."""

from typing import Final

from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, Instant, Seconds, after
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import JOBS, ConflictError, Kube
from pykueue.kubecontrollers.jobviews import Job

WORKERS: Final = 4


def due(job: Job | None) -> Instant | None:
    """When a Job is deleted; None if it is not finished, or has no TTL."""
    if job is None or job.ended is None or job.ttl is None:
        return None
    return after(job.ended, Seconds(job.ttl))


class Ttl:
    """Deletes finished Jobs whose TTL has expired."""

    def __init__(self, kube: Kube, clock: Clock, jobs: Informer[Job]) -> None:
        self.kube = kube
        self.clock = clock
        self.jobs = jobs
        self.controller = Controller("ttl", self.reconcile, clock, WORKERS)
        jobs.listen(self.changed)

    async def run(self) -> None:
        """Reconcile until cancelled; another controller runs the informer of Jobs."""
        await self.jobs.synced.wait()
        await self.controller.run()

    def changed(self, change: Change[Job]) -> None:
        """Look at a Job when its TTL expires."""
        time = due(change.new)
        if time is not None:
            self.controller.add_after(change.key, (time - self.clock.now()) / MICROS)

    async def reconcile(self, key: str) -> float | None:
        """Delete a Job if its TTL has expired; returns the seconds after which to look again."""
        job = self.jobs.get(key)
        time = due(job)
        if job is None or time is None or job.deleting:
            return None
        left = time - self.clock.now()
        if left > 0:
            return left / MICROS
        try:
            await self.kube.delete(JOBS, job.name, job.namespace, propagation="Foreground", version=str(job.version))
        except ConflictError:
            # It has changed, and the watch will report it.
            return None
        return None
