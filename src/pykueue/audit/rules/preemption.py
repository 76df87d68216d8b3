"""A preemption is allowed by the policies of the preemptor's queue, and it is needed.

Priorities and policies are judged at once. What depends on usage is judged when every write that was in flight has
arrived: by the most that any queue may have used since shortly before the eviction.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pykueue.api.kueue import ClusterQueue
from pykueue.api.names import Annotation
from pykueue.api.workload import Workload
from pykueue.audit.requests import any_slots, asked
from pykueue.audit.rules.conditions import PREEMPTOR
from pykueue.audit.rules.look import Look, added, largest, single_flavor
from pykueue.audit.rules.overuse import Overuse, reservation
from pykueue.audit.rules.recent import totals
from pykueue.audit.times import MICROS, Instant, parse_instant
from pykueue.audit.tree import QUEUE, Account, Amounts, Forest, NodeName, Slot
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import condition, holds, key_of, reserving, waiting
from pykueue.audit.world import Change, Finding, Settings, World
from pykueue.base.struct import Frozen

RULE: Final = "preemption"
SECOND: Final = MICROS
"""Timestamps have whole seconds."""
NEVER: Final = "9999-12-31T00:00:00Z"
IN_QUEUE: Final = "InClusterQueue"
RECLAIM: Final = "InCohortReclamation"
WHILE_BORROWING: Final = "InCohortReclaimWhileBorrowing"


class Case(Frozen):
    """A preemption whose need is yet to be judged."""

    victim: str
    """Key of the victim, and below what it held."""
    queue: str
    held: Amounts
    preemptor: str
    """UID of the preemptor."""
    reason: str
    at: Instant
    version: int


class Preemption:
    """The rule that only those may be preempted whom the policies allow, and only for room that is not there."""

    def __init__(self, settings: Settings, uptime: Uptime, overuse: Overuse) -> None:
        self.settings, self.uptime, self.overuse = settings, uptime, overuse
        self.lag_micros = settings.lag_seconds * MICROS
        self.cases: list[Case] = []
        """Preemptions of the last seconds."""
        self.judged: set[tuple[str, Instant]] = set()
        """Those among them whose need was judged."""
        self.preemptors: set[str] = set()
        """UIDs of the pending workloads for which others were preempted."""
        self.repriced: dict[str, Instant] = {}
        """When the priority of each Workload, by key, last changed."""
        self.reserved_at: dict[str, Instant] = {}
        """When each Workload, by key, was seen to get its quota."""
        self.unseen_at: Instant = -(2**62)
        """When we last took over a state without its history."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Violations of the policies by this change."""
        old, new = change.of(Workload) or (None, None)
        if change.listed:
            self.unseen_at = change.at
        if old is not None and (new is None or not waiting(new)):
            self.preemptors.discard(old.metadata.uid or "")
        if new is None:
            self.repriced.pop(change.key, None)
            self.reserved_at.pop(change.key, None)
            return
        if reserving(new) and not (old is not None and reserving(old)):
            self.reserved_at[change.key] = change.at
        if old is not None and old.spec.priority != new.spec.priority:
            self.repriced[change.key] = change.at
        preempted = condition(new, "Preempted")
        began = holds(new, "Evicted") and not (old is not None and holds(old, "Evicted"))
        if change.listed or not began or preempted is None or preempted.status != "True":
            return
        evicted = condition(new, "Evicted")
        named = PREEMPTOR.search(evicted.message) if evicted is not None and evicted.reason == "Preempted" else None
        victim = new if new.status.admission is not None else old
        if named is None or victim is None or victim.status.admission is None:
            return
        preemptor = world.workloads.get(world.uids["Workload"].get(named.group(1), ""))
        if preemptor is None:
            return
        about = f"Workload {change.key}"
        if preemptor is new:
            yield change.found(RULE, about, "was preempted for itself")
            return
        if waiting(preemptor):
            self.preemptors.add(named.group(1))
        queue = victim.status.admission.cluster_queue or ""
        case = Case(change.key, queue, reservation(victim), named.group(1), preempted.reason, change.at, change.version)
        self.cases.append(case)
        yield from (change.found(RULE, about, message) for message in self.forbidden(case, victim, preemptor, world))

    # Policies.

    def forbidden(self, case: Case, victim: Workload, preemptor: Workload, world: World) -> Iterator[str]:
        """Why the policies do not allow this preemption; recent edits are ignored."""
        name = f"{preemptor.namespace}/{preemptor.name}"
        queue = world.queues.get(world.queue_name_of(preemptor))
        local = f"{preemptor.namespace}/{preemptor.spec.queue_name or ''}"
        if holds(preemptor, "Finished"):
            return
        if reserving(preemptor):
            held_micros = case.at - self.reserved_at[name]
            if held_micros > self.lag_micros + 2 * SECOND and self.uptime.steady(case.at - held_micros, case.at):
                yield f"was preempted for {name}, which already holds quota"
            return
        quiet = (("LocalQueue", local), ("ClusterQueue", queue.name if queue else ""), ("ClusterQueue", case.queue))
        if queue is None or not all(world.quiet(*one, case.at, self.lag_micros) for one in quiet):
            return
        if (case.queue == queue.name) != (case.reason == IN_QUEUE):
            yield f"was preempted as {case.reason} by {name} of ClusterQueue {queue.name}"
            return
        unsure = any(
            Annotation.PRIORITY_BOOST in one.metadata.annotations
            or case.at - self.repriced.get(key_of(one), -self.lag_micros) < self.lag_micros
            for one in (victim, preemptor)
        )
        yield from (
            f"was preempted as {case.reason} for {name}, but {message}"
            for message in self.against_policy(case, victim, preemptor, queue, unsure=unsure)
        )
        # Under fair sharing, only what is contested must be within the nominal quota; see `fairshare`.
        if (
            case.reason == RECLAIM
            and not self.settings.fair_sharing
            and self.must_borrow(case, preemptor, queue, world)
        ):
            yield f"was preempted as {case.reason} for {name}, which would have to borrow itself"

    def against_policy(
        self, case: Case, victim: Workload, preemptor: Workload, queue: ClusterQueue, *, unsure: bool
    ) -> Iterator[str]:
        """The policies of the preemptor's queue that protect the victim."""
        policies = queue.spec.preemption
        theirs, ours = victim.spec.priority or 0, preemptor.spec.priority or 0
        field = "withinClusterQueue" if case.reason == IN_QUEUE else "reclaimWithinCohort"
        policy = policies.within_cluster_queue if case.reason == IN_QUEUE else policies.reclaim_within_cohort
        if policy == "Never":
            yield f"{field} of ClusterQueue {queue.name} is Never"
        elif not unsure and not may_preempt(policy, preemptor, victim):
            yield f"{field} is {policy} and the priorities are {theirs} and {ours}"
        if case.reason != WHILE_BORROWING:
            return
        threshold = policies.borrow_within_cohort.max_priority_threshold
        if policies.borrow_within_cohort.policy == "Never":
            yield f"borrowWithinCohort of ClusterQueue {queue.name} is Never"
        elif not unsure and theirs >= ours:
            yield f"borrowWithinCohort is LowerPriority and the priorities are {theirs} and {ours}"
        elif not unsure and threshold is not None and theirs > threshold:
            yield f"its priority {theirs} is above maxPriorityThreshold {threshold}"

    def must_borrow(self, case: Case, preemptor: Workload, queue: ClusterQueue, world: World) -> bool:
        """Whether the preemptor certainly exceeds the nominal quota of its queue beside those whom it may not preempt.

        Only if both queues are children of one cohort: above, the quota of the preemptor's cohort counts.
        """
        forest = self.overuse.trees(world)
        if parent_of(forest, queue.name) != parent_of(forest, case.queue) or self.overuse.edited_since(
            forest.root_of(queue.name), case.at - self.lag_micros
        ):
            return False
        wanted = asked(preemptor, queue, self.settings)
        if wanted is None or any(pod_set.min_count is not None for pod_set in preemptor.spec.pod_sets):
            return False
        fixed: Amounts = {}
        for holder in world.workloads.values():
            if holder.status.admission is None or holder.status.admission.cluster_queue != queue.name:
                continue
            if (
                reserving(holder)
                and not holds(holder, "Evicted")
                and case.at - self.reserved_at[key_of(holder)] > self.lag_micros + SECOND
                and not may_preempt(queue.spec.preemption.within_cluster_queue, preemptor, holder)
            ):
                fixed = added(fixed, reservation(holder))
        quotas = forest.nodes[QUEUE, queue.name].quotas
        return any(
            all(fixed.get(slot, 0) + need > quotas[slot].nominal for slot in quotas if slot[1] == resource)
            for resource, need in wanted.items()
        )

    # Need.

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Preemptions of a while ago that were not needed."""
        grace = self.lag_micros + self.uptime.notice_micros
        for case in self.cases:
            if (case.victim, case.at) in self.judged or at - case.at < grace:
                continue
            self.judged.add((case.victim, case.at))
            if self.known(case, at, world):
                for message in self.needless(case, at, world):
                    yield Finding(RULE, f"Workload {case.victim}", message, case.version, at)
        self.cases = [case for case in self.cases if at - case.at < 2 * (grace + self.lag_micros)]
        self.judged = {(case.victim, case.at) for case in self.cases} & self.judged

    def known(self, case: Case, at: Instant, world: World) -> bool:
        """Whether one manager and the same quotas applied since shortly before a preemption, and we watched."""
        start = case.at - self.lag_micros
        root = self.overuse.trees(world).root_of(case.queue)
        edited = self.overuse.edited_since(root, start) or self.unseen_at >= start
        return self.uptime.steady(start, at) and not edited

    def needless(self, case: Case, at: Instant, world: World) -> Iterator[str]:
        """Why a preemption was not needed, or hit a queue that had not borrowed."""
        forest = self.overuse.trees(world)
        root = forest.root_of(case.queue)
        preemptor = world.workloads.get(world.uids["Workload"].get(case.preemptor, ""))
        if root is None or preemptor is None:
            return
        name = f"{preemptor.namespace}/{preemptor.name}"
        queue = world.queues.get(world.queue_name_of(preemptor))
        if queue is None or forest.root_of(queue.name) != root:
            return
        start = case.at - self.lag_micros
        most = self.overuse.releases.most(self.overuse.held.charged, start)
        reclaims = case.reason in (RECLAIM, WHILE_BORROWING) and not self.settings.fair_sharing
        if reclaims and within_quota(forest, root, case, queue.name, totals(most)):
            yield f"was preempted as {case.reason} for {name}, but ClusterQueue {case.queue} had not borrowed"
        look = Look(self.settings, self.overuse, world, at, self.uptime)
        wanted = asked(preemptor, queue, self.settings)
        claims = self.claims(look, root, preemptor, start)
        if not wanted or claims is None or not look.serves(queue, preemptor):
            return
        mine, needs = key_of(preemptor), any_slots(queue, wanted)
        if has_room(forest, root, summed(totals(most, frozenset({mine})), claims), queue, needs):
            yield f"was preempted for {name}, which had room without that"
            return
        others = frozenset(
            other.victim
            for other in self.cases
            if other.preemptor == case.preemptor and abs(other.at - case.at) <= self.lag_micros
        ) - {case.victim}
        usage = summed(totals(most, others | {mine}), claims)
        if has_room(forest, root, usage, queue, needs, borrowing=False):
            yield f"was preempted for {name}, for which the other victims were enough"

    def claims(self, look: Look, root: NodeName, preemptor: Workload, start: Instant) -> dict[str, Amounts] | None:
        """What may have been promised to others: to all pending preemptors, and to one more of each queue.

        Those who held quota in the meantime, as victims did, are counted with what they held. None if it is not known.
        """
        found: dict[str, Amounts] = {}
        counted = self.overuse.releases.keys(start) | {key_of(preemptor)}
        for name in look.forest.queues_below(root):
            queue = look.world.queues[name]
            promised: list[dict[str, int]] = []
            rest: list[dict[str, int]] = []
            for other in look.pending_in(name):
                if key_of(other) in counted:
                    continue
                wanted = asked(other, queue, self.settings)
                if wanted is None:
                    return None
                (promised if other.metadata.uid in self.preemptors else rest).append(wanted)
            for claim in (*promised, largest(rest)):
                found[name] = added(found.get(name, {}), any_slots(queue, claim))
        return found


def may_preempt(policy: str, preemptor: Workload, victim: Workload) -> bool:
    """Whether a policy lets one workload preempt the other, if it must be younger by any of its timestamps."""
    ours, theirs = preemptor.spec.priority or 0, victim.spec.priority or 0
    if policy == "Any" or theirs < ours:
        return policy != "Never"
    return policy == "LowerOrNewerEqualPriority" and theirs == ours and oldest(preemptor) < youngest(victim)


def oldest(workload: Workload) -> Instant:
    """The earliest time by which a workload may be ordered: its creation."""
    created = workload.metadata.creation_timestamp
    return parse_instant(created) if created else 0


def youngest(workload: Workload) -> Instant:
    """The latest time by which a workload may be ordered: its creation, or the last eviction or preemption."""
    stamps = [oldest(workload)]
    for kind in ("Evicted", "Preempted"):
        found = condition(workload, kind)
        if found is not None and found.last_transition_time:
            stamps.append(parse_instant(found.last_transition_time) + SECOND)
    return max(stamps)


def parent_of(forest: Forest, queue: str) -> NodeName | None:
    """The cohort of a ClusterQueue."""
    node = forest.nodes.get((QUEUE, queue))
    return None if node is None else node.parent


def within_quota(
    forest: Forest, root: NodeName, case: Case, preempting: str, usage: dict[str, dict[Slot, int]]
) -> bool:
    """Whether the victim's queue, or a cohort between it and the preemptor's, borrowed nothing that the victim used."""
    shared = set(forest.path((QUEUE, preempting)))
    between = [name for name in forest.path((QUEUE, case.queue)) if name not in shared]
    return all(
        any(account.usage[name] <= account.subtree[name] for name in between)
        for account in (Account(forest, root, slot, usage) for slot in case.held)
    )


def summed(left: Mapping[str, Amounts], right: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """The sum for each queue."""
    return {name: added(left.get(name, {}), right.get(name, {})) for name in {**left, **right}}


def has_room(
    forest: Forest,
    root: NodeName,
    usage: dict[str, Amounts],
    queue: ClusterQueue,
    needs: dict[Slot, int],
    *,
    borrowing: bool = True,
) -> bool:
    """Whether there is room in every flavor, where there are several without borrowing."""
    name = (QUEUE, queue.name)
    for slot, need in needs.items():
        account = Account(forest, root, slot, usage)
        borrows = account.usage[name] + need > account.subtree[name]
        if account.left(name) < need or (borrows and not (borrowing and single_flavor(queue))):
            return False
    return bool(needs)
