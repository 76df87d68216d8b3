"""Plots with a row for each queue: how long its jobs waited, and the work that they lost."""

from collections.abc import Callable, Sequence
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.reports.charts import WIDE
from pykueue.reports.figures import Losses, Waits
from pykueue.reports.svg import Plot, fitting
from pykueue.reports.units import LONG_TICKS, duration, log_place

ROW: Final = 26.0
NAMES: Final = 190.0
"""The width of the column of names."""
NUMBERS: Final = 210.0
"""The width of the column of numbers."""
HEAD: Final = 8.0
FOOT: Final = 26.0


class WaitRow(Frozen):
    """A row of the plot of waits."""

    label: str
    """Empty if it belongs to the row above."""
    waits: Waits
    kind: str = ""
    """The class of its box, if it is not the usual one."""


def waits_chart(rows: Sequence[WaitRow], ident: str, *, title: str) -> Plot:
    """The distribution of waits: a line from the 10th to the 90th percentile, a box for the middle half, the median."""
    height = HEAD + ROW * max(1, len(rows)) + FOOT
    said = "; ".join(
        f"{row.label or row.kind}: median {duration(row.waits.p50)}, p90 {duration(row.waits.p90)}" for row in rows[:5]
    )
    plot = Plot(ident, title, said or "no jobs", WIDE, height)
    longest = max((row.waits.longest for row in rows), default=0)
    least = min((row.waits.p10 for row in rows if row.waits.jobs), default=0)
    lowest = max(at for at, _ in LONG_TICKS if at <= least)
    shown = [(at, words) for at, words in LONG_TICKS if lowest <= at <= max(longest, LONG_TICKS[1][0])]
    bottom_place, top_place = log_place(lowest), max(log_place(shown[-1][0]), log_place(longest))
    span = (top_place - bottom_place) * 1.02 or 1.0
    left, right, bottom = NAMES, WIDE - NUMBERS, height - FOOT

    def x(micros: float) -> float:
        return left + (right - left) * max(0.0, log_place(micros) - bottom_place) / span

    for at, words in shown:
        plot.line((x(at), x(at)), (HEAD, bottom), "base" if at == lowest else "grid")
        plot.text(x(at), bottom + 16, words, "tick", anchor="middle")
    for number, row in enumerate(rows):
        middle = HEAD + ROW * (number + 0.5)
        if row.label:
            plot.text(NAMES - 12, middle + 4, fitting(row.label, NAMES - 20), "name", anchor="end", full=row.label)
        draw_waits(plot, row, middle, x)
        numbers = f"{duration(row.waits.p50)} · {duration(row.waits.p90)} · {row.waits.jobs:,}"
        plot.text(WIDE - NUMBERS + 16, middle + 4, numbers, "number")
    return plot


def draw_waits(plot: Plot, row: WaitRow, middle: float, x: Callable[[float], float]) -> None:
    """Draw one distribution."""
    waits = row.waits
    if not waits.jobs:
        return
    plot.line((x(waits.p10), x(waits.p90)), (middle, middle), "whisker")
    # A box without a width would not be seen.
    edges = x(waits.p25), max(x(waits.p75), x(waits.p25) + 1)
    said = f"p25 {duration(waits.p25)}, median {duration(waits.p50)}, p75 {duration(waits.p75)}"
    plot.rect(edges, (middle - 7, middle + 7), f"box {row.kind}".rstrip(), said)
    plot.line((x(waits.p50), x(waits.p50)), (middle - 9, middle + 9), "median")
    plot.line((x(waits.p99), x(waits.p99)), (middle - 5, middle + 5), "whisker")
    plot.add("circle", {"cx": x(waits.longest), "cy": middle, "r": 3, "class": "most"})


def losses_chart(rows: Sequence[Losses], ident: str, *, title: str) -> Plot:
    """The time that runs took which were evicted, by queue."""
    height = HEAD + ROW * max(1, len(rows)) + HEAD
    said = "; ".join(f"{row.queue}: {duration(row.lost)}, {row.preempted} preemptions" for row in rows[:5])
    plot = Plot(ident, title, said or "nothing was lost", WIDE, height)
    longest = max((row.lost for row in rows), default=0) or 1
    right = WIDE - NUMBERS
    hatch = plot.hatch("over")
    for number, row in enumerate(rows):
        middle = HEAD + ROW * (number + 0.5)
        end = NAMES + (right - NAMES) * row.lost / longest
        plot.text(NAMES - 12, middle + 4, fitting(row.queue, NAMES - 20), "name", anchor="end", full=row.queue)
        drawn = f"M{NAMES},{middle - 7:.1f}H{max(end, NAMES + 1):.2f}V{middle + 7:.1f}H{NAMES}Z"
        plot.path([drawn], "loss", hatch)
        times = "1 preemption" if row.preempted == 1 else f"{row.preempted:,} preemptions"
        plot.text(end + 8, middle + 4, f"{duration(row.lost)} · {times}", "number")
    plot.line((NAMES, NAMES), (HEAD, height - HEAD), "base")
    return plot
