"""The figures of a report as comma-separated values: one measure in each row, ready for a spreadsheet or pandas."""

import csv
import io
from collections.abc import Iterator
from typing import Final

from pykueue.base.text import csv_cell
from pykueue.base.units import MICROS, format_instant
from pykueue.reports.figures import Figures, Losses, Use, Waits
from pykueue.reports.units import unit_of

HEAD: Final = ("table", "queue", "flavor", "resource", "job", "time", "measure", "value", "unit", "text")

Row = tuple[str, str, str, str, str, str, str, str, str, str]


def csv_text(found: Figures) -> str:
    """Everything that a report counts."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(HEAD)
    for row in rows(found):
        writer.writerow([csv_cell(one) for one in row])
    return written.getvalue()


def rows(found: Figures) -> Iterator[Row]:
    """The rows, table by table."""
    period = found.period
    for measure, at in (("begin", period.begin), ("end", period.end), ("asked since", found.material.asked_since)):
        yield row("period", time=format_instant(at), measure=measure)
    for use in (*found.totals, *found.use):
        yield from use_rows(use)
    for waits in (found.all_waits, *found.waits):
        yield from waits_rows(waits)
    for losses in (found.all_losses, *found.losses):
        yield from losses_rows(losses)
    for job in found.longest:
        value = str(job.waited / MICROS)
        time = format_instant(job.submitted)
        yield row(
            "longest", job.queue, job=job.name, time=time, measure="waited", value=value, unit="s", text=job.reason
        )
    for one in found.others:
        yield row("others", one.queue, measure="running", value=str(one.running), unit="jobs")
        yield row("others", one.queue, measure="pending", value=str(one.pending), unit="jobs")
    known = found.material.calibration
    if known is not None:
        yield row("calibration", measure="estimates", value=str(known.estimates))
        yield row("calibration", measure="right", value=str(known.right))
    for note in found.material.notes:
        yield row("notes", text=note)


def row(
    table: str,
    queue: str = "",
    flavor: str = "",
    resource: str = "",
    *,
    job: str = "",
    time: str = "",
    measure: str = "",
    value: str = "",
    unit: str = "",
    text: str = "",
) -> Row:
    """A row; all queues together have none."""
    return table, queue, flavor, resource, job, time, measure, value, unit, text


def use_rows(use: Use) -> Iterator[Row]:
    """The use of a quota over time, and its nominal quota at the same times."""
    unit = unit_of(use.resource)
    place = ("use", use.queue, use.flavor, use.resource)
    for at, value in zip(use.binned.times, use.binned.values, strict=True):
        time = format_instant(at)
        yield row(*place, time=time, measure="mean use", value=f"{value / unit.size:.6g}", unit=unit.name)
        if use.nominal is not None:
            nominal = f"{use.nominal.at(at) / unit.size:.6g}"
            yield row(*place, time=time, measure="nominal", value=nominal, unit=unit.name)


def waits_rows(waits: Waits) -> Iterator[Row]:
    """The waits of a queue."""
    yield row("waits", waits.queue, measure="jobs", value=str(waits.jobs), unit="jobs")
    yield row("waits", waits.queue, measure="still waiting", value=str(waits.waiting), unit="jobs")
    for measure, micros in (
        ("mean", waits.mean),
        ("p10", waits.p10),
        ("p25", waits.p25),
        ("p50", waits.p50),
        ("p75", waits.p75),
        ("p90", waits.p90),
        ("p99", waits.p99),
        ("max", waits.longest),
        ("total", waits.total),
    ):
        yield row("waits", waits.queue, measure=measure, value=str(micros / MICROS), unit="s")


def losses_rows(losses: Losses) -> Iterator[Row]:
    """Preemptions and lost work of a queue."""
    yield row("lost work", losses.queue, measure="preemptions", value=str(losses.preempted))
    yield row("lost work", losses.queue, measure="time of evicted runs", value=str(losses.lost / MICROS), unit="s")
    for resource, total in losses.amounts.items():
        unit = unit_of(resource)
        value = f"{total / unit.size / MICROS:.6g}"
        name = f"{unit.name or 'unit'} s"
        yield row("lost work", losses.queue, resource=resource, measure="lost", value=value, unit=name)
