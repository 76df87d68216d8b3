"""A node of the cohort tree, and the arithmetic of nominal quota, lending, borrowing and usage.

Amounts are Python integers, so sums cannot overflow; `UNLIMITED` is an integer that no request exceeds. Each pair of a
flavor and a resource has a number, here called `fr`. `forest` builds the trees.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pykueue.engine.items import Item
from pykueue.engine.model import ClusterQueue, Cohort, Quota
from pykueue.engine.pastuse import PastUse

if TYPE_CHECKING:
    # A node points back to its tree. Only the type is needed here, so there is no import cycle at run time.
    from pykueue.engine.forest import Tree

Usage = Iterable[tuple[int, int]]
"""Amounts by the number of their (flavor, resource) pair."""


class Flavors:
    """Numbers (flavor, resource) pairs, so that the tables of a node have small keys."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], int] = {}
        self.pairs: list[tuple[str, str]] = []

    def id(self, flavor: str, resource: str) -> int:
        """Return the number of this pair; it never changes."""
        pair = (flavor, resource)
        found = self.ids.get(pair)
        if found is None:
            found = self.ids[pair] = len(self.pairs)
            self.pairs.append(pair)
        return found


class QuotaNode:
    """A ClusterQueue or a cohort in its tree: its own quota, what its subtree owns, and what is used."""

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
        "lendable",
        "local",
        "lowest",
        "name",
        "nominal",
        "object",
        "parent",
        "past",
        "potentials",
        "ranking",
        "spec",
        "subtree",
        "tree",
        "usage",
        "weight",
    )

    def __init__(self, name: str, *, is_queue: bool) -> None:
        self.name = name
        self.is_queue = is_queue
        self.parent: QuotaNode | None = None
        self.children: dict[QuotaNode, None] = {}
        self.nominal: dict[int, int] = {}
        self.borrow: dict[int, int] = {}
        """Borrowing limits; a pair without one has no limit."""
        self.lend: dict[int, int] = {}
        """Lending limits; a pair without one has no limit."""
        self.subtree: dict[int, int] = {}
        """What the node and everything below it own, without what the nodes below keep for themselves."""
        self.local: dict[int, int] = {}
        """The guaranteed part: what the node does not lend."""
        self.usage: dict[int, int] = {}
        """What is used here; in a cohort, what its children use beyond their guaranteed part."""
        self.potentials: dict[int, int] = {}
        """Results of `potential`, kept until the tree is recomputed."""
        self.lendable: dict[str, int] | None = None
        """Results of `shares.lendable`, kept until the tree is recomputed."""
        self.weight = 1.0
        """The node's weight under fair sharing."""
        self.height = 0
        self.active = True
        self.generation = 0
        """Counts the changes after which a scan of flavors starts from the first one again."""
        self.holders: dict[str, Item] = {}
        """The workloads that hold quota of a ClusterQueue."""
        self.lowest: int | None = None
        """The lowest priority among the holders; None if it is not computed."""
        self.ranking: list[Item] | None = None
        """The holders in the order of candidates for preemption; None if it is not computed. Never changed in place."""
        self.object: Cohort | None = None
        """The Cohort object; None for a cohort that is only named as a parent."""
        self.spec = ClusterQueue(name)
        self.groups: dict[str, CoveredGroup] = {}
        """The resource group of each resource that a ClusterQueue covers."""
        self.past: PastUse | None = None
        """The past use of LocalQueues where it orders the workloads of a ClusterQueue, otherwise None."""
        self.tree: Tree | None = None
        """None inside or below a cycle of cohorts."""

    @property
    def usage_based(self) -> bool:
        """Whether past use orders the children of a cohort."""
        return self.object is not None and self.object.usage_based

    def rank_again(self) -> None:
        """Forget what was computed from the holders: one has come or gone, or ranks differently for preemption."""
        self.lowest = self.ranking = None

    def set_quotas(self, quotas: tuple[Quota, ...], flavors: Flavors) -> None:
        """Replace the node's own quota and limits."""
        self.nominal, self.borrow, self.lend = {}, {}, {}
        for quota in quotas:
            fr = flavors.id(quota.flavor, quota.resource)
            self.nominal[fr] = quota.nominal
            if quota.borrowing_limit is not None:
                self.borrow[fr] = quota.borrowing_limit
            if quota.lending_limit is not None:
                self.lend[fr] = quota.lending_limit


class CoveredGroup:
    """A resource group: its flavors in order, and for each flavor the number of every (flavor, resource) pair."""

    __slots__ = ("flavors", "frs")

    def __init__(self, flavors: tuple[str, ...], frs: tuple[dict[str, int], ...]) -> None:
        self.flavors = flavors
        self.frs = frs


def available(node: QuotaNode, fr: int) -> int:
    """Return what a node can still use, including borrowing; negative if it or a node it borrows from is over quota."""
    # spec: QUO-3
    usage = node.usage.get(fr, 0)
    parent = node.parent
    if parent is None:
        return node.subtree.get(fr, 0) - usage
    room = available(parent, fr)
    local = node.local.get(fr, 0) if node.local else 0
    limit = node.borrow.get(fr)
    if limit is not None:
        beyond = node.subtree.get(fr, 0) - local - (usage - local if usage > local else 0) + limit
        if beyond < room:
            room = beyond
    return room + (local - usage if local > usage else 0)


def free(queue: QuotaNode, fr: int) -> int:
    """Return what the next workload of a ClusterQueue may use; never negative."""
    room = available(queue, fr)
    return room if room > 0 else 0


def potential(node: QuotaNode, fr: int) -> int:
    """Return the most that a node could use if nothing else used anything."""
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
    """Return the unused part of a node's guaranteed quota."""
    return max(0, node.local.get(fr, 0) - node.usage.get(fr, 0))


def binding(node: QuotaNode, fr: int) -> tuple[QuotaNode, bool]:
    """Return the node that decides how much `available` returns, and whether its borrowing limit does.

    If it does not, the node is the root, and what is left of all quota below it decides.
    """
    parent = node.parent
    if parent is None:
        return node, False
    if available(node, fr) - local_free(node, fr) < available(parent, fr):
        return node, True
    return binding(parent, fr)


def ceiling(node: QuotaNode, fr: int) -> tuple[QuotaNode, bool]:
    """Return the same for `potential`."""
    parent = node.parent
    if parent is None:
        return node, False
    if potential(node, fr) < node.local.get(fr, 0) + potential(parent, fr):
        return node, True
    return ceiling(parent, fr)


def take(node: QuotaNode, fr: int, amount: int) -> None:
    """Add an amount to the usage; what exceeds the guaranteed part is added to the parent too."""
    # spec: QUO-5
    while True:
        usage = node.usage
        used = usage.get(fr, 0)
        usage[fr] = used + amount
        parent = node.parent
        if parent is None:
            return
        if node.local:
            idle = node.local.get(fr, 0) - used
            if idle > 0:
                if amount <= idle:
                    return
                amount -= idle
        node = parent


def give(node: QuotaNode, fr: int, amount: int) -> None:
    """Undo `take`."""
    while True:
        usage = node.usage
        used = usage.get(fr, 0)
        usage[fr] = used - amount
        parent = node.parent
        if parent is None:
            return
        spilled = used - node.local.get(fr, 0) if node.local else used
        if spilled <= 0:
            return
        if amount > spilled:
            amount = spilled
        node = parent


def book(node: QuotaNode, usage: Usage) -> None:
    """Add usage to a node and, as far as it borrows, to the cohorts above it."""
    for fr, amount in usage:
        take(node, fr, amount)


def unbook(node: QuotaNode, usage: Usage) -> None:
    """Undo `book`."""
    for fr, amount in usage:
        give(node, fr, amount)


def borrows_with(node: QuotaNode, fr: int, amount: int) -> bool:
    """Return whether a node would borrow if it used this much more."""
    return node.subtree.get(fr, 0) < node.usage.get(fr, 0) + amount


def within_nominal(node: QuotaNode, frs: Iterable[int]) -> bool:
    """Return whether a node borrows none of these pairs."""
    usage, subtree = node.usage, node.subtree
    # A plain loop, here and in `snapshot.fits`, because both are called millions of times and `all()` is slower.
    for fr in frs:  # noqa: SIM110
        if subtree.get(fr, 0) < usage.get(fr, 0):
            return False
    return True


def lowest_fit(queue: QuotaNode, fr: int, amount: int) -> tuple[int, bool]:
    """Return the height to which this much must borrow (0: no borrowing), and whether that is below the root."""
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
    """Return the names from the root to a node, as messages show them."""
    names = [node.name, *(cohort.name for cohort in ancestors(node))]
    return "/" + "/".join(reversed(names))


def ancestors(node: QuotaNode) -> Iterator[QuotaNode]:
    """Yield the cohorts above a node, nearest first."""
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def usage_of(amounts: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Return amounts by pair in the form that `book` takes."""
    return tuple(amounts.items())
