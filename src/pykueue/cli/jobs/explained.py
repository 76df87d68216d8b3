"""Reasons of jobs that the server does not list: why a job is not queued at all, and the name of a preemptor."""

from collections.abc import Container, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api.jobsummary import UNNAMED, UNQUEUED, JobSummary
from pykueue.api.names import Label
from pykueue.api.trees import Tree, text
from pykueue.cli.follow.reasons import PreemptionNote, newest, preemption_notes
from pykueue.cli.objects import each
from pykueue.kube.port import EVENTS, JOBS, WORKLOAD_PRIORITY_CLASSES, DeniedError, Kube, NotFoundError, Resource

UNSUPPORTED: Final = "Unsupported"
UNQUEUED_EVENTS: Final = ("WorkloadPriorityClassNotFound", UNSUPPORTED)
"""The reasons of Events on a Job that cannot be queued."""


async def explained(kube: Kube, rows: Sequence[JobSummary], namespace: str) -> tuple[JobSummary, ...]:
    """The rows with the reasons that `status` shows, as far as this user may read them."""
    missing: Mapping[str, str] = {}
    if waiting := {f"{row.namespace}/{row.name}" for row in rows if row.reason == UNQUEUED}:
        try:
            missing = await unqueued(kube, namespace, waiting)
        except DeniedError:
            missing = {}
    preempted = any(row.reason.startswith(UNNAMED) for row in rows)
    notes = await preemption_notes(kube, namespace) if preempted else []
    return tuple(with_reason(row, missing, notes) for row in rows)


def with_reason(row: JobSummary, missing: Mapping[str, str], notes: Sequence[PreemptionNote]) -> JobSummary:
    """A row with its reason."""
    key = f"{row.namespace}/{row.name}"
    why = ""
    if row.reason == UNQUEUED:
        why = missing.get(key, "")
    elif row.reason.startswith(UNNAMED):
        why = newest((one for one in notes if one.job == key), row.since)
    return replace(row, reason=why, message="") if why else row


async def unqueued(kube: Kube, namespace: str, jobs: Container[str]) -> dict[str, str]:
    """Why these Jobs, by namespace and name, have no Workload, as far as Events on them say it."""
    events = [
        one for reason in UNQUEUED_EVENTS async for one in each(kube, EVENTS, namespace, fields=f"reason={reason}")
    ]
    found: dict[str, str] = {}
    for one in events:
        within, name = text(one, "regarding", "namespace"), text(one, "regarding", "name")
        if f"{within}/{name}" in jobs and (job := await looked_up(kube, JOBS, name, within)):
            same = text(job, "metadata", "uid") == text(one, "regarding", "uid")
            if same and (why := await still_unqueued(kube, job, one)):
                found[f"{within}/{name}"] = why
    return found


async def still_unqueued(kube: Kube, job: Tree, event: Tree) -> str:
    """What keeps a Job without a Workload out of its queue, given an Event on it; empty if that is no longer true."""
    if text(event, "reason") == UNSUPPORTED:
        return text(event, "note")
    wanted = text(job, "metadata", "labels", Label.PRIORITY_CLASS)
    if wanted and await looked_up(kube, WORKLOAD_PRIORITY_CLASSES, wanted) is None:
        return f"WorkloadPriorityClass {wanted} not found"
    return ""


async def looked_up(kube: Kube, resource: Resource, name: str, namespace: str = "") -> Tree | None:
    """An object; None if it does not exist."""
    try:
        found: Tree = msgspec.json.decode(await kube.get(resource, name, namespace))
    except NotFoundError:
        return None
    return found
