"""The result of a simulation: events in words, and tables of waits and usage. Next: `document`."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from pykueue.base.struct import Frozen
from pykueue.base.units import UNLIMITED, Instant, amount_text, format_instant
from pykueue.engine.decisions import (
    Admit,
    Deactivate,
    Evict,
    Inactive,
    Queued,
    QueueMissing,
    Reserve,
    Unreserve,
    Wait,
    Why,
)
from pykueue.engine.model import ClusterQueue, LocalQueue, Workload
from pykueue.engine.record.explain import because, reason, what_helps
from pykueue.engine.wording import message
from pykueue.jobs.manifest import with_job_paths
from pykueue.sim.world import End, Moment, MomentKind, Past

NO_QUEUE: Final = "(none)"

FOLLOWS: Final[Mapping[MomentKind, tuple[MomentKind, ...]]] = {
    MomentKind.RUNS: (MomentKind.STARTS,),
    MomentKind.RELEASES: (MomentKind.PREEMPTED, MomentKind.EVICTED),
}

ENDINGS: Final = {
    End.REST: "nothing is left to happen",
    End.UNTIL: "the requested time is over",
    End.REPEATS: "what is left repeats itself: jobs whose pods are never ready are tried again and again; "
    "see --until, or set backoffLimitCount",
    End.BOUND: "it did not settle after very many rounds, so it was stopped; see --until",
    End.STARTED: "the job that was awaited has started",
}


class Line(Frozen):
    """One event, in words."""

    at: Instant
    workload: str
    name: str
    queue: str
    what: MomentKind
    why: str
    helps: tuple[str, ...] = ()
    reason: str = ""
    """The reason in Kueue's spelling."""
    message: str = ""
    """The message that Kueue would write into the condition."""
    by: str = ""
    beside: bool = False
    """Whether the line before says all of it."""


class Spread(Frozen):
    """Statistics of durations, in microseconds."""

    count: int
    mean: int
    p50: int
    p90: int
    p95: int
    p99: int
    longest: int


class QueueRow(Frozen):
    """Statistics of the workloads of one ClusterQueue."""

    queue: str
    workloads: int
    admissions: int
    finished: int
    wait: Spread | None
    """From arrival to the first start."""
    waited: int
    """Microseconds that its workloads waited in total: before their first start, and again after each eviction."""
    preempts: int
    """How often one of its workloads preempted another."""
    preempted: int
    evicted: int
    """How often one of its workloads was evicted for another reason."""


class UseRow(Frozen):
    """Usage of a quota."""

    queue: str
    flavor: str
    resource: str
    nominal: int
    tenths_of_percent: int | None
    """The usage over the whole time; None without a nominal quota."""
    peak: int


class WaitingRow(Frozen):
    """A workload that has not finished, and why."""

    workload: str
    name: str
    queue: str
    since: Instant
    state: str
    why: str
    helps: tuple[str, ...]


class JobRow(Frozen):
    """One workload, from its arrival to its end."""

    workload: str
    name: str
    queue: str
    arrived: Instant
    started: Instant | None
    """Its first start."""
    finished: Instant | None
    waited: int
    """Microseconds that it waited in total, including after evictions."""
    evictions: int
    """How often it was preempted or evicted."""


class Report(Frozen):
    """The printable result of a simulation."""

    start: Instant
    end: Instant
    ended: End
    lines: tuple[Line, ...]
    """All events, in order; empty if they were not asked for."""
    queues: tuple[QueueRow, ...]
    use: tuple[UseRow, ...]
    waiting: tuple[WaitingRow, ...]
    notes: tuple[str, ...]
    jobs: tuple[JobRow, ...] = ()
    """Every workload, in order of arrival."""


class Names:
    """Names that users know, and the queue of each workload."""

    def __init__(self, past: Past) -> None:
        local = {thing.key: thing.queue for thing in past.trace.things if isinstance(thing, LocalQueue)}
        self.names = {one.workload.key: one.name for one in past.trace.arrivals}
        self.queues = {one.workload.key: local.get(one.workload.local_queue) or NO_QUEUE for one in past.trace.arrivals}
        self.jobs = {one.workload.key for one in past.trace.arrivals if one.of_job}

    def of(self, key: str) -> str:
        """The user's name for a workload."""
        return self.names.get(key, key)

    def with_user_names(self, text: str, key: str) -> str:
        """A sentence about a workload, with the user's names and paths."""
        if key in self.jobs:
            text = with_job_paths(text)
        for word in text.split():
            bare = word.strip("(),;:.")
            if bare in self.names:
                text = text.replace(bare, self.names[bare])
        return text


def report(past: Past, *, events: bool = True) -> Report:
    """Build the report, on request without the events in words, which take longer than all tables."""
    names, waited = Names(past), waited_by(past)
    return Report(
        past.trace.start,
        past.end,
        past.ended,
        lines(past, names) if events else (),
        queue_rows(past, names, waited),
        use_rows(past),
        waiting_rows(past, names),
        past.trace.notes,
        job_rows(past, names, waited),
    )


def lines(past: Past, names: Names) -> tuple[Line, ...]:
    """All events, in order."""
    found: list[Line] = []
    latest: dict[str, Moment] = {}
    for moment in past.moments:
        before = latest.get(moment.workload)
        found.append(line(moment, before, names))
        latest[moment.workload] = moment
    return tuple(found)


def line(moment: Moment, before: Moment | None, names: Names) -> Line:
    """One event, in words."""
    decision, key = moment.decision, moment.workload
    word, text, by = "", "", ""
    helps: tuple[str, ...] = ()
    why = happening(moment, names) if decision is None else because(decision, moment.level)
    if isinstance(decision, Wait):
        word, text = decision.reason, message(decision.why)
        why, helps = verdict(decision.why, moment.level)
    elif isinstance(decision, Evict):
        word, text, by = decision.preemption or decision.reason, decision.message, names.of(decision.by)
    # To a reader, a start whose pods run at once, and an eviction whose pods are gone at once, are one event.
    follows: tuple[MomentKind, ...] = FOLLOWS.get(moment.what, ())
    if isinstance(decision, Wait) and isinstance(decision.why, Inactive):
        follows = (MomentKind.EVICTED, MomentKind.RELEASES)
    beside = before is not None and before.at == moment.at and before.what in follows
    queue = names.queues.get(key, NO_QUEUE)
    helps = tuple(names.with_user_names(one, key) for one in helps)
    return Line(
        moment.at,
        key,
        names.of(key),
        queue,
        moment.what,
        names.with_user_names(why, key),
        helps,
        word,
        text,
        by,
        beside,
    )


def verdict(why: Why, level: Workload | None) -> tuple[str, tuple[str, ...]]:
    """Why a workload waits, and what would help."""
    if isinstance(why, QueueMissing) and level is not None and is_queueless(level):
        return "it names no LocalQueue", ("name one in its spec.queueName",)
    return reason(why, level), what_helps(why)


def is_queueless(level: Workload) -> bool:
    """Whether a workload names no LocalQueue."""
    return level.local_queue.endswith("/")


def happening(moment: Moment, names: Names) -> str:
    """An event without a decision, in words."""
    level = moment.level
    if moment.what is MomentKind.ARRIVES and level is not None:
        priority = f", priority {level.priority}" if level.priority else ""
        if is_queueless(level):
            return f"asks {request(level)}, and names no LocalQueue{priority}"
        queue = names.queues.get(moment.workload, NO_QUEUE)
        target = f"ClusterQueue {queue}" if queue != NO_QUEUE else f"LocalQueue {level.local_queue}"
        return f"asks {request(level)} of {target}{priority}"
    return "all its pods are ready" if moment.what is MomentKind.RUNS else "it is done, and its room is free"


def request(workload: Workload) -> str:
    """What a workload requests in total."""
    totals: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        for resource, amount in pod_set.requests:
            totals[resource] = min(UNLIMITED, totals.get(resource, 0) + amount * pod_set.count)
    return " and ".join(f"{amount_text(name, amount)} {name}" for name, amount in totals.items()) or "nothing"


def queue_rows(past: Past, names: Names, waited: Mapping[str, int]) -> tuple[QueueRow, ...]:
    """The rows of the ClusterQueues, by name."""
    arrived = {one.workload.key: one.at for one in past.trace.arrivals}
    known = [thing.name for thing in past.trace.things if isinstance(thing, ClusterQueue)]
    counts: dict[str, dict[str, int]] = {name: {} for name in (*known, *names.queues.values())}
    waits: dict[str, list[int]] = {name: [] for name in counts}
    started: set[str] = set()
    for moment in past.moments:
        queue = names.queues[moment.workload]
        counts[queue][moment.what] = counts[queue].get(moment.what, 0) + 1
        if moment.what is MomentKind.STARTS and moment.workload not in started:
            started.add(moment.workload)
            waits[queue].append(moment.at - arrived[moment.workload])
        if isinstance(moment.decision, Evict) and moment.decision.by in names.queues:
            by = counts[names.queues[moment.decision.by]]
            by["preempts"] = by.get("preempts", 0) + 1
    return tuple(
        QueueRow(
            name,
            counts[name].get(MomentKind.ARRIVES, 0),
            counts[name].get(MomentKind.STARTS, 0),
            counts[name].get(MomentKind.FINISHES, 0),
            spread(waits[name]),
            sum(time for key, time in waited.items() if names.queues[key] == name),
            counts[name].get("preempts", 0),
            counts[name].get(MomentKind.PREEMPTED, 0),
            counts[name].get(MomentKind.EVICTED, 0),
        )
        for name in sorted(counts)
    )


def job_rows(past: Past, names: Names, waited: Mapping[str, int]) -> tuple[JobRow, ...]:
    """Every workload that has arrived, in order of arrival."""
    first: dict[MomentKind, dict[str, Instant]] = {what: {} for what in MomentKind}
    evictions: dict[str, int] = {}
    for moment in past.moments:
        first[moment.what].setdefault(moment.workload, moment.at)
        if moment.what in (MomentKind.PREEMPTED, MomentKind.EVICTED):
            evictions[moment.workload] = evictions.get(moment.workload, 0) + 1
    return tuple(
        JobRow(
            key,
            one.name,
            names.queues[key],
            first[MomentKind.ARRIVES][key],
            first[MomentKind.STARTS].get(key),
            first[MomentKind.FINISHES].get(key),
            waited.get(key, 0),
            evictions.get(key, 0),
        )
        for one in past.trace.arrivals
        if (key := one.workload.key) in first[MomentKind.ARRIVES]
    )


def waited_by(past: Past) -> Mapping[str, int]:
    """How long each workload waited in total: until its first start, and from each eviction to its next start.

    Time while it was deactivated does not count, since it requests nothing then.
    """
    total: dict[str, int] = {}
    since: dict[str, Instant] = {}
    for moment in past.moments:
        key, level = moment.workload, moment.level
        if moment.what in (MomentKind.STARTS, MomentKind.FINISHES, MomentKind.DEACTIVATED):
            total[key] = total.get(key, 0) + moment.at - since.pop(key, moment.at)
        elif (
            moment.what in (MomentKind.ARRIVES, MomentKind.PREEMPTED, MomentKind.EVICTED)
            and level is not None
            and waits_now(level)
        ):
            since.setdefault(key, moment.at)
    for key, at in since.items():
        total[key] = total.get(key, 0) + past.end - at
    return total


def waits_now(level: Workload) -> bool:
    """Whether a workload waits to start: it is not admitted, or is being stopped."""
    return level.active and not level.finished and (level.admitted_at is None or level.evicted is not None)


def spread(values: Sequence[int]) -> Spread | None:
    """Mean, percentiles by nearest rank, and maximum; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    count = len(ordered)
    p50, p90, p95, p99 = (ordered[-(-count * percent // 100) - 1] for percent in (50, 90, 95, 99))
    return Spread(count, sum(ordered) // count, p50, p90, p95, p99, ordered[-1])


class QuotaUse:
    """Present and accumulated usage of one quota."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self.total = 0
        """Amount times microseconds."""
        self.since = Instant(0)

    def change(self, amount: int, at: Instant) -> None:
        """Change the usage by this amount from now on."""
        self.total += self.now * (at - self.since)
        self.now, self.since = self.now + amount, at
        self.peak = max(self.peak, self.now)


Slot: TypeAlias = tuple[str, str, str]


def use_rows(past: Past) -> tuple[UseRow, ...]:
    """Each quota of each ClusterQueue, and its usage from the start to the end."""
    held: dict[Slot, QuotaUse] = {}
    holding: dict[str, Mapping[Slot, int]] = {}
    for moment in past.moments:
        usage = usage_after(moment)
        if usage is None:
            continue
        before = holding.get(moment.workload, {})
        for slot in dict.fromkeys((*before, *usage)):
            held.setdefault(slot, QuotaUse()).change(usage.get(slot, 0) - before.get(slot, 0), moment.at)
        holding[moment.workload] = usage
    span = past.end - past.trace.start
    rows = []
    for queue in sorted((one for one in past.trace.things if isinstance(one, ClusterQueue)), key=lambda one: one.name):
        for quota in queue.quotas:
            used = held.get((queue.name, quota.flavor, quota.resource), QuotaUse())
            used.change(0, past.end)
            capacity = quota.nominal * span
            share = None if capacity <= 0 else used.total * 1000 // capacity
            rows.append(UseRow(queue.name, quota.flavor, quota.resource, quota.nominal, share, used.peak))
    return tuple(rows)


def usage_after(moment: Moment) -> Mapping[Slot, int] | None:
    """What a workload holds from this moment on; None if the moment changes nothing."""
    decision, level = moment.decision, moment.level
    if isinstance(decision, Unreserve) or moment.what is MomentKind.FINISHES:
        return {}
    admission = decision.admission if isinstance(decision, Reserve | Admit) else None
    if moment.what is MomentKind.ARRIVES and level is not None and level.active and not level.finished:
        admission = level.admission
    if admission is None:
        return None
    usage: dict[Slot, int] = {}
    for assignment in admission.assignments:
        flavors = dict(assignment.flavors)
        for resource, amount in assignment.usage:
            slot = (admission.queue, flavors.get(resource, ""), resource)
            usage[slot] = usage.get(slot, 0) + amount
    return usage


def waiting_rows(past: Past, names: Names) -> tuple[WaitingRow, ...]:
    """The workloads that have not finished, since when, why, and what would help."""
    since: dict[str, Instant] = {}
    deactivated: dict[str, str] = {}
    for moment in past.moments:
        if isinstance(moment.decision, Deactivate):
            deactivated[moment.workload] = because(moment.decision)
        if moment.what not in (MomentKind.WAITS, MomentKind.RUNS):
            since[moment.workload] = moment.at
    rows = []
    for level in past.levels:
        if level.finished or level.key not in since:
            continue
        state, text, helps = standing(level, past.reasons.get(level.key, Queued()))
        text = text if level.active else deactivated.get(level.key, text)
        queue = names.queues[level.key]
        helps = tuple(names.with_user_names(one, level.key) for one in helps)
        text = names.with_user_names(text, level.key)
        rows.append(WaitingRow(level.key, names.of(level.key), queue, since[level.key], state, text, helps))
    return tuple(rows)


def standing(level: Workload, why: Why) -> tuple[str, str, tuple[str, ...]]:
    """The state of an unfinished workload, the reason, and what would help."""
    if level.admitted_at is not None and level.active:
        ready = level.pods_ready is not None and level.pods_ready.ready
        return ("runs", "it needs more time", ()) if ready else ("starts", "its pods are not all ready", ())
    if level.admission is not None and level.active:
        late = [check for check in level.checks if check.state != "Ready"]
        pending = ", ".join(check.name for check in late)
        messages = "".join(f": {check.message}" for check in late if check.message)
        return "reserves", f"AdmissionCheck {pending} is not ready{messages}", (f"see what {pending} waits for",)
    if level.requeue_at is not None and level.active:
        return "waits", f"it was evicted, and waits for its backoff until {format_instant(level.requeue_at)}", ()
    return "waits" if level.active else "deactivated", *verdict(why, level)
