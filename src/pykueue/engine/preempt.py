"""Preemption: chooses the candidates, searches for enough victims, and drops those that are not needed."""

from collections.abc import Iterator, Mapping

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.decisions import PreemptionReason
from pykueue.engine.items import Item
from pykueue.engine.model import Policy
from pykueue.engine.order import victim_key
from pykueue.engine.quota import QuotaNode, ancestors, borrows_with, free, local_free, lowest_fit, within_nominal
from pykueue.engine.snapshot import Snapshot

Requests = Mapping[int, int]


class Victim(Frozen):
    """A workload to preempt, and the reason that allows it."""

    item: Item
    reason: PreemptionReason


class Candidate:
    """A workload that the policies allow to be preempted, and under which conditions."""

    __slots__ = ("item", "lca", "may_borrow", "queue", "reason")

    def __init__(
        self, item: Item, queue: QuotaNode, lca: QuotaNode | None, reason: PreemptionReason, *, may_borrow: bool
    ) -> None:
        self.item = item
        self.queue = queue
        self.lca = lca
        self.reason = reason
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
        self.known: dict[tuple[frozenset[tuple[int, int]], frozenset[int]], tuple[Victim, ...]] = {}

    def victims(self, requests: Requests, frs: frozenset[int]) -> tuple[Victim, ...]:
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

    def cohort_candidates(self, requests: Requests, frs: frozenset[int]) -> tuple[list[Candidate], list[Candidate]]:
        """Candidates in other queues: those with hierarchical advantage of the preemptor, and the others."""
        # spec: PRE-2
        policies = self.queue.spec.preemption
        entitled: list[Candidate] = []
        others: list[Candidate] = []
        if self.queue.parent is None or policies.reclaim is Policy.NEVER:
            return entitled, others
        advantage, rest = fits_own(self.queue, requests)
        below: QuotaNode = self.queue
        for cohort in ancestors(self.queue):
            found = entitled if advantage else others
            for queue in over_users(cohort, below, frs):
                for holder in self.holders(queue, policies.reclaim, frs):
                    while_borrowing = not advantage and self.below_threshold(holder)
                    reason = PreemptionReason.RECLAIM_WHILE_BORROWING if while_borrowing else PreemptionReason.RECLAIM
                    found.append(Candidate(holder, queue, cohort, reason, may_borrow=advantage or while_borrowing))
            fit, rest = fits_own(cohort, rest)
            advantage = advantage or fit
            below = cohort
        return entitled, others

    def below_threshold(self, candidate: Item) -> bool:
        """Whether `borrowWithinCohort` allows preempting a candidate while borrowing."""
        policies = self.queue.spec.preemption
        if policies.borrow_within_cohort is Policy.NEVER or candidate.priority >= self.item.priority:
            return False
        return policies.borrow_threshold is None or candidate.priority <= policies.borrow_threshold

    def search(self, requests: Requests, frs: frozenset[int]) -> tuple[Victim, ...]:
        """The victims of the first successful attempt, with or without borrowing; empty if all fail."""
        entitled, others = self.cohort_candidates(requests, frs)
        policies = self.queue.spec.preemption
        own = [
            Candidate(holder, self.queue, None, PreemptionReason.IN_QUEUE, may_borrow=True)
            for holder in self.holders(self.queue, policies.within_queue, frs)
        ]
        if not (entitled or others or own):
            return ()
        candidates = self.ordered(entitled, others, own)
        # spec: PRE-3
        strict = policies.borrow_within_cohort is Policy.NEVER
        if not (entitled or others) or (strict and not below_nominal(self.queue, frs)):
            attempts = [True]
        elif strict and not entitled:
            attempts = [False, True]
        else:
            attempts = [True, False]
        for borrow in attempts:
            found = self.attempt(candidates, requests, frs, borrow=borrow)
            if found:
                return found
        return ()

    def ordered(self, *groups: list[Candidate]) -> list[Candidate]:
        """All candidates in order: those already evicted first, and within each part group by group."""
        own_queue, now = self.queue.name, self.now
        for group in groups:
            group.sort(key=lambda candidate: victim_key(candidate.item, own_queue=own_queue, now=now))
        everyone = [candidate for group in groups for candidate in group]
        leaving = [candidate for candidate in everyone if candidate.item.workload.evicted is not None]
        return leaving + [candidate for candidate in everyone if candidate.item.workload.evicted is None]

    def attempt(
        self, candidates: list[Candidate], requests: Requests, frs: frozenset[int], *, borrow: bool
    ) -> tuple[Victim, ...]:
        """Remove candidates until the requests fit, then put back those that are not needed."""
        with self.snapshot.scratch():
            chosen = self.enough(candidates, requests, frs, borrow=borrow)
            # spec: PRE-5
            for index in range(len(chosen) - 2, -1, -1):
                self.snapshot.come_back(chosen[index].item)
                if self.fits(requests, borrow=borrow):
                    chosen[index] = chosen[-1]
                    chosen.pop()
                else:
                    self.snapshot.leave(chosen[index].item)
        return tuple(Victim(candidate.item, candidate.reason) for candidate in chosen)

    def enough(
        self, candidates: list[Candidate], requests: Requests, frs: frozenset[int], *, borrow: bool
    ) -> list[Candidate]:
        """Remove candidates in order until the requests fit: the removed ones, or none if all do not suffice."""
        chosen: list[Candidate] = []
        for candidate in candidates:
            if self.protected(candidate, frs, borrow=borrow):
                continue
            self.snapshot.leave(candidate.item)
            chosen.append(candidate)
            if self.fits(requests, borrow=borrow):
                return chosen
        return []

    def protected(self, candidate: Candidate, frs: frozenset[int], *, borrow: bool) -> bool:
        """Whether a candidate must stay because its queue, or a cohort below the shared one, is within its quota."""
        # spec: PRE-4
        if candidate.lca is None:
            return False
        if borrow and not candidate.may_borrow:
            return True
        node: QuotaNode | None = candidate.queue
        while node is not None and node is not candidate.lca:
            if within_nominal(node, frs):
                return True
            node = node.parent
        return False

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
        victims = self.victims({fr: amount}, frozenset((fr,)))
        if not victims:
            return False, False, lowest_fit(self.queue, fr, amount)[0]
        with self.snapshot.without(victim.item for victim in victims):
            level = lowest_fit(self.queue, fr, amount)[0]
        return True, all(victim.item.queue != self.queue.name for victim in victims), level


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
