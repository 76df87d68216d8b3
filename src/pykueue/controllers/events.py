"""How do people hear what we did? Kubernetes Events, written in the background and never at a caller's expense.

What is said goes into a bounded buffer, and a few writers send it on. The same thing said again within minutes becomes
a series of the first Event, as client-go does it. An Event that cannot be stored is lost; that is said once in the log.
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
"""Where Events about objects without a namespace are kept."""
BUFFER_MAX: Final = 10_000
SERIES_MAX: Final = 4_096
SERIES_IDLE: Final = 6 * 60 * MICROS
"""After so long without a repetition, the same thing is news again."""
SERIES_GAP: Final = 60 * MICROS
"""A series is written at its first repetition and then once in this time, however often it repeats."""
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
    """The object that controls the one with this metadata, as an Event names it; None where nothing does."""
    for one in metadata.owner_references:
        if one.controller:
            return Ref(one.api_version, one.kind, metadata.namespace or "", one.name, one.uid)
    return None


class Said:
    """One thing that was said, once or again."""

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
        """Up to which count it is written; none before the first write."""
        self.heard = self.stored = moment
        """When it was said last, and when it was last sent to be written."""
        self.asked = True
        """Whether it stands in the buffer, or is being written."""


class Recorder:
    """Says what happened to objects. Nothing here waits, and nothing here fails its caller."""

    def __init__(self, kube: Kube, clock: Clock, instance: str) -> None:
        self.kube = kube
        self.clock = clock
        self.instance = instance
        self.buffer: deque[Said] = deque()
        self.said: OrderedDict[tuple[str, ...], Said] = OrderedDict()
        """What a repetition would be a repetition of, the latest last."""
        self.owing: dict[tuple[str, ...], Said] = {}
        """Series that have gone on since they were written."""
        self.news = asyncio.Event()
        self.stamp = 0
        self.lost = 0
        self.losing = False
        self.stopping = False

    def normal(self, about: Ref, reason: str, note: str, reporter: str, action: str = "") -> None:
        """Say that something went as it should."""
        self.say("Normal", about, reason, note, reporter, action)

    def warning(self, about: Ref, reason: str, note: str, reporter: str, action: str = "") -> None:
        """Say that something needs someone's attention."""
        self.say("Warning", about, reason, note, reporter, action)

    def say(self, kind: str, about: Ref, reason: str, note: str, reporter: str, action: str) -> None:
        """Put it in the buffer, or count it if it was said before."""
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
        # As client-go names them: the nanosecond, in hexadecimal; told apart by counting where the clock does not.
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
        """Have it written, unless too much waits already."""
        if len(self.buffer) >= BUFFER_MAX:
            self.lose(said, "more is said than the API server takes")
            return
        said.asked = True
        self.owing.pop(said.key, None)
        self.buffer.append(said)
        self.news.set()

    def lose(self, said: Said, why: object) -> None:
        """It is not written; if it is said again, it is said anew."""
        said.asked = False
        self.owing.pop(said.key, None)
        if self.said.get(said.key) is said:
            del self.said[said.key]
        self.lost += 1
        if not self.losing:
            self.losing = True
            LOG.warning("an Event (%s about %s %s) is lost: %s", said.reason, said.about.kind, said.about.name, why)

    async def run(self) -> None:
        """Write what is said, until stopped; then for a moment more."""
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
        """Have the series written that have gone on since they were."""
        due = self.clock.moment() - SERIES_GAP
        for said in [said for said in self.owing.values() if said.stored <= due]:
            self.ask(said)

    async def write_all(self) -> None:
        """Write one thing after the other."""
        while True:
            while self.buffer:
                await self.write(self.buffer.popleft())
            if self.stopping:
                return
            self.news.clear()
            await self.news.wait()

    async def write(self, said: Said) -> None:
        """Store an Event, or how its series stands."""
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
            # Whoever leads now says what there is to say.
            said.asked = False
            self.said.pop(said.key, None)
            return
        except NotFoundError as error:
            if said.told == 0:
                self.lose(said, error)
                return
            # Events are kept for an hour or so; a long series outlives its first one.
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
    """An Event as it is stored at first; what was said again in the meantime is in it."""
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
    """How often it was said, and when last."""
    return {"count": said.count, "lastObservedTime": micro_time(said.last)}


def cut(note: str) -> str:
    """A note as long as the API server takes."""
    if len(note) * 4 <= NOTE_BYTES_MAX:
        return note
    encoded = note.encode(errors="replace")
    if len(encoded) <= NOTE_BYTES_MAX:
        return note
    return encoded[: NOTE_BYTES_MAX - len(CUT)].decode(errors="ignore") + CUT
