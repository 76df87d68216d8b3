"""Write Kubernetes Events in the background, without blocking or failing the caller.

Events go to a bounded buffer, and a few writers send them. An Event equal to one of the last minutes continues its
series, as in client-go's recorder of `events.k8s.io/v1`: equal in type, action, reason, reporter and the object that it
is about, in the same version. The note of the first is kept. An Event that cannot be stored is lost, which is logged
once.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from pykueue.api.core import ObjectMeta, Tree
from pykueue.base.clock import Clock
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
BUFFER_MAX: Final = 10_000
SERIES_MAX: Final = 4_096
SERIES_IDLE: Final = 6 * 60 * MICROS
"""After this long without a repetition, the same Event starts a new series."""
SERIES_GAP: Final = 60 * MICROS
"""A series is written at its first repetition and then at most once per this time."""
WRITERS: Final = 8
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
        """Whether it is queued or being written."""


class Recorder:
    """Records Events. Nothing here blocks or fails its caller."""

    def __init__(self, kube: Kube, clock: Clock, instance: str) -> None:
        self.kube = kube
        self.clock = clock
        self.instance = instance
        self.buffer: deque[EventSeries] = deque()
        self.recent: OrderedDict[Key, EventSeries] = OrderedDict()
        """Events that a repetition would continue, the latest last."""
        self.unwritten: dict[Key, EventSeries] = {}
        """Series that have continued since they were written."""
        self.news = asyncio.Event()
        self.stamp = 0
        self.lost = 0
        self.losing = False
        self.stopping = False

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
        known = self.recent.get(key)
        if known is not None and moment - known.occurred <= SERIES_IDLE:
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
        """Queue it to be written, unless the buffer is full."""
        if len(self.buffer) >= BUFFER_MAX:
            self.drop(series, "the buffer is full because the API server is slow")
            return
        series.queued = True
        self.unwritten.pop(series.key, None)
        self.buffer.append(series)
        self.news.set()

    def drop(self, series: EventSeries, why: object) -> None:
        """Drop an Event; a repetition starts over."""
        series.queued = False
        self.unwritten.pop(series.key, None)
        if self.recent.get(series.key) is series:
            del self.recent[series.key]
        self.lost += 1
        if not self.losing:
            self.losing = True
            about = f"{series.about.kind}/{series.about.name}"
            LOG.warning("events: lost an Event reason=%s object=%s error=%s", series.reason, about, why)

    async def run(self) -> None:
        """Write Events until stopped; then for a short time more."""
        writers = [asyncio.create_task(self.write_all(), name=f"events-{n}") for n in range(WRITERS)]
        try:
            while True:
                await self.clock.sleep(SERIES_GAP)
                self.settle_series()
        finally:
            self.stopping = True
            self.news.set()
            _, late = await waited(writers, DRAIN_SECONDS)
            for writer in late:
                writer.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def settle_series(self) -> None:
        """Queue the series that have continued since they were written."""
        due = self.clock.moment() - SERIES_GAP
        for series in [series for series in self.unwritten.values() if series.stored <= due]:
            self.enqueue(series)

    async def write_all(self) -> None:
        """Write queued Events one after the other."""
        while True:
            while self.buffer:
                await self.write(self.buffer.popleft())
            if self.stopping:
                return
            self.news.clear()
            await self.news.wait()

    async def write(self, series: EventSeries) -> None:
        """Store an Event, or update its series."""
        count = series.count
        namespace = series.about.namespace or CLUSTER_NAMESPACE
        series.stored = self.clock.moment()
        try:
            if series.written == 0:
                body = msgspec.json.encode(event_tree(series, self.instance))
                await self.kube.create(EVENTS, body, namespace)
            else:
                body = msgspec.json.encode({"series": series_tree(series)})
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
            self.losing = False
        series.queued = False
        if series.count > series.written and self.recent.get(series.key) is series:
            if series.written <= 1:
                self.enqueue(series)
            else:
                self.unwritten[series.key] = series


def event_tree(series: EventSeries, instance: str) -> Tree:
    """A new Event, including the repetitions so far."""
    about = series.about
    regarding: Tree = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name, "uid": about.uid}
    if about.namespace:
        regarding["namespace"] = about.namespace
    if about.version:
        regarding["resourceVersion"] = about.version
    tree: Tree = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": series.name, "namespace": about.namespace or CLUSTER_NAMESPACE},
        "eventTime": micro_time(series.first),
        "reportingController": series.reporter,
        "reportingInstance": f"{series.reporter}-{instance}"[:INSTANCE_LENGTH_MAX],
        "action": series.action,
        "reason": series.reason,
        "regarding": regarding,
        "note": series.note,
        "type": series.kind,
    }
    if series.count > 1:
        tree["series"] = series_tree(series)
    return tree


def series_tree(series: EventSeries) -> Tree:
    """The count and last time of a series."""
    return {"count": series.count, "lastObservedTime": micro_time(series.last)}


def cut(note: str) -> str:
    """A note, truncated to the API server's limit."""
    if len(note) * 4 <= NOTE_BYTES_MAX:
        return note
    encoded = note.encode(errors="replace")
    if len(encoded) <= NOTE_BYTES_MAX:
        return note
    return encoded[: NOTE_BYTES_MAX - len(CUT)].decode(errors="ignore") + CUT
