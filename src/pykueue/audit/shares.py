"""The dominant resource share of each ClusterQueue and cohort under fair sharing, computed for the auditor alone.

The share of a node is what it uses beyond its own quota, in thousandths of what its parent could lend, for the resource
of which that is most, divided by its weight. It is computed in fractions from the quotas and what each queue holds.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from pykueue.audit.tree import ONE, QUEUE, Account, Amounts, Forest, NodeName, Slot, plus
from pykueue.base.struct import Frozen

ZERO: Final = Fraction(0)
ROUNDING: Final = Fraction(1, 10**9)
"""By how much two shares must differ for a manager that counts in floating point to agree that they do."""


class Share(Frozen):
    """The share of a node, with what it is made of."""

    ratio: Fraction = ZERO
    """What is borrowed of the dominant resource, in thousandths of what could be lent, before the weight."""
    weight: Fraction = ONE
    resource: str = ""
    """The dominant resource, the first by name of those that are equal; empty if nothing counts as borrowed."""
    borrowed: frozenset[Slot] = frozenset()
    """The flavors and resources of which the node uses more than it has."""

    @property
    def rank(self) -> tuple[bool, Fraction]:
        """The order of shares: those of weight zero that borrow are infinite, and compare by what they borrow."""
        if self.weight == 0 and self.ratio > 0:
            return True, self.ratio
        return False, self.ratio / self.weight if self.ratio else ZERO

    def __str__(self) -> str:
        infinite, value = self.rank
        return "infinite" if infinite else f"{float(value):.6g}"


def surely_above(left: Share, right: Share) -> bool:
    """Whether the left share is larger, whatever the rounding of the manager."""
    (ours, value), (theirs, other) = left.rank, right.rank
    return ours if ours != theirs else value > other * (1 + ROUNDING)


def surely_equal(left: Share, right: Share) -> bool:
    """Whether the shares are equal, whatever the rounding of the manager: it rounds equal numbers equally."""
    return left.ratio == right.ratio and (left.weight == right.weight or not left.ratio)


class Shares:
    """One tree: the share of each node when each queue holds so much."""

    def __init__(self, forest: Forest, root: NodeName, held: Mapping[str, Amounts]) -> None:
        self.forest = forest
        self.slots: dict[NodeName, set[Slot]] = {}
        """The flavors and resources for which there is quota at a node or below it; usage of others does not count."""
        for name in forest.below(root):
            below = (self.slots[child] for child in forest.children.get(name, ()))
            self.slots[name] = set(forest.nodes[name].quotas).union(*below)
        self.accounts = {slot: Account(forest, root, slot, held) for slot in self.slots[root]}

    def potential(self, name: NodeName, slot: Slot) -> int:
        """The most that a node could use if all quota were free."""
        account, parent = self.accounts[slot], self.forest.nodes[name].parent
        if parent is None:
            return account.subtree[name]
        most, limit = plus(account.kept[name], self.potential(parent, slot)), account.quota(name).borrow_max
        return most if limit is None else min(most, plus(account.subtree[name], limit))

    def lendable(self, parent: NodeName) -> dict[str, int]:
        """How much of each resource, in all flavors, a node could lend to its children."""
        found: dict[str, int] = {}
        for slot in self.accounts:
            found[slot[1]] = plus(found.get(slot[1], 0), self.potential(parent, slot))
        return found

    def share(self, name: NodeName) -> Share:
        """The share of a node; that of a root is zero."""
        node = self.forest.nodes[name]
        if node.parent is None:
            return Share(weight=node.weight)
        over: dict[Slot, int] = {}
        for slot in self.slots[name]:
            account = self.accounts[slot]
            if account.usage[name] > account.subtree[name]:
                over[slot] = account.usage[name] - account.subtree[name]
        borrowed: dict[str, int] = {}
        for (_, resource), amount in over.items():
            borrowed[resource] = borrowed.get(resource, 0) + amount
        found = Share(weight=node.weight, borrowed=frozenset(over))
        lendable = self.lendable(node.parent) if borrowed else {}
        for resource in sorted(borrowed):
            ratio = Fraction(borrowed[resource] * 1000, lendable[resource]) if lendable[resource] > 0 else ZERO
            if ratio > found.ratio:
                found = Share(ratio, node.weight, resource, frozenset(over))
        return found


def sides(forest: Forest, left: str, right: str) -> tuple[NodeName, NodeName] | None:
    """The nodes just below the lowest cohort that two ClusterQueues share, at which their shares are compared.

    None if they are the same queue, or belong to different trees.
    """
    ours, theirs = forest.path((QUEUE, left))[::-1], forest.path((QUEUE, right))[::-1]
    for depth, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return (one, other) if depth else None
    return None
