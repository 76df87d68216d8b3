"""`Kube` over HTTP: the client of a real API server."""

import asyncio
import logging
import random
import re
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.text import json_escaped
from pykueue.base.units import MICROS, Moment
from pykueue.kube.client.answers import error_of, seconds_of, status_of, unprocessed
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, CredentialError
from pykueue.kube.client.direct import Direct
from pykueue.kube.client.transport import LostError, Request, Response, Stream, Transport, UnsentError
from pykueue.kube.port import (
    STATUS,
    DeniedError,
    KubeError,
    NotLeadingError,
    Patch,
    Resource,
    UnansweredError,
)

LOG: Final = logging.getLogger(__name__)

MANAGER: Final = "kueue"
"""The field manager of writes that name none."""
PAGE_ITEMS: Final = 500
TRIES_MAX: Final = 6
"""How often a call is sent at most."""
FIRST_SECONDS: Final = 0.1
LAST_SECONDS: Final = 10.0
RETRY_AFTER_MAX: Final = 60.0
WATCH_SECONDS: Final = (300, 600)
"""The server ends a watch after a random time between these."""
IDLE_SECONDS: Final = 75.0
"""A watch without even a bookmark for this long is dead; servers send one every minute."""
FORCE_MICROS: Final = 5 * MICROS
"""How long after a forced renewal a refused credential is not renewed again."""
JSON: Final = "application/json"
FAILED: Final = b'{"type":"ERROR"'
"""The beginning of an error event, which is an error of the watch itself."""
NOT_IN_YAML: Final = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What a JSON string may contain, but a YAML parser rejects (DEL, most of U+0080 to U+009F, U+FFFE, U+FFFF), takes for
the end of a line (U+0085, U+2028, U+2029) or, at the start of the server's buffer, for a byte order mark."""


class Call(Frozen):
    """One call to the server."""

    method: str
    path: str
    what: str
    """Its name in errors: verb, resource, name."""
    body: bytes | None = None
    content: str = JSON
    repeatable: bool = False
    """Whether it is safe to send it twice."""
    accept: str = JSON
    """The media type of the response."""


class ListMeta(Wire):
    """The metadata of a page."""

    continue_: str = msgspec.field(default="", name="continue")


class Page(Wire):
    """The part of a page that paging needs."""

    metadata: ListMeta = ListMeta()


PAGE: Final = msgspec.json.Decoder(Page)


@lru_cache(maxsize=1024)
def collection(resource: Resource, namespace: str) -> str:
    """The path of all objects of a kind, or of those in a namespace."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace and resource.namespaced else ""
    return f"{root}{within}/{resource.plural}"


def path_of(resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    """The path of an object or a subresource."""
    path = f"{collection(resource, namespace)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def query(**parameters: str) -> str:
    """A query string of the parameters that have a value."""
    given = {name: value for name, value in parameters.items() if value}
    return f"?{urlencode(given, quote_via=quote)}" if given else ""


@lru_cache(maxsize=64)
def signed(manager: str, *, force: bool = False) -> str:
    """The query string of a write by a field manager.

    `Ignore` skips the server's check for unknown fields, which only produces warnings, and this client does not read
    them. For the check, the server parses an applied object twice; it adds 3 % to the CPU time of creating an Event.
    """
    return query(fieldManager=manager, force="true" if force else "", fieldValidation="Ignore")


def as_yaml(body: bytes) -> bytes:
    """JSON that means the same when it is read as YAML, as the server reads an applied object.

    It has many lines, which the server parses in half the time, with a third of the garbage: any value may turn out to
    be a key of a mapping while its line lasts, so a YAML scanner holds back all that follows on the same line, up to
    1,024 characters, and looks through it for every token.
    """
    return json_escaped(msgspec.json.format(body.decode(), indent=1), NOT_IN_YAML).encode()


def called(verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The name of a call in errors."""
    part = f"/{subresource}" if subresource else ""
    within = f"{namespace}/{name}" if namespace and name else namespace or name
    return f"{verb} {resource}{part} {within}".rstrip()


class HttpKube:
    """A Kubernetes API server."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        *,
        qps: float | None = None,
        burst: int = 0,
        agent: str = "pykueue",
        may_write: Callable[[], bool] | None = None,
        rng: Callable[[], float] = random.random,
        transport: Transport | None = None,
        gathers: bool = False,
    ) -> None:
        self.connection = connection
        self.clock = clock
        self.rng = rng
        self.agent = agent
        self.limit = Limit(clock, qps, max(1, burst)) if qps else None
        self.may_write = may_write
        self.transport: Transport
        if transport is not None:
            self.transport = transport
        elif connection.proxy:
            # Its HTTP client takes longer to import than a short command runs, and few connections need it.
            from pykueue.kube.client.proxied import Proxied

            self.transport = Proxied(connection.server, connection.server_name, connection.proxy)
        else:
            self.transport = Direct(connection.server, connection.server_name, gathers=gathers)
        self.observe: Callable[[str, str, str], None] | None = None
        """Called with each response: its code, the method, and the server's host."""
        self.host = urlsplit(connection.server).netloc
        self.credential: Credential | None = None
        self.headers: tuple[tuple[str, str], ...] = ()
        self.renewing = asyncio.Lock()
        self.forced: Moment | None = None
        self.closed = False

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        """Get an object."""
        what = called("get", resource, namespace, name)
        return await self.call(Call("GET", path_of(resource, namespace, name), what, repeatable=True))

    async def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """List objects, page by page, all of one version."""
        path, what = collection(resource, namespace), called("list", resource, namespace)
        token = ""
        while True:
            asked = query(limit=str(PAGE_ITEMS), labelSelector=labels, fieldSelector=fields, **{"continue": token})
            page = await self.call(Call("GET", path + asked, what, repeatable=True))
            yield page
            token = PAGE.decode(page).metadata.continue_
            if not token:
                return

    async def create(self, resource: Resource, body: bytes, namespace: str = "") -> bytes:
        """Create an object."""
        path = collection(resource, namespace) + signed(MANAGER)
        return await self.call(Call("POST", path, called("create", resource, namespace), body))

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str = "",
        *,
        how: Patch,
        subresource: str = "",
        manager: str = "",
    ) -> bytes:
        """Patch an object; an apply takes over fields that others own."""
        applies = how is Patch.APPLY
        path = path_of(resource, namespace, name, subresource) + signed(manager or MANAGER, force=applies)
        what = called("patch", resource, namespace, name, subresource)
        return await self.call(Call("PATCH", path, what, as_yaml(body) if applies else body, how.value))

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        """Replace an object."""
        path = path_of(resource, namespace, name) + signed(MANAGER)
        return await self.call(Call("PUT", path, called("replace", resource, namespace, name), body))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
        uid: str = "",
        version: str = "",
        grace: int | None = None,
    ) -> None:
        """Delete an object if it still has the given uid and version; `grace` overrides its grace period in seconds."""
        conditions = {"uid": uid} if uid else {}
        conditions |= {"resourceVersion": version} if version else {}
        options: dict[str, object] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if conditions:
            options["preconditions"] = conditions
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        what = called("delete", resource, namespace, name)
        body = msgspec.json.encode(options)
        await self.call(Call("DELETE", path_of(resource, namespace, name), what, body, repeatable=bool(uid)))

    async def close(self) -> None:
        """Close all connections; nothing is sent afterwards."""
        self.closed = True
        await self.transport.close()

    async def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """Events after a version, or all objects and then their events; see the port."""
        low, high = WATCH_SECONDS
        initial = {} if version else {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        asked = query(
            watch="true",
            allowWatchBookmarks="true",
            timeoutSeconds=str(int(low + self.rng() * (high - low))),
            resourceVersion=version,
            labelSelector=labels,
            fieldSelector=fields,
            **initial,
        )
        call = Call(
            "GET", collection(resource, namespace) + asked, called("watch", resource, namespace), repeatable=True
        )
        stream = await self.open(call)
        try:
            async for line in lines(stream):
                if line.startswith(FAILED):
                    raise error_in(call.what, line)
                yield line
        except LostError as error:
            raise UnansweredError(call.what, 0, "ConnectionLost", str(error)) from error
        finally:
            stream.close()

    async def call(self, call: Call) -> bytes:
        """The body of the response to a call, with retries where they are safe and useful."""
        tries = 0
        while True:
            tries += 1
            retry_after: float | None = None
            try:
                answer = await self.exchange(call)
            except UnsentError as error:
                failure, again = self.unsent(call, error), not self.closed
            except LostError as error:
                failure, again = UnansweredError(call.what, 0, "ConnectionLost", str(error)), call.repeatable
            else:
                if answer.status < 300:
                    return answer.body
                retry_after = seconds_of(answer.retry_after)
                failure = error_of(call.what, answer.status, status_of(answer.status, answer.body))
                again = unprocessed(answer.status, retry_after) or (call.repeatable and answer.status >= 500)
            if not again or tries >= TRIES_MAX or self.closed or isinstance(failure, NotLeadingError):
                raise failure
            await self.pause(tries, retry_after)

    async def exchange(self, call: Call) -> Response:
        """The response to a call, of any status; a refused credential is renewed once."""
        if self.limit is not None:
            await self.limit.wait()
        credential = await self.current(call.what)
        answer = await self.transport.exchange(self.request(call))
        self.tell(answer.status, call)
        if answer.status == 401 and await self.renewed(credential, call.what):
            answer = await self.transport.exchange(self.request(call))
            self.tell(answer.status, call)
        return answer

    def tell(self, status: int, call: Call) -> None:
        """Call the observer with a response."""
        if self.observe is not None:
            self.observe(str(status), call.method, self.host)

    async def open(self, call: Call) -> Stream:
        """The streamed response to a call; an error response is raised."""
        tries = 0
        while True:
            tries += 1
            try:
                stream = await self.attempt(call)
                if stream.status < 300:
                    return stream
                try:
                    body = b"".join([part async for part in parts(stream)])
                finally:
                    stream.close()
            except (UnsentError, LostError) as error:
                raise UnansweredError(call.what, 0, "ConnectionLost", str(error)) from error
            retry_after = seconds_of(stream.header("Retry-After"))
            if not unprocessed(stream.status, retry_after) or tries >= TRIES_MAX:
                raise error_of(call.what, stream.status, status_of(stream.status, body))
            await self.pause(tries, retry_after)

    async def attempt(self, call: Call) -> Stream:
        """The beginning of a response, of any status; a refused credential is renewed once."""
        credential = await self.current(call.what)
        stream = await self.transport.open(self.request(call), IDLE_SECONDS)
        self.tell(stream.status, call)
        if stream.status == 401 and await self.renewed(credential, call.what):
            stream.close()
            stream = await self.transport.open(self.request(call), IDLE_SECONDS)
            self.tell(stream.status, call)
        return stream

    def request(self, call: Call) -> Request:
        """The request of a call, with the present credential."""
        may_send = None if call.method == "GET" else self.may_write
        headers = self.headers
        if call.accept != JSON:
            headers = tuple((name, call.accept if name == "Accept" else value) for name, value in headers)
        return Request(call.method, call.path, headers, call.body, call.content, may_send)

    def unsent(self, call: Call, error: UnsentError) -> KubeError:
        """The error for a request that was not sent."""
        if call.method != "GET" and self.may_write is not None and not self.may_write():
            return NotLeadingError(call.what, 0, "NotLeading", "nothing was sent: this process does not lead")
        return UnansweredError(call.what, 0, "Unreachable", str(error))

    async def current(self, what: str) -> Credential:
        """The present credential, renewed if it has expired."""
        known = self.credential
        if known is not None and (known.until is None or self.clock.moment() < known.until):
            return known
        async with self.renewing:
            known = self.credential
            if known is not None and (known.until is None or self.clock.moment() < known.until):
                return known
            return await self.fetch(what)

    async def renewed(self, refused: Credential, what: str) -> bool:
        """Whether there is another credential to use instead of the refused one."""
        async with self.renewing:
            if self.credential is not refused and self.credential is not None:
                return not self.credential.same(refused)
            if self.forced is not None and self.clock.moment() - self.forced < FORCE_MICROS:
                return False
            self.forced = self.clock.moment()
            return not (await self.fetch(what)).same(refused)

    async def fetch(self, what: str) -> Credential:
        """Fetch a new credential and use it from now on."""
        try:
            found = await self.connection.credentials.fetch(self.clock)
            if not found.authorization.isprintable():
                raise CredentialError(
                    "the token contains characters that a header cannot contain; check how it was copied"
                )
            if self.credential is None or self.credential.certificate != found.certificate:
                self.transport.trust(self.connection.tls(found))
        except CredentialError as error:
            raise DeniedError(what, 401, "NoCredential", str(error)) from error
        shown = (("Authorization", found.authorization),) if found.authorization else ()
        self.headers = (("User-Agent", self.agent), ("Accept", JSON), *self.connection.headers, *shown)
        self.credential = found
        return found

    async def pause(self, tries: int, retry_after: float | None) -> None:
        """Wait before a retry: as long as the server asks for, or longer each time."""
        longest = min(LAST_SECONDS, FIRST_SECONDS * 2**tries)
        seconds = longest * (0.5 + self.rng() / 2) if retry_after is None else retry_after + self.rng() * FIRST_SECONDS
        await self.clock.sleep(int(min(seconds, RETRY_AFTER_MAX) * MICROS))


def error_in(what: str, line: bytes) -> KubeError:
    """The error in an event of a watch."""
    status = STATUS.decode(msgspec.json.decode(line, type=dict[str, msgspec.Raw])["object"])
    return error_of(what, status.code, status)


async def parts(stream: Stream) -> AsyncIterator[bytes]:
    """The pieces of a stream."""
    while part := await stream.readany():
        yield part


async def lines(stream: Stream) -> AsyncIterator[bytes]:
    """The lines of a stream, split only at the byte `\n`: values may contain other line breaks."""
    rest: list[bytes] = []
    while part := await stream.readany():
        first, *more = part.split(b"\n")
        rest.append(first)
        if more:
            yield b"".join(rest)
            rest = [more.pop()]
            for line in more:
                yield line


class Limit:
    """A rate limit: at most this many calls per second after a burst; further calls wait in order."""

    def __init__(self, clock: Clock, qps: float, burst: int) -> None:
        self.clock = clock
        self.gap = int(MICROS / qps)
        self.slack = self.gap * (burst - 1)
        self.next = Moment(0)

    async def wait(self) -> None:
        """Wait for this caller's turn."""
        now = self.clock.moment()
        turn = max(self.next, now - self.slack)
        self.next = Moment(turn + self.gap)
        if turn > now:
            await self.clock.sleep_to(Moment(turn))
