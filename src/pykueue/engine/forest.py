"""The trees of ClusterQueues and cohorts that share quota, built from their objects.

Edits are collected in `Forest.stale`; `Forest.refresh` recomputes the trees that they affect.
"""

from pykueue.engine.items import Item
from pykueue.engine.model import ClusterQueue, Cohort
from pykueue.engine.quota import CoveredGroup, Flavors, QuotaNode, Usage, book, unbook

DEPTH_MAX = 200
"""The deepest nesting of cohorts. Anything deeper is treated as a cycle."""


class Tree:
    """All nodes below one root. A decision in one tree cannot affect another tree."""

    __slots__ = (
        "cycle",
        "dirty",
        "flavors",
        "heads",
        "news",
        "order",
        "queues",
        "root",
        "strict_heads",
        "usage_based",
        "version",
    )

    def __init__(self, root: QuotaNode, dirty: "dict[Tree, None]", flavors: Flavors) -> None:
        self.root = root
        self.flavors = flavors
        """The numbers of all (flavor, resource) pairs; shared by the forest."""
        self.dirty = dirty
        """The set of all trees that need another cycle; shared by the forest."""
        self.version = 0
        """Counts the changes that could alter a decision in this tree, other heads included."""
        self.news = 0
        """Counts the same changes without other heads."""
        self.strict_heads: list[str] = []
        """The heads of its StrictFIFO queues in the last cycle."""
        self.cycle = 0
        self.heads: list[str] = []
        """The heads of the last cycle."""
        self.queues: list[QuotaNode] = []
        """Its ClusterQueues, by name."""
        self.usage_based: list[QuotaNode] = []
        """Its cohorts whose children are ordered by past use."""
        self.order: tuple[str, ...] = ()
        """The order of their children at the last sample."""

    def touch(self) -> None:
        """Record a change that may let a head of this tree start."""
        self.version += 1
        self.news += 1
        self.dirty[self] = None

    def is_dirty(self) -> bool:
        """Return whether the tree needs another cycle."""
        return self in self.dirty

    def rest(self) -> None:
        """Leave the tree out of further cycles until something changes."""
        self.dirty.pop(self, None)

    def place(self) -> tuple[bool, str]:
        """Return the key by which trees are sorted."""
        return self.root.is_queue, self.root.name


class Forest:
    """All ClusterQueues and cohorts, and the trees that they form."""

    def __init__(self) -> None:
        self.flavors = Flavors()
        self.queues: dict[str, QuotaNode] = {}
        self.cohorts: dict[str, QuotaNode] = {}
        self.stale: dict[QuotaNode, None] = {}
        """Nodes whose trees must be recomputed by `refresh`."""
        self.trees: dict[Tree, None] = {}
        self.dirty: dict[Tree, None] = {}
        """Trees that need another cycle."""

    def put_queue(self, spec: ClusterQueue) -> QuotaNode:
        """Add or replace a ClusterQueue."""
        node = self.queues.get(spec.name)
        if node is None:
            node = self.queues[spec.name] = QuotaNode(spec.name, is_queue=True)
        node.spec = spec
        node.weight = spec.weight
        node.set_quotas(spec.quotas, self.flavors)
        node.groups = {}
        for group in spec.groups:
            frs = tuple({r: self.flavors.id(f, r) for r in group.resources} for f in group.flavors)
            covered = CoveredGroup(group.flavors, frs)
            for resource in group.resources:
                node.groups[resource] = covered
        self.attach(node, spec.cohort)
        return node

    def drop_queue(self, name: str) -> None:
        """Remove a ClusterQueue and its usage."""
        node = self.queues.pop(name, None)
        if node is not None:
            self.detach(node)
            self.forget(node)

    def put_cohort(self, spec: Cohort) -> QuotaNode:
        """Add or replace a Cohort object."""
        node = self.cohort(spec.name)
        node.object = spec
        node.weight = spec.weight
        node.set_quotas(spec.quotas, self.flavors)
        self.attach(node, spec.parent)
        return node

    def drop_cohort(self, name: str) -> None:
        """Remove a Cohort object; while the cohort has children it stays, without quota or parent."""
        node = self.cohorts.get(name)
        if node is None or node.object is None:
            return
        node.set_quotas((), self.flavors)
        self.attach(node, "")
        node.object, node.weight = None, 1.0
        self.prune(node)

    def cohort(self, name: str) -> QuotaNode:
        """Return the cohort of this name; create it if there is none, without an object."""
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = QuotaNode(name, is_queue=False)
            self.stale[node] = None
        return node

    def attach(self, node: QuotaNode, parent: str) -> None:
        """Move a node below a cohort, or below none, and mark both trees as stale."""
        above = self.cohort(parent) if parent else None
        if node.parent is not above:
            self.detach(node)
        if above is not None:
            node.parent = above
            above.children[node] = None
        self.stale[node] = None

    def detach(self, node: QuotaNode) -> None:
        """Detach a node from its cohort."""
        above = node.parent
        self.stale[node] = None
        if above is not None:
            above.children.pop(node, None)
            node.parent = None
            self.stale[above] = None
            self.prune(above)

    def prune(self, node: QuotaNode) -> None:
        """Remove a cohort that has neither an object nor children."""
        if node.object is None and not node.children and self.cohorts.get(node.name) is node:
            del self.cohorts[node.name]
            self.forget(node)

    def forget(self, node: QuotaNode) -> None:
        """Drop every reference to a node that was removed."""
        self.stale.pop(node, None)
        if node.tree is not None and node.tree.root is node:
            self.forget_tree(node.tree)
        node.tree = None

    def refresh(self) -> list[Tree]:
        """Recompute every tree that an edit affected, including a tree that a node left; return them."""
        if not self.stale:
            return []
        redone = []
        stale, self.stale = self.stale, {}
        for root in dict.fromkeys(root_of(node) for node in stale):
            if root is None:
                continue
            if root.tree is None or root.tree.root is not root:
                root.tree = Tree(root, self.dirty, self.flavors)
            self.trees[root.tree] = None
            root.tree.queues, root.tree.usage_based = [], []
            redo(root, root.tree)
            root.tree.queues.sort(key=lambda queue: queue.name)
            root.tree.touch()
            redone.append(root.tree)
        for node in stale:
            if root_of(node) is None:
                cut_off(node)
        for tree in [t for t in self.trees if t.root.tree is not t]:
            self.forget_tree(tree)
        # A node keeps its old tree until it is recomputed here, so a change may have touched a tree that was removed.
        for tree in [t for t in self.dirty if t not in self.trees]:
            tree.rest()
        return redone

    def forget_tree(self, tree: Tree) -> None:
        """Remove a tree."""
        self.trees.pop(tree, None)
        tree.rest()

    def is_dirty(self) -> bool:
        """Return whether some tree must be recomputed or needs another cycle."""
        return bool(self.stale or self.dirty)

    def hold(self, queue: QuotaNode, item: Item) -> None:
        """Add a workload's usage to its ClusterQueue."""
        queue.holders[item.key] = item
        queue.rank_again()
        self.count(queue, item.usage, 1)
        if queue.tree is not None:
            queue.tree.touch()

    def count(self, queue: QuotaNode, usage: Usage, sign: int) -> None:
        """Add usage (sign 1) or remove it (sign -1).

        While edits are pending, and below a cycle of cohorts, only the queue itself counts it; `refresh` does the rest.
        """
        if self.stale or queue.tree is None:
            for fr, amount in usage:
                queue.usage[fr] = queue.usage.get(fr, 0) + sign * amount
            if self.stale:
                self.stale[queue] = None
            return
        (book if sign > 0 else unbook)(queue, usage)

    def release(self, queue: QuotaNode, item: Item) -> None:
        """Remove a workload's usage; scans of flavors in this queue start from the first flavor again."""
        if queue.holders.pop(item.key, None) is None:
            return
        queue.rank_again()
        queue.generation += 1
        self.count(queue, item.usage, -1)
        if queue.tree is not None:
            queue.tree.touch()


def root_of(node: QuotaNode) -> QuotaNode | None:
    """Return the root above a node; None inside or below a cycle of cohorts."""
    # spec: QUO-7
    for _ in range(DEPTH_MAX):
        if node.parent is None:
            return node
        node = node.parent
    return None


def cut_off(node: QuotaNode) -> None:
    """Remove a node and everything below it from their tree, so that its queues cannot admit."""
    waiting, seen = [node], {node}
    while waiting:
        here = waiting.pop()
        here.tree = None
        for child in here.children:
            if child not in seen:
                seen.add(child)
                waiting.append(child)


def redo(node: QuotaNode, tree: Tree, depth: int = 1) -> None:
    """Recompute a node and everything below it, down to `DEPTH_MAX`."""
    node.tree = tree
    node.potentials, node.lendable = {}, None
    node.height = 0
    if node.is_queue:
        tree.queues.append(node)
        node.generation += 1
        node.subtree = dict(node.nominal)
    else:
        # spec: QUO-1
        if node.usage_based:
            tree.usage_based.append(node)
        node.subtree = dict(node.nominal)
        node.usage = {}
        for child in node.children:
            if depth == DEPTH_MAX:
                cut_off(child)
                continue
            redo(child, tree, depth + 1)
            if child.active or not child.is_queue:
                node.height = max(node.height, 1, 0 if child.is_queue else child.height + 1)
            for fr, owned in child.subtree.items():
                node.subtree[fr] = node.subtree.get(fr, 0) + owned - child.local.get(fr, 0)
            for fr, used in child.usage.items():
                spilled = used - child.local.get(fr, 0)
                if spilled > 0:
                    node.usage[fr] = node.usage.get(fr, 0) + spilled
    # spec: QUO-2
    node.local = {fr: max(0, node.subtree.get(fr, 0) - limit) for fr, limit in node.lend.items()}
