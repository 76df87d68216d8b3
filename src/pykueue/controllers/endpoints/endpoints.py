"""The HTTP servers of the manager: webhooks, probes, metrics and aggregated APIs.

All of them listen on every replica, leader or not. `webhooks` and `aggregatedserver` answer the API server, `access`
decides who may read the metrics.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Final, TypeAlias

from aiohttp import web

from pykueue.api.config.types import Configuration
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.turns import in_steps
from pykueue.base.units import MICROS
from pykueue.controllers.endpoints.access import FORBIDDEN, METRICS_PATH, OK, UNAUTHORIZED, Access
from pykueue.controllers.endpoints.aggregatedserver import AggregatedServer
from pykueue.controllers.endpoints.bodies import Bodies, BodyError, BodyLimits
from pykueue.controllers.endpoints.webhooks import Answer, Webhooks, body_max, is_webhook
from pykueue.controllers.metrics.exposition import CONTENT_TYPE
from pykueue.kube.acceptor import Acceptor, own_limits
from pykueue.kube.port import Kube

LOG: Final = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

OFF: Final = "0"
IDLE_SECONDS: Final = 600
"""Longer than the API server keeps an idle connection, so that we never close one that is about to be used."""
GRACE_SECONDS: Final = 0.3
"""How long a request in flight may take to end when we stop."""
GZIP_LEVEL: Final = 1
"""Already reduces the metrics to a few percent; aiohttp's default would take three times as long."""
GZIP_BITS: Final = 16 + zlib.MAX_WBITS
"""Selects the format of gzip."""


class EndpointError(Exception):
    """An address at which we cannot listen: which setting, what is wrong, what to do."""


class Listening(Frozen):
    """Addresses as `host:port` with an empty host for all interfaces; `0` for none."""

    webhook: str = ":9443"
    health: str = ":8081"
    metrics: str = ":8443"
    secure: bool = True
    """Whether metrics are served over https with authorization; otherwise over http to any client."""
    readiness: str = "readyz"
    liveness: str = "healthz"
    aggregated: str = OFF


def listening(
    configuration: Configuration, *, webhook: bool = True, secure: bool = True, aggregated: bool = False
) -> Listening:
    """The addresses in a Configuration."""
    visibility = configuration.visibility_server
    health = configuration.health
    return Listening(
        webhook=go_address(configuration.webhook.host, configuration.webhook.port) if webhook else OFF,
        health=health.health_probe_bind_address,
        metrics=configuration.metrics.bind_address,
        secure=secure,
        readiness=health.readiness_endpoint_name,
        liveness=health.liveness_endpoint_name,
        aggregated=go_address(visibility.bind_address, visibility.bind_port) if aggregated else OFF,
    )


def go_address(host: str, port: int) -> str:
    """An address in Go's form."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Endpoints:
    """The servers. A port of 0 selects a free one."""

    def __init__(
        self,
        plan: Listening,
        clock: Clock,
        kube: Kube,
        *,
        webhooks: Webhooks,
        context: ssl.SSLContext,
        page: Callable[[], Generator[None, None, list[bytes]]],
        missing: Callable[[], Iterable[str]],
        aggregated: AggregatedServer | None = None,
        reviewed: Callable[[str, int, float], None] | None = None,
    ) -> None:
        self.plan = plan
        self.clock = clock
        self.reviewed = reviewed
        """Called with the path, status and seconds of each request to a webhook that there is."""
        self.aggregated = aggregated
        self.webhooks = webhooks
        self.context = context
        self.page = page
        self.missing = missing
        self.access = Access(kube, clock)
        self.bodies = Bodies(BodyLimits())
        self.runners: list[web.AppRunner] = []
        self.acceptors: list[Acceptor] = []
        self.webhook_port = self.health_port = self.metrics_port = self.aggregated_port = 0
        """0 until it is known, and if nothing listens."""

    async def start(self) -> None:
        """Listen everywhere, or raise `EndpointError` and listen nowhere."""
        plan = self.plan
        try:
            self.health_port = await self.serve("health.healthProbeBindAddress", plan.health, self.health, None)
            self.metrics_port = await self.serve(
                "metrics.bindAddress", plan.metrics, self.metrics, self.context if plan.secure else None
            )
            self.webhook_port = await self.serve("webhook.port", plan.webhook, self.webhook, self.context)
            if self.aggregated is not None:
                proxy = self.aggregated.proxy
                self.aggregated_port = await self.serve(
                    "visibilityServer.bindPort", plan.aggregated, self.aggregated.answer, proxy.context
                )
                proxy.replaced = self.acceptors[-1].replace_context
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop listening, and close all connections within a second."""
        runners, self.runners = self.runners, []
        acceptors, self.acceptors = self.acceptors, []
        await asyncio.gather(*(acceptor.stop() for acceptor in acceptors))
        self.webhook_port = self.health_port = self.metrics_port = self.aggregated_port = 0
        await asyncio.gather(*(runner.cleanup() for runner in runners))

    async def serve(self, setting: str, address: str, handler: Handler, context: ssl.SSLContext | None) -> int:
        """Listen at an address; returns the port."""
        if address == OFF:
            return 0
        bound = bind(setting, address)
        app = web.Application()

        async def identified(request: web.Request) -> web.StreamResponse:
            # Clients are not authenticated here, so they are identified and limited by address.
            if not acceptor.identify(request.protocol, request.remote or "unknown"):
                return text_response(429, "too many connections from this address")
            with acceptor.serving(request.protocol):
                try:
                    return await handler(request)
                except ConnectionResetError:
                    # The client did not wait for the answer.
                    return web.Response()

        app.router.add_route("*", "/{path:.*}", identified)
        runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=IDLE_SECONDS, shutdown_timeout=GRACE_SECONDS, handle_signals=False
        )
        self.runners.append(runner)
        await runner.setup()
        assert runner.server is not None, "a runner that is set up has its server"
        acceptor = Acceptor(bound, runner.server, context, own_limits())
        self.acceptors.append(acceptor)
        acceptor.start()
        port: int = bound.getsockname()[1]
        return port

    async def webhook(self, request: web.Request) -> web.StreamResponse:
        """Answer a webhook request, and report how that went."""
        began, status = self.clock.moment(), 500
        try:
            response = await self.review(request)
            status = response.status
            return response
        finally:
            if self.reviewed is not None and is_webhook(request.path):
                self.reviewed(request.path, status, (self.clock.moment() - began) / MICROS)

    async def review(self, request: web.Request) -> web.StreamResponse:
        """Answer a webhook request."""
        if request.method != "POST":
            return text_response(405, f"{request.method} is not supported for webhooks; POST a review")
        try:
            pieces = request.content.iter_any()
            async with self.bodies.read(request.remote or "", pieces, body_max(request.path)) as body:
                answer = await self.webhooks.answer(request.path, body.pieces)
                body.become(sum(map(len, answer.pieces)))
                async with self.bodies.sending(body.size):
                    return await sent(request, answer, body.size)
        except BodyError as error:
            refusal = text_response(error.status, str(error))
            refusal.force_close()
            return refusal
        except (TimeoutError, ConnectionError):
            # The client has gone or does not read the response.
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=499)

    async def health(self, request: web.Request) -> web.StreamResponse:
        """Answer a probe."""
        name = request.path.strip("/")
        if name == self.plan.liveness.strip("/"):
            return text_response(200, "ok")
        if name != self.plan.readiness.strip("/"):
            return text_response(404, f"ask /{self.plan.liveness.strip('/')} or /{self.plan.readiness.strip('/')}")
        missing = list(self.missing())
        if self.plan.webhook != OFF and not self.webhook_port:
            missing.append("the webhook server does not listen yet")
        return (
            text_response(503, "\n".join(("not ready:", *(f"- {one}" for one in missing))))
            if missing
            else text_response(200, "ok")
        )

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """Answer a scrape, if the client may read the metrics."""
        if request.path != METRICS_PATH:
            return text_response(404, f"metrics are at {METRICS_PATH}")
        if request.method not in ("GET", "HEAD"):
            return text_response(405, f"{request.method} is not supported for metrics; use GET")
        status = await self.access.judge(request.headers) if self.plan.secure else OK
        if status != OK:
            return refused(status)
        try:
            pieces = await in_steps(self.page())
        except Exception:
            LOG.exception("metrics: cannot collect")
            return text_response(500, "the metrics could not be collected; see the log of the manager")
        headers = {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("Accept-Encoding", "").lower():
            pieces = [await asyncio.to_thread(compressed, pieces)]
            headers["Content-Encoding"] = "gzip"
        response = web.StreamResponse(headers=headers)
        response.content_length = sum(map(len, pieces))
        await response.prepare(request)
        for piece in pieces if request.method != "HEAD" else ():
            await response.write(piece)
        await response.write_eof()
        return response


def compressed(pieces: Iterable[bytes]) -> bytes:
    """The pieces in the format of gzip."""
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_BITS)
    return b"".join((*(packer.compress(piece) for piece in pieces), packer.flush()))


async def sent(request: web.Request, answer: Answer, size: int) -> web.StreamResponse:
    """Send a response piece by piece."""
    response = web.StreamResponse(status=answer.status)
    response.content_type = answer.content_type
    response.content_length = size
    await response.prepare(request)
    for piece in answer.pieces:
        await response.write(piece)
    await response.write_eof()
    return response


def refused(status: int) -> web.Response:
    """The response to a client that may not read the metrics, or not now."""
    match status:
        case 401:
            response = text_response(UNAUTHORIZED, "send the token of a service account: Authorization: Bearer …")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        case 403:
            return text_response(FORBIDDEN, f"a role must allow you to get the nonResourceURL {METRICS_PATH}")
        case _:
            return text_response(status, "the API server did not say whether you may read the metrics; try again")


def text_response(status: int, message: str) -> web.Response:
    """A plain text response."""
    return web.Response(status=status, text=f"{message}\n")


def bind(setting: str, address: str) -> socket.socket:
    """A listening socket for an address in Go's form: `:8443`, `127.0.0.1:0`, `[::1]:8081`."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise EndpointError(f"{setting}: {address!r} is not an address; write host:port, or :port for all interfaces")
    if host in ("", "::") and socket.has_dualstack_ipv6():
        # If IPv6 is known but disabled, the error of IPv4 is the relevant one.
        with contextlib.suppress(OSError):
            return socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        raise EndpointError(
            f"{setting}: cannot listen on {address}: {error.strerror or error}; free the port or choose another"
        ) from error
