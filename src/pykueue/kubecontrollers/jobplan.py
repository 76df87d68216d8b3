"""What to do for a Job next: which pods to create and delete, what to write, and which finalizers to remove.

`plan` is called again after each step, and returns nothing when nothing is left to do. So a kill at any moment is
harmless: an ended pod is first recorded as uncounted, then loses our finalizer, and only then moves to the counters;
the pods' finalizers show which of this was done. The last write of a Job counts everything at once, since a finished
Job is not counted again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, Seconds, after, format_instant, parse_instant
from pykueue.kubecontrollers.indexes import (
    Intervals,
    gaps,
    holds,
    merged,
    read_indexes,
    total,
    with_indexes,
    write_indexes,
)
from pykueue.kubecontrollers.jobstatus import (
    BACKOFF_LIMIT,
    COMPLETIONS_REACHED,
    DEADLINE,
    FAILED_INDEXES,
    NOTHING,
    TOO_MANY_FAILED_INDEXES,
    Verdict,
    concluded,
    condition,
    standing,
    still_tracked,
    successful,
    with_condition,
)
from pykueue.kubecontrollers.jobviews import JobSpec, JobStatus, Pod, Uncounted, Work
from pykueue.kubecontrollers.podfailure import FAIL_INDEX, judge

FIRST_DELAY: Final = 10 * MICROS
LAST_DELAY: Final = 360 * MICROS
MOST_AT_ONCE: Final = 500
"""Pods created or deleted in one step, and pods uncounted at a time, so that the status stays bounded."""
PODS_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most that the templates of all unfinished pods of a Job take together in the store."""
PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


class Backoff(Frozen):
    """How many pods of a Job have failed since one succeeded, and when the last one did."""

    failures: int = 0
    last: Instant = Instant(0)

    def due(self) -> Instant:
        """When a pod may be replaced: each failure doubles the wait."""
        if not self.failures:
            return Instant(0)
        return Instant(self.last + min(LAST_DELAY, FIRST_DELAY << min(self.failures - 1, 10)))


NO_BACKOFF: Final = Backoff()


class NewPod(Frozen):
    """A pod to create."""

    index: int | None = None
    failures: int | None = None
    """Failures of its index so far; None if they are not counted by index."""
    ignored: int = 0


class JobEvent(Frozen):
    """An event of the Job."""

    reason: str
    note: str
    warning: bool = False


class PodPlan(Frozen):
    """What to do, in this order."""

    create: tuple[NewPod, ...] = ()
    delete: tuple[Pod, ...] = ()
    removes_finalizer: bool = False
    """Whether the pods to delete lose our finalizer first, since they are not counted."""
    status: JobStatus | None = None
    """What to write; None if nothing."""
    release: tuple[Pod, ...] = ()
    """Pods that lose our finalizer after the write."""
    events: tuple[JobEvent, ...] = ()
    backoff: Backoff = NO_BACKOFF
    """The backoff after the status is written."""
    wake: Instant | None = None
    """When to plan again if nothing changes."""


class Tally(Frozen):
    """The present pods, counted."""

    active: tuple[Pod, ...]
    terminating: tuple[Pod, ...]
    new_succeeded: tuple[Pod, ...]
    """Ended pods that the status does not include yet."""
    new_failed: tuple[Pod, ...]
    succeeded: int
    failed: int
    done: Intervals = ()
    """Indexes that have succeeded."""
    lost: Intervals | None = None
    """Indexes that have failed for good; None if failures are not counted by index."""
    awaiting: Mapping[int, Pod] = {}
    """By index: the failed pod that is kept until its replacement takes over its count of failures."""

    @property
    def ready(self) -> int:
        """How many active pods are ready."""
        return sum(1 for pod in self.active if pod.ready)


def failed(spec: JobSpec, pod: Pod) -> bool:
    """Whether a pod counts as failed; so does one being deleted, unless only ended pods are replaced."""
    if pod.phase == "Failed":
        return True
    return pod.deleting and pod.phase != "Succeeded" and not spec.patient


def valid(spec: JobSpec, pod: Pod) -> bool:
    """Whether a pod can count: in an Indexed Job, its index must be valid."""
    return not spec.indexed or (pod.index is not None and pod.index < (spec.completions or 0))


def tally(work: Work, pods: Sequence[Pod]) -> Tally:
    """Count the pods."""
    spec, status = work.spec, work.status
    known = status.uncounted_terminated_pods or NOTHING
    fresh = [pod for pod in pods if pod.tracked and valid(spec, pod)]
    new_succeeded = tuple(pod for pod in fresh if pod.phase == "Succeeded" and pod.uid not in known.succeeded)
    new_failed = tuple(pod for pod in fresh if pod.uid not in known.failed and failed(spec, pod))
    counting = sum(1 for pod in new_failed if judge(spec.pod_failure_policy, pod).counts)
    plain = Tally(
        tuple(pod for pod in pods if pod.active),
        tuple(pod for pod in pods if pod.terminating),
        new_succeeded,
        new_failed,
        status.succeeded + len(new_succeeded) + len(known.succeeded),
        status.failed + counting + len(known.failed),
    )
    return by_index(work, fresh, plain) if spec.indexed else plain


def by_index(work: Work, fresh: Sequence[Pod], plain: Tally) -> Tally:
    """Count the pods by index, too; `fresh` are the pods with a valid index that have our finalizer."""
    spec, status = work.spec, work.status
    completions = spec.completions or 0
    before = read_indexes(status.completed_indexes, completions)
    done = with_indexes(before, (pod.index or 0 for pod in fresh if pod.phase == "Succeeded"))
    counted = msgspec.structs.replace(plain, done=done, succeeded=total(done))
    if spec.backoff_limit_per_index is None:
        return counted
    lost = with_indexes(
        read_indexes(status.failed_indexes or "", completions),
        (pod.index or 0 for pod in fresh if index_failed(spec, pod)),
    )
    running = {pod.index for pod in plain.active}
    awaiting: dict[int, Pod] = {}
    for pod in fresh:
        index = pod.index or 0
        if not failed(spec, pod) or index in running or holds(done, index) or holds(lost, index):
            continue
        other = awaiting.get(index)
        if other is None or (other.failures + other.ignored <= pod.failures + pod.ignored and other.ended <= pod.ended):
            awaiting[index] = pod
    return msgspec.structs.replace(counted, lost=lost, awaiting=awaiting)


def index_failed(spec: JobSpec, pod: Pod) -> bool:
    """Whether the index of a pod has failed for good with it."""
    if not failed(spec, pod):
        return False
    judgement = judge(spec.pod_failure_policy, pod)
    if judgement.action == FAIL_INDEX:
        return True
    return judgement.counts and pod.failures >= (spec.backoff_limit_per_index or 0)


def remembered(backoff: Backoff, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> Backoff:
    """The backoff including the pods that ended since the last call."""
    failures = sorted(pod.ended for pod in failed)
    successes = [pod.ended for pod in succeeded]
    if not successes:
        return Backoff(backoff.failures + len(failures), failures[-1]) if failures else backoff
    later = [ended for ended in failures if ended > max(successes)]
    return Backoff(len(later), later[-1]) if later else NO_BACKOFF


def plan(
    work: Work, pods: Sequence[Pod], now: Instant, backoff: Backoff = NO_BACKOFF, *, manage_pods: bool = True
) -> PodPlan:
    """What to do for an unfinished Job; without `manage_pods` nothing is created or deleted."""
    sums = tally(work, pods)
    start = work.status.start_time or (None if work.spec.suspend else format_instant(now))
    verdict, wake = judged(work, pods, sums, start, now)
    later = remembered(backoff, sums.new_succeeded, sums.new_failed)
    step = PodPlan(wake=wake)
    if verdict is not None:
        step = PodPlan(delete=sums.active if manage_pods else ())
        if len(step.delete) < len(sums.active):
            # The result is not final while pods run that may end differently.
            verdict = None
    else:
        if manage_pods and not work.deleting:
            step = sooner(managed(work.spec, sums, now, later), wake)
        running = len(sums.active) + len(step.create) - len(step.delete)
        wanted = 1 if work.spec.completions is None else work.spec.completions
        if sums.succeeded >= wanted and running == 0:
            verdict = COMPLETIONS_REACHED
    events: tuple[JobEvent, ...] = ()
    status = restarted(work.status, start)
    if verdict is None and manage_pods and not work.deleting:
        status, events = held_back(work.spec, status, now)
        asked = (
            work.spec.parallelism
            if work.spec.completions is None
            else min(work.spec.parallelism, work.spec.completions)
        )
        if step.create and asked > pods_max(work.spec):
            events = (*events, held_back_by_size(work.spec))
    return written(work, pods, sums, step, verdict, status, events, later, now)


def sooner(step: PodPlan, wake: Instant | None) -> PodPlan:
    """The step with the earlier of its own wake-up time and another."""
    times = [time for time in (step.wake, wake) if time is not None]
    return msgspec.structs.replace(step, wake=min(times, default=None))


def restarted(status: JobStatus, start: str | None) -> JobStatus:
    """The status with a start time."""
    return status if status.start_time == start else msgspec.structs.replace(status, start_time=start)


def judged(
    work: Work, pods: Sequence[Pod], sums: Tally, start: str | None, now: Instant
) -> tuple[Verdict | None, Instant | None]:
    """The verdict on a Job, earlier or now, apart from its completions; and its deadline."""
    spec = work.spec
    stands = standing(work.status)
    if stands is not None:
        return stands, None
    if spec.pod_failure_policy is not None:
        for pod in pods:
            message = judge(spec.pod_failure_policy, pod).message if failed(spec, pod) else ""
            if message:
                return Verdict(True, "PodFailurePolicy", message), None
    if sums.failed > spec.retries or restarted_too_often(spec, pods):
        return BACKOFF_LIMIT, None
    deadline = None
    if spec.active_deadline_seconds is not None and start is not None and not spec.suspend:
        deadline = after(parse_instant(start), Seconds(spec.active_deadline_seconds))
        if deadline <= now:
            return DEADLINE, None
    if spec.indexed:
        completions, failures = spec.completions or 0, total(sums.lost or ())
        if spec.max_failed_indexes is not None and failures > spec.max_failed_indexes:
            return TOO_MANY_FAILED_INDEXES, None
        if failures and failures + total(sums.done) >= completions:
            return FAILED_INDEXES, None
        return successful(spec.success_policy, completions, sums.done), deadline
    return None, deadline


def restarted_too_often(spec: JobSpec, pods: Sequence[Pod]) -> bool:
    """Whether containers restarted in place have failed as often as pods may."""
    restarts = sum(pod.restarts for pod in pods if pod.restarts_itself and pod.phase in ("Running", "Pending"))
    return restarts >= max(spec.retries, 1)


def managed(spec: JobSpec, sums: Tally, now: Instant, backoff: Backoff) -> PodPlan:
    """Which pods to create or delete to reach the desired number."""
    running = len(sums.active)
    if spec.suspend:
        return PodPlan(delete=sums.active, removes_finalizer=True) if sums.active else PodPlan()
    if spec.completions is None:
        # Once one has succeeded, the others may end, and none is added.
        want = running if sums.succeeded else spec.parallelism
    else:
        want = max(0, min(spec.completions - sums.succeeded, spec.parallelism))
    surplus = to_remove(spec, sums.active, max(0, running - want))
    if surplus:
        return PodPlan(delete=tuple(surplus[:MOST_AT_ONCE]), removes_finalizer=True)
    missing = want - running - (len(sums.terminating) if spec.patient else 0)
    if missing <= 0:
        return PodPlan()
    if spec.backoff_limit_per_index is None and backoff.due() > now:
        return PodPlan(wake=backoff.due())
    missing = min(missing, MOST_AT_ONCE, pods_max(spec) - running - len(sums.terminating))
    if missing <= 0:
        return PodPlan()
    return to_create(spec, sums, missing, now) if spec.indexed else PodPlan(create=(NewPod(),) * missing)


def pods_max(spec: JobSpec) -> int:
    """How many unfinished pods a Job may have at a time, so that a large template does not fill the disk."""
    return max(1, PODS_BYTES_MAX // max(1, len(bytes(spec.template))))


def held_back_by_size(spec: JobSpec) -> JobEvent:
    """The event of a Job that gets fewer pods at a time than it asks for."""
    note = (
        f"The pods of this Job are large: {pods_max(spec)} exist at a time, and others are created as they finish; "
        "move data from the pod template to a ConfigMap or a file"
    )
    return JobEvent("PodsHeldBack", note, warning=True)


def to_create(spec: JobSpec, sums: Tally, missing: int, now: Instant) -> PodPlan:
    """The indexes that get a pod now."""
    taken = [(pod.index, pod.index) for pod in sums.active if pod.index is not None]
    if spec.patient:
        taken += [(pod.index, pod.index) for pod in sums.terminating if pod.index is not None]
    pending = gaps(merged((*sums.done, *(sums.lost or ()), *taken)), spec.completions or 0, missing)
    if spec.backoff_limit_per_index is None:
        return PodPlan(create=tuple(NewPod(index) for index in pending))
    create: list[NewPod] = []
    waits: list[Instant] = []
    for index in pending:
        before = sums.awaiting.get(index)
        due = Backoff(before.failures + before.ignored + 1, before.ended).due() if before is not None else Instant(0)
        if due > now:
            waits.append(due)
        elif before is None:
            create.append(NewPod(index, 0))
        elif judge(spec.pod_failure_policy, before).counts:
            create.append(NewPod(index, before.failures + 1, before.ignored))
        else:
            create.append(NewPod(index, before.failures, before.ignored + 1))
    return PodPlan(create=tuple(create), wake=min(waits, default=None))


def to_remove(spec: JobSpec, active: Sequence[Pod], least: int) -> list[Pod]:
    """Surplus pods: at least this many, and every one whose index is missing, out of range or a duplicate."""
    surplus: list[Pod] = []
    left = list(active)
    if spec.indexed:
        best: dict[int, Pod] = {}
        for pod in sorted(active, key=progress_key):
            if pod.index is None or pod.index >= (spec.completions or 0):
                surplus.append(pod)
            else:
                if pod.index in best:
                    surplus.append(best[pod.index])
                best[pod.index] = pod
        left = list(best.values())
    if len(surplus) < least:
        surplus += sorted(left, key=progress_key)[: least - len(surplus)]
    return surplus


def progress_key(pod: Pod) -> tuple[bool, int, bool, int, int, int]:
    """Sort key: the pod with the least progress comes first."""
    since = -pod.ready_since if pod.ready else 0
    return bool(pod.node), PHASES.get(pod.phase, 0), pod.ready, since, -pod.most_restarts, -pod.created


def held_back(spec: JobSpec, status: JobStatus, now: Instant) -> tuple[JobStatus, tuple[JobEvent, ...]]:
    """The status with the conditions of a Job that is, or was, suspended."""
    if spec.suspend:
        changed = condition("Suspended", "True", "JobSuspended", "Job suspended", now)
        event, begun = JobEvent("Suspended", "Job suspended"), None
    else:
        changed = condition("Suspended", "False", "JobResumed", "Job resumed", now)
        event, begun = JobEvent("Resumed", "Job resumed"), format_instant(now)
    conditions = with_condition(status.conditions, changed)
    if conditions is status.conditions:
        return status, ()
    # The deadline counts from its last resumption.
    return msgspec.structs.replace(status, conditions=conditions, start_time=begun), (event,)


def written(
    work: Work,
    pods: Sequence[Pod],
    sums: Tally,
    step: PodPlan,
    verdict: Verdict | None,
    status: JobStatus,
    events: tuple[JobEvent, ...],
    backoff: Backoff,
    now: Instant,
) -> PodPlan:
    """The step with its write, and the finalizers to remove afterwards."""
    spec = work.spec
    release, uncounted, whole = released(work, pods, sums, verdict)
    known = status.uncounted_terminated_pods or NOTHING
    kept = still_tracked(known, pods)
    succeeded = status.succeeded + len(known.succeeded) - len(kept.succeeded)
    failures = status.failed + len(known.failed) - len(kept.failed)
    terminating = len(sums.terminating) + len(step.delete)
    over = verdict is not None and whole and terminating == 0
    if over:
        succeeded, failures = succeeded + len(uncounted.succeeded), failures + len(uncounted.failed)
        uncounted = NOTHING
    new = msgspec.structs.replace(
        status,
        active=len(sums.active) + len(step.create) - len(step.delete),
        ready=sums.ready - sum(1 for pod in step.delete if pod.ready),
        terminating=terminating,
        succeeded=total(sums.done) if spec.indexed else succeeded,
        failed=failures,
        completed_indexes=write_indexes(sums.done) if spec.indexed else status.completed_indexes,
        failed_indexes=write_indexes(sums.lost) if sums.lost is not None else None,
        uncounted_terminated_pods=uncounted,
    )
    if verdict is not None:
        conditions = concluded(new.conditions, verdict, now, over=over)
        completed = format_instant(now) if over and not verdict.failed else None
        new = msgspec.structs.replace(new, conditions=conditions, completion_time=completed)
        events = end_events(spec, new, verdict) if over else events
    return msgspec.structs.replace(
        step, status=None if new == work.status else new, release=release, events=events, backoff=backoff
    )


def end_events(spec: JobSpec, status: JobStatus, verdict: Verdict) -> tuple[JobEvent, ...]:
    """The events of a finished Job."""
    if verdict.failed:
        return (JobEvent(verdict.reason, verdict.message, warning=True),)
    completed = JobEvent("Completed", "Job completed")
    if spec.completions is not None and status.succeeded > spec.completions:
        note = "Too many succeeded pods running after completion count reached"
        return JobEvent("TooManySucceededPods", note, warning=True), completed
    return (completed,)


def released(
    work: Work, pods: Sequence[Pod], sums: Tally, verdict: Verdict | None
) -> tuple[tuple[Pod, ...], Uncounted, bool]:
    """The pods to release, which are uncounted until then, and whether those are all."""
    spec = work.spec
    known = still_tracked(work.status.uncounted_terminated_pods or NOTHING, pods)
    succeeded, failing = list(known.succeeded), list(known.failed)
    before = read_indexes(work.status.completed_indexes, spec.completions or 0) if spec.indexed else ()
    release: list[Pod] = []
    room = MOST_AT_ONCE - len(succeeded) - len(failing)
    for pod in sorted(pods, key=index_order) if spec.indexed else pods:
        if not pod.tracked or not may_go(work, pod, sums, verdict):
            continue
        news = False
        if pod.phase == "Succeeded" and pod.uid not in known.failed:
            # Its index, if it has one, is enough to see that it was counted.
            news = pod.uid not in known.succeeded if not spec.indexed else not holds(before, pod.index or 0)
            listed = None if spec.indexed else succeeded
        else:
            news = (
                (failed(spec, pod) or (verdict is not None and verdict.failed))
                and pod.uid not in known.failed
                and judge(spec.pod_failure_policy, pod).counts
            )
            listed = failing
        if news and valid(spec, pod):
            if room == 0:
                return tuple(release), Uncounted(tuple(succeeded), tuple(failing)), False
            room -= 1
            if listed is not None:
                listed.append(pod.uid)
        release.append(pod)
    return tuple(release), Uncounted(tuple(succeeded), tuple(failing)), True


def index_order(pod: Pod) -> int:
    """Pods without an index come first."""
    return -1 if pod.index is None else pod.index


def may_go(work: Work, pod: Pod, sums: Tally, verdict: Verdict | None) -> bool:
    """Whether a pod may lose our finalizer."""
    if work.deleting or verdict is not None or pod.phase == "Succeeded":
        return True
    if not failed(work.spec, pod):
        return False
    kept = sums.awaiting.get(pod.index) if pod.index is not None else None
    return kept is None or kept.uid != pod.uid
