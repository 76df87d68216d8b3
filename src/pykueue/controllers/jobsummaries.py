"""A job as people list it, made of the Job, its Workload and its pods; pure, and the same in both settings."""

from collections.abc import Callable, Sequence
from typing import Final

from pykueue.api.core import Condition, Tree
from pykueue.api.jobsummary import RETRIED, TEXT_MAX, UNQUEUED, JobState, JobSummary
from pykueue.api.names import Annotation, Label, WorkloadCondition
from pykueue.api.workload import Workload, condition, held
from pykueue.base.struct import Frozen
from pykueue.base.text import shortened
from pykueue.base.units import Instant, Seconds, after, format_instant, parse_instant
from pykueue.bridge.jobtotals import listed, template_totals, workload_totals
from pykueue.bridge.sentences import BY_OWNER, in_short, pending_text, shrinkable_of
from pykueue.checks.pendingchecks import NOT_CONSIDERED, awaited_text
from pykueue.engine.decisions import EvictionReason
from pykueue.jobs.batch import JobView, end_of, indexes_done, pods_at_once
from pykueue.jobs.dependencies import GATED, Other, State, followed, needs_of, phrase
from pykueue.jobs.workload import queue_label, run_limit

INACTIVE: Final = "deactivated: spec.active of its Workload is false"
DELETED: Final = "it is being deleted"
PROCESSES: Final = "its processes have not ended yet"
FINISHING: Final = "it has ended and is being cleaned up"
NO_QUEUE: Final = "it is suspended and names no queue"
NO_POD: Final = "its pods have not started yet"
RETRIES: Final = 6
"""How many pods of a Job may fail by default, in Kubernetes."""
FOLLOWED_MAX: Final = 100
"""How many jobs are searched for a circle for each job of a list."""


class PodFacts(Frozen):
    """What is shown of a pod."""

    problem: str = ""
    """Why a container cannot start; empty if all can."""
    gpus: tuple[int, ...] = ()
    unplaced: str = ""
    """Why it gets no node; empty if it has one."""


class Standing(Frozen):
    """The state of a job, since when, and why."""

    state: JobState
    since: str = ""
    reason: str = ""
    message: str = ""


def summary_of(
    job: JobView,
    workload: Workload | None,
    pods: Sequence[PodFacts],
    told: Tree | None = None,
    depends: str = "",
    delay: str = "after a delay",
) -> JobSummary:
    """A Job that has not finished.

    `told` is the condition that is about to be written to a Workload that waits, if that is known; `depends` says which
    jobs it waits for, from `dependency`. `delay` says when the next attempt starts after one that failed.
    """
    metadata, spec = job.metadata, job.spec
    found = unless_stopping(job, standing(job, workload, pods, told, depends))
    if found.state is JobState.RUNNING and not found.reason and between_attempts(job):
        attempts = 1 + (RETRIES if job.spec.backoff_limit is None else job.spec.backoff_limit)
        why = f"attempt {job.status.failed} of {attempts} {RETRIED}{delay}"
        found = Standing(found.state, found.since, why)
    limit = limit_of(job, workload)
    if workload is None:
        totals = template_totals(spec.template, pods_at_once(spec.parallelism, spec.completions))
    else:
        totals = workload_totals(workload)
    requests, left_out = listed(totals)
    return JobSummary(
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        state=found.state,
        owner=metadata.annotations.get(Annotation.CREATOR, ""),
        queue=queue_label(metadata),
        requests=requests,
        requests_left_out=left_out,
        gpus=tuple(sorted(number for pod in pods for number in pod.gpus)),
        submitted=metadata.creation_timestamp or "",
        since=found.since,
        limit_seconds=limit,
        deadline=deadline_of(job, workload) if found.state in (JobState.RUNNING, JobState.FAILING) else "",
        progress=progress_of(job),
        reason=shortened(found.reason, TEXT_MAX),
        message=shortened(found.message, TEXT_MAX) if found.message != found.reason else "",
        evicted=evicted_because(workload, found),
    )


def summary_of_workload(workload: Workload) -> JobSummary:
    """A Workload whose job is of a kind that is not read here; it has not finished."""
    metadata = workload.metadata
    owner = next((one.name for one in metadata.owner_references if one.controller), metadata.name or "")
    found = queued(workload, (), None, "")
    requests, left_out = listed(workload_totals(workload))
    return JobSummary(
        namespace=metadata.namespace or "",
        name=owner,
        state=found.state,
        queue=workload.spec.queue_name or "",
        requests=requests,
        requests_left_out=left_out,
        submitted=metadata.creation_timestamp or "",
        since=found.since,
        limit_seconds=workload.spec.maximum_execution_time_seconds,
        reason=shortened(found.reason, TEXT_MAX),
        message=shortened(found.message, TEXT_MAX) if found.message != found.reason else "",
        evicted=evicted_because(workload, found),
    )


def evicted_because(workload: Workload | None, found: Standing) -> str:
    """Why the last run of a pending job was stopped; empty if it was not, or by its owner."""
    evicted = None if workload is None else held(workload, WorkloadCondition.EVICTED)
    if evicted is None or found.state is not JobState.PENDING or evicted.reason == EvictionReason.DEACTIVATED:
        return ""
    return shortened(said(evicted)[0], TEXT_MAX)


def dependency(job: JobView, find: Callable[[str], Other | None], now: Instant) -> str:
    """Which jobs, or what time, a Job waits for that our gate holds; empty if it does not.

    `find` finds the jobs of its namespace by name.
    """
    needs = needs_of(job.metadata.annotations)
    if needs is None:
        return ""
    others = followed(needs, find, most=FOLLOWED_MAX)
    return phrase(job.metadata.name or "", job.metadata.annotations, others, now)


def other_of(job: JobView) -> Other:
    """A Job as those see it that wait for it."""
    over = end_of(job)
    state = State.UNFINISHED if over is None else State.SUCCEEDED if over.type == "Complete" else State.FAILED
    return Other(state, needs_of(job.metadata.annotations))


def standing(
    job: JobView, workload: Workload | None, pods: Sequence[PodFacts], told: Tree | None, depends: str
) -> Standing:
    """The state of a Job that has not finished."""
    created = job.metadata.creation_timestamp or ""
    started = job.status.start_time or created
    if job.metadata.deletion_timestamp is not None:
        return Standing(JobState.STOPPING, job.metadata.deletion_timestamp, DELETED)
    if workload is not None:
        return queued(workload, pods, told, depends)
    if job.spec.suspend:
        if queue_label(job.metadata):
            return Standing(JobState.PENDING, created, UNQUEUED)
        return Standing(JobState.HELD, created, NO_QUEUE)
    if problem := next((one.problem for one in pods if one.problem), ""):
        return Standing(JobState.FAILING, started, problem)
    if job.status.ready or job.status.succeeded:
        return Standing(JobState.RUNNING, started)
    return Standing(JobState.PENDING, created, NO_POD)


def between_attempts(job: JobView) -> bool:
    """Whether a Job that may run has failed pods and none that is active."""
    spec, status = job.spec, job.status
    return bool(status.failed) and not status.active and not spec.suspend and spec.backoff_limit_per_index is None


def unless_stopping(job: JobView, found: Standing) -> Standing:
    """The state of a Job, or that it stops, while processes of a run that has ended are still there."""
    if not job.status.terminating or job.status.active or found.state is JobState.FAILING:
        return found
    return Standing(JobState.STOPPING, found.since, PROCESSES, found.message)


def queued(workload: Workload, pods: Sequence[PodFacts], told: Tree | None, depends: str) -> Standing:
    """The state of a job by its Workload."""
    reserved = held(workload, WorkloadCondition.QUOTA_RESERVED)
    admitted = held(workload, WorkloadCondition.ADMITTED)
    evicted = held(workload, WorkloadCondition.EVICTED)
    created = workload.metadata.creation_timestamp or ""
    if (finished := held(workload, WorkloadCondition.FINISHED)) is not None:
        return Standing(JobState.STOPPING, at(finished), FINISHING)
    if reserved is not None and evicted is not None:
        return Standing(JobState.STOPPING, at(evicted), *said(evicted))
    if not workload.spec.active:
        by = workload.metadata.annotations.get(Annotation.DEACTIVATED_BY, "")
        if by not in BY_OWNER and evicted is not None and evicted.reason != EvictionReason.DEACTIVATED:
            return Standing(JobState.HELD, at(evicted), *said(evicted))
        return Standing(JobState.HELD, at(evicted) or created, BY_OWNER.get(by, INACTIVE))
    if admitted is not None:
        if problem := next((one.problem for one in pods if one.problem), ""):
            return Standing(JobState.FAILING, at(admitted), problem)
        return Standing(JobState.RUNNING, at(admitted), next((one.unplaced for one in pods if one.unplaced), ""))
    if reserved is not None:
        checks = tuple((one.name, one.state, one.message) for one in workload.status.admission_checks)
        return Standing(JobState.PENDING, at(evicted) or created, awaited_text(checks))
    known = condition(workload, WorkloadCondition.QUOTA_RESERVED)
    tree = told if known is None else tree_of(known)
    short = full = depends or NOT_CONSIDERED
    if tree is not None and not (depends and tree["message"] == GATED):
        fewer = shrinkable_of(workload)
        short, full = in_short(tree, fewer) or NOT_CONSIDERED, pending_text(tree, fewer) or NOT_CONSIDERED
    return Standing(JobState.PENDING, at(evicted) or created, short, full)


def at(known: Condition | None) -> str:
    """When a condition changed last; empty without one."""
    return "" if known is None else known.last_transition_time or ""


def said(known: Condition) -> tuple[str, str]:
    """What a condition says, in short and in full."""
    tree = tree_of(known)
    return in_short(tree), pending_text(tree)


def tree_of(known: Condition) -> Tree:
    """A condition as a tree."""
    return {"type": known.type, "status": known.status, "reason": known.reason, "message": known.message}


def limit_of(job: JobView, workload: Workload | None) -> int | None:
    """How many seconds a job may run, by its own limits; None if it has none."""
    found = (
        job.spec.active_deadline_seconds,
        run_limit(job.metadata) if workload is None else workload.spec.maximum_execution_time_seconds,
    )
    return min((one for one in found if one is not None), default=None)


def deadline_of(job: JobView, workload: Workload | None) -> str:
    """When a job that runs is stopped at the latest; empty if it has no limit."""
    ends: list[Instant] = []
    if job.spec.active_deadline_seconds is not None and job.status.start_time:
        ends.append(after(parse_instant(job.status.start_time), Seconds(job.spec.active_deadline_seconds)))
    admitted = None if workload is None else held(workload, WorkloadCondition.ADMITTED)
    most = None if workload is None else workload.spec.maximum_execution_time_seconds
    if workload is not None and most is not None and (since := at(admitted)):
        past = workload.status.accumulated_past_execution_time_seconds or 0
        ends.append(after(parse_instant(since), Seconds(max(0, most - past))))
    return format_instant(min(ends)) if ends else ""


def progress_of(job: JobView) -> str:
    """Completed and all tasks of an Indexed Job; empty for any other."""
    total = job.spec.completions
    if job.spec.completion_mode != "Indexed" or total is None:
        return ""
    return f"{indexes_done((job.status.completed_indexes,), total)}/{total}"


def workload_owner(workload: Workload) -> str:
    """The UID of the object that controls a Workload; empty if none does."""
    found = next((one.uid for one in workload.metadata.owner_references if one.controller), "")
    return found or workload.metadata.labels.get(Label.JOB_UID, "")
