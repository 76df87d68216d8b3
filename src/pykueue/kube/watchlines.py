"""The lines of a watch: what happened, and the object that it happened to."""

from typing import Final

import msgspec

from pykueue.base.struct import Wire

TYPES: Final = {b'{"type":"%s"' % one.encode(): one for one in ("ADDED", "MODIFIED", "DELETED")}
OBJECT: Final = b',"object":'
HEAD_MAX: Final = 40


class Event(Wire):
    """A line of a watch."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


EVENT: Final = msgspec.json.Decoder(Event)


def parted(line: bytes) -> tuple[str, bytes]:
    """The type of an event and the JSON of its object; raises `msgspec.DecodeError` for a malformed line.

    As servers write it, the line is only cut. A decoder would read the object for its end, which its reader does again.
    """
    start = line.find(OBJECT, 0, HEAD_MAX)
    kind = TYPES.get(line[:start])
    if kind is not None and line.endswith(b"}}"):
        return kind, line[start + len(OBJECT) : -1]
    event = EVENT.decode(line)
    return event.type, bytes(event.object)
