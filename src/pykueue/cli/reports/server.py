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
from pykueue.api.jobsummary import FinishedJob, JobState
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
from pykueue.cli.reports.jobrecords import Queues, active_job, finished_job, instant, others_of, queues_of
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
from pykueue.kubecontrollers.finishedrecord import UNKNOWN, Past, past_of
from pykueue.reports.figures import LONGEST
from pykueue.reports.records import Calibration, Holding, Job, Material, Period

ROOT: Final = f"/apis/{QUERY_GROUP}/{QUERY_VERSION}"
ESTIMATE: Final = msgspec.json.Decoder(Estimate)
FINISHED: Final = f'"type":"{WorkloadCondition.FINISHED}"'.encode()
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
QUOTA_OF_NOW: Final = "nominal quotas are the current ones; for earlier ones use --journal"


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
    pasts, started = await read_workloads(kube, within)
    jobs: list[Job] = []
    holdings: list[Holding] = []
    # Both are in UTC, with whole seconds.
    recent = [row for row in rows if row.ended >= begin]
    for row in recent:
        one, uses = finished_job(row, queues)
        jobs.append(one)
        holdings += uses
    for active_row in active.rows:
        past = pasts.get((active_row.namespace, active_row.name), UNKNOWN)
        one, uses = active_job(active_row, queues, past, period.end)
        jobs.append(one)
        holdings += uses
    if any(job.preempted or job.lost for job in jobs):
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
        await calibration(kube, started),
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


async def read_workloads(
    kube: HttpKube, namespace: str
) -> tuple[Mapping[tuple[str, str], Past], tuple[str, str] | None]:
    """The earlier runs of Jobs that have not ended, by namespace and name; namespace and name of a started Workload."""
    pasts: dict[tuple[str, str], Past] = {}
    started: tuple[str, str] | None = None
    try:
        async for raw in items(kube, WORKLOADS, namespace):
            if started is not None and FINISHED in raw:
                continue
            workload = decode_as(Workload, raw)
            metadata = workload.metadata
            if held(workload, WorkloadCondition.ADMITTED) is not None:
                started = started or (metadata.namespace or "", metadata.name or "")
            owner = next((one.name for one in metadata.owner_references), "")
            if owner and held(workload, WorkloadCondition.FINISHED) is None:
                pasts[metadata.namespace or "", owner] = past_of(workload)
    except (DeniedError, NotFoundError, DecodeError):
        pass
    return pasts, started


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


async def calibration(kube: HttpKube, started: tuple[str, str] | None) -> Calibration | None:
    """How good estimates were, from the answer for a Workload that has started; None if the server does not say."""
    # Of one that waits, the server would first estimate the start.
    if started is None:
        return None
    namespace, name = started
    path = f"{ROOT}/namespaces/{quote(namespace)}/workloads/{quote(name)}/{ESTIMATES}"
    try:
        found = ESTIMATE.decode(await kube.call(Call("GET", path, f"get {ESTIMATES} {name}", repeatable=True)))
    except (KubeError, msgspec.DecodeError):
        return None
    return Calibration(found.status.calibration.estimates, found.status.calibration.right)
