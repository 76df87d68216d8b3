"""Reasons of jobs that the server does not list: a priority class that does not exist, and the name of a preemptor."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api.jobsummary import UNNAMED, UNQUEUED, JobSummary
from pykueue.api.names import Label
from pykueue.api.trees import Tree, mapping, member, text
from pykueue.cli.follow.reasons import PreemptionNote, newest, preemption_notes
from pykueue.cli.objects import each
from pykueue.kube.port import EVENTS, JOBS, WORKLOAD_PRIORITY_CLASSES, DeniedError, Kube, NotFoundError, Resource

UNQUEUED_EVENT: Final = "WorkloadPriorityClassNotFound"
"""The reason of the Event on a Job that cannot be queued."""


async def explained(kube: Kube, rows: Sequence[JobSummary], namespace: str) -> tuple[JobSummary, ...]:
    """The rows with the reasons that `status` shows, as far as this user may read them."""
    missing: Mapping[str, str] = {}
    if any(row.reason == UNQUEUED for row in rows):
        try:
            missing = await unqueued(kube, namespace)
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


async def unqueued(kube: Kube, namespace: str) -> dict[str, str]:
    """Why Jobs have no Workload, by namespace and name: their priority class does not exist.

    They are found by their Events, which are far fewer than finished Jobs.
    """
    events = [one async for one in each(kube, EVENTS, namespace, fields=f"reason={UNQUEUED_EVENT}")]
    found: dict[str, str] = {}
    for within, name in {(text(one, "regarding", "namespace"), text(one, "regarding", "name")) for one in events}:
        job = await looked_up(kube, JOBS, name, within)
        wanted = text(mapping(job or {}, "metadata", "labels"), Label.PRIORITY_CLASS)
        if job is None or not wanted or member(job, "spec", "suspend") is not True:
            continue
        if await looked_up(kube, WORKLOAD_PRIORITY_CLASSES, wanted) is None:
            found[f"{within}/{name}"] = f"WorkloadPriorityClass {wanted} not found"
    return found


async def looked_up(kube: Kube, resource: Resource, name: str, namespace: str = "") -> Tree | None:
    """An object; None if it does not exist."""
    try:
        found: Tree = msgspec.json.decode(await kube.get(resource, name, namespace))
    except NotFoundError:
        return None
    return found
