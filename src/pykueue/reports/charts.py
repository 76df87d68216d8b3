"""Plots over time: the use of a quota against nominal, and how many jobs wait."""

from typing import Final

from pykueue.base.struct import Frozen
from pykueue.reports.curves import Curve
from pykueue.reports.figures import Use
from pykueue.reports.records import Material, Period
from pykueue.reports.svg import Frame, Plot, above, area, draw_axes, outline
from pykueue.reports.units import amount, nice, number, percent, time_ticks, unit_of

WIDE: Final = 1000.0
NARROW: Final = 486.0
HEIGHT: Final = 150.0
LEFT: Final = 46.0
RIGHT: Final = 8.0
TOP: Final = 10.0
BELOW: Final = 24.0


class TimeAxis(Frozen):
    """How time is shown."""

    period: Period
    elapsed: bool = False
    offset: int = 0

    def frame(self, width: float, height: float, peak: float) -> Frame:
        """The inside of a plot of this size."""
        return Frame(LEFT, width - RIGHT, TOP, height - BELOW, self.period, peak)

    def draw(self, plot: Plot, frame: Frame, values: tuple[float, ...], size: float = 1.0) -> None:
        """Draw both axes."""
        most = max(3, int((frame.right - frame.left) / 80))
        ticks = time_ticks(self.period, elapsed=self.elapsed, offset=self.offset, most=most)
        draw_axes(plot, frame, ticks, values, size)


def axis_of(material: Material) -> TimeAxis:
    """The axis of time of a report."""
    return TimeAxis(material.period, material.elapsed, material.offset)


def top_of(use: Use) -> float:
    """The highest amount that a plot of a quota shows."""
    return max(use.used.peak, 0.0 if use.nominal is None else use.nominal.peak)


def said_of(use: Use) -> str:
    """What a plot of a quota shows, in words."""
    peak = amount(use.resource, use.used.peak)
    if use.nominal is None or not use.nominal.peak:
        return f"mean {amount(use.resource, use.used.mean)}, peak {peak}; no nominal quota is known"
    nominal = amount(use.resource, use.nominal.values[-1])
    return f"mean {percent(use.share)} of nominal, peak {peak}, nominal {nominal}"


def use_chart(use: Use, axis: TimeAxis, ident: str, *, title: str, width: float, top: float | None = None) -> Plot:
    """The use of a quota over time; what exceeds nominal is hatched, and the nominal quota is a dashed line."""
    unit = unit_of(use.resource)
    values = tuple(one * unit.size for one in nice((top_of(use) if top is None else top) / unit.size))
    plot = Plot(ident, title, said_of(use), width, HEIGHT)
    frame = axis.frame(width, HEIGHT, values[-1])
    axis.draw(plot, frame, values, unit.size)
    plot.path([area(frame, use.used)], "use")
    if use.nominal is not None:
        plot.path(above(frame, use.used, use.nominal), "over", plot.hatch("over"))
    plot.path([outline(frame, use.used)], "edge")
    if use.nominal is not None:
        plot.path([outline(frame, use.nominal)], "nominal")
    return plot


def waiting_chart(curves: tuple[Curve, ...], axis: TimeAxis, ident: str, *, title: str) -> Plot:
    """How many jobs wait; of two curves, the second is a dashed line."""
    values = nice(max(one.peak for one in curves), least=1.0)
    said = "; ".join(f"mean {number(round(one.mean, 1))}, most {number(one.peak)}" for one in curves)
    plot = Plot(ident, title, said, WIDE, HEIGHT)
    frame = axis.frame(WIDE, HEIGHT, values[-1])
    axis.draw(plot, frame, values)
    plot.path([area(frame, curves[0])], "use")
    for curve, kind in zip(curves, ("edge", "edge-other"), strict=False):
        plot.path([outline(frame, curve)], kind)
    return plot
