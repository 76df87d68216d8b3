"""Where are the counts kept? Per owner (a queue, a cohort), so that they go when it goes; shown when asked for.

Counting is a few dictionary operations: it happens for every workload, and being asked is rare.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from pykueue.controllers.families import Family, Kind

Labels: TypeAlias = tuple[str, ...]
Sample: TypeAlias = tuple[Labels, "float | Histogram"]


class Histogram:
    """How often something took how long, by buckets."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """It took so long once more."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """How often it took no longer than each bound, as it is shown."""
        found: list[tuple[str, float]] = []
        running = 0
        for bound, count in zip((*map(bound_text, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            found.append((bound, running))
        return found


def bound_text(bound: float) -> str:
    """A bound in Go's spelling, as Kueue shows it: `1`, `2.5`."""
    return f"{bound:g}" if bound < 10_000 else f"{bound:.0f}"


class Owner:
    """The counts of one queue or cohort: for each family, by the labels that are not the owner's own."""

    __slots__ = ("counters", "histograms")

    def __init__(self) -> None:
        self.counters: dict[str, dict[Labels, float]] = {}
        self.histograms: dict[str, dict[Labels, Histogram]] = {}

    def count(self, family: Family, labels: Labels) -> None:
        """It happened once more."""
        known = self.counters.setdefault(family.name, {})
        known[labels] = known.get(labels, 0) + 1

    def put(self, family: Family, labels: Labels, value: float) -> None:
        """It is so many now."""
        self.counters.setdefault(family.name, {})[labels] = value

    def observe(self, family: Family, labels: Labels, seconds: float) -> None:
        """It took so long once more; a clock that went back counts as no time at all."""
        known = self.histograms.setdefault(family.name, {})
        found = known.get(labels)
        if found is None:
            found = known[labels] = Histogram(family.buckets)
        found.observe(max(0.0, seconds))

    def samples(self, family: Family) -> Iterator[Sample]:
        """The series of a family."""
        yield from self.counters.get(family.name, {}).items()
        yield from self.histograms.get(family.name, {}).items()


class Owners:
    """The counts of all queues, or of all cohorts."""

    def __init__(self) -> None:
        self.known: dict[Labels, Owner] = {}

    def of(self, owner: Labels) -> Owner:
        """The counts of one, who may be new."""
        found = self.known.get(owner)
        if found is None:
            found = self.known[owner] = Owner()
        return found

    def forget(self, owner: Labels) -> None:
        """One is gone, and its series with it."""
        self.known.pop(owner, None)

    def samples(self, family: Family) -> Iterator[Sample]:
        """The series of a family, with their owners' labels first."""
        for owner, counts in self.known.items():
            for labels, value in counts.samples(family):
                yield (*owner, *labels), value


def shown(family: Family, samples: Iterable[Sample], role: str) -> Metric:
    """A family as Prometheus shows it."""
    match family.kind:
        case Kind.COUNTER:
            counters = CounterMetricFamily(family.name, family.help, labels=family.labels)
            for labels, value in samples:
                if not isinstance(value, Histogram):
                    counters.add_metric((*labels, role), value)
            return counters
        case Kind.GAUGE:
            gauges = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for labels, value in samples:
                if not isinstance(value, Histogram):
                    gauges.add_metric((*labels, role), value)
            return gauges
        case Kind.HISTOGRAM:
            histograms = HistogramMetricFamily(family.name, family.help, labels=family.labels)
            for labels, value in samples:
                if isinstance(value, Histogram):
                    histograms.add_metric((*labels, role), value.buckets(), value.total)
            return histograms


Gauges: TypeAlias = Mapping[str, Sequence[Sample]]
"""Series of gauges, by the name of their family."""
