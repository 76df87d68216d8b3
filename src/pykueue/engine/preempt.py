"""Preemption: searches the candidates for enough victims, and drops those that are not needed."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice, zip_longest
from operator import attrgetter
from typing import Final, TypeVar

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.candidates import (
    Candidate,
    Level,
    Requests,
    by_past_use,
    hopeless,
    levels_above,
    over_users,
    policy_allows,
    ranked,
)
from pykueue.engine.decisions import PreemptionReason, SparedReason
from pykueue.engine.items import Item
from pykueue.engine.model import ANY, NEVER, Options, Policy
from pykueue.engine.order import VictimKey, later_because, victim_key
from pykueue.engine.quota import QuotaNode, borrows_with, free, lowest_fit, within_nominal
from pykueue.engine.snapshot import Snapshot

BY_KEY: Final = attrgetter("key")
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
Chosen = TypeVar("Chosen", Candidate, Victim)


class Search:
    """Finds the victims that let a workload use given amounts; results are cached."""

    __slots__ = ("item", "known", "now", "options", "queue", "snapshot")

    def __init__(self, snapshot: Snapshot, queue: QuotaNode, item: Item, now: Instant, options: Options) -> None:
        self.snapshot = snapshot
        self.queue = queue
        self.item = item
        self.now = now
        self.options = options
        self.known: dict[tuple[frozenset[tuple[int, int]], frozenset[int]], Selection] = {}

    def selection(self, requests: Requests, frs: frozenset[int]) -> Selection:
        """A minimal set of victims that lets the requests fit; empty if none. `frs` are the contended pairs."""
        question = (frozenset(requests.items()), frs)
        answer = self.known.get(question)
        if answer is None:
            answer = self.known[question] = self.search(requests, frs)
        return answer

    def search(self, requests: Requests, frs: frozenset[int]) -> Selection:
        """The victims of the first successful attempt, with or without borrowing; none if all fail."""
        levels = self.levels(requests)
        for borrow in self.attempts(levels, frs):
            found = self.attempt(levels, requests, frs, borrow=borrow)
            if found.victims:
                return found
        return NOTHING

    def levels(self, requests: Requests) -> list[Level]:
        """The parts of the tree from which the preemptor may reclaim."""
        if self.queue.spec.preemption.reclaim is NEVER:
            return []
        return list(levels_above(self.queue, requests))

    def attempts(self, levels: Sequence[Level], frs: frozenset[int]) -> tuple[bool, ...]:
        """Whether the preemptor's queue may borrow, for each attempt in order."""
        # spec: PRE-3
        strict = self.is_strict()
        if strict and not below_nominal(self.queue, frs):
            return (True,)
        reclaimable = [level for level in levels if self.has_candidates(level, frs)]
        if not reclaimable:
            return (True,)
        return (False, True) if strict and not any(level.entitled for level in reclaimable) else (True, False)

    def is_strict(self) -> bool:
        """Whether others are preempted while borrowing only where the preemptor is entitled to their quota."""
        return self.queue.spec.preemption.borrow_within_cohort is NEVER

    def has_candidates(self, level: Level, frs: frozenset[int]) -> bool:
        """Whether there is a candidate in this part of the tree."""
        policy = self.queue.spec.preemption.reclaim
        return any(any(True for _ in self.holders(queue, policy, frs)) for queue in over_users(level, frs))

    def candidates(self, levels: Iterable[Level], frs: frozenset[int]) -> Iterator[Candidate]:
        """The candidates of these parts of the tree and of the preemptor's own queue, in order."""
        return merge(*self.streams(levels, frs), key=BY_KEY)

    def streams(self, levels: Iterable[Level], frs: frozenset[int]) -> list[Iterator[Candidate]]:
        """The same queue by queue, without queues that cannot have any.

        The queues are chosen at the call. Their candidates are created when they are read: of many, few are needed.
        """
        streams = [self.reclaimable(queue, level, frs) for level in levels for queue in over_users(level, frs)]
        if not hopeless(self.queue.spec.preemption.within_queue, self.item, self.queue):
            streams.append(self.own_candidates(frs))
        return streams

    def reclaimable(self, queue: QuotaNode, level: Level, frs: frozenset[int]) -> Iterator[Candidate]:
        """The candidates of another queue, in order."""
        own, entitled = self.queue.name, level.entitled
        for holder in self.holders(queue, self.queue.spec.preemption.reclaim, frs):
            while_borrowing = not entitled and self.below_threshold(holder)
            reason = PreemptionReason.RECLAIM_WHILE_BORROWING if while_borrowing else PreemptionReason.RECLAIM
            key = victim_key(holder, own_queue=own, entitled=entitled, now=self.now)
            yield Candidate(holder, queue, level.cohort, reason, key, may_borrow=entitled or while_borrowing)

    def own_candidates(self, frs: frozenset[int]) -> Iterator[Candidate]:
        """The candidates of the preemptor's own queue, in order."""
        for holder in self.own_holders(frs):
            yield Candidate(holder, self.queue, None, PreemptionReason.IN_QUEUE, self.key(holder), may_borrow=True)

    def key(self, item: Item) -> VictimKey:
        """The place of a candidate in the order; past use counts in the preemptor's own queue."""
        past = self.queue.past if item.queue == self.queue.name else None
        used = 0.0 if past is None else past.value(item.workload.local_queue)
        return victim_key(item, own_queue=self.queue.name, entitled=False, now=self.now, past_use=used)

    def own_holders(self, frs: frozenset[int]) -> Iterator[Item]:
        """The holders of the preemptor's own queue that it may preempt, in order."""
        past = self.queue.past
        found = self.holders(self.queue, self.queue.spec.preemption.within_queue, frs)
        return found if past is None else iter(by_past_use(found, past))

    def holders(self, queue: QuotaNode, policy: Policy, frs: frozenset[int]) -> Iterator[Item]:
        """The holders of a queue that use contended pairs and that a policy allows to preempt, in order."""
        if hopeless(policy, self.item, queue):
            return
        gone, preemptor, anyone = self.snapshot.gone, self.item, policy is ANY
        for holder in ranked(queue, self.now):
            if holder.key in gone or holder.workload.held_off or holder.frs.isdisjoint(frs):
                continue
            if anyone or policy_allows(policy, preemptor, holder):
                yield holder

    def below_threshold(self, candidate: Item) -> bool:
        """Whether `borrowWithinCohort` allows preempting a candidate while borrowing."""
        policies = self.queue.spec.preemption
        if policies.borrow_within_cohort is NEVER or candidate.priority >= self.item.priority:
            return False
        return policies.borrow_threshold is None or candidate.priority <= policies.borrow_threshold

    def attempt(self, levels: Sequence[Level], requests: Requests, frs: frozenset[int], *, borrow: bool) -> Selection:
        """Remove candidates until the requests fit, then put back those that are not needed."""
        # Where no candidate may be preempted while borrowing, none is read.
        readable = [level for level in levels if level.entitled] if borrow and self.is_strict() else levels
        streams = self.streams(readable, frs)
        if not streams:
            return NOTHING
        candidates: Iterator[Candidate] = merge(*streams, key=BY_KEY)
        with self.snapshot.scratch():
            chosen, passed = self.enough(candidates, requests, frs, borrow=borrow)
            if not chosen:
                return NOTHING
            last = chosen[-1]
            returned = self.put_back(chosen, requests, borrow=borrow)
        spared = self.count(levels, frs) - sum(one.is_staying() for one in chosen)
        if passed or len(readable) < len(levels):
            # Some of those before the last may have stayed; without them, reading goes on after it.
            candidates = self.candidates(levels, frs)
        named = self.named(candidates, chosen, last, returned, borrow=borrow) if spared else ()
        return Selection(tuple(Victim(one.item, one.reason) for one in chosen), spared, named)

    def put_back(self, chosen: list[Chosen], requests: Requests, *, borrow: bool) -> list[Chosen]:
        """Let those come back, of these that were removed, without which the requests fit as well; return them."""
        # spec: PRE-5
        returned: list[Chosen] = []
        for index in range(len(chosen) - 2, -1, -1):
            self.snapshot.come_back(chosen[index].item)
            if self.fits(requests, borrow=borrow):
                returned.append(chosen[index])
                chosen[index] = chosen[-1]
                chosen.pop()
            else:
                self.snapshot.leave(chosen[index].item)
        returned.reverse()
        return returned

    def enough(
        self, candidates: Iterable[Candidate], requests: Requests, frs: frozenset[int], *, borrow: bool
    ) -> tuple[list[Candidate], bool]:
        """Remove candidates in order until the requests fit: the removed ones, or none if all do not suffice.

        Also whether any was passed over because it is protected.
        """
        chosen: list[Candidate] = []
        passed = False
        for candidate in candidates:
            if self.is_protected(candidate, frs, borrow=borrow):
                passed = True
                continue
            self.snapshot.leave(candidate.item)
            chosen.append(candidate)
            if self.fits(requests, borrow=borrow):
                return chosen, passed
        return [], passed

    def is_protected(self, candidate: Candidate, frs: frozenset[int], *, borrow: bool) -> bool:
        """Whether a candidate must stay: while its queue, or a cohort below the shared one, is within its quota."""
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

    def count(self, levels: Iterable[Level], frs: frozenset[int]) -> int:
        """How many candidates there are, without those that are evicted already."""
        policies = self.queue.spec.preemption
        found = [self.holders(self.queue, policies.within_queue, frs)]
        found += [self.holders(queue, policies.reclaim, frs) for level in levels for queue in over_users(level, frs)]
        return sum([holder.workload.evicted is None for holders in found for holder in holders])

    def named(
        self,
        candidates: Iterable[Candidate],
        chosen: Iterable[Candidate],
        last: Candidate,
        returned: Sequence[Candidate],
        *,
        borrow: bool,
    ) -> tuple[Spared, ...]:
        """Some candidates that an attempt spared, which removed those up to `last` and put some back."""
        removed = {one.item.key for one in (*chosen, *returned)}
        spared = (one for one in candidates if one.is_staying() and one.item.key not in removed)
        kept: list[Spared] = []
        later: list[Spared] = []
        for one in spared:
            if one.key > last.key:
                later.append(Spared(one.item.key, later_because(one.key, last.key)))
            elif len(kept) < SPARED_MAX:
                borrows = borrow and not one.may_borrow
                kept.append(
                    Spared(one.item.key, SparedReason.WHILE_BORROWING if borrows else SparedReason.WITHIN_QUOTA)
                )
            if len(later) == SPARED_MAX:
                break
        staying = (one for one in returned if one.is_staying())
        back = [Spared(one.item.key, SparedReason.NOT_NEEDED) for one in islice(staying, SPARED_MAX)]
        found = (one for first in zip_longest(back, kept, later) for one in first if one is not None)
        return tuple(islice(found, SPARED_MAX))

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


def below_nominal(queue: QuotaNode, frs: frozenset[int]) -> bool:
    """Whether a queue uses less than its nominal quota of every contended pair."""
    return all(queue.usage.get(fr, 0) < queue.nominal.get(fr, 0) for fr in frs)
