"""Counts per owner (a queue or a cohort), which are dropped with it and rendered on request.

Counting takes a few dictionary operations: it happens for every workload, while scrapes are rare.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

from pykueue.controllers.metrics.exposition import STEP_PARTS, bucket_ends, bucket_start, number, pairs, start
from pykueue.controllers.metrics.families import Family, Kind

Labels: TypeAlias = tuple[str, ...]
Sample: TypeAlias = tuple[Labels, float]
Gauges: TypeAlias = Mapping[str, Sequence[Sample]]
"""Present values, by the name of the family."""
Named: TypeAlias = Mapping[str, Family]
"""Families that have more labels than usual, by name."""


class Counter:
    """A counter."""

    __slots__ = ("start", "value")

    def __init__(self, family: Family, labels: Labels) -> None:
        self.start = start(family.name, pairs(family.labels, labels))
        self.value: float = 0


class Histogram:
    """A histogram of durations."""

    __slots__ = ("bounds", "count_start", "counts", "ends", "start", "sum_start", "text", "total")

    def __init__(self, family: Family, labels: Labels) -> None:
        inside = pairs(family.labels, labels)
        self.start = bucket_start(family.name, inside)
        self.sum_start = start(f"{family.name}_sum", inside)
        self.count_start = start(f"{family.name}_count", inside)
        self.ends = bucket_ends(family.buckets)
        self.bounds = family.buckets
        self.counts = [0] * (len(family.buckets) + 1)
        self.total = 0.0
        self.text = ""
        """As rendered last; empty if it has changed since. Few histograms of many change between two scrapes."""

    def observe(self, seconds: float) -> None:
        """Add a duration; a negative one counts as zero."""
        if seconds < 0:
            seconds = 0.0
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds
        self.text = ""

    def rendered(self) -> str:
        """The lines of the buckets, the sum and the count."""
        if not self.text:
            begin, running = self.start, list(accumulate(self.counts))
            lines = [f"{begin}{end}{count}" for end, count in zip(self.ends, running, strict=True)]
            lines.append(f"{self.sum_start}{number(self.total)}")
            lines.append(f"{self.count_start}{running[-1]}")
            self.text = "\n".join(lines)
        return self.text


class Owner:
    """The counts of one queue or cohort: for each family, by the labels that are not the owner's own."""

    __slots__ = ("counters", "first", "histograms", "last", "named")

    def __init__(self, first: Labels = (), last: Labels = (), named: Named | None = None) -> None:
        self.first = first
        self.last = last
        """The values of the first and the last labels, which all its series share."""
        self.named = named or {}
        self.counters: dict[str, dict[Labels, Counter]] = {}
        self.histograms: dict[str, dict[Labels, Histogram]] = {}

    def counter(self, family: Family, labels: Labels) -> Counter:
        """One of its counters, created if necessary."""
        known = self.counters.get(family.name)
        if known is None:
            known = self.counters[family.name] = {}
        found = known.get(labels)
        if found is None:
            family = self.named.get(family.name, family)
            found = known[labels] = Counter(family, (*self.first, *labels, *self.last))
        return found

    def count(self, family: Family, labels: Labels, by: float = 1) -> None:
        """Count an event, or add an amount."""
        self.counter(family, labels).value += by

    def put(self, family: Family, labels: Labels, value: int) -> None:
        """Set a value."""
        self.counter(family, labels).value = value

    def observe(self, family: Family, labels: Labels, seconds: float) -> None:
        """Add a duration."""
        known = self.histograms.get(family.name)
        if known is None:
            known = self.histograms[family.name] = {}
        found = known.get(labels)
        if found is None:
            family = self.named.get(family.name, family)
            found = known[labels] = Histogram(family, (*self.first, *labels, *self.last))
        found.observe(seconds)

    def write(self, family: Family, lines: list[str]) -> Iterator[None]:
        """Add the series of a family, in one step."""
        self.add(family, lines)
        yield

    def add(self, family: Family, lines: list[str]) -> None:
        """Add the series of a family."""
        if family.kind is Kind.HISTOGRAM:
            if histograms := self.histograms.get(family.name):
                lines += [one.rendered() for one in histograms.values()]
        elif counters := self.counters.get(family.name):
            lines += [f"{one.start}{number(one.value)}" for one in counters.values()]


class Owners:
    """The counts of all queues, or of all cohorts."""

    def __init__(
        self, last: Labels = (), named: Named | None = None, custom: Callable[[Labels], Labels] = lambda _: ()
    ) -> None:
        self.last = last
        self.named = named
        self.custom = custom
        """The values of the custom labels of an owner."""
        self.known: dict[Labels, Owner] = {}

    def of(self, owner: Labels) -> Owner:
        """The counts of one owner, created if necessary."""
        found = self.known.get(owner)
        if found is None:
            found = self.known[owner] = Owner(owner, (*self.custom(owner), *self.last), self.named)
        return found

    def forget(self, owner: Labels) -> None:
        """Drop an owner with its series."""
        self.known.pop(owner, None)

    def write(self, family: Family, lines: list[str]) -> Iterator[None]:
        """Add the series of a family, in steps."""
        for owner in list(self.known.values()):
            owner.add(family, lines)
            if len(lines) >= STEP_PARTS:
                yield
        yield


class Starts:
    """The texts before the numbers of gauges, cached between scrapes while the series exist."""

    def __init__(self, last: Labels = ()) -> None:
        self.last = last
        self.known: dict[str, dict[Labels, str]] = {}

    def write(self, family: Family, samples: Sequence[Sample], lines: list[str]) -> Iterator[None]:
        """Add the series of a family in steps, and drop cached texts of those that are gone."""
        known = self.known.setdefault(family.name, {})
        for labels, value in samples:
            begin = known.get(labels)
            if begin is None:
                begin = known[labels] = start(family.name, pairs(family.labels, (*labels, *self.last)))
            lines.append(f"{begin}{number(value)}")
            if len(lines) >= STEP_PARTS:
                yield
        if len(known) > len(samples):
            there = {labels for labels, _ in samples}
            self.known[family.name] = {labels: begin for labels, begin in known.items() if labels in there}
        yield
