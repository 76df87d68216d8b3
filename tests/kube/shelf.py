"""Where do tests of a few writes keep objects? A `Kube` in memory, with versions and conflicts as a server has."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from pykueue.base.units import MICROS, Instant
from pykueue.kube.port import ConflictError, ExistsError, KubeError, NotFoundError, Patch, RejectedError, Resource
from tests.clocks import OneFace

Key = tuple[str, str, str]


class Shelf:
    """Objects by resource, namespace and name. `before` is called ahead of each request, and may raise a KubeError."""

    def __init__(self) -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        self.version = 0
        self.log: list[str] = []
        """Each request, as verb, resource and name."""
        self.before: Callable[[str], None] = lambda what: None

    def put(self, resource: Resource, tree: dict[str, Any], namespace: str = "") -> None:
        """Put an object there as anybody else might."""
        self.version += 1
        metadata = {**tree["metadata"], "resourceVersion": str(self.version)}
        self.objects[str(resource), namespace, metadata["name"]] = {**tree, "metadata": metadata}

    def find(self, verb: str, resource: Resource, name: str, namespace: str) -> dict[str, Any]:
        what = f"{verb} {resource} {name}"
        self.log.append(what)
        self.before(what)
        found = self.objects.get((str(resource), namespace, name))
        if found is None:
            raise NotFoundError(what, 404, "NotFound", f"{name} not found")
        return found

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        found = msgspec.json.encode(self.find("get", resource, name, namespace))
        await asyncio.sleep(0)  # Others get their turn before the answer arrives.
        return found

    async def create(self, resource: Resource, body: bytes, namespace: str = "") -> bytes:
        tree = msgspec.json.decode(body)
        what = f"create {resource} {tree['metadata']['name']}"
        self.log.append(what)
        self.before(what)
        if (str(resource), namespace, tree["metadata"]["name"]) in self.objects:
            raise ExistsError(what, 409, "AlreadyExists", "exists")
        self.put(resource, tree, namespace)
        return body

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        held = self.find("replace", resource, name, namespace)
        tree = msgspec.json.decode(body)
        if tree["metadata"].get("resourceVersion") != held["metadata"]["resourceVersion"]:
            raise ConflictError(f"replace {resource} {name}", 409, "Conflict", "changed")
        self.put(resource, tree, namespace)
        return body

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str = "",
        *,
        how: Patch,
        subresource: str = "",
        manager: str = "",
    ) -> bytes:
        held = self.find("patch", resource, name, namespace)
        assert how is Patch.JSON, "the shelf knows no other patch"
        tree = msgspec.json.decode(msgspec.json.encode(held))
        for step in msgspec.json.decode(body):
            *way, last = step["path"].split("/")[1:]
            inner = tree
            for part in way:
                inner = inner[int(part) if isinstance(inner, list) else part]
            if step["op"] == "test" and inner[last] != step["value"]:
                raise RejectedError(f"patch {resource} {name}", 422, "Invalid", "the test failed")
            if step["op"] == "add":
                inner[last] = step["value"]
        self.put(resource, tree, namespace)
        return msgspec.json.encode(tree)

    def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        raise KubeError("list", 405, "MethodNotAllowed", "the shelf has no lists")

    def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        raise KubeError("watch", 405, "MethodNotAllowed", "the shelf has no watches")

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
        uid: str = "",
        version: str = "",
        grace: int | None = None,
    ) -> None:
        self.find("delete", resource, name, namespace)
        del self.objects[str(resource), namespace, name]

    async def close(self) -> None:
        return


class HandClock(OneFace):
    """Time that passes when a test says so; whoever sleeps wakes at once."""

    def __init__(self, now: int = 1_800_000_000) -> None:
        self.seconds = now

    def now(self) -> Instant:
        return Instant(self.seconds * MICROS)

    def pass_days(self, days: int) -> None:
        """Let so many days go by."""
        self.seconds += days * 86_400

    async def sleep_until(self, due: Instant) -> None:
        self.seconds = max(self.seconds, due // MICROS)
        await asyncio.sleep(0)
