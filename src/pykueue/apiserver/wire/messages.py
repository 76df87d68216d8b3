"""Requests and responses, without the socket."""

from collections.abc import AsyncIterator, Mapping
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.wire.identity import Peer
from pykueue.apiserver.wire.negotiation import JSON, TEXT, encoded
from pykueue.apiserver.wire.paths import Query, split
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.base.struct import Frozen

Headers: TypeAlias = tuple[tuple[str, str], ...]

OK: Final = 200
CREATED: Final = 201
ACCEPTED: Final = 202
NO_CONTENT: Final = 204


class Request(Frozen):
    """A call."""

    verb: str
    """The method, as HTTP names it."""
    path: str
    """Decoded."""
    query: Query = {}
    headers: Mapping[str, str] = {}
    """By names in small letters."""
    body: bytes = b""
    certificate: Peer | None = None
    """Whose certificate the client showed, if it did."""

    def header(self, name: str) -> str:
        """The value of a header; empty where it is absent."""
        return self.headers.get(name, "")


class Response(Frozen):
    """An answer: whole, or in pieces as they come. Whoever takes pieces closes the iterator when done."""

    code: int
    body: bytes | AsyncIterator[bytes] = b""
    headers: Headers = ()
    farewell: bytes = b""
    """The last piece for a client that is cut off because it does not read; without one it can only be hung up on."""
    reader: str = ""
    """The user for whom pieces that are not read yet are held."""
    held: int = 0
    """About the bytes that whoever makes the pieces holds beside them."""


def request(
    verb: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    certificate: Peer | None = None,
) -> Request:
    """A call on a target as it stands in a request line, with its query."""
    path, query = split(target)
    lowered = {name.lower(): value for name, value in (headers or {}).items()}
    return Request(verb, path, query, lowered, body, certificate)


def told(code: int, tree: Tree, *, media: str = JSON, pretty: bool = False, headers: Headers = ()) -> Response:
    """An answer that is an object."""
    return Response(code, encoded(tree, media, pretty=pretty), (("Content-Type", media), *headers))


def raw(code: int, body: bytes, *, headers: Headers = ()) -> Response:
    """An answer that is an object in JSON already."""
    return Response(code, body + b"\n", (("Content-Type", JSON), *headers))


def said(code: int, says: str) -> Response:
    """An answer in words."""
    headers = (("Content-Type", f"{TEXT}; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
    return Response(code, says.encode(), headers)


def failed(error: StatusError) -> Response:
    """A refusal, or a failure, as an answer."""
    headers: Headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    if error.code == 401:
        headers = (*headers, ("WWW-Authenticate", 'Bearer realm="pykueue"'))
    return told(error.code, error.status(), headers=headers)


def warned(response: Response, warnings: list[str]) -> Response:
    """The answer, with what the caller should be told."""
    if not warnings:
        return response
    headers = tuple(("Warning", f'299 - "{harmless(text)}"') for text in warnings)
    return msgspec.structs.replace(response, headers=(*response.headers, *headers))


def harmless(text: str) -> str:
    """A text as a quoted string of a header may hold it."""
    plain = "".join(letter if letter.isprintable() and ord(letter) < 256 else " " for letter in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
