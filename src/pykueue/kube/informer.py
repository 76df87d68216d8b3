"""What is there now? A cache of all objects of a kind, kept up to date by a watch, and callbacks when one changes."""

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
from pykueue.base.timers import timeout
from pykueue.base.units import MICROS
from pykueue.kube.port import STATUS, DeniedError, GoneError, Kube, KubeError, NotFoundError, RejectedError, Resource

LOG: Final = logging.getLogger(__name__)

INITIAL_END: Final = "k8s.io/initial-events-end"
STREAM_SECONDS: Final = 60.0
"""How long a streaming list may say nothing before it is given up for a paged one."""
BRIEF_MICROS: Final = 1 * MICROS
"""A watch that lasted no longer than this counts as a failure, however it ended."""
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
    """An object before and after; one of them may be absent, never both."""

    key: str
    old: T | None
    new: T | None


class Event(Wire):
    """A line of a watch."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class Identity(Wire):
    """The few words of metadata that tell objects and versions apart."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: Mapping[str, str] | None = None


class Identified(Wire):
    """Any object, as far as telling it apart needs."""

    metadata: Identity = Identity()


class ListMeta(Wire):
    """The metadata of a list."""

    resource_version: str = ""


class Page(Wire):
    """A list, or a page of it."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


EVENT: Final = msgspec.json.Decoder(Event)
IDENTIFIED: Final = msgspec.json.Decoder(Identified)
PAGE: Final = msgspec.json.Decoder(Page)


def key_of(metadata: ObjectMeta | Identity) -> str:
    """`namespace/name`, or `name` for what has no namespace."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name or ""


def version_of(described: Described) -> int:
    """The resourceVersion as a number; 0 where there is none."""
    return int(described.metadata.resource_version or 0)


class PausedCollector:
    """Disables the garbage collector while any context is active.

    A list makes many objects and no garbage; scanning them again and again as they grow in number takes as long as
    decoding them.
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


class Index(Generic[T]):
    """Objects by a value of theirs."""

    def __init__(self, keys: Callable[[T], Iterable[str]]) -> None:
        self.keys = keys
        self.values: dict[str, tuple[str, T] | dict[str, T]] = {}
        """Most values are of one object only, and a dict is large."""

    def get(self, value: str) -> Mapping[str, T]:
        """The objects with this value at this moment, by their key; to be read at once."""
        held = self.values.get(value, {})
        return dict((held,)) if isinstance(held, tuple) else held

    def update(self, key: str, old: T | None, new: T | None) -> None:
        """Take in a change of an object."""
        left = set() if old is None else set(self.keys(old))
        if new is not None:
            for value in self.keys(new):
                left.discard(value)
                self.add(value, key, new)
        for value in left:
            self.remove(value, key)

    def add(self, value: str, key: str, new: T) -> None:
        """An object has this value."""
        held = self.values.get(value)
        if held is None:
            self.values[value] = (key, new)
        elif isinstance(held, tuple) and held[0] == key:
            self.values[value] = (held[0], new)
        elif isinstance(held, tuple):
            self.values[value] = {held[0]: held[1], key: new}
        else:
            held[key] = new

    def remove(self, value: str, key: str) -> None:
        """An object has this value no more."""
        held = self.values.get(value)
        if isinstance(held, dict):
            held.pop(key, None)
        if not held or (isinstance(held, tuple) and held[0] == key):
            self.values.pop(value, None)


class Informer(Generic[T]):
    """All objects of a kind, as this process knows them.

    Versions only grow: whatever arrives late, by the watch or as the answer to a write, never takes the place of
    something newer. An object that cannot be read keeps its last readable form.

    `shrink` gives the part that is kept of an object of which only a part is, and any other object itself. Of a part it
    gives another part, never that part itself.
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
        """Microseconds between two looks, at most, at a kind that is not served or may not be read."""
        self.rng = rng
        self.objects: dict[str, T] = {}
        self.synced = asyncio.Event()
        self.trouble = ""
        """What stands in the way of watching, for people to see; empty while all is well."""
        self.unreadable: set[str] = set()
        """Objects that could not be read when they last changed."""
        self.indexes: list[Index[T]] = []
        self.handlers: list[Callable[[Change[T]], None]] = []
        self.turns: list[Callable[[], None]] = []
        """Called when the first full picture is there, and when trouble comes or goes."""
        self.streams = True
        """Whether the server may be able to send a list as a watch."""
        self.version = ""
        """Where the watch goes on from; empty when everything must be listed."""
        self.told = 0
        """The version up to which the server has told us everything."""
        self.failures = 0

    def get(self, key: str) -> T | None:
        """The object of this key."""
        return self.objects.get(key)

    def listen(self, handler: Callable[[Change[T]], None]) -> None:
        """Have a function called with every change, and with every object there is already."""
        self.handlers.append(handler)
        for key, known in list(self.objects.items()):
            self.tell(handler, Change(key, None, known))

    def index(self, keys: Callable[[T], Iterable[str]]) -> Index[T]:
        """The objects by values of theirs, kept up to date; handlers find it changed already."""
        made = Index(keys)
        self.indexes.append(made)
        for key, known in self.objects.items():
            made.update(key, None, known)
        return made

    def learn(self, raw: bytes) -> T:
        """The object in the answer to a write of ours, which is also taken into the cache if it is news."""
        learned = self.read(raw)
        # What the watch is past, it has told us already, and perhaps that the object is gone.
        if version_of(learned) > self.told:
            self.take(key_of(learned.metadata), learned)
        return learned

    async def refresh(self) -> None:
        """Take in everything as the server has it now, however far behind the watch may be."""
        await self.list_pages()

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        while True:
            began = self.clock.moment()
            delay = 0
            try:
                if self.version or self.streams:
                    await self.follow()
                else:
                    await self.list_pages()
                    continue
                if self.clock.moment() - began < BRIEF_MICROS:
                    delay = self.pause(FIRST_MICROS, LAST_MICROS)
            except KubeError as error:
                delay = self.judge(error)
            except TimeoutError:
                LOG.info("%s: the streaming list stands still; listing by pages", self.resource)
                self.streams = False
            except Exception:
                LOG.exception("%s: the watch failed", self.resource)
                delay = self.pause(FIRST_MICROS, LAST_MICROS)
            if delay:
                await self.clock.sleep(delay)

    def judge(self, error: KubeError) -> int:
        """Draw the consequences of a failure: microseconds to wait before going on."""
        match error:
            case GoneError():
                LOG.info("%s: version %s is no longer kept; listing anew", self.resource, self.version)
                self.version = ""
            case RejectedError() if self.streams and not self.version:
                LOG.info("%s: the server has no streaming list (%s); listing by pages", self.resource, error.message)
                self.streams = False
                return 0
            case DeniedError() | NotFoundError():
                if self.trouble != str(error):
                    LOG.error("cannot watch %s: %s; trying again now and then", self.resource, error)
                self.version = ""
                self.turn(str(error))
                return self.pause(SLOW_FIRST_MICROS, self.patience)
            case RejectedError():
                LOG.error("cannot watch %s: %s", self.resource, error)
                # To list anew is what shows that the trouble is over.
                self.version = ""
                self.turn(str(error))
                return self.pause(SLOW_FIRST_MICROS, self.patience)
            case _:
                # One line tells of an outage; how often it was tried in vain, nobody needs to read.
                LOG.log(logging.DEBUG if self.failures else logging.INFO, "%s: no watch: %s", self.resource, error)
        return self.pause(FIRST_MICROS, LAST_MICROS)

    def pause(self, first: int, last: int) -> int:
        """Microseconds to wait, longer after each failure in a row."""
        whole = min(last, first << min(self.failures, DOUBLINGS_MAX))
        self.failures += 1
        return int(whole * (0.5 + self.rng() / 2))

    async def follow(self) -> None:
        """Take in a watch until it ends; one without a version begins with everything there is."""
        events = self.kube.watch(self.resource, self.namespace, version=self.version, labels=self.labels)
        if not self.version and not await self.list_stream(events):
            return
        async for line in events:
            self.event(line, None)

    async def list_stream(self, events: AsyncIterator[bytes]) -> bool:
        """Take in the list that a watch begins with; whether it came to its end."""
        seen: set[str] = set()
        with gc_paused:
            async with timeout(STREAM_SECONDS) as guard:
                async for line in events:
                    guard.restart(STREAM_SECONDS)
                    if self.event(line, seen):
                        return True
        return False

    def event(self, line: bytes, seen: set[str] | None) -> bool:
        """Take in one line of a watch; whether it was the one that ends a list, whose keys `seen` collects."""
        try:
            said = EVENT.decode(line)
            raw = bytes(said.object)
            if said.type in ("ADDED", "MODIFIED"):
                key, version = self.arrival(raw)
                if seen is not None:
                    seen.add(key)
                    return False
            elif said.type == "ERROR":
                self.refused(raw)
                return False
            else:
                identity = IDENTIFIED.decode(raw).metadata
                version = int(identity.resource_version)
                if said.type == "DELETED":
                    self.departure(key_of(identity), version)
                elif seen is not None:
                    if INITIAL_END not in (identity.annotations or {}):
                        return False
                    self.listed(seen, version)
                    return True
        except (msgspec.DecodeError, ValueError) as error:
            LOG.error("%s: a line of the watch makes no sense and is passed over: %s", self.resource, error)
            return False
        self.failures = 0
        if version > self.told:
            self.told = version
            self.version = str(version)
        return False

    def refused(self, raw: bytes) -> None:
        """Raise what an error within a watch says."""
        status = STATUS.decode(raw)
        what = f"watch {self.resource}"
        if status.code == 410:
            raise GoneError(what, status.code, status.reason, status.message)
        raise KubeError(what, status.code, status.reason, status.message)

    async def list_pages(self) -> None:
        """Take in a list page by page."""
        seen: set[str] = set()
        version = ""
        with gc_paused:
            async for raw in self.kube.pages(self.resource, self.namespace, labels=self.labels):
                page = PAGE.decode(raw)
                version = version or page.metadata.resource_version
                for item in page.items or ():
                    seen.add(self.arrival(bytes(item))[0])
        self.listed(seen, int(version))

    def listed(self, seen: set[str], version: int) -> None:
        """A list is complete: what it does not hold is gone, unless it came after it."""
        for key, known in list(self.objects.items()):
            if key not in seen and version_of(known) <= version:
                self.put(key, None)
        self.told = max(self.told, version)
        self.version = str(version)
        self.failures = 0
        first = not self.synced.is_set()
        self.synced.set()
        self.turn("", first=first)

    def turn(self, trouble: str, *, first: bool = False) -> None:
        """Note what is in the way of watching, and tell whoever wants to know."""
        if trouble != self.trouble or first:
            self.trouble = trouble
            for tell in self.turns:
                tell()

    def arrival(self, raw: bytes) -> tuple[str, int]:
        """Take in an object from the server: its key and its version."""
        try:
            arrived = self.read(raw)
        except Exception as error:
            identity = IDENTIFIED.decode(raw).metadata
            key = key_of(identity)
            if key not in self.unreadable:
                self.unreadable.add(key)
                LOG.error(
                    "%s %s cannot be read and is passed over: %s",
                    self.resource.kind,
                    key,
                    error,
                    extra={"object": key},
                )
            return key, int(identity.resource_version)
        key = key_of(arrived.metadata)
        self.take(key, arrived)
        return key, version_of(arrived)

    def departure(self, key: str, version: int) -> None:
        """Take in that an object is gone, unless a later one of the same name is known already."""
        self.unreadable.discard(key)
        known = self.objects.get(key)
        if known is not None and version_of(known) <= version:
            self.put(key, None)

    def take(self, key: str, arrived: T) -> None:
        """Take an object into the cache if it is newer than what is there."""
        self.unreadable.discard(key)
        known = self.objects.get(key)
        if known is None or version_of(known) < version_of(arrived):
            self.put(key, arrived)

    def put(self, key: str, new: T | None) -> None:
        """Change the cache, then the indexes, then tell the handlers."""
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
                LOG.exception("%s %s: cannot be indexed", self.resource.kind, key, extra={"object": key})
        # An object that has just become one to be shrunk is told of whole; before and after are always comparable.
        change = Change(key, old, kept if old is None or self.is_shrunk(old) else new)
        for handler in self.handlers:
            self.tell(handler, change)

    def is_shrunk(self, known: T) -> bool:
        """Whether only a part of an object is kept."""
        return self.shrink is not None and self.shrink(known) is not known

    def tell(self, handler: Callable[[Change[T]], None], change: Change[T]) -> None:
        """Call a handler; what it raises is logged."""
        try:
            handler(change)
        except Exception:
            LOG.exception(
                "%s %s: a handler failed on its change", self.resource.kind, change.key, extra={"object": change.key}
            )
