"""Answers calls that the API server forwards to us by an APIService: discovery, rights, then the group's own answer."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from aiohttp import web

from pykueue.api.core import Json, Tree
from pykueue.controllers.endpoints.frontproxy import FrontProxy, RemoteUser
from pykueue.controllers.endpoints.rights import Attributes, Rights
from pykueue.kube.aggregated import (
    BODY_MAX,
    AggregatedCall,
    AggregatedError,
    AggregatedGroup,
    AggregatedResource,
    too_many,
    unavailable,
)

LOG: Final = logging.getLogger(__name__)

HEALTH: Final = ("/healthz", "/livez", "/readyz")
PIECE_BYTES: Final = 256 * 1024
"""The most bytes of a response that are encrypted at once."""
DISCOVERY: Final = "as=APIGroupDiscoveryList"
DISCOVERY_VERSIONS: Final = ("v2", "v2beta1")
UNPROVEN: Final = (
    "Unauthorized: call the API server, which forwards here; this connection has no certificate of its front proxy, or "
    "the request names no user"
)
RETRY_SECONDS: Final = 1
ANSWERED_MAX: Final = 32
"""The most calls on resources at a time: an answer may be large, and is in memory until it is sent."""
METHODS: Final = {"GET": "get", "POST": "create"}


class AuthorizedUser:
    """A user behind the API server, who has asked something."""

    def __init__(self, user: RemoteUser, rights: Rights) -> None:
        self.user = user
        self.rights = rights

    @property
    def name(self) -> str:
        """The name of the user."""
        return self.user.name

    async def may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        """Whether the user may use a verb on a resource."""
        plural, _, subresource = resource.partition("/")
        return await self.rights.granted(self.user, Attributes(verb, group, "*", plural, subresource, namespace, ""))


class AggregatedServer:
    """Serves some groups behind the API server."""

    def __init__(self, groups: Iterable[AggregatedGroup], proxy: FrontProxy, rights: Rights) -> None:
        self.groups = {group.name: group for group in groups}
        self.proxy = proxy
        self.rights = rights
        self.answering = 0
        """How many calls on resources are in progress."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The response to a request; errors are Status objects."""
        try:
            return await self.route(request)
        except AggregatedError as error:
            return refusal(error)
        except Exception:
            LOG.exception("aggregated API: %s %s failed", request.method, request.path)
            return refusal(AggregatedError(500, "InternalError", "the manager failed on this call; its log says how"))

    async def route(self, request: web.Request) -> web.StreamResponse:
        """The response to a request; refusals are raised."""
        path = request.path.rstrip("/") or "/"
        if path.removesuffix("/ping") in HEALTH:
            return web.Response(text="ok")
        if self.proxy.trust is None:
            raise unavailable("the manager does not know the API server's front proxy yet; try again", RETRY_SECONDS)
        certificate = None if request.transport is None else request.transport.get_extra_info("peercert")
        user = self.proxy.identify(certificate, request.headers)
        if user is None:
            raise AggregatedError(401, "Unauthorized", UNPROVEN)
        if request.method not in METHODS:
            raise disallowed()
        match path.split("/")[1:]:
            case ["apis", name, version, *rest] if (
                rest and name in self.groups and version in self.groups[name].versions
            ):
                return await self.resource(self.groups[name], version, rest, user, request)
            case _ if request.method != "GET":
                raise disallowed()
            case ["apis"]:
                return self.root(request.headers.get("Accept", ""))
            case ["apis", name] if name in self.groups:
                return json_response(group_tree(self.groups[name]) | {"kind": "APIGroup", "apiVersion": "v1"})
            case ["apis", name, version] if name in self.groups and version in self.groups[name].versions:
                return json_response(resource_list(self.groups[name], version))
            case _:
                return web.Response(status=404, text="404 page not found\n")

    async def resource(
        self, group: AggregatedGroup, version: str, rest: list[str], user: RemoteUser, request: web.Request
    ) -> web.StreamResponse:
        """The response to a call on a resource."""
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "")[:3]
        known = next((one for one in group.resources if (one.plural, one.subresource) == (plural, subresource)), None)
        if known is None or known.namespaced != bool(namespace) or bool(name) is not bool(subresource) or len(rest) > 3:
            raise AggregatedError(404, "NotFound", "the server could not find the requested resource", {})
        if METHODS[request.method] != known.verb:
            raise disallowed()
        wanted = Attributes(known.verb, group.name, version, known.plural, known.subresource, namespace, name)
        await self.rights.check(user, wanted)
        if self.answering >= ANSWERED_MAX:
            raise too_many("the manager answers many such calls already; try again", RETRY_SECONDS)
        self.answering += 1
        try:
            query = {key: request.query.getall(key) for key in request.query}
            caller = AuthorizedUser(user, self.rights)
            body = await body_of(request) if known.verb == "create" else b""
            found = await group.answer(AggregatedCall(version, known.path, namespace, name, caller, query, body))
            return await sent(request, found + b"\n", 201 if known.verb == "create" else 200)
        finally:
            self.answering -= 1

    def root(self, accept: str) -> web.Response:
        """All groups, with their resources if the client asks for aggregated discovery."""
        asked = [part for part in accept.replace(" ", "").split(",") if DISCOVERY in part.split(";")]
        version = next((one for one in DISCOVERY_VERSIONS for part in asked if f"v={one}" in part.split(";")), "")
        if version:
            media = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            items: list[Json] = [aggregated(group) for group in self.groups.values()]
            tree: Tree = {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": f"apidiscovery.k8s.io/{version}",
                "metadata": {},
                "items": items,
            }
            return json_response(tree, media=media)
        groups: list[Json] = [group_tree(group) for group in self.groups.values()]
        return json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})


def group_tree(group: AggregatedGroup) -> Tree:
    """A group and its versions."""
    listed: list[Json] = [{"groupVersion": f"{group.name}/{one}", "version": one} for one in group.versions]
    return {"name": group.name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(group: AggregatedGroup, version: str) -> Tree:
    """The resources of a version."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group.name}/{version}",
        "resources": [entry for same in group.by_plural() for entry in entries(same)],
    }


def entries(same: tuple[AggregatedResource, ...]) -> Iterator[Json]:
    """A resource and its subresources."""
    one = same[0]
    verbs: list[Json] = [sub.verb for sub in same if not sub.subresource]
    shared: Tree = {"namespaced": one.namespaced, "kind": one.kind}
    yield {"name": one.plural, "singularName": one.singular, **shared, "verbs": verbs}
    for sub in same:
        if sub.subresource:
            yield {"name": sub.path, "singularName": "", **shared, "kind": sub.kind, "verbs": [sub.verb]}


def aggregated(group: AggregatedGroup) -> Tree:
    """A group with all its resources."""
    versions: list[Json] = []
    for version in group.versions:
        resources: list[Json] = []
        for same in group.by_plural():
            one = same[0]
            verbs: list[Json] = [sub.verb for sub in same if not sub.subresource]
            listed: Tree = {
                "resource": one.plural,
                "responseKind": {"group": group.name, "version": version, "kind": one.kind},
                "scope": "Namespaced" if one.namespaced else "Cluster",
                "singularResource": one.singular,
                "verbs": verbs,
            }
            subresources: list[Json] = [
                {
                    "subresource": sub.subresource,
                    "responseKind": {"group": group.name, "version": version, "kind": sub.kind},
                    "verbs": [sub.verb],
                }
                for sub in same
                if sub.subresource
            ]
            if subresources:
                listed["subresources"] = subresources
            resources.append(listed)
        versions.append({"version": version, "resources": resources, "freshness": "Current"})
    return {"metadata": {"name": group.name}, "versions": versions}


def json_response(tree: Tree, *, status: int = 200, media: str = "application/json") -> web.Response:
    """A response with an object."""
    return web.Response(status=status, body=msgspec.json.encode(tree) + b"\n", headers={"Content-Type": media})


def refusal(error: AggregatedError) -> web.Response:
    """The response for an error."""
    tree: Tree = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
    }
    if error.details is not None:
        tree["details"] = error.details
    response = json_response(tree | {"code": error.code}, status=error.code)
    retry = (error.details or {}).get("retryAfterSeconds")
    if retry:
        response.headers["Retry-After"] = str(retry)
    return response


def disallowed() -> AggregatedError:
    """The resource has no such verb."""
    return AggregatedError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
    )


async def body_of(request: web.Request) -> bytes:
    """The body of a request, up to a limit."""
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        if len(body) > BODY_MAX:
            raise AggregatedError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_MAX}")
    return bytes(body)


async def sent(request: web.Request, body: bytes, status: int) -> web.StreamResponse:
    """Send an object in pieces."""
    response = web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(request)
    for start in range(0, len(body), PIECE_BYTES):
        await response.write(body[start : start + PIECE_BYTES])
    await response.write_eof()
    return response
