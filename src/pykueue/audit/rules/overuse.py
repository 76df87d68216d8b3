"""Reservations stay within quotas, at every revision."""

from collections.abc import Iterator
from typing import Final

from pykueue.api.kueue import ClusterQueue, Cohort
from pykueue.api.workload import PodSetAssignment, Workload
from pykueue.audit.quantities import amount, amount_text
from pykueue.audit.rules.recent import Releases
from pykueue.audit.times import MICROS, Instant
from pykueue.audit.tree import QUEUE, Account, Forest, NodeName, Slot
from pykueue.audit.views import holds, reserving
from pykueue.audit.world import Change, Finding, Settings, World

RULE: Final = "overuse"
RELEASES_MICROS: Final = 30 * MICROS
"""How long releases are remembered, besides the lag of others: a lease may last that long."""


class Reservations:
    """What each ClusterQueue holds: the reservations of active, unfinished workloads."""

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[Slot, int]] = {}
        self.charged: dict[str, tuple[str, dict[Slot, int]]] = {}

    def charge(self, key: str, workload: Workload | None) -> set[tuple[str, Slot]]:
        """Record what a workload holds now; returns where it holds more than before."""
        before_queue, before = self.charged.pop(key, ("", {}))
        for slot, taken in before.items():
            self.by_queue[before_queue][slot] -= taken
        if workload is None or not reserving(workload) or workload.status.admission is None:
            return set()
        queue, now = workload.status.admission.cluster_queue or "", reservation(workload)
        self.charged[key] = (queue, now)
        booked = self.by_queue.setdefault(queue, {})
        for slot, taken in now.items():
            booked[slot] = booked.get(slot, 0) + taken
        return {
            (queue, slot)
            for slot, taken in now.items()
            if taken > (before.get(slot, 0) if queue == before_queue else 0)
        }

    def without(self, keys: set[str]) -> dict[str, dict[Slot, int]]:
        """What each ClusterQueue holds beside these workloads."""
        left = {queue: dict(booked) for queue, booked in self.by_queue.items()}
        for queue, taken in (self.charged[key] for key in keys if key in self.charged):
            for slot, amount_taken in taken.items():
                left[queue][slot] -= amount_taken
        return left


def reservation(workload: Workload) -> dict[Slot, int]:
    """What an admission takes of each flavor and resource, without its reclaimable pods."""
    taken: dict[Slot, int] = {}
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    done = {pods.name: pods.count for pods in workload.status.reclaimable_pods}
    assert workload.status.admission is not None, "only a workload with an admission has a reservation"
    for given in workload.status.admission.pod_set_assignments:
        for resource, flavor in given.flavors.items():
            slot = (flavor, resource)
            taken[slot] = taken.get(slot, 0) + still_needed(given, resource, counts, done)
    return taken


def still_needed(given: PodSetAssignment, resource: str, counts: dict[str, int], done: dict[str, int]) -> int:
    """What an assignment takes of a resource for the pods that are not done."""
    whole = amount(resource, given.resource_usage.get(resource, 0))
    wanted = counts.get(given.name, 0)
    count = given.count if given.count is not None else wanted
    left = max(0, wanted - done.get(given.name, 0))
    return whole // count * left if left < count else whole


class Overuse:
    """The rule that reservations stay within quotas, except for what an edit of quotas left stranded."""

    def __init__(self, settings: Settings) -> None:
        self.lag_micros = settings.lag_seconds * MICROS
        self.held = Reservations()
        self.forest: Forest | None = None
        self.stranded: dict[tuple[NodeName, Slot], int] = {}
        """By how much each node may exceed its quota: the excess after the latest edit, which may only decrease."""
        self.former: list[tuple[Instant, Forest, dict[tuple[NodeName, Slot], int]]] = []
        """Trees before each recent edit: when they were replaced, and the excess that they had."""
        self.edited_unseen: dict[NodeName, Instant] = {}
        """When we noticed that the tree below each root had been edited while we could not watch."""
        self.edited: dict[NodeName, Instant] = {}
        """When the tree below each root was last edited."""
        self.reactivated: dict[str, Instant] = {}
        """When each workload, by key, was last activated again while it still showed its reservation."""
        self.releases = Releases(3 * self.lag_micros + RELEASES_MICROS)
        self.blind = True
        """Whether reservations changed while we could not watch."""
        self.first = True
        self.edited_blind: set[NodeName] = set()
        """Roots of the trees that were edited while we could not watch."""

    def trees(self, world: World) -> Forest:
        """The present trees."""
        if self.forest is None:
            self.forest = Forest(world.queues.values(), world.cohorts.values())
        return self.forest

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Violations by this change."""
        workload = change.of(Workload)
        self.blind = self.blind or change.listed
        if not change.listed and self.blind:
            yield from self.look_again(change, world)
        if workload is not None and change.listed:
            self.held.charge(change.key, workload[1])
        elif workload is not None:
            yield from self.charged(change, world, *workload)
        elif change.kind in ("ClusterQueue", "Cohort") and requoted(change):
            self.requote(change, world)

    def look_again(self, change: Change, world: World) -> Iterator[Finding]:
        """Excess from a time when we could not watch, if no quota was edited; excess at the start is stranded."""
        had, forest = self.stranded, self.trees(world)
        self.strand(forest)
        for (name, slot), over in self.stranded.items():
            root = forest.roots[name]
            if (
                over > had.get((name, slot), 0)
                and not self.first
                and root is not None
                and root not in self.edited_blind
            ):
                yield self.found(change, Account(forest, root, slot, self.held.by_queue), name, "while not watching")
        self.first = self.blind = False
        self.edited_blind.clear()

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Nothing: quota is exceeded at once or not at all."""
        yield from ()

    def requote(self, change: Change, world: World) -> None:
        """Count the present excess as stranded in every tree that the edited node was or is in."""
        if self.first and change.listed:
            self.forest = None
            return
        name = (change.kind, change.key)
        touched = {self.trees(world).roots.get(name)}
        self.former = [one for one in self.former if change.at - one[0] < self.lag_micros]
        self.former.append((change.at, self.trees(world), dict(self.stranded)))
        self.forest = None
        forest = self.trees(world)
        touched.add(forest.roots.get(name))
        self.edited.update({root: change.at for root in touched if root is not None})
        if change.listed:
            self.edited_blind.update(root for root in touched if root is not None)
            self.edited_unseen.update({root: change.at for root in touched if root is not None})
        else:
            self.strand(forest)

    def strand(self, forest: Forest) -> None:
        """Record the excess of every node."""
        slots = {slot for held in self.held.by_queue.values() for slot in held}
        roots = {root for root in forest.roots.values() if root is not None}
        self.stranded = {
            (name, slot): over
            for root in roots
            for slot in slots
            for name, over in Account(forest, root, slot, self.held.by_queue).excesses().items()
        }

    def charged(self, change: Change, world: World, old: Workload | None, new: Workload | None) -> Iterator[Finding]:
        """Violations by what a workload holds now."""
        queue, before = self.held.charged.get(change.key, ("", {}))
        grown = self.held.charge(change.key, new)
        now_queue, now = self.held.charged.get(change.key, ("", {}))
        kept = now if now_queue == queue else {}
        if any(taken > kept.get(slot, 0) for slot, taken in before.items()):
            self.releases.add(change.at, change.key, queue, before)
        touched, queues = before.keys() | now.keys(), {queue, now_queue}
        forest = self.trees(world)
        # Reactivating an evicted workload that still shows its reservation is an edit of what is held.
        excused = old is not None and not old.spec.active and holds(old, "QuotaReserved")
        if new is None:
            self.reactivated.pop(change.key, None)
        elif excused and new.spec.active:
            self.reactivated[change.key] = change.at
        for root in {forest.root_of(queue) for queue in queues if queue} - {None}:
            assert root is not None, "the roots are those of trees"
            for slot in sorted(touched):
                account = Account(forest, root, slot, self.held.by_queue)
                adds = any(inner == slot and forest.root_of(queue) == root for queue, inner in grown) and not excused
                for name in account.usage:
                    over, had = max(0, account.excess(name)), self.stranded.get((name, slot), 0)
                    if (
                        over > had
                        and adds
                        and not excused
                        and not self.decided_earlier(now_queue, root, slot, change.at)
                    ):
                        yield self.found(change, account, name, f"caused by Workload {change.key}")
                    self.note(name, slot, over)

    def note(self, name: NodeName, slot: Slot, over: int) -> None:
        """Record the excess of a node, which may only decrease from here on."""
        if over:
            self.stranded[name, slot] = over
        else:
            self.stranded.pop((name, slot), None)

    def edited_since(self, root: NodeName | None, start: Instant) -> bool:
        """Whether the tree below a root was edited at that time or later."""
        return root is not None and self.edited.get(root, start - 1) >= start

    def decided_earlier(self, queue: str, root: NodeName, slot: Slot, at: Instant) -> bool:
        """Whether a reservation may be a write in flight: it fits what a user changed a moment ago.

        That is an edit of quotas, or a workload that was activated again while it still showed its reservation.
        """
        if root in self.edited_unseen and at - self.edited_unseen[root] < self.lag_micros:
            return True
        recent = {key for key, when in self.reactivated.items() if at - when < self.lag_micros}
        if recent and self.forest is not None:
            usage = Account(self.forest, root, slot, self.held.by_queue).usage
            rest = Account(self.forest, root, slot, self.held.without(recent))
            # Part of the stranded excess may be theirs.
            if all(
                excess <= max(0, self.stranded.get((name, slot), 0) - (usage[name] - rest.usage[name]))
                for name, excess in rest.excesses().items()
            ):
                return True
        for replaced, forest, stranded in self.former:
            old_root = forest.root_of(queue)
            if old_root is None or at - replaced >= self.lag_micros:
                continue
            over = Account(forest, old_root, slot, self.held.by_queue).excesses()
            if all(excess <= stranded.get((name, slot), 0) for name, excess in over.items()):
                return True
        return False

    def found(self, change: Change, account: Account, name: NodeName, how: str) -> Finding:
        """The finding that a node exceeds its quota."""
        flavor, resource = account.slot
        used, most = amount_text(resource, account.usage[name]), amount_text(resource, account.may_use(name))
        whose = "holds" if name[0] == QUEUE else "with its subtree holds"
        message = f"{whose} {used} {resource} of flavor {flavor} but may hold only {most}; {how}"
        return change.found(RULE, " ".join(name), message)


def requoted(change: Change) -> bool:
    """Whether a change is one of quotas, of weights or of the tree's structure."""
    match change.old, change.new:
        case ClusterQueue(spec=old), ClusterQueue(spec=new):
            shape = (old.resource_groups, old.cohort_name, old.fair_sharing)
            return shape != (new.resource_groups, new.cohort_name, new.fair_sharing)
        case Cohort(spec=before), Cohort(spec=now):
            shape = (before.resource_groups, before.parent_name, before.fair_sharing)
            return shape != (now.resource_groups, now.parent_name, now.fair_sharing)
        case _:
            return True
