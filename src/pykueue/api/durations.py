"""Go's duration texts (`5m`, `1h30m`, `0s`) as whole microseconds, and back."""

import re
from typing import Final, NewType

Micros = NewType("Micros", int)
"""A length of time in microseconds."""

SECOND: Final = 1_000_000
NANOS: Final = {
    "ns": 1,
    "us": 10**3,
    "\N{MICRO SIGN}s": 10**3,
    "\N{GREEK SMALL LETTER MU}s": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
UNIT: Final = "|".join(sorted(NANOS, key=len, reverse=True))
PIECE: Final = re.compile(rf"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)({UNIT})")
WHOLE: Final = re.compile(rf"([+-]?)((?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:{UNIT}))+)")
LONGEST: Final = 64
NANOS_MAX: Final = 2**63 - 1
"""The maximum of Go's duration type, some 292 years."""
EXAMPLE: Final = "write it as in 300ms, 5m, 1h30m or 0s"


class DurationError(ValueError):
    """The text is not a duration."""


def parse_duration(text: str) -> Micros:
    """Parse a duration as Go does; parts finer than a microsecond are rounded away from zero."""
    if text in ("0", "+0", "-0"):
        return Micros(0)
    found = WHOLE.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise DurationError(f"{text[:LONGEST]!r} is not a duration; {EXAMPLE}")
    nanos = sum(piece_nanos(number, unit) for number, unit in PIECE.findall(found.group(2)))
    if nanos > NANOS_MAX:
        raise DurationError(f"{text!r} is longer than any duration; the longest is 2562047h")
    # Away from zero, so that a positive duration stays positive and a negative one is still refused.
    micros = -(-nanos // 1_000)
    return Micros(-micros if found.group(1) == "-" else micros)


def piece_nanos(number: str, unit: str) -> int:
    """The whole nanoseconds of one number with its unit; the rest is truncated, as in Go."""
    whole, _, fraction = number.partition(".")
    scale: int = 10 ** len(fraction)
    return int(whole + fraction) * NANOS[unit] // scale


def format_duration(duration: Micros) -> str:
    """The text that Go prints: `1h30m0s`, `5m0s`, `1.5s`, `300ms`, `0s`."""
    sign, micros = ("-", -duration) if duration < 0 else ("", int(duration))
    if micros == 0:
        return "0s"
    if micros < 1_000:
        return f"{sign}{micros}\N{MICRO SIGN}s"
    if micros < SECOND:
        return f"{sign}{decimal(micros, 1_000)}ms"
    minutes, rest = divmod(micros, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{decimal(rest, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def decimal(amount: int, unit: int) -> str:
    """The amount in this unit, a power of ten, without trailing zeros."""
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).zfill(len(str(unit)) - 1).rstrip('0')}"
