"""What to say of a job whose output is gone: what stopped it, when, and how to keep output."""

import re
from typing import Final

import msgspec

from pykueue.api.jobsummary import FINISHED_JOBS, OWN_GROUP, OWN_VERSION, FinishedJob, FinishedList, JobState
from pykueue.api.names import Annotation, WorkloadCondition
from pykueue.api.trees import Tree, mappings, text, whole
from pykueue.bridge.sentences import condition, pending_text
from pykueue.cli.jobend import timed_out
from pykueue.cli.tables import local_time
from pykueue.engine.decisions import EvictionReason
from pykueue.kube.port import Kube, KubeError, Resource

RECORDS: Final = Resource(OWN_GROUP, OWN_VERSION, FINISHED_JOBS, "", True)
KEEP: Final = "to keep the output, write it to a file: `pykueue run --output FILE`, or sh -c 'COMMAND > FILE'"
PATTERN: Final = re.compile(r"%(.)", re.DOTALL)
"""In the annotation that names the file which a Job writes."""
LIST: Final = msgspec.json.Decoder(FinishedList)


def file_of(pattern: str, job: str, task: int | None) -> str:
    """The file that a Job, or one of its tasks, writes itself; without a task, its number is left as %a."""
    known = {"j": job, "A": job, "%": "%", **({} if task is None else {"a": str(task)})}
    return PATTERN.sub(lambda found: known.get(found[1], found[0]), pattern)


def of_ended(job: Tree) -> str:
    """Why the output of a Job that has ended is gone."""
    if not timed_out(job):
        return f"its pods were deleted together with their output; {KEEP}"
    at = local_time(text(condition(job, "Failed"), "lastTransitionTime"))
    return f"it reached its time limit at {at} and was stopped, and its output was deleted with its pods; {KEEP}"


def of_stopped(workload: Tree) -> str:
    """Why the output of a Job that waits to run again is gone; empty if it has not run, as far as is known."""
    evicted = condition(workload, WorkloadCondition.EVICTED)
    if text(evicted, "status") != "True":
        return ""
    if text(evicted, "reason") == "Deactivated" and not lost_runs(workload):
        return ""
    at = local_time(text(evicted, "lastTransitionTime"))
    return f"it was {stopped_by(workload, evicted)} at {at}, and its output was deleted with its pods; {KEEP}"


def stopped_by(workload: Tree, evicted: Tree) -> str:
    """What was done to a workload that was evicted."""
    if text(evicted, "reason") == EvictionReason.PREEMPTED:
        return "preempted"
    if text(evicted, "reason") != "Deactivated":
        return f"evicted ({pending_text(evicted)})"
    by = text(workload, "metadata", "annotations", Annotation.DEACTIVATED_BY)
    return {"hold": "held", "requeue": "requeued"}.get(by, "stopped")


def of_earlier_runs(workload: Tree) -> str:
    """A note that the output shown is not that of all runs; empty if it is, as far as is known."""
    if not lost_runs(workload):
        return ""
    return f"it was stopped and started over; the output of its earlier runs was deleted with their pods; {KEEP}"


def lost_runs(workload: Tree) -> bool:
    """Whether a workload has run before it was stopped."""
    if whole(workload, "status", "accumulatedPastExecutionTimeSeconds"):
        return True
    evictions = mappings(workload, "status", "schedulingStats", "evictions")
    return any(text(one, "reason") == EvictionReason.PREEMPTED for _, one in evictions)


async def of_deleted(kube: Kube, namespace: str, name: str) -> str:
    """What became of a Job that is gone, by the newest records of finished jobs; empty if they do not say."""
    try:
        async for page in kube.pages(RECORDS, namespace):
            return told(LIST.decode(page).items, name)
    except (KubeError, msgspec.DecodeError):
        # A cluster has no records, and a user may lack the right to read them.
        return ""
    return ""


def told(records: tuple[FinishedJob, ...], name: str) -> str:
    """What the newest record of this name says of the Job and of its output."""
    for one in records:
        if one.name == name:
            if one.state is JobState.CANCELLED and not one.started:
                return f"it was cancelled at {local_time(one.ended)}, before it ran"
            if one.state is JobState.CANCELLED:
                return f"it was cancelled at {local_time(one.ended)}, and its output was deleted with its pods; {KEEP}"
            return f"it ended at {local_time(one.ended)}, and was deleted later, with its output"
    return ""
