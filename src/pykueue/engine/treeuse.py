"""The past use of ClusterQueues and cohorts: that of all LocalQueues below, weighted as in the tree.

It orders the children of a usage-based cohort in the tournament. Nothing is stored for it, because averages with the
same half-life add up: the past use of LocalQueues is enough, also after a restart.
"""

from pykueue.engine.charges import price
from pykueue.engine.entries import Entry
from pykueue.engine.forest import Tree
from pykueue.engine.pastuse import PastUse, change, sum_of, value_of
from pykueue.engine.quota import QuotaNode, ancestors
from pykueue.engine.world import World


class TreeUse:
    """The past use of nodes during one cycle, in which the past use of LocalQueues does not change."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.totals: dict[QuotaNode, dict[str, int]] = {}
        """Billionths of each resource; heads that have started in this cycle are charged."""

    def orders(self, node: QuotaNode) -> PastUse | None:
        """Return the past use of LocalQueues if past use orders a node among its siblings, otherwise None."""
        ordered = node.parent is not None and node.parent.usage_based and self.world.options.fair_sharing
        return self.world.past if ordered else None

    def place(self, node: QuotaNode) -> float:
        """Return the place of a node among its siblings, the lowest first; 0 if past use does not order them."""
        # spec: AFS-8
        past = self.orders(node)
        return 0.0 if past is None else value_of(self.total(past, node), {}, node.weight, past.weights)

    def order(self, tree: Tree) -> tuple[str, ...]:
        """Return the children of all usage-based cohorts of a tree, in the order of their past use."""
        if not self.world.options.fair_sharing:
            return ()
        return tuple(
            child.name
            for cohort in tree.usage_based
            for child in sorted(cohort.children, key=lambda one: (self.place(one), one.is_queue, one.name))
        )

    def total(self, past: PastUse, node: QuotaNode) -> dict[str, int]:
        """Return what all LocalQueues below a node have used, with their charges."""
        found = self.totals.get(node)
        if found is None:
            keys = self.world.local_queues_by_queue.get(node.name, ()) if node.is_queue else ()
            accounts = [past.accounts[key] for key in keys]
            # A child that is cut off, because cohorts are nested too deep, has no tree.
            below = [self.total(past, child) for child in node.children if child.tree is not None]
            parts = (*below, *(one.consumed for one in accounts), *(one.pending for one in accounts))
            found = self.totals[node] = sum_of(parts)
        return found

    def charge(self, entry: Entry) -> None:
        """Charge the nodes above a head that has started, so that its siblings take turns within a cycle."""
        past = self.world.past
        above = [node for node in (entry.queue, *ancestors(entry.queue)) if node in self.totals]
        if past is None or not above:
            return
        for resource, amount in price(self.world.options, past, entry.queue, entry.item):
            for node in above:
                change(self.totals[node], resource, amount)
