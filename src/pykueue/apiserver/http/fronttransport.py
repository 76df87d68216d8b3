"""Requests of `HttpKube` to the Front of the same process, as one of its users.

What serves a user within this process so has exactly the rights of that user, which are judged at each request.
"""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

from pykueue.apiserver.http.front import Front
from pykueue.apiserver.http.server import REQUEST_MICROS
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.messages import Request as FrontRequest
from pykueue.apiserver.wire.messages import Response as FrontResponse
from pykueue.apiserver.wire.messages import error_response
from pykueue.apiserver.wire.paths import split
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.base.turns import USER
from pykueue.kube.client.transport import Dialled, Request, Response, UnsentError

NOT_DIALLED: Final = "connections to containers are not made within the process"


class FrontStream:
    """A streamed response."""

    def __init__(self, response: FrontResponse) -> None:
        self.response = response
        self.pieces = pieces_of(response)

    @property
    def status(self) -> int:
        """The status code."""
        return self.response.code

    def header(self, name: str) -> str:
        """The value of a header; empty if absent."""
        return header_of(self.response, name)

    async def readany(self) -> bytes:
        """The next bytes of the body; empty at its end."""
        return await anext(self.pieces, b"")

    def close(self) -> None:
        """Leave the rest unread; the iterator is closed when it is collected."""


class FrontTransport:
    """A transport without a connection."""

    def __init__(self, front: Front, who: Callable[[], Identity]) -> None:
        self.front = front
        self.who = who
        """The user for whom requests are made; raises `StatusError` if that user has no access any more."""

    def trust(self, tls: ssl.SSLContext | None) -> None:
        """Do nothing: there is no connection."""

    async def exchange(self, request: Request) -> Response:
        """The complete response to a request."""
        response = await self.answered(request)
        body = response.body
        if not isinstance(body, bytes):
            body = b"".join([piece async for piece in pieces_of(response)])
        return Response(response.code, header_of(response, "Retry-After"), body)

    async def open(self, request: Request, idle: float) -> FrontStream:
        """The streamed response to a request."""
        return FrontStream(await self.answered(request))

    async def answered(self, request: Request) -> FrontResponse:
        """The response of the Front, in the turn of the user."""
        try:
            who = self.who()
        except StatusError as error:
            return error_response(error)
        path, query = split(request.path)
        headers = {name.lower(): value for name, value in request.headers}
        if request.body is not None:
            headers["content-type"] = request.content
        USER.set(who.name)
        await self.front.objects.turns.take(REQUEST_MICROS)
        return await self.front.answer(FrontRequest(request.method, path, query, headers, request.body or b""), who)

    async def dial(self) -> Dialled:
        """Refuse: nothing that runs here connects to containers."""
        raise UnsentError(NOT_DIALLED)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


async def pieces_of(response: FrontResponse) -> AsyncIterator[bytes]:
    """The pieces of a response; those that are empty would mean its end."""
    if isinstance(response.body, bytes):
        if response.body:
            yield response.body
        return
    try:
        async for piece in response.body:
            if piece:
                yield piece
    finally:
        if close := getattr(response.body, "aclose", None):
            with suppress(RuntimeError):
                await close()


def header_of(response: FrontResponse, name: str) -> str:
    """The value of a header; empty if absent."""
    return next((value for known, value in response.headers if known.lower() == name.lower()), "")
