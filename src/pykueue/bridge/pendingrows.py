"""The rows of the visibility API, from the order of a ClusterQueue in the engine.

A row depends on the whole line before it, which may be long: both functions yield between steps of a few milliseconds.
"""

from collections.abc import Callable, Generator
from typing import Final

import msgspec

from pykueue.api.core import ObjectMeta, OwnerReference
from pykueue.api.visibility import PendingWorkload, PendingWorkloadOptions
from pykueue.base.units import format_instant
from pykueue.engine.engine import Engine
from pykueue.engine.items import Item

Owners = Callable[[str], tuple[OwnerReference, ...]]
"""The owners of a Workload by its key."""

STEP: Final = 500
"""Workloads that one step looks at."""


def rows_of_queue(
    engine: Engine, queue: str, options: PendingWorkloadOptions, owners: Owners
) -> Generator[None, None, list[bytes]]:
    """The pending workloads of a ClusterQueue, in order and in JSON."""
    line = yield from engine.line(queue)
    before: dict[str, int] = {}
    rows: list[bytes] = []
    for index, item in enumerate(line[: options.offset + options.limit]):
        if index % STEP == STEP - 1:
            yield
        local = item.workload.local_queue
        place = before.get(local, 0)
        before[local] = place + 1
        if index >= options.offset:
            rows.append(row(item, owners, in_queue=index, in_local_queue=place))
    return rows


def rows_of_local_queue(
    engine: Engine, local_queue: str, options: PendingWorkloadOptions, owners: Owners
) -> Generator[None, None, list[bytes]]:
    """The pending workloads of a LocalQueue, by namespace/name, in order and in JSON."""
    known = engine.local_queue(local_queue)
    line = yield from engine.line("" if known is None else known.queue)
    place = 0
    rows: list[bytes] = []
    for index, item in enumerate(line):
        if index % STEP == STEP - 1:
            yield
        if len(rows) >= options.limit:
            break
        if item.workload.local_queue == local_queue:
            if place >= options.offset:
                rows.append(row(item, owners, in_queue=index, in_local_queue=place))
            place += 1
    return rows


def row(item: Item, owners: Owners, *, in_queue: int, in_local_queue: int) -> bytes:
    """One row."""
    workload = item.workload
    namespace, _, name = item.key.partition("/")
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        creation_timestamp=format_instant(workload.created),
        owner_references=tuple(
            OwnerReference(one.api_version, one.kind, one.name, one.uid) for one in owners(item.key)
        ),
    )
    local = workload.local_queue.partition("/")[2]
    return msgspec.json.encode(PendingWorkload(metadata, workload.priority, local, in_queue, in_local_queue))
