"""One scheduling cycle in six steps: which heads start, and which victims they preempt.

1. Heads: take the next workload of each ClusterQueue.
2. Claims: book the room that earlier cycles promised to waiting preemptors.
3. Nominate: check each head and plan it against the tree as it is at the start of the cycle.
4. Order: sort the nominated heads.
5. Consider: carry out each plan that is still valid after the heads before it.
6. Requeue: assume the decisions, and put the heads that stay pending back into their queues.

Planning books usage on the live tree and undoes it before step 6. What a cycle changes for good are the queues, and
the claims and bookmarks of the heads.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final

from pykueue.engine.assume import assume
from pykueue.engine.decisions import (
    Admit,
    Decision,
    DeferredFit,
    Evict,
    EvictionReason,
    FailedChecks,
    NamespaceMismatch,
    NoLongerFits,
    Overlap,
    PodsNotReady,
    Reserve,
    Unassigned,
    WaitReason,
)
from pykueue.engine.entries import Entry, Postponed, Replanned, Result, Started, TreeCycle
from pykueue.engine.fairsearch import search_for
from pykueue.engine.flavors import Planner, start_of
from pykueue.engine.forest import Tree
from pykueue.engine.heads import heads, report_displaced
from pykueue.engine.items import Bookmark, Claim, Item
from pykueue.engine.lifecycle import report_wait, review_placed
from pykueue.engine.model import ANY, NEVER, Strategy
from pykueue.engine.order import HeadKey, head_key
from pykueue.engine.pending import SHARED, Outcome
from pykueue.engine.preempt import Victim
from pykueue.engine.quota import QuotaNode, path, usage_of
from pykueue.engine.releases import in_order
from pykueue.engine.snapshot import fits
from pykueue.engine.tournament import Tournament
from pykueue.engine.wording import preempted
from pykueue.engine.world import World, has_failed_check

REFILLS_MAX: Final = 8
"""How many workloads join a cycle in each tree after one of their queue has started."""


class Cycle:
    """One pass over the trees in which something changed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.options = world.options
        self.now = world.now
        self.decisions: list[Decision] = []
        """What was decided, in order."""
        self.entries: list[Entry] = []
        self.started_unready = ""
        """The workload that this cycle started, if its pods must be ready before another one starts."""
        self.freed: list[QuotaNode] = []
        """Queues whose head gave up a claim, so that others may use the room."""
        self.claiming: dict[Tree, None] = {}
        """Trees in which a head has a claim that it did not have before."""
        self.tournament: Tournament | None = None
        """Under fair sharing, the tournament of the tree whose heads are being considered."""
        self.lent: dict[Tree, None] = {}
        """Trees in which a head was started on borrowed quota."""

    def run(self, trees: list[Tree]) -> None:
        """Decide which heads of these trees start, and requeue the others."""
        tree_cycles = [TreeCycle(tree, self.world.forest) for tree in trees]
        # 1. Heads.
        for tree_cycle in tree_cycles:
            self.entries += heads(self.world, tree_cycle, self.freed)
        # 2. Claims.
        for entry in self.entries:
            if entry.item.claim is not None:
                self.apply_claim(entry)
        # 3. Nominate.
        for entry in self.entries:
            self.nominate(entry)
        # 4. Order, and 5. Consider.
        for entry in self.in_order([entry for entry in self.entries if entry.result is None]):
            self.consider(entry)
            if self.options.fair_refill and isinstance(entry.result, Started):
                self.refill(entry)
        for tree_cycle in tree_cycles:
            tree_cycle.snapshot.rewind()
        # 6. Requeue.
        self.assume_decisions()
        for entry in self.entries:
            self.requeue(entry)
        for tree_cycle in tree_cycles:
            self.decisions += report_displaced(self.world, tree_cycle)
        self.wake_rivals()

    # 2. Claims.

    def apply_claim(self, entry: Entry) -> None:
        """Book a waiting preemptor's room in the snapshot, with its victims gone, so that others leave it free."""
        # spec: PRE-8
        claim = entry.item.claim
        if claim is None:
            return
        entry.tree_cycle.has_unfreed_room = True
        snapshot = entry.tree_cycle.snapshot
        for victim in claim.victims:
            if victim.key not in snapshot.gone and self.holds(victim):
                snapshot.leave(victim)
        snapshot.book(entry.queue, claim.usage)

    def lift_claim(self, entry: Entry) -> None:
        """Undo `apply_claim`, so that a waiting preemptor can be planned without its own claim."""
        claim = entry.item.claim
        if claim is None:
            return
        snapshot = entry.tree_cycle.snapshot
        snapshot.unbook(entry.queue, claim.usage)
        for victim in claim.victims:
            if victim.key in snapshot.gone and self.holds(victim):
                snapshot.come_back(victim)

    def holds(self, victim: Item) -> bool:
        """Return whether a victim still holds its quota."""
        queue = self.world.forest.queues.get(victim.queue)
        return queue is not None and victim.key in queue.holders

    # 3. Nominate.

    def nominate(self, entry: Entry) -> None:
        """Check a head, and plan it against the tree as it is at the start of the cycle."""
        item, tree = entry.item, entry.tree_cycle.tree
        if item.seen_at != tree.version:
            item.seen_at, item.starts = tree.version, ()
        entry.start = item.bookmark = start_of(item, entry.queue, tree.cycle, self.options)
        item.starts = (*item.starts, None if entry.start is None else entry.start.tried)
        if item.claim is not None:
            self.lift_claim(entry)
        entry.result = self.refusal(entry)
        if entry.result is not None:
            claim, item.claim = item.claim, None
            self.note_claim(entry, claim)
            return
        search = search_for(entry.tree_cycle.snapshot, entry.queue, item, self.now, self.options)
        entry.planner = Planner(entry.queue, item, self.world.flavors, self.world.epoch, search, self.options)
        entry.plan, entry.selection = entry.planner.best()
        if item.claim is not None:
            self.apply_claim(entry)
        item.bookmark = self.bookmark(entry)

    def refusal(self, entry: Entry) -> Postponed | None:
        """Return why a head is not even planned; None if it passes the checks that come before planning."""
        workload = entry.item.workload
        if has_failed_check(workload):
            return Postponed(Outcome.INVALID, WaitReason.PENDING_EVALUATION, FailedChecks())
        why = self.world.refusal(entry.queue, entry.item)
        if why is None:
            return None
        outcome = Outcome.INVALID
        if isinstance(why, NamespaceMismatch):
            outcome = Outcome.NAMESPACE_MISMATCH
        elif workload.unbuilt:
            outcome = Outcome.UNSUPPORTED
        return Postponed(outcome, WaitReason.MISCONFIGURED, why)

    def bookmark(self, entry: Entry) -> Bookmark | None:
        """Return where the next scan of flavors continues; None if it starts at the first flavors."""
        if not self.options.flavor_fungibility or not entry.plan.left_flavors():
            return None
        rounds = entry.start.round + 1 if entry.start is not None and entry.plan.resumed else 0
        tree, queue, shape = entry.tree_cycle.tree, entry.queue, entry.item.shape
        return Bookmark(entry.plan.tried(), queue.generation, tree.cycle, shape.digest, rounds)

    # 4. Order.

    def in_order(self, nominated: list[Entry]) -> Iterator[Entry]:
        """Yield the nominated heads in order; under fair sharing that depends on what the heads before change."""
        if not self.options.fair_sharing:
            yield from sorted(nominated, key=self.order)
            return
        for tree_cycle, entries in groupby(nominated, key=attrgetter("tree_cycle")):
            self.tournament = Tournament(self.world, tree_cycle.tree, tree_cycle.snapshot, self.is_promised)
            yield from self.tournament.run(entries)

    def refill(self, entry: Entry) -> None:
        """Let the next workload of a queue whose head has started take part in the tournament, if it fits."""
        # spec: SHR-8
        tournament, refills = self.tournament, entry.tree_cycle.refills
        if tournament is None or self.world.blocks_admission or refills == REFILLS_MAX:
            return
        pending = self.world.pending[entry.queue.name]
        pending.remove(entry.item)
        item = pending.head()
        if item is None or item.claim is not None:
            return
        before = item.seen_at, item.starts, item.bookmark
        following = Entry(item, entry.queue, entry.tree_cycle)
        self.nominate(following)
        if following.result is None and following.plan.fits:
            entry.tree_cycle.refills += 1
            self.entries.append(following)
            tournament.add(following)
        else:
            # It is not evaluated yet: the next cycle may find victims for it.
            item.seen_at, item.starts, item.bookmark = before

    def order(self, entry: Entry) -> HeadKey:
        """Return the key by which nominated heads are sorted."""
        return head_key(
            entry.item, borrowing=entry.plan.borrowing, promised=self.is_promised(entry), options=self.options
        )

    def is_promised(self, entry: Entry) -> bool:
        """Return whether an earlier cycle promised room to a head, so that it is considered before all others."""
        pending = self.world.pending[entry.queue.name]
        if pending.preemptor is not entry.item:
            return False
        same = pending.preemptor_generation == entry.item.workload.generation
        return self.options.reserve_for_preemptor or (self.options.prioritize_preemptors and same)

    # 5. Consider.

    def consider(self, entry: Entry) -> None:
        """Carry out a plan if it is still valid; otherwise record why not."""
        claim = entry.item.claim
        left: list[Item] = []
        if claim is not None:
            self.lift_claim(entry)
            entry.item.claim = None
            left = [victim for victim in claim.victims if self.holds(victim)]
        if claim is not None and self.keeps_waiting(entry, claim, left):
            entry.result = self.keep_waiting(entry, claim, left)
        else:
            entry.result = self.carry_out(entry)
        self.note_claim(entry, claim)

    def keeps_waiting(self, entry: Entry, claim: Claim, left: list[Item]) -> bool:
        """Return whether a preemptor still waits for the victims of its claim, of which these are left."""
        if not left or any(victim.workload.evicted is None for victim in left):
            return False
        if entry.plan.fits and self.still_fits(entry) and self.fits_now(entry):
            return False
        tree_cycle = entry.tree_cycle
        with tree_cycle.snapshot.without([*tree_cycle.claimed.values(), *left]):
            return fits(entry.queue, claim.usage)

    def keep_waiting(self, entry: Entry, claim: Claim, left: list[Item]) -> Postponed:
        """Renew a claim: a new plan would only exchange victims between preemptors that wait for each other."""
        entry.item.claim = claim
        self.apply_claim(entry)
        reported = entry.item.reported
        obstacles = entry.plan.obstacles() or (reported.pod_sets if isinstance(reported, Unassigned) else ())
        why = Unassigned(obstacles, victims=len(left))
        return Postponed(Outcome.PENDING_PREEMPTION, WaitReason.WAITING_FOR_PREEMPTED, why)

    def note_claim(self, entry: Entry, before: Claim | None) -> None:
        """Record that a head gave up the claim it had, so that others may use the room, or has a new one."""
        now = entry.item.claim
        if before is not None and (now is None or now.usage != before.usage):
            self.freed.append(entry.queue)
        elif now is not None and before is None:
            self.claiming[entry.tree_cycle.tree] = None

    def carry_out(self, entry: Entry) -> Result:
        """Start a head, or preempt for it, or return why it waits."""
        self.replan(entry)
        plan, tree_cycle = entry.plan, entry.tree_cycle
        if plan.failure is not None:
            return Postponed(Outcome.NO_FIT, plan.failure, Unassigned(plan.obstacles()))
        if entry.replanned is Replanned.DEFERRED_FIT:
            return self.wait_for_others(entry)
        victims = entry.victims
        if not victims and not plan.fits:
            self.reserve_for_blocked(entry)
            why = Unassigned(plan.obstacles(), inadequate=True)
            return Postponed(Outcome.NO_VICTIMS, WaitReason.WAITING_FOR_QUOTA, why)
        if self.overlaps(entry):
            self.reset_scan(entry)
            return Postponed(Outcome.CONTENDED, WaitReason.WAITING_FOR_QUOTA, Overlap())
        tree_cycle.nonborrowing_head |= plan.borrowing == 0
        if self.may_not_borrow(entry) or not self.still_fits(entry):
            self.reset_scan(entry)
            return Postponed(Outcome.CONTENDED, WaitReason.WAITING_FOR_QUOTA, NoLongerFits())
        if victims:
            return self.preempt(entry)
        if not self.fits_now(entry):
            return self.wait_for_others(entry)
        return self.start(entry)

    def replan(self, entry: Entry) -> None:
        """Plan again on the same flavors if an earlier head has claimed some of the victims."""
        # spec: CYC-2
        if not self.options.recompute_overlap or not self.overlaps(entry):
            return
        assert entry.planner is not None, "a planned head has a planner"
        tree_cycle = entry.tree_cycle
        pinned = {
            (index, resource): choice.flavor
            for index, part in enumerate(entry.plan.pod_sets)
            for resource, choice in part.choices.items()
        }
        counts = [part.count for part in entry.plan.pod_sets]
        entry.item.bookmark = None
        with tree_cycle.snapshot.without(tree_cycle.claimed.values()):
            entry.planner.search = search_for(tree_cycle.snapshot, entry.queue, entry.item, self.now, self.options)
            entry.plan = entry.planner.plan(counts, pinned)
            entry.selection = entry.planner.selection(entry.plan)
        if entry.plan.fits:
            entry.replanned = Replanned.DEFERRED_FIT
        else:
            entry.replanned = Replanned.NEW_TARGETS if entry.victims else Replanned.SKIPPED

    def overlaps(self, entry: Entry) -> bool:
        """Return whether an earlier head of this cycle has claimed a victim of this one."""
        claimed = entry.tree_cycle.claimed
        return bool(claimed) and any(victim.item.key in claimed for victim in entry.victims)

    def still_fits(self, entry: Entry) -> bool:
        """Return whether there is room after the heads before this one, once all victims have left."""
        # spec: CYC-4
        tree_cycle, usage = entry.tree_cycle, entry.usage()
        if not tree_cycle.claimed and not entry.victims:
            return fits(entry.queue, usage)
        with tree_cycle.snapshot.without([*tree_cycle.claimed.values(), *(victim.item for victim in entry.victims)]):
            return fits(entry.queue, usage)

    def fits_now(self, entry: Entry) -> bool:
        """Return whether there is room at once, with every victim still there."""
        if not entry.tree_cycle.has_unfreed_room or not self.options.admit_into_free_room_only:
            return True
        return fits(entry.tree_cycle.real_queue(entry.queue), entry.usage())

    def may_not_borrow(self, entry: Entry) -> bool:
        """Return whether a head that borrows nothing keeps this one from borrowing in this cycle."""
        return self.options.block_borrowing and entry.plan.borrowing > 0 and entry.tree_cycle.nonborrowing_head

    def reset_scan(self, entry: Entry) -> None:
        """Restart the scan of flavors of a head that only another head kept from starting."""
        if not self.options.preserve_scan:
            entry.item.bookmark = None

    def reserve_for_blocked(self, entry: Entry) -> None:
        """Keep a blocked head's quota from being lent in this cycle, unless it can always be reclaimed."""
        # spec: CYC-3
        queue, plan = entry.queue, entry.plan
        pending = self.world.pending[queue.name]
        insists = self.options.prioritize_preemptors and pending.preemptor is entry.item
        if queue.spec.preemption.reclaim is ANY and not insists:
            return
        kept = {}
        for fr, amount in plan.usage.items():
            own = queue.nominal.get(fr, 0) - queue.usage.get(fr, 0)
            if plan.borrowing == 0:
                kept[fr] = max(0, min(amount, own))
            elif fr in queue.borrow:
                kept[fr] = min(amount, own + queue.borrow[fr])
                if self.options.clamp_reserve:
                    kept[fr] = max(0, kept[fr])
            else:
                kept[fr] = amount
        entry.tree_cycle.snapshot.book(queue, usage_of(kept))
        entry.tree_cycle.reserved_for.append(queue)

    def wait_for_others(self, entry: Entry) -> Postponed:
        """Reserve room for a head that will fit when the victims of other heads have left."""
        entry.item.bookmark = None
        self.reserve(entry)
        return Postponed(Outcome.PENDING_PREEMPTION, WaitReason.WAITING_FOR_PREEMPTED, DeferredFit())

    def preempt(self, entry: Entry) -> Postponed:
        """Evict the victims and reserve their room for this head, which starts in a later cycle."""
        for victim in entry.victims:
            entry.tree_cycle.claimed[victim.item.key] = victim.item
            if victim.item.workload.evicted is None:
                self.decisions.append(self.eviction(entry, victim))
        entry.item.bookmark = None
        self.reserve(entry)
        why = Unassigned(entry.plan.obstacles(), victims=len(entry.victims))
        return Postponed(Outcome.PENDING_PREEMPTION, WaitReason.WAITING_FOR_PREEMPTED, why)

    def reserve(self, entry: Entry) -> None:
        """Book what a head will use for this cycle and, with `reserve_for_preemptor`, as a claim for later ones."""
        if self.options.reserve_for_preemptor:
            victims = tuple(victim.item for victim in entry.victims)
            counts = tuple(part.count for part in entry.plan.pod_sets)
            entry.item.claim = Claim(entry.usage(), victims, counts, entry.start)
        entry.tree_cycle.has_unfreed_room = True
        entry.tree_cycle.snapshot.book(entry.queue, entry.usage())

    def eviction(self, entry: Entry, victim: Victim) -> Evict:
        """Return the decision that evicts a victim."""
        queue = self.world.forest.queues[victim.item.queue]
        return Evict(
            victim.item.key,
            EvictionReason.PREEMPTED,
            preempted(entry.item, victim.reason, path(entry.queue), path(queue)),
            self.now,
            by=entry.item.key,
            by_uid=entry.item.uid,
            preemption=victim.reason,
        )

    def start(self, entry: Entry) -> Result:
        """Reserve quota, and admit at once if no AdmissionCheck is pending."""
        item, plan = entry.item, entry.plan
        blocker = self.started_unready or self.world.blocked_by(item)
        if blocker:
            # Its flavors fit, so the next scan must not go on to flavors on which it might have to preempt.
            item.bookmark = None
            return Postponed(Outcome.CONTENDED, WaitReason.WAITING_FOR_PODS_READY, PodsNotReady(blocker))
        entry.tree_cycle.start(entry.queue, entry.usage())
        if plan.borrowing:
            self.lent[entry.tree_cycle.tree] = None
        self.started_unready = item.key if self.world.blocks_admission else ""
        admission = plan.admission(entry.queue.name)
        flavors = plan.flavors() if entry.queue.spec.checks else set()
        considered = plan.considered()
        if self.world.has_passed(entry.queue, item.workload, flavors):
            self.decisions.append(Admit(item.key, admission, plan.borrowing, self.now, considered=considered))
        else:
            checks = tuple(sorted(set(self.world.required_checks(entry.queue, flavors))))
            self.decisions.append(Reserve(item.key, admission, plan.borrowing, self.now, considered, checks))
        return Started()

    # 6. Requeue.

    def assume_decisions(self) -> None:
        """Assume what was decided, decide what follows from it, and mark the trees in which claims changed."""
        world = self.world
        self.decisions = in_order(world, self.decisions)
        decided = list(self.decisions)
        for decision in decided:
            assume(world, world.items[decision.workload], decision)
        for decision in decided:
            review_placed(world, world.items[decision.workload], self.decisions)
        world.to_flush.update(dict.fromkeys(queue.name for queue in self.freed))
        for tree in self.claiming:
            tree.touch()

    def requeue(self, entry: Entry) -> None:
        """Put a head that stays pending back into its queue, and decide what its condition says."""
        if not isinstance(entry.result, Postponed):
            return
        item, world = entry.item, self.world
        outcome, reason, why = entry.result.outcome, entry.result.reason, entry.result.why
        wait = report_wait(item, world, reason, why, self.now)
        if outcome in SHARED and self.options.wrap_scan:
            if entry.start is not None and entry.replanned is None:
                # A scan of some of the flavors is no verdict; the reason from the last full scan stands.
                wait = None
                stands = None if item.workload.waiting is None else item.workload.waiting.reason
                reason = next((known for known in WaitReason if known == stands), reason)
                why = item.reported or why
            if self.scan_exhausted(entry):
                item.bookmark = None
                outcome = outcome if None in item.starts and entry.replanned is None else Outcome.CONTENDED
        pending = world.pending[entry.queue.name]
        pending.requeue(item, outcome, reason, why, self.now)
        if self.is_kept_out(entry) and pending.strategy is Strategy.BEST_EFFORT:
            pending.step_aside(item, entry.tree_cycle.news)
        if wait is not None:
            self.decisions.append(wait)
            assume(world, item, wait)

    def scan_exhausted(self, entry: Entry) -> bool:
        """Return whether a head's scans have started in every possible place, or often enough, and must start over."""
        bookmark = entry.item.bookmark
        if bookmark is None or bookmark.tried in entry.item.starts:
            return True
        flavors = {flavor for group in entry.queue.groups.values() for flavor in group.flavors}
        return bookmark.round > len(flavors) * len(entry.plan.pod_sets)

    def is_kept_out(self, entry: Entry) -> bool:
        """Return whether a head fits except for room kept for heads of StrictFIFO queues, which will keep it again."""
        tree_cycle, result = entry.tree_cycle, entry.result
        no_longer_fits = isinstance(result, Postponed) and isinstance(result.why, NoLongerFits)
        if not self.options.step_aside or not no_longer_fits or not tree_cycle.reserved_for:
            return False
        lasting = all(queue.spec.strategy is Strategy.STRICT for queue in tree_cycle.reserved_for)
        return lasting and tree_cycle.tree.news == tree_cycle.news and entry.item.claim is None

    def wake_rivals(self) -> None:
        """Retry the workloads that found no victims, where a head has borrowed and they may preempt borrowers."""
        if not self.options.retry_beside_borrowers:
            return
        for tree in self.lent:
            for queue in tree.queues:
                if queue.spec.preemption.borrow_within_cohort is not NEVER:
                    self.world.pending[queue.name].unpark_classes()
