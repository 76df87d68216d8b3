"""A cache of all objects of a kind, kept up to date by a watch, with callbacks for changes."""

import asyncio
import gc
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from pykueue.api.core import ObjectMeta
from pykueue.base.clock import Clock
from pykueue.base.share import NAMES
from pykueue.base.struct import Wire
from pykueue.base.timers import Timer, timeout
from pykueue.base.units import MICROS
from pykueue.kube.index import Index
from pykueue.kube.port import STATUS, DeniedError, GoneError, Kube, KubeError, NotFoundError, RejectedError, Resource
from pykueue.kube.watchcheck import ECHO_SECONDS, RECHECK_SECONDS, WatchCheck
from pykueue.kube.watchlines import parted

LOG: Final = logging.getLogger(__name__)

INITIAL_END: Final = "k8s.io/initial-events-end"
STREAM_SECONDS: Final = 60.0
"""How long a streaming list may be silent before a paged list replaces it."""
FOLLOW_SECONDS: Final = 1200.0
"""How long a watch may last; servers end it earlier."""
SMALL_ITEMS: Final = 1000
"""A kind with at most this many objects is listed again whenever the server ends its watch, every few minutes."""
BRIEF_MICROS: Final = 1 * MICROS
"""A watch that ended within this time counts as a failure."""
FIRST_MICROS: Final = 100_000
LAST_MICROS: Final = 5 * MICROS
SLOW_FIRST_MICROS: Final = 1 * MICROS
SLOW_LAST_MICROS: Final = 30 * MICROS
DOUBLINGS_MAX: Final = 10


class Described(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the object."""


T = TypeVar("T", bound=Described)


class Change(msgspec.Struct, Generic[T], frozen=True):
    """An object before and after; at least one of them is present."""

    key: str
    old: T | None
    new: T | None


class Identity(Wire):
    """The metadata that identifies objects and versions."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: Mapping[str, str] | None = None


class Identified(Wire):
    """Any object, decoded only as far as its identity."""

    metadata: Identity = Identity()


class ListMeta(Wire):
    """The metadata of a list."""

    resource_version: str = ""


class Page(Wire):
    """A list, or a page of it."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


IDENTIFIED: Final = msgspec.json.Decoder(Identified)
PAGE: Final = msgspec.json.Decoder(Page)


def key_of(metadata: ObjectMeta | Identity) -> str:
    """`namespace/name`, or `name` for a cluster-scoped object."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name or ""


def version_of(described: Described) -> int:
    """The resourceVersion as a number; 0 if there is none."""
    return int(described.metadata.resource_version or 0)


class PausedCollector:
    """Disables the garbage collector while any context is active.

    A list creates many objects and no garbage; scanning them again and again takes as long as decoding them.
    """

    def __init__(self) -> None:
        self.active = 0
        self.was_enabled = False

    def __enter__(self) -> None:
        if not self.active:
            self.was_enabled = gc.isenabled()
            gc.disable()
        self.active += 1

    def __exit__(self, *failure: object) -> None:
        self.active -= 1
        if not self.active and self.was_enabled:
            gc.enable()


gc_paused: Final = PausedCollector()


class Informer(Generic[T]):
    """All objects of a kind, as this process knows them.

    Versions only grow: late arrivals, by the watch or as the response to a write, never replace something newer. An
    object that cannot be decoded keeps its last valid form.

    `shrink` returns the reduced form of an object that need not be kept whole, and any other object itself. Of a
    reduced form it returns another object, never that form itself.
    """

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        read: Callable[[bytes], T],
        clock: Clock,
        *,
        shrink: Callable[[T], T] | None = None,
        namespace: str = "",
        labels: str = "",
        patience: int = SLOW_LAST_MICROS,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.kube = kube
        self.resource = resource
        self.read = read
        self.clock = clock
        self.shrink = shrink
        self.namespace = namespace
        self.labels = labels
        self.patience = patience
        """The longest delay in microseconds between attempts for a kind that is not served or may not be read."""
        self.rng = rng
        self.objects: dict[str, T] = {}
        self.synced = asyncio.Event()
        self.trouble = ""
        """Why the watch fails, for users; empty if it does not."""
        self.unreadable: set[str] = set()
        """Objects that could not be decoded at their last change."""
        self.indexes: list[Index[T]] = []
        self.handlers: list[Callable[[Change[T]], None]] = []
        self.turns: list[Callable[[], None]] = []
        """Called when the first list is complete, and when trouble begins or ends."""
        self.streams = True
        """Whether the server may support streaming lists."""
        self.version = ""
        """The version to continue the watch from; empty if everything must be listed."""
        self.told = 0
        """The version up to which the server has sent everything."""
        self.failures = 0
        self.check = WatchCheck(str(resource))
        self.doubts: dict[str, Timer] = {}
        """Objects to read if the watch does not show soon why a write of ours was refused."""
        self.reads: set[asyncio.Task[None]] = set()

    def get(self, key: str) -> T | None:
        """The object with this key; None if there is none."""
        return self.objects.get(key)

    def listen(self, handler: Callable[[Change[T]], None]) -> None:
        """Call a function with every change, starting with all present objects."""
        self.handlers.append(handler)
        for key, known in list(self.objects.items()):
            self.tell(handler, Change(key, None, known))

    def index(self, keys: Callable[[T], Iterable[str]]) -> Index[T]:
        """An index by values of objects, kept up to date; it is updated before the handlers run."""
        made = Index(keys)
        self.indexes.append(made)
        for key, known in self.objects.items():
            made.update(key, None, known)
        return made

    def learn(self, raw: bytes) -> T:
        """Decode the response to a write of ours, and cache it if it is newer."""
        learned = self.read(raw)
        key, version = key_of(learned.metadata), version_of(learned)
        if version > self.told:
            # The watch is past an older version, and may have reported the object's deletion.
            self.take(key, learned)
            if not self.labels:
                self.check.returned(version)
        elif self.lacks(key, version):
            self.check.skipped(version)
        return learned

    def lacks(self, key: str, version: int) -> bool:
        """Whether the watch should have shown this version of an object, and has not."""
        readable = not self.labels and key not in self.unreadable
        return readable and not self.has(key, version) and self.check.is_missing(key, version, told=self.told)

    def has(self, key: str, version: int) -> bool:
        """Whether an object is cached at this version or a later one."""
        known = self.objects.get(key)
        return known is not None and version_of(known) >= version

    def doubt(self, key: str) -> None:
        """Handle that the server refused a write because the object has changed or is gone: the watch must show it."""
        known = self.objects.get(key)
        if known is not None and key not in self.doubts and self.check.end is not None:
            version = version_of(known)
            self.doubts[key] = Timer(ECHO_SECONDS, lambda: self.verify(key, version))

    def verify(self, key: str, version: int) -> None:
        """Read an object from the server if it is still cached at this version."""
        del self.doubts[key]
        if self.is_at(key, version):
            task = asyncio.get_running_loop().create_task(self.read_back(key, version))
            self.reads.add(task)
            task.add_done_callback(self.reads.discard)

    async def read_back(self, key: str, version: int) -> None:
        """Compare the cached version of an object with the server's."""
        namespace, _, name = key.rpartition("/")
        try:
            self.learn(await self.kube.get(self.resource, name, namespace))
        except NotFoundError:
            if self.is_at(key, version):
                self.check.skipped(version)
        except KubeError as error:
            LOG.debug("%s: cannot read an object error=%s", self.resource, error, extra={"object": key})

    def is_at(self, key: str, version: int) -> bool:
        """Whether an object is cached at this version."""
        known = self.objects.get(key)
        return known is not None and version_of(known) == version

    async def refresh(self) -> None:
        """List everything now, however far behind the watch is."""
        await self.list_pages()

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        while True:
            began = self.clock.moment()
            delay = 0
            try:
                if not self.check.trusted:
                    await self.list_pages()
                    self.check.settle()
                elif not self.version and not self.streams:
                    await self.list_pages()
                    continue
                if not await self.follow():
                    continue
                if self.clock.moment() - began < BRIEF_MICROS:
                    delay = self.pause(FIRST_MICROS, LAST_MICROS)
                elif len(self.objects) <= SMALL_ITEMS:
                    await self.list_pages()
            except KubeError as error:
                delay = self.judge(error)
            except TimeoutError:
                LOG.info("%s: streaming list made no progress, listing by pages", self.resource)
                self.streams = False
            except Exception:
                LOG.exception("%s: watch failed", self.resource)
                delay = self.pause(FIRST_MICROS, LAST_MICROS)
            if delay:
                await self.clock.sleep(delay)

    def judge(self, error: KubeError) -> int:
        """Handle a failure; returns the microseconds to wait before continuing."""
        match error:
            case GoneError():
                LOG.info("%s: version expired, listing again version=%s", self.resource, self.version)
                self.version = ""
            case RejectedError() if self.streams and not self.version:
                LOG.info("%s: server has no streaming list, listing by pages error=%s", self.resource, error.message)
                self.streams = False
                return 0
            case DeniedError() | NotFoundError():
                if self.trouble != str(error):
                    LOG.error("%s: cannot watch, will retry error=%s", self.resource, error)
                self.version = ""
                self.turn(str(error))
                return self.pause(SLOW_FIRST_MICROS, self.patience)
            case RejectedError():
                LOG.error("%s: cannot watch error=%s", self.resource, error)
                # A new list will show when the trouble is over.
                self.version = ""
                self.turn(str(error))
                return self.pause(SLOW_FIRST_MICROS, self.patience)
            case _:
                # Log an outage once, not each attempt.
                level = logging.DEBUG if self.failures else logging.INFO
                LOG.log(level, "%s: watch ended error=%s", self.resource, error)
        return self.pause(FIRST_MICROS, LAST_MICROS)

    def pause(self, first: int, last: int) -> int:
        """Microseconds to wait, longer after each consecutive failure."""
        whole = min(last, first << min(self.failures, DOUBLINGS_MAX))
        self.failures += 1
        return int(whole * (0.5 + self.rng() / 2))

    async def follow(self) -> bool:
        """Apply a watch, which begins with all objects if there is no version; returns whether the server ended it."""
        events = self.kube.watch(self.resource, self.namespace, version=self.version, labels=self.labels)
        if not self.version and not await self.list_stream(events):
            return True
        try:
            async with timeout(FOLLOW_SECONDS if self.check.trusted else RECHECK_SECONDS) as guard:
                self.check.begin(lambda: guard.restart(0))
                async for line in events:
                    self.event(line, None)
        except TimeoutError:
            return False
        finally:
            self.check.stop()
        return True

    async def list_stream(self, events: AsyncIterator[bytes]) -> bool:
        """Apply the list at the beginning of a watch; returns whether it was complete."""
        seen: set[str] = set()
        with gc_paused:
            async with timeout(STREAM_SECONDS) as guard:
                async for line in events:
                    guard.restart(STREAM_SECONDS)
                    if self.event(line, seen):
                        return True
        return False

    def event(self, line: bytes, seen: set[str] | None) -> bool:
        """Apply one line of a watch; returns whether it ended the list, whose keys `seen` collects."""
        try:
            kind, raw = parted(line)
            if kind in ("ADDED", "MODIFIED"):
                key, version = self.echo(raw) or self.arrival(raw)
                if seen is not None:
                    seen.add(key)
                    self.check.listed(version)
                    return False
            elif kind == "ERROR":
                self.refused(raw)
                return False
            else:
                identity = IDENTIFIED.decode(raw).metadata
                version = int(identity.resource_version)
                if kind == "DELETED":
                    self.departure(key_of(identity), version)
                elif seen is not None:
                    if INITIAL_END not in (identity.annotations or {}):
                        return False
                    self.listed(seen, version)
                    return True
        except (msgspec.DecodeError, ValueError) as error:
            LOG.error("%s: skipped a malformed watch event error=%s", self.resource, error)
            return False
        self.failures = 0
        self.check.shown(version)
        if version > self.told:
            self.told = version
            self.version = str(version)
        return False

    def refused(self, raw: bytes) -> None:
        """Raise the error of a watch event."""
        status = STATUS.decode(raw)
        what = f"watch {self.resource}"
        if status.code == 410:
            raise GoneError(what, status.code, status.reason, status.message)
        raise KubeError(what, status.code, status.reason, status.message)

    async def list_pages(self) -> None:
        """Apply a list page by page."""
        seen: set[str] = set()
        version = ""
        with gc_paused:
            async for raw in self.kube.pages(self.resource, self.namespace, labels=self.labels):
                page = PAGE.decode(raw)
                version = version or page.metadata.resource_version
                for item in page.items or ():
                    seen.add(self.arrival(bytes(item), listed=True)[0])
        self.listed(seen, int(version))

    def listed(self, seen: set[str], version: int) -> None:
        """Complete a list: remove what it does not contain, unless it came later."""
        for key, known in list(self.objects.items()):
            if key not in seen and version_of(known) <= version:
                self.put(key, None)
        self.told = max(self.told, version)
        self.version = str(version)
        self.check.listed(version)
        self.failures = 0
        first = not self.synced.is_set()
        self.synced.set()
        self.turn("", first=first)

    def turn(self, trouble: str, *, first: bool = False) -> None:
        """Set the trouble, and call the observers."""
        if trouble != self.trouble or first:
            self.trouble = trouble
            for tell in self.turns:
                tell()

    def echo(self, raw: bytes) -> tuple[str, int] | None:
        """The key and the version of an object that the response to a write has shown already; None for any other."""
        if self.check.awaited:
            identity = IDENTIFIED.decode(raw).metadata
            key, version = key_of(identity), int(identity.resource_version)
            return (key, version) if key not in self.unreadable and self.has(key, version) else None
        return None

    def arrival(self, raw: bytes, *, listed: bool = False) -> tuple[str, int]:
        """Apply an object from a watch or a list; returns its key and its version."""
        try:
            arrived = self.read(raw)
        except Exception as error:
            identity = IDENTIFIED.decode(raw).metadata
            key = key_of(identity)
            if key not in self.unreadable:
                self.unreadable.add(key)
                LOG.error(
                    "%s: skipped a malformed object error=%s",
                    self.resource.kind,
                    error,
                    extra={"object": key},
                )
            return key, int(identity.resource_version)
        key, version = key_of(arrived.metadata), version_of(arrived)
        if listed and self.lacks(key, version):
            self.check.skipped(version)
        self.take(key, arrived)
        return key, version

    def departure(self, key: str, version: int) -> None:
        """Remove an object, unless a later one of the same name is known."""
        self.unreadable.discard(key)
        self.check.deleted(key, version)
        if key in self.objects and not self.has(key, version + 1):
            self.put(key, None)

    def take(self, key: str, arrived: T) -> None:
        """Cache an object if it is newer."""
        self.unreadable.discard(key)
        if not self.has(key, version_of(arrived)):
            self.put(key, arrived)

    def put(self, key: str, new: T | None) -> None:
        """Update the cache, then the indexes, then call the handlers."""
        old = self.objects.get(key)
        key = NAMES.same(key) if old is None else key
        kept = new if new is None or self.shrink is None else self.shrink(new)
        if kept is None:
            del self.objects[key]
        else:
            self.objects[key] = kept
        for index in self.indexes:
            try:
                index.update(key, old, kept)
            except Exception:
                LOG.exception("%s: indexing failed", self.resource.kind, extra={"object": key})
        # Handlers get the whole object when it has just become one to shrink, so that before and after are comparable.
        change = Change(key, old, kept if old is None or self.is_shrunk(old) else new)
        for handler in self.handlers:
            self.tell(handler, change)

    def is_shrunk(self, known: T) -> bool:
        """Whether an object is kept in reduced form."""
        return self.shrink is not None and self.shrink(known) is not known

    def tell(self, handler: Callable[[Change[T]], None], change: Change[T]) -> None:
        """Call a handler and log what it raises."""
        try:
            handler(change)
        except Exception:
            LOG.exception("%s: handler failed", self.resource.kind, extra={"object": change.key})
