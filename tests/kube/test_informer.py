"""Does the cache follow the server, whatever happens in between?"""

import asyncio
import gc
import json
import logging
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from aiohttp import web

from pykueue.api.core import ObjectMeta
from pykueue.base.struct import Wire
from pykueue.base.units import MICROS
from pykueue.kube import informer as module
from pykueue.kube.client.http import HttpKube
from pykueue.kube.informer import Change, Index, Informer, gc_paused
from pykueue.kube.port import Patch
from tests.clocks import SkippingClock
from tests.kube.tinyapi import THINGS, TinyApi, status, thing


class Spec(Wire):
    value: str = ""


class Thing(Wire):
    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()


class Seen:
    """An informer at work, and what its handlers were told."""

    def __init__(self, api: TinyApi, *, namespace: str = "") -> None:
        self.api = api
        self.clock = SkippingClock()
        self.kube = HttpKube(api.connection(), self.clock, rng=lambda: 0.0)
        read = msgspec.json.Decoder(Thing).decode
        self.informer: Informer[Thing] = Informer(
            self.kube, THINGS, read, self.clock, namespace=namespace, rng=lambda: 1.0
        )
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
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.005)

    async def change(self, name: str, value: str) -> bytes:
        body = json.dumps({"spec": {"value": value}}).encode()
        return await self.kube.patch(THINGS, name, body, "default", how=Patch.MERGE)


def run(test: Callable[[Seen], Awaitable[None]], *, streaming: bool = True, namespace: str = "") -> None:
    async def main() -> None:
        async with TinyApi().serve() as api:
            api.streaming = streaming
            await api.put("things", thing("a", "1"))
            await api.put("things", thing("b", "1"))
            seen = Seen(api, namespace=namespace)
            task = asyncio.create_task(seen.informer.run())
            try:
                await asyncio.wait_for(seen.informer.synced.wait(), 10)
                await asyncio.wait_for(test(seen), 20)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await seen.kube.close()

    asyncio.run(main())


@pytest.mark.parametrize("streaming", [pytest.param(True, id="by a stream"), pytest.param(False, id="by pages")])
def test_what_there_is_and_what_changes_arrives(streaming: bool) -> None:
    async def test(seen: Seen) -> None:
        assert seen.values() == {"default/a": "1", "default/b": "1"}
        await seen.api.put("things", thing("a", "2"))
        await seen.api.put("things", thing("c", "1", namespace="other"))
        await seen.api.remove("things", "default/b")
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
        listed = [path for path in seen.api.asked("GET") if "watch" not in path]
        assert len(listed) == (0 if streaming else 1)

    run(test, streaming=streaming)


def test_one_namespace_can_be_followed_alone() -> None:
    async def test(seen: Seen) -> None:
        asked = seen.api.asked("GET")
        assert asked
        assert all("/namespaces/default/things" in path for path in asked)

    run(test, namespace="default")


@pytest.mark.parametrize("streaming", [pytest.param(True, id="by a stream"), pytest.param(False, id="by pages")])
def test_a_watch_that_is_cut_off_goes_on_where_it_was(streaming: bool) -> None:
    async def test(seen: Seen) -> None:
        for round_ in range(3):
            await seen.api.cut()
            await seen.api.put("things", thing("a", f"after {round_}"))
            await seen.until(lambda value=f"after {round_}": seen.values()["default/a"] == value)  # type: ignore[misc]  # a lambda's default has no type to infer
        resumed = [path for path in seen.api.asked("GET") if "resourceVersion=" in path]
        assert len(resumed) >= 3
        assert seen.told[2:] == ["default/a 1->after 0", "default/a after 0->after 1", "default/a after 1->after 2"]

    run(test, streaming=streaming)


def test_a_bookmark_moves_where_the_watch_goes_on_from() -> None:
    async def test(seen: Seen) -> None:
        for number in range(5):
            await seen.api.put("others", thing(f"x{number}"))
        await seen.api.bookmark()
        await seen.until(lambda: seen.informer.version == "107")
        seen.api.compact()
        await seen.api.cut()
        await seen.api.put("things", thing("a", "2"))
        await seen.until(lambda: seen.values()["default/a"] == "2")
        assert seen.api.asked("GET")[-1].endswith("resourceVersion=107")
        assert len([path for path in seen.api.asked("GET") if "sendInitialEvents" in path]) == 1

    run(test)


@pytest.mark.parametrize("streaming", [pytest.param(True, id="by a stream"), pytest.param(False, id="by pages")])
def test_a_version_that_is_too_old_makes_it_list_anew_and_tell_only_what_differs(streaming: bool) -> None:
    async def test(seen: Seen) -> None:
        await seen.api.put("things", thing("same", "1"))
        await seen.until(lambda: len(seen.told) == 3)
        version = seen.informer.version
        seen.api.accident = unavailable
        await seen.api.cut()
        await seen.api.put("things", thing("a", "2"))
        await seen.api.put("things", thing("new", "1"))
        await seen.api.remove("things", "default/b")
        seen.api.compact()
        assert seen.informer.version == version
        seen.told.clear()
        seen.api.accident = None
        await seen.until(lambda: len(seen.told) == 3)
        assert sorted(seen.told) == ["default/a 1->2", "default/b 1->None", "default/new None->1"]
        await seen.api.put("things", thing("same", "2"))
        await seen.until(lambda: seen.values()["default/same"] == "2")

    async def unavailable(request: web.Request) -> web.StreamResponse | None:
        return status(500, "InternalError")

    run(test, streaming=streaming)


def test_a_watch_that_ends_in_good_order_goes_on_at_once() -> None:
    async def test(seen: Seen) -> None:
        for _ in range(3):
            seen.clock.time += 2 * MICROS  # type: ignore[assignment]  # an instant plus a time is one
            before = len(seen.api.log)
            await seen.api.end_watches()
            await seen.until(lambda before=before: len(seen.api.log) > before)  # type: ignore[misc]  # a lambda's default has no type to infer
        assert seen.clock.slept == []

    run(test)


def test_a_watch_that_always_ends_at_once_is_not_asked_for_without_pause() -> None:
    async def test(seen: Seen) -> None:
        async def ends(request: web.Request) -> web.StreamResponse | None:
            return web.Response(text="")

        seen.api.accident = ends
        await seen.api.cut()
        await seen.until(lambda: len(seen.clock.slept) > 8)
        assert seen.clock.slept[:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
        seen.api.accident = None
        await seen.api.put("things", thing("a", "2"))
        await seen.until(lambda: seen.values()["default/a"] == "2")

    run(test)


def test_an_object_that_cannot_be_read_is_named_once_and_keeps_its_last_form(caplog: pytest.LogCaptureFixture) -> None:
    async def test(seen: Seen) -> None:
        for _ in range(2):
            await seen.api.put("things", {**thing("a"), "spec": "what?"})
        await seen.api.put("things", {**thing("new"), "spec": ["what?"]})
        await seen.api.put("things", thing("b", "2"))
        await seen.until(lambda: seen.values().get("default/b") == "2")
        assert seen.values() == {"default/a": "1", "default/b": "2"}
        # Listing anew does not take it for deleted either.
        seen.api.compact()
        seen.informer.version = "1"
        await seen.api.cut()
        await seen.until(lambda: len([path for path in seen.api.asked("GET") if "sendInitial" in path]) == 2)
        await seen.api.put("things", thing("a", "3"))
        await seen.until(lambda: seen.values().get("default/a") == "3")
        await seen.api.put("things", {**thing("a"), "spec": "again"})
        await seen.api.remove("things", "default/a")
        await seen.until(lambda: "default/a" not in seen.values())
        assert seen.told[2:] == ["default/b 1->2", "default/a 1->3", "default/a 3->None"]
        named = [record.object for record in caplog.records if "malformed object" in record.message]  # type: ignore[attr-defined]  # the log's `extra` puts it there
        assert named == ["default/a", "default/new", "default/a"]

    with caplog.at_level(logging.ERROR):
        run(test)


def test_a_line_that_makes_no_sense_is_passed_over() -> None:
    async def test(seen: Seen) -> None:
        async def nonsense(request: web.Request) -> web.StreamResponse | None:
            if "watch" not in request.query:
                return None
            seen.api.accident = None
            good = json.dumps({"type": "MODIFIED", "object": await seen.api.put("things", thing("a", "2"))})
            return web.Response(text=f'no json\n{{"type":"ADDED"}}\n{{"type":"WHAT","object":{{}}}}\n\n[]\n{good}\n')

        seen.api.accident = nonsense
        await seen.api.cut()
        await seen.until(lambda: seen.values()["default/a"] == "2")

    run(test)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(
            lambda: status(403, "Forbidden", 'things is forbidden: User "me" cannot watch resource "things"'),
            'watch things.example.com: things is forbidden: User "me" cannot watch resource "things"',
            id="it is denied",
        ),
        pytest.param(
            lambda: web.Response(status=404, text="404 page not found"),
            "watch things.example.com: 404 page not found",
            id="the kind is not there yet",
        ),
    ],
)
def test_trouble_is_said_and_tried_again_slowly_until_it_is_over(
    answer: Callable[[], web.Response], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with TinyApi().serve() as api:

            async def refused(request: web.Request) -> web.StreamResponse | None:
                return answer()

            api.accident = refused
            await api.put("things", thing("a", "1"))
            seen = Seen(api)
            task = asyncio.create_task(seen.informer.run())
            await seen.until(lambda: len(seen.clock.slept) > 7)
            assert seen.clock.slept[:7] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
            assert seen.informer.trouble == said
            assert not seen.informer.synced.is_set()
            api.accident = None
            await asyncio.wait_for(seen.informer.synced.wait(), 10)
            assert (seen.informer.trouble, seen.values()) == ("", {"default/a": "1"})
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await seen.kube.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert len([record for record in caplog.records if "cannot watch" in record.message]) == 1


def test_a_stream_that_never_ends_its_list_is_given_up_for_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STREAM_SECONDS", 0.2)

    async def main() -> None:
        async with TinyApi().serve() as api:

            async def silent(request: web.Request) -> web.StreamResponse | None:
                if "sendInitialEvents" in request.query:
                    response = web.StreamResponse()
                    await response.prepare(request)
                    await asyncio.sleep(30)
                return None

            api.accident = silent
            await api.put("things", thing("a", "1"))
            seen = Seen(api)
            task = asyncio.create_task(seen.informer.run())
            await asyncio.wait_for(seen.informer.synced.wait(), 10)
            assert seen.values() == {"default/a": "1"}
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await seen.kube.close()

    asyncio.run(main())


def test_the_answer_to_a_write_is_taken_in_at_once_and_not_told_twice() -> None:
    async def test(seen: Seen) -> None:
        raw = await seen.change("a", "2")
        before = list(seen.told)
        learned = seen.informer.learn(raw)
        if "default/a 1->2" not in before:
            assert seen.told == [*before, "default/a 1->2"]
        assert learned.spec.value == seen.values()["default/a"] == "2"
        await seen.api.put("things", thing("b", "2"))
        await seen.until(lambda: seen.values()["default/b"] == "2")
        assert seen.told[2:] == ["default/a 1->2", "default/b 1->2"]

    run(test)


def test_an_answer_that_comes_late_does_not_undo_what_came_since() -> None:
    async def test(seen: Seen) -> None:
        late = await seen.change("a", "2")
        await seen.change("a", "3")
        late_for_gone = await seen.change("b", "2")
        await seen.api.remove("things", "default/b")
        await seen.until(lambda: seen.values() == {"default/a": "3"})
        told = list(seen.told)
        assert seen.informer.learn(late).spec.value == "2"
        seen.informer.learn(late_for_gone)
        assert seen.values() == {"default/a": "3"}
        assert seen.told == told

    run(test)


def test_an_object_made_anew_is_not_taken_for_deleted_by_the_news_of_the_old_ones_end() -> None:
    async def test(seen: Seen) -> None:
        seen.api.accident = held
        await seen.api.cut()
        await seen.api.remove("things", "default/a")
        made = await seen.api.put("things", thing("a", "second"))
        seen.informer.learn(json.dumps(made).encode())
        seen.api.accident = None
        await seen.api.put("things", thing("b", "2"))
        await seen.until(lambda: seen.values()["default/b"] == "2")
        assert seen.told[2:] == ["default/a 1->second", "default/b 1->2"]

    async def held(request: web.Request) -> web.StreamResponse | None:
        return status(500, "InternalError")

    run(test)


def test_an_object_learned_after_a_list_was_taken_is_not_taken_for_deleted_by_it() -> None:
    async def test(seen: Seen) -> None:
        made = json.loads(json.dumps(thing("new", "1")))
        made["metadata"]["resourceVersion"] = "999"
        seen.informer.learn(json.dumps(made).encode())
        seen.informer.listed({"default/a", "default/b"}, 500)
        assert "default/new" in seen.values()
        seen.informer.listed({"default/a", "default/b"}, 1000)
        assert "default/new" not in seen.values()

    run(test)


def test_an_index_is_up_to_date_when_handlers_look_at_it() -> None:
    async def test(seen: Seen) -> None:
        index = seen.informer.index(lambda found: found.spec.value.split(","))
        sizes: list[tuple[int, int]] = []
        seen.informer.listen(lambda change: sizes.append((len(index.get("x")), len(index.get("y")))))
        sizes.clear()
        for value in ("x", "x,y", "y", "x,y"):
            await seen.api.put("things", thing("a", value))
        await seen.api.put("things", thing("b", "x"))
        await seen.api.remove("things", "default/a")
        await seen.until(lambda: len(sizes) == 6)
        assert sizes == [(1, 0), (1, 1), (0, 1), (1, 1), (2, 1), (1, 0)]
        assert list(index.get("x")) == ["default/b"]
        assert index.get("x")["default/b"] is seen.informer.objects["default/b"]
        assert set(index.values) == {"x"}

    run(test)


def test_a_late_listener_hears_of_what_is_there() -> None:
    async def test(seen: Seen) -> None:
        heard: list[str] = []
        seen.informer.listen(lambda change: heard.append(change.key))
        assert heard == ["default/a", "default/b"]

    run(test)


def test_a_handler_or_index_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test(seen: Seen) -> None:
        def broken(change: Change[Thing]) -> None:
            raise ValueError("what?")

        def keyless(found: Thing) -> list[str]:
            return [{"1": "x"}[found.spec.value]]

        seen.informer.listen(broken)
        seen.informer.index(keyless)
        seen.informer.handlers.reverse()
        await seen.api.put("things", thing("a", "2"))
        await seen.until(lambda: seen.values()["default/a"] == "2")
        assert seen.told[-1] == "default/a 1->2"

    run(test)
    assert {record.object for record in caplog.records if record.exc_info} == {"default/a", "default/b"}  # type: ignore[attr-defined]  # the log's `extra` puts it there


def test_objects_are_shrunk_before_they_are_kept() -> None:
    async def main() -> None:
        async with TinyApi().serve() as api:
            await api.put("things", thing("a", "long"))
            clock = SkippingClock()
            kube = HttpKube(api.connection(), clock)
            small: Informer[Thing] = Informer(
                kube,
                THINGS,
                msgspec.json.Decoder(Thing).decode,
                clock,
                shrink=lambda found: msgspec.structs.replace(found, spec=Spec(found.spec.value[:1])),
            )
            task = asyncio.create_task(small.run())
            await asyncio.wait_for(small.synced.wait(), 10)
            assert small.objects["default/a"].spec.value == "l"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await kube.close()

    asyncio.run(main())


def test_an_object_that_has_just_become_one_to_be_shrunk_is_told_of_whole() -> None:
    def shrink(found: Thing) -> Thing:
        return msgspec.structs.replace(found, spec=Spec("over")) if found.spec.value.startswith("over") else found

    async def test(seen: Seen) -> None:
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

    run(test)


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
