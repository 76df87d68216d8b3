"""Carries out decisions as writes to Workloads, and reports to the engine whether each was stored or refused.

The engine decides on assumed state while writes are in flight. Three rules keep what is stored correct: the decisions
on one Workload are written in order; a decision that takes quota is written after the releases that it names; and a
write without an answer is read back before anything else is written to its Workload.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, TypeGuard

from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload, held
from pykueue.base.units import MICROS, Instant
from pykueue.bridge import inbound
from pykueue.bridge.decisionevents import PREEMPTED, REPORTER, notes, preemptor
from pykueue.bridge.outbound import StatusBuilder, StatusWrite, slice_of
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.events import owner, ref
from pykueue.controllers.metrics.metrics import Metrics
from pykueue.controllers.pendingreasons import WRITE_AFTER, PendingReasons
from pykueue.controllers.workloadfacts import WorkloadFacts
from pykueue.controllers.writebackoff import WriteBackoff
from pykueue.engine import model
from pykueue.engine.assume import after
from pykueue.engine.decisions import Admit, Deactivate, Decision, Evict, GatedBy, GatesCleared, Reserve, Unreserve, Wait
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Refused, Seen, Written
from pykueue.engine.record.explain import preempted_for
from pykueue.kube.informer import version_of
from pykueue.kube.port import (
    WORKLOADS,
    ConflictError,
    KubeError,
    NotFoundError,
    NotLeadingError,
    UnansweredError,
)

LOG: Final = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""Writes at a time; more would only wait in the server."""
ENOUGH: Final = 4
"""While more writes than this are in flight, nothing is decided: quota would be promised to workloads that are written
much later, and a more important workload that is created meanwhile would have to preempt them. A busy cluster thereby
decides on more workloads at a time.
"""
REBASES: Final = 5
"""How often a write is repeated when others keep changing its Workload."""
PAUSE: Final = MICROS // 5
LATENCY_WRITES: Final = 16
"""About how many writes the average of their duration covers."""


class QueuedWrite:
    """A decision to be written, and the writes that it waits for."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.waits_for: tuple[asyncio.Future[bool], ...] = ()
        self.stored: asyncio.Future[bool] | None = None
        """Whether it was stored, for the writes that wait for it; None if it gives no quota back."""


class WriteQueue:
    """The writes on one Workload: those in flight, and those that follow."""

    def __init__(self, base: model.Workload, version: int) -> None:
        self.base = base
        """The level of the stored Workload, before the next write."""
        self.version = version
        """The version of the Workload that the base is the level of."""
        self.stored = False
        """Whether the last write was stored, and the base is its result."""
        self.queued: list[QueuedWrite] = []
        self.in_flight: list[QueuedWrite] = []

    def releases(self) -> Iterator[asyncio.Future[bool]]:
        """One future for each write that is not stored yet and gives quota back."""
        for queued in (*self.in_flight, *self.queued):
            if queued.stored is not None and not queued.stored.done():
                yield queued.stored

    def batch(self) -> list[QueuedWrite]:
        """Take the queued writes of the next request: the first, and those behind it that wait for no other write."""
        taken: list[QueuedWrite] = []
        while self.queued:
            first = self.queued[0]
            if taken and not all(future.done() for future in first.waits_for):
                break
            taken.append(self.queued.pop(0))
            # The reason of a deactivation is stored before the deactivation itself, and that before the eviction.
            if isinstance(first.decision, Deactivate):
                break
        self.in_flight = taken
        return taken


class DecisionWrites:
    """Writes all decisions, those on different Workloads at the same time."""

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        engine: Engine,
        reasons: PendingReasons,
        backoff: WriteBackoff,
        facts: WorkloadFacts,
    ) -> None:
        self.cluster = cluster
        self.metrics = metrics
        self.engine = engine
        self.reasons = reasons
        self.backoff = backoff
        self.facts = facts
        self.slots = asyncio.Semaphore(AT_ONCE)
        self.sending = 0
        """Requests in flight, or waiting for a slot."""
        self.accepts_more = asyncio.Event()
        """Set while there are few enough of them to decide on more."""
        self.accepts_more.set()
        self.latency = 0
        """Microseconds that recent writes took, on average."""
        self.queues: dict[str, WriteQueue] = {}
        """The Workloads that are being written, by key."""
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self.queues

    @property
    def is_busy(self) -> bool:
        """Whether many requests are in flight."""
        return self.sending >= ENOUGH

    def left_alone_until(self, key: str) -> Instant | None:
        """Until when no further write on a Workload is started; None if one may be started now."""
        if key in self.queues:
            # The writes in flight include the reason to wait, unless they end before.
            return Instant(self.cluster.clock.now() + WRITE_AFTER)
        return self.backoff.until(key)

    def add(self, decision: Decision) -> None:
        """Write a decision, now or, if it can be postponed, later."""
        queue = self.queues.get(decision.workload)
        if queue is None:
            if can_be_postponed(decision):
                self.postpone(decision)
                return
            queue = self.start(decision.workload)
        queued = QueuedWrite(decision)
        match decision:
            case Admit(after=names) | Reserve(after=names):
                earlier = [self.queues[name] for name in names if name in self.queues]
                queued.waits_for = tuple(future for one in earlier for future in one.releases())
            case Unreserve() | Deactivate():
                queued.stored = asyncio.get_running_loop().create_future()
            case _:
                pass
        queue.queued.append(queued)

    def postpone(self, wait: Wait) -> None:
        """Write later why a workload waits, if it still does then; the engine does not wait for that."""
        seen = self.cluster.workloads.get(wait.workload)
        written = None if seen is None else inbound.waiting({c.type: c for c in seen.status.conditions})
        self.reasons.decide(wait, written)
        self.facts.observe(Written(wait.workload))

    def start(self, key: str) -> WriteQueue:
        """Start to write a Workload: the reason why it waits, if there is one to write, and what is queued."""
        item = self.engine.item(key)
        assert item is not None, f"{key}: a decision is about a workload that the engine knows"
        queue = self.queues[key] = WriteQueue(item.confirmed or item.workload, item.version)
        task = self.tasks[key] = asyncio.get_running_loop().create_task(self.run(key, queue), name=f"write {key}")
        # A task that is cancelled before its first step never enters its `try` block.
        task.add_done_callback(lambda _: self.finish(key, queue))
        return queue

    def abandon(self) -> None:
        """Stop writing at once: another process may lead by now."""
        for task in self.tasks.values():
            task.cancel()

    def retry_backed_off(self) -> Instant | None:
        """Pass Workloads whose backoff has ended to the engine; returns when the next backoff ends."""
        for key in self.backoff.end_due():
            seen = self.cluster.workloads.get(key)
            if seen is not None and key not in self.queues:
                self.facts.see(key, seen)
        return self.backoff.next_end()

    async def run(self, key: str, queue: WriteQueue) -> None:
        """Write until nothing is queued for a Workload, or a write fails."""
        try:
            batch = queue.batch()
            while True:
                if not await self.write(key, queue, batch):
                    break
                self.resolve(batch, stored=True)
                batch = queue.batch()
                waits = [queued.decision for queued in batch if can_be_postponed(queued.decision)]
                if len(waits) == len(batch) and not queue.queued:
                    for wait in waits:
                        self.postpone(wait)
                    break
        except Exception as error:
            LOG.exception("decisions: cannot write, will retry", extra={"object": key})
            self.backoff.start(
                key, f"internal error while writing a decision: {error!r}; the manager logs it and retries"
            )
        finally:
            self.finish(key, queue)

    def finish(self, key: str, queue: WriteQueue) -> None:
        """End the writes on a Workload: pass refusals and the present Workload to the engine."""
        if self.queues.get(key) is not queue:
            return
        del self.queues[key]
        del self.tasks[key]
        self.reasons.write_ended(key, self.cluster.clock.now())
        self.resolve(queue.in_flight, stored=False)
        self.resolve(queue.queued, stored=False)
        item = self.engine.item(key)
        if item is not None and item.in_flight:
            self.facts.observe(Refused(key))
        seen = self.cluster.workloads.get(key)
        if seen is None:
            return
        self.reasons.see(key, seen, self.cluster.clock.now())
        if queue.stored and version_of(seen) == queue.version:
            # Our last write was the last change, and its result is read already.
            self.facts.observe(Seen(queue.base, queue.version))
        else:
            self.facts.see(key, seen)

    def resolve(self, writes: list[QueuedWrite], *, stored: bool) -> None:
        """Tell the writes that wait for these whether they were stored."""
        for queued in writes:
            if queued.stored is not None and not queued.stored.done():
                queued.stored.set_result(stored)

    async def write(self, key: str, queue: WriteQueue, batch: list[QueuedWrite]) -> bool:
        """Write some decisions; returns whether they were stored."""
        for future in [future for queued in batch for future in queued.waits_for]:
            if not await asyncio.shield(future):
                # The quota was not given back; the engine decides again who gets it.
                return False
        wait = self.reasons.take(key)
        decisions = [queued.decision for queued in batch]
        settles = any(isinstance(decision, Admit | Reserve | Unreserve) for decision in decisions)
        waits = [wait] if wait is not None and not settles else []
        queue.stored = False
        stored = queue.stored = await self.try_to_write(key, queue, waits, decisions)
        if not stored and waits:
            self.reasons.again(waits[0], self.cluster.clock.now())
        return stored

    async def try_to_write(self, key: str, queue: WriteQueue, waits: list[Wait], decisions: list[Decision]) -> bool:
        """Write decisions, again if another client changes the Workload first; returns whether they were stored."""
        silence: UnansweredError | None = None
        for _ in range(REBASES):
            seen = self.cluster.workloads.get(key)
            if seen is None or seen.metadata.uid != queue.base.uid:
                return False
            if held(seen, WorkloadCondition.FINISHED) is not None:
                # Only part of a finished Workload is kept, and no status may be written from that.
                return False
            if version_of(seen) != queue.version and standing(self.facts.level(key, seen)) != standing(queue.base):
                # It has changed since this was decided.
                return False
            builder = StatusBuilder(seen, queue.base, self.cluster.settings.options)
            for decision in (*waits, *decisions):
                builder.write(decision)
            try:
                found = await self.send(key, seen, builder.finish())
            except ConflictError:
                if not await self.read_again(key):
                    return False
                continue
            except UnansweredError as error:
                silence = error
                await self.pause()
                continue
            except (NotFoundError, NotLeadingError):
                # The engine soon observes that the Workload was deleted, or that this process no longer leads.
                await self.pause()
                return False
            except KubeError as error:
                LOG.error("decisions: write refused error=%s", error, extra={"object": key})
                self.backoff.start(key, f"the API server refused our write: {error.message or error.reason}")
                return False
            self.backoff.clear(key)
            self.report(queue.base, [*waits, *decisions], seen, version=version_of(found), observed=waits)
            queue.base, queue.version = self.facts.level(key, found), version_of(found)
            return True
        if silence is not None:
            self.backoff.start(key, f"the API server does not take our write: {silence.message or silence.reason}")
            return False
        LOG.warning("decisions: Workload keeps changing, deciding again", extra={"object": key})
        await self.pause()
        return False

    async def pause(self) -> None:
        """Wait a moment before the next attempt."""
        await self.cluster.clock.sleep(PAUSE)

    async def send(self, key: str, seen: Workload, steps: list[StatusWrite]) -> Workload:
        """The Workload once these steps are stored; a step without an answer is read back."""
        for step in steps:
            try:
                seen = await self.take_step(seen, step)
            except UnansweredError as error:
                LOG.warning("decisions: no response, reading the Workload back error=%s", error, extra={"object": key})
                fresh = await self.read_back(key)
                done = not fresh.spec.active if step.status is None else slice_of(fresh) == step.status
                if not done:
                    raise
                seen = fresh
        return seen

    async def take_step(self, seen: Workload, step: StatusWrite) -> Workload:
        """The Workload once a step is stored; waits for a slot first."""
        writes = self.cluster.writes
        self.sending += 1
        if self.sending > ENOUGH:
            self.accepts_more.clear()
        try:
            async with self.slots:
                began = self.cluster.clock.moment()
                try:
                    return await (
                        writes.deactivate(seen) if step.status is None else writes.admission(seen, step.status)
                    )
                finally:
                    self.latency += (self.cluster.clock.moment() - began - self.latency) // LATENCY_WRITES
        finally:
            self.sending -= 1
            if self.sending <= ENOUGH:
                self.accepts_more.set()

    async def read_back(self, key: str) -> Workload:
        """The Workload as the server has it; asks until there is an answer."""
        namespace, _, name = key.partition("/")
        while True:
            try:
                return self.cluster.workloads.learn(await self.cluster.kube.get(WORKLOADS, name, namespace))
            except UnansweredError:
                await self.pause()

    async def read_again(self, key: str) -> bool:
        """Read a Workload that another client has changed; returns whether it could be read."""
        try:
            await self.read_back(key)
        except NotFoundError:
            return False
        except (KubeError, ValueError) as error:
            self.backoff.start(key, f"it has changed, and cannot be read: {error}")
            return False
        return True

    def report(
        self, level: model.Workload, decisions: list[Decision], seen: Workload, *, version: int, observed: list[Wait]
    ) -> None:
        """Confirm to the engine that decisions on a Workload of this level were stored; record events and metrics.

        Those in `observed` are not passed to the engine: it observed them when they were postponed.
        """
        for decision in decisions:
            if decision not in observed:
                self.facts.observe(Written(decision.workload, version))
            by = None
            if isinstance(decision, Evict) and decision.preemption is not None:
                by = self.engine.workload(decision.by)
                preempting = "" if by is None else self.engine.queue_of(by)
                self.metrics.preempted(preempting, decision.preemption)
                self.report_preemption(decision, seen, preempting)
            settings = self.cluster.settings
            for note in notes(decision, seen, level, by, settings.options, merged=settings.merged_events):
                about = self.cluster.workloads.get(note.workload)
                if about is not None:
                    record = self.cluster.events.warning if note.warning else self.cluster.events.normal
                    record(ref(WORKLOADS, about.metadata), note.reason, note.text, note.reporter)
            level = after(level, decision)

    def report_preemption(self, decision: Evict, seen: Workload, queue: str) -> None:
        """Record on the preempted Job which Job preempted it: Kueue's own event names only a UID."""
        about, workloads = owner(seen.metadata), self.cluster.workloads
        if about is not None:
            by = workloads.get(decision.by)
            job = None if by is None else owner(by.metadata)
            kind, name = ("", "") if job is None else (job.kind, job.name)
            who = preemptor(decision.by, kind, name, seen.namespace)
            note = preempted_for(who, decision.preemption, queue)
            self.cluster.events.normal(about, PREEMPTED, note, REPORTER, by_note=True)


def can_be_postponed(decision: Decision) -> TypeGuard[Wait]:
    """Whether a decision only says why a workload waits; what it says about admission gates is written at once."""
    return isinstance(decision, Wait) and not isinstance(decision.why, GatedBy | GatesCleared)


def standing(level: model.Workload) -> tuple[object, ...]:
    """The parts of a Workload that a decision depends on; if one of them changes, it must be decided again."""
    return (
        level.uid,
        level.generation,
        level.active,
        level.finished,
        level.gated_by,
        level.on_hold,
        level.replacing,
        None if level.admission is None else level.admission.queue,
        level.admitted_at is None,
        None if level.evicted is None else level.evicted.reason,
        level.requeued,
        level.deactivation,
        tuple((check.name, check.state) for check in level.checks),
    )
