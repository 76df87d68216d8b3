"""`Faulty`: the embedded API with faults on demand. Tests of controllers run on it.

Calls go through the real API. `put`, `store`, `remove` and `drop` change objects as another client would; they write to
storage directly and at once, with neither defaults nor validation.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.inprocess import LocalKube
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.kinds.conversion import body_served, to_stored
from pykueue.apiserver.kinds.metadata import meta
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.kinds.strategies import custom_strategy
from pykueue.apiserver.schema.jsonpatch import merged
from pykueue.apiserver.storage.store import Key, Store
from pykueue.apiserver.verbs.reading import key_of
from pykueue.apiserver.verbs.registry import Registry
from pykueue.base.clock import Clock, ManualClock
from pykueue.base.units import format_instant
from pykueue.kube.port import NAMESPACES, PODS, Patch, Resource

Object = dict[str, Any]
ANY: Tree = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
Hook = Callable[[str], object]
READS = ("get ", "list ", "watch ")
"""How calls that write nothing begin."""


async def settle() -> None:
    """Return when every task waits for something."""
    await ManualClock().settle()


class Write(msgspec.Struct):
    """A write that was acknowledged."""

    verb: str
    resource: Resource
    name: str
    body: Object = {}
    manager: str = ""
    subresource: str = ""

    @property
    def kind(self) -> str:
        return self.resource.kind

    def __str__(self) -> str:
        return f"{self.verb} {self.resource.plural}{'/' if self.subresource else ''}{self.subresource}"


class Faulty(LocalKube):
    """Counts calls, refuses them, delays them, loses answers, and lets another client write in between."""

    def __init__(self, clock: Clock, registry: Registry | None = None, *, path: Path | None = None) -> None:
        super().__init__(registry or Registry(Store.open(path, clock), Catalog(), clock))
        self.clock = clock
        self.calls: list[str] = []
        """Every call as verb, resource and name, or version of a watch, even if it failed."""
        self.writes: list[Write] = []
        self.failures: list[Exception] = []
        """What the next writes fail with."""
        self.failures_of: dict[str, list[Exception]] = {}
        """What the next writes of a sort, such as `create pods` or `patch jobs/status`, fail with."""
        self.before: Hook | None = None
        """Called before each call. It may raise, write something, or return what the call has to wait for."""
        self.after: Hook | None = None
        """Called after each write is stored. If it raises, the answer is lost."""
        self.meddling: Callable[[], object] | None = None
        """Called once, before the next patch."""
        self.dies_after: int | None = None
        """After this many more writes none returns, as if the process were gone."""
        self.lag: asyncio.Event | None = None
        """What the events of watches have to wait for."""
        self.watch_faults: list[Exception | bytes | None] = []
        """What watches raise or yield before the next event, a new one at once; None ends the watch."""

    # What a test sees and does.

    def serve(self, *resources: Resource) -> None:
        """Serve kinds that the embedded API does not know, with any fields."""
        for resource in resources:
            self.registry.catalog.add(
                Served(
                    resource,
                    str(resource),
                    resource.api_version,
                    resource.kind.lower(),
                    custom_strategy(resource),
                    custom=True,
                    openapi=ANY,
                )
            )

    def key(self, resource: Resource, name: str, namespace: str = "") -> Key:
        return key_of(self.served(resource), namespace, name)

    def find(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """An object, including writes that are not committed yet; None where there is none."""
        held = self.registry.store.latest(self.key(resource, name, namespace))
        return None if held is None else msgspec.json.decode(body_served(self.served(resource), held.body))

    def at(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """An object that exists."""
        found = self.find(resource, name, namespace)
        assert found is not None, f"there is no {resource} {namespace}/{name}"
        return found

    def all(self, resource: Resource) -> dict[str, Object]:
        """The objects of a kind, by name or by `namespace/name`."""
        store, storage = self.registry.store, self.served(resource).storage
        keys = {held.key for held in store.page(storage)} | {*store.pending_keys(storage, "")}
        found = {}
        for key in sorted(keys, key=lambda key: (key.namespace, key.name)):
            tree = self.find(resource, key.name, key.namespace)
            if tree is not None:
                found[f"{key.namespace}/{key.name}".lstrip("/")] = tree
        return found

    def put(self, resource: Resource, name: str, namespace: str = "", **fields: Any) -> Object:
        """Create an object, or merge these fields into it; None removes one."""
        old = self.find(resource, name, namespace)
        first: Object = {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}
        new: Object = merged(old or first, fields)
        if old is not None and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        return self.store(resource, new) if new != old else new

    def store(self, resource: Resource, tree: Object) -> Object:
        """Store a whole object; one that is being deleted and has no finalizers is removed, unless it is a pod."""
        made = {"uid": f"uid-{self.registry.store.issued}", "creationTimestamp": self.now(), "generation": 1}
        metadata = {**made, **tree["metadata"]}
        tree = {"apiVersion": resource.api_version, "kind": resource.kind, **tree, "metadata": metadata}
        name, namespace = metadata["name"], metadata.get("namespace", "")
        ends = "deletionTimestamp" in metadata and not (metadata.get("finalizers") or resource == PODS)
        self.write(self.key(resource, name, namespace), to_stored(self.served(resource), tree), drops=ends)
        return tree if ends else self.at(resource, name, namespace)

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete an object; one with finalizers is marked."""
        tree = self.at(resource, name, namespace)
        self.store(resource, {**tree, "metadata": {**tree["metadata"], "deletionTimestamp": self.now()}})

    def drop(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete an object whatever its finalizers are."""
        key = self.key(resource, name, namespace)
        self.write(key, to_stored(self.served(resource), self.at(resource, name, namespace)), drops=True)

    def write(self, key: Key, tree: Tree, *, drops: bool) -> None:
        store, uid = self.registry.store, str(meta(tree)["uid"])

        async def write() -> None:
            await (store.drop(key, tree) if drops else store.put(key, tree, uid=uid))

        self.registry.writing.plugins.forget(key)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(write())
        else:
            # The store commits it in the next turn of the loop.
            store.drop(key, tree) if drops else store.put(key, tree, uid=uid)

    def now(self) -> str:
        return format_instant(self.clock.now())

    def namespaces(self, *names: str) -> None:
        """Make namespaces, without which nothing can be created in them."""
        for name in names:
            self.put(NAMESPACES, name, metadata={"labels": {"kubernetes.io/metadata.name": name}})

    def written(self, kind: str) -> list[Write]:
        """The writes of a kind since the last call."""
        found = [write for write in self.writes if write.kind == kind]
        self.writes = [write for write in self.writes if write.kind != kind]
        return found

    def took(self) -> dict[str, int]:
        """How many writes of each sort were sent since the last call, even if they failed."""
        found = Counter(call.rpartition(" ")[0] for call in self.calls if not call.startswith(READS))
        self.calls = []
        return dict(found)

    def sent(self, what: str) -> int:
        """How many calls began like this, such as `create pods` or `get jobs train`."""
        return sum(call.startswith(what) for call in self.calls)

    # The calls.

    async def called(self, what: str) -> None:
        self.calls.append(what)
        if self.before is not None:
            waits = self.before(what)
            if inspect.isawaitable(waits):
                await waits

    @asynccontextmanager
    async def writing(self, write: Write) -> AsyncIterator[None]:
        await self.called(f"{write} {write.name}")
        for failures in (self.failures, self.failures_of.get(str(write))):
            if failures:
                raise failures.pop(0)
        if write.verb == "patch" and self.meddling is not None:
            meddling, self.meddling = self.meddling, None
            meddling()
        if self.dies_after is not None:
            if self.dies_after == 0:
                await asyncio.get_running_loop().create_future()
            self.dies_after -= 1
        yield
        self.writes.append(write)
        if self.after is not None:
            self.after(f"{write} {write.name}")

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        await self.called(f"get {resource.plural} {name}")
        return await super().get(resource, name, namespace)

    async def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        await self.called(f"list {resource.plural} ")
        async for page in super().pages(resource, namespace, labels=labels, fields=fields):
            yield page

    async def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        await self.called(f"watch {resource.plural} {version}")
        async for line in preceded(super().watch(resource, namespace, version=version, labels=labels, fields=fields)):
            if line and self.lag is not None:
                await self.lag.wait()
            while self.watch_faults:
                fault = self.watch_faults.pop(0)
                if fault is None:
                    return
                if isinstance(fault, Exception):
                    raise fault
                yield fault
            if line:
                yield line

    async def create(
        self, resource: Resource, body: bytes, namespace: str = "", *, name: str = "", subresource: str = ""
    ) -> bytes:
        tree = msgspec.json.decode(body)
        named = name or tree["metadata"].get("name", "")
        async with self.writing(Write("create", resource, named, tree, subresource=subresource)):
            return await super().create(resource, body, namespace, name=name, subresource=subresource)

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
        async with self.writing(Write("patch", resource, name, msgspec.json.decode(body), manager, subresource)):
            return await super().patch(
                resource, name, body, namespace, how=how, subresource=subresource, manager=manager
            )

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        async with self.writing(Write("replace", resource, name, msgspec.json.decode(body))):
            return await super().replace(resource, name, body, namespace)

    async def delete(self, resource: Resource, name: str, namespace: str = "", **how: Any) -> None:
        async with self.writing(Write("delete", resource, name)):
            await super().delete(resource, name, namespace, **how)

    async def bind(self, namespace: str, pod: str, node: str) -> bytes:
        async with self.writing(Write("bind", PODS, pod)):
            return await super().bind(namespace, pod, node)


async def preceded(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a watch after an empty one, at which the faults of a new watch are due."""
    yield b""
    async for line in lines:
        yield line
