"""Preemption: chooses the candidates, searches for enough victims, and drops those that are not needed."""

from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.decisions import PreemptionReason, SparedReason
from pykueue.engine.items import Item
from pykueue.engine.model import Policy
from pykueue.engine.order import VictimKey, later_because, victim_key
from pykueue.engine.quota import QuotaNode, ancestors, borrows_with, free, local_free, lowest_fit, within_nominal
from pykueue.engine.snapshot import Snapshot

Requests = Mapping[int, int]
SPARED_MAX: Final = 3
"""How many of the candidates that a search spares are named."""


class Victim(Frozen):
    """A workload to preempt, and the reason that allows it."""

    item: Item
    reason: PreemptionReason


class Spared(Frozen):
    """A candidate that is not preempted, and the reason."""

    workload: str
    reason: SparedReason


class Selection(Frozen):
    """The result of a search: the victims, and the candidates that it spared; without victims it has failed."""

    victims: tuple[Victim, ...] = ()
    spared: int = 0
    """How many candidates stay; those that are evicted already do not count."""
    named: tuple[Spared, ...] = ()
    """Some of them, of each kind of reason the first in the order of candidates."""


NOTHING: Final = Selection()


class Candidate:
    """A workload that the policies allow to be preempted, and under which conditions."""

    __slots__ = ("entitled", "item", "lca", "may_borrow", "queue", "reason")

    def __init__(
        self,
        item: Item,
        queue: QuotaNode,
        lca: QuotaNode | None,
        reason: PreemptionReason,
        *,
        may_borrow: bool,
        entitled: bool = False,
    ) -> None:
        self.item = item
        self.queue = queue
        self.lca = lca
        self.reason = reason
        self.entitled = entitled
        """Whether the preemptor has hierarchical advantage: it fits into quota below the shared cohort."""
        self.may_borrow = may_borrow
        """Whether it may be preempted although the preemptor's queue borrows afterwards."""


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
    if policy is Policy.NEVER or not queue.holders:
        return True
    if policy is Policy.ANY:
        return False
    if queue.lowest is None:
        queue.lowest = min(holder.priority for holder in queue.holders.values())
    return queue.lowest > preemptor.priority or (policy is Policy.LOWER and queue.lowest == preemptor.priority)


class Search:
    """Finds the victims that let a workload use given amounts; results are cached."""

    def __init__(self, snapshot: Snapshot, queue: QuotaNode, item: Item, now: Instant) -> None:
        self.snapshot = snapshot
        self.queue = queue
        self.item = item
        self.now = now
        self.known: dict[tuple[frozenset[tuple[int, int]], frozenset[int]], Selection] = {}

    def selection(self, requests: Requests, frs: frozenset[int]) -> Selection:
        """A minimal set of victims that lets the requests fit; empty if none. `frs` are the contended pairs."""
        question = (frozenset(requests.items()), frs)
        answer = self.known.get(question)
        if answer is None:
            answer = self.known[question] = self.search(requests, frs)
        return answer

    def holders(self, queue: QuotaNode, policy: Policy, frs: frozenset[int]) -> Iterator[Item]:
        """The holders of a queue that use contended pairs and that a policy allows to preempt."""
        if hopeless(policy, self.item, queue):
            return
        gone, preemptor = self.snapshot.gone, self.item
        for holder in queue.holders.values():
            if holder.key in gone or holder.workload.held_off or holder.frs.isdisjoint(frs):
                continue
            if policy_allows(policy, preemptor, holder):
                yield holder

    def cohort_candidates(self, requests: Requests, frs: frozenset[int]) -> list[Candidate]:
        """Candidates in other queues."""
        # spec: PRE-2
        policies = self.queue.spec.preemption
        found: list[Candidate] = []
        if self.queue.parent is None or policies.reclaim is Policy.NEVER:
            return found
        advantage, rest = fits_own(self.queue, requests)
        below: QuotaNode = self.queue
        for cohort in ancestors(self.queue):
            for queue in over_users(cohort, below, frs):
                for holder in self.holders(queue, policies.reclaim, frs):
                    while_borrowing = not advantage and self.below_threshold(holder)
                    reason = PreemptionReason.RECLAIM_WHILE_BORROWING if while_borrowing else PreemptionReason.RECLAIM
                    may_borrow = advantage or while_borrowing
                    found.append(Candidate(holder, queue, cohort, reason, may_borrow=may_borrow, entitled=advantage))
            fit, rest = fits_own(cohort, rest)
            advantage = advantage or fit
            below = cohort
        return found

    def own_candidates(self, frs: frozenset[int]) -> list[Candidate]:
        """Candidates in the preemptor's own queue."""
        return [
            Candidate(holder, self.queue, None, PreemptionReason.IN_QUEUE, may_borrow=True)
            for holder in self.holders(self.queue, self.queue.spec.preemption.within_queue, frs)
        ]

    def below_threshold(self, candidate: Item) -> bool:
        """Whether `borrowWithinCohort` allows preempting a candidate while borrowing."""
        policies = self.queue.spec.preemption
        if policies.borrow_within_cohort is Policy.NEVER or candidate.priority >= self.item.priority:
            return False
        return policies.borrow_threshold is None or candidate.priority <= policies.borrow_threshold

    def search(self, requests: Requests, frs: frozenset[int]) -> Selection:
        """The victims of the first successful attempt, with or without borrowing; none if all fail."""
        in_cohort = self.cohort_candidates(requests, frs)
        policies = self.queue.spec.preemption
        candidates = in_cohort + self.own_candidates(frs)
        if not candidates:
            return NOTHING
        candidates.sort(key=self.order)
        # spec: PRE-3
        strict = policies.borrow_within_cohort is Policy.NEVER
        if not in_cohort or (strict and not below_nominal(self.queue, frs)):
            attempts = [True]
        elif strict and not any(candidate.entitled for candidate in in_cohort):
            attempts = [False, True]
        else:
            attempts = [True, False]
        for borrow in attempts:
            found = self.attempt(candidates, requests, frs, borrow=borrow)
            if found.victims:
                return found
        return NOTHING

    def order(self, candidate: Candidate) -> VictimKey:
        """The key by which candidates are sorted."""
        return victim_key(candidate.item, own_queue=self.queue.name, entitled=candidate.entitled, now=self.now)

    def attempt(
        self, candidates: list[Candidate], requests: Requests, frs: frozenset[int], *, borrow: bool
    ) -> Selection:
        """Remove candidates until the requests fit, then put back those that are not needed."""
        returned: list[Candidate] = []
        with self.snapshot.scratch():
            chosen, kept = self.enough(candidates, requests, frs, borrow=borrow)
            if not chosen:
                return NOTHING
            last = chosen[-1]
            # spec: PRE-5
            for index in range(len(chosen) - 2, -1, -1):
                self.snapshot.come_back(chosen[index].item)
                if self.fits(requests, borrow=borrow):
                    returned.append(chosen[index])
                    chosen[index] = chosen[-1]
                    chosen.pop()
                else:
                    self.snapshot.leave(chosen[index].item)
        returned.reverse()
        return self.selected(candidates, chosen, last, returned, kept)

    def enough(
        self, candidates: list[Candidate], requests: Requests, frs: frozenset[int], *, borrow: bool
    ) -> tuple[list[Candidate], list[Spared]]:
        """Remove candidates in order until the requests fit: the removed ones, or none if all do not suffice.

        Of those that had to stay, the first few are returned too.
        """
        chosen: list[Candidate] = []
        kept: list[Spared] = []
        for candidate in candidates:
            protection = self.protection(candidate, frs, borrow=borrow)
            if protection is not None:
                if len(kept) < SPARED_MAX and is_staying(candidate):
                    kept.append(Spared(candidate.item.key, protection))
                continue
            self.snapshot.leave(candidate.item)
            chosen.append(candidate)
            if self.fits(requests, borrow=borrow):
                return chosen, kept
        return [], kept

    def protection(self, candidate: Candidate, frs: frozenset[int], *, borrow: bool) -> SparedReason | None:
        """Why a candidate must stay; None if it need not.

        It must while its queue, or a cohort below the shared one, is within its quota.
        """
        # spec: PRE-4
        if candidate.lca is None:
            return None
        if borrow and not candidate.may_borrow:
            return SparedReason.WHILE_BORROWING
        node: QuotaNode | None = candidate.queue
        while node is not None and node is not candidate.lca:
            if within_nominal(node, frs):
                return SparedReason.WITHIN_QUOTA
            node = node.parent
        return None

    def selected(
        self,
        candidates: list[Candidate],
        chosen: list[Candidate],
        last: Candidate,
        returned: list[Candidate],
        kept: list[Spared],
    ) -> Selection:
        """The result of an attempt that removed candidates up to `last`, and put these back."""
        staying = next((index for index, one in enumerate(candidates) if is_staying(one)), len(candidates))
        spared = len(candidates) - staying - sum(map(is_staying, chosen))
        named: list[Spared] = []
        if spared:
            after = max(staying, candidates.index(last) + 1)
            key = self.order(last)
            kinds = (
                [
                    Spared(one.item.key, SparedReason.NOT_NEEDED)
                    for one in islice(filter(is_staying, returned), SPARED_MAX)
                ],
                kept,
                [
                    Spared(one.item.key, later_because(self.order(one), key))
                    for one in islice(candidates, after, after + SPARED_MAX)
                ],
            )
            named = [one for first in zip_longest(*kinds) for one in first if one is not None]
        victims = tuple(Victim(candidate.item, candidate.reason) for candidate in chosen)
        return Selection(victims, spared, tuple(named[:SPARED_MAX]))

    def fits(self, requests: Requests, *, borrow: bool) -> bool:
        """Whether all requests fit now."""
        queue = self.queue
        return all(
            amount <= free(queue, fr) and (borrow or not borrows_with(queue, fr, amount))
            for fr, amount in requests.items()
        )

    def possibility(self, fr: int, amount: int) -> tuple[bool, bool, int]:
        """Whether preemption can free this amount of a pair, only in other queues, and the level of borrowing then."""
        # spec: PRE-7
        victims = self.selection({fr: amount}, frozenset((fr,))).victims
        if not victims:
            return False, False, lowest_fit(self.queue, fr, amount)[0]
        with self.snapshot.without(victim.item for victim in victims):
            level = lowest_fit(self.queue, fr, amount)[0]
        return True, all(victim.item.queue != self.queue.name for victim in victims), level


def is_staying(candidate: Candidate) -> bool:
    """Whether a candidate is not evicted already."""
    return candidate.item.workload.evicted is None


def fits_own(node: QuotaNode, requests: Requests) -> tuple[bool, dict[int, int]]:
    """Whether the requests fit without borrowing, and what they need from the parent."""
    fit = not any(borrows_with(node, fr, amount) for fr, amount in requests.items())
    return fit, {fr: max(0, amount - local_free(node, fr)) for fr, amount in requests.items()}


def below_nominal(queue: QuotaNode, frs: frozenset[int]) -> bool:
    """Whether a queue uses less than its nominal quota of every contended pair."""
    return all(queue.usage.get(fr, 0) < queue.nominal.get(fr, 0) for fr in frs)


def over_users(cohort: QuotaNode, visited: QuotaNode, frs: frozenset[int]) -> Iterator[QuotaNode]:
    """The active queues below a cohort that exceed their nominal quota, except in the branch already visited."""
    for child in cohort.children:
        if child is visited or within_nominal(child, frs):
            continue
        if not child.is_queue:
            yield from over_users(child, visited, frs)
        elif child.active:
            yield child
