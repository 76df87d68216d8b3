"""Connections to containers: `pods/exec` and `pods/attach` over WebSocket, with Kubernetes' channels.

The response switches the protocol, and the connection then carries standard input one way, and output with a final
Status the other. Neither side is buffered without a bound: output is not read from the container while the client does
not read, and the client is not read while the container does not. Each frame is parsed in its user's turn of the event
loop, so that a client that sends many does not delay other users. A caller whose credentials or rights end is
disconnected.
"""

import asyncio
import contextlib
import logging
import socket
from typing import Final, cast

import msgspec
from aiohttp import web
from aiohttp.http_writer import StreamWriter

from pykueue.api.core import Tree
from pykueue.apiserver.http.readers import BUFFER_BYTES, WRITE_SECONDS
from pykueue.apiserver.wire.execquery import exec_query
from pykueue.apiserver.wire.messages import SWITCHING, Request, Response, Upgrade
from pykueue.apiserver.wire.paths import RequestInfo
from pykueue.apiserver.wire.statuserrors import StatusError, bad_request, internal, too_many
from pykueue.base.timers import timeout
from pykueue.base.turns import COPIED, ITEM_MICROS, Turns
from pykueue.kube.execs import (
    CLOSED,
    ERROR,
    PROTOCOLS,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    V5,
    ExecEnd,
    ExecError,
    ExecSession,
    ExecSource,
)
from pykueue.kube.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    NORMAL,
    PING,
    POLICY,
    PONG,
    PROTOCOL_ERROR,
    UNSUPPORTED,
    VERSION,
    FrameError,
    Frames,
    Message,
    accepted,
    closing,
    frame,
    is_key,
)

LOG: Final = logging.getLogger(__name__)

CONNECTIONS: Final = ("attach", "exec")
"""The subresources that are served here."""
PENDING_BYTES: Final = 64 * 1024
"""Bytes of a client that wait at which no more are read, unless they are the beginning of a longer frame."""
FRAME_MICROS: Final = 20
"""Cost of a frame besides its payload."""
IDLE_MAX: Final = 1000
"""The most messages without input that a client may send in `IDLE_SECONDS`: pings, sizes of its terminal and so on.

Clients ping every few seconds, and those pings wait while the container does not read its input.
"""
IDLE_SECONDS: Final = 1.0
CHECK_SECONDS: Final = 2.0
"""How often the rights of a caller are checked."""
FAREWELL_SECONDS: Final = 2.0
"""How long a client that is disconnected has to read the reason."""
KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""Detects within a minute that a client's machine is gone; a client that only does not read is still there."""
SIZE_MAX: Final = 0xFFFF
SIZE_BYTES: Final = 256
"""The longest message with the size of a terminal."""
OLDER_CLIENT: Final = (
    "this server connects to containers over WebSocket (v5.channel.k8s.io or v4.channel.k8s.io), not over SPDY; "
    "use kubectl 1.31 or later, without KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false"
)


def connection(pod: bytes, call: RequestInfo, request: Request, execs: ExecSource | None) -> Response:
    """The response that connects a client to a container; a refusal is raised as a `StatusError`.

    kubectl repeats over SPDY what was refused over WebSocket and shows the second answer, so whatever else is wrong is
    reported before the protocol.
    """
    tree: Tree = msgspec.json.decode(pod)
    asked = exec_query(request.query, tree, attach=call.subresource == "attach")
    if execs is None:
        raise internal("containers cannot be entered on this server")
    try:
        execs.check(tree, asked)
    except ExecError as error:
        raise status_of(error) from error
    protocol = protocol_of(request)

    async def opened() -> ExecSession:
        return await execs.open(tree, asked)

    wanted = {STDOUT: asked.stdout, STDERR: asked.stderr}
    channels = frozenset(channel for channel, is_wanted in wanted.items() if is_wanted)
    return Response(SWITCHING, upgrade=Upgrade(protocol, opened, channels))


def status_of(error: ExecError) -> StatusError:
    """The error response for a container that cannot be entered."""
    match error.code:
        case 404:
            return StatusError(404, "NotFound", str(error))
        case 429:
            return too_many(str(error), 1)
        case 400:
            return bad_request(str(error))
        case _:
            return internal(str(error))


def protocol_of(request: Request) -> str:
    """The subprotocol to use; raises a `StatusError` if the client offers none that is supported."""
    offered = [one.strip() for one in request.header("sec-websocket-protocol").split(",")]
    common = [one for one in PROTOCOLS if one in offered]
    if request.verb != "GET" or request.header("upgrade").lower() != "websocket" or not common:
        raise bad_request(OLDER_CLIENT)
    if request.header("sec-websocket-version") != VERSION or not is_key(request.header("sec-websocket-key")):
        raise bad_request(f"the WebSocket handshake is malformed; send a key of 16 bytes and version {VERSION}")
    return common[0]


class Connection:
    """One connection of a client to a container; the parser of what arrives after the response."""

    def __init__(self, request: web.BaseRequest, upgrade: Upgrade, turns: Turns) -> None:
        self.request = request
        self.upgrade = upgrade
        self.turns = turns
        self.frames = Frames(from_client=True)
        self.idle = 0
        """How many messages without input have arrived since `idle_since`."""
        self.idle_since = 0.0
        self.news = asyncio.Event()
        self.lost = False
        self.closing = False
        """Whether a close was sent, after which nothing may follow."""

    # What aiohttp calls.

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Keep what has arrived until `next_message` parses it."""
        self.frames.buffer += data
        if len(self.frames.buffer) > PENDING_BYTES:
            self.request.protocol.pause_reading()
        self.news.set()
        return False, b""

    def feed_eof(self) -> None:
        """Handle the end of the connection."""
        self.lost = True
        self.news.set()

    # Reading and writing.

    async def next_message(self) -> Message | None:
        """The next message; None if the connection is lost. Raises `FrameError` for an invalid one, or too many."""
        while True:
            await self.turns.take(FRAME_MICROS)
            message = self.frames.parse()
            if message is None:
                if self.lost:
                    return None
                self.news.clear()
                self.request.protocol.resume_reading()
                await self.news.wait()
            elif message.opcode != CONTINUATION:
                self.count(message)
                return message

    def count(self, message: Message) -> None:
        """Raise a `FrameError` if the client sends too many messages without input."""
        if message.opcode == BINARY and message.data[:1] == bytes([STDIN]) and len(message.data) > 1:
            return
        now = asyncio.get_running_loop().time()
        if now - self.idle_since >= IDLE_SECONDS:
            self.idle, self.idle_since = 0, now
        self.idle += 1
        if self.idle > IDLE_MAX:
            reason = f"more than {IDLE_MAX} messages without input arrived in {IDLE_SECONDS:g} s; send fewer"
            raise FrameError(POLICY, reason)

    def write(self, opcode: int, data: bytes) -> None:
        """Send a message, unless the connection is lost or a close was sent."""
        transport = self.request.transport
        if transport is not None and not transport.is_closing() and not self.closing:
            self.closing = opcode == CLOSE
            transport.write(frame(opcode, data))

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        with contextlib.suppress(ConnectionError):
            await cast("StreamWriter", self.request.writer).drain()

    # The connection from its beginning to its end.

    async def run(self) -> web.StreamResponse:
        """Switch protocols, connect the client to the container, and return when either has ended."""
        made = web.StreamResponse(status=SWITCHING, headers=[*self.headers()])
        made.force_close()
        await made.prepare(self.request)
        self.request.protocol.set_parser(self)  # type: ignore[arg-type]  # it has the methods that are called
        self.request.protocol.keep_alive(False)
        self.configure()
        session: ExecSession | None = None
        try:
            session = await self.upgrade.open()
            await self.attend(session)
        except ExecError as error:
            await self.finish(ExecEnd(problem=str(error)).status(), NORMAL, FAREWELL_SECONDS)
        except FrameError as error:
            self.write(CLOSE, closing(error.code, str(error)))
        except StatusError as error:
            await self.finish(error.status(), POLICY, FAREWELL_SECONDS)
        finally:
            if session is not None:
                session.close()
            self.hang_up()
        return made

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of the response."""
        return (
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", accepted(self.request.headers["Sec-WebSocket-Key"])),
            ("Sec-WebSocket-Protocol", self.upgrade.protocol),
        )

    def configure(self) -> None:
        """Bound what is buffered for the client, and detect that its machine is gone."""
        transport = self.request.transport
        if transport is None:
            return
        transport.set_write_buffer_limits(BUFFER_BYTES)
        found = transport.get_extra_info("socket")
        if found is not None:
            with contextlib.suppress(OSError):
                found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in KEEPALIVE:
                    found.setsockopt(socket.IPPROTO_TCP, option, value)

    async def attend(self, session: ExecSession) -> None:
        """Pass data on in both directions until the command or the client has ended, or may not go on."""
        reading = asyncio.create_task(self.take_input(session))
        tasks = (reading, asyncio.create_task(self.pass_output(session)), asyncio.create_task(self.guard()))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if (end := task.result()) is not None:
                    await self.finish(end.status(), NORMAL, WRITE_SECONDS, reading)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def take_input(self, session: ExecSession) -> None:
        """Pass on what the client sends until it leaves; once the command has ended, it is discarded."""
        while (message := await self.next_message()) is not None:
            match message.opcode:
                case opcode if opcode == PING:
                    self.write(PONG, message.data)
                    await self.drain()
                case opcode if opcode == PONG:
                    pass
                case opcode if opcode == CLOSE:
                    self.write(CLOSE, message.data[:2])
                    return
                case opcode if opcode == BINARY:
                    await self.obey(session, message.data)
                case _:
                    raise FrameError(UNSUPPORTED, "send binary messages")

    async def obey(self, session: ExecSession, data: bytes) -> None:
        """Handle a message of the client; raises `FrameError` if it is malformed."""
        channel, payload = data[:1], data[1:]
        await self.turns.take(ITEM_MICROS + len(payload) // COPIED)
        if channel == bytes([STDIN]):
            await session.send(payload)
        elif channel == bytes([RESIZE]):
            session.resize(*size_of(payload))
        elif channel == bytes([CLOSED]) and self.upgrade.protocol == V5:
            if payload == bytes([STDIN]):
                session.end_input()
        else:
            raise FrameError(PROTOCOL_ERROR, f"channel {channel.hex() or 'none'} cannot be written to")

    async def pass_output(self, session: ExecSession) -> ExecEnd:
        """Pass output on to the client until it ends; returns how."""
        while not isinstance(found := await session.receive(), ExecEnd):
            channel, data = found
            if channel in self.upgrade.channels:
                await self.turns.take(ITEM_MICROS + len(data) // COPIED)
                self.write(BINARY, bytes([channel]) + data)
                await self.drain()
        return found

    async def guard(self) -> None:
        """Raise a `StatusError` when the caller may not go on."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.upgrade.allowed()

    async def finish(self, status: Tree, code: int, seconds: float, reading: asyncio.Task[None] | None = None) -> None:
        """Send the final Status, and wait until the client has read it and left, or reads nothing for this long."""
        self.write(BINARY, bytes([ERROR]) + msgspec.json.encode(status))
        self.write(CLOSE, closing(code))
        waiting = reading or asyncio.create_task(self.until_lost())
        try:
            unread = self.unread() + 1
            while not waiting.done() and self.unread() < unread:
                unread = self.unread()
                with contextlib.suppress(TimeoutError):
                    async with timeout(seconds):
                        await asyncio.wait((waiting,))
        finally:
            if reading is None:
                waiting.cancel()

    async def until_lost(self) -> None:
        """Discard what the client sends until it leaves."""
        with contextlib.suppress(FrameError):
            while (message := await self.next_message()) is not None and message.opcode != CLOSE:
                pass

    def unread(self) -> int:
        """The bytes that wait in the connection."""
        transport = self.request.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    def hang_up(self) -> None:
        """Close the connection; at once if the client does not read."""
        transport = self.request.transport
        if transport is not None:
            if transport.get_write_buffer_size():
                transport.abort()
            else:
                transport.close()


def size_of(payload: bytes) -> tuple[int, int]:
    """Columns and rows of a terminal; raises `FrameError` if they are malformed."""
    if len(payload) > SIZE_BYTES:
        raise FrameError(PROTOCOL_ERROR, "a terminal size is malformed")
    try:
        found = msgspec.json.decode(payload, type=dict[str, int])
        columns, rows = found["Width"], found["Height"]
    except (msgspec.MsgspecError, KeyError):
        raise FrameError(PROTOCOL_ERROR, "a terminal size is malformed") from None
    if not (0 <= columns <= SIZE_MAX and 0 <= rows <= SIZE_MAX):
        raise FrameError(PROTOCOL_ERROR, "a terminal size is malformed")
    return columns, rows
