"""Creates, locks, checks, upgrades, copies and restores the database file.

A new file gets its name only when it is complete, so that an empty file is never mistaken for a new one.
"""

import fcntl
import os
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from pykueue.apiserver.storage.database import Database, connected
from pykueue.apiserver.storage.migrations import APPLICATION, STEPS
from pykueue.apiserver.storage.records import StoreError
from pykueue.apiserver.storage.reserve import Reserve, release_half
from pykueue.base.datafolder import synced

CHECKED_WHOLE: Final = 32 * 1024 * 1024
"""A larger file is not read from end to end when it is opened, which would take seconds."""
JUMP: Final = 1_000_000_000
"""How far versions advance at a restore, so that none given out since the backup is reused."""
HEADER_BYTES: Final = 100
APPLICATION_AT: Final = slice(68, 72)
"""The offset of SQLite's application id in the header."""
BESIDE: Final = ("-wal", "-shm")
"""Suffixes of SQLite's files beside a database."""


class Lock:
    """The exclusive lock of a data file for the life of this process; a file beside it names the process."""

    def __init__(self, path: Path) -> None:
        beside = path.with_name(f"{path.name}.lock")
        self.handle = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self.handle, 32, 0).decode("ascii", "replace").strip()
            os.close(self.handle)
            raise StoreError(
                f"{path}: in use by process {holder or '(unknown)'}; stop that with "
                f"`pykueue down --data {shlex.quote(str(path.parent))}`, or choose another directory with --data"
            ) from None
        os.ftruncate(self.handle, 0)
        with suppress(OSError):
            # On a full disk it is not written; only messages name the process.
            os.pwrite(self.handle, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Release the lock."""
        if self.handle >= 0:
            os.ftruncate(self.handle, 0)
            os.close(self.handle)
            self.handle = -1


def in_memory() -> Database:
    """An empty in-memory database."""
    connection = connected(":memory:")
    upgrade(connection, 0)
    return Database("the store in memory", connection, connection)


def opened(path: Path) -> tuple[Database, Lock]:
    """The database in a file, created if it is missing, and its lock; raises `StoreError` if that fails."""
    with explained(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = Lock(path)
        try:
            release_half(path)
            if not path.exists():
                create(path)
            database = checked(path)
            database.keep_reserve(Reserve(path))
            return database, lock
        except BaseException:
            lock.close()
            raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise errors of the disk and of SQLite as a `StoreError` that says what to do."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror}); check that this user can write to {path.parent} and "
            f"that the disk is not full, or choose another directory with --data"
        ) from error
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"{path}: cannot be opened ({error}); check that this user can write to {path.parent} and all "
            f"files in it and that the disk is not full, or choose another directory with --data"
        ) from error
    except sqlite3.DatabaseError as error:
        raise damaged(path, str(error)) from error


def damaged(path: Path, what: str) -> StoreError:
    """The error for a damaged file."""
    return StoreError(
        f"{path}: is damaged ({what}) and was not changed; restore a backup with `pykueue restore BACKUP`, or move "
        f"{path.name} and the files next to it whose names start with that to another directory to start over"
    )


def create(path: Path) -> None:
    """Create an empty database under this name."""
    for ending in BESIDE:
        beside = path.with_name(path.name + ending)
        if beside.exists():
            # SQLite would treat it as a part of the new file.
            raise StoreError(
                f"{path}: is missing, but {beside.name} with the latest writes exists; put {path.name} back, "
                f"or move {beside.name} to another directory to start over"
            )
    with replacing(path) as fresh, closing(connected(str(fresh))) as connection:
        upgrade(connection, 0)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """An empty file with mode 0600 that durably replaces the given name if the block succeeds."""
    fresh = path.with_name(f"{path.name}.new")
    for ending in ("", *BESIDE):
        fresh.with_name(fresh.name + ending).unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        yield fresh
        synced(fresh)
        fresh.replace(path)
        synced(path.parent)
    except BaseException:
        for ending in ("", *BESIDE):
            with suppress(OSError):
                fresh.with_name(fresh.name + ending).unlink(missing_ok=True)
        raise


def checked(path: Path) -> Database:
    """The database in an existing file, if it is ours and undamaged, upgraded to the current schema."""
    recognise(path)
    with ExitStack() as undo:
        writer = undo.enter_context(closing(connected(str(path))))
        schema = examined(path, writer)
        if schema < len(STEPS):
            upgrade(writer, schema)
        reader = undo.enter_context(closing(connected(str(path))))
        database = Database(str(path), writer, reader)
        database.version()
        undo.pop_all()
    return database


def recognise(path: Path) -> None:
    """Raise `StoreError` if a file does not start with our header, so that SQLite does not touch it."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if not header:
        raise damaged(path, "it is empty")
    if not header.startswith(b"SQLite format 3\0") or header[APPLICATION_AT] != APPLICATION.to_bytes(4, "big"):
        raise damaged(path, "it is no store of pykueue's")


def examined(path: Path, connection: sqlite3.Connection) -> int:
    """The schema version of a file, if it is undamaged and the version is known.

    A large file is not read from end to end; damage in it is found when that part is read.
    """
    schema = pragma(connection, "user_version")
    if schema > len(STEPS):
        raise StoreError(
            f"{path}: was written by a newer pykueue (schema {schema}, this version reads {len(STEPS)}); "
            f"install that version again, or choose another directory with --data"
        )
    pages = pragma(connection, "page_count") * pragma(connection, "page_size")
    if pages <= CHECKED_WHOLE:
        (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if said != "ok":
            raise damaged(path, str(said).replace("\n", " "))
    return schema


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """The value of a numeric SQLite pragma."""
    (found,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(found)


def upgrade(connection: sqlite3.Connection, schema: int) -> None:
    """Run all migration steps from this schema version to the current one, or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in STEPS[schema:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(STEPS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def backup(path: Path, target: Path) -> None:
    """Write a consistent copy of a data file, whether or not a process uses it."""
    if not path.exists():
        raise StoreError(f"{path}: is missing, so there is nothing to back up; check --data")
    with explained(path):
        recognise(path)
        with closing(connected(str(path))) as connection:
            examined(path, connection)
            copy(connection, target)


def copy(connection: sqlite3.Connection, target: Path) -> None:
    """Write what a connection sees to a new file."""
    if target.exists():
        raise StoreError(f"{target}: file exists; choose another name, or remove it")
    with explained(target), replacing(target) as fresh:
        connection.execute("VACUUM INTO ?", (str(fresh),))


def restore(source: Path, path: Path) -> None:
    """Replace a data file that no process uses with a backup; the old file is kept beside it (`aside`).

    The watch log is dropped and versions jump ahead, so watchers of the former data must list again.
    """
    if not source.exists():
        raise StoreError(f"{source}: no such file; name a file written by `pykueue backup`")
    with explained(source):
        recognise(source)
        with closing(sqlite3.connect(source)) as origin:
            examined(source, origin)
    with explained(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(Lock(path)), replacing(path) as fresh:
            with closing(sqlite3.connect(source)) as origin, closing(connected(str(fresh))) as connection:
                origin.backup(connection)
            with closing(checked(fresh)) as database:
                version = database.version()
                database.forget(since=database.compacted(), to=version)
                database.forget(since=version, to=version + JUMP)
            # Before any move: after a crash, either the old or the new file must exist.
            synced(fresh)
            old = aside(path)
            for ending in ("", *BESIDE):
                beside = path.with_name(path.name + ending)
                if beside.exists():
                    beside.replace(old.with_name(old.name + ending))


def aside(path: Path) -> Path:
    """An unused name to keep a file under: `….old`, then `….old2` and so on."""
    for number in count(1):
        old = path.with_name(f"{path.name}.old{number if number > 1 else ''}")
        if not any(old.with_name(old.name + ending).exists() for ending in ("", *BESIDE)):
            return old
    raise AssertionError("there is no last number")
