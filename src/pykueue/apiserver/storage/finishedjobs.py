"""The table of finished Jobs: what became of each, bounded in number and age.

When it is full, the oldest rows of the namespace with the most go first, so that nobody's rows displace those of all
others. The rows of a namespace go with it, by a trigger; none is written for a namespace that is gone.

A row is written once per Job, by its UID, so that writing it again changes nothing. A Job that is deleted before it has
a row leaves its last state in `dropped_jobs`, by a trigger and in the same transaction; the row that is written for it
later removes it from there.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from pykueue.api.jobsummary import FinishedJob
from pykueue.apiserver.storage.store import FullError, Store
from pykueue.base.units import MICROS, Instant, parse_instant

ROWS_MAX: Final = 100_000
"""How many rows are kept."""
AGE_MAX_MICROS: Final = 90 * 24 * 3600 * MICROS
"""How long rows are kept after the end of their Job."""
PRUNED: Final = 200
"""How many of the oldest rows are checked for their age at a time."""

ADD: Final = """
    INSERT OR IGNORE INTO finished (uid, namespace, name, ended, body) SELECT ?, ?, ?, ?, ?
    WHERE EXISTS (SELECT 1 FROM objects WHERE resource = 'namespaces' AND namespace = '' AND name = ?)
"""
SETTLE: Final = "DELETE FROM dropped_jobs WHERE uid = ?"
COUNTS: Final = "SELECT namespace, count(*) FROM finished GROUP BY namespace"
OLDEST_IN: Final = "SELECT ended FROM finished WHERE namespace = ? ORDER BY number LIMIT 1"
PRUNE_MANY: Final = """
    DELETE FROM finished
    WHERE number IN (SELECT number FROM finished WHERE namespace = ? ORDER BY number LIMIT ?)
"""
PRUNE_OLD: Final = """
    DELETE FROM finished WHERE number IN (SELECT number FROM finished ORDER BY number LIMIT ?) AND ended < ?
"""
PAGE: Final = "SELECT number, body FROM finished WHERE number < ? ORDER BY number DESC LIMIT ?"
PAGE_IN: Final = "SELECT number, body FROM finished WHERE namespace = ? AND number < ? ORDER BY number DESC LIMIT ?"
RECENT: Final = "SELECT namespace, name, ended FROM finished WHERE ended >= ? AND number > ?"
SPAN: Final = "SELECT (SELECT max(number) FROM finished) - (SELECT min(number) FROM finished) + 1"
"""At least the number of rows, and quick to read."""
NEWEST: Final = "SELECT max(number) FROM finished"
LAST_END: Final = "SELECT max(ended) FROM (SELECT ended FROM finished ORDER BY number DESC LIMIT 1000)"
DROPPED: Final = "SELECT body FROM dropped_jobs LIMIT ?"
END: Final = 2**62
RECENT_ROWS: Final = 20_000
"""How many of the newest rows `recent` reads."""


class FinishedJobs:
    """The table in a store."""

    def __init__(self, store: Store, rows_max: int = ROWS_MAX) -> None:
        self.store = store
        self.rows_max = rows_max

    async def add(self, jobs: Sequence[FinishedJob], now: Instant) -> None:
        """Store rows durably, and drop those that are too many or too old; raises `FullError` if that fails."""
        error = await self.store.chore(partial(self.written, tuple(jobs), Instant(now - AGE_MAX_MICROS)))
        if error is not None:
            raise FullError(f"finished Jobs: could not be stored ({error}); check the disk and its free space")

    def written(self, jobs: Sequence[FinishedJob], limit: Instant) -> Exception | None:
        """Store rows in one transaction; returns the error if that fails. Runs in the writer's thread."""
        database = self.store.database
        ends = [(one, parse_instant(one.ended)) for one in jobs]
        try:
            database.writer.execute("BEGIN IMMEDIATE")
            oldest = self.oldest(limit)
            database.writer.executemany(
                ADD,
                [
                    (one.uid, one.namespace, one.name, ended, msgspec.json.encode(one), one.namespace)
                    for one, ended in ends
                    if ended >= oldest.get(one.namespace, limit)
                ],
            )
            database.writer.executemany(SETTLE, [(one.uid,) for one in jobs])
            counts = self.counts()
            database.writer.executemany(PRUNE_MANY, surplus(counts, sum(counts.values()) - self.rows_max).items())
            database.writer.execute(PRUNE_OLD, (PRUNED, limit))
            database.writer.execute("COMMIT")
        except sqlite3.Error as error:
            database.roll_back()
            return error
        return None

    def counts(self) -> dict[str, int]:
        """How many rows each namespace has; empty if all together are clearly not too many."""
        (span,) = self.store.database.writer.execute(SPAN).fetchone()
        return {} if (span or 0) < self.rows_max else dict(self.store.database.writer.execute(COUNTS).fetchall())

    def oldest(self, limit: Instant) -> dict[str, Instant]:
        """The end of the oldest row of each namespace that loses rows, while the table is full.

        A row that was dropped before is thus not written again.
        """
        counts = self.counts()
        if sum(counts.values()) < self.rows_max:
            return {}
        most = max(counts.values(), default=0)
        found = {}
        for namespace, count in counts.items():
            if count >= most - 1:
                (ended,) = self.store.database.writer.execute(OLDEST_IN, (namespace,)).fetchone()
                found[namespace] = Instant(max(limit, ended))
        return found

    def page(self, namespace: str = "", *, before: int = 0, limit: int) -> list[tuple[int, bytes]]:
        """Rows with their numbers, the newest first, from below a number; all namespaces without one."""
        start = before or END
        database = self.store.database
        if namespace:
            return [(number, body) for number, body in database.rows(PAGE_IN, namespace, start, limit)]
        return [(number, body) for number, body in database.rows(PAGE, start, limit)]

    def last_end(self) -> Instant:
        """About when the last Job of the table ended; 0 if it is empty."""
        return Instant(self.store.database.number(LAST_END))

    def recent(self, since: Instant) -> set[tuple[str, str, Instant]]:
        """Namespace, name and end of the Jobs of the table that ended since; a few may be missing."""
        database = self.store.database
        first = database.number(NEWEST) - RECENT_ROWS
        return {(namespace, name, Instant(ended)) for namespace, name, ended in database.rows(RECENT, since, first)}

    def dropped(self, limit: int) -> list[bytes]:
        """The last state of Jobs that were deleted and have no row yet."""
        return [body for (body,) in self.store.database.rows(DROPPED, limit)]


def surplus(counts: Mapping[str, int], excess: int) -> dict[str, int]:
    """How many rows each namespace loses so that all together lose so many: those with the most lose first."""
    found: dict[str, int] = {}
    heap = [(-count, namespace) for namespace, count in counts.items()]
    heapify(heap)
    while excess > 0 and heap:
        count, namespace = heappop(heap)
        # Down to one less than the next one has, so that the number of rounds depends on namespaces, not on rows.
        lost = min(excess, max(1, -count + heap[0][0] + 1) if heap else -count)
        found[namespace] = found.get(namespace, 0) + lost
        excess -= lost
        if -count > lost:
            heappush(heap, (count + lost, namespace))
    return found
