"""WebSocket messages (RFC 6455) for both sides of a connection, without the socket and without extensions.

A library of its own would cost a client more time to import than all the rest of a command; aiohttp's takes 220 ms, and
its server does not refuse frames that are not masked.
"""

import base64
import hashlib
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

VERSION: Final = "13"
GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY_BYTES: Final = 16
CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA
CONTROL: Final = 0x8
FINAL: Final = 0x80
MASKED: Final = 0x80
RESERVED: Final = 0x70
OPCODES: Final = frozenset({CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG})
CONTROL_MAX: Final = 125
"""The longest payload of a control frame."""
SHORT: Final = 126
LONG: Final = 127
MASK_BYTES: Final = 4
MESSAGE_MAX: Final = 1 << 20
"""The longest message that is accepted; clients of Kubernetes send at most 32 KiB."""
FRAGMENTS_MAX: Final = 1024
"""The most fragments of a message, so that empty ones do not go on forever."""

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
UNSUPPORTED: Final = 1003
POLICY: Final = 1008
TOO_BIG: Final = 1009


class FrameError(Exception):
    """The other side violates the protocol; the code with which to close the connection."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Message(NamedTuple):
    """A complete message, or a control frame; `CONTINUATION` stands for a fragment that completes no message."""

    opcode: int
    data: bytes


def new_key() -> str:
    """A random key for a handshake."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


def is_key(text: str) -> bool:
    """Whether this is a valid key of a handshake."""
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_BYTES
    except ValueError:
        return False


def accepted(key: str) -> str:
    """The answer to the key of a handshake."""
    return base64.b64encode(hashlib.sha1(key.encode() + GUID, usedforsecurity=False).digest()).decode()


def masked(data: bytes, mask: bytes) -> bytes:
    """The data with this mask applied, or removed."""
    size = len(data)
    long = (mask * (size // MASK_BYTES + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(long, "big")).to_bytes(size, "big")


def frame(opcode: int, data: bytes, *, mask: bytes = b"") -> bytes:
    """A message in one frame; clients give a mask of four random bytes."""
    size, flag = len(data), MASKED if mask else 0
    if size < SHORT:
        head = struct.pack(">BB", FINAL | opcode, flag | size)
    elif size <= 0xFFFF:
        head = struct.pack(">BBH", FINAL | opcode, flag | SHORT, size)
    else:
        head = struct.pack(">BBQ", FINAL | opcode, flag | LONG, size)
    return head + mask + (masked(data, mask) if mask else data)


def closing(code: int, reason: str = "") -> bytes:
    """The payload of a close frame."""
    return struct.pack(">H", code) + reason.encode()[: CONTROL_MAX - 2]


class Frames:
    """Parses frames from pieces of any size into messages."""

    def __init__(self, *, from_client: bool, limit: int = MESSAGE_MAX) -> None:
        self.from_client = from_client
        """Whether frames have to be masked; those of a server must not be."""
        self.limit = limit
        self.buffer = bytearray()
        self.opcode = CONTINUATION
        """The kind of the message whose first fragments have arrived."""
        self.parts = bytearray()
        self.fragments = 0
        """How many fragments of the message have arrived."""

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete with these bytes; raises `FrameError` for an invalid frame."""
        self.buffer += data
        while (message := self.parse()) is not None:
            if message.opcode != CONTINUATION:
                yield message

    def parse(self) -> Message | None:
        """Parse one frame of the buffer; None if none is complete. Raises `FrameError` for an invalid one."""
        if (found := self.next_frame()) is None:
            return None
        final, opcode, payload = found
        if opcode & CONTROL:
            return Message(opcode, payload)
        if (opcode == CONTINUATION) != (self.opcode != CONTINUATION):
            raise FrameError(PROTOCOL_ERROR, "a fragment is out of place")
        self.opcode = opcode or self.opcode
        self.parts += payload
        self.fragments += 1
        if self.fragments > FRAGMENTS_MAX:
            raise FrameError(POLICY, f"a message has more than {FRAGMENTS_MAX} fragments")
        if not final:
            return Message(CONTINUATION, b"")
        message = Message(self.opcode, bytes(self.parts))
        self.parts, self.opcode, self.fragments = bytearray(), CONTINUATION, 0
        return message

    def next_frame(self) -> tuple[bool, int, bytes] | None:
        """The next complete frame; None if it has not arrived."""
        if len(self.buffer) < 2:
            return None
        first, second = self.buffer[0], self.buffer[1]
        opcode, size, at = first & 0x0F, second & 0x7F, 2
        if first & RESERVED or opcode not in OPCODES:
            raise FrameError(PROTOCOL_ERROR, "a frame has reserved bits or an unknown opcode")
        if bool(second & MASKED) != self.from_client:
            raise FrameError(PROTOCOL_ERROR, "frames of clients must be masked, those of servers must not be")
        if opcode & CONTROL and (size > CONTROL_MAX or not first & FINAL):
            raise FrameError(PROTOCOL_ERROR, "a control frame is too long or fragmented")
        for mark, layout in ((SHORT, ">H"), (LONG, ">Q")):
            if second & 0x7F == mark:
                if len(self.buffer) < at + struct.calcsize(layout):
                    return None
                (size,) = struct.unpack_from(layout, self.buffer, at)
                at += struct.calcsize(layout)
        if size + len(self.parts) > self.limit:
            raise FrameError(TOO_BIG, f"a message is longer than {self.limit} bytes")
        begin = at + (MASK_BYTES if self.from_client else 0)
        if len(self.buffer) < begin + size:
            return None
        payload = bytes(self.buffer[begin : begin + size])
        if self.from_client:
            payload = masked(payload, bytes(self.buffer[at:begin]))
        del self.buffer[: begin + size]
        return bool(first & FINAL), opcode, payload
