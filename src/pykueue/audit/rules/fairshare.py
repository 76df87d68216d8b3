"""Under fair sharing, every preemption passes the test of its reason.

Each is judged when every write that was in flight has arrived, by the usage since shortly before that speaks most for
it: the preemptor's side had as little, and the victim's side as much, as it may have had. What a search had already
taken from the victim's side is not known, because it gives some of it back, so nothing counts as taken there.
"""

from collections.abc import Iterator
from typing import Final

from pykueue.api.kueue import ClusterQueue
from pykueue.api.workload import Workload
from pykueue.audit.requests import asked, placements
from pykueue.audit.rules.bounds import Bounds
from pykueue.audit.rules.overuse import Overuse
from pykueue.audit.rules.preemption import RECLAIM, WHILE_BORROWING, Case, Preemption
from pykueue.audit.rules.recent import totals
from pykueue.audit.shares import Share, sides, surely_above, surely_equal
from pykueue.audit.times import MICROS, Instant
from pykueue.audit.tree import NO_QUOTA, QUEUE, Account, Forest, NodeName, Slot
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import key_of
from pykueue.audit.world import FINAL, INITIAL, Change, Finding, Settings, World

RULE: Final = "share"
FAIR: Final = "InCohortFairSharing"


class FairShare:
    """The rule that shares, or the nominal quota, entitle a preemptor to what it takes."""

    def __init__(self, settings: Settings, uptime: Uptime, overuse: Overuse, preemption: Preemption) -> None:
        self.settings, self.uptime, self.overuse, self.preemption = settings, uptime, overuse, preemption
        self.lag_micros = settings.lag_seconds * MICROS
        self.judged: set[tuple[str, Instant]] = set()
        """The recent preemptions that were judged."""
        self.resized: dict[str, Instant] = {}
        """When the pod sets of each Workload, by key, last changed."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Nothing at once: usage is known only later."""
        old, new = change.of(Workload) or (None, None)
        if old is not None and new is None:
            self.resized.pop(change.key, None)
        elif old is not None and new is not None and old.spec.pod_sets != new.spec.pod_sets:
            self.resized[change.key] = change.at
        yield from ()

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Preemptions of a while ago that their reason does not justify."""
        if not self.settings.fair_sharing:
            return
        grace = self.lag_micros + self.uptime.notice_micros
        for case in self.preemption.cases:
            if (case.victim, case.at) in self.judged or at - case.at < grace:
                continue
            self.judged.add((case.victim, case.at))
            if self.preemption.known(case, at, world):
                for message in self.unfair(case, at, world):
                    yield Finding(RULE, f"Workload {case.victim}", message, case.version, at)
        self.judged &= {(case.victim, case.at) for case in self.preemption.cases}

    def unfair(self, case: Case, at: Instant, world: World) -> Iterator[str]:
        """Why its reason does not justify a preemption in another queue; `preemption` judges those in the own queue."""
        preemptor = world.workloads.get(world.uids["Workload"].get(case.preemptor, ""))
        queue = world.queues.get(world.queue_name_of(preemptor)) if preemptor is not None else None
        if preemptor is None or queue is None or case.reason not in (RECLAIM, WHILE_BORROWING, FAIR):
            return
        local = f"{preemptor.namespace}/{preemptor.spec.queue_name or ''}"
        forest = self.overuse.trees(world)
        nodes, since = sides(forest, queue.name, case.queue), case.at - self.lag_micros
        if nodes is None or not world.quiet("LocalQueue", local, at, at - since):
            return
        if self.resized.get(key_of(preemptor), since - 1) >= since:
            return
        start = f"was preempted as {case.reason} for {key_of(preemptor)}"
        if case.reason == WHILE_BORROWING:
            yield f"{start}, but fair sharing is on, under which borrowWithinCohort does not count"
            return
        bounds = Bounds(self.overuse, self.preemption, world, since)
        # One of these is what the preemptor would have got, and it shares a flavor and resource with the victim.
        ways = [way for way in self.ways(preemptor, queue) if way.keys() & case.held.keys()]
        if not ways:
            return
        contested = case.held.keys() & {slot for way in ways for slot in way}
        spared = spares(forest, nodes[1], case.queue, totals(bounds.most), contested)
        if spared is not None:
            yield f"{start}, but {' '.join(spared)} had not borrowed"
        if case.reason == RECLAIM and all(self.exceeds(bounds, queue.name, way, case) for way in ways):
            yield f"{start}, but with it ClusterQueue {queue.name} exceeds its nominal quota of all that they contest"
        if case.reason == FAIR:
            yield from (
                f"{start}, but {message}" for message in self.against_strategy(bounds, nodes, case, queue, ways)
            )

    def ways(self, preemptor: Workload, queue: ClusterQueue) -> list[dict[Slot, int]]:
        """All that the preemptor may have asked for, in each choice of flavors; none if it is not known."""
        wanted = asked(preemptor, queue, self.settings)
        pod_sets = preemptor.spec.pod_sets
        if not wanted or any(pod_set.min_count is not None for pod_set in pod_sets):
            return []
        # A search for victims does not count the number of pods for the preemptor.
        return placements(queue, {name: need for name, need in wanted.items() if name != "pods"}, len(pod_sets))

    def exceeds(self, bounds: Bounds, queue: str, way: dict[Slot, int], case: Case) -> bool:
        """Whether with the preemptor its queue certainly exceeds its nominal quota of all that is contested.

        The manager knows which of it was contested; we take for it whatever the victim held and the preemptor asks for.
        """
        quotas, least = bounds.forest.nodes[QUEUE, queue].quotas, bounds.least.get(queue, {})
        return all(
            least.get(slot, 0) + need > quotas.get(slot, NO_QUOTA).nominal
            for slot, need in way.items()
            if slot in case.held
        )

    def against_strategy(
        self,
        bounds: Bounds,
        nodes: tuple[NodeName, NodeName],
        case: Case,
        queue: ClusterQueue,
        ways: list[dict[Slot, int]],
    ) -> Iterator[str]:
        """How the shares, at the level where the paths of the queues part, refuse what a strategy would allow."""
        ours, theirs = nodes
        preemptor = min((bounds.lowest(ours, queue.name, way) for way in ways), key=lambda share: share.rank)
        before, after = bounds.highest(theirs, case.queue, {}), bounds.highest_without(theirs, case.victim, case.queue)
        if not refuses(self.settings, preemptor, before, after):
            return
        yield (
            f"the share of {' '.join(ours)} was at least {preemptor} with it, "
            f"and that of {' '.join(theirs)} at most {before} before and {after} after"
        )


def refuses(settings: Settings, preemptor: Share, before: Share, after: Share) -> bool:
    """Whether no strategy in use allows a preemption: by the victim's share after it, or by the share before it."""
    final = FINAL in settings.fair_sharing and not surely_above(preemptor, after)
    reaches = surely_above(preemptor, before) or surely_equal(preemptor, before)
    return not final and not (INITIAL in settings.fair_sharing and not reaches)


def spares(
    forest: Forest, side: NodeName, queue: str, usage: dict[str, dict[Slot, int]], contested: set[Slot]
) -> NodeName | None:
    """The node between a victim and the preemptor's path that had not borrowed, so that nothing below it is taken.

    The queue must borrow something that is contested, a cohort above it anything.
    """
    root = forest.roots[side]
    assert root is not None, "sides are of a tree"
    slots = {slot for name in forest.below(root) for slot in forest.nodes[name].quotas} | contested
    accounts = {slot: Account(forest, root, slot, usage) for slot in slots}
    for name in forest.path((QUEUE, queue)):
        of = contested if name == (QUEUE, queue) else slots
        if all(accounts[slot].usage[name] <= accounts[slot].subtree[name] for slot in of):
            return name
        if name == side:
            return None
    return None
