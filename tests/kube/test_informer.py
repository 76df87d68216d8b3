"""Does the cache follow the server, whatever happens in between?"""

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest

from pykueue.api.core import ObjectMeta
from pykueue.base.struct import Wire
from pykueue.base.units import MICROS, Instant
from pykueue.kube import informer as module
from pykueue.kube.index import Index
from pykueue.kube.informer import Change, Informer, gc_paused
from pykueue.kube.port import (
    DeniedError,
    GoneError,
    KubeError,
    NotFoundError,
    Patch,
    RejectedError,
    Resource,
    UnansweredError,
)
from tests.clocks import SkippingClock
from tests.fakes.faulty import Faulty, Object
from tests.patience import soon_async

THINGS = Resource("example.com", "v1", "things", "Thing", True)
OTHERS = Resource("example.com", "v1", "others", "Other", True)
FIRST_WATCH = "watch things "


class Spec(Wire):
    value: str = ""


class Thing(Wire):
    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()


def thing(name: str, value: str = "", namespace: str = "default") -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"value": value}}


def cluster() -> Faulty:
    """An API that holds one thing, whose events it counts from there."""
    api = Faulty(SkippingClock())
    api.serve(THINGS, OTHERS)
    api.store(THINGS, thing("a", "1"))
    return api


class Seen:
    """An informer at work, and what its handlers were told."""

    def __init__(self, api: Faulty, *, namespace: str = "") -> None:
        self.api = api
        self.clock = SkippingClock()
        read = msgspec.json.Decoder(Thing).decode
        self.informer: Informer[Thing] = Informer(api, THINGS, read, self.clock, namespace=namespace, rng=lambda: 1.0)
        self.told: list[str] = []
        self.informer.listen(self.hear)

    def hear(self, change: Change[Thing]) -> None:
        old = change.old.spec.value if change.old is not None else None
        new = change.new.spec.value if change.new is not None else None
        self.told.append(f"{change.key} {old}->{new}")

    def values(self) -> dict[str, str]:
        return {key: found.spec.value for key, found in self.informer.objects.items()}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so."""
        assert await soon_async(condition, pause=0)

    def put(self, name: str, value: str, namespace: str = "default") -> Object:
        return self.api.put(THINGS, name, namespace, spec={"value": value})

    def cut(self) -> None:
        """Break the watch off at the next event, which is then asked for again."""
        self.api.watch_faults.append(UnansweredError("watch", 0, "ConnectionLost", "cut off"))

    async def change(self, name: str, value: str) -> bytes:
        body = json.dumps({"spec": {"value": value}}).encode()
        return await self.api.patch(THINGS, name, body, "default", how=Patch.MERGE)


def paged(what: str) -> None:
    """Refuse the streaming list."""
    if what == FIRST_WATCH:
        raise RejectedError(what, 422, "Invalid", "sendInitialEvents is forbidden for watch")


def down(what: str) -> None:
    raise KubeError(what, 500, "InternalError", "not now")


@asynccontextmanager
async def at_work(seen: Seen) -> AsyncIterator[Seen]:
    # The first list is to have what was stored before.
    store = seen.api.registry.store
    await seen.until(lambda: store.version == store.issued)
    task = asyncio.create_task(seen.informer.run())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def informed(*, streaming: bool = True, namespace: str = "") -> AsyncIterator[Seen]:
    """What an informer that has listed sees, for at most 20 seconds."""
    api = cluster()
    api.store(THINGS, thing("b", "1"))
    api.before = None if streaming else paged
    async with at_work(Seen(api, namespace=namespace)) as seen:
        await asyncio.wait_for(seen.informer.synced.wait(), 10)
        async with asyncio.timeout(20):
            yield seen


@pytest.mark.parametrize("streaming", [pytest.param(True, id="by a stream"), pytest.param(False, id="by pages")])
async def test_what_there_is_and_what_changes_arrives(streaming: bool) -> None:
    async with informed(streaming=streaming) as seen:
        assert seen.values() == {"default/a": "1", "default/b": "1"}
        seen.put("a", "2")
        seen.put("c", "1", "other")
        seen.api.drop(THINGS, "b", "default")
        await seen.until(lambda: len(seen.told) == 5)
        assert seen.values() == {"default/a": "2", "other/c": "1"}
        assert seen.told == [
            "default/a None->1",
            "default/b None->1",
            "default/a 1->2",
            "other/c None->1",
            "default/b 1->None",
        ]
        assert seen.informer.get("default/a") is seen.informer.objects["default/a"]
        assert seen.api.sent("list things") == (0 if streaming else 1)


async def test_one_namespace_can_be_followed_alone() -> None:
    async with informed(namespace="default") as seen:
        seen.put("c", "1", "other")
        seen.put("a", "2")
        await seen.until(lambda: seen.values()["default/a"] == "2")
        assert sorted(seen.values()) == ["default/a", "default/b"]


@pytest.mark.parametrize("streaming", [pytest.param(True, id="by a stream"), pytest.param(False, id="by pages")])
async def test_a_watch_that_is_cut_off_goes_on_where_it_was(streaming: bool) -> None:
    async with informed(streaming=streaming) as seen:
        for round_ in range(3):
            seen.cut()
            seen.put("a", f"after {round_}")
            await seen.until(partial(lambda value: seen.values()["default/a"] == value, f"after {round_}"))
        assert seen.api.sent("watch things") - seen.api.calls.count(FIRST_WATCH) >= 3
        assert seen.told[2:] == ["default/a 1->after 0", "default/a after 0->after 1", "default/a after 1->after 2"]


async def test_a_bookmark_moves_where_the_watch_goes_on_from() -> None:
    async with informed() as seen:
        for number in range(5):
            seen.api.store(OTHERS, thing(f"x{number}"))
        marked = {"metadata": {"resourceVersion": str(seen.api.registry.store.issued)}}
        seen.api.watch_faults.append(msgspec.json.encode({"type": "BOOKMARK", "object": marked}))
        seen.cut()
        seen.api.before = lambda what: seen.api.registry.store.compact(1)
        seen.put("a", "2")
        await seen.until(lambda: seen.values()["default/a"] == "2")
        assert seen.api.calls == [FIRST_WATCH, f"watch things {marked['metadata']['resourceVersion']}"]


@pytest.mark.parametrize("streaming", [pytest.param(True, id="by a stream"), pytest.param(False, id="by pages")])
async def test_a_version_that_is_too_old_makes_it_list_anew_and_tell_only_what_differs(streaming: bool) -> None:
    async with informed(streaming=streaming) as seen:
        seen.put("same", "1")
        await seen.until(lambda: len(seen.told) == 3)
        version = seen.informer.version
        seen.api.before = down
        seen.cut()
        seen.put("a", "2")
        seen.put("new", "1")
        seen.api.drop(THINGS, "b", "default")
        await seen.until(lambda: bool(seen.clock.slept))
        seen.api.registry.store.compact()
        assert seen.informer.version == version
        seen.told.clear()
        seen.api.before = None
        await seen.until(lambda: len(seen.told) == 3)
        assert sorted(seen.told) == ["default/a 1->2", "default/b 1->None", "default/new None->1"]
        seen.put("same", "2")
        await seen.until(lambda: seen.values()["default/same"] == "2")


async def test_a_watch_that_ends_in_good_order_goes_on_at_once() -> None:
    async with informed() as seen:
        for _ in range(3):
            seen.clock.time = Instant(seen.clock.time + 2 * MICROS)
            before = seen.api.sent("watch things")
            seen.api.watch_faults.append(None)
            seen.put("a", f"after {before}")
            await seen.until(partial(lambda count: seen.api.sent("watch things") > count, before))
        assert seen.clock.slept == []


async def test_a_watch_that_always_ends_at_once_is_not_asked_for_without_pause() -> None:
    async with informed() as seen:
        seen.api.watch_faults += [None] * 8
        seen.put("a", "2")
        await seen.until(lambda: seen.values()["default/a"] == "2")
        assert seen.clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


async def test_an_object_that_cannot_be_read_is_named_once_and_keeps_its_last_form(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        async with informed() as seen:
            for _ in range(2):
                seen.api.store(THINGS, {**thing("a"), "spec": "what?"})
            seen.api.store(THINGS, {**thing("new"), "spec": ["what?"]})
            seen.put("b", "2")
            await seen.until(lambda: seen.values().get("default/b") == "2")
            assert seen.values() == {"default/a": "1", "default/b": "2"}
            # Listing anew does not take it for deleted either.
            seen.api.watch_faults.append(GoneError("watch", 410, "Expired", "too old"))
            seen.put("b", "3")
            await seen.until(lambda: seen.values().get("default/b") == "3")
            assert seen.api.calls == [FIRST_WATCH] * 2
            assert seen.values()["default/a"] == "1"
            seen.api.store(THINGS, thing("a", "3"))
            await seen.until(lambda: seen.values().get("default/a") == "3")
            seen.api.store(THINGS, {**thing("a"), "spec": "again"})
            seen.api.drop(THINGS, "a", "default")
            await seen.until(lambda: "default/a" not in seen.values())
            assert seen.told[2:] == ["default/b 1->2", "default/b 2->3", "default/a 1->3", "default/a 3->None"]
            named = [vars(record)["object"] for record in caplog.records if "malformed object" in record.message]
            assert named == ["default/a", "default/new", "default/a"]


async def test_a_line_that_makes_no_sense_is_passed_over() -> None:
    async with informed() as seen:
        seen.api.watch_faults += [b"no json", b"", b'{"type":"ADDED"}', b'{"type":"WHAT","object":{}}', b"[]"]
        seen.put("a", "2")
        await seen.until(lambda: seen.values()["default/a"] == "2")
        assert seen.api.calls == [FIRST_WATCH]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(
            DeniedError("watch things.example.com", 403, "Forbidden", 'User "me" cannot watch resource "things"'),
            'watch things.example.com: User "me" cannot watch resource "things"',
            id="it is denied",
        ),
        pytest.param(
            NotFoundError("watch things.example.com", 404, "", "404 page not found"),
            "watch things.example.com: 404 page not found",
            id="the kind is not there yet",
        ),
    ],
)
async def test_trouble_is_said_and_tried_again_slowly_until_it_is_over(
    error: KubeError, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(what: str) -> None:
        raise error

    with caplog.at_level(logging.ERROR):
        api = cluster()
        api.before = refused
        async with at_work(Seen(api)) as seen:
            await seen.until(lambda: len(seen.clock.slept) > 7)
            assert seen.clock.slept[:7] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
            assert seen.informer.trouble == said
            assert not seen.informer.synced.is_set()
            api.before = None
            await asyncio.wait_for(seen.informer.synced.wait(), 10)
            assert (seen.informer.trouble, seen.values()) == ("", {"default/a": "1"})
    assert len([record for record in caplog.records if "cannot watch" in record.message]) == 1


async def test_a_stream_that_never_ends_its_list_is_given_up_for_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STREAM_SECONDS", 0.2)

    def silent(what: str) -> Awaitable[None] | None:
        return asyncio.sleep(30) if what == FIRST_WATCH else None

    api = cluster()
    api.before = silent
    async with at_work(Seen(api)) as seen:
        await asyncio.wait_for(seen.informer.synced.wait(), 10)
        assert seen.values() == {"default/a": "1"}


async def test_the_answer_to_a_write_is_taken_in_at_once_and_not_told_twice() -> None:
    async with informed() as seen:
        raw = await seen.change("a", "2")
        before = list(seen.told)
        learned = seen.informer.learn(raw)
        if "default/a 1->2" not in before:
            assert seen.told == [*before, "default/a 1->2"]
        assert learned.spec.value == seen.values()["default/a"] == "2"
        seen.put("b", "2")
        await seen.until(lambda: seen.values()["default/b"] == "2")
        assert seen.told[2:] == ["default/a 1->2", "default/b 1->2"]


async def test_the_echo_of_a_write_is_not_decoded_again() -> None:
    async with informed() as seen:
        seen.api.lag = asyncio.Event()
        read, decoded = seen.informer.read, []

        def reading(raw: bytes) -> Thing:
            decoded.append(read(raw).spec.value)
            return read(raw)

        seen.informer.read = reading
        seen.informer.learn(await seen.change("a", "2"))
        seen.api.lag.set()
        seen.put("b", "3")
        await seen.until(lambda: seen.values()["default/b"] == "3")
        assert decoded == ["2", "3"]
        assert not seen.informer.check.awaited


async def test_an_answer_that_comes_late_does_not_undo_what_came_since() -> None:
    async with informed() as seen:
        late = await seen.change("a", "2")
        await seen.change("a", "3")
        late_for_gone = await seen.change("b", "2")
        seen.api.drop(THINGS, "b", "default")
        await seen.until(lambda: seen.values() == {"default/a": "3"})
        told = list(seen.told)
        assert seen.informer.learn(late).spec.value == "2"
        seen.informer.learn(late_for_gone)
        assert seen.values() == {"default/a": "3"}
        assert seen.told == told


async def test_an_object_made_anew_is_not_taken_for_deleted_by_the_news_of_the_old_ones_end() -> None:
    async with informed() as seen:
        seen.api.lag = asyncio.Event()
        seen.api.drop(THINGS, "a", "default")
        seen.informer.learn(json.dumps(seen.put("a", "second")).encode())
        seen.api.lag.set()
        seen.put("b", "2")
        await seen.until(lambda: seen.values()["default/b"] == "2")
        assert seen.told[2:] == ["default/a 1->second", "default/b 1->2"]


async def test_an_object_learned_after_a_list_was_taken_is_not_taken_for_deleted_by_it() -> None:
    async with informed() as seen:
        made = json.loads(json.dumps(thing("new", "1")))
        made["metadata"]["resourceVersion"] = "999"
        seen.informer.learn(json.dumps(made).encode())
        seen.informer.listed({"default/a", "default/b"}, 500)
        assert "default/new" in seen.values()
        seen.informer.listed({"default/a", "default/b"}, 1000)
        assert "default/new" not in seen.values()


async def test_an_index_is_up_to_date_when_handlers_look_at_it() -> None:
    async with informed() as seen:
        index = seen.informer.index(lambda found: found.spec.value.split(","))
        sizes: list[tuple[int, int]] = []
        seen.informer.listen(lambda change: sizes.append((len(index.get("x")), len(index.get("y")))))
        sizes.clear()
        for value in ("x", "x,y", "y", "x,y"):
            seen.put("a", value)
        seen.put("b", "x")
        seen.api.drop(THINGS, "a", "default")
        await seen.until(lambda: len(sizes) == 6)
        assert sizes == [(1, 0), (1, 1), (0, 1), (1, 1), (2, 1), (1, 0)]
        assert list(index.get("x")) == ["default/b"]
        assert index.get("x")["default/b"] is seen.informer.objects["default/b"]
        assert set(index.values) == {"x"}


async def test_a_late_listener_hears_of_what_is_there() -> None:
    async with informed() as seen:
        heard: list[str] = []
        seen.informer.listen(lambda change: heard.append(change.key))
        assert heard == ["default/a", "default/b"]


async def test_a_handler_or_index_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with informed() as seen:

        def broken(change: Change[Thing]) -> None:
            raise ValueError("what?")

        def keyless(found: Thing) -> list[str]:
            return [{"1": "x"}[found.spec.value]]

        seen.informer.listen(broken)
        seen.informer.index(keyless)
        seen.informer.handlers.reverse()
        seen.put("a", "2")
        await seen.until(lambda: seen.values()["default/a"] == "2")
        assert seen.told[-1] == "default/a 1->2"
    assert {vars(record)["object"] for record in caplog.records if record.exc_info} == {"default/a", "default/b"}


async def test_objects_are_shrunk_before_they_are_kept() -> None:
    api = cluster()
    api.store(THINGS, thing("a", "long"))
    seen = Seen(api)
    seen.informer.shrink = lambda found: msgspec.structs.replace(found, spec=Spec(found.spec.value[:1]))
    async with at_work(seen):
        await asyncio.wait_for(seen.informer.synced.wait(), 10)
        assert seen.values() == {"default/a": "l"}


async def test_an_object_that_has_just_become_one_to_be_shrunk_is_told_of_whole() -> None:
    def shrink(found: Thing) -> Thing:
        return msgspec.structs.replace(found, spec=Spec("over")) if found.spec.value.startswith("over") else found

    async with informed() as seen:
        index = seen.informer.index(lambda found: (found.spec.value,))
        seen.informer.shrink = shrink
        learned = seen.informer.learn(await seen.change("a", "over, at last"))
        await seen.change("a", "over and out")
        await seen.change("a", "again")
        await seen.change("b", "2")
        await seen.until(lambda: seen.values()["default/b"] == "2")
        assert learned.spec.value == "over, at last"
        assert seen.told[2:] == [
            "default/a 1->over, at last",
            "default/a over->over",
            "default/a over->again",
            "default/b 1->2",
        ]
        assert set(index.values) == {"again", "2"}


def test_an_index_holds_one_many_and_none_again() -> None:
    index: Index[Thing] = Index(lambda found: found.spec.value.split(","))
    x, both = Thing(spec=Spec("x")), Thing(spec=Spec("x,y"))
    index.update("a", None, x)
    index.update("a", x, both)
    assert dict(index.get("x")) == {"a": both}
    index.update("b", None, x)
    index.update("c", None, x)
    assert dict(index.get("x")) == {"a": both, "b": x, "c": x}
    for key in ("a", "b", "c"):
        index.update(key, index.get("x")[key], None)
    assert (index.values, dict(index.get("x"))) == ({}, {})


def test_the_collector_rests_while_any_list_is_taken_in() -> None:
    assert gc.isenabled()
    with gc_paused:
        assert not gc.isenabled()
        with gc_paused:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_paused:
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
