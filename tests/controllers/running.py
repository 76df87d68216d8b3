"""A whole manager on the API server in memory, without jobs and webhooks: what the tests of its controllers run on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pykueue.api.config.file import Loaded, default_configuration
from pykueue.base.clock import ManualClock
from pykueue.controllers.cluster import Cluster, settings
from pykueue.controllers.metrics.metrics import Metrics
from pykueue.controllers.scheduling import Pump
from pykueue.controllers.status import Statuses
from pykueue.controllers.workloads import Workloads
from pykueue.kube.port import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from tests.builders import cluster_queue, local_queue, workload
from tests.fakes.faulty import Faulty, Object, settle

TEAM = "team"
FINALIZERS = ["kueue.x-k8s.io/resource-in-use"]


class Running:
    """The manager, and the API server that it runs on."""

    def __init__(self, loaded: Loaded | None = None) -> None:
        self.clock = ManualClock()
        self.store = Faulty(self.clock)
        self.loaded = loaded or default_configuration()
        self.cluster = Cluster(
            self.store, self.store, self.clock, settings(self.loaded), instance="host", with_jobs=True
        )
        self.metrics = Metrics(self.loaded)
        self.pump = Pump(self.cluster, self.metrics)
        self.metrics.watch(self.cluster, self.pump.engine)
        self.statuses = Statuses(self.cluster, self.pump)
        self.workloads = Workloads(self.cluster, self.pump)
        self.tasks: list[asyncio.Future[None]] = []

    def lead(self) -> None:
        """From now on this manager leads."""
        self.taking_over = asyncio.ensure_future(self.pump.take_over())
        for duty in (self.statuses.run(), self.workloads.run()):
            self.tasks.append(asyncio.ensure_future(duty))

    def queues(self, *names: str, cpu: str = "4", cohort: str = "", **spec: Any) -> None:
        """A flavor, and for each name a ClusterQueue and a LocalQueue of the same name that leads to it."""
        self.store.namespaces(TEAM)
        self.store.put(RESOURCE_FLAVORS, "default", metadata={"finalizers": FINALIZERS}, spec={})
        for name in names:
            shared = {"cohortName": cohort} if cohort else {}
            self.store.store(CLUSTER_QUEUES, cluster_queue(name, cpu, {"finalizers": FINALIZERS}, **shared, **spec))
            self.store.store(LOCAL_QUEUES, local_queue(name, TEAM, name))

    def workload(self, name: str, queue: str, cpu: str = "1", **fields: Any) -> Object:
        """A Workload of one pod."""
        made = workload(name, queue, cpu, **{"active": True, **fields.pop("spec", {})})
        return self.store.put(WORKLOADS, name, TEAM, spec=made["spec"], **fields)

    def status(self, queue: str) -> Object:
        """The status of a ClusterQueue."""
        found: Object = self.store.at(CLUSTER_QUEUES, queue).get("status", {})
        return found

    def local_status(self, queue: str) -> Object:
        """The status of a LocalQueue."""
        found: Object = self.store.at(LOCAL_QUEUES, queue, TEAM).get("status", {})
        return found

    def condition(self, name: str, kind: str) -> Object | None:
        """A condition of a Workload."""
        conditions = self.store.at(WORKLOADS, name, TEAM).get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), None)

    def change_condition(self, name: str, kind: str, status: str, reason: str, message: str = "") -> None:
        """Set a condition of a Workload, as someone else would."""
        found = self.store.at(WORKLOADS, name, TEAM).get("status", {}).get("conditions", [])
        ours = {"type": kind, "status": status, "reason": reason, "message": message}
        ours["lastTransitionTime"] = self.store.now()
        others = [one for one in found if one["type"] != kind]
        self.store.put(WORKLOADS, name, TEAM, status={"conditions": [*others, ours]})


@asynccontextmanager
async def running(manager: Running, *, leads: bool = True) -> AsyncIterator[Running]:
    """Run a manager until the end of the block."""
    for part in (manager.cluster.follow(), manager.pump.run(), manager.cluster.events.run()):
        manager.tasks.append(asyncio.ensure_future(part))
    try:
        await settle()
        if leads:
            manager.lead()
        await manager.clock.advance(0.5)
        yield manager
        for task in manager.tasks:
            assert not task.done(), task
    finally:
        for task in manager.tasks:
            task.cancel()
        await asyncio.gather(*manager.tasks, return_exceptions=True)
