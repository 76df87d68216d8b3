"""Why each workload is pending: answers queries at once and limits the writes.

A reason is known as soon as the engine has decided: about the workload itself, or about an equal one that was judged in
its place. Queries get it at once. Writes come later, because each costs the API server as much as an admission, and
most reasons are out of date within a second. While few workloads wait, every reason is written after a short delay.
While many wait, reasons are written one at a time, with a pause after each: the longer the write took, the longer the
pause. A server that is busy with other clients gets few of them.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, TypeAlias

from msgspec.structs import replace

from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload, held
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.controllers.writebackoff import DELAY_MICROS_MAX, delay_after
from pykueue.engine import model
from pykueue.engine.decisions import Bypassed, Queued, Wait
from pykueue.engine.engine import Engine
from pykueue.engine.items import Item
from pykueue.engine.wording import message

WRITE_AFTER: Final = MICROS
"""How long a reason is held back; by then the workload may have started, or wait for another reason."""
REWRITE_AFTER: Final = 5 * MICROS
"""The same if the condition already has this reason and only the numbers in its message differ."""
BUSY_DELAY: Final = 10 * MICROS
"""How much longer it is held back while the server is busy and many workloads wait, and how long after its creation a
workload that was not evaluated yet needs no reason while others are admitted."""
ONE_PART_IN: Final = 10
"""While many workloads wait, the writes of reasons take at most one part in this many of the time."""
FEW: Final = 100
"""While no more workloads than this wait, every reason is written when it is due."""
SHARED_EVERY: Final = MICROS
SHARED_EVERY_WHEN_IDLE: Final = MICROS // 50
"""How often the verdict of an equal workload is written, at most, while many workloads wait."""
IDLE_AFTER: Final = 5 * MICROS
"""After this long without an admission or eviction, that is more often."""


Later: TypeAlias = Callable[[str], Instant | None]


class PendingReasons:
    """The reasons to write, and when each is due."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.waiting: set[str] = set()
        """Every workload without quota that may still get some."""
        self.decided: dict[str, tuple[Wait, Instant]] = {}
        """What the engine has decided and is not written yet, and when it is due."""
        self.decided_at: Instant | None = None
        """Nothing of that is due before this instant."""
        self.unexplained: dict[str, Instant] = {}
        """Workloads without a written or decided reason, and when one is due."""
        self.by_age: list[tuple[str, int, str]] = []
        """The same as a heap by age; entries that are no longer in `unexplained` are skipped."""
        self.serial = 0
        self.shared_at: Instant | None = None
        """When a reason of such a workload was written last."""
        self.writing = ""
        self.writing_since = Instant(0)
        """The workload whose reason is being written while many wait, and since when."""
        self.paused_until = Instant(0)
        """While many wait, no reason is written before this instant."""
        self.own_next = True
        """Whether a decided reason comes first, or that of an unexplained workload: they take turns."""
        self.busy_at: Instant | None = None
        """When something was admitted or evicted last."""
        self.slow_delay = 0
        self.slow_until = Instant(0)
        """How much longer decided reasons are held back, and until when, because writes took long."""

    # Changes.

    def see(self, key: str, seen: Workload, now: Instant) -> None:
        """Record whether a Workload is pending, and whether its condition has a reason."""
        over = held(seen, WorkloadCondition.FINISHED) is not None
        if over or seen.status.admission is not None or not seen.spec.active:
            self.waiting.discard(key)
            self.unexplained.pop(key, None)
            return
        self.waiting.add(key)
        if any(one.type == WorkloadCondition.QUOTA_RESERVED for one in seen.status.conditions):
            self.unexplained.pop(key, None)
        elif key not in self.unexplained:
            self.enqueue(key, seen.metadata.creation_timestamp or "", now)

    def enqueue(self, key: str, created: str, now: Instant) -> None:
        """Schedule the write of the reason of a workload that was not evaluated itself."""
        self.unexplained[key] = Instant(now + WRITE_AFTER)
        self.serial += 1
        heappush(self.by_age, (created, self.serial, key))

    def forget(self, key: str) -> None:
        """Forget a deleted Workload."""
        self.waiting.discard(key)
        self.decided.pop(key, None)
        self.unexplained.pop(key, None)

    def decide(self, wait: Wait, written: model.Waiting | None) -> None:
        """Schedule the write of a decided reason, unless it equals `written`, the reason in the condition."""
        wait = self.judged(wait, written)
        if written is not None and (written.reason, written.message) == (wait.reason, message(wait.why)):
            self.decided.pop(wait.workload, None)
            return
        again = written is not None and written.reason == wait.reason
        due = Instant(wait.at + (REWRITE_AFTER if again else WRITE_AFTER))
        earlier = self.decided.get(wait.workload)
        self.put(wait, due if earlier is None else min(due, earlier[1]))
        if written is not None and not again:
            self.correct_equals(wait)

    def correct_equals(self, wait: Wait) -> None:
        """Write the reason again for workloads equal to this one whose condition states another."""
        item = self.engine.item(wait.workload)
        if item is None:
            return
        for equal in self.engine.equal_workloads(item):
            known = equal.workload.waiting
            stale = equal is not item and known is not None and known.reason != wait.reason
            if stale and equal.key not in self.unexplained:
                # What was decided about it before, such as that it is queued, is outdated.
                self.decided.pop(equal.key, None)
                self.enqueue(equal.key, format_instant(equal.workload.created), wait.at)

    def judged(self, wait: Wait, written: model.Waiting | None) -> Wait:
        """The decision; if it says only that the workload was passed over, with the verdict of the equal one.

        Kueue writes that a workload was passed over if its condition stated something before, or with the gate for
        explicit status. We write the same then.
        """
        item = self.engine.item(wait.workload)
        if not isinstance(wait.why, Bypassed) or item is None or self.engine.options.explicit_status:
            return wait
        found = self.engine.pending_reason(item)
        if found is None or (written is not None and written.message != message(Queued())):
            return wait
        return replace(wait, reason=found[0], why=found[1])

    def put(self, wait: Wait, due: Instant) -> None:
        """Schedule the write of a reason."""
        self.decided[wait.workload] = (wait, due)
        self.decided_at = due if self.decided_at is None else min(due, self.decided_at)

    def again(self, wait: Wait, now: Instant) -> None:
        """Reschedule a reason whose write failed, unless a newer one is scheduled."""
        if wait.workload not in self.decided:
            self.put(wait, Instant(now + REWRITE_AFTER))

    def take(self, key: str) -> Wait | None:
        """The reason that the next write of a workload includes; None if there is none."""
        found = self.decided.pop(key, None)
        return None if found is None else found[0]

    def drop(self, key: str) -> None:
        """Cancel the write of a reason, because another writer has set the condition."""
        self.decided.pop(key, None)

    def started(self, now: Instant) -> None:
        """Record an admission or eviction: the API server has more urgent writes."""
        self.busy_at = now

    def written(self, took: int, now: Instant) -> None:
        """Record how long the next cycle had to wait for the writes of the last one.

        By the end of the delay a pending workload was evaluated again, and may have started.
        """
        delay = delay_after(took, ONE_PART_IN)
        # Less than the usual delay is no reason to call the server slow.
        if delay >= WRITE_AFTER and now + delay >= self.slow_until:
            self.slow_delay, self.slow_until = delay, Instant(now + delay)

    # Queries.

    def of(self, key: str) -> Wait | None:
        """The reason why a workload is pending, if its condition does not have it yet."""
        item = self.engine.item(key)
        if item is None or item.workload.admission is not None:
            return None
        known = self.decided.get(key)
        if known is not None and not isinstance(known[0].why, Bypassed):
            return known[0]
        return self.shared(item, self.engine.now) or (None if known is None else known[0])

    def shared(self, item: Item, now: Instant) -> Wait | None:
        """The reason of a workload for which none was decided: that of its class."""
        found = self.engine.pending_reason(item)
        return None if found is None else Wait(item.key, found[0], found[1], now)

    def level(self, key: str, found: model.Workload) -> model.Workload:
        """A Workload with its decided reason applied."""
        known = self.decided.get(key)
        if known is None or found.admission is not None or found.finished:
            return found
        return replace(found, waiting=model.Waiting(known[0].reason, message(known[0].why)))

    # Writes.

    def due(self, now: Instant, *, busy: bool, later: Later) -> list[tuple[Wait, bool]]:
        """The reasons to write now, each with whether the engine decided it for this workload itself.

        `busy` says that many of our writes are in flight; `later` gives the time until which a Workload is left alone.
        """
        found: list[tuple[Wait, bool]] = []
        if self.writes_all:
            found += ((wait, True) for wait in self.due_of_decided(now, busy=busy, later=later))
            found += ((wait, False) for wait in self.due_of_unexplained(now, later=later))
        elif not self.is_writing(now) and now >= self.paused_until:
            found = self.next_of_many(now, busy=busy, later=later)
        return found

    @property
    def writes_all(self) -> bool:
        """Whether so few workloads wait that every reason is written when it is due."""
        return len(self.waiting) <= FEW

    def is_writing(self, now: Instant) -> bool:
        """Whether others wait for the reason that is being written; one that gets no answer does not block them."""
        return bool(self.writing) and now - self.writing_since < DELAY_MICROS_MAX

    def next_of_many(self, now: Instant, *, busy: bool, later: Later) -> list[tuple[Wait, bool]]:
        """The one reason to write now, if any."""
        for own in (self.own_next, not self.own_next):
            if own:
                found = self.due_of_decided(now, busy=busy, later=later, most=1)
            elif self.shared_at is not None and now - self.shared_at < self.shared_every(now):
                continue
            else:
                found = self.due_of_unexplained(now, later=later, most=1)
                self.shared_at = now if found else self.shared_at
            if found:
                self.own_next = not own
                self.writing, self.writing_since = found[0].workload, now
                return [(found[0], own)]
        return []

    def shared_every(self, now: Instant) -> int:
        """How much time is between two writes of verdicts of equal workloads."""
        idle = now >= self.slow_until and (self.busy_at is None or now - self.busy_at >= IDLE_AFTER)
        return SHARED_EVERY_WHEN_IDLE if idle else SHARED_EVERY

    def write_ended(self, key: str, now: Instant) -> None:
        """Record that the writes on a workload have ended."""
        if key == self.writing:
            self.paused_until = Instant(now + delay_after(now - self.writing_since, ONE_PART_IN))
            self.writing = ""

    def due_of_decided(self, now: Instant, *, busy: bool, later: Later, most: int | None = None) -> list[Wait]:
        """The decided reasons that are due, or some of them."""
        if self.decided_at is None or self.decided_at > now:
            return []
        delay = self.delay(now, busy=busy)
        found: list[Wait] = []
        gone: list[str] = []
        soonest: Instant | None = None
        for key, (wait, due) in self.decided.items():
            at = max(Instant(due + delay), later(key) or now)
            if at > now:
                soonest = at if soonest is None else min(soonest, at)
            elif self.engine.item(key) is None:
                gone.append(key)
            else:
                found.append(wait)
                if len(found) == most:
                    break
        else:
            # The server may be less busy a second from now.
            self.decided_at = soonest if soonest is None or not delay else min(soonest, Instant(now + WRITE_AFTER))
        for key in gone:
            del self.decided[key]
        return found

    def delay(self, now: Instant, *, busy: bool) -> int:
        """How much longer decided reasons are held back at present."""
        if self.writes_all:
            return 0
        return max(self.slow_delay if now < self.slow_until else 0, BUSY_DELAY if busy else 0)

    def due_of_unexplained(self, now: Instant, *, later: Later, most: int | None = None) -> list[Wait]:
        """The verdicts of equal workloads, for the oldest that have none of their own: all that are due, or some."""
        found: list[Wait] = []
        unsettled: list[tuple[str, int, str]] = []
        while self.by_age and len(found) != most:
            key = self.by_age[0][2]
            due = self.unexplained.get(key)
            if due is not None and due > now:
                break
            entry = heappop(self.by_age)
            item = self.engine.item(key)
            if due is None or item is None:
                continue
            if self.engine.awaits_review(key) or self.is_next(item, now):
                # The engine has not put it in its place yet, or is about to evaluate it.
                unsettled.append(entry)
                continue
            del self.unexplained[key]
            wait = None if key in self.decided or later(key) is not None else self.shared(item, now)
            if wait is not None:
                self.decided[key] = (wait, now)
                found.append(wait)
        for entry in unsettled:
            self.unexplained[entry[2]] = Instant(now + WRITE_AFTER)
            heappush(self.by_age, entry)
        return found

    def is_next(self, item: Item, now: Instant) -> bool:
        """Whether a new workload has only not been evaluated yet, while others are admitted."""
        if self.busy_at is None or now - self.busy_at >= WRITE_AFTER or now - item.workload.created >= BUSY_DELAY:
            return False
        found = self.engine.pending_reason(item)
        return found is not None and isinstance(found[1], Queued)

    def next_due(self, now: Instant) -> Instant | None:
        """When there may be something to write, after what was due has been written."""
        while self.by_age and self.by_age[0][2] not in self.unexplained:
            heappop(self.by_age)
        found = [] if self.decided_at is None else [self.decided_at]
        if self.by_age:
            at = self.unexplained[self.by_age[0][2]]
            every = 0 if self.writes_all or self.shared_at is None else self.shared_every(now)
            found.append(max(at, Instant((self.shared_at or 0) + every)))
        if not found or self.writes_all:
            return min(found, default=None)
        # The end of a write wakes the caller.
        return max(min(found), Instant(now + WRITE_AFTER) if self.is_writing(now) else self.paused_until)

    def clear(self) -> None:
        """Drop all decided reasons, because this process no longer leads."""
        self.decided.clear()
