"""How does a test talk to the API server? Plain calls that block, and waiting that says what it last saw.

Objects are plain trees, as JSON has them. A resource is named by its kind (`"Job"`, `"ClusterQueue"`), or given as a
`Resource` where a kind is not in the table below.
"""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import yaml

from pykueue.api.kinds import KINDS
from pykueue.kube import port
from pykueue.kube.port import Patch, Resource
from tests import patience

Tree = dict[str, Any]

RESOURCES: dict[str, Resource] = {
    **{kind: port.kueue(kind) for kind in KINDS},
    **{
        known.kind: known
        for known in (
            port.JOBS,
            port.PODS,
            port.LIMIT_RANGES,
            port.RUNTIME_CLASSES,
            port.PRIORITY_CLASSES,
            port.EVENTS,
            port.LEASES,
            port.SECRETS,
            port.CRDS,
            port.MUTATING_WEBHOOKS,
            port.VALIDATING_WEBHOOKS,
            Resource("", "v1", "namespaces", "Namespace"),
            Resource("", "v1", "nodes", "Node"),
            Resource("", "v1", "services", "Service", True),
            Resource("", "v1", "configmaps", "ConfigMap", True),
            Resource("", "v1", "podtemplates", "PodTemplate", True),
            Resource("", "v1", "serviceaccounts", "ServiceAccount", True),
            Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"),
            Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding"),
        )
    },
}

WAIT = 40.0
"""Seconds after which a wait gives up unless it says otherwise; a busy machine takes several for what takes one."""


class ApiError(Exception):
    """An answer that is no success."""

    def __init__(self, what: str, code: int, status: Tree) -> None:
        super().__init__(f"{what}: {code} {status.get('reason', '')}: {status.get('message', '')}")
        self.code = code
        self.reason = str(status.get("reason", ""))
        self.message = str(status.get("message", ""))


class Late(AssertionError):
    """What was waited for did not come."""


def resource_of(named: str | Resource | Tree) -> Resource:
    """Where the API serves a kind, a resource, or an object's own kind in its own version."""
    if isinstance(named, Resource):
        return named
    if isinstance(named, str):
        return RESOURCES[named]
    group, _, version = str(named["apiVersion"]).rpartition("/")
    kind = str(named["kind"])
    known = RESOURCES.get(kind)
    if known is not None:
        return Resource(group, version, known.plural, kind, known.namespaced)
    plural = kind.lower()
    plural = f"{plural[:-1]}ies" if plural.endswith("y") else f"{plural}s"
    return Resource(group, version, plural, kind, "namespace" in named["metadata"])


def path_of(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path under which the API serves an object or a list."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    inside = f"/namespaces/{quote(namespace)}" if resource.namespaced and namespace else ""
    return "".join(
        (
            f"{root}{inside}/{resource.plural}",
            f"/{quote(name, safe='')}" if name else "",
            f"/{subresource}" if subresource else "",
        )
    )


def shown(tree: Tree | None) -> str:
    """An object as people read it, without what only the server reads."""
    if tree is None:
        return "(no such object)"
    meta = {key: value for key, value in tree.get("metadata", {}).items() if key != "managedFields"}
    return yaml.safe_dump({**tree, "metadata": meta}, sort_keys=False, width=160)


class Calls(ABC):
    """Calls to one API server as one user, however they reach it, and the time that passes meanwhile."""

    def __init__(self) -> None:
        self.report: Callable[[str], str] = lambda about: ""
        """What to add to the message of a wait that failed; told the object's name."""

    @abstractmethod
    def raw(
        self, verb: str, path: str, body: object = None, content_type: str = "application/json", timeout: float = 30.0
    ) -> tuple[int, bytes]:
        """Code and body of an answer."""

    @abstractmethod
    def soon(self, holds: Callable[[], bool], timeout: float = WAIT) -> bool:
        """Whether something comes true in time."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def following(
        self, named: str | Resource, namespace: str, tell: Callable[[Tree], None]
    ) -> AbstractContextManager[None]:
        """Have every event of a watch told until the block ends, up to what was written last in it."""

    def request(
        self, verb: str, path: str, body: object = None, content_type: str = "application/json", timeout: float = 30.0
    ) -> Tree:
        """The object in an answer; `ApiError` unless it is a success. A server that asks for patience gets it."""
        code, data = self.raw(verb, path, body, content_type, timeout)
        patience = timeout
        while code == 429 and patience > 0:
            self.sleep(0.2)
            patience -= 0.2
            code, data = self.raw(verb, path, body, content_type, timeout)
        try:
            tree = json.loads(data) if data else {}
        except ValueError:
            tree = {"message": data.decode(errors="replace")}
        if code >= 400:
            raise ApiError(f"{verb} {path}", code, tree)
        return tree if isinstance(tree, dict) else {"value": tree}

    def text(self, path: str) -> str:
        """The body under a path, whatever it is."""
        return self.raw("GET", path)[1].decode(errors="replace")

    def get(self, named: str | Resource, name: str, namespace: str = "") -> Tree:
        return self.request("GET", path_of(resource_of(named), namespace, name))

    def find(self, named: str | Resource, name: str, namespace: str = "") -> Tree | None:
        """The object, or nothing when there is none."""
        try:
            return self.get(named, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def objects(self, named: str | Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[Tree]:
        asked = {"labelSelector": labels, "fieldSelector": fields}
        query = urlencode({key: value for key, value in asked.items() if value})
        found = self.request("GET", path_of(resource_of(named), namespace) + (f"?{query}" if query else ""))
        items: list[Tree] = found["items"]
        return items

    def create(self, tree: Tree) -> Tree:
        meta = tree["metadata"]
        return self.request("POST", path_of(resource_of(tree), meta.get("namespace", "")), tree)

    def replace(self, tree: Tree, subresource: str = "") -> Tree:
        meta = tree["metadata"]
        path = path_of(resource_of(tree), meta.get("namespace", ""), meta["name"], subresource)
        return self.request("PUT", path, tree)

    def apply(self, tree: Tree, manager: str = "tests", subresource: str = "") -> Tree:
        """The object after a server-side apply that takes what others own."""
        meta = tree["metadata"]
        path = path_of(resource_of(tree), meta.get("namespace", ""), meta["name"], subresource)
        query = urlencode({"fieldManager": manager, "force": "true"})
        return self.request("PATCH", f"{path}?{query}", tree, Patch.APPLY)

    def patch(
        self,
        named: str | Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        how: Patch = Patch.MERGE,
        subresource: str = "",
    ) -> Tree:
        return self.request("PATCH", path_of(resource_of(named), namespace, name, subresource), body, how)

    def delete(self, named: str | Resource, name: str, namespace: str = "", propagation: str = "Background") -> None:
        """Have an object deleted; one that is gone already is no error."""
        with contextlib.suppress(LookupError):
            try:
                body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
                self.request("DELETE", path_of(resource_of(named), namespace, name), body)
            except ApiError as error:
                if error.code != 404:
                    raise

    def wait_for(
        self,
        named: str | Resource,
        name: str,
        namespace: str = "",
        until: Callable[[Tree], bool] = lambda tree: True,
        timeout: float = WAIT,
        what: str = "",
    ) -> Tree:
        """The object once `until` holds for it; else an error with its last state, its events and the log."""
        resource = resource_of(named)
        seen: list[Tree | None] = [None]

        def holds() -> bool:
            seen[0] = self.find(resource, name, namespace)
            return seen[0] is not None and until(seen[0])

        if not self.soon(holds, timeout):
            wanted = what or "what was waited for"
            raise Late(
                f"{resource.kind} {namespace}/{name}: {wanted} did not come within {timeout} s. It is now:\n"
                f"{shown(seen[0])}\n{self.events_text(name, namespace)}\n{self.report(name)}"
            )
        assert seen[0] is not None
        return seen[0]

    def wait_gone(self, named: str | Resource, name: str, namespace: str = "", timeout: float = WAIT) -> None:
        """Return once the object does not exist."""
        resource = resource_of(named)
        if not self.soon(lambda: self.find(resource, name, namespace) is None, timeout):
            still = shown(self.find(resource, name, namespace))
            raise Late(
                f"{resource.kind} {namespace}/{name} is still there after {timeout} s:\n{still}\n{self.report(name)}"
            )

    def events(self, name: str = "", namespace: str = "") -> list[Tree]:
        """Events about objects of this name, oldest first."""
        found = [tree for tree in self.objects("Event", namespace) if name in ("", tree["regarding"].get("name"))]
        return sorted(found, key=lambda tree: (tree.get("eventTime") or "", tree["metadata"]["creationTimestamp"]))

    def events_text(self, name: str, namespace: str) -> str:
        lines = [
            f"  {tree.get('type')} {tree.get('reason')}: {tree.get('note', '')}"
            for tree in self.events(name, namespace)
        ]
        return "\n".join(["Events about it:", *lines]) if lines else "No events about it."


class Client(Calls):
    """Calls over HTTPS, from any thread."""

    def __init__(self, url: str, token: str, ca: str, agent: str = "tests") -> None:
        super().__init__()
        self.url = url
        self.host = urlsplit(url).netloc
        self.tls = ssl.create_default_context(cafile=ca)
        self.headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": agent}
        self.held = threading.local()
        self.open: set[http.client.HTTPSConnection] = set()

    def connection(self, timeout: float) -> http.client.HTTPSConnection:
        """This thread's connection."""
        kept: http.client.HTTPSConnection | None = getattr(self.held, "connection", None)
        if kept is None:
            kept = http.client.HTTPSConnection(self.host, context=self.tls, timeout=timeout)
            self.held.connection = kept
            self.open.add(kept)
        return kept

    def forget_connection(self) -> None:
        kept: http.client.HTTPSConnection | None = getattr(self.held, "connection", None)
        if kept is not None:
            kept.close()
            self.open.discard(kept)
            self.held.connection = None

    def close(self) -> None:
        """Close every connection; the client can be used again all the same."""
        for connection in list(self.open):
            connection.close()

    def raw(
        self, verb: str, path: str, body: object = None, content_type: str = "application/json", timeout: float = 30.0
    ) -> tuple[int, bytes]:
        """Code and body of an answer. A read that failed on an old connection is asked once more."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {**self.headers, **({"Content-Type": content_type} if data is not None else {})}
        for again in (True, False):
            fresh = getattr(self.held, "connection", None) is None
            connection = self.connection(timeout)
            try:
                connection.request(verb, path, data, headers)
                answer = connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                self.forget_connection()
                # The server closes connections when it restarts; whether it took a write first is not known.
                if not again or (fresh and verb != "GET"):
                    raise
        raise AssertionError("not reached: the second attempt returns or raises")

    @staticmethod
    def soon(holds: Callable[[], bool], timeout: float = WAIT) -> bool:
        """Whether something comes true in time."""
        return patience.soon(holds, timeout)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    @contextlib.contextmanager
    def following(self, named: str | Resource, namespace: str, tell: Callable[[Tree], None]) -> Iterator[None]:
        """Have every event of a watch told, by a thread, until the block ends."""
        watch = self.watch(named, namespace, timeout=120)

        def follow() -> None:
            for event in watch:
                tell(event)

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
            # What was written last is on its way to us.
            time.sleep(0.3)
        finally:
            watch.close()
            thread.join()
            watch.free()

    def watch(self, named: str | Resource, namespace: str = "", version: str = "", timeout: float = 300.0) -> "Watch":
        """A watch on a connection of its own; events come from the version, or with all that is there first."""
        asked = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(int(timeout))}
        query = urlencode({key: value for key, value in asked.items() if value})
        return Watch(self, f"{path_of(resource_of(named), namespace)}?{query}", timeout)


class Watch:
    """Events of a watch, to iterate over until the server ends it or somebody closes it."""

    def __init__(self, client: Client, path: str, timeout: float) -> None:
        self.connection = http.client.HTTPSConnection(client.host, context=client.tls, timeout=timeout + 5)
        self.connection.request("GET", path, headers=client.headers)
        self.answer = self.connection.getresponse()
        if self.answer.status >= 400:
            status = json.loads(self.answer.read())
            self.close()
            raise ApiError(f"watch {path}", self.answer.status, status)

    def __iter__(self) -> Iterator[Tree]:
        with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            while line := self.answer.readline():
                yield json.loads(line)

    def close(self) -> None:
        """End it, from any thread."""
        with contextlib.suppress(OSError, AttributeError):
            self.connection.sock.shutdown(socket.SHUT_RDWR)

    def free(self) -> None:
        """Let go of the connection, once nobody iterates any more."""
        self.answer.close()
        self.connection.close()


def condition(tree: Mapping[str, Any], type_: str) -> Tree:
    """A condition of an object's status; empty when it is not there."""
    found: list[Tree] = tree.get("status", {}).get("conditions") or []
    return next((one for one in found if one["type"] == type_), {})
