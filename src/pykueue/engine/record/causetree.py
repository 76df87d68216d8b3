"""Explanations as a tree of sentences; the reasons in them are those of `explain`."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from pykueue.base.units import format_instant
from pykueue.engine.decisions import Short
from pykueue.engine.model import Strategy
from pykueue.engine.record.causes import (
    HIDDEN,
    AwaitEnd,
    AwaitTime,
    Fix,
    FlavorCause,
    Holder,
    Neighbour,
    NewcomerCause,
    OtherQueue,
    PlaceCause,
    PodSetCause,
    QueueCauses,
    Raise,
    Shrink,
    State,
    Way,
    WorkloadCauses,
)
from pykueue.engine.record.evictiontree import eviction_nodes, preemption_nodes
from pykueue.engine.record.explain import obstacle, rank, reason, taken
from pykueue.engine.record.nodes import Node, listed, number
from pykueue.engine.record.pastusetree import TURNS, past_use_nodes, queue_past_use_nodes
from pykueue.engine.record.recent import OVERTAKERS_MAX, Overtakings
from pykueue.engine.record.rooms import Limit, Room
from pykueue.engine.record.sharetree import queue_share_nodes, share_nodes
from pykueue.engine.wording import shortened


def tree_of_workload(causes: WorkloadCauses) -> Node:
    """Why a workload is where it is."""
    parts = (
        queue_node(causes),
        place_node(causes.place),
        *past_use_nodes(causes.past_use),
        *share_nodes(causes.share),
        *(pod_set_node(one) for one in causes.pod_sets),
        *admission_nodes(causes),
        *check_nodes(causes),
        *backoff_nodes(causes),
        *eviction_nodes(causes.eviction, "" if causes.state is State.PENDING else causes.held),
        *preemption_nodes(causes.preemption),
        ways_node(causes.ways, causes.state),
    )
    return Node(*headline(causes), tuple(one for one in parts if one is not None))


def headline(causes: WorkloadCauses) -> tuple[str, str]:
    """The code and the first line of an explanation."""
    match causes.state:
        case State.PENDING if causes.never:
            return "never", causes.never
        case State.PENDING if causes.held:
            return "waits", causes.held
        case State.PENDING:
            why = causes.message if causes.why is None else reason(causes.why)
            return "waits", f"waits: {shortened(why)}" if why else "waits: it was not considered yet"
        case State.INACTIVE if causes.held:
            return "inactive", f"is {causes.held}"
        case State.INACTIVE:
            return "inactive", "is deactivated and does not queue; set spec.active to true, or release it, to queue it"
        case State.RESERVED:
            return "reserved", "holds quota, and starts when its AdmissionChecks are ready"
        case State.ADMITTED:
            ends = "" if causes.until is None else f"; its time limit ends it at {format_instant(causes.until)}"
            return "runs", f"was admitted at {format_instant(causes.since)}{ends}"
        case State.STOPPING:
            return "stops", "is evicted and stops; its quota is released when its pods are gone"
        case State.FINISHED if causes.ended:
            when = f" at {format_instant(causes.since)}" if causes.since else ""
            return "finished", f"finished{when}: {causes.ended}"
        case State.FINISHED:
            return "finished", "has finished and needs no quota"
        case _:
            assert_never(causes.state)


def queue_node(causes: WorkloadCauses) -> Node | None:
    """Whether its queues let it through."""
    found = causes.queue
    if causes.state is State.FINISHED:
        return None
    if found.obstacle:
        return Node("queue", f"queue: it cannot be considered, because {found.obstacle}")
    where = f"ClusterQueue {found.queue}" if found.queue else "no ClusterQueue"
    return Node("queue", f"queue: LocalQueue {found.local_queue} of {where}, active")


def place_node(place: PlaceCause | None) -> Node | None:
    """Its place in line, who is ahead, and who went past."""
    if place is None:
        return None
    text = f"place in line: {place.ahead + 1} of {place.total}"
    children: list[Node] = []
    if place.ahead:
        text += f"; ahead: {listed(place.first, place.ahead)}"
        if place.strategy is Strategy.STRICT:
            children.append(Node("strict", "the queue is StrictFIFO: nothing behind its head starts before the head"))
        elif place.parked:
            rest = "none of them fits" if place.parked == place.ahead else f"{place.parked} of them do not fit"
            children.append(Node("parked", f"{rest} now, so they do not block it"))
    if place.turns:
        children.append(TURNS)
    past = place.overtaken
    if past.count:
        often = f"at least {past.count}" if past.since is not None else f"{past.count}"
        latest = listed(past.last, min(past.count, OVERTAKERS_MAX))
        text_past = f"{often} behind it started before it{smaller_text(past)}; the latest: {latest}"
        children.append(Node("overtaken", text_past))
    return Node("place", text, tuple(children))


def smaller_text(past: Overtakings) -> str:
    """How many of those that went past ask for less, as a clause; empty if none does."""
    if not past.smaller:
        return ""
    if past.smaller < past.count or past.since is not None:
        return f", {past.smaller} of which ask{'s' if past.smaller == 1 else ''} for less"
    return ", which asks for less" if past.count == 1 else ", all of which ask for less"


def pod_set_node(part: PodSetCause) -> Node:
    """What a pod set asks for, and what there is of it."""
    pods = f"{part.count} pod" + ("" if part.count == 1 else "s")
    children = [flavor_node(one) for one in part.flavors]
    children += [Node("uncovered", f"{name}: its ClusterQueue does not cover this resource") for name in part.uncovered]
    asked = {one.room.resource: one.asked for one in part.flavors}
    total = " and ".join(f"{number(name, amount)} {name}" for name, amount in asked.items()) or "nothing"
    return Node("podset", f"pod set {part.name}: {pods}, asking for {total}", tuple(children))


def flavor_node(cause: FlavorCause) -> Node:
    """What the queue has of a resource in a flavor, and what is missing."""
    room, name = cause.room, cause.room.resource
    text = f"flavor {room.flavor}: {has(room)}"
    if cause.missing and isinstance(cause.obstacle, Short):
        text += f"; {number(name, cause.missing)} more needed"
        kept = cause.missing - max(0, cause.asked - room.free)
        return Node("short", text, (Node("limit", limit_text(room.limit, kept_for=kept, resource=name)),))
    if cause.missing:
        text += f"; asks {number(name, cause.missing)} more than it can ever have, {number(name, room.most)}"
        return Node("beyond", text, (Node("limit", limit_text(room.ceiling)),))
    if cause.obstacle is not None:
        return Node("excluded", f"flavor {room.flavor}: {obstacle(cause.obstacle)}")
    return Node("flavor", text)


def has(room: Room) -> str:
    """Numbers of a queue in a flavor."""
    name = room.resource
    text = f"{name}: nominal {number(name, room.nominal)}, used {number(name, room.used)}"
    text += f", free {number(name, room.free)}"
    if room.borrowable:
        part = "all" if room.borrowable == room.free else number(name, room.borrowable)
        text += f", {part} of it could be borrowed"
    if room.lent:
        text += f" ({number(name, room.lent)} of its own is lent to others)"
    return text


def limit_text(limit: Limit, *, kept_for: int = 0, resource: str = "") -> str:
    """Which limit decides."""
    if kept_for > 0:
        return f"{number(resource, kept_for)} of what is free is kept for other workloads of this queue or its cohort"
    match limit.field:
        case "nominalQuota":
            return f"limited by nominalQuota of ClusterQueue {limit.name}, which has no cohort to borrow from"
        case "borrowingLimit":
            return f"limited by borrowingLimit of {limit.kind} {limit.name}"
        case "cohort":
            return f"limited by all quota in cohort {limit.name} together"


def admission_nodes(causes: WorkloadCauses) -> Iterator[Node]:
    """What a workload holds."""
    if causes.admission is None or causes.state is State.FINISHED:
        return
    borrows = Node("borrows", "its ClusterQueue borrows; the owners of that quota may take it back")
    yield Node("holds", f"quota: it {taken(causes.admission, 0)}", (borrows,) if causes.borrows else ())


def check_nodes(causes: WorkloadCauses) -> Iterator[Node]:
    """The AdmissionChecks and their states."""
    if not causes.checks or causes.state in (State.FINISHED, State.ADMITTED, State.INACTIVE):
        return
    when = "" if causes.admission is not None else ", once it has quota"
    ready = sum(one.state == "Ready" for one in causes.checks)
    children = tuple(
        Node("check", f"{one.name}: {one.state}" + (f" ({one.message})" if one.message else ""))
        for one in causes.checks
    )
    yield Node("checks", f"AdmissionChecks{when}: {ready} of {len(children)} ready", children)


def backoff_nodes(causes: WorkloadCauses) -> Iterator[Node]:
    """Until when it is left out."""
    if causes.backoff_until is not None and causes.state is State.PENDING:
        yield Node("backoff", f"backoff: it is tried again at {format_instant(causes.backoff_until)}")


def ways_node(ways: Iterable[Way], state: State) -> Node | None:
    """What would let it start."""
    children = tuple(Node(type(one).__name__, way_text(one)) for one in ways)
    if not children or state is not State.PENDING:
        return None
    return Node("ways", "what would let it start, the easiest first:", children)


def way_text(way: Way) -> str:
    """One way."""
    match way:
        case AwaitTime(at):
            return f"wait until {format_instant(at)}, when it is tried again"
        case AwaitEnd():
            return await_text(way)
        case OtherQueue(local_queue, queue, flavors, pending):
            line = f"; {pending} wait there" if pending else ""
            where = f" of flavor {', '.join(flavors)}" if flavors else ""
            return f"submit it to queue {local_queue} (ClusterQueue {queue}), which has room{where} now{line}"
        case Shrink(pod_set, resource, by, asked, fewer_pods):
            text = f"ask for {number(resource, by)} {resource} less in pod set {pod_set}"
            text += f" ({number(resource, asked - by)} instead of {number(resource, asked)})"
            pods = f"{fewer_pods} pod" + ("" if fewer_pods == 1 else "s")
            return f"{text}, or run {pods} fewer" if fewer_pods else text
        case Fix(text):
            return text
        case Raise(limit, flavor, resource, by, queue):
            more = f"{number(resource, by)} {resource} of flavor {flavor}"
            if limit.field == "borrowingLimit":
                return f"an administrator may raise borrowingLimit of {limit.kind} {limit.name} by {more}"
            return f"an administrator may raise nominalQuota of ClusterQueue {queue} by {more}"
        case _:
            assert_never(way)


def await_text(way: AwaitEnd) -> str:
    """Whom to wait for, and until when."""
    what = " and ".join(
        f"{number(one.resource, one.missing)} {one.resource} of flavor {one.flavor}" for one in way.short
    )
    if way.at is not None:
        who = listed(way.holders[:OVERTAKERS_MAX], len(way.holders))
        return f"wait until {format_instant(way.at)}, when {who} will have ended, unless others ahead take the room"
    text = f"wait until work that uses {what} finishes"
    if not way.holding:
        return text
    used = f"{way.holding} workload uses it" if way.holding == 1 else f"{way.holding} workloads use it"
    declared = way.holding - way.undeclared
    ends = "none declares" if not declared else f"{declared} of them declare" if declared > 1 else "one declares"
    return f"{text}; {used}, {ends} a maximum run time"


# Queues.


def tree_of_queue(causes: QueueCauses) -> Node:
    """Who holds what, who borrows, and what a newcomer would meet."""
    parts = (
        *own_nodes(causes),
        *queue_past_use_nodes(causes.past_use),
        *queue_share_nodes(causes),
        *(Node("quota", f"flavor {one.flavor}: {has(one)}{beyond(one, causes)}") for one in causes.rooms),
        holders_node(causes),
        neighbours_node("borrowers", "these borrow from its cohort", causes.borrowers),
        neighbours_node("lenders", "it borrows what these leave unused", causes.lenders),
        line_node(causes),
        *(newcomer_node(one, causes) for one in causes.newcomers),
    )
    active = f"admits nothing: {causes.obstacle}" if causes.obstacle else "is active"
    where = f"; its workloads go to ClusterQueue {causes.queue}" if causes.local_queue else ""
    return Node("stopped" if causes.obstacle else "queue", f"{active}{where}", tuple(one for one in parts if one))


def own_nodes(causes: QueueCauses) -> Iterator[Node]:
    """The place of a queue, and the part of a LocalQueue."""
    if causes.cohorts:
        yield Node("cohort", f"cohort: {' below '.join(causes.cohorts)}")
    if causes.local_queue:
        text = f"workloads of this LocalQueue: {causes.own_holding} with quota, {causes.own_pending} waiting"
        yield Node("own", text)


def beyond(room: Room, causes: QueueCauses) -> str:
    """How much a queue uses beyond its own quota."""
    if not room.borrowed:
        return ""
    amount = number(room.resource, room.borrowed)
    return f"; it borrows {amount}" if causes.cohorts else f"; {amount} over quota"


def holders_node(causes: QueueCauses) -> Node:
    """Who holds quota."""
    if not causes.holding:
        return Node("holders", "nothing holds its quota")
    named = [one for one in causes.holders if one.key != HIDDEN]
    children = [Node("holder", f"{one.key}: {holder_text(one)}") for one in named]
    hidden, rest = len(causes.holders) - len(named), causes.holding - len(causes.holders)
    if hidden:
        children.append(Node("hidden", f"{hidden} of other namespaces"))
    if rest:
        children.append(Node("more", f"{rest} more"))
    text = f"{causes.holding} workload" + (" holds" if causes.holding == 1 else "s hold") + " its quota"
    return Node("holders", text, tuple(children))


def holder_text(one: Holder) -> str:
    """What a workload holds, since when and until when."""
    held = ", ".join(f"{number(name, amount)} {name} of flavor {flavor}" for flavor, name, amount in one.amounts)
    times = [] if one.since is None else [f"since {format_instant(one.since)}"]
    if one.leaving:
        times.append("evicted, about to stop")
    elif one.until is not None:
        times.append(f"until {format_instant(one.until)} at the latest")
    return ", ".join((held or "nothing", *times))


def neighbours_node(code: str, text: str, found: tuple[Neighbour, ...]) -> Node | None:
    """What other queues borrow or lend."""
    if not found:
        return None
    rows = (
        f"ClusterQueue {one.queue}: {number(one.resource, one.amount)} {one.resource} of flavor {one.flavor}"
        for one in found
    )
    return Node(code, f"{text}:", tuple(Node(code[:-1], row) for row in rows))


def line_node(causes: QueueCauses) -> Node:
    """Who waits."""
    if not causes.pending:
        return Node("line", "nothing waits")
    count = f"{causes.pending} wait" + ("s" if causes.pending == 1 else "")
    text = f"{count} ({causes.strategy}); first in line: {listed(causes.first, causes.pending)}"
    rest = "none of them fits" if causes.parked == causes.pending else f"{causes.parked} of them do not fit"
    return Node("line", text, (Node("parked", f"{rest} now"),) if causes.parked else ())


def newcomer_node(one: NewcomerCause, causes: QueueCauses) -> Node:
    """What a newcomer would meet."""
    asks = f"a new job with {number(one.resource, one.amount)} {one.resource}"
    if not one.fits and not one.victims:
        why = ", ".join(obstacle(each) for each in sorted(set(one.obstacles), key=rank)) or "no flavor fits"
        if one.too_many:
            rest = "whether it would preempt others is not computed for so many that run"
            return Node("newcomer", f"{asks} does not fit now: {why}; {rest}")
        return Node("newcomer", f"{asks} would wait: {why}")
    if causes.pending and causes.strategy is Strategy.STRICT:
        others = f"{causes.pending} other" + ("s" if causes.pending > 1 else "")
        return Node("newcomer", f"{asks} would wait behind {others}, because the queue is StrictFIFO")
    borrowed = ", on borrowed quota" if one.borrows else ""
    behind = ", unless one of those that wait starts first" if causes.pending > causes.parked else ""
    if one.victims:
        count = f"{one.victims} workload" + ("s" if one.victims > 1 else "")
        text = f"{asks} would start by preempting {count} in flavor {one.flavor}{borrowed}{behind}"
        return Node("newcomer", text)
    return Node("newcomer", f"{asks} would start now in flavor {one.flavor}{borrowed}{behind}")
