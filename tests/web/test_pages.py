"""What is answered to whom? The page without a socket, as requests that a test makes up."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from pykueue.base.clock import ManualClock
from pykueue.base.units import MICROS, Instant
from pykueue.web.assets import Asset
from pykueue.web.guard import POLICY, Address
from pykueue.web.pages import BODY_BYTES, Asked, Page, PageCall, Said, WebError, WebRequest, WebResponse
from pykueue.web.sessions import Grant, Session, Sessions
from pykueue.web.stream import Feed

HERE = Address("http", ("127.0.0.1",), 8080)
HOST = {"host": "127.0.0.1:8080"}
FILES = {
    "index.html": Asset(b"<p>page", b"", "text/html; charset=utf-8", '"1"', False),
    "assets/a-12345678.js": Asset(b"script", b"pressed", "text/javascript", '"2"', True),
}


class Site:
    """Data that a test knows beforehand."""

    def __init__(self) -> None:
        self.shown = Feed(gap=0, look=0.01)
        self.asked: list[Asked] = []
        self.calls: Mapping[str, PageCall] = {
            "look": PageCall("GET", self.answer),
            "act": PageCall("POST", self.answer, acts=True),
            "preview": PageCall("POST", self.answer),
            "refused": PageCall("GET", self.refuse),
            "broken": PageCall("GET", self.fail),
        }

    def feed(self, session: Session) -> Feed:
        return self.shown

    def personal(self, session: Session) -> Callable[[bytes], bytes]:
        return lambda overview: overview

    async def answer(self, asked: Asked) -> Said:
        self.asked.append(asked)
        return Said(b'{"said":"done"}')

    async def refuse(self, asked: Asked) -> Said:
        raise WebError(429, "ask later", 3)

    async def fail(self, asked: Asked) -> Said:
        raise KeyError("a secret path")


class Desk:
    """A page, and one session of it."""

    def __init__(self, *, view_only: bool = False) -> None:
        self.clock = ManualClock()
        self.site = Site()
        self.sessions = Sessions(self.clock)
        self.page = Page(HERE, self.sessions, self.site, FILES)
        entered = self.sessions.enter(self.sessions.issue(Grant("ann", view_only=view_only)))
        assert entered is not None
        self.session = entered.session
        self.cookie = {"cookie": f"pykueue-ui-8080={entered.id}"}
        self.key = {"x-pykueue-key": entered.key}
        self.proof = {**self.cookie, **self.key}

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"", **query: str
    ) -> WebResponse:
        async def read(limit: int) -> bytes:
            if len(body) > limit:
                raise WebError(413, "too large")
            return body

        wanted = {name: [value] for name, value in query.items()}
        return await self.page.answer(WebRequest(method, path, wanted, {**HOST, **(headers or {})}, read))

    async def enter(self, code: str, **headers: str) -> WebResponse:
        form = {"content-type": "application/x-www-form-urlencoded", **headers}
        return await self.ask("POST", "/ui/enter", form, f"code={code}".encode())


@pytest.fixture
def desk() -> Desk:
    return Desk()


def said(response: WebResponse) -> Any:
    assert isinstance(response.body, bytes)
    return response.body.decode() if response.body[:1] != b"{" else msgspec.json.decode(response.body)


def header(response: WebResponse, name: str) -> str:
    (found,) = [value for known, value in response.headers if known.lower() == name.lower()]
    return found


PATHS = ["/ui", "/ui/", "/ui/assets/a-12345678.js", "/ui/enter.js", "/ui/api/look", "/ui/api/stream", "/ui/api/nothing"]


@pytest.mark.parametrize("path", [*PATHS, "/", "/api/v1/pods", "/ui/../etc/passwd", "", "index.html"])
async def test_without_a_session_nothing_is_answered(desk: Desk, path: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
        for headers in ({}, desk.key, {"cookie": "pykueue-ui-8080=guess"}, {"authorization": "Bearer token"}):
            found = await desk.ask(method, path, headers)
            assert found.code == 401
            assert "open the dashboard with `pykueue dashboard`" in str(said(found))
    assert desk.site.asked == []


@pytest.mark.parametrize("path", ["/ui/api/look", "/ui/api/stream"])
async def test_the_api_needs_cookie_and_key(desk: Desk, path: str) -> None:
    assert (await desk.ask("GET", path, desk.cookie)).code == 401
    assert (await desk.ask("GET", path, desk.key)).code == 401
    other = Desk()
    assert (await desk.ask("GET", path, {**desk.cookie, **other.key})).code == 401
    assert (await desk.ask("GET", path, desk.proof)).code == 200


@pytest.mark.parametrize("path", [*PATHS, "/ui/enter"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8080", "127.0.0.1:80", ""])
async def test_another_name_for_this_address_is_refused(desk: Desk, path: str, host: str) -> None:
    assert (await desk.ask("GET", path, {**desk.proof, "host": host})).code == 421


@pytest.mark.parametrize("path", ["/ui/", "/ui/api/look", "/ui/api/stream", "/ui/assets/a-12345678.js"])
@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "same-site"}]
)
async def test_another_site_is_refused(desk: Desk, path: str, headers: dict[str, str]) -> None:
    assert (await desk.ask("GET", path, {**desk.proof, **headers})).code == 403


async def test_a_link_from_elsewhere_opens_the_page_and_nothing_else(desk: Desk) -> None:
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert (await desk.ask("GET", "/ui/", {**desk.cookie, **visit})).code == 200
    assert (await desk.ask("GET", "/ui/", visit)).code == 401
    assert (await desk.ask("GET", "/ui/api/look", {**desk.proof, **visit})).code == 403


async def test_a_code_is_exchanged_once_for_a_cookie_and_a_key(desk: Desk) -> None:
    told: list[int] = []
    desk.page.entered = lambda: told.append(1)
    code = desk.sessions.issue(Grant("ann", seconds=600))
    found = await desk.enter(code, origin="null")
    assert found.code == 200
    assert header(found, "set-cookie").endswith("; Path=/ui; Max-Age=600; HttpOnly; SameSite=Strict")
    assert header(found, "cache-control") == "no-store"
    text = said(found)
    assert '<meta name="pykueue-key" content="' in text
    assert '<script src="/ui/enter.js" defer></script>' in text
    assert told == [1]
    again = await desk.enter(code, origin="null")
    assert (again.code, [name for name, _ in again.headers if name == "Set-Cookie"]) == (403, [])
    assert "run `pykueue dashboard` again" in said(again)
    assert (await desk.ask("GET", "/ui/enter")).code == 200


async def test_a_code_is_not_taken_from_elsewhere(desk: Desk) -> None:
    code = desk.sessions.issue(Grant("ann"))
    assert (await desk.enter(code, origin="http://evil.example")).code == 403
    assert (await desk.ask("GET", "/ui/enter", {}, code=code)).code == 200
    assert (await desk.ask("PUT", "/ui/enter")).code == 405
    plain = {"content-type": "text/plain"}
    assert (await desk.ask("POST", "/ui/enter", plain, f"code={code}".encode())).code == 415
    assert (await desk.enter("x" * 5000)).code == 413
    assert (await desk.enter("")).code == 403
    assert (await desk.enter(code)).code == 200, "it was not used up by any of these"


async def test_a_code_is_too_old_after_a_minute(desk: Desk) -> None:
    code = desk.sessions.issue(Grant("ann"))
    desk.clock.turn_to(Instant(desk.clock.time + 60 * MICROS))
    assert (await desk.enter(code)).code == 403


async def test_files_are_cached_only_if_their_name_says_what_is_in_them(desk: Desk) -> None:
    index = await desk.ask("GET", "/ui/", desk.cookie)
    assert (said(index), header(index, "cache-control")) == ("<p>page", "no-store")
    assert header(await desk.ask("GET", "/ui", desk.cookie), "location") == "/ui/"
    script = await desk.ask("GET", "/ui/assets/a-12345678.js", desk.cookie)
    assert (said(script), header(script, "cache-control")) == ("script", "private, max-age=31536000, immutable")
    pressed = await desk.ask("GET", "/ui/assets/a-12345678.js", {**desk.cookie, "accept-encoding": "br, gzip"})
    assert (said(pressed), header(pressed, "content-encoding")) == ("pressed", "gzip")
    same = await desk.ask("GET", "/ui/assets/a-12345678.js", {**desk.cookie, "if-none-match": '"2"'})
    assert (same.code, same.body) == (304, b"")
    assert (await desk.ask("GET", "/ui/assets/b.js", desk.cookie)).code == 404
    assert (await desk.ask("POST", "/ui/", desk.cookie)).code == 405


@pytest.mark.parametrize("path", ["/ui/", "/ui/api/look", "/ui/api/nothing", "/ui/enter", "/ui/api/broken"])
async def test_every_answer_has_the_security_headers(desk: Desk, path: str) -> None:
    for headers in ({}, desk.proof):
        found = await desk.ask("GET", path, headers)
        assert header(found, "content-security-policy") == POLICY
        assert header(found, "x-content-type-options") == "nosniff"
        assert header(found, "referrer-policy") == "no-referrer"
        assert header(found, "cross-origin-opener-policy") == "same-origin"
        assert header(found, "cross-origin-resource-policy") == "same-origin"
        assert header(found, "cache-control") == "no-store"


async def test_calls_are_a_closed_list(desk: Desk) -> None:
    assert said(await desk.ask("GET", "/ui/api/look", desk.proof, name="x")) == {"said": "done"}
    assert desk.site.asked[0].one("name") == "x"
    assert desk.site.asked[0].one("other") == ""
    for path in ("nothing", "look/", "LOOK", "../../api/v1/secrets", "look/api/v1/secrets", ""):
        assert (await desk.ask("GET", f"/ui/api/{path}", desk.proof)).code == 404
    assert (await desk.ask("POST", "/ui/api/look", desk.proof)).code == 405
    assert (await desk.ask("POST", "/ui/api/stream", desk.proof)).code == 405
    assert len(desk.site.asked) == 1


async def test_bodies_are_json_and_small(desk: Desk) -> None:
    sent = {**desk.proof, "content-type": "application/json"}
    assert said(await desk.ask("POST", "/ui/api/act", sent, b'{"a":1}')) == {"said": "done"}
    assert desk.site.asked[0].body == {"a": 1}
    assert (await desk.ask("POST", "/ui/api/act", desk.proof, b'{"a":1}')).code == 415
    form = {**desk.proof, "content-type": "application/x-www-form-urlencoded"}
    assert (await desk.ask("POST", "/ui/api/act", form, b"a=1")).code == 415
    for wrong in (b"{", b"\xff", b"[" * 100_000):
        assert (await desk.ask("POST", "/ui/api/act", sent, wrong)).code == 400
    assert (await desk.ask("POST", "/ui/api/act", sent, b"x" * (BODY_BYTES + 1))).code == 413


async def test_who_can_only_look_cannot_act() -> None:
    desk = Desk(view_only=True)
    sent = {**desk.proof, "content-type": "application/json"}
    refused = await desk.ask("POST", "/ui/api/act", sent, b"{}")
    assert (refused.code, said(refused)) == (403, {"message": "this session is view-only (--view-only)"})
    assert desk.site.asked == []
    assert (await desk.ask("POST", "/ui/api/preview", sent, b"{}")).code == 200
    assert (await desk.ask("GET", "/ui/api/look", desk.proof)).code == 200


async def test_errors_are_sentences(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    refused = await desk.ask("GET", "/ui/api/refused", desk.proof)
    assert (refused.code, said(refused), header(refused, "retry-after")) == (429, {"message": "ask later"}, "3")
    broken = await desk.ask("GET", "/ui/api/broken", desk.proof)
    assert broken.code == 500
    assert "secret" not in str(said(broken))
    assert "path=/ui/api/broken" in caplog.text
    for secret in (*desk.cookie.values(), *desk.key.values()):
        assert secret not in caplog.text


async def test_the_stream_ends_with_the_session(desk: Desk) -> None:
    desk.site.shown.show(b'{"counts":0}')
    await desk.site.shown.filled()
    found = await desk.ask("GET", "/ui/api/stream", desk.proof)
    assert header(found, "content-type") == "text/event-stream"
    assert found.user == "ann"
    assert not isinstance(found.body, bytes)
    async with aclosing(generator(found.body)) as events:
        for _ in range(3):
            await anext(events)
        desk.sessions.end(desk.session)
        assert await asyncio.wait_for(anext(events, b"end"), 20) == b"end"


async def generator(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        yield piece
