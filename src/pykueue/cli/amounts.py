"""Read amounts of memory and durations from options, with the right spelling for misspelt ones; print amounts."""

import re
from collections.abc import Mapping
from typing import Final

from pykueue.api.durations import DurationError, Micros, parse_duration
from pykueue.base.units import NANO, Quantity, QuantityError, amount_text, parse_quantity

BYTES_MIN: Final = 6 * 2**20
"""The least memory limit, as in Docker: below it, programs crash while they are loaded."""
BYTES: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kmgtp])(?:i?b)?", re.ASCII | re.IGNORECASE)
"""How other tools write an amount of memory: 8g, 8GB, 8 GiB."""
BARE: Final = re.compile(r"(\d+(?:\.\d+)?)m?", re.ASCII)
"""An amount of memory without a unit, or in thousandths, which is never meant."""
NUMBER: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def memory_quantity(text: str) -> Quantity:
    """An amount of memory; raises `QuantityError` with the right spelling for one that is misspelt or below 6Mi."""
    other = BYTES.fullmatch(text)
    try:
        found = parse_quantity(text)
    except QuantityError as error:
        if other is None:
            raise
        number, unit = other.group(1), other.group(2).upper()
        decimal = "k" if unit == "K" else unit
        advice = spelt({f"{number}{unit}i": "(powers of 1024)", f"{number}{decimal}": "(powers of 1000)"}, " or ")
        raise QuantityError(
            f"{text!r} is not a quantity; {advice or 'write it as in 8Gi, and use 6Mi or more'}"
        ) from error
    if 0 < found.nanos < BYTES_MIN * NANO:
        bare = BARE.fullmatch(text)
        advice = (
            "" if bare is None else spelt({f"{bare.group(1)}Mi": "for MiB", f"{bare.group(1)}Gi": "for GiB"}, ", or ")
        )
        raise QuantityError(
            f"{text!r} is less than 6Mi, too little for a process to start; use 6Mi or more{advice and f': {advice}'}"
        )
    return found


def spelt(offers: Mapping[str, str], between: str) -> str:
    """Advice to write one of these amounts, each given with its meaning; empty if all are below 6Mi."""
    enough = [
        f"{amount} {meaning}" for amount, meaning in offers.items() if parse_quantity(amount).nanos >= BYTES_MIN * NANO
    ]
    return f"write {between.join(enough)}" if enough else ""


def duration_of(text: str) -> Micros:
    """A duration; raises `DurationError` with the right spelling for a number without a unit."""
    if NUMBER.fullmatch(text) and text != "0":
        raise DurationError(f"{text!r} has no unit; write {text}s, {text}m or {text}h")
    return parse_duration(text)


def readable(name: str, value: int) -> str:
    """An amount with its unit; memory with one decimal at most."""
    if name != "memory":
        return amount_text(name, value)
    for unit, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20)):
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return amount_text(name, value)
