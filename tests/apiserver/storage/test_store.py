"""Does the store keep its word? Versions, lists, feed, compaction, and writes that fail, in memory and in a file."""

import asyncio
import os
import re
import sqlite3
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from pykueue.api.core import Tree
from pykueue.apiserver.storage import feed
from pykueue.apiserver.storage import store as store_module
from pykueue.apiserver.storage.cache import Cache
from pykueue.apiserver.storage.store import Change, CompactedError, FullError, Key, Store, StoredObject, StoreError
from pykueue.base.clock import ManualClock
from pykueue.base.units import MICROS
from tests.patience import soon_async

JOBS = "jobs.batch"
PODS = "pods"
A, B, C = Key(JOBS, "red", "a"), Key(JOBS, "red", "b"), Key(JOBS, "blue", "c")
WIDE = Key("nodes", "", "n")


@pytest.fixture(params=["in memory", "in a file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "data" / "store.db" if request.param == "in a file" else None


@asynccontextmanager
async def opened(path: Path | None, clock: ManualClock | None = None) -> AsyncIterator[Store]:
    store = Store.open(path, clock or ManualClock())
    try:
        yield store
    finally:
        await store.close()


def tree(key: Key, value: object = 0) -> Tree:
    return msgspec.convert({"metadata": {"name": key.name}, "value": value}, dict)


def write(store: Store, key: Key, value: object = 0) -> Awaitable[StoredObject]:
    return store.put(key, tree(key, value), uid=f"uid of {key.name}")


def value(held: StoredObject | None) -> object:
    return None if held is None else msgspec.json.decode(held.body)["value"]


async def until(holds: Callable[[], bool]) -> None:
    """Give the loop and the writer's thread turns until something holds."""
    assert await soon_async(holds, pause=0.001)


async def take(watch: AsyncIterator[object], count: int) -> list[Change]:
    """The next changes of a watch, so many at least."""
    found: list[Change] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            batch = await anext(watch)
            assert isinstance(batch, list)
            found += batch
    return found


def told(changes: list[Change]) -> list[tuple[str, str]]:
    return [(change.how, change.key.name) for change in changes]


async def test_a_write_is_seen_by_latest_at_once_and_by_all_when_it_is_committed(place: Path | None) -> None:
    async with opened(place) as store:
        given = tree(A, 1)
        on_its_way = store.put(A, given, uid="u")
        assert value(store.latest(A)) == 1
        assert store.get(A) is None
        assert store.page(JOBS) == []
        held = await on_its_way
        assert held == store.get(A) == store.latest(A)
        assert store.page(JOBS) == [held]
        assert store.version == held.version
        assert held.uid == "u"
        assert msgspec.json.decode(held.body)["metadata"]["resourceVersion"] == str(held.version)
        assert given == tree(A, 1), "the caller's tree is the caller's"


async def test_versions_grow_over_all_resources_and_0_is_none_of_them(place: Path | None) -> None:
    async with opened(place) as store:
        assert store.version > 0
        given = [await write(store, key) for key in (A, WIDE, B, A)]
        versions = [store.version - 3, *(held.version for held in given[1:])]
        assert versions == sorted({held.version for held in given})


async def test_writes_to_one_object_build_upon_each_other_before_any_is_committed(place: Path | None) -> None:
    async with opened(place) as store:
        start = store.version
        waits = [write(store, A, 1), write(store, A, 2), store.drop(A, tree(A, 3)), write(store, A, 4)]
        assert value(store.latest(A)) == 4
        assert store.get(A) is None
        await asyncio.gather(*waits)
        changes = store.changes(JOBS, after=start)
        assert [change.how for change in changes] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
        bodies = [change.body for change in changes]
        assert [change.before for change in changes] == [None, bodies[0], bodies[1], None]
        assert value(store.get(A)) == 4


async def test_what_was_dropped_is_gone_and_watchers_get_the_last_tree(place: Path | None) -> None:
    async with opened(place) as store:
        await write(store, A, 1)
        on_its_way = store.drop(A, tree(A, "last"))
        assert store.latest(A) is None
        assert value(store.get(A)) == 1
        gone = await on_its_way
        assert store.get(A) is None
        assert store.page(JOBS) == []
        (change,) = store.changes(JOBS, after=gone.version - 1)
        assert msgspec.json.decode(change.line) == {
            "type": "DELETED",
            "object": {"metadata": {"name": "a", "resourceVersion": str(gone.version)}, "value": "last"},
        }
        assert change.line.endswith(b"\n")
        with pytest.raises(AssertionError, match="does not exist"):
            store.drop(A, tree(A))


@pytest.mark.parametrize(
    ("namespace", "after", "limit", "expected"),
    [
        pytest.param("", None, 0, "blue/c blue/d red/a red/b red/ba", id="all, by namespace and name"),
        pytest.param("red", None, 0, "red/a red/b red/ba", id="one namespace"),
        pytest.param("green", None, 0, "", id="a namespace without any"),
        pytest.param("", None, 2, "blue/c blue/d", id="the first page"),
        pytest.param("", ("blue", "d"), 2, "red/a red/b", id="the next page"),
        pytest.param("", ("red", "b"), 2, "red/ba", id="the last page"),
        pytest.param("", ("blue", "cc"), 1, "blue/d", id="after one that is gone"),
        pytest.param("red", ("red", "a"), 1, "red/b", id="the next page of one namespace"),
        pytest.param("red", ("blue", "x"), 1, "red/a", id="after an earlier namespace"),
        pytest.param("blue", ("red", "a"), 0, "", id="after a later namespace"),
    ],
)
async def test_a_page_holds(
    place: Path | None, namespace: str, after: tuple[str, str] | None, limit: int, expected: str
) -> None:
    async with opened(place) as store:
        others = [Key(JOBS, "red", "ba"), Key(JOBS, "blue", "d"), Key(PODS, "red", "p")]
        await asyncio.gather(*(write(store, key) for key in (A, B, C, *others)))
        found = store.page(JOBS, namespace, after=after, limit=limit)
        assert " ".join(f"{held.key.namespace}/{held.key.name}" for held in found) == expected
        if after is None and limit == 0:
            assert store.count(JOBS, namespace) == len(found)


async def test_what_the_writer_has_committed_is_not_shown_before_it_is_acknowledged(tmp_path: Path) -> None:
    """Otherwise a list could show what a watch from its version tells again, or hides."""
    path = tmp_path / "store.db"
    async with opened(path) as store:
        before = [await write(store, key, 1) for key in (A, B, Key(JOBS, "red", "z"))]
        waits = [write(store, C, 2), write(store, A, 2), store.drop(B, tree(B))]
        await asyncio.sleep(0)
        # Nothing is awaited from here on, so the loop cannot learn what the thread has done.
        aside = sqlite3.connect(path)
        looks = (aside.execute("SELECT count(*) FROM revisions").fetchone() for _ in range(1_000_000))
        assert (6,) in looks, "the writer never committed"
        aside.close()
        assert [store.get(key) for key in (A, B, C)] == [*before[:2], None]
        assert store.page(JOBS) == before
        assert store.page(JOBS, limit=1) == before[:1]
        assert store.page(JOBS, limit=1, after=("red", "a")) == before[1:2]
        assert store.page(JOBS, "red", limit=2) == before[:2]
        assert store.count(JOBS) == 3
        assert store.count(JOBS, "blue") == 0
        assert store.changes(JOBS, after=before[-1].version) == []
        await asyncio.gather(*waits)
        assert [held.key.name for held in store.page(JOBS)] == ["c", "a", "z"]
        assert store.count(JOBS) == 3
        assert store.count(JOBS, "blue") == 1


async def test_a_watch_tells_of_its_resource_and_namespace_alone(place: Path | None) -> None:
    async with opened(place) as store:
        start = store.version
        everywhere, red = store.watch(JOBS, after=start), store.watch(JOBS, after=start, namespace="red")
        waiting = [asyncio.ensure_future(anext(everywhere)), asyncio.ensure_future(anext(red))]
        await asyncio.sleep(0)
        await write(store, Key(PODS, "red", "p"))
        await write(store, C)
        await write(store, A)
        first = (await waiting[0])[0]
        assert told([first]) == [("ADDED", "c")]
        assert told(list(await waiting[1])) == [("ADDED", "a")]
        assert told(await take(everywhere, 1)) == [("ADDED", "a")]
        store.drop(A, tree(A))
        assert told(await take(red, 1)) == [("DELETED", "a")]


async def test_all_watchers_share_one_event(place: Path | None) -> None:
    async with opened(place) as store:
        start = store.version
        await write(store, A)
        one, other = [(await take(store.watch(JOBS, after=start), 1))[0] for _ in range(2)]
        assert one.line is other.line


async def test_watchers_are_woken_in_the_order_in_which_they_came(place: Path | None) -> None:
    async with opened(place) as store:
        woken: list[int] = []

        async def follow(number: int) -> None:
            await anext(store.watch(JOBS, after=store.version))
            woken.append(number)

        async with asyncio.TaskGroup() as tasks:
            for number in range(100):
                tasks.create_task(follow(number))
            await asyncio.sleep(0)
            await write(store, A)
        assert woken == list(range(100))


async def test_a_watch_goes_on_from_any_version_also_far_back(
    place: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "RECENT_MAX", 5)
    monkeypatch.setattr(feed, "AT_ONCE", 3)
    monkeypatch.setattr(feed, "SPAN", 7)
    async with opened(place) as store:
        start = store.version
        for number in range(40):
            await write(store, (A, B, WIDE)[number % 3], number)
        whole = store.changes(JOBS, after=start)
        assert [msgspec.json.decode(change.body)["value"] for change in whole] == [
            number for number in range(40) if number % 3 < 2
        ]
        for after in range(start, store.version):
            expected = [change for change in whole if change.version > after]
            assert await take(store.watch(JOBS, after=after), len(expected)) == expected
            assert store.changes(JOBS, after=after, namespace="red") == expected
            assert store.changes(JOBS, after=after, namespace="blue") == []


async def test_what_is_kept_in_memory_of_the_log_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "RECENT_BYTES", 10_000)
    async with opened(None) as store:
        for _ in range(50):
            await write(store, A, "x" * 1_000)
            assert store.feed.bytes <= 10_000
        assert sum(len(log) for log in store.feed.recent.values()) < 10
        assert len(store.changes(JOBS, after=1)) == 50


async def test_a_bookmark_never_runs_ahead_of_what_was_given(place: Path | None) -> None:
    async with opened(place) as store:
        watch = store.watch(JOBS, after=store.version)
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        other = await write(store, WIDE)
        assert watch.reached == other.version, "nothing of it concerned this watch"
        store.feed.add([Change(other.version + 1, A, "ADDED", b"{}", None)])
        assert watch.reached == other.version, "the watch has not been given this one yet"
        assert told(list(await waiting)) == [("ADDED", "a")]
        assert watch.reached == other.version + 1
        store.feed.add([Change(other.version + 2, B, "ADDED", b"{}", None)])
        assert watch.reached == other.version + 1
        assert told(await take(watch, 1)) == [("ADDED", "b")]


async def test_a_watch_that_was_given_up_leaves_nothing_behind(place: Path | None) -> None:
    async with opened(place) as store:
        waiting = asyncio.ensure_future(anext(store.watch(JOBS, after=store.version)))
        await asyncio.sleep(0)
        assert store.feed.waiting
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not store.feed.waiting


async def test_closing_commits_what_is_on_its_way_and_ends_the_watches(place: Path | None) -> None:
    store = Store.open(place, ManualClock())
    waiting = asyncio.ensure_future(anext(store.watch(PODS, after=store.version)))
    await asyncio.sleep(0)
    waits = [write(store, A, number) for number in range(600)]
    await store.close()
    assert [value(await wait) for wait in waits] == list(range(600))
    with pytest.raises(StopAsyncIteration):
        await waiting
    with pytest.raises(StoreError, match="is being closed"):
        write(store, A)
    with pytest.raises(StoreError, match="is closed"):
        store.page(JOBS)
    await store.close()


async def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        await asyncio.gather(*(write(store, key, 1) for key in (A, B, C)))
        await asyncio.gather(write(store, A, 2), store.drop(B, tree(B)))
        held, changes = store.page(JOBS), store.changes(JOBS, after=1)
    async with opened(path) as store:
        assert (store.page(JOBS), store.changes(JOBS, after=1)) == (held, changes)
        assert store.version == changes[-1].version
        assert await take(store.watch(JOBS, after=changes[1].version), 3) == changes[2:]
        assert (await write(store, A, 3)).version == changes[-1].version + 1


async def test_compaction_forgets_changes_and_no_object(place: Path | None) -> None:
    async with opened(place) as store:
        slow = store.watch(JOBS, after=store.version)
        first = await write(store, A, 1)
        await take(slow, 1)
        await write(store, B, 1)
        last = [await write(store, A, 2), await store.drop(B, tree(B)), await write(store, C, 1)]
        store.compact(keep=1)
        with pytest.raises(CompactedError, match=f"version {first.version} "):
            await anext(slow)
        with pytest.raises(CompactedError):
            store.watch(JOBS, after=first.version)
        with pytest.raises(CompactedError):
            store.changes(JOBS, after=last[0].version)
        assert store.compacted == last[1].version
        assert told(store.changes(JOBS, after=store.compacted)) == [("ADDED", "c")]
        await until(lambda: store.forgotten == store.compacted)
        assert store.database.rows("SELECT version FROM revisions ORDER BY version") == [
            (last[0].version,),
            (last[2].version,),
        ]
        assert [value(held) for held in store.page(JOBS)] == [1, 2]
        # What a kept change replaced is kept with it.
        changed = await write(store, A, 3)
        store.compact(keep=1)
        await until(lambda: store.forgotten == store.compacted)
        assert store.database.changes(JOBS, after=store.compacted, to=changed.version, limit=9) == [
            Change(changed.version, A, "MODIFIED", changed.body, last[0].body)
        ]


async def test_no_version_is_given_twice_though_the_last_change_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def story() -> int:
        async with opened(path) as store:
            await write(store, A)
            gone = await store.drop(A, tree(A))
            store.compact()
            await until(lambda: store.forgotten == gone.version)
            assert store.database.rows("SELECT * FROM revisions") == []
            return gone.version

    last = await story()
    assert await story() == last + 2


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store_module, "KEPT", 10)
    monkeypatch.setattr(store_module, "KEPT_MAX", 100)
    monkeypatch.setattr(store_module, "CHUNK", 7)
    return iter(())


@pytest.mark.usefixtures("short_log")
async def test_the_log_keeps_five_minutes_and_then_a_number_of_changes(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path / "store.db", clock) as store:
        start = store.version

        async def pass_time(seconds: int) -> None:
            due = clock.now() + seconds * MICROS
            while (timer := clock.next_due()) is not None and timer <= due:
                clock.turn_to(timer)
                await until(lambda: not store.busy and not store.called)
                await asyncio.sleep(0)
            clock.turn_to(type(clock.now())(due))

        for _ in range(50):
            await write(store, A)
        await pass_time(240)
        assert store.compacted < start, "younger than five minutes"
        await pass_time(120)
        assert store.compacted == store.version - 10
        await until(lambda: store.forgotten == store.compacted)
        assert store.database.rows("SELECT count(*) FROM revisions") == [(11,)]
        await pass_time(60)
        assert clock.next_due() is None, "nothing is left to tidy, and nobody wakes up for it"


@pytest.mark.usefixtures("short_log")
async def test_the_log_stays_below_its_bound_though_writes_never_pause(place: Path | None) -> None:
    async with opened(place) as store:
        for _ in range(100):
            await asyncio.gather(*(write(store, Key(JOBS, "red", str(number))) for number in range(10)))
        await until(lambda: store.forgotten == store.compacted and not store.busy)
        kept = store.database.number("SELECT count(*) FROM revisions")
        assert kept <= 100 + 10 + 7 + 10
        assert store.version - store.compacted <= 107


async def test_upkeep_after_writes_empties_the_log_of_sqlite(tmp_path: Path) -> None:
    clock = ManualClock()
    path = tmp_path / "store.db"
    async with opened(path, clock) as store:
        await asyncio.gather(*(write(store, Key(JOBS, "red", str(n)), "x" * 3000) for n in range(300)))
        assert path.stat().st_size < 100_000
        await until(lambda: clock.next_due() is not None)
        clock.turn_to(clock.next_due() or clock.now())
        await until(lambda: path.stat().st_size > 900_000)
        size = path.with_name("store.db-wal").stat().st_size
        await write(store, A)
        assert path.with_name("store.db-wal").stat().st_size == size, "its room is used again"


async def test_in_memory_there_is_no_thread_and_no_timer() -> None:
    threads, clock = threading.active_count(), ManualClock()
    async with opened(None, clock) as store:
        waits = [write(store, Key(JOBS, "red", str(number))) for number in range(1000)]
        await clock.settle()
        assert all(isinstance(wait, asyncio.Future) and wait.done() for wait in waits)
        assert threading.active_count() == threads
        assert clock.next_due() is None


async def test_whoever_gives_up_waiting_does_not_take_the_write_back(place: Path | None) -> None:
    async with opened(place) as store:

        async def patient() -> None:
            await write(store, A, 1)

        task = asyncio.ensure_future(patient())
        await asyncio.sleep(0)
        task.cancel()
        await write(store, B)
        assert value(store.get(A)) == 1


async def test_what_cannot_be_encoded_leaves_no_trace(place: Path | None) -> None:
    async with opened(place) as store:
        await write(store, A, 1)
        with pytest.raises(TypeError):
            store.put(A, {"metadata": {}, "value": object()}, uid="u")  # type: ignore[dict-item]  # the mistake
        with pytest.raises(AssertionError, match="metadata"):
            store.put(A, {}, uid="u")
        assert value(store.latest(A)) == 1
        assert (await write(store, A, 2)).version == store.version


async def test_a_name_that_is_no_text_names_nothing(place: Path | None) -> None:
    async with opened(place) as store:
        await write(store, A, 1)
        assert store.get(Key(JOBS, "red", "\ud800")) is None
        assert store.page(JOBS, "\ud800") == []
        assert store.count(JOBS, "\ud800") == 0
        with pytest.raises(FullError, match="surrogates not allowed"):
            await store.put(Key(JOBS, "red", "\ud800"), tree(A, 2), uid="u")
        assert [value(held) for held in store.page(JOBS)] == [1]


def allow_pages(store: Store, more: int) -> None:
    """Let the file grow by so many pages and no further."""
    pages = store.database.number("PRAGMA page_count")
    store.database.writer.execute(f"PRAGMA max_page_count = {pages + more}")


async def test_a_write_without_room_fails_with_all_that_were_built_upon_it(place: Path | None) -> None:
    async with opened(place) as store:
        kept = await write(store, A, 1)
        watch = store.watch(JOBS, after=kept.version)
        allow_pages(store, 2)
        issued = store.issued
        waits = [
            write(store, B, "small"),
            write(store, A, "x" * 1_000_000),
            write(store, A, "built upon it"),
            store.drop(A, tree(A)),
            write(store, A, "and this one too"),
            write(store, C, "small too"),
        ]
        await asyncio.sleep(0)
        # This one is queued while the others are with the writer.
        waits.append(write(store, A, "later"))
        answers = await asyncio.gather(*waits, return_exceptions=True)
        lost = [place for place, answer in enumerate(answers) if isinstance(answer, FullError)]
        assert lost == [1, 2, 3, 4, 6]
        assert re.match(r"jobs\.batch red/a: could not be stored \(.+\); check the disk", str(answers[1]))
        assert store.get(A) == store.latest(A) == kept
        assert value(store.get(B)) == "small"
        assert not store.pending
        allow_pages(store, 1_000_000)
        again = await write(store, A, 2)
        assert again.version > issued + 6, "no version is given twice, not even that of a failed write"
        assert told(await take(watch, 3)) == [("ADDED", "b"), ("ADDED", "c"), ("MODIFIED", "a")]
        assert store.changes(JOBS, after=kept.version)[-1].before == kept.body


async def test_a_batch_too_large_for_one_statement_is_stored_or_fails_as_a_whole(place: Path | None) -> None:
    async with opened(place) as store:
        await write(store, A, 1)
        keys = [Key(PODS, "red", f"p{number:03}") for number in range(200)]
        await asyncio.gather(*(write(store, key) for key in keys))
        assert [held.key for held in store.page(PODS)] == keys
        allow_pages(store, 5)
        waits = [write(store, key, "x" * 10_000) for key in keys]
        answers = await asyncio.gather(*waits, return_exceptions=True)
        failed = {key for key, answer in zip(keys, answers, strict=True) if isinstance(answer, FullError)}
        assert failed
        for held in store.page(PODS):
            assert (value(held) == 0) == (held.key in failed)
            assert store.latest(held.key) == held


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system to fill")
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


async def test_a_full_disk_fails_writes_until_there_is_room_again(small_disk: Path) -> None:
    path = small_disk / "store.db"
    stored: dict[Key, StoredObject] = {}
    async with opened(path) as store:
        for number in range(2_000):
            key = Key(JOBS, "red", str(number))
            try:
                stored[key] = await write(store, key, "x" * 5_000)
            except FullError:
                break
        else:
            pytest.fail("the disk never became full")
        assert store.get(key) is None
        assert store.latest(key) is None
        assert {held.key: held for held in store.page(JOBS)} == stored
        with pytest.raises(FullError):
            await write(store, key, "x" * 100_000)
        subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
        for later in range(number, number + 50):
            key = Key(JOBS, "red", str(later))
            stored[key] = await write(store, key, "x" * 5_000)
    assert len(stored) > 100
    async with opened(path) as store:
        assert {held.key: held for held in store.page(JOBS)} == stored
        versions = [held.version for held in stored.values()]
        assert len(set(versions)) == len(versions)


async def test_upkeep_that_fails_is_tried_again_later(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        for number in range(3):
            await write(store, A, number)
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store.database.writer.execute("PRAGMA busy_timeout = 1")
        store.compact()
        await until(lambda: store.stalled)
        assert store.forgotten < store.compacted
        other.execute("ROLLBACK")
        other.close()
        store.compact()
        await until(lambda: store.forgotten == store.compacted)
        assert store.database.rows("SELECT count(*) FROM revisions") == [(1,)]


async def test_another_program_that_locks_the_file_fails_writes_and_nothing_else(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        held = await write(store, A, 1)
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store.database.writer.execute("PRAGMA busy_timeout = 1")
        waits = [write(store, key, 2) for key in (A, B, C)]
        answers = await asyncio.gather(*waits, return_exceptions=True)
        assert [str(answer) for answer in answers if "database is locked" not in str(answer)] == []
        assert store.page(JOBS) == [held]
        other.execute("ROLLBACK")
        other.close()
        assert value(await write(store, A, 3)) == 3


def test_objects_in_memory_are_bounded_and_those_used_last_stay() -> None:
    cache = Cache(limit=20_000)
    keys = [Key(JOBS, "red", str(number)) for number in range(100)]
    for key in keys:
        cache.keep(key, StoredObject(key, 1, "u", b"x" * 1_000))
        cache.keep(Key(PODS, "red", key.name), None)
        assert keys[0] in cache, "it is used again and again"
        cache.use(keys[0])
        assert cache.bytes <= 20_000
    assert 5 < len(cache.held) < 30
    for key in list(cache.held):
        cache.drop(key)
    assert cache.bytes == 0


async def test_an_object_that_is_not_in_memory_is_read_from_the_file(place: Path | None) -> None:
    async with opened(place) as store:
        store.cache.limit = 0
        held = await write(store, A, 1)
        assert A not in store.cache
        assert store.get(A) == store.latest(A) == held
        assert store.get(B) is None
        changed = await write(store, A, 2)
        assert store.changes(JOBS, after=held.version) == [
            Change(changed.version, A, "MODIFIED", changed.body, held.body)
        ]


async def test_a_record_is_stored_without_a_search_for_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "store.db") as store:
        with monkeypatch.context() as patched:
            patched.setattr(store.database, "get", lambda key: pytest.fail(f"searched for {key}"))
            assert store.remembered(A) is None
            held = store.put(A, tree(A, 1), uid="1", record=True)
            assert value(store.remembered(A)) == 1, "a second one of that name is noticed"
            store.press()
            assert value(await held) == 1
            assert value(store.remembered(A)) == 1
        store.cache.drop(A)
        assert store.remembered(A) is None
        assert value(store.latest(A)) == 1
