"""What is served under `/ui`, without a socket: the exchange of codes, the page, its stream and its calls.

Everything but the exchange of a code needs the session's cookie; `/ui/api` needs its key, too. The calls are a closed
list: no path of a request is ever passed on.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from html import escape
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import parse_qs

import msgspec

from pykueue.base.struct import Frozen
from pykueue.web.assets import INDEX, Asset, assets
from pykueue.web.guard import (
    KEY_HEADER,
    NO_STORE,
    SECURITY,
    Address,
    cookie_of,
    is_foreign,
    is_foreign_entry,
    set_cookie,
)
from pykueue.web.sessions import Entered, Session, Sessions, has_key
from pykueue.web.stream import Feed

LOG: Final = logging.getLogger(__name__)

ROOT: Final = "/ui"
API: Final = "/ui/api/"
ENTER: Final = "/ui/enter"
STREAM: Final = "stream"
FORM_BYTES: Final = 4 * 1024
BODY_BYTES: Final = 256 * 1024
JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
PLAIN: Final = "text/plain; charset=utf-8"
FORM: Final = "application/x-www-form-urlencoded"
NO_SESSION: Final = "there is no session, or it has ended; open the dashboard with `pykueue dashboard`"
NO_CODE: Final = (
    "this code was used already, or is older than a minute; run `pykueue dashboard` again, which makes a new one"
)
VIEW_ONLY: Final = "this session is view-only (--view-only)"

Query: TypeAlias = Mapping[str, Sequence[str]]
Headers: TypeAlias = tuple[tuple[str, str], ...]


class WebRequest(Frozen):
    """A request, without its body."""

    method: str
    path: str
    """Decoded."""
    query: Query
    headers: Mapping[str, str]
    """By name in lower case."""
    read: Callable[[int], Awaitable[bytes]]
    """Reads the body; raises `WebError` if it has more bytes than this."""


class WebResponse(Frozen):
    """A response, complete or streamed."""

    code: int
    body: bytes | AsyncIterator[bytes] = b""
    headers: Headers = ()
    user: str = ""
    """The user of the session; empty without one."""


class WebError(Exception):
    """A refusal: the status code, and a sentence for the user."""

    def __init__(self, code: int, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after = retry_after


class Asked(Frozen):
    """A call of the page."""

    session: Session
    query: Query
    body: object = None
    """Decoded JSON."""

    def one(self, name: str) -> str:
        """A parameter of the query; empty without it."""
        return self.query.get(name, ("",))[0]


class Said(Frozen):
    """The answer to a call."""

    body: bytes
    media: str = JSON


class PageCall(Frozen):
    """One of the calls that the page may make."""

    method: Literal["GET", "POST"]
    answer: Callable[[Asked], Awaitable[Said]]
    acts: bool = False
    """Whether it changes something, which a session that is view-only may not."""


class Site(Protocol):
    """Where the page's data come from."""

    @property
    def calls(self) -> Mapping[str, PageCall]:
        """The calls by their name in the path."""

    def feed(self, session: Session) -> Feed:
        """The shared snapshot that a session may see."""

    def personal(self, session: Session) -> Callable[[bytes], bytes]:
        """Completes the shared overview for a session."""


class Page:
    """Answers requests below `/ui`."""

    def __init__(
        self, address: Address, sessions: Sessions, site: Site, files: Mapping[str, Asset] | None = None
    ) -> None:
        self.address = address
        self.sessions = sessions
        self.site = site
        self.files = assets() if files is None else files
        self.entered: Callable[[], None] | None = None
        """Called when a code was exchanged."""

    def user(self, headers: Mapping[str, str]) -> str:
        """The user of a session by its cookie; empty without one. This alone allows nothing."""
        session = self.sessions.of_cookie(cookie_of(self.address, headers))
        return "" if session is None else session.grant.user

    async def answer(self, request: WebRequest) -> WebResponse:
        """The response to a request, with the security headers; errors are responses, too."""
        try:
            response = await self.route(request)
        except WebError as error:
            response = refusal(error, json=request.path.startswith(API))
        except Exception:
            LOG.exception("dashboard: request failed method=%s path=%s", request.method, request.path)
            response = refusal(WebError(500, "the server failed on this request; its log says how"), json=True)
        given = {name.lower() for name, _ in response.headers}
        rest = tuple(one for one in (*SECURITY, NO_STORE) if one[0].lower() not in given)
        return msgspec.structs.replace(response, headers=(*response.headers, *rest))

    async def route(self, request: WebRequest) -> WebResponse:
        """The response to a request; refusals are raised."""
        if not self.address.is_host(request.headers.get("host", "")):
            raise WebError(421, "this server has another name; use the address that `pykueue dashboard` prints")
        if request.path == ENTER:
            return await self.enter(request)
        if is_foreign(self.address, request.headers) and not is_visit(request):
            raise WebError(403, "a page of another site may not use this server")
        session = self.sessions.of_cookie(cookie_of(self.address, request.headers))
        if session is None:
            raise WebError(401, NO_SESSION)
        if not request.path.startswith(API):
            return msgspec.structs.replace(self.file(request), user=session.grant.user)
        if not has_key(session, request.headers.get(KEY_HEADER, "")):
            raise WebError(401, NO_SESSION)
        response = await self.api(request, session, request.path.removeprefix(API))
        return msgspec.structs.replace(response, user=session.grant.user)

    async def enter(self, request: WebRequest) -> WebResponse:
        """The exchange of a code for a session, or the form for one."""
        if request.method == "GET":
            return WebResponse(200, FORM_PAGE, (("Content-Type", HTML),))
        if request.method != "POST":
            raise WebError(405, "use POST")
        if is_foreign_entry(self.address, request.headers):
            raise WebError(403, "a page of another site may not use this server")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
            raise WebError(415, f"send the code as {FORM}")
        given = parse_qs((await request.read(FORM_BYTES)).decode("ascii", "replace"), max_num_fields=4)
        entered = self.sessions.enter(given.get("code", [""])[0])
        if entered is None:
            raise WebError(403, NO_CODE)
        if self.entered is not None:
            self.entered()
        seconds = entered.session.grant.seconds
        headers = (("Content-Type", HTML), set_cookie(self.address, entered.id, seconds))
        return WebResponse(200, opening_page(entered), headers, entered.session.grant.user)

    def file(self, request: WebRequest) -> WebResponse:
        """A file of the page."""
        if request.method not in ("GET", "HEAD"):
            raise WebError(405, "use GET")
        if request.path == ROOT:
            return WebResponse(308, b"", (("Location", f"{ROOT}/"),))
        found = self.files.get(request.path.removeprefix(f"{ROOT}/") or INDEX)
        if found is None:
            raise WebError(404, "there is no such page")
        kept = "private, max-age=31536000, immutable" if found.lasting else "no-store"
        headers = (("Content-Type", found.media), ("ETag", found.etag), ("Cache-Control", kept))
        if found.lasting and found.etag in request.headers.get("if-none-match", ""):
            return WebResponse(304, b"", headers)
        if found.compressed and "gzip" in request.headers.get("accept-encoding", "").lower():
            return WebResponse(200, found.compressed, (*headers, ("Content-Encoding", "gzip"), VARY))
        return WebResponse(200, found.body, (*headers, VARY) if found.compressed else headers)

    async def api(self, request: WebRequest, session: Session, name: str) -> WebResponse:
        """The response to a call of the page."""
        if name == STREAM:
            if request.method != "GET":
                raise WebError(405, "use GET")
            return self.stream(session)
        call = self.site.calls.get(name)
        if call is None:
            raise WebError(404, "there is no such call")
        if request.method != call.method:
            raise WebError(405, f"use {call.method}")
        if call.acts and session.grant.view_only:
            raise WebError(403, VIEW_ONLY)
        body = None
        if call.method == "POST":
            body = json_of(request.headers.get("content-type", ""), await request.read(BODY_BYTES))
        said = await call.answer(Asked(session, request.query, body))
        return WebResponse(200, said.body, (("Content-Type", said.media),))

    def stream(self, session: Session) -> WebResponse:
        """The events of a session, until it ends."""

        def is_open() -> bool:
            return self.sessions.is_open(session)

        events = self.site.feed(session).events(self.site.personal(session), is_open)
        headers = (("Content-Type", "text/event-stream"), ("X-Accel-Buffering", "no"))
        return WebResponse(200, events, headers)


VARY: Final = ("Vary", "Accept-Encoding")
FORM_PAGE: Final = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>pykueue: enter</title></head><body><main><h1>pykueue</h1>
<form method="post" action="/ui/enter"><p><label for="code">Code of <code>pykueue dashboard --code</code>:</label>
<input id="code" name="code" type="password" autocomplete="off" spellcheck="false" autofocus required>
<button>Open the dashboard</button></p></form></main></body></html>
"""


def opening_page(entered: Entered) -> bytes:
    """The page that keeps the key in the browser and opens the dashboard."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="pykueue-key" content="{escape(entered.key, quote=True)}">
<title>pykueue</title><script src="/ui/enter.js" defer></script></head>
<body><p>Opening the dashboard. If nothing happens, allow cookies and scripts for this address, and run the command
again.</p></body></html>
""".encode()


def is_visit(request: WebRequest) -> bool:
    """Whether a browser opens the page itself, as by a link from elsewhere; it gets nothing but the empty page."""
    mode = request.headers.get("sec-fetch-mode", "")
    return request.method == "GET" and mode == "navigate" and not request.path.startswith(API)


def json_of(content_type: str, body: bytes) -> object:
    """The JSON body of a call; other media types are refused, as forms of other sites could send them."""
    if content_type.partition(";")[0].strip().lower() != JSON:
        raise WebError(415, f"send {JSON}")
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WebError(400, "the body is not JSON") from None


def refusal(error: WebError, *, json: bool) -> WebResponse:
    """The response for an error: a sentence, and nothing else."""
    headers: Headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    if json:
        body = msgspec.json.encode({"message": error.message})
        return WebResponse(error.code, body, (("Content-Type", JSON), *headers))
    return WebResponse(error.code, f"{error.message}\n".encode(), (("Content-Type", PLAIN), *headers))
