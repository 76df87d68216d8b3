"""Writes the status and the finalizers of queues, cohorts, flavors and checks.

Changes of workloads are gathered for a second, and longer where many queues change at once, so that a busy cluster
costs a bounded number of writes. Only differences are written; unchanged objects are not examined.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from pykueue.api.checks import AdmissionCheck
from pykueue.api.core import KubeObject, Tree
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from pykueue.api.names import Finalizer
from pykueue.api.workload import Workload
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS
from pykueue.bridge import statuses
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.metadatawrites import set_metadata
from pykueue.controllers.workloadwrites import MANAGER
from pykueue.engine.engine import Engine
from pykueue.engine.record import tally
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    ConflictError,
    DeniedError,
    KubeError,
    NotFoundError,
    NotLeadingError,
    Patch,
    RejectedError,
    Resource,
)

LOG: Final = logging.getLogger(__name__)

Key: TypeAlias = tuple[Resource, str]
"""An object, by its kind and its key in the informer of that kind."""
T = TypeVar("T", bound=KubeObject)

PROMPT_MICROS: Final = 20_000
"""An edit of a queue is answered at once, but for a moment in which others hear of it too."""
GATHER_MICROS: Final = MICROS
GATHER_MICROS_MAX: Final = 10 * MICROS
WRITES_PER_SECOND: Final = 6
"""Beyond so many writes, changes are gathered for longer, up to the limit above."""
WRITERS: Final = 8


class Decider(Protocol):
    """Whoever runs the engine."""

    @property
    def engine(self) -> Engine:
        """What we know, and what we assume."""


class Task(Frozen):
    """What is to be written about an object that was seen like this."""

    key: Key
    seen: KubeObject
    status: Tree = {}
    finalizers: tuple[str, ...] | None = None


class Marks:
    """The objects to look at, in the order in which they changed."""

    def __init__(self) -> None:
        self.keys: dict[Key, None] = {}
        self.some = asyncio.Event()
        self.changes = 0
        """How often something was marked, so that it shows whether anything was since."""

    def add(self, resource: Resource, key: str) -> None:
        """Look at this object in the next round."""
        self.keys[resource, key] = None
        self.changes += 1
        self.some.set()

    def take(self) -> list[Key]:
        """What to look at now; the next round begins empty."""
        found, self.keys = list(self.keys), {}
        self.some.clear()
        return found


class Statuses:
    """Watches what the status of queues depends on, and writes it."""

    def __init__(self, cluster: Cluster, pump: Decider) -> None:
        self.cluster = cluster
        self.pump = pump
        self.soon = Marks()
        self.later = Marks()
        self.own: Key | None = None
        """The object that we have just written ourselves."""
        self.logged_errors: dict[Key, str] = {}
        self.informers: dict[Resource, Informer[KubeObject]] = {}
        cluster.workloads.listen(self.workload_changed)
        self.follow(CLUSTER_QUEUES, cluster.cluster_queues)
        self.follow(LOCAL_QUEUES, cluster.local_queues)
        self.follow(COHORTS, cluster.cohorts)
        self.follow(RESOURCE_FLAVORS, cluster.flavors)
        self.follow(ADMISSION_CHECKS, cluster.checks)

    def follow(self, resource: Resource, informer: Informer[T]) -> None:
        """Hear of every change of a kind."""

        def heard(change: Change[T]) -> None:
            key = (resource, change.key)
            # The answer to a write of ours may bring what someone else has edited just before.
            if key != self.own or is_edited(change.old, change.new):
                self.changed(key, change.old, change.new)

        self.informers[resource] = informer  # type: ignore[assignment]  # only what all kinds share is read by kind
        informer.listen(heard)

    def workload_changed(self, change: Change[Workload]) -> None:
        """A workload counts in its queues; also in those that it has left."""
        for seen in (change.old, change.new):
            if seen is None:
                continue
            local = f"{seen.metadata.namespace}/{seen.spec.queue_name}"
            self.later.add(LOCAL_QUEUES, local)
            admission = seen.status.admission
            known = self.pump.engine.local_queue(local)
            if known is not None:
                self.later.add(CLUSTER_QUEUES, known.queue)
            if admission is not None and admission.cluster_queue:
                self.later.add(CLUSTER_QUEUES, admission.cluster_queue)

    def changed(self, key: Key, old: KubeObject | None, new: KubeObject | None) -> None:
        """An object that is no workload is different, is new, or is gone."""
        resource, name = key
        edited = is_edited(old, new)
        if new is None:
            self.logged_errors.pop(key, None)
        else:
            (self.soon if edited else self.later).add(resource, name)
        if not edited and resource is not ADMISSION_CHECKS:
            return
        affected: Iterable[str] = ()
        match new or old:
            case ClusterQueue():
                affected = (name,)
                self.recheck_terminating()
            case LocalQueue() as local:
                self.later.add(LOCAL_QUEUES, name)
                self.later.add(CLUSTER_QUEUES, local.spec.cluster_queue or "")
            case ResourceFlavor():
                affected = self.queues_with_flavor(name)
            case AdmissionCheck():
                affected = self.queues_with_check(name)
            case Cohort():
                queues = self.cluster.cluster_queues.objects
                affected = [queue for queue, seen in queues.items() if seen.spec.cohort_name]
        for queue in affected:
            self.later.add(CLUSTER_QUEUES, queue)
            for local_queue in self.pump.engine.local_queues_of(queue):
                self.later.add(LOCAL_QUEUES, local_queue)
                if resource is CLUSTER_QUEUES:
                    self.soon.add(LOCAL_QUEUES, local_queue)

    def recheck_terminating(self) -> None:
        """A ClusterQueue has changed: flavors and checks that are to go may be free of their last user."""
        for flavor in self.cluster.flavors.objects.values():
            if flavor.metadata.deletion_timestamp is not None:
                self.later.add(RESOURCE_FLAVORS, flavor.name)
        for check in self.cluster.checks.objects.values():
            if check.metadata.deletion_timestamp is not None:
                self.later.add(ADMISSION_CHECKS, check.name)

    def queues_with_flavor(self, flavor: str) -> list[str]:
        """The ClusterQueues that have quota in a flavor."""
        return [
            name
            for name, queue in self.cluster.cluster_queues.objects.items()
            if any(one.name == flavor for group in queue.spec.resource_groups for one in group.flavors)
        ]

    def queues_with_check(self, check: str) -> list[str]:
        """The ClusterQueues that demand an AdmissionCheck."""
        return [
            name
            for name, queue in self.cluster.cluster_queues.objects.items()
            if queue.spec.admission_checks_strategy is not None
            and any(rule.name == check for rule in queue.spec.admission_checks_strategy.admission_checks)
        ]

    async def run(self) -> None:
        """Write what differs, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.keep(self.soon, PROMPT_MICROS, PROMPT_MICROS))
            tasks.create_task(self.keep(self.later, GATHER_MICROS, GATHER_MICROS_MAX))

    async def keep(self, marks: Marks, pause: int, longest: int) -> None:
        """Round after round, each some time after the first change in it, or as soon as nothing changes any more."""
        delay = pause
        while True:
            await marks.some.wait()
            waited, before = 0, -1
            while waited < delay and marks.changes != before:
                before = marks.changes
                await self.rest(pause)
                waited += pause
            if not self.may_write():
                delay = GATHER_MICROS
                continue
            written = await self.write_all(self.tasks(marks.take()))
            delay = max(pause, min(longest, written * MICROS // WRITES_PER_SECOND))

    async def rest(self, micros: int) -> None:
        """Wait so long."""
        clock = self.cluster.clock
        await clock.sleep(micros)

    def may_write(self) -> bool:
        """Whether we lead, and the engine has put everyone in their place at least once."""
        engine = self.pump.engine
        return engine.synced and engine.leading and (engine.now > 0 or engine.is_settled)

    def tasks(self, keys: Iterable[Key]) -> Iterator[Task]:
        """What is to be written about these objects, worked out when it is asked for.

        All LocalQueues of one ClusterQueue are counted together, so that many of them cost no more than one.
        """
        engine = self.pump.engine
        behind: dict[str, list[str]] = {}
        for resource, key in keys:
            if resource is LOCAL_QUEUES:
                local = engine.local_queue(key)
                if local is not None:
                    behind.setdefault(local.queue, []).append(key)
            else:
                yield from self.carefully(resource, key, None)
        for queue, local_queues in behind.items():
            counted = tally.of_local_queues(engine, queue) if len(local_queues) > 1 else {}
            for key in local_queues:
                yield from self.carefully(LOCAL_QUEUES, key, counted.get(key))

    def carefully(self, resource: Resource, key: str, counted: tally.Tally | None) -> Iterator[Task]:
        """The task for one object, if there is any; a mistake of ours with one must not cost the others theirs."""
        seen = self.informers[resource].get(key)
        if seen is None:
            return
        try:
            task = self.task((resource, key), seen, counted)
        except Exception:
            LOG.exception("%s %s: its status cannot be worked out", resource.kind, key, extra={"object": key})
            return
        if task.status or task.finalizers is not None:
            yield task

    def task(self, key: Key, seen: KubeObject, counted: tally.Tally | None) -> Task:
        """What is to be written about an object; a LocalQueue may have been counted already."""
        engine, now = self.pump.engine, self.cluster.clock.now()
        match seen:
            case ClusterQueue():
                in_use = tally.has_holders(engine, seen.name)
                return Task(key, seen, statuses.cluster_queue(seen, engine, now), self.finalizers(key, seen, in_use))
            case LocalQueue():
                if counted is None:
                    return Task(key, seen, statuses.local_queue(seen, engine, now))
                return Task(key, seen, statuses.local_queue_with(seen, engine, counted, now))
            case Cohort():
                return Task(key, seen, statuses.cohort(seen))
            case AdmissionCheck():
                in_use = tally.uses_check(engine, seen.name)
                return Task(key, seen, statuses.admission_check(seen, now), self.finalizers(key, seen, in_use))
            case _:
                return Task(key, seen, {}, self.finalizers(key, seen, tally.uses_flavor(engine, seen.name)))

    def finalizers(self, key: Key, seen: KubeObject, in_use: bool) -> tuple[str, ...] | None:
        """An object that may be in use has our finalizer; one that is to go, and is not in use, has it no more.

        None where nothing is to change.
        """
        metadata = seen.metadata
        ours, known = str(Finalizer.RESOURCE_IN_USE), metadata.finalizers
        if metadata.deletion_timestamp is None:
            return None if ours in known else (*known, ours)
        if ours not in known or in_use:
            return None
        if not self.pump.engine.is_settled:
            # Someone who uses it may not have been counted yet.
            self.later.add(*key)
            return None
        return tuple(one for one in known if one != ours)

    async def write_all(self, tasks: Iterator[Task]) -> int:
        """Write, a few at a time; how many tasks there were."""
        done = 0

        async def work() -> None:
            nonlocal done
            for task in tasks:
                done += 1
                await self.write(task)

        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(work())
        return done

    async def write(self, task: Task) -> None:
        """Carry out one task, or see to it that it is tried again where that is of use."""
        resource, name = task.key
        try:
            version = task.seen.metadata.resource_version
            if task.finalizers is not None:
                version = await self.finalize(task, task.finalizers)
            if task.status and (task.finalizers is None or task.seen.metadata.deletion_timestamp is None):
                # A list is replaced as a whole, so nobody may have written to it since we saw it.
                await self.send(task, {"resourceVersion": version} if "conditions" in task.status else {})
        except NotFoundError:
            LOG.debug("%s %s is gone", resource.kind, name, extra={"object": name})
        except (RejectedError, DeniedError) as error:
            # Sending it again is no use; the next change may be another matter.
            if self.logged_errors.get(task.key) != str(error):
                self.logged_errors[task.key] = str(error)
                LOG.error("%s %s: cannot be brought up to date: %s", resource.kind, name, error, extra={"object": name})
        except KubeError as error:
            level = logging.DEBUG if isinstance(error, ConflictError | NotLeadingError) else logging.WARNING
            LOG.log(level, "%s %s: %s; trying again", resource.kind, name, error, extra={"object": name})
            self.later.add(*task.key)
        else:
            self.logged_errors.pop(task.key, None)

    async def finalize(self, task: Task, finalizers: tuple[str, ...]) -> str | None:
        """The version of the object after its finalizers are set to these."""
        (resource, _), seen = task.key, task.seen
        changes: Tree = {"finalizers": list(finalizers) or None}
        preconditions: Tree = {"uid": seen.metadata.uid, "resourceVersion": seen.metadata.resource_version}
        raw = await set_metadata(self.cluster.kube, resource, seen.name, seen.namespace, changes, preconditions)
        return self.learn(task, raw)

    async def send(self, task: Task, metadata: Tree) -> str | None:
        """The version of the object after a patch of its status, with this metadata as preconditions beside the uid."""
        (resource, _), seen = task.key, task.seen
        body: Tree = {"metadata": {**metadata, "uid": seen.metadata.uid}, "status": task.status}
        raw = await self.cluster.kube.patch(
            resource,
            seen.name,
            msgspec.json.encode(body),
            seen.namespace,
            how=Patch.MERGE,
            subresource="status",
            manager=MANAGER,
        )
        return self.learn(task, raw)

    def learn(self, task: Task, raw: bytes) -> str | None:
        """The version of the object that was written, of which we need not hear again."""
        self.own = task.key
        try:
            return self.informers[task.key[0]].learn(raw).metadata.resource_version
        finally:
            self.own = None


def is_edited(old: KubeObject | None, new: KubeObject | None) -> bool:
    """Whether more than an object's status has changed."""
    if old is None or new is None:
        return True
    before, now = old.metadata, new.metadata
    return (before.uid, before.generation, before.deletion_timestamp, before.finalizers) != (
        now.uid,
        now.generation,
        now.deletion_timestamp,
        now.finalizers,
    )
