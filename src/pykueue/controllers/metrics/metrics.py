"""Kueue's metrics, counted from changes of Workloads while this replica leads.

`families` lists them, `series` keeps the counts, `gauges` computes present values, `exposition` has the text format. A
replica that does not lead counts nothing and has no gauges of queues, since its engine does not run.
"""

from collections.abc import Collection, Generator, Hashable, Iterator, Set
from typing import Final, Protocol, TypeAlias, TypeVar

from pykueue.api.config.file import Loaded
from pykueue.api.core import controller_of, matches
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue
from pykueue.api.workload import Workload
from pykueue.base.clock import Clock
from pykueue.base.steps import at_once
from pykueue.base.units import parse_instant
from pykueue.bridge.outbound import queued_since
from pykueue.controllers.metrics import families, process
from pykueue.controllers.metrics.conditions import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PREEMPTED,
    READY,
    RESERVED,
    Conditions,
    between,
    held,
    is_no_news,
    since,
)
from pykueue.controllers.metrics.customlabels import CustomLabels
from pykueue.controllers.metrics.exposition import Text, head
from pykueue.controllers.metrics.families import Family, Source
from pykueue.controllers.metrics.gauges import EnabledGauges, Reading, WorkloadCounts
from pykueue.controllers.metrics.selfmetrics import SelfMetrics
from pykueue.controllers.metrics.series import Gauges, Labels, Owner, Owners, Starts
from pykueue.controllers.metrics.waittimes import Slot as WaitSlot
from pykueue.controllers.metrics.waittimes import WaitTimes
from pykueue.controllers.metrics.watchdog import Watchdog
from pykueue.engine.engine import Engine
from pykueue.engine.entries import Entry
from pykueue.engine.record.tally import cohorts_above, of_cycle
from pykueue.jobs.batch import JobView
from pykueue.kube.informer import Change, Informer

Key = TypeVar("Key", bound=Hashable)
Slot: TypeAlias = str | WaitSlot
"""The LocalQueue of a finished Workload; or the LocalQueue, reason and cause of one that is not admitted."""

STEP: Final = 100
"""Waiting times that one step counts."""
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
        self.custom = CustomLabels(chosen.custom_labels if gates["CustomMetricLabels"] else ())
        named = {family.name: self.custom.family(family) for family in families.ALL}
        self.plain = Owner((), role, named)
        self.queues = Owners(role, named, lambda owner: self.custom.of_queue(owner[0]))
        self.local_queues = Owners(role, named, lambda owner: self.custom.of_local_queue(f"{owner[1]}/{owner[0]}"))
        self.cohorts = Owners(role, named, lambda owner: self.custom.of_cohort(owner[0]))
        self.starts = Starts(role)
        self.served = [
            (family, head(family.name, family.kind.value, family.help))
            for family in named.values()
            if self.is_served(family)
        ]
        self.build = process.build_info()
        self.kept = WorkloadCounts()
        self.waits = WaitTimes()
        self.engine: Engine | None = None
        self.cluster: Watched | None = None
        self.self_metrics = SelfMetrics()
        self.watchdog = Watchdog()

    def watch(self, cluster: Watched, engine: Engine) -> None:
        """Count changes in a cluster while this engine leads."""
        self.cluster, self.engine = cluster, engine
        self.custom.objects = cluster
        cluster.workloads.listen(self.workload_changed)
        cluster.cluster_queues.listen(self.queue_changed)
        cluster.local_queues.listen(self.local_queue_changed)
        cluster.cohorts.listen(self.cohort_changed)

    # Called by others.

    def cycle(self, success: bool, seconds: float, heads: Collection[Entry] | None = None) -> None:
        """Count a scheduling cycle; one with a known empty list of heads is not counted."""
        self.lead()
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

    def unserved(self, queue: str, cause: str, evictions: int) -> None:
        """Count preemptions for a workload of this ClusterQueue that did not start."""
        if self.knows_queue(queue):
            self.queues.of((queue,)).count(families.UNSERVED, (cause,), evictions)

    # Changes.

    def counts_now(self) -> bool:
        """Whether this replica counts."""
        return self.engine is not None and self.engine.synced and self.engine.leading

    def lead(self) -> None:
        """Note whether this replica counts: waiting times are only those of the leader."""
        if self.cluster is not None:
            self.waits.lead(self.counts_now(), self.cluster.clock.moment())

    def knows_queue(self, name: str) -> bool:
        """Whether the ClusterQueue exists; nothing is counted for one that is gone."""
        return self.cluster is not None and self.cluster.cluster_queues.get(name) is not None

    def has_metrics(self, key: str) -> bool:
        """Whether a LocalQueue has metrics."""
        local = None if self.cluster is None or not self.local else self.cluster.local_queues.get(key)
        return local is not None and (self.selector is None or matches(self.selector, local.metadata.labels))

    def queue_changed(self, change: Change[ClusterQueue]) -> None:
        """Drop the series of a ClusterQueue that is deleted or has other custom labels."""
        if self.is_over("ClusterQueue", change):
            self.queues.forget((change.key,))

    def local_queue_changed(self, change: Change[LocalQueue]) -> None:
        """Drop the series of a LocalQueue that is deleted, no longer selected, or has other custom labels."""
        if self.is_over("LocalQueue", change) or not self.has_metrics(change.key):
            self.local_queues.forget(local_queue_labels(change.key))

    def cohort_changed(self, change: Change[Cohort]) -> None:
        """Drop the series of a Cohort that is deleted or has other custom labels."""
        if self.is_over("Cohort", change):
            self.cohorts.forget((change.key,))

    def is_over(self, kind: Source, change: Change[ClusterQueue] | Change[LocalQueue] | Change[Cohort]) -> bool:
        """Whether the series of an object end with a change, because it is deleted or has other custom labels."""
        old, new = change.old, change.new
        if new is None:
            return True
        return old is not None and self.custom.values(kind, old.metadata) != self.custom.values(kind, new.metadata)

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
        reason, cause = "NoReservation", "PendingEvaluation"
        for condition in seen.status.conditions:
            if condition.type == ADMITTED:
                reason = condition.reason
            elif condition.type == RESERVED:
                cause = condition.reason
        return key, reason, "" if RESERVED in held else cause

    def keep(self, before: Slot | None, after: Slot | None) -> None:
        """Move a Workload from one slot to another."""
        if before == after:
            return
        assert self.cluster is not None, "`watch` is called first"
        now = self.cluster.clock.moment()
        for slot, number in ((before, -1), (after, 1)):
            if isinstance(slot, str):
                adjust(self.kept.finished, slot, number)
            elif slot is not None:
                self.waits.add(slot, self.kept.unadmitted.get(slot, 0), now)
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
            custom = self.custom.of_local_queue(f"{seen.namespace}/{seen.spec.queue_name}")
            self.plain.observe(families.CREATION_SECONDS, (owner.kind, *custom), seconds)

    # Rendering.

    def page(self) -> bytes:
        """All metrics as text."""
        return b"".join(at_once(self.steps()))

    def steps(self) -> Generator[None, None, list[bytes]]:
        """All metrics as pieces of a text; yields between steps of a few milliseconds each."""
        gauges = yield from self.gauges()
        text = Text()
        for family, begin in self.served:
            text.lines.append(begin)
            for _ in self.series(family, gauges, text.lines):
                if text.encode_many():
                    yield
        for part in (self.self_metrics.write(self.counts_now(), text.lines), self.watchdog.write(text.lines)):
            for _ in part:
                if text.encode_many():
                    yield
        text.lines += self.build
        process.write(text.lines)
        return text.whole()

    def series(self, family: Family, gauges: Gauges, lines: list[str]) -> Iterator[None]:
        """Add the series of a family, in steps."""
        if family.kind is families.Kind.GAUGE and family.name != families.PREEMPTION_SKIPS.name:
            return self.starts.write(family, gauges.get(family.name, ()), lines)
        return self.owners(family).write(family, lines)

    def gauges(self) -> Generator[None, None, Gauges]:
        """The present gauges of queues and cohorts, as far as this replica knows."""
        if self.cluster is None or self.engine is None:
            return {}
        self.lead()
        if not self.counts_now() or self.engine.now <= 0:
            return {}
        yield from self.add_waits(self.engine)
        known = self.engine.cohorts()
        for owner in [owner for owner in self.cohorts.known if owner[0] not in known]:
            # Cohorts without an object are removed with their last member.
            self.cohorts.forget(owner)
        has_metrics = self.has_metrics if self.local else None
        now = self.cluster.clock.now()
        return (yield from Reading(self.engine, now, self.kept, self.shown, self.custom, has_metrics).all())

    def add_waits(self, engine: Engine) -> Generator[None, None, None]:
        """Count how long workloads have waited since the last page, in steps."""
        assert self.cluster is not None, "`watch` is called first"
        waits = self.waits.read(self.kept.unadmitted, self.cluster.clock.moment())
        for seen, ((key, reason, cause), seconds) in enumerate(waits, start=1):
            if seen % STEP == 0:
                yield
            local = engine.local_queue(key)
            if local is None or not self.knows_queue(local.queue):
                continue
            labels = (cause or reason,)
            self.queues.of((local.queue,)).count(families.WAITED, labels, seconds)
            if self.has_metrics(key):
                self.local_queues.of(local_queue_labels(key)).count(families.LOCAL_WAITED, labels, seconds)

    def is_served(self, family: Family) -> bool:
        """Whether the Configuration enables a family."""
        if family.name in LOCAL:
            return self.local
        return self.creation or family.name != families.CREATION_SECONDS.name

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
                custom = self.metrics.custom.values("Workload", self.new.metadata)
                self.add(families.ADMITTED, self.priority, local=custom)
                self.took(families.ADMITTED_WAIT, waited, local=custom)
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
            if left is None or self.whole is None:
                continue
            if ready is not None:
                self.whole.observe(families.READY_TO_EVICTED, why, between(since(ready), since(left)))
            admitted, preempted = self.before.get(ADMITTED), self.after.get(PREEMPTED)
            if admitted is not None:
                policy = preempted.reason if preempted is not None and one.reason == PREEMPTED else ""
                seconds = between(since(admitted), since(left))
                self.whole.count(families.LOST_WORK, (one.reason, policy), seconds)

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

    def add(self, family: Family, *labels: str, local: Labels = ()) -> None:
        """Count an event, for both queues; `local` are more labels of the LocalQueue's."""
        if self.whole is not None:
            self.whole.count(family, labels)
        local_family = families.LOCAL_FAMILIES.get(family.name)
        if local_family is not None and self.local_queue is not None:
            self.local_queue.count(local_family, (*labels, *local))

    def took(self, family: Family, seconds: float, local: Labels = ()) -> None:
        """Observe a duration, for both queues; `local` are more labels of the LocalQueue's."""
        labels = (self.priority,)
        if self.whole is not None:
            self.whole.observe(family, labels, seconds)
        if self.local_queue is not None:
            self.local_queue.observe(families.LOCAL_FAMILIES[family.name], (*labels, *local), seconds)


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
