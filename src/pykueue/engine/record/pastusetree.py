"""Past use as sentences."""

from collections.abc import Iterator
from decimal import Decimal
from math import isinf
from typing import Final

from pykueue.base.units import format_instant
from pykueue.engine.record.causes import HIDDEN, PastUseCause, PastUseRow
from pykueue.engine.record.leads import use_text
from pykueue.engine.record.nodes import Node

TURNS: Final = Node("turns", "the place changes with every start, because LocalQueues take turns by their past use")
"""About the place in line."""


def past_use_text(value: float) -> str:
    """Past use for people: the number that orders LocalQueues, with four significant digits."""
    return "infinite" if isinf(value) else f"{Decimal(f'{value:.4g}'):f}"


def figure(row: PastUseRow) -> str:
    """The past use of a LocalQueue, and its weight unless that is 1."""
    text = past_use_text(row.past_use)
    return text if row.weight == 1 else f"{text} (weight {row.weight:g})"


def counted(row: PastUseRow) -> str:
    """Up to when use counts, as a clause; empty if that is not known or does not matter."""
    return (
        "" if row.at is None or not row.past_use or isinf(row.past_use) else f", counted up to {format_instant(row.at)}"
    )


def waits(row: PastUseRow) -> str:
    """How many workloads of a LocalQueue wait, as a clause; empty if none does."""
    return f"; {row.pending} of its workloads wait{'s' if row.pending == 1 else ''}" if row.pending else ""


def until(row: PastUseRow) -> str:
    """How long a LocalQueue goes first, as a clause; empty if that has no limit."""
    return "" if row.lead is None else f"; this job would be next after about {use_text(row.lead)} of it"


def past_use_nodes(found: PastUseCause | None) -> Iterator[Node]:
    """The past use of a pending workload's LocalQueue, and which LocalQueues go before it."""
    if found is None or found.own is None:
        return
    text = f"past use: that of LocalQueue {found.own.local_queue} is {figure(found.own)}{counted(found.own)}"
    if not found.count:
        text += "; no LocalQueue with pending workloads has less"
    children = [
        Node(
            "earlier", f"LocalQueue {one.local_queue} goes first: its past use is {figure(one)}{waits(one)}{until(one)}"
        )
        for one in named(found)
    ]
    rest = unnamed(found)
    if rest:
        goes = "goes" if found.count - len(children) == 1 else "go"
        children.append(Node("more", f"{rest} {goes} first, with less past use"))
    yield Node("pastuse", text, tuple(children))


def queue_past_use_nodes(found: PastUseCause | None) -> Iterator[Node]:
    """The past use of a LocalQueue, and of the others of its ClusterQueue; those of all for a ClusterQueue."""
    if found is None:
        return
    if found.own is None:
        text = "past use of its LocalQueues; those with less go first:"
    else:
        text = f"past use: {figure(found.own)}{counted(found.own)}; LocalQueues of this ClusterQueue with less go first"
    children = [Node("sibling", f"LocalQueue {one.local_queue}: {figure(one)}{waits(one)}") for one in named(found)]
    rest = unnamed(found)
    if rest:
        children.append(Node("more", rest))
    if children or found.own is not None:
        yield Node("pastuse", text, tuple(children))


def named(found: PastUseCause) -> list[PastUseRow]:
    """The other LocalQueues that the reader may see."""
    return [one for one in found.others if one.local_queue != HIDDEN]


def unnamed(found: PastUseCause) -> str:
    """How many other LocalQueues are not named; empty if all are."""
    hidden, more = len(found.others) - len(named(found)), found.count - len(found.others)
    if hidden:
        text = "1 LocalQueue of another namespace" if hidden == 1 else f"{hidden} LocalQueues of other namespaces"
        return f"{text} and {more} more" if more else text
    return f"{more} more LocalQueue{'' if more == 1 else 's'}" if more else ""
