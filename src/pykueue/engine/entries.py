"""The state of a scheduling cycle: an `Entry` for each head, and a `TreeCycle` for each tree."""

from enum import Enum
from typing import Final, TypeAlias

from pykueue.base.struct import Frozen
from pykueue.engine.decisions import WaitReason, Why
from pykueue.engine.flavors import FlavorPlan, Planner
from pykueue.engine.forest import Forest, Tree
from pykueue.engine.items import Bookmark, Item
from pykueue.engine.pending import Outcome
from pykueue.engine.preempt import NOTHING, Victim
from pykueue.engine.quota import QuotaNode, book, usage_of
from pykueue.engine.snapshot import Snapshot


class Started(Frozen):
    """The head has quota: the cycle decided to reserve or to admit."""


class Postponed(Frozen):
    """The head stays pending."""

    outcome: Outcome
    """Where its queue puts it."""
    reason: WaitReason
    why: Why


Result: TypeAlias = Started | Postponed


class Replanned(Enum):
    """What a second plan found for a head whose victims an earlier head had claimed; the values are metric labels."""

    DEFERRED_FIT = "deferred_fit"
    """It fits without victims of its own, once those of the earlier heads have left."""
    NEW_TARGETS = "new_targets"
    SKIPPED = "skipped"
    """There are no other victims."""


class TreeCycle:
    """One tree during a cycle: its snapshot, and what the heads considered so far have claimed."""

    __slots__ = (
        "admitted",
        "claimed",
        "displaced",
        "has_unfreed_room",
        "news",
        "nonborrowing_head",
        "real",
        "refills",
        "reserved_for",
        "snapshot",
        "tree",
    )

    def __init__(self, tree: Tree, forest: Forest) -> None:
        self.tree = tree
        self.snapshot = Snapshot(forest)
        self.claimed: dict[str, Item] = {}
        """The victims of earlier heads of this cycle."""
        self.displaced: list[Item] = []
        """Preemptors that lost their claim, because another workload of their queue is the head now."""
        self.admitted: list[tuple[QuotaNode, tuple[tuple[int, int], ...]]] = []
        """The usage of the heads that this cycle started."""
        self.has_unfreed_room = False
        """Whether the snapshot shows room that is not free yet."""
        self.real: dict[str, QuotaNode] | None = None
        """Copies of the tree's queues for `real_queue`; None until it is called."""
        self.refills = 0
        """How many workloads joined the cycle after one of their queue had started."""
        self.reserved_for: list[QuotaNode] = []
        """Queues for whose blocked heads this cycle keeps room."""
        self.news = 0
        """`Tree.news` at the start of the cycle."""
        self.nonborrowing_head = False
        """Whether a head that borrows nothing was considered in this cycle."""

    def real_queue(self, queue: QuotaNode) -> QuotaNode:
        """Return a copy of a queue with its usage as it is now: victims still present, nothing reserved for claims."""
        if self.real is None:
            self.real = self.snapshot.as_it_is(self.tree)
            for admitted, usage in self.admitted:
                book(self.real[admitted.name], usage)
        return self.real[queue.name]

    def start(self, queue: QuotaNode, usage: tuple[tuple[int, int], ...]) -> None:
        """Count the usage of a head that starts."""
        self.snapshot.book(queue, usage)
        self.admitted.append((queue, usage))
        if self.real is not None:
            book(self.real[queue.name], usage)


UNPLANNED: Final = FlavorPlan()
"""The plan of a head that is not planned yet, or is refused before; it is empty, and stays so."""


class Entry:
    """A head during a cycle: its plan, its victims, and its result."""

    __slots__ = ("item", "plan", "planner", "queue", "replanned", "result", "selection", "start", "tree_cycle")

    def __init__(self, item: Item, queue: QuotaNode, tree_cycle: TreeCycle) -> None:
        self.item = item
        self.queue = queue
        self.tree_cycle = tree_cycle
        self.plan = UNPLANNED
        self.planner: Planner | None = None
        """None if the head failed the checks that come before planning."""
        self.selection = NOTHING
        """Its victims, and the candidates that were spared."""
        self.replanned: Replanned | None = None
        self.start: Bookmark | None = None
        """Where its scan of flavors began."""
        self.result: Result | None = None
        """None until the head is refused or considered."""

    @property
    def victims(self) -> tuple[Victim, ...]:
        """The workloads that must leave for it."""
        return self.selection.victims

    def usage(self) -> tuple[tuple[int, int], ...]:
        """Return what the plan would use."""
        return usage_of(self.plan.usage)
