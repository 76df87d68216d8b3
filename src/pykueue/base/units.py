"""Quantities as exact whole numbers, and time as whole microseconds."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal, NewType

from pykueue.base.struct import Frozen

Instant = NewType("Instant", int)
"""Microseconds since the Unix epoch."""
Moment = NewType("Moment", int)
"""Microseconds of this machine's CLOCK_BOOTTIME; only differences are meaningful."""
Seconds = NewType("Seconds", int)

MICROS: Final = 1_000_000
UNLIMITED: Final = 2**63 - 1
"""The largest amount. A quota this large is no limit, and no request can exceed it."""

Family = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

NANO: Final = 10**9
DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in DECIMAL.items()}
BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
BINARY_SUFFIX: Final = {0: "", **{bits: suffix for suffix, bits in BINARY.items()}}
SYNTAX: Final = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
LONGEST: Final = 64
EXPONENT_MAX: Final = 200
"""Larger than any that makes a difference for a text of `LONGEST` characters."""


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


class Quantity(Frozen):
    """An exact amount in billionths, and the suffix family in which it is written."""

    nanos: int
    family: Family = "DecimalSI"

    def __str__(self) -> str:
        return canonical(self)

    def milli(self) -> int:
        """In thousandths, rounded up."""
        return -(-self.nanos // 1_000_000)

    def whole(self) -> int:
        """In whole units, rounded up."""
        return -(-self.nanos // NANO)


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """Parse a quantity as Kubernetes does; amounts finer than a billionth are rounded up."""
    found = SYNTAX.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise QuantityError(
            f"{text[:LONGEST]!r} is not a quantity; write a number with an optional suffix, as in 500m, 2, 1.5Gi"
        )
    sign, digits, suffix = found.group(1), found.group(2), found.group(3) or ""
    whole, _, fraction = digits.partition(".")
    mantissa, scale = int((whole + fraction) or "0"), -len(fraction)
    family: Family = "DecimalSI"
    bits = 0
    if suffix in BINARY:
        family, bits = "BinarySI", BINARY[suffix]
    elif len(suffix) > 1:
        family = "DecimalExponent"
        # Any larger exponent gives the largest quantity, and any smaller one the smallest, as in Kubernetes.
        scale += max(-EXPONENT_MAX, min(int(suffix[1:]), EXPONENT_MAX))
    else:
        scale += DECIMAL[suffix]
    scale += 9
    nanos = (mantissa << bits) * 10**scale if scale >= 0 else -(-(mantissa << bits) // 10**-scale)
    nanos = min(nanos, UNLIMITED * NANO)
    return Quantity(-nanos if sign == "-" else nanos, family)


def canonical(quantity: Quantity) -> str:
    """The canonical spelling that Kubernetes gives this quantity: no fraction, the largest suffix that is exact."""
    nanos, family = quantity.nanos, quantity.family
    if nanos == 0:
        return "0"
    if family == "BinarySI" and nanos % NANO == 0 and abs(nanos) >= 1024 * NANO:
        value, bits = nanos // NANO, 0
        while bits < 60 and value % 1024 == 0:
            value, bits = value // 1024, bits + 10
        return f"{value}{BINARY_SUFFIX[bits]}"
    mantissa, exponent = nanos, -9
    while mantissa % 10 == 0:
        mantissa, exponent = mantissa // 10, exponent + 1
    third = min(exponent - exponent % 3, 18)
    mantissa *= 10 ** (exponent - third)
    if family == "DecimalExponent":
        return f"{mantissa}e{third}" if third else str(mantissa)
    return f"{mantissa}{DECIMAL_SUFFIX[third]}"


def counts_in_milli(resource: str) -> bool:
    """Whether amounts of this resource are in thousandths (CPU only) rather than whole units."""
    return resource == "cpu"


def amount_of(resource: str, quantity: Quantity) -> int:
    """The engine's whole number for this quantity of a resource; `UNLIMITED` if it exceeds 64 bits."""
    amount = quantity.milli() if counts_in_milli(resource) else quantity.whole()
    return max(-UNLIMITED - 1, min(amount, UNLIMITED))


def counts_in_bytes(resource: str) -> bool:
    """Whether amounts of a resource are bytes."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


@lru_cache(maxsize=4096)
def quantity_of(resource: str, amount: int) -> Quantity:
    """The quantity for an amount of the engine, in the suffix family that Kueue prints for this resource."""
    if counts_in_milli(resource):
        return Quantity(amount * 1_000_000)
    return Quantity(amount * NANO, "BinarySI" if counts_in_bytes(resource) else "DecimalSI")


def amount_text(resource: str, amount: int) -> str:
    """An amount of the engine in human-readable form: 1500 of cpu is `1500m`."""
    return canonical(quantity_of(resource, amount))


DOUBLINGS_MAX: Final = 32
"""Beyond this many doublings every wait is effectively infinite."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
@lru_cache(maxsize=4096)
def parse_instant(text: str) -> Instant:
    """Parse an RFC 3339 text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone; write it as in 2026-01-31T12:00:00Z")
    return Instant((moment - EPOCH) // timedelta(microseconds=1))


def format_instant(instant: Instant) -> str:
    """RFC 3339 with whole seconds, as Kubernetes stores timestamps."""
    return format_second(instant // MICROS)


@lru_cache(maxsize=4096)
def format_second(second: int) -> str:
    """RFC 3339 of a Unix time in seconds."""
    return (EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(instant: Instant) -> str:
    """RFC 3339 with microseconds, as in events and leases."""
    second, micros = divmod(instant, MICROS)
    return f"{format_second(second)[:-1]}.{micros:06d}Z"


def after(start: Instant, delay: Seconds) -> Instant:
    """The instant this many seconds later."""
    return Instant(start + delay * MICROS)


def doubled(base: int, most: int, count: int) -> Seconds:
    """Exponential backoff: the wait number `count`, doubled each time up to a limit; 0 is no limit.

    The first wait is never limited.
    """
    delay = base
    for _ in range(min(count - 1, DOUBLINGS_MAX)):
        delay *= 2
        if most and delay >= most:
            return Seconds(most)
    return Seconds(delay)
