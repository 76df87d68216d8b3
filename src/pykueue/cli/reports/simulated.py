"""The material of a report from a simulation."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

from pykueue.base.text import printable
from pykueue.base.units import Instant
from pykueue.cli.reports.writing import HTML
from pykueue.cli.tables import table
from pykueue.engine.decisions import Bypassed, Wait
from pykueue.engine.model import ClusterQueue, Cohort
from pykueue.reports.comparison import FINISHED, Compared, by_queue, compared_page, compared_picture, overall
from pykueue.reports.figures import Figures, figures
from pykueue.reports.page import report_page
from pykueue.reports.picture import report_picture
from pykueue.reports.records import Holding, Job, Material, Period, Quota, Run
from pykueue.sim.report import ENDINGS, Report, usage_after, waits_now
from pykueue.sim.world import Moment, MomentKind, Past

TITLE: Final = "Simulation of queues"
LEFT: Final = (MomentKind.PREEMPTED, MomentKind.EVICTED)


class Traced:
    """What happened to one workload."""

    def __init__(self, *, checkpoint: bool) -> None:
        self.checkpoint = checkpoint
        self.arrived: Instant | None = None
        self.waits: list[tuple[Instant, Instant]] = []
        self.runs: list[Run] = []
        self.waiting: Instant | None = None
        self.running: Instant | None = None
        self.ready: Instant | None = None
        """Since when it makes progress."""
        self.ended: Instant | None = None
        self.preempted = 0
        self.lost = 0
        self.held: list[tuple[Instant, dict[tuple[str, str, str], int]]] = []
        """What it held from each instant on."""

    def take(self, moment: Moment) -> None:
        """Follow one event."""
        at, what, level = moment.at, moment.what, moment.level
        usage = usage_after(moment)
        if usage is not None:
            self.held.append((at, dict(usage)))
        match what:
            case MomentKind.ARRIVES:
                self.arrived = at
            case MomentKind.STARTS:
                self.stop_waiting(at)
                self.running = at
            case MomentKind.RUNS:
                self.ready = at
            case MomentKind.PREEMPTED | MomentKind.EVICTED:
                self.preempted += what is MomentKind.PREEMPTED
                self.leave(at, evicted=True)
            case MomentKind.FINISHES | MomentKind.DEACTIVATED:
                self.stop_waiting(at)
                self.leave(at, evicted=False)
                self.ended = at
            case _:
                pass
        if what in (MomentKind.ARRIVES, *LEFT) and level is not None and waits_now(level) and self.waiting is None:
            self.waiting = at

    def stop_waiting(self, at: Instant) -> None:
        """A wait is over."""
        if self.waiting is not None and at > self.waiting:
            self.waits.append((self.waiting, at))
        self.waiting = None

    def leave(self, at: Instant, *, evicted: bool) -> None:
        """A run is over."""
        if self.running is not None:
            progress = 0 if self.ready is None else at - self.ready
            lost = progress if evicted and not self.checkpoint else 0
            self.lost += lost
            self.runs.append(Run(self.running, at, evicted, bool(lost)))
        self.running = self.ready = None

    def close(self, end: Instant) -> None:
        """The simulation is over; what is under way counts so far."""
        if self.waiting is not None and end > self.waiting:
            self.waits.append((self.waiting, end))
        if self.running is not None:
            self.runs.append(Run(self.running, end))

    def holdings(self, end: Instant) -> Iterator[Holding]:
        """What it held, and when."""
        for (begin, usage), (until, _) in pairwise((*self.held, (end, {}))):
            for (queue, flavor, resource), amount in usage.items():
                if amount and begin < until:
                    yield Holding(queue, flavor, resource, amount, begin, until)

    def requests(self) -> dict[str, int]:
        """What it held at most, by resource."""
        found: dict[str, int] = {}
        for _, usage in self.held:
            totals: dict[str, int] = {}
            for (_, _, resource), amount in usage.items():
                totals[resource] = totals.get(resource, 0) + amount
            found = {name: max(found.get(name, 0), totals.get(name, 0)) for name in (*found, *totals)}
        return found


class Plots:
    """The plots of one simulation, or of two that are compared."""

    def __init__(self, pasts: Sequence[Past], found: Sequence[Report], names: tuple[str, str]) -> None:
        self.pasts = pasts
        self.found = found
        self.names = names

    @cached_property
    def figures(self) -> list[Figures]:
        """What is counted of each."""
        return [figures(material_of(past, one)) for past, one in zip(self.pasts, self.found, strict=True)]

    def text(self, form: str) -> str:
        """The page or the picture."""
        if len(self.figures) == 1:
            return (report_page if form == HTML else report_picture)(self.figures[0])
        return (compared_page if form == HTML else compared_picture)(self.compared)

    @property
    def compared(self) -> Compared:
        """Both simulations."""
        first, second = self.figures
        return Compared(first, second, self.names)

    def differences(self) -> Iterator[str]:
        """The differences as lines of text."""
        whole = [(one.measure, one.first, one.second, one.change) for one in overall(self.compared)]
        yield ""
        yield f"A: {printable(self.names[0])}"
        yield f"B: {printable(self.names[1])}"
        yield from table(("all queues", "A", "B", "difference"), whole, "<>>>")
        yield ""
        rows = [(queue, one.measure, one.first, one.second, one.change) for queue, one in by_queue(self.compared)]
        yield from table(("ClusterQueue", "", "A", "B", "difference"), rows, "<<>>>")
        yield ""
        yield "These waits include the time after evictions; those above end with the first start."


def material_of(past: Past, found: Report) -> Material:
    """Everything that a report shows of a simulation."""
    traced = {one.workload.key: Traced(checkpoint=one.plan.checkpoint) for one in past.trace.arrivals}
    reasons: dict[str, str] = {}
    for moment, line in zip(past.moments, found.lines, strict=True):
        traced[moment.workload].take(moment)
        if isinstance(moment.decision, Wait) and not isinstance(moment.decision.why, Bypassed):
            reasons[moment.workload] = line.why
    end = past.end
    standing = {one.workload: one for one in found.waiting}
    jobs: list[Job] = []
    holdings: list[Holding] = []
    for row in found.jobs:
        one = traced[row.workload]
        one.close(end)
        holdings += one.holdings(end)
        left = standing.get(row.workload)
        jobs.append(
            Job(
                row.name,
                row.queue,
                row.arrived,
                sum(until - since for since, until in one.waits),
                FINISHED if left is None else left.state,
                row.started,
                one.ended,
                reasons.get(row.workload, "") if left is None or left.state == "runs" else left.why,
                one.preempted,
                one.lost,
                one.requests(),
                tuple(one.runs),
                tuple(one.waits),
                one.waiting is not None,
                one.running is not None,
            )
        )
    return Material(
        TITLE,
        Period(past.trace.start, end),
        past.trace.start,
        f"{ENDINGS[past.ended].capitalize()}.",
        tuple(jobs),
        tuple(holdings),
        tuple(quotas(past)),
        found.notes,
        elapsed=True,
    )


def quotas(past: Past) -> Iterator[Quota]:
    """The quotas of queues, and those of cohorts."""
    for thing in past.trace.things:
        if isinstance(thing, ClusterQueue | Cohort):
            for quota in thing.quotas:
                of_cohort = isinstance(thing, Cohort)
                yield Quota(thing.name, quota.flavor, quota.resource, quota.nominal, of_cohort=of_cohort)
