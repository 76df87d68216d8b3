"""Shares as sentences."""

from collections.abc import Iterator
from math import isinf
from typing import assert_never

from pykueue.engine.record.causes import (
    BorrowLead,
    Earlier,
    Precedence,
    Protected,
    QueueCauses,
    ShareCause,
    ShareRow,
    UseLead,
)
from pykueue.engine.record.leads import use_text
from pykueue.engine.record.nodes import Node, number
from pykueue.engine.record.pastusetree import past_use_text
from pykueue.engine.shares import rounded


def share_text(share: float) -> str:
    """A weighted share for people, as a part of 1: the number that status shows per mille, rounded up."""
    return "infinite" if isinf(share) else f"{rounded(share) / 1000:.3f}".rstrip("0").rstrip(".")


def share_nodes(found: ShareCause | None) -> Iterator[Node]:
    """The share of a pending workload's queue, who goes before it, and where it may not preempt."""
    if found is None:
        return
    text = f"share: ClusterQueue {found.queue.name} has {share_text(found.queue.share)}{weighted(found.queue)}"
    children = (
        *(Node("earlier", earlier_text(one)) for one in found.earlier),
        *(Node("protected", protected_text(one)) for one in found.protected),
    )
    yield Node("share", f"{text}, and would have {share_text(found.with_it)} with it{used(found.queue)}", children)


def weighted(row: ShareRow) -> str:
    """The weight in parentheses, unless it is 1."""
    return "" if row.weight == 1 else f" (weight {row.weight:g})"


def earlier_text(one: Earlier) -> str:
    """Why the next workload of another queue goes first."""
    text = f"{one.queue} goes first"
    match one.why:
        case Precedence.CLAIM:
            return f"{text}: room is kept for its next workload, for which others were preempted"
        case Precedence.WITHIN_QUOTA:
            return f"{text}: it need not borrow for its next workload, and {one.own.name} has to borrow for this one"
        case Precedence.PAST_USE:
            theirs, mine = (f"{past_use_text(row.past_use or 0.0)}{weighted(row)}" for row in (one.theirs, one.own))
            compared = f"the past use of {one.theirs.name} is {theirs}, below {mine}, that of {one.own.name}"
            return f"{text}: {compared}{until(one)}"
        case Precedence.SHARE:
            theirs, mine = share_text(one.theirs.share), share_text(one.own.share)
            with_next = f"with its next workload, the share of {one.theirs.name} is {theirs}"
            return f"{text}: {with_next}, below {mine}, that of {one.own.name} with this one{until(one)}"
        case Precedence.ORDER:
            return f"{text}: the shares are equal, and its next workload has a higher priority, or is older"
        case _:
            assert_never(one.why)


def until(one: Earlier) -> str:
    """How long another queue goes first, as a clause; empty if that has no limit."""
    match one.lead:
        case None:
            return ""
        case UseLead():
            return f"; {one.own.name} would be next after about {use_text(one.lead)} of {one.theirs.name}"
        case BorrowLead(resource, amount):
            return f"; {one.own.name} would be next if {one.theirs.name} borrowed {number(resource, amount)} {resource}"


def protected_text(one: Protected) -> str:
    """Why a workload may not preempt in another queue."""
    mine, theirs = share_text(one.own.share), share_text(one.theirs.share)
    text = f"it may not preempt in {one.queue}: with it, {one.own.name} would have a share of {mine}"
    if one.own.share >= one.theirs.share:
        return f"{text}, not below the {theirs} of {one.theirs.name}"
    return f"{text}, above {share_text(one.final)}, that of {one.theirs.name} without one of its workloads"


def queue_share_nodes(causes: QueueCauses) -> Iterator[Node]:
    """The share of a queue, and those of the nodes that it is compared with."""
    if causes.share is None:
        return
    own = causes.share
    children = tuple(
        Node("sibling", f"{one.kind} {one.name}: {share_text(one.share)}{weighted(one)}{used(one)}")
        for one in causes.siblings
    )
    text = f"share of what its cohort lends: {share_text(own.share)}{weighted(own)}{used(own)}"
    yield Node("share", text if own.past_use is None else f"{text}; siblings with less past use go first", children)


def used(row: ShareRow) -> str:
    """The past use as a clause; empty unless it orders siblings."""
    return "" if row.past_use is None else f", past use {past_use_text(row.past_use)}"
