"""When jobs start, as the server estimates it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import click
import msgspec
from msgspec.structs import replace

from pykueue.api.estimates import Estimate, EstimateStatus, StartState, words
from pykueue.api.query import ESTIMATES, QUERY_GROUP, QUERY_VERSION
from pykueue.api.trees import text
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Wire
from pykueue.base.text import printable
from pykueue.base.units import MICROS
from pykueue.cli.formats import json_text, yaml_text
from pykueue.cli.jobs.chosen import ERROR, Chosen, Named, report
from pykueue.cli.jobs.verbs import some_jobs, workloads_of
from pykueue.cli.messages import tell
from pykueue.cli.tables import short_time
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import KubeError, NotFoundError

ROOT: Final = f"/apis/{QUERY_GROUP}/{QUERY_VERSION}"
NO_QUERIES: Final = (
    f"this server has no {QUERY_GROUP}: it requires `pykueue up`, or `pykueue manager` with its manifests applied"
)
NOT_SERVED: Final = f"{NO_QUERIES}; `pykueue jobs` shows queue positions"
ESTIMATE: Final = msgspec.json.Decoder(Estimate)


class JobEstimate(Wire, omit_defaults=False):
    """When a job starts, for programs."""

    namespace: str
    name: str
    workload: str
    status: EstimateStatus


class JobEstimates(Wire, omit_defaults=False):
    """When some jobs start, for programs."""

    items: tuple[JobEstimate, ...] = ()


async def printed(kube: HttpKube, namespace: str, names: Sequence[Named], query: str, output: str | None) -> int:
    """Print when jobs start; returns the exit code."""
    jobs, code = await some_jobs(kube, namespace, names, None)
    workloads = await workloads_of(kube, namespace, jobs) if jobs else {}
    if workloads is None:
        tell(f"you may not list the Workloads of namespace {namespace}, which estimates require")
        return ERROR
    found: list[JobEstimate] = []
    for job in jobs:
        workload = text(workloads.get(job.uid, {}), "metadata", "name")
        try:
            one = await estimate_of(kube, job, workload, query)
        except KubeError as error:
            if isinstance(error, NotFoundError) and QUERY_GROUP not in error.message:
                tell(NOT_SERVED)
                return ERROR
            code = report(error, job.title)
            continue
        if one is None:
            tell(f"{job.title} has no Workload yet, so it is not queued; `pykueue jobs` shows why")
            code = ERROR
            continue
        found.append(one)
        if output is None:
            now = datetime.fromtimestamp(SystemClock().now() / MICROS, UTC).astimezone()
            click.echo(printable(sentence(one, now)))
    if output is not None:
        click.echo((json_text if output == "json" else yaml_text)(JobEstimates(tuple(found))))
    return code


async def estimate_of(kube: HttpKube, job: Chosen, workload: str, query: str) -> JobEstimate | None:
    """When a job starts; None if it is not in line."""
    if job.ended:
        status = EstimateStatus(StartState.FINISHED)
        return JobEstimate(job.namespace, job.name, workload, replace(status, message=words(status)))
    if not workload:
        return None
    path = f"{ROOT}/namespaces/{job.namespace}/workloads/{quote(workload, safe='')}/{ESTIMATES}?{query}"
    answer = ESTIMATE.decode(await kube.call(Call("GET", path, f"get {ESTIMATES} {job.namespace}/{job.name}")))
    return JobEstimate(job.namespace, job.name, workload, answer.status)


def sentence(one: JobEstimate, now: datetime) -> str:
    """An estimate for people."""
    status = one.status
    never = status.state is StartState.PENDING and not status.runs_that_start
    why = f". `pykueue explain {one.name}` shows why" if never else ""
    return f"{one.name}: {words(status, lambda time: short_time(time, now))}{why}"
