"""The client of `pods/exec` and `pods/attach`: channels over a WebSocket, on a connection of its own.

The WebSocket is our own (`kube.websocket`): importing aiohttp takes longer than the rest of a command.
"""

import asyncio
import contextlib
import os
from typing import Final
from urllib.parse import urlencode

from pykueue.base.timers import timeout
from pykueue.kube.client.answers import error_of, status_of
from pykueue.kube.client.http import HttpKube, path_of
from pykueue.kube.client.message import HEAD_MAX, Answer, MalformedError
from pykueue.kube.client.transport import CALL_SECONDS, LostError, UnsentError
from pykueue.kube.execs import CLOSED, PROTOCOLS, V5, ExecQuery
from pykueue.kube.port import PODS, UnansweredError
from pykueue.kube.websocket import (
    BINARY,
    CLOSE,
    MASK_BYTES,
    NORMAL,
    PING,
    PONG,
    VERSION,
    FrameError,
    Frames,
    Message,
    accepted,
    closing,
    frame,
    new_key,
)

PING_SECONDS: Final = 20.0
"""How often a sign of life is requested, so that nothing between us and the server closes an idle connection."""
SILENCE_SECONDS: Final = 65.0
"""After this long without one, the connection is lost."""
READ_BYTES: Final = 64 * 1024
SWITCHED: Final = 101
BODY_MAX: Final = 1 << 20
"""The most bytes that are read of an error response."""


class ChannelStream:
    """A connection to a container."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: str) -> None:
        self.reader = reader
        self.writer = writer
        self.protocol = protocol
        self.frames = Frames(from_client=False)
        self.arrived: list[Message] = []
        self.pinging = asyncio.create_task(self.ping())

    async def ping(self) -> None:
        """Request signs of life until cancelled."""
        while True:
            await asyncio.sleep(PING_SECONDS)
            self.write(PING, b"")

    def write(self, opcode: int, data: bytes) -> None:
        """Send a message, unless the connection is lost."""
        if not self.writer.is_closing():
            self.writer.write(frame(opcode, data, mask=os.urandom(MASK_BYTES)))

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel, and wait until there is room for more."""
        self.write(BINARY, bytes([channel]) + data)
        with contextlib.suppress(OSError):
            await self.writer.drain()

    async def end(self, channel: int) -> None:
        """Close a channel, if the server knows how; servers before Kubernetes 1.30 do not."""
        if self.protocol == V5:
            await self.send(CLOSED, bytes([channel]))

    async def receive(self) -> tuple[int, bytes] | None:
        """The next data with its channel; None when the server has closed the connection. Raises `LostError`."""
        while True:
            while self.arrived:
                message = self.arrived.pop(0)
                if message.opcode == PING:
                    self.write(PONG, message.data)
                elif message.opcode == CLOSE:
                    return None
                elif message.opcode == BINARY and message.data:
                    return message.data[0], message.data[1:]
            try:
                async with timeout(SILENCE_SECONDS):
                    block = await self.reader.read(READ_BYTES)
                self.arrived = list(self.frames.feed(block))
            except TimeoutError:
                raise LostError(f"no sign of life within {SILENCE_SECONDS:.0f} s") from None
            except (OSError, FrameError) as error:
                raise LostError(f"the connection was lost: {error}") from error
            if not block:
                raise LostError("the server closed the connection")

    def close(self) -> None:
        """Close the connection."""
        self.pinging.cancel()
        self.write(CLOSE, closing(NORMAL))
        self.writer.close()


async def connect(kube: HttpKube, namespace: str, pod: str, asked: ExecQuery) -> ChannelStream:
    """Connect to a container; raises a `KubeError` if the server refuses or does not respond."""
    part = "exec" if asked.command else "attach"
    what = f"{part} pods {namespace}/{pod}"
    wanted = (("stdin", asked.stdin), ("stdout", asked.stdout), ("stderr", asked.stderr), ("tty", asked.tty))
    query = [("container", asked.container), *(("command", word) for word in asked.command)]
    query += [(name, "true") for name, is_wanted in wanted if is_wanted]
    path = f"{path_of(PODS, namespace, pod, part)}?{urlencode(query)}"
    credential = await kube.current(what)
    try:
        found = await handshake(kube, path)
        if isinstance(found, Answered) and found.status == 401 and await kube.renewed(credential, what):
            found = await handshake(kube, path)
    except (UnsentError, LostError) as error:
        raise UnansweredError(what, 0, "ConnectionLost", str(error)) from error
    if isinstance(found, Answered):
        raise error_of(what, found.status, status_of(found.status, found.body))
    return found


class Answered:
    """A response that did not switch protocols."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.answer = Answer(self.parts.append)

    @property
    def status(self) -> int:
        """The status code."""
        return self.answer.status

    @property
    def body(self) -> bytes:
        """The body, as far as it was read."""
        return b"".join(self.parts)


async def handshake(kube: HttpKube, path: str) -> ChannelStream | Answered:
    """Open a connection and switch it to the channels' protocol; otherwise the server's response."""
    reader, writer, authority, prefix = await kube.transport.dial()
    key = new_key()
    headers = (
        ("Host", authority),
        *kube.headers,
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", VERSION),
        ("Sec-WebSocket-Key", key),
        ("Sec-WebSocket-Protocol", ", ".join(PROTOCOLS)),
    )
    lines = [f"GET {prefix}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    try:
        async with timeout(CALL_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 101 "):
                return await answered(reader, writer, head)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, MalformedError) as error:
        writer.close()
        raise LostError(f"no response: {error!r}") from error
    fields = [line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:]]
    found = {name.strip().lower(): value.strip() for name, _, value in fields}
    protocol = found.get("sec-websocket-protocol", "")
    if found.get("sec-websocket-accept") != accepted(key) or protocol not in PROTOCOLS:
        writer.close()
        raise LostError("the server does not support any of " + ", ".join(PROTOCOLS))
    return ChannelStream(reader, writer, protocol)


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> Answered:
    """The rest of a response that refuses the connection."""
    made = Answered()
    made.answer.feed(head)
    size = 0
    while not made.answer.complete and size < BODY_MAX and (block := await reader.read(HEAD_MAX)):
        size += len(block)
        made.answer.feed(block)
    writer.close()
    return made
