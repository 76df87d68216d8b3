"""The page of one machine: `/ui` of the server of `pykueue up`, with the rights of each session's user."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from pykueue.apiserver.auth.access import identity_of
from pykueue.apiserver.auth.users import User, Users
from pykueue.apiserver.http.fronttransport import FrontTransport
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.messages import Request, Response
from pykueue.apiserver.wire.statuserrors import StatusError, unauthorized
from pykueue.app.machine import Up
from pykueue.cli.dashboard.codes import PATH, SECONDS_MAX, SECONDS_MIN, CodeAnswer, CodeRequest
from pykueue.cli.dashboard.overview import Meta
from pykueue.cli.dashboard.serving import disk_of, own_version
from pykueue.cli.dashboard.site import DashboardSite
from pykueue.cli.dashboard.source import Source
from pykueue.kube.client.connection import DEFAULT_NAMESPACE, Connection
from pykueue.kube.client.credentials import Credential, Fixed
from pykueue.kube.client.http import HttpKube
from pykueue.web.guard import Address
from pykueue.web.pages import ENTER, JSON, ROOT, Page, WebError, WebRequest, WebResponse, refusal
from pykueue.web.sessions import Grant, Session, Sessions

INSIDE: Final = "http://in-process"
"""The address of a server that is called without a connection."""
ADMINS: Final = "admins"
CODE_BYTES: Final = 1024
AGENT: Final = "pykueue-dashboard"


def proof_of(user: User) -> str:
    """A value that changes with the credentials of a user."""
    return hashlib.sha256(repr(user.credentials).encode()).hexdigest()


class MachineWorld:
    """The server of this process, as the users of sessions see it."""

    def __init__(self, up: Up) -> None:
        self.up = up
        self.users: Users = up.users
        self.sessions = Sessions(up.clock, valid=self.is_valid)

    def is_valid(self, grant: Grant) -> bool:
        """Whether a user still exists, with the same credentials."""
        user = self.users.named(grant.user)
        return user is not None and user.admitted(self.up.clock.now()) and proof_of(user) == grant.proof

    def identity(self, grant: Grant) -> Identity:
        """The user of a session; raises `StatusError` if it has no access any more."""
        user = self.users.named(grant.user)
        if user is None or not self.is_valid(grant):
            raise unauthorized()
        return identity_of(user)

    def kube(self, session: Session) -> HttpKube:
        """The server with the rights of a session's user."""
        return self.kube_as(lambda: self.identity(session.grant))

    def kube_as(self, who: Callable[[], Identity]) -> HttpKube:
        """The server with the rights of a user, who is looked up at each request."""
        connection = Connection(INSIDE, Fixed(Credential()))
        return HttpKube(connection, self.up.clock, agent=AGENT, transport=FrontTransport(self.up.front, who))

    def group(self, session: Session) -> str:
        """Administrators see everything; other users what their namespace may see."""
        try:
            who = self.identity(session.grant)
        except StatusError:
            raise WebError(401, "the session has ended") from None
        return ADMINS if who.admin else f"namespace {who.namespace}"

    def source(self, group: str, session: Session) -> Source:
        """A source of what a group may see."""
        meta = Meta(setting="machine", server=self.up.address, version=own_version())
        home = session.grant.namespace or DEFAULT_NAMESPACE
        disk = disk_of(self.up.plan.data)
        return Source(self.kube_as(lambda: self.one_of(group)), self.up.clock, home=home, meta=meta, disk=disk)

    def one_of(self, group: str) -> Identity:
        """A user of a group with an open session; raises `StatusError` if there is none."""
        for session in list(self.sessions.open.values()):
            if self.sessions.is_open(session) and self.group(session) == group:
                return self.identity(session.grant)
        raise unauthorized()

    def rejected(self, message: str) -> None:
        """Nothing is to be done: the session of a user who was removed has ended."""


class MachinePage:
    """Serves the page beside the API."""

    root = ROOT

    def __init__(self, up: Up) -> None:
        self.up = up
        self.world = MachineWorld(up)
        self.site = DashboardSite(self.world, up.clock)
        self.address = Address("https", up.authority.names, up.port)
        self.page = Page(self.address, self.world.sessions, self.site)

    async def user(self, request: Request) -> str:
        """The user of a request; empty if it has none."""
        if request.path == PATH:
            return ""
        return self.page.user(request.headers)

    async def answer(self, request: Request, read: Callable[[int], Awaitable[bytes]]) -> Response:
        """The response to a request below `/ui`."""

        async def body(limit: int) -> bytes:
            try:
                return await read(limit)
            except StatusError as error:
                raise WebError(error.code, error.message) from None

        if request.path == PATH:
            try:
                return converted(await self.code(request, body))
            except StatusError as error:
                return converted(refusal(WebError(error.code, error.message), json=True))
            except WebError as error:
                return converted(refusal(error, json=True))
        asked = WebRequest(request.verb, request.path, request.query, request.headers, body)
        return converted(await self.page.answer(asked))

    async def code(self, request: Request, read: Callable[[int], Awaitable[bytes]]) -> WebResponse:
        """A code for the user of a kubeconfig; sessions do not give codes."""
        if request.verb != "POST":
            raise WebError(405, "use POST")
        user = self.up.front.access.authenticated(request.headers, request.certificate)
        if user is None:
            raise unauthorized()
        if any(name.startswith("impersonate-") for name in request.headers):
            raise WebError(403, "a code is for the user who asks; leave out the impersonation")
        try:
            wanted = msgspec.json.decode(await read(CODE_BYTES), type=CodeRequest)
        except msgspec.DecodeError as error:
            raise WebError(400, f"the body is not understood: {error}") from None
        if not SECONDS_MIN <= wanted.seconds <= SECONDS_MAX:
            raise WebError(400, f"seconds: use {SECONDS_MIN} to {SECONDS_MAX}")
        grant = Grant(user.name, user.namespace, wanted.view_only, proof_of(user), wanted.seconds)
        answer = CodeAnswer(self.world.sessions.issue(grant), f"{self.up.address}{ENTER}")
        headers = (("Content-Type", JSON), ("Cache-Control", "no-store"))
        return WebResponse(201, msgspec.json.encode(answer), headers, user.name)

    def close(self) -> None:
        """End all sessions and stop reading."""
        self.world.sessions.end_all()
        self.site.close()


def converted(response: WebResponse) -> Response:
    """A response of the page as the server sends it."""
    return Response(response.code, response.body, response.headers, reader=response.user)
