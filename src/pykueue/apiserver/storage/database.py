"""All SQL statements, on one connection for writes and one for reads.

The file is in WAL mode with full durability: a write that has returned survives a power failure. `datafile` opens and
locks the file; `store` decides what is written and when.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Final, TypeAlias

from pykueue.apiserver.storage.records import Change, Key, StoredObject, StoreError

Row: TypeAlias = tuple[int, int | None, str, str, str, str, str, bytes]
"""A revision: version, version before it, how, resource, namespace, name, uid, body."""

TOGETHER: Final = 64
"""Most revisions in one statement. Each number of rows is a statement of its own in the connection's cache."""
STATEMENTS: Final = 128
CACHE_KIB: Final = 8 * 1024
CHECKPOINT_PAGES: Final = 4_000
"""The log that SQLite copies into the file by itself, when no idle moment came before that: 16 MiB."""
WAL_BYTES: Final = 64 * 1024 * 1024

GET: Final = """
    SELECT r.version, r.uid, r.body FROM objects o CROSS JOIN revisions r ON r.version = o.version
    WHERE o.resource = ? AND o.namespace = ? AND o.name = ?
"""
# CROSS JOIN: the order of the objects' key is the order of the list, so that nothing needs sorting.
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
    """The statement that adds so many revisions; being one statement, it is one transaction too."""
    return f"INSERT INTO revisions VALUES {','.join(['(?,?,?,?,?,?,?,?)'] * rows)}"


def connected(place: str) -> sqlite3.Connection:
    """A connection on which each statement is a transaction unless told otherwise."""
    connection = sqlite3.connect(
        place, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS, timeout=5
    )
    try:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in ("wal", "memory"):
            raise sqlite3.OperationalError("its file system cannot share memory between processes, use a local disk")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        # What was deleted is overwritten where that costs no further writing.
        connection.execute("PRAGMA secure_delete = FAST")
    except BaseException:
        connection.close()
        raise
    return connection


class Database:
    """The tables. Writing belongs to one thread at a time, reading to the event loop's; in memory both are one."""

    def __init__(self, place: str, writer: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        self.place = place
        """The file's name, for messages."""
        self.writer = writer
        self.reader = reader

    def rows(self, statement: str, *values: str | int, most: int = 0) -> list[tuple[object, ...]]:
        """The rows that a statement reads; with `most`, only until their bytes come to so many."""
        try:
            found = self.reader.execute(statement, values)
            return until(found, most) if most else found.fetchall()
        except UnicodeEncodeError:
            # Half a character, as clients may send it: nothing of that name can have been stored.
            return []
        except sqlite3.ProgrammingError as error:
            raise StoreError(f"{self.place}: is closed; nothing more is read") from error
        except sqlite3.DatabaseError as error:
            raise unreadable(self.place, error) from error

    def number(self, statement: str, *values: str | int) -> int:
        """The one number that a statement reads; 0 where it is absent."""
        for (found,) in self.rows(statement, *values):
            assert found is None or isinstance(found, int), f"{statement!r} reads no number"
            return found or 0
        return 0

    def compacted(self) -> int:
        """The version up to which changes may be missing from the log."""
        return self.number("SELECT compacted FROM state")

    def version(self) -> int:
        """The last version that was given to anything stored; never 0, which Kubernetes takes for no version."""
        return max(self.number("SELECT max(version) FROM revisions"), self.compacted(), 1)

    def get(self, key: Key) -> StoredObject | None:
        """An object; None where it does not exist."""
        for version, uid, body in self.rows(GET, key.resource, key.namespace, key.name):
            return StoredObject(key, version, uid, body)  # type: ignore[arg-type]  # the schema says which column holds what
        return None

    def page(
        self, resource: str, namespace: str, after: tuple[str, str], limit: int, *, most: int = 0
    ) -> list[StoredObject]:
        """Objects in the order of namespace and name, from the first one after this; -1 is no limit.

        With `most`, the page ends with the object that brings its bytes to so many.
        """
        found = (
            self.rows(PAGE_IN, resource, namespace, after[1] if after[0] == namespace else "", limit, most=most)
            if namespace
            else self.rows(PAGE, resource, *after, limit, most=most)
        )
        return [
            StoredObject(Key(resource, inside, name), version, uid, body)  # type: ignore[arg-type]  # as above
            for inside, name, version, uid, body in found
        ]

    def count(self, resource: str, namespace: str, but: Sequence[Key]) -> int:
        """How many objects there are besides some."""
        # Of one moment: the writer's thread may commit between two statements.
        self.rows("BEGIN")
        try:
            total = self.number(COUNT_IN, resource, namespace) if namespace else self.number(COUNT, resource)
            return total - sum(bool(self.rows(EXISTS, key.resource, key.namespace, key.name)) for key in but)
        finally:
            self.rows("COMMIT")

    def changes(self, resource: str, *, after: int, to: int, limit: int, most: int = 0) -> list[Change]:
        """What the log holds of a resource after one version and up to another, oldest first.

        With `most`, the last one is the one that brings their bytes to so many.
        """
        return [
            Change(version, Key(resource, namespace, name), how, body, before)  # type: ignore[arg-type]  # as above
            for version, namespace, name, how, body, before in self.rows(CHANGES, after, to, resource, limit, most=most)
        ]

    def write(self, rows: Sequence[Row]) -> dict[int, Exception]:
        """Store revisions for good; the places of those that could not be, and why.

        Where not all of them can be stored together, each is tried by itself, but for those that were built upon one
        that failed.
        """
        try:
            self.insert(rows)
        except Exception as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                # Another program writes to the file, and we have waited long enough for all of them.
                return dict.fromkeys(range(len(rows)), error)
            return self.write_singly(rows)
        return {}

    def insert(self, rows: Sequence[Row]) -> None:
        """Store revisions, all of them or none."""
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
        """Store what can be stored; the places of the rest, and why."""
        # What the log holds already may be copied into the file, and then its room is free again.
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
        """Take changes after one version and up to another out of the log; whether that could be done."""
        try:
            self.writer.execute("BEGIN IMMEDIATE")
            for statement in FORGET:
                self.writer.execute(statement, {"since": since, "to": to})
            self.writer.execute("COMMIT")
        except sqlite3.Error:
            self.roll_back()
            return False
        return True

    def checkpoint(self) -> bool:
        """Copy SQLite's own log into the file, so that its room is used again; whether that could be done."""
        try:
            self.writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error:
            return False
        return True

    def roll_back(self) -> None:
        """Undo what was begun; SQLite has often done so by itself."""
        if self.writer.in_transaction:
            self.writer.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the file."""
        # The last one to close copies SQLite's log into the file; if that fails, the log stays, and nothing is lost.
        with suppress(sqlite3.Error):
            self.reader.close()
            self.writer.close()


def until(cursor: sqlite3.Cursor, most: int) -> list[tuple[object, ...]]:
    """The first rows, up to the one that brings their bytes to so many."""
    found: list[tuple[object, ...]] = []
    size = 0
    try:
        for row in cursor:
            found.append(row)
            size += sum(len(value) for value in row if isinstance(value, bytes))
            if size >= most:
                break
    finally:
        # What is not read must not keep the database at this moment.
        cursor.close()
    return found


def unreadable(place: str, error: Exception) -> StoreError:
    """What to tell whoever reads from a damaged file."""
    return StoreError(
        f"{place}: cannot be read ({error}); stop pykueue, see that the disk is sound, "
        f"and put a backup in its place with `pykueue restore BACKUP`"
    )
