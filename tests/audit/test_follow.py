"""Does the auditor hear of everything, in order, whatever happens to a watch? On a small API server of ours."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from pykueue.audit.auditor import Auditor
from pykueue.audit.follow import Follower, FollowError, Server
from pykueue.audit.history import Line
from pykueue.audit.views import SOURCES
from pykueue.audit.world import Finding
from pykueue.base.clock import SystemClock

Tree = dict[str, Any]
HOLD = 0.3


class Api:
    """Lists and watches of a store that the test writes to; watches may be late, closed, or too old."""

    def __init__(self) -> None:
        self.version = 1
        self.log: list[tuple[str, str, Tree]] = []
        """What happened: kind, type and object."""
        self.oldest = 0
        """Watches from before this version are refused."""
        self.streams: dict[str, asyncio.Queue[bytes | None]] = {}
        self.slow: dict[str, float] = {}
        """Seconds by which events of a kind arrive late."""
        self.denied = False
        self.unserved: set[str] = set()
        """Kinds that the server does not know."""
        self.url = ""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator["Api"]:
        app = web.Application()
        for kind, source in SOURCES.items():
            app.router.add_get(source.path, self.handler(kind))
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            for queue in self.streams.values():
                queue.put_nowait(None)
            await runner.cleanup()

    def handler(self, kind: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            if self.denied:
                return web.json_response({"message": "no"}, status=403)
            if kind in self.unserved:
                return web.json_response({"message": "no such kind"}, status=404)
            if "watch" in request.query:
                return await self.watch(kind, request)
            asked = request.query.get("resourceVersion", "")
            if asked and int(asked) != self.version:
                return web.json_response({"message": "that version is gone"}, status=410)
            metadata = {"resourceVersion": str(self.version)}
            return web.json_response({"metadata": metadata, "items": list(self.objects(kind).values())})

        return answer

    def objects(self, kind: str) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        for of, type_, tree in self.log:
            if of == kind and type_ == "DELETED":
                found.pop(tree["metadata"]["name"])
            elif of == kind:
                found[tree["metadata"]["name"]] = tree
        return found

    async def watch(self, kind: str, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            return web.json_response({"message": "too old"}, status=410)
        if kind in self.streams:
            self.streams[kind].put_nowait(None)
        queue = self.streams[kind] = asyncio.Queue()
        for of, type_, tree in self.log:
            if of == kind and int(tree["metadata"]["resourceVersion"]) > since:
                queue.put_nowait(line(type_, tree))
        answer = web.StreamResponse()
        await answer.prepare(request)
        while (text := await queue.get()) is not None:
            await asyncio.sleep(self.slow.get(kind, 0))
            # Lines need not arrive in one piece.
            await answer.write(text[:7])
            await answer.write(text[7:])
        return answer

    def write(self, kind: str, name: str, type_: str = "ADDED", **parts: Any) -> None:
        """Have something happen."""
        self.version += 1
        tree = {"metadata": {"name": name, "uid": name, "resourceVersion": str(self.version)}, **parts}
        self.log.append((kind, type_, tree))
        if kind in self.streams:
            self.streams[kind].put_nowait(line(type_, tree))

    def hang_up(self) -> None:
        """Close every watch."""
        for queue in self.streams.values():
            queue.put_nowait(None)


def line(type_: str, tree: Tree) -> bytes:
    return json.dumps({"type": type_, "object": tree}).encode() + b"\n"


class Ear:
    """A follower that keeps what it heard."""

    def __init__(self, api: Api) -> None:
        self.told: list[str] = []
        self.auditor = Auditor()
        self.follower = Follower(Server(api.url), self.auditor, SystemClock(), observed=self.heard, hold_seconds=HOLD)
        self.task = asyncio.create_task(self.follower.run())

    def heard(self, line: Line, found: list[Finding]) -> None:
        name = json.loads(bytes(line.object))["metadata"]["name"]
        self.told.append(f"{line.type} {line.kind} {name}")

    async def hears(self, *expected: str) -> None:
        """Return when exactly this was heard."""
        async with asyncio.timeout(10):
            while len(self.told) < len(expected):
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        assert self.told == list(expected)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def followed() -> AsyncIterator[tuple[Api, Ear]]:
    """An API with one Namespace, followed by an ear that has listed it."""
    async with Api().serve() as api:
        api.write("Namespace", "first")
        ear = Ear(api)
        await ear.hears("LISTED Namespace first")
        async with asyncio.timeout(5):
            while len(api.streams) < len(SOURCES):
                await asyncio.sleep(0.02)
        try:
            yield api, ear
        finally:
            await ear.end()


async def test_events_of_all_kinds_are_told_in_the_order_of_their_versions() -> None:
    async with followed() as (api, ear):
        api.slow["Job"] = HOLD / 3
        api.write("Job", "a")
        api.write("Pod", "p")
        api.write("Job", "a", "DELETED")
        api.write("Cohort", "c")
        expected = ("ADDED Job a", "ADDED Pod p", "DELETED Job a", "ADDED Cohort c")
        await ear.hears("LISTED Namespace first", *expected)
        assert ear.follower.out_of_order == 0


async def test_what_comes_later_than_we_wait_is_counted() -> None:
    async with followed() as (api, ear):
        api.slow["Job"] = HOLD * 3
        api.write("Job", "a")
        api.write("Pod", "p")
        await ear.hears("LISTED Namespace first", "ADDED Pod p", "ADDED Job a")
        assert ear.follower.out_of_order == 1


async def test_a_watch_that_was_closed_goes_on_where_it_was() -> None:
    async with followed() as (api, ear):
        api.write("Job", "a")
        await ear.hears("LISTED Namespace first", "ADDED Job a")
        api.hang_up()
        api.write("Job", "b")
        api.write("Pod", "p")
        await ear.hears("LISTED Namespace first", "ADDED Job a", "ADDED Job b", "ADDED Pod p")
        assert ear.follower.gaps == 0


async def test_after_a_gap_only_what_differs_is_told() -> None:
    async with followed() as (api, ear):
        for name in ("a", "b", "c"):
            api.write("Job", name)
        await ear.hears("LISTED Namespace first", "ADDED Job a", "ADDED Job b", "ADDED Job c")
        ear.told.clear()
        for queue in api.streams.values():
            queue.put_nowait(None)
        api.streams.clear()
        api.write("Job", "b", "MODIFIED", status={"active": 1})
        api.write("Job", "c", "DELETED")
        api.write("Pod", "p")
        api.oldest = api.version
        await ear.hears("LISTED Job b", "LISTED Pod p", "VANISHED Job c")
        assert ear.follower.gaps == 1
        assert sorted(ear.auditor.world.jobs) == ["a", "b"]
        api.write("Pod", "q")
        await ear.hears("LISTED Job b", "LISTED Pod p", "VANISHED Job c", "ADDED Pod q")


async def test_an_object_that_cannot_be_read_is_passed_over() -> None:
    async with followed() as (api, ear):
        api.write("Job", "odd", spec={"parallelism": "many"})
        api.write("Job", "even")
        await ear.hears("LISTED Namespace first", "ADDED Job even")


async def test_a_server_that_does_not_let_us_look_is_an_error_with_advice() -> None:
    async with Api().serve() as api:
        api.denied = True
        ear = Ear(api)
        with pytest.raises(FollowError, match=r"GET /api/v1/namespaces: 403 .*; grant list and watch"):
            await ear.task


async def test_a_kind_that_a_cluster_must_have_is_missed_with_advice() -> None:
    async with Api().serve() as api:
        api.unserved.add("Workload")
        with pytest.raises(FollowError, match=r"GET /apis/kueue.x-k8s.io/v1beta2/workloads: 404 .*; install the CRDs"):
            await Ear(api).task


async def test_a_kind_that_a_cluster_may_do_without_is_followed_once_it_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pykueue.audit.follow.ABSENT_SECONDS", 0.1)

    async with Api().serve() as api:
        api.unserved.add("ProvisioningRequest")
        api.write("Namespace", "first")
        ear = Ear(api)
        await ear.hears("LISTED Namespace first")
        api.write("Job", "a")
        await ear.hears("LISTED Namespace first", "ADDED Job a")
        api.unserved.clear()
        async with asyncio.timeout(5):
            while "ProvisioningRequest" not in api.streams or ear.follower.broken:
                await asyncio.sleep(0.02)
        api.write("ProvisioningRequest", "r")
        await ear.hears("LISTED Namespace first", "ADDED Job a", "ADDED ProvisioningRequest r")
        await ear.end()


def test_a_kubeconfig_says_where_and_as_whom(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "ca").write_text("trust")
    tree = {
        "current-context": "b",
        "contexts": [
            {"name": "a", "context": {"cluster": "x", "user": "x"}},
            {"name": "b", "context": {"cluster": "y", "user": "y"}},
        ],
        "clusters": [{"name": "y", "cluster": {"server": "https://y", "certificate-authority": str(tmp_path / "ca")}}],
        "users": [{"name": "y", "user": {"tokenFile": str(tmp_path / "token"), "client-key-data": "a2V5"}}],
    }
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(tree))
    assert Server.of(str(file)) == Server("https://y", "secret", "trust", ("", "key"), False)
    tree["current-context"] = "c"
    file.write_text(yaml.safe_dump(tree))
    with pytest.raises(FollowError, match="kubeconfig: there is no 'c'"):
        Server.of(str(file))


async def test_a_store_that_goes_back_to_a_backup_begins_a_new_history() -> None:
    async with followed() as (api, ear):
        for name in ("a", "b", "c"):
            api.write("Job", name)
        await ear.hears("LISTED Namespace first", "ADDED Job a", "ADDED Job b", "ADDED Job c")
        ear.told.clear()
        del api.log[2:]
        api.version = 3
        api.hang_up()
        await ear.hears(
            "VANISHED Job a",
            "VANISHED Job b",
            "VANISHED Job c",
            "VANISHED Namespace first",
            "LISTED Namespace first",
            "LISTED Job a",
        )
        assert (ear.follower.gaps, ear.follower.restores) == (1, 1)
        ear.told.clear()
        # Under versions that were given to others before.
        api.write("Job", "d")
        await ear.hears("ADDED Job d")
        assert sorted(ear.auditor.world.jobs) == ["a", "d"]


async def test_a_watch_that_runs_ahead_of_a_list_is_no_restore() -> None:
    async with followed() as (api, ear), aiohttp.ClientSession(api.url) as session:
        checking = asyncio.create_task(ear.follower.check_newest(session))
        await asyncio.sleep(0)
        ear.follower.reached(api.version + 1)
        await checking
