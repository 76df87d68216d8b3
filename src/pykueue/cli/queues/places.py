"""Places in line, from the visibility API where it is served and allowed."""

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from pykueue.api.visibility import LIMIT_MAX, PENDING_WORKLOADS, VISIBILITY_GROUP, VISIBILITY_VERSIONS
from pykueue.base.struct import Wire
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import KubeError

ROOT: Final = f"/apis/{VISIBILITY_GROUP}/{VISIBILITY_VERSIONS[0]}"
AT_ONCE: Final = 8
"""The most requests in flight."""


class Owner(Wire):
    """The owner of a Workload."""

    uid: str = ""


class Metadata(Wire):
    """The name and the owners of a Workload."""

    namespace: str = ""
    name: str = ""
    owner_references: tuple[Owner, ...] = ()


class Row(Wire):
    """A pending Workload."""

    metadata: Metadata = Metadata()
    position_in_cluster_queue: int = 0
    position_in_local_queue: int = 0


class Rows(Wire):
    """The pending Workloads of a LocalQueue."""

    items: tuple[Row, ...] | None = None


ROWS: Final = msgspec.json.Decoder(Rows)


async def places(kube: HttpKube, queues: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The place in its ClusterQueue, from 1, of each job that waits in these queues, by the job's UID."""
    rows = await pending(kube, queues)
    return {one.uid: row.position_in_cluster_queue + 1 for row in rows for one in row.metadata.owner_references}


async def positions(kube: HttpKube, queues: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The position in its LocalQueue, from 0, of each Workload that waits in these queues, by namespace and name."""
    rows = await pending(kube, queues)
    return {(row.metadata.namespace, row.metadata.name): row.position_in_local_queue for row in rows}


async def pending(kube: HttpKube, queues: Iterable[tuple[str, str]]) -> list[Row]:
    """The pending Workloads of LocalQueues, given by namespace and name; those that the server shows."""
    wanted = sorted(set(queues))
    if not wanted:
        return []
    # If the API is not there or not allowed, one request tells.
    first = await rows_of(kube, *wanted[0])
    if first is None and len(wanted) > 1 and await is_missing(kube):
        return []
    turns = asyncio.Semaphore(AT_ONCE)

    async def limited(namespace: str, queue: str) -> tuple[Row, ...]:
        async with turns:
            return await rows_of(kube, namespace, queue) or ()

    rest = await asyncio.gather(*(limited(*one) for one in wanted[1:]))
    return [row for rows in (first or (), *rest) for row in rows]


async def rows_of(kube: HttpKube, namespace: str, queue: str) -> tuple[Row, ...] | None:
    """The pending Workloads of a LocalQueue; None if the server does not show them."""
    path = f"{ROOT}/namespaces/{namespace}/localqueues/{queue}/{PENDING_WORKLOADS}?limit={LIMIT_MAX}"
    try:
        return ROWS.decode(await kube.call(Call("GET", path, f"get {PENDING_WORKLOADS}", repeatable=True))).items or ()
    except (KubeError, msgspec.DecodeError):
        return None


async def is_missing(kube: HttpKube) -> bool:
    """Whether the server does not serve the API, or not now."""
    try:
        await kube.call(Call("GET", ROOT, f"get {ROOT}", repeatable=True))
    except KubeError:
        return True
    return False
