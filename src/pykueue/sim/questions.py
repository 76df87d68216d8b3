"""Reads a question with the state of an engine, as `controllers.queries.snapshots` sends it."""

from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec

from pykueue.engine.record.checkpoint import LENGTH_BYTES, Checkpoint, Part, joined

HEAD: Final = msgspec.msgpack.Decoder(Checkpoint)
PART: Final = msgspec.msgpack.Decoder(Part)


def read(stream: BinaryIO) -> tuple[bytes, Checkpoint]:
    """The parameters of a question, after its kind was read, and the state; raises EOFError if it is cut short."""
    parameters = frame(stream)
    head = HEAD.decode(frame(stream))
    return parameters, joined(head, frames(stream))


def frames(stream: BinaryIO) -> Iterator[Part]:
    """The parts of the state, up to the mark of the end."""
    while content := frame(stream):
        yield PART.decode(content)


def frame(stream: BinaryIO) -> bytes:
    """The bytes of the next frame."""
    return exactly(stream, int.from_bytes(exactly(stream, LENGTH_BYTES)))


def exactly(stream: BinaryIO, count: int) -> bytes:
    """This many bytes."""
    found = stream.read(count)
    if len(found) != count:
        raise EOFError("the question was cut short")
    return found
