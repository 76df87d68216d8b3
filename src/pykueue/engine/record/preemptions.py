"""What the engine knew when it preempted: the victims, the candidates that it spared, the flavors that it did not take.

Everything is copied from the plan that was carried out; nothing is computed again.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.decisions import Considered, Obstacle
from pykueue.engine.engine import Engine
from pykueue.engine.entries import Entry
from pykueue.engine.flavors import MODE_NAMES
from pykueue.engine.preempt import Spared

VICTIMS_MAX: Final = 3
"""How many victims are named."""


class Passing(StrEnum):
    """Why a flavor was not taken: the mode in which the request fits it, as events name it, or that it was skipped."""

    NO_FIT = "NoFit"
    NO_CANDIDATES = "NoCandidates"
    PREEMPT = "Preempt"
    RECLAIM = "Reclaim"
    FIT = "Fit"
    """It would borrow."""
    EARLIER = "Earlier"
    """An earlier cycle tried it, and this one continued after it."""
    UNTRIED = "Untried"
    """The scan ended before it."""


class PassedFlavor(Frozen):
    """A flavor that a preemptor did not take for a pod set."""

    pod_set: str
    flavor: str
    why: Passing
    obstacles: tuple[Obstacle, ...] = ()


class PreemptionRecord(Frozen):
    """A preemption as it was decided; all victims share one record."""

    by: str
    """The preemptor."""
    at: Instant
    victims: int
    first: tuple[str, ...]
    """The keys of the first victims."""
    spared: int
    """How many other workloads could have been preempted."""
    named: tuple[Spared, ...]
    """Some of them, and why they were not."""
    taken: tuple[Considered, ...]
    """The flavors of the preemptor that borrow or need preemption."""
    passed: tuple[PassedFlavor, ...]


class Preemptions:
    """The preemptions of the last cycle of an engine, each recorded when it is first asked for."""

    def __init__(self, engine: Engine) -> None:
        self.now = engine.now
        self.heads = {one.item.key: one for one in engine.entries if one.victims}
        self.records: dict[str, PreemptionRecord] = {}

    def by(self, preemptor: str) -> PreemptionRecord | None:
        """The preemption for a workload; None if it was not the head of a queue with victims."""
        found = self.records.get(preemptor)
        if found is None and preemptor in self.heads:
            found = self.records[preemptor] = recorded(self.heads[preemptor], self.now)
        return found


def recorded(entry: Entry, at: Instant) -> PreemptionRecord:
    """The record of a preemption that this head of a cycle caused."""
    selection = entry.selection
    chosen = {(part.name, one.flavor) for part in entry.plan.pod_sets for one in part.choices.values()}
    return PreemptionRecord(
        entry.item.key,
        at,
        len(selection.victims),
        tuple(victim.item.key for victim in selection.victims[:VICTIMS_MAX]),
        selection.spared,
        selection.named,
        tuple(one for one in entry.plan.considered() if (one.pod_set, one.flavor) in chosen),
        tuple(passed_flavors(entry)),
    )


def passed_flavors(entry: Entry) -> Iterator[PassedFlavor]:
    """The flavors that a plan did not take, in the order of the ClusterQueue where they were not tried."""
    for part in entry.plan.pod_sets:
        chosen = {one.flavor for one in part.choices.values()}
        tried = chosen.union(one[0] for one in part.considered)
        for flavor, mode, _, obstacles in part.considered:
            if flavor not in chosen:
                yield PassedFlavor(part.name, flavor, Passing(MODE_NAMES[mode]), obstacles)
        reached = {entry.queue.groups[resource]: one.tried for resource, one in part.choices.items()}
        for group, last in reached.items():
            for position, flavor in enumerate(group.flavors):
                if flavor not in tried:
                    why = Passing.UNTRIED if -1 < last < position else Passing.EARLIER
                    yield PassedFlavor(part.name, flavor, why)
