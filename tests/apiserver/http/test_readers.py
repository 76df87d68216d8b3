"""What is held for clients that do not read? Not more than may be, and a watch is told why it ends."""

import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
import uvloop

from pykueue.apiserver.http import readers
from pykueue.apiserver.http.watchlines import SMALL_BYTES, Lines, View
from pykueue.apiserver.storage.feed import AT_ONCE_BYTES
from pykueue.apiserver.verbs.reading import WatchEvent
from pykueue.apiserver.wire.negotiation import wanted
from pykueue.apiserver.wire.writeterms import Terms
from pykueue.base.turns import Turns
from tests.apiserver.standing import Serving, Stand, serving
from tests.patience import soon

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
COUNT = 250
SIZE = 50_000
"""Together more than the buffers of a connection between two programs of a machine."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("readers"), uvloop.new_event_loop()) as served:
        served.run(filled(served.stand))
        yield served


async def filled(stand: Stand) -> None:
    kind = stand.registry.catalog.find("", "v1", "configmaps")
    assert kind is not None
    for number in range(COUNT):
        tree: Any = {"metadata": {"name": f"large-{number}"}, "data": {"k": "v" * SIZE}}
        await stand.registry.create(kind, tree, "default", Terms())


@contextmanager
def watching(up: Serving, who: str = "admin", target: str = WATCH) -> Iterator[ssl.SSLSocket]:
    """A watch that has begun, and of which nothing is read."""
    context = ssl.create_default_context(cadata=up.authority.certificate.decode())
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(30)
    plain.connect(("127.0.0.1", up.server.port))
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
        token = up.stand.tokens[who]
        secured.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        yield secured


def events(text: bytes) -> list[Any]:
    """The events in what a client has read; it must end with a whole chunk."""
    _, _, rest = text.partition(b"\r\n\r\n")
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        assert len(rest) >= int(size, 16), "the answer was cut within a chunk"
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return [json.loads(line) for line in body.splitlines()]


def read_all(client: ssl.SSLSocket, pause: float = 0.0) -> bytes:
    """What comes until the end, or until the list is over."""
    found = bytearray()
    while piece := client.recv(1 << 16):
        found += piece
        if found.endswith(b"\n\r\n") and b"initial-events-end" in found[-1000:]:
            break
        time.sleep(pause)
    return bytes(found)


def test_a_watch_that_is_not_read_ends_with_410(up: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "WRITE_SECONDS", 0.2)
    with watching(up) as client:
        assert soon(lambda: any(one.cut or one.waiting for one in up.server.readers.all.get("admin", ())))
        time.sleep(1)
        *seen, last = events(read_all(client))
    assert {one["type"] for one in seen} == {"ADDED"}
    assert len(seen) < COUNT
    assert last["type"] == "ERROR"
    assert (last["object"]["kind"], last["object"]["code"], last["object"]["reason"]) == ("Status", 410, "Expired")


def test_a_slow_reader_that_goes_on_reading_is_not_cut_off(up: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "WRITE_SECONDS", 0.5)
    with watching(up) as client:
        found = events(read_all(client, pause=0.003))
    assert [one["type"] for one in found] == ["ADDED"] * COUNT + ["BOOKMARK"]


def test_what_is_held_for_a_user_is_bounded(up: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 2 * 1024 * 1024
    monkeypatch.setattr(up.server.readers, "limit", limit)
    with ExitStack() as stack:
        other = stack.enter_context(watching(up, "ann", "/api/v1/namespaces/ann/configmaps?watch=1"))
        clients = [stack.enter_context(watching(up)) for _ in range(30)]
        assert soon(lambda: up.server.streams > len(clients))
        assert soon(lambda: all(one.cut or one.waiting for one in [*up.server.readers.all["admin"]]))
        held = [one.counted for one in up.server.readers.all["admin"] if not one.cut]
        assert sum(held) <= limit
        assert sum(held) == up.server.readers.totals["admin"]
        assert max(held) <= AT_ONCE_BYTES + 6 * readers.BUFFER_BYTES, "and so is what is held for one watch"
        first = events(read_all(clients[0]))
        assert first[-1]["object"].get("code") == 410, "the one that waited longest is told"
        assert all(not one.cut for one in up.server.readers.all.get("ann", ())), "another user's are left alone"
        other.close()
    assert soon(lambda: not up.server.streams)
    assert up.server.readers.totals == {}


def test_watches_of_one_form_share_what_is_encoded() -> None:
    stand = Stand()
    served = stand.registry.catalog.find("", "v1", "configmaps")
    assert served is not None
    body = json.dumps(
        {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "data": {"k": "v" * 8192}}
    )
    lines = Lines(stand.clock, Turns(), limit=100_000)
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"

    async def story() -> None:
        for accept in ("", table, partial):
            view = View("v1", wanted(accept))
            # A Table tells ages by the second, and a second may end in between.
            for _ in range(3):
                seen = WatchEvent("ADDED", body.encode(), 7)
                first = await lines.line(served, seen, view, heads=False)
                again = await lines.line(served, WatchEvent("ADDED", body.encode(), 7), view, heads=False)
                if again is first:
                    break
            assert again is first, accept
            assert json.loads(first)["type"] == "ADDED"
            assert await lines.line(served, WatchEvent("MODIFIED", body.encode(), 7), view, heads=False) != first
        for version in range(100):
            await lines.line(
                served, WatchEvent("ADDED", body.encode(), 8 + version), View("v1", wanted("")), heads=False
            )
        assert len(body) > SMALL_BYTES
        assert sum(map(len, lines.kept.values())) == lines.bytes <= lines.limit, "and no more is kept than may be"
        await stand.store.close()

    uvloop.run(story())


def test_a_client_that_goes_is_forgotten(up: Serving) -> None:
    with watching(up) as client:
        assert soon(lambda: up.server.streams == 1)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
    assert soon(lambda: up.server.streams == 0)
    assert up.server.readers.all == {}
