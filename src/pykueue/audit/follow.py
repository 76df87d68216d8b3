"""Follow a cluster: one watch per kind, merged by version, passed on to the auditor in order.

All kinds are first listed at the same version, so that the auditor never sees a state that did not exist. Events of
different watches arrive out of step, by seconds if the server is busy. So each event is delayed for a while, and all
are while a watch is broken.
"""

import asyncio
import base64
import heapq
import signal
import ssl
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
import yaml

from pykueue.api.core import ObjectMeta
from pykueue.audit.auditor import Auditor
from pykueue.audit.history import METADATA, Line, event_of, version_of
from pykueue.audit.times import MICROS, Instant
from pykueue.audit.views import SOURCES, EventType, Source, Thing, UnreadableError
from pykueue.audit.world import Finding
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire

PAGE: Final = 500
HOLD_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.2
RETRY_SECONDS: Final = 0.3
ABSENT_SECONDS: Final = 2.0
"""How often to check whether an absent kind is served by now."""
QUIET_SECONDS: Final = 60
"""A watch sends something at least this often, if only a bookmark; otherwise it counts as broken."""


class FollowError(Exception):
    """The cluster cannot be followed: the request, and the server's response."""


class GapError(Exception):
    """The server no longer keeps part of the history, or a kind was added or removed."""


class AbsentError(Exception):
    """The server does not know a kind."""


class Server(Frozen):
    """The address of an API server, and our credentials."""

    url: str
    token: str = ""
    authority: str = ""
    certificate: tuple[str, str] = ("", "")
    trusting: bool = False

    @classmethod
    def of(cls, kubeconfig: str) -> Self:
        """The server of a kubeconfig's current context."""
        tree = yaml.safe_load(Path(kubeconfig).read_text())
        context = named(tree["contexts"], tree["current-context"])["context"]
        cluster = named(tree["clusters"], context["cluster"])["cluster"]
        user = named(tree["users"], context["user"])["user"]
        token = user.get("token") or (Path(user["tokenFile"]).read_text().strip() if "tokenFile" in user else "")
        return cls(
            cluster["server"],
            token,
            text_of(cluster, "certificate-authority"),
            (text_of(user, "client-certificate"), text_of(user, "client-key")),
            bool(cluster.get("insecure-skip-tls-verify")),
        )

    def tls(self) -> ssl.SSLContext:
        """The TLS settings: trusted certificates, and our own."""
        found = ssl.create_default_context(cadata=self.authority or None)
        if self.trusting:
            found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
        if all(self.certificate):
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
                file.write("\n".join(self.certificate))
                file.flush()
                found.load_cert_chain(file.name)
        return found


def named(items: Sequence[Mapping[str, object]], name: str) -> Mapping[str, dict[str, str]]:
    """The item of that name in a kubeconfig's list."""
    for item in items:
        if item.get("name") == name:
            return item  # type: ignore[return-value]  # the file is plain YAML
    raise FollowError(f"kubeconfig: there is no {name!r}; correct current-context and what it names")


def text_of(part: Mapping[str, str], key: str) -> str:
    """The content that a kubeconfig holds under `key-data`, or in the file named under `key`."""
    if f"{key}-data" in part:
        return base64.b64decode(part[f"{key}-data"]).decode()
    return Path(part[key]).read_text() if key in part else ""


class ListMeta(Wire):
    """The metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Listed(Wire):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] = ()


class Watched(Wire):
    """One event of a watch."""

    type: str
    object: msgspec.Raw


class Bookmark(Wire):
    """The version that a watch has reached."""

    metadata: ObjectMeta = ObjectMeta()


LISTED: Final = msgspec.json.Decoder(Listed)
WATCHED: Final = msgspec.json.Decoder(Watched)
BOOKMARK: Final = msgspec.json.Decoder(Bookmark)


class Follower:
    """Feeds an auditor with all changes of a cluster until cancelled."""

    def __init__(
        self,
        server: Server,
        auditor: Auditor,
        clock: Clock,
        *,
        arrived: Callable[[Line], None] = lambda line: None,
        observed: Callable[[Line, list[Finding]], None] = lambda line, found: None,
        late: Callable[[list[Finding]], None] = lambda found: None,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self.server, self.auditor, self.clock = server, auditor, clock
        self.arrived, self.observed, self.late = arrived, observed, late
        self.hold_micros = int(hold_seconds * MICROS)
        self.held: list[tuple[int, int, Line]] = []
        self.count = 0
        self.passed_on = 0
        self.newest = 0
        """The newest version that any watch or list has shown."""
        self.restores = 0
        """How often the store went back to an earlier version, as after a restore from a backup."""
        self.last_at: Instant = 0
        self.out_of_order = 0
        """Events that came too late to be passed on in order."""
        self.gaps = 0
        """How often the server no longer had the history needed to continue."""
        self.broken: dict[str, Instant] = {}
        """Kinds whose watch is down, and since when."""
        self.whole_since: Instant | None = None
        """Since when every watch has been up."""
        self.absent: set[str] = set()
        """Kinds that the cluster does not serve."""
        self.began = asyncio.Event()
        """Set once everything is listed."""

    async def run(self) -> None:
        """Follow the cluster, reconnecting whenever the server goes away."""
        timeout = aiohttp.ClientTimeout(total=None, connect=5, sock_read=QUIET_SECONDS * 2)
        headers = {"Authorization": f"Bearer {self.server.token}"} if self.server.token else {}
        connector = aiohttp.TCPConnector(ssl=self.server.tls(), limit=0)
        async with aiohttp.ClientSession(
            self.server.url, connector=connector, timeout=timeout, headers=headers, read_bufsize=2**20
        ) as session:
            while True:
                try:
                    await self.follow_once(session)
                except* GapError:
                    self.gaps += 1
                    self.pass_on_held()

    async def follow_once(self, session: aiohttp.ClientSession) -> None:
        """List everything, then watch; raises `GapError` if the server no longer has the history."""
        version = await self.list_all(session)
        self.broken = {kind: self.clock.now() for kind in SOURCES if kind not in self.absent}
        self.whole_since = None
        self.began.set()
        async with asyncio.TaskGroup() as tasks:
            for source in SOURCES.values():
                following = self.await_served if source.kind in self.absent else self.watch
                tasks.create_task(following(session, source, version))
            tasks.create_task(self.pass_on_due())

    async def list_all(self, session: aiohttp.ClientSession) -> int:
        """Pass on all objects as of one version, and return that version."""
        while True:
            try:
                first = LISTED.decode(await self.get(session, SOURCES["Namespace"].path, limit="1"))
                version = first.metadata.resource_version
                self.absent.clear()
                pages = [
                    (source, item) for source in SOURCES.values() for item in await self.list(session, source, version)
                ]
                break
            except (aiohttp.ClientError, TimeoutError, GapError):
                await asyncio.sleep(RETRY_SECONDS)
        if int(version) < self.newest:
            self.forget_all()
        self.pass_on_differences(pages)
        self.passed_on = self.newest = int(version)
        return int(version)

    def forget_all(self) -> None:
        """Begin a new history: the store went back, so what we saw since its backup never happened."""
        self.restores += 1
        at = self.clock.now()
        # In the reverse order of a list, so that nothing outlives what it depends on.
        for kind, known in reversed(self.auditor.world.objects.items()):
            for thing in list(known.values()):
                self.pass_on(vanished(at, kind, thing))

    def pass_on_held(self) -> None:
        """Pass on delayed events although some before them are missing for good."""
        for _, _, line in sorted(self.held, key=lambda held: held[:2]):
            unseen: EventType = "VANISHED" if line.type == "DELETED" else "LISTED"
            self.pass_on(Line(line.at, unseen, line.kind, line.object))
        self.held.clear()

    def pass_on_differences(self, listed: Iterable[tuple[Source, msgspec.Raw]]) -> None:
        """Pass on how the listed objects differ from what the auditor knows."""
        at, there = self.clock.now(), {kind: set[str]() for kind in SOURCES}
        changed: list[Line] = []
        for source, item in listed:
            metadata = METADATA.decode(item).metadata
            key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name or ""
            there[source.kind].add(key)
            known = self.auditor.world.objects[source.kind].get(key)
            if known is None or known.metadata.resource_version != metadata.resource_version:
                changed.append(Line(at, "LISTED", source.kind, item))
        for kind, objects_of_kind in self.auditor.world.objects.items():
            for key, thing in list(objects_of_kind.items()):
                if key not in there[kind]:
                    changed.append(vanished(at, kind, thing))
        for line in changed:
            self.pass_on(line)

    async def list(self, session: aiohttp.ClientSession, source: Source, version: str) -> list[msgspec.Raw]:
        """All objects of a kind as of one version."""
        asked = {"limit": str(PAGE), "resourceVersion": version, "resourceVersionMatch": "Exact"}
        found: list[msgspec.Raw] = []
        while True:
            try:
                page = LISTED.decode(await self.get(session, source.path, **asked))
            except AbsentError as error:
                if not source.optional:
                    raise FollowError(f"{error}; install the CRDs") from error
                self.absent.add(source.kind)
                return []
            found += page.items
            if not page.metadata.continue_:
                return found
            asked = {"limit": str(PAGE), "continue": page.metadata.continue_}

    async def get(self, session: aiohttp.ClientSession, path: str, **asked: str) -> bytes:
        """The response to a read; raises `FollowError` for an error that waiting does not cure."""
        async with session.get(f"{path}?{urlencode(asked)}") as answer:
            body = await answer.read()
            if answer.status == 410:
                raise GapError(path)
            if answer.status in (401, 403, 404):
                message = f"GET {path}: {answer.status} {body.decode(errors='replace')[:300]}"
                raise AbsentError(message) if answer.status == 404 else FollowError(f"{message}; grant list and watch")
            answer.raise_for_status()
            return body

    async def await_served(self, session: aiohttp.ClientSession, source: Source, version: int) -> None:
        """Wait until an absent kind is served, then raise `GapError`."""
        while True:
            await asyncio.sleep(ABSENT_SECONDS)
            with suppress(aiohttp.ClientError, TimeoutError, AbsentError):
                await self.get(session, source.path, limit="1")
                raise GapError(f"{source.kind} is served now, but was not at version {version}")

    async def watch(self, session: aiohttp.ClientSession, source: Source, version: int) -> None:
        """Queue every event of a kind, reconnecting as necessary."""
        while True:
            with suppress(aiohttp.ClientError, TimeoutError, ValueError):
                version = await self.stream(session, source, version)
            self.mark(source.kind, up=False)
            await asyncio.sleep(RETRY_SECONDS)
            with suppress(aiohttp.ClientError, TimeoutError, ValueError):
                await self.check_newest(session)

    async def check_newest(self, session: aiohttp.ClientSession) -> None:
        """Raise `GapError` if the store went back: a watch from a version that is yet to come is silent until then."""
        # Other watches go on while we ask.
        newest = self.newest
        async with session.get(f"{SOURCES['Namespace'].path}?limit=1") as answer:
            answer.raise_for_status()
            version = LISTED.decode(await answer.read()).metadata.resource_version
        if int(version) < newest:
            raise GapError(f"the store went back from version {newest} to {version}")

    async def stream(self, session: aiohttp.ClientSession, source: Source, version: int) -> int:
        """Queue the events of one connection; returns the version to continue from."""
        asked = {"watch": "1", "resourceVersion": str(version), "allowWatchBookmarks": "true", "timeoutSeconds": "600"}
        async with session.get(f"{source.path}?{urlencode(asked)}") as answer:
            if answer.status == 410 or (answer.status == 404 and source.optional):
                raise GapError(source.kind)
            answer.raise_for_status()
            self.mark(source.kind, up=True)
            rest = b""
            with suppress(aiohttp.ClientError, TimeoutError):
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for text in lines:
                        version = max(version, self.take(source.kind, WATCHED.decode(text)))
        return version

    def take(self, kind: str, event: Watched) -> int:
        """Queue an event; returns its version."""
        if event.type == "ERROR":
            raise GapError(kind)
        if event.type == "BOOKMARK":
            return self.reached(int(BOOKMARK.decode(event.object).metadata.resource_version or 0))
        type_: EventType = "DELETED" if event.type == "DELETED" else "ADDED" if event.type == "ADDED" else "MODIFIED"
        version = version_of(event.object)
        self.count += 1
        # Copy the line, since it must outlive the buffer.
        line = Line(self.clock.now(), type_, kind, msgspec.Raw(bytes(event.object)))
        heapq.heappush(self.held, (version, self.count, line))
        self.arrived(line)
        return self.reached(version)

    def reached(self, version: int) -> int:
        """Record that a watch has shown this version, and return it."""
        self.newest = max(self.newest, version)
        return version

    def mark(self, kind: str, *, up: bool) -> None:
        """Record whether a watch is up."""
        now = self.clock.now()
        if up:
            self.broken.pop(kind, None)
            if not self.broken and self.whole_since is None:
                self.whole_since = now
        else:
            self.broken.setdefault(kind, now)
            self.whole_since = None

    async def pass_on_due(self) -> None:
        """Pass on events that were delayed long enough, in order, and check periodically for what is late."""
        silent = False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            ripe = self.clock.now() - self.hold_micros
            if self.whole_since is None or self.whole_since > ripe:
                silent = True
                continue
            if silent:
                self.auditor.uptime.interrupted(ripe)
                silent = False
            while self.held and self.held[0][2].at <= ripe:
                version, _, line = heapq.heappop(self.held)
                self.out_of_order += version < self.passed_on
                self.passed_on = max(self.passed_on, version)
                self.pass_on(line)
            if ripe - self.auditor.looked >= MICROS:
                self.late(self.auditor.tick(max(ripe, self.last_at)))

    def pass_on(self, line: Line) -> None:
        """Pass an event to the auditor, with times that never go back."""
        self.last_at = max(self.last_at, line.at)
        line = Line(self.last_at, line.type, line.kind, line.object)
        with suppress(UnreadableError):
            self.observed(line, self.auditor.observe(event_of(line)))


def vanished(at: Instant, kind: str, thing: Thing) -> Line:
    """The line that says that an object is gone, without how."""
    names = {"namespace": thing.namespace, "name": thing.name, "uid": thing.metadata.uid}
    return Line(at, "VANISHED", kind, msgspec.Raw(msgspec.json.encode({"metadata": names})))


async def follow_for(follower: Follower, seconds: float | None) -> None:
    """Follow until the time is up or the process is interrupted or terminated."""
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, enough.set)
    following = asyncio.create_task(follower.run())
    waiting = asyncio.create_task(asyncio.wait_for(enough.wait(), seconds))
    await asyncio.wait([following, waiting], return_when=asyncio.FIRST_COMPLETED)
    for task in (following, waiting):
        task.cancel()
        with suppress(asyncio.CancelledError, TimeoutError):
            await task


def follow(follower: Follower, seconds: float | None = None) -> None:
    """Follow until the time is up or the process is interrupted or terminated."""
    asyncio.run(follow_for(follower, seconds))
