"""Under fair sharing, heads of the same tree get quota in the order of the tournament.

Where the paths of two queues part, the side that does not borrow goes first, then the side with the smaller share,
each with its head; then priority, then age. The classic order rule still applies within each queue. In a Cohort whose
children are ordered by their past use, nothing is judged.

A head counts as passed over only if it is certain that it took part and would have won: it alone was first in its
queue and on its side for a while, it asks for no more than the other got, no limit of its side could stop it, and it
wins by the most that its side, and the least that the other side, may have held. A BestEffortFIFO queue tries again
what did not fit only when something changes, so it takes several admissions over a while.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pykueue.api.kueue import LocalQueue
from pykueue.api.names import Annotation
from pykueue.api.workload import Workload
from pykueue.audit.requests import asked, first_slots
from pykueue.audit.rules.bounds import Bounds
from pykueue.audit.rules.look import Look, single_flavor
from pykueue.audit.rules.order import OVERTAKEN_MAX, Order, is_ahead
from pykueue.audit.rules.overuse import Overuse, reservation
from pykueue.audit.rules.preemption import Preemption, youngest
from pykueue.audit.shares import Share, sides, surely_above, surely_equal
from pykueue.audit.times import MICROS, Instant
from pykueue.audit.tree import QUEUE, Account, Amounts, NodeName, Slot
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import holds, reserving, waiting
from pykueue.audit.world import Change, Finding, Settings, World
from pykueue.base.struct import Frozen

RULE: Final = "tournament"
NEVER: Final = -(2**62)


class Reserved(Frozen):
    """A reservation that is yet to be judged."""

    key: str
    workload: Workload
    queue: str
    took: Amounts
    at: Instant


class Heads:
    """Which pending workload of each queue is certainly its first, and since when."""

    def __init__(self) -> None:
        self.queues: dict[str, str] = {}
        """The queue of each pending workload, by key."""
        self.pending: dict[str, dict[str, Workload]] = {}
        self.first: dict[str, tuple[str, Instant]] = {}
        """For each queue, the key of its head, empty if it has none that is certain, and since when it is so."""
        self.waited_at: dict[str, Instant] = {}
        """When a workload was last seen pending in each queue."""

    def seen(self, change: Change, world: World) -> None:
        """Take in a change of a Workload, or of a LocalQueue, which may move many."""
        if change.kind == "LocalQueue" and repointed(change):
            self.first.clear()
            self.queues.clear()
            self.pending.clear()
            for key, workload in world.workloads.items():
                self.put(key, workload, change.at, world)
        both = change.of(Workload)
        if both is None:
            return
        before = self.queues.pop(change.key, "")
        if before:
            del self.pending[before][change.key]
            self.waited_at[before] = change.at
            self.settle(before, change.at)
        new = both[1]
        if new is not None:
            self.put(change.key, new, change.at, world)
            if reserving(new) and (before or change.old is None):
                # A workload that gets quota was the head of its queue at that time.
                self.restart(before or world.queue_name_of(new), change.at)

    def put(self, key: str, workload: Workload, at: Instant, world: World) -> None:
        """Add a workload if it is pending."""
        if waiting(workload):
            queue = world.queue_name_of(workload)
            self.queues[key] = queue
            self.pending.setdefault(queue, {})[key] = workload
            self.waited_at[queue] = at
            self.settle(queue, at)

    def settle(self, queue: str, at: Instant) -> None:
        """Find the head of a queue again."""
        found = certain_head(self.pending[queue])
        if self.first.get(queue, ("", at))[0] != found or not found:
            self.first[queue] = (found, at)

    def restart(self, queue: str, at: Instant) -> None:
        """Count from now on how long the head of a queue has been its head."""
        self.waited_at[queue] = at
        self.first[queue] = (self.first.get(queue, ("", at))[0], at)

    def idle(self, queues: Iterable[str], since: Instant) -> bool:
        """Whether nothing has been pending in any of these queues since then."""
        return all(not self.pending.get(name) and self.waited_at.get(name, NEVER) < since for name in queues)


class Tournament:
    """The rule that no head is passed over by one that loses against it."""

    def __init__(
        self, settings: Settings, uptime: Uptime, overuse: Overuse, preemption: Preemption, order: Order
    ) -> None:
        self.settings, self.uptime, self.overuse = settings, uptime, overuse
        self.preemption, self.order = preemption, order
        self.lag_micros = settings.lag_seconds * MICROS
        # With blockAdmission, a cycle may last long, and does not see heads that come meanwhile.
        self.on = bool(settings.fair_sharing) and not settings.block_admission
        self.heads = Heads()
        self.reserved: list[Reserved] = []
        """Reservations that are yet to be judged."""
        self.passed_over: dict[str, list[tuple[Instant, str]]] = {}
        """For each head, when it was passed over and by whom."""
        self.reported: set[str] = set()

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Nothing at once; records heads and reservations."""
        if not self.on:
            return
        self.heads.seen(change, world)
        old, new = change.of(Workload) or (None, None)
        if old is not None and (old.metadata.uid or "") in self.preemption.preemptors:
            # A preemptor is its queue's head, even if others are ahead of it.
            self.heads.restart(world.queue_name_of(old), change.at)
        if old is None or new is None or change.listed or old.spec != new.spec or new.status.admission is None:
            return
        if holds(new, "QuotaReserved") and not holds(old, "QuotaReserved"):
            # What was preempted for a workload is set aside for it, and no part of the tournament.
            uid = new.metadata.uid or ""
            if uid not in self.preemption.preemptors and Annotation.PRIORITY_BOOST not in new.metadata.annotations:
                queue = new.status.admission.cluster_queue or ""
                self.reserved.append(Reserved(change.key, new, queue, reservation(new), change.at))
        yield from ()

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Heads that were passed over."""
        due = [one for one in self.reserved if at - one.at >= self.lag_micros]
        self.reserved = [one for one in self.reserved if at - one.at < self.lag_micros]
        for one in due:
            self.judge(one, at, world)
        heads = {key for key, _ in self.heads.first.values()}
        self.passed_over = {key: times for key, times in self.passed_over.items() if key in heads}
        self.reported &= heads
        for key, times in self.passed_over.items():
            first, last = times[0], times[-1]
            certain = len(times) > OVERTAKEN_MAX and last[0] - first[0] >= self.lag_micros
            if key in self.reported or not certain or not self.uptime.steady(first[0] - self.lag_micros, at):
                continue
            self.reported.add(key)
            queue = self.heads.queues[key]
            message = (
                f"is first in ClusterQueue {queue} and still pending, but {last[1]}, which loses against it, got quota"
            )
            yield Finding(RULE, f"Workload {key}", f"{message}, and {len(times) - 1} others before", world.version, at)

    def judge(self, one: Reserved, at: Instant, world: World) -> None:
        """Record which heads a reservation passed over."""
        forest, start = self.overuse.trees(world), one.at - self.lag_micros
        root = forest.root_of(one.queue)
        look = Look(self.settings, self.overuse, world, at, self.uptime)
        if (
            root is None
            or self.overuse.edited_since(root, start)
            or self.preemption.unseen_at >= start
            or self.promises(root, start, look)
        ):
            return
        bounds = Bounds(self.overuse, self.preemption, world, start)
        for name in forest.queues_below(root):
            key, since = self.heads.first.get(name, ("", at))
            eligible = self.order.eligible_since.get(key, at)
            if not key or name == one.queue or max(since, eligible) > start:
                continue
            head = world.workloads[key]
            if self.order.eligible(look, head) and self.beats(bounds, one, head, name, world):
                self.passed_over.setdefault(key, []).append((one.at, one.key))

    def promises(self, root: NodeName, start: Instant, look: Look) -> bool:
        """Whether quota of a tree may have been promised to a preemptor."""
        queues = set(look.forest.queues_below(root))
        pending = (
            self.heads.queues.get(look.world.uids["Workload"].get(uid, "")) for uid in self.preemption.preemptors
        )
        recent = (case.queue for case in self.preemption.cases if case.at >= start)
        return look.someone_leaves(root) or any(queue in queues for queue in (*pending, *recent))

    def beats(self, bounds: Bounds, one: Reserved, head: Workload, name: str, world: World) -> bool:
        """Whether a head certainly fitted instead of a workload that got quota, and wins the tournament against it."""
        nodes, queue = sides(bounds.forest, name, one.queue), world.queues[name]
        wanted = asked(head, queue, self.settings)
        if nodes is None or not wanted or not single_flavor(queue):
            return False
        mine, theirs = nodes
        if by_past_use(bounds.forest.nodes[mine].parent, world):
            return False
        needs = first_slots(queue, wanted)
        others = [each for each in bounds.forest.queues_below(mine) if each != name]
        if not self.heads.idle(others, one.at - self.lag_micros) or not takes_over(
            bounds, nodes, (name, one.queue), needs, one.took
        ):
            return False
        return wins(
            self.settings,
            (bounds.highest(mine, name, needs), needs, head),
            (bounds.lowest(theirs, one.queue, one.took), one.took, one.workload),
        )


def by_past_use(name: NodeName | None, world: World) -> bool:
    """Whether past use, of which the auditor knows little, orders the children of a Cohort."""
    cohort = None if name is None else world.cohorts.get(name[1])
    return cohort is not None and Annotation.ADMISSION_MODE in cohort.metadata.annotations


def takes_over(
    bounds: Bounds, nodes: tuple[NodeName, NodeName], queues: tuple[str, str], needs: Amounts, took: Amounts
) -> bool:
    """Whether what one queue took, the other could certainly have taken: all of it came from the cohort they share.

    That is so if nothing is kept from lending on the side that took it, and nothing limits borrowing on the other.
    """
    forest = bounds.forest
    paths = [below(forest.path((QUEUE, queue)), node) for queue, node in zip(queues, nodes, strict=True)]
    root = forest.roots[nodes[0]]
    assert root is not None, "sides are of a tree"
    for slot, need in needs.items():
        account = Account(forest, root, slot, {})
        if (
            need > took.get(slot, 0)
            or any(account.quota(name).borrow_max is not None for name in paths[0])
            or any(account.kept[name] for name in paths[1])
        ):
            return False
    return True


def repointed(change: Change) -> bool:
    """Whether a change of a LocalQueue is one of its ClusterQueue."""
    old, new = change.of(LocalQueue) or (None, None)
    return old is None or new is None or old.spec.cluster_queue != new.spec.cluster_queue


def below(path: list[NodeName], node: NodeName) -> list[NodeName]:
    """The part of a path from its start to this node."""
    return path[: path.index(node) + 1]


def certain_head(pending: Mapping[str, Workload]) -> str:
    """The key of the workload that is certainly ahead of all others; empty if there is none."""
    if not pending:
        return ""
    key = min(pending, key=lambda each: (-(pending[each].spec.priority or 0), youngest(pending[each])))
    return key if all(is_ahead(pending[key], other) for name, other in pending.items() if name != key) else ""


Contestant = tuple[Share, Mapping[Slot, int], Workload]
"""The share of a side with its head, what the head takes, and the head."""


def wins(settings: Settings, one: Contestant, other: Contestant) -> bool:
    """Whether one head certainly goes before another, given the most of its share, and the least of the other's."""
    (share, needs, head), (least, took, loser) = one, other
    if settings.nominal_first:
        may_borrow = any(slot in share.borrowed for slot, need in needs.items() if need)
        borrows = any(slot in least.borrowed for slot, need in took.items() if need)
        if may_borrow != borrows:
            return borrows
    if surely_above(least, share):
        return True
    return surely_equal(least, share) and is_ahead(head, loser)
