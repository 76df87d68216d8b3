"""What should the numbers be? The quota formulas, recomputed from specs and holders at every question: slow, obvious.

A node is `("queue", name)` or `("cohort", name)`, a pair is `(flavor, resource)`. Nothing is cached or shared with
the engine, so that a mistake in one is not repeated in the other.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from pykueue.base.struct import Frozen
from pykueue.engine.model import ClusterQueue, Cohort, Policy, Quota

Node = tuple[str, str]
Pair = tuple[str, str]
Amounts = Mapping[Pair, int]


class Holder(Frozen):
    """A workload that holds quota."""

    key: str
    queue: str
    usage: tuple[tuple[Pair, int], ...]
    priority: int = 0
    stamp: int = 0


class Numbers:
    """Every formula over one set of specs and holders."""

    def __init__(self, queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort], holders: Iterable[Holder]) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.cohorts = {cohort.name: cohort for cohort in cohorts}
        self.holders = tuple(holders)

    def without(self, keys: Iterable[str]) -> "Numbers":
        """The same, with these holders gone."""
        gone = set(keys)
        kept = [holder for holder in self.holders if holder.key not in gone]
        return Numbers(self.queues.values(), self.cohorts.values(), kept)

    def parent(self, node: Node) -> Node | None:
        """The cohort above a node, which need not have an object."""
        kind, name = node
        if kind == "queue":
            above = self.queues[name].cohort
        else:
            above = self.cohorts[name].parent if name in self.cohorts else ""
        return ("cohort", above) if above else None

    def nodes(self) -> list[Node]:
        """Every queue, and every cohort that has an object or is named."""
        named = {queue.cohort for queue in self.queues.values()} | {cohort.parent for cohort in self.cohorts.values()}
        cohorts = sorted((named | set(self.cohorts)) - {""})
        return [*(("queue", name) for name in sorted(self.queues)), *(("cohort", name) for name in cohorts)]

    def children(self, node: Node) -> list[Node]:
        """The nodes directly below a node."""
        return [other for other in self.nodes() if self.parent(other) == node]

    def cut_off(self, node: Node) -> bool:
        """Whether a node is in or below a cycle of cohorts."""
        above, steps = self.parent(node), 0
        while above is not None and steps <= len(self.nodes()):
            above, steps = self.parent(above), steps + 1
        return above is not None

    def quota(self, node: Node, pair: Pair) -> Quota:
        """What a node owns of a pair; nothing, and no limits, where its spec is silent."""
        kind, name = node
        if kind == "queue":
            quotas = self.queues[name].quotas
        else:
            quotas = self.cohorts[name].quotas if name in self.cohorts else ()
        found = [quota for quota in quotas if (quota.flavor, quota.resource) == pair]
        return found[-1] if found else Quota(*pair, 0)

    def subtree(self, node: Node, pair: Pair) -> int:
        """All that a node and everything below it brings along."""
        shared = sum(self.subtree(child, pair) - self.local(child, pair) for child in self.children(node))
        return self.quota(node, pair).nominal + shared

    def local(self, node: Node, pair: Pair) -> int:
        """The part that is never lent."""
        limit = self.quota(node, pair).lending_limit
        return 0 if limit is None else max(0, self.subtree(node, pair) - limit)

    def usage(self, node: Node, pair: Pair) -> int:
        """What is used: a queue's holders, or what spills out of a cohort's children."""
        if node[0] == "queue":
            return sum(amount for h in self.holders if h.queue == node[1] for p, amount in h.usage if p == pair)
        return sum(max(0, self.usage(child, pair) - self.local(child, pair)) for child in self.children(node))

    def idle_local(self, node: Node, pair: Pair) -> int:
        """The part that is never lent and that nobody uses."""
        return max(0, self.local(node, pair) - self.usage(node, pair))

    def available(self, node: Node, pair: Pair) -> int:
        """What a node could still take."""
        parent = self.parent(node)
        if parent is None:
            return self.subtree(node, pair) - self.usage(node, pair)
        room = self.available(parent, pair)
        limit = self.quota(node, pair).borrowing_limit
        if limit is not None:
            lent = self.subtree(node, pair) - self.local(node, pair)
            spilled = max(0, self.usage(node, pair) - self.local(node, pair))
            room = min(room, lent - spilled + limit)
        return self.idle_local(node, pair) + room

    def potential(self, node: Node, pair: Pair) -> int:
        """The most that a node could ever reach."""
        parent = self.parent(node)
        if parent is None:
            return self.subtree(node, pair)
        reach = self.local(node, pair) + self.potential(parent, pair)
        limit = self.quota(node, pair).borrowing_limit
        return reach if limit is None else min(reach, self.subtree(node, pair) + limit)

    def borrows_with(self, node: Node, pair: Pair, amount: int) -> bool:
        """Whether a node would use more than its own."""
        return self.subtree(node, pair) < self.usage(node, pair) + amount

    def height(self, node: Node) -> int:
        """How many levels of cohorts a cohort spans."""
        children = self.children(node)
        if node[0] == "queue" or not children:
            return 0
        return max(1, 1 + max((self.height(child) for child in children if child[0] == "cohort"), default=0))

    def lowest_fit(self, queue: str, pair: Pair, amount: int) -> tuple[int, bool]:
        """How far up a request has to borrow, and whether less than the whole tree suffices."""
        node: Node = ("queue", queue)
        above = self.parent(node)
        if above is None or not self.borrows_with(node, pair, amount):
            return 0, above is not None
        rest = amount - self.idle_local(node, pair)
        while True:
            if not self.borrows_with(above, pair, rest):
                return self.height(above), self.parent(above) is not None
            rest -= self.idle_local(above, pair)
            higher = self.parent(above)
            if higher is None:
                return self.height(above), False
            above = higher

    def fits(self, queue: str, requests: Amounts, *, borrow: bool = True) -> bool:
        """Whether a queue has room for all of this, and, if it may not borrow, of its own."""
        node: Node = ("queue", queue)
        return all(
            amount <= max(0, self.available(node, pair)) and (borrow or not self.borrows_with(node, pair, amount))
            for pair, amount in requests.items()
        )

    def overdrawn(self) -> Iterator[tuple[Node, Pair, int]]:
        """Every node that uses more than it may, by how much."""
        specs: list[ClusterQueue | Cohort] = [*self.queues.values(), *self.cohorts.values()]
        pairs = {(quota.flavor, quota.resource) for spec in specs for quota in spec.quotas}
        pairs |= {pair for holder in self.holders for pair, _ in holder.usage}
        for node in self.nodes():
            if self.cut_off(node):
                continue
            for pair in sorted(pairs):
                limit = self.quota(node, pair).borrowing_limit
                if self.parent(node) is None:
                    limit = 0
                if limit is None:
                    continue
                over = self.usage(node, pair) - max(self.subtree(node, pair) + limit, self.local(node, pair))
                if over > 0:
                    yield node, pair, over


def allowed(policy: Policy, preemptor: Holder, victim: Holder) -> bool:
    """Whether a policy lets one workload preempt another."""
    if policy is Policy.NEVER:
        return False
    if policy is Policy.ANY or preemptor.priority > victim.priority:
        return True
    same = preemptor.priority == victim.priority
    return policy is Policy.LOWER_OR_NEWER and same and preemptor.stamp < victim.stamp


def sufficient(numbers: Numbers, queue: str, requests: Amounts, eligible: Iterable[str]) -> list[frozenset[str]]:
    """Every subset of the eligible holders whose leaving lets the requests fit, smallest first."""
    keys = sorted(eligible)
    subsets = (frozenset(some) for size in range(len(keys) + 1) for some in combinations(keys, size))
    return [some for some in subsets if numbers.without(some).fits(queue, requests)]


def redundant(numbers: Numbers, queue: str, requests: Amounts, victims: frozenset[str], *, borrow: bool) -> set[str]:
    """The victims of whom any one could have stayed."""
    return {v for v in victims if numbers.without(victims - {v}).fits(queue, requests, borrow=borrow)}
