"""Writes the status and the finalizers of queues, cohorts, flavors and checks.

Changes of workloads are gathered for a second, for up to ten where many queues change at once, and for up to a minute
while these writes would take more than a fifth of the time. On a busy API server their durations are added up, although
several run at once. Only differences are written; unchanged objects are not examined.
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
from pykueue.base.units import MICROS, Instant
from pykueue.bridge import statuses
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.metadatawrites import set_metadata
from pykueue.controllers.workloadwrites import MANAGER
from pykueue.controllers.writebackoff import DELAY_MICROS_MAX, delay_after
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
"""The delay of the write after an edit of a queue, so that other informers see the edit too."""
GATHER_MICROS: Final = MICROS
GATHER_MICROS_MAX: Final = 10 * MICROS
WRITES_PER_SECOND: Final = 6
"""With more writes than this, changes are collected for longer, up to the limit above."""
WRITERS: Final = 8
ONE_PART_IN: Final = 5
"""These writes take at most one part in this many of the time."""
BUSY_MICROS: Final = MICROS // 20
"""If a write takes longer than this on average, the API server is busy."""


class Decider(Protocol):
    """The owner of the engine."""

    @property
    def engine(self) -> Engine:
        """The engine whose counts are written."""


class Task(Frozen):
    """The writes to one object, in the version that was seen."""

    key: Key
    seen: KubeObject
    status: Tree = {}
    finalizers: tuple[str, ...] | None = None


class Marks:
    """The objects to check in the next round, in the order of their changes."""

    def __init__(self) -> None:
        self.keys: dict[Key, None] = {}
        self.some = asyncio.Event()
        self.changes = 0
        """How many objects were added in total, to detect additions."""
        self.rounds = 0

    def add(self, resource: Resource, key: str) -> None:
        """Add an object to the next round."""
        self.keys[resource, key] = None
        self.changes += 1
        self.some.set()

    def take(self) -> list[Key]:
        """Return the objects of this round, and clear them."""
        found, self.keys = list(self.keys), {}
        self.rounds += 1
        self.some.clear()
        return found


class Statuses:
    """Watches everything that the status of queues depends on, and writes the status."""

    def __init__(self, cluster: Cluster, pump: Decider) -> None:
        self.cluster = cluster
        self.pump = pump
        self.soon = Marks()
        self.later = Marks()
        self.own: Key | None = None
        """The object whose own write is being applied to the informer."""
        self.shares_round = -1
        """The last round of `later` in which every share is computed again."""
        self.logged_errors: dict[Key, str] = {}
        self.informers: dict[Resource, Informer[KubeObject]] = {}
        cluster.workloads.listen(self.workload_changed)
        self.follow(CLUSTER_QUEUES, cluster.cluster_queues)
        self.follow(LOCAL_QUEUES, cluster.local_queues)
        self.follow(COHORTS, cluster.cohorts)
        self.follow(RESOURCE_FLAVORS, cluster.flavors)
        self.follow(ADMISSION_CHECKS, cluster.checks)

    def follow(self, resource: Resource, informer: Informer[T]) -> None:
        """Handle every change of a kind."""

        def changed(change: Change[T]) -> None:
            key = (resource, change.key)
            # The response to our write may include an edit by another client.
            if key != self.own or is_edited(change.old, change.new):
                self.changed(key, change.old, change.new)

        self.informers[resource] = informer  # type: ignore[assignment]  # only what all kinds share is read by kind
        informer.listen(changed)

    def workload_changed(self, change: Change[Workload]) -> None:
        """Mark the queues of a changed workload, including those that it left."""
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
                self.usage_changed(admission.cluster_queue)

    def usage_changed(self, queue: str) -> None:
        """Mark the cohorts whose shares the usage of a ClusterQueue changes."""
        engine = self.pump.engine
        if engine.options.fair_sharing:
            for cohort in tally.cohorts_above(engine, queue):
                self.later.add(COHORTS, cohort)

    def quota_changed(self) -> None:
        """Mark everything that has a share: quota and weights anywhere in a tree may change all its shares.

        What is added later in the same round is marked by its own change.
        """
        if not self.pump.engine.options.fair_sharing or self.shares_round == self.later.rounds:
            return
        self.shares_round = self.later.rounds
        for name, queue in self.cluster.cluster_queues.objects.items():
            if queue.spec.cohort_name:
                self.later.add(CLUSTER_QUEUES, name)
        for name in self.cluster.cohorts.objects:
            self.later.add(COHORTS, name)

    def changed(self, key: Key, old: KubeObject | None, new: KubeObject | None) -> None:
        """Mark an object that was added, changed or deleted, and the objects that depend on it."""
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
                self.quota_changed()
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
                self.quota_changed()
        for queue in affected:
            self.later.add(CLUSTER_QUEUES, queue)
            for local_queue in self.pump.engine.local_queues_of(queue):
                self.later.add(LOCAL_QUEUES, local_queue)
                if resource is CLUSTER_QUEUES:
                    self.soon.add(LOCAL_QUEUES, local_queue)

    def recheck_terminating(self) -> None:
        """Mark flavors and checks being deleted that a ClusterQueue used: it may have been their last user."""
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
        """The ClusterQueues that require an AdmissionCheck."""
        return [
            name
            for name, queue in self.cluster.cluster_queues.objects.items()
            if queue.spec.admission_checks_strategy is not None
            and any(rule.name == check for rule in queue.spec.admission_checks_strategy.admission_checks)
        ]

    async def run(self) -> None:
        """Write changed status until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.keep(self.soon, PROMPT_MICROS, PROMPT_MICROS, PROMPT_MICROS))
            tasks.create_task(self.keep(self.later, GATHER_MICROS, GATHER_MICROS_MAX, DELAY_MICROS_MAX))
            sharing = self.pump.engine.options.admission_fair_sharing
            if sharing is not None:
                tasks.create_task(self.publish_past_use(sharing.sampling_micros))

    async def publish_past_use(self, interval: int) -> None:
        """Mark all LocalQueues at the beginning of each sampling interval, because their past use changes with time."""
        clock = self.cluster.clock
        while True:
            await clock.sleep_until(Instant((clock.now() // interval + 1) * interval))
            for key in self.cluster.local_queues.objects:
                self.later.add(LOCAL_QUEUES, key)

    async def keep(self, marks: Marks, pause: int, longest: int, slowest: int) -> None:
        """Run rounds of writes; each starts a while after its first change, or once changes stop.

        The delay is at most `longest`, or `slowest` if the writes take long.
        """
        clock = self.cluster.clock
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
            began = clock.moment()
            written, together = await self.write_all(self.tasks(marks.take()))
            took = clock.moment() - began
            if together > written * BUSY_MICROS:
                took = together
            delay = max(
                pause, min(longest, written * MICROS // WRITES_PER_SECOND), min(slowest, delay_after(took, ONE_PART_IN))
            )

    async def rest(self, micros: int) -> None:
        """Sleep for a number of microseconds."""
        clock = self.cluster.clock
        await clock.sleep(micros)

    def may_write(self) -> bool:
        """Whether this process leads, and the engine has placed every workload."""
        engine = self.pump.engine
        return engine.synced and engine.leading and (engine.now > 0 or engine.is_settled)

    def tasks(self, keys: Iterable[Key]) -> Iterator[Task]:
        """The writes to these objects, computed lazily.

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
                yield from self.task_or_log(resource, key, None)
        for queue, local_queues in behind.items():
            counted = tally.of_local_queues(engine, queue) if len(local_queues) > 1 else {}
            for key in local_queues:
                yield from self.task_or_log(LOCAL_QUEUES, key, counted.get(key))

    def task_or_log(self, resource: Resource, key: str, counted: tally.Tally | None) -> Iterator[Task]:
        """The task for one object, if any; an internal error with one object does not affect the others."""
        seen = self.informers[resource].get(key)
        if seen is None:
            return
        try:
            task = self.task((resource, key), seen, counted)
        except Exception:
            LOG.exception(
                "status: cannot compute the status kind=%s name=%s", resource.kind, key, extra={"object": key}
            )
            return
        if task.status or task.finalizers is not None:
            yield task

    def task(self, key: Key, seen: KubeObject, counted: tally.Tally | None) -> Task:
        """The writes to an object; the counts of a LocalQueue may be given."""
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
                return Task(key, seen, statuses.cohort(seen, engine))
            case AdmissionCheck():
                in_use = tally.uses_check(engine, seen.name)
                return Task(key, seen, statuses.admission_check(seen, now), self.finalizers(key, seen, in_use))
            case _:
                return Task(key, seen, {}, self.finalizers(key, seen, tally.uses_flavor(engine, seen.name)))

    def finalizers(self, key: Key, seen: KubeObject, in_use: bool) -> tuple[str, ...] | None:
        """The finalizers of an object: with ours, until it is being deleted and not in use; None if they are right."""
        metadata = seen.metadata
        ours, known = str(Finalizer.RESOURCE_IN_USE), metadata.finalizers
        if metadata.deletion_timestamp is None:
            return None if ours in known else (*known, ours)
        if ours not in known or in_use:
            return None
        if not self.pump.engine.is_settled:
            # A user of it may not be counted yet.
            self.later.add(*key)
            return None
        return tuple(one for one in known if one != ours)

    async def write_all(self, tasks: Iterator[Task]) -> tuple[int, int]:
        """Carry out tasks concurrently; returns their number, and the microseconds that all of them took together."""
        clock = self.cluster.clock
        done = took = 0

        async def work() -> None:
            nonlocal done, took
            for task in tasks:
                began = clock.moment()
                await self.write(task)
                took += clock.moment() - began
                done += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(work())
        return done, took

    async def write(self, task: Task) -> None:
        """Carry out one task; schedules a retry if the error may be temporary."""
        resource, name = task.key
        try:
            version = task.seen.metadata.resource_version
            if task.finalizers is not None:
                version = await self.finalize(task, task.finalizers)
            if task.status and (task.finalizers is None or task.seen.metadata.deletion_timestamp is None):
                # A merge patch replaces the whole list, so it must not have changed since.
                await self.send(task, {"resourceVersion": version} if "conditions" in task.status else {})
        except NotFoundError:
            LOG.debug("status: object deleted kind=%s name=%s", resource.kind, name, extra={"object": name})
        except (RejectedError, DeniedError) as error:
            # A retry would fail in the same way; the next change may succeed.
            if self.logged_errors.get(task.key) != str(error):
                self.logged_errors[task.key] = str(error)
                LOG.error(
                    "status: cannot write kind=%s name=%s error=%s", resource.kind, name, error, extra={"object": name}
                )
        except KubeError as error:
            level = logging.DEBUG if isinstance(error, ConflictError | NotLeadingError) else logging.WARNING
            LOG.log(
                level,
                "status: write failed, will retry kind=%s name=%s error=%s",
                resource.kind,
                name,
                error,
                extra={"object": name},
            )
            self.later.add(*task.key)
        else:
            self.logged_errors.pop(task.key, None)

    async def finalize(self, task: Task, finalizers: tuple[str, ...]) -> str | None:
        """Set the finalizers; returns the new version of the object."""
        (resource, _), seen = task.key, task.seen
        changes: Tree = {"finalizers": list(finalizers) or None}
        preconditions: Tree = {"uid": seen.metadata.uid, "resourceVersion": seen.metadata.resource_version}
        raw = await set_metadata(self.cluster.kube, resource, seen.name, seen.namespace, changes, preconditions)
        return self.learn(task, raw)

    async def send(self, task: Task, metadata: Tree) -> str | None:
        """Patch the status with this metadata and the UID as preconditions; returns the new version of the object."""
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
        """Apply the response to our write to the informer without marking the object again; returns its version."""
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
