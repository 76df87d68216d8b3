"""Kubernetes quantities as exact fractions, and amounts of a resource as whole numbers.

The manager has a parser of its own; a mistake in one of the two becomes a finding.
"""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final

UNLIMITED: Final = 2**63 - 1
"""The largest amount. A quota this large is no limit."""
NUMBER: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([A-Za-z]*|[eE][+-]?[0-9]+)")
LONGEST: Final = 64
EXPONENT_MAX: Final = 200
"""A larger exponent gives the same amounts, for a text of this length."""
DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
FACTORS: Final = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(DECIMAL, -3)},
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(BINARY, 1)},
}


@lru_cache(maxsize=4096)
def number(text: str) -> Fraction | None:
    """The value of a quantity; None if the text is not one."""
    found = NUMBER.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    digits, suffix = found.groups()
    if suffix in FACTORS:
        return Fraction(digits) * FACTORS[suffix]
    exponent = suffix[1:]
    if not exponent.lstrip("+-").isdecimal():
        return None
    return Fraction(digits) * Fraction(10) ** max(-EXPONENT_MAX, min(int(exponent), EXPONENT_MAX))


def whole(resource: str, value: Fraction) -> int:
    """A value in the unit in which the resource is counted, rounded up: thousandths of a cpu, otherwise ones."""
    counted = ceil(value * 1000 if resource == "cpu" else value)
    return max(-UNLIMITED, min(counted, UNLIMITED))


def amount(resource: str, text: str | int) -> int:
    """A quantity as a whole number; zero if malformed."""
    return whole(resource, number(str(text)) or Fraction(0))


def amount_text(resource: str, counted: int) -> str:
    """An amount in the notation of Kubernetes: 1500 of cpu is `1500m`."""
    if resource == "cpu":
        return str(counted // 1000) if counted % 1000 == 0 else f"{counted}m"
    for suffix in reversed(BINARY):
        if resource in ("memory", "ephemeral-storage") and counted and counted % FACTORS[suffix] == 0:
            return f"{counted // int(FACTORS[suffix])}{suffix}"
    return str(counted)
