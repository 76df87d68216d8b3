"""Evictions as sentences: for whom, what was lost, which workloads were spared, and which flavors were not taken."""

from collections.abc import Iterator
from typing import assert_never

from pykueue.base.units import format_instant
from pykueue.engine.decisions import Considered, Evict, EvictionReason, Obstacle, Short, SparedReason
from pykueue.engine.record.causes import EvictionCause
from pykueue.engine.record.explain import eviction, explain, obstacle, preempted_for, rank
from pykueue.engine.record.nodes import Node, listed, span
from pykueue.engine.record.preemptions import PassedFlavor, Passing, PreemptionRecord
from pykueue.engine.record.recent import Noted


def eviction_nodes(found: EvictionCause | None, held: str = "") -> Iterator[Node]:
    """For whom it left, by which clause, what was lost, and whether that was of use; `held` if its owner did it."""
    if found is None:
        return
    at, children = format_instant(found.at), []
    if found.lost_micros is not None:
        lost = f"it had run for {span(found.lost_micros)}, which is lost unless it saved its work"
        children.append(Node("lost", lost))
    if found.reason == EvictionReason.PREEMPTED:
        who = found.by or "another workload"
        clause = f" ({found.clause})" if found.clause is not None else ""
        text = f"evicted at {at}: {preempted_for(who, found.clause, found.by_queue)}{clause}"
        children += preempted_nodes(found, who)
    elif held and found.reason == EvictionReason.DEACTIVATED:
        text = f"evicted at {at}: {held}"
    elif found.noted is not None:
        text = f"evicted at {at}: {evicted_text(found.noted)}"
    else:
        text = f"evicted at {at}: {found.message or found.reason}"
    yield Node("evicted", text, tuple(children))


def preempted_nodes(found: EvictionCause, who: str) -> Iterator[Node]:
    """What became of the preemptor, and which alternatives it had."""
    yield Node("preemptor", preemptor_text(found, who))
    record = found.preemption
    if record is None:
        return
    if record.victims > 1:
        yield Node("victims", f"{record.victims} workloads had to leave for it together")
    yield spared_node(record)
    yield from flavor_nodes(record, who)


def preemption_nodes(record: PreemptionRecord | None) -> Iterator[Node]:
    """Who was evicted for a workload, and which alternatives there were."""
    if record is None:
        return
    text = f"evicted for it at {format_instant(record.at)}: {listed(record.first, record.victims)}"
    yield Node("preempted", text, (spared_node(record), *flavor_nodes(record, "it")))


def evicted_text(noted: Noted) -> str:
    """Why a workload was evicted."""
    return eviction(noted.decision) if isinstance(noted.decision, Evict) else explain(noted.decision)


def preemptor_text(found: EvictionCause, who: str) -> str:
    """What became of the preemptor."""
    if found.started_at is not None:
        return f"{who} started at {format_instant(found.started_at)}"
    if found.still_waits:
        return f"{who} has not started yet"
    return f"whether {who} started is not recorded"


# Candidates.


def spared_node(record: PreemptionRecord) -> Node:
    """Which workloads could have been preempted instead, and why they were not."""
    if not record.spared:
        return Node("spared", "there was no other candidate")
    children = [
        Node("candidate", f"{listed(keys, len(keys))} {spared_text(reason, len(keys))}")
        for reason, keys in by_reason(record)
    ]
    rest = record.spared - len(record.named)
    if rest:
        children.append(Node("more", f"{rest} more"))
    count = "1 other candidate was" if record.spared == 1 else f"{record.spared} other candidates were"
    return Node("spared", f"{count} spared:", tuple(children))


def by_reason(record: PreemptionRecord) -> Iterator[tuple[SparedReason, tuple[str, ...]]]:
    """The spared candidates that are named, those with the same reason together."""
    for reason in dict.fromkeys(one.reason for one in record.named):
        yield reason, tuple(one.workload for one in record.named if one.reason is reason)


def spared_text(reason: SparedReason, count: int) -> str:
    """Why this many candidates were spared, as the predicate of a sentence."""
    later = f"{'comes' if count == 1 else 'come'} later in the order of candidates"
    match reason:
        case SparedReason.NOT_NEEDED if count == 1:
            return "was not needed: enough quota is free without it"
        case SparedReason.NOT_NEEDED:
            return "were not needed: enough quota is free without them"
        case SparedReason.WITHIN_QUOTA:
            return "had to stay: the ClusterQueue or cohort no longer borrows once others have left"
        case SparedReason.WHILE_BORROWING:
            return "may be preempted only for a workload that does not borrow"
        case SparedReason.FAIR_SHARE:
            return "had to stay: the preemptor's share would have been too large compared with that of its ClusterQueue"
        case SparedReason.SMALLER_SHARE:
            return f"{later}: others are in ClusterQueues with a larger share"
        case SparedReason.NOT_LEAVING:
            return f"{later}: others were evicted already"
        case SparedReason.OWN_QUEUE:
            return f"{later}: those of other ClusterQueues, which borrow, come first"
        case SparedReason.WEAKER_CLAIM:
            return f"{later}: the preemptor has a stronger claim to quota that others use"
        case SparedReason.LESS_PAST_USE:
            return f"{later}: the LocalQueues of others have used more"
        case SparedReason.HIGHER_PRIORITY:
            return f"{later}: higher priority"
        case SparedReason.ADMITTED_EARLIER:
            return f"{later}: the same priority, but admitted earlier"
        case SparedReason.TIE:
            return f"{later}: equal in all respects, so the uid decides"
        case _:
            assert_never(reason)


def spared_clause(record: PreemptionRecord) -> str:
    """How many were spared, for the sentence about a decision."""
    if not record.spared:
        return "there was no other candidate"
    names = listed([one.workload for one in record.named], record.spared)
    return f"spared: {names}"


# Flavors.


def flavor_nodes(record: PreemptionRecord, who: str) -> Iterator[Node]:
    """Which flavors the preemptor takes and which it does not, and why."""
    yield from (Node("flavor", taken_text(one, who)) for one in record.taken)
    yield from (Node("alternative", passed_text(one, who)) for one in record.passed)


def taken_text(one: Considered, who: str) -> str:
    """A flavor that the preemptor takes."""
    why = obstacles_text(one.obstacles) or "it borrows"
    return f"{who} chose flavor {one.flavor} for pod set {one.pod_set}: {why}"


def passed_text(one: PassedFlavor, who: str) -> str:
    """A flavor that the preemptor does not take."""
    return f"{who} did not choose flavor {one.flavor} for pod set {one.pod_set}: {passed_because(one)}"


def passed_because(one: PassedFlavor) -> str:
    """Why a flavor is not taken."""
    found = obstacles_text(one.obstacles)
    match one.why:
        case Passing.NO_FIT if all(isinstance(each, Short) for each in one.obstacles):
            return f"{found}, and it may not preempt for that much there"
        case Passing.NO_FIT:
            return found
        case Passing.NO_CANDIDATES:
            return f"{found}, and no preemption that is allowed would free enough"
        case Passing.PREEMPT | Passing.RECLAIM:
            return f"{found}, so it would have to preempt there too"
        case Passing.FIT:
            return "it would have to borrow there"
        case Passing.EARLIER:
            return "an earlier cycle tried it, and went on to the next"
        case Passing.UNTRIED:
            return "not tried, because the scan ended at a flavor before it (flavorFungibility)"
        case _:
            assert_never(one.why)


def obstacles_text(found: tuple[Obstacle, ...]) -> str:
    """The obstacles of a flavor, the nearest to a fit first."""
    return ", ".join(obstacle(each) for each in sorted(set(found), key=rank))
