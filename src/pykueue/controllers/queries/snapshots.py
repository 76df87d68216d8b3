"""Sends the engine's state with a question: `sim.questions` reads it.

The state is taken in one go, between two events, and written in parts, so that no step holds the loop for long.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from pykueue.engine.engine import Engine
from pykueue.engine.record.checkpoint import LENGTH_BYTES, checkpoint, parts

TURNS_MAX: Final = 100
"""Turns of the loop to wait until edits of queues are applied."""


async def question(kind: str, parameters: bytes, engine: Engine) -> AsyncIterator[bytes]:
    """Yield a question: its kind on the first line, its parameters, and the state of the engine at the first step."""
    turns = 0
    while engine.has_edits and turns < TURNS_MAX:
        # The next decision applies them; `checkpoint` would too, and then the journal does not have it.
        turns += 1
        await asyncio.sleep(0)
    head, rest = parts(checkpoint(engine))
    await asyncio.sleep(0)
    encode = msgspec.msgpack.encode
    yield f"{kind}\n".encode()
    yield framed(parameters)
    yield framed(encode(head))
    for part in rest:
        await asyncio.sleep(0)
        yield framed(encode(part))
    yield framed(b"")


def framed(content: bytes) -> bytes:
    """Bytes after their length."""
    return len(content).to_bytes(LENGTH_BYTES) + content
