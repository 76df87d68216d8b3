"""A sentence with those that explain it, and the phrases that all explanations share."""

from collections.abc import Sequence
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, UNLIMITED, amount_text
from pykueue.engine.record.causes import HIDDEN

SOMEBODY: Final = "a workload of another namespace"


class Node(Frozen):
    """A sentence and those that explain it."""

    code: str
    """What it is about; stable."""
    text: str
    children: "tuple[Node, ...]" = ()


def listed(keys: Sequence[str], total: int) -> str:
    """Names of workloads, with counts in place of those that may not be named."""
    shown = [one for one in keys if one != HIDDEN]
    hidden = len(keys) - len(shown)
    rest = total - len(keys)
    parts = list(shown)
    if hidden:
        parts.append(f"{hidden} of other namespaces")
    if rest > 0:
        parts.append(f"{rest} more")
    return ", ".join(parts) if len(parts) < 2 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def number(resource: str, amount: int) -> str:
    """An amount for people."""
    return "no limit" if amount >= UNLIMITED else amount_text(resource, amount)


def span(micros: int) -> str:
    """A duration for people: 1 h 5 min, 40 s."""
    seconds = micros // MICROS
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min" if minutes else f"{seconds} s"
