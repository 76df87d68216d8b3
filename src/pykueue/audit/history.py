"""The file format of a history: one JSON object per line, with the time, the event and the object."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from pykueue.api.core import KubeObject
from pykueue.audit.times import Instant
from pykueue.audit.views import Event, EventType, UnreadableError, read_object
from pykueue.base.struct import Frozen


class Line(Frozen):
    """One recorded event."""

    at: Instant
    type: EventType
    kind: str
    object: msgspec.Raw


LINES: Final = msgspec.json.Decoder(Line)
METADATA: Final = msgspec.json.Decoder(KubeObject)


def version_of(raw: bytes | msgspec.Raw) -> int:
    """The resourceVersion of an object; 0 if it has none."""
    try:
        text = METADATA.decode(raw).metadata.resource_version or "0"
    except msgspec.DecodeError as error:
        raise UnreadableError(f"metadata cannot be read: {error}; the auditor skips it") from error
    return int(text) if text.isdecimal() else 0


def event_of(line: Line) -> Event:
    """Decode the event of a line; raises only `UnreadableError`."""
    return Event(line.type, line.kind, version_of(line.object), line.at, read_object(line.kind, line.object))


def encode(line: Line) -> bytes:
    """The line as text, with its line break."""
    return msgspec.json.encode(line) + b"\n"


def events(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events of a history in order; unreadable objects are skipped."""
    for text in lines:
        try:
            yield event_of(LINES.decode(text))
        except UnreadableError:
            continue
