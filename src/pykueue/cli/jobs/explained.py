"""Reasons of jobs that the server does not list: a priority class that does not exist, and the name of a preemptor."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from pykueue.api.jobsummary import UNNAMED, UNQUEUED, JobSummary
from pykueue.cli.follow.reasons import PreemptionNote, newest, preemption_notes
from pykueue.cli.queues.state import unqueued
from pykueue.kube.port import DeniedError, Kube


async def explained(kube: Kube, rows: Sequence[JobSummary], namespace: str) -> tuple[JobSummary, ...]:
    """The rows with the reasons that `status` shows, as far as this user may read them."""
    missing: Mapping[str, str] = {}
    if any(row.reason == UNQUEUED for row in rows):
        try:
            missing = {one.job: one.why for _, one in await unqueued(kube, namespace)}
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
