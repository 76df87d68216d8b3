"""How long another queue goes first: what it can still borrow or use until its number is as large as the own one."""

from collections.abc import Mapping
from decimal import Decimal
from math import ceil, isinf, log

from pykueue.base.units import MICROS, UNLIMITED, counts_in_bytes, counts_in_milli
from pykueue.engine.pastuse import PastUse
from pykueue.engine.quota import QuotaNode
from pykueue.engine.record.causes import BorrowLead, UseLead
from pykueue.engine.shares import PER_MILLE, Share, lendable

HOURS_FROM = 600
"""From so many minutes on, use is told in hours."""
GIB = 2**30
MINUTES_MAX = 10**9
"""More use than this, in cores, GiB or pieces, is as good as none."""
AMOUNT_MIN = 0.01
"""Less is told as this."""


def share_lead(theirs: QuotaNode, first: Share, own: Share) -> BorrowLead | None:
    """Return how much a node borrows when its share, the smaller one, is as large as another; None if it cannot."""
    resource = first.resource or own.resource
    most = 0 if theirs.parent is None else lendable(theirs.parent).get(resource, 0)
    if isinf(own.value) or not 0 < most < UNLIMITED:
        return None
    borrowed = own.value / PER_MILLE * theirs.weight * most
    step = 1000 if counts_in_milli(resource) else 1
    return BorrowLead(resource, ceil(borrowed / step) * step) if 0 < borrowed < most else None


def past_use_lead(past: PastUse, first: float, own: float, weight: float, used: Mapping[str, int]) -> UseLead | None:
    """Return how much use takes the smaller past use to the larger one, given the weight of the queue with the smaller.

    It is told in the resource that counts most in `used`, the past use of both, and holds if the queue with the larger
    one uses nothing meanwhile. The decay is left out; it only makes the gap smaller. None if it has no end.
    """
    resource = max(sorted(used), key=lambda one: past.weights.get(one, 1.0) * used[one], default="")
    resource_weight = past.weights.get(resource, 1.0)
    half_life = past.settings.half_life_micros / MICROS
    if isinf(own) or resource_weight <= 0 or not half_life:
        return None
    amount = (own - first) * weight / resource_weight * half_life / log(2) / 60
    return UseLead(resource, amount) if amount <= MINUTES_MAX * (GIB if counts_in_bytes(resource) else 1) else None


def use_text(lead: UseLead) -> str:
    """Use over time for people: 40 gpu-minutes."""
    amount, unit = lead.unit_minutes, lead.resource.rpartition("/")[2]
    if lead.resource == "cpu":
        unit = "core"
    elif counts_in_bytes(lead.resource):
        amount, unit = amount / GIB, f"GiB-of-{unit}"
    span = "hours" if amount >= HOURS_FROM else "minutes"
    amount = amount / 60 if amount >= HOURS_FROM else amount
    return f"{Decimal(f'{max(amount, AMOUNT_MIN):.2g}'):f} {unit}-{span}"
