"""All SQL statements, on one connection for writes and one for reads.

The file is in WAL mode with full durability: a write that has returned survives a power failure. `datafile` opens and
locks the file; `store` decides what is written and when.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeAlias

from pykueue.apiserver.storage.records import Change, Key, StoredObject, StoreError
from pykueue.apiserver.storage.reserve import CHECKPOINT_PAGES, Reserve

Row: TypeAlias = tuple[int, int | None, str, str, str, str, str, bytes]
"""A revision: version, previous version, type, resource, namespace, name, uid, body."""

TOGETHER: Final = 64
"""The most revisions in one statement. Each number of rows is a separate statement in the connection's cache."""
STATEMENTS: Final = 128
CACHE_KIB: Final = 8 * 1024
BATCH_BYTES: Final = 1024 * 1024
"""A commit is not much larger than this, so that it fits into the reserve."""
WAL_BYTES: Final = 64 * 1024 * 1024
PAGE_BYTES: Final = 4096

GET: Final = """
    SELECT r.version, r.uid, r.body FROM objects o CROSS JOIN revisions r ON r.version = o.version
    WHERE o.resource = ? AND o.namespace = ? AND o.name = ?
"""
# CROSS JOIN: objects are read in the order of their key, so that the list needs no sorting.
PAGE: Final = """
    SELECT o.namespace, o.name, r.version, r.uid, r.body
    FROM objects o CROSS JOIN revisions r ON r.version = o.version
    WHERE o.resource = ? AND (o.namespace, o.name) > (?, ?) ORDER BY o.namespace, o.name LIMIT ?
"""
PAGE_IN: Final = """
    SELECT o.namespace, o.name, r.version, r.uid, r.body
    FROM objects o CROSS JOIN revisions r ON r.version = o.version
    WHERE o.resource = ? AND o.namespace = ? AND o.name > ? ORDER BY o.name LIMIT ?
"""
COUNT: Final = "SELECT count(*) FROM objects WHERE resource = ?"
COUNT_IN: Final = "SELECT count(*) FROM objects WHERE resource = ? AND namespace = ?"
EXISTS: Final = "SELECT 1 FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
CHANGES: Final = """
    SELECT r.version, r.namespace, r.name, r.how, r.body, p.body
    FROM revisions r LEFT JOIN revisions p ON p.version = r.previous
    WHERE r.version > ? AND r.version <= ? AND r.resource = ? ORDER BY r.version LIMIT ?
"""
FORGET: Final = (
    # A body is needed as long as the change that replaced it is in the log.
    "DELETE FROM revisions WHERE version IN (SELECT previous FROM revisions WHERE version > :since AND version <= :to)",
    "DELETE FROM revisions WHERE version > :since AND version <= :to AND how = 'DELETED'",
    "UPDATE state SET compacted = max(compacted, :to)",
)


@cache
def inserting(rows: int) -> str:
    """The statement that inserts this many revisions; a single statement is a single transaction."""
    return f"INSERT INTO revisions VALUES {','.join(['(?,?,?,?,?,?,?,?)'] * rows)}"


def connected(place: str) -> sqlite3.Connection:
    """A connection in autocommit mode."""
    connection = sqlite3.connect(
        place, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS, timeout=5
    )
    try:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in ("wal", "memory"):
            raise sqlite3.OperationalError("its file system does not support shared memory; use a local disk")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        # Deleted content is overwritten where that costs no additional writes.
        connection.execute("PRAGMA secure_delete = FAST")
    except BaseException:
        connection.close()
        raise
    return connection


class Database:
    """The tables. One thread at a time writes, the event loop's reads; in memory both use one connection."""

    def __init__(self, place: str, writer: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        self.place = place
        """The file's name, for messages."""
        self.writer = writer
        self.reader = reader
        self.reserve: Reserve | None = None
        """The disk space that is kept for the file; None in memory."""

    def keep_reserve(self, reserve: Reserve) -> None:
        """Keep disk space for the file, and keep the WAL within it."""
        self.reserve = reserve
        self.writer.execute(f"PRAGMA wal_autocheckpoint = {reserve.checkpoint_pages(BATCH_BYTES)}")
        self.note_free()

    def note_free(self) -> None:
        """Tell the reserve how much of the file is free."""
        if self.reserve is not None:
            (pages,) = self.writer.execute("PRAGMA freelist_count").fetchone()
            self.reserve.free = pages * PAGE_BYTES

    def rows(self, statement: str, *values: str | int, most: int = 0) -> list[tuple[Any, ...]]:
        """The rows of a query; with `most`, only until their bytes reach that number."""
        try:
            found = self.reader.execute(statement, values)
            return until(found, most) if most else found.fetchall()
        except UnicodeEncodeError:
            # A lone surrogate, which clients may send: no stored name contains one.
            return []
        except sqlite3.ProgrammingError as error:
            raise StoreError(f"{self.place}: is closed; it can no longer be read") from error
        except sqlite3.DatabaseError as error:
            raise unreadable(self.place, error) from error

    def number(self, statement: str, *values: str | int) -> int:
        """The single number of a query; 0 if there is no row."""
        for (found,) in self.rows(statement, *values):
            assert found is None or isinstance(found, int), f"{statement!r} reads no number"
            return found or 0
        return 0

    def compacted(self) -> int:
        """The version up to which changes may be missing from the log."""
        return self.number("SELECT compacted FROM state")

    def version(self) -> int:
        """The last version given to anything stored; never 0, which Kubernetes treats as unset."""
        return max(self.number("SELECT max(version) FROM revisions"), self.compacted(), 1)

    def get(self, key: Key) -> StoredObject | None:
        """An object; None if it does not exist."""
        for version, uid, body in self.rows(GET, key.resource, key.namespace, key.name):
            return StoredObject(key, version, uid, body)
        return None

    def page(
        self, resource: str, namespace: str, after: tuple[str, str], limit: int, *, most: int = 0
    ) -> list[StoredObject]:
        """Objects sorted by namespace and name, after this position; -1 means no limit.

        With `most`, the page ends with the object that brings it to this many bytes.
        """
        found = (
            self.rows(PAGE_IN, resource, namespace, after[1] if after[0] == namespace else "", limit, most=most)
            if namespace
            else self.rows(PAGE, resource, *after, limit, most=most)
        )
        return [
            StoredObject(Key(resource, inside, name), version, uid, body) for inside, name, version, uid, body in found
        ]

    def count(self, resource: str, namespace: str, but: Sequence[Key]) -> int:
        """The number of objects, except those in `but`."""
        # In one transaction: the writer's thread may commit between two statements.
        self.rows("BEGIN")
        try:
            total = self.number(COUNT_IN, resource, namespace) if namespace else self.number(COUNT, resource)
            return total - sum(bool(self.rows(EXISTS, key.resource, key.namespace, key.name)) for key in but)
        finally:
            self.rows("COMMIT")

    def changes(self, resource: str, *, after: int, to: int, limit: int, most: int = 0) -> list[Change]:
        """Logged changes of a resource after one version and up to another, oldest first.

        With `most`, the last change is the one that brings them to this many bytes.
        """
        return [
            Change(version, Key(resource, namespace, name), how, body, before)
            for version, namespace, name, how, body, before in self.rows(CHANGES, after, to, resource, limit, most=most)
        ]

    def write(self, rows: Sequence[Row]) -> dict[int, Exception]:
        """Store revisions durably; returns the positions of those that failed, and why.

        If they cannot be stored together, each is tried separately, except those that are based on one that failed.
        """
        try:
            self.insert(rows)
        except Exception as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                # Another program writes to the file; fail all writes instead of waiting again.
                return dict.fromkeys(range(len(rows)), error)
            return self.write_singly(rows)
        if self.reserve is not None:
            self.note_free()
            self.reserve.keep()
        return {}

    def insert(self, rows: Sequence[Row]) -> None:
        """Store all revisions or none."""
        if len(rows) <= TOGETHER:
            self.writer.execute(inserting(len(rows)), [value for row in rows for value in row])
            return
        self.writer.execute("BEGIN IMMEDIATE")
        try:
            for start in range(0, len(rows), TOGETHER):
                some = rows[start : start + TOGETHER]
                self.writer.execute(inserting(len(some)), [value for row in some for value in row])
            self.writer.execute("COMMIT")
        except BaseException:
            self.roll_back()
            raise

    def write_singly(self, rows: Sequence[Row]) -> dict[int, Exception]:
        """Store each revision that can be stored; returns the positions of the rest, and why."""
        # A checkpoint may free space in the WAL.
        self.checkpoint()
        failed: dict[int, Exception] = {}
        lost: dict[tuple[str, str, str], Exception] = {}
        for place, row in enumerate(rows):
            key = row[3:6]
            if key not in lost:
                try:
                    self.insert([row])
                except Exception as error:
                    lost[key] = error
            if key in lost:
                failed[place] = lost[key]
        return failed

    def forget(self, *, since: int, to: int) -> bool:
        """Delete the log between two versions; returns whether that succeeded."""
        try:
            self.writer.execute("BEGIN IMMEDIATE")
            for statement in FORGET:
                self.writer.execute(statement, {"since": since, "to": to})
            self.writer.execute("COMMIT")
        except sqlite3.Error:
            self.roll_back()
            return False
        self.note_free()
        return True

    def checkpoint(self) -> bool:
        """Checkpoint the WAL so that its space is reused; returns whether that succeeded."""
        try:
            self.writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error:
            return False
        finally:
            # A checkpoint truncates the file to its content.
            if self.reserve is not None:
                self.reserve.hold()
        return True

    def roll_back(self) -> None:
        """Roll back an open transaction; SQLite has often done so already."""
        if self.writer.in_transaction:
            self.writer.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connections."""
        # The last connection to close checkpoints the WAL; if that fails, the WAL stays and nothing is lost.
        with suppress(sqlite3.Error):
            self.reader.close()
            self.writer.close()
        if self.reserve is not None:
            self.reserve.close()


def until(cursor: sqlite3.Cursor, most: int) -> list[tuple[object, ...]]:
    """The first rows, up to the one that brings their bytes to `most`."""
    found: list[tuple[object, ...]] = []
    size = 0
    try:
        for row in cursor:
            found.append(row)
            size += sum(len(value) for value in row if isinstance(value, bytes))
            if size >= most:
                break
    finally:
        # An unfinished cursor would hold a read transaction open.
        cursor.close()
    return found


def unreadable(place: str, error: Exception) -> StoreError:
    """The error for a read from a damaged file."""
    return StoreError(
        f"{place}: cannot be read ({error}); stop pykueue, check the disk, "
        f"and restore a backup with `pykueue restore BACKUP`"
    )
