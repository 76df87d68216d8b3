"""The embedded system: a Kubernetes API on a store, Kubernetes' own controllers, and ours.

Pods are run by others: as processes of this machine (`app.machine`), or by a script in a test (`testing.embedded`).
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Final

import msgspec

from pykueue.api.config.file import Loaded
from pykueue.api.core import Tree
from pykueue.apiserver.inprocess import LocalKube
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.storage.store import Store
from pykueue.apiserver.verbs.bootstrap import begin
from pykueue.apiserver.verbs.registry import Registry
from pykueue.app.admission import AdmissionAdapter
from pykueue.app.controllers import CONTROLLERS, Controllers, end
from pykueue.base.clock import Clock
from pykueue.base.datafolder import DATABASE
from pykueue.base.struct import Frozen
from pykueue.bridge.outbound import pending_condition
from pykueue.kube.lease import Always
from pykueue.kube.notices import Notice
from pykueue.kube.port import NAMESPACES, ExistsError, Resource
from pykueue.kubecontrollers.autoscaler import Autoscaler
from pykueue.kubecontrollers.eventretention import EventRetention
from pykueue.kubecontrollers.finishedretention import JOBS_KEPT, PODS_KEPT, Retention
from pykueue.kubecontrollers.garbage import Garbage
from pykueue.kubecontrollers.jobcontroller import JobController
from pykueue.kubecontrollers.lostpods import LostPods
from pykueue.kubecontrollers.namespaces import Namespaces
from pykueue.kubecontrollers.scheduler import Scheduler
from pykueue.kubecontrollers.ttl import Ttl

LOG: Final = logging.getLogger(__name__)

PARTS: Final = frozenset(CONTROLLERS) - {"pods", "webhooks"}
"""The API asks admission in this process instead of webhooks, and refuses pods that would run outside the quota."""
LAG_SECONDS: Final = 0.1
"""By so much the number of a Job's ready pods may lag behind, for fewer writes."""


class LocalPlan(Frozen):
    """What to run on one machine."""

    loaded: Loaded
    data: Path | None = None
    """The folder with everything that outlives this process; None: all is in memory, and gone at its end."""
    parts: frozenset[str] = PARTS
    admission: bool = True
    """Whether what is written is judged and completed as our webhooks would."""
    journal: Path | None = None
    identity: str = "pykueue"
    seed: int = 0
    jobs_kept: int | None = JOBS_KEPT
    pods_kept: int | None = PODS_KEPT
    lag_seconds: float = LAG_SECONDS
    autoscaler: bool = True
    """Whether ProvisioningRequests of the classes that we know are answered from the room on the nodes."""


class Local:
    """Store, API, and all that acts on it but for the runner of pods."""

    def __init__(self, plan: LocalPlan, clock: Clock) -> None:
        self.plan = plan
        self.clock = clock
        self.store = Store.open(None if plan.data is None else plan.data / DATABASE, clock)
        self.catalog = Catalog()
        self.admission_adapter = AdmissionAdapter(judging=plan.admission)
        # What is in memory is a test's, and does the same each time.
        rng = random.Random(plan.seed) if plan.data is None else None
        self.registry = Registry(self.store, self.catalog, clock, self.admission_adapter, rng=rng)
        self.admission_adapter.offload = self.registry.offload
        self.kube = LocalKube(self.registry)
        self.jobs = JobController(self.kube, clock, self.tell, batch=plan.lag_seconds)
        scheduler = Scheduler(self.kube, clock, self.kube.bind, self.tell)
        self.works: dict[str, Callable[[], Coroutine[None, None, None]]] = {
            "jobs": self.jobs.run,
            "ttl": Ttl(self.kube, clock, self.jobs.jobs).run,
            "retention": Retention(
                self.kube, clock, self.jobs.jobs, self.jobs.pods, most_jobs=plan.jobs_kept, most_pods=plan.pods_kept
            ).run,
            "event retention": EventRetention(self.kube, clock).run,
            "garbage": Garbage(self.kube, clock, self.resources).run,
            "namespaces": Namespaces(self.kube, clock, self.resources).run,
            "scheduler": scheduler.run,
            "lost pods": LostPods(self.kube, clock, scheduler.nodes, scheduler.pods).run,
        }
        """What goes on from start to end, by name."""
        if plan.autoscaler:
            self.works["autoscaler"] = Autoscaler(self.kube, clock, scheduler.nodes, scheduler.pods).run
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.controllers = self.new_controllers(plan.loaded, plan.parts)

    def new_controllers(self, loaded: Loaded, parts: frozenset[str]) -> Controllers:
        """Our controllers with a Configuration; from now on admission goes by it too."""
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
        )
        self.admission_adapter.admission = made.admission
        return made

    def reason(self, key: str) -> Tree | None:
        """The condition that is to come on a Workload that waits; None where the engine knows no more than it says."""
        found = self.controllers.pump.reasons.of(key)
        return None if found is None else pending_condition(found)

    def resources(self) -> Iterable[Resource]:
        """Every kind of which there are objects, in the version in which they are stored."""
        return [one.resource for one in self.catalog.stored()]

    def tell(self, notice: Notice) -> None:
        """Have an Event written, by whoever writes those of our controllers: names of Events tell instants apart."""
        self.controllers.cluster.events.say(
            "Warning" if notice.warning else "Normal",
            notice.about,
            notice.reason,
            notice.note,
            notice.reporter,
            notice.action,
        )

    async def prepare(self) -> None:
        """Make the objects that are there from the first moment on."""
        await begin(self.registry)
        name = self.plan.loaded.configuration.namespace
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        with contextlib.suppress(ExistsError):
            await self.kube.create(NAMESPACES, body)

    def start(self) -> None:
        """Begin to act."""
        for name, work in self.works.items():
            self.begin(name, work)
        self.controllers.start()

    def begin(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do something until the end."""
        self.tasks[name] = asyncio.get_running_loop().create_task(work(), name=name)

    async def attend(self, stop: asyncio.Event) -> None:
        """Return when told to stop; raises what any of us fails with."""
        waiting = asyncio.ensure_future(self.controllers.attend(stop))
        try:
            done, _ = await asyncio.wait({waiting, *self.tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            for name, task in self.tasks.items():
                assert not task.done(), f"{name} ended by itself, and nobody told it to"
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})

    def failures(self) -> Iterable[BaseException]:
        """What ended anything that should go on."""
        for task in (*self.tasks.values(), *self.controllers.tasks.values()):
            if task.done() and not task.cancelled():
                error = task.exception()
                if error is not None:
                    yield error

    async def land(self) -> None:
        """Stop acting, in the order in which one needs the other."""
        await self.controllers.land()
        await end(self.tasks, *self.tasks)

    async def restart(self, loaded: Loaded, parts: frozenset[str]) -> None:
        """Stop our controllers, and start them with another Configuration on the objects that are there."""
        await self.controllers.land()
        self.controllers = self.new_controllers(loaded, parts)
        self.controllers.start()

    async def close(self) -> None:
        """Let go of the store."""
        await self.kube.close()
        await self.store.close()
