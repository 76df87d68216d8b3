"""Who answers? A real kube-apiserver with our definitions and our webhooks, or the embedded API.

On neither does anybody act by itself: no controller runs, and the manager behind the real server's webhooks does not
lead. So the same calls find the same objects.
"""

import contextlib
import http.client
import time
from collections.abc import Iterator

from pykueue.local.exchange import request
from pykueue.testing.embedded import Embedded, Watching
from tests.conformance.play import Answer, Asked, Server
from tests.plane.plane import ADMIN_TOKEN, Plane
from tests.plane.programs import LEASE, NAMESPACE, Site, ours

WATCH_SECONDS = 10
"""How long events are waited for."""


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
            with contextlib.closing(
                http.client.HTTPSConnection(plane.client.host, context=plane.client.tls, timeout=WATCH_SECONDS)
            ) as kept:
                yield Server(lambda asked: answered(plane, kept, asked), ADMIN_TOKEN, lambda: time.sleep(0.1))


def answered(plane: Plane, kept: http.client.HTTPSConnection, asked: Asked) -> Answer:
    """What the real server answers, over a connection that is kept; a watch has one of its own."""
    if "watch=1" not in asked.target and "/watch/" not in asked.target:
        kept.request(asked.verb, asked.target, asked.body or None, dict(asked.headers))
        answer = kept.getresponse()
        return Answer(answer.status, tuple(answer.getheaders()), answer.read())
    with contextlib.closing(
        http.client.HTTPSConnection(plane.client.host, context=plane.client.tls, timeout=WATCH_SECONDS)
    ) as own:
        own.request(asked.verb, asked.target, asked.body or None, dict(asked.headers))
        answer = own.getresponse()
        if answer.status != 200:
            return Answer(answer.status, tuple(answer.getheaders()), answer.read())
        lines: list[bytes] = []
        with contextlib.suppress(TimeoutError):
            while len(lines) < asked.events and (line := answer.readline()):
                lines.append(line)
        answer.close()
        return Answer(answer.status, tuple(answer.getheaders()), b"".join(lines))


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
