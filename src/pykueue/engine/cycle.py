"""One scheduling pass: heads, nominated one by one, ordered, then considered in turn. Next: `engine`.

A cycle takes one head of each ClusterQueue. Each is planned against the world as it was at the start; then, in order,
each is carried out if its plan still holds beside those before it.
"""

from pykueue.base.units import Instant
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
    Why,
)
from pykueue.engine.flavors import FlavorPlan, Planner, start_of
from pykueue.engine.forest import Forest, Tree
from pykueue.engine.items import Bookmark, Claim, Item
from pykueue.engine.model import Policy, Strategy
from pykueue.engine.order import head_key
from pykueue.engine.pending import Outcome
from pykueue.engine.preempt import Search, Victim
from pykueue.engine.quota import QuotaNode, book, path, usage_of
from pykueue.engine.snapshot import Snapshot, fits
from pykueue.engine.wording import preempted
from pykueue.engine.world import World, has_failed_check


class Scene:
    """What one tree looks like in the course of a cycle."""

    __slots__ = ("admitted", "claimed", "keepers", "lends", "news", "pledged", "real", "snapshot", "tree")

    def __init__(self, tree: Tree, forest: Forest) -> None:
        self.tree = tree
        self.snapshot = Snapshot(forest)
        self.claimed: dict[str, Item] = {}
        """Victims that an earlier head of this cycle was promised."""
        self.admitted: list[tuple[QuotaNode, tuple[tuple[int, int], ...]]] = []
        self.pledged = False
        """Whether the snapshot shows room that is not free yet."""
        self.real: dict[str, QuotaNode] | None = None
        """The queues of the tree as they really are, with nobody gone and nothing promised; made when it matters."""
        self.keepers: list[QuotaNode] = []
        """Queues for whose blocked heads room is kept in this cycle."""
        self.news = 0
        """How much had happened in the tree before this cycle."""
        self.lends = True
        """Whether every head so far has borrowed."""


class Entry:
    """A head on its way through a cycle."""

    __slots__ = (
        "deferred",
        "item",
        "outcome",
        "plan",
        "planner",
        "queue",
        "reason",
        "replanned",
        "scene",
        "start",
        "victims",
        "why",
    )

    def __init__(self, item: Item, queue: QuotaNode, scene: Scene) -> None:
        self.item = item
        self.queue = queue
        self.scene = scene
        self.plan = FlavorPlan()
        self.planner: Planner | None = None
        self.victims: tuple[Victim, ...] = ()
        self.deferred = False
        self.replanned = False
        self.start: Bookmark | None = None
        """Where its scan of flavors began."""
        self.outcome: Outcome | None = None
        """How it ended, for a head that stays pending."""
        self.reason = WaitReason.PENDING_EVALUATION
        self.why: Why | None = None

    def ends(self, outcome: Outcome, reason: WaitReason, why: Why) -> None:
        """The head stays pending for this reason."""
        self.outcome, self.reason, self.why = outcome, reason, why

    def usage(self) -> tuple[tuple[int, int], ...]:
        """What its plan would use."""
        return usage_of(self.plan.usage)


class Cycle:
    """One pass over the trees in which something changed. It decides; the engine then makes it so."""

    def __init__(self, world: World, now: Instant) -> None:
        self.world = world
        self.options = world.options
        self.now = now
        self.decisions: list[Decision] = []
        self.entries: list[Entry] = []
        self.holds_admission = ""
        """Who was started in this cycle and has to be ready before anyone else is."""
        self.freed: list[QuotaNode] = []
        """Queues whose head no longer keeps the room of its victims from others."""
        self.kept: dict[Tree, None] = {}
        """Trees in which room is kept for a head that was not before."""
        self.lent: dict[Tree, None] = {}
        """Trees in which a head was started on borrowed quota."""

    def run(self, trees: list[Tree]) -> None:
        """Decide on the heads of these trees, and leave the live tree as it was."""
        scenes = [Scene(tree, self.world.forest) for tree in trees]
        for scene in scenes:
            scene.tree.cycle += 1
            self.entries.extend(self.heads(scene))
        for entry in self.entries:
            self.apply_claim(entry)
        for entry in self.entries:
            self.nominate(entry)
        nominated = [entry for entry in self.entries if entry.outcome is None]
        for entry in sorted(nominated, key=self.order):
            self.consider(entry)
        for scene in scenes:
            scene.snapshot.rewind()

    def step_back(self, tree: Tree) -> None:
        """Heads that stepped aside for a StrictFIFO head come back when that, or anything else, has changed."""
        pendings = [self.world.pending[queue.name] for queue in tree.queues if self.world.can_admit(queue)]
        heads = [pending.head() for pending in pendings if pending.strategy is Strategy.STRICT]
        keys = [head.key for head in heads if head is not None]
        if keys != tree.strict_heads:
            tree.strict_heads = keys
            tree.news += 1
        for pending in pendings:
            if pending.aside:
                pending.step_back(tree.news, self.now)

    def heads(self, scene: Scene) -> list[Entry]:
        """The next workload of each ClusterQueue of a tree."""
        found = []
        tree = scene.tree
        self.step_back(tree)
        scene.news = tree.news
        for queue in tree.queues:
            pending = self.world.pending.get(queue.name)
            item = pending.head() if pending is not None and self.world.can_admit(queue) else None
            if item is not None:
                found.append(Entry(item, queue, scene))
            preemptor = None if pending is None else pending.preemptor
            if preemptor is not None and preemptor is not item and preemptor.claim is not None:
                # A claim belongs to a head: one that another workload was put before must not block the rest.
                preemptor.claim = None
                self.freed.append(queue)
                if self.options.forget_hopeless_preemptor:
                    self.world.pending[queue.name].forget_preemptor()
        keys = [entry.item.key for entry in found]
        if keys != tree.heads:
            # Other heads keep other room, so what was tried beside the last ones may come out otherwise.
            tree.heads = keys
            tree.version += 1
        return found

    def order(self, entry: Entry) -> tuple[bool, int, int, Instant, str]:
        """The place of a nominated head among the others."""
        return head_key(
            entry.item, borrowing=entry.plan.borrowing, promised=self.is_promised(entry), options=self.options
        )

    def is_promised(self, entry: Entry) -> bool:
        """Whether a head was promised room by an earlier cycle, and so is considered before all others."""
        pending = self.world.pending[entry.queue.name]
        if pending.preemptor is not entry.item:
            return False
        same = pending.preemptor_generation == entry.item.workload.generation
        return self.options.reserve_for_preemptor or (self.options.prioritize_preemptors and same)

    def apply_claim(self, entry: Entry) -> None:
        """Show everyone else the world in which a waiting preemptor has its room and its victims are gone."""
        # spec: PRE-8
        claim = entry.item.claim
        if claim is None:
            return
        entry.scene.pledged = True
        snapshot = entry.scene.snapshot
        for victim in claim.victims:
            if victim.key not in snapshot.gone and self.holds(victim):
                snapshot.leave(victim)
        snapshot.book(entry.queue, claim.usage)

    def lift_claim(self, entry: Entry) -> None:
        """Show a waiting preemptor the world without its own claim, in which it looks again for itself."""
        claim = entry.item.claim
        if claim is None:
            return
        snapshot = entry.scene.snapshot
        snapshot.unbook(entry.queue, claim.usage)
        for victim in claim.victims:
            if victim.key in snapshot.gone and self.holds(victim):
                snapshot.come_back(victim)

    def holds(self, victim: Item) -> bool:
        """Whether a victim still has its room."""
        queue = self.world.forest.queues.get(victim.queue)
        return queue is not None and victim.key in queue.holders

    def nominate(self, entry: Entry) -> None:
        """Check a head, and plan it against the world as it is at the start of the cycle."""
        item, tree = entry.item, entry.scene.tree
        if item.seen_at != tree.version:
            item.seen_at, item.starts = tree.version, []
        entry.start = item.bookmark = start_of(item, entry.queue, tree.cycle, self.options)
        item.starts.append(None if entry.start is None else entry.start.tried)
        self.lift_claim(entry)
        if not self.passes(entry):
            claim, item.claim = item.claim, None
            self.lapse(entry, claim)
            return
        search = Search(entry.scene.snapshot, entry.queue, item, self.now)
        entry.planner = Planner(entry.queue, item, self.world.flavors, self.world.epoch, search, self.options)
        entry.plan, entry.victims = entry.planner.best()
        self.apply_claim(entry)
        item.bookmark = self.bookmark(entry)

    def bookmark(self, entry: Entry) -> Bookmark | None:
        """Where the next scan of flavors is to go on; None when it is to begin at the first ones."""
        if not self.options.flavor_fungibility or not entry.plan.left_flavors():
            return None
        rounds = entry.start.round + 1 if entry.start is not None and entry.plan.resumed else 0
        tree, queue, shape = entry.scene.tree, entry.queue, entry.item.shape
        return Bookmark(entry.plan.tried(), queue.generation, tree.cycle, shape.digest, rounds)

    def passes(self, entry: Entry) -> bool:
        """Whether a head passes the checks that come before any flavor is looked at."""
        workload = entry.item.workload
        if has_failed_check(workload):
            entry.ends(Outcome.INVALID, WaitReason.PENDING_EVALUATION, FailedChecks())
            return False
        why = self.world.refusal(entry.queue, workload)
        if why is None:
            return True
        outcome = Outcome.INVALID
        if isinstance(why, NamespaceMismatch):
            outcome = Outcome.NAMESPACE_MISMATCH
        elif workload.unbuilt:
            outcome = Outcome.UNSUPPORTED
        entry.ends(outcome, WaitReason.MISCONFIGURED, why)
        return False

    def consider(self, entry: Entry) -> None:
        """Carry a plan out if it still holds; else say why not."""
        self.lift_claim(entry)
        claim, entry.item.claim = entry.item.claim, None
        if claim is None or not self.keeps_waiting(entry, claim):
            self.carry_out(entry)
        self.lapse(entry, claim)

    def keeps_waiting(self, entry: Entry, claim: Claim) -> bool:
        """Whether a preemptor goes on waiting for the victims it has, and does so."""
        left = [victim for victim in claim.victims if self.holds(victim)]
        plan, scene = entry.plan, entry.scene
        if not left or any(victim.workload.evicted is None for victim in left):
            return False
        if plan.fits and self.still_fits(entry) and self.fits_now(entry):
            return False
        with scene.snapshot.without([*scene.claimed.values(), *left]):
            if not fits(entry.queue, claim.usage):
                return False
        # New plans would only shuffle victims between preemptors that wait for each other.
        entry.item.claim = claim
        self.apply_claim(entry)
        told = entry.item.told
        obstacles = plan.obstacles() or (told.pod_sets if isinstance(told, Unassigned) else ())
        why = Unassigned(obstacles, victims=len(left))
        entry.ends(Outcome.PENDING_PREEMPTION, WaitReason.WAITING_FOR_PREEMPTED, why)
        return True

    def lapse(self, entry: Entry, before: Claim | None) -> None:
        """Note whether room is no longer kept for a head, so that others may try for it, or is kept from now on."""
        now = entry.item.claim
        if before is not None and (now is None or now.usage != before.usage):
            self.freed.append(entry.queue)
        elif now is not None and before is None:
            self.kept[entry.scene.tree] = None

    def carry_out(self, entry: Entry) -> None:
        """Start a head, or make room for it, or say why it waits."""
        self.replan(entry)
        plan = entry.plan
        if plan.failure is not None:
            why = Unassigned(plan.obstacles())
            entry.ends(Outcome.NO_FIT, plan.failure, why)
        elif entry.deferred:
            self.wait_for_others(entry)
        elif not entry.victims and not plan.fits:
            why = Unassigned(plan.obstacles(), inadequate=True)
            entry.ends(Outcome.NO_VICTIMS, WaitReason.WAITING_FOR_QUOTA, why)
            self.reserve_for_blocked(entry)
        elif any(victim.item.key in entry.scene.claimed for victim in entry.victims):
            entry.ends(Outcome.CONTENDED, WaitReason.WAITING_FOR_QUOTA, Overlap())
            self.skipped(entry)
        elif self.may_not_borrow(entry, plan) or not self.still_fits(entry):
            entry.ends(Outcome.CONTENDED, WaitReason.WAITING_FOR_QUOTA, NoLongerFits())
            self.skipped(entry)
        elif entry.victims:
            self.preempt(entry)
        elif not self.fits_now(entry):
            self.wait_for_others(entry)
        else:
            self.start(entry)

    def skipped(self, entry: Entry) -> None:
        """A head that only another head stood in the way of."""
        if not self.options.preserve_scan:
            entry.item.bookmark = None

    def replan(self, entry: Entry) -> None:
        """Plan again, on the same flavors, when victims are already promised to a head before this one."""
        # spec: CYC-2
        scene = entry.scene
        overlap = any(victim.item.key in scene.claimed for victim in entry.victims)
        if not overlap or not self.options.recompute_overlap:
            return
        assert entry.planner is not None, "a planned head has a planner"
        pinned = {
            (index, resource): choice.flavor
            for index, part in enumerate(entry.plan.pod_sets)
            for resource, choice in part.choices.items()
        }
        counts = [part.count for part in entry.plan.pod_sets]
        entry.item.bookmark, entry.replanned = None, True
        with scene.snapshot.without(scene.claimed.values()):
            entry.planner.search = Search(scene.snapshot, entry.queue, entry.item, self.now)
            entry.plan = entry.planner.plan(counts, pinned)
            entry.victims = entry.planner.victims(entry.plan)
        entry.deferred = entry.plan.fits

    def still_fits(self, entry: Entry) -> bool:
        """Whether there is room beside the heads before this one, once everyone who was told to leave has left."""
        # spec: CYC-4
        scene, usage = entry.scene, entry.usage()
        if not scene.claimed and not entry.victims:
            return fits(entry.queue, usage)
        with scene.snapshot.without([*scene.claimed.values(), *(victim.item for victim in entry.victims)]):
            return fits(entry.queue, usage)

    def fits_now(self, entry: Entry) -> bool:
        """Whether there is room this moment, with every victim still there."""
        scene = entry.scene
        if not scene.pledged or not self.options.admit_into_free_room_only:
            return True
        if scene.real is None:
            scene.real = scene.snapshot.as_it_is(scene.tree)
            for queue, usage in scene.admitted:
                book(scene.real[queue.name], usage)
        return fits(scene.real[entry.queue.name], entry.usage())

    def may_not_borrow(self, entry: Entry, plan: FlavorPlan) -> bool:
        """Whether an earlier head that borrows nothing keeps the rest of its tree from borrowing in this cycle."""
        if plan.borrowing == 0:
            entry.scene.lends = False
        return self.options.block_borrowing and plan.borrowing > 0 and not entry.scene.lends

    def reserve_for_blocked(self, entry: Entry) -> None:
        """Keep a blocked head's quota from being lent in this cycle, unless it can always be taken back."""
        # spec: CYC-3
        queue, plan = entry.queue, entry.plan
        pending = self.world.pending[queue.name]
        insists = self.options.prioritize_preemptors and pending.preemptor is entry.item
        if queue.spec.preemption.reclaim is Policy.ANY and not insists:
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
        entry.scene.snapshot.book(queue, usage_of(kept))
        entry.scene.keepers.append(queue)

    def wait_for_others(self, entry: Entry) -> None:
        """It will fit when victims of other heads have left: keep its place."""
        entry.ends(Outcome.PENDING_PREEMPTION, WaitReason.WAITING_FOR_PREEMPTED, DeferredFit())
        entry.item.bookmark = None
        self.keep_room(entry)

    def preempt(self, entry: Entry) -> None:
        """Tell the victims to leave, and keep their room for this head. It starts in a later cycle."""
        plan, item = entry.plan, entry.item
        for victim in entry.victims:
            entry.scene.claimed[victim.item.key] = victim.item
            if victim.item.workload.evicted is None:
                self.decisions.append(self.eviction(entry, victim))
        item.bookmark = None
        self.keep_room(entry)
        why = Unassigned(plan.obstacles(), victims=len(entry.victims))
        entry.ends(Outcome.PENDING_PREEMPTION, WaitReason.WAITING_FOR_PREEMPTED, why)

    def keep_room(self, entry: Entry) -> None:
        """Book what a head will use, in this cycle and, if so set, until it is admitted or can no longer use it."""
        if self.options.reserve_for_preemptor:
            victims = tuple(victim.item for victim in entry.victims)
            counts = tuple(part.count for part in entry.plan.pod_sets)
            entry.item.claim = Claim(entry.usage(), victims, counts, entry.start)
        entry.scene.pledged = True
        entry.scene.snapshot.book(entry.queue, entry.usage())

    def eviction(self, entry: Entry, victim: Victim) -> Evict:
        """The decision that makes a victim leave."""
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

    def start(self, entry: Entry) -> None:
        """Reserve quota, and admit at once when no AdmissionCheck has to speak first."""
        item, plan = entry.item, entry.plan
        blocker = self.holds_admission or self.world.blocked_by(item)
        if blocker:
            entry.ends(Outcome.CONTENDED, WaitReason.WAITING_FOR_PODS_READY, PodsNotReady(blocker))
            # Its flavors are good; the next ones, on which it might have to preempt, are not to be tried instead.
            item.bookmark = None
            return
        usage = entry.usage()
        entry.scene.snapshot.book(entry.queue, usage)
        entry.scene.admitted.append((entry.queue, usage))
        if entry.scene.real is not None:
            book(entry.scene.real[entry.queue.name], usage)
        if plan.borrowing:
            self.lent[entry.scene.tree] = None
        options = self.options.pods_ready
        self.holds_admission = item.key if options is not None and options.block_admission else ""
        admission = plan.admission(entry.queue.name)
        flavors = {choice.flavor for part in plan.pod_sets for choice in part.choices.values()}
        said = plan.considered()
        if self.world.has_passed(entry.queue, item.workload, flavors):
            self.decisions.append(Admit(item.key, admission, plan.borrowing, self.now, considered=said))
        else:
            checks = tuple(sorted(set(self.world.required_checks(entry.queue, flavors))))
            self.decisions.append(Reserve(item.key, admission, plan.borrowing, self.now, said, checks))
