"""Explanations of the engine as objects of `query.pykueue.io`, with the names that their reader knows and may see."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec.structs import replace

from pykueue.api.core import ObjectMeta
from pykueue.api.explanations import (
    API_VERSION,
    FINISH,
    QUEUE_EXPLANATION,
    WORKLOAD_EXPLANATION,
    CheckStanding,
    Eviction,
    FlavorRoom,
    HolderRow,
    Names,
    NeighbourRow,
    NewcomerRow,
    PastDecision,
    Place,
    PodSetExplanation,
    QueueExplanation,
    Remedy,
    Sentence,
    WorkloadExplanation,
)
from pykueue.base.units import MICROS, Instant, amount_text, format_instant
from pykueue.engine.decisions import Decision, Evict, EvictionReason, Inactive, PodsNotReady, Unreserve, Wait, Why
from pykueue.engine.record.causes import (
    HIDDEN,
    AwaitEnd,
    AwaitTime,
    EvictionCause,
    Fix,
    FlavorCause,
    Neighbour,
    PlaceCause,
    QueueCauses,
    Way,
    WorkloadCauses,
)
from pykueue.engine.record.causetree import (
    SOMEBODY,
    Node,
    considered_text,
    tree_of_queue,
    tree_of_workload,
    way_text,
)
from pykueue.engine.record.explain import explain, headline
from pykueue.engine.record.recent import Noted, is_start
from pykueue.engine.record.rooms import Limit, Room

Naming: TypeAlias = Callable[[str], str]
"""The name of a workload for a reader, by its key; `HIDDEN` if the reader may not see it."""


def workloads_in(causes: WorkloadCauses | QueueCauses) -> Iterator[str]:
    """The keys of the other workloads that an explanation names."""
    if isinstance(causes, QueueCauses):
        yield from causes.first
        yield from (one.key for one in causes.holders)
        return
    if causes.place is not None:
        yield from causes.place.first
        yield from causes.place.overtaken.last
    if causes.eviction is not None:
        yield causes.eviction.by
    yield from (key for one in causes.ways if isinstance(one, AwaitEnd) for key in one.holders)
    yield from (named_by(causes.why), *(key for noted in causes.recent for key in decided_for(noted.decision)))


def named_by(why: Why | None) -> str:
    """The workload that a reason names; empty if it names none."""
    return why.workload if isinstance(why, PodsNotReady) else ""


def decided_for(decision: Decision) -> tuple[str, ...]:
    """The other workloads that a decision names."""
    if isinstance(decision, Evict):
        return (decision.by,)
    return (named_by(decision.why),) if isinstance(decision, Wait | Unreserve) else ()


def named_workload(causes: WorkloadCauses, name: Naming) -> WorkloadCauses:
    """An explanation with names in place of keys."""
    place, eviction = causes.place, causes.eviction
    if place is not None:
        past = replace(place.overtaken, last=tuple(map(name, place.overtaken.last)))
        place = replace(place, first=tuple(map(name, place.first)), overtaken=past)
    if eviction is not None:
        noted = None if eviction.noted is None else named_decision(eviction.noted, name)
        by = name(eviction.by) if eviction.by else ""
        # What a preemptor lacks is known to those who may read it.
        considered = eviction.considered if by or not eviction.by else ()
        by = by or (SOMEBODY if eviction.by else "")
        eviction = replace(eviction, by=by, noted=noted, considered=considered)
    return replace(
        causes,
        why=None if causes.why is None else named_why(causes.why, name),
        place=place,
        eviction=eviction,
        ways=tuple(named_way(one, causes.why, name) for one in causes.ways),
        recent=tuple(named_decision(one, name) for one in causes.recent),
    )


def named_why(why: Why, name: Naming) -> Why:
    """A reason with a name in place of a key."""
    if isinstance(why, PodsNotReady) and why.workload:
        return PodsNotReady(name(why.workload) or SOMEBODY)
    return why


def named_way(way: Way, why: Why | None, name: Naming) -> Way:
    """A way with names in place of keys."""
    if isinstance(way, AwaitEnd):
        return replace(way, holders=tuple(map(name, way.holders)))
    key = named_by(why)
    if isinstance(way, Fix) and key:
        return Fix(way.text.replace(key, name(key) or SOMEBODY))
    return way


def named_decision(noted: Noted, name: Naming) -> Noted:
    """A decision with names in place of keys."""
    decision = noted.decision
    if isinstance(decision, Evict) and decision.by:
        return replace(noted, decision=replace(decision, by=name(decision.by) or SOMEBODY))
    if isinstance(decision, Wait | Unreserve):
        return replace(noted, decision=replace(decision, why=named_why(decision.why, name)))
    return noted


def named_queue(causes: QueueCauses, name: Naming) -> QueueCauses:
    """An explanation with names in place of keys."""
    return replace(
        causes,
        first=tuple(map(name, causes.first)),
        holders=tuple(replace(one, key=name(one.key)) for one in causes.holders),
    )


def workload_explanation(causes: WorkloadCauses) -> WorkloadExplanation:
    """The answer about a workload, from an explanation with names."""
    namespace, _, name = causes.key.partition("/")
    return WorkloadExplanation(
        metadata=ObjectMeta(name=name, namespace=namespace),
        state=causes.state,
        tree=sentence(tree_of_workload(causes)),
        since=format_instant(causes.since),
        reason=causes.reason,
        can_never_start=bool(causes.never),
        local_queue=causes.queue.local_queue,
        cluster_queue=causes.queue.queue,
        queue_obstacle=causes.queue.obstacle,
        place=None if causes.place is None else place_of(causes.place),
        pod_sets=tuple(
            PodSetExplanation(one.name, one.count, tuple(map(flavor_of, one.flavors)), one.uncovered)
            for one in causes.pod_sets
        ),
        checks=tuple(CheckStanding(one.name, one.state, one.message) for one in causes.checks),
        backoff_until=time_of(causes.backoff_until),
        runs_until=time_of(causes.until),
        eviction=None if causes.eviction is None else eviction_of(causes.eviction),
        remedies=tuple(
            Remedy(type(one).__name__, way_text(one), time_of(one.at) if isinstance(one, AwaitTime | AwaitEnd) else "")
            for one in causes.ways
        ),
        decisions=tuple(past_decisions(causes)),
        older_decisions=causes.forgotten,
        kind=WORKLOAD_EXPLANATION,
        api_version=API_VERSION,
    )


def sentence(node: Node) -> Sentence:
    """A tree of sentences."""
    return Sentence(node.code, node.text, tuple(map(sentence, node.children)))


def time_of(at: Instant | None) -> str:
    """An instant; empty if there is none."""
    return "" if at is None else format_instant(at)


def names_of(keys: tuple[str, ...], count: int) -> Names:
    """Some workloads, as far as they may be named."""
    named = tuple(one for one in keys if one != HIDDEN)
    return Names(count, named, len(keys) - len(named))


def place_of(place: PlaceCause) -> Place:
    """A place in line."""
    past = place.overtaken
    return Place(
        place.ahead + 1,
        place.total,
        names_of(place.first, place.ahead),
        place.parked,
        names_of(past.last, past.count) if past.count else None,
        past.smaller,
    )


def limit_name(limit: Limit) -> str:
    """The object and field of a limit."""
    return f"{limit.kind} {limit.name}" + ("" if limit.field == "cohort" else f" {limit.field}")


def room_of(room: Room) -> FlavorRoom:
    """The numbers of a queue in a flavor."""

    def text(amount: int) -> str:
        return amount_text(room.resource, amount)

    return FlavorRoom(
        room.flavor,
        room.resource,
        nominal=text(room.nominal),
        used=text(room.used),
        free=text(room.free),
        borrowable=text(room.borrowable),
        borrowed=text(room.borrowed),
        lent=text(room.lent),
        most=text(room.most),
        limited_by=limit_name(room.limit),
    )


def flavor_of(cause: FlavorCause) -> FlavorRoom:
    """The numbers of a queue in a flavor, and what a pod set needs."""
    room, resource = cause.room, cause.room.resource
    return replace(
        room_of(room),
        asked=amount_text(resource, cause.asked),
        missing=amount_text(resource, cause.missing) if cause.missing else "",
        obstacle="" if cause.obstacle is None else type(cause.obstacle).__name__,
    )


def eviction_of(cause: EvictionCause) -> Eviction:
    """An eviction."""
    return Eviction(
        format_instant(cause.at),
        cause.reason,
        cause.message,
        cause.by,
        cause.clause or "",
        None if cause.lost_micros is None else cause.lost_micros // MICROS,
        time_of(cause.started_at),
        cause.still_waits,
        cause.victims,
        tuple(considered_text(one, cause.by or "it") for one in cause.considered),
    )


def past_decisions(causes: WorkloadCauses) -> Iterator[PastDecision]:
    """The decisions about a workload and their sentences, and its end.

    Those since its last start know what its owner asked for.
    """
    decided = [one.decision for one in causes.recent]
    started = max((number for number, one in enumerate(decided) if is_start(one)), default=-1)
    for number, one in enumerate(decided):
        text = explain(one)
        if causes.held and number > started and is_deactivation(one):
            text = f"{headline(one)}: {causes.held}"
        yield PastDecision(format_instant(one.at), type(one).__name__, text)
    if causes.ended:
        yield PastDecision(format_instant(causes.since), FINISH, f"finishes: {causes.ended}")


def is_deactivation(decision: Decision) -> bool:
    """Whether a decision follows from spec.active being false."""
    match decision:
        case Evict(reason=EvictionReason.DEACTIVATED) | Wait(why=Inactive()):
            return True
        case _:
            return False


def queue_explanation(causes: QueueCauses) -> QueueExplanation:
    """The answer about a queue, from an explanation with names."""
    namespace, _, name = causes.local_queue.partition("/")
    named = tuple(one for one in causes.holders if one.key != HIDDEN)
    return QueueExplanation(
        metadata=ObjectMeta(name=name, namespace=namespace) if name else ObjectMeta(name=causes.queue),
        tree=sentence(tree_of_queue(causes)),
        cluster_queue=causes.queue,
        obstacle=causes.obstacle,
        strategy=causes.strategy,
        cohorts=causes.cohorts,
        quota=tuple(map(room_of, causes.rooms)),
        holding=causes.holding,
        holders=tuple(
            HolderRow(
                one.key,
                tuple((flavor, name, amount_text(name, amount)) for flavor, name, amount in one.amounts),
                time_of(one.since),
                time_of(one.until),
                one.leaving,
            )
            for one in named
        ),
        holders_of_other_namespaces=len(causes.holders) - len(named),
        borrowers=tuple(map(neighbour_of, causes.borrowers)),
        lenders=tuple(map(neighbour_of, causes.lenders)),
        pending=names_of(causes.first, causes.pending),
        newcomers=tuple(
            NewcomerRow(
                one.resource, amount_text(one.resource, one.amount), one.fits, one.flavor, one.borrows, one.victims
            )
            for one in causes.newcomers
        ),
        kind=QUEUE_EXPLANATION,
        api_version=API_VERSION,
    )


def neighbour_of(one: Neighbour) -> NeighbourRow:
    """What another queue borrows or lends."""
    return NeighbourRow(one.queue, one.flavor, one.resource, amount_text(one.resource, one.amount))
