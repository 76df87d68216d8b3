"""Discovery: the groups, versions and resources of the API, in each form that clients request."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.names import SERVER_VERSION
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.wire.messages import OK, Request, Response, object_response
from pykueue.apiserver.wire.negotiation import JSON, wanted
from pykueue.apiserver.wire.statuserrors import unserved

VERSION: Final[Tree] = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": SERVER_VERSION,
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
"""The Kubernetes version of this API."""
MATURITY: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?", re.ASCII)
STAGES: Final = {"": 3, "beta": 2, "alpha": 1}
NOT_MODIFIED: Final = 304
CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


def rank(version: str) -> tuple[int, int, int, str]:
    """A sort key that puts the version preferred by clients first."""
    found = MATURITY.fullmatch(version)
    if found is None:
        return (0, 0, 0, version)
    return (-STAGES[found[2] or ""], -int(found[1]), -int(found[3] or 0), "")


class Discovery:
    """Serves discovery documents, cached until the catalog changes."""

    def __init__(self, catalog: Catalog, also: Iterable[Served] = ()) -> None:
        self.catalog = catalog
        self.also = tuple(also)
        """Resources that are not in the catalog."""
        self.stamp = -1
        self.groups: dict[str, dict[str, list[Served]]] = {}
        """The kinds by group and version, versions in the order of preference."""
        self.kept: dict[str, tuple[bytes, str]] = {}
        """Responses and their ETags, by request."""

    def refresh(self) -> None:
        """Rebuild the cached documents if the catalog has changed."""
        if self.stamp == self.catalog.stamp:
            return
        found: dict[str, dict[str, list[Served]]] = {}
        for served in (*self.catalog.all(), *self.also):
            found.setdefault(served.resource.group, {}).setdefault(served.resource.version, []).append(served)
        self.groups = {
            group: {version: found[group][version] for version in sorted(found[group], key=rank)}
            for group in sorted(found)
        }
        self.kept.clear()
        self.stamp = self.catalog.stamp

    def knows(self, group: str, version: str) -> bool:
        """Whether this group version is served; for a built-in group, whether the group is."""
        self.refresh()
        return version in self.groups.get(group, {}) or self.is_built_in(group)

    def is_built_in(self, group: str) -> bool:
        """Whether a group is served without a CustomResourceDefinition."""
        return any(not one.custom for kinds in self.groups.get(group, {}).values() for one in kinds)

    def answer(self, path: str, request: Request) -> Response | None:
        """The response to a discovery path; None for any other path."""
        self.refresh()
        match path.strip("/").split("/"):
            case ["api" | "apis" as root]:
                return self.root(root, request)
            case ["api", version] if version in self.groups.get("", {}):
                return self.tagged(path, resource_list("", version, self.groups[""][version]), request)
            case ["apis", group] if group and group in self.groups:
                return self.tagged(path, group_tree(group, self.groups[group]), request)
            case ["apis", group, version] if group and version in self.groups.get(group, {}):
                return self.tagged(path, resource_list(group, version, self.groups[group][version]), request)
            case ["apis", group, _] if group and self.is_built_in(group):
                raise unserved()
            case _:
                return None

    def root(self, root: str, request: Request) -> Response:
        """All groups; with aggregated discovery, all their resources too."""
        choice = wanted(request.header("accept"), forms=("object", "discovery"))
        mine = {group: held for group, held in self.groups.items() if (group == "") == (root == "api")}
        if choice.form == "discovery":
            media = f"{JSON};g=apidiscovery.k8s.io;v={choice.version};as=APIGroupDiscoveryList"
            return self.tagged(f"{root} {choice.version}", everything(mine, choice.version), request, media)
        if root == "api":
            host = request.header("host") or "127.0.0.1"
            return self.tagged(f"{root} {host}", versions_tree(mine.get("", {}), host), request)
        groups: list[Json] = [group_tree(group, held, kind=False) for group, held in mine.items()]
        return self.tagged(root, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}, request)

    def tagged(self, key: str, tree: Tree, request: Request, media: str = JSON) -> Response:
        """A response with an ETag, or 304 if the client's copy is current."""
        if key not in self.kept:
            body = msgspec.json.encode(tree) + b"\n"
            self.kept[key] = (body, f'"{hashlib.sha256(body).hexdigest().upper()}"')
        body, tag = self.kept[key]
        headers = (("ETag", tag), ("Vary", "Accept"), ("Cache-Control", "public"))
        if request.header("if-none-match") == tag:
            return Response(NOT_MODIFIED, b"", headers)
        return Response(OK, body, (("Content-Type", media), *headers))


def versions_tree(versions: Iterable[str], host: str) -> Tree:
    """The versions of the core group, and the server address that the client used."""
    addresses: list[Json] = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
    return {"kind": "APIVersions", "versions": [*versions], "serverAddressByClientCIDRs": addresses}


def group_tree(group: str, versions: Iterable[str], *, kind: bool = True) -> Tree:
    """A group and its versions."""
    listed: list[Json] = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    said: Tree = {"kind": "APIGroup", "apiVersion": "v1"} if kind else {}
    return said | {"name": group, "versions": listed, "preferredVersion": listed[0]}


def resource_list(group: str, version: str, kinds: Iterable[Served]) -> Tree:
    """The resources of a group version."""
    api_version = f"{group}/{version}" if group else version
    # The core group has the older form, without group and version of each resource.
    made: Tree = {"kind": "APIResourceList"}
    if group:
        made["apiVersion"] = "v1"
    return made | {"groupVersion": api_version, "resources": resources(kinds)}


def resources(kinds: Iterable[Served]) -> list[Json]:
    """The resources, each followed by its subresources."""
    listed: list[Json] = []
    for served in kinds:
        resource = served.resource
        one: Tree = {
            "name": resource.plural,
            "singularName": served.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": verbs_of(served),
        }
        one |= named_also(served)
        if served.kept:
            one["storageVersionHash"] = storage_hash(served)
        listed.append(one)
        for name, sub in sorted(served.subresources.items()):
            part: Tree = {
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": sub.kind,
                "verbs": [*sub.verbs],
            }
            if sub.version:
                part |= {"group": sub.group, "version": sub.version}
            listed.append(part)
    return listed


def verbs_of(served: Served) -> list[Json]:
    """The verbs of a kind; custom kinds list them in another order, as in kube-apiserver."""
    return [verb for verb in CUSTOM_VERBS if verb in served.verbs] if served.custom else [*served.verbs]


def storage_hash(served: Served) -> str:
    """The hash by which clients recognise the storage version."""
    # Without a group, the text before the first slash is empty.
    version = served.stored_version if "/" in served.stored_version else f"/{served.stored_version}"
    return b64encode(hashlib.sha256(f"{version}/{served.resource.kind}".encode()).digest()[:8]).decode()


def named_also(served: Served) -> Tree:
    """The short names and categories of a kind."""
    also: Tree = {}
    if served.short_names:
        also["shortNames"] = [*served.short_names]
    if served.categories:
        also["categories"] = [*served.categories]
    return also


def everything(groups: dict[str, dict[str, list[Served]]], version: str) -> Tree:
    """The aggregated discovery document: all groups with all resources."""
    items: list[Json] = []
    for group, versions in groups.items():
        about: Tree = {"name": group} if group else {}
        listed: list[Json] = [
            {"version": name, "resources": [aggregated(one) for one in kinds], "freshness": "Current"}
            for name, kinds in versions.items()
        ]
        items.append({"metadata": about, "versions": listed})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def aggregated(served: Served) -> Tree:
    """A resource with its subresources, for aggregated discovery."""
    resource = served.resource
    made: Tree = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": verbs_of(served),
    }
    subs: list[Json] = [
        {
            "subresource": name,
            "responseKind": {
                "group": sub.group if sub.version else resource.group,
                "version": sub.version or resource.version,
                "kind": sub.kind,
            },
            "verbs": [*sub.verbs],
        }
        for name, sub in sorted(served.subresources.items())
    ]
    return made | named_also(served) | ({"subresources": subs} if subs else {})


def version_answer(accept: str) -> Response:
    """The response to `/version`, for clients that accept JSON."""
    wanted(accept, forms=("object",), types=(JSON,))
    return object_response(OK, VERSION)
