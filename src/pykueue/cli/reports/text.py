"""A report as lines of text, for a terminal."""

from collections.abc import Iterator

from pykueue.base.text import printable, shortened
from pykueue.cli.tables import hanging, table
from pykueue.reports.figures import Figures
from pykueue.reports.page import span
from pykueue.reports.sections import counted
from pykueue.reports.units import amount, duration, hours, percent

SHOWN = 20
"""How many rows a table has at most."""
NAME_MAX = 40


def lines(found: Figures) -> Iterator[str]:
    """The tables of a report, in short."""
    material = found.material
    yield from hanging("", printable(f"{span(material)} {material.source}"))
    yield from (line for note in material.notes for line in hanging("Note: ", printable(note)))
    yield ""
    yield from waits_lines(found)
    if found.use:
        yield ""
        yield from use_lines(found)
    yield ""
    yield from losses_lines(found)
    if found.longest:
        yield ""
        yield from longest_lines(found)
    known = material.calibration
    if known is not None and known.estimates:
        yield ""
        yield f"Of the last {counted(known.estimates, 'estimate')} of start times {known.right:,} were right."
    if found.others:
        yield ""
        rows = [(name(one.queue), f"{one.running:,}", f"{one.pending:,}") for one in found.others[:SHOWN]]
        yield from table(("Jobs of others in", "running", "pending"), rows, "<>>")


def name(text: str) -> str:
    """A name, no longer than a table can bear."""
    return shortened(printable(text), NAME_MAX)


def waits_lines(found: Figures) -> list[str]:
    """How long jobs waited."""
    heads = ("Waits in", "jobs", "waiting", "median", "p90", "p99", "longest")
    rows = [
        (
            name(one.queue) or "all queues",
            f"{one.jobs:,}",
            f"{one.waiting:,}",
            *map(duration, (one.p50, one.p90, one.p99, one.longest)),
        )
        for one in (*found.waits[:SHOWN], found.all_waits)
    ]
    return table(heads, rows, "<>>>>>>")


def use_lines(found: Figures) -> list[str]:
    """How much of their quotas queues used."""
    rows = [
        (
            name(one.queue),
            name(one.flavor),
            name(one.resource),
            "-" if one.nominal is None else amount(one.resource, one.nominal.values[-1]),
            amount(one.resource, one.used.mean),
            percent(one.share),
            amount(one.resource, one.used.peak),
        )
        for one in found.use[:SHOWN]
    ]
    return table(("Use by", "flavor", "resource", "nominal", "mean", "of nominal", "peak"), rows, "<<<>>>>")


def losses_lines(found: Figures) -> list[str]:
    """Preemptions and lost work."""
    if not found.losses:
        return ["No job was preempted, and no work was lost to evictions."]
    rows = [
        (
            name(one.queue) or "all queues",
            f"{one.preempted:,}",
            duration(one.lost),
            hours("cpu", one.amounts.get("cpu", 0)),
        )
        for one in (*found.losses[:SHOWN], found.all_losses)
    ]
    return table(("Lost work in", "preemptions", "lost time", "lost work"), rows, "<>>>")


def longest_lines(found: Figures) -> Iterator[str]:
    """The jobs that waited longest, and why."""
    yield "The longest waits:"
    for job in found.longest:
        yield printable(f"  {job.name} ({job.queue}, {job.state}): {duration(job.waited)}")
        if job.reason:
            yield from hanging("    ", printable(job.reason))
