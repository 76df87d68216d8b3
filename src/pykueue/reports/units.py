"""How amounts and times are written: units of resources, durations, timestamps, and the ticks of axes."""

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import EPOCH, MICROS, Instant
from pykueue.reports.curves import DAY, HOUR, MINUTE, WIDTHS
from pykueue.reports.records import Period

GIBI: Final = 2**30
SECONDS_MAX: Final = 100
"""Below so many seconds, durations are written in seconds."""
LONG_TICKS: Final = (
    (0, "0"),
    (MICROS, "1 s"),
    (10 * MICROS, "10 s"),
    (MINUTE, "1 min"),
    (10 * MINUTE, "10 min"),
    (HOUR, "1 h"),
    (6 * HOUR, "6 h"),
    (DAY, "1 d"),
    (7 * DAY, "7 d"),
    (30 * DAY, "30 d"),
    (365 * DAY, "1 year"),
)
"""Ticks of a logarithmic axis of durations."""


class Unit(Frozen):
    """How amounts of a resource are shown."""

    size: int
    """The amount that is one unit."""
    name: str
    """Empty if the resource has none."""


def unit_of(resource: str) -> Unit:
    """The unit of a resource."""
    if resource == "cpu":
        return Unit(1000, "cores")
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return Unit(GIBI, "GiB")
    return Unit(1, "GPUs" if resource.endswith("/gpu") else "")


def number(value: float) -> str:
    """A number with about three digits, as people write it."""
    if value and abs(value) < 0.0995:
        return f"{value:.2g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.1f}" if abs(value) >= 9.95 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".")


def amount(resource: str, value: float) -> str:
    """An amount with its unit."""
    unit = unit_of(resource)
    return f"{number(value / unit.size)} {unit.name}".rstrip()


def hours(resource: str, value: float) -> str:
    """An amount times microseconds, as unit-hours."""
    unit = unit_of(resource)
    name = {"cores": "core-hours", "GPUs": "GPU-hours", "GiB": "GiB-hours"}.get(unit.name, "unit-hours")
    return f"{number(value / unit.size / HOUR)} {name}"


def percent(share: float | None) -> str:
    """A share in percent; a dash if there is none."""
    return "-" if share is None else f"{number(round(100 * share, 1))} %"


def duration(micros: float) -> str:
    """A duration in one or two units: `40 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if micros < SECONDS_MAX * MICROS:
        return f"{number(round(micros / MICROS, 1))} s"
    for big, name, small, rest in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", MICROS, "s")):
        if micros >= big:
            whole, left = divmod(round(micros / small), big // small)
            return f"{whole:,} {name} {left} {rest}" if left else f"{whole:,} {name}"
    raise AssertionError("a minute is less than the most seconds")


def local(instant: int, offset: int, form: str) -> str:
    """An instant on the reader's clock."""
    return (EPOCH + timedelta(microseconds=instant + offset * MICROS)).strftime(form)


def moment(instant: int, offset: int) -> str:
    """A timestamp for people: `2026-01-31 13:00`."""
    return local(instant, offset, "%Y-%m-%d %H:%M")


def zone(offset: int) -> str:
    """The name of the reader's time zone: `UTC`, `UTC+02:00`."""
    if not offset:
        return "UTC"
    hour, minute = divmod(abs(offset) // 60, 60)
    return f"UTC{'-' if offset < 0 else '+'}{hour:02}:{minute:02}"


def nice(top: float, least: float = 0.0) -> tuple[float, ...]:
    """Ticks of an axis from 0 to at least this value, at least so far apart."""
    if top <= 0:
        return (0.0, 1.0)
    power = 10.0 ** math.floor(math.log10(top))
    step = max(least, next(part * power for part in (0.25, 0.5, 1.0, 2.5, 5.0) if top <= part * power * 4))
    return tuple(step * count for count in range(math.ceil(round(top / step, 9)) + 1))


def clock_ticks(period: Period, offset: int, most: int) -> Iterator[tuple[Instant, str]]:
    """Ticks at round times of the reader's clock."""
    width = next((one for one in WIDTHS if period.length <= one * most), -(-period.length // most))
    shift = offset * MICROS
    days = width >= DAY
    if days:
        # Weeks of the epoch begin on a Thursday, which no reader expects.
        shift += 3 * DAY if width % (7 * DAY) == 0 else 0
    at = -(-(period.begin + shift) // width) * width - shift
    while at <= period.end:
        midnight = (at + offset * MICROS) % DAY == 0
        yield (
            Instant(at),
            local(at, offset, "%b %-d" if days or midnight else "%H:%M" if width >= MINUTE else "%H:%M:%S"),
        )
        at += width


def elapsed_ticks(period: Period, most: int) -> Iterator[tuple[Instant, str]]:
    """Ticks at round times since the beginning."""
    width = next((one for one in WIDTHS if period.length <= one * most), -(-period.length // most))
    for at in range(0, period.length + 1, width):
        yield Instant(period.begin + at), duration(at) if at else "0"


def time_ticks(period: Period, *, elapsed: bool, offset: int, most: int) -> tuple[tuple[Instant, str], ...]:
    """The ticks of an axis of time, at most about so many."""
    return tuple(elapsed_ticks(period, most) if elapsed else clock_ticks(period, offset, most))


def log_place(micros: float) -> float:
    """The place of a duration on a logarithmic axis that begins with 0."""
    return math.log10(1 + max(0.0, micros) / MICROS)
