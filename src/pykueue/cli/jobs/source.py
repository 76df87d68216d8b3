"""The rows of `pykueue jobs`: from `pykueue.io/v1alpha1` where it is served, else from Jobs, Workloads and pods."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from pykueue.api.jobsummary import (
    FINISHED_JOBS,
    OWN_GROUP,
    OWN_VERSION,
    SUMMARIES,
    UNNAMED,
    UNQUEUED,
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
from pykueue.kube.port import DeniedError, Kube, NotFoundError, Resource

Row = TypeVar("Row", JobSummary, FinishedJob)
Answer = TypeVar("Answer")

SELF_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview")
PAGE: Final = 500
NO_RECORDS: Final = "deleted jobs are omitted: this server does not keep records of them"
SUMMARY_LIST: Final = msgspec.json.Decoder(SummaryList)
FINISHED_LIST: Final = msgspec.json.Decoder(FinishedList)


class OwnersUnknownError(Exception):
    """The jobs of one owner were asked for, and the server does not record owners."""


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
    """The jobs that run or wait; raises `KubeError` if they cannot be listed, or `OwnersUnknownError`."""
    own = await own_list(kube, SUMMARIES, asked, {"labelSelector": asked.labels})
    if own is not None:
        rows = chosen(SUMMARY_LIST.decode(own[0]).items, asked)
        return Found(await with_reasons(kube, rows, own[1]), own[1], notes=own[2])
    # Only a server without this API needs these modules.
    from pykueue.base.clock import SystemClock
    from pykueue.cli.jobs.cluster import listed
    from pykueue.cli.queues.leader import without_leader
    from pykueue.cli.queues.places import places

    (found, unread), namespace, notes = await allowed(asked, lambda one: listed(kube, one, asked.labels))
    found.update()
    found.places = await places(kube, found.waiting_in())
    rows = chosen_of_cluster(found.summaries(), asked)
    leaderless = await without_leader(kube, SystemClock().now())
    said = (*notes, *unread, *([leaderless] if leaderless else []))
    return Found(await with_reasons(kube, rows, namespace), namespace, False, said)


async def with_reasons(kube: Kube, rows: tuple[JobSummary, ...], namespace: str) -> tuple[JobSummary, ...]:
    """The rows with reasons that have to be looked up."""
    if not any(row.reason == UNQUEUED or row.reason.startswith(UNNAMED) for row in rows):
        return rows
    # Few lists need these modules.
    from pykueue.cli.jobs.explained import explained

    return await explained(kube, rows, namespace)


async def finished(
    kube: HttpKube, asked: Asked, limit: int, now: Instant, since: str = ""
) -> tuple[list[FinishedJob], tuple[str, ...]]:
    """The finished jobs, the newest first and at most so many (0: all), and notes on what is left out.

    With `since`, most of the jobs that ended before it are left out.
    """
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
        # They are in the order of their records, which is nearly that of their ends.
        past = since and page.items and max(one.ended for one in page.items) < since
        if not token or past or (limit and len(rows) >= limit):
            return rows[:limit] if limit else rows, own[2]
    from pykueue.cli.jobs import cluster

    (found, unread), _, notes = await allowed(asked, lambda one: cluster.finished(kube, one, asked.labels, now))
    rows = [*chosen_of_cluster(found, asked)]
    return rows[:limit] if limit else rows, (*notes, NO_RECORDS, *unread)


async def own_list(
    kube: HttpKube, plural: str, asked: Asked, given: Mapping[str, str]
) -> tuple[bytes, str, tuple[str, ...]] | None:
    """A list of our own API, the namespace that it is of, and notes; None if the server does not serve it to us."""
    resource = Resource(OWN_GROUP, OWN_VERSION, plural, "", True)
    try:
        return await allowed(asked, lambda one: fetched(kube, resource, one, given))
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


async def allowed(asked: Asked, read: Callable[[str], Awaitable[Answer]]) -> tuple[Answer, str, tuple[str, ...]]:
    """What `read` returns of a namespace, the namespace, and notes: the user's own where all may not be listed."""
    try:
        return await read(asked.namespace), asked.namespace, ()
    except DeniedError as error:
        if asked.namespace or error.code == UNAUTHORIZED:
            raise
        return await read(asked.home), asked.home, (f"only namespace {asked.home} is shown: {error.message}",)


async def who_am_i(kube: Kube) -> str:
    """The name by which the server knows this user; raises `KubeError` if it does not say."""
    body = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
    review = msgspec.json.decode(await kube.create(SELF_REVIEWS, msgspec.json.encode(body)))
    return text(review, "status", "userInfo", "username")


def chosen_of_cluster(rows: Sequence[Row], asked: Asked) -> tuple[Row, ...]:
    """The rows of a queue and an owner, of a server other than ours; raises `OwnersUnknownError`."""
    if asked.owner and rows and not any(row.owner for row in rows):
        raise OwnersUnknownError
    return chosen(rows, asked)


def chosen(rows: Iterable[Row], asked: Asked) -> tuple[Row, ...]:
    """The rows of a queue and an owner, if those are asked for."""
    return tuple(
        row
        for row in rows
        if (not asked.queue or row.queue == asked.queue) and (not asked.owner or row.owner == asked.owner)
    )
