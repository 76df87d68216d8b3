"""How much each ClusterQueue and cohort may use: the arithmetic of cohorts, written for the auditor alone.

It shares nothing with the manager: two programs that count in the same way would be wrong in the same way. Everything
is recomputed from the quotas and what each ClusterQueue holds, one flavor and resource at a time.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from pykueue.api.kueue import ClusterQueue, Cohort, FairSharing, ResourceGroup
from pykueue.audit.quantities import UNLIMITED, amount, number
from pykueue.base.struct import Frozen

Slot: TypeAlias = tuple[str, str]
"""A flavor and a resource."""
Amounts: TypeAlias = Mapping[Slot, int]
NodeName: TypeAlias = tuple[str, str]
"""`ClusterQueue` or `Cohort`, and the name."""

QUEUE: Final = "ClusterQueue"
COHORT: Final = "Cohort"


class Quota(Frozen):
    """What a node has of one flavor and resource; a limit that is None does not limit."""

    nominal: int = 0
    borrow_max: int | None = None
    lend_max: int | None = None


NO_QUOTA: Final = Quota()
ONE: Final = Fraction(1)


class TreeNode(Frozen):
    """A ClusterQueue or a cohort in its tree."""

    name: NodeName
    quotas: Mapping[Slot, Quota]
    parent: NodeName | None
    weight: Fraction = ONE
    """By what its share is divided under fair sharing."""


def quotas_of(groups: Iterable[ResourceGroup]) -> dict[Slot, Quota]:
    """The quota of each flavor and resource in these groups."""
    return {
        (flavor.name, quota.name): Quota(
            amount(quota.name, quota.nominal_quota),
            None if quota.borrowing_limit is None else amount(quota.name, quota.borrowing_limit),
            None if quota.lending_limit is None else amount(quota.name, quota.lending_limit),
        )
        for group in groups
        for flavor in group.flavors
        for quota in flavor.resources
    }


def weight_of(sharing: FairSharing | None) -> Fraction:
    """The weight under fair sharing; 1 if there is none, or if it is malformed."""
    found = number(str(sharing.weight)) if sharing is not None else None
    return ONE if found is None else found


def plus(left: int, right: int) -> int:
    """The sum; unlimited stays unlimited."""
    return UNLIMITED if UNLIMITED in (left, right) else min(left + right, UNLIMITED)


def minus(left: int, right: int) -> int:
    """The difference; unlimited stays unlimited unless all of it is taken."""
    if left == UNLIMITED:
        return 0 if right == UNLIMITED else UNLIMITED
    return left - right


class Forest:
    """All present trees of cohorts. Nodes above or in a cycle of cohorts belong to none."""

    def __init__(self, queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
        self.nodes: dict[NodeName, TreeNode] = {}
        for cohort in cohorts:
            spec = cohort.spec
            self.add(
                (COHORT, cohort.name), quotas_of(spec.resource_groups), spec.parent_name, weight_of(spec.fair_sharing)
            )
        for queue in queues:
            own = queue.spec
            self.add((QUEUE, queue.name), quotas_of(own.resource_groups), own.cohort_name, weight_of(own.fair_sharing))
        for node in list(self.nodes.values()):
            if node.parent is not None and node.parent not in self.nodes:
                # A cohort exists, without quota of its own, as soon as something refers to it.
                self.add(node.parent, {}, None)
        self.children: dict[NodeName, list[NodeName]] = {}
        for name, node in self.nodes.items():
            if node.parent is not None:
                self.children.setdefault(node.parent, []).append(name)
        self.roots = {name: self.climb(name) for name in self.nodes}

    def add(self, name: NodeName, quotas: Mapping[Slot, Quota], parent: str | None, weight: Fraction = ONE) -> None:
        """Add a node."""
        self.nodes[name] = TreeNode(name, quotas, (COHORT, parent) if parent else None, weight)

    def climb(self, name: NodeName) -> NodeName | None:
        """The root above a node, or None in a cycle."""
        passed: set[NodeName] = set()
        while name not in passed:
            passed.add(name)
            parent = self.nodes[name].parent
            if parent is None:
                return name
            name = parent
        return None

    def path(self, name: NodeName) -> list[NodeName]:
        """A node and those above it, up to the root; empty if it belongs to no tree."""
        found: list[NodeName] = []
        node = self.nodes.get(name) if self.roots.get(name) is not None else None
        while node is not None:
            found.append(node.name)
            node = None if node.parent is None else self.nodes[node.parent]
        return found

    def root_of(self, queue: str) -> NodeName | None:
        """The root of a ClusterQueue's tree, or None if it belongs to none."""
        return self.roots.get((QUEUE, queue))

    def below(self, name: NodeName) -> Iterator[NodeName]:
        """The node and all beneath it, children before parents."""
        for child in self.children.get(name, ()):
            yield from self.below(child)
        yield name

    def queues_below(self, name: NodeName) -> list[str]:
        """The ClusterQueues of a tree."""
        return [inner for kind, inner in self.below(name) if kind == QUEUE]


class Account:
    """One tree, one flavor and resource: each node's quota, guaranteed part, usage, and remaining quota."""

    def __init__(self, forest: Forest, root: NodeName, slot: Slot, held: Mapping[str, Amounts]) -> None:
        self.forest, self.slot = forest, slot
        self.subtree: dict[NodeName, int] = {}
        self.kept: dict[NodeName, int] = {}
        self.usage: dict[NodeName, int] = {}
        for name in forest.below(root):
            self.settle(name, held)

    def quota(self, name: NodeName) -> Quota:
        """The quota that is the node's own."""
        return self.forest.nodes[name].quotas.get(self.slot, NO_QUOTA)

    def settle(self, name: NodeName, held: Mapping[str, Amounts]) -> None:
        """Compute a node whose children are computed."""
        quota = self.quota(name)
        has, uses = quota.nominal, held.get(name[1], {}).get(self.slot, 0) if name[0] == QUEUE else 0
        for child in self.forest.children.get(name, ()):
            has = plus(has, minus(self.subtree[child], self.kept[child]))
            uses += self.borrowed_from_parent(child)
        self.subtree[name], self.usage[name] = has, uses
        self.kept[name] = max(0, minus(has, quota.lend_max)) if quota.lend_max is not None else 0

    def borrowed_from_parent(self, name: NodeName) -> int:
        """What the node uses beyond its guaranteed part, and so takes from its parent."""
        return max(0, self.usage[name] - self.kept[name])

    def may_spill(self, name: NodeName) -> int | None:
        """The most that the node may take from its parent, or None if only the parent limits it."""
        limit = self.quota(name).borrow_max
        return None if limit is None else plus(minus(self.subtree[name], self.kept[name]), limit)

    def excess(self, name: NodeName) -> int:
        """By how much the node uses more than it may; negative if something is left."""
        if self.forest.nodes[name].parent is None:
            return self.usage[name] - self.subtree[name]
        most = self.may_spill(name)
        return -UNLIMITED if most is None else self.borrowed_from_parent(name) - most

    def excesses(self) -> dict[NodeName, int]:
        """The nodes that use more than they may, and by how much."""
        return {name: over for name in self.usage if (over := self.excess(name)) > 0}

    def left(self, name: NodeName) -> int:
        """How much more could be used at this node without any node exceeding its limit."""
        parent = self.forest.nodes[name].parent
        if parent is None:
            return minus(self.subtree[name], self.usage[name])
        above, most = self.left(parent), self.may_spill(name)
        if most is not None:
            above = min(above, most - self.borrowed_from_parent(name))
        return plus(max(0, self.kept[name] - self.usage[name]), above)

    def may_use(self, name: NodeName) -> int:
        """The node's limit in its owner's terms: what it and its children have, and may borrow."""
        limit = self.quota(name).borrow_max if self.forest.nodes[name].parent is not None else 0
        return UNLIMITED if limit is None else plus(self.subtree[name], limit)
