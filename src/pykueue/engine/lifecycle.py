"""Decisions outside the scheduler: timeouts, checks and stopped queues. `review` applies the rules in order.

`review_until_settled` repeats the review after each decision until nothing is left to decide.
"""

from hashlib import sha256
from heapq import heappush
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, Seconds, after, doubled
from pykueue.engine.assume import assume
from pykueue.engine.decisions import (
    Admit,
    AfterEviction,
    Bypassed,
    Deactivate,
    DeactivationCause,
    Decision,
    Evict,
    EvictionReason,
    GatedBy,
    GatesCleared,
    Inactive,
    Invalid,
    Queued,
    QueueInactive,
    QueueMissing,
    Requeue,
    RequeueReason,
    Unreserve,
    Wait,
    WaitReason,
    Why,
)
from pykueue.engine.items import PARKED, QUEUED, Item
from pykueue.engine.model import DRAIN, OPEN, CheckState, ClusterQueue, LocalQueue, PodsReadyOptions, Workload
from pykueue.engine.placement import settle
from pykueue.engine.quota import QuotaNode
from pykueue.engine.releases import is_releasing
from pykueue.engine.wording import message
from pykueue.engine.world import World, assigned_flavors, has_failed_check, readiness

DEACTIVATED = "The workload is deactivated"
AT_ONCE = frozenset({EvictionReason.PREEMPTED, "NodeFailures"})
"""Evictions after which a workload queues again by itself."""
SCHEDULER_REASONS = frozenset(
    {
        WaitReason.WAITING_FOR_QUOTA,
        WaitReason.NO_MATCHING_FLAVOR,
        WaitReason.EXCEEDS_MAX_QUOTA,
        WaitReason.WAITING_FOR_PREEMPTED,
        WaitReason.WAITING_FOR_PODS_READY,
        WaitReason.PENDING_EVALUATION,
    }
)
"""Reasons that an evaluation found; they stay until the next evaluation."""
BYPASSABLE = frozenset(
    {WaitReason.PENDING_EVALUATION, WaitReason.PENDING, WaitReason.SUSPENDED, WaitReason.DEACTIVATED}
)
REVIEWS_MAX = 16
"""More decisions about one workload at one instant mean that two rules contradict each other."""


def review_until_settled(world: World, item: Item, decisions: list[Decision]) -> None:
    """Place a workload, then review it until nothing is left to decide at this instant.

    What is decided is assumed, and appended to `decisions`.
    """
    settle(world, item)
    review_placed(world, item, decisions)


def review_placed(world: World, item: Item, decisions: list[Decision]) -> None:
    """Review a workload that is in its place until nothing is left to decide at this instant."""
    for _ in range(REVIEWS_MAX):
        found = review(item, world, world.now)
        if found.look_again != item.timer:
            item.timer = found.look_again
            if found.look_again is not None:
                heappush(world.timers, (found.look_again, item.key))
        if found.decision is None:
            return
        decisions.append(found.decision)
        assume(world, item, found.decision)
    raise AssertionError(f"{item.key} does not settle: {decisions[-REVIEWS_MAX:]}")


class Review(Frozen):
    """The decision about a workload that is due now, and when to review it again."""

    decision: Decision | None = None
    look_again: Instant | None = None


NOTHING_DUE: Final = Review()


def review(item: Item, world: World, now: Instant) -> Review:
    """The next decision about a workload that is not the scheduler's."""
    workload = item.workload
    if workload.finished:
        return NOTHING_DUE
    if workload.held_off:
        return Review(when_held_off(item, world, now))
    if not workload.active:
        return Review(when_inactive(item, world, now))
    if workload.deactivation is not None:
        return Review(Deactivate(workload.key, None, workload.deactivation.message, now))
    # Until its release is stored, those who waited for its quota go first.
    waited = workload.requeued is not None or workload.requeue_at is not None
    waiting = requeue(workload, world, now) if waited and not is_releasing(item) else NOTHING_DUE
    if waiting.decision is not None:
        return waiting
    if workload.admission is None:
        wait = when_pending(item, world, now)
        return waiting if wait is None else Review(wait, waiting.look_again)
    found = when_reserved(item, world, now)
    if waiting.look_again is None:
        return found
    return Review(found.decision, earlier(found.look_again, waiting.look_again))


def earlier(one: Instant | None, other: Instant | None) -> Instant | None:
    """The earlier of two instants, of which either may be missing."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def when_held_off(item: Item, world: World, now: Instant) -> Wait | None:
    """For a workload whose writes are refused, only the reason why it is pending is decided."""
    workload = item.workload
    if not workload.active or workload.admission is not None:
        return None
    return report_wait(item, world, WaitReason.MISCONFIGURED, Invalid(workload.problem), now)


def when_inactive(item: Item, world: World, now: Instant) -> Decision | None:
    """A deactivated workload is evicted, its retry state is cleared, and its quota is released once it has stopped."""
    workload = item.workload
    target = workload.deactivation
    if workload.evicted is None:
        text = DEACTIVATED if target is None else f"{DEACTIVATED} due to {target.message}"
        cause = "" if target is None else target.reason
        return Evict(workload.key, EvictionReason.DEACTIVATED, text, now, cause=cause)
    if workload.requeue_at is not None or workload.requeue_count or target is not None:
        return Deactivate(workload.key, None, "", now)
    if workload.admission is not None:
        return release(item, world, now) if item.stopped else None
    if not world.options.observability:
        return None
    return report_wait(item, world, WaitReason.DEACTIVATED, Inactive(), now)


def release(item: Item, world: World, now: Instant) -> Unreserve | None:
    """Release the quota of an evicted workload whose pods have stopped."""
    # spec: LIF-4
    evicted = item.workload.evicted
    if evicted is None:
        return None
    why = AfterEviction(evicted.message)
    reason = reported_reason(WaitReason.PENDING_EVALUATION, why, world)
    return Unreserve(item.key, reason, why, now, evicted.reason in AT_ONCE, evicted.reason)


def requeue(workload: Workload, world: World, now: Instant) -> Review:
    """Whether an evicted workload may queue again, and if not, when; one that holds quota by now is marked the same."""
    # spec: LIF-8
    reason = "" if workload.requeued is None or workload.requeued.may else workload.requeued.reason
    if workload.requeue_at is not None and now < workload.requeue_at:
        return Review(look_again=workload.requeue_at)
    if not reason:
        return NOTHING_DUE
    if reason.startswith(EvictionReason.DEACTIVATED):
        return Review(Requeue(workload.key, RequeueReason.REACTIVATED, now))
    timed = reason in (EvictionReason.PODS_READY_TIMEOUT, EvictionReason.ADMISSION_CHECK)
    if timed:
        return Review(Requeue(workload.key, RequeueReason.BACKOFF_FINISHED, now))
    local = world.local_queues.get(workload.local_queue)
    if local is None or local.stop is not OPEN:
        return NOTHING_DUE
    if reason == EvictionReason.LOCAL_QUEUE_STOPPED:
        return Review(Requeue(workload.key, RequeueReason.LOCAL_QUEUE_RESTARTED, now))
    queue = world.forest.queues.get(local.queue)
    if reason == EvictionReason.QUEUE_STOPPED and queue is not None and queue.spec.stop is OPEN:
        return Review(Requeue(workload.key, RequeueReason.QUEUE_RESTARTED, now))
    return NOTHING_DUE


def when_pending(item: Item, world: World, now: Instant) -> Wait | None:
    """Report why a workload cannot be considered, or that it can again."""
    if item.workload.on_hold:
        return None
    found = obstacle(item, world)
    if found is not None:
        reason, why = found
        return report_wait(item, world, reason, why, now)
    current = item.workload.waiting
    reason_now = None if current is None else current.reason
    queue = world.pending.get(item.queue)
    verdict = queue.parked_with_class(item) if queue is not None else None
    open_to_it = reason_now in BYPASSABLE or (reason_now is None and world.options.explicit_status)
    if verdict is not None and open_to_it and world.options.observability:
        return report_wait(item, world, verdict, Bypassed(), now)
    if reason_now is None:
        if not world.options.explicit_status:
            return None
    elif reason_now in SCHEDULER_REASONS or not world.options.observability:
        return None
    why = GatesCleared() if reason_now == WaitReason.GATED else Queued()
    return report_wait(item, world, WaitReason.PENDING_EVALUATION, why, now)


def obstacle(item: Item, world: World) -> tuple[WaitReason, Why] | None:
    """Why a pending workload is not queued; of several reasons, the one that is reported."""
    workload = item.workload
    local = world.local_queues.get(workload.local_queue)
    if local is None or local.terminating:
        return WaitReason.MISCONFIGURED, QueueMissing("LocalQueue", local_name(workload))
    if local.stop is not OPEN:
        return WaitReason.SUSPENDED, QueueInactive("LocalQueue", local_name(workload), why="it is stopped")
    queue = world.forest.queues.get(local.queue)
    if queue is None:
        return WaitReason.MISCONFIGURED, QueueMissing("ClusterQueue", local.queue)
    if not world.can_admit(queue):
        reasons = [text for _, text in world.inactive_because(queue)] or ["its cohorts form a cycle, or go too deep"]
        because = ", ".join(reasons)
        return WaitReason.SUSPENDED, QueueInactive("ClusterQueue", local.queue, why=because)
    gates = workload.gated_by if world.options.admission_gates else ""
    if not world.options.observability:
        return (WaitReason.GATED, GatedBy(gates)) if gates else None
    # The cycle reports failed checks first, too; otherwise the two reasons would alternate for ever.
    refused = None if has_failed_check(workload) else world.refusal(queue, item)
    if refused is not None:
        return WaitReason.MISCONFIGURED, refused
    if gates:
        return WaitReason.GATED, GatedBy(gates)
    return None


def local_name(workload: Workload) -> str:
    """The name of a workload's LocalQueue, without its namespace."""
    return workload.local_queue.partition("/")[2]


def when_reserved(item: Item, world: World, now: Instant) -> Review:
    """The decision about a workload that holds quota."""
    workload = item.workload
    if workload.evicted is not None:
        return Review(release(item, world, now) if item.stopped else None)
    for rule in (by_checks, by_admission, by_queues):
        decision = rule(item, world, now)
        if decision is not None:
            return Review(decision)
    if workload.admitted_at is None:
        return NOTHING_DUE
    ready = by_readiness(workload, world, now)
    if ready.decision is not None:
        return ready
    ran = by_run_time(workload, world, now)
    if ran.decision is not None or ready.look_again is None:
        return ran
    return ready if ran.look_again is None else Review(look_again=min(ready.look_again, ran.look_again))


def by_checks(item: Item, world: World, now: Instant) -> Decision | None:
    """A rejected check deactivates the workload; a check in Retry evicts it at once."""
    # spec: LIF-6
    if not item.workload.checks:
        return None
    checks = sorted(item.workload.checks, key=lambda check: check.name)
    rejected = [check for check in checks if check.state == "Rejected"]
    if rejected:
        return Deactivate(item.key, DeactivationCause.ADMISSION_CHECK, named(rejected, "Rejected"), now)
    retry = [check for check in checks if check.state == "Retry"]
    if not retry:
        return None
    delays = [after(check.at, check.requeue_after) for check in retry if check.requeue_after is not None]
    at = max([t for t in delays if t > now], default=None)
    earlier = item.workload.requeue_at
    if earlier is not None and (at is None or earlier > at):
        at = earlier
    text = f"Evicted due to {named(retry, 'Retry')}"
    return Evict(
        item.key,
        EvictionReason.ADMISSION_CHECK,
        text,
        now,
        requeue_count=item.workload.requeue_count,
        requeue_at=at,
    )


def named(checks: list[CheckState], state: str) -> str:
    """Checks and their messages, as condition messages list them."""
    parts = [f'"{check.name}" ({check.message})' if check.message else f'"{check.name}"' for check in checks]
    return f"AdmissionCheck{'s' if len(checks) > 1 else ''} in {state} state: " + "; ".join(parts)


def by_queues(item: Item, world: World, now: Instant) -> Decision | None:
    """A stopped or deleted queue takes back mere reservations; with HoldAndDrain it also evicts admitted workloads."""
    # spec: LIF-7
    workload = item.workload
    assert workload.admission is not None, "only a reservation can be lost"
    local = world.local_queues.get(workload.local_queue)
    queue: QuotaNode | None = world.forest.queues.get(workload.admission.queue)
    if workload.admitted_at is not None:
        if local is not None and local.stop is DRAIN:
            return Evict(item.key, EvictionReason.LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped", now)
        if queue is not None and queue.spec.stop is DRAIN:
            return Evict(item.key, EvictionReason.QUEUE_STOPPED, "The ClusterQueue is stopped", now)
        return None
    found = gone_or_stopped("LocalQueue", local_name(workload), local)
    if found is None:
        found = gone_or_stopped("ClusterQueue", workload.admission.queue, None if queue is None else queue.spec)
    return None if found is None else lost(item, world, *found, now)


def gone_or_stopped(
    kind: str, name: str, queue: LocalQueue | ClusterQueue | None
) -> tuple[WaitReason, QueueMissing | QueueInactive] | None:
    """Why a queue takes a reservation back; None when it does not."""
    if queue is None or queue.terminating:
        return WaitReason.MISCONFIGURED, QueueMissing(kind, name, lost_reservation=True)
    if queue.stop is not OPEN:
        return WaitReason.SUSPENDED, QueueInactive(kind, name, lost_reservation=True)
    return None


def lost(item: Item, world: World, reason: WaitReason, why: Why, now: Instant) -> Unreserve:
    """The release of a reservation before the job has started, so that nothing has to stop."""
    return Unreserve(item.key, reported_reason(reason, why, world), why, now)


def by_admission(item: Item, world: World, now: Instant) -> Decision | None:
    """A reservation becomes an admission when every required check is ready."""
    workload = item.workload
    if workload.admitted_at is not None or workload.admission is None:
        return None
    queue = world.forest.queues.get(item.queue)
    if queue is not None and world.has_passed(queue, workload, assigned_flavors(workload)):
        return Admit(item.key, workload.admission, 0, now, reserved_before=True)
    return None


def by_readiness(workload: Workload, world: World, now: Instant) -> Review:
    """Evict a workload whose pods did not become ready, or ready again, in time."""
    # spec: LIF-1
    options = world.options.pods_ready
    if options is None or workload.admitted_at is None:
        return NOTHING_DUE
    ready = readiness(workload, workload.admitted_at)
    if ready is not None and ready.ready:
        return NOTHING_DUE
    start, limit, cause = workload.admitted_at, options.timeout, "WaitForStart"
    if ready is not None and ready.reason == "WaitForRecovery":
        if options.recovery_timeout is None:
            return NOTHING_DUE
        start, limit, cause = ready.at, options.recovery_timeout, "WaitForRecovery"
    elif ready is not None and ready.reason not in ("WaitForStart", "PodsReady"):
        return NOTHING_DUE
    due = after(start, limit)
    if now < due:
        return Review(look_again=due)
    count = workload.requeue_count + 1
    # spec: LIF-3
    if options.backoff_limit is not None and count > options.backoff_limit:
        text = "exceeding the maximum number of re-queuing retries"
        return Review(Deactivate(workload.key, DeactivationCause.REQUEUE_LIMIT, text, now))
    at = backoff(workload, count, options, world.options.seed, now)
    text = f"Exceeded the PodsReady timeout {workload.key}"
    return Review(
        Evict(
            workload.key,
            EvictionReason.PODS_READY_TIMEOUT,
            text,
            now,
            cause=cause,
            requeue_count=count,
            requeue_at=at if workload.requeue_at is None else max(at, workload.requeue_at),
        )
    )


def backoff(workload: Workload, count: int, options: PodsReadyOptions, seed: int, now: Instant) -> Instant:
    """When a workload may queue again: the delay doubles each time, up to a limit, with jitter."""
    # spec: LIF-2
    delay = doubled(options.backoff_base, options.backoff_max, count)
    share = int.from_bytes(sha256(f"{seed}/{workload.uid}/{count}".encode()).digest()[:4])
    jitter = delay * MICROS * share // (2**32 * 10_000)
    return Instant(after(now, delay) + jitter)


def run_end(workload: Workload) -> Instant | None:
    """When a workload that runs has run for its maximum; None if it has none, or does not run."""
    if workload.max_run is None or workload.admitted_at is None:
        return None
    return after(workload.admitted_at, Seconds(workload.max_run - workload.past_run))


def by_run_time(workload: Workload, world: World, now: Instant) -> Review:
    """A workload that has run for its maximum, over all its attempts, is deactivated."""
    # spec: LIF-5
    due = run_end(workload)
    if due is None:
        return NOTHING_DUE
    if now < due:
        return Review(look_again=due)
    return Review(Deactivate(workload.key, DeactivationCause.MAX_RUN, "exceeding the maximum execution time", now))


def report_wait(item: Item, world: World, reason: WaitReason, why: Why, now: Instant) -> Wait | None:
    """The decision that reports why a workload is pending; None if that reason is already reported."""
    reason = reported_reason(reason, why, world)
    current = item.workload.waiting
    if current is not None and current.reason == reason and (item.reported == why or current.message == message(why)):
        item.reported = why
        return None
    return Wait(item.key, reason, why, now)


def verdict(item: Item, world: World) -> tuple[WaitReason, Why] | None:
    """Why a queued workload is pending for which nothing was decided; None if it is not pending, or something was.

    One that was passed over, since an equal one was judged, has the verdict of that one.
    """
    pending = world.pending.get(item.queue)
    if pending is None or item.place not in (QUEUED, PARKED):
        return None
    shared = pending.verdict(item)
    if shared is not None:
        return reported_reason(shared[0], shared[1], world), shared[1]
    if item.workload.waiting is not None:
        return None
    return reported_reason(WaitReason.PENDING_EVALUATION, Queued(), world), Queued()


def reported_reason(reason: WaitReason, why: Why, world: World) -> WaitReason:
    """The reason as it is written: a coarse one if UnadmittedWorkloadsObservability is off."""
    if world.options.observability:
        return reason
    match reason:
        case WaitReason.GATED:
            return WaitReason.GATED
        case WaitReason.WAITING_FOR_PODS_READY:
            return WaitReason.WAITING
        case _ if isinstance(why, QueueMissing | QueueInactive):
            return WaitReason.INADMISSIBLE
        case _:
            return WaitReason.PENDING
