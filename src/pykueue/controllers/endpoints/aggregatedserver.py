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
    AggregatedCall,
    AggregatedError,
    AggregatedGroup,
    AggregatedResource,
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


class AggregatedServer:
    """Serves some groups behind the API server."""

    def __init__(self, groups: Iterable[AggregatedGroup], proxy: FrontProxy, rights: Rights) -> None:
        self.groups = {group.name: group for group in groups}
        self.proxy = proxy
        self.rights = rights

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
        if request.method != "GET":
            message = "the server does not allow this method on the requested resource"
            raise AggregatedError(405, "MethodNotAllowed", message, {})
        match path.split("/")[1:]:
            case ["apis"]:
                return self.root(request.headers.get("Accept", ""))
            case ["apis", name] if name in self.groups:
                return json_response(group_tree(self.groups[name]) | {"kind": "APIGroup", "apiVersion": "v1"})
            case ["apis", name, version] if name in self.groups and version in self.groups[name].versions:
                return json_response(resource_list(self.groups[name], version))
            case ["apis", name, version, *rest] if name in self.groups and version in self.groups[name].versions:
                return await self.resource(self.groups[name], version, rest, user, request)
            case _:
                return web.Response(status=404, text="404 page not found\n")

    async def resource(
        self, group: AggregatedGroup, version: str, rest: list[str], user: RemoteUser, request: web.Request
    ) -> web.StreamResponse:
        """The response to a call on a resource."""
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        known = next((one for one in group.resources if [one.plural, one.subresource] == [rest[0], *rest[2:]]), None)
        if known is None or known.namespaced != bool(namespace):
            raise AggregatedError(404, "NotFound", "the server could not find the requested resource", {})
        name = rest[1]
        await self.rights.check(
            user, Attributes("get", group.name, version, known.plural, known.subresource, namespace, name)
        )
        query = {key: request.query.getall(key) for key in request.query}
        body = await group.answer(AggregatedCall(version, known.path, namespace, name, query))
        return await sent(request, body + b"\n")

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
        "resources": [entry for one in group.resources for entry in entries(one)],
    }


def entries(one: AggregatedResource) -> Iterator[Json]:
    """A resource and its subresource."""
    shared: Tree = {"namespaced": one.namespaced, "kind": one.kind}
    yield {"name": one.plural, "singularName": one.singular, **shared, "verbs": []}
    yield {"name": one.path, "singularName": "", **shared, "verbs": ["get"]}


def aggregated(group: AggregatedGroup) -> Tree:
    """A group with all its resources."""
    versions: list[Json] = []
    for version in group.versions:
        resources: list[Json] = []
        for one in group.resources:
            kind: Tree = {"group": group.name, "version": version, "kind": one.kind}
            resources.append(
                {
                    "resource": one.plural,
                    "responseKind": kind,
                    "scope": "Namespaced" if one.namespaced else "Cluster",
                    "singularResource": one.singular,
                    "verbs": [],
                    "subresources": [{"subresource": one.subresource, "responseKind": kind, "verbs": ["get"]}],
                }
            )
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


async def sent(request: web.Request, body: bytes) -> web.StreamResponse:
    """Send an object in pieces."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(request)
    for start in range(0, len(body), PIECE_BYTES):
        await response.write(body[start : start + PIECE_BYTES])
    await response.write_eof()
    return response
