"""Does the client ask, ask again, and give up as it should?"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web
from hypothesis import example, given
from hypothesis.strategies import text

from pykueue.base.clock import Clock, SystemClock
from pykueue.kube.client import http
from pykueue.kube.client.credentials import Credential, CredentialError
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import (
    ConflictError,
    DeniedError,
    ExistsError,
    GoneError,
    KubeError,
    NotFoundError,
    NotLeadingError,
    Patch,
    RejectedError,
    Resource,
    UnansweredError,
)
from tests.clocks import SkippingClock
from tests.fakes.tinyapi import PATH, THINGS, Accident, TinyApi, status, thing

NODES = Resource("", "v1", "nodes", "Node")
AT = "/apis/example.com/v1/namespaces/default/things"


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[tuple[TinyApi, HttpKube]]:
    """A server and a client whose rng is always 0, for at most 30 seconds."""
    async with TinyApi().serve() as api:
        clock: Clock = settings.pop("clock", None) or SkippingClock()
        kube = HttpKube(api.connection(settings.pop("credentials", None)), clock, rng=lambda: 0.0, **settings)
        try:
            async with asyncio.timeout(30):
                yield api, kube
        finally:
            await kube.close()


def failing(times: int, answer: Callable[[], web.Response]) -> Accident:
    """The first so many requests are answered like this."""
    left = times

    async def accident(request: web.Request) -> web.StreamResponse | None:
        nonlocal left
        left -= 1
        return answer() if left >= 0 else None

    return accident


def slept(kube: HttpKube) -> list[float]:
    assert isinstance(kube.clock, SkippingClock)
    return kube.clock.slept


async def change(kube: HttpKube) -> bytes:
    return await kube.patch(THINGS, "a", b'{"spec":{"value":"new"}}', "default", how=Patch.MERGE)


async def remove(kube: HttpKube) -> None:
    await kube.delete(THINGS, "a", "default")


async def remove_one(kube: HttpKube) -> None:
    await kube.delete(THINGS, "a", "default", uid="u")


async def fetch(kube: HttpKube) -> bytes:
    return await kube.get(THINGS, "a", "default")


async def make(kube: HttpKube) -> bytes:
    return await kube.create(THINGS, json.dumps(thing("b")).encode(), "default")


async def test_an_object_is_made_read_changed_and_deleted() -> None:
    async with served() as (api, kube):
        made = json.loads(await kube.create(THINGS, json.dumps(thing("a", "old")).encode(), "default"))
        assert made["metadata"]["resourceVersion"] == "101"
        assert json.loads(await change(kube))["spec"] == {"value": "new"}
        assert json.loads(await fetch(kube))["spec"] == {"value": "new"}
        await remove(kube)
        with pytest.raises(NotFoundError, match=r"get things.example.com default/a: things .* not found"):
            await fetch(kube)
        assert api.log == [
            ("POST", f"{AT}?fieldManager=kueue&fieldValidation=Ignore"),
            ("PATCH", f"{AT}/a?fieldManager=kueue&fieldValidation=Ignore"),
            ("GET", f"{AT}/a"),
            ("DELETE", f"{AT}/a"),
            ("GET", f"{AT}/a"),
        ]
        assert {headers["User-Agent"] for headers in api.headers} == {"pykueue"}
        assert api.headers[1]["Content-Type"] == "application/merge-patch+json"


async def test_an_apply_names_its_manager_and_takes_fields_over() -> None:
    async with served() as (api, kube):
        await api.put("things", thing("a"))
        await kube.patch(
            THINGS, "a", b"{}", "default", how=Patch.APPLY, subresource="status", manager="kueue-admission"
        )
        asked = "fieldManager=kueue-admission&force=true&fieldValidation=Ignore"
        assert api.log == [("PATCH", f"{AT}/a/status?{asked}")]
        assert api.headers[0]["Content-Type"] == "application/apply-patch+yaml"


async def test_an_apply_has_one_value_per_line() -> None:
    bodies: list[bytes] = []

    async def accident(request: web.Request) -> web.StreamResponse | None:
        bodies.append(await request.read())
        return None

    async with served() as (api, kube):
        await api.put("things", thing("a"))
        api.accident = accident
        applied = b'{"spec":{"value":"a, {b}: [c]","list":[1,{"empty":{}},[]]}}'
        await kube.patch(THINGS, "a", applied, "default", how=Patch.APPLY)
        await change(kube)
    assert bodies[1] == b'{"spec":{"value":"new"}}'
    assert bodies[0].decode().split("\n") == [
        "{",
        ' "spec": {',
        '  "value": "a, {b}: [c]",',
        '  "list": [',
        "   1,",
        "   {",
        '    "empty": {}',
        "   },",
        "   []",
        "  ]",
        " }",
        "}",
    ]


@given(text())
@example("\x00\t\n\x1f \x7e\x7f\x80\x84\x85\x86\x9f\xa0")
@example("\u2027\u2028\u2029\u202a\ud7ff\ue000\ufeff\ufffd\ufffe\uffff\U0001f600")
@example('"quoted" \\ \\u0041 \\\x7f')
def test_an_apply_means_the_same_in_yaml(value: str) -> None:
    tree = {"spec": {"value": value, value: 1}}
    body = http.as_yaml(msgspec.json.encode(tree))
    assert msgspec.json.decode(body) == yaml.safe_load(body) == tree
    # The server's parser, unlike this one, looks for a byte order mark in the middle of the text, too.
    assert "\ufeff" not in body.decode()


async def test_names_are_encoded() -> None:
    async def lost(request: web.Request) -> web.StreamResponse | None:
        return status(404, "NotFound")

    async with served() as (api, kube):
        api.accident = lost
        with pytest.raises(NotFoundError):
            await kube.get(NODES, "a/../b?c#d e\u00e9")
        assert api.log == [("GET", "/api/v1/nodes/a%2F..%2Fb%3Fc%23d%20e%C3%A9")]
        with pytest.raises(NotFoundError):
            await kube.get(NODES, "a HTTP/1.1\r\nX-Injected: y\r\n")
        assert ["X-Injected" in headers for headers in api.headers] == [False, False]


async def test_a_deletion_says_on_what_it_depends() -> None:
    bodies: list[Any] = []

    async def accident(request: web.Request) -> web.StreamResponse | None:
        bodies.append(json.loads(await request.read()))
        return web.json_response({})

    async with served() as (api, kube):
        api.accident = accident
        await kube.delete(THINGS, "a", "default", propagation="Foreground", uid="u", version="7")
        await kube.delete(THINGS, "a", "default")
        options = {"kind": "DeleteOptions", "apiVersion": "v1"}
        assert bodies == [
            {**options, "propagationPolicy": "Foreground", "preconditions": {"uid": "u", "resourceVersion": "7"}},
            {**options, "propagationPolicy": "Background"},
        ]


async def test_a_list_comes_page_by_page() -> None:
    async with served() as (api, kube):
        api.page_size = 2
        for name in "abcde":
            await api.put("things", thing(name))
        pages = [json.loads(page) async for page in kube.pages(THINGS, labels="x=y,z", fields="metadata.name!=q")]
        assert [[item["metadata"]["name"] for item in page["items"]] for page in pages] == [
            ["a", "b"],
            ["c", "d"],
            ["e"],
        ]
        first = f"{PATH}?limit=500&labelSelector=x%3Dy%2Cz&fieldSelector=metadata.name%21%3Dq"
        assert api.asked("GET")[:2] == [first, f"{first}&continue=2"]


@pytest.mark.parametrize(
    ("code", "reason", "message", "kind"),
    [
        pytest.param(400, "BadRequest", "", RejectedError, id="nonsense"),
        pytest.param(401, "Unauthorized", "", DeniedError, id="we are unknown"),
        pytest.param(
            403,
            "Forbidden",
            'things.example.com "a" is forbidden: User "me" cannot patch resource "things" in API group "example.com"',
            DeniedError,
            id="we may not",
        ),
        pytest.param(
            403, "Forbidden", 'admission webhook "v.example.com" denied the request: no', RejectedError, id="a webhook"
        ),
        pytest.param(
            403, "Forbidden", 'things "a" is forbidden: exceeded quota: q', RejectedError, id="a quota says no"
        ),
        pytest.param(404, "NotFound", "", NotFoundError, id="not there"),
        pytest.param(409, "Conflict", "", ConflictError, id="changed since"),
        pytest.param(409, "AlreadyExists", "", ExistsError, id="there already"),
        pytest.param(410, "Expired", "", GoneError, id="too old"),
        pytest.param(413, "RequestEntityTooLarge", "", RejectedError, id="too large"),
        pytest.param(422, "Invalid", "", RejectedError, id="invalid"),
        pytest.param(500, "InternalError", "", UnansweredError, id="the server failed"),
        pytest.param(504, "Timeout", "", UnansweredError, id="the server was too slow"),
    ],
)
async def test_a_refused_write_is_told_by_its_kind_and_not_sent_again(
    code: int, reason: str, message: str, kind: type[KubeError]
) -> None:
    async with served() as (api, kube):
        api.accident = failing(9, lambda: status(code, reason, message))
        with pytest.raises(kind) as caught:
            await change(kube)
        assert type(caught.value) is kind
        assert (caught.value.code, caught.value.reason) == (code, reason)
        assert str(caught.value) == f"patch things.example.com default/a: {message or reason}"
        assert len(api.log) == 1


async def test_an_error_that_is_no_status_is_told_as_it_is() -> None:
    async with served() as (api, kube):
        api.accident = failing(9, lambda: web.Response(status=404, text="404 page not found\n"))
        with pytest.raises(NotFoundError, match=r"404 page not found$"):
            await fetch(kube)


@pytest.mark.parametrize("call", [change, fetch, make, remove])
@pytest.mark.parametrize(
    ("code", "after", "waits"),
    [
        pytest.param(429, "3", [3.0], id="too many requests, with a time"),
        pytest.param(429, "", [0.1], id="too many requests"),
        pytest.param(503, "1", [1.0], id="not available, with a time"),
    ],
)
async def test_what_the_server_has_not_begun_is_sent_again(
    call: Callable[[HttpKube], Awaitable[object]], code: int, after: str, waits: list[float]
) -> None:
    async with served() as (api, kube):
        await api.put("things", thing("a"))
        api.accident = failing(1, lambda: status(code, "Busy", after=after))
        await call(kube)
        assert len(api.log) == 2
        assert slept(kube) == waits


async def test_a_server_that_stays_overloaded_is_left_alone_in_the_end() -> None:
    async with served() as (api, kube):
        api.accident = failing(99, lambda: status(429, "TooManyRequests"))
        with pytest.raises(UnansweredError):
            await change(kube)
        assert len(api.log) == http.TRIES_MAX
        assert slept(kube) == [0.1, 0.2, 0.4, 0.8, 1.6]


@pytest.mark.parametrize(
    ("call", "times"),
    [
        pytest.param(fetch, 2, id="a read"),
        pytest.param(remove_one, 2, id="the deletion of one object"),
        pytest.param(remove, 1, id="the deletion of a name"),
        pytest.param(change, 1, id="a patch"),
        pytest.param(make, 1, id="a creation"),
    ],
)
@pytest.mark.parametrize("how", ["500", "502", "503", "cut"])
async def test_what_may_have_been_done_is_sent_again_only_if_that_does_no_harm(
    call: Callable[[HttpKube], Awaitable[object]], times: int, how: str
) -> None:
    async def accident(request: web.Request) -> web.StreamResponse | None:
        if len(requests) > 0:
            return None
        requests.append(request)
        if how == "cut":
            assert request.transport is not None
            request.transport.abort()
        return status(int(how) if how != "cut" else 500, "Failed")

    requests: list[web.Request] = []
    async with served() as (api, kube):
        await api.put("things", thing("a"))
        api.accident = accident
        if times == 1:
            with pytest.raises(UnansweredError):
                await call(kube)
        else:
            await call(kube)
        assert len(api.log) == times


async def test_a_server_that_is_not_there_is_tried_again_for_a_little_while() -> None:
    async with TinyApi().serve() as api:
        connection = api.connection()
    kube = HttpKube(connection, SkippingClock(), rng=lambda: 0.0)
    with pytest.raises(UnansweredError, match="cannot be reached"):
        await change(kube)
    assert len(slept(kube)) == http.TRIES_MAX - 1
    async with TinyApi().serve(port=int(connection.server.rpartition(":")[2])) as api:
        await api.put("things", thing("a"))
        await change(kube)
    await kube.close()


async def test_jitter_makes_waits_differ() -> None:
    async with served() as (api, kube):
        await api.put("things", thing("a"))
        kube.rng = iter([0.0, 1.0, 0.5]).__next__
        api.accident = failing(3, lambda: status(429, "TooManyRequests"))
        await change(kube)
        assert slept(kube) == [0.1, 0.4, 0.6]


class Turning:
    """Credentials of which each lasts until the next is asked for."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.fetched = 0

    async def fetch(self, clock: Clock) -> Credential:
        self.fetched += 1
        await asyncio.sleep(0)
        if not self.tokens:
            raise CredentialError("the purse is empty; fill it")
        return Credential(f"Bearer {self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]}")


def accepting(token: str) -> Accident:
    async def accident(request: web.Request) -> web.StreamResponse | None:
        return None if request.headers.get("Authorization") == f"Bearer {token}" else status(401, "Unauthorized")

    return accident


async def test_a_refused_token_is_renewed_and_the_call_sent_again_once_for_all() -> None:
    credentials = Turning("old", "new")
    async with served(credentials=credentials) as (api, kube):
        await api.put("things", thing("a"))
        api.accident = accepting("new")
        await asyncio.gather(*(change(kube) for _ in range(5)))
        assert credentials.fetched == 2
        events = kube.watch(THINGS, version="1")
        api.kept_from = 0
        assert json.loads(await anext(aiter(events)))["type"] == "ADDED"


async def test_a_token_that_is_refused_for_good_is_not_renewed_over_and_over() -> None:
    credentials = Turning("one", "two", "three", "four")
    async with served(credentials=credentials) as (api, kube):
        api.accident = accepting("none of these")
        for _ in range(4):
            with pytest.raises(DeniedError):
                await change(kube)
        assert credentials.fetched == 2


async def test_without_a_credential_nothing_is_sent() -> None:
    async with served(credentials=Turning()) as (api, kube):
        with pytest.raises(DeniedError, match="the purse is empty; fill it"):
            await change(kube)
        assert api.log == []


async def test_a_token_that_would_break_a_header_is_refused() -> None:
    async with served(credentials=Turning("secret\r\nX-Injected: 1")) as (api, kube):
        with pytest.raises(DeniedError, match="a header cannot contain") as caught:
            await change(kube)
        assert "secret" not in str(caught.value)
        assert api.log == []


async def test_every_answer_is_told_to_whoever_observes() -> None:
    async with served() as (api, kube):
        told: list[tuple[str, str]] = []
        kube.observe = lambda code, method, host: told.append((code, method)) if host in api.url else None
        await api.put("things", thing("a"))
        api.accident = failing(1, lambda: status(429, "TooManyRequests"))
        await change(kube)
        await anext(aiter(kube.watch(THINGS)))
        assert told == [("429", "PATCH"), ("200", "PATCH"), ("200", "GET")]


async def test_calls_above_the_limit_wait_their_turn() -> None:
    async with served(qps=2.0, burst=3) as (api, kube):
        await api.put("things", thing("a"))
        for _ in range(5):
            await fetch(kube)
        assert slept(kube) == [0.5, 0.5]


async def test_nothing_is_written_once_we_may_not() -> None:
    async with served(may_write=lambda: False) as (api, kube):
        await api.put("things", thing("a"))
        with pytest.raises(NotLeadingError, match="nothing was sent"):
            await change(kube)
        await fetch(kube)
        assert [method for method, _ in api.log] == ["GET"]


async def test_a_write_that_waits_to_be_sent_again_is_not_sent_once_we_may_not() -> None:
    leading = True

    async def accident(request: web.Request) -> web.StreamResponse | None:
        nonlocal leading
        leading = False
        return status(429, "TooManyRequests")

    async with served(may_write=lambda: leading) as (api, kube):
        api.accident = accident
        with pytest.raises(NotLeadingError):
            await change(kube)
        assert len(api.log) == 1


async def test_after_closing_nothing_is_sent() -> None:
    async with served() as (api, kube):
        await kube.close()
        with pytest.raises(UnansweredError, match="closed"):
            await change(kube)
        with pytest.raises(UnansweredError, match="closed"):
            await anext(aiter(kube.watch(THINGS)))
        assert api.log == []


async def test_a_watch_asks_for_bookmarks_and_an_end() -> None:
    async with served() as (api, kube):
        await api.put("things", thing("a"))
        events = kube.watch(THINGS, "default", version="100", labels="x")
        event = json.loads(await anext(aiter(events)))
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
        assert api.log == [
            ("GET", f"{AT}?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=100&labelSelector=x")
        ]
        await api.end_watches()
        assert [event async for event in events] == []


async def test_a_watch_without_a_version_begins_with_what_there_is() -> None:
    async with served() as (api, kube):
        await api.put("things", thing("a"))
        events = aiter(kube.watch(THINGS))
        assert json.loads(await anext(events))["type"] == "ADDED"
        assert json.loads(await anext(events))["object"]["metadata"]["annotations"] == {
            "k8s.io/initial-events-end": "true"
        }
        assert "sendInitialEvents=true&resourceVersionMatch=NotOlderThan" in api.log[0][1]


async def test_events_are_split_at_line_feeds_alone() -> None:
    odd = "next\u0085line\u2028separator\u2029paragraph\x0bvertical\x1cfile"
    async with served() as (api, kube):
        await api.put("things", thing("a", odd))
        await api.put("things", thing("b", "x" * 3_000_000))
        await api.put("things", thing("c"))
        events = aiter(kube.watch(THINGS, version="100"))
        values = [json.loads(await anext(events))["object"]["spec"]["value"] for _ in range(3)]
        assert values == [odd, "x" * 3_000_000, ""]


async def test_a_version_that_is_too_old_is_gone() -> None:
    async with served() as (api, kube):
        await api.put("things", thing("a"))
        api.compact()
        with pytest.raises(GoneError):
            await anext(aiter(kube.watch(THINGS, version="100")))


async def test_a_watch_that_is_refused_raises_what_was_said() -> None:
    async with served() as (api, kube):
        api.streaming = False
        with pytest.raises(RejectedError, match="sendInitialEvents is forbidden"):
            await anext(aiter(kube.watch(THINGS)))


async def test_a_watch_waits_as_long_as_the_server_asks_for() -> None:
    async with served() as (api, kube):
        await api.put("things", thing("a"))
        api.accident = failing(2, lambda: status(429, "TooManyRequests", after="2"))
        assert json.loads(await anext(aiter(kube.watch(THINGS))))["type"] == "ADDED"
        assert slept(kube) == [2.0, 2.0]


async def test_a_watch_that_is_cut_off_is_no_end() -> None:
    async with served() as (api, kube):
        await api.put("things", thing("a"))
        events = aiter(kube.watch(THINGS, version="100"))
        await anext(events)
        await api.cut()
        with pytest.raises(UnansweredError):
            await anext(events)


async def test_a_watch_that_falls_silent_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.1)
    async with served(clock=SystemClock()) as (_, kube):
        with pytest.raises(UnansweredError, match="no data"):
            await anext(aiter(kube.watch(THINGS, version="100")))
