"""`TinyApi`: a small HTTP server that breaks the protocol on demand, for the tests of the HTTP client.

It also serves the leader election, whose thread or process needs a server that answers while the test's own event
loop is blocked. Everything else is tested on `faulty.Faulty`.
"""

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from aiohttp import web

from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, Credentials, Fixed
from pykueue.kube.port import Resource

Tree = dict[str, Any]
Accident = Callable[[web.Request], Awaitable[web.StreamResponse | None]]

THINGS = Resource("example.com", "v1", "things", "Thing", True)
PATH = "/apis/example.com/v1/things"


def thing(name: str, value: str = "", namespace: str = "default") -> Tree:
    """An object for the server to hold."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"value": value},
    }


def status(code: int, reason: str, message: str = "", *, after: str = "") -> web.Response:
    """An answer that is an error."""
    body = {"kind": "Status", "apiVersion": "v1", "message": message or reason, "reason": reason, "code": code}
    return web.json_response(body, status=code, headers={"Retry-After": after} if after else {})


class TinyApi:
    """Serves any namespaced kind; versions count all writes. Tests read its log and bring about its accidents."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Tree]] = {}
        """By collection, then by `namespace/name`."""
        self.version = 100
        self.history: list[tuple[int, str, str, Tree]] = []
        """Version, collection, type and object of each event."""
        self.kept_from = 100
        self.streaming = True
        self.page_size = 500
        self.log: list[tuple[str, str]] = []
        """Method and path with query of each request."""
        self.headers: list[dict[str, str]] = []
        self.accident: Accident | None = None
        """Asked before each request; what it answers takes the place of the answer."""
        self.news = asyncio.Condition()
        self.watches: list[web.Request] = []
        self.url = ""
        self.closes_watches = 0

    @contextlib.asynccontextmanager
    async def serve(self, tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator["TinyApi"]:
        """Serve on a free port of the loopback until the block ends."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", r"/{path:[\s\S]*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
        await site.start()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await self.cut()
            await runner.cleanup()

    def connection(self, credentials: Credentials | None = None, **more: Any) -> Connection:
        """How to reach it."""
        return Connection(self.url, credentials or Fixed(Credential()), **more)

    def asked(self, method: str) -> list[str]:
        """The paths asked for by a method."""
        return [path for verb, path in self.log if verb == method]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.log.append((request.method, request.raw_path))
        self.headers.append(dict(request.headers))
        if self.accident is not None:
            found = await self.accident(request)
            if found is not None:
                return found
        collection, name = self.place(request.path)
        if request.method == "GET" and "watch" in request.query:
            return await self.watch(request, collection)
        if request.method == "GET" and not name:
            return self.list(request, collection)
        return await self.single(request, collection, name)

    def place(self, path: str) -> tuple[str, str]:
        """The collection that a path speaks of, and the key of an object in it."""
        parts = path.strip("/").split("/")
        if "namespaces" in parts[:-1]:
            at = parts.index("namespaces")
            namespace, plural, *rest = parts[at + 1 :]
            return plural, f"{namespace}/{rest[0]}" if rest else ""
        return parts[-1], ""

    async def single(self, request: web.Request, collection: str, key: str) -> web.Response:
        known = self.objects.setdefault(collection, {})
        if request.method == "POST":
            tree = json.loads(await request.read())
            tree["metadata"].setdefault("namespace", request.path.split("/namespaces/")[1].split("/")[0])
            key = f"{tree['metadata']['namespace']}/{tree['metadata']['name']}"
            if key in known:
                return status(409, "AlreadyExists")
            return web.json_response(await self.put(collection, tree), status=201)
        if key not in known:
            return status(404, "NotFound", f'{collection} "{key}" not found')
        if request.method == "GET":
            return web.json_response(known[key])
        if request.method == "DELETE":
            await self.remove(collection, key)
            return web.json_response({"kind": "Status", "status": "Success"})
        body = json.loads(await request.read())
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != known[key]["metadata"]["resourceVersion"]:
            return status(409, "Conflict", "the object has been modified")
        return web.json_response(await self.put(collection, merged(known[key], body)))

    async def put(self, collection: str, tree: Tree) -> Tree:
        """Store an object under a new version."""
        key = f"{tree['metadata']['namespace']}/{tree['metadata']['name']}"
        known = self.objects.setdefault(collection, {})
        self.version += 1
        kind = "MODIFIED" if key in known else "ADDED"
        stored = {**tree, "metadata": {**tree["metadata"], "resourceVersion": str(self.version)}}
        known[key] = stored
        await self.tell(collection, kind, stored)
        return stored

    async def remove(self, collection: str, key: str) -> None:
        """Delete an object."""
        gone = self.objects[collection].pop(key)
        self.version += 1
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        await self.tell(collection, "DELETED", gone)

    async def tell(self, collection: str, kind: str, tree: Tree) -> None:
        async with self.news:
            self.history.append((self.version, collection, kind, tree))
            self.news.notify_all()

    def compact(self) -> None:
        """Forget how it came to what is there now."""
        self.kept_from = self.version
        self.history.clear()

    async def cut(self) -> None:
        """Break every watch off."""
        for request in list(self.watches):
            if request.transport is not None:
                request.transport.abort()
        await asyncio.sleep(0.01)

    def list(self, request: web.Request, collection: str) -> web.Response:
        items = list(self.objects.get(collection, {}).values())
        start = int(request.query.get("continue") or 0)
        size = min(self.page_size, int(request.query.get("limit") or 500))
        more = str(start + size) if start + size < len(items) else ""
        meta = {"resourceVersion": str(self.version), "continue": more}
        return web.json_response({"kind": "List", "metadata": meta, "items": items[start : start + size]})

    async def watch(self, request: web.Request, collection: str) -> web.StreamResponse:
        initial = request.query.get("sendInitialEvents") == "true"
        if initial and not self.streaming:
            return status(422, "Invalid", "sendInitialEvents is forbidden for watch")
        since = self.version if initial else int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self.watches.append(request)
        try:
            if initial:
                for tree in list(self.objects.get(collection, {}).values()):
                    await self.line(response, "ADDED", tree)
                end = {"k8s.io/initial-events-end": "true"}
                await self.line(response, "BOOKMARK", bookmark(since, end))
            await self.follow(response, collection, since)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.watches.remove(request)
        return response

    async def follow(self, response: web.StreamResponse, collection: str, since: int) -> None:
        closes = self.closes_watches
        while closes == self.closes_watches:
            if since < self.kept_from:
                await self.line(response, "ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
                return
            for version, where, kind, tree in list(self.history):
                if version > since:
                    since = version
                    if where == collection:
                        await self.line(response, kind, tree)
            async with self.news:
                if self.version == since and closes == self.closes_watches:
                    await self.news.wait()

    async def line(self, response: web.StreamResponse, kind: str, tree: Tree) -> None:
        # As Go writes it: the type first, and characters other than ASCII as they are.
        text = json.dumps({"type": kind, "object": tree}, ensure_ascii=False, separators=(",", ":"))
        await response.write(text.encode() + b"\n")

    async def end_watches(self) -> None:
        """End every watch in good order, as a server does after a while."""
        async with self.news:
            self.closes_watches += 1
            self.news.notify_all()


def bookmark(version: int, annotations: dict[str, str]) -> Tree:
    return {"kind": "Thing", "metadata": {"resourceVersion": str(version), "annotations": annotations}}


def merged(tree: Tree, patch: Tree) -> Tree:
    """A merge patch, applied."""
    result = dict(tree)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result


@contextlib.contextmanager
def in_background() -> Iterator[TinyApi]:
    """A server on a thread of its own, so that it answers while the test's own loop is blocked."""
    api = TinyApi()
    started, ends = threading.Event(), threading.Event()

    async def serve() -> None:
        async with api.serve():
            started.set()
            while not ends.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield api
    finally:
        ends.set()
        thread.join(10)
