"""Explain the order of LocalQueues in a usage-based ClusterQueue by their past use.

The numbers are those that order the pending workloads; nothing is computed again.
"""

from collections.abc import Generator, Iterable
from heapq import nsmallest
from typing import Final

from msgspec.structs import replace

from pykueue.engine.engine import Engine
from pykueue.engine.items import Item
from pykueue.engine.pastuse import PastUse, sum_of
from pykueue.engine.pending import PendingQueue
from pykueue.engine.quota import QuotaNode
from pykueue.engine.record.causes import PastUseCause, PastUseRow
from pykueue.engine.record.leads import past_use_lead

ROWS_MAX: Final = 8
"""How many other LocalQueues are named."""
STEP: Final = 2_000


def past_use_before(
    engine: Engine, queue: QuotaNode | None, item: Item
) -> Generator[None, None, tuple[PastUseCause | None, bool]]:
    """Explain a pending workload by past use, and return whether LocalQueues take turns.

    The others are the LocalQueues with pending workloads that have less past use. There is no explanation in a
    ClusterQueue that is not usage-based.
    """
    line = None if queue is None else engine.world.pending.get(queue.name)
    past = None if line is None else line.past
    if line is None or past is None:
        return None, False
    waiting = yield from waiting_by_local_queue(line)
    own = row(past, item.workload.local_queue, waiting)
    rows = [row(past, key, waiting) for key in waiting if key != own.local_queue]
    # A start adds nothing to past use that is infinite, or that does not count.
    turns = bool(past.settings.half_life_micros) and own.weight > 0 and any(one.weight > 0 for one in rows)
    first, count = least(one for one in rows if one.past_use < own.past_use)
    return PastUseCause(own, tuple(with_lead(past, one, own) for one in first), count), turns


def with_lead(past: PastUse, first: PastUseRow, own: PastUseRow) -> PastUseRow:
    """A LocalQueue that goes first, and how much it can use until the other one does."""
    accounts = [past.accounts[key] for key in (first.local_queue, own.local_queue) if key in past.accounts]
    used = sum_of(part for one in accounts for part in (one.consumed, one.pending))
    return replace(first, lead=past_use_lead(past, first.past_use, own.past_use, first.weight, used))


def past_use_in(engine: Engine, queue: str, local_queue: str) -> Generator[None, None, PastUseCause | None]:
    """Explain a LocalQueue, or a ClusterQueue if none is given; the others are all other LocalQueues.

    There is no explanation in a ClusterQueue that is not usage-based.
    """
    line = engine.world.pending.get(queue)
    past = None if line is None else line.past
    if line is None or past is None:
        return None
    waiting = yield from waiting_by_local_queue(line)
    others = (row(past, key, waiting) for key in engine.local_queues_of(queue) if key != local_queue)
    return PastUseCause(row(past, local_queue, waiting) if local_queue else None, *least(others))


def waiting_by_local_queue(line: PendingQueue) -> Generator[None, None, dict[str, int]]:
    """How many pending workloads each LocalQueue has; yields between short steps."""
    found: dict[str, int] = {}
    for number, (item, _) in enumerate(list(line)):
        key = item.workload.local_queue
        found[key] = found.get(key, 0) + 1
        if number % STEP == STEP - 1:
            yield
    return found


def row(past: PastUse, key: str, waiting: dict[str, int]) -> PastUseRow:
    """A LocalQueue and its past use."""
    account = past.accounts.get(key)
    if account is None:
        return PastUseRow(key, past.value(key), 1.0, waiting.get(key, 0))
    return PastUseRow(key, account.value, account.weight, waiting.get(key, 0), account.at)


def least(rows: Iterable[PastUseRow]) -> tuple[tuple[PastUseRow, ...], int]:
    """The LocalQueues with the least past use, in order, and how many there are in total."""
    everyone = list(rows)
    return tuple(nsmallest(ROWS_MAX, everyone, key=lambda one: (one.past_use, one.local_queue))), len(everyone)
