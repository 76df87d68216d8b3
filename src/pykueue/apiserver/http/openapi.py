"""OpenAPI 3 documents for every group version, for `kubectl explain` and client-side validation."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.names import KUBERNETES_VERSION
from pykueue.apiserver.http import openapiv2
from pykueue.apiserver.http.discovery import Discovery
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.schema.descriptions import described
from pykueue.apiserver.schema.nodes import OBJECT_META, REF
from pykueue.apiserver.schema.schemas import definitions, index
from pykueue.apiserver.wire.messages import OK, Headers, Request, Response, object_response
from pykueue.apiserver.wire.negotiation import JSON
from pykueue.apiserver.wire.options import first
from pykueue.apiserver.wire.statuserrors import unserved

INFO: Final[Tree] = {"title": "Kubernetes", "version": KUBERNETES_VERSION}
ROOT: Final = "/openapi/v3"
GVK: Final = "x-kubernetes-group-version-kind"
TEXT: Final[Tree] = {"type": "string", "uniqueItems": True}
NUMBER: Final[Tree] = {"type": "integer", "uniqueItems": True}
SWITCH: Final[Tree] = {"type": "boolean", "uniqueItems": True}
WRITE_PARAMETERS: Final = {"dryRun": TEXT, "fieldManager": TEXT, "fieldValidation": TEXT}
READ_PARAMETERS: Final = {
    "allowWatchBookmarks": SWITCH,
    "continue": TEXT,
    "fieldSelector": TEXT,
    "labelSelector": TEXT,
    "limit": NUMBER,
    "resourceVersion": TEXT,
    "resourceVersionMatch": TEXT,
    "sendInitialEvents": SWITCH,
    "timeoutSeconds": NUMBER,
    "watch": SWITCH,
}
DELETE_PARAMETERS: Final = {
    "dryRun": TEXT,
    "gracePeriodSeconds": NUMBER,
    "orphanDependents": SWITCH,
    "propagationPolicy": TEXT,
}
METHODS: Final = {
    "get": ("get", "get", {"pretty": TEXT}),
    "list": ("get", "list", READ_PARAMETERS),
    "create": ("post", "post", WRITE_PARAMETERS),
    "update": ("put", "put", WRITE_PARAMETERS),
    "patch": ("patch", "patch", WRITE_PARAMETERS | {"force": SWITCH}),
    "delete": ("delete", "delete", DELETE_PARAMETERS),
    "deletecollection": ("delete", "deletecollection", READ_PARAMETERS | DELETE_PARAMETERS),
}
"""The method, action and parameters of each verb."""
ON_ALL: Final = ("list", "create", "deletecollection")
"""Verbs on a collection; the others are on an object."""
META_DESCRIPTION: Final = "Standard object's metadata."
KIND_DESCRIPTION: Final = "Kind of the object."
VERSION_DESCRIPTION: Final = "Group and version of the API that the object is written in."


class OpenApi:
    """Serves OpenAPI documents, which are built on first use and cached until kinds change."""

    def __init__(self, discovery: Discovery) -> None:
        self.discovery = discovery
        self.stamp = -1
        self.kept: dict[str, tuple[bytes, str]] = {}
        """Documents and their hashes, by path such as `apis/batch/v1`; that of OpenAPI 2 by media type."""

    def answer(self, path: str, request: Request) -> Response | None:
        """The response to an OpenAPI path: a document or the index; None for any other path."""
        if path not in (ROOT, openapiv2.PATH) and not path.startswith(f"{ROOT}/"):
            return None
        self.discovery.refresh()
        if self.stamp != self.discovery.stamp:
            self.kept.clear()
            self.stamp = self.discovery.stamp
        if path == openapiv2.PATH:
            media = openapiv2.media_for(request.header("accept"))
            body, tag = self.older(media)
            return cached(request, body, tag, media)
        if path == ROOT:
            paths: Tree = {
                one: {"serverRelativeURL": f"{ROOT}/{one}?hash={self.document(one)[1]}"} for one in self.all()
            }
            return object_response(OK, {"paths": paths})
        wanted = path.removeprefix(f"{ROOT}/")
        if wanted not in self.all():
            raise unserved()
        body, tag = self.document(wanted)
        return cached(request, body, tag, JSON)

    def all(self) -> Iterator[str]:
        """The paths of all documents."""
        for group, versions in self.discovery.groups.items():
            for version in versions:
                yield f"apis/{group}/{version}" if group else f"api/{version}"

    def document(self, path: str) -> tuple[bytes, str]:
        """A document and its hash."""
        if path not in self.kept:
            *rest, version = path.split("/")
            group = rest[1] if len(rest) > 1 else ""
            self.keep(path, msgspec.json.encode(document(path, self.discovery.groups[group][version])))
        return self.kept[path]

    def older(self, media: str) -> tuple[bytes, str]:
        """The OpenAPI 2 document in one of its media types, and its hash."""
        if media not in self.kept:
            whole = openapiv2.document((msgspec.json.decode(self.document(path)[0]) for path in self.all()), INFO)
            self.keep(media, msgspec.json.encode(whole) if media == JSON else openapiv2.encoded(whole))
        return self.kept[media]

    def keep(self, name: str, body: bytes) -> None:
        """Cache a document until the kinds change."""
        self.kept[name] = (body, hashlib.sha256(body).hexdigest().upper()[:64])


def cached(request: Request, body: bytes, tag: str, media: str) -> Response:
    """The response with a document, or 304 if the client's copy is current."""
    headers: Headers = (("Content-Type", media), ("ETag", f'"{tag}"'), ("Vary", "Accept"))
    if first(request.query, "hash") == tag:
        # A document whose URL contains its hash never changes.
        headers = (*headers, ("Cache-Control", "public, immutable, max-age=31536000"))
    if request.header("if-none-match") == f'"{tag}"':
        return Response(304, b"", headers)
    return Response(OK, body, headers)


def document(path: str, kinds: Sequence[Served]) -> Tree:
    """The document of a group version."""
    paths: Tree = {}
    schemas = shared_schemas(kinds)
    for served in kinds:
        paths |= paths_of(path, served)
        schemas[definition_name(served)] = own_schema(served, schemas)
    return {"openapi": "3.0.0", "info": INFO, "paths": paths, "components": {"schemas": dict(sorted(schemas.items()))}}


def paths_of(root: str, served: Served) -> Tree:
    """The paths of a kind with their operations."""
    resource = served.resource
    scope = "namespaces/{namespace}/" if resource.namespaced else ""
    there = f"/{root}/{scope}{resource.plural}"
    gvk: Tree = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    made: Tree = {
        there: operations(served, [verb for verb in served.verbs if verb in ON_ALL], gvk),
        f"{there}/{{name}}": operations(served, [verb for verb in served.verbs if verb not in ON_ALL], gvk),
    }
    if resource.namespaced and "list" in served.verbs:
        made[f"/{root}/{resource.plural}"] = operations(served, ["list"], gvk)
    for name, sub in served.subresources.items():
        other: Tree = {"group": sub.group, "version": sub.version, "kind": sub.kind} if sub.version else gvk
        verbs = [verb for verb in sub.verbs if verb in METHODS]
        made[f"{there}/{{name}}/{name}"] = operations(served, verbs, other)
    return {path: held for path, held in made.items() if held}


def operations(served: Served, verbs: Iterable[str], gvk: Tree) -> Tree:
    """The operations of a path."""
    made: Tree = {}
    for verb in verbs:
        if verb not in METHODS:
            continue
        method, action, parameters = METHODS[verb]
        listed: list[Json] = [{"name": name, "in": "query", "schema": held} for name, held in parameters.items()]
        made[method] = {
            "operationId": f"{verb}{served.resource.kind}",
            "parameters": listed,
            "responses": {"200": answer_schema(served)},
            "x-kubernetes-action": action,
            GVK: gvk,
        }
    return made


def answer_schema(served: Served) -> Tree:
    """The schema of a response."""
    return {"description": "OK", "content": {JSON: {"schema": {"$ref": f"{REF}{definition_name(served)}"}}}}


def definition_name(served: Served) -> str:
    """The name of a kind's schema."""
    resource = served.resource
    if not served.custom:
        return index().get(resource.api_version, {}).get(resource.kind, resource.kind)
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def shared_schemas(kinds: Iterable[Served]) -> Tree:
    """The schemas that those of these kinds refer to."""
    versions = {served.resource.api_version for served in kinds if not served.custom}
    made: Tree = {}
    for version in sorted(versions):
        made |= definitions(version)
    return described(made or {name: held for name, held in definitions("v1").items() if ".meta.v1." in name})


def own_schema(served: Served, shared: Tree) -> Tree:
    """The schema of a kind."""
    resource = served.resource
    gvk: list[Json] = [{"group": resource.group, "version": resource.version, "kind": resource.kind}]
    if not served.custom:
        held = shared.get(definition_name(served))
        return (held if isinstance(held, dict) else {}) | {GVK: gvk}
    schema = served.schema
    raw = dict(schema.raw) if schema is not None else {}
    found = raw.get("properties")
    properties: Tree = dict(found) if isinstance(found, dict) else {}
    properties["apiVersion"] = {"description": VERSION_DESCRIPTION, "type": "string"}
    properties["kind"] = {"description": KIND_DESCRIPTION, "type": "string"}
    properties["metadata"] = {"description": META_DESCRIPTION, "allOf": [{"$ref": f"{REF}{OBJECT_META}"}]}
    return raw | {"type": "object", "properties": properties, GVK: gvk}
