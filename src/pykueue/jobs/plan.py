"""What to do for a job now: a pure function from what is seen to a few actions, which `controllers` carries out.

The rules are in Kueue's order, and the first match decides; only writes to a Workload's status accompany what is done
to the job. Every action changes something that the next pass sees, so a pass that was interrupted at any point is
completed by the next one.
"""

from collections.abc import Sequence
from typing import Final

from pykueue.api.core import Condition, controller_of
from pykueue.api.names import OWNER_NOT_FOUND, OWNER_NOT_FOUND_SAYS, WorkloadCondition
from pykueue.api.workload import Workload, condition
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.jobs.actions import (
    NOTHING,
    STOPPED,
    Action,
    Actions,
    Await,
    DeleteJob,
    Finish,
    LookAgain,
    Notice,
    PatchJob,
    RemoveFinalizer,
    SendEvent,
    Stopped,
    UpdateWorkload,
)
from pykueue.jobs.activation import activation
from pykueue.jobs.dependencygate import next_actions
from pykueue.jobs.kind import Described, JobPatch, Pause
from pykueue.jobs.match import equivalent
from pykueue.jobs.podsets import InjectionError, MissingFlavorError, injected
from pykueue.jobs.seen import (
    Ancestor,
    JobInput,
    admitted,
    finished,
    has_finalizer,
    key_of,
    owned,
    reserved,
)
from pykueue.jobs.workload import prebuilt_name, queue_label
from pykueue.jobs.workloadsync import (
    adopted,
    created,
    deleted,
    kept_up,
    may_be_rewritten,
    readiness,
    reclaimed,
    rewritten,
    unsupported,
)

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
FAILED_TO_START: Final = "FailedToStart"
OUT_OF_SYNC: Final = "OutOfSync"
EVENT_SENT: Final = frozenset((SUCCEEDED, FAILED, FAILED_TO_START, OUT_OF_SYNC, OWNER_NOT_FOUND))
"""Reasons for which we finish a Workload and send an Event with the write."""
BY_KUEUE: Final = "DeactivatedDueTo"

NOT_ADMITTED: Final = "Not admitted by cluster queue"
WORKLOAD_DELETED: Final = "Workload is deleted"
NO_MATCH: Final = "No matching Workload; restoring pod templates according to existent Workload"
NO_WORKLOAD: Final = "Missing Workload; unable to restore pod templates"
NO_PREBUILT: Final = "missing workload"
OUT_OF_SYNC_SAYS: Final = "The prebuilt workload is out of sync with its user job"
SUSPENDED: Final = Notice("Suspended", "Kueue managed child job suspended")
TOO_DEEP: Final = Notice(
    "JobNestingTooDeep",
    "Terminated search for Kueue-managed Job because ancestor depth exceeded limit of 10",
    warning=True,
)
EXPIRED: Final = Notice("Deleted", "Deleted job: deactivation retention period expired")
OWNER_PAUSE: Final = 5.0
"""Seconds until a job whose owner is missing is looked at again; usually it is deleted with its owner."""


def plan(seen: JobInput, now: Instant) -> Actions:
    """What to do for a job now; empty if nothing."""
    job = seen.job
    if job is None or job.metadata.deletion_timestamp is not None:
        return orphaned(seen)
    if not seen.selected:
        return NOTHING
    owners = seen.owners
    if owners.too_deep:
        return (SendEvent(TOO_DEEP),)
    if owners.missing:
        return (LookAgain(OWNER_PAUSE),)
    if not queue_label(job.metadata) and not seen.rules.queueless and (owners.top is None or not owners.top.queue):
        return NOTHING
    if owners.top is not None:
        return child(seen, job, owners.top)
    held = dependencies(seen, job, now)
    if held and any(isinstance(one, PatchJob) for one in held):
        return held
    if name := prebuilt_name(job.metadata, annotations=seen.rules.prebuilt_annotations):
        return (*held, *with_prebuilt(seen, job, name, now))
    return (*held, *with_own(seen, job, now))


def dependencies(seen: JobInput, job: Described, now: Instant) -> Actions:
    """What to do about the gate of a job that waits for other jobs or for a time."""
    if not seen.rules.gated or not seen.kind.suspended(job):
        return NOTHING
    return next_actions(job.metadata.name or "", job.metadata.annotations, seen.others, now)


def orphaned(seen: JobInput) -> Actions:
    """The job is gone or being deleted: finish its Workloads and release them."""
    found: list[Action] = []
    for one in seen.workloads:
        going = one.metadata.deletion_timestamp is not None
        if seen.rules.finish_orphans and not going and not finished(one):
            found.append(Finish(one, OWNER_NOT_FOUND, OWNER_NOT_FOUND_SAYS))
        elif has_finalizer(one):
            found.append(RemoveFinalizer(one))
    return tuple(found)


def child(seen: JobInput, job: Described, top: Ancestor) -> Actions:
    """A job that belongs to a queued one runs only while that one is admitted."""
    if top.admitted or seen.kind.finished(job) is not None:
        return NOTHING
    step = seen.kind.suspend(job)
    return NOTHING if step is None else patched(step, SUSPENDED)


def with_prebuilt(seen: JobInput, job: Described, name: str, now: Instant) -> Actions:
    """The job names a prebuilt Workload; delete any other that it has."""
    workload = seen.prebuilt
    owner = None if workload is None else controller_of(workload.metadata)
    if workload is not None and owner is None:
        return (UpdateWorkload(workload, adopted(seen, job, workload)),)
    if workload is not None and owner is not None and owner.uid == job.metadata.uid:
        extra = tuple(deleted(one) for one in seen.workloads if one.name != name)
        over = condition(workload, WorkloadCondition.FINISHED)
        ended = over is not None and over.status == "True"
        if not ended and seen.kind.finished(job) is None and not equivalent(seen, job, workload):
            return (Finish(workload, OUT_OF_SYNC, OUT_OF_SYNC_SAYS, finish_notice(workload)),)
        if not ended or (over is not None and over.reason != OUT_OF_SYNC):
            return extra or settled(seen, job, workload, now)
    if seen.kind.finished(job) is not None:
        return NOTHING
    return stopped(seen, job, None, NO_PREBUILT, confirm=True) or NOTHING


def with_own(seen: JobInput, job: Described, now: Instant) -> Actions:
    """The job has one Workload of our making: keep the one that matches, and delete the others."""
    found: Sequence[Workload] = seen.workloads
    if len(found) > 1:
        found = sorted(found, key=lambda one: (not reserved(one), one.metadata.creation_timestamp or "", one.name))
    over = seen.kind.finished(job) is not None
    # What a finished job asked for no longer matters.
    match: Workload | None = None
    for one in found:
        if owned(job, one) if over else equivalent(seen, job, one):
            match = one
            break
    extra = [one for one in found if one is not match]
    if match is None and not over and not seen.kind.suspended(job):
        only = extra[0] if len(extra) == 1 else None
        actions = stopped(seen, job, only, NO_WORKLOAD if only is None else NO_MATCH, confirm=True)
        if actions is not None:
            return actions
    if match is None and extra and not over and may_be_rewritten(job, extra[0]):
        return rewritten(seen, job, extra[0], extra[1:])
    if extra:
        return tuple(map(deleted, extra))
    if match is not None:
        return settled(seen, job, match, now)
    return NOTHING if over else created(seen, job)


def settled(seen: JobInput, job: Described, workload: Workload, now: Instant) -> Actions:
    """The job and its one Workload ask for the same: bring their states in line."""
    if finished(workload):
        return release(workload)
    if workload.metadata.deletion_timestamp is not None:
        actions = stopped(seen, job, workload, WORKLOAD_DELETED)
        if actions is None:
            return (RemoveFinalizer(workload),) if has_finalizer(workload) else NOTHING
        return actions
    outcome = seen.kind.finished(job)
    if outcome is not None:
        reason = SUCCEEDED if outcome.success else FAILED
        return (Finish(workload, reason, outcome.message, finish_notice(workload)),)
    changed = activation(job, workload)
    written = (*reclaimed(seen, job, workload), *readiness(seen, job, workload, now))
    evicted = condition(workload, WorkloadCondition.EVICTED)
    if evicted is not None and evicted.status == "True":
        return (*stop_evicted(seen, job, workload, evicted, now), *written, *changed)
    if seen.kind.stopping(job):
        # It may have been admitted again meanwhile, but a stop must be completed before the next start.
        return (*(stopped(seen, job, workload, NOT_ADMITTED) or NOTHING), *written)
    if not seen.kind.suspended(job) and not admitted(workload):
        return (*(stopped(seen, job, workload, NOT_ADMITTED, confirm=True) or NOTHING), *written)
    if changed:
        return changed
    if seen.kind.suspended(job) and admitted(workload):
        return started(seen, job, workload, written)
    beyond = tuple(SendEvent(unsupported(text)) for text in seen.beyond)
    return (*beyond, *(written or kept_up(seen, job, workload)))


def release(workload: Workload) -> Actions:
    """Release a Workload that is finished."""
    if not has_finalizer(workload):
        return NOTHING
    over = condition(workload, WorkloadCondition.FINISHED)
    sent = over is not None and over.reason in EVENT_SENT
    return (RemoveFinalizer(workload, None if sent else finish_notice(workload)),)


def finish_notice(workload: Workload) -> Notice:
    """The Event of a finished Workload."""
    return Notice("FinishedWorkload", f"Workload '{key_of(workload)}' is declared finished")


def stop_evicted(seen: JobInput, job: Described, workload: Workload, evicted: Condition, now: Instant) -> Actions:
    """Stop an evicted job, release its quota when its pods are gone, and delete it in the end if so configured."""
    actions = stopped(seen, job, workload, evicted.message)
    ended = actions is None or any(isinstance(one, PatchJob) and one.last for one in actions)
    done = actions or NOTHING
    if ended and reserved(workload) and not seen.kind.active(job):
        unsure = 0 if seen.unsure_until is None else seen.unsure_until - now
        done = (*done, LookAgain(unsure / MICROS) if unsure > 0 else Stopped(workload))
    keep = seen.rules.delete_after
    if actions is not None or keep is None or workload.spec.active or not evicted.reason.startswith(BY_KUEUE):
        return done
    since = Instant(0) if evicted.last_transition_time is None else parse_instant(evicted.last_transition_time)
    left = since + keep - now
    return (*done, LookAgain(left / MICROS) if left > 0 else DeleteJob(EXPIRED))


def stopped(
    seen: JobInput, job: Described, workload: Workload | None, text: str, *, confirm: bool = False
) -> Actions | None:
    """The next write to stop a job; empty while it waits for its pods, None when it is stopped."""
    step = seen.kind.stop(job, () if workload is None else workload.spec.pod_sets)
    return None if step is None else patched(step, Notice(STOPPED, text), confirm=confirm)


def patched(step: JobPatch | Pause, notice: Notice, *, confirm: bool = False) -> Actions:
    """A patch, with the Event if this is the decisive write."""
    if isinstance(step, Pause):
        return NOTHING
    return (PatchJob(step.body, step.status, notice if step.decisive else None, confirm and step.decisive, step.last),)


def started(seen: JobInput, job: Described, workload: Workload, written: Actions) -> Actions:
    """Start the job with what its pods were admitted to."""
    try:
        step = seen.kind.start(job, injected(workload, seen.flavors, seen.rules.injection))
    except MissingFlavorError:
        return (*written, Await())
    except InjectionError as error:
        return (Finish(workload, FAILED_TO_START, str(error), finish_notice(workload)),)
    admission = workload.status.admission
    queue = "" if admission is None else admission.cluster_queue or ""
    return (*patched(step, Notice("Started", f"Admitted by clusterQueue {queue}")), *written)
