"""Is a watch that stalls or skips changes noticed, and does the cache recover?"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from pykueue.api.config.file import default_configuration
from pykueue.app.controllers import Controllers
from pykueue.base.clock import ManualClock
from pykueue.base.units import MICROS, Instant
from pykueue.kube import informer as informer_module
from pykueue.kube import watchcheck as module
from pykueue.kube.lease import Always
from pykueue.kube.port import CLUSTER_QUEUES, ConflictError, NotFoundError, Patch, Resource
from pykueue.kube.watchcheck import WatchCheck
from tests.builders import cluster_queue
from tests.clocks import SkippingClock
from tests.fakes.faulty import Faulty
from tests.kube.test_informer import OTHERS, THINGS, Seen, at_work, thing

SECONDS = 0.2


class Lossy(Faulty):
    """An API whose watches drop or hold back what a test says."""

    def __init__(self) -> None:
        super().__init__(SkippingClock())
        self.drops: Callable[[bytes], bool] = lambda line: False
        self.stalls = False
        """Whether watches that are open now show nothing any more."""

    async def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        async for line in super().watch(resource, namespace, version=version, labels=labels, fields=fields):
            if self.stalls:
                await asyncio.get_running_loop().create_future()
            if not self.drops(line):
                yield line


@asynccontextmanager
async def lossy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Lossy, Seen]]:
    """An informer of two things at a lossy API, with short times."""
    monkeypatch.setattr(module, "ECHO_SECONDS", SECONDS)
    for name in ("ECHO_SECONDS", "RECHECK_SECONDS"):
        monkeypatch.setattr(informer_module, name, SECONDS)
    api = Lossy()
    api.serve(THINGS, OTHERS)
    api.store(THINGS, thing("a", "1"))
    api.store(THINGS, thing("b", "1"))
    async with at_work(Seen(api)) as seen:
        await asyncio.wait_for(seen.informer.synced.wait(), 10)
        await seen.until(lambda: seen.informer.check.end is not None)
        async with asyncio.timeout(20):
            yield api, seen


def about(*names: str) -> Callable[[bytes], bool]:
    """Whether an event is about one of these."""
    return lambda line: any(f'"name":"{name}"'.encode() in line for name in names)


def lists(api: Lossy) -> int:
    return api.sent("list things")


async def test_a_change_of_ours_that_is_skipped_makes_it_list_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with lossy(monkeypatch) as (api, seen):
        api.drops = about("a", "new")
        seen.put("new", "1")
        seen.informer.learn(await seen.change("a", "2"))
        assert lists(api) == 0
        seen.put("b", "2")
        await seen.until(lambda: seen.values() == {"default/a": "2", "default/b": "2", "default/new": "1"})
        assert lists(api) == 1
        assert "watch skipped a change" in caplog.text


async def test_it_lists_until_the_watch_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with lossy(monkeypatch) as (api, seen):
        api.drops = about("a")
        for value in ("2", "3", "4"):
            seen.informer.learn(await seen.change("a", value))
            seen.put("b", value)
            await seen.until(partial(lambda before: lists(api) > before, lists(api)))
            assert not seen.informer.check.trusted
        # Nothing of ours is skipped any more, but something else is.
        seen.put("a", "5")
        seen.put("b", "5")
        await seen.until(lambda: seen.values() == {"default/a": "5", "default/b": "5"})
        api.drops = lambda line: False
        await seen.until(lambda: seen.informer.check.trusted)
        before = lists(api)
        seen.put("a", "6")
        await seen.until(lambda: seen.values()["default/a"] == "6")
        await asyncio.sleep(2 * SECONDS)
        assert lists(api) == before


async def test_a_watch_that_stalls_while_a_change_of_ours_is_awaited_is_opened_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with lossy(monkeypatch) as (api, seen):
        api.stalls = True
        seen.put("b", "2")
        await asyncio.sleep(2 * SECONDS)
        assert seen.values()["default/b"] == "1"
        seen.informer.learn(await seen.change("a", "2"))
        await asyncio.sleep(0)
        api.stalls = False
        await seen.until(lambda: seen.values() == {"default/a": "2", "default/b": "2"})
        assert (lists(api), seen.informer.check.trusted) == (0, True)
        assert "watch shows no changes" in caplog.text


async def test_a_watch_that_shows_our_changes_late_but_goes_on_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with lossy(monkeypatch) as (api, seen):
        api.lag = asyncio.Event()
        watches = api.sent("watch things")
        for round_ in range(6):
            seen.put("b", str(round_))
        learned = await seen.change("a", "2")
        seen.informer.learn(learned)
        for _ in range(6):
            await asyncio.sleep(SECONDS / 2)
            api.lag.set()
            await asyncio.sleep(0)
            api.lag.clear()
        api.lag.set()
        await seen.until(lambda: not seen.informer.check.awaited)
        await asyncio.sleep(2 * SECONDS)
        assert (api.sent("watch things"), lists(api)) == (watches, 0)


async def test_a_version_that_the_watch_passed_without_showing_it_is_noticed_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lossy(monkeypatch) as (api, seen):
        api.drops = about("a", "new")
        seen.put("a", "2")
        made = seen.put("new", "1")
        seen.put("b", "2")
        await seen.until(lambda: seen.values() == {"default/a": "1", "default/b": "2"})
        api.drops = lambda line: False
        await asyncio.sleep(2 * SECONDS)
        assert lists(api) == 0
        seen.informer.learn(json.dumps(made).encode())
        await seen.until(lambda: seen.values() == {"default/a": "2", "default/b": "2", "default/new": "1"})
        assert lists(api) == 1


async def test_late_responses_about_what_has_changed_or_is_gone_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with lossy(monkeypatch) as (api, seen):
        changed, gone = await seen.change("a", "2"), await seen.change("b", "2")
        await seen.change("a", "3")
        api.drop(THINGS, "b", "default")
        await seen.until(lambda: seen.values() == {"default/a": "3"})
        seen.informer.learn(changed)
        seen.informer.learn(gone)
        await asyncio.sleep(2 * SECONDS)
        assert (lists(api), seen.informer.check.trusted) == (0, True)


async def test_a_refused_write_makes_it_read_the_object_unless_the_watch_shows_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lossy(monkeypatch) as (api, seen):
        seen.informer.doubt("default/b")
        seen.put("b", "2")
        seen.informer.doubt("default/unknown")
        await asyncio.sleep(2 * SECONDS)
        assert (api.sent("get things"), lists(api)) == (0, 0)
        api.drops = about("a")
        seen.put("a", "2")
        api.drop(THINGS, "a", "default")
        seen.put("b", "3")
        await seen.until(lambda: seen.values()["default/b"] == "3")
        for _ in range(2):
            seen.informer.doubt("default/a")
        await seen.until(lambda: "default/a" not in seen.values())
        assert (api.sent("get things"), lists(api)) == (1, 1)


async def test_a_refused_write_of_an_object_that_is_as_we_know_it_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lossy(monkeypatch) as (api, seen):
        seen.informer.doubt("default/a")
        await seen.until(lambda: api.sent("get things") == 1)
        await asyncio.sleep(SECONDS)
        assert lists(api) == 0


@pytest.mark.parametrize(
    ("most", "listed"), [pytest.param(2, 1, id="a small kind"), pytest.param(1, 0, id="a large kind")]
)
async def test_a_small_kind_is_listed_again_when_the_server_ends_its_watch(
    monkeypatch: pytest.MonkeyPatch, most: int, listed: int
) -> None:
    monkeypatch.setattr(informer_module, "SMALL_ITEMS", most)
    async with lossy(monkeypatch) as (api, seen):
        api.drops = about("a")
        seen.put("a", "2")
        seen.put("b", "2")
        await seen.until(lambda: seen.values() == {"default/a": "1", "default/b": "2"})
        seen.clock.time = Instant(seen.clock.time + 2 * MICROS)
        api.watch_faults.append(None)
        seen.put("b", "3")
        await seen.until(lambda: seen.values()["default/b"] == "3")
        assert lists(api) >= listed
        assert seen.values()["default/a"] == ("2" if listed else "1")


def test_only_so_many_deletions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELETIONS_MAX", 2)
    check = WatchCheck("things")
    for version, key in enumerate(("a", "b", "a", "c"), 1):
        check.deleted(key, version)
    assert check.deletions == {"a": 3, "c": 4}


async def test_the_manager_doubts_its_cache_when_a_write_finds_an_object_changed_or_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    api = Faulty(clock)
    api.store(CLUSTER_QUEUES, cluster_queue("q", "1"))
    leads = Always()
    leads.leading = True
    made = Controllers(api, api, leads, clock, default_configuration())
    doubted: list[str] = []
    monkeypatch.setattr(made.cluster.cluster_queues, "doubt", doubted.append)
    writing = made.cluster.kube
    outdated = b'{"metadata":{"resourceVersion":"1"},"status":{"pendingWorkloads":1}}'
    for name, error in (("q", ConflictError), ("gone", NotFoundError)):
        with pytest.raises(error):
            await writing.patch(CLUSTER_QUEUES, name, outdated, how=Patch.MERGE, subresource="status")
        with pytest.raises(error):
            await writing.delete(CLUSTER_QUEUES, name, uid="another")
    await writing.patch(CLUSTER_QUEUES, "q", b'{"metadata":{"labels":{"a":"b"}}}', how=Patch.MERGE)
    assert doubted == ["q", "q", "gone", "gone"]


def test_what_a_list_has_shown_is_not_awaited() -> None:
    check = WatchCheck("things")
    ended: list[str] = []
    check.begin(lambda: ended.append("ended"))
    check.awaited = [7]
    check.listed(9)
    check.returned(8)
    assert check.awaited == []
    check.shown(12)
    assert (ended, check.trusted) == ([], True)
