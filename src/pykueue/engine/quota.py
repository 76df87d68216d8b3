"""How much is left? The cohort tree: what each node owns, lends, borrows and uses. Next: `snapshot`.

Amounts are plain whole numbers, so sums cannot wrap; `UNLIMITED` is merely a number that no request exceeds.
"""

from collections.abc import Iterable, Iterator, Mapping

from pykueue.engine.items import Item
from pykueue.engine.model import ClusterQueue, Cohort, Quota

Usage = Iterable[tuple[int, int]]


class Flavors:
    """Whole numbers for (flavor, resource) pairs, so that the tree's tables have small keys."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], int] = {}
        self.pairs: list[tuple[str, str]] = []

    def id(self, flavor: str, resource: str) -> int:
        """The number of this pair, the same ever after."""
        pair = (flavor, resource)
        found = self.ids.get(pair)
        if found is None:
            found = self.ids[pair] = len(self.pairs)
            self.pairs.append(pair)
        return found


class Tree:
    """All that hangs together below one root; a decision in one tree cannot change one in another."""

    __slots__ = ("cycle", "heads", "news", "queues", "restless", "root", "strict_heads", "version")

    def __init__(self, root: "QuotaNode", restless: "dict[Tree, None]") -> None:
        self.root = root
        self.restless = restless
        """All trees that have to be looked at again."""
        self.version = 0
        """Counts the changes that could alter a decision in this tree."""
        self.news = 0
        """Counts those of them that are not merely other heads."""
        self.strict_heads: list[str] = []
        """The heads of its StrictFIFO queues in the last cycle."""
        self.cycle = 0
        self.heads: list[str] = []
        """Who was considered in the last cycle."""
        self.queues: list[QuotaNode] = []

    def touch(self) -> None:
        """Something changed that may let a head of this tree start."""
        self.version += 1
        self.news += 1
        self.restless[self] = None

    def is_restless(self) -> bool:
        """Whether it has to be looked at again."""
        return self in self.restless

    def rest(self) -> None:
        """Nothing more is to be decided in this tree until something changes."""
        self.restless.pop(self, None)

    def place(self) -> tuple[bool, str]:
        """Where it stands among the trees."""
        return self.root.is_queue, self.root.name


class QuotaNode:
    """A ClusterQueue or a cohort in the tree."""

    __slots__ = (
        "active",
        "borrow",
        "children",
        "generation",
        "groups",
        "height",
        "holders",
        "is_queue",
        "lend",
        "local",
        "lowest",
        "name",
        "nominal",
        "object",
        "parent",
        "potentials",
        "spec",
        "subtree",
        "tree",
        "usage",
    )

    def __init__(self, name: str, *, is_queue: bool) -> None:
        self.name = name
        self.is_queue = is_queue
        self.parent: QuotaNode | None = None
        self.children: dict[QuotaNode, None] = {}
        self.nominal: dict[int, int] = {}
        self.borrow: dict[int, int] = {}
        self.lend: dict[int, int] = {}
        self.subtree: dict[int, int] = {}
        self.local: dict[int, int] = {}
        self.usage: dict[int, int] = {}
        self.potentials: dict[int, int] = {}
        self.height = 0
        self.active = True
        self.generation = 0
        self.holders: dict[str, Item] = {}
        self.lowest: int | None = None
        """The least priority among the holders; None when it has to be looked up again."""
        self.object: Cohort | None = None
        self.spec = ClusterQueue(name)
        self.groups: dict[str, CoveredGroup] = {}
        self.tree: Tree | None = None

    def set_quotas(self, quotas: tuple[Quota, ...], flavors: Flavors) -> None:
        """What this node owns from now on."""
        self.nominal, self.borrow, self.lend = {}, {}, {}
        for quota in quotas:
            fr = flavors.id(quota.flavor, quota.resource)
            self.nominal[fr] = quota.nominal
            if quota.borrowing_limit is not None:
                self.borrow[fr] = quota.borrowing_limit
            if quota.lending_limit is not None:
                self.lend[fr] = quota.lending_limit


class CoveredGroup:
    """A resource group ready for the scan: its flavors in order, and the number of each (flavor, resource)."""

    __slots__ = ("flavors", "frs")

    def __init__(self, flavors: tuple[str, ...], frs: tuple[dict[str, int], ...]) -> None:
        self.flavors = flavors
        self.frs = frs


def available(node: QuotaNode, fr: int) -> int:
    """What a node could still take, borrowing included; negative when it, or who lends to it, is over its quota."""
    # spec: QUO-3
    usage = node.usage.get(fr, 0)
    parent = node.parent
    if parent is None:
        return node.subtree.get(fr, 0) - usage
    room = available(parent, fr)
    local = node.local.get(fr, 0)
    limit = node.borrow.get(fr)
    if limit is not None:
        beyond = node.subtree.get(fr, 0) - local - (usage - local if usage > local else 0) + limit
        if beyond < room:
            room = beyond
    return room + (local - usage if local > usage else 0)


def free(queue: QuotaNode, fr: int) -> int:
    """What a ClusterQueue's next workload may take: never negative."""
    room = available(queue, fr)
    return room if room > 0 else 0


def potential(node: QuotaNode, fr: int) -> int:
    """The most a node could ever reach with everything else idle."""
    # spec: QUO-4
    known = node.potentials.get(fr)
    if known is None:
        known = node.subtree.get(fr, 0)
        if node.parent is not None:
            limit = node.borrow.get(fr)
            reach = node.local.get(fr, 0) + potential(node.parent, fr)
            known = reach if limit is None else min(reach, known + limit)
        node.potentials[fr] = known
    return known


def local_free(node: QuotaNode, fr: int) -> int:
    """The part of a node's guaranteed quota that is idle."""
    return max(0, node.local.get(fr, 0) - node.usage.get(fr, 0))


def take(node: QuotaNode, fr: int, amount: int) -> None:
    """Book an amount; what exceeds the guaranteed part is booked at the parent too."""
    # spec: QUO-5
    while True:
        used = node.usage.get(fr, 0)
        idle = node.local.get(fr, 0) - used
        node.usage[fr] = used + amount
        parent = node.parent
        if parent is None:
            return
        if idle > 0:
            if amount <= idle:
                return
            amount -= idle
        node = parent


def give(node: QuotaNode, fr: int, amount: int) -> None:
    """Take back what `take` booked."""
    while True:
        used = node.usage.get(fr, 0)
        spilled = used - node.local.get(fr, 0)
        node.usage[fr] = used - amount
        parent = node.parent
        if parent is None or spilled <= 0:
            return
        if amount > spilled:
            amount = spilled
        node = parent


def book(node: QuotaNode, usage: Usage) -> None:
    """Use so much more."""
    for fr, amount in usage:
        take(node, fr, amount)


def unbook(node: QuotaNode, usage: Usage) -> None:
    """Use so much less."""
    for fr, amount in usage:
        give(node, fr, amount)


def borrows_with(node: QuotaNode, fr: int, amount: int) -> bool:
    """Whether a node would use more than its own with so much more."""
    return node.subtree.get(fr, 0) < node.usage.get(fr, 0) + amount


def within_nominal(node: QuotaNode, frs: Iterable[int]) -> bool:
    """Whether a node uses no more than its own of all of these."""
    usage, subtree = node.usage, node.subtree
    # A plain loop, here and in `fits`: these are asked a million times in a busy hour.
    for fr in frs:  # noqa: SIM110
        if subtree.get(fr, 0) < usage.get(fr, 0):
            return False
    return True


def lowest_fit(queue: QuotaNode, fr: int, amount: int) -> tuple[int, bool]:
    """How far up the tree this much has to borrow (0: not at all), and whether less than the whole tree suffices."""
    # spec: QUO-6
    if queue.parent is None or not borrows_with(queue, fr, amount):
        return 0, queue.parent is not None
    rest = amount - local_free(queue, fr)
    node = queue.parent
    while True:
        if not borrows_with(node, fr, rest):
            return node.height, node.parent is not None
        if node.parent is None:
            return node.height, False
        rest -= local_free(node, fr)
        node = node.parent


def path(node: QuotaNode) -> str:
    """The names from the root to a node, as messages show them."""
    names = [node.name, *(cohort.name for cohort in ancestors(node))]
    return "/" + "/".join(reversed(names))


def ancestors(node: QuotaNode) -> Iterator[QuotaNode]:
    """The cohorts above a node, nearest first."""
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


class Forest:
    """All queues and cohorts. Edits are gathered, and the numbers of the trees they touch are redone by `refresh`."""

    def __init__(self) -> None:
        self.flavors = Flavors()
        self.queues: dict[str, QuotaNode] = {}
        self.cohorts: dict[str, QuotaNode] = {}
        self.stale: dict[QuotaNode, None] = {}
        self.trees: dict[Tree, None] = {}
        self.restless: dict[Tree, None] = {}

    def put_queue(self, spec: ClusterQueue) -> QuotaNode:
        """A ClusterQueue is like this."""
        node = self.queues.get(spec.name)
        if node is None:
            node = self.queues[spec.name] = QuotaNode(spec.name, is_queue=True)
        node.spec = spec
        node.set_quotas(spec.quotas, self.flavors)
        node.groups = {}
        for group in spec.groups:
            frs = tuple({r: self.flavors.id(f, r) for r in group.resources} for f in group.flavors)
            covered = CoveredGroup(group.flavors, frs)
            for resource in group.resources:
                node.groups[resource] = covered
        self.hang(node, spec.cohort)
        return node

    def drop_queue(self, name: str) -> None:
        """A ClusterQueue is gone, and its usage with it."""
        node = self.queues.pop(name, None)
        if node is not None:
            self.unhang(node)
            self.forget(node)

    def put_cohort(self, spec: Cohort) -> QuotaNode:
        """A cohort is like this."""
        node = self.cohort(spec.name)
        node.object = spec
        node.set_quotas(spec.quotas, self.flavors)
        self.hang(node, spec.parent)
        return node

    def drop_cohort(self, name: str) -> None:
        """A cohort's object is gone; while it has children it lives on without quota or parent."""
        node = self.cohorts.get(name)
        if node is None or node.object is None:
            return
        node.set_quotas((), self.flavors)
        self.hang(node, "")
        node.object = None
        self.prune(node)

    def cohort(self, name: str) -> QuotaNode:
        """The cohort of this name, which need not have an object."""
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = QuotaNode(name, is_queue=False)
            self.stale[node] = None
        return node

    def hang(self, node: QuotaNode, parent: str) -> None:
        """Put a node under a cohort, or under none; both trees are to be redone."""
        above = self.cohort(parent) if parent else None
        if node.parent is not above:
            self.unhang(node)
        if above is not None:
            node.parent = above
            above.children[node] = None
        self.stale[node] = None

    def unhang(self, node: QuotaNode) -> None:
        """Take a node off its cohort."""
        above = node.parent
        self.stale[node] = None
        if above is not None:
            above.children.pop(node, None)
            node.parent = None
            self.stale[above] = None
            self.prune(above)

    def prune(self, node: QuotaNode) -> None:
        """Forget a cohort that has neither object nor children."""
        if node.object is None and not node.children and self.cohorts.get(node.name) is node:
            del self.cohorts[node.name]
            self.forget(node)

    def forget(self, node: QuotaNode) -> None:
        """A node is no longer part of the forest."""
        self.stale.pop(node, None)
        if node.tree is not None and node.tree.root is node:
            self.forget_tree(node.tree)
        node.tree = None

    def refresh(self) -> list[Tree]:
        """Redo the numbers of every tree that an edit touched, also of one that a node left; which they are."""
        if not self.stale:
            return []
        redone = []
        stale, self.stale = self.stale, {}
        for root in dict.fromkeys(root_of(node) for node in stale):
            if root is None:
                continue
            if root.tree is None or root.tree.root is not root:
                root.tree = Tree(root, self.restless)
            self.trees[root.tree] = None
            root.tree.queues = []
            redo(root, root.tree)
            root.tree.queues.sort(key=lambda queue: queue.name)
            root.tree.touch()
            redone.append(root.tree)
        for node in stale:
            if root_of(node) is None:
                cut_off(node)
        for tree in [t for t in self.trees if t.root.tree is not t]:
            self.forget_tree(tree)
        return redone

    def forget_tree(self, tree: Tree) -> None:
        """A tree is no more."""
        self.trees.pop(tree, None)
        tree.rest()

    def is_restless(self) -> bool:
        """Whether some tree has to be redone or looked at again."""
        return bool(self.stale or self.restless)

    def hold(self, queue: QuotaNode, item: Item) -> None:
        """A workload's usage counts from now on."""
        queue.holders[item.key] = item
        queue.lowest = None
        self.count(queue, item.usage, 1)
        if queue.tree is not None:
            queue.tree.touch()

    def count(self, queue: QuotaNode, usage: Usage, sign: int) -> None:
        """Book usage, or take it back. While edits wait, or below a cycle, there is no tree to book it in yet."""
        if self.stale or queue.tree is None:
            for fr, amount in usage:
                queue.usage[fr] = queue.usage.get(fr, 0) + sign * amount
            if self.stale:
                self.stale[queue] = None
            return
        (book if sign > 0 else unbook)(queue, usage)

    def release(self, queue: QuotaNode, item: Item) -> None:
        """A workload's usage counts no more; scans of flavors start afresh in this queue."""
        if queue.holders.pop(item.key, None) is None:
            return
        queue.lowest = None
        queue.generation += 1
        self.count(queue, item.usage, -1)
        if queue.tree is not None:
            queue.tree.touch()


DEPTH_MAX = 200
"""Deeper than anyone means; what is nested deeper is treated like a cycle, which is the only other way to get there."""


def root_of(node: QuotaNode) -> QuotaNode | None:
    """The top of a node's tree; None below or inside a cycle of cohorts, or of a nesting without end."""
    # spec: QUO-7
    for _ in range(DEPTH_MAX):
        if node.parent is None:
            return node
        node = node.parent
    return None


def cut_off(node: QuotaNode) -> None:
    """Everything below a cycle belongs to no tree and cannot admit."""
    waiting, seen = [node], {node}
    while waiting:
        here = waiting.pop()
        here.tree = None
        for child in here.children:
            if child not in seen:
                seen.add(child)
                waiting.append(child)


def redo(node: QuotaNode, tree: Tree, depth: int = 1) -> None:
    """Recompute a node and everything below it, as deep as a tree may be."""
    node.tree = tree
    node.potentials = {}
    node.height = 0
    if node.is_queue:
        tree.queues.append(node)
        node.generation += 1
        node.subtree = dict(node.nominal)
    else:
        # spec: QUO-1
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


def usage_of(amounts: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Amounts by pair, as the tree books them."""
    return tuple(amounts.items())
