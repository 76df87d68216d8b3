"""The rows of `pykueue jobs`: from `pykueue.io/v1alpha1` where it is served, else from Jobs, Workloads and pods."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from pykueue.api.jobsummary import (
    FINISHED_JOBS,
    OWN_GROUP,
    OWN_VERSION,
    SUMMARIES,
    FinishedJob,
    FinishedList,
    JobSummary,
    SummaryList,
)
from pykueue.api.trees import text
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.kube.client.http import Call, HttpKube, collection, query
from pykueue.kube.port import DeniedError, NotFoundError, Resource

Row = TypeVar("Row", JobSummary, FinishedJob)

WHO_AM_I: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW: Final = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
PAGE: Final = 500
NO_RECORDS: Final = "jobs that were deleted are left out: this server keeps no records of them"
SUMMARY_LIST: Final = msgspec.json.Decoder(SummaryList)
FINISHED_LIST: Final = msgspec.json.Decoder(FinishedList)


class Asked(Frozen):
    """Which jobs are asked for."""

    namespace: str
    """Empty for all."""
    home: str
    """The namespace to show where all may not be listed."""
    labels: str = ""
    queue: str = ""
    owner: str = ""


class Found(Frozen):
    """Jobs that run or wait."""

    rows: tuple[JobSummary, ...]
    namespace: str
    """The one that was listed; empty for all."""
    served: bool = True
    """Whether the server lists them itself."""
    notes: tuple[str, ...] = ()
    """What is left out, and why."""


async def active(kube: HttpKube, asked: Asked) -> Found:
    """The jobs that run or wait; raises `KubeError` if they cannot be listed."""
    own = await own_list(kube, SUMMARIES, asked, {"labelSelector": asked.labels})
    if own is not None:
        return Found(chosen(SUMMARY_LIST.decode(own[0]).items, asked), own[1], notes=own[2])
    # Only a server without this API needs these modules.
    from pykueue.cli.jobs.cluster import listed

    namespace = asked.namespace
    notes: tuple[str, ...] = ()
    try:
        found, unread = await listed(kube, namespace, asked.labels)
    except DeniedError as error:
        namespace, notes = at_home(asked, error)
        found, unread = await listed(kube, namespace, asked.labels)
    return Found(chosen(found.summaries(), asked), namespace, False, (*notes, *unread))


async def finished(kube: HttpKube, asked: Asked, limit: int, now: Instant) -> tuple[list[FinishedJob], tuple[str, ...]]:
    """The finished jobs, the newest first and at most so many (0: all), and notes on what is left out."""
    rows: list[FinishedJob] = []
    token = ""
    while True:
        size = PAGE if not limit or asked.queue or asked.owner else min(PAGE, limit - len(rows))
        own = await own_list(kube, FINISHED_JOBS, asked, {"limit": str(size), "continue": token})
        if own is None:
            break
        page = FINISHED_LIST.decode(own[0])
        rows += chosen(page.items, asked)
        token = page.metadata.continue_
        if not token or (limit and len(rows) >= limit):
            return rows[:limit] if limit else rows, own[2]
    from pykueue.cli.jobs import cluster

    notes: tuple[str, ...] = ()
    try:
        found, unread = await cluster.finished(kube, asked.namespace, asked.labels, now)
    except DeniedError as error:
        namespace, notes = at_home(asked, error)
        found, unread = await cluster.finished(kube, namespace, asked.labels, now)
    rows = [*chosen(found, asked)]
    return rows[:limit] if limit else rows, (*notes, NO_RECORDS, *unread)


async def own_list(
    kube: HttpKube, plural: str, asked: Asked, given: Mapping[str, str]
) -> tuple[bytes, str, tuple[str, ...]] | None:
    """A list of our own API, the namespace that it is of, and notes; None if the server does not serve it to us."""
    resource = Resource(OWN_GROUP, OWN_VERSION, plural, "", True)
    namespace = asked.namespace
    notes: tuple[str, ...] = ()
    try:
        try:
            return await fetched(kube, resource, namespace, given), namespace, notes
        except DeniedError as error:
            namespace, notes = at_home(asked, error)
            return await fetched(kube, resource, namespace, given), namespace, notes
    except NotFoundError:
        return None
    except DeniedError as error:
        if error.code == UNAUTHORIZED:
            raise
        return None


async def fetched(kube: HttpKube, resource: Resource, namespace: str, given: Mapping[str, str]) -> bytes:
    """The body of a list."""
    path = collection(resource, namespace) + query(**given)
    return await kube.call(Call("GET", path, f"list {resource.plural} {namespace}".rstrip(), repeatable=True))


def at_home(asked: Asked, error: DeniedError) -> tuple[str, tuple[str, ...]]:
    """The namespace to list where all may not be, and a note about that; raises the error if one was asked for."""
    if asked.namespace or error.code == UNAUTHORIZED:
        raise error
    return asked.home, (f"only namespace {asked.home} is shown: {error.message}",)


async def who_am_i(kube: HttpKube) -> str:
    """The name by which the server knows this user."""
    answer = await kube.call(Call("POST", WHO_AM_I, "ask who this user is", REVIEW))
    return text(msgspec.json.decode(answer), "status", "userInfo", "username")


def chosen(rows: Iterable[Row], asked: Asked) -> tuple[Row, ...]:
    """The rows of a queue and an owner, if those are asked for."""
    return tuple(
        row
        for row in rows
        if (not asked.queue or row.queue == asked.queue) and (not asked.owner or row.owner == asked.owner)
    )
