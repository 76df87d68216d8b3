"""Limit the number of finished Jobs and ended pods by deleting the oldest."""

import asyncio
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

from pykueue.base.clock import Clock
from pykueue.base.units import Instant
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import ConflictError, Kube, KubeError, NotFoundError
from pykueue.kubecontrollers.jobviews import Job, Pod

AT_ONCE: Final = 50
JOBS_KEPT: Final = 100_000
"""How many finished Jobs are kept; the oldest beyond this are deleted."""
PODS_KEPT: Final = 12_500
"""How many ended pods are kept, as in kube-controller-manager."""

T = TypeVar("T", Job, Pod)


def end_of(one: Job | Pod | None) -> Instant | None:
    """When something ended for good; None if it has not, or is not counted yet."""
    match one:
        case Job(ended=ended):
            return ended
        case Pod() if one.over and not one.tracked:
            return one.ended
        case _:
            return None


class Ended(Generic[T]):
    """The ended objects of a kind, oldest first."""

    def __init__(self, informer: Informer[T], most: int | None, full: Controller) -> None:
        self.informer: Informer[T] = informer
        self.most = most
        self.full = full
        self.count = 0
        self.order: list[tuple[Instant, str]] = []
        """A heap; outdated entries are skipped."""
        self.leaving: set[str] = set()
        """Keys of objects that we have deleted and that still exist."""
        informer.listen(self.changed)

    def changed(self, change: Change[T]) -> None:
        """Handle an object that ends or is deleted."""
        old, new = end_of(change.old), end_of(change.new)
        self.count += (new is not None) - (old is not None)
        if change.new is None:
            self.leaving.discard(change.key)
        if self.most is None:
            return
        if new is not None and new != old:
            heappush(self.order, (new, change.key))
        if self.count - len(self.leaving) > self.most:
            self.full.add(str(self.informer.resource))

    def oldest(self) -> list[T]:
        """The surplus objects, a few at a time."""
        found: list[T] = []
        surplus = 0 if self.most is None else self.count - len(self.leaving) - self.most
        while self.order and len(found) < min(surplus, AT_ONCE):
            ended, key = heappop(self.order)
            known = self.informer.get(key)
            if known is not None and end_of(known) == ended and key not in self.leaving:
                found.append(known)
        self.leaving.update(f"{one.namespace}/{one.name}" for one in found)
        return found

    def put_back(self, one: T) -> None:
        """Consider an object again that could not be deleted."""
        ended, key = end_of(one), f"{one.namespace}/{one.name}"
        self.leaving.discard(key)
        if ended is not None:
            heappush(self.order, (ended, key))


class Retention:
    """Deletes the oldest ended objects when there are too many."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        jobs: Informer[Job],
        pods: Informer[Pod],
        *,
        most_jobs: int | None = JOBS_KEPT,
        most_pods: int | None = PODS_KEPT,
    ) -> None:
        self.kube = kube
        self.controller = Controller("retention", self.reconcile, clock)
        self.jobs = Ended(jobs, most_jobs, self.controller)
        self.pods = Ended(pods, most_pods, self.controller)

    async def run(self) -> None:
        """Delete surplus objects until cancelled; others run the informers of Jobs and pods."""
        await self.jobs.informer.synced.wait()
        await self.pods.informer.synced.wait()
        await self.controller.run()

    async def reconcile(self, kind: str) -> float | None:
        """Delete the surplus of a kind."""
        if kind == str(self.jobs.informer.resource):
            await asyncio.gather(*(self.delete(self.jobs, job) for job in self.jobs.oldest()))
        else:
            await asyncio.gather(*(self.delete(self.pods, pod) for pod in self.pods.oldest()))
        return None

    async def delete(self, ended: Ended[T], one: T) -> None:
        """Delete an object at the version that was seen."""
        try:
            await self.kube.delete(ended.informer.resource, one.name, one.namespace, version=str(one.version))
        except NotFoundError:
            return
        except ConflictError:
            ended.put_back(one)
        except KubeError:
            ended.put_back(one)
            raise
