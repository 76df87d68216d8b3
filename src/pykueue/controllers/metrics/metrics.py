"""Kueue's metrics, counted from changes of Workloads while this replica leads.

`families` lists them, `series` keeps the counts, `gauges` computes present values, `exposition` has the text format. A
replica that does not lead counts nothing and has no gauges of queues, since its engine does not run.
"""

import platform
import sys
from collections.abc import Collection, Hashable, Mapping, Set
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Protocol, TypeAlias, TypeVar

from pykueue.api.config.file import Loaded
from pykueue.api.core import Condition, controller_of, matches
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue
from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload
from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.bridge.outbound import queued_since
from pykueue.controllers.metrics import families, process
from pykueue.controllers.metrics.exposition import head, pairs, start, text_of
from pykueue.controllers.metrics.families import Family
from pykueue.controllers.metrics.gauges import EnabledGauges, Reading, WorkloadCounts
from pykueue.controllers.metrics.selfmetrics import SelfMetrics
from pykueue.controllers.metrics.series import Gauges, Labels, Owner, Owners, Starts
from pykueue.controllers.metrics.watchdog import Watchdog
from pykueue.engine.engine import Engine
from pykueue.engine.entries import Entry
from pykueue.engine.record.tally import cohorts_above, of_cycle
from pykueue.jobs.batch import JobView
from pykueue.kube.informer import Change, Informer

Key = TypeVar("Key", bound=Hashable)
Conditions: TypeAlias = Mapping[str, Condition]
"""By type."""
Slot: TypeAlias = str | tuple[str, str, str]
"""The LocalQueue of a finished Workload; or the LocalQueue, reason and cause of one that is not admitted."""

# Plain texts, since enum members are looked up six times as slowly, and every change needs them.
RESERVED: Final = WorkloadCondition.QUOTA_RESERVED.value
ADMITTED: Final = WorkloadCondition.ADMITTED.value
READY: Final = WorkloadCondition.PODS_READY.value
EVICTED: Final = WorkloadCondition.EVICTED.value
FINISHED: Final = WorkloadCondition.FINISHED.value

LEADER: Final = "leader"
STANDALONE: Final = "standalone"
LOCAL: Final = frozenset(family.name for family in families.ALL if family.labels[:2] == families.LOCAL)
COHORTS: Final = frozenset({families.SUBTREE_ADMITTED.name})
PLAIN: Final = frozenset(
    family.name
    for family in (
        families.ATTEMPTS,
        families.ATTEMPT_SECONDS,
        families.CREATION_SECONDS,
        families.ETA_CALIBRATION,
    )
)


class Watched(Protocol):
    """The parts of a cluster that metrics read."""

    clock: Clock
    workloads: Informer[Workload]
    cluster_queues: Informer[ClusterQueue]
    local_queues: Informer[LocalQueue]
    cohorts: Informer[Cohort]
    jobs: Informer[JobView]


class Metrics:
    """Counts events and renders the metrics."""

    def __init__(self, loaded: Loaded) -> None:
        configuration, gates = loaded.configuration, loaded.gates.values
        chosen = configuration.metrics
        self.shown = EnabledGauges(
            chosen.enable_cluster_queue_resources,
            gates["SchedulingEquivalenceHashing"],
            gates["UnadmittedWorkloadsObservability"],
            gates["MetricsForCohorts"],
        )
        self.local = chosen.local_queue_metrics.enable and gates["LocalQueueMetrics"]
        self.selector = chosen.local_queue_metrics.local_queue_selector
        self.creation = gates["MetricForWorkloadCreationLatency"]
        self.readiness = configuration.wait_for_pods_ready is not None
        # Only the leader counts and has gauges, so every series has the leader's role, even after another replica took
        # over.
        role = (LEADER if configuration.leader_election.leader_elect else STANDALONE,)
        self.plain = Owner(last=role)
        self.queues, self.local_queues, self.cohorts = Owners(role), Owners(role), Owners(role)
        self.starts = Starts(role)
        self.served = [
            (family, head(family.name, family.kind.value, family.help))
            for family in families.ALL
            if self.is_served(family)
        ]
        self.build = build_info()
        self.kept = WorkloadCounts()
        self.engine: Engine | None = None
        self.cluster: Watched | None = None
        self.self_metrics = SelfMetrics()
        self.watchdog = Watchdog()

    def watch(self, cluster: Watched, engine: Engine) -> None:
        """Count changes in a cluster while this engine leads."""
        self.cluster, self.engine = cluster, engine
        cluster.workloads.listen(self.workload_changed)
        cluster.cluster_queues.listen(self.queue_changed)
        cluster.local_queues.listen(self.local_queue_changed)
        cluster.cohorts.listen(self.cohort_changed)

    # Called by others.

    def cycle(self, success: bool, seconds: float, heads: Collection[Entry] | None = None) -> None:
        """Count a scheduling cycle; one with a known empty list of heads is not counted."""
        if heads is not None:
            if not heads:
                return
            self.considered(heads)
        labels = ("success" if success else "inadmissible",)
        self.plain.count(families.ATTEMPTS, labels)
        self.plain.observe(families.ATTEMPT_SECONDS, labels, seconds)

    def considered(self, heads: Collection[Entry]) -> None:
        """Count the results of preemption for a cycle's heads."""
        counted = of_cycle(heads)
        for queue, skipped in counted.skipped.items():
            if skipped or families.PREEMPTION_SKIPS.name in self.queues.of((queue,)).counters:
                self.queues.of((queue,)).put(families.PREEMPTION_SKIPS, (), skipped)
        for (queue, result), times in counted.replanned.items():
            for _ in range(times):
                self.queues.of((queue,)).count(families.RECOMPUTATIONS, (result,))

    def estimated(self, result: str) -> None:
        """Count a job that has started after an estimate of its start."""
        self.plain.count(families.ETA_CALIBRATION, (result,))

    def preempted(self, preempting_queue: str, reason: str) -> None:
        """Count a preemption by a workload of this ClusterQueue."""
        if self.knows_queue(preempting_queue):
            self.queues.of((preempting_queue,)).count(families.PREEMPTED, (reason,))

    # Changes.

    def counts_now(self) -> bool:
        """Whether this replica counts."""
        return self.engine is not None and self.engine.synced and self.engine.leading

    def knows_queue(self, name: str) -> bool:
        """Whether the ClusterQueue exists; nothing is counted for one that is gone."""
        return self.cluster is not None and self.cluster.cluster_queues.get(name) is not None

    def has_metrics(self, key: str) -> bool:
        """Whether a LocalQueue has metrics."""
        local = None if self.cluster is None or not self.local else self.cluster.local_queues.get(key)
        return local is not None and (self.selector is None or matches(self.selector, local.metadata.labels))

    def queue_changed(self, change: Change[ClusterQueue]) -> None:
        """Drop the series of a deleted ClusterQueue."""
        if change.new is None:
            self.queues.forget((change.key,))

    def local_queue_changed(self, change: Change[LocalQueue]) -> None:
        """Drop the series of a LocalQueue that is deleted or no longer selected."""
        if change.new is None or not self.has_metrics(change.key):
            self.local_queues.forget(local_queue_labels(change.key))

    def cohort_changed(self, change: Change[Cohort]) -> None:
        """Drop the series of a deleted Cohort."""
        if change.new is None:
            self.cohorts.forget((change.key,))

    def workload_changed(self, change: Change[Workload]) -> None:
        """Count the change of a Workload."""
        old, new = change.old, change.new
        if old is not None and new is not None and is_no_news(old, new):
            return
        before, after = held(old), held(new)
        self.keep(self.slot(old, before), self.slot(new, after))
        if new is None or not self.counts_now():
            return
        if old is None or old.metadata.uid != new.metadata.uid:
            if self.creation:
                self.created(new)
            return
        turned = after.keys() - before.keys()
        if turned or new.status.scheduling_stats is not None:
            Transition(self, old, new, before, after).count(turned)

    def slot(self, seen: Workload | None, held: Conditions) -> Slot | None:
        """The slot of a Workload in the kept gauges, if any."""
        if seen is None:
            return None
        key = f"{seen.metadata.namespace}/{seen.spec.queue_name}"
        if FINISHED in held:
            return key
        if ADMITTED in held or not self.shown.unadmitted:
            return None
        if seen.metadata.deletion_timestamp is not None:
            return None
        by_type = {condition.type: condition.reason for condition in seen.status.conditions}
        reserved = RESERVED in held
        cause = "" if reserved else by_type.get(RESERVED, "PendingEvaluation")
        return key, by_type.get(ADMITTED, "NoReservation"), cause

    def keep(self, before: Slot | None, after: Slot | None) -> None:
        """Move a Workload from one slot to another."""
        if before == after:
            return
        for slot, number in ((before, -1), (after, 1)):
            if isinstance(slot, str):
                adjust(self.kept.finished, slot, number)
            elif slot is not None:
                adjust(self.kept.unadmitted, slot, number)

    def created(self, seen: Workload) -> None:
        """Observe how long after its job a Workload was created."""
        assert self.cluster is not None, "`watch` is called first"
        owner = controller_of(seen.metadata)
        job = None if owner is None else self.cluster.jobs.get(f"{seen.namespace}/{owner.name}")
        if owner is None or job is None or job.metadata.uid != owner.uid or (job.metadata.generation or 1) > 1:
            return
        since, until = job.metadata.creation_timestamp, seen.metadata.creation_timestamp
        if since is not None and until is not None:
            seconds = between(parse_instant(since), parse_instant(until))
            self.plain.observe(families.CREATION_SECONDS, (owner.kind,), seconds)

    # Rendering.

    def page(self) -> bytes:
        """All metrics as text."""
        lines: list[str] = []
        gauges = self.gauges()
        for family, begin in self.served:
            lines.append(begin)
            if family.kind is families.Kind.GAUGE and family is not families.PREEMPTION_SKIPS:
                self.starts.write(family, gauges.get(family.name, ()), lines)
            else:
                self.owners(family).write(family, lines)
        self.self_metrics.write(lines)
        self.watchdog.write(lines)
        lines += self.build
        process.write(lines)
        return text_of(lines)

    def gauges(self) -> Gauges:
        """The present gauges of queues and cohorts, as far as this replica knows."""
        if self.engine is None or not self.counts_now() or self.engine.now <= 0:
            return {}
        known = self.engine.cohorts()
        for owner in [owner for owner in self.cohorts.known if owner[0] not in known]:
            # Cohorts without an object are removed with their last member.
            self.cohorts.forget(owner)
        return Reading(self.engine, self.kept, self.shown, self.has_metrics if self.local else None).all()

    def is_served(self, family: Family) -> bool:
        """Whether the Configuration enables a family."""
        if family.name in LOCAL:
            return self.local
        return self.creation or family is not families.CREATION_SECONDS

    def owners(self, family: Family) -> Owners | Owner:
        """The owners of a family's counts."""
        if family.name in PLAIN:
            return self.plain
        if family.name in COHORTS:
            return self.cohorts
        return self.local_queues if family.name in LOCAL else self.queues


class Transition:
    """A Workload before and after one change."""

    __slots__ = ("after", "before", "local_queue", "metrics", "new", "now", "old", "priority", "queue", "whole")

    def __init__(self, metrics: Metrics, old: Workload, new: Workload, before: Conditions, after: Conditions) -> None:
        assert metrics.cluster is not None, "`watch` is called first"
        self.metrics = metrics
        self.old, self.new, self.before, self.after = old, new, before, after
        self.now = metrics.cluster.clock.now()
        priority = new.spec.priority_class_ref
        self.priority = "" if priority is None else priority.name
        key = f"{new.metadata.namespace}/{new.spec.queue_name}"
        self.queue = self.queue_name(key)
        self.whole = metrics.queues.of((self.queue,)) if metrics.knows_queue(self.queue) else None
        """The counts of its ClusterQueue, if it exists."""
        self.local_queue = metrics.local_queues.of(local_queue_labels(key)) if metrics.has_metrics(key) else None
        """The counts of its LocalQueue, if it has any."""

    def queue_name(self, key: str) -> str:
        """The ClusterQueue that the change counts for."""
        for seen in (self.new, self.old):
            if seen.status.admission is not None and seen.status.admission.cluster_queue:
                return seen.status.admission.cluster_queue
        engine = self.metrics.engine
        local = None if engine is None else engine.local_queue(key)
        return "" if local is None else local.queue

    def count(self, turned: Set[str]) -> None:
        """Count everything that has happened, given the conditions that became true."""
        reserved = RESERVED in turned
        admitted = ADMITTED in turned
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
        if READY in turned and self.metrics.readiness:
            self.started()
        if FINISHED in turned:
            self.add(families.FINISHED, self.priority)
            self.ran()

    def started(self) -> None:
        """Observe the time until its pods were first ready."""
        if self.after[READY].reason != "Started":
            return
        self.took(families.READY_WAIT, between(queued_since(self.new), self.now))
        runs = self.after.get(ADMITTED)
        if runs is not None:
            self.took(families.ADMITTED_TO_READY, between(since(runs), self.now))

    def admitted(self, *, at_once: bool) -> None:
        """Count an admission, the time of its checks, and its cohorts."""
        reserved = self.after.get(RESERVED)
        if not at_once and reserved is not None:
            self.took(families.CHECKS_WAIT, between(since(reserved), self.now))
        elif self.new.status.admission_checks:
            self.took(families.CHECKS_WAIT, 0)
        engine = self.metrics.engine
        for cohort in () if engine is None else cohorts_above(engine, self.queue):
            self.metrics.cohorts.of((cohort,)).count(families.SUBTREE_ADMITTED, (self.priority,))

    def evicted(self) -> None:
        """Count an eviction if the status counts one more; one without quota is not counted."""
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
            ready, left = (
                self.before.get(READY),
                self.after.get(EVICTED),
            )
            if ready is not None and left is not None and self.whole is not None:
                self.whole.observe(families.READY_TO_EVICTED, why, between(since(ready), since(left)))

    def released(self) -> None:
        """Observe the release of an evicted workload's quota."""
        evicted = self.after.get(EVICTED)
        kept = self.after.get(RESERVED) is not None
        if evicted is None or kept or self.before.get(RESERVED) is None:
            return
        if self.old.status.admission is not None and self.whole is not None:
            self.whole.observe(families.EVICTION_SECONDS, (evicted.reason,), between(since(evicted), self.now))

    def ran(self) -> None:
        """Observe how long it was admitted in total, when it is finished."""
        past = self.new.status.accumulated_past_execution_time_seconds
        admitted = self.after.get(ADMITTED)
        if admitted is not None or past is not None:
            last = 0.0 if admitted is None else between(since(admitted), self.now)
            self.took(families.EXECUTION, (past or 0) + last)

    def add(self, family: Family, *labels: str) -> None:
        """Count an event, for both queues."""
        if self.whole is not None:
            self.whole.count(family, labels)
        local_family = families.LOCAL_FAMILIES.get(family.name)
        if local_family is not None and self.local_queue is not None:
            self.local_queue.count(local_family, labels)

    def took(self, family: Family, seconds: float) -> None:
        """Observe a duration, for both queues."""
        labels = (self.priority,)
        if self.whole is not None:
            self.whole.observe(family, labels, seconds)
        if self.local_queue is not None:
            self.local_queue.observe(families.LOCAL_FAMILIES[family.name], labels, seconds)


def held(seen: Workload | None) -> Conditions:
    """The conditions of a Workload that are true."""
    if seen is None:
        return {}
    return {condition.type: condition for condition in seen.status.conditions if condition.status == "True"}


def is_no_news(old: Workload, new: Workload) -> bool:
    """Whether nothing that is counted has changed."""
    return (
        old.status.conditions == new.status.conditions
        and old.metadata.uid == new.metadata.uid
        and old.spec.queue_name == new.spec.queue_name
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.status.scheduling_stats == new.status.scheduling_stats
    )


def local_queue_labels(key: str) -> Labels:
    """A LocalQueue as a pair of labels."""
    namespace, _, name = key.partition("/")
    return name, namespace


def adjust(counts: dict[Key, int], key: Key, number: int) -> None:
    """Change a count; a count of zero is removed."""
    left = counts.get(key, 0) + number
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)


def since(condition: Condition) -> Instant:
    """The time of a condition's last transition."""
    text = condition.last_transition_time
    return Instant(0) if text is None else parse_instant(text)


def between(start: Instant, end: Instant) -> float:
    """The time between, in seconds."""
    return max(0, end - start) / MICROS


def build_info() -> tuple[str, str]:
    """The version and build of this program, in Kueue's labels."""
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
    name = "kueue_build_info"
    return head(name, "gauge", "Version and build of this program."), start(name, pairs(labels, labels.values())) + "1"
