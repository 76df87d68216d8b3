"""A report as one HTML file: no script, nothing from outside, and a Content-Security-Policy that allows no more."""

import base64
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

from pykueue.api.estimates import RELIED_ON
from pykueue.reports import sections
from pykueue.reports.blocks import Column, notes, paragraph, table
from pykueue.reports.figures import Figures
from pykueue.reports.markup import Markup, element, joined, style_element
from pykueue.reports.records import Material
from pykueue.reports.style import PAGE, PLOTS
from pykueue.reports.units import duration, moment, percent, zone

CSS: Final = PLOTS + PAGE
NINE_OF_TEN: Final = 0.9
"""The share of starts that are to be within their estimates."""


def html(title: str, body: Iterable[Markup]) -> str:
    """A whole file with this content."""
    digest = base64.b64encode(sha256(CSS.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        {},
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        element("meta", {"name": "referrer", "content": "no-referrer"}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("title", {}, title),
        style_element(CSS),
    )
    whole = element("html", {"lang": "en"}, head, element("body", {}, element("main", {}, joined(body))))
    return f"<!DOCTYPE html>\n{whole.text}\n"


def section(title: str, parts: Iterable[Markup]) -> Iterator[Markup]:
    """A section; nothing if it is empty."""
    if inner := list(parts):
        yield element("section", {}, element("h2", {}, title), joined(inner))


def report_page(found: Figures) -> str:
    """The page of a report."""
    material = found.material
    parts = [
        *head(material),
        tiles(found),
        *section("Use over time", sections.use_section(found)),
        *section("Queue length", sections.waiting_section(found)),
        *section("Waits", sections.waits_section(found)),
        *section("The longest waits", sections.longest_section(found)),
        *section("Preemptions and lost work", sections.losses_section(found)),
        *section("Jobs", sections.gantt_section(found) if material.elapsed else ()),
        *section("Estimated start times", () if material.elapsed else calibration(material)),
        *section("What you may not see", others(found)),
        foot(material),
    ]
    return html(material.title, parts)


def head(material: Material) -> Iterator[Markup]:
    """The title, the time, and where the figures come from."""
    yield element("h1", {}, material.title)
    yield paragraph(f"{span(material)} {material.source}", "muted")
    yield from notes(material.notes)


def span(material: Material) -> str:
    """The time that a report is about, and from when on it knows."""
    period = material.period
    if material.elapsed:
        return f"{duration(period.length)} of virtual time."
    begin, end = (moment(at, material.offset) for at in (period.begin, period.end))
    said = f"{begin} to {end} ({zone(material.offset)})."
    if material.asked_since < period.begin:
        asked = duration(period.end - material.asked_since)
        return f"{said} You asked for {asked}; the data begin later."
    return said


def tile(name: str, figure: str, more: str) -> Markup:
    """One of the figures at the top."""
    return element(
        "div",
        {},
        element("dt", {}, name),
        element("dd", {}, element("div", {"class": "figure"}, figure), element("div", {"class": "more"}, more)),
    )


def tiles(found: Figures) -> Markup:
    """The figures at the top."""
    jobs = found.material.jobs
    running, waiting = sum(job.running for job in jobs), found.all_waits.waiting
    ended = sum(job.ended is not None for job in jobs)
    counts = {
        "ended": ended,
        "running": running,
        "waiting": waiting,
        "held or inactive": len(jobs) - ended - running - waiting,
    }
    waits, lost = found.all_waits, found.all_losses
    shown = [
        tile("Jobs", f"{len(jobs):,}", ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)),
        tile("Median wait", duration(waits.p50), f"p90 {duration(waits.p90)}, longest {duration(waits.longest)}"),
    ]
    if used := next((one for one in found.totals if one.share is not None and one.used.peak), None):
        shown.append(tile(f"Use of {sections.pool_name(used)}", percent(used.share), "of nominal, on average"))
    shown.append(tile("Preemptions", f"{lost.preempted:,}", f"{duration(lost.lost)} of work lost"))
    return element("dl", {"class": "tiles"}, *shown)


def calibration(material: Material) -> Iterator[Markup]:
    """How good the estimates of start times were."""
    known = material.calibration
    if known is None:
        yield paragraph("How good the estimates of start times were is not known here.")
    elif not known.estimates:
        yield paragraph("No job has started yet for which a start time had been estimated (pykueue eta).")
    else:
        share = known.right / known.estimates
        verdict = "as good as they claim" if share >= NINE_OF_TEN else "less reliable than they claim"
        verdict = "not reliable" if share < RELIED_ON else verdict
        yield paragraph(
            f"Of the last {known.estimates:,} estimates, {known.right:,} were right ({percent(share)}): the job "
            "started within the range that pykueue eta had named. Ranges are made for nine of ten starts, so they are "
            f"{verdict}."
        )


def others(found: Figures) -> Iterator[Markup]:
    """What queues hold besides the jobs that the reader may see."""
    if found.others:
        yield paragraph("Jobs in namespaces that you may not read, now, without their names.", "muted")
        columns = (Column("Queue"), Column("Running", end=True), Column("Pending", end=True))
        rows = [(one.queue, f"{one.running:,}", f"{one.pending:,}") for one in found.others[: sections.TABLE_MAX]]
        yield table("Jobs of others by queue", columns, rows)


def foot(material: Material) -> Markup:
    """How the figures are made."""
    lost = "progress that evicted runs had not saved" if material.elapsed else "the time of runs that were evicted"
    words = (
        "Nominal quota is the quota that a queue owns; use above it is borrowed from its cohort. Percentiles are by "
        f"nearest rank. Lost work is {lost}."
    )
    when = "" if material.elapsed else f" Made {moment(material.period.end, material.offset)} {zone(material.offset)}."
    return element("footer", {}, paragraph(f"{words}{when}"))
