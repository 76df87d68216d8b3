"""How much of a flavor a ClusterQueue has left, which limit decides that, and whether a workload would fit.

Everything is read from the quota tree and asked of the planner; nothing is changed.
"""

from collections.abc import Iterator
from typing import Final, Literal

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.candidates import Requests, hopeless
from pykueue.engine.decisions import PodSetObstacles
from pykueue.engine.engine import Engine
from pykueue.engine.fairsearch import FairSearch
from pykueue.engine.flavors import PODS, FlavorPlan, Planner
from pykueue.engine.items import Item, Shape
from pykueue.engine.model import Options, PodSet, Policy, Workload
from pykueue.engine.preempt import NOTHING, Chosen, Search, Selection
from pykueue.engine.quota import QuotaNode, available, binding, ceiling, potential
from pykueue.engine.snapshot import Snapshot
from pykueue.engine.world import World

NEWCOMER: Final = "newcomer"
"""The name of a workload that is only tried."""
HOLDERS_MAX: Final = 5_000
"""How many workloads one question looks through for victims; more would hold up the event loop."""
TRIED_MAX: Final = 500
"""How many candidates it removes on trial. A search that ends before that has the result of one without a limit."""


class Limit(Frozen):
    """The limit that decides how much a queue may use."""

    field: Literal["nominalQuota", "borrowingLimit", "cohort"]
    """`cohort`: all quota of the cohort together."""
    kind: Literal["ClusterQueue", "Cohort"]
    name: str


class Room(Frozen):
    """What a ClusterQueue has of one resource in one flavor."""

    flavor: str
    resource: str
    nominal: int
    used: int
    free: int
    """What the next workload may use, borrowing included."""
    most: int
    """What it could use if nothing else used anything."""
    limit: Limit
    """What decides `free`."""
    ceiling: Limit
    """What decides `most`."""

    @property
    def borrowable(self) -> int:
        """The part of what is free that is not its own."""
        return max(0, self.free - max(0, self.nominal - self.used))

    @property
    def borrowed(self) -> int:
        """What its workloads use beyond its own."""
        return max(0, self.used - self.nominal)

    @property
    def lent(self) -> int:
        """What others use of its own quota now, so that its next workload cannot."""
        return max(0, max(0, self.nominal - self.used) - self.free)


def limit_of(found: tuple[QuotaNode, bool]) -> Limit:
    """A limit by the node that it is of."""
    node, borrowing = found
    kind: Literal["ClusterQueue", "Cohort"] = "ClusterQueue" if node.is_queue else "Cohort"
    if borrowing:
        return Limit("borrowingLimit", kind, node.name)
    return Limit("nominalQuota" if node.is_queue else "cohort", kind, node.name)


def room_of(queue: QuotaNode, fr: int, flavor: str, resource: str) -> Room:
    """What a queue has of a pair."""
    return Room(
        flavor,
        resource,
        queue.nominal.get(fr, 0),
        queue.usage.get(fr, 0),
        max(0, available(queue, fr)),
        potential(queue, fr),
        limit_of(binding(queue, fr)),
        limit_of(ceiling(queue, fr)),
    )


def rooms_of(queue: QuotaNode) -> Iterator[Room]:
    """What a queue has of each of its resources and flavors, in its own order."""
    for resource, group in queue.groups.items():
        for flavor, frs in zip(group.flavors, group.frs, strict=True):
            yield room_of(queue, frs[resource], flavor, resource)


def covered(queue: QuotaNode, resource: str) -> Iterator[Room]:
    """What a queue has of a resource, flavor by flavor; nothing if it does not cover it."""
    group = queue.groups.get(resource)
    for flavor, frs in () if group is None else zip(group.flavors, group.frs, strict=True):
        yield room_of(queue, frs[resource], flavor, resource)


class NoVictims(Search):
    """A search that preempts nobody: for questions about what is free."""

    def search(self, requests: Requests, frs: frozenset[int]) -> Selection:
        """No victims."""
        return NOTHING


class TooManyError(Exception):
    """There are more candidates for preemption than a question may try."""


class BoundedSearch(Search):
    """A search of bounded length; it raises `TooManyError` where it would take longer."""

    tried = 0

    def __init__(self, snapshot: Snapshot, queue: QuotaNode, item: Item, now: Instant, options: Options) -> None:
        super().__init__(snapshot, queue, item, now, options)
        self.looked_at: dict[QuotaNode, int] = {}
        """The queues that were looked through, each with the number of its holders."""

    def holders(self, queue: QuotaNode, policy: Policy, frs: frozenset[int]) -> Iterator[Item]:
        """The holders of a queue that a policy allows to preempt."""
        if not hopeless(policy, self.item, queue):
            self.looked_at[queue] = len(queue.holders)
            if sum(self.looked_at.values()) > HOLDERS_MAX:
                raise TooManyError
        return super().holders(queue, policy, frs)

    def put_back(self, chosen: list[Chosen], requests: Requests, *, borrow: bool) -> list[Chosen]:
        """Let those come back that are not needed, which are no further candidates."""
        tried, self.tried = self.tried, 0
        returned = super().put_back(chosen, requests, borrow=borrow)
        self.tried = tried
        return returned

    def fits(self, requests: Requests, *, borrow: bool) -> bool:
        """Whether all requests fit; asked after each candidate that is removed."""
        self.tried += 1
        if self.tried > TRIED_MAX:
            raise TooManyError
        return super().fits(requests, borrow=borrow)


class BoundedFairSearch(BoundedSearch, FairSearch):
    """A search under fair sharing of bounded length."""


def is_consistent(world: World, queue: QuotaNode) -> bool:
    """Whether the tree of a queue is computed, so that questions can be asked of it."""
    return queue.tree is not None and not world.forest.stale


def planner(world: World, queue: QuotaNode, item: Item, search_of: type[Search] = NoVictims) -> Planner:
    """Plans a workload in a queue on what is free there now, from the first flavor on; nobody is preempted."""
    probe = Item(item.workload, item.shape, item.stamp)
    search = search_of(Snapshot(world.forest), queue, probe, world.now, world.options)
    return Planner(queue, probe, world.flavors, world.epoch, search, world.options)


def obstacles_of(plan: FlavorPlan) -> tuple[PodSetObstacles, ...]:
    """Every obstacle that a plan met, those of flavors included that it passed over."""
    return tuple(
        PodSetObstacles(part.name, tuple(one for tried in part.considered for one in tried[3]) or tuple(part.obstacles))
        for part in plan.pod_sets
        if part.considered or part.obstacles
    )


def would_fit(world: World, queue: QuotaNode, item: Item) -> FlavorPlan | None:
    """The plan of a workload in another queue that takes it and has room for it now; None if there is none."""
    if not world.can_admit(queue) or not is_consistent(world, queue):
        return None
    if world.refusal(queue, item) is not None:
        return None
    plan, _ = planner(world, queue, item).best()
    return plan if plan.fits else None


def newcomer(world: World, queue: QuotaNode, resource: str, amount: int) -> tuple[FlavorPlan, Selection | None]:
    """The plan of one pod of priority 0 that comes now and asks for this much of a resource, and whom it preempts.

    None if there are too many candidates to tell whom; the plan is then one without preemption.
    """
    pod_sets = (PodSet(NEWCOMER, 1, ((resource, amount),)),)
    workload = Workload(f"/{NEWCOMER}", "", "", world.now, pod_sets)
    item = Item(workload, Shape(pod_sets, 0, pod_sets), world.now)
    try:
        return planner(world, queue, item, BoundedFairSearch if world.options.fair_sharing else BoundedSearch).best()
    except TooManyError:
        return planner(world, queue, item).best()[0], None


def requests_of(queue: QuotaNode, item: Item, index: int) -> tuple[tuple[str, int], ...]:
    """What a pod set asks for, with its pods if the queue counts them."""
    totals = item.shape.totals[index]
    return (*totals, (PODS, item.shape.counts[index])) if PODS in queue.groups else totals


def neighbours(queue: QuotaNode) -> Iterator[QuotaNode]:
    """The queues of the same tree, itself included."""
    yield from (queue,) if queue.tree is None else queue.tree.queues


def node_of(engine: Engine, name: str) -> QuotaNode | None:
    """A ClusterQueue in the quota tree; None if there is none."""
    return engine.world.forest.queues.get(name)
