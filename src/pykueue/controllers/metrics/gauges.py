"""The values of all gauges, computed at each scrape.

So nothing has to be kept up to date, and a deleted queue or cohort has no series.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Mapping
from math import inf, isinf, nan
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, counts_in_milli
from pykueue.controllers.metrics import families
from pykueue.controllers.metrics.customlabels import CustomLabels
from pykueue.controllers.metrics.families import Family
from pykueue.controllers.metrics.series import Gauges, Labels, Sample
from pykueue.controllers.metrics.waittimes import Slot
from pykueue.engine.engine import Engine
from pykueue.engine.model import ClusterQueue, StopPolicy
from pykueue.engine.record import tally
from pykueue.engine.record.queuecounts import Line, LocalCounts, QueueCounts, queue_counts, waiting_for_queue

STEP_SAMPLES: Final = 1_000
"""Samples that one step reads, in a few milliseconds."""


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
        self.unadmitted: dict[Slot, int] = {}
        """Workloads that are not admitted, by LocalQueue, reason and underlying cause."""


class Reading:
    """One reading of all gauges, in steps; queues and cohorts that are deleted meanwhile are left out."""

    def __init__(
        self,
        engine: Engine,
        now: Instant,
        kept: WorkloadCounts,
        shown: EnabledGauges,
        custom: CustomLabels,
        has_metrics: Callable[[str], bool] | None,
    ) -> None:
        self.engine = engine
        self.now = now
        self.kept = kept
        self.shown = shown
        self.custom = custom
        self.group_of = custom.of_workload if custom.names("Workload") else None
        self.unlabelled = custom.of_workload("")
        """The custom labels of a Workload without labels."""
        self.has_metrics = has_metrics
        """Which LocalQueues have metrics; None if none has."""
        self.found: dict[str, list[Sample]] = defaultdict(list)
        self.admitted: dict[str, int] = {}
        self.samples = 0
        """Samples of this step."""

    def add(self, family: Family, value: float, *labels: str) -> None:
        """Add a sample of this family."""
        self.found[family.name].append((labels, value))
        self.samples += 1

    def is_long(self) -> bool:
        """Whether this step has read enough; if so, the next one begins."""
        if self.samples < STEP_SAMPLES:
            return False
        self.samples = 0
        return True

    def all(self) -> Generator[None, None, Gauges]:
        """The values of all gauges."""
        for name in [queue.name for queue in self.engine.queues()]:
            counted = yield from queue_counts(self.engine, name, self.group_of)
            queue = self.engine.queue(name)
            if counted is not None and queue is not None:
                self.queue(queue, counted)
                self.local_queues(queue, counted)
            if self.is_long():
                yield
        for name in list(self.engine.cohorts()):
            if name in self.engine.cohorts():
                self.cohort(name)
            if self.is_long():
                yield
        if self.shown.unadmitted:
            yield from self.unadmitted()
        for name in list(self.engine.local_queues_by_queue()):
            if self.engine.queue(name) is None:
                yield from self.local_queues_without_queue(name)
        return self.found

    def queue(self, queue: ClusterQueue, counted: QueueCounts) -> None:
        """Read the gauges of a ClusterQueue."""
        engine, name, line = self.engine, queue.name, counted.line
        own = self.custom.of_queue(name)
        if self.group_of is None:
            self.add(families.PENDING, line.active, name, "active", *own)
            self.add(families.PENDING, line.parked, name, "inadmissible", *own)
            self.add(families.ADMITTED_NOW, counted.admitted.workloads, name, *own)
        else:
            self.groups(name, counted, own)
        if self.shown.shapes:
            self.add(families.PENDING_SHAPES, line.active_shapes, name, "active", *own)
            self.add(families.PENDING_SHAPES, line.parked_shapes, name, "inadmissible", *own)
        finished = sum(self.kept.finished.get(local, 0) for local in engine.local_queues_of(name))
        self.add(families.FINISHED_NOW, finished, name, *own)
        self.add(families.RESERVING_NOW, counted.reserved.workloads, name, *own)
        self.admitted[name] = counted.admitted.workloads
        state = "terminating" if queue.terminating else "pending"
        state = state if tally.inactive_because(engine, name) else "active"
        for one in ("pending", "active", "terminating"):
            self.add(families.QUEUE_STATUS, one == state, name, one, *own)
        if self.shown.tree:
            place = tally.position(engine, name)
            self.add(families.QUEUE_INFO, 1, name, place.parent, place.root, *own)
        self.add(families.LINE_LENGTH, line.active + line.parked, name, queue.strategy.value, *own)
        first = counted.first
        waited = 0.0 if first is None else max(0, self.now - first.stamp) / MICROS
        self.add(families.FIRST_WAIT, waited, name, queue.strategy.value, *own)
        if self.shown.resources:
            self.resources(queue, counted, own)

    def groups(self, name: str, counted: QueueCounts, own: Labels) -> None:
        """Pending and admitted workloads of a ClusterQueue by their custom labels; without any, a zero."""
        pending: dict[tuple[bool, Labels], int] = {(False, self.unlabelled): 0, (True, self.unlabelled): 0}
        pending.update(counted.pending_groups)
        for (parked, group), number in pending.items():
            self.add(families.PENDING, number, name, "inadmissible" if parked else "active", *group, *own)
        admitted = {self.unlabelled: 0}
        for (_, group), number in counted.admitted_groups.items():
            admitted[group] = admitted.get(group, 0) + number
        for group, number in admitted.items():
            self.add(families.ADMITTED_NOW, number, name, *group, *own)

    def resources(self, queue: ClusterQueue, counted: QueueCounts, own: Labels) -> None:
        """Quota and usage of a ClusterQueue."""
        name = queue.name
        for quota in queue.quotas:
            pair = (quota.flavor, quota.resource)
            labels = (queue.cohort, name, *pair, *own)

            def base(amount: int | None, resource: str = quota.resource) -> float:
                return inf if amount is None else in_base_units(resource, amount)

            self.add(families.RESOURCE_RESERVATION, base(counted.reserved.amounts.get(pair, 0)), *labels)
            self.add(families.RESOURCE_USAGE, base(counted.admitted.amounts.get(pair, 0)), *labels)
            self.add(families.NOMINAL_QUOTA, base(quota.nominal), *labels)
            self.add(families.BORROWING_LIMIT, base(quota.borrowing_limit), *labels)
            self.add(families.LENDING_LIMIT, base(quota.lending_limit), *labels)
        asked = dict.fromkeys(sorted({quota.resource for quota in queue.quotas}), 0)
        asked.update(counted.requested)
        for resource, amount in asked.items():
            self.add(families.RESOURCE_PENDING, in_base_units(resource, amount), name, resource, *own)
        share = self.engine.share_of_queue(name)
        if share is not None:
            self.add(families.QUEUE_SHARE, nan if isinf(share.value) else share.value, name, queue.cohort, *own)

    def cohort(self, name: str) -> None:
        """Read the gauges of a cohort."""
        counted = tally.of_cohort(self.engine, name)
        own = self.custom.of_cohort(name)
        for pair, owned in counted.quota.items():
            if owned > 0:
                self.add(families.SUBTREE_QUOTA, in_base_units(pair[1], owned), name, *pair, *own)
        for pair, used in counted.reserved.items():
            if used > 0:
                self.add(families.SUBTREE_RESERVATIONS, in_base_units(pair[1], used), name, *pair, *own)
        admitted = sum(self.admitted.get(queue, 0) for queue in counted.queues)
        self.add(families.SUBTREE_ADMITTED_NOW, admitted, name, *own)
        share = self.engine.share_of_cohort(name) if counted.has_object else None
        if share is not None:
            # Kueue reports an infinite share of a Cohort as +Inf, although its help says NaN.
            self.add(families.COHORT_SHARE, share.value, name, *own)
        if self.shown.tree and not counted.implicit:
            self.add(families.COHORT_INFO, 1, name, counted.position.parent, counted.position.root, *own)
        self.samples += len(counted.queues)

    def local_queues(self, queue: ClusterQueue, counted: QueueCounts) -> None:
        """The gauges of all LocalQueues of a ClusterQueue."""
        if self.has_metrics is None:
            return
        active = not tally.inactive_because(self.engine, queue.name)
        covered = tally.pairs_of(queue)
        admitted: dict[str, dict[Labels, int]] = {}
        for (key, group), number in counted.admitted_groups.items():
            admitted.setdefault(key, {})[group] = number
        for key, local in counted.local_queues.items():
            if self.has_metrics(key):
                self.local_queue(key, local, active, covered, admitted.get(key, {}))

    def local_queues_without_queue(self, name: str) -> Generator[None, None, None]:
        """The gauges of all LocalQueues of a ClusterQueue that does not exist."""
        for key in sorted(self.engine.local_queues_of(name)):
            if self.has_metrics is not None and self.has_metrics(key):
                waiting = yield from waiting_for_queue(self.engine, key)
                self.local_queue(key, LocalCounts(Line(0, waiting)), False, {}, {})
            if self.is_long():
                yield

    def local_queue(
        self,
        key: str,
        counted: LocalCounts,
        active: bool,
        covered: Mapping[str, Collection[str]],
        admitted: Mapping[Labels, int],
    ) -> None:
        """The gauges of a LocalQueue: whether its ClusterQueue can admit, and its flavors with their resources."""
        namespace, _, name = key.partition("/")
        owner, own = (name, namespace), self.custom.of_local_queue(key)
        self.add(families.LOCAL_PENDING, counted.line.active, *owner, "active", *own)
        self.add(families.LOCAL_PENDING, counted.line.parked, *owner, "inadmissible", *own)
        self.add(families.LOCAL_FINISHED_NOW, self.kept.finished.get(key, 0), *owner, *own)
        self.add(families.LOCAL_RESERVING_NOW, counted.reserved.workloads, *owner, *own)
        if self.group_of is None:
            self.add(families.LOCAL_ADMITTED_NOW, counted.admitted.workloads, *owner, *own)
        else:
            for group, number in {self.unlabelled: 0, **admitted}.items():
                self.add(families.LOCAL_ADMITTED_NOW, number, *owner, *group, *own)
        found = self.engine.local_queue(key)
        open_now = str(active and found is not None and found.stop is StopPolicy.NONE)
        for one in ("True", "False", "Unknown"):
            self.add(families.LOCAL_STATUS, one == open_now, *owner, one, *own)
        past_use = self.engine.past_use_value(key, self.now)
        if past_use is not None and found is not None:
            self.add(families.LOCAL_PAST_USE, past_use, *owner, found.queue, *own)
        for flavor, resources in covered.items():
            for resource in resources:
                pair = (flavor, resource)
                reserved = in_base_units(resource, counted.reserved.amounts.get(pair, 0))
                used = in_base_units(resource, counted.admitted.amounts.get(pair, 0))
                self.add(families.LOCAL_RESERVATION, reserved, *owner, *pair, *own)
                self.add(families.LOCAL_USAGE, used, *owner, *pair, *own)

    def unadmitted(self) -> Generator[None, None, None]:
        """Why workloads are not admitted, for each queue that has such."""
        by_queue: dict[tuple[str, str, str], int] = {}
        for (key, reason, cause), number in list(self.kept.unadmitted.items()):
            if self.is_long():
                yield
            local = self.engine.local_queue(key)
            if local is None or self.engine.queue(local.queue) is None:
                continue
            labels = (local.queue, reason, cause)
            by_queue[labels] = by_queue.get(labels, 0) + number
            self.samples += 1
            if self.has_metrics is not None and self.has_metrics(key):
                namespace, _, name = key.partition("/")
                own = self.custom.of_local_queue(key)
                self.add(families.LOCAL_UNADMITTED, number, name, namespace, *labels, *own)
        for labels, number in by_queue.items():
            self.add(families.UNADMITTED, number, *labels, *self.custom.of_queue(labels[0]))


def in_base_units(resource: str, amount: int) -> float:
    """An amount of the engine in cores, bytes, or units."""
    return amount / 1000 if counts_in_milli(resource) else float(amount)
