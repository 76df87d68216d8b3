"""Preemptions that did not help: the preemptor gave up its claim to the quota before it started.

The quota that victims release is reserved for their preemptor. The claim ends early only if the preemptor goes away or
changes, or the queues do; every such end has one of the causes below. Without the reservation nothing is counted.
"""

from collections.abc import Iterable
from enum import StrEnum

from pykueue.base.struct import Frozen
from pykueue.engine.decisions import Admit, Decision, Evict, Reserve
from pykueue.engine.engine import Engine


class Cause(StrEnum):
    """Why a claim ended before the preemptor started."""

    DELETED = "deleted"
    """The preemptor was deleted, or finished."""
    EDITED = "edited"
    """The preemptor was edited, or moved to another queue."""
    DEACTIVATED = "deactivated"
    """The preemptor was deactivated."""
    OVERTAKEN = "overtaken"
    """Another workload became the head of its queue."""
    NO_ROOM = "no-room"
    """An edit of queues, cohorts, flavors or checks left no room for it."""


class Unserved(Frozen):
    """Evictions whose preemptor did not start."""

    queue: str
    """The ClusterQueue of the preemptor."""
    cause: Cause
    evictions: int


class Preemptor(Frozen):
    """A workload that others were evicted for."""

    uid: str
    generation: int
    local_queue: str
    queue: str
    evictions: int


class Preemptors:
    """Follows the workloads that others were evicted for, until they start or give up."""

    def __init__(self) -> None:
        self.waiting: dict[str, Preemptor] = {}

    def clear(self) -> None:
        """Forget all: another replica decides now."""
        self.waiting.clear()

    def note(self, engine: Engine, decisions: Iterable[Decision]) -> list[Unserved]:
        """Add the decisions of a cycle; returns the evictions that turned out to be in vain."""
        for decision in decisions:
            match decision:
                case Evict(by=by) if decision.preemption is not None and engine.world.options.reserve_for_preemptor:
                    self.evicted_for(engine, by)
                case Admit() | Reserve():
                    self.waiting.pop(decision.workload, None)
                case _:
                    pass
        ended = []
        for key, preemptor in list(self.waiting.items()):
            cause = why_ended(engine, key, preemptor)
            if cause is not None:
                del self.waiting[key]
                ended.append(Unserved(preemptor.queue, cause, preemptor.evictions))
        return ended

    def evicted_for(self, engine: Engine, key: str) -> None:
        """Count an eviction for a workload."""
        level, known = engine.workload(key), self.waiting.get(key)
        if level is not None:
            count = 1 if known is None else known.evictions + 1
            self.waiting[key] = Preemptor(level.uid, level.generation, level.local_queue, engine.queue_of(level), count)


def why_ended(engine: Engine, key: str, preemptor: Preemptor) -> Cause | None:
    """Why a workload no longer claims the quota of its victims; None while it does."""
    item = engine.item(key)
    if item is None or item.workload.uid != preemptor.uid or item.workload.finished:
        return Cause.DELETED
    if item.claim is not None:
        return None
    level = item.workload
    if (level.generation, level.local_queue) != (preemptor.generation, preemptor.local_queue):
        return Cause.EDITED
    if not level.active:
        return Cause.DEACTIVATED
    pending = engine.world.pending.get(item.queue)
    head = None if pending is None else pending.head()
    return Cause.NO_ROOM if head is None or head is item else Cause.OVERTAKEN
