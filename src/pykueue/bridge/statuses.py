"""The status of queues, as a merge patch of what differs; empty if nothing does.

A patch contains only fields that we own and that differ. A patch of conditions also repeats the conditions of others,
because a merge patch replaces the whole list: send it only for the version that was read.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from pykueue.api.checks import AdmissionCheck
from pykueue.api.core import Condition, Json, Tree, condition_tree
from pykueue.api.kueue import (
    ClusterQueue,
    ClusterQueueStatus,
    Cohort,
    FairSharingStatus,
    FlavorUsage,
    LocalFairSharingStatus,
    LocalFlavorUsage,
    LocalQueue,
    LocalQueueStatus,
    LocalResourceUsage,
    ResourceUsage,
)
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, Quantity, amount_text, format_instant, parse_instant
from pykueue.bridge.unbuilt import unbuilt
from pykueue.engine import model
from pykueue.engine.engine import Engine
from pykueue.engine.record.tally import (
    Holdings,
    Pair,
    Tally,
    inactive_because,
    nominal_of,
    of_local_queue,
    of_queue,
    pairs_of,
)
from pykueue.engine.shares import Share
from pykueue.engine.wording import shortened

ACTIVE: Final = "Active"
FLAVORS_MAX: Final = 64
"""The most flavors that a status can list."""
REFUSES: Final = "Can't admit new workloads"
CLOSED: Final = "Can't submit new workloads to clusterQueue"

Status = TypeVar("Status", ClusterQueueStatus, LocalQueueStatus)


class Verdict(Frozen):
    """Whether a queue, or a check, is active, and why."""

    active: bool
    reason: str
    message: str


def cluster_queue(seen: ClusterQueue, engine: Engine, now: Instant) -> Tree:
    """What differs in the status of a ClusterQueue; empty for one that the engine does not know yet."""
    queue, tally = engine.queue(seen.name), of_queue(engine, seen.name)
    if queue is None or tally is None:
        return {}
    wanted = ClusterQueueStatus(
        flavors_reservation=usages(queue, tally.reserved),
        flavors_usage=usages(queue, tally.admitted),
        pending_workloads=tally.pending,
        reserving_workloads=tally.reserved.workloads,
        admitted_workloads=tally.admitted.workloads,
    )
    share = share_difference(seen.status.fair_sharing, engine.share_of_queue(seen.name))
    patch = {**difference(seen.status, wanted), **share}
    conditions = with_active(seen.status.conditions, verdict(engine, queue), seen.metadata.generation, now)
    return patch if conditions is None else {**patch, "conditions": conditions}


def verdict(engine: Engine, queue: model.ClusterQueue) -> Verdict:
    """Whether a ClusterQueue can admit, and why not, in Kueue's words."""
    because = inactive_because(engine, queue.name)
    if not because:
        return Verdict(True, "Ready", "Can admit new workloads")
    if queue.terminating:
        return Verdict(False, "Terminating", f"{REFUSES}; clusterQueue is terminating")
    return Verdict(False, because[0][0], f"{REFUSES}: {', '.join(text for _, text in because)}.")


def usages(queue: model.ClusterQueue, held: Holdings) -> tuple[FlavorUsage, ...]:
    """Usage of everything that a ClusterQueue covers, including zeros."""
    nominal = nominal_of(queue)

    def usage(pair: Pair) -> ResourceUsage:
        total = held.amounts.get(pair, 0)
        borrowed = max(0, total - nominal.get(pair, 0)) if queue.cohort else 0
        resource = pair[1]
        return ResourceUsage(resource, amount_text(resource, total), amount_text(resource, borrowed))

    return tuple(
        FlavorUsage(flavor, tuple(usage((flavor, resource)) for resource in resources))
        for flavor, resources in list(pairs_of(queue).items())[:FLAVORS_MAX]
    )


def local_queue(seen: LocalQueue, engine: Engine, now: Instant) -> Tree:
    """What differs in the status of a LocalQueue; empty for one that the engine does not know yet."""
    key = f"{seen.namespace}/{seen.name}"
    tally = of_local_queue(engine, key)
    return {} if tally is None else local_queue_with(seen, engine, tally, now)


def local_queue_with(seen: LocalQueue, engine: Engine, tally: Tally, now: Instant) -> Tree:
    """The same, given the LocalQueue's tally."""
    key = f"{seen.namespace}/{seen.name}"
    local = engine.local_queue(key)
    assert local is not None, f"LocalQueue {key} was counted, so the engine knows it"
    queue = engine.queue(local.queue)
    if local.stop is not model.StopPolicy.NONE:
        found = Verdict(False, "Stopped", "LocalQueue is stopped")
    elif queue is None:
        found = Verdict(False, "ClusterQueueDoesNotExist", CLOSED)
    elif inactive_because(engine, queue.name):
        found = Verdict(False, "ClusterQueueIsInactive", CLOSED)
    else:
        found = Verdict(True, "Ready", "Can submit new workloads to localQueue")
    wanted = LocalQueueStatus(
        flavors_reservation=local_usages(queue, tally.reserved),
        flavors_usage=local_usages(queue, tally.admitted),
        pending_workloads=tally.pending,
        reserving_workloads=tally.reserved.workloads,
        admitted_workloads=tally.admitted.workloads,
    )
    patch = difference(seen.status, wanted)
    past = engine.past_use(key, now)
    if past is not None:
        patch |= past_use(seen.status.fair_sharing, queue, *past)
    elif seen.status.fair_sharing is not None:
        patch["fairSharing"] = None
    conditions = with_active(seen.status.conditions, found, seen.metadata.generation, now)
    return patch if conditions is None else {**patch, "conditions": conditions}


def past_use(
    seen: LocalFairSharingStatus | None, queue: model.ClusterQueue | None, consumed: Mapping[str, int], at: Instant
) -> Tree:
    """What differs in the past use of a LocalQueue: billionths of each resource, and up to when it counts.

    Past use of nothing is written once.
    """
    known = None if seen is None else seen.admission_fair_sharing_status
    covered = {resource for group in (() if queue is None else queue.groups) for resource in group.resources}
    amounts: Tree = {resource: str(Quantity(consumed.get(resource, 0))) for resource in sorted(covered | set(consumed))}
    if known is not None:
        at = max(at, parse_instant(known.last_update))
        unchanged = known.consumed_resources == amounts and (not consumed or format_instant(at) == known.last_update)
        if unchanged:
            return {}
        # A merge patch keeps what it does not name.
        amounts = {**dict.fromkeys(known.consumed_resources), **amounts}
    update: Tree = {"consumedResources": amounts, "lastUpdate": format_instant(at)}
    return {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": update}}


def local_usages(queue: model.ClusterQueue | None, held: Holdings) -> tuple[LocalFlavorUsage, ...]:
    """Usage by a LocalQueue's workloads of everything that its ClusterQueue covers."""
    covered: Mapping[str, Sequence[str]] = {} if queue is None else pairs_of(queue)
    return tuple(
        LocalFlavorUsage(
            flavor,
            tuple(
                LocalResourceUsage(resource, amount_text(resource, held.amounts.get((flavor, resource), 0)))
                for resource in resources
            ),
        )
        for flavor, resources in list(covered.items())[:FLAVORS_MAX]
    )


def cohort(seen: Cohort, engine: Engine) -> Tree:
    """What differs in the status of a Cohort, which has only a share; empty for one that the engine does not know."""
    if engine.options.fair_sharing and seen.name not in engine.cohorts():
        return {}
    return share_difference(seen.status.fair_sharing, engine.share_of_cohort(seen.name))


def share_difference(seen: FairSharingStatus | None, share: Share | None) -> Tree:
    """What differs in the share of a ClusterQueue or Cohort; it is removed while fair sharing is off."""
    if share is None:
        return {} if seen is None else {"fairSharing": None}
    if seen is not None and seen.weighted_share == share.rounded:
        return {}
    return {"fairSharing": {"weightedShare": share.rounded}}


def admission_check(seen: AdmissionCheck, now: Instant) -> Tree:
    """What differs in the status of an AdmissionCheck: inactive, if we should perform it and cannot.

    The controller of a check reports whether it is active; checks of other controllers are left alone.
    """
    beyond = unbuilt("AdmissionCheck", seen)
    if not beyond:
        return {}
    found = Verdict(False, "Unsupported", "; ".join(beyond))
    conditions = with_active(seen.status.conditions, found, seen.metadata.generation, now)
    return {} if conditions is None else {"conditions": conditions}


def difference(seen: Status, wanted: Status) -> Tree:
    """The fields of a status that differ from the wanted ones, except conditions and shares."""
    patch: Tree = {}
    if seen.pending_workloads != wanted.pending_workloads:
        patch["pendingWorkloads"] = wanted.pending_workloads
    if seen.reserving_workloads != wanted.reserving_workloads:
        patch["reservingWorkloads"] = wanted.reserving_workloads
    if seen.admitted_workloads != wanted.admitted_workloads:
        patch["admittedWorkloads"] = wanted.admitted_workloads
    if seen.flavors_reservation != wanted.flavors_reservation:
        patch["flavorsReservation"] = flavors_tree(wanted.flavors_reservation)
    if seen.flavors_usage != wanted.flavors_usage:
        patch["flavorsUsage"] = flavors_tree(wanted.flavors_usage)
    return patch


def flavors_tree(usages: Sequence[FlavorUsage] | Sequence[LocalFlavorUsage]) -> Json:
    """Usage in wire format; null if there is none."""
    found: list[Json] = [
        {"name": usage.name, "resources": [resource_tree(resource) for resource in usage.resources]} for usage in usages
    ]
    return found or None


def resource_tree(usage: ResourceUsage | LocalResourceUsage) -> Tree:
    """Usage of one resource in wire format."""
    tree: Tree = {"name": usage.name, "total": usage.total}
    if isinstance(usage, ResourceUsage):
        tree["borrowed"] = usage.borrowed
    return tree


def with_active(
    conditions: Sequence[Condition], found: Verdict, generation: int | None, now: Instant
) -> list[Json] | None:
    """All conditions with ours corrected; None if it is correct already."""
    status = "True" if found.active else "False"
    message = shortened(found.message)
    known = next((condition for condition in conditions if condition.type == ACTIVE), None)
    since = format_instant(now)
    if known is not None:
        if (known.status, known.reason, known.message, known.observed_generation) == (
            status,
            found.reason,
            message,
            generation,
        ):
            return None
        if known.status == status and known.last_transition_time is not None:
            since = known.last_transition_time
    ours: Tree = {
        "type": ACTIVE,
        "status": status,
        "reason": found.reason,
        "message": message,
        "lastTransitionTime": since,
    }
    if generation is not None:
        ours["observedGeneration"] = generation
    others: list[Json] = [condition_tree(condition) for condition in conditions if condition.type != ACTIVE]
    return [*others, ours]
