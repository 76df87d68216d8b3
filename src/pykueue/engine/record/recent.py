"""The last decisions about each workload, and the last workloads that started: what an explanation tells of the past.

Both are bounded in total, whatever the number of workloads; the journal has everything.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.decisions import Admit, Decision, Evict, Reserve, Wait
from pykueue.engine.engine import Engine
from pykueue.engine.items import Item, Totals
from pykueue.engine.order import PendingKey, pending_key
from pykueue.engine.record.preemptions import PreemptionRecord, Preemptions

DECISIONS_MAX: Final = 8
"""How many decisions are kept of a workload."""
WORKLOADS_MAX: Final = 2_000
"""Of how many workloads; those about which something was decided last."""
STARTS_MAX: Final = 4_096
OVERTAKERS_MAX: Final = 3
"""How many of the workloads that went past another one are named."""


class Noted(Frozen):
    """A decision, and what was known only when it was made."""

    decision: Decision
    admitted_at: Instant | None = None
    """Since when an evicted workload had run."""
    preemption: PreemptionRecord | None = None
    """How it came to be preempted; None if it was not."""


class Start(Frozen):
    """A workload that got its quota."""

    key: str
    queue: str
    order: PendingKey
    """Its place in the order of its queue."""
    totals: tuple[Totals, ...]
    at: Instant


class Overtakings(Frozen):
    """The workloads that were behind another one and started before it."""

    count: int = 0
    smaller: int = 0
    """How many of them asked for less."""
    last: tuple[str, ...] = ()
    """The keys of the latest, the newest first."""
    since: Instant | None = None
    """Starts before this instant are forgotten, and may have been more; None if none is."""


class Recent:
    """Keeps the last decisions."""

    def __init__(self) -> None:
        self.decisions: dict[str, deque[Noted]] = {}
        """By workload; the one with the newest decision is last."""
        self.starts: deque[Start] = deque(maxlen=STARTS_MAX)

    def note(self, engine: Engine, decisions: Iterable[Decision]) -> None:
        """Record what one call of `decide` returned, right after it."""
        preemptions: Preemptions | None = None
        for decision in decisions:
            if isinstance(decision, Wait):
                self.note_wait(decision)
                continue
            item = engine.item(decision.workload)
            noted = Noted(decision)
            if item is not None and isinstance(decision, Evict):
                preemptions = Preemptions(engine) if preemptions is None else preemptions
                noted = Noted(decision, item.workload.admitted_at, preemptions.by(decision.by))
            elif item is not None and is_start(decision) and not is_by_usage(engine, item.queue):
                totals = item.shape.totals
                self.starts.append(Start(item.key, item.queue, pending_key(item), totals, decision.at))
            self.keep(noted)

    def note_wait(self, wait: Wait) -> None:
        """Record why a workload waits about which something else was decided before; only the last of many reasons."""
        known = self.decisions.get(wait.workload)
        if known is None:
            return
        if isinstance(known[-1].decision, Wait):
            known[-1] = Noted(wait)
        else:
            known.append(Noted(wait))

    def keep(self, noted: Noted) -> None:
        """Keep a decision, and forget the workload about which nothing was decided for longest if there are many."""
        key = noted.decision.workload
        known = self.decisions.pop(key, None)
        if known is None:
            # One more than is told shows that there were older ones.
            known = deque(maxlen=DECISIONS_MAX + 1)
            if len(self.decisions) >= WORKLOADS_MAX:
                del self.decisions[next(iter(self.decisions))]
        known.append(noted)
        self.decisions[key] = known

    def clear(self) -> None:
        """Forget everything, because another process decides from now on."""
        self.decisions.clear()
        self.starts.clear()

    def of(self, key: str) -> tuple[Noted, ...]:
        """The last decisions about a workload, the oldest first."""
        return tuple(self.decisions.get(key, ()))[-DECISIONS_MAX:]

    def preemption_by(self, key: str) -> PreemptionRecord | None:
        """The last preemption for a workload; None if none is remembered."""
        kept = (one.preemption for known in self.decisions.values() for one in known)
        return max((one for one in kept if one is not None and one.by == key), key=lambda one: one.at, default=None)

    def has_forgotten(self, key: str) -> bool:
        """Whether there were decisions about a workload before those that `of` returns."""
        return len(self.decisions.get(key, ())) > DECISIONS_MAX

    def overtakings(self, item: Item) -> Overtakings:
        """Who started out of the queue of a pending workload although this one was ahead.

        Starts in usage-based queues are not remembered.
        """
        mine, since = pending_key(item), waits_since(item)
        past = [one for one in self.starts if one.queue == item.queue and one.at >= since and one.order > mine]
        full = len(self.starts) == STARTS_MAX and self.starts[0].at > since
        return Overtakings(
            len(past),
            sum(is_smaller(one.totals, item.shape.totals) for one in past),
            tuple(one.key for one in islice(reversed(past), OVERTAKERS_MAX)),
            self.starts[0].at if full else None,
        )


def is_by_usage(engine: Engine, name: str) -> bool:
    """Whether past use, which changes all the time, comes first in the order of a ClusterQueue."""
    queue = engine.queue(name)
    return engine.options.admission_fair_sharing is not None and queue is not None and queue.usage_based


def is_start(decision: Decision) -> bool:
    """Whether a decision takes a workload out of the line."""
    return isinstance(decision, Reserve) or (isinstance(decision, Admit) and not decision.reserved_before)


def waits_since(item: Item) -> Instant:
    """Since when a workload waits: its creation, or its eviction."""
    evicted = item.workload.evicted
    return item.workload.created if evicted is None else max(evicted.at, item.workload.created)


def is_smaller(these: tuple[Totals, ...], those: tuple[Totals, ...]) -> bool:
    """Whether a workload asks for less of something that another asks for, and for no more of anything."""
    mine, other = sums(these), sums(those)
    return mine != other and all(amount <= other.get(resource, 0) for resource, amount in mine.items())


def sums(totals: tuple[Totals, ...]) -> dict[str, int]:
    """What all pod sets ask for together."""
    found: dict[str, int] = {}
    for resource, amount in pairs(totals):
        found[resource] = found.get(resource, 0) + amount
    return found


def pairs(totals: tuple[Totals, ...]) -> Iterator[tuple[str, int]]:
    """The requests of each pod set, one after the other."""
    for one in totals:
        yield from one
