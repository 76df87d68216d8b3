"""Decisions and reasons as sentences that users can act on; Kueue's own messages are in `wording`."""

from collections.abc import Iterable
from typing import Final, assert_never

from pykueue.base.units import UNLIMITED, Instant, amount_text, format_instant
from pykueue.engine.decisions import (
    Admit,
    AfterEviction,
    Bypassed,
    Deactivate,
    DeactivationCause,
    Decision,
    DeferredFit,
    Evict,
    EvictionReason,
    FailedChecks,
    FlavorMissing,
    GatedBy,
    GatesCleared,
    Inactive,
    Invalid,
    Mismatch,
    NamespaceMismatch,
    NamespaceMissing,
    NoLongerFits,
    NotNominated,
    Obstacle,
    OverCapacity,
    Overlap,
    PodSetObstacles,
    PodsNotReady,
    PreemptionReason,
    Queued,
    QueueInactive,
    QueueMissing,
    Requeue,
    RequeueReason,
    Reserve,
    Short,
    Unassigned,
    Uncovered,
    Unreserve,
    Untolerated,
    Wait,
    WaitReason,
    Why,
)
from pykueue.engine.model import Admission, Workload
from pykueue.engine.record.partial import RIGID, Shrinkable, fewest, may_shrink
from pykueue.engine.wording import shortened

OBSTACLES_MAX: Final = 3
"""How many obstacles of a pod set a sentence names: those nearest to a fit."""
NEVER: Final = frozenset({WaitReason.EXCEEDS_MAX_QUOTA, WaitReason.NO_MATCHING_FLAVOR})
"""Reasons that remain when other workloads end."""
TRANSIENT: Final = Short | NotNominated
"""Obstacles that may go away when other workloads end."""


def explain(decision: Decision, workload: Workload | None = None) -> str:
    """One sentence: the decision, its reason, and what would help; with the workload it includes its requests."""
    parts = [f"{headline(decision)}: {because(decision, workload)}"]
    if isinstance(decision, Wait):
        helps = what_helps(decision.why)
        if helps:
            parts.append(either(helps))
    return shortened("; ".join(parts))


def either(ways: Iterable[str]) -> str:
    """Several remedies as one clause."""
    return ", or ".join(ways)


def headline(decision: Decision) -> str:
    """The decision in one or two words."""
    match decision:
        case Reserve():
            return "holds quota"
        case Admit():
            return "starts"
        case Evict(reason=reason):
            return "is preempted" if reason is EvictionReason.PREEMPTED else "is evicted"
        case Unreserve():
            return "gives quota back"
        case Requeue():
            return "queues again"
        case Deactivate():
            return "is deactivated"
        case Wait():
            return "waits"
        case _:
            assert_never(decision)


def because(decision: Decision, workload: Workload | None = None) -> str:
    """The reason of a decision, as a clause."""
    match decision:
        case Reserve(admission=admission, borrowing=borrowing):
            return f"{taken(admission, borrowing)}; it starts when its AdmissionChecks are ready"
        case Admit(admission=admission, borrowing=borrowing, reserved_before=reserved_before):
            if reserved_before:
                return "its AdmissionChecks are ready"
            return taken(admission, borrowing)
        case Evict():
            return eviction(decision)
        case Unreserve(why=why, requeued=requeued):
            if requeued is None:
                return reason(why, workload)
            return "its pods are gone, and its room is free for others"
        case Requeue(reason=requeue_reason):
            return requeueing(requeue_reason)
        case Deactivate(cause=cause):
            return deactivation(cause)
        case Wait(why=why):
            return reason(why, workload)
        case _:
            assert_never(decision)


def taken(admission: Admission, borrowing: int) -> str:
    """The quota that a workload got, and in which queue and flavors."""
    totals: dict[str, dict[str, int]] = {}
    pods = 0
    for assignment in admission.assignments:
        flavors = dict(assignment.flavors)
        pods += assignment.count
        for resource, amount in assignment.usage:
            of_flavor = totals.setdefault(flavors.get(resource, ""), {})
            of_flavor[resource] = min(of_flavor.get(resource, 0) + amount, UNLIMITED)
    parts = [
        " and ".join(f"{amount_text(resource, amount)} {resource}" for resource, amount in sorted(amounts.items()))
        + (f" of flavor {flavor}" if flavor else "")
        for flavor, amounts in sorted(totals.items())
    ]
    what = ", ".join(parts) or f"{pods} pod(s) that ask for nothing"
    where = f"takes {what} in ClusterQueue {admission.queue}"
    return f"{where}, some of it borrowed from its cohort" if borrowing else where


def eviction(decision: Evict) -> str:
    """Why a workload is evicted, and what happens next."""
    match decision.reason:
        case EvictionReason.PREEMPTED:
            again = "it is queued again by itself"
            return f"{decision.by or 'another workload'} {preemption(decision.preemption)}; {again}"
        case EvictionReason.PODS_READY_TIMEOUT:
            again = retry_at(decision.requeue_at)
            if decision.cause == "WaitForRecovery":
                return f"its pods were not all ready again in time; {again}"
            return f"its pods were not all ready in time (attempt {decision.requeue_count}); {again}"
        case EvictionReason.ADMISSION_CHECK:
            return f"an AdmissionCheck asks for another try; {retry_at(decision.requeue_at)}"
        case EvictionReason.QUEUE_STOPPED:
            return "its ClusterQueue is stopped with HoldAndDrain; it is queued again when that is resumed"
        case EvictionReason.LOCAL_QUEUE_STOPPED:
            return "its LocalQueue is stopped with HoldAndDrain; it is queued again when that is resumed"
        case EvictionReason.DEACTIVATED:
            return "it is held or deactivated; release it, or set spec.active to true to queue it again"
        case _:
            assert_never(decision.reason)


def preemption(clause: PreemptionReason | None) -> str:
    """The policy that allows the preemption."""
    match clause:
        case PreemptionReason.IN_QUEUE | None:
            return "goes before it in the same ClusterQueue and needs its room"
        case PreemptionReason.RECLAIM:
            return "takes back quota of its own ClusterQueue that this one's ClusterQueue had borrowed"
        case PreemptionReason.RECLAIM_WHILE_BORROWING:
            return "has priority over this one, whose ClusterQueue borrows, and borrows its room"
        case PreemptionReason.FAIR_SHARING:
            return "belongs to a ClusterQueue whose share of the borrowed quota is smaller"
        case _:
            assert_never(clause)


def preempted_for(who: str, clause: PreemptionReason | None, queue: str) -> str:
    """The preemptor of a workload, and the policy that allowed it; `queue` is the preemptor's ClusterQueue."""
    match clause:
        case PreemptionReason.IN_QUEUE | None:
            right = f"goes before it in {queue}" if queue else "goes before it"
        case PreemptionReason.RECLAIM:
            right = f"took back what {queue} owns"
        case PreemptionReason.RECLAIM_WHILE_BORROWING:
            right = f"has priority over it, and borrows its room for {queue}"
        case PreemptionReason.FAIR_SHARING:
            right = f"belongs to {queue}, whose share of the borrowed quota was smaller"
        case _:
            assert_never(clause)
    return f"preempted for {who}, which {right}"


def retry_at(at: Instant | None) -> str:
    """When an evicted workload is tried again."""
    return "it is queued again at once" if at is None else f"it is queued again at {format_instant(at)}"


def requeueing(cause: RequeueReason) -> str:
    """Why an evicted workload may queue again."""
    match cause:
        case RequeueReason.BACKOFF_FINISHED:
            return "the time it had to keep away is over"
        case RequeueReason.REACTIVATED:
            return "it was activated again"
        case RequeueReason.QUEUE_RESTARTED:
            return "its ClusterQueue runs again"
        case RequeueReason.LOCAL_QUEUE_RESTARTED:
            return "its LocalQueue runs again"
        case _:
            assert_never(cause)


def deactivation(cause: DeactivationCause | None) -> str:
    """Why a workload is deactivated."""
    match cause:
        case DeactivationCause.REQUEUE_LIMIT:
            return "its pods were not ready in time once more than backoffLimitCount allows"
        case DeactivationCause.MAX_RUN:
            return "it has run for its maximum execution time"
        case DeactivationCause.ADMISSION_CHECK:
            return "an AdmissionCheck rejected it"
        case None:
            return "its retry state is cleared"
        case _:
            assert_never(cause)


def reason(why: Why, workload: Workload | None = None) -> str:
    """Why a workload is pending, as a clause."""
    match why:
        case Unassigned():
            return unassigned(why, workload)
        case QueueMissing(kind, name):
            return f"there is no {kind} {name or 'by the name it gives'}"
        case QueueInactive(kind, name, why=text):
            return f"{kind} {name} takes nothing now" + (f": {text}" if text else "")
        case NamespaceMissing(namespace):
            return f"there is no namespace {namespace}"
        case NamespaceMismatch(queue):
            return f"ClusterQueue {queue} does not serve its namespace"
        case Invalid(message):
            return f"it can never run as it is: {message}"
        case GatedBy(gates):
            return f"it is held back by {gates}"
        case GatesCleared():
            return "nothing holds it back any more; it is queued"
        case Inactive():
            return "it is deactivated"
        case FailedChecks():
            return "an AdmissionCheck has not taken its refusal back yet"
        case Queued():
            return "it is queued behind other workloads of its ClusterQueue"
        case Bypassed():
            return "a workload with the same requests was tried and did not fit"
        case Overlap():
            return "the work that would have to leave for it is leaving for another workload"
        case DeferredFit():
            return "its room is free once the work that others have preempted has left"
        case NoLongerFits():
            return "a workload ahead of it took the room"
        case PodsNotReady(blocker):
            return f"nothing starts until all pods of {blocker or 'every admitted workload'} are ready (blockAdmission)"
        case AfterEviction(message):
            return f"it was evicted ({message[:1].lower()}{message[1:]})"
        case _:
            assert_never(why)


def unassigned(why: Unassigned, workload: Workload | None) -> str:
    """What is missing for each pod set, nearest obstacle first, and whether victims are leaving."""
    several = len(why.pod_sets) > 1
    parts = []
    for pod_set in why.pod_sets:
        text = obstacles(pod_set, None if several or why.victims else workload)
        parts.append(f"pod set {pod_set.pod_set} {text}" if several else text)
    text = "; ".join(parts) or "it fits into no flavor"
    if why.victims:
        count = f"{why.victims} preempted workload" + ("s" if why.victims > 1 else "")
        return f"room is on its way, {count} yet to leave ({text})"
    if why.inadequate:
        return f"{text}; preemption would not help"
    return text


def in_short(why: Unassigned, shrinkable: Shrinkable = RIGID) -> str:
    """What is missing; a single flavor is not named."""
    if may_shrink(why, shrinkable) and not why.victims:
        pods = " and ".join(f"{one.least} of its {one.whole} pods" for one in shrinkable.values())
        return f"waits for quota for at least {pods}"
    found = {one for pod_set in why.pod_sets for one in pod_set.obstacles}
    short = [one for one in found if isinstance(one, Short)]
    if not short or len(short) < len(found) or len({one.flavor for one in short}) > 1:
        return unassigned(why, None)
    needs = {one.resource: amount_text(one.resource, one.missing) for one in sorted(short, key=rank)}
    text = "needs " + " and ".join(f"{amount} more {resource}" for resource, amount in needs.items())
    return f"{text}; room is being made for it" if why.victims else text


def obstacles(found: PodSetObstacles, workload: Workload | None) -> str:
    """Why one pod set got no flavors: the obstacles nearest to a fit, up to a limit."""
    ranked = sorted(set(found.obstacles), key=rank)
    shown = [obstacle(one, asked(workload, one)) for one in ranked[:OBSTACLES_MAX]]
    rest = len(ranked) - len(shown)
    return ", ".join(shown) + (f", and {rest} more obstacle" + ("s" if rest > 1 else "") if rest else "")


def never(reason: str, why: Why, shrinkable: Shrinkable = RIGID) -> str:
    """Why a workload cannot start unless quotas, flavors or the workload change; empty if it can.

    A workload with shrinkable pod sets is judged by the fewest pods with which it may start.
    """
    if not isinstance(why, Unassigned) or why.victims or may_shrink(why, shrinkable):
        return ""
    every = [found.obstacles for found in why.pod_sets]
    hopeless = any(each and not any(isinstance(one, TRANSIENT) for one in each) for each in every)
    if reason not in NEVER and not hopeless:
        return ""
    known = {one for each in every for one in each if not isinstance(one, TRANSIENT | OverCapacity)}
    over = fewest(why, shrinkable)
    parts = [beyond([one for one in over if one.resource == name]) for name in sorted({one.resource for one in over})]
    if over and shrinkable:
        parts[0] = f"even with the fewest pods it {parts[0]}"
    parts += [obstacle(one) for one in sorted(known, key=rank)]
    rest = len(parts) - OBSTACLES_MAX
    shown = "; ".join(parts[:OBSTACLES_MAX]) or "no flavor of this queue matches it"
    return f"can never start: {shown}" + (f"; and {rest} more obstacle" + ("s" if rest > 1 else "") if rest > 0 else "")


def beyond(found: list[OverCapacity]) -> str:
    """That the request for a resource exceeds what the queue can ever have, in the flavor with the most capacity."""
    nearest = max(found, key=lambda one: (one.capacity, one.flavor))
    name, asks = nearest.resource, min(nearest.earlier + nearest.request, UNLIMITED)
    where = " of one flavor" if len({one.flavor for one in found}) > 1 else ""
    return (
        f"asks for {amount_text(name, asks)} {name}, "
        f"this queue can have {amount_text(name, nearest.capacity)} at most{where}"
    )


def rank(what: Obstacle) -> tuple[int, int, str]:
    """Sort key: shortages, which end with other work, come before obstacles that need an edit."""
    match what:
        case Short(flavor, resource, missing):
            return 0, missing, f"{flavor} {resource}"
        case OverCapacity(flavor, resource, earlier, request, capacity):
            return 1, earlier + request - capacity, f"{flavor} {resource}"
        case Untolerated(flavor, key):
            return 2, 0, f"{flavor} {key}"
        case Mismatch(flavor):
            return 3, 0, flavor
        case FlavorMissing(flavor):
            return 4, 0, flavor
        case Uncovered(resource):
            return 5, 0, resource
        case NotNominated(flavor, resource):
            return 6, 0, f"{flavor} {resource}"
        case _:
            assert_never(what)


def asked(workload: Workload | None, what: Obstacle) -> int | None:
    """The request of a workload with one pod set for the resource that is short."""
    if workload is None or len(workload.pod_sets) != 1 or not isinstance(what, Short):
        return None
    pod_set = workload.pod_sets[0]
    reclaimed = dict(workload.reclaimable).get(pod_set.name, 0)
    return dict(pod_set.requests).get(what.resource, 0) * max(0, pod_set.count - reclaimed)


def obstacle(what: Obstacle, asks: int | None = None) -> str:
    """Why one flavor was not taken."""
    match what:
        case Short(flavor, resource, missing):
            more = f"needs {amount_text(resource, missing)} more {resource} in flavor {flavor}"
            if asks is None or asks < missing:
                return more
            now = amount_text(resource, asks - missing)
            return f"{more} (asks {amount_text(resource, asks)}; the queue may take {now} now)"
        case OverCapacity(flavor, resource, earlier, request, capacity):
            asks = min(earlier + request, UNLIMITED)
            return (
                f"asks {amount_text(resource, asks)} {resource}, and flavor {flavor} "
                f"can never give its queue more than {amount_text(resource, capacity)}"
            )
        case Untolerated(flavor, key, value, effect):
            return f"does not tolerate the taint {key}={value}:{effect} of flavor {flavor}"
        case Mismatch(flavor):
            return f"selects nodes that flavor {flavor} does not have"
        case FlavorMissing(flavor):
            return f"flavor {flavor} does not exist"
        case Uncovered(resource):
            return f"asks for {resource}, which its ClusterQueue does not cover"
        case NotNominated(flavor, resource):
            return f"flavor {flavor} was not the choice for {resource} in this round"
        case _:
            assert_never(what)


def what_helps(why: Why) -> tuple[str, ...]:
    """What would unblock a workload, most likely first; empty if it only has to wait."""
    match why:
        case Unassigned():
            return ways_to_fit(why)
        case QueueMissing(kind, name):
            return (f"create {kind} {name}".rstrip(), "name another queue")
        case QueueInactive(kind, name, why=text):
            return (f"put right what stops {kind} {name}" if text else f"resume {kind} {name}", "name another queue")
        case NamespaceMissing(namespace):
            return (f"create namespace {namespace}",)
        case NamespaceMismatch(queue):
            return (f"label the namespace as spec.namespaceSelector of ClusterQueue {queue} asks", "name another queue")
        case Invalid():
            return ("correct the pod template",)
        case GatedBy():
            return ("take the gates out of its admission-gated-by annotation",)
        case Inactive():
            return ("set spec.active to true",)
        case FailedChecks():
            return ("it is tried when the check's state is Pending again",)
        case Overlap() | DeferredFit():
            return ("it is tried again when that work has left",)
        case NoLongerFits():
            return ("it is tried again at once",)
        case PodsNotReady(blocker):
            return (f"find out why pods of {blocker or 'an admitted workload'} are not ready",)
        case Queued() | Bypassed() | GatesCleared() | AfterEviction():
            return ()
        case _:
            assert_never(why)


def ways_to_fit(why: Unassigned) -> tuple[str, ...]:
    """What would let a workload get its flavors."""
    if why.victims:
        return ("it can start when they have stopped",)
    ranked = sorted({one for pod_set in why.pod_sets for one in pod_set.obstacles}, key=rank)
    short = [one for one in ranked if isinstance(one, Short)]
    if short:
        missing = " and ".join(
            f"{amount_text(one.resource, one.missing)} {one.resource} of flavor {one.flavor}"
            for one in nearest_of_each_resource(short)
        )
        return (f"it can start when work using {missing} finishes", "if it asks for less")
    ways = [way(one) for one in ranked]
    return tuple(dict.fromkeys(text for text in ways if text))


def nearest_of_each_resource(short: list[Short]) -> list[Short]:
    """The smallest shortage of each resource: one flavor suffices, but every resource is needed."""
    nearest: dict[str, Short] = {}
    for one in short:
        nearest.setdefault(one.resource, one)
    return list(nearest.values())


def way(what: Obstacle) -> str:
    """What removes one obstacle; empty when another removes it."""
    match what:
        case Short() | NotNominated():
            return ""
        case OverCapacity(flavor, resource, capacity=capacity):
            least = amount_text(resource, capacity)
            return f"ask for at most {least} {resource}, or raise the quota of flavor {flavor}"
        case Untolerated(flavor, key):
            return f"tolerate {key} to use flavor {flavor}"
        case Mismatch(flavor):
            return f"change the node selector to use flavor {flavor}"
        case FlavorMissing(flavor):
            return f"create ResourceFlavor {flavor}"
        case Uncovered(resource):
            return f"add {resource} to a resource group of the ClusterQueue, or do not ask for it"
        case _:
            assert_never(what)
