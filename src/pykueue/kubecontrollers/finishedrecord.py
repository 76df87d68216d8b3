"""What is recorded of a Job that has ended: a pure function of the Job, its Workload and its failed pods."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from pykueue.api.exitcodes import DEADLINE, TIMED_OUT
from pykueue.api.jobsummary import TEXT_MAX, FinishedJob, JobState
from pykueue.api.names import Annotation, Label
from pykueue.api.workload import Workload
from pykueue.base.struct import Frozen
from pykueue.base.text import shortened
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.bridge.jobtotals import listed, template_totals, workload_totals
from pykueue.engine.decisions import EvictionReason
from pykueue.jobs.batch import indexes_done, pods_at_once
from pykueue.kubecontrollers.jobviews import JobBody, Pod, instant

DISRUPTED: Final = ("DisruptionTarget", "True")


class Past(Frozen):
    """What a Workload tells about the earlier runs of its Job."""

    requests: Mapping[str, str] | None = None
    """What the pods asked for; None if the Workload is not known."""
    preempted: int = 0
    lost_seconds: int = 0
    """How long the runs took that were evicted."""
    cluster_queue: str = ""
    """The ClusterQueue that admitted it; empty if none has."""
    flavors: Mapping[str, str] = {}
    """The flavor of each resource that it holds."""


class Failures(Frozen):
    """What the failed pods of a Job tell."""

    exit_code: int | None = None
    """Of the last pod that failed with one."""
    lost_micros: int = 0
    """How long those pods ran that failed by a disruption."""
    restarted: Instant = Instant(0)
    """When the pod was created that replaced the last of those."""


UNKNOWN: Final = Past()
NONE: Final = Failures()


def past_of(workload: Workload) -> Past:
    """What a Workload tells about the earlier runs of its Job."""
    status = workload.status
    evictions = () if status.scheduling_stats is None else status.scheduling_stats.evictions
    return Past(
        workload_totals(workload),
        sum(one.count for one in evictions if one.reason == EvictionReason.PREEMPTED),
        status.accumulated_past_execution_time_seconds or 0,
        "" if status.admission is None else status.admission.cluster_queue or "",
        flavors_of(workload),
    )


def flavors_of(workload: Workload) -> Mapping[str, str]:
    """The flavor of each resource that a Workload holds; several are joined, the pod sets of a Job have one."""
    found: dict[str, dict[str, None]] = {}
    admission = workload.status.admission
    for assignment in () if admission is None else admission.pod_set_assignments:
        for resource, flavor in assignment.flavors.items():
            found.setdefault(resource, {})[flavor] = None
    return {resource: "+".join(flavors) for resource, flavors in sorted(found.items())}


def counted(before: Failures, pod: Pod) -> Failures:
    """The same with one more pod that has failed."""
    code = before.exit_code if pod.exit_code is None else pod.exit_code
    lost = max(0, pod.ended - pod.created) if DISRUPTED in pod.conditions else 0
    return Failures(code, before.lost_micros + lost, before.restarted)


def replaced(before: Failures, pod: Pod) -> Failures:
    """The same with a new pod, which replaces one that failed by a disruption if there is one."""
    return replace(before, restarted=pod.created) if before.lost_micros else before


def record_of(job: JobBody, past: Past, failures: Failures, now: Instant) -> FinishedJob:
    """The record of a Job that has finished or, if it has not, was deleted by now."""
    metadata, spec, status = job.metadata, job.spec, job.status
    over = status.holds("Complete") or status.holds("Failed")
    if over is None:
        state, ended = JobState.CANCELLED, instant(metadata.deletion_timestamp) or now
    else:
        state = JobState.COMPLETED if over.type == "Complete" else JobState.FAILED
        ended = instant(over.last_transition_time) or now
    submitted = instant(metadata.creation_timestamp)
    # A suspended Job does not run; its start time is of an earlier run.
    started = None if spec.suspend and over is None else status.start_time
    count = pods_at_once(spec.parallelism, spec.completions)
    ran = max(0, ended - instant(started)) if started else 0
    lost = past.lost_seconds * MICROS
    if count == 1 and failures.restarted > instant(started):
        # Its process was gone while the machine was down.
        ran, lost = max(0, ended - failures.restarted), lost + failures.lost_micros
    waited = max(0, ended - submitted - ran - lost)
    requests, left_out = listed(template_totals(spec.template, count) if past.requests is None else past.requests)
    return FinishedJob(
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        uid=metadata.uid or "",
        state=state,
        owner=shortened(metadata.annotations.get(Annotation.CREATOR, ""), TEXT_MAX),
        queue=metadata.labels.get(Label.QUEUE, ""),
        requests=requests,
        requests_left_out=left_out,
        submitted=format_instant(submitted),
        started=started or "",
        ended=format_instant(ended),
        exit_code=TIMED_OUT if over is not None and over.reason == DEADLINE else exit_code(state, failures),
        waited_seconds=waited // MICROS,
        ran_seconds=ran // MICROS,
        preempted=past.preempted,
        lost_seconds=past.lost_seconds + failures.lost_micros // MICROS,
        progress=progress(job),
        reason="" if over is None else shortened(over.reason, TEXT_MAX),
        message="" if over is None or state is JobState.COMPLETED else shortened(over.message, TEXT_MAX),
        cluster_queue=past.cluster_queue,
        flavors={
            name: shortened(past.flavors[name], TEXT_MAX) for name in requests if past.flavors.get(name) is not None
        },
    )


def exit_code(state: JobState, failures: Failures) -> int | None:
    """The exit code of a Job."""
    if state is JobState.COMPLETED:
        return 0
    return failures.exit_code if state is JobState.FAILED else None


def progress(job: JobBody) -> str:
    """Completed and all tasks of an Indexed Job; empty for any other."""
    total = job.spec.completions
    if not job.spec.indexed or total is None:
        return ""
    return f"{indexes_done((job.status.completed_indexes,), total)}/{total}"
