"""Condition messages: reasons in Kueue's exact words. `record/explain` has the text for people."""

from typing import assert_never

from pykueue.base.units import amount_text
from pykueue.engine.decisions import (
    AfterEviction,
    Bypassed,
    DeferredFit,
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
    PodsNotReady,
    PreemptionReason,
    Queued,
    QueueInactive,
    QueueMissing,
    Short,
    Unassigned,
    Uncovered,
    Untolerated,
    Why,
)
from pykueue.engine.items import Item

CLAUSE = {
    PreemptionReason.IN_QUEUE: "prioritization in the ClusterQueue",
    PreemptionReason.RECLAIM: "reclamation within the cohort",
    PreemptionReason.RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
    PreemptionReason.FAIR_SHARING: "Fair Sharing within the cohort",
}
LONGEST = 32768


def message(why: Why) -> str:
    """The text of QuotaReserved=False."""
    return shortened(full_message(why))


def shortened(text: str) -> str:
    """A condition message, truncated at 32 KiB with a note."""
    raw = text.encode()
    if len(raw) <= LONGEST:
        return text
    return raw[: LONGEST - 4].decode(errors="ignore") + " ..."


def full_message(why: Why) -> str:
    """The text of QuotaReserved=False, however long."""
    match why:
        case Unassigned():
            return unassigned(why)
        case QueueMissing(kind, name, lost_reservation):
            return f"{kind} {name} is terminating or missing" if lost_reservation else f"{kind} {name} doesn't exist"
        case QueueInactive(kind, name, lost_reservation):
            return f"{kind} {name} is stopped" if lost_reservation else f"{kind} {name} is inactive"
        case NamespaceMissing(namespace):
            return f'workload namespace "{namespace}" does not exist: namespaces "{namespace}" not found'
        case NamespaceMismatch():
            return "workload namespace doesn't match ClusterQueue selector"
        case Invalid(text):
            return text
        case GatedBy(gates):
            return f"Admission is gated by: {gates}"
        case GatesCleared():
            return "AdmissionGatedBy cleared, waiting for quota reservation"
        case Inactive():
            return "The workload is deactivated"
        case FailedChecks():
            return "The workload has failed admission checks"
        case Queued():
            return "Workload is pending evaluation in the scheduling queue"
        case Bypassed():
            return "Bypassed scheduling evaluation because an equivalent workload recently failed"
        case Overlap():
            return "Workload has overlapping preemption targets with another workload"
        case DeferredFit():
            return (
                "Workload has overlapping preemption targets with another workload, "
                "but will fit after these preemptions complete"
            )
        case NoLongerFits():
            return "Workload no longer fits after processing another workload"
        case PodsNotReady():
            return "waiting for all admitted workloads to be in PodsReady condition"
        case AfterEviction(text):
            return text
        case _:
            assert_never(why)


def unassigned(why: Unassigned) -> str:
    """Which pod sets got no flavors, and how many victims have not left yet."""
    parts = [
        f"couldn't assign flavors to pod set {pod_set.pod_set}: " + ", ".join(sorted(map(obstacle, pod_set.obstacles)))
        for pod_set in why.pod_sets
    ]
    text = "; ".join(parts)
    return f"{text}. Pending the preemption of {why.victims} workload(s)" if why.victims else text


def obstacle(what: Obstacle) -> str:
    """Why one flavor was not taken."""
    match what:
        case Uncovered(resource):
            return f"resource {resource} unavailable in ClusterQueue"
        case FlavorMissing(flavor):
            return f"flavor {flavor} not found"
        case Untolerated(flavor, key, value, effect):
            return f"untolerated taint {{{key} {value} {effect} <nil>}} in flavor {flavor}"
        case Mismatch(flavor):
            return f"flavor {flavor} doesn't match node affinity"
        case OverCapacity(flavor, resource, earlier, request, capacity):
            return (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"({amount_text(resource, earlier)}) + current podset request ({amount_text(resource, request)}) "
                f"> maximum capacity ({amount_text(resource, capacity)})"
            )
        case Short(flavor, resource, missing):
            more = amount_text(resource, missing)
            return f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed"
        case NotNominated(flavor, resource):
            return f"skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"
        case _:
            assert_never(what)


def check_reset(state: str) -> str:
    """The message of a check that an eviction reset from this state."""
    return f"Reset to Pending after eviction. Previously: {state}"


def preempted(preemptor: Item, clause: PreemptionReason, preemptor_path: str, victim_path: str) -> str:
    """The text of Preempted=True and Evicted=True."""
    uid = preemptor.uid or "UNKNOWN"
    job = preemptor.workload.job_uid or "UNKNOWN"
    return (
        f"Preempted to accommodate a workload (UID: {uid}, JobUID: {job}) due to {CLAUSE[clause]}; "
        f"preemptor path: {preemptor_path}; preemptee path: {victim_path}"
    )
