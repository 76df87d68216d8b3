"""What a report counts: use against quota, waits, preemptions and lost work. Next: `charts`, `page`, `csvfile`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Final, TypeVar

from pykueue.base.struct import Frozen
from pykueue.reports.curves import Bins, Curve, added, exact, stepwise, width_for
from pykueue.reports.records import Holding, Job, Material, Others, Period, Quota

EXACT_MAX: Final = 1_000
"""With at most so many stretches, curves have every step; with more, means of bins."""
BINS_MAX: Final = 240
LONGEST: Final = 10

Key = tuple[str, str, str]
"""Queue, flavor and resource."""
Value = TypeVar("Value")


class Use(Frozen):
    """The use of a quota over time."""

    queue: str
    """Empty for all queues together."""
    flavor: str
    resource: str
    used: Curve
    binned: Curve
    """The same as means of equal bins."""
    nominal: Curve | None
    """None if no quota is known."""

    @property
    def share(self) -> float | None:
        """The mean use as a part of the mean nominal quota; None without quota."""
        if self.nominal is None or self.nominal.mean <= 0:
            return None
        return self.used.mean / self.nominal.mean


class Waits(Frozen):
    """How long the jobs of a queue waited, in microseconds; percentiles by nearest rank."""

    queue: str
    jobs: int
    waiting: int
    """How many of them still wait; what they have waited so far counts."""
    mean: int
    p10: int
    p25: int
    p50: int
    p75: int
    p90: int
    p99: int
    longest: int
    total: int


class Losses(Frozen):
    """Preemptions of the jobs of a queue, and the work lost to evictions."""

    queue: str
    jobs: int
    """How many of its jobs were preempted or lost work."""
    preempted: int
    lost: int
    """Microseconds of runs that were evicted."""
    amounts: Mapping[str, int]
    """The same by resource: amount times microseconds."""


class Figures(Frozen):
    """Everything that a report shows."""

    material: Material
    use: tuple[Use, ...]
    """By queue, flavor and resource; the most used first."""
    totals: tuple[Use, ...]
    """By flavor and resource, of all queues."""
    waiting: Curve
    """How many jobs wait."""
    width: int
    """The length of a bin in microseconds."""
    binned: bool
    """Whether the curves of use are means of bins."""
    waits: tuple[Waits, ...]
    """By queue; the one with the most time waited first."""
    all_waits: Waits
    losses: tuple[Losses, ...]
    all_losses: Losses
    longest: tuple[Job, ...]

    @property
    def period(self) -> Period:
        """The time that it is about."""
        return self.material.period

    @property
    def others(self) -> tuple[Others, ...]:
        """What the reader may not see, in numbers."""
        return self.material.others


def figures(material: Material) -> Figures:
    """Count everything."""
    period = material.period
    width = width_for(period, BINS_MAX)
    stretches = [(begin, end, 1) for job in material.jobs for begin, end in job.waits]
    counted = Counter(material, width)
    waits = by_queue(material.jobs)
    losses = [lost_by(queue, jobs) for queue, jobs in waits.items()]
    return Figures(
        material,
        counted.by_queue(),
        counted.totals(),
        counted.drawn(stretches),
        width,
        not counted.few(len(counted.holdings)),
        tuple(
            sorted((waits_of(queue, jobs) for queue, jobs in waits.items()), key=lambda one: (-one.total, one.queue))
        ),
        waits_of("", material.jobs),
        tuple(sorted((one for one in losses if one.jobs), key=lambda one: (-one.lost, -one.preempted, one.queue))),
        lost_by("", material.jobs),
        tuple(nlargest(LONGEST, (job for job in material.jobs if job.waited > 0), key=lambda job: job.waited)),
    )


class Counter:
    """Turns stretches of time into curves."""

    def __init__(self, material: Material, width: int) -> None:
        self.material = material
        self.period = material.period
        self.width = width
        period = self.period
        self.holdings = [one for one in material.holdings if one.end > period.begin and one.begin < period.end]
        self.held = grouped(self.holdings, lambda one: (one.queue, one.flavor, one.resource))
        self.quotas = by_key(one for one in material.quotas if not one.of_cohort)
        self.shared = by_key(one for one in material.quotas if one.of_cohort)
        """Quota that cohorts own themselves, which counts for all queues together."""

    def few(self, count: int) -> bool:
        """Whether so many stretches can be drawn one by one."""
        return count <= EXACT_MAX

    def binned(self, stretches: Iterable[tuple[int, int, int]]) -> Curve:
        """Means of bins."""
        bins = Bins(self.period, self.width, 0 if self.material.elapsed else self.material.offset)
        for begin, end, amount in stretches:
            bins.add(begin, end, amount)
        return bins.curve()

    def drawn(self, stretches: Sequence[tuple[int, int, int]]) -> Curve:
        """Every step if that is not too much, else means of bins."""
        return exact(self.period, stretches) if self.few(len(stretches)) else self.binned(stretches)

    def use(self, key: Key, held: Sequence[Holding], nominal: Curve | None) -> Use:
        """The use of one quota."""
        stretches = [(one.begin, one.end, one.amount) for one in held]
        binned = self.binned(stretches)
        used = exact(self.period, stretches) if self.few(len(self.holdings)) else binned
        return Use(*key, used, binned, nominal)

    def nominal(self, found: Sequence[Quota] | None) -> Curve | None:
        """A nominal quota over time."""
        if not found:
            return None
        return stepwise(self.period, [(one.since, one.nominal) for one in sorted(found, key=lambda one: one.since)])

    def by_queue(self) -> tuple[Use, ...]:
        """The use of every queue that has quota or used some."""
        keys = dict.fromkeys((*self.quotas, *self.held))
        found = [self.use(key, self.held.get(key, ()), self.nominal(self.quotas.get(key))) for key in keys]
        tops = {key: sum(one.used.total for one in same) for key, same in grouped(found, pool).items()}
        return tuple(sorted(found, key=lambda one: (-tops[pool(one)], *pool(one), -one.used.total, one.queue)))

    def totals(self) -> tuple[Use, ...]:
        """The use of each resource of each flavor by all queues together."""
        held = grouped(self.holdings, lambda one: (one.flavor, one.resource))
        quotas = grouped((*self.quotas.items(), *self.shared.items()), lambda one: one[0][1:])
        found = []
        for place in dict.fromkeys((*quotas, *held)):
            levels = [curve for _, same in quotas.get(place, ()) if (curve := self.nominal(same)) is not None]
            nominal = added(self.period, levels) if levels else None
            found.append(self.use(("", *place), held.get(place, ()), nominal))
        return tuple(sorted(found, key=lambda one: (-one.used.total, one.flavor, one.resource)))


def pool(one: Use) -> tuple[str, str]:
    """The flavor and resource of a quota."""
    return one.flavor, one.resource


Group = TypeVar("Group")


def grouped(found: Iterable[Value], key: Callable[[Value], Group]) -> dict[Group, list[Value]]:
    """Values by their keys, in the order in which keys are met."""
    groups: dict[Group, list[Value]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return groups


def by_key(quotas: Iterable[Quota]) -> dict[Key, list[Quota]]:
    """Quotas by owner, flavor and resource."""
    return grouped(quotas, lambda one: (one.queue, one.flavor, one.resource))


def by_queue(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    """Jobs by their queue."""
    return grouped(jobs, lambda job: job.queue)


def waits_of(queue: str, jobs: Sequence[Job]) -> Waits:
    """Statistics of the waits of some jobs."""
    times = sorted(job.waited for job in jobs)
    count = len(times)
    p10, p25, p50, p75, p90, p99 = (
        times[-(-count * percent // 100) - 1] if times else 0 for percent in (10, 25, 50, 75, 90, 99)
    )
    waiting = sum(job.pending for job in jobs)
    longest, total = (times[-1] if times else 0), sum(times)
    return Waits(queue, count, waiting, total // max(1, count), p10, p25, p50, p75, p90, p99, longest, total)


def lost_by(queue: str, jobs: Iterable[Job]) -> Losses:
    """Preemptions and lost work of some jobs."""
    affected = [job for job in jobs if job.preempted or job.lost]
    amounts: dict[str, int] = {}
    for job in affected:
        for resource, amount in job.requests.items():
            amounts[resource] = amounts.get(resource, 0) + amount * job.lost
    lost = sum(job.lost for job in affected)
    return Losses(queue, len(affected), sum(job.preempted for job in affected), lost, amounts)
