"""What if: an engine with and without changes, both settled at the same instant, and the difference between them.

Both sides carry decisions out at once: pods are ready when a job starts, and gone when it is evicted. Time does not
pass, so nothing finishes. If waits are asked for, `waits` runs both sides forward from there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import BinaryIO, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from pykueue.api.previews import Affected, Effect, PreviewStatus, QueueChange, QuotaChange
from pykueue.base.steps import at_once
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, amount_text, format_instant
from pykueue.bridge.previews import Question
from pykueue.engine.decisions import Admit, AfterEviction, Decision, Evict, Invalid, PodsNotReady, Reserve, Wait, Why
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Gone, Leading, Seen, Stopped, Synced, Written
from pykueue.engine.items import Item, Place
from pykueue.engine.model import Admission, PodsReady, Strategy, Workload
from pykueue.engine.record.checkpoint import Checkpoint, checkpoint, restore
from pykueue.engine.record.explain import eviction, never, preemption, reason, taken
from pykueue.engine.record.tally import can_admit, has_holders, nominal_of, of_queue, owned
from pykueue.sim.changes import Changes, read_changes, terminating
from pykueue.sim.forward import RunTimeKnowledge, whole_minute
from pykueue.sim.questions import read
from pykueue.sim.trace import Trace
from pykueue.sim.waits import Waits, wait_seconds, waits

ROUNDS_BASE: Final = 1_000
ROUNDS_EACH: Final = 20
"""Rounds of deciding that indicate an endless loop: this many, and this many more for each workload."""
AFFECTED_MAX: Final = 1_000
"""The most workloads that an answer lists."""
UNSETTLED: Final = "the queues did not settle after very many rounds; the result is what held then"
ORDER: Final = tuple(Effect)
PENDING: Final = (Place.QUEUED, Place.PARKED)


class Side:
    """An engine that was left to decide until nothing changed, and what it decided on the way."""

    def __init__(self, engine: Engine, facts: Iterable[Fact], now: Instant) -> None:
        self.engine = engine
        self.now = now
        given = tuple(facts)
        self.rounds_left = ROUNDS_BASE + ROUNDS_EACH * (len(engine.items()) + len(given))
        self.evictions: dict[str, Evict] = {}
        self.starts: dict[str, Admit | Reserve] = {}
        self.waits: dict[str, Wait] = {}
        self.lost: dict[str, Decision] = {}
        """The last decision about each workload that ends a reservation or a wait for another reason."""
        self.engine.observe(Synced())
        self.engine.observe(Leading(True))
        for item in list(self.engine.items()):
            self.catch_up(item)
        for fact in given:
            self.engine.observe(fact)
        self.settle()
        for kind, name in terminating(given):
            if kind == "LocalQueue" or not has_holders(self.engine, name):
                self.engine.observe(Gone(kind, name))
        self.settle()
        self.places = dict(places(self.engine))

    def catch_up(self, item: Item) -> None:
        """Let what is under way be done: writes are stored, and evicted jobs have stopped."""
        for _ in tuple(item.in_flight):
            self.engine.observe(Written(item.key))
        level = item.workload
        if level.admission is not None and level.evicted is not None:
            self.stop(item.key)
        options = self.engine.options.pods_ready
        if options is not None and options.block_admission and level.admitted_at is not None:
            self.start(item.key)

    def settle(self) -> None:
        """Decide and carry out until nothing changes at this instant."""
        engine = self.engine
        while self.rounds_left and (wake := engine.next_wake()) is not None and wake <= self.now:
            self.rounds_left -= 1
            decisions = engine.decide(self.now)
            for decision in decisions:
                engine.observe(Written(decision.workload))
            for decision in decisions:
                self.carry_out(decision)

    def carry_out(self, decision: Decision) -> None:
        """Carry out a decision at once."""
        key = decision.workload
        match decision:
            case Admit():
                self.starts[key] = decision
                self.start(key)
            case Reserve():
                self.starts[key] = decision
            case Evict():
                self.evictions[key] = decision
                self.stop(key)
            case Wait():
                self.waits[key] = decision
            case _:
                self.lost[key] = decision

    def start(self, key: str) -> None:
        """All pods of a workload are ready."""
        level = self.engine.workload(key)
        if level is not None and not (level.pods_ready is not None and level.pods_ready.ready):
            self.engine.observe(Seen(replace(level, pods_ready=PodsReady(True, "Started", self.now))))

    def stop(self, key: str) -> None:
        """All pods of a workload are gone."""
        level = self.engine.workload(key)
        if level is not None and level.admission is not None:
            self.engine.observe(Seen(replace(level, pods_ready=PodsReady(False, "WaitForStart", self.now))))
            self.engine.observe(Stopped(key))

    def why(self, item: Item) -> tuple[str, Why] | None:
        """Why a workload is pending."""
        found: tuple[str, Why] | None = self.engine.pending_reason(item)
        if found is None and (wait := self.waits.get(item.key)) is not None:
            found = wait.reason, wait.why
        if found is None and item.reported is not None:
            found = "" if item.workload.waiting is None else item.workload.waiting.reason, item.reported
        return found


class Standing(Frozen):
    """Where a workload is after everything has settled."""

    holds: bool = False
    admitted: bool = False
    queue: str = ""
    place: int | None = None
    """Its place in the order of its queue, from 1; None if it holds quota, or no queue considers it."""


def preview(
    saved: Checkpoint, changes: Changes, now: Instant, knowledge: RunTimeKnowledge | None = None
) -> PreviewStatus:
    """What the changes would do to the workloads and queues of a checkpoint at this instant."""
    return compared(Side(restore(saved), (), now), saved, changes, knowledge)


def answered(asked: Question, saved: Checkpoint) -> PreviewStatus:
    """The answer to a question about a checkpoint; raises `RefusedError`."""
    before = Side(restore(saved), (), asked.now)
    changes = read_changes(asked, before.engine)
    names = {workload: job for job, workload in asked.jobs.items()}
    knowledge = RunTimeKnowledge(asked.learned, {**asked.limits, **changes.limits}) if asked.spec.waits else None
    return compared(before, saved, replace(changes, names={**names, **changes.names}), knowledge, asked.machine)


def answer(stream: BinaryIO) -> bytes:
    """The answer, in JSON, to a question that is sent with the state of an engine; raises `RefusedError`."""
    parameters, saved = read(stream)
    return msgspec.json.encode(answered(msgspec.msgpack.decode(parameters, type=Question), saved))


def settled(trace: Trace) -> Checkpoint:
    """The state in which everything of a trace has arrived, and every decision is carried out."""
    engine = Engine(trace.options)
    for thing in trace.things:
        engine.observe(Seen(thing))
    for one in trace.arrivals:
        engine.observe(Seen(one.workload))
    return checkpoint(Side(engine, (), trace.start).engine)


def compared(
    before: Side,
    saved: Checkpoint,
    changes: Changes,
    knowledge: RunTimeKnowledge | None = None,
    machine: Mapping[str, int] = {},
) -> PreviewStatus:
    """What differs if the changes are made to a checkpoint, of which one side without them is known.

    With knowledge of run times, also when workloads start.
    """
    now = before.now
    after = Side(restore(saved), changes.facts, now)
    held = {one.workload.key for one in saved.items if holds(one.workload)}
    found = list(without_idle_moves(list(affected(before, after, held, changes)), after.engine))
    starts = Waits(now)
    if knowledge is not None:
        starts = waits(saved, checkpoint(before.engine), checkpoint(after.engine), now, knowledge)
        found += shifted(before, after, starts, changes, {one.workload for one in found})
        found = [with_starts(one, starts) for one in found]
    found.sort(key=rank)
    more: dict[str, int] = {}
    for one in found[AFFECTED_MAX:]:
        more[one.effect] = more.get(one.effect, 0) + 1
    unsettled = () if before.rounds_left and after.rounds_left else (UNSETTLED,)
    return PreviewStatus(
        format_instant(now),
        tuple(found[:AFFECTED_MAX]),
        {},
        more,
        tuple(queue_changes(before.engine, after.engine, starts)),
        (*changes.notes, *unsettled, *starts.notes, *beyond(machine, before.engine, after.engine)),
        starts.runs,
    )


def beyond(machine: Mapping[str, int], before: Engine, after: Engine) -> Iterable[str]:
    """A sentence for each resource of which the queues would own more than before, and more than the machine has."""
    if not machine:
        return
    was = owned(before.queues())
    for name, amount in owned(after.queues()).items():
        has = machine.get(name, 0)
        if amount > max(has, was.get(name, 0)):
            yield (
                f"all queues together would own {amount_text(name, amount)} {name}, but the machine has "
                f"{amount_text(name, has)}: jobs may get quota and still wait for the machine"
            )


def shifted(before: Side, after: Side, starts: Waits, changes: Changes, listed: Collection[str]) -> Iterable[Affected]:
    """The workloads that are not listed, and that start earlier or later."""
    for item in after.engine.items():
        known, shift = before.engine.item(item.key), starts.shift(item.key)
        if known is not None and shift is not None and item.key not in listed:
            was, now = standing(before, known), standing(after, item)
            job = changes.names.get(item.key, "").partition("/")[2]
            yield Affected(item.key, shift, job, now.queue, place=now.place, place_before=was.place)


def with_starts(one: Affected, starts: Waits) -> Affected:
    """The workload with its expected starts."""
    was, now = starts.before.get(one.workload), starts.after.get(one.workload)
    return replace(
        one,
        start_before="" if was is None else format_instant(whole_minute(was, starts.now)),
        start="" if now is None else format_instant(whole_minute(now, starts.now)),
        wait_seconds_before=None if was is None else wait_seconds(was, starts.now),
        wait_seconds=None if now is None else wait_seconds(now, starts.now),
    )


def rank(one: Affected) -> tuple[int, str, int, str]:
    """Sort key: the worst effect first, then by queue and place."""
    return ORDER.index(one.effect), one.queue, one.place or 0, one.workload


def holds(workload: Workload) -> bool:
    """Whether a workload holds quota that it keeps."""
    return workload.admission is not None and workload.evicted is None and not workload.finished


def standing(side: Side, item: Item) -> Standing:
    """Where a workload is."""
    level = item.workload
    if holds(level):
        queue = "" if level.admission is None else level.admission.queue
        return Standing(True, level.admitted_at is not None, queue)
    if item.place in PENDING:
        return Standing(False, False, item.queue, side.places.get(item.key))
    return Standing(False, False, side.engine.queue_of(level))


def affected(before: Side, after: Side, held: set[str], changes: Changes) -> Iterable[Affected]:
    """The workloads that the changes affect."""
    for item in after.engine.items():
        if item.workload.finished:
            continue
        known = before.engine.item(item.key)
        was = None if known is None else standing(before, known)
        found = effect(item, standing(after, item), was, before, after, held)
        if found is not None:
            if was is None:
                found = replace(found, reason=found.reason + near_queue(item.workload, after.engine))
            yield replace(found, job=changes.names.get(item.key, "").partition("/")[2])
    for key in sorted(changes.deleted):
        gone = before.engine.item(key)
        if gone is not None:
            yield Affected(key, Effect.DELETED, queue=standing(before, gone).queue)


def near_queue(level: Workload, engine: Engine) -> str:
    """Which LocalQueue of its namespace was probably meant by a workload that names one that does not exist."""
    if engine.local_queue(level.local_queue) is not None:
        return ""
    within, _, name = level.local_queue.partition("/")
    keys = (one for keys in engine.local_queues_by_queue().values() for one in keys)
    known = [key.partition("/")[2] for key in keys if key.partition("/")[0] == within]
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def without_idle_moves(found: Sequence[Affected], engine: Engine) -> Iterable[Affected]:
    """The workloads without those that only get a new job before them that never starts, and that blocks nobody."""
    idle = [
        (one.queue, one.place)
        for one in found
        if one.effect is Effect.NEVER and one.place is not None and one.place_before is None
    ]
    for one in found:
        queue = engine.queue(one.queue)
        if one.effect is Effect.MOVES and one.place is not None and one.place_before is not None and queue is not None:
            passed = sum(name == one.queue and place < one.place for name, place in idle)
            if one.place - one.place_before == passed > 0 and queue.strategy is Strategy.BEST_EFFORT:
                continue
        yield one


def effect(
    item: Item, now: Standing, was: Standing | None, before: Side, after: Side, held: set[str]
) -> Affected | None:
    """What the changes do to a workload; None for nothing."""
    key = item.key
    one = Affected(key, Effect.WAITS, queue=now.queue, place=now.place, place_before=None if was is None else was.place)
    evicted = after.evictions.get(key) if key not in before.evictions else None
    if now.holds and evicted is None and (was is None or not was.holds):
        started = after.starts.get(key)
        text = "" if started is None else taken(started.admission, started.borrowing)
        kind = Effect.STARTS if now.admitted else Effect.RESERVES
        return replace(one, effect=kind, flavors=flavors(item.workload.admission), reason=text)
    if evicted is not None and key in held:
        kind = Effect.RESTARTS if now.holds else Effect.EVICTED
        return replace(evicted_by(one, evicted), effect=kind, flavors=flavors(item.workload.admission))
    if now.holds:
        return None
    why = after.why(item)
    hopeless = hopelessly(why)
    text = hopeless or sentence(why, item.workload)
    if was is not None and was.holds:
        kind = Effect.EVICTED if key in held else Effect.NOT_STARTED
        return replace(one, effect=Effect.NEVER if hopeless and key not in held else kind, reason=text)
    if was is None:
        kind = Effect.WAITS if now.place is not None else Effect.BLOCKED
        return replace(one, effect=Effect.NEVER if hopeless else kind, reason=text)
    known = before.engine.item(key)
    if hopeless and not (known is not None and hopelessly(before.why(known))):
        return replace(one, effect=Effect.NEVER, reason=text)
    if now.place is None and was.place is not None:
        return replace(one, effect=Effect.BLOCKED, reason=text)
    if now.place != was.place or now.queue != was.queue:
        return replace(one, effect=Effect.MOVES)
    return None


def evicted_by(one: Affected, decision: Evict) -> Affected:
    """The workload with the reason why it is evicted; the reason does not name for whom."""
    if decision.preemption is None:
        return replace(one, reason=eviction(decision))
    return replace(one, clause=decision.preemption.value, by=decision.by, reason=preemption(decision.preemption))


def flavors(admission: Admission | None) -> tuple[str, ...]:
    """The flavors of a reservation, in order."""
    if admission is None:
        return ()
    return tuple(dict.fromkeys(flavor for one in admission.assignments for _, flavor in one.flavors))


def hopelessly(why: tuple[str, Why] | None) -> str:
    """Why a workload can never start as things are; empty if it may."""
    if why is None:
        return ""
    if isinstance(why[1], Invalid):
        return reason(why[1])
    return never(*why)


def sentence(why: tuple[str, Why] | None, level: Workload) -> str:
    """Why a workload is pending, without naming another workload."""
    match why:
        case None:
            return ""
        case (_, AfterEviction()):
            return "it was evicted"
        case (_, PodsNotReady()):
            return reason(PodsNotReady(""))
        case (_, found):
            return reason(found, level)


def places(engine: Engine) -> Iterable[tuple[str, int]]:
    """The place of every pending workload in the order of its ClusterQueue, from 1, where the queue can admit."""
    for queue in engine.queues():
        if not can_admit(engine, queue.name):
            continue
        for place, item in enumerate(at_once(engine.line(queue.name)), 1):
            yield item.key, place


def queue_changes(before: Engine, after: Engine, starts: Waits) -> Iterable[QueueChange]:
    """The ClusterQueues that differ, by name."""
    names = sorted({one.name for engine in (before, after) for one in engine.queues()})
    for name in names:
        found = QueueChange(
            name,
            *counts(before, after, name),
            quotas=tuple(quota_changes(amounts(before, name), amounts(after, name))),
            median_wait_seconds_before=starts.queues_before.get(name, UNSET),
            median_wait_seconds=starts.queues.get(name, UNSET),
        )
        same = (found.running_before, found.pending_before) == (found.running, found.pending)
        if found.quotas or not same or starts.shift_of_queue(name):
            yield found


def counts(before: Engine, after: Engine, name: str) -> tuple[int, int, int, int]:
    """How many workloads of a ClusterQueue hold quota, before and after, and how many are pending."""
    was, now = of_queue(before, name), of_queue(after, name)
    return (
        0 if was is None else was.reserved.workloads,
        0 if now is None else now.reserved.workloads,
        0 if was is None else was.pending,
        0 if now is None else now.pending,
    )


def amounts(engine: Engine, name: str) -> Mapping[tuple[str, str], tuple[int, int]]:
    """The nominal quota and the usage of a ClusterQueue, by flavor and resource."""
    queue, tally = engine.queue(name), of_queue(engine, name)
    if queue is None or tally is None:
        return {}
    nominal, used = nominal_of(queue), tally.reserved.amounts
    return {pair: (nominal.get(pair, 0), used.get(pair, 0)) for pair in dict.fromkeys((*nominal, *used))}


def quota_changes(
    before: Mapping[tuple[str, str], tuple[int, int]], after: Mapping[tuple[str, str], tuple[int, int]]
) -> Iterable[QuotaChange]:
    """The quotas that differ."""
    for flavor, resource in dict.fromkeys((*before, *after)):
        was, now = before.get((flavor, resource), (0, 0)), after.get((flavor, resource), (0, 0))
        if was != now:
            nominal_before, used_before = (amount_text(resource, one) for one in was)
            nominal, used = (amount_text(resource, one) for one in now)
            yield QuotaChange(flavor, resource, nominal_before, nominal, used_before, used)
