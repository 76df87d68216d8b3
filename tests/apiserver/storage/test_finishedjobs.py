"""Is the table of finished Jobs bounded, written once per Job, and complete after a crash?"""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import msgspec
import pytest

from pykueue.api.core import Tree
from pykueue.api.jobsummary import FinishedJob, JobState
from pykueue.apiserver.storage import datafile, migrations
from pykueue.apiserver.storage.finishedjobs import AGE_MAX_MICROS, FinishedJobs, surplus
from pykueue.apiserver.storage.store import Key, Store
from pykueue.base.clock import ManualClock, SystemClock
from pykueue.base.units import MICROS, Instant, format_instant

JOBS = "jobs.batch"
NOW = Instant(1_800_000_000 * MICROS)
ROUNDS = 3


def record(number: int, namespace: str = "red", ended: Instant = NOW) -> FinishedJob:
    at = format_instant(ended)
    return FinishedJob(namespace, f"job-{number}", f"uid-{number}", JobState.COMPLETED, ended=at, exit_code=0)


async def new_namespace(store: Store, name: str) -> None:
    await store.put(Key("namespaces", "", name), {"metadata": {"name": name}}, uid=f"ns-{name}")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made = Store.open(None, ManualClock())
    for name in ("red", "blue", "green"):
        await new_namespace(made, name)
    yield made
    await made.close()


def uids(table: FinishedJobs, namespace: str = "", *, before: int = 0, limit: int = 1000) -> list[str]:
    return [json.loads(body)["uid"] for _, body in table.page(namespace, before=before, limit=limit)]


async def test_a_job_has_one_row_however_often_it_is_written(store: Store) -> None:
    table = FinishedJobs(store)
    await table.add([record(1), record(2)], NOW)
    await table.add([msgspec.structs.replace(record(1), state=JobState.CANCELLED), record(3)], NOW)
    assert uids(table) == ["uid-3", "uid-2", "uid-1"]
    assert json.loads(table.page(limit=10)[-1][1])["state"] == "COMPLETED"


async def test_pages_go_from_the_newest_to_the_oldest_of_a_namespace(store: Store) -> None:
    table = FinishedJobs(store)
    await table.add([record(number, "red" if number % 2 else "blue") for number in range(6)], NOW)
    first = table.page("red", limit=2)
    assert [json.loads(body)["name"] for _, body in first] == ["job-5", "job-3"]
    assert uids(table, "red", before=first[-1][0]) == ["uid-1"]
    assert uids(table, "none") == []


async def test_the_oldest_go_first_when_there_are_too_many(store: Store) -> None:
    table = FinishedJobs(store, rows_max=3)
    for number in range(5):
        await table.add([record(number, ended=Instant(NOW + number * MICROS))], NOW)
    assert uids(table) == ["uid-4", "uid-3", "uid-2"]
    # One that went is not written again, as when its Job is deleted much later.
    await table.add([record(0)], NOW)
    assert uids(table) == ["uid-4", "uid-3", "uid-2"]


async def test_the_namespace_with_the_most_rows_loses_its_oldest(store: Store) -> None:
    table = FinishedJobs(store, rows_max=6)
    await table.add([record(1, "red"), record(2, "blue"), record(3, "blue")], NOW)
    for number in range(10, 30):
        await table.add([record(number, "green", ended=Instant(NOW + number * MICROS))], NOW)
    assert uids(table) == ["uid-29", "uid-28", "uid-27", "uid-3", "uid-2", "uid-1"]
    # One that went is not written again, while the others are free to add.
    await table.add([record(12, "green", ended=Instant(NOW + 12 * MICROS)), record(4, "red")], NOW)
    assert uids(table) == ["uid-4", "uid-29", "uid-28", "uid-3", "uid-2", "uid-1"]


@pytest.mark.parametrize(
    ("counts", "excess", "lost"),
    [
        ({}, 0, {}),
        ({"a": 5}, -1, {}),
        ({"a": 5}, 2, {"a": 2}),
        ({"a": 5, "b": 2}, 3, {"a": 3}),
        ({"a": 5, "b": 5, "c": 1}, 4, {"a": 2, "b": 2}),
        ({"a": 100_000, "b": 1}, 100_001, {"a": 100_000, "b": 1}),
    ],
)
def test_those_with_the_most_rows_lose_first(counts: dict[str, int], excess: int, lost: dict[str, int]) -> None:
    assert surplus(counts, excess) == lost


async def test_rows_go_with_their_namespace(store: Store) -> None:
    table = FinishedJobs(store)
    await table.add([record(1, "red"), record(2, "blue")], NOW)
    for within in ("red", "blue"):
        key = Key(JOBS, within, "gone")
        tree: Tree = {"metadata": {"name": "gone", "namespace": within, "uid": f"gone-{within}"}}
        await store.put(key, tree, uid=f"gone-{within}")
        await store.drop(key, tree)
    await store.drop(Key("namespaces", "", "red"), {"metadata": {"name": "red"}})
    assert uids(table) == ["uid-2"]
    assert [json.loads(body)["metadata"]["uid"] for body in table.dropped(10)] == ["gone-blue"]
    # A record that was being made when the namespace went.
    await table.add([record(3, "red")], NOW)
    await new_namespace(store, "red")
    assert uids(table) == ["uid-2"]
    await table.add([record(4, "red")], NOW)
    assert uids(table) == ["uid-4", "uid-2"]


async def test_a_file_of_the_version_before_loses_rows_of_namespaces_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    with monkeypatch.context() as before:
        before.setattr(datafile, "STEPS", migrations.STEPS[:2])
        store = Store.open(path, SystemClock())
        for name in ("red", "blue"):
            await new_namespace(store, name)
        await FinishedJobs(store).add([record(1, "red"), record(2, "blue")], NOW)
        await store.drop(Key("namespaces", "", "red"), {"metadata": {"name": "red"}})
        assert uids(FinishedJobs(store)) == ["uid-2", "uid-1"]
        await store.close()
    store = Store.open(path, SystemClock())
    assert uids(FinishedJobs(store)) == ["uid-2"]
    await store.close()


async def test_rows_go_when_they_are_too_old(store: Store) -> None:
    table = FinishedJobs(store)
    await table.add([record(1)], NOW)
    later = Instant(NOW + AGE_MAX_MICROS + MICROS)
    await table.add([record(2, ended=later), record(3)], later)
    assert uids(table) == ["uid-2"]


async def test_what_ended_recently_is_told(store: Store) -> None:
    table = FinishedJobs(store)
    assert (table.last_end(), table.recent(Instant(0))) == (0, set())
    await table.add([record(1), record(2, ended=Instant(NOW + 60 * MICROS))], NOW)
    assert table.last_end() == NOW + 60 * MICROS
    assert table.recent(Instant(NOW + MICROS)) == {("red", "job-2", Instant(NOW + 60 * MICROS))}


async def test_a_deleted_job_is_kept_until_it_has_a_row(store: Store) -> None:
    table = FinishedJobs(store)
    await table.add([record(1)], NOW)
    for number in (1, 2):
        key = Key(JOBS, "red", f"job-{number}")
        tree: Tree = {"metadata": {"name": key.name, "uid": f"uid-{number}"}}
        await store.put(key, tree, uid=f"uid-{number}")
        await store.drop(key, tree)
    others = Key("pods", "red", "pod")
    await store.put(others, {"metadata": {}}, uid="uid-3")
    await store.drop(others, {"metadata": {}})
    assert [json.loads(body)["metadata"]["uid"] for body in table.dropped(10)] == ["uid-2"]
    store.compact()
    await table.add([record(2)], NOW)
    assert table.dropped(10) == []


async def test_a_file_of_the_version_before_gets_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    key = Key(JOBS, "red", "old")
    with monkeypatch.context() as before:
        before.setattr(datafile, "STEPS", migrations.STEPS[:1])
        store = Store.open(path, SystemClock())
        await store.put(key, {"metadata": {"name": "old"}}, uid="uid-9")
        await new_namespace(store, "red")
        await store.close()
    store = Store.open(path, SystemClock())
    table = FinishedJobs(store)
    assert uids(table) == []
    await store.drop(key, {"metadata": {"name": "old"}})
    assert len(table.dropped(10)) == 1
    await table.add([record(9)], NOW)
    await store.close()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM finished").fetchone() == (1,)
    connection.close()


async def scribble(path: Path, first: int) -> None:
    """Delete Jobs and record them, for ever; say which deletions are acknowledged."""
    store = Store.open(path, SystemClock())
    if store.latest(Key("namespaces", "", "red")) is None:
        await new_namespace(store, "red")
    table = FinishedJobs(store)

    async def delete() -> None:
        for number in count(first):
            key = Key(JOBS, "red", f"job-{number}")
            tree: Tree = {"metadata": {"name": key.name, "uid": f"uid-{number}"}}
            await store.put(key, tree, uid=f"uid-{number}")
            await store.drop(key, tree)
            os.write(1, f"{number}\n".encode())

    async def write() -> None:
        while True:
            found = [int(json.loads(body)["metadata"]["uid"][4:]) for body in table.dropped(20)]
            await table.add([record(number) for number in found], NOW)
            await asyncio.sleep(0.002)

    await asyncio.gather(delete(), write())


async def test_after_kill_9_every_deleted_job_has_a_row_or_waits_for_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    deleted: set[str] = set()
    for number in range(ROUNDS):
        command = [sys.executable, __file__, str(path), str(number * 1_000_000)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = []
            for line in process.stdout:
                told.append(line)
                if len(told) == 150:
                    process.send_signal(signal.SIGKILL)
        deleted |= {f"uid-{line.strip()}" for line in told if line.endswith("\n")}
        store = Store.open(path, SystemClock())
        table = FinishedJobs(store)
        rows = uids(table, limit=100_000)
        waiting = [json.loads(body)["metadata"]["uid"] for body in table.dropped(100_000)]
        await store.close()
        assert len(set(rows)) == len(rows)
        assert not set(rows) & set(waiting)
        assert deleted <= {*rows, *waiting}
        assert rows, "nothing was recorded before the end"


if __name__ == "__main__":
    asyncio.run(scribble(Path(sys.argv[1]), int(sys.argv[2])))
