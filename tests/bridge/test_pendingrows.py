"""Does each row of the line have its positions, however it is paged?"""

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from pykueue.api.core import OwnerReference
from pykueue.api.visibility import PendingWorkloadOptions
from pykueue.base.units import MICROS, Instant
from pykueue.bridge.pendingrows import rows_of_local_queue, rows_of_queue
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced
from pykueue.engine.model import ClusterQueue, LocalQueue, Namespace, Options, PodSet, Workload

OWNER = OwnerReference("batch/v1", "Job", "j", "u", controller=True, block_owner_deletion=True)


@pytest.fixture
def engine() -> Engine:
    """Six workloads, from e to j by age, in turns of two queues; i has a boost."""
    made = Engine(Options(priority_boost=True))
    for thing in (Namespace("red", ()), Namespace("blue", ()), ClusterQueue("main")):
        made.observe(Seen(thing))
    for namespace in ("red", "blue"):
        made.observe(Seen(LocalQueue(f"{namespace}/q", "main")))
    for number, name in enumerate("efghij"):
        namespace = ("red", "blue")[number % 2]
        pods = (PodSet("main", 1, (("cpu", number),)),)
        at = Instant(number * MICROS)
        made.observe(Seen(Workload(f"{namespace}/{name}", name, f"{namespace}/q", at, pods, 7, 5 * (name == "i"))))
    made.observe(Synced())
    made.decide(Instant(100 * MICROS))
    return made


def owners(key: str) -> tuple[OwnerReference, ...]:
    return (OWNER,) if key == "red/e" else ()


def walked(work: Generator[None, None, list[bytes]]) -> list[dict[str, Any]]:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return [msgspec.json.decode(row) for row in end.value]


def positions(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["metadata"]["name"], row["positionInClusterQueue"], row["positionInLocalQueue"]) for row in rows]


WHOLE = [("i", 0, 0), ("e", 1, 1), ("f", 2, 0), ("g", 3, 2), ("h", 4, 1), ("j", 5, 2)]
RED = [WHOLE[0], WHOLE[1], WHOLE[3]]


@pytest.mark.parametrize("step", [1, 2, 500])
@pytest.mark.parametrize(("offset", "limit"), [(0, 1000), (0, 2), (2, 3), (5, 10), (9, 1), (0, 0)])
def test_pages_are_pages_of_the_whole(
    engine: Engine, offset: int, limit: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykueue.bridge.pendingrows.STEP", step)
    options = PendingWorkloadOptions(offset, limit)
    assert positions(walked(rows_of_queue(engine, "main", options, owners))) == WHOLE[offset : offset + limit]
    assert positions(walked(rows_of_local_queue(engine, "red/q", options, owners))) == RED[offset : offset + limit]


def test_a_row_has_the_base_priority_and_the_owner_without_its_flags(engine: Engine) -> None:
    first, second, *_ = walked(rows_of_queue(engine, "main", PendingWorkloadOptions(), owners))
    assert (first["priority"], "ownerReferences" in first["metadata"]) == (7, False)
    assert second == {
        "metadata": {
            "name": "e",
            "namespace": "red",
            "creationTimestamp": "1970-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}],
        },
        "priority": 7,
        "localQueueName": "q",
        "positionInClusterQueue": 1,
        "positionInLocalQueue": 1,
    }


def test_a_local_queue_without_a_cluster_queue_has_no_line(engine: Engine) -> None:
    engine.observe(Seen(LocalQueue("red/lost", "none")))
    assert walked(rows_of_local_queue(engine, "red/lost", PendingWorkloadOptions(), owners)) == []
