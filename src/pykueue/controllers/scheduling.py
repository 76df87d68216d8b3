"""Runs the engine on a cluster: passes facts in, runs cycles, and passes decisions to `DecisionWrites`."""

import asyncio
import contextlib
import logging
from typing import Final, TypeVar

from pykueue.api.core import KubeObject
from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload
from pykueue.base.units import MICROS, Instant
from pykueue.bridge import inbound
from pykueue.bridge.decisionevents import NEVER, REPORTER
from pykueue.bridge.sentences import shrinkable_of
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.cyclepause import CyclePause
from pykueue.controllers.decisionwrites import DecisionWrites
from pykueue.controllers.events import owner
from pykueue.controllers.journalfile import JournalFile
from pykueue.controllers.metrics.metrics import Metrics
from pykueue.controllers.pendingreasons import WRITE_AFTER, PendingReasons
from pykueue.controllers.workloadfacts import WorkloadFacts
from pykueue.controllers.writebackoff import WriteBackoff
from pykueue.engine import model
from pykueue.engine.decisions import Admit, Decision, Evict, Reserve, Unassigned, Wait
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Gone, Kind, Leading, Seen, Stopped, Synced
from pykueue.engine.record.explain import explain, never
from pykueue.engine.record.journal import Recorder
from pykueue.engine.record.recent import Recent
from pykueue.engine.record.unserved import Preemptors
from pykueue.jobs.admit import STRICT_BY_CREATION
from pykueue.kube.informer import Change, Informer, version_of
from pykueue.kube.port import KubeError

LOG: Final = logging.getLogger(__name__)

Known = TypeVar("Known", bound=KubeObject)


class Pump:
    """Runs the engine on a cluster."""

    def __init__(self, cluster: Cluster, metrics: Metrics, journal: JournalFile | None = None) -> None:
        self.cluster = cluster
        self.metrics = metrics
        self.engine = Engine(cluster.settings.options)
        self.engine.observe(Leading(False))
        self.front: Engine | Recorder = self.engine
        self.journal = journal
        self.news = asyncio.Event()
        self.alarm: asyncio.Task[None] | None = None
        self.alarm_at = Instant(0)
        self.reasons = PendingReasons(self.engine)
        self.recent = Recent()
        self.preemptors = Preemptors()
        self.backoff = WriteBackoff(cluster.clock)
        self.pause = CyclePause(cluster.clock, self.engine)
        self.facts = WorkloadFacts(cluster, self.engine, self.reasons, self.backoff, self.observe)
        self.writes = DecisionWrites(cluster, metrics, self.engine, self.reasons, self.backoff, self.facts)
        self.follow(cluster.namespaces, "Namespace")
        self.follow(cluster.flavors, "Flavor")
        self.follow(cluster.checks, "Check")
        self.follow(cluster.cohorts, "Cohort")
        self.follow(cluster.cluster_queues, "ClusterQueue")
        self.follow(cluster.local_queues, "LocalQueue")
        cluster.workloads.listen(self.workload_changed)
        cluster.limit_ranges.listen(lambda change: self.read_again(change.key.partition("/")[0]))
        cluster.runtime_classes.listen(lambda change: self.read_again(""))

    # Facts.

    def observe(self, fact: Fact) -> None:
        """Pass a fact to the engine, and wake the loop."""
        if self.journal is not None and self.journal.is_full:
            self.begin_journal()
        self.pause.note(fact)
        self.front.observe(fact)
        self.news.set()

    def begin_journal(self) -> None:
        """Start another journal file with a checkpoint of the present state."""
        journal = self.journal
        if journal is None:
            return
        try:
            journal.begin()
            self.front = Recorder(self.engine, self.note)
            journal.opened()
        except OSError as error:
            self.end_journal(error)

    def note(self, line: bytes) -> None:
        """Write a line of the journal; an error stops the journal and nothing else."""
        if self.journal is not None:
            try:
                self.journal.write(line)
            except OSError as error:
                self.end_journal(error)

    def end_journal(self, error: OSError) -> None:
        """Stop the journal after an error."""
        LOG.error("journal: cannot be written, recording stops error=%s", error)
        journal, self.journal, self.front = self.journal, None, self.engine
        if journal is not None:
            with contextlib.suppress(OSError):
                journal.close()

    def follow(self, informer: Informer[Known], kind: Kind) -> None:
        """Pass every change of a kind to the engine."""

        def changed(change: Change[Known]) -> None:
            if change.new is None:
                self.observe(Gone(kind, change.key))
                return
            try:
                found = inbound.thing(change.new)
            except ValueError as error:
                # Only possible if it was stored without our webhook; it counts as absent until it is corrected.
                LOG.error(
                    "scheduling: ignored an invalid object kind=%s error=%s", kind, error, extra={"object": change.key}
                )
                self.observe(Gone(kind, change.key))
                return
            if found is not None:
                self.observe(Seen(found, version_of(change.new)))
                self.warn_of(found, change.old is None)

        informer.listen(changed)

    def warn_of(self, thing: model.Thing, new: bool) -> None:
        """Log fields of a new queue that may not do what the user expects."""
        waiting = self.cluster.settings.options.pods_ready
        if not new or waiting is None or waiting.timestamp is not model.Timestamp.CREATION:
            return
        if isinstance(thing, model.ClusterQueue) and thing.strategy is model.Strategy.STRICT:
            LOG.warning("ClusterQueue %s: %s", thing.name, STRICT_BY_CREATION, extra={"object": thing.name})

    def workload_changed(self, change: Change[Workload]) -> None:
        """Pass a changed Workload to the engine; while writes are in flight, `DecisionWrites` does so at their end."""
        if change.new is None or (change.old is not None and change.old.metadata.uid != change.new.metadata.uid):
            self.reasons.forget(change.key)
            self.backoff.clear(change.key)
            self.facts.remove(change.key)
        if change.new is not None and change.key not in self.writes:
            if change.old is not None and is_overtaken(change.old, change.new):
                self.reasons.drop(change.key)
            self.facts.see(change.key, change.new)

    def read_again(self, namespace: str) -> None:
        """Read the pending Workloads of a namespace again, or of all if it is empty, after a change they depend on."""
        self.facts.forget_surroundings(namespace)
        for key, seen in self.cluster.workloads.objects.items():
            if seen.status.admission is None and key not in self.writes and namespace in ("", seen.namespace):
                self.facts.see(key, seen)

    def stopped(self, key: str) -> None:
        """Record that no pod of an evicted workload is left."""
        item = self.engine.item(key)
        if item is not None and not item.stopped:
            self.observe(Stopped(key))

    async def take_over(self) -> None:
        """Become leader after listing Workloads: a watch may lag behind the last writes of the previous leader."""
        workloads = self.cluster.workloads
        while workloads.synced.is_set():
            try:
                await workloads.refresh()
                break
            except KubeError as error:
                LOG.warning("scheduling: cannot list Workloads before leading, will retry error=%s", error)
                await self.cluster.clock.sleep(WRITE_AFTER)
        self.lead(True)

    def lead(self, leading: bool) -> None:
        """Start or stop leading."""
        self.observe(Leading(leading))
        if not leading:
            self.writes.abandon()
            self.reasons.clear()
            self.recent.clear()
            self.preemptors.clear()

    # Cycles.

    async def run(self) -> None:
        """Run cycles until cancelled; the engine decides nothing while another process leads."""
        await self.cluster.until_synced()
        self.begin_journal()
        self.observe(Synced())
        LOG.info("scheduling: caches are synced workloads=%d", len(self.cluster.workloads.objects))
        clock = self.cluster.clock
        while True:
            now, began = clock.now(), clock.moment()
            # In every round: under constant load the loop never waits.
            reasons_at, retry_at = self.write_due_reasons(), self.writes.retry_backed_off()
            wake = self.front.next_wake()
            if wake is None or wake > now:
                await self.rest([at for at in (wake, reasons_at, retry_at) if at is not None])
                continue
            decisions = self.front.decide(now)
            started = any(isinstance(decision, Admit | Reserve | Evict) for decision in decisions)
            if started:
                self.reasons.started(now)
            self.recent.note(self.engine, decisions)
            for one in self.preemptors.note(self.engine, decisions):
                self.metrics.unserved(one.queue, one.cause, one.evictions)
            self.metrics.cycle(started, (clock.moment() - began) / MICROS, self.engine.entries)
            for decision in decisions:
                self.carry_out(decision)
            # Yield after each cycle, so that other tasks run and their changes are decided together.
            if started or not self.engine.entries:
                await asyncio.sleep(0)
            else:
                await self.pause.wait(began, self.writes.latency)
            began = clock.moment()
            await self.writes.accepts_more.wait()
            self.reasons.written(clock.moment() - began, clock.now())

    async def rest(self, due: list[Instant]) -> None:
        """Wait for news, or until something is due."""
        self.news.clear()
        if self.journal is not None:
            try:
                self.journal.flush()
            except OSError as error:
                self.end_journal(error)
        if due:
            self.set_alarm(min(due))
        await self.news.wait()

    def set_alarm(self, due: Instant) -> None:
        """Wake the loop at this instant, unless an earlier alarm is set."""
        if self.alarm is not None and not self.alarm.done():
            if self.alarm_at <= due:
                return
            self.alarm.cancel()
        self.alarm_at = due
        self.alarm = asyncio.get_running_loop().create_task(self.fire_alarm(due), name="alarm")

    async def fire_alarm(self, due: Instant) -> None:
        """Wake the loop at this instant."""
        await self.cluster.clock.sleep_until(due)
        self.news.set()

    def carry_out(self, decision: Decision) -> None:
        """Log a decision, and queue its write."""
        key = decision.workload
        LOG.log(
            logging.DEBUG if isinstance(decision, Wait) else logging.INFO,
            "%s",
            Explained(decision, self.engine),
            extra={"object": key},
        )
        if isinstance(decision, Wait):
            self.warn_of_never(decision)
        self.writes.add(decision)

    def warn_of_never(self, wait: Wait) -> None:
        """Send a warning Event to the Job if it cannot start in the present configuration."""
        if not isinstance(wait.why, Unassigned):
            return
        seen = self.cluster.workloads.get(wait.workload)
        words = "" if seen is None else never(wait.reason, wait.why, shrinkable_of(seen))
        about = None if seen is None or not words else owner(seen.metadata)
        if about is not None:
            self.cluster.events.warning(about, NEVER, words, REPORTER, by_note=True)

    def write_due_reasons(self) -> Instant | None:
        """Start the writes of due reasons; returns when the next is due."""
        if not (self.engine.leading and self.engine.synced):
            return None
        now = self.cluster.clock.now()
        for wait, own in self.reasons.due(now, busy=self.writes.is_busy, later=self.writes.left_alone_until):
            if not own:
                self.warn_of_never(wait)
            self.writes.start(wait.workload)
        return self.reasons.next_due(now)


def is_overtaken(old: Workload, new: Workload) -> bool:
    """Whether a Workload is no longer pending, or another writer has set its reason."""
    before, now = ({c.type: c for c in seen.status.conditions} for seen in (old, new))
    over = inbound.held(now, WorkloadCondition.FINISHED) is not None or new.status.admission is not None
    return over or inbound.waiting(before) != inbound.waiting(now)


class Explained:
    """A decision as text, built only if it is logged."""

    def __init__(self, decision: Decision, engine: Engine) -> None:
        self.decision = decision
        self.engine = engine

    def __str__(self) -> str:
        return explain(self.decision, self.engine.workload(self.decision.workload))
