"""Decisions as Kubernetes Events, with Kueue's messages."""

from typing import Final, assert_never

from msgspec.structs import replace

from pykueue.api.workload import Workload
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant
from pykueue.bridge.outbound import queued_since
from pykueue.engine import model
from pykueue.engine.decisions import (
    Admit,
    Bypassed,
    Considered,
    Deactivate,
    DeactivationCause,
    Decision,
    Evict,
    EvictionReason,
    GatedBy,
    GatesCleared,
    Inactive,
    Queued,
    QueueInactive,
    QueueMissing,
    Requeue,
    Reserve,
    Unreserve,
    Wait,
)
from pykueue.engine.model import effective_priority
from pykueue.engine.wording import message, obstacle

SCHEDULER: Final = "kueue-admission"
CONTROLLER: Final = "kueue-workload-controller"
REPORTER: Final = "pykueue"
"""The reporting component of Events on Jobs that Kueue does not send."""
PREEMPTED: Final = "PreemptedFor"
NEVER: Final = "CanNeverStart"
"""Reasons of those Events."""


class Note(Frozen):
    """An Event about a Workload."""

    workload: str
    """Its key."""
    reason: str
    text: str
    warning: bool = False
    reporter: str = SCHEDULER


def notes(
    decision: Decision,
    seen: Workload,
    level: model.Workload,
    by: model.Workload | None,
    options: model.Options,
    *,
    merged: bool = False,
) -> tuple[Note, ...]:
    """The Events of a decision on a Workload in this state; `by` is the preemptor, if any.

    If `merged`, an admission without a reservation before it has one Event instead of Kueue's two.
    """
    key = decision.workload
    match decision:
        case Reserve(admission=admission):
            return (reserved(decision, seen),)
        case Admit(admission=admission, reserved_before=False):
            first = reserved(decision, seen)
            if merged:
                return (replace(first, reason="Admitted", text=first.text.replace("Quota", "Admitted, quota", 1)),)
            return (first, admitted(key, admission.queue, 0))
        case Admit(admission=admission, at=at):
            since = at if level.reserved_at is None else level.reserved_at
            return (admitted(key, admission.queue, seconds(since, at), CONTROLLER),)
        case Evict():
            return evicted(decision, level, by, options)
        case Deactivate(cause=cause, message=text):
            return deactivated(key, cause, text, level)
        case Wait(reason=reason, why=GatedBy(gates)):
            text = f"Workload admission is gated by: {gates}"
            return (Note(key, reason, text, reporter=CONTROLLER),)
        case Wait(why=GatesCleared()):
            text = "Admission gate cleared, workload is now admissible"
            return (Note(key, "AdmissionGateCleared", text, reporter=CONTROLLER),)
        case Wait(why=Bypassed() | Queued() | Inactive() | QueueMissing() | QueueInactive()):
            return ()
        case Wait(reason=reason, why=why):
            return (Note(key, reason, message(why), warning=True),)
        case Unreserve() | Requeue():
            return ()
        case _:
            assert_never(decision)


def preemptor(key: str, kind: str, job: str, namespace: str) -> str:
    """The preemptor as an Event in a namespace names it: the Job, if there is one, and its Workload."""
    within, _, name = key.partition("/")
    place = "" if within == namespace else f"{within}/"
    return f"{kind} {place}{job} (Workload {name})" if job else f"Workload {place}{name}"


def seconds(since: Instant, until: Instant) -> int:
    """The time between, in whole seconds, rounded half to even as %.0f does."""
    return round(max(0, until - since) / MICROS)


def reserved(decision: Reserve | Admit, seen: Workload) -> Note:
    """The Event of a quota reservation."""
    waited = seconds(queued_since(seen), decision.at)
    text = f"Quota reserved in ClusterQueue {decision.admission.queue}, wait time since queued was {waited}s"
    tried: dict[str, list[str]] = {}
    for one in decision.considered:
        tried.setdefault(one.pod_set, []).append(attempt(one))
    if tried:
        text += "; Flavors considered: " + " | ".join(f"{name}: {', '.join(parts)}" for name, parts in tried.items())
    return Note(decision.workload, "QuotaReserved", text)


def attempt(tried: Considered) -> str:
    """The result of trying one flavor."""
    parts = [tried.mode if tried.mode in ("NoFit", "Fit") else f"preemptionMode={tried.mode}"]
    if tried.borrowing:
        parts.append(f"borrow={tried.borrowing}")
    return f"{tried.flavor}({';'.join((*parts, *sorted(map(obstacle, tried.obstacles))))})"


def admitted(key: str, queue: str, waited: int, reporter: str = SCHEDULER) -> Note:
    """The Event of an admission."""
    text = f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited}s"
    return Note(key, "Admitted", text, reporter=reporter)


def evicted(
    decision: Evict, level: model.Workload, by: model.Workload | None, options: model.Options
) -> tuple[Note, ...]:
    """The Event of an eviction; none for a workload that held no quota."""
    if level.admission is None:
        return ()
    reason = f"EvictedDueTo{decision.reason}"
    if decision.reason is EvictionReason.DEACTIVATED and decision.cause:
        reason += f"DueTo{decision.cause}"
    reporter = CONTROLLER if decision.preemption is None else SCHEDULER
    event = Note(decision.workload, reason, decision.message, reporter=reporter)
    if decision.preemption is None or by is None:
        return (event,)
    ranks = f"; preemptor {rank(by, options)}; preemptee {rank(level, options)}"
    loss = f"Preempted workload {level.key} (UID: {level.uid}) in ClusterQueue {level.admission.queue}{ranks}"
    return (
        event,
        Note(decision.workload, "Preempted", decision.message + ranks),
        Note(by.key, "PreemptedWorkload", loss),
    )


def rank(level: model.Workload, options: model.Options) -> str:
    """A workload's priority and its parts."""
    boost = level.boost if options.priority_boost else 0
    return f"effective priority: {effective_priority(level, options)} (base: {level.priority}, boost: {boost})"


def deactivated(key: str, cause: DeactivationCause | None, text: str, level: model.Workload) -> tuple[Note, ...]:
    """The Event of a deactivation; none for a requeuing limit."""
    match cause:
        case DeactivationCause.MAX_RUN:
            limit = f"The maximum execution time ({level.max_run}s) exceeded"
            return (Note(key, cause, limit, warning=True, reporter=CONTROLLER),)
        case DeactivationCause.ADMISSION_CHECK:
            rejected = f"Deactivated due to {text}"
            return (Note(key, "AdmissionCheckRejected", rejected, warning=True, reporter=CONTROLLER),)
        case _:
            return ()
