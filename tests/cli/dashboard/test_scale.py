"""Does reading 50,000 jobs and 1,000 queues leave the event loop free for others?"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from pykueue.api.jobsummary import JobState, JobSummary
from pykueue.base.clock import SystemClock
from pykueue.cli.dashboard.overview import Meta
from pykueue.cli.dashboard.source import Source
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import Resource
from tests import builders
from tests.cli.jobs.test_servedrows import listed
from tests.patience import slowness, soon_async

JOBS, QUEUES, RUNNING = 50_000, 1_000, 2_000
HOLD_SECONDS = 0.02
OUTLIERS = 2
"""Steps that may take longer, such as one that the machine or the garbage collector of the test process interrupts."""


def row(number: int, shift: int) -> JobSummary:
    runs = number < RUNNING
    return JobSummary(
        f"team-{number % 50}",
        f"job-{number}",
        JobState.RUNNING if runs else JobState.PENDING,
        owner="ann",
        queue=f"q{number % QUEUES}",
        requests={"cpu": "1", "memory": "4Gi"},
        submitted="2027-01-15T08:00:00Z",
        since="2027-01-15T08:00:00Z",
        place=None if runs else max(1, number - RUNNING - shift),
        reason="needs 3 more cpu of flavor default in ClusterQueue main",
    )


class Server:
    """A large server, which answers at once; in each list every job that waits has another place."""

    def __init__(self) -> None:
        self.lists = [listed(*(row(number, shift) for number in range(JOBS))) for shift in (0, 1)]
        self.asked = 0
        spaces = [f"team-{number % 50}" for number in range(QUEUES)]
        self.objects: dict[str, list[Any]] = {
            "clusterqueues": [
                builders.cluster_queue(f"q{number}", "10", cohortName=f"c{number % 100}") for number in range(QUEUES)
            ],
            "localqueues": [builders.local_queue(f"q{n}", space, f"q{n}") for n, space in enumerate(spaces)],
        }

    async def call(self, call: Call) -> bytes:
        if "finishedjobs" in call.path:
            return b'{"metadata":{},"items":[]}'
        self.asked += 1
        return self.lists[self.asked % 2]

    async def pages(self, resource: Resource, *_: str, **__: str) -> AsyncIterator[bytes]:
        items = self.objects.get(resource.plural, [])
        for start in range(0, max(1, len(items)), 500):
            yield msgspec.json.encode({"items": items[start : start + 500]})

    async def create(self, *_: object) -> bytes:
        return b'{"status":{"allowed":true}}'


@pytest.mark.slow("reads 50,000 jobs")
async def test_no_step_holds_the_loop() -> None:
    server = Server()
    found = Source(cast("HttpKube", server), SystemClock(), home="default", meta=Meta())
    holds: list[float] = []

    async def look() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            holds.append(time.thread_time() - before)

    looking = asyncio.ensure_future(look())
    found.start()
    assert await soon_async(lambda: found.feed.complete and found.feed.overview and server.asked > 1, seconds=60)
    assert await soon_async(lambda: found.moved or found.places["team-0/job-3000"] == 999)
    looking.cancel()
    found.stop()
    assert len(found.feed.table.rows) == JOBS
    assert b'"clusterQueue"' in found.feed.table.rows["team-0/job-3000"]
    assert msgspec.json.decode(found.feed.overview)["counts"]["pending"] == JOBS - RUNNING
    assert sorted(holds)[-1 - OUTLIERS] < HOLD_SECONDS * slowness(), sorted(holds)[-10:]
