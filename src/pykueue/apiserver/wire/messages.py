"""Requests and responses, without the socket."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.wire.identity import Peer
from pykueue.apiserver.wire.negotiation import JSON, TEXT, encoded
from pykueue.apiserver.wire.paths import Query, split
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.base.struct import Frozen
from pykueue.kube.execs import ExecSession

Headers: TypeAlias = tuple[tuple[str, str], ...]

SWITCHING: Final = 101
OK: Final = 200
CREATED: Final = 201
ACCEPTED: Final = 202
NO_CONTENT: Final = 204


def always() -> None:
    """Allow a connection for as long as it lasts."""


class Request(Frozen):
    """An HTTP request."""

    verb: str
    """The HTTP method."""
    path: str
    """Decoded."""
    query: Query = {}
    headers: Mapping[str, str] = {}
    """By name in lower case."""
    body: bytes = b""
    certificate: Peer | None = None
    """The subject of the client's certificate, if any."""

    def header(self, name: str) -> str:
        """The value of a header; empty if absent."""
        return self.headers.get(name, "")


class Upgrade(Frozen):
    """A connection to a container, which a response switches to."""

    protocol: str
    """The subprotocol of the WebSocket."""
    open: Callable[[], Awaitable[ExecSession]]
    """Connects to the container; raises `ExecError`."""
    channels: frozenset[int]
    """The output channels that the client wants."""
    allowed: Callable[[], None] = always
    """Raises `StatusError` once the caller has no right to the connection any more."""


class Response(Frozen):
    """A response, complete or streamed. The consumer of a streamed body closes the iterator."""

    code: int
    body: bytes | AsyncIterator[bytes] = b""
    headers: Headers = ()
    last_chunk: bytes = b""
    """The last chunk for a client that is cut off because it does not read; without one it is disconnected."""
    reader: str = ""
    """The user to whom unread chunks are charged."""
    held: int = 0
    """The approximate bytes that the producer holds besides the chunks."""
    upgrade: Upgrade | None = None
    """What follows the response in place of a body."""


def request(
    verb: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    certificate: Peer | None = None,
) -> Request:
    """The request for a method and a request target with its query."""
    path, query = split(target)
    lowered = {name.lower(): value for name, value in (headers or {}).items()}
    return Request(verb, path, query, lowered, body, certificate)


def object_response(
    code: int, tree: Tree, *, media: str = JSON, pretty: bool = False, headers: Headers = ()
) -> Response:
    """A response with an object."""
    return Response(code, encoded(tree, media, pretty=pretty), (("Content-Type", media), *headers))


def json_response(code: int, body: bytes, *, headers: Headers = ()) -> Response:
    """A response with an object that is already encoded as JSON."""
    return Response(code, body + b"\n", (("Content-Type", JSON), *headers))


def text_response(code: int, says: str) -> Response:
    """A response with plain text."""
    headers = (("Content-Type", f"{TEXT}; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
    return Response(code, says.encode(), headers)


def error_response(error: StatusError) -> Response:
    """The response for a `StatusError`."""
    headers: Headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    if error.code == 401:
        headers = (*headers, ("WWW-Authenticate", 'Bearer realm="pykueue"'))
    return object_response(error.code, error.status(), headers=headers)


def with_warnings(response: Response, warnings: list[str]) -> Response:
    """The response with Warning headers."""
    if not warnings:
        return response
    headers = tuple(("Warning", f'299 - "{header_safe(text)}"') for text in warnings)
    return msgspec.structs.replace(response, headers=(*response.headers, *headers))


def header_safe(text: str) -> str:
    """A text escaped for a quoted string in a header."""
    plain = "".join(letter if letter.isprintable() and ord(letter) < 256 else " " for letter in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
