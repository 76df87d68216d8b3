"""What the client asks of a connection to the server: requests, responses, streams, and whether a request was sent.

`direct` implements it over connections of our own, and `proxied` through a proxy.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from pykueue.base.struct import Frozen

CALL_SECONDS: Final = 60.0
"""How long the response to a call may take."""
CONNECT_SECONDS: Final = 10.0
CONNECTIONS_MAX: Final = 96
"""How many calls may be in flight: twice as many as Events alone take at most."""


class UnsentError(Exception):
    """Nothing was sent: the server cannot be reached, or sending is not allowed."""


class LostError(Exception):
    """The request was sent, and no response arrived."""


class Request(Frozen):
    """A request."""

    method: str
    path: str
    """With its query, percent-encoded."""
    headers: tuple[tuple[str, str], ...]
    body: bytes | None = None
    content: str = ""
    """The media type of the body."""
    may_send: Callable[[], bool] | None = None
    """Called right before sending; if it returns False, nothing is sent."""


class Response(Frozen):
    """A complete response."""

    status: int
    retry_after: str
    body: bytes


class Dialled(NamedTuple):
    """A connection without a protocol; its user closes it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    authority: str
    """The server, for the Host header."""
    prefix: str
    """The path of the server's URL."""


class Stream(Protocol):
    """A streamed response."""

    @property
    def status(self) -> int:
        """The status code."""

    def header(self, name: str) -> str:
        """The value of a header; empty if absent."""

    async def readany(self) -> bytes:
        """The next bytes of the body; empty at its end."""

    def close(self) -> None:
        """Close the connection."""


class Transport(Protocol):
    """A connection to the server. Without a response, calls raise only `UnsentError` or `LostError`."""

    def trust(self, tls: ssl.SSLContext | None) -> None:
        """Use these TLS settings on all connections from now on."""

    async def exchange(self, request: Request) -> Response:
        """Send a request and return the response."""

    async def open(self, request: Request, idle: float) -> Stream:
        """Send a request and stream the response; silence for this many seconds ends it."""

    async def dial(self) -> Dialled:
        """A new connection for another protocol than HTTP; raises `UnsentError`."""

    async def close(self) -> None:
        """Close all connections; requests that wait to be sent are not sent."""
