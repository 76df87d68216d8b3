"""The database schema as migration steps, each from one schema version to the next.

A revision is one write of one object, and the only row that holds its body. `objects` points to the last revision of
each object that exists; triggers maintain it, so that a batch of writes is one statement. Revisions that `objects` does
not point to are the watch log, until they are compacted.
"""

from typing import Final

STEPS: Final[tuple[tuple[str, ...], ...]] = (
    (
        # The small columns come before the body, so that scanning the log reads no overflow pages.
        """
        CREATE TABLE revisions (
            version INTEGER PRIMARY KEY,
            previous INTEGER,
            how TEXT NOT NULL,
            resource TEXT NOT NULL,
            namespace TEXT NOT NULL,
            name TEXT NOT NULL,
            uid TEXT NOT NULL,
            body BLOB NOT NULL
        )
        """,
        """
        CREATE TABLE objects (
            resource TEXT NOT NULL,
            namespace TEXT NOT NULL,
            name TEXT NOT NULL,
            version INTEGER NOT NULL,
            PRIMARY KEY (resource, namespace, name)
        ) WITHOUT ROWID
        """,
        """
        CREATE TRIGGER object_written AFTER INSERT ON revisions WHEN NEW.how <> 'DELETED' BEGIN
            INSERT INTO objects VALUES (NEW.resource, NEW.namespace, NEW.name, NEW.version)
            ON CONFLICT (resource, namespace, name) DO UPDATE SET version = excluded.version;
        END
        """,
        """
        CREATE TRIGGER object_dropped AFTER INSERT ON revisions WHEN NEW.how = 'DELETED' BEGIN
            DELETE FROM objects
            WHERE resource = NEW.resource AND namespace = NEW.namespace AND name = NEW.name;
        END
        """,
        # `compacted`: changes up to this version may be missing from the log, and no version up to it is reused.
        "CREATE TABLE state (compacted INTEGER NOT NULL)",
        "INSERT INTO state VALUES (0)",
    ),
    (
        # What became of each Job, in the order in which they ended; see `finishedjobs`.
        """
        CREATE TABLE finished (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            uid TEXT NOT NULL UNIQUE,
            namespace TEXT NOT NULL,
            name TEXT NOT NULL,
            ended INTEGER NOT NULL,
            body BLOB NOT NULL
        )
        """,
        "CREATE INDEX finished_in ON finished (namespace, number)",
        # Jobs that were deleted without a row in `finished`. A trigger adds them in the transaction of the deletion, so
        # that a crash loses none.
        "CREATE TABLE dropped_jobs (uid TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
        """
        CREATE TRIGGER job_dropped AFTER INSERT ON revisions
        WHEN NEW.how = 'DELETED' AND NEW.resource = 'jobs.batch' BEGIN
            INSERT OR REPLACE INTO dropped_jobs
            SELECT NEW.uid, NEW.body WHERE NOT EXISTS (SELECT 1 FROM finished WHERE uid = NEW.uid);
        END
        """,
    ),
    (
        # What became of the Jobs of a namespace goes with it: the next one of its name may be another user's.
        """
        CREATE TRIGGER namespace_dropped AFTER INSERT ON revisions
        WHEN NEW.how = 'DELETED' AND NEW.resource = 'namespaces' BEGIN
            DELETE FROM finished WHERE namespace = NEW.name;
            DELETE FROM dropped_jobs WHERE json_extract(CAST(body AS TEXT), '$.metadata.namespace') = NEW.name;
        END
        """,
        """
        DELETE FROM finished WHERE namespace NOT IN (SELECT name FROM objects WHERE resource = 'namespaces')
        """,
    ),
)
"""The statements of each step; a new file gets all of them, an older one those that it lacks."""

APPLICATION: Final = 0x70796B75
"""The SQLite application id of our files."""
