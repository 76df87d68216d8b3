"""Amounts over time: exact steps where jobs are few, means of equal bins where they are many."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant
from pykueue.reports.records import Period

MINUTE: Final = 60 * MICROS
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WIDTHS: Final = (
    *(MICROS * one for one in (1, 2, 5, 10, 15, 30)),
    *(MINUTE * one for one in (1, 2, 5, 10, 15, 30)),
    *(HOUR * one for one in (1, 2, 3, 6, 12)),
    *(DAY * one for one in (1, 2, 7, 14, 28)),
)
"""Lengths of bins, and distances of ticks, that people read easily."""


class Curve(Frozen):
    """A step function: each value holds from its instant to the next one, the last to the end."""

    times: tuple[Instant, ...]
    values: tuple[float, ...]
    end: Instant

    @property
    def peak(self) -> float:
        """The highest value."""
        return max(self.values, default=0.0)

    @property
    def mean(self) -> float:
        """The mean over the whole time."""
        if not self.times or self.end <= self.times[0]:
            return 0.0
        return self.total / (self.end - self.times[0])

    @property
    def total(self) -> float:
        """The value times microseconds, summed over the whole time."""
        ends = (*self.times[1:], self.end)
        return sum(value * (end - at) for at, end, value in zip(self.times, ends, self.values, strict=True))

    def at(self, instant: Instant) -> float:
        """The value at an instant; 0 before the first."""
        place = bisect_right(self.times, instant) - 1
        return self.values[place] if place >= 0 else 0.0


def width_for(period: Period, most: int) -> int:
    """The length of a bin with which so many cover the period at most."""
    return next((one for one in WIDTHS if -(-period.length // one) <= most), -(-period.length // most))


class Bins:
    """The mean of an amount in each of a number of equal bins; adding a stretch takes the same time however long."""

    def __init__(self, period: Period, width: int, offset: int = 0) -> None:
        self.period = period
        self.width = width
        self.origin = (period.begin + offset * MICROS) // width * width - offset * MICROS
        """The first bin begins at a round time of the reader's clock, at or before the period."""
        count = -(-(max(period.end, period.begin + 1) - self.origin) // width)
        self.parts = [0] * count
        """Amount times microseconds of stretches that do not fill a bin."""
        self.changes = [0] * (count + 1)
        """By how much the amount changes that fills whole bins."""

    def add(self, begin: int, end: int, amount: int) -> None:
        """Add an amount from an instant to another; what lies outside the period is left out."""
        begin, end = max(begin, self.period.begin) - self.origin, min(end, self.period.end) - self.origin
        if begin >= end:
            return
        width = self.width
        first, last = begin // width, end // width
        if first == last:
            self.parts[first] += amount * (end - begin)
            return
        self.parts[first] += amount * ((first + 1) * width - begin)
        self.changes[first + 1] += amount
        self.changes[last] -= amount
        if last * width < end:
            self.parts[last] += amount * (end - last * width)

    def curve(self) -> Curve:
        """The means."""
        times = [max(self.period.begin, self.origin + number * self.width) for number in range(len(self.parts))]
        ends = [*times[1:], max(self.period.end, self.period.begin + 1)]
        whole = accumulate(self.changes[: len(self.parts)])
        values = [full + part / (end - at) for full, part, at, end in zip(whole, self.parts, times, ends, strict=True)]
        return Curve(tuple(map(Instant, times)), tuple(values), Instant(ends[-1]))


def exact(period: Period, stretches: Iterable[tuple[int, int, int]]) -> Curve:
    """The sum of amounts, each from an instant to another."""
    changes: dict[int, int] = {period.begin: 0}
    for since, until, amount in stretches:
        begin, end = max(since, period.begin), min(until, period.end)
        if begin < end:
            changes[begin] = changes.get(begin, 0) + amount
            changes[end] = changes.get(end, 0) - amount
    if period.end > period.begin:
        changes.pop(period.end, None)
    times = sorted(changes)
    values = accumulate(changes[at] for at in times)
    return Curve(tuple(map(Instant, times)), tuple(map(float, values)), Instant(max(period.end, period.begin + 1)))


def stepwise(period: Period, levels: Sequence[tuple[int, int]]) -> Curve:
    """Levels that each hold from an instant on, in order of time."""
    found: dict[int, float] = {period.begin: 0.0}
    for since, level in levels:
        if since < period.end:
            found[max(since, period.begin)] = float(level)
    return Curve(
        tuple(map(Instant, sorted(found))),
        tuple(found[at] for at in sorted(found)),
        Instant(max(period.end, period.begin + 1)),
    )


def added(period: Period, curves: Sequence[Curve]) -> Curve:
    """The sum of curves over the same period."""
    if all(one.times == curves[0].times for one in curves):
        values = tuple(map(sum, zip(*(one.values for one in curves), strict=True)))
        return Curve(curves[0].times, values, curves[0].end)
    times = sorted({at for one in curves for at in one.times})
    return Curve(tuple(times), tuple(sum(one.at(at) for one in curves) for at in times), Instant(period.end))
