"""Write Kubernetes Events in the background, without blocking or failing the caller.

Events go to a bounded buffer, and a few writers send them. A repetition within minutes becomes a series of the first
Event, as in client-go. An Event that cannot be stored is lost, which is logged once.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from typing import Final

import msgspec

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


class Said:
    """One Event and its repetitions."""

    __slots__ = (
        "about",
        "action",
        "asked",
        "count",
        "first",
        "heard",
        "key",
        "kind",
        "last",
        "name",
        "note",
        "reason",
        "reporter",
        "stored",
        "told",
    )

    def __init__(self, key: tuple[str, ...], about: Ref, name: str, now: Instant, moment: Moment) -> None:
        self.key = key
        self.about = about
        self.name = name
        self.first = self.last = now
        self.kind, self.reason, self.note, self.reporter, self.action = "", "", "", "", ""
        self.count = 1
        self.told = 0
        """The count that is written; 0 before the first write."""
        self.heard = self.stored = moment
        """When it last occurred, and when it was last queued."""
        self.asked = True
        """Whether it is queued or being written."""


class Recorder:
    """Records Events. Nothing here blocks or fails its caller."""

    def __init__(self, kube: Kube, clock: Clock, instance: str) -> None:
        self.kube = kube
        self.clock = clock
        self.instance = instance
        self.buffer: deque[Said] = deque()
        self.said: OrderedDict[tuple[str, ...], Said] = OrderedDict()
        """Events that a repetition would continue, the latest last."""
        self.owing: dict[tuple[str, ...], Said] = {}
        """Series that have continued since they were written."""
        self.news = asyncio.Event()
        self.stamp = 0
        self.lost = 0
        self.losing = False
        self.stopping = False

    def normal(self, about: Ref, reason: str, note: str, reporter: str, action: str = "") -> None:
        """Record a normal Event."""
        self.say("Normal", about, reason, note, reporter, action)

    def warning(self, about: Ref, reason: str, note: str, reporter: str, action: str = "") -> None:
        """Record a warning."""
        self.say("Warning", about, reason, note, reporter, action)

    def say(self, kind: str, about: Ref, reason: str, note: str, reporter: str, action: str) -> None:
        """Queue an Event, or count it as a repetition."""
        now, moment = self.clock.now(), self.clock.moment()
        note = cut(note)
        key = (about.uid or f"{about.namespace}/{about.name}", reason, kind, reporter, note)
        known = self.said.get(key)
        if known is not None and moment - known.heard <= SERIES_IDLE:
            self.said.move_to_end(key)
            known.count += 1
            known.last, known.heard = now, moment
            if not known.asked and moment - known.stored >= (SERIES_GAP if known.told > 1 else 0):
                self.ask(known)
            elif not known.asked:
                self.owing[key] = known
            return
        # Named as in client-go, after the nanosecond in hexadecimal; incremented if the clock has not advanced.
        self.stamp = max(self.stamp + 1, now * 1000)
        suffix = f".{self.stamp:x}"
        name = about.name[: NAME_LENGTH_MAX - len(suffix)].rstrip(".-") + suffix
        said = self.said[key] = Said(key, about, name, now, moment)
        said.kind, said.reason, said.note, said.reporter, said.action = kind, reason, note, reporter, action or reason
        if len(self.said) > SERIES_MAX:
            oldest, _ = self.said.popitem(last=False)
            self.owing.pop(oldest, None)
        self.ask(said)

    def ask(self, said: Said) -> None:
        """Queue it to be written, unless the buffer is full."""
        if len(self.buffer) >= BUFFER_MAX:
            self.lose(said, "the buffer is full because the API server is slow")
            return
        said.asked = True
        self.owing.pop(said.key, None)
        self.buffer.append(said)
        self.news.set()

    def lose(self, said: Said, why: object) -> None:
        """Drop an Event; a repetition starts over."""
        said.asked = False
        self.owing.pop(said.key, None)
        if self.said.get(said.key) is said:
            del self.said[said.key]
        self.lost += 1
        if not self.losing:
            self.losing = True
            about = f"{said.about.kind}/{said.about.name}"
            LOG.warning("events: lost an Event reason=%s object=%s error=%s", said.reason, about, why)

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
        for said in [said for said in self.owing.values() if said.stored <= due]:
            self.ask(said)

    async def write_all(self) -> None:
        """Write queued Events one after the other."""
        while True:
            while self.buffer:
                await self.write(self.buffer.popleft())
            if self.stopping:
                return
            self.news.clear()
            await self.news.wait()

    async def write(self, said: Said) -> None:
        """Store an Event, or update its series."""
        count = said.count
        namespace = said.about.namespace or CLUSTER_NAMESPACE
        said.stored = self.clock.moment()
        try:
            if said.told == 0:
                body = msgspec.json.encode(event(said, self.instance))
                await self.kube.create(EVENTS, body, namespace)
            else:
                body = msgspec.json.encode({"series": series(said)})
                await self.kube.patch(EVENTS, said.name, body, namespace, how=Patch.MERGE)
        except NotLeadingError:
            # The new leader records what there is to record.
            said.asked = False
            self.said.pop(said.key, None)
            return
        except NotFoundError as error:
            if said.told == 0:
                self.lose(said, error)
                return
            # Events are kept for about an hour; a long series outlives its first one.
            said.told = 0
        except KubeError as error:
            self.lose(said, error)
            return
        else:
            said.told = count
            self.losing = False
        said.asked = False
        if said.count > said.told and self.said.get(said.key) is said:
            if said.told <= 1:
                self.ask(said)
            else:
                self.owing[said.key] = said


def event(said: Said, instance: str) -> Tree:
    """A new Event, including the repetitions so far."""
    about = said.about
    regarding: Tree = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name, "uid": about.uid}
    if about.namespace:
        regarding["namespace"] = about.namespace
    if about.version:
        regarding["resourceVersion"] = about.version
    tree: Tree = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": said.name, "namespace": about.namespace or CLUSTER_NAMESPACE},
        "eventTime": micro_time(said.first),
        "reportingController": said.reporter,
        "reportingInstance": f"{said.reporter}-{instance}"[:INSTANCE_LENGTH_MAX],
        "action": said.action,
        "reason": said.reason,
        "regarding": regarding,
        "note": said.note,
        "type": said.kind,
    }
    if said.count > 1:
        tree["series"] = series(said)
    return tree


def series(said: Said) -> Tree:
    """The count and last time of a series."""
    return {"count": said.count, "lastObservedTime": micro_time(said.last)}


def cut(note: str) -> str:
    """A note, truncated to the API server's limit."""
    if len(note) * 4 <= NOTE_BYTES_MAX:
        return note
    encoded = note.encode(errors="replace")
    if len(encoded) <= NOTE_BYTES_MAX:
        return note
    return encoded[: NOTE_BYTES_MAX - len(CUT)].decode(errors="ignore") + CUT
