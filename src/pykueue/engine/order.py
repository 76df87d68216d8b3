"""Every comparison key of the engine, each defined once."""

from typing import Final

from pykueue.base.units import Instant
from pykueue.engine.decisions import EvictionReason, PreemptionReason, SparedReason
from pykueue.engine.items import Item
from pykueue.engine.model import Options, Timestamp, Workload

PendingKey = tuple[float, int, Instant, str]
HeadKey = tuple[bool, int, int, Instant, str]
VictimKey = tuple[bool, bool, bool, float, int, int, str]
VICTIM_ORDER: Final = (
    SparedReason.NOT_LEAVING,
    SparedReason.OWN_QUEUE,
    SparedReason.WEAKER_CLAIM,
    SparedReason.LESS_PAST_USE,
    SparedReason.HIGHER_PRIORITY,
    SparedReason.ADMITTED_EARLIER,
    SparedReason.TIE,
)
"""What a greater value of each element of `victim_key` means."""
MILLISECOND = 1_000


def queue_stamp(workload: Workload, options: Options) -> Instant:
    """The time by which a workload is ordered: its creation, or its eviction for reasons that send it to the back."""
    # spec: ORD-2
    evicted = workload.evicted
    if evicted is not None:
        if evicted.reason == EvictionReason.ADMISSION_CHECK:
            return evicted.at
        by_eviction = options.pods_ready is None or options.pods_ready.timestamp is Timestamp.EVICTION
        if evicted.reason == EvictionReason.PODS_READY_TIMEOUT and by_eviction:
            return evicted.at
    preempted = workload.preempted
    if (
        preempted is not None
        and not options.priority_sorting
        and preempted.reason == PreemptionReason.RECLAIM_WHILE_BORROWING
    ):
        return Instant(preempted.at + MILLISECOND)
    return workload.created


def pending_key(item: Item, past_use: float = 0.0) -> PendingKey:
    """Order inside a ClusterQueue: least past use of the LocalQueue, highest priority, oldest.

    Past use counts only in usage-based ClusterQueues. A sticky preemptor precedes all that do not differ in it.
    """
    # spec: ORD-1
    return (past_use, -item.priority, item.stamp, item.uid)


def head_key(item: Item, *, borrowing: int, promised: bool, options: Options) -> HeadKey:
    """Order of heads: those with a claim first, then less borrowing, higher priority, older."""
    # spec: ORD-3
    return (
        not promised,
        borrowing,
        -item.priority if options.priority_sorting else 0,
        item.stamp,
        item.queue,
    )


def victim_key(item: Item, *, own_queue: str, entitled: bool, now: Instant, past_use: float = 0.0) -> VictimKey:
    """Order of victims: already evicted first, then other queues, lower priority, later reservation.

    In other queues, those come first to whose quota the preemptor is entitled. In the own queue, if it is usage-based,
    those of LocalQueues with more past use come first.
    """
    # spec: ORD-4
    reserved = item.workload.reserved_at
    return (
        item.workload.evicted is None,
        item.queue == own_queue,
        not entitled,
        -past_use,
        item.priority,
        -(now if reserved is None else reserved),
        item.uid,
    )


def later_because(key: VictimKey, victim: VictimKey) -> SparedReason:
    """Return what puts a candidate after a victim."""
    pairs = zip(VICTIM_ORDER, key, victim, strict=True)
    return next((reason for reason, mine, other in pairs if mine != other), SparedReason.TIE)
