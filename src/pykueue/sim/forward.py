"""Runs the state of an engine forward in virtual time, with run times that are drawn for each run.

`estimates` does that until one workload starts, `waits` with both sides of a preview.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from pykueue.api.durations import Micros
from pykueue.api.estimates import HORIZON_DAYS, RunTimeSources
from pykueue.base.units import MICROS, Instant
from pykueue.bridge.runtimes import JobKind, Learned, RunTimesTable, kind_of
from pykueue.engine.model import ClusterQueue, Cohort, LocalQueue, Workload
from pykueue.engine.record.checkpoint import Checkpoint
from pykueue.sim.plans import RunPlan
from pykueue.sim.runtimes import ENOUGH
from pykueue.sim.trace import Arrival, Trace
from pykueue.sim.world import World

MINUTE: Final = 60 * MICROS
HORIZON: Final = HORIZON_DAYS * 24 * 60 * MINUTE


class RunTimeFacts(NamedTuple):
    """What the run time of a workload is drawn from: the arguments of `Draws.seconds`."""

    kind: JobKind
    limit: int | None
    """How many seconds it may run from its admission on."""
    elapsed: int
    """For how many seconds it has run."""
    name: str


class RunTimeKnowledge:
    """What is known of how long workloads run."""

    def __init__(self, learned: Learned, limits: Mapping[str, int]) -> None:
        self.table = RunTimesTable(learned)
        self.limits = limits
        """How many seconds a job may run, by its UID, where that is not in its workload."""

    def facts(self, workload: Workload, now: Instant) -> RunTimeFacts:
        """What is known of a workload."""
        return RunTimeFacts(kind_of(workload), self.limit(workload), elapsed(workload, now) // MICROS, workload.key)

    def limit(self, workload: Workload) -> int | None:
        """How many seconds a workload may run from its admission on."""
        own = None if workload.max_run is None else workload.max_run - workload.past_run
        of_job = self.limits.get(workload.job_uid) if workload.job_uid else None
        return min((one for one in (own, of_job) if one is not None), default=None)

    def sources(self, found: Sequence[RunTimeFacts]) -> RunTimeSources:
        """What the run times of some workloads rest on."""
        unlimited = [one for one in found if one.limit is None]
        known = [len(self.table.find(one.kind).seconds) for one in unlimited]
        few = [one for one in known if 0 < one < ENOUGH]
        return RunTimeSources(len(found), len(unlimited), known.count(0), len(few), min(few, default=0))


class QueueMap:
    """Which ClusterQueue a workload belongs to, and which ClusterQueues may share quota."""

    def __init__(self, saved: Checkpoint) -> None:
        things = [fact.thing for fact in saved.facts]
        self.local = {thing.key: thing.queue for thing in things if isinstance(thing, LocalQueue)}
        """The ClusterQueue of each LocalQueue."""
        self.parents = {thing.name: thing.parent for thing in things if isinstance(thing, Cohort)}
        self.cohorts = {thing.name: thing.cohort for thing in things if isinstance(thing, ClusterQueue)}
        """The cohort of each ClusterQueue; empty for none."""

    def queue_of(self, workload: Workload) -> str:
        """The ClusterQueue of a workload; empty if it has none."""
        return self.local.get(workload.local_queue, "") if workload.admission is None else workload.admission.queue

    def sharing(self, queue: str) -> frozenset[str]:
        """The ClusterQueues of the same tree of cohorts, this one included."""
        cohort = self.cohorts.get(queue)
        return self.within(cohort) if cohort else frozenset({queue})

    def within(self, cohort: str) -> frozenset[str]:
        """The ClusterQueues of the tree to which a cohort belongs."""
        root = root_of(cohort, self.parents)
        return frozenset(name for name, other in self.cohorts.items() if other and root_of(other, self.parents) == root)


class Forward:
    """The workloads of some ClusterQueues in a state, to be run forward from an instant."""

    def __init__(self, saved: Checkpoint, now: Instant, queues: Collection[str], also: str = "") -> None:
        self.now = now
        options = saved.options.pods_ready
        everything = options is not None and options.block_admission
        where = QueueMap(saved)
        self.workloads = {
            item.workload.key: item.workload
            for item in saved.items
            if item.workload.key == also
            or (not item.workload.finished and (everything or where.queue_of(item.workload) in queues))
        }
        """Those of the queues, and `also`; every unfinished one where pods that are not ready block all queues."""
        self.saved = without_others(saved, self.workloads)
        self.things = tuple(fact.thing for fact in saved.facts)

    def present(self, key: str, seconds: int) -> Arrival:
        """A workload of the state, which runs for this long in total."""
        workload = self.workloads[key]
        done = elapsed(workload, self.now)
        return Arrival(self.now, workload, RunPlan(Micros(seconds * MICROS)), key, done=Micros(done))

    def world(self, arrivals: Iterable[Arrival]) -> World:
        """The simulation of one run; `arrivals` includes `present` of every workload."""
        return World(Trace(self.now, self.saved.options, self.things, tuple(arrivals), begin=self.saved))


def elapsed(workload: Workload, now: Instant) -> int:
    """For how many microseconds a workload has run."""
    if workload.admitted_at is None or workload.evicted is not None:
        return 0
    return max(0, now - workload.admitted_at)


def without_others(saved: Checkpoint, kept: Collection[str]) -> Checkpoint:
    """The state with these workloads only. Those of another tree of cohorts change nothing for them."""
    return replace(
        saved,
        items=tuple(item for item in saved.items if item.workload.key in kept),
        queues=tuple(
            replace(queue, aside=tuple((key, news) for key, news in queue.aside if key in kept))
            for queue in saved.queues
        ),
        timers=tuple((at, key) for at, key in saved.timers if key in kept),
        touched=tuple(key for key in saved.touched if key in kept),
        not_ready=tuple(key for key in saved.not_ready if key in kept),
        without_queue=tuple(key for key in saved.without_queue if key in kept),
    )


def root_of(cohort: str, parents: Mapping[str, str]) -> str:
    """The root of a cohort's tree; of cohorts in a circle, the first by name."""
    seen: dict[str, None] = {}
    while cohort not in seen:
        seen[cohort] = None
        parent = parents.get(cohort, "")
        if not parent:
            return cohort
        cohort = parent
    return min(seen)


def middle(starts: Sequence[Instant | None]) -> Instant | None:
    """The median start of some runs; None if more than half of them do not start it."""
    known = sorted(one for one in starts if one is not None)
    index = (len(starts) - 1) // 2
    return known[index] if index < len(known) else None


def whole_minute(at: Instant, not_before: Instant) -> Instant:
    """The whole minute before a time."""
    return Instant(max(at // MINUTE * MINUTE, not_before))
