"""The sections of a report's page: what each shows of the figures, and how it is put in words."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from pykueue.reports.blocks import Column, Key, figure_of, folded, keys, paragraph, table
from pykueue.reports.charts import NARROW, WIDE, TimeAxis, axis_of, said_of, use_chart, waiting_chart
from pykueue.reports.curves import Bins, Curve, width_for
from pykueue.reports.figures import Figures, Losses, Use, Waits, pool
from pykueue.reports.gantt import JOBS_MAX, gantt_chart
from pykueue.reports.markup import Markup, element
from pykueue.reports.records import Job, Material
from pykueue.reports.rowcharts import WaitRow, losses_chart, waits_chart
from pykueue.reports.units import amount, duration, hours, moment, number, percent, unit_of

PANELS_MAX: Final = 12
"""How many queues have a plot of their own for each resource of a flavor."""
ROWS_MAX: Final = 20
"""How many queues a plot with rows has."""
TABLE_MAX: Final = 100
TABLE_BINS: Final = 28
"""How many rows a table of a plot over time has at most."""
MEANING: Final = (
    Key("use", "in use"),
    Key("over", "in use above nominal (borrowed)"),
    Key("nominal", "nominal quota"),
)
WAITS_MEANING: Final = (
    Key("box", "the middle half of the jobs"),
    Key("median", "median"),
    Key("whisker", "10th to 90th percentile, and a tick at the 99th"),
    Key("most", "longest"),
)
GANTT_MEANING: Final = (
    Key("waits", "waits"),
    Key("run", "runs"),
    Key("evicted", "a run that was evicted"),
)


def time_text(at: int, material: Material) -> str:
    """An instant for people: on the reader's clock, or since the beginning."""
    return f"after {duration(at - material.period.begin)}" if material.elapsed else moment(at, material.offset)


def pool_name(use: Use) -> str:
    """The name of a resource of a flavor."""
    return f"{use.resource} · {use.flavor}" if use.flavor else use.resource


def use_section(found: Figures) -> Iterator[Markup]:
    """The use of quotas over time."""
    axis = axis_of(found.material)
    how = f"; each step is a mean over {duration(found.width)}" if found.binned else ""
    yield paragraph(f"How much quota jobs held, by flavor and team (ClusterQueue), against nominal{how}.", "muted")
    if not any(one.used.peak for one in found.totals):
        yield paragraph("No job held quota in this time.")
        return
    yield keys(MEANING)
    for number_, (place, same) in enumerate(groupby(found.use, key=pool)):
        members = list(same)
        total = next((one for one in found.totals if pool(one) == place), None)
        if total is not None and total.used.peak:
            yield from pool_blocks(found, axis, total, members, f"use{number_}")
    yield quota_table(found)


def pool_blocks(found: Figures, axis: TimeAxis, total: Use, members: Sequence[Use], ident: str) -> Iterator[Markup]:
    """The plots of one resource of one flavor: all queues together, then each."""
    name, unit = pool_name(total), unit_of(total.resource).name
    shown = [one for one in members if one.used.peak][:PANELS_MAX]
    label = f"{name}{f', {unit}' if unit else ''}"
    if len(members) > 1:
        plot = use_chart(total, axis, ident, title=f"Use of {name} by all teams", width=WIDE)
        yield figure_of(plot, label=f"{label}: all teams", caption=said_of(total), wide=True)
    panels = []
    for place, one in enumerate(shown):
        plot = use_chart(one, axis, f"{ident}-{place}", title=f"Use of {name} by {one.queue}", width=NARROW)
        panels.append(figure_of(plot, label=f"{label}: {one.queue}", caption=said_of(one)))
    yield element("div", {"class": "grid"}, *panels)
    yield folded(f"Table of these plots: {label}", use_table(found, total, shown))


def use_table(found: Figures, total: Use, members: Sequence[Use]) -> Markup:
    """The plots of one resource of one flavor as a table of means."""
    unit = unit_of(total.resource)
    period = found.period
    width = width_for(period, TABLE_BINS)
    begin = Bins(period, width, 0 if found.material.elapsed else found.material.offset).curve().times
    curves = [*((one.queue, one.binned) for one in members), ("all teams", total.binned)]
    rows = [
        (
            time_text(at, found.material),
            *(number(mean_between(curve, at, end) / unit.size) for _, curve in curves),
        )
        for at, end in zip(begin, (*begin[1:], period.end), strict=True)
    ]
    columns = (Column("from"), *(Column(name, end=True) for name, _ in curves))
    return table(f"Mean use{f' in {unit.name}' if unit.name else ''} over {duration(width)}", columns, rows)


def mean_between(curve: Curve, begin: int, end: int) -> float:
    """The mean of a curve between two instants."""
    total = 0.0
    for at, until, value in zip(curve.times, (*curve.times[1:], curve.end), curve.values, strict=True):
        total += value * max(0, min(until, end) - max(at, begin))
    return total / max(1, end - begin)


def quota_table(found: Figures) -> Markup:
    """Every quota with its mean and peak."""
    rows = [
        (
            one.queue,
            one.flavor,
            one.resource,
            "-" if one.nominal is None else amount(one.resource, one.nominal.values[-1]),
            amount(one.resource, one.used.mean),
            percent(one.share),
            amount(one.resource, one.used.peak),
        )
        for one in found.use[:TABLE_MAX]
    ]
    columns = (
        Column("Queue"),
        Column("Flavor"),
        Column("Resource"),
        Column("Nominal", end=True),
        Column("Mean use", end=True),
        Column("Of nominal", end=True),
        Column("Peak", end=True),
    )
    return folded("Table of all quotas", table(f"Use of each quota{more(len(found.use))}", columns, rows))


def more(count: int) -> str:
    """That a table does not list everything."""
    return f" (the first {TABLE_MAX} of {count:,}; -o csv has all)" if count > TABLE_MAX else ""


def waiting_section(found: Figures) -> Iterator[Markup]:
    """How many jobs waited over time."""
    if found.waiting.peak:
        plot = waiting_chart((found.waiting,), axis_of(found.material), "waiting", title="Jobs that wait over time")
        mean, most = number(round(found.waiting.mean, 1)), number(found.waiting.peak)
        yield figure_of(plot, label="Jobs that wait", caption=f"mean {mean}, most {most}", wide=True)


def waits_section(found: Figures) -> Iterator[Markup]:
    """How long jobs waited, by queue."""
    yield paragraph(
        "Time without quota, from submission to the first start and again after each eviction; of jobs that still "
        "wait, the time so far. The axis is logarithmic.",
        "muted",
    )
    if not found.waits:
        yield paragraph("There were no jobs in this time.")
        return
    rows = [WaitRow(one.queue, one) for one in found.waits[:ROWS_MAX]]
    yield keys(WAITS_MEANING)
    plot = waits_chart(rows, "waits", title="Waits by queue")
    rest = len(found.waits) - len(rows)
    said = f" The {ROWS_MAX} queues with the most time waited; {rest} more are in the table." if rest > 0 else ""
    yield figure_of(plot, caption=f"At the right: median · 90th percentile · jobs.{said}", wide=True)
    yield folded("Table of waits", waits_table(found))


def waits_table(found: Figures) -> Markup:
    """The waits of every queue."""
    heads = ("Queue", "Jobs", "Still waiting", "Mean", "p10", "p25", "Median", "p75", "p90", "p99", "Longest")
    columns = [Column(head, end=place > 0) for place, head in enumerate(heads)]
    shown = [*found.waits[:TABLE_MAX], found.all_waits]
    return table(f"Waits by queue{more(len(found.waits))}", columns, [waits_cells(one) for one in shown])


def waits_cells(one: Waits) -> tuple[str, ...]:
    """The row of a queue in the table of waits."""
    times = (one.mean, one.p10, one.p25, one.p50, one.p75, one.p90, one.p99, one.longest)
    return (one.queue or "All", f"{one.jobs:,}", f"{one.waiting:,}", *map(duration, times))


def losses_section(found: Figures) -> Iterator[Markup]:
    """Preemptions, and the work lost to evictions."""
    lost = found.all_losses
    if not found.losses:
        yield paragraph("No job was preempted, and no work was lost to evictions.")
        return
    if not lost.lost:
        yield paragraph(f"{counted(lost.preempted, 'preemption')} of {counted(lost.jobs, 'job')}; no work was lost.")
        return
    saved = "" if found.material.elapsed else " Jobs with checkpoints may have saved some of it."
    yield paragraph(
        f"{counted(lost.preempted, 'preemption')}; {counted(lost.jobs, 'job')} lost {duration(lost.lost)} of work to "
        f"evictions ({amounts_lost(lost)}).{saved}",
        "muted",
    )
    plot = losses_chart(found.losses[:ROWS_MAX], "losses", title="Work lost to evictions by queue")
    yield figure_of(plot, wide=True)
    columns = (
        Column("Queue"),
        Column("Jobs", end=True),
        Column("Preemptions", end=True),
        Column("Lost time", end=True),
        Column("Lost work"),
    )
    rows = [
        (one.queue, f"{one.jobs:,}", f"{one.preempted:,}", duration(one.lost), amounts_lost(one))
        for one in found.losses[:TABLE_MAX]
    ]
    yield folded("Table of lost work", table(f"Lost work by queue{more(len(found.losses))}", columns, rows))


def amounts_lost(one: Losses) -> str:
    """Lost work in core-hours and GPU-hours."""
    counted_ = [name for name in one.amounts if name == "cpu" or name.endswith("/gpu")]
    return ", ".join(hours(name, one.amounts[name]) for name in counted_) or "-"


def counted(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def longest_section(found: Figures) -> Iterator[Markup]:
    """The jobs that waited longest, and why."""
    if not found.longest:
        yield paragraph("No job waited.")
        return
    columns = (
        Column("Job"),
        Column("Queue"),
        Column("Waited", end=True),
        Column("Submitted", whole=True),
        Column("State", whole=True),
        Column("Why it waited"),
    )
    rows = [long_cells(job, found.material) for job in found.longest]
    yield table("The jobs with the longest waits", columns, rows, shown=False)


def long_cells(job: Job, material: Material) -> tuple[str, ...]:
    """The row of a job in the table of the longest waits."""
    return (
        job.name,
        job.queue,
        duration(job.waited),
        time_text(job.submitted, material),
        job.state,
        job.reason or "not recorded",
    )


def gantt_section(found: Figures) -> Iterator[Markup]:
    """When each job waited and ran."""
    jobs = found.material.jobs
    if len(jobs) > JOBS_MAX:
        yield paragraph(f"The first {JOBS_MAX} of {len(jobs):,} jobs.", "muted")
    yield keys(GANTT_MEANING)
    plot = gantt_chart(jobs, axis_of(found.material), "gantt", title="Jobs over time")
    yield figure_of(plot, wide=True, tall=True)
