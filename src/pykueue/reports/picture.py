"""The plots of a report as one SVG file."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from pykueue.base.text import shortened
from pykueue.reports.charts import NARROW, WIDE, axis_of, said_of, use_chart, waiting_chart
from pykueue.reports.figures import Figures, pool
from pykueue.reports.gantt import gantt_chart
from pykueue.reports.markup import Markup, element, figure, style_element
from pykueue.reports.page import span
from pykueue.reports.rowcharts import WaitRow, losses_chart, waits_chart
from pykueue.reports.sections import PANELS_MAX, ROWS_MAX, pool_name
from pykueue.reports.style import PLOTS
from pykueue.reports.svg import NAMESPACE, Plot
from pykueue.reports.units import unit_of

MARGIN: Final = 24.0
GAP: Final = 28.0
CAPTION: Final = 34.0
"""The height of the two lines above a plot."""
LINE_MAX: Final = 150
"""How many characters of a line there is room for."""


class Captioned:
    """A plot with two lines above it."""

    def __init__(self, plot: Plot, label: str, caption: str) -> None:
        self.plot = plot
        self.label = label
        self.caption = caption


def report_picture(found: Figures) -> str:
    """The picture of a report."""
    return picture(found.material.title, span(found.material), sections(found))


def sections(found: Figures) -> Iterator[tuple[str, list[Captioned]]]:
    """The titles of the sections and their plots."""
    yield "Use over time", list(use_plots(found))
    axis = axis_of(found.material)
    if found.waiting.peak:
        waiting = waiting_chart((found.waiting,), axis, "waiting", title="Jobs that wait over time")
        yield "Queue length", [Captioned(waiting, "Jobs that wait", waiting.description)]
    if found.waits:
        waits = waits_chart(
            [WaitRow(one.queue, one) for one in found.waits[:ROWS_MAX]], "waits", title="Waits by queue"
        )
        meaning = "box: middle half, bold line: median, line: p10 to p90, tick: p99, circle: longest; at the right: "
        yield "Waits", [Captioned(waits, "Waits by queue", f"{meaning}median · p90 · jobs")]
    if found.all_losses.lost:
        losses = losses_chart(found.losses[:ROWS_MAX], "losses", title="Work lost to evictions by queue")
        yield "Preemptions and lost work", [Captioned(losses, "Work lost to evictions by queue", "")]
    if found.material.elapsed and found.material.jobs:
        gantt = gantt_chart(found.material.jobs, axis, "gantt", title="Jobs over time")
        yield "Jobs", [Captioned(gantt, "Jobs over time", gantt.description)]


def use_plots(found: Figures) -> Iterator[Captioned]:
    """The plots of quotas: of each resource of a flavor all queues together, then each."""
    axis = axis_of(found.material)
    for number, (place, same) in enumerate(groupby(found.use, key=pool)):
        members = [one for one in same if one.used.peak]
        total = next((one for one in found.totals if pool(one) == place), None)
        if total is None or not members:
            continue
        unit = unit_of(total.resource).name
        label = f"{pool_name(total)}{f', {unit}' if unit else ''}"
        if len(members) > 1:
            plot = use_chart(total, axis, f"use{number}", title=f"Use of {label} by all teams", width=WIDE)
            yield Captioned(plot, f"{label}: all teams", f"{said_of(total)}; dashed: nominal, hatched: above it")
        for index, one in enumerate(members[:PANELS_MAX]):
            plot = use_chart(one, axis, f"use{number}-{index}", title=f"Use of {label} by {one.queue}", width=NARROW)
            yield Captioned(plot, f"{label}: {one.queue}", said_of(one))


def picture(title: str, lead: str, parts: Iterable[tuple[str, list[Captioned]]]) -> str:
    """A file with a title, and sections of plots."""
    page = Plot("page", title, lead, WIDE + 2 * MARGIN, 0)
    page.text(MARGIN, 44, shortened(title, LINE_MAX // 2), "title")
    page.text(MARGIN, 66, shortened(lead, LINE_MAX), "number")
    y = 82.0
    for name, plots in parts:
        if plots:
            page.text(MARGIN, y + GAP, name, "section")
            y = placed(page, plots, y + GAP + 14)
    page.height = y + MARGIN
    ground = element("rect", {"width": page.width, "height": page.height, "class": "page"})
    page.parts[:0] = [style_element(PLOTS), ground]
    size = f'width="{figure(page.width)}" height="{figure(page.height)}"'
    text = page.markup().text.replace("<svg ", f'<svg xmlns="{NAMESPACE}" {size} ', 1)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def placed(page: Plot, plots: list[Captioned], y: float) -> float:
    """Add plots to a page, narrow ones side by side; returns where the next thing begins."""
    x, bottom = MARGIN, y
    for one in plots:
        if x + one.plot.width > MARGIN + WIDE + 1:
            x, y = MARGIN, bottom + GAP / 2
        room = int(one.plot.width / 6.6)
        page.text(x, y + 12, shortened(one.label, room), "head", full=one.label)
        page.text(x, y + 27, shortened(one.caption, room), "number", full=one.caption)
        page.parts.append(nested(one.plot, x, y + CAPTION))
        bottom = max(bottom, y + CAPTION + one.plot.height)
        x += one.plot.width + GAP
    return bottom


def nested(plot: Plot, x: float, y: float) -> Markup:
    """A plot within another one."""
    return plot.markup((x, y))
