"""Candidates for preemption: whom the policies allow, level by level of the tree, and in which order."""

from collections.abc import Iterable, Iterator, Mapping

from pykueue.base.units import Instant
from pykueue.engine.decisions import PreemptionReason
from pykueue.engine.items import Item
from pykueue.engine.model import ANY, LOWER, NEVER, Policy
from pykueue.engine.order import VictimKey, victim_key
from pykueue.engine.pastuse import PastUse
from pykueue.engine.quota import QuotaNode, borrows_with, local_free, within_nominal

Requests = Mapping[int, int]


class Candidate:
    """A workload that the policies allow to be preempted, and under which conditions."""

    __slots__ = ("item", "key", "lca", "may_borrow", "queue", "reason")

    def __init__(
        self,
        item: Item,
        queue: QuotaNode,
        lca: QuotaNode | None,
        reason: PreemptionReason,
        key: VictimKey,
        *,
        may_borrow: bool,
    ) -> None:
        self.item = item
        self.queue = queue
        self.lca = lca
        """The lowest cohort that it shares with the preemptor; None in the preemptor's own queue."""
        self.reason = reason
        self.key = key
        """Its place in the order of candidates."""
        self.may_borrow = may_borrow
        """Whether it may be preempted although the preemptor's queue borrows afterwards."""

    def is_staying(self) -> bool:
        """Whether it is not evicted already."""
        return self.item.workload.evicted is None


class Level:
    """The queues for which a cohort is the lowest that they share with the preemptor's queue."""

    __slots__ = ("below", "cohort", "entitled")

    def __init__(self, cohort: QuotaNode, below: QuotaNode, *, entitled: bool) -> None:
        self.cohort = cohort
        self.below = below
        """The branch of the cohort that the preemptor's queue is in, or is."""
        self.entitled = entitled
        """Whether the preemptor has hierarchical advantage: it fits into quota below the cohort."""


def levels_above(queue: QuotaNode, requests: Requests) -> Iterator[Level]:
    """Yield the levels from which a queue may reclaim, nearest first."""
    # spec: PRE-2
    below, cohort = queue, queue.parent
    entitled, rest = fits_own(queue, requests)
    while cohort is not None:
        yield Level(cohort, below, entitled=entitled)
        if not entitled and cohort.parent is not None:
            entitled, rest = fits_own(cohort, rest)
        below, cohort = cohort, cohort.parent


def fits_own(node: QuotaNode, requests: Requests) -> tuple[bool, dict[int, int]]:
    """Whether the requests fit without borrowing, and what they need from the parent."""
    fit, rest = True, {}
    for fr, amount in requests.items():
        fit = fit and not borrows_with(node, fr, amount)
        rest[fr] = max(0, amount - local_free(node, fr))
    return fit, rest


def over_users(level: Level, frs: frozenset[int]) -> Iterator[QuotaNode]:
    """The active queues of a level that exceed their nominal quota."""
    return over_users_below(level.cohort, level.below, frs)


def over_users_below(cohort: QuotaNode, visited: QuotaNode, frs: frozenset[int]) -> Iterator[QuotaNode]:
    """The active queues below a cohort that exceed their nominal quota, except in the branch already visited."""
    for child in cohort.children:
        if child is visited or within_nominal(child, frs):
            continue
        if not child.is_queue:
            yield from over_users_below(child, visited, frs)
        elif child.active:
            yield child


def policy_allows(policy: Policy, preemptor: Item, candidate: Item) -> bool:
    """Whether a policy lets one workload preempt the other."""
    # spec: PRE-1
    match policy:
        case Policy.ANY:
            return True
        case Policy.LOWER:
            return preemptor.priority > candidate.priority
        case Policy.LOWER_OR_NEWER:
            if preemptor.priority == candidate.priority:
                return preemptor.stamp < candidate.stamp
            return preemptor.priority > candidate.priority
        case Policy.NEVER:
            return False


def hopeless(policy: Policy, preemptor: Item, queue: QuotaNode) -> bool:
    """Whether no holder of a queue can satisfy a policy, judging by the lowest priority only."""
    # spec: PRE-6
    if policy is NEVER or not queue.holders:
        return True
    if policy is ANY:
        return False
    if queue.lowest is None:
        queue.lowest = min(holder.priority for holder in queue.holders.values())
    return queue.lowest > preemptor.priority or (policy is LOWER and queue.lowest == preemptor.priority)


def ranked(queue: QuotaNode, now: Instant) -> list[Item]:
    """Return the holders of a queue in the order of candidates; kept until one comes, goes or changes its rank."""
    found = queue.ranking
    if found is None:
        # What `victim_key` is told about the preemptor is the same for all holders of a queue.
        found = sorted(queue.holders.values(), key=lambda item: victim_key(item, own_queue="", entitled=False, now=now))
        if all(item.workload.reserved_at is not None for item in found):
            # The rank of any other holder depends on the time.
            queue.ranking = found
    return found


def by_past_use(holders: Iterable[Item], past: PastUse) -> list[Item]:
    """Return holders that are in the order of candidates again, those of LocalQueues with more past use first."""
    return sorted(holders, key=lambda item: (item.workload.evicted is None, -past.value(item.workload.local_queue)))
