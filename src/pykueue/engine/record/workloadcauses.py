"""Explain a workload from the state of the engine: its queues, its place in line, what it lacks, what would help."""

from collections.abc import Generator, Iterator
from typing import Final

from msgspec.structs import replace

from pykueue.base.units import Instant
from pykueue.engine.decisions import (
    Admit,
    Bypassed,
    DeferredFit,
    Evict,
    FailedChecks,
    NoLongerFits,
    Obstacle,
    OverCapacity,
    Overlap,
    PodSetObstacles,
    Queued,
    Short,
    Unassigned,
    Why,
)
from pykueue.engine.eligibility import conflicts
from pykueue.engine.engine import Engine
from pykueue.engine.forest import root_of
from pykueue.engine.items import Item
from pykueue.engine.lifecycle import obstacle as queue_obstacle
from pykueue.engine.lifecycle import run_end
from pykueue.engine.model import CheckState, Workload
from pykueue.engine.pending import PENDING, backoff_over
from pykueue.engine.quota import QuotaNode, within_nominal
from pykueue.engine.record.causes import (
    Ends,
    EvictionCause,
    FlavorCause,
    PlaceCause,
    PodSetCause,
    QueueCause,
    State,
    WorkloadCauses,
)
from pykueue.engine.record.explain import never, reason
from pykueue.engine.record.parsing import preemption, unassigned
from pykueue.engine.record.partial import shrinkable_pod_sets
from pykueue.engine.record.pastusecauses import past_use_before
from pykueue.engine.record.preemptions import PreemptionRecord
from pykueue.engine.record.recent import Noted, Recent, waits_since
from pykueue.engine.record.remedies import excess, ways_of
from pykueue.engine.record.rooms import covered, is_consistent, obstacles_of, planner, requests_of
from pykueue.engine.record.sharecauses import shares_of
from pykueue.engine.wording import message
from pykueue.engine.world import World

PLAIN: Final = (Queued(), Bypassed(), Overlap(), DeferredFit(), NoLongerFits(), FailedChecks())
"""Reasons without details, which their messages alone identify."""
FIRST_MAX: Final = 5
"""How many of those ahead are named."""
SEARCHED: Final = 5_000
"""Workloads that one step of a search looks at."""


def of_workload(
    engine: Engine, key: str, recent: Recent, ends: Ends = run_end
) -> Generator[None, None, WorkloadCauses | None]:
    """Explain a workload; None if the engine knows none of this key. Yields between steps of a few milliseconds."""
    item = engine.item(key)
    if item is None:
        return None
    workload, world = item.workload, engine.world
    state = state_of(workload)
    queue = world.forest.queues.get(queue_name(world, workload))
    causes = WorkloadCauses(
        key,
        state,
        since(state, item),
        queue_cause(item, world),
        admission=workload.admission,
        borrows=queue is not None and bool(item.frs) and not within_nominal(queue, item.frs),
        checks=checks_of(engine, workload, queue),
        until=ends(workload),
        backoff_until=None if backoff_over(workload, engine.now) else workload.requeue_at,
        recent=recent.of(key),
        forgotten=recent.has_forgotten(key),
        preemption=preemption_for(item, state, recent),
    )
    eviction = yield from eviction_of(engine, item, recent)
    if state is not State.PENDING:
        return replace(causes, eviction=eviction)
    code, why = reason_of(engine, item)
    found = obstacles(world, queue, item, why)
    if isinstance(why, Unassigned):
        why = replace(why, pod_sets=found)
    pod_sets = () if queue is None or root_of(queue) is None else tuple(pod_set_causes(world, queue, item, found))
    place = yield from place_of(engine, queue, item, recent)
    yield
    share = shares_of(engine, world.forest.queues.get(item.queue), item) if place is not None else None
    past_use = None
    if place is not None:
        past_use, turns = yield from past_use_before(engine, queue, item)
        place = replace(place, turns=turns)
    ways = yield from ways_of(engine, item, why, found, pod_sets, ends)
    return replace(
        causes,
        reason=code,
        why=why,
        message="" if workload.waiting is None else workload.waiting.message,
        never="" if why is None else never(code, why, shrinkable_pod_sets(workload)),
        place=place,
        share=share,
        past_use=past_use,
        pod_sets=pod_sets,
        eviction=eviction,
        ways=ways,
    )


def state_of(workload: Workload) -> State:
    """What a workload does."""
    if workload.finished:
        return State.FINISHED
    if workload.admission is not None:
        if workload.evicted is not None:
            return State.STOPPING
        return State.RESERVED if workload.admitted_at is None else State.ADMITTED
    return State.PENDING if workload.active else State.INACTIVE


def since(state: State, item: Item) -> Instant:
    """Since when a workload does that."""
    workload = item.workload
    held = workload.reserved_at if workload.admitted_at is None else workload.admitted_at
    if state in (State.RESERVED, State.ADMITTED) and held is not None:
        return held
    return waits_since(item)


def queue_name(world: World, workload: Workload) -> str:
    """The ClusterQueue that a workload holds quota of, or else is sent to."""
    return world.queue_of(workload) if workload.admission is None else workload.admission.queue


def queue_cause(item: Item, world: World) -> QueueCause:
    """The queues of a workload, and why they let nothing through."""
    workload = item.workload
    name = workload.local_queue.partition("/")[2]
    found = queue_obstacle(item, world) if state_of(workload) is State.PENDING else None
    return QueueCause(name, queue_name(world, workload), "" if found is None else reason(found[1], workload))


def reason_of(engine: Engine, item: Item) -> tuple[str, Why | None]:
    """Why a workload is pending: the verdict on its class, or what was last decided about it."""
    verdict = engine.pending_reason(item)
    waiting = item.workload.waiting
    if verdict is not None:
        return verdict
    if waiting is None:
        return "", item.reported
    plain = next((one for one in PLAIN if message(one) == waiting.message), None)
    return waiting.reason, item.reported or plain or unassigned(waiting.message)


def obstacles(world: World, queue: QuotaNode | None, item: Item, why: Why | None) -> tuple[PodSetObstacles, ...]:
    """What stands in the way of each pod set now.

    What was decided may be older: nothing is decided again when only less is free. It counts where the flavors would be
    free, but are kept for another workload.
    """
    decided = why.pod_sets if isinstance(why, Unassigned) else ()
    if queue is None or not is_consistent(world, queue):
        return decided
    plan = planner(world, queue, item).plan(item.shape.counts)
    return decided if plan.fits else obstacles_of(plan)


def pod_set_causes(
    world: World, queue: QuotaNode, item: Item, found: tuple[PodSetObstacles, ...]
) -> Iterator[PodSetCause]:
    """What each pod set asks for, and what the queue has of it in each flavor."""
    by_name = {each.pod_set: each.obstacles for each in found}
    for index, pod_set in enumerate(item.workload.pod_sets):
        against = by_name.get(pod_set.name, ())
        rows: list[FlavorCause] = []
        uncovered: list[str] = []
        for resource, asked in requests_of(queue, item, index):
            rooms = tuple(covered(queue, resource))
            if not rooms and asked:
                uncovered.append(resource)
            for room in rooms:
                one = obstacle_of(against, room.flavor, resource)
                missing = excess(one) if isinstance(one, Short | OverCapacity) else 0
                rows.append(FlavorCause(room, asked, missing, one))
        flavors = {row.room.flavor: None for row in rows}
        contradicted = tuple(
            (name, key, value)
            for name in flavors
            if name in world.flavors
            for key, value in conflicts(pod_set, dict(world.flavors[name].labels))
        )
        yield PodSetCause(pod_set.name, item.shape.counts[index], tuple(rows), tuple(uncovered), contradicted)


def obstacle_of(found: tuple[Obstacle, ...], flavor: str, resource: str) -> Obstacle | None:
    """What stands in the way of a resource in a flavor."""
    for one in found:
        if getattr(one, "flavor", None) == flavor and getattr(one, "resource", resource) == resource:
            return one
    return None


def place_of(
    engine: Engine, queue: QuotaNode | None, item: Item, recent: Recent
) -> Generator[None, None, PlaceCause | None]:
    """The place of a workload in line; None if it is in none."""
    if queue is None or item.place not in PENDING:
        return None
    total = len(engine.world.pending[queue.name])
    ahead = yield from engine.ahead(item, FIRST_MAX)
    return PlaceCause(
        ahead.count,
        ahead.parked,
        total,
        tuple(one.key for one in ahead.first),
        queue.spec.strategy,
        recent.overtakings(item),
    )


def checks_of(engine: Engine, workload: Workload, queue: QuotaNode | None) -> tuple[CheckState, ...]:
    """The checks that a workload has to pass and their states; before quota is reserved those of its queue."""
    states = {one.name: one for one in workload.checks}
    if workload.admission is not None:
        names = engine.required_checks(workload)
    else:
        names = () if queue is None else tuple(dict.fromkeys(rule.check for rule in queue.spec.checks))
    return tuple(states.get(name) or CheckState(name, "Pending") for name in names)


def eviction_of(engine: Engine, item: Item, recent: Recent) -> Generator[None, None, EvictionCause | None]:
    """The last eviction of a workload; None if there was none, or none that is remembered."""
    evicted = item.workload.evicted
    noted = next((one for one in reversed(recent.of(item.key)) if isinstance(one.decision, Evict)), None)
    if noted is not None and isinstance(noted.decision, Evict):
        decision = noted.decision
        found = EvictionCause(
            decision.at,
            decision.reason,
            decision.message,
            noted,
            decision.by,
            clause=decision.preemption,
            lost_micros=None if noted.admitted_at is None else max(0, decision.at - noted.admitted_at),
            preemption=noted.preemption,
        )
    elif evicted is not None:
        found = EvictionCause(evicted.at, evicted.reason, evicted.message)
    else:
        return None
    known = preemption(found.message)
    if known is None:
        return found
    by = engine.item(found.by)
    if by is None and known.uid:
        by = yield from by_uid(engine, known.uid)
    found = replace(
        found, by=found.by if by is None else by.key, by_queue=known.queue, clause=found.clause or known.clause
    )
    return with_preemptor(found, by, recent.of(found.by))


def preemption_for(item: Item, state: State, recent: Recent) -> PreemptionRecord | None:
    """What was preempted for a workload since it waits; None if nothing was, or if it has to leave again itself."""
    if state not in (State.PENDING, State.RESERVED, State.ADMITTED):
        return None
    found = recent.preemption_by(item.key)
    return None if found is None or found.at < waits_since(item) else found


def by_uid(engine: Engine, uid: str) -> Generator[None, None, Item | None]:
    """A workload by its uid; None if there is none."""
    everyone = list(engine.items())
    for start in range(0, len(everyone), SEARCHED):
        for one in everyone[start : start + SEARCHED]:
            if one.uid == uid:
                return one
        yield
    return None


def with_preemptor(found: EvictionCause, by: Item | None, decided: tuple[Noted, ...]) -> EvictionCause:
    """An eviction with what became of the preemptor."""
    starts = [one.decision.at for one in decided if isinstance(one.decision, Admit) and one.decision.at >= found.at]
    if starts:
        return replace(found, started_at=starts[0])
    at = None if by is None else by.workload.admitted_at
    if at is not None and at >= found.at:
        return replace(found, started_at=at)
    waits = by is not None and by.workload.admission is None and not by.workload.finished
    return replace(found, still_waits=waits)
