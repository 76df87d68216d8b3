"""What do dashboards see? Kueue's metrics, counted from how Workloads change while this replica leads.

`families` lists them, `series` keeps the counts, `gauges` reads what is only true at the moment. A replica that does
not lead counts nothing, and has no gauges of queues: its engine puts nobody in their place.
"""

import asyncio
import platform
import sys
from collections.abc import Collection, Hashable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Protocol, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pykueue.api.configfile import Loaded
from pykueue.api.core import Condition, matches
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue
from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload
from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.bridge.outbound import queued_since
from pykueue.controllers import families
from pykueue.controllers.families import Family
from pykueue.controllers.gauges import Kept, Reading, Shown, cohorts_above
from pykueue.controllers.series import Gauges, Labels, Owner, Owners, Sample, shown
from pykueue.controllers.workings import Workings
from pykueue.engine.cycle import Entry
from pykueue.engine.engine import Engine
from pykueue.engine.tally import of_cycle
from pykueue.jobs.batch import JobView
from pykueue.kube.informer import Change, Informer

Key = TypeVar("Key", bound=Hashable)
Read: TypeAlias = tuple[Family, Sequence[Sample], str]
"""A family, its series, and the role of the replica that they are of."""

FOLLOWER: Final = "follower"
LEADER: Final = "leader"
STANDALONE: Final = "standalone"
LOCAL: Final = frozenset(family.name for family in families.ALL if family.labels[:2] == families.LOCAL)
COHORTS: Final = frozenset({families.SUBTREE_ADMITTED.name})
PLAIN: Final = frozenset({families.ATTEMPTS.name, families.ATTEMPT_SECONDS.name, families.CREATION_SECONDS.name})


class Watched(Protocol):
    """What the metrics are about."""

    clock: Clock
    workloads: Informer[Workload]
    cluster_queues: Informer[ClusterQueue]
    local_queues: Informer[LocalQueue]
    cohorts: Informer[Cohort]
    jobs: Informer[JobView]


class Conditions:
    """The conditions of a Workload, by type."""

    __slots__ = ("by_type",)

    def __init__(self, seen: Workload) -> None:
        self.by_type = {condition.type: condition for condition in seen.status.conditions}

    def held(self, kind: str) -> Condition | None:
        """A condition that is true."""
        found = self.by_type.get(kind)
        return found if found is not None and found.status == "True" else None


class Metrics(Collector):
    """Counts, and shows what it has counted."""

    def __init__(self, loaded: Loaded) -> None:
        configuration, gates = loaded.configuration, loaded.gates.values
        chosen = configuration.metrics
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.process = ProcessCollector(registry=CollectorRegistry())
        self.elects = configuration.leader_election.leader_elect
        self.shown = Shown(
            chosen.enable_cluster_queue_resources,
            gates["SchedulingEquivalenceHashing"],
            gates["UnadmittedWorkloadsObservability"],
            gates["MetricsForCohorts"],
        )
        self.local = chosen.local_queue_metrics.enable and gates["LocalQueueMetrics"]
        self.selector = chosen.local_queue_metrics.local_queue_selector
        self.creation = gates["MetricForWorkloadCreationLatency"]
        self.readiness = configuration.wait_for_pods_ready is not None
        self.plain = Owner()
        self.queues, self.doors, self.cohorts = Owners(), Owners(), Owners()
        self.kept = Kept()
        self.engine: Engine | None = None
        self.cluster: Watched | None = None
        self.workings = Workings()

    def watch(self, cluster: Watched, engine: Engine) -> None:
        """Count what happens in a cluster, as far as this engine leads."""
        self.cluster, self.engine = cluster, engine
        cluster.workloads.listen(self.workload_changed)
        cluster.cluster_queues.listen(self.queue_changed)
        cluster.local_queues.listen(self.local_queue_changed)
        cluster.cohorts.listen(self.cohort_changed)

    # What others tell.

    def cycle(self, success: bool, seconds: float, heads: Collection[Entry] | None = None) -> None:
        """A scheduling cycle has ended; where its heads are told, one without any is none."""
        if heads is not None:
            if not heads:
                return
            self.considered(heads)
        labels = ("success" if success else "inadmissible",)
        self.plain.count(families.ATTEMPTS, labels)
        self.plain.observe(families.ATTEMPT_SECONDS, labels, seconds)

    def considered(self, heads: Collection[Entry]) -> None:
        """Count what happened to the preemptions of a cycle's heads."""
        counted = of_cycle(heads)
        for queue, skipped in counted.skipped.items():
            if skipped or families.PREEMPTION_SKIPS.name in self.queues.of((queue,)).counters:
                self.queues.of((queue,)).put(families.PREEMPTION_SKIPS, (), skipped)
        for (queue, result), times in counted.replanned.items():
            for _ in range(times):
                self.queues.of((queue,)).count(families.RECOMPUTATIONS, (result,))

    def preempted(self, preempting_queue: str, reason: str) -> None:
        """A workload had to leave for one of this ClusterQueue."""
        if self.knows_queue(preempting_queue):
            self.queues.of((preempting_queue,)).count(families.PREEMPTED, (reason,))

    # What changes.

    @property
    def role(self) -> str:
        """What this replica is at the moment."""
        if not self.elects:
            return STANDALONE
        return LEADER if self.engine is not None and self.engine.leading else FOLLOWER

    def counts_now(self) -> bool:
        """Whether what happens is for this replica to count."""
        return self.engine is not None and self.engine.synced and self.engine.leading

    def knows_queue(self, name: str) -> bool:
        """Whether there is such a ClusterQueue; of one that is gone nothing is counted."""
        return self.cluster is not None and self.cluster.cluster_queues.get(name) is not None

    def has_metrics(self, key: str) -> bool:
        """Whether a LocalQueue has metrics of its own."""
        local = None if self.cluster is None or not self.local else self.cluster.local_queues.get(key)
        return local is not None and (self.selector is None or matches(self.selector, local.metadata.labels))

    def queue_changed(self, change: Change[ClusterQueue]) -> None:
        """The series of a ClusterQueue go with it."""
        if change.new is None:
            self.queues.forget((change.key,))

    def local_queue_changed(self, change: Change[LocalQueue]) -> None:
        """The series of a LocalQueue go with it, or with the labels that gave it any."""
        if change.new is None or not self.has_metrics(change.key):
            self.doors.forget(door(change.key))

    def cohort_changed(self, change: Change[Cohort]) -> None:
        """The series of a Cohort go with it."""
        if change.new is None:
            self.cohorts.forget((change.key,))

    def workload_changed(self, change: Change[Workload]) -> None:
        """Count what the change of a Workload means."""
        old, new = change.old, change.new
        if old is not None and new is not None and is_no_news(old, new):
            return
        before = None if old is None else Conditions(old)
        after = None if new is None else Conditions(new)
        if old is not None and before is not None:
            self.keep(old, before, -1)
        if new is not None and after is not None:
            self.keep(new, after, 1)
            if not self.counts_now():
                return
            if old is None or before is None or old.metadata.uid != new.metadata.uid:
                if self.creation:
                    self.created(new)
            else:
                Transition(self, old, new, before, after).count()

    def keep(self, seen: Workload, conditions: Conditions, number: int) -> None:
        """Count a Workload in, or out, of what is only true at the moment."""
        key = f"{seen.metadata.namespace}/{seen.spec.queue_name}"
        if conditions.held(WorkloadCondition.FINISHED) is not None:
            adjust(self.kept.finished, key, number)
        elif self.shown.unadmitted and seen.metadata.deletion_timestamp is None:
            admitted = conditions.by_type.get(WorkloadCondition.ADMITTED)
            if admitted is not None and admitted.status == "True":
                return
            reserved = conditions.by_type.get(WorkloadCondition.QUOTA_RESERVED)
            cause = "PendingEvaluation" if reserved is None else "" if reserved.status == "True" else reserved.reason
            adjust(self.kept.unadmitted, (key, "NoReservation" if admitted is None else admitted.reason, cause), number)

    def created(self, seen: Workload) -> None:
        """A Workload is new: how long after its job?"""
        assert self.cluster is not None, "nothing is heard before `watch`"
        owner = next((one for one in seen.metadata.owner_references if one.controller), None)
        job = None if owner is None else self.cluster.jobs.get(f"{seen.namespace}/{owner.name}")
        if owner is None or job is None or job.metadata.uid != owner.uid or (job.metadata.generation or 1) > 1:
            return
        since, until = job.metadata.creation_timestamp, seen.metadata.creation_timestamp
        if since is not None and until is not None:
            seconds = between(parse_instant(since), parse_instant(until))
            self.plain.observe(families.CREATION_SECONDS, (owner.kind,), seconds)

    # What is shown.

    async def page(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return await asyncio.to_thread(generate_latest, self.snapshot())

    def snapshot(self) -> CollectorRegistry:
        """All metrics as they are now, to be written out elsewhere: reading is quick, writing many series is not."""
        return Snapshot(self.read(), (build_info(), *self.workings.collect(), *self.process.collect()))

    def collect(self) -> Iterator[Metric]:
        """All families with their series."""
        yield from self.snapshot().collect()

    def read(self) -> list[Read]:
        """Every family that is served, with its series as they are now."""
        gauges: Gauges = {}
        if self.engine is not None and self.counts_now() and self.engine.world.now > 0:
            world = self.engine.world
            for owner in [owner for owner in self.cohorts.known if owner[0] not in world.forest.cohorts]:
                # Cohorts without an object go with their last member.
                self.cohorts.forget(owner)
            wanted = self.has_metrics if self.local else None
            gauges = Reading(world, self.kept, self.shown, wanted).all()
        # Only who leads counts, so what was counted is a leader's, also where another leads by now.
        counted = LEADER if self.elects else STANDALONE
        return [
            (family, gauges.get(family.name, ()), self.role)
            if family.kind is families.Kind.GAUGE and family is not families.PREEMPTION_SKIPS
            else (family, tuple(self.owners(family).samples(family)), counted)
            for family in families.ALL
            if self.is_served(family)
        ]

    def is_served(self, family: Family) -> bool:
        """Whether a family is there at all under this Configuration."""
        if family.name in LOCAL:
            return self.local
        return self.creation or family is not families.CREATION_SECONDS

    def owners(self, family: Family) -> Owners | Owner:
        """Where the counts of a family are kept."""
        if family.name in PLAIN:
            return self.plain
        if family.name in COHORTS:
            return self.cohorts
        return self.doors if family.name in LOCAL else self.queues


class Transition:
    """A Workload before and after one change."""

    __slots__ = ("after", "before", "door", "metrics", "new", "now", "old", "priority", "queue", "whole")

    def __init__(self, metrics: Metrics, old: Workload, new: Workload, before: Conditions, after: Conditions) -> None:
        assert metrics.cluster is not None, "nothing is heard before `watch`"
        self.metrics = metrics
        self.old, self.new, self.before, self.after = old, new, before, after
        self.now = metrics.cluster.clock.now()
        priority = new.spec.priority_class_ref
        self.priority = "" if priority is None else priority.name
        key = f"{new.metadata.namespace}/{new.spec.queue_name}"
        self.queue = self.queue_name(key)
        self.whole = metrics.queues.of((self.queue,)) if metrics.knows_queue(self.queue) else None
        """The counts of its ClusterQueue, if there is one."""
        self.door = metrics.doors.of(door(key)) if metrics.has_metrics(key) else None
        """The counts of its LocalQueue, if that has any."""

    def queue_name(self, key: str) -> str:
        """The ClusterQueue that the change is to be counted for."""
        for seen in (self.new, self.old):
            if seen.status.admission is not None and seen.status.admission.cluster_queue:
                return seen.status.admission.cluster_queue
        engine = self.metrics.engine
        local = None if engine is None else engine.world.local_queues.get(key)
        return "" if local is None else local.queue

    def turned(self, kind: str) -> Condition | None:
        """A condition that has become true."""
        found = self.after.held(kind)
        return found if found is not None and self.before.held(kind) is None else None

    def count(self) -> None:
        """Count everything that has happened."""
        reserved = self.turned(WorkloadCondition.QUOTA_RESERVED) is not None
        admitted = self.turned(WorkloadCondition.ADMITTED) is not None
        if reserved or admitted:
            waited = between(queued_since(self.old), self.now)
            if reserved:
                self.add(families.RESERVED, self.priority)
                self.took(families.RESERVED_WAIT, waited)
            if admitted:
                self.add(families.ADMITTED, self.priority)
                self.took(families.ADMITTED_WAIT, waited)
                self.admitted(at_once=reserved)
        if self.new.status.scheduling_stats is not None:
            self.evicted()
            self.released()
        ready = self.turned(WorkloadCondition.PODS_READY)
        if ready is not None and ready.reason == "Started" and self.metrics.readiness:
            self.took(families.READY_WAIT, between(queued_since(self.new), self.now))
            runs = self.after.held(WorkloadCondition.ADMITTED)
            if runs is not None:
                self.took(families.ADMITTED_TO_READY, between(since(runs), self.now))
        if self.turned(WorkloadCondition.FINISHED) is not None:
            self.add(families.FINISHED, self.priority)
            self.ran()

    def admitted(self, *, at_once: bool) -> None:
        """The job may start: how long did its checks take, and which cohorts does it count for?"""
        reserved = self.after.held(WorkloadCondition.QUOTA_RESERVED)
        if not at_once and reserved is not None:
            self.took(families.CHECKS_WAIT, between(since(reserved), self.now))
        elif self.new.status.admission_checks:
            self.took(families.CHECKS_WAIT, 0)
        engine = self.metrics.engine
        node = None if engine is None else engine.world.forest.queues.get(self.queue)
        for cohort in [] if node is None else cohorts_above(node):
            self.metrics.cohorts.of((cohort,)).count(families.SUBTREE_ADMITTED, (self.priority,))

    def evicted(self) -> None:
        """The job must stop, if the tally of evictions has grown; one that held no quota is not counted."""
        stats = self.new.status.scheduling_stats
        if stats is None or (self.old.status.admission is None and self.new.status.admission is None):
            return
        earlier = self.old.status.scheduling_stats
        known = {} if earlier is None else {(one.reason, one.underlying_cause): one.count for one in earlier.evictions}
        for one in stats.evictions:
            why = (one.reason, one.underlying_cause)
            if one.count <= known.get(why, 0):
                continue
            self.add(families.EVICTED, *why, self.priority)
            if known.get(why, 0) == 0:
                self.add(families.EVICTED_ONCE, *why, self.priority)
            ready, left = self.before.held(WorkloadCondition.PODS_READY), self.after.held(WorkloadCondition.EVICTED)
            if ready is not None and left is not None and self.whole is not None:
                self.whole.observe(families.READY_TO_EVICTED, why, between(since(ready), since(left)))

    def released(self) -> None:
        """The quota of an evicted workload is free."""
        evicted = self.after.held(WorkloadCondition.EVICTED)
        kept = self.after.held(WorkloadCondition.QUOTA_RESERVED) is not None
        if evicted is None or kept or self.before.held(WorkloadCondition.QUOTA_RESERVED) is None:
            return
        if self.old.status.admission is not None and self.whole is not None:
            self.whole.observe(families.EVICTION_SECONDS, (evicted.reason,), between(since(evicted), self.now))

    def ran(self) -> None:
        """It is over: for how long was it admitted, all in all?"""
        past = self.new.status.accumulated_past_execution_time_seconds
        admitted = self.after.held(WorkloadCondition.ADMITTED)
        if admitted is not None or past is not None:
            last = 0.0 if admitted is None else between(since(admitted), self.now)
            self.took(families.EXECUTION, (past or 0) + last)

    def add(self, family: Family, *labels: str) -> None:
        """Once more, for both queues."""
        if self.whole is not None:
            self.whole.count(family, labels)
        twin = families.TWINS.get(family.name)
        if twin is not None and self.door is not None:
            self.door.count(twin, labels)

    def took(self, family: Family, seconds: float) -> None:
        """It took so long, for both queues."""
        labels = (self.priority,)
        if self.whole is not None:
            self.whole.observe(family, labels, seconds)
        if self.door is not None:
            self.door.observe(families.TWINS[family.name], labels, seconds)


class Snapshot(CollectorRegistry):
    """Metrics that were read already; what they look like is worked out by whoever writes them."""

    def __init__(self, read: list[Read], others: tuple[Metric, ...]) -> None:
        super().__init__()
        self.read = read
        self.others = others

    def collect(self) -> Iterator[Metric]:
        """The families."""
        for family, samples, role in self.read:
            yield shown(family, samples, role)
        yield from self.others


def is_no_news(old: Workload, new: Workload) -> bool:
    """Whether nothing has changed that is counted."""
    return (
        old.status.conditions == new.status.conditions
        and old.metadata.uid == new.metadata.uid
        and old.spec.queue_name == new.spec.queue_name
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.status.scheduling_stats == new.status.scheduling_stats
    )


def door(key: str) -> Labels:
    """A LocalQueue as labels name it."""
    namespace, _, name = key.partition("/")
    return name, namespace


def adjust(counts: dict[Key, int], key: Key, number: int) -> None:
    """So many more, or fewer; what comes to nothing is gone."""
    left = counts.get(key, 0) + number
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)


def since(condition: Condition) -> Instant:
    """Since when a condition is as it is."""
    text = condition.last_transition_time
    return Instant(0) if text is None else parse_instant(text)


def between(start: Instant, end: Instant) -> float:
    """The time between, in seconds."""
    return max(0, end - start) / MICROS


def build_info() -> Metric:
    """What this program is, in the labels by which Kueue says it."""
    try:
        ours = f"v{version('pykueue')}"
    except PackageNotFoundError:
        ours = "unknown"
    labels = {
        "git_version": ours,
        "git_commit": "",
        "build_date": "",
        "go_version": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{platform.machine()}",
    }
    found = GaugeMetricFamily("kueue_build_info", "What this program is.", labels=tuple(labels))
    found.add_metric(tuple(labels.values()), 1)
    return found
