"""Between which bounds were the shares that the manager compared when it decided?

An observer does not know which writes the manager had seen, nor which of its own decisions it had already counted. So a
share is computed from the least, or the most, that each queue may have held from shortly before a decision until every
write that was in flight has arrived. More usage never makes a share smaller.
"""

from collections.abc import Mapping

from pykueue.audit.rules.look import added
from pykueue.audit.rules.overuse import Overuse
from pykueue.audit.rules.preemption import Preemption
from pykueue.audit.rules.recent import kept, totals
from pykueue.audit.shares import Share, Shares
from pykueue.audit.times import Instant
from pykueue.audit.tree import Amounts, NodeName
from pykueue.audit.views import holds
from pykueue.audit.world import World


class Bounds:
    """The least and the most that each queue may have held since some moment."""

    def __init__(self, overuse: Overuse, preemption: Preemption, world: World, since: Instant) -> None:
        self.forest = overuse.trees(world)
        self.most = overuse.releases.most(overuse.held.charged, since)
        # A search for victims does not count those whom it, or another search of the same cycle, has already chosen.
        leaving = frozenset(key for key in overuse.held.charged if holds(world.workloads[key], "Evicted"))
        self.least = totals(kept(overuse.held.charged, preemption.reserved_at, since), leaving)

    def lowest(self, node: NodeName, queue: str, incoming: Amounts) -> Share:
        """The smallest share that a node may have had with something more in a queue below it."""
        return self.share(node, {**self.least, queue: added(self.least.get(queue, {}), incoming)})

    def highest(self, node: NodeName, queue: str, incoming: Amounts) -> Share:
        """The largest share that a node may have had with something more in a queue below it."""
        most = totals(self.most)
        return self.share(node, {**most, queue: added(most.get(queue, {}), incoming)})

    def highest_without(self, node: NodeName, victim: str, queue: str) -> Share:
        """The largest share that a node may have had without what one Workload held of a queue."""
        return self.share(node, totals({one: held for one, held in self.most.items() if one != (victim, queue)}))

    def share(self, node: NodeName, held: Mapping[str, Amounts]) -> Share:
        """The share of a node when each queue holds so much."""
        root = self.forest.roots[node]
        assert root is not None, "shares are computed in trees"
        return Shares(self.forest, root, held).share(node)
