"""What happened to workloads, from the facts and decisions in a journal: when each waited, ran and held quota."""

from collections.abc import Iterator, Mapping
from typing import assert_never

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.decisions import Admit, Bypassed, Deactivate, Decision, Evict, Requeue, Reserve, Unreserve, Wait
from pykueue.engine.facts import Fact, Gone, Leading, Refused, Seen, Stopped, Synced, Written
from pykueue.engine.model import Admission, ClusterQueue, Cohort, LocalQueue, Workload
from pykueue.engine.record.checkpoint import Checkpoint
from pykueue.reports.records import Holding, Quota, Run

Slots = dict[tuple[str, str, str], int]
"""Amounts by ClusterQueue, flavor and resource."""


class Standing(Frozen):
    """How a workload stands, so that a decision that is refused can be taken back."""

    waiting: Instant | None = None
    running: Instant | None = None
    held: Mapping[tuple[str, str, str], int] = {}
    held_since: Instant = Instant(0)


def slots_of(admission: Admission) -> Slots:
    """What an admission holds."""
    found: Slots = {}
    for assignment in admission.assignments:
        flavors = dict(assignment.flavors)
        for resource, amount in assignment.usage:
            slot = (admission.queue, flavors.get(resource, ""), resource)
            found[slot] = found.get(slot, 0) + amount
    return found


class Life:
    """One workload."""

    def __init__(self, level: Workload) -> None:
        self.key = level.key
        self.uid = level.uid
        self.local_queue = level.local_queue
        self.created = level.created
        self.queue = ""
        """The ClusterQueue that admitted it last."""
        self.waiting: Instant | None = None
        self.running: Instant | None = None
        self.held: Mapping[tuple[str, str, str], int] = {}
        self.held_since = Instant(0)
        self.before: tuple[Standing, int, int, int] | None = None
        """How it stood before the last decision, and how many waits, runs and holdings there were."""
        self.waits: list[tuple[Instant, Instant]] = []
        self.runs: list[Run] = []
        self.holdings: list[Holding] = []
        self.requests: dict[str, int] = {}
        self.started: Instant | None = None
        self.ended: Instant | None = None
        self.preempted = 0
        self.lost = 0
        self.waits_for: Wait | None = None
        self.last = level.created
        self.active = level.active

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.key.partition("/")[0]

    @property
    def state(self) -> str:
        """How it stands, for people."""
        if self.ended is not None:
            return "ended"
        return "running" if self.running is not None else "waiting" if self.waiting is not None else "inactive"

    @property
    def has_reason(self) -> bool:
        """Whether a reason is known that is not older than the present wait."""
        return self.waits_for is not None and self.waits_for.at >= (self.waiting or 0)

    def level(self, level: Workload, now: Instant) -> None:
        """Take what a new process sees of it first for how it is."""
        if level.finished:
            self.end(now)
        elif level.admission is not None:
            if not self.held:
                self.hold(level.admission, level.reserved_at or now)
            if level.admitted_at is not None and level.evicted is None and self.running is None:
                self.start(level.admitted_at)
        elif self.held:
            self.stop(now, evicted=False)
            self.release(now)
        if not level.finished and level.admitted_at is None and level.active and self.waiting is None:
            self.waiting = level.created if not self.runs else now

    def remember(self) -> None:
        """Keep how it stands, in case that the next decision is refused."""
        standing = Standing(self.waiting, self.running, self.held, self.held_since)
        self.before = standing, len(self.waits), len(self.runs), len(self.holdings)

    def take_back(self) -> None:
        """The last decision was refused."""
        if self.before is None:
            return
        standing, waits, runs, holdings = self.before
        self.waiting, self.running = standing.waiting, standing.running
        self.held, self.held_since = standing.held, standing.held_since
        del self.waits[waits:], self.holdings[holdings:]
        for run in self.runs[runs:]:
            self.lost -= run.end - run.begin if run.evicted else 0
        del self.runs[runs:]
        self.before = None

    def hold(self, admission: Admission, at: Instant) -> None:
        """It holds quota from now on."""
        self.queue = admission.queue
        self.held, self.held_since = slots_of(admission), at
        for (_, _, resource), amount in self.held.items():
            self.requests[resource] = max(self.requests.get(resource, 0), amount)

    def start(self, at: Instant) -> None:
        """It runs from now on."""
        if self.waiting is not None and at > self.waiting:
            self.waits.append((self.waiting, at))
        self.waiting = None
        self.running = at
        self.started = self.started or at

    def stop(self, at: Instant, *, evicted: bool) -> None:
        """Its run is over."""
        if self.running is not None:
            self.runs.append(Run(self.running, at, evicted, evicted))
            self.lost += at - self.running if evicted else 0
        self.running = None

    def release(self, at: Instant) -> None:
        """It holds no quota any more."""
        for (queue, flavor, resource), amount in self.held.items():
            if amount and at > self.held_since:
                self.holdings.append(Holding(queue, flavor, resource, amount, self.held_since, at))
        self.held = {}

    def end(self, at: Instant) -> None:
        """It has finished, or is gone."""
        if self.ended is None:
            self.stop(at, evicted=False)
            self.release(at)
            if self.waiting is not None and at > self.waiting:
                self.waits.append((self.waiting, at))
            self.waiting = None
            self.ended = self.last = at

    def close(self, end: Instant) -> None:
        """The journal is over; what is under way counts so far."""
        if self.ended is None:
            self.last = end
            if self.waiting is not None and end > self.waiting:
                self.waits.append((self.waiting, end))
            if self.running is not None:
                self.runs.append(Run(self.running, end))
            self.release(end)


class Lives:
    """Follows all workloads through journals, oldest first."""

    def __init__(self) -> None:
        self.now = Instant(0)
        self.first = Instant(0)
        self.open: dict[str, Life] = {}
        """By key, those that are there."""
        self.over: list[Life] = []
        self.local: dict[str, str] = {}
        """The ClusterQueue of each LocalQueue."""
        self.quotas: list[Quota] = []
        self.nominal: dict[tuple[bool, str], dict[tuple[str, str], int]] = {}
        """The last quotas of each queue and cohort."""
        self.unseen: set[str] = set()
        """Workloads that a new process has not seen yet."""
        self.fresh = False
        """Whether a process is reading everything that there is."""
        self.gap = Instant(0)
        """When the process before it was last heard of."""

    def all(self) -> Iterator[Life]:
        """Every workload, those that are gone first."""
        yield from self.over
        yield from self.open.values()

    def at(self, now: Instant) -> None:
        """Time goes on."""
        self.gap, self.now = self.now or now, max(self.now, now)
        self.first = self.first or now

    def begin(self, saved: Checkpoint) -> None:
        """A journal begins with this state."""
        self.fresh, self.unseen = True, set(self.open)
        for fact in saved.facts:
            self.observe(fact)
        for item in saved.items:
            self.see(item.workload)
        if saved.synced:
            self.settle()

    def settle(self) -> None:
        """Everything that there is has been seen; what was not seen went while no process was there."""
        for key in self.unseen & set(self.open):
            self.leave(key, self.gap)
        self.fresh, self.unseen = False, set()

    def observe(self, fact: Fact) -> None:
        """Follow a fact."""
        match fact:
            case Seen(Workload() as level):
                self.see(level)
            case Seen(ClusterQueue() | Cohort() as thing):
                self.quota(thing)
            case Seen(LocalQueue() as thing):
                self.local[thing.key] = thing.queue
            case Gone("Workload", name):
                self.leave(name, self.now)
            case Gone("ClusterQueue" | "Cohort" as kind, name):
                self.quotas_are({}, (kind == "Cohort", name))
            case Refused(workload) if workload in self.open:
                self.open[workload].take_back()
            case Synced():
                self.settle()
            case Seen() | Gone() | Stopped() | Leading() | Written() | Refused():
                pass
            case _:
                assert_never(fact)

    def see(self, level: Workload) -> None:
        """Follow a workload; only what a process sees first is how it is, later levels may be older than decisions."""
        self.unseen.discard(level.key)
        life = self.open.get(level.key)
        if life is not None and life.uid != level.uid:
            self.leave(level.key, self.now)
            life = None
        if life is None:
            if level.finished:
                return
            life = self.open[level.key] = Life(level)
            life.level(level, self.now)
        elif self.fresh:
            life.level(level, self.now)
        life.local_queue = level.local_queue
        if not level.active and life.waiting is not None and not life.held:
            life.waits += [(life.waiting, self.now)] if self.now > life.waiting else []
            life.waiting = None
        elif level.active and not life.active and life.waiting is None and not life.held:
            life.waiting = self.now
        life.active = level.active
        if level.finished:
            self.leave(level.key, self.now)

    def leave(self, key: str, at: Instant) -> None:
        """A workload has finished, or is gone."""
        life = self.open.pop(key, None)
        if life is not None:
            life.end(at)
            self.over.append(life)

    def quota(self, thing: ClusterQueue | Cohort) -> None:
        """Follow the quotas of a queue or cohort."""
        amounts = {(one.flavor, one.resource): one.nominal for one in thing.quotas}
        self.quotas_are(amounts, (isinstance(thing, Cohort), thing.name))

    def quotas_are(self, amounts: Mapping[tuple[str, str], int], owner: tuple[bool, str]) -> None:
        """Note the quotas that have changed."""
        known = self.nominal.setdefault(owner, {})
        # The quotas with which the journals begin are taken to be older.
        since = Instant(0) if self.now == self.first else self.now
        for place in dict.fromkeys((*known, *amounts)):
            nominal = amounts.get(place, 0)
            if known.get(place) != nominal:
                known[place] = nominal
                self.quotas.append(Quota(owner[1], *place, nominal, since, of_cohort=owner[0]))

    def decide(self, decision: Decision) -> None:
        """Follow a decision."""
        life = self.open.get(decision.workload)
        if life is None:
            return
        if isinstance(decision, Wait):
            if not isinstance(decision.why, Bypassed) or not life.has_reason:
                life.waits_for = decision
            return
        life.remember()
        at = decision.at
        match decision:
            case Reserve(admission=admission):
                life.hold(admission, at)
            case Admit(admission=admission):
                if not life.held:
                    life.hold(admission, at)
                life.start(at)
            case Evict(preemption=preemption):
                life.preempted += preemption is not None
                life.stop(at, evicted=True)
                life.waiting = at
            case Unreserve():
                life.stop(at, evicted=False)
                life.release(at)
                life.waiting = at if life.waiting is None else life.waiting
            case Deactivate():
                if life.waiting is not None and at > life.waiting:
                    life.waits.append((life.waiting, at))
                life.waiting = None
            case Requeue():
                pass
            case _:
                assert_never(decision)
