"""What should past use be? The formulas in decimal numbers, from a list of what happened: slow, obvious.

Nothing is shared with the engine, so that a mistake in one is not repeated in the other.
"""

from decimal import ROUND_DOWN, Decimal, getcontext

from pykueue.base.struct import Frozen

getcontext().prec = 200
NINE_DECIMALS = Decimal("0.000000001")


class Event(Frozen):
    """Something that happens to a LocalQueue: `what` is hold, release, charge, drop, settle or sample."""

    at_seconds: float
    what: str
    workload: str = ""
    cores: Decimal = Decimal(0)


def product(amount: Decimal, factor: float) -> Decimal:
    """A product with nine decimals, rounded down."""
    return (amount * Decimal(repr(factor))).quantize(NINE_DECIMALS, rounding=ROUND_DOWN)


def alpha(seconds: float, half_life: float) -> float:
    """How far past use moves towards present use in this time."""
    return 0.0 if half_life == 0 else 1.0 - 0.5 ** (seconds / half_life)


def outcome(events: list[Event], *, begin: float, half_life: float, interval: float) -> tuple[Decimal, Decimal]:
    """Past use and pending charges in cores after these events."""
    consumed, at = Decimal(0), begin
    held: dict[str, Decimal] = {}
    pending: dict[str, Decimal] = {}
    for event in events:
        if event.what == "hold":
            held[event.workload] = event.cores
        elif event.what == "release":
            held.pop(event.workload, None)
        elif event.what == "charge":
            pending[event.workload] = product(event.cores, alpha(interval, half_life))
        elif event.what == "drop":
            pending.pop(event.workload, None)
        elif event.what == "sample" or (event.what == "settle" and event.workload in pending):
            if event.at_seconds >= at:
                share = alpha(event.at_seconds - at, half_life)
                consumed = product(consumed, 1.0 - share) + product(sum(held.values(), Decimal(0)), share)
                at = event.at_seconds
            if event.what == "sample" and half_life == 0:
                consumed = Decimal(0)
            consumed += pending.pop(event.workload, Decimal(0))
    return consumed, sum(pending.values(), Decimal(0))
