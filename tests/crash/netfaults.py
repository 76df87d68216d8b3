"""What goes wrong on the network during a crash run, short of a cut? Answers, watches and lists that misbehave.

The managers then talk to the API server through a `Filter`, and their connections are reset before and after.
"""

import asyncio
import base64
import contextlib
import json
import random
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from aiohttp import web

from tests.plane.client import Client, Late
from tests.plane.filter import Filter, Rule

if TYPE_CHECKING:
    from tests.crash.faults import Figures, Scene

ANSWER_SECONDS: Final = 10
HOOK_SECONDS: Final = (5.0, 12.0)
"""How long a webhook takes: less and more than the 10 s for which the API server waits."""
WRITTEN_SECONDS: Final = 20
"""How long a manager may take to notice that the watch of a kind to which it writes is silent."""
RECOVERY_SECONDS: Final = 15
"""How long a manager may take to make up for events that were dropped."""
SILENT_SECONDS: Final = 85
"""How long a manager may take to notice that any other watch is silent."""


@contextlib.contextmanager
def filtered(scene: "Scene", rule: Rule) -> Iterator[None]:
    """Let all managers talk to the API server through a filter with this rule until the block ends."""
    crew, folder = scene.crew, scene.plane.folder
    direct = crew.route
    with Filter(direct, folder / "apiserver.crt", folder / "apiserver.key", rule=rule) as proxy:
        crew.lead_through(lambda: [proxy.port])
        try:
            yield
        finally:
            crew.lead_through(direct)


def watch_crew(scene: "Scene", seconds: float) -> None:
    """Wait, and start managers that ended by themselves again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        scene.crew.mend()
        time.sleep(0.5)


class SlowAnswers(Rule):
    """Delays every answer, that of writes after they were stored; of the Lease only if told to."""

    def __init__(self) -> None:
        self.delayed = 0
        self.lease = False

    async def answered(self, request: web.BaseRequest, _status: int) -> None:
        if self.lease or "/leases" not in request.path:
            self.delayed += 1
            await asyncio.sleep(ANSWER_SECONDS)


def slow_apiserver(scene: "Scene") -> "Figures":
    """Every answer of the API server to the manager is late: first but for the Lease, then with it."""
    scene.crew.await_alive()
    rule, gave_up = SlowAnswers(), scene.crew.gave_up
    with filtered(scene, rule), scene.watchman.excused():
        watch_crew(scene, 25)
        rule.lease = True
        watch_crew(scene, 15)
    figures = {"delayed": rule.delayed, "gave_up": scene.crew.gave_up - gave_up}
    assert rule.delayed, "no answer was delayed"
    return {**figures, "back_seconds": scene.crew.await_alive()}


class SlowHooks(Rule):
    """Delays the answers of webhooks."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.seconds = HOOK_SECONDS
        self.delayed = 0

    async def answered(self, _request: web.BaseRequest, _status: int) -> None:
        self.delayed += self.seconds == HOOK_SECONDS
        await asyncio.sleep(self.rng.uniform(*self.seconds))


def slow_webhooks(scene: "Scene") -> "Figures":
    """The webhooks answer late, some of them later than the API server waits."""
    scene.crew.await_alive()
    site, rule, refused = scene.crew.site, SlowHooks(scene.rng), scene.load.refused
    cert, key = (site.certificates / f"tls.{kind}" for kind in ("crt", "key"))
    site.mount()
    assert site.proxy is not None, "this process made the site"
    with Filter(site.live, cert, key, rule=rule) as proxy, scene.watchman.excused():
        site.proxy.backends = lambda: [proxy.port]
        site.proxy.mend()
        watch_crew(scene, 25)
        rule.seconds = (0.0, 0.0)
        watch_crew(scene, HOOK_SECONDS[1])
        site.proxy.backends = site.live
        site.proxy.mend()
    assert rule.delayed, "no webhook was called"
    figures = {"delayed": rule.delayed, "refused": scene.load.refused - refused}
    return {**figures, "back_seconds": scene.crew.await_alive()}


class Stall(Rule):
    """Lets nothing of the watches that are open when `begin` is called through any more; new ones work."""

    def __init__(self) -> None:
        self.open: dict[int, str] = {}
        """The resources of the watches that are open, by the identity of their requests."""
        self.stalled: dict[int, str] = {}
        self.noticed: dict[str, float] = {}
        """After how many seconds the manager closed a stalled watch, by resource."""
        self.began = 0.0

    def begin(self) -> None:
        self.began = time.monotonic()
        self.stalled = dict(self.open)

    def left(self) -> set[str]:
        """The resources whose stalled watches are still open."""
        return set(self.stalled.values())

    async def answered(self, request: web.BaseRequest, status: int) -> None:
        if request.query.get("watch") == "true" and status == 200:
            self.open[id(request)] = request.path.rpartition("/")[2]

    async def line(self, request: web.BaseRequest, _line: bytes) -> bool:
        return id(request) not in self.stalled

    def closed(self, request: web.BaseRequest) -> None:
        self.open.pop(id(request), None)
        # Another watch may have the same identity later.
        resource = self.stalled.pop(id(request), "")
        if resource:
            self.noticed[resource] = time.monotonic() - self.began


def stall_watches(scene: "Scene") -> "Figures":
    """Watches stall in silence: their connections stay open, and everything else works."""
    scene.crew.await_alive()
    rule, gave_up = Stall(), scene.crew.gave_up
    with filtered(scene, rule):
        time.sleep(5)
        scene.crew.await_alive()
        rule.begin()
        assert rule.stalled, "no watch was open"
        with scene.watchman.excused():
            # Which kinds it writes in the meantime depends on what it has seen before.
            some = Client.soon(lambda: bool(rule.noticed), WRITTEN_SECONDS)
            if not some or not Client.soon(lambda: not rule.left(), SILENT_SECONDS):
                took, left = time.monotonic() - rule.began, ", ".join(sorted(rule.left()))
                raise Late(f"after {took:.0f} s the manager still waits for the watches of {left}")
    first, last = min(rule.noticed.values()), max(rule.noticed.values())
    figures = {"stalled": len(rule.noticed), "gave_up": scene.crew.gave_up - gave_up}
    return {**figures, "first_noticed_seconds": first, "last_noticed_seconds": last}


class DropEvents(Rule):
    """Drops some events of all watches, and lets bookmarks through."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.share = 0.0
        self.dropped = self.lists = 0

    async def answered(self, request: web.BaseRequest, _status: int) -> None:
        self.lists += "limit" in request.query and "continue" not in request.query

    async def line(self, _request: web.BaseRequest, line: bytes) -> bool:
        drops = not line.startswith(b'{"type":"BOOKMARK"') and self.rng.random() < self.share
        self.dropped += drops
        return not drops


def drop_events(scene: "Scene") -> "Figures":
    """Watches go on, but half of their events are dropped."""
    scene.crew.await_alive()
    rule, gave_up = DropEvents(scene.rng), scene.crew.gave_up
    with filtered(scene, rule):
        time.sleep(2)
        scene.crew.await_alive()
        before, rule.share = rule.lists, 0.5
        with scene.watchman.excused():
            watch_crew(scene, 8)
            rule.share = 0.0
            watch_crew(scene, RECOVERY_SECONDS)
    assert rule.dropped, "no event was dropped"
    figures = {"dropped": rule.dropped, "lists": rule.lists - before}
    return {**figures, "back_seconds": scene.crew.await_alive(), "gave_up": scene.crew.gave_up - gave_up}


class ExpireContinue(Rule):
    """Refuses streaming lists, makes pages small, and lets the first continue token of each kind expire."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.pages = self.expired = 0

    def path(self, request: web.BaseRequest) -> str:
        path = request.raw_path.replace("limit=500", "limit=2")
        if "sendInitialEvents" in path:
            return path.replace("NotOlderThan", "Exact")  # Refused, as by a server without streaming lists.
        if "continue" in request.query and request.path not in self.begun:
            self.begun.add(request.path)
            return re.sub(r"continue=([^&]+)", lambda found: f"continue={expired(found[1])}", path)
        return path

    async def answered(self, request: web.BaseRequest, status: int) -> None:
        self.pages += "limit" in request.query
        self.expired += status == 410 and "continue" in request.query


def expired(token: str) -> str:
    """A continue token that goes on from a version that is no longer kept."""
    text = unquote(token)
    told = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    made = json.dumps({**told, "rv": 1}, separators=(",", ":")).encode()
    return quote(base64.urlsafe_b64encode(made).decode().rstrip("="), safe="")


def expire_continue(scene: "Scene") -> "Figures":
    """A new manager lists by pages, and the continue token of each kind expires after the first page."""
    rule = ExpireContinue()
    with filtered(scene, rule):
        scene.plane.compact()
        scene.crew.end(scene.crew.leading())
        scene.crew.start(ready=False)
        scene.crew.await_own_lead()
        back = scene.crew.await_alive()
    assert rule.expired, "no continue token expired"
    return {"pages": rule.pages, "expired": rule.expired, "back_seconds": back}
