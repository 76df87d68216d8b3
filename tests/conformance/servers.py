"""Who answers? A real kube-apiserver with our definitions and our webhooks, or the embedded API.

On neither does anybody act by itself: no controller runs, and the manager behind the real server's webhooks does not
lead. So the same calls find the same objects.
"""

import asyncio
import contextlib
import http.client
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pykueue.apiserver.auth.authority import Authority
from pykueue.apiserver.http.server import Server as LocalServer
from pykueue.apiserver.wire.messages import request
from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS, Instant
from pykueue.testing.embedded import Embedded, Watching
from tests.conformance.play import Answer, Asked, Server
from tests.plane.plane import ADMIN_TOKEN, Plane
from tests.plane.programs import LEASE, NAMESPACE, Site, ours

WATCH_SECONDS = 10
"""How long events are waited for."""
TICK = 0.01
"""Seconds after which the clock is set while a client is at work."""


@contextlib.contextmanager
def real() -> Iterator[Server]:
    """A real API server, until the block ends."""
    with Plane.start(pods=False) as plane, Site.on(plane, ours()) as site:
        lease = {
            "holderIdentity": "another",
            "leaseDurationSeconds": 36_000,
            "renewTime": "2026-01-31T12:00:00.000000Z",
        }
        named = {"name": LEASE, "namespace": NAMESPACE}
        plane.client.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": named, "spec": lease})
        with site.ours():
            site.await_webhooks(True)
            with contextlib.closing(Line(plane.client.host, plane.client.tls)) as line:
                yield Server(line.answer, ADMIN_TOKEN, lambda: time.sleep(0.1))


class Line:
    """Calls over a connection that is kept; a watch has one of its own."""

    def __init__(self, host: str, trust: ssl.SSLContext) -> None:
        self.host = host
        self.trust = trust
        self.kept = self.connection()

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.host, context=self.trust, timeout=WATCH_SECONDS)

    def close(self) -> None:
        self.kept.close()

    def answer(self, asked: Asked) -> Answer:
        """What the server answers."""
        if "watch=1" in asked.target:
            return self.watched(asked)
        self.kept.request(asked.verb, asked.target, asked.body or None, dict(asked.headers))
        answer = self.kept.getresponse()
        return Answer(answer.status, tuple(answer.getheaders()), answer.read())

    def watched(self, asked: Asked) -> Answer:
        """What it answers to a watch, as far as events are wanted."""
        with contextlib.closing(self.connection()) as own:
            own.request(asked.verb, asked.target, asked.body or None, dict(asked.headers))
            return self.told(own.getresponse(), asked.events)

    @staticmethod
    def told(answer: http.client.HTTPResponse, events: int) -> Answer:
        headers = tuple(answer.getheaders())
        if answer.status != 200:
            return Answer(answer.status, headers, answer.read())
        lines: list[bytes] = []
        with contextlib.suppress(TimeoutError):
            while len(lines) < events and (line := answer.readline()):
                lines.append(line)
        answer.close()
        return Answer(answer.status, headers, b"".join(lines))


@contextlib.contextmanager
def embedded() -> Iterator[Server]:
    """The embedded API, until the block ends."""
    with contextlib.closing(Embedded(acting=False)) as system:
        yield Server(lambda asked: embedded_answer(system, asked), system.token, lambda: system.advance(0.1))


def embedded_answer(system: Embedded, asked: Asked) -> Answer:
    """What the embedded API answers; a watch is followed as long as events are wanted."""
    response = system.ask(request(asked.verb, asked.target, asked.body, asked.headers))
    if isinstance(response.body, bytes):
        return Answer(response.code, response.headers, response.body)
    with contextlib.closing(Watching(system, response)) as watch:
        for _ in range(WATCH_SECONDS * 10):
            if watch.over or len(watch.lines) >= asked.events > 0:
                break
            system.advance(0.1)
        # A body that comes in pieces may be no stream of events at all.
        lines = watch.lines[: asked.events] if asked.events else watch.lines
        return Answer(response.code, response.headers, b"".join(line + b"\n" for line in lines) + watch.rest)


@contextlib.contextmanager
def over_tls() -> Iterator[Server]:
    """The embedded API behind its own server, as clients reach it, until the block ends."""
    authority = Authority.open(None, SystemClock().now())
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    with contextlib.closing(Embedded(acting=False)) as system:
        server = LocalServer(system.front, authority.context())
        system.loop.run_until_complete(server.start())
        try:
            with contextlib.closing(Line(f"127.0.0.1:{server.port}", trust)) as line:
                yield Server(
                    lambda asked: system.loop.run_until_complete(driven(system, partial(line.answer, asked))),
                    system.token,
                    lambda: system.advance(0.1),
                )
        finally:
            system.loop.run_until_complete(server.stop())


async def driven(system: Embedded, call: Callable[[], Answer]) -> Answer:
    """What a call from another thread brings; the clock goes on meanwhile."""
    with ThreadPoolExecutor(1) as thread:
        talk = asyncio.get_running_loop().run_in_executor(thread, call)
        while not talk.done():
            await asyncio.wait([talk], timeout=TICK)
            system.clock.turn_to(Instant(system.clock.now() + round(TICK * MICROS)))
        return talk.result()
