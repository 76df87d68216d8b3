"""What should fair sharing decide? Shares, the tournament and the search, recomputed at every question.

Shares are exact fractions. The engine's are floating-point numbers, which order the same way for the small amounts and
the weights, all powers of two, that the tests use.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from msgspec.structs import replace

from pykueue.engine.decisions import PreemptionReason
from pykueue.engine.model import ClusterQueue, Cohort, Policy, ShareStrategy
from tests.engine.reference import Amounts, Holder, Node, Numbers, Pair, allowed

Rank = tuple[bool, Fraction]
"""The order of shares: whether it is infinite, then its value, or the ratio without a weight if it is infinite."""


def pairs_of(numbers: Numbers) -> set[Pair]:
    """The pairs of which somebody owns something."""
    specs: list[ClusterQueue | Cohort] = [*numbers.queues.values(), *numbers.cohorts.values()]
    return {(quota.flavor, quota.resource) for spec in specs for quota in spec.quotas}


def below(numbers: Numbers, node: Node) -> set[Pair]:
    """The pairs that a node or anything below it has quota for."""
    kind, name = node
    spec = numbers.queues[name] if kind == "queue" else numbers.cohorts.get(name)
    own = {(quota.flavor, quota.resource) for quota in (() if spec is None else spec.quotas)}
    return own.union(*(below(numbers, child) for child in numbers.children(node)))


def weight(numbers: Numbers, node: Node) -> Fraction:
    """The weight of a node."""
    kind, name = node
    spec = numbers.queues[name] if kind == "queue" else numbers.cohorts.get(name)
    return Fraction(1 if spec is None else spec.weight)


def borrowed(numbers: Numbers, node: Node) -> dict[Pair, int]:
    """What a node borrows of each pair."""
    if numbers.parent(node) is None:
        return {}
    over = {pair: numbers.usage(node, pair) - numbers.subtree(node, pair) for pair in below(numbers, node)}
    return {pair: amount for pair, amount in over.items() if amount > 0}


def rank(numbers: Numbers, node: Node) -> Rank:
    """The share of a node, for comparison."""
    parent, over = numbers.parent(node), borrowed(numbers, node)
    if parent is None:
        return False, Fraction(0)
    ratios = [Fraction(0)]
    for resource in {resource for _, resource in over}:
        lent = sum(numbers.potential(parent, pair) for pair in pairs_of(numbers) if pair[1] == resource)
        amount = sum(amount for pair, amount in over.items() if pair[1] == resource)
        if lent > 0:
            ratios.append(Fraction(1000 * amount, lent))
    ratio = max(ratios)
    if ratio and not weight(numbers, node):
        return True, ratio
    return False, ratio / weight(numbers, node) if ratio else ratio


def way_up(numbers: Numbers, queue: str) -> list[Node]:
    """A queue and the cohorts above it."""
    found: list[Node] = [("queue", queue)]
    while (above := numbers.parent(found[-1])) is not None:
        found.append(above)
    return found


def parting(numbers: Numbers, one: str, other: str) -> tuple[Node, Node]:
    """The nodes on the ways up from two queues just below the first that they share."""
    ours, theirs = way_up(numbers, one), way_up(numbers, other)
    while ours[-2:-1] and theirs[-2:-1] and ours[-2] == theirs[-2]:
        ours.pop()
        theirs.pop()
    return ours[-2], theirs[-2]


def with_head(numbers: Numbers, head: Holder) -> Numbers:
    """The same, with one more holder."""
    return Numbers(numbers.queues.values(), numbers.cohorts.values(), (*numbers.holders, head))


def next_head(
    numbers: Numbers,
    heads: Mapping[str, Holder],
    *,
    prefer_nonborrowing: bool = True,
    past_use: Callable[[Node], Fraction | float] = lambda _: 0,
) -> Holder:
    """The winner of the tournament among the heads of a tree, by queue."""
    root = way_up(numbers, next(iter(heads)))[-1]

    def key(head: Holder, side: Node) -> tuple[bool, Fraction | float, Rank, int, int, str]:
        then = with_head(numbers, head)
        borrows = any(pair in borrowed(then, side) for pair, amount in head.usage if amount)
        return (
            prefer_nonborrowing and borrows,
            past_use(side),
            rank(then, side),
            -head.priority,
            head.stamp,
            head.queue,
        )

    def winner(node: Node) -> Holder | None:
        if node[0] == "queue":
            return heads.get(node[1])
        found = [(child, best) for child in numbers.children(node) if (best := winner(child)) is not None]
        return min(found, key=lambda one: key(one[1], one[0]))[1] if found else None

    best = winner(root)
    assert best is not None
    return best


class SlowSearch:
    """The search for victims, in the words of the rules."""

    def __init__(
        self, numbers: Numbers, preemptor: Holder, contended: Iterable[Pair], strategies: Sequence[ShareStrategy]
    ) -> None:
        self.numbers = numbers
        self.preemptor = preemptor
        self.contended = set(contended)
        self.strategies = strategies
        self.victims: dict[str, PreemptionReason] = {}
        self.order: list[str] = []

    def now(self) -> Numbers:
        """Without the victims so far, and with the preemptor."""
        return with_head(self.numbers.without(self.victims), replace(self.preemptor, key="the preemptor"))

    def fits(self, gone: Iterable[str]) -> bool:
        """Whether the preemptor fits once these have left."""
        asked: Amounts = dict(self.preemptor.usage)
        return self.numbers.without(gone).fits(self.preemptor.queue, asked)

    def place(self, holder: Holder) -> tuple[bool, int, int, str]:
        """The order of candidates."""
        return holder.queue == self.preemptor.queue, holder.priority, -holder.stamp, holder.key

    def candidates(self) -> list[Holder]:
        """Whom the policies allow to preempt."""
        own = self.preemptor.queue
        policies = self.numbers.queues[own].preemption
        shared = self.numbers.parent(("queue", own)) is not None
        root = way_up(self.numbers, own)[-1]
        found = []
        for holder in self.numbers.holders:
            if not any(pair in self.contended for pair, _ in holder.usage):
                continue
            policy = policies.within_queue
            if holder.queue != own:
                node: Node = ("queue", holder.queue)
                over = any(self.numbers.borrows_with(node, pair, 0) for pair in self.contended)
                related = shared and way_up(self.numbers, holder.queue)[-1] == root
                policy = policies.reclaim if over and related else Policy.NEVER
            if allowed(policy, self.preemptor, holder):
                found.append(holder)
        return sorted(found, key=self.place)

    def target(self, left: Sequence[Holder], node: Node) -> str | None:
        """The queue below a node from which to take."""
        numbers, own = self.now(), way_up(self.numbers, self.preemptor.queue)
        if node[0] == "queue":
            return node[1] if any(holder.queue == node[1] for holder in left) else None
        found: list[tuple[Rank, bool, tuple[bool, int, int, str], str]] = []
        for child in numbers.children(node):
            queue = self.target(left, child)
            if queue is None or (not borrowed(numbers, child) and child not in own):
                continue
            first = next(self.place(holder) for holder in left if holder.queue == queue)
            found.append((rank(numbers, child), child[0] == "cohort", first, queue))
        if not found:
            return None
        most = max((one[0], one[1]) for one in found)
        best = [one for one in found if (one[0], one[1]) == most]
        # Of cohorts with the same share the name decides, which is the order of `children`.
        return best[0][3] if most[1] else min(best, key=lambda one: one[2])[3]

    def take(self, holder: Holder, reason: PreemptionReason) -> bool:
        """Add a victim; whether that is enough."""
        self.victims[holder.key] = reason
        self.order.append(holder.key)
        return self.fits(self.victims)

    def first_round(self, left: list[Holder]) -> tuple[bool, list[Holder]]:
        """Whether the first strategy suffices, and whom it refused."""
        own = self.preemptor.queue
        refused: list[Holder] = []
        numbers = self.now()
        entitled = not any(numbers.borrows_with(("queue", own), pair, 0) for pair in self.contended)
        root = way_up(self.numbers, own)[-1]
        while (queue := self.target(left, root)) is not None:
            holder = next(one for one in left if one.queue == queue)
            left.remove(holder)
            if queue == own or entitled:
                reason = PreemptionReason.IN_QUEUE if queue == own else PreemptionReason.RECLAIM
                if self.take(holder, reason):
                    return True, refused
                continue
            numbers = self.now()
            mine, theirs = parting(numbers, own, queue)
            ours, initial = rank(numbers, mine), rank(numbers, theirs)
            final = rank(numbers.without([holder.key]), theirs)
            hopeless = ours[0] and not initial[0]
            passes = ours <= final if self.strategies[0] is ShareStrategy.FINAL else ours < initial
            if passes and not hopeless:
                if self.take(holder, PreemptionReason.FAIR_SHARING):
                    return True, refused
            else:
                refused.append(holder)
                # The others of the queue are tried before the targets are ordered again; nothing has changed since.
        return False, refused

    def second_round(self, left: list[Holder]) -> bool:
        """Whether the second strategy suffices."""
        own, root = self.preemptor.queue, way_up(self.numbers, self.preemptor.queue)[-1]
        while (queue := self.target(left, root)) is not None:
            numbers = self.now()
            mine, theirs = parting(numbers, own, queue)
            holder = next(one for one in left if one.queue == queue)
            left = [one for one in left if one.queue != queue]
            passes = rank(numbers, mine) < rank(numbers, theirs)
            if passes and self.take(holder, PreemptionReason.FAIR_SHARING):
                return True
        return False

    def run(self) -> dict[str, PreemptionReason]:
        """The victims and the reasons; none if they would not suffice."""
        enough, refused = self.first_round(self.candidates())
        if not enough:
            enough = len(self.strategies) > 1 and self.second_round(refused)
        if not enough:
            return {}
        kept = list(self.order)
        for key in reversed(self.order[:-1]):
            if self.fits(set(kept) - {key}):
                kept.remove(key)
        return {key: reason for key, reason in self.victims.items() if key in kept}
