"""Preemption under fair sharing: takes from the ClusterQueues with the largest shares, as far as the strategies allow.

A workload of another queue may be taken if the preemptor's queue stays within its nominal quota, or if a strategy
allows it, which compares the shares of the two sides where the paths of the queues part.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from pykueue.base.units import Instant
from pykueue.engine.candidates import Requests
from pykueue.engine.decisions import PreemptionReason, SparedReason
from pykueue.engine.items import Item
from pykueue.engine.model import NEVER, Options, ShareStrategy
from pykueue.engine.order import VictimKey, later_because, victim_key
from pykueue.engine.preempt import NOTHING, SPARED_MAX, Search, Selection, Spared, Victim
from pykueue.engine.quota import QuotaNode, ancestors, usage_of, within_nominal
from pykueue.engine.shares import Share, Standing, share, share_without, sides
from pykueue.engine.snapshot import Snapshot


class Line:
    """The candidates of one ClusterQueue, in order; those that were not looked at are not even computed."""

    __slots__ = ("first", "queue", "rest")

    def __init__(self, queue: QuotaNode, candidates: Iterator[Item]) -> None:
        self.queue = queue
        self.rest = candidates
        self.first = next(candidates, None)
        """The next candidate; None if there are no more."""

    def pop(self) -> Item:
        """Take the next candidate."""
        found = self.first
        assert found is not None, "the line has a candidate"
        self.first = next(self.rest, None)
        return found


class Targets:
    """Which ClusterQueue to take from next: from the root down, the child with the largest share.

    Shares change only on the path of a queue from which something was taken, so they are kept between the steps.
    """

    def __init__(self, own: QuotaNode, now: Instant, lines: Iterable[Line]) -> None:
        self.own = own
        self.now = now
        self.lines: dict[QuotaNode, Line] = {}
        self.children: dict[QuotaNode, dict[QuotaNode, None]] = {}
        """Of each cohort, the children that may still yield a target."""
        self.on_path = frozenset(ancestors(own))
        self.root = own
        self.shares: dict[QuotaNode, Share] = {}
        for line in lines:
            if line.first is None:
                continue
            self.lines[line.queue] = line
            child = line.queue
            for cohort in ancestors(line.queue):
                self.children.setdefault(cohort, {})[child] = None
                child = cohort
            self.root = child

    def next(self) -> Line | None:
        """Return the line to take from; None if there is none left."""
        if self.root.is_queue:
            line = self.lines.get(self.root)
            return None if line is None or line.first is None else line
        while self.children.get(self.root):
            line = self.descend(self.root)
            if line is not None:
                return line
        return None

    def descend(self, cohort: QuotaNode) -> Line | None:
        """Return the line below a cohort to take from; None if that only showed that some child has nothing to take."""
        # spec: SHR-5
        children = self.children[cohort]
        best: QuotaNode | None = None
        best_rank: tuple[Standing, bool] | None = None
        for child in list(children):
            if self.is_exhausted(child):
                del children[child]
                continue
            rank = (self.share(child).standing, not child.is_queue)
            if best is None or best_rank is None or rank > best_rank:
                best, best_rank = child, rank
            elif rank == best_rank and self.comes_before(child, best):
                best = child
        if best is None:
            return None
        return self.lines[best] if best.is_queue else self.descend(best)

    def comes_before(self, one: QuotaNode, other: QuotaNode) -> bool:
        """Return whether one of two queues, or of two cohorts, with the same share is to be taken from first."""
        return self.first_key(one) < self.first_key(other) if one.is_queue else one.name < other.name

    def is_exhausted(self, node: QuotaNode) -> bool:
        """Return whether nothing more is taken below a node: no candidate is left, or it does not borrow any more."""
        if node.is_queue:
            return self.lines[node].first is None or (node is not self.own and not self.share(node).borrowed)
        return not self.children[node] or (node not in self.on_path and not self.share(node).borrowed)

    def first_key(self, queue: QuotaNode) -> VictimKey:
        """Return the place of a queue's next candidate among those of all queues."""
        item = self.lines[queue].first
        assert item is not None, "a queue that is not exhausted has a candidate"
        return victim_key(item, own_queue=self.own.name, entitled=False, now=self.now)

    def share(self, node: QuotaNode) -> Share:
        """Return the share of a node on the usage as it is now."""
        found = self.shares.get(node)
        if found is None:
            found = self.shares[node] = share(node)
        return found

    def taken_from(self, queue: QuotaNode) -> None:
        """Forget the shares that have changed because something was taken from a queue."""
        self.shares.pop(queue, None)
        for cohort in ancestors(queue):
            self.shares.pop(cohort, None)

    def drop(self, queue: QuotaNode) -> None:
        """Take nothing more from a queue."""
        self.lines[queue] = Line(queue, iter(()))


class FairSearch(Search):
    """Finds victims under fair sharing."""

    def search(self, requests: Requests, frs: frozenset[int]) -> Selection:
        """The victims of the first strategy, or of both; none if the requests do not fit even so."""
        lines = self.lines(frs)
        if all(line.first is None for line in lines):
            return NOTHING
        found = Found(self, requests, frs)
        with self.snapshot.scratch():
            # All shares include the preemptor.
            self.snapshot.book(self.queue, found.usage)
            if not found.run(lines):
                return NOTHING
            self.snapshot.unbook(self.queue, found.usage)
            returned = self.put_back(found.victims, requests, borrow=True)
        return Selection(tuple(found.victims), *self.spared(frs, found.victims, returned, found.retry))

    def lines(self, frs: frozenset[int]) -> list[Line]:
        """The candidates of the own queue, and of every queue of the tree that borrows a contended pair."""
        # spec: SHR-2
        policies, tree = self.queue.spec.preemption, self.queue.tree
        found = [Line(self.queue, self.own_holders(frs))]
        if policies.reclaim is NEVER or self.queue.parent is None or tree is None:
            return found
        borrowers = [q for q in tree.queues if q is not self.queue and q.active and not within_nominal(q, frs)]
        return found + [Line(queue, self.holders(queue, policies.reclaim, frs)) for queue in borrowers]

    def spared(
        self, frs: frozenset[int], chosen: Sequence[Victim], returned: Iterable[Victim], refused: Iterable[Item]
    ) -> tuple[int, tuple[Spared, ...]]:
        """How many candidates stay, and some of them with the reason."""
        gone = {victim.item.key for victim in chosen}
        reasons = {victim.item.key: SparedReason.NOT_NEEDED for victim in returned}
        reasons |= {item.key: SparedReason.FAIR_SHARE for item in refused if item.key not in gone}
        last = {victim.item.queue: self.key(victim.item) for victim in chosen}
        count = 0
        named: list[Spared] = []
        for line in self.lines(frs):
            before = last.get(line.queue.name)
            while line.first is not None:
                item = line.pop()
                if item.key in gone or item.workload.evicted is not None:
                    continue
                count += 1
                if len(named) < SPARED_MAX:
                    # Within a queue from which some were taken, the others come later as in every search.
                    later = SparedReason.SMALLER_SHARE if before is None else later_because(self.key(item), before)
                    named.append(Spared(item.key, reasons.get(item.key, later)))
        return count, tuple(named)


def allows(strategy: ShareStrategy, own: Share, initial: Share, final: Callable[[], Share] | None = None) -> bool:
    """Return whether a strategy lets a preemptor whose side has this share take from a side.

    `initial` is the share of that side with the victim; `final` computes the one without it, which one strategy needs.
    """
    if strategy is ShareStrategy.INITIAL:
        return own.standing < initial.standing
    assert final is not None, "the final share is compared"
    return own.standing <= final().standing


def search_for(snapshot: Snapshot, queue: QuotaNode, item: Item, now: Instant, options: Options) -> Search:
    """Return the search for victims that the options ask for."""
    return (FairSearch if options.fair_sharing else Search)(snapshot, queue, item, now, options)


class Found:
    """The victims of one search so far; the usage of the preemptor is booked in the snapshot."""

    def __init__(self, search: FairSearch, requests: Requests, frs: frozenset[int]) -> None:
        self.search = search
        self.snapshot = search.snapshot
        self.queue = search.queue
        self.requests = requests
        self.usage = usage_of(requests)
        self.frs = frs
        self.victims: list[Victim] = []
        self.retry: list[Item] = []
        """Candidates that the first strategy refused."""

    def run(self, lines: Iterable[Line]) -> bool:
        """Take candidates in the order of the strategies; return whether the preemptor fits then."""
        options = self.search.options
        first, *others = options.fair_sharing
        if self.first_round(lines, first):
            return True
        took_own = any(victim.reason is PreemptionReason.IN_QUEUE for victim in self.victims)
        if options.fair_reevaluates and took_own:
            # Without own workloads the preemptor's share is smaller than when the candidates were refused.
            retry, self.retry = self.retry, []
            if self.first_round(self.lines_of(retry), first):
                return True
        return bool(others) and self.second_round()

    def first_round(self, lines: Iterable[Line], strategy: ShareStrategy) -> bool:
        """Take what the own queue, nominal quota or the first strategy allows."""
        # spec: SHR-6
        targets = Targets(self.queue, self.search.now, lines)
        entitled = self.search.options.fair_within_nominal and within_nominal(self.queue, self.frs)
        while (line := targets.next()) is not None:
            if line.queue is self.queue:
                self.take(line.pop(), PreemptionReason.IN_QUEUE)
            elif entitled:
                self.take(line.pop(), PreemptionReason.RECLAIM)
            elif not self.take_first(line, targets, strategy):
                continue
            targets.taken_from(line.queue)
            if self.fits():
                return True
        return False

    def take_first(self, line: Line, targets: Targets, strategy: ShareStrategy) -> bool:
        """Take the first candidate of a queue that passes a strategy; return whether one did."""
        mine, theirs = sides(self.queue, line.queue)
        own, initial = targets.share(mine), targets.share(theirs)
        if own.standing[0] and not initial.standing[0]:
            # Nothing passes where the preemptor's side has an infinite share and the other has not.
            while line.first is not None:
                self.retry.append(line.pop())
            return False
        while line.first is not None:
            item = line.pop()
            if allows(strategy, own, initial, partial(share_without, theirs, line.queue, item.usage)):
                self.take(item, PreemptionReason.FAIR_SHARING)
                return True
            self.retry.append(item)
        return False

    def second_round(self) -> bool:
        """Take the first refused candidate of each queue whose initial share is larger than the preemptor's."""
        # spec: SHR-7
        targets = Targets(self.queue, self.search.now, self.lines_of(self.retry))
        while (line := targets.next()) is not None:
            own, initial = map(targets.share, sides(self.queue, line.queue))
            if allows(ShareStrategy.INITIAL, own, initial):
                self.take(line.pop(), PreemptionReason.FAIR_SHARING)
                targets.taken_from(line.queue)
                if self.fits():
                    return True
            targets.drop(line.queue)
        return False

    def lines_of(self, items: Iterable[Item]) -> list[Line]:
        """Candidates by queue, in their order."""
        queues: dict[str, list[Item]] = {}
        for item in items:
            queues.setdefault(item.queue, []).append(item)
        forest = self.snapshot.forest
        return [Line(forest.queues[name], iter(found)) for name, found in queues.items()]

    def take(self, item: Item, reason: PreemptionReason) -> None:
        """Add a victim, and remove its usage."""
        self.snapshot.leave(item)
        self.victims.append(Victim(item, reason))

    def fits(self) -> bool:
        """Return whether the requests fit now, without the usage of the preemptor that is booked."""
        self.snapshot.unbook(self.queue, self.usage)
        fits = self.search.fits(self.requests, borrow=True)
        self.snapshot.book(self.queue, self.usage)
        return fits
