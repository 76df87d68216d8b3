"""Handles a request from authentication to response, without the socket.

`server` puts it behind TLS; tests and callers in the same process call `Front.answer` directly.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.auth.access import Access
from pykueue.apiserver.auth.accessreviews import review
from pykueue.apiserver.http import openapiv2
from pykueue.apiserver.http.aggregatedapi import AggregatedApi, AuthorizedIdentity
from pykueue.apiserver.http.discovery import Discovery, version_answer
from pykueue.apiserver.http.openapi import OpenApi
from pykueue.apiserver.http.ownapi import OwnApi, is_own
from pykueue.apiserver.http.pendingview import Reasons
from pykueue.apiserver.http.queries import exact_name
from pykueue.apiserver.http.resources import Objects, disallowed, is_large_request
from pykueue.apiserver.schema.apply import tracked
from pykueue.apiserver.verbs.registry import Registry
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.messages import (
    CREATED,
    OK,
    Request,
    Response,
    error_response,
    object_response,
    text_response,
)
from pykueue.apiserver.wire.negotiation import check_media, object_in
from pykueue.apiserver.wire.options import first, write_terms
from pykueue.apiserver.wire.paths import RequestInfo, request_info
from pykueue.apiserver.wire.statuserrors import (
    BODY_MAX,
    StatusError,
    bad_request,
    internal,
    too_large,
    unauthorized,
    unserved,
)
from pykueue.base.clock import Clock
from pykueue.base.turns import in_steps
from pykueue.base.units import format_instant
from pykueue.kube.execs import ExecSource
from pykueue.kube.logs import LogSource

LOG: Final = logging.getLogger(__name__)

HEALTH: Final = ("/healthz", "/livez", "/readyz")
NO_PAGE: Final = "404 page not found\n"
METRICS: Final = "/metrics"
PAGE_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REVIEW_GROUPS: Final = ("authentication.k8s.io", "authorization.k8s.io")
ROOT_PATHS: Final = ("/api", "/apis", *HEALTH, METRICS, openapiv2.PATH, "/openapi/v3", "/version")


def name_task(title: str) -> None:
    """Name the running task after its request, for reports of the event loop's watchdog."""
    task = asyncio.current_task()
    if task is not None:
        task.set_name(title)


def nothing_missing() -> Iterable[str]:
    """The default readiness check: nothing is missing."""
    return ()


class Front:
    """The HTTP API without its socket."""

    def __init__(
        self,
        registry: Registry,
        access: Access,
        clock: Clock,
        logs: LogSource | None = None,
        *,
        execs: ExecSource | None = None,
        page: Callable[[], Generator[None, None, list[bytes]]] | None = None,
        page_type: str = PAGE_TYPE,
        missing: Callable[[], Iterable[str]] = nothing_missing,
        reasons: Reasons | None = None,
        own: OwnApi | None = None,
        aggregated: AggregatedApi | None = None,
    ) -> None:
        self.access = access
        self.own = own
        """Serves the jobs as people list them."""
        self.aggregated = aggregated or AggregatedApi()
        self.objects = Objects(registry, clock, logs, reasons, execs)
        access.creator = self.objects.creator
        self.discovery = Discovery(registry.catalog, self.aggregated.kinds())
        self.openapi = OpenApi(self.discovery)
        self.page = page
        """Renders the metrics, in steps."""
        self.page_type = page_type
        self.missing = missing
        """What is missing before the server is ready."""

    def is_question(self, request: Request) -> bool:
        """Whether a request changes nothing, although its verb is that of a write."""
        call = request_info(request.verb, request.path, request.query)
        return call is not None and call.group in self.aggregated.groups

    async def answer(self, request: Request, who: Identity | None = None) -> Response:
        """The response to a request; errors are responses too.

        A caller in this process that has identified the user itself gives that user; credentials are not read then.
        """
        try:
            return await self.route(request, who)
        except StatusError as error:
            return error_response(error)
        except RecursionError:
            return error_response(bad_request("exceeded max depth"))
        except Exception:
            LOG.exception("%s %s failed", request.verb, request.path)
            return error_response(internal("the server failed on this call; its log says how"))

    async def route(self, request: Request, who: Identity | None = None) -> Response:
        """The response to a request; refusals are raised as `StatusError`."""
        if len(request.body) > BODY_MAX:
            raise too_large()
        if who is None:
            who = self.access.authenticate(request.headers, request.certificate)
        name_task(f"{request.verb} {request.path} by {who.name}")
        call = request_info(request.verb, request.path, request.query)
        if call is None:
            self.access.check(who, request.verb.lower(), call=None, path=request.path)
            return await self.non_resource(request)
        self.access.check(who, call.verb, call=self.authorized_as(call, request), path=request.path)
        if self.own is not None and is_own(call):
            return await self.own.answer(call, request, who)
        if call.group in self.aggregated.groups and self.discovery.knows(call.group, call.version):
            return await self.aggregated.answer(call, request, AuthorizedIdentity(who, self.access))
        if not self.discovery.knows(call.group, call.version):
            return text_response(404, NO_PAGE)
        if request.verb == "HEAD":
            raise disallowed()
        if call.group in REVIEW_GROUPS and call.verb == "create":
            large = is_large_request(request)
            async with self.objects.registry.offload.turn(who, large=large):
                work = partial(self.review, call, request, who)
                return await self.objects.registry.offload.run(work, large=large, who=who)
        response = msgspec.structs.replace(await self.objects.answer(call, request, who), reader=who.name)
        if response.upgrade is None:
            return response
        upgrade = msgspec.structs.replace(response.upgrade, allowed=partial(self.still_allowed, call, request, who))
        return msgspec.structs.replace(response, upgrade=upgrade)

    def still_allowed(self, call: RequestInfo, request: Request, who: Identity) -> None:
        """Raise a `StatusError` if a caller's credentials, or the right that they gave, are no longer valid."""
        present = self.access.authenticate(request.headers, request.certificate)
        if present.name != who.name:
            raise unauthorized()
        self.access.check(present, call.verb, call=call, path=request.path)

    def authorized_as(self, call: RequestInfo, request: Request) -> RequestInfo:
        """The call as authorized: a list or watch restricted to one name is authorized for that name."""
        if call.name or call.verb not in ("list", "watch"):
            return call
        name = exact_name(first(request.query, "fieldSelector"))
        return RequestInfo(call.verb, call.group, call.version, call.plural, call.namespace, name) if name else call

    def review(self, call: RequestInfo, request: Request, who: Identity) -> Response:
        """The response to an access review."""
        served = self.objects.served(call)
        kind, api_version = served.resource.kind, served.resource.api_version
        tree: Tree = {"kind": kind, "apiVersion": api_version}
        tree |= object_in(request.body, check_media(request.header("content-type")))
        terms = write_terms("create", request.query, who, request.header("user-agent"))
        now = self.objects.clock.now()
        schema = served.schema
        if schema is not None:
            moment = format_instant(now)
            tree = tracked(None, tree, manager=terms.manager, api_version=api_version, schema=schema, now=moment)
        answered = review(self.access, who, kind, tree, call.namespace, now)
        if answered is None:
            raise unserved()
        return object_response(CREATED, answered)

    async def non_resource(self, request: Request) -> Response:
        """The response to a path that is not a resource."""
        path = request.path.rstrip("/") or "/"
        if request.verb not in ("GET", "HEAD"):
            raise disallowed()
        if path.removesuffix("/ping") in HEALTH:
            return self.health(path)
        if path == "/version":
            return version_answer(request.header("accept"))
        if path == METRICS and self.page is not None:
            pieces = await in_steps(self.page())
            # In a thread, since a long text takes milliseconds to copy.
            body = await asyncio.to_thread(b"".join, pieces)
            return Response(OK, body, (("Content-Type", self.page_type),))
        if path == "/":
            return object_response(OK, {"paths": [*ROOT_PATHS]})
        found = self.discovery.answer(path, request) or self.openapi.answer(path, request)
        if found is None and path.startswith("/api/"):
            raise unserved()
        return found if found is not None else text_response(404, NO_PAGE)

    def health(self, path: str) -> Response:
        """The response to a health or readiness probe."""
        missing = [*self.missing()] if path == "/readyz" else []
        if not missing:
            return text_response(OK, "ok")
        return text_response(503, "\n".join(("not ready:", *(f"- {one}" for one in missing))) + "\n")
