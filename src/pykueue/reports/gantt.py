"""A Gantt plot: when each job waited and ran, and which runs were evicted."""

from collections.abc import Sequence
from typing import Final

from pykueue.reports.charts import WIDE, TimeAxis
from pykueue.reports.records import Job
from pykueue.reports.svg import Frame, Plot, draw_time, fitting
from pykueue.reports.units import duration, time_ticks

JOBS_MAX: Final = 300
"""How many jobs are drawn at most."""
ROOMY: Final = 80
"""With at most so many jobs, rows are high enough to read comfortably."""
NAMES: Final = 190.0
HEAD: Final = 6.0
FOOT: Final = 24.0


def gantt_chart(jobs: Sequence[Job], axis: TimeAxis, ident: str, *, title: str) -> Plot:
    """The first jobs by their submission, a row for each."""
    shown = sorted(jobs, key=lambda job: (job.submitted, job.name))[:JOBS_MAX]
    row = 16.0 if len(shown) <= ROOMY else 11.0
    height = HEAD + row * max(1, len(shown)) + FOOT
    said = f"{len(shown)} jobs; a thin line is a wait, a bar a run, and a hatched bar one that was evicted"
    plot = Plot(ident, title, said, WIDE, height)
    frame = Frame(NAMES, WIDE - 8, HEAD, height - FOOT, axis.period)
    ticks = time_ticks(axis.period, elapsed=axis.elapsed, offset=axis.offset, most=8)
    for at, _ in ticks:
        plot.line((frame.x(at), frame.x(at)), (frame.top, frame.bottom), "grid")
    draw_time(plot, frame, ticks)
    hatch = plot.hatch("over")
    for number, job in enumerate(shown):
        middle = HEAD + row * (number + 0.5)
        label = fitting(job.name, NAMES - 16)
        plot.text(NAMES - 10, middle + 3.5, label, "name" if row > 12 else "name small", anchor="end", full=job.name)
        draw_job(plot, frame, job, (middle - row / 2 + 1.5, middle + row / 2 - 1.5), hatch)
    plot.line((NAMES, NAMES), (frame.top, frame.bottom), "base")
    return plot


def draw_job(plot: Plot, frame: Frame, job: Job, y: tuple[float, float], hatch: str) -> None:
    """Draw the waits and runs of one job."""
    middle = sum(y) / 2
    for begin, end in job.waits:
        plot.line((frame.x(begin), frame.x(end)), (middle, middle), "waits")
    for run in job.runs:
        left, right = frame.x(run.begin), max(frame.x(run.end), frame.x(run.begin) + 1)
        how = "evicted" if run.evicted else "ran"
        words = (
            f"{job.name}: {how} after {duration(run.end - run.begin)}"
            if run.evicted
            else (f"{job.name}: {how} for {duration(run.end - run.begin)}")
        )
        plot.rect((left, right), y, "evicted" if run.evicted else "run", words)
        if run.evicted:
            plot.path([f"M{left:.2f},{y[0]:.2f}H{right:.2f}V{y[1]:.2f}H{left:.2f}Z"], "hatched", hatch)
