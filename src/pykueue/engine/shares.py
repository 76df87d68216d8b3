"""Shares: how much a ClusterQueue or cohort borrows, compared with what its parent can lend, and by weight.

This is Kueue's dominant resource share. It depends on the usage of the node alone; what the parent can lend depends on
quotas alone. Amounts are integers and become floating-point numbers in the last step, in the same order of operations
as in Kueue, so that two shares that are equal there are equal here.
"""

from math import ceil, inf
from typing import Final

from pykueue.base.units import UNLIMITED
from pykueue.engine.quota import QuotaNode, Usage, ancestors, book, potential, unbook

PER_MILLE: Final = 1000.0

Standing = tuple[bool, float]
"""The order of shares: whether it borrows with a weight of zero, then the share, or the ratio if it does."""


class Share:
    """The share of one node."""

    __slots__ = ("borrowed", "ratio", "resource", "standing", "weight")

    def __init__(self, ratio: float, weight: float, resource: str, borrowed: tuple[int, ...]) -> None:
        self.ratio = ratio
        """What is borrowed of the dominant resource, per mille of what the parent can lend; not weighted."""
        self.weight = weight
        self.resource = resource
        """The dominant resource; empty if the ratio is 0."""
        self.borrowed = borrowed
        """The pairs that the node borrows. Those of which the parent can lend nothing do not count in the ratio."""
        self.standing: Standing = (True, ratio) if weight == 0 and ratio else (False, ratio and ratio / weight)

    @property
    def value(self) -> float:
        """The weighted share; infinite for a node of weight 0 that borrows."""
        return inf if self.standing[0] else self.standing[1]

    @property
    def rounded(self) -> int:
        """The weighted share as status and metrics show it: rounded up, `UNLIMITED` if infinite."""
        return rounded(self.value)

    def borrows_any(self, usage: Usage) -> bool:
        """Return whether the node borrows any pair of which this usage has some."""
        borrowed = self.borrowed
        return bool(borrowed) and any(amount > 0 and fr in borrowed for fr, amount in usage)


def rounded(share: float) -> int:
    """Return a weighted share as status shows it: rounded up, `UNLIMITED` if infinite."""
    return UNLIMITED if share == inf else min(ceil(share), UNLIMITED)


NO_SHARE: Final = Share(0.0, 1.0, "", ())


def share(node: QuotaNode) -> Share:
    """Return the share of a node with its current usage; a root has none."""
    # spec: SHR-1
    parent, tree = node.parent, node.tree
    if parent is None or tree is None:
        return NO_SHARE
    usage = node.usage
    borrowed = [fr for fr, quota in node.subtree.items() if usage.get(fr, 0) > quota]
    if not borrowed:
        return NO_SHARE
    lent = lendable(parent)
    pairs, subtree = tree.flavors.pairs, node.subtree
    amounts: dict[str, int] = {}
    for fr in borrowed:
        resource = pairs[fr][1]
        amounts[resource] = amounts.get(resource, 0) + usage[fr] - subtree[fr]
    ratio, dominant = 0.0, ""
    for resource, amount in amounts.items():
        most = lent.get(resource, 0)
        if most > 0:
            this = float(min(amount, UNLIMITED)) * PER_MILLE / float(most)
            if this > ratio or (this == ratio and resource < dominant):
                ratio, dominant = this, resource
    return Share(ratio, node.weight, dominant, tuple(borrowed))


def lendable(cohort: QuotaNode) -> dict[str, int]:
    """Return how much of each resource a cohort could use if nothing else used anything, over all flavors."""
    found = cohort.lendable
    if found is None:
        assert cohort.tree is not None, "a cohort with a share is in a tree"
        pairs = cohort.tree.flavors.pairs
        found = cohort.lendable = {}
        for fr in cohort.tree.root.subtree:
            resource = pairs[fr][1]
            found[resource] = min(found.get(resource, 0) + potential(cohort, fr), UNLIMITED)
    return found


def share_with(node: QuotaNode, queue: QuotaNode, usage: Usage) -> Share:
    """Return the share that a node would have if a queue below it, or the node itself, used this much more."""
    book(queue, usage)
    found = share(node)
    unbook(queue, usage)
    return found


def share_without(node: QuotaNode, queue: QuotaNode, usage: Usage) -> Share:
    """Return the share that a node would have if a queue below it, or the node itself, used this much less."""
    unbook(queue, usage)
    found = share(node)
    book(queue, usage)
    return found


def sides(one: QuotaNode, other: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
    """Return the children of the lowest cohort that two queues of a tree share, on the path to each of them."""
    # spec: SHR-4
    below = {cohort: child for child, cohort in steps(one)}
    return next((below[cohort], child) for child, cohort in steps(other) if cohort in below)


def steps(queue: QuotaNode) -> list[tuple[QuotaNode, QuotaNode]]:
    """Return each cohort above a queue with its child on the path to the queue, nearest first."""
    above = list(ancestors(queue))
    return list(zip([queue, *above], above, strict=False))
