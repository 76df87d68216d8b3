"""Our controllers with their engine, on any Kubernetes API."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Final

from pykueue.api.config.file import Loaded
from pykueue.base.clock import Clock
from pykueue.base.timers import waited
from pykueue.controllers.barepods import BarePods
from pykueue.controllers.cluster import Cluster, settings
from pykueue.controllers.endpoints.admission import Admission
from pykueue.controllers.jobs import Jobs
from pykueue.controllers.journalfile import JournalFile
from pykueue.controllers.metrics.metrics import Metrics
from pykueue.controllers.provisioning import Provisioning
from pykueue.controllers.scheduling import Pump
from pykueue.controllers.status import Statuses
from pykueue.controllers.workloads import Workloads
from pykueue.jobs.batch import BATCH
from pykueue.kube.lease import Fenced, Leadership
from pykueue.kube.port import Kube

CONTROLLERS: Final = ("scheduling", "jobs", "workloads", "checks", "status", "pods", "webhooks")
"""The parts that can be turned off."""
DECIDING: Final = frozenset({"scheduling", "workloads", "status"})
"""The parts that need the engine: its cycles, what it says about workloads, and its picture of the queues."""
LEAD: Final = "lead"
TAKE_OVER: Final = "take over"
LANDING_SECONDS: Final = 1.0
"""How long writes on their way are waited for at the end."""
GC_THRESHOLDS: Final = (200_000, 20, 100)
"""Objects that form cycles are rare here, and a full collection takes longer than a cycle of decisions."""


class LostError(Exception):
    """This process leads no more, and must end."""


class Controllers:
    """What is the same wherever we run: a picture of the cluster, the engine, and all who act on what it decides."""

    def __init__(
        self,
        reading: Kube,
        writing: Kube,
        leadership: Leadership,
        clock: Clock,
        loaded: Loaded,
        *,
        parts: frozenset[str] = frozenset(CONTROLLERS),
        journal: Path | None = None,
        identity: str = "pykueue",
        seed: int = 0,
    ) -> None:
        self.writing = writing
        self.leadership = leadership
        self.parts = parts
        self.cluster = Cluster(
            Fenced(writing, leadership),
            reading,
            clock,
            settings(loaded, seed, scheduling="scheduling" in parts),
            instance=identity,
            with_jobs="jobs" in parts,
        )
        self.metrics = Metrics(loaded)
        self.journal = None if journal is None else JournalFile(journal)
        self.pump = Pump(self.cluster, self.metrics, self.journal)
        self.metrics.watch(self.cluster, self.pump.engine)
        self.duties: dict[str, Callable[[], Coroutine[None, None, None]]] = {}
        """What only a leader does, by name."""
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """What is being done."""
        self.stopping = False
        if "jobs" in parts:
            jobs = Jobs(self.cluster, (BATCH,), self.pump.stopped)
            self.duties["jobs"] = jobs.run
            self.metrics.workings.controllers += jobs.controllers
        if "workloads" in parts:
            workloads = Workloads(self.cluster, self.pump)
            self.duties["workloads"] = workloads.run
            self.metrics.workings.controllers += (workloads.controller, workloads.classes)
        if "checks" in parts:
            provisioning = Provisioning(self.cluster)
            self.duties["checks"] = provisioning.run
            self.metrics.workings.controllers += (provisioning.controller, provisioning.checks)
        if "status" in parts:
            self.duties["status"] = Statuses(self.cluster, self.pump).run
        if "pods" in parts:
            self.duties["pods"] = BarePods(self.cluster).run
        for controller in self.metrics.workings.controllers:
            controller.observe = self.metrics.workings.reconciled
        self.admission = Admission(reading, self.cluster, loaded.configuration, loaded.gates.values)

    def start(self) -> None:
        """Begin to follow the cluster, to decide, and to stand for election."""
        self.begin("follow", self.cluster.follow)
        self.begin("events", self.cluster.events.run)
        self.begin("decide", self.pump.run)
        self.begin(LEAD, lambda: self.leadership.run(self.started, self.stopped))

    async def attend(self, stop: asyncio.Event) -> None:
        """Return when told to stop; raises what any of us fails with, and LostError when another leads before that."""
        self.begin("stop", stop.wait)
        while "stop" in self.tasks:
            done, _ = await asyncio.wait(self.tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                del self.tasks[task.get_name()]
                if task.cancelled():
                    # `stopped` has cancelled it; what the election ended with says why.
                    continue
                task.result()
                if task.get_name() == LEAD and "stop" in self.tasks:
                    raise LostError("the election is over; the log says why")

    async def freeze(self) -> None:
        """Have the garbage collector pass over what stays: the first picture is large, and almost none of it goes."""
        await self.cluster.until_synced()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)

    def begin(self, name: str, work: Callable[[], Coroutine[None, None, object]]) -> None:
        """Do something until the end."""

        async def done() -> None:
            await work()

        self.tasks[name] = asyncio.get_running_loop().create_task(done(), name=name)

    def started(self) -> None:
        """From now on this process leads."""
        if self.parts & DECIDING:
            self.begin(TAKE_OVER, self.pump.take_over)
        for name, duty in self.duties.items():
            self.begin(name, partial(self.when_synced, duty))

    async def when_synced(self, duty: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do something once there is a first full picture."""
        await self.cluster.until_synced()
        await duty()

    def stopped(self, reason: str) -> None:
        """From now on this process may write no more."""
        for name in (TAKE_OVER, *self.duties):
            if name in self.tasks:
                self.tasks[name].cancel()
        self.pump.lead(False)
        if not self.stopping:
            raise LostError(reason)

    async def land(self) -> None:
        """Stop deciding, let the writes on their way arrive, let go of the lease, end everything."""
        self.stopping = True
        await self.end("decide", TAKE_OVER, *self.duties)
        writes = tuple(self.pump.writes.tasks.values())
        if writes:
            await waited(writes, LANDING_SECONDS)
        await self.end("events")
        # Whoever leads next must not meet a write of ours.
        self.pump.writes.abandon()
        await self.writing.close()
        await self.leadership.release()
        await self.end(*self.tasks)
        if self.journal is not None:
            self.journal.close()

    async def end(self, *names: str) -> None:
        """Stop doing something."""
        await end(self.tasks, *names)


async def end(tasks: dict[str, asyncio.Task[None]], *names: str) -> None:
    """Stop tasks, and take them out of those that are under way."""
    ended = [tasks.pop(name) for name in names if name in tasks]
    for task in ended:
        task.cancel()
    if ended:
        await asyncio.wait(ended)
