"""Write Kubernetes Events in the background, without blocking or failing the caller.

Events wait in a buffer, and writers send them: a few, and more while many Events wait. An Event equal to one of the
last minutes, or to one that still waits, continues its series, as in client-go's recorder of `events.k8s.io/v1`: equal
in type, action, reason, reporter and the object that it is about, in the same version. The note of the first is kept.
An Event that does not fit in the buffer or cannot be stored is dropped, which is counted, and logged once.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from pykueue.api.core import ObjectMeta
from pykueue.base.clock import Clock
from pykueue.base.struct import Wire
from pykueue.base.timers import waited
from pykueue.base.units import MICROS, Instant, Moment, micro_time
from pykueue.kube.port import EVENTS, Kube, KubeError, NotFoundError, NotLeadingError, Patch, Ref, Resource

LOG: Final = logging.getLogger(__name__)

NOTE_BYTES_MAX: Final = 1024
NAME_LENGTH_MAX: Final = 253
INSTANCE_LENGTH_MAX: Final = 128
CUT: Final = " ..."
CLUSTER_NAMESPACE: Final = "default"
"""The namespace of Events about cluster-scoped objects."""
BUFFER_BYTES: Final = 32 << 20
"""How much memory waiting Events may take."""
WAITING_BYTES: Final = 768
"""About what a waiting Event takes besides its note."""
SERIES_MAX: Final = 4_096
SERIES_IDLE: Final = 6 * 60 * MICROS
"""After this long without a repetition, the same Event starts a new series."""
SERIES_GAP: Final = 60 * MICROS
"""A series is written at its first repetition and then at most once per this time."""
WRITERS: Final = 16
"""How many Events are written at a time while few wait."""
WRITERS_MAX: Final = 48
WAITING_PER_WRITER: Final = 64
"""One more Event is written at a time for each so many that wait.

A busy server answers all its clients in turn. With a fixed number of requests in flight, Events are stored at a fixed
part of its speed, and while workloads are admitted faster than that, Events are stored later and later.
"""
DRAIN_SECONDS: Final = 1.0

Key: TypeAlias = tuple[str, str, str, str, Ref, str]
"""What the Events of a series have in common: type, action, reason, reporter, object, and the note where it counts."""


def ref(resource: Resource, metadata: ObjectMeta) -> Ref:
    """The object with this metadata, as an Event names it."""
    return Ref(
        resource.api_version,
        resource.kind,
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        metadata.resource_version or "",
    )


def owner(metadata: ObjectMeta) -> Ref | None:
    """The controller of the object with this metadata, as an Event names it; None if there is none."""
    for one in metadata.owner_references:
        if one.controller:
            return Ref(one.api_version, one.kind, metadata.namespace or "", one.name, one.uid)
    return None


class EventSeries:
    """One Event and its repetitions."""

    __slots__ = (
        "about",
        "action",
        "count",
        "first",
        "key",
        "kind",
        "last",
        "name",
        "note",
        "occurred",
        "queued",
        "reason",
        "reporter",
        "stored",
        "written",
    )

    def __init__(self, key: Key, about: Ref, name: str, now: Instant, moment: Moment) -> None:
        self.key = key
        self.about = about
        self.name = name
        self.first = self.last = now
        self.kind, self.reason, self.note, self.reporter, self.action = "", "", "", "", ""
        self.count = 1
        self.written = 0
        """The count that is written; 0 before the first write."""
        self.occurred = self.stored = moment
        """When it last occurred, and when it was last queued."""
        self.queued = True
        """Whether it waits or is being written."""

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return WAITING_BYTES + len(self.note)


class Recorder:
    """Records Events. Nothing here blocks or fails its caller."""

    def __init__(self, kube: Kube, clock: Clock, instance: str) -> None:
        self.kube = kube
        self.clock = clock
        self.instance = instance
        self.waiting: OrderedDict[Key, EventSeries] = OrderedDict()
        """The buffer, first in, first out. In a plain dictionary, the places of all keys taken before are searched."""
        self.waiting_bytes = 0
        self.recent: OrderedDict[Key, EventSeries] = OrderedDict()
        """Events that a repetition would continue, the latest last."""
        self.unwritten: dict[Key, EventSeries] = {}
        """Series that have continued since they were written."""
        self.news = asyncio.Semaphore(0)
        """Released once for each Event that waits, so that each wakes one writer."""
        self.writers: set[asyncio.Task[None]] = set()
        self.stopping = False
        """Whether writers only finish what waits; no more are started."""
        self.stamp = 0
        self.dropped: Callable[[], None] | None = None
        """Called for each Event that is dropped."""
        self.dropping = False

    def normal(
        self, about: Ref, reason: str, note: str, reporter: str, action: str = "", *, by_note: bool = False
    ) -> None:
        """Record a normal Event."""
        self.record("Normal", about, reason, note, reporter, action, by_note=by_note)

    def warning(
        self, about: Ref, reason: str, note: str, reporter: str, action: str = "", *, by_note: bool = False
    ) -> None:
        """Record a warning."""
        self.record("Warning", about, reason, note, reporter, action, by_note=by_note)

    def record(
        self, kind: str, about: Ref, reason: str, note: str, reporter: str, action: str, *, by_note: bool
    ) -> None:
        """Queue an Event, or count it as a repetition.

        `by_note` compares as client-go's recorder of core Events does: by the note, and by the object in any version.
        """
        now, moment = self.clock.now(), self.clock.moment()
        note = cut(note)
        key = (
            kind,
            action,
            reason,
            reporter,
            replace(about, version="") if by_note else about,
            note if by_note else "",
        )
        known = self.waiting.get(key) or self.recent.get(key)
        if known is not None and (key in self.waiting or moment - known.occurred <= SERIES_IDLE):
            if key in self.recent:
                self.recent.move_to_end(key)
            known.count += 1
            known.last, known.occurred = now, moment
            if not known.queued and moment - known.stored >= (SERIES_GAP if known.written > 1 else 0):
                self.enqueue(known)
            elif not known.queued:
                self.unwritten[key] = known
            return
        # Named as in client-go, after the nanosecond in hexadecimal; incremented if the clock has not advanced.
        self.stamp = max(self.stamp + 1, now * 1000)
        suffix = f".{self.stamp:x}"
        name = about.name[: NAME_LENGTH_MAX - len(suffix)].rstrip(".-") + suffix
        series = self.recent[key] = EventSeries(key, about, name, now, moment)
        series.kind, series.reason, series.note, series.reporter, series.action = (
            kind,
            reason,
            note,
            reporter,
            action or reason,
        )
        if len(self.recent) > SERIES_MAX:
            oldest, _ = self.recent.popitem(last=False)
            self.unwritten.pop(oldest, None)
        self.enqueue(series)

    def enqueue(self, series: EventSeries) -> None:
        """Let it wait to be written, unless the buffer is full."""
        if self.waiting_bytes + series.size > BUFFER_BYTES:
            self.drop(series, "the buffer is full because the API server is slow")
            return
        series.queued = True
        self.unwritten.pop(series.key, None)
        self.waiting[series.key] = series
        self.waiting_bytes += series.size
        self.news.release()

    def take_first(self) -> EventSeries:
        """Take the Event that has waited longest."""
        _, series = self.waiting.popitem(last=False)
        self.waiting_bytes -= series.size
        return series

    def drop(self, series: EventSeries, why: object) -> None:
        """Drop an Event; a repetition starts over."""
        series.queued = False
        self.unwritten.pop(series.key, None)
        if self.recent.get(series.key) is series:
            del self.recent[series.key]
        if self.dropped is not None:
            self.dropped()
        if not self.dropping:
            self.dropping = True
            about = f"{series.about.kind}/{series.about.name}"
            LOG.warning("events: dropped an Event reason=%s object=%s error=%s", series.reason, about, why)

    async def run(self) -> None:
        """Write Events until stopped; then for a short time more."""
        try:
            while True:
                self.add_writers()
                await self.clock.sleep(SERIES_GAP)
                self.settle_series()
        finally:
            self.stopping = True
            for _ in self.writers:
                self.news.release()
            _, late = await waited(set(self.writers), DRAIN_SECONDS)
            for writer in late:
                writer.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            while self.waiting:
                self.drop(self.take_first(), "this process stops")

    def settle_series(self) -> None:
        """Queue the series that have continued since they were written."""
        due = self.clock.moment() - SERIES_GAP
        for series in [series for series in self.unwritten.values() if series.stored <= due]:
            self.enqueue(series)

    @property
    def writers_wanted(self) -> int:
        """How many writers the Events that wait need."""
        return min(WRITERS_MAX, WRITERS + len(self.waiting) // WAITING_PER_WRITER)

    def add_writers(self) -> None:
        """Start the writers that are missing."""
        for _ in range(self.writers_wanted - len(self.writers)):
            self.writers.add(asyncio.create_task(self.write_all(), name="events"))

    async def write_all(self) -> None:
        """Write queued Events one after the other, until woken without one, or until fewer writers are enough."""
        writer = asyncio.current_task()
        assert writer is not None, "a writer is a task"
        try:
            while await self.news.acquire() and self.waiting:
                if not self.stopping:
                    self.add_writers()
                await self.write(self.take_first())
                if len(self.writers) > self.writers_wanted:
                    break
        finally:
            self.writers.discard(writer)

    async def write(self, series: EventSeries) -> None:
        """Store an Event, or update its series."""
        count = series.count
        namespace = series.about.namespace or CLUSTER_NAMESPACE
        series.stored = self.clock.moment()
        try:
            if series.written == 0:
                body = msgspec.json.encode(event_of(series, self.instance))
                await self.kube.create(EVENTS, body, namespace)
            else:
                body = msgspec.json.encode({"series": repetitions(series)})
                await self.kube.patch(EVENTS, series.name, body, namespace, how=Patch.MERGE)
        except NotLeadingError:
            # The new leader records what there is to record.
            series.queued = False
            self.recent.pop(series.key, None)
            return
        except NotFoundError as error:
            if series.written == 0:
                self.drop(series, error)
                return
            # Events are kept for about an hour; a long series outlives its first one.
            series.written = 0
        except KubeError as error:
            self.drop(series, error)
            return
        else:
            series.written = count
            self.dropping = False
        series.queued = False
        if series.count > series.written and self.recent.get(series.key) is series:
            if series.written <= 1:
                self.enqueue(series)
            else:
                self.unwritten[series.key] = series


class EventMeta(Wire):
    """The metadata of an Event."""

    name: str
    namespace: str


class Regarding(Wire):
    """The object that an Event is about."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str = ""
    resource_version: str = ""


class Repetitions(Wire):
    """The count and last time of a series."""

    count: int
    last_observed_time: str


class EventBody(Wire):
    """An Event as it is sent; a struct is encoded in less time than a tree of dictionaries."""

    api_version: str
    kind: str
    metadata: EventMeta
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: Regarding
    note: str
    type: str
    series: Repetitions | None = None


def event_of(series: EventSeries, instance: str) -> EventBody:
    """A new Event, including the repetitions so far."""
    about = series.about
    return EventBody(
        EVENTS.api_version,
        EVENTS.kind,
        EventMeta(series.name, about.namespace or CLUSTER_NAMESPACE),
        micro_time(series.first),
        series.reporter,
        f"{series.reporter}-{instance}"[:INSTANCE_LENGTH_MAX],
        series.action,
        series.reason,
        Regarding(about.api_version, about.kind, about.name, about.uid, about.namespace, about.version),
        series.note,
        series.kind,
        repetitions(series) if series.count > 1 else None,
    )


def repetitions(series: EventSeries) -> Repetitions:
    """The count and last time of a series."""
    return Repetitions(series.count, micro_time(series.last))


def cut(note: str) -> str:
    """A note, truncated to the API server's limit."""
    if len(note) * 4 <= NOTE_BYTES_MAX:
        return note
    encoded = note.encode(errors="replace")
    if len(encoded) <= NOTE_BYTES_MAX:
        return note
    return encoded[: NOTE_BYTES_MAX - len(CUT)].decode(errors="ignore") + CUT
