"""Is a data file made, guarded, checked, upgraded, copied and put back as it should be? Real files, real processes."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from pykueue.apiserver.storage import datafile, migrations
from pykueue.apiserver.storage.store import CompactedError, Key, Store, StoredObject, StoreError
from pykueue.base.clock import ManualClock

JOBS = "jobs.batch"
NOBODY = 65534
HOLDER = """
import sys
from pathlib import Path
from pykueue.base.clock import SystemClock
from pykueue.apiserver.storage.store import Store
store = Store.open(Path(sys.argv[1]), SystemClock())
print("open", flush=True)
sys.stdin.read()
"""


async def filled(path: Path, names: int = 3) -> list[StoredObject]:
    """Make a store with some objects in it; those objects."""
    store = Store.open(path, ManualClock())
    keys = [Key(JOBS, "red", f"job-{number:05}") for number in range(names)]
    await asyncio.gather(
        *(store.put(key, {"metadata": {"name": key.name}, "fill": "x" * 3000}, uid="u") for key in keys)
    )
    found = store.page(JOBS)
    await store.close()
    return found


async def listed(path: Path) -> list[StoredObject]:
    """What a store holds."""
    store = Store.open(path, ManualClock())
    try:
        return store.page(JOBS)
    finally:
        await store.close()


def refusal(path: Path) -> str:
    """What is said when a file cannot be opened; it can be tried again at once, so no lock is left."""
    said = set()
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            Store.open(path, ManualClock())
        said.add(str(caught.value))
    assert len(said) == 1
    return said.pop()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store.db"


@pytest.fixture
async def held(path: Path) -> list[StoredObject]:
    return await filled(path)


@pytest.fixture
def holder(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the store open."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


async def test_what_is_made_belongs_to_its_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store.open(path, ManualClock())
        await store.put(Key(JOBS, "red", "a"), {"metadata": {}}, uid="u")
        names = {"store.db", "store.db-wal", "store.db-shm", "store.db.lock", "store.db.reserve"}
        assert {found.name for found in path.parent.iterdir()} == names
        for found in path.parent.iterdir():
            assert found.stat().st_mode & 0o777 == 0o600, found
        assert path.parent.stat().st_mode & 0o777 == 0o700
        await store.close()
    finally:
        os.umask(before)


async def test_a_write_is_durable_before_it_is_acknowledged(path: Path) -> None:
    store = Store.open(path, ManualClock())
    assert store.database.writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store.database.writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.close()


async def test_a_file_whose_making_was_cut_short_is_made_anew(path: Path) -> None:
    path.parent.mkdir(parents=True)
    for ending in ("", "-wal", "-shm"):
        path.with_name(f"store.db.new{ending}").write_bytes(b"half of a file")
    assert len(await filled(path)) == 3
    assert sorted(found.name for found in path.parent.iterdir()) == ["store.db", "store.db.lock", "store.db.reserve"]


async def test_a_second_process_is_told_who_holds_the_data(path: Path, holder: "subprocess.Popen[str]") -> None:
    said = refusal(path)
    assert said.startswith(f"{path}: in use by process {holder.pid}; ")
    assert "pykueue down" in said
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert await listed(path) == []


async def test_a_second_store_in_one_process_is_refused_too(path: Path) -> None:
    store = Store.open(path, ManualClock())
    assert f"in use by process {os.getpid()};" in refusal(path)
    await store.close()
    await Store.open(path, ManualClock()).close()


def overwritten(path: Path, start: int, end: int | None = None) -> None:
    """Put nonsense into a part of a file."""
    content = bytearray(path.read_bytes())
    end = len(content) if end is None else end
    content[start:end] = b"\xa5" * (end - start)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        pytest.param(lambda path: overwritten(path, 0, 100), "no store of pykueue's", id="its beginning"),
        pytest.param(lambda path: overwritten(path, 8192, 12288), "", id="a page within"),
        pytest.param(lambda path: overwritten(path, 100), "", id="all but its header"),
        pytest.param(lambda path: os.truncate(path, 8192), "", id="its end is missing"),
        pytest.param(lambda path: os.truncate(path, 0), "it is empty", id="it is empty"),
        pytest.param(
            lambda path: path.write_text("a shopping list"), "no store of pykueue's", id="another kind of file"
        ),
    ],
)
async def test_a_damaged_file_is_refused_with_the_way_out(
    path: Path, held: list[StoredObject], damage: object, why: str
) -> None:
    assert callable(damage)
    copy = path.with_name("backup.db")
    datafile.backup(path, copy)
    damage(path)
    content = path.read_bytes()
    said = refusal(path)
    assert said.startswith(f"{path}: is damaged (")
    assert why in said
    assert "`pykueue restore BACKUP`" in said
    assert path.read_bytes() == content, "whoever wants to save something finds it as it was"
    datafile.restore(copy, path)
    assert await listed(path) == held


async def test_damage_that_shows_only_later_is_told_with_the_way_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datafile, "CHECKED_WHOLE", 0)
    await filled(path, 100)
    middle = path.stat().st_size // 2
    overwritten(path, middle, middle + 40_000)
    store = Store.open(path, ManualClock())
    with pytest.raises(StoreError, match=r"store\.db: cannot be read .*`pykueue restore BACKUP`"):
        store.page(JOBS)
    await store.close()


def test_another_programs_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (a)")
    other.commit()
    other.close()
    content = path.read_bytes()
    assert "it is no store of pykueue's" in refusal(path)
    assert path.read_bytes() == content


def test_a_file_of_a_newer_pykueue_is_refused(path: Path, held: list[StoredObject]) -> None:
    newer = len(migrations.STEPS) + 6
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {newer}")
    connection.close()
    said = refusal(path)
    assert said.startswith(f"{path}: was written by a newer pykueue (schema {newer}, ")


async def test_a_file_of_an_older_pykueue_is_upgraded_in_steps(
    path: Path, held: list[StoredObject], monkeypatch: pytest.MonkeyPatch
) -> None:
    later = (
        *migrations.STEPS,
        ("CREATE TABLE second (a)", "INSERT INTO second VALUES (1)"),
        ("ALTER TABLE second RENAME TO third",),
    )
    monkeypatch.setattr(datafile, "STEPS", later)
    for _ in range(2):
        assert await listed(path) == held
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT a FROM third").fetchall() == [(1,)]
        assert connection.execute("PRAGMA user_version").fetchone() == (len(later),)
        connection.close()


async def test_an_upgrade_that_fails_changes_nothing(
    path: Path, held: list[StoredObject], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(datafile, "STEPS", (*migrations.STEPS, ("CREATE TABLE second (a)",), ("NONSENSE",)))
        assert "cannot be opened" in refusal(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_schema WHERE name = 'second'").fetchall() == []
    connection.close()
    assert await listed(path) == held


def test_a_missing_file_whose_log_is_there_is_not_made_anew(path: Path, held: list[StoredObject]) -> None:
    path.with_name("store.db-wal").write_bytes(b"what was written last")
    path.unlink()
    said = refusal(path)
    assert said.startswith(f"{path}: is missing, but store.db-wal with the latest writes exists; ")
    assert not path.exists()


@contextmanager
def unprivileged() -> Iterator[None]:
    """Without root's rights over files, if we have them."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(NOBODY)
    yield
    if mine == 0:
        os.seteuid(mine)


@pytest.fixture
def reachable(tmp_path: Path) -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path("/tmp") / f"pykueue-{os.getpid()}-{tmp_path.name}"
    folder.mkdir(mode=0o755)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


@pytest.mark.parametrize("there", [pytest.param(True, id="with a store"), pytest.param(False, id="without one")])
async def test_a_folder_that_may_not_be_written_is_refused(reachable: Path, there: bool) -> None:
    path = reachable / "store.db"
    if there:
        await filled(path)
        for found in reachable.iterdir():
            found.chmod(0o444)
    reachable.chmod(0o555)
    with unprivileged():
        said = refusal(path)
    assert said.startswith(f"{path}: cannot be written (Permission denied); ")
    assert f"check that this user can write to {reachable}" in said


def test_a_folder_that_cannot_be_made_is_refused(path: Path) -> None:
    path.parent.write_text("a file where the folder should be")
    said = refusal(path)
    assert said.startswith(f"{path}: cannot be written (")


async def test_a_backup_of_a_store_in_use_is_a_store_of_that_moment(path: Path, tmp_path: Path) -> None:
    store = Store.open(path, ManualClock())
    for number in range(20):
        await store.put(Key(JOBS, "red", f"job-{number:02}"), {"metadata": {}}, uid="u")
    then = store.page(JOBS)
    on_its_way = [store.put(Key(JOBS, "red", f"late-{number}"), {"metadata": {}}, uid="u") for number in range(9)]
    await asyncio.to_thread(store.backup, tmp_path / "during.db")
    await asyncio.gather(*on_its_way)
    store.backup(tmp_path / "after.db")
    assert store.page(JOBS)[:20] == then
    whole = store.page(JOBS)
    await store.close()
    assert await listed(tmp_path / "after.db") == whole
    assert (await listed(tmp_path / "during.db"))[:20] == whole[:20]
    assert (tmp_path / "after.db").stat().st_mode & 0o777 == 0o600


async def test_a_backup_can_be_made_beside_the_process_that_uses_the_store(
    path: Path, held: list[StoredObject], holder: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    assert holder.poll() is None
    datafile.backup(path, tmp_path / "copy.db")
    assert await listed(tmp_path / "copy.db") == held


async def test_a_store_in_memory_can_be_backed_up_too(tmp_path: Path) -> None:
    store = Store.open(None, ManualClock())
    await store.put(Key(JOBS, "red", "a"), {"metadata": {}}, uid="u")
    store.backup(tmp_path / "copy.db")
    found = store.page(JOBS)
    await store.close()
    assert found == await listed(tmp_path / "copy.db")


def test_a_backup_replaces_no_file(path: Path, held: list[StoredObject], tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    with pytest.raises(StoreError, match=r"copy\.db: file exists"):
        datafile.backup(path, target)
    assert target.read_text() == "precious"
    with pytest.raises(StoreError, match="nothing to back up"):
        datafile.backup(tmp_path / "other.db", tmp_path / "third.db")
    with pytest.raises(StoreError, match=r"cannot be written \(No such file"):
        datafile.backup(path, tmp_path / "nowhere" / "copy.db")


async def test_a_restore_brings_back_the_objects_and_gives_no_version_twice(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    before = await filled(path, 5)
    datafile.backup(path, copy)
    since = await filled(path, 8)
    datafile.restore(copy, path)
    assert await listed(path.with_name("store.db.old")) == since
    store = Store.open(path, ManualClock())
    assert store.page(JOBS) == before
    with pytest.raises(CompactedError):
        store.watch(JOBS, after=since[-1].version)
    written = await store.put(before[0].key, {"metadata": {}}, uid="u")
    assert written.version > since[-1].version + 1_000_000
    (change,) = store.changes(JOBS, after=written.version - 1)
    assert change.before == before[0].body
    assert msgspec.json.decode(written.body)["metadata"]["resourceVersion"] == str(written.version)
    await store.close()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_restore_moves_nothing_before_the_new_file_is_on_the_disk(
    path: Path, held: list[StoredObject], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datafile.backup(path, tmp_path / "copy.db")

    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(datafile, "synced", full)
        with pytest.raises(StoreError, match="No space left on device"):
            datafile.restore(tmp_path / "copy.db", path)
    assert await listed(path) == held


def test_a_restore_keeps_away_from_a_store_in_use(
    path: Path, held: list[StoredObject], tmp_path: Path, holder: "subprocess.Popen[str]"
) -> None:
    datafile.backup(path, tmp_path / "copy.db")
    with pytest.raises(StoreError, match=f"in use by process {holder.pid}"):
        datafile.restore(tmp_path / "copy.db", path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="a file that is not there"),
        pytest.param(b"", id="an empty file"),
        pytest.param(b"a shopping list" * 1000, id="a file of another kind"),
    ],
)
async def test_a_restore_from_no_backup_changes_nothing(
    path: Path, held: list[StoredObject], tmp_path: Path, content: bytes | None
) -> None:
    source = tmp_path / "copy.db"
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(StoreError, match=r"copy\.db: "):
        datafile.restore(source, path)
    assert await listed(path) == held
