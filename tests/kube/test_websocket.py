"""Are WebSocket frames read as RFC 6455 says, and invalid ones refused?"""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.kube.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    FINAL,
    FRAGMENTS_MAX,
    PING,
    POLICY,
    PROTOCOL_ERROR,
    TEXT,
    TOO_BIG,
    FrameError,
    Frames,
    Message,
    accepted,
    frame,
    is_key,
    masked,
    new_key,
)

MASK = b"\x01\x02\x03\x04"


def part(opcode: int, data: bytes, *, final: bool = False) -> bytes:
    """A short frame of a client."""
    return bytes([(FINAL if final else 0) | opcode, 0x80 | len(data)]) + MASK + masked(data, MASK)


def read(*pieces: bytes, from_client: bool = True, limit: int = 1000) -> list[Message]:
    frames = Frames(from_client=from_client, limit=limit)
    return [message for piece in pieces for message in frames.feed(piece)]


def test_the_handshake_of_the_standard() -> None:
    assert accepted("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert is_key(new_key())
    assert not is_key("short")
    assert not is_key("€")


@given(
    messages=st.lists(st.tuples(st.sampled_from([BINARY, TEXT]), st.binary(max_size=70_000)), max_size=4),
    size=st.integers(1, 100_000),
    client=st.booleans(),
)
def test_what_is_written_is_read(messages: list[tuple[int, bytes]], size: int, client: bool) -> None:
    sent = b"".join(frame(opcode, data, mask=MASK if client else b"") for opcode, data in messages)
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    assert read(*pieces, from_client=client, limit=1 << 20) == [Message(*one) for one in messages]


def test_fragments_with_a_control_frame_between_them() -> None:
    sent = part(BINARY, b"ab") + part(PING, b"?", final=True) + part(CONTINUATION, b"") + part(0, b"c", final=True)
    assert read(*(sent[at : at + 1] for at in range(len(sent)))) == [Message(PING, b"?"), Message(BINARY, b"abc")]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(frame(BINARY, b"x"), PROTOCOL_ERROR, id="not masked"),
        pytest.param(part(3, b"", final=True), PROTOCOL_ERROR, id="an unknown opcode"),
        pytest.param(part(11, b"", final=True), PROTOCOL_ERROR, id="an unknown control frame"),
        pytest.param(bytes([0xC2, 0x80]) + MASK, PROTOCOL_ERROR, id="a reserved bit"),
        pytest.param(part(PING, b""), PROTOCOL_ERROR, id="a fragmented ping"),
        pytest.param(bytes([FINAL | CLOSE, 0xFE, 0, 126]) + MASK, PROTOCOL_ERROR, id="a long close"),
        pytest.param(part(CONTINUATION, b"x", final=True), PROTOCOL_ERROR, id="nothing to continue"),
        pytest.param(part(BINARY, b"x") + part(BINARY, b"y"), PROTOCOL_ERROR, id="two beginnings"),
        pytest.param(bytes([0x82, 0xFF]) + struct.pack(">Q", 2**63 + 5), TOO_BIG, id="exabytes"),
        pytest.param(bytes([0x82, 0xFE]) + struct.pack(">H", 1001), TOO_BIG, id="too long"),
        pytest.param(b"".join(part(BINARY if not n else 0, b"x" * 100) for n in range(11)), TOO_BIG, id="in fragments"),
    ],
)
def test_invalid_frames_are_refused_before_they_have_arrived(sent: bytes, code: int) -> None:
    with pytest.raises(FrameError) as refused:
        read(sent)
    assert refused.value.code == code


def test_a_server_must_not_mask() -> None:
    with pytest.raises(FrameError):
        read(part(BINARY, b"x", final=True), from_client=False)


def test_a_message_has_a_bounded_number_of_fragments() -> None:
    empty = part(CONTINUATION, b"")
    allowed = part(BINARY, b"x") + empty * (FRAGMENTS_MAX - 2) + part(CONTINUATION, b"y", final=True)
    assert read(allowed + allowed) == [Message(BINARY, b"xy")] * 2
    with pytest.raises(FrameError, match="more than 1024 fragments") as refused:
        read(part(BINARY, b"") + empty * FRAGMENTS_MAX)
    assert refused.value.code == POLICY


def test_one_frame_is_parsed_at_a_time() -> None:
    frames = Frames(from_client=True)
    frames.buffer += part(BINARY, b"a") + part(PING, b"?", final=True) + part(CONTINUATION, b"b", final=True)
    assert frames.parse() == Message(CONTINUATION, b""), "a fragment"
    assert frames.parse() == Message(PING, b"?")
    assert frames.parse() == Message(BINARY, b"ab")
    assert frames.parse() is None


@given(st.binary(max_size=300))
def test_noise_is_read_or_refused(noise: bytes) -> None:
    frames = Frames(from_client=True, limit=1000)
    with contextlib.suppress(FrameError):
        for at in range(0, len(noise), 7):
            list(frames.feed(noise[at : at + 7]))
