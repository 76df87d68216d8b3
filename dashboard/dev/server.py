"""Serves the built page with made-up data: for work on the page, and as the fixture of its tests.

`python -m dashboard.dev.server [small|large|hostile]` prints an address; changes happen every second.
"""

import asyncio
import gc
import json
import random
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakSet

from aiohttp import web

from dashboard.dev import answers
from dashboard.dev.world import Row, World, hostile, large, small

STATIC: Final = Path(__file__).resolve().parents[2] / "src/pykueue/web/static"
KEY: Final = "a key of the page's own storage"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""At least as strict as the real server's."""
CHUNK: Final = 2000
WORLDS: Final[dict[str, Callable[[datetime], World]]] = {"small": small, "large": large, "hostile": hostile}
TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

T = TypeVar("T")
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def now() -> datetime:
    """The time at which a world begins."""
    return datetime.now(UTC)  # noqa: TID251  # fixtures are as old as the page that shows them


class DevServer:
    """The page and its API in a thread of its own, with methods by which tests change what it serves."""

    def __init__(self, world: World, port: int = 0) -> None:
        self.world = world
        self.port = port
        self.asked: list[tuple[str, Row]] = []
        """The calls that were made: their names, with their parameters or bodies."""
        self.refusals: dict[str, tuple[int, str]] = {}
        """Calls that are refused, with code and message; `stream` is one."""
        self.unanswered: set[str] = set()
        """Calls that get no answer while they are named here; `stream` is one that begins and then sends nothing."""
        self.streams: set[asyncio.Queue[tuple[str, Row] | None]] = set()
        self.transports: WeakSet[asyncio.Transport] = WeakSet()
        self.loop = asyncio.new_event_loop()
        self.runner: web.AppRunner | None = None
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.start()

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.port}/ui/"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def start(self) -> None:
        """Listen, on the same port as before."""
        self.run(self.listen())

    async def listen(self) -> None:
        """Open the socket."""
        app = web.Application(middlewares=[self.noted, secured])
        app.add_routes([web.get("/ui/api/stream", self.stream), web.route("*", "/ui/api/{name}", self.call)])
        app.add_routes([web.post("/ui/enter", self.enter), web.get("/ui/{path:.*}", self.file)])
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self.runner.addresses[0][1]

    @web.middleware
    async def noted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Remember the connection of a request."""
        if request.transport is not None:
            self.transports.add(request.transport)
        return await handler(request)

    def stop(self) -> None:
        """Go away: all connections end."""
        self.run(self.close())

    async def close(self) -> None:
        """End all streams and close the socket."""
        for queue in self.streams:
            queue.put_nowait(None)
        if self.runner is not None and self.runner.server is not None:
            for site in [*self.runner.sites]:
                await site.stop()
            # Not those of aiohttp's handlers: it forgets a transport whose reader has gone, and leaves it open.
            for transport in [*self.transports]:
                transport.abort()
            await self.runner.cleanup()
        # Transports close in the next rounds of the loop.
        await asyncio.sleep(0.05)

    def finish(self) -> None:
        """Stop for good."""
        self.stop()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()
        # A browser connects ahead of its requests. What was accepted while the server closed is closed only here.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def send(self, event: str, data: Row) -> None:
        """Send an event to all pages."""
        self.run(self.sent(event, data))

    async def sent(self, event: str, data: Row) -> None:
        """Put an event into the queue of each stream."""
        for queue in self.streams:
            queue.put_nowait((event, data))

    def change(self, *rows: Row, gone: tuple[str, ...] = ()) -> None:
        """Change jobs, and tell all pages."""
        for key in gone:
            self.world.jobs.pop(key, None)
        for row in rows:
            self.world.jobs[f"{row['namespace']}/{row['name']}"] = row
        self.send("delta", {"set": [*rows], "del": [*gone]})
        self.send("overview", self.world.overview())

    async def file(self, request: web.Request) -> web.StreamResponse:
        """A file of the built page."""
        path = (STATIC / (request.match_info["path"] or "index.html")).resolve()
        if not path.is_file() or not path.is_relative_to(STATIC):
            raise web.HTTPNotFound
        return web.Response(body=path.read_bytes(), content_type=TYPES[path.suffix], charset="utf-8")

    async def enter(self, _request: web.Request) -> web.Response:
        """The page that stores the key, as the real exchange of a code answers it."""
        page = f'<!doctype html><meta name="pykueue-key" content="{KEY}"><script src="/ui/enter.js" defer></script>'
        return web.Response(text=page, content_type="text/html")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """The state, then its changes."""
        if refused := self.refused(request, "stream"):
            return refused
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[tuple[str, Row] | None] = asyncio.Queue()
        try:
            await self.answerable("stream")
            for event, data in self.snapshot():
                await write(response, event, data)
            self.streams.add(queue)
            while (change := await queue.get()) is not None:
                await write(response, *change)
        except ConnectionError:
            pass
        finally:
            self.streams.discard(queue)
        return response

    def snapshot(self) -> Iterator[tuple[str, Row]]:
        """The events at the start of a stream."""
        yield "overview", self.world.overview()
        rows = [*self.world.jobs.values()]
        for start in range(0, max(1, len(rows)), CHUNK):
            more = start + CHUNK < len(rows)
            yield "jobs", {"first": start == 0, "rows": rows[start : start + CHUNK], "more": more}
        yield "finished", {"rows": self.world.finished}

    def refused(self, request: web.Request, name: str) -> web.Response | None:
        """The response to a call without the key, or to one that a test wants refused."""
        code, message = self.refusals.get(name, (0, ""))
        if request.headers.get("X-Pykueue-Key") != KEY:
            code, message = 401, "open the dashboard with `pykueue dashboard`"
        return web.json_response({"message": message}, status=code) if code else None

    async def call(self, request: web.Request) -> web.Response:
        """A call of the page."""
        name = request.match_info["name"]
        if refused := self.refused(request, name):
            return refused
        body = await request.json() if request.method == "POST" else dict(request.query)
        self.asked.append((name, body))
        await self.answerable(name)
        if name == "explain" and body["kind"] == "clusterqueue":
            found = answers.queue_explanation(body["name"])
            return web.json_response({"lines": [found["tree"]["text"]], "object": found})
        if name in ("preview", "apply", "act"):
            return web.json_response(await self.written(name, body))
        if name == "diff":
            return web.json_response(answers.diff(request.query.getall("set")))
        job = answers.found(self.world, body)
        if job is None:
            return web.json_response({"message": f"there is no job {body.get('name', '')}"}, status=404)
        return self.about(name, job)

    async def answerable(self, name: str) -> None:
        """Return once a call is to be answered."""
        while name in self.unanswered:
            await asyncio.sleep(0.05)

    def about(self, name: str, job: Row) -> web.Response:
        """The answer to a call about a job."""
        if name == "logs":
            return web.Response(text=f"epoch 1 of {job['name']}\n\x1b[31mloss\x1b[0m 0.42 {job.get('reason', '')}\n")
        tree = answers.workload_tree(job)
        known: dict[str, Callable[[], object]] = {
            "explain": lambda: {"lines": [tree["text"]], "object": {"tree": tree}},
            "eta": lambda: answers.estimate(self.world, job),
            "history": lambda: answers.history(self.world, job),
            "job": lambda: answers.objects(self.world, job),
        }
        return web.json_response(known[name]())

    async def written(self, name: str, body: Row) -> Row:
        """The answer to a POST; an act changes its job."""
        if name == "preview":
            return answers.preview(self.world, body["set"])
        if name == "apply":
            return {"said": "ClusterQueue vision is changed"}
        key = f"{body['namespace']}/{body['name']}"
        row = self.world.jobs[key]
        if body["verb"] == "cancel":
            del self.world.jobs[key]
            await self.sent("delta", {"set": [], "del": [key]})
        else:
            self.world.jobs[key] = {**row, "state": "HELD" if body["verb"] == "hold" else "PENDING", "place": None}
            await self.sent("delta", {"set": [self.world.jobs[key]], "del": []})
        await self.sent("overview", self.world.overview())
        return {"said": f"{body['verb']}: {key}"}


@web.middleware
async def secured(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Add the Content-Security-Policy to what is not a stream."""
    response = await handler(request)
    if not response.prepared:
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["Cache-Control"] = "no-store"
    return response


async def write(response: web.StreamResponse, event: str, data: Row) -> None:
    """Write an event."""
    await response.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())


async def live(server: DevServer) -> None:
    """Change something every second: for work on the page."""
    luck = random.Random()
    while True:
        await asyncio.sleep(1)
        key = luck.choice([*server.world.jobs])
        row = server.world.jobs[key]
        row = row | {"state": luck.choice(("RUNNING", "PENDING")), "since": server.world.ago(0)}
        server.world.jobs[key] = row
        await server.sent("delta", {"set": [row], "del": []})
        await server.sent("overview", server.world.overview())


def main() -> None:
    """Serve until interrupted."""
    server = DevServer(WORLDS[sys.argv[1] if len(sys.argv) > 1 else "small"](now()), port=8788)
    print(f"{server.url} (in its console: localStorage.setItem('pykueue-key', {KEY!r}))", flush=True)
    server.run(live(server)) if "live" in sys.argv else server.thread.join()


if __name__ == "__main__":
    main()
