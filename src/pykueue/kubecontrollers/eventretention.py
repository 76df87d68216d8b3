"""Delete Events an hour after their last occurrence, and the oldest when there are too many."""

import asyncio
from heapq import heappop, heappush
from sys import intern
from typing import Final

import msgspec

from pykueue.api.core import ObjectMeta
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import MICROS, Instant, Seconds, after, parse_instant
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import ConflictError, Kube, KubeError, NotFoundError, Resource

EVENTS: Final = Resource("", "v1", "events", "Event", True)
"""Events of the core group: those are stored, so that none has to be converted."""
KEPT_SECONDS: Final = Seconds(3600)
MOST: Final = 30_000
AT_ONCE: Final = 50
ALL: Final = "events"


class Series(Wire):
    """The series of a repeated Event."""

    last_observed_time: str | None = None


class EventMeta(Wire):
    """The metadata of an Event that is used here."""

    name: str = ""
    namespace: str = ""
    resource_version: str = "0"
    creation_timestamp: str | None = None


class EventBody(Wire):
    """An Event in wire format."""

    metadata: EventMeta = EventMeta()
    series: Series | None = None
    last_timestamp: str | None = None


class Event(Frozen):
    """An Event reduced to its age."""

    namespace: str
    name: str
    version: int
    occurred: Instant
    """When it last occurred."""

    @property
    def metadata(self) -> ObjectMeta:
        """The part of its metadata that caches need."""
        return ObjectMeta(name=self.name, namespace=self.namespace, resource_version=str(self.version))


EVENT: Final = msgspec.json.Decoder(EventBody)


def read_event(raw: bytes) -> Event:
    """Decode an Event."""
    body = EVENT.decode(raw)
    metadata = body.metadata
    times = (
        metadata.creation_timestamp,
        body.last_timestamp,
        body.series.last_observed_time if body.series is not None else None,
    )
    occurred = max((parse_instant(time) for time in times if time), default=Instant(0))
    return Event(intern(metadata.namespace), metadata.name, int(metadata.resource_version), occurred)


class EventRetention:
    """Deletes old Events."""

    def __init__(self, kube: Kube, clock: Clock, *, seconds: Seconds = KEPT_SECONDS, most: int = MOST) -> None:
        self.kube = kube
        self.clock = clock
        self.seconds = seconds
        self.most = most
        self.events: Informer[Event] = Informer(kube, EVENTS, read_event, clock)
        self.order: list[tuple[Instant, str]] = []
        """A heap of all Events by their last occurrence; outdated entries are skipped."""
        self.leaving: set[str] = set()
        """Keys of Events that we have deleted and that the watch still shows."""
        self.controller = Controller("events", self.reconcile, clock)
        self.events.listen(self.changed)

    async def run(self) -> None:
        """Delete old Events until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.events.run(), name="events")
            tasks.create_task(self.act(), name="event retention")

    async def act(self) -> None:
        """Reconcile once the first list is complete."""
        await self.events.synced.wait()
        self.controller.add(ALL)
        await self.controller.run()

    def changed(self, change: Change[Event]) -> None:
        """Record the age of an Event; reconcile if there are too many."""
        new = change.new
        if new is None:
            self.leaving.discard(change.key)
            return
        if change.old is None or change.old.occurred != new.occurred:
            heappush(self.order, (new.occurred, change.key))
        if self.surplus() > 0:
            self.controller.add(ALL)
        elif len(self.order) == 1:
            self.controller.add_after(ALL, self.seconds)

    def surplus(self) -> int:
        """How many Events exceed the limit."""
        return len(self.events.objects) - len(self.leaving) - self.most

    async def reconcile(self, _: str) -> float | None:
        """Delete Events that are too old or too many; returns the seconds after which to look again."""
        while True:
            now = self.clock.now()
            surplus = self.surplus()
            batch: list[Event] = []
            while self.order and len(batch) < AT_ONCE:
                occurred, key = self.order[0]
                known = self.events.get(key)
                if known is not None and known.occurred == occurred:
                    if after(occurred, self.seconds) > now and surplus <= len(batch):
                        break
                    batch.append(known)
                heappop(self.order)
            if not batch:
                return (after(self.order[0][0], self.seconds) - now) / MICROS if self.order else None
            await asyncio.gather(*(self.delete(event) for event in batch))

    async def delete(self, event: Event) -> None:
        """Delete an Event at the version that was seen."""
        key = f"{event.namespace}/{event.name}"
        self.leaving.add(key)
        try:
            await self.kube.delete(EVENTS, event.name, event.namespace, version=str(event.version))
        except NotFoundError:
            pass
        except KubeError as error:
            self.leaving.discard(key)
            heappush(self.order, (event.occurred, key))
            if not isinstance(error, ConflictError):
                raise
        if key not in self.events.objects:
            self.leaving.discard(key)
