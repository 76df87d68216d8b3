"""Two simulations side by side: differences in waits, use, preemptions and lost work, and plots on common axes."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.reports.blocks import Column, Key, figure_of, folded, keys, notes, paragraph, scrolling, table
from pykueue.reports.charts import NARROW, TimeAxis, said_of, top_of, use_chart, waiting_chart
from pykueue.reports.figures import Figures, Losses, Use, Waits, lost_by, pool, waits_of
from pykueue.reports.gantt import gantt_chart
from pykueue.reports.markup import Markup, element
from pykueue.reports.page import html, section
from pykueue.reports.picture import Captioned, picture
from pykueue.reports.records import Period
from pykueue.reports.rowcharts import WaitRow, waits_chart
from pykueue.reports.sections import GANTT_MEANING, MEANING, PANELS_MAX, ROWS_MAX, pool_name
from pykueue.reports.svg import Plot
from pykueue.reports.units import duration, number, percent, unit_of

MEANING_OF_TWO: Final = (Key("edge", "A"), Key("edge-other", "B"))
WAITS_OF_TWO: Final = (
    Key("box", "A: the middle half of the jobs"),
    Key("box other", "B: the middle half of the jobs"),
    Key("median", "median"),
    Key("whisker", "10th to 90th percentile, and a tick at the 99th"),
    Key("most", "longest"),
)
FINISHED: Final = "finished"
"""The state of a job that has done its work."""
QUEUES_MAX: Final = 25
"""For how many queues differences are listed."""


class Difference(Frozen):
    """A measure of two simulations, in words."""

    measure: str
    first: str
    second: str
    change: str


class Compared(Frozen):
    """Two simulations of the same jobs."""

    first: Figures
    second: Figures
    names: tuple[str, str]

    @property
    def both(self) -> tuple[Figures, Figures]:
        """The figures of both."""
        return self.first, self.second

    @property
    def axis(self) -> TimeAxis:
        """An axis of time that is long enough for both."""
        begin = self.first.period.begin
        return TimeAxis(Period(begin, max(one.period.end for one in self.both)), elapsed=True)

    def queues(self) -> list[str]:
        """The queues of both, those with the most time waited first."""
        return list(dict.fromkeys(waits.queue for one in self.both for waits in one.waits))

    def waits(self, queue: str) -> tuple[Waits, Waits]:
        """The waits of a queue in both."""
        none = waits_of(queue, ())
        first, second = (next((w for w in one.waits if w.queue == queue), none) for one in self.both)
        return first, second

    def losses(self, queue: str) -> tuple[Losses, Losses]:
        """The preemptions and lost work of a queue in both."""
        none = lost_by(queue, ())
        first, second = (next((one for one in found.losses if one.queue == queue), none) for found in self.both)
        return first, second

    def quotas(self) -> list[tuple[Use | None, Use | None]]:
        """Every quota that either of them used."""
        known = [{(one.queue, *pool(one)): one for one in found.use} for found in self.both]
        keys_ = dict.fromkeys(key for one in known for key in one)
        pairs = [(known[0].get(key), known[1].get(key)) for key in keys_]
        return [pair for pair in pairs if any(one is not None and one.used.peak for one in pair)]


def in_time(measure: str, first: int, second: int) -> Difference:
    """Two durations."""
    return Difference(measure, duration(first), duration(second), signed(first, second, duration))


def in_numbers(measure: str, first: int, second: int) -> Difference:
    """Two counts."""
    return Difference(measure, f"{first:,}", f"{second:,}", signed(first, second, lambda value: f"{value:,.0f}"))


def signed(first: float, second: float, shown: Callable[[float], str]) -> str:
    """By how much the second is more or less, also in percent; `=` if it is neither."""
    if first == second:
        return "="
    sign = "+" if second > first else "-"
    share = f" ({sign}{number(round(100 * abs(second - first) / first))} %)" if first else ""
    return f"{sign}{shown(abs(second - first))}{share}"


def overall(found: Compared) -> Iterator[Difference]:
    """The differences over all queues."""
    first, second = found.both
    ended = [sum(job.state == FINISHED for job in one.material.jobs) for one in found.both]
    yield in_time("Time until the end", first.period.length, second.period.length)
    yield in_numbers("Jobs that finished", *ended)
    a, b = first.all_waits, second.all_waits
    yield in_time("Wait, median", a.p50, b.p50)
    yield in_time("Wait, p90", a.p90, b.p90)
    yield in_time("Wait, longest", a.longest, b.longest)
    yield in_time("Wait, mean", a.mean, b.mean)
    yield in_numbers("Preemptions", first.all_losses.preempted, second.all_losses.preempted)
    yield in_time("Work lost to evictions", first.all_losses.lost, second.all_losses.lost)
    totals = [{pool(one): one for one in found_.totals} for found_ in found.both]
    for place in dict.fromkeys(key for one in totals for key in one):
        pair = [one.get(place) for one in totals]
        shares = [None if one is None else one.share for one in pair]
        use = pair[0] or pair[1]
        if use is not None and any(one is not None and one.used.peak for one in pair):
            change = "" if None in shares else points(shares[0] or 0, shares[1] or 0)
            yield Difference(f"Use of {pool_name(use)}", percent(shares[0]), percent(shares[1]), change)


def points(first: float, second: float) -> str:
    """The difference of two shares in percentage points."""
    change = round(100 * (second - first), 1)
    return "=" if not change else f"{'+' if change > 0 else '-'}{number(abs(change))} points"


def differences_table(rows: Iterator[Difference]) -> Markup:
    """Differences over all queues as a table."""
    columns = (Column("Measure"), Column("A", end=True), Column("B", end=True), Column("Difference", end=True))
    return table("All queues", columns, [(one.measure, one.first, one.second, one.change) for one in rows])


def by_queue(found: Compared) -> Iterator[tuple[str, Difference]]:
    """The differences of each queue."""
    for queue in found.queues()[:QUEUES_MAX]:
        (a, b), (lost, lost_too) = found.waits(queue), found.losses(queue)
        yield queue, in_time("Wait, median", a.p50, b.p50)
        yield queue, in_time("Wait, p90", a.p90, b.p90)
        yield queue, in_numbers("Preemptions", lost.preempted, lost_too.preempted)
        yield queue, in_time("Work lost to evictions", lost.lost, lost_too.lost)


def queue_table(found: Compared) -> Markup:
    """The differences of each queue as a table."""
    heads = (Column("A", end=True), Column("B", end=True), Column("Difference", end=True))
    rows = [(queue, one.measure, one.first, one.second, one.change) for queue, one in by_queue(found)]
    return table("Differences by queue", (Column("Queue"), Column("Measure"), *heads), rows)


def compared_page(found: Compared) -> str:
    """The page of two simulations."""
    title = found.first.material.title
    lead = "Two simulations of the same jobs, in virtual time."
    said = list(dict.fromkeys(note for one in found.both for note in one.material.notes))
    names = element(
        "ul",
        {"class": "notes"},
        *(element("li", {}, f"{key}: {name}") for key, name in zip("AB", found.names, strict=True)),
    )
    parts = [
        element("h1", {}, title),
        paragraph(lead, "muted"),
        names,
        *notes(said),
        *section("Differences", [differences_table(overall(found)), queue_table(found)]),
        *section("Queue length", waiting_parts(found)),
        *section("Waits", waits_parts(found)),
        *section("Use over time", use_parts(found)),
        *section("Jobs", gantt_parts(found)),
    ]
    return html(title, parts)


def waiting_parts(found: Compared) -> Iterator[Markup]:
    """How many jobs waited in both."""
    yield keys(MEANING_OF_TWO)
    yield figure_of(waiting_plot(found), wide=True)


def waiting_plot(found: Compared) -> Plot:
    """How many jobs waited in both."""
    curves = (found.first.waiting, found.second.waiting)
    return waiting_chart(curves, found.axis, "waiting", title="Jobs that wait over time")


def waits_plot(found: Compared) -> Plot:
    """The waits of each queue in both, one below the other."""
    rows = []
    for queue in found.queues()[: ROWS_MAX // 2]:
        first, second = found.waits(queue)
        rows += [WaitRow(f"{queue} · A", first), WaitRow("B", second, "other")]
    return waits_chart(rows, "waits", title="Waits by queue")


def waits_parts(found: Compared) -> Iterator[Markup]:
    """The waits of each queue in both."""
    yield paragraph("Time without quota, also after evictions. The axis is logarithmic.", "muted")
    yield keys(WAITS_OF_TWO)
    yield figure_of(waits_plot(found), caption="At the right: median · 90th percentile · jobs.", wide=True)


def use_plots(found: Compared) -> Iterator[tuple[str, list[Captioned]]]:
    """The plots of each quota in both, on the same scale, by resource and flavor."""
    pairs = found.quotas()
    for place, (name, same) in enumerate(groupby(pairs, key=pair_name)):
        plots = []
        for number_, pair in enumerate(list(same)[:PANELS_MAX]):
            top = max(top_of(one) for one in pair if one is not None)
            for which, one in zip("AB", pair, strict=True):
                if one is not None:
                    label = f"{one.queue} · {which}"
                    ident = f"use{place}-{number_}{which}"
                    plot = use_chart(one, found.axis, ident, title=f"{name}: {label}", width=NARROW, top=top)
                    plots.append(Captioned(plot, label, said_of(one)))
        yield name, plots


def pair_name(pair: tuple[Use | None, Use | None]) -> str:
    """The name and unit of a resource of a flavor."""
    use = pair[0] or pair[1]
    assert use is not None, "a quota is of one of the two"
    unit = unit_of(use.resource).name
    return f"{pool_name(use)}{f', {unit}' if unit else ''}"


def use_parts(found: Compared) -> Iterator[Markup]:
    """The use of each quota in both, side by side."""
    yield keys(MEANING)
    for name, plots in use_plots(found):
        yield element("h3", {}, name)
        panels = [figure_of(one.plot, label=one.label, caption=one.caption) for one in plots]
        yield element("div", {"class": "grid"}, *panels)


def gantt_parts(found: Compared) -> Iterator[Markup]:
    """When each job waited and ran, in both."""
    yield keys(GANTT_MEANING)
    for which, name, one in zip("AB", found.names, found.both, strict=True):
        title = f"Jobs over time, {which}"
        plot = gantt_chart(one.material.jobs, found.axis, f"gantt{which}", title=title)
        yield folded(f"{which}: {name}", scrolling(plot.markup(), title, "wide tall"))


def compared_picture(found: Compared) -> str:
    """The plots of two simulations."""
    waiting, waits = waiting_plot(found), waits_plot(found)
    parts = [
        ("Queue length", [Captioned(waiting, "Jobs that wait", "line: A, dashed: B")]),
        ("Waits", [Captioned(waits, "Waits by queue", "A above B; at the right: median · p90 · jobs")]),
        *((f"Use of {name}", plots) for name, plots in use_plots(found)),
    ]
    return picture(found.first.material.title, f"A: {found.names[0]}; B: {found.names[1]}", parts)
