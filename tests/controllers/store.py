"""A small API server in memory: objects with versions, patches with preconditions, finalizers, watches; and a clock.

It keeps every write, so that a test can say what was written and what was not.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from typing import Any

import msgspec

from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.kube.port import (
    ConflictError,
    ExistsError,
    KubeError,
    NotFoundError,
    Patch,
    Resource,
)
from tests.clocks import OneFace

Object = dict[str, Any]
START = Instant(1_800_000_000 * MICROS)
LISTS = {"conditions": "type", "admissionChecks": "name"}


class HandClock(OneFace):
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.time = START
        self.sleepers: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> Instant:
        return Instant(self.time)

    async def sleep_until(self, due: Instant) -> None:
        if due <= self.time:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        self.sleepers.append((due, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Let time pass, and whoever waited for it do what they waited for."""
        end = self.time + round(seconds * MICROS)
        await settle()
        while True:
            self.sleepers = [(due, future) for due, future in self.sleepers if not future.done()]
            due = min((due for due, _ in self.sleepers if due <= end), default=None)
            if due is None:
                break
            self.time = Instant(max(self.time, due))
            for at, future in self.sleepers:
                if at <= self.time and not future.done():
                    future.set_result(None)
            await settle()
        self.time = Instant(end)
        await settle()


async def settle() -> None:
    """Let every task go on until it waits for something."""
    for _ in range(60):
        await asyncio.sleep(0)


class Write(msgspec.Struct):
    """A write that was done."""

    verb: str
    kind: str
    name: str
    body: Object
    manager: str = ""
    subresource: str = ""


class Store:
    """Implements `Kube`."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.objects: dict[str, dict[str, Object]] = {}
        self.version = 100
        self.watchers: list[tuple[str, asyncio.Queue[bytes]]] = []
        self.writes: list[Write] = []
        self.applied: dict[tuple[str, str, str], Object] = {}
        self.failures: list[KubeError] = []
        """What the next writes fail with."""
        self.meddling: Callable[[], object] | None = None
        """What someone else does just before the next patch."""

    def written(self, kind: str) -> list[Write]:
        """The writes on a kind so far, which are then forgotten."""
        found = [write for write in self.writes if write.kind == kind]
        self.writes = [write for write in self.writes if write.kind != kind]
        return found

    def put(self, resource: Resource, name: str, namespace: str = "", **fields: Any) -> Object:
        """Create an object, or change these fields of it, as someone else would; null removes one."""
        key = key_of(namespace, name)
        held = self.objects.setdefault(str(resource), {})
        tree = deepcopy(held.get(key))
        if tree is None:
            tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
            if namespace:
                tree["metadata"]["namespace"] = namespace
            tree["metadata"] |= {
                "uid": f"uid-{self.version}",
                "generation": 1,
                "creationTimestamp": format_instant(self.clock.now()),
            }
        spec = deepcopy(tree.get("spec"))
        merge(tree, fields)
        if spec is not None and spec != tree.get("spec"):
            tree["metadata"]["generation"] += 1
        return self.store(resource, key, tree)

    def store(self, resource: Resource, key: str, tree: Object) -> Object:
        held = self.objects.setdefault(str(resource), {})
        old = held.get(key)
        if old == tree:
            return tree
        self.version += 1
        tree["metadata"]["resourceVersion"] = str(self.version)
        gone = tree["metadata"].get("deletionTimestamp") and not tree["metadata"].get("finalizers")
        if gone:
            held.pop(key, None)
        else:
            held[key] = tree
        self.tell(resource, "DELETED" if gone else "MODIFIED" if old else "ADDED", tree)
        return tree

    def tell(self, resource: Resource, kind: str, tree: Object) -> None:
        line = msgspec.json.encode({"type": kind, "object": tree})
        for plural, queue in self.watchers:
            if plural == str(resource):
                queue.put_nowait(line)

    def at(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """An object, for a test to look at."""
        return self.objects[str(resource)][key_of(namespace, name)]

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Have an object deleted, as someone else would."""
        key = key_of(namespace, name)
        tree = deepcopy(self.found(resource, key))
        tree["metadata"]["deletionTimestamp"] = format_instant(self.clock.now())
        self.store(resource, key, tree)

    def found(self, resource: Resource, key: str) -> Object:
        tree = self.objects.get(str(resource), {}).get(key)
        if tree is None:
            raise NotFoundError(f"{resource} {key}", 404, "NotFound", "not found")
        return tree

    def fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        return msgspec.json.encode(self.found(resource, key_of(namespace, name)))

    async def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        items = list(self.objects.get(str(resource), {}).values())
        yield msgspec.json.encode({"metadata": {"resourceVersion": str(self.version)}, "items": items})

    async def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.watchers.append((str(resource), queue))
        for tree in list(self.objects.get(str(resource), {}).values()):
            yield msgspec.json.encode({"type": "ADDED", "object": tree})
        end = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        yield msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": end}})
        while True:
            yield await queue.get()

    async def create(self, resource: Resource, body: bytes, namespace: str = "") -> bytes:
        tree = msgspec.json.decode(body)
        await asyncio.sleep(0)
        self.fail()
        name = tree["metadata"]["name"]
        if key_of(namespace, name) in self.objects.get(str(resource), {}):
            raise ExistsError(f"create {resource} {name}", 409, "AlreadyExists", "exists")
        self.writes.append(Write("create", resource.kind, name, tree))
        fields = {key: value for key, value in tree.items() if key not in ("apiVersion", "kind")}
        return msgspec.json.encode(self.put(resource, name, namespace, **fields))

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
        await asyncio.sleep(0)
        self.fail()
        if self.meddling is not None:
            meddling, self.meddling = self.meddling, None
            meddling()
        key = key_of(namespace, name)
        tree = deepcopy(self.found(resource, key))
        change = msgspec.json.decode(body)
        asked = change.get("metadata", {})
        for field in ("uid", "resourceVersion"):
            if asked.get(field) is not None and asked[field] != tree["metadata"][field]:
                raise ConflictError(f"patch {resource} {key}", 409, "Conflict", f"the {field} is another")
        self.writes.append(Write("patch", resource.kind, name, change, manager, subresource))
        spec = deepcopy(tree.get("spec"))
        if how is Patch.APPLY:
            self.apply(tree, change["status"], (str(resource), key, manager))
        elif subresource:
            merge(tree, {"status": change.get("status", {})})
        else:
            merge(tree, {part: value for part, value in change.items() if part != "status"})
        if spec != tree.get("spec"):
            tree["metadata"]["generation"] += 1
        return msgspec.json.encode(self.store(resource, key, tree))

    def apply(self, tree: Object, status: Object, owner: tuple[str, str, str]) -> None:
        """What the manager applied before and leaves out now is gone."""
        before = self.applied.get(owner, {})
        self.applied[owner] = deepcopy(status)
        held = tree.setdefault("status", {})
        for field, value in before.items():
            if field in LISTS:
                kept = {item[LISTS[field]] for item in status.get(field, [])}
                lost = {item[LISTS[field]] for item in value} - kept
                held[field] = [item for item in held.get(field, []) if item[LISTS[field]] not in lost]
            elif field not in status:
                held.pop(field, None)
        for field, value in status.items():
            if field in LISTS:
                mine = {item[LISTS[field]] for item in value}
                held[field] = [item for item in held.get(field, []) if item[LISTS[field]] not in mine] + value
            else:
                held[field] = value

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        await asyncio.sleep(0)
        self.fail()
        key, tree = key_of(namespace, name), msgspec.json.decode(body)
        if tree["metadata"]["resourceVersion"] != self.found(resource, key)["metadata"]["resourceVersion"]:
            raise ConflictError(f"update {resource} {key}", 409, "Conflict", "the version is another")
        self.writes.append(Write("update", resource.kind, name, tree))
        return msgspec.json.encode(self.store(resource, key, tree))

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
        await asyncio.sleep(0)
        self.fail()
        tree = self.found(resource, key_of(namespace, name))
        if uid and tree["metadata"]["uid"] != uid:
            raise ConflictError(f"delete {resource} {name}", 409, "Conflict", "the uid is another")
        self.writes.append(Write("delete", resource.kind, name, {}))
        self.remove(resource, name, namespace)

    async def close(self) -> None:
        pass


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def merge(tree: Object, change: Object) -> None:
    """RFC 7386."""
    for field, value in change.items():
        if value is None:
            tree.pop(field, None)
        elif isinstance(value, dict):
            held = tree.get(field)
            inner = tree[field] = held if isinstance(held, dict) else {}
            merge(inner, value)
        else:
            tree[field] = value
