"""The values of all gauges, computed at each scrape.

So nothing has to be kept up to date, and a deleted queue or cohort has no series.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from math import inf

from pykueue.base.struct import Frozen
from pykueue.base.units import counts_in_milli
from pykueue.controllers.metrics import families
from pykueue.controllers.metrics.families import Family
from pykueue.controllers.metrics.series import Gauges, Sample
from pykueue.engine.engine import Engine
from pykueue.engine.model import ClusterQueue, StopPolicy
from pykueue.engine.record import tally


class EnabledGauges(Frozen):
    """Which gauges are enabled."""

    resources: bool = False
    """Quota and usage of each ClusterQueue."""
    shapes: bool = True
    """How many shapes of pending workloads there are."""
    unadmitted: bool = True
    """Why workloads are not admitted."""
    tree: bool = True
    """The structure of the cohort tree."""


class WorkloadCounts:
    """Counts that follow changes of Workloads, because the engine does not keep them."""

    def __init__(self) -> None:
        self.finished: dict[str, int] = {}
        """Finished Workloads that still exist, by LocalQueue."""
        self.unadmitted: dict[tuple[str, str, str], int] = {}
        """Workloads that are not admitted, by LocalQueue, reason and underlying cause."""


class Reading:
    """One reading of all gauges."""

    def __init__(
        self, engine: Engine, kept: WorkloadCounts, shown: EnabledGauges, has_metrics: Callable[[str], bool] | None
    ) -> None:
        self.engine = engine
        self.kept = kept
        self.shown = shown
        self.has_metrics = has_metrics
        """Which LocalQueues have metrics; None if none has."""
        self.found: dict[str, list[Sample]] = defaultdict(list)
        self.admitted: dict[str, int] = {}

    def add(self, family: Family, value: float, *labels: str) -> None:
        """Add a sample of this family."""
        self.found[family.name].append((labels, value))

    def all(self) -> Gauges:
        """The values of all gauges."""
        for queue in self.engine.queues():
            counted = tally.of_queue(self.engine, queue.name)
            if counted is not None:
                self.queue(queue, counted)
        for name in self.engine.cohorts():
            self.cohort(name)
        if self.shown.unadmitted:
            self.unadmitted()
        if self.has_metrics is not None:
            for name in self.engine.local_queues_by_queue():
                self.local_queues(name)
        return self.found

    def queue(self, queue: ClusterQueue, counted: tally.Tally) -> None:
        """Read the gauges of a ClusterQueue."""
        engine, name = self.engine, queue.name
        line = tally.line(engine, name)
        self.add(families.PENDING, line.active, name, "active")
        self.add(families.PENDING, line.parked, name, "inadmissible")
        if self.shown.shapes:
            self.add(families.PENDING_SHAPES, line.active_shapes, name, "active")
            self.add(families.PENDING_SHAPES, line.parked_shapes, name, "inadmissible")
        finished = sum(self.kept.finished.get(local, 0) for local in engine.local_queues_of(name))
        self.add(families.FINISHED_NOW, finished, name)
        self.add(families.RESERVING_NOW, counted.reserved.workloads, name)
        self.add(families.ADMITTED_NOW, counted.admitted.workloads, name)
        self.admitted[name] = counted.admitted.workloads
        state = "terminating" if queue.terminating else "pending"
        state = state if tally.inactive_because(engine, name) else "active"
        for one in ("pending", "active", "terminating"):
            self.add(families.QUEUE_STATUS, one == state, name, one)
        if self.shown.tree:
            place = tally.position(engine, name)
            self.add(families.QUEUE_INFO, 1, name, place.parent, place.root)
        if self.shown.resources:
            self.resources(queue, counted)

    def resources(self, queue: ClusterQueue, counted: tally.Tally) -> None:
        """Quota and usage of a ClusterQueue."""
        name = queue.name
        for quota in queue.quotas:
            pair = (quota.flavor, quota.resource)
            labels = (queue.cohort, name, *pair)

            def base(amount: int | None, resource: str = quota.resource) -> float:
                return inf if amount is None else in_base_units(resource, amount)

            self.add(families.RESOURCE_RESERVATION, base(counted.reserved.amounts.get(pair, 0)), *labels)
            self.add(families.RESOURCE_USAGE, base(counted.admitted.amounts.get(pair, 0)), *labels)
            self.add(families.NOMINAL_QUOTA, base(quota.nominal), *labels)
            self.add(families.BORROWING_LIMIT, base(quota.borrowing_limit), *labels)
            self.add(families.LENDING_LIMIT, base(quota.lending_limit), *labels)
        asked = dict.fromkeys(sorted({quota.resource for quota in queue.quotas}), 0)
        asked.update(tally.requested(self.engine, name))
        for resource, amount in asked.items():
            self.add(families.RESOURCE_PENDING, in_base_units(resource, amount), name, resource)

    def cohort(self, name: str) -> None:
        """Read the gauges of a cohort."""
        counted = tally.of_cohort(self.engine, name)
        for pair, owned in counted.quota.items():
            if owned > 0:
                self.add(families.SUBTREE_QUOTA, in_base_units(pair[1], owned), name, *pair)
        for pair, used in counted.reserved.items():
            if used > 0:
                self.add(families.SUBTREE_RESERVATIONS, in_base_units(pair[1], used), name, *pair)
        admitted = sum(self.admitted.get(queue, 0) for queue in counted.queues)
        self.add(families.SUBTREE_ADMITTED_NOW, admitted, name)
        if self.shown.tree and not counted.implicit:
            self.add(families.COHORT_INFO, 1, name, counted.position.parent, counted.position.root)

    def local_queues(self, name: str) -> None:
        """The gauges of all LocalQueues of a ClusterQueue, which need not exist."""
        engine, wanted = self.engine, self.has_metrics
        queue = engine.queue(name)
        lines = {} if queue is None else tally.lines_of_local_queues(engine, name)
        active = queue is not None and not tally.inactive_because(engine, name)
        covered: Mapping[str, Collection[str]] = {} if queue is None else tally.pairs_of(queue)
        for key, counted in tally.of_local_queues(engine, name).items():
            if wanted is None or not wanted(key):
                continue
            namespace, _, local = key.partition("/")
            owner = (local, namespace)
            line = lines.get(key, tally.Line(0, counted.pending))
            self.add(families.LOCAL_PENDING, line.active, *owner, "active")
            self.add(families.LOCAL_PENDING, line.parked, *owner, "inadmissible")
            self.add(families.LOCAL_FINISHED_NOW, self.kept.finished.get(key, 0), *owner)
            self.add(families.LOCAL_RESERVING_NOW, counted.reserved.workloads, *owner)
            self.add(families.LOCAL_ADMITTED_NOW, counted.admitted.workloads, *owner)
            found = engine.local_queue(key)
            open_now = str(active and found is not None and found.stop is StopPolicy.NONE)
            for one in ("True", "False", "Unknown"):
                self.add(families.LOCAL_STATUS, one == open_now, *owner, one)
            for flavor, resources in covered.items():
                for resource in resources:
                    pair = (flavor, resource)
                    reserved = in_base_units(resource, counted.reserved.amounts.get(pair, 0))
                    used = in_base_units(resource, counted.admitted.amounts.get(pair, 0))
                    self.add(families.LOCAL_RESERVATION, reserved, *owner, *pair)
                    self.add(families.LOCAL_USAGE, used, *owner, *pair)

    def unadmitted(self) -> None:
        """Why workloads are not admitted, for each queue that has such."""
        by_queue: dict[tuple[str, str, str], int] = {}
        for (key, reason, cause), number in self.kept.unadmitted.items():
            local = self.engine.local_queue(key)
            if local is None or self.engine.queue(local.queue) is None:
                continue
            labels = (local.queue, reason, cause)
            by_queue[labels] = by_queue.get(labels, 0) + number
            if self.has_metrics is not None and self.has_metrics(key):
                namespace, _, name = key.partition("/")
                self.add(families.LOCAL_UNADMITTED, number, name, namespace, *labels)
        for labels, number in by_queue.items():
            self.add(families.UNADMITTED, number, *labels)


def in_base_units(resource: str, amount: int) -> float:
    """An amount of the engine in cores, bytes, or units."""
    return amount / 1000 if counts_in_milli(resource) else float(amount)
