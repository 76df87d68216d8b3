"""Read time limits and times of day as Slurm does."""

import re
from datetime import datetime, timedelta
from typing import Final

from pykueue.api.durations import DurationError
from pykueue.base.units import Instant
from pykueue.cli.amounts import duration_of

LIMIT: Final = re.compile(
    r"(?:(?P<days>\d{1,6})-(?P<hours>\d{1,6})(?::(?P<minutes>\d{1,6})(?::(?P<seconds>\d{1,6}))?)?"
    r"|(?P<h>\d{1,6}):(?P<m>\d{1,6}):(?P<s>\d{1,6})|(?P<mm>\d{1,9})(?::(?P<ss>\d{1,6}))?)",
    re.ASCII,
)
UNLIMITED: Final = ("unlimited", "infinite")
SECONDS_MAX: Final = 2**31 - 1
UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
RELATIVE: Final = re.compile(rf"now\s*\+\s*(\d{{1,9}})\s*({'|'.join(UNITS)})?s?", re.ASCII)
DAY_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
NAMED: Final = {"midnight": (0, 0), "noon": (12, 0)}
LIMIT_SYNTAX: Final = "write minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"
BEGIN_SYNTAX: Final = "write now+1hour, 16:00, 2027-01-31T12:00, or 2027-01-31T12:00:00+01:00"


class TimeError(ValueError):
    """The text is not a time."""


def limit_seconds(text: str) -> int | None:
    """A time limit in seconds, as `sbatch --time` reads it; None for no limit; raises `TimeError`."""
    if text.lower() in UNLIMITED:
        return None
    found = LIMIT.fullmatch(text)
    if found is None:
        raise TimeError(f"{text!r} is not a time limit; {LIMIT_SYNTAX}, or use --timeout with a unit, e.g. 2h30m")
    part = {name: int(value or 0) for name, value in found.groupdict().items()}
    minutes = part["minutes"] + part["m"] + part["mm"]
    seconds = part["seconds"] + part["s"] + part["ss"]
    total = ((part["days"] * 24 + part["hours"] + part["h"]) * 60 + minutes) * 60 + seconds
    if total > SECONDS_MAX:
        raise TimeError(f"{text!r} is too long; Kubernetes allows {SECONDS_MAX // 86_400:,} days")
    return total or None


def begin_time(text: str, now: datetime) -> Instant:
    """The instant that a text names, as `sbatch --begin` reads it; `now` is the local time; raises `TimeError`."""
    try:
        found = begin_date(text.strip(), now)
        return Instant(round(found.timestamp()) * 1_000_000)
    except (ValueError, OverflowError, OSError) as error:
        if isinstance(error, TimeError):
            raise
        raise TimeError(f"{text!r} is not a time; {BEGIN_SYNTAX}") from error


def begin_date(text: str, now: datetime) -> datetime:
    """The date and time that a text names; raises `ValueError`."""
    lower = text.lower()
    if lower == "now":
        return now
    if relative := RELATIVE.fullmatch(lower):
        return now + timedelta(seconds=int(relative[1]) * UNITS[relative[2] or "second"])
    if lower.startswith("now+"):
        try:
            return now + timedelta(microseconds=duration_of(lower[4:]))
        except DurationError as error:
            raise TimeError(f"{text!r} is not a time; {BEGIN_SYNTAX}") from error
    if lower in NAMED or DAY_TIME.fullmatch(lower):
        return next_at(lower, now)
    if lower in ("today", "tomorrow"):
        day = now + timedelta(days=lower == "tomorrow")
        return local(day.replace(hour=0, minute=0, second=0, microsecond=0)) if lower == "tomorrow" else now
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else local(found)


def next_at(text: str, now: datetime) -> datetime:
    """The next time that the clock shows this."""
    if text in NAMED:
        hour, minute, second = *NAMED[text], 0
    else:
        hour, minute, second = (int(one) for one in (*text.split(":"), "0")[:3])
    found = local(now.replace(hour=hour, minute=minute, second=second, microsecond=0))
    return found if found > now else local((found + timedelta(days=1)).replace(hour=hour, minute=minute))


def local(date: datetime) -> datetime:
    """A date in the local time zone, with the offset that applies on that day."""
    return date.replace(tzinfo=None).astimezone()
