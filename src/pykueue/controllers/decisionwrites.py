"""How is a decision carried out? As writes on one Workload, each answered to the engine as stored or refused.

The engine decides on assumed state while writes are on their way. Three rules keep what is stored right all the same:
decisions on one Workload are written in their order; quota that a write gives back is handed out by no other write
before the first is stored; and a write without an answer is read back before anything more is said of its Workload.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, Protocol, TypeGuard

from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload, held
from pykueue.base.clock import instant_of
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, Moment
from pykueue.bridge.decisionevents import PREEMPTED, REPORTER, notes, preemptor
from pykueue.bridge.outbound import StatusBuilder, StatusWrite, slice_of
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.events import owner, ref
from pykueue.controllers.metrics.metrics import Metrics
from pykueue.controllers.pendingreasons import PendingReasons
from pykueue.engine import model
from pykueue.engine.assume import after
from pykueue.engine.decisions import Admit, Deactivate, Decision, Evict, GatedBy, GatesCleared, Reserve, Unreserve, Wait
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Refused, Seen, Written
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
"""While more writes than this are on their way, nothing is decided: quota would be promised to workloads whose turn to
be written is far off, and whoever matters more and comes meanwhile would have to preempt them. It also means that a
busy cluster decides on much at a time.
"""
REBASES: Final = 5
"""How often a write is tried anew when others keep changing its Workload."""
PAUSE: Final = MICROS // 5
SHUN_BASE: Final = MICROS
SHUN_MAX: Final = 300 * MICROS
DOUBLINGS_MAX: Final = 20
"""How long a Workload whose writes the server refuses is left alone: twice as long each time, within these bounds."""


class Ground(Protocol):
    """What the writes stand on: the pump."""

    cluster: Cluster
    engine: Engine
    metrics: Metrics
    reasons: PendingReasons

    def observe(self, fact: Fact) -> None:
        """Tell the engine a fact."""

    def see(self, key: str, seen: Workload) -> None:
        """Tell the engine what a Workload is like."""

    def keep_back(self, wait: Wait) -> None:
        """Say later why a workload waits, as the engine has just decided."""

    def level(self, key: str, seen: Workload) -> model.Workload:
        """A Workload as the engine is to see it."""


class QueuedWrite:
    """A decision to be written, what must be stored before it, and who waits for it to be."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.waits_for: tuple[asyncio.Future[bool], ...] = ()
        self.stored: asyncio.Future[bool] | None = None


class BackedOff(Frozen):
    """A Workload that is left alone for a while, and why; the reason is empty once the time is over."""

    why: str
    until: Moment
    tries: int


class Flight:
    """What is on its way for one Workload, and what is to follow."""

    def __init__(self, base: model.Workload, version: int) -> None:
        self.base = base
        """What is stored of it before the next of the queued writes, as far as we know."""
        self.version = version
        """The version of the Workload that this is the level of."""
        self.stored = False
        """Whether the last write was stored, and the base is what came of it."""
        self.queued: list[QueuedWrite] = []
        self.under_way: list[QueuedWrite] = []
        """Those that are being written."""

    def releases(self) -> Iterator[asyncio.Future[bool]]:
        """One future for each write that is not stored yet and gives quota back."""
        for queued in (*self.under_way, *self.queued):
            if queued.stored is not None and not queued.stored.done():
                yield queued.stored

    def batch(self) -> list[QueuedWrite]:
        """The queued writes of the next request: all in a row that need not wait for others once it has begun."""
        taken: list[QueuedWrite] = []
        while self.queued:
            first = self.queued[0]
            if taken and not all(future.done() for future in first.waits_for):
                break
            taken.append(self.queued.pop(0))
            # The reason of a deactivation is stored before the deactivation itself, and that before the eviction.
            if isinstance(first.decision, Deactivate):
                break
        self.under_way = taken
        return taken


class Flights:
    """All writes of decisions."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.slots = asyncio.Semaphore(AT_ONCE)
        self.sending = 0
        """Writes on their way, or waiting for a slot."""
        self.room = asyncio.Event()
        """Whether there are few enough of them to decide on more."""
        self.room.set()
        self.flights: dict[str, Flight] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.backed_off: dict[str, BackedOff] = {}

    def __contains__(self, key: object) -> bool:
        return key in self.flights

    @property
    def are_many(self) -> bool:
        """Whether the server has its hands full with us."""
        return self.sending >= ENOUGH

    def add(self, decision: Decision) -> None:
        """Have a decision written."""
        flight = self.flights.get(decision.workload) or self.begin(decision.workload)
        queued = QueuedWrite(decision)
        match decision:
            case Admit(after=names) | Reserve(after=names):
                flights = [self.flights[name] for name in names if name in self.flights]
                queued.waits_for = tuple(future for found in flights for future in found.releases())
            case Unreserve() | Deactivate():
                queued.stored = asyncio.get_running_loop().create_future()
            case _:
                pass
        flight.queued.append(queued)

    def begin(self, key: str) -> Flight:
        """Begin to write what is to be said of a Workload."""
        item = self.ground.engine.item(key)
        assert item is not None, f"{key}: a decision is about a workload that the engine knows"
        flight = self.flights[key] = Flight(item.confirmed or item.workload, item.version)
        task = self.tasks[key] = asyncio.get_running_loop().create_task(self.fly(key, flight), name=f"write {key}")
        # One that is cancelled before its first step has no end of its own.
        task.add_done_callback(lambda _: self.land(key, flight))
        return flight

    def abandon(self) -> None:
        """Stop writing at once: another process may lead by now."""
        for task in self.tasks.values():
            task.cancel()

    def pardon(self) -> Instant | None:
        """Try again the Workloads that were left alone long enough; when the next is due."""
        ground = self.ground
        now = ground.cluster.clock.moment()
        soonest: Moment | None = None
        for key, backed_off in list(self.backed_off.items()):
            if not backed_off.why:
                continue
            if backed_off.until > now:
                soonest = backed_off.until if soonest is None else min(soonest, backed_off.until)
                continue
            self.backed_off[key] = BackedOff("", backed_off.until, backed_off.tries)
            seen = ground.cluster.workloads.get(key)
            if seen is not None and key not in self.flights:
                ground.see(key, seen)
        return None if soonest is None else instant_of(ground.cluster.clock, soonest)

    async def fly(self, key: str, flight: Flight) -> None:
        """Write until nothing is left to be said of a Workload."""
        ground = self.ground
        try:
            batch = flight.batch()
            while True:
                if not await self.write(key, flight, batch):
                    break
                self.answer(batch, stored=True)
                batch = flight.batch()
                waits = [queued.decision for queued in batch if can_be_kept_back(queued.decision)]
                if len(waits) == len(batch) and not flight.queued:
                    # Why it waits can be told later, when more is known.
                    for wait in waits:
                        ground.keep_back(wait)
                    break
        except Exception as error:
            LOG.exception("what was decided could not be written", extra={"object": key})
            self.shun(key, f"our own mistake: {error!r}")
        finally:
            self.land(key, flight)

    def land(self, key: str, flight: Flight) -> None:
        """Nothing more is written of a Workload for now: what was not stored is taken back, and what is, is told."""
        if self.flights.get(key) is not flight:
            return
        ground = self.ground
        del self.flights[key]
        del self.tasks[key]
        self.answer(flight.under_way, stored=False)
        self.answer(flight.queued, stored=False)
        item = ground.engine.item(key)
        if item is not None and item.flying:
            ground.observe(Refused(key))
        seen = ground.cluster.workloads.get(key)
        if seen is None:
            return
        ground.reasons.see(key, seen, ground.cluster.clock.now())
        if flight.stored and version_of(seen) == flight.version:
            # It is as our last write left it, which was read then.
            ground.observe(Seen(flight.base, flight.version))
        else:
            ground.see(key, seen)

    def answer(self, writes: list[QueuedWrite], *, stored: bool) -> None:
        """Tell whoever waits whether decisions were stored."""
        for queued in writes:
            if queued.stored is not None and not queued.stored.done():
                queued.stored.set_result(stored)

    async def write(self, key: str, flight: Flight, batch: list[QueuedWrite]) -> bool:
        """Write some decisions; whether they were stored."""
        for future in [future for queued in batch for future in queued.waits_for]:
            if not await asyncio.shield(future):
                # The room that was to be given back was not; whoever was to have it is considered anew.
                return False
        ground = self.ground
        wait = ground.reasons.take(key)
        decisions = [queued.decision for queued in batch]
        settles = any(isinstance(decision, Admit | Reserve | Unreserve) for decision in decisions)
        said = [wait] if wait is not None and not settles else []
        flight.stored = False
        stored = flight.stored = await self.try_to_write(key, flight, said, decisions)
        if not stored and said:
            ground.reasons.again(said[0], ground.cluster.clock.now())
        return stored

    async def try_to_write(self, key: str, flight: Flight, said: list[Wait], decisions: list[Decision]) -> bool:
        """Write decisions, anew where someone else was faster; whether they were stored."""
        ground = self.ground
        silence: UnansweredError | None = None
        for _ in range(REBASES):
            seen = ground.cluster.workloads.get(key)
            if seen is None or seen.metadata.uid != flight.base.uid:
                return False
            if held(seen, WorkloadCondition.FINISHED) is not None:
                # Of one that is over only a husk is kept, and no write of a status may start from that.
                return False
            if version_of(seen) != flight.version and standing(ground.level(key, seen)) != standing(flight.base):
                # It has changed since this was decided.
                return False
            builder = StatusBuilder(seen, flight.base, ground.cluster.settings.options)
            for decision in (*said, *decisions):
                builder.write(decision)
            try:
                found = await self.send(key, seen, builder.finish())
            except ConflictError:
                if not await self.read_anew(key):
                    return False
                continue
            except UnansweredError as error:
                silence = error
                await self.pause()
                continue
            except (NotFoundError, NotLeadingError):
                # The fact that goes with it, that it is gone or that we lead no more, is about to be told.
                await self.pause()
                return False
            except KubeError as error:
                LOG.error("refused: %s", error, extra={"object": key})
                self.shun(key, f"the API server refused our write: {error.message or error.reason}")
                return False
            self.backed_off.pop(key, None)
            self.tell(flight, [*said, *decisions], seen, version=version_of(found), mute=said)
            flight.base, flight.version = ground.level(key, found), version_of(found)
            return True
        if silence is not None:
            self.shun(key, f"the API server does not take our write: {silence.message or silence.reason}")
            return False
        LOG.warning("others keep changing this Workload; what was decided is decided anew", extra={"object": key})
        await self.pause()
        return False

    async def pause(self) -> None:
        """Wait a moment, so that nothing is tried again and again at full speed."""
        clock = self.ground.cluster.clock
        await clock.sleep(PAUSE)

    async def send(self, key: str, seen: Workload, steps: list[StatusWrite]) -> Workload:
        """The Workload once these steps are stored; a step without an answer is read back."""
        for step in steps:
            try:
                seen = await self.take_step(seen, step)
            except UnansweredError as error:
                LOG.warning("no answer, reading back: %s", error, extra={"object": key})
                fresh = await self.read_back(key)
                done = not fresh.spec.active if step.status is None else slice_of(fresh) == step.status
                if not done:
                    raise
                seen = fresh
        return seen

    async def take_step(self, seen: Workload, step: StatusWrite) -> Workload:
        """The Workload once a step is stored, for which it may have to wait for a slot."""
        writes = self.ground.cluster.writes
        self.sending += 1
        if self.sending > ENOUGH:
            self.room.clear()
        try:
            async with self.slots:
                return await (writes.deactivate(seen) if step.status is None else writes.admission(seen, step.status))
        finally:
            self.sending -= 1
            if self.sending <= ENOUGH:
                self.room.set()

    async def read_back(self, key: str) -> Workload:
        """The Workload as the server has it, however long it takes to tell."""
        cluster = self.ground.cluster
        namespace, _, name = key.partition("/")
        while True:
            try:
                return cluster.workloads.learn(await cluster.kube.get(WORKLOADS, name, namespace))
            except UnansweredError:
                await self.pause()

    async def read_anew(self, key: str) -> bool:
        """Read the Workload that someone else has changed; whether it can be read."""
        try:
            await self.read_back(key)
        except NotFoundError:
            return False
        except (KubeError, ValueError) as error:
            self.shun(key, f"it has changed, and cannot be read: {error}")
            return False
        return True

    def shun(self, key: str, why: str) -> None:
        """Leave a Workload alone for a while whose writes fail for good; longer each time."""
        tries = self.backed_off[key].tries + 1 if key in self.backed_off else 0
        delay = min(SHUN_BASE << min(tries, DOUBLINGS_MAX), SHUN_MAX)
        self.backed_off[key] = BackedOff(why, Moment(self.ground.cluster.clock.moment() + delay), tries)

    def tell(
        self, flight: Flight, decisions: list[Decision], seen: Workload, *, version: int, mute: list[Wait]
    ) -> None:
        """Tell the engine that decisions were stored, and everyone else what happened."""
        ground = self.ground
        level, options = flight.base, ground.cluster.settings.options
        for decision in decisions:
            if decision not in mute:
                ground.observe(Written(decision.workload, version))
            by = None
            if isinstance(decision, Evict) and decision.preemption is not None:
                by = ground.engine.workload(decision.by)
                preempting = "" if by is None else ground.engine.queue_of(by)
                ground.metrics.preempted(preempting, decision.preemption)
                self.tell_job(decision, seen, preempting)
            for note in notes(decision, seen, level, by, options):
                about = ground.cluster.workloads.get(note.workload)
                if about is not None:
                    say = ground.cluster.events.warning if note.warning else ground.cluster.events.normal
                    say(ref(WORKLOADS, about.metadata), note.reason, note.text, note.reporter)
            level = after(level, decision)

    def tell_job(self, decision: Evict, seen: Workload, queue: str) -> None:
        """Say on the preempted Job for whom it had to stop: Kueue's own words give no more than a UID."""
        about, cluster = owner(seen.metadata), self.ground.cluster
        if about is not None:
            by = cluster.workloads.get(decision.by)
            job = None if by is None else owner(by.metadata)
            kind, name = ("", "") if job is None else (job.kind, job.name)
            who = preemptor(decision.by, kind, name, seen.namespace)
            note = preempted_for(who, decision.preemption, queue)
            cluster.events.normal(about, PREEMPTED, note, REPORTER)


def can_be_kept_back(decision: Decision) -> TypeGuard[Wait]:
    """Whether a decision only says why a workload waits; that a gate is closed or open is news by itself."""
    return isinstance(decision, Wait) and not isinstance(decision.why, GatedBy | GatesCleared)


def standing(level: model.Workload) -> tuple[object, ...]:
    """What of a Workload a decision rests on; pods that come and go, and words, do not count."""
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
