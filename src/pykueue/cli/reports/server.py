"""The material of a report from a server, with the rights of the user who asks."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from pykueue.api.codec import DecodeError, decode_as
from pykueue.api.core import Tree
from pykueue.api.estimates import Estimate
from pykueue.api.jobsummary import FinishedJob, JobState, JobSummary
from pykueue.api.names import WorkloadCondition
from pykueue.api.query import ESTIMATES, EXPLANATIONS, QUERY_GROUP, QUERY_VERSION
from pykueue.api.workload import Workload, held
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, format_instant
from pykueue.cli.explain.answer import TOLD
from pykueue.cli.jobs import source
from pykueue.cli.jobs.cluster import items
from pykueue.cli.jobs.source import Asked
from pykueue.cli.objects import everything
from pykueue.cli.queues.reading import permitted
from pykueue.cli.reports.jobrecords import HOLDS, Queues, active_job, finished_job, instant, others_of, queues_of
from pykueue.jobs.workload import workload_name
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    WORKLOADS,
    DeniedError,
    KubeError,
    NotFoundError,
    Resource,
)
from pykueue.kubecontrollers.finishedrecord import flavors_of
from pykueue.reports.figures import LONGEST
from pykueue.reports.records import Calibration, Holding, Job, Material, Period

ROOT: Final = f"/apis/{QUERY_GROUP}/{QUERY_VERSION}"
ESTIMATE: Final = msgspec.json.Decoder(Estimate)
TITLE: Final = "Queue report"
APPROXIMATE: Final = (
    "of jobs that were preempted, the record has how long they waited and ran before, but not when; those runs count "
    "as lost work and not in the use over time"
)
PARTIAL: Final = "use is of the jobs that are shown; others may hold more of the same quotas"
ALL_RECORDS: Final = 100_000
"""With fewer records of all namespaces, a server has dropped none of the last 90 days."""
OWN_RECORDS: Final = 1_000
"""With fewer records of one namespace, it has most probably dropped none: it drops those of the largest first."""
QUOTA_OF_NOW: Final = "nominal quotas are those of now; a journal has earlier ones (--journal)"


class Wanted(Frozen):
    """What a report is asked for."""

    asked: Asked
    period: Period
    offset: int = 0
    server: str = ""


async def material(kube: HttpKube, wanted: Wanted) -> Material:
    """Everything that a report shows of a server; raises `KubeError` if jobs cannot be listed."""
    begin = format_instant(wanted.period.begin)
    rows, notes = await source.finished(kube, wanted.asked, 0, wanted.period.end, begin)
    active = await source.active(kube, wanted.asked)
    since = known_since(rows, active, wanted)
    period = Period(since, wanted.period.end)
    notes = (*notes, *active.notes)
    within = active.namespace
    queues, cluster, unread = await known_queues(kube, within)
    running = [row for row in active.rows if row.state in HOLDS]
    flavors = await running_flavors(kube, within, running, queues)
    jobs: list[Job] = []
    holdings: list[Holding] = []
    # Both are in UTC, with whole seconds.
    recent = [row for row in rows if row.ended >= begin]
    for row in recent:
        one, uses = finished_job(row, queues)
        jobs.append(one)
        holdings += uses
    for active_row in active.rows:
        holds = flavors.get((active_row.namespace, active_row.name), {})
        one, uses = active_job(active_row, queues, holds, period.end)
        jobs.append(one)
        holdings += uses
    if any(row.preempted or row.lost_seconds for row in recent):
        notes = (*notes, APPROXIMATE)
    restricted = bool(within) and not wanted.asked.namespace
    if within:
        # Of other queues, nothing is known of their use.
        queues = queues.only(queue for (namespace, _), queue in queues.local.items() if namespace == within)
        notes = (*notes, PARTIAL)
    return Material(
        TITLE,
        period,
        wanted.period.begin,
        f"From {wanted.server}{f', namespace {within}' if within else ''}.",
        tuple(await with_reasons(kube, jobs, recent)),
        tuple(holdings),
        queues.quotas,
        told_once((*notes, *unread, *([QUOTA_OF_NOW] if queues.quotas else []))),
        tuple(others_of(cluster, jobs)) if restricted else (),
        await calibration(kube, within),
        offset=wanted.offset,
    )


def told_once(notes: Iterable[str]) -> tuple[str, ...]:
    """The notes without those that differ from an earlier one only in the message of the server."""
    found: dict[str, str] = {}
    for note in notes:
        found.setdefault(note.partition(": ")[0], note)
    return tuple(found.values())


def known_since(rows: Sequence[FinishedJob], active: source.Found, wanted: Wanted) -> Instant:
    """From when on the jobs are known: from the beginning of the time if records go back beyond it."""
    begin, end = wanted.period.begin, wanted.period.end
    ended = min((row.ended for row in rows), default="")
    if ended and ended < format_instant(begin):
        return begin
    stamps = [*(row.submitted for row in rows), *(row.submitted for row in active.rows)]
    submitted = min(filter(None, stamps), default="")
    # While no record was dropped, there was nothing before the first job.
    complete = active.served and len(rows) < (OWN_RECORDS if active.namespace else ALL_RECORDS)
    first = instant(submitted if complete or not ended else ended)
    return min(end, max(begin, begin if first is None else first))


async def known_queues(kube: HttpKube, namespace: str) -> tuple[Queues, list[Tree], list[str]]:
    """The queues that this user may read, and notes on the rest."""
    notes: list[str] = []

    async def read(resource: Resource, within: str, missing: str) -> list[Tree]:
        found, message = await permitted(everything(kube, resource, within))
        if found is None:
            notes.append(f"{missing}: {message}")
        return found or []

    local = await read(LOCAL_QUEUES, namespace, "jobs are shown by LocalQueue")
    cluster = await read(CLUSTER_QUEUES, "", "nominal quotas are left out")
    cohorts = await read(COHORTS, "", "quotas of cohorts are left out") if cluster else []
    return queues_of(local, cluster, cohorts), cluster, notes


async def running_flavors(
    kube: HttpKube, namespace: str, rows: Sequence[JobSummary], queues: Queues
) -> Mapping[tuple[str, str], Mapping[str, str]]:
    """The flavors of running jobs, by namespace and name, if a queue has several for a resource."""
    several = any(
        queues.flavor_of(queues.queue_of(row.namespace, row.queue), resource) == ""
        for row in rows
        for resource in row.requests
    )
    found: dict[tuple[str, str], Mapping[str, str]] = {}
    if not several:
        return found
    try:
        async for raw in items(kube, WORKLOADS, namespace):
            workload = decode_as(Workload, raw)
            owner = next((one.name for one in workload.metadata.owner_references), "")
            if owner and workload.status.admission is not None:
                found[workload.metadata.namespace or "", owner] = flavors_of(workload)
    except (DeniedError, NotFoundError):
        return found
    return found


async def with_reasons(kube: HttpKube, jobs: list[Job], rows: Sequence[FinishedJob]) -> list[Job]:
    """The jobs; those that have ended and waited longest with the reasons that the server remembers."""
    places = nlargest(LONGEST, range(len(jobs)), key=lambda place: jobs[place].waited)
    for place in places:
        if place < len(rows) and jobs[place].waited:
            jobs[place] = replace(jobs[place], reason=await remembered(kube, rows[place]))
    return jobs


async def remembered(kube: HttpKube, row: FinishedJob) -> str:
    """Why a job waited last, as far as the server remembers; empty if it does not."""
    if row.state is JobState.CANCELLED:
        return ""
    name = workload_name(kind="Job", group="batch", name=row.name, uid=row.uid)
    path = f"{ROOT}/namespaces/{quote(row.namespace)}/workloads/{quote(name)}/{EXPLANATIONS}"
    try:
        told = TOLD.decode(await kube.call(Call("GET", path, f"explain workload {name}", repeatable=True)))
    except (KubeError, msgspec.DecodeError):
        return ""
    return next((one.text for one in reversed(told.decisions) if one.kind == "Wait"), "")


async def calibration(kube: HttpKube, namespace: str) -> Calibration | None:
    """How good estimates were; None if the server does not say, or only with a simulation."""
    try:
        async for raw in items(kube, WORKLOADS, namespace):
            workload = decode_as(Workload, raw)
            # Of one that waits, the server would first estimate the start.
            if held(workload, WorkloadCondition.ADMITTED) is not None:
                return await asked_of(kube, workload)
    except (KubeError, DecodeError, msgspec.DecodeError):
        return None
    return None


async def asked_of(kube: HttpKube, workload: Workload) -> Calibration:
    """The calibration in the answer for a Workload that has started."""
    name, namespace = workload.metadata.name or "", workload.metadata.namespace or ""
    path = f"{ROOT}/namespaces/{quote(namespace)}/workloads/{quote(name)}/{ESTIMATES}"
    found = ESTIMATE.decode(await kube.call(Call("GET", path, f"get {ESTIMATES} {name}", repeatable=True)))
    return Calibration(found.status.calibration.estimates, found.status.calibration.right)
