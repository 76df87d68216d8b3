"""The level of a workload after each decision, assumed until the write is confirmed or refused."""

from typing import assert_never

from msgspec.structs import replace

from pykueue.base.units import MICROS, Instant, Seconds
from pykueue.engine.decisions import (
    Admit,
    Deactivate,
    DeactivationCause,
    Decision,
    Evict,
    EvictionReason,
    Requeue,
    Reserve,
    Unreserve,
    Wait,
)
from pykueue.engine.items import Item
from pykueue.engine.model import (
    CheckState,
    DeactivationTarget,
    Evicted,
    Preempted,
    Requeued,
    Waiting,
    Workload,
)
from pykueue.engine.placement import settle
from pykueue.engine.releases import gives_back, note_releases
from pykueue.engine.wording import check_reset, message
from pykueue.engine.world import World


def assume(world: World, item: Item, decision: Decision) -> None:
    """Treat a decision as carried out until a fact confirms or refuses it."""
    if item.confirmed is None:
        item.confirmed, item.was_stopped = item.workload, item.stopped
    before = item.workload
    assumed(item, decision)
    item.in_flight = (*item.in_flight, item.workload)
    if before.admission is not None and gives_back(before, item.workload):
        note_releases(world, item)
    settle(world, item)


def assumed(item: Item, decision: Decision) -> None:
    """Update an item to its level after a decision."""
    item.workload = after(item.workload, decision)
    match decision:
        case Reserve() | Admit():
            item.reported, item.claim, item.stopped = None, None, False
        case Wait() | Unreserve():
            item.reported = decision.why


def after(workload: Workload, decision: Decision) -> Workload:
    """The level of a workload after a decision."""
    match decision:
        case Admit():
            return replace(
                workload,
                admission=decision.admission,
                reserved_at=workload.reserved_at if decision.reserved_before else decision.at,
                admitted_at=decision.at,
                evicted=None,
                preempted=None,
                waiting=None,
            )
        case Wait():
            return replace(workload, waiting=Waiting(decision.reason, message(decision.why)))
        case Evict():
            return evicted(workload, decision)
        case Unreserve(reason=reason, why=why, at=at, requeued=requeued, requeued_reason=requeued_reason):
            return replace(
                workload,
                admission=None,
                reserved_at=None,
                admitted_at=None,
                past_run=past_run(workload, at),
                waiting=Waiting(reason, message(why)),
                requeued=workload.requeued if requeued is None else Requeued(requeued, requeued_reason),
            )
        case Requeue(reason=reason):
            return replace(workload, requeued=Requeued(True, reason), requeue_at=None)
        case Deactivate(cause=cause, message=text):
            if not workload.active:
                return replace(workload, deactivation=None, requeue_at=None, requeue_count=0)
            target = workload.deactivation if cause is None else DeactivationTarget(cause, text)
            past = Seconds(0) if cause is DeactivationCause.MAX_RUN else workload.past_run
            return replace(workload, active=False, deactivation=target, past_run=past)
        case Reserve(admission=admission, at=at, checks=checks):
            return replace(
                workload,
                admission=admission,
                reserved_at=at,
                evicted=None,
                preempted=None,
                waiting=None,
                checks=listed(workload.checks, checks, at),
            )
        case _:
            assert_never(decision)


def past_run(workload: Workload, now: Instant) -> Seconds:
    """The run time that counts against a workload's maximum; reset once the maximum is used up."""
    spent = f"{EvictionReason.DEACTIVATED}DueTo{DeactivationCause.MAX_RUN}"
    if workload.evicted is not None and workload.evicted.reason == spent:
        return Seconds(0)
    if workload.admitted_at is None:
        return workload.past_run
    return Seconds(workload.past_run + (now - workload.admitted_at) // MICROS)


def evicted(workload: Workload, decision: Evict) -> Workload:
    """The level of a workload that a decision evicts."""
    reason: str = decision.reason
    ended = decision.reason is EvictionReason.DEACTIVATED
    if ended and decision.cause:
        reason = f"{reason}DueTo{decision.cause}"
    keeps = decision.reason in (EvictionReason.PODS_READY_TIMEOUT, EvictionReason.ADMISSION_CHECK)
    return replace(
        workload,
        evicted=Evicted(reason, decision.at, decision.message),
        preempted=None if decision.preemption is None else Preempted(decision.preemption, decision.at),
        checks=tuple(reset(check, decision) for check in workload.checks),
        deactivation=None if ended else workload.deactivation,
        requeue_count=decision.requeue_count if keeps else 0 if ended else workload.requeue_count,
        requeue_at=decision.requeue_at if keeps else None if ended else workload.requeue_at,
    )


def listed(known: tuple[CheckState, ...], names: tuple[str, ...], at: Instant) -> tuple[CheckState, ...]:
    """The checks of these names, with their known state or else Pending."""
    states = {check.name: check for check in known}
    return tuple(states.get(name) or CheckState(name, "Pending", at) for name in names)


def reset(check: CheckState, decision: Evict) -> CheckState:
    """The checks after an eviction: every check that has a result is Pending again."""
    if check.state == "Pending":
        return check
    retries = {"Retry": check.retries + 1, "Rejected": check.retries}.get(check.state, 0)
    return CheckState(check.name, "Pending", decision.at, check_reset(check.state), check.requeue_after, retries)
