"""Build the embedded system: a Kubernetes API on a store, the Kubernetes controllers, and ours.

It does not run pods: `app.machine` runs them as processes, `testing.embedded` scripts them in a test.
"""

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from pykueue.api.config.file import Loaded
from pykueue.api.core import Tree
from pykueue.api.jobsummary import FinishedJob
from pykueue.api.workload import Workload
from pykueue.apiserver.http.aggregatedapi import AggregatedApi
from pykueue.apiserver.http.ownapi import OwnApi
from pykueue.apiserver.inprocess import LocalKube
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.storage.finishedjobs import FinishedJobs
from pykueue.apiserver.storage.store import Store
from pykueue.apiserver.verbs.bootstrap import begin
from pykueue.apiserver.verbs.registry import Registry
from pykueue.app.admission import AdmissionAdapter
from pykueue.app.controllers import CONTROLLERS, Controllers, end
from pykueue.app.jobboard import JobBoard
from pykueue.app.queries import queries
from pykueue.base.clock import Clock
from pykueue.base.datafolder import DATABASE
from pykueue.base.struct import Frozen
from pykueue.bridge.outbound import pending_condition
from pykueue.bridge.runtimes import RunTimes
from pykueue.controllers.cluster import UNREAD
from pykueue.controllers.queries.pendingworkloads import PendingWorkloads
from pykueue.kube.aggregated import AggregatedGroup
from pykueue.kube.lease import Always
from pykueue.kube.notices import Notice
from pykueue.kube.port import NAMESPACES, ExistsError, Resource
from pykueue.kubecontrollers.autoscaler import Autoscaler
from pykueue.kubecontrollers.eventretention import EventRetention
from pykueue.kubecontrollers.finishedrecorder import FinishedRecorder
from pykueue.kubecontrollers.finishedretention import JOBS_KEPT, PODS_KEPT, Retention
from pykueue.kubecontrollers.garbage import GarbageCollector
from pykueue.kubecontrollers.jobcontroller import JobController
from pykueue.kubecontrollers.lostpods import LostPods
from pykueue.kubecontrollers.namespaces import Namespaces
from pykueue.kubecontrollers.scheduler import Scheduler
from pykueue.kubecontrollers.ttl import Ttl

LOG: Final = logging.getLogger(__name__)

PARTS: Final = frozenset(CONTROLLERS) - {"pods", "webhooks"}
"""No webhooks, as admission runs in process, and no `pods`, as the API rejects pods without a Job."""
LEARNED_PAGE: Final = 200
LEARNED_PAGES: Final = 25
"""From how many records of finished Jobs to learn at the start: this many pages."""
FINISHED: Final = msgspec.json.Decoder(FinishedJob)
LAG_SECONDS: Final = 0.1
"""How long to batch changes of a Job's ready count, to save writes."""


class LocalPlan(Frozen):
    """The settings of an embedded system."""

    loaded: Loaded
    data: Path | None = None
    """The data directory; None keeps everything in memory."""
    parts: frozenset[str] = PARTS
    admission: bool = True
    """Whether objects are defaulted and validated as by our webhooks."""
    journal: Path | None = None
    identity: str = "pykueue"
    seed: int = 0
    jobs_kept: int | None = JOBS_KEPT
    pods_kept: int | None = PODS_KEPT
    lag_seconds: float = LAG_SECONDS
    autoscaler: bool = True
    """Whether to answer ProvisioningRequests of known classes from the capacity of the nodes."""


class Local:
    """The store, the API and all controllers; everything but the pod runner."""

    def __init__(self, plan: LocalPlan, clock: Clock) -> None:
        self.plan = plan
        self.clock = clock
        self.store = Store.open(None if plan.data is None else plan.data / DATABASE, clock)
        self.catalog = Catalog()
        self.admission_adapter = AdmissionAdapter(judging=plan.admission)
        # In-memory systems are for tests and must be deterministic.
        rng = random.Random(plan.seed) if plan.data is None else None
        self.registry = Registry(self.store, self.catalog, clock, self.admission_adapter, rng=rng)
        self.admission_adapter.offload = self.registry.offload
        self.kube = LocalKube(self.registry)
        self.finished = FinishedJobs(self.store)
        self.run_times = RunTimes()
        self.jobs = JobController(self.kube, clock, self.tell, batch=plan.lag_seconds)
        scheduler = Scheduler(self.kube, clock, self.kube.bind, self.tell)
        self.nodes = scheduler.nodes
        recorder = FinishedRecorder(self.kube, clock, self.finished, self.jobs.jobs, self.jobs.pods, self.workload)
        self.works: dict[str, Callable[[], Coroutine[None, None, None]]] = {
            "jobs": self.jobs.run,
            "ttl": Ttl(self.kube, clock, self.jobs.jobs).run,
            "retention": Retention(
                self.kube, clock, self.jobs.jobs, self.jobs.pods, most_jobs=plan.jobs_kept, most_pods=plan.pods_kept
            ).run,
            "finished jobs": recorder.run,
            "event retention": EventRetention(self.kube, clock).run,
            "garbage": GarbageCollector(self.kube, clock, self.resources).run,
            "namespaces": Namespaces(self.kube, clock, self.resources).run,
            "scheduler": scheduler.run,
            "lost pods": LostPods(self.kube, clock, scheduler.nodes, scheduler.pods).run,
        }
        """Background tasks, by name."""
        if plan.autoscaler:
            self.works["autoscaler"] = Autoscaler(self.kube, clock, scheduler.nodes, scheduler.pods).run
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.controllers = self.new_controllers(plan.loaded, plan.parts)
        self.board = JobBoard(self.jobs, lambda: self.controllers)
        self.own_api = OwnApi(self.board.list, self.finished, recorder.flush)
        self.aggregated = AggregatedApi(self.groups())

    def new_controllers(self, loaded: Loaded, parts: frozenset[str]) -> Controllers:
        """Build our controllers for a Configuration, and make admission use it."""
        plan = self.plan
        made = Controllers(
            LocalKube(self.registry),
            LocalKube(self.registry),
            Always(),
            self.clock,
            loaded,
            parts=parts,
            journal=plan.journal,
            identity=plan.identity,
            seed=plan.seed,
            run_times=self.run_times,
        )
        self.admission_adapter.admission = made.admission
        return made

    async def learn_run_times(self) -> None:
        """Learn how long jobs run from the records of those that have finished, the latest of them."""
        before = 0
        for _ in range(LEARNED_PAGES):
            rows = self.finished.page(before=before, limit=LEARNED_PAGE)
            for number, body in rows:
                before = number
                self.run_times.learn_job(FINISHED.decode(body))
            if len(rows) < LEARNED_PAGE:
                return
            await asyncio.sleep(0)

    def groups(self) -> Iterator[AggregatedGroup]:
        """The API groups that our controllers answer, as the Configuration has them."""
        if self.plan.loaded.gates.values["VisibilityOnDemand"]:
            yield PendingWorkloads(lambda: self.controllers.cluster, lambda: self.controllers.pump.engine).group
            yield queries(lambda: self.controllers, self.machine)

    def machine(self) -> Mapping[str, int]:
        """What the nodes have of each resource."""
        found: Counter[str] = Counter()
        for node in self.nodes.objects.values():
            found.update(node.amounts)
        return found

    def reason(self, key: str) -> Tree | None:
        """The condition that is about to be written to a pending Workload; None if there is nothing new."""
        found = self.controllers.pump.reasons.of(key)
        return None if found is None else pending_condition(found)

    def workload(self, key: str) -> Workload | None:
        """A Workload as our controllers know it, those that have finished in a reduced form."""
        return self.controllers.cluster.workloads.get(key)

    def resources(self) -> Iterable[Resource]:
        """Every stored kind, in its storage version."""
        return [one.resource for one in self.catalog.stored()]

    def missing(self) -> Iterable[str]:
        """The kinds that our controllers or the Job controller have not read yet, each with the reason."""
        unread = (f"{one.resource}: {UNREAD}" for one in (self.jobs.jobs, self.jobs.pods) if not one.synced.is_set())
        return dict.fromkeys((*self.controllers.cluster.missing(), *unread))

    def tell(self, notice: Notice) -> None:
        """Write an Event through the recorder of our controllers, which keeps Event names unique."""
        self.controllers.cluster.events.record(
            "Warning" if notice.warning else "Normal",
            notice.about,
            notice.reason,
            notice.note,
            notice.reporter,
            notice.action,
            by_note=True,
        )

    async def prepare(self) -> None:
        """Create the initial objects, and learn from earlier jobs."""
        await begin(self.registry)
        await self.learn_run_times()
        name = self.plan.loaded.configuration.namespace
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        with contextlib.suppress(ExistsError):
            await self.kube.create(NAMESPACES, body)

    def start(self) -> None:
        """Start all controllers."""
        for name, work in self.works.items():
            self.begin(name, work)
        self.controllers.start()

    def begin(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Start a background task."""
        self.tasks[name] = asyncio.get_running_loop().create_task(work(), name=name)

    async def attend(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set; raises the error of any task that fails."""
        waiting = asyncio.ensure_future(self.controllers.attend(stop))
        try:
            done, _ = await asyncio.wait({waiting, *self.tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            for name, task in self.tasks.items():
                assert not task.done(), f"background task {name} ended unexpectedly"
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})

    def failures(self) -> Iterable[BaseException]:
        """The errors of failed background tasks."""
        for task in (*self.tasks.values(), *self.controllers.tasks.values()):
            if task.done() and not task.cancelled():
                error = task.exception()
                if error is not None:
                    yield error

    async def shut_down(self) -> None:
        """Stop our controllers, then the background tasks they need."""
        await self.controllers.shut_down()
        await end(self.tasks, *self.tasks)

    async def restart(self, loaded: Loaded, parts: frozenset[str]) -> None:
        """Restart our controllers with another Configuration on the existing objects."""
        await self.controllers.shut_down()
        self.controllers = self.new_controllers(loaded, parts)
        self.controllers.start()

    async def close(self) -> None:
        """Close the store."""
        await self.kube.close()
        await self.store.close()
