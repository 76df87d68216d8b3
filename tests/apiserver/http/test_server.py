"""How do calls come in from outside? A server over TLS, with clients that send too much, too slowly, or not at all."""

import asyncio
import contextlib
import gzip
import http.client
import json
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop

from pykueue.apiserver.http import readers, server
from pykueue.apiserver.http.server import ListenError, bind
from pykueue.apiserver.wire.statuserrors import BODY_MAX
from pykueue.kube.acceptor import ConnectionLimits
from tests.apiserver.standing import Serving, serving
from tests.patience import soon

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def up(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Serving]:
    loop = uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
    with serving(tmp_path_factory.mktemp("serve"), loop) as served:
        yield served


def ask(
    up: Serving, verb: str, target: str, body: bytes = b"", *, who: str = "admin", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = up.connection()
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if who:
            sent["Authorization"] = f"Bearer {up.stand.tokens[who]}"
        connection.request(verb, target, body, sent)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def config(name: str, **data: str) -> bytes:
    made: dict[str, Any] = {"metadata": {"name": name}, "data": data}
    return json.dumps(made).encode()


@contextlib.contextmanager
def plugged(up: Serving) -> Iterator[ssl.SSLSocket]:
    """A connection on which a test writes what it likes."""
    context = ssl.create_default_context(cadata=up.authority.certificate.decode())
    with (
        socket.create_connection(("127.0.0.1", up.server.port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        yield secured


@contextlib.contextmanager
def answered(client: ssl.SSLSocket) -> Iterator[http.client.HTTPResponse]:
    """The answer that comes on a connection."""
    with contextlib.closing(http.client.HTTPResponse(client)) as answer:
        answer.begin()
        yield answer


def head(up: Serving, verb: str, target: str, *more: str) -> bytes:
    lines = [f"{verb} {target} HTTP/1.1", "Host: x", f"Authorization: Bearer {up.stand.tokens['admin']}", *more, "", ""]
    return "\r\n".join(lines).encode()


def test_a_call_over_tls(up: Serving) -> None:
    code, headers, body = ask(up, "POST", MAPS, config("one", k="v"), Content_Type="application/json")
    assert code == 201
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body)["data"] == {"k": "v"}
    assert ask(up, "GET", f"{MAPS}/one")[0] == 200
    code, _, body = ask(up, "HEAD", "/healthz")
    assert (code, body) == (200, b"")


def test_who_shows_nothing_or_nonsense_is_refused(up: Serving) -> None:
    code, _, body = ask(up, "GET", MAPS, who="")
    assert (code, json.loads(body)["reason"]) == (403, "Forbidden")
    code, headers, body = ask(up, "GET", MAPS, who="", Authorization="Bearer x")
    assert (code, json.loads(body)["reason"]) == (401, "Unauthorized")
    assert headers["WWW-Authenticate"].startswith("Bearer")
    assert ask(up, "GET", "/healthz", who="")[0] == 200


def test_plain_http_is_not_spoken(up: Serving) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", up.server.port, timeout=20)
    connection.request("GET", "/healthz")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        connection.getresponse()
    connection.close()


def test_a_certificate_says_who_asks(up: Serving) -> None:
    shown, fingerprint = up.authority.issue("ann", (), up.stand.clock.now())
    context = ssl.create_default_context(cadata=up.authority.certificate.decode())
    pair = up.folder / "ann.pem"
    pair.write_bytes(shown.certificate + shown.key)
    context.load_cert_chain(pair)

    def asked() -> int:
        connection = http.client.HTTPSConnection("127.0.0.1", up.server.port, context=context, timeout=20)
        try:
            connection.request("GET", "/api/v1/namespaces/ann/configmaps")
            return connection.getresponse().status
        finally:
            connection.close()

    assert asked() == 401
    up.stand.users.certify("ann", fingerprint)
    assert asked() == 200


def test_a_large_body_is_refused_before_it_is_read(up: Serving) -> None:
    with plugged(up) as client:
        client.sendall(head(up, "POST", MAPS, "Content-Type: application/json", "Content-Length: 10000000"))
        with answered(client) as answer:
            assert answer.status == 413
            status = json.loads(answer.read())
            assert status["message"] == "Request entity too large: limit is 3145728"
            assert status["reason"] == "RequestEntityTooLarge"
            assert answer.headers["Connection"] == "close"


def test_a_body_of_ten_megabytes_without_a_length_is_cut_off(up: Serving) -> None:
    sent = 0
    with plugged(up) as client:
        client.sendall(head(up, "POST", MAPS, "Content-Type: application/json", "Transfer-Encoding: chunked"))
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        with contextlib.suppress(OSError):
            while sent < 40_000_000:
                client.sendall(piece)
                sent += 0x10000
    assert sent < 40_000_000
    assert ask(up, "GET", "/healthz")[0] == 200


def test_a_body_just_within_the_limit_is_read(up: Serving) -> None:
    body = config("big", k="v").ljust(BODY_MAX)
    assert ask(up, "POST", f"{MAPS}?dryRun=All", body, Content_Type="application/json")[0] == 201
    code, _, answer = ask(up, "POST", MAPS, body + b" ", Content_Type="application/json")
    assert (code, json.loads(answer)["code"]) == (413, 413)


def test_a_client_that_asks_first_is_told_to_go_on(up: Serving) -> None:
    body = config("asked")
    with plugged(up) as client:
        length = f"Content-Length: {len(body)}"
        client.sendall(head(up, "POST", MAPS, "Content-Type: application/json", length, "Expect: 100-continue"))
        assert client.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        with answered(client) as answer:
            assert answer.status == 201


def test_a_body_that_does_not_come_is_not_waited_for_for_ever(up: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    with plugged(up) as client:
        client.sendall(head(up, "POST", MAPS, "Content-Type: application/json", "Content-Length: 10") + b"{")
        with answered(client) as answer:
            assert answer.status == 408
            assert "did not arrive within" in json.loads(answer.read())["message"]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\x00\xff\r\n\r\n", id="no HTTP"),
        pytest.param(b"GET\r\n\r\n", id="half a line"),
        pytest.param(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", id="an endless target"),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b"b" * 100_000 + b"\r\n\r\n", id="an endless header"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", id="a negative length"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", id="no gzip"),
    ],
)
def test_what_is_no_call_does_no_harm(up: Serving, raw: bytes, caplog: pytest.LogCaptureFixture) -> None:
    # The server may hang up before it has read everything.
    with contextlib.suppress(OSError), plugged(up) as client:
        client.sendall(raw)
        assert re.match(rb"HTTP/1.[01] 4", client.recv(4096))
    assert ask(up, "GET", "/healthz")[0] == 200
    assert not caplog.records, "a client can repeat this as often as it likes"


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, br"])
def test_a_body_in_an_encoding_that_is_not_read_is_refused(
    up: Serving, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    code, _, body = ask(up, "POST", MAPS, b"abc", Content_Type="application/json", Content_Encoding=encoding)
    said = json.loads(body)
    assert (code, said["reason"]) == (415, "UnsupportedMediaType")
    assert f"the Content-Encoding '{encoding}' of the body is not supported" in said["message"]
    assert ask(up, "POST", MAPS, b"abc", who="", Content_Encoding=encoding)[0] == 403
    assert not caplog.records, "a client can repeat this as often as it likes"


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
def test_a_body_in_an_encoding_that_is_read(up: Serving, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    name = f"packed-{time.monotonic_ns()}"
    whole = pack(config(name, k="v" * 200_000))

    def sent(body: bytes) -> int:
        return ask(up, "POST", MAPS, body, Content_Type="application/json", Content_Encoding=encoding)[0]

    assert sent(whole[:-9]) == 400
    assert sent(whole) == 201
    assert len(json.loads(ask(up, "GET", f"{MAPS}/{name}")[2])["data"]["k"]) == 200_000


def test_a_body_that_unpacks_to_much_more_is_refused(up: Serving) -> None:
    bomb = gzip.compress(config("bomb").ljust(50_000_000))
    code, _, _ = ask(up, "POST", MAPS, bomb, Content_Type="application/json", Content_Encoding="gzip")
    assert code == 413


def test_large_answers_are_pressed_for_those_who_can_take_it(up: Serving) -> None:
    for number in range(4):
        ask(up, "POST", MAPS, config(f"wide-{number}", k="v" * 50_000), Content_Type="application/json")
    code, headers, body = ask(up, "GET", MAPS, Accept_Encoding="gzip")
    assert (code, headers["Content-Encoding"]) == (200, "gzip")
    assert len(body) < 10_000
    plain = ask(up, "GET", MAPS)
    assert plain[1]["Content-Encoding"] is None
    assert json.loads(gzip.decompress(body))["items"] == json.loads(plain[2])["items"]
    assert ask(up, "GET", "/version", Accept_Encoding="gzip")[1]["Content-Encoding"] is None


def test_a_watch_streams_and_ends_with_its_client(up: Serving) -> None:
    with plugged(up) as client:
        client.sendall(head(up, "GET", f"{MAPS}?watch=1&resourceVersion={up.stand.store.version}"))
        with answered(client) as answer:
            assert answer.headers["Transfer-Encoding"] == "chunked"
            assert soon(lambda: up.server.streams == 1)
            ask(up, "POST", MAPS, config("watched"), Content_Type="application/json")
            event = json.loads(answer.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "watched")
    assert soon(lambda: up.server.streams == 0)


def test_a_client_that_does_not_read_is_let_go(up: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "WRITE_SECONDS", 0.3)
    monkeypatch.setattr(readers, "FAREWELL_SECONDS", 0.3)
    with plugged(up) as client:
        client.sendall(head(up, "GET", f"{MAPS}?watch=1&resourceVersion={up.stand.store.version}"))
        assert client.recv(10)
        assert soon(lambda: up.server.streams == 1)
        body = config("loud", k="v" * 500_000)
        number = 0
        ask(up, "POST", MAPS, body, Content_Type="application/json")
        while up.server.streams:
            number += 1
            assert number < 200
            ask(up, "PUT", f"{MAPS}/loud", config("loud", k=str(number) * 500_000), Content_Type="application/json")
    assert ask(up, "GET", "/healthz")[0] == 200


def test_a_client_that_does_not_read_a_long_list_is_let_go(up: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        name = f"long-{number}"
        ask(up, "POST", MAPS, config(name, k="v" * 900_000), Content_Type="application/json")
    monkeypatch.setattr(readers, "WRITE_SECONDS", 0.3)
    with plugged(up) as client:
        client.sendall(head(up, "GET", MAPS))
        time.sleep(1)
        taken = 0
        with contextlib.suppress(OSError):
            while piece := client.recv(1 << 20):
                taken += len(piece)
    assert 0 < taken < 10_800_000
    for number in range(12):
        ask(up, "DELETE", f"{MAPS}/long-{number}")


def test_many_idle_connections_are_fine(up: Serving) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(plugged(up))
        assert ask(up, "GET", "/healthz")[0] == 200


def test_slow_clients_do_not_keep_others_waiting(up: Serving) -> None:
    with plugged(up) as slow:
        slow.sendall(head(up, "POST", MAPS, "Content-Type: application/json", "Content-Length: 100"))
        done = threading.Event()

        def ask_beside() -> None:
            assert ask(up, "GET", MAPS)[0] == 200
            done.set()

        threading.Thread(target=ask_beside).start()
        assert done.wait(20)


def test_a_write_goes_on_when_its_client_has_gone(up: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    create, begun = up.stand.registry.create, threading.Event()

    async def slowly(*arguments: Any, **named: Any) -> bytes:
        begun.set()
        await asyncio.sleep(0.3)
        return await create(*arguments, **named)

    monkeypatch.setattr(up.stand.registry, "create", slowly)
    body = config("orphan")
    with plugged(up) as client:
        length = f"Content-Length: {len(body)}"
        client.sendall(head(up, "POST", MAPS, "Content-Type: application/json", length) + body)
        assert begun.wait(20)
    assert soon(lambda: ask(up, "GET", f"{MAPS}/orphan")[0] == 200)


def test_a_port_that_is_taken_is_said() -> None:
    with bind("127.0.0.1", 0) as held:
        port = held.getsockname()[1]
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use; free the"):
            bind("127.0.0.1", port)
    with pytest.raises(ListenError, match="70000 is not a valid port; choose one up to 65535"):
        bind("127.0.0.1", 70_000)


def test_a_client_that_shows_nothing_does_not_lock_others_out(up: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    assert up.server.acceptor is not None
    monkeypatch.setattr(up.server.acceptor, "limits", ConnectionLimits(anonymous=8, per_user=8))
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(plugged(up)) for _ in range(20)]
        assert ask(up, "GET", MAPS)[0] == 200
        assert strangers[0].recv(1) == b""
        # What only just came still gets its answer.
        strangers[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        with answered(strangers[-1]) as answer:
            assert answer.status == 200


def test_a_client_that_shows_nothing_is_let_go_in_time(up: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    assert up.server.acceptor is not None
    limits = ConnectionLimits(anonymous=8, per_user=8, anonymous_seconds=0.5)
    monkeypatch.setattr(up.server.acceptor, "limits", limits)
    with plugged(up) as known, plugged(up) as stranger, socket.create_connection(("127.0.0.1", up.server.port)) as mute:
        known.sendall(head(up, "GET", MAPS))
        with answered(known) as answer:
            assert answer.status == 200
            answer.read()
        stranger.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        with answered(stranger) as answer:
            assert answer.status == 200
            answer.read()
        assert stranger.recv(1) == b""
        mute.settimeout(20)
        assert mute.recv(1) == b"", "a handshake that does not begin ends too"
        known.sendall(head(up, "GET", MAPS))
        with answered(known) as answer:
            assert answer.status == 200


def test_the_body_of_a_stranger_is_not_waited_for(up: Serving) -> None:
    with plugged(up) as client:
        client.sendall(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n".encode())
        with answered(client) as answer:
            assert answer.status == 403


def test_a_user_with_too_many_calls_at_once_is_told_so(up: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    assert up.server.acceptor is not None
    monkeypatch.setattr(up.server.acceptor, "limits", ConnectionLimits(anonymous=8, per_user=2))
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            watch = stack.enter_context(plugged(up))
            watch.sendall(head(up, "GET", f"{MAPS}?watch=1"))
            answer = stack.enter_context(answered(watch))
            assert answer.status == 200
        code, _, body = ask(up, "GET", MAPS)
        assert code == 429
        assert b"admin has too many connections open at once" in body
        assert ask(up, "GET", "/version", who="bob")[0] == 200


def test_the_bodies_of_a_user_are_bounded_together_and_others_are_served(
    up: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BODIES_MAX", 100_000)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            slow = stack.enter_context(plugged(up))
            slow.sendall(head(up, "POST", MAPS, "Content-Type: application/json", "Content-Length: 40000"))
            slow.sendall(b" " * 30_000)
        assert soon(lambda: up.server.bodies["admin"] == 90_000)
        code, _, body = ask(up, "POST", MAPS, b" " * 30_000, Content_Type="application/json")
        assert code == 429
        assert b"admin has too many large requests under way" in body
        assert ask(up, "POST", MAPS, config("one-more"), who="bob", Content_Type="application/json")[0] == 403
        assert ask(up, "GET", MAPS)[0] == 200
    assert soon(lambda: not up.server.bodies)
