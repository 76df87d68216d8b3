"""Build and run our controllers and the engine on any Kubernetes API."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Final

from pykueue.api.config.file import Loaded
from pykueue.app.podtemplates import PodTemplates
from pykueue.base.clock import Clock
from pykueue.base.timers import waited
from pykueue.bridge.runtimes import RunTimes
from pykueue.controllers.barepods import BarePods
from pykueue.controllers.cluster import Cluster, settings
from pykueue.controllers.endpoints.admission import Admission
from pykueue.controllers.jobs import Jobs
from pykueue.controllers.journalfile import JournalFile
from pykueue.controllers.metrics.metrics import Metrics
from pykueue.controllers.provisioning import Provisioning
from pykueue.controllers.queries.calibration import EstimateLog
from pykueue.controllers.scheduling import Pump
from pykueue.controllers.status import Statuses
from pykueue.controllers.workloads import Workloads
from pykueue.jobs.batch import BATCH
from pykueue.kube.fenced import Fenced
from pykueue.kube.lease import Leadership
from pykueue.kube.port import Kube

CONTROLLERS: Final = ("scheduling", "jobs", "workloads", "checks", "status", "pods", "webhooks")
"""The controllers that can be disabled."""
DECIDING: Final = frozenset({"scheduling", "workloads", "status"})
"""The controllers that need the engine."""
LEAD: Final = "lead"
TAKE_OVER: Final = "take over"
LANDING_SECONDS: Final = 1.0
"""How long to wait at shutdown for writes in flight."""
GC_THRESHOLDS: Final = (200_000, 20, 100)
"""Reference cycles are rare here, and a full collection takes longer than a scheduling cycle."""


class LostError(Exception):
    """This process lost leadership and must exit."""


class Controllers:
    """The cluster cache, the engine, and the controllers that act on its decisions."""

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
        run_times: RunTimes | None = None,
        merged_events: bool = False,
    ) -> None:
        self.writing = writing
        self.leadership = leadership
        self.parts = parts
        fenced = Fenced(writing, leadership)
        self.cluster = Cluster(
            fenced,
            reading,
            clock,
            settings(loaded, seed, scheduling="scheduling" in parts, merged_events=merged_events),
            instance=identity,
            with_jobs="jobs" in parts,
            run_times=run_times,
        )
        fenced.refused = self.cluster.doubt
        self.metrics = Metrics(loaded)
        fenced.wrote = self.metrics.self_metrics.wrote
        self.cluster.events.dropped = self.metrics.self_metrics.event_dropped
        self.journal = None if journal is None else JournalFile(journal)
        self.pump = Pump(self.cluster, self.metrics, self.journal)
        self.metrics.watch(self.cluster, self.pump.engine)
        self.estimates = EstimateLog(self.metrics.estimated)
        self.cluster.workloads.listen(self.estimates.workload_changed)
        self.duties: dict[str, Callable[[], Coroutine[None, None, None]]] = {}
        """Tasks of the leader, by name."""
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """Running tasks, by name."""
        self.stopping = False
        if "jobs" in parts:
            jobs = Jobs(self.cluster, (BATCH,), self.pump.stopped)
            self.duties["jobs"] = jobs.run
            self.metrics.self_metrics.controllers += jobs.controllers
        if "workloads" in parts:
            workloads = Workloads(self.cluster, self.pump)
            self.duties["workloads"] = workloads.run
            self.metrics.self_metrics.controllers += (workloads.controller, workloads.classes)
        if "checks" in parts:
            provisioning = Provisioning(self.cluster)
            self.duties["checks"] = provisioning.run
            self.metrics.self_metrics.controllers += (provisioning.controller, provisioning.checks)
        if "status" in parts:
            self.duties["status"] = Statuses(self.cluster, self.pump).run
        if "pods" in parts:
            self.duties["pods"] = BarePods(self.cluster).run
        for controller in self.metrics.self_metrics.controllers:
            controller.observe = self.metrics.self_metrics.reconciled
        self.admission = Admission(reading, self.cluster, loaded.configuration, loaded.gates.values, PodTemplates())

    def start(self) -> None:
        """Start the informers, the scheduler and leader election."""
        self.begin("follow", self.cluster.follow)
        self.begin("events", self.cluster.events.run)
        self.begin("decide", self.pump.run)
        self.begin(LEAD, lambda: self.leadership.run(self.started, self.stopped))

    async def attend(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set; raises the error of any task that fails, and LostError if leadership is lost."""
        self.begin("stop", stop.wait)
        while "stop" in self.tasks:
            done, _ = await asyncio.wait(self.tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                del self.tasks[task.get_name()]
                if task.cancelled():
                    # Cancelled by `stopped`; the result of the election task says why.
                    continue
                task.result()
                if task.get_name() == LEAD and "stop" in self.tasks:
                    raise LostError("leader election ended; the log has the reason")

    async def freeze(self) -> None:
        """Exclude the synced caches from garbage collection: they are large and long-lived."""
        await self.cluster.until_synced()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)

    def begin(self, name: str, work: Callable[[], Coroutine[None, None, object]]) -> None:
        """Start a task."""

        async def done() -> None:
            await work()

        self.tasks[name] = asyncio.get_running_loop().create_task(done(), name=name)

    def started(self) -> None:
        """Start the tasks of the leader."""
        if self.parts & DECIDING:
            self.begin(TAKE_OVER, self.pump.take_over)
        for name, duty in self.duties.items():
            self.begin(name, partial(self.when_synced, duty))

    async def when_synced(self, duty: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run a task once the caches are synced."""
        await self.cluster.until_synced()
        await duty()

    def stopped(self, reason: str) -> None:
        """Stop the tasks of the leader; raises LostError unless we are shutting down."""
        for name in (TAKE_OVER, *self.duties):
            if name in self.tasks:
                self.tasks[name].cancel()
        self.pump.lead(False)
        if not self.stopping:
            raise LostError(reason)

    async def shut_down(self) -> None:
        """Shut down: stop deciding, wait for writes in flight, release the lease, end all tasks."""
        self.stopping = True
        await self.end("decide", TAKE_OVER, *self.duties)
        await waited(tuple(self.pump.writes.tasks.values()), LANDING_SECONDS)
        await self.end("events")
        # The next leader must not race with our writes.
        self.pump.writes.abandon()
        await self.writing.close()
        await self.leadership.release()
        await self.end(*self.tasks)
        if self.journal is not None:
            self.journal.close()

    async def end(self, *names: str) -> None:
        """Cancel tasks by name."""
        await end(self.tasks, *names)


async def end(tasks: dict[str, asyncio.Task[None]], *names: str) -> None:
    """Cancel tasks and remove them from `tasks`."""
    ended = [tasks.pop(name) for name in names if name in tasks]
    for task in ended:
        task.cancel()
    if ended:
        await asyncio.wait(ended)
