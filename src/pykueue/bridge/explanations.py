"""Explanations of the engine as objects of `query.pykueue.io`, with the names that their reader knows and may see."""

from collections.abc import Callable, Iterator
from math import isinf
from typing import TypeAlias, TypeVar

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
    PastUseExplanation,
    PastUseStanding,
    Place,
    PodSetExplanation,
    Preemption,
    QueueExplanation,
    Remedy,
    Sentence,
    ShareExplanation,
    ShareStanding,
    SparedCandidates,
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
    PastUseCause,
    PastUseRow,
    PlaceCause,
    QueueCauses,
    ShareCause,
    ShareRow,
    Way,
    WorkloadCauses,
)
from pykueue.engine.record.causetree import tree_of_queue, tree_of_workload, way_text
from pykueue.engine.record.evictiontree import by_reason, flavor_nodes, spared_clause
from pykueue.engine.record.explain import explain, headline
from pykueue.engine.record.leads import use_text
from pykueue.engine.record.nodes import SOMEBODY, Node
from pykueue.engine.record.preemptions import PreemptionRecord
from pykueue.engine.record.recent import Noted, is_start
from pykueue.engine.record.rooms import Limit, Room
from pykueue.engine.shares import rounded

Naming: TypeAlias = Callable[[str], str]
"""The name of a workload or LocalQueue for a reader, by its key; `HIDDEN` if the reader may not see it."""
Causes = TypeVar("Causes", WorkloadCauses, QueueCauses)


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
    yield from named_in(causes.preemption)
    yield from (key for one in causes.ways if isinstance(one, AwaitEnd) for key in one.holders)
    yield named_by(causes.why)
    for noted in causes.recent:
        yield from decided_for(noted.decision)
        yield from named_in(noted.preemption)


def local_queues_in(causes: WorkloadCauses | QueueCauses) -> Iterator[str]:
    """The keys of the LocalQueues that an explanation compares."""
    if causes.past_use is not None:
        yield from (one.local_queue for one in rows_of(causes.past_use))


def rows_of(found: PastUseCause) -> tuple[PastUseRow, ...]:
    """All LocalQueues with their past use."""
    return found.others if found.own is None else (found.own, *found.others)


def named_in(record: PreemptionRecord | None) -> tuple[str, ...]:
    """The workloads that a record of a preemption names."""
    return () if record is None else (record.by, *record.first, *(one.workload for one in record.named))


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
        by = (name(eviction.by) or SOMEBODY) if eviction.by else ""
        eviction = replace(eviction, by=by, noted=noted, preemption=named_preemption(eviction.preemption, name))
    return replace(
        causes,
        why=None if causes.why is None else named_why(causes.why, name),
        place=place,
        eviction=eviction,
        preemption=named_preemption(causes.preemption, name),
        ways=tuple(named_way(one, causes.why, name) for one in causes.ways),
        recent=tuple(named_decision(one, name) for one in causes.recent),
    )


def named_preemption(record: PreemptionRecord | None, name: Naming) -> PreemptionRecord | None:
    """A record of a preemption with names in place of keys."""
    if record is None:
        return None
    by = name(record.by)
    # What a preemptor lacks is known to those who may read it.
    hidden = {} if by else {"taken": (), "passed": ()}
    named = tuple(replace(one, workload=name(one.workload)) for one in record.named)
    return replace(record, by=by or SOMEBODY, first=tuple(map(name, record.first)), named=named, **hidden)


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
        told = replace(decision, by=name(decision.by) or SOMEBODY)
        return replace(noted, decision=told, preemption=named_preemption(noted.preemption, name))
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


def named_local_queues(causes: Causes, name: Naming) -> Causes:
    """An explanation with names in place of the keys of LocalQueues; the one that was asked about is named anyhow."""
    found = causes.past_use
    if found is None:
        return causes
    own = found.own
    if own is not None:
        own = replace(own, local_queue=name(own.local_queue) or own.local_queue.partition("/")[2])
    others = tuple(replace(one, local_queue=name(one.local_queue)) for one in found.others)
    return replace(causes, past_use=replace(found, own=own, others=others))


def workload_explanation(causes: WorkloadCauses) -> WorkloadExplanation:
    """The answer about a workload, from an explanation with names."""
    namespace, _, name = causes.key.partition("/")
    return WorkloadExplanation(
        metadata=ObjectMeta(name=name, namespace=namespace),
        state=causes.state,
        tree=sentence(tree_of_workload(causes)),
        since=format_instant(causes.since) if causes.since else "",
        reason=causes.reason,
        can_never_start=bool(causes.never),
        local_queue=causes.queue.local_queue,
        cluster_queue=causes.queue.queue,
        queue_obstacle=causes.queue.obstacle,
        place=None if causes.place is None else place_of(causes.place),
        share=None if causes.share is None else share_of(causes.share),
        past_use=None if causes.past_use is None else past_use_of(causes.past_use),
        pod_sets=tuple(
            PodSetExplanation(one.name, one.count, tuple(map(flavor_of, one.flavors)), one.uncovered)
            for one in causes.pod_sets
        ),
        checks=tuple(CheckStanding(one.name, one.state, one.message) for one in causes.checks),
        backoff_until=time_of(causes.backoff_until),
        runs_until=time_of(causes.until),
        eviction=None if causes.eviction is None else eviction_of(causes.eviction),
        preemption=None if causes.preemption is None else preemption_of(causes.preemption),
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
        place.turns,
    )


def share_of(cause: ShareCause) -> ShareExplanation:
    """How the shares stand for a workload."""
    return ShareExplanation(
        standing_of(cause.queue),
        rounded(cause.with_it),
        tuple(one.queue for one in cause.earlier),
        tuple(one.queue for one in cause.protected),
    )


def standing_of(row: ShareRow) -> ShareStanding:
    """The share of a ClusterQueue or Cohort."""
    past_use = "" if row.past_use is None else decimal_of(row.past_use)
    return ShareStanding(row.kind, row.name, rounded(row.share), f"{row.weight:g}", past_use)


def past_use_of(cause: PastUseCause) -> PastUseExplanation:
    """How the past use of LocalQueues stands."""
    own = None if cause.own is None else use_of(cause.own)
    named = tuple(use_of(one) for one in cause.others if one.local_queue != HIDDEN)
    return PastUseExplanation(own, cause.count, named, len(cause.others) - len(named))


def use_of(row: PastUseRow) -> PastUseStanding:
    """The past use of a LocalQueue, in billionths as its status has it."""
    text, lead = decimal_of(row.past_use), "" if row.lead is None else use_text(row.lead)
    return PastUseStanding(row.local_queue, text, f"{row.weight:g}", row.pending, time_of(row.at), lead)


def decimal_of(past_use: float) -> str:
    """Past use in billionths, as status has it."""
    return "infinite" if isinf(past_use) else f"{past_use:.9f}".rstrip("0").removesuffix(".")


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
    record = cause.preemption
    return Eviction(
        format_instant(cause.at),
        cause.reason,
        cause.message,
        cause.by,
        cause.clause or "",
        None if cause.lost_micros is None else cause.lost_micros // MICROS,
        time_of(cause.started_at),
        cause.still_waits,
        0 if record is None else record.victims,
        flavors_of(record, cause.by or "it"),
        None if record is None else record.spared,
        spared_of(record),
    )


def preemption_of(record: PreemptionRecord) -> Preemption:
    """What was preempted for a workload."""
    victims = names_of(record.first, record.victims)
    return Preemption(format_instant(record.at), victims, record.spared, spared_of(record), flavors_of(record, "it"))


def flavors_of(record: PreemptionRecord | None, who: str) -> tuple[str, ...]:
    """The flavors that a preemptor took or not, as sentences."""
    return () if record is None else tuple(one.text for one in flavor_nodes(record, who))


def spared_of(record: PreemptionRecord | None) -> tuple[SparedCandidates, ...]:
    """The candidates that were spared, by reason."""
    found = () if record is None else by_reason(record)
    return tuple(SparedCandidates(reason, names_of(keys, len(keys))) for reason, keys in found)


def past_decisions(causes: WorkloadCauses) -> Iterator[PastDecision]:
    """The decisions about a workload and their sentences, and its end if it is known when that was.

    Those since its last start know what its owner asked for.
    """
    started = max((number for number, noted in enumerate(causes.recent) if is_start(noted.decision)), default=-1)
    for number, noted in enumerate(causes.recent):
        one, text = noted.decision, explain(noted.decision)
        if noted.preemption is not None:
            text += f"; {spared_clause(noted.preemption)}"
        if causes.held and number > started and is_deactivation(one):
            text = f"{headline(one)}: {causes.held}"
        yield PastDecision(format_instant(one.at), type(one).__name__, text)
    if causes.ended and causes.since:
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
                one.resource,
                amount_text(one.resource, one.amount),
                one.fits,
                one.flavor,
                one.borrows,
                one.victims,
                one.too_many,
            )
            for one in causes.newcomers
        ),
        share=None if causes.share is None else standing_of(causes.share),
        siblings=tuple(map(standing_of, causes.siblings)),
        past_use=None if causes.past_use is None else past_use_of(causes.past_use),
        kind=QUEUE_EXPLANATION,
        api_version=API_VERSION,
    )


def neighbour_of(one: Neighbour) -> NeighbourRow:
    """What another queue borrows or lends."""
    return NeighbourRow(one.queue, one.flavor, one.resource, amount_text(one.resource, one.amount))
