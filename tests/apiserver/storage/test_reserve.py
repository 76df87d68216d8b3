"""What can still be written when others have filled the disk? A small disk of its own, and a database on it."""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykueue.apiserver.storage.logsize import LogSize
from pykueue.apiserver.storage.records import FullError, Key
from pykueue.apiserver.storage.store import Store
from pykueue.base.clock import SystemClock

DISK_BYTES = 32 << 20
SOON_SECONDS = 30


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MiB; the test is skipped where none can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700", "none", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def use_up(filler: Path) -> None:
    """Leave no room on a disk for anybody else."""
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def key(number: int) -> Key:
    return Key("configmaps", "default", f"map-{number}")


async def put(store: Store, number: int, size: int = 1000) -> None:
    await store.put(key(number), {"metadata": {"name": f"map-{number}"}, "data": "x" * size}, uid=str(number))


async def until_low(store: Store, low: bool) -> None:
    """Wait until the store knows, as it writes, whether there is room."""
    reserve = store.database.reserve
    assert reserve is not None
    async with asyncio.timeout(SOON_SECONDS):
        while reserve.low != low:
            await put(store, 0, 10)
            with contextlib.suppress(FullError):
                store.spare_reserve(key(0))
            await asyncio.sleep(0.05)


async def test_on_a_full_disk_objects_are_refused_and_deleted(disk: Path) -> None:
    store = Store.open(disk / "pykueue.db", SystemClock())
    for number in range(100):
        await put(store, number)
    store.spare_reserve(key(1))
    use_up(disk / "filler")
    await until_low(store, True)
    with pytest.raises(FullError, match="is full but for a reserve that is kept for the database; delete objects"):
        store.spare_reserve(key(1))
    # Whatever is freed, somebody takes.
    use_up(disk / "filler")
    for number in range(1, 100):
        await store.drop(key(number), {"metadata": {"name": f"map-{number}"}})
        await put(store, 0, 10_000)
    assert store.count("configmaps") == 1
    (disk / "filler").unlink()
    await until_low(store, False)
    store.spare_reserve(key(1))
    await store.close()


async def test_the_reserve_survives_a_backup_by_another_process(tmp_path: Path) -> None:
    """Another connection must not become the last one of the file, and remove the WAL under the server."""
    store = Store.open(tmp_path / "pykueue.db", SystemClock())
    await put(store, 1)
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT 1 FROM state').fetchall(); c.close()"
    )
    assert store.database.reserve is not None
    store.database.reserve.hold()
    assert not store.database.reserve.low
    subprocess.run(["python3", "-c", script, str(tmp_path / "pykueue.db")], check=True)
    assert (tmp_path / "pykueue.db-wal").exists()
    await put(store, 2)
    await store.close()


async def test_new_objects_are_refused_before_the_reserve_is_needed(disk: Path) -> None:
    """Even if many large ones are written at a time; and everything can be deleted, though the disk stays full."""
    store = Store.open(disk / "pykueue.db", SystemClock())
    reserve = store.database.reserve
    assert reserve is not None

    async def create(number: int) -> None:
        store.spare_reserve(key(number))
        await put(store, number, 100_000)

    made = await asyncio.gather(*(create(number) for number in range(400)), return_exceptions=True)
    refused = [one for one in made if one is not None]
    assert 0 < len(refused) < 400
    assert all(isinstance(one, FullError) and "is full but for a reserve" in str(one) for one in refused)
    assert not reserve.low, "nothing of it was used"
    assert store.unwritten == 0
    use_up(disk / "filler")
    for number in [number for number, one in enumerate(made) if one is None]:
        tree: Any = {"metadata": {"name": f"map-{number}", "deletionTimestamp": "now"}, "data": "x" * 100_000}
        await store.put(key(number), tree, uid=str(number))
        await store.drop(key(number), tree)
    assert store.count("configmaps") == 0
    # The pages of what was deleted are free, so there is room without room on the disk.
    await until_low(store, False)
    await create(1000)
    await store.close()


async def test_a_store_opens_on_a_full_disk_and_objects_can_be_deleted(disk: Path) -> None:
    store = Store.open(disk / "pykueue.db", SystemClock())
    for number in range(10):
        await put(store, number, 100_000)
    await store.close()
    use_up(disk / "filler")
    for _ in range(2):
        store = Store.open(disk / "pykueue.db", SystemClock())
        assert store.is_short()
        (disk / "small").write_bytes(bytes(4096))
        for number in range(10):
            await put(store, number, 100_000)
        await store.close()
        use_up(disk / "filler")


def test_the_log_is_limited_by_bytes() -> None:
    log = LogSize()
    assert [log.add(version, 100_000, 250_000) for version in range(1, 6)] == [0, 0, 1, 2, 3]
    assert log.add(6, 10, 100) == 5, "the last step stays"
