"""Are records committed with the next write, or soon after without one, and never lost at the end?"""

import asyncio
from pathlib import Path

import pytest

from pykueue.apiserver.storage import store as store_module
from pykueue.apiserver.storage.database import Row
from pykueue.apiserver.storage.store import Key, Store
from pykueue.base.clock import ManualClock

EVENT, OTHER, JOB = Key("events", "red", "a"), Key("events", "red", "b"), Key("jobs.batch", "red", "c")


def counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the commits of a store."""
    sizes: list[int] = []
    write = store.database.write

    def writing(rows: list[Row]) -> dict[int, Exception]:
        sizes.append(len(rows))
        return write(rows)

    monkeypatch.setattr(store.database, "write", writing)
    return sizes


async def test_a_record_is_committed_with_the_write_that_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "RECORD_SECONDS", 60.0)
    store = Store.open(tmp_path / "store.db", ManualClock())
    sizes = counted(store, monkeypatch)
    records = [store.put(key, {"metadata": {}}, uid=key.name, record=True) for key in (EVENT, OTHER)]
    await asyncio.sleep(0.05)
    assert sizes == []
    written = await store.put(JOB, {"metadata": {}}, uid="c")
    assert [held.version for held in await asyncio.gather(*records)] == [2, 3]
    assert (written.version, sizes) == (4, [3])
    # One that comes during a commit does not follow it at once, either.
    late = store.put(JOB, {"metadata": {"labels": {}}}, uid="c")
    await asyncio.sleep(0)
    record = asyncio.ensure_future(store.put(EVENT, {"metadata": {"labels": {}}}, uid="a", record=True))
    await late
    await asyncio.sleep(0.05)
    assert not record.done()
    await store.close()
    assert (await record).version == 6


async def test_a_record_alone_is_committed_a_moment_later(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store.db", ManualClock())
    held = await asyncio.wait_for(store.put(EVENT, {"metadata": {}}, uid="a", record=True), 20)
    assert store.get(EVENT) == held
    await store.close()


async def test_records_are_kept_when_the_store_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "RECORD_SECONDS", 60.0)
    store = Store.open(tmp_path / "store.db", ManualClock())
    record = asyncio.ensure_future(store.put(EVENT, {"metadata": {}}, uid="a", record=True))
    await store.close()
    await record
    again = Store.open(tmp_path / "store.db", ManualClock())
    assert again.get(EVENT) is not None
    await again.close()
