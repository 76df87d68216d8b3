"""The garbage collector: deletes objects whose owners are all gone; handles foreground and orphan deletion.

It watches the metadata of every served kind. It reads an object again before it acts on it, and deletes it at the
version that it read.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from pykueue.api.core import OwnerReference, Tree
from pykueue.api.names import KubernetesFinalizer
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS
from pykueue.kube.controller import Controller
from pykueue.kube.informer import INITIAL_END, gc_paused
from pykueue.kube.port import CRDS, ConflictError, GoneError, Kube, KubeError, NotFoundError, Patch, Resource
from pykueue.kube.watchlines import parted
from pykueue.kubecontrollers.ownership import Metadata, Ownership, read_metadata, without

LOG: Final = logging.getLogger(__name__)

MANAGER: Final = "kube-controller-manager"
WORKERS: Final = 16
ATTEMPTS_MAX: Final = 4
YIELD_EVERY: Final = 100
"""Objects of a list that are handled at a time."""
PAUSE_MICROS: Final = 1 * MICROS
IGNORED: Final = frozenset(("events", "events.events.k8s.io", "leases.coordination.k8s.io"))
"""Kinds that change all the time, and neither have owners nor own anything."""


class Owners(Frozen):
    """The owners of an object, by their state."""

    solid: tuple[str, ...] = ()
    """Those that exist."""
    absent: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    """Those in foreground deletion, which wait for this object."""


class GarbageCollector:
    """Deletes objects that have lost their owners."""

    def __init__(self, kube: Kube, clock: Clock, resources: Callable[[], Iterable[Resource]]) -> None:
        self.kube = kube
        self.clock = clock
        self.resources = resources
        self.served: dict[str, Resource] = {}
        self.kinds: dict[tuple[str, str], Resource] = {}
        """By group and kind."""
        self.ownership = Ownership()
        self.controller = Controller("garbage", self.examine, clock, WORKERS)
        self.unlisted: set[str] = set()
        """Kinds whose first list is missing."""
        self.ready = asyncio.Event()
        """Set when everything is listed; before that the dependents of an owner are not all known."""
        self.changed = asyncio.Event()
        """Set when the served kinds may have changed."""

    async def run(self) -> None:
        """Collect garbage until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.act(), name="garbage")
            following: dict[str, asyncio.Task[None]] = {}
            while True:
                self.changed.clear()
                self.survey()
                for key in [key for key in following if key not in self.served]:
                    following.pop(key).cancel()
                    self.listed(key)
                for key in [key for key in self.served if key not in following]:
                    following[key] = tasks.create_task(self.follow(self.served[key]), name=f"owners of {key}")
                await self.changed.wait()

    async def act(self) -> None:
        """Reconcile once everything is listed."""
        await self.ready.wait()
        await self.controller.run()

    def survey(self) -> None:
        """Discover the served kinds."""
        found = {str(one): one for one in self.resources() if str(one) not in IGNORED}
        if not self.ownership.complete:
            self.unlisted |= set(found) - set(self.served)
        self.served = found
        self.kinds = {(one.group, one.kind): one for one in found.values()}

    # Watching.

    async def follow(self, resource: Resource) -> None:
        """Follow a kind until cancelled."""
        version = ""
        while True:
            try:
                version = await self.take_in(resource, version)
            except GoneError:
                version = self.begin_again(resource)
                continue
            except KubeError as error:
                LOG.info("garbage: watch ended resource=%s error=%s", resource, error)
            except Exception:
                LOG.exception("garbage: watch failed resource=%s", resource)
                version = self.begin_again(resource)
            await self.clock.sleep(PAUSE_MICROS)

    def begin_again(self, resource: Resource) -> str:
        """Forget the version of a kind, so that it is listed again: deletions may have been missed."""
        self.unlisted.add(str(resource))
        self.ownership.doubt()
        return ""

    async def take_in(self, resource: Resource, version: str) -> str:
        """Follow a kind from a version until the watch ends; returns the version to continue from."""
        events = self.kube.watch(resource, version=version)
        if not version:
            with gc_paused:
                count = 0
                async for line in events:
                    version, listed = self.handle_event(resource, line, version)
                    if listed:
                        break
                    count += 1
                    if count % YIELD_EVERY == 0:
                        # A list of many thousands must not block other tasks.
                        await asyncio.sleep(0)
            self.listed(str(resource))
        async for line in events:
            version, _ = self.handle_event(resource, line, version)
        return version

    def handle_event(self, resource: Resource, line: bytes, version: str) -> tuple[str, bool]:
        """Handle a line of a watch; returns the version reached, and whether it ends the first list."""
        kind, raw = parted(line)
        if kind == "ERROR":
            raise GoneError(f"watch {resource}", 410, "Expired", "")
        metadata = read_metadata(raw)
        if kind == "BOOKMARK":
            return metadata.resource_version, INITIAL_END.encode() in raw
        key = key_of(resource, metadata)
        judge = self.ownership.gone if kind == "DELETED" else self.ownership.seen
        for one in judge(key, metadata):
            self.controller.add(one)
        if resource.kind == CRDS.kind:
            self.changed.set()
        # A list is in the order of names.
        return max(version, metadata.resource_version, key=int_of), False

    def listed(self, key: str) -> None:
        """Record that a kind is listed, or no longer served."""
        self.unlisted.discard(key)
        if not self.unlisted and not self.ownership.complete:
            for one in self.ownership.completed():
                self.controller.add(one)
            self.ready.set()

    # Reconciliation.

    async def examine(self, key: str) -> float | None:
        """Delete an object if it is garbage, with retries on conflicts."""
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                await self.settle(key)
            except ConflictError:
                await asyncio.sleep(0)
            else:
                return None
        await self.settle(key)
        return None

    async def settle(self, key: str) -> None:
        """Handle an object in its present state."""
        found = await self.read(key)
        if found is None:
            return
        if found.waits:
            await self.let_go(key, found, KubernetesFinalizer.FOREGROUND, wait=True)
        elif found.orphans:
            await self.leave(found)
            await self.let_go(key, found, KubernetesFinalizer.ORPHAN, wait=False)
        elif found.deletion_timestamp is None and found.owner_references:
            await self.judge(key, found)

    async def judge(self, key: str, found: Metadata) -> None:
        """Delete an object that has lost its owners; if some are left, drop the references to the others."""
        owners = await self.owners(key, found)
        lost = (*owners.absent, *owners.waiting)
        if not lost:
            return
        resource = self.served[key.split("|")[0]]
        if owners.solid:
            left = without(found.owner_references, lost)
            await self.patch(key, found, {"ownerReferences": [msgspec.to_builtins(one) for one in left]})
            return
        if owners.waiting and self.ownership.of(found.uid):
            propagation = "Foreground"
        elif KubernetesFinalizer.ORPHAN in found.finalizers:
            propagation = "Orphan"
        else:
            propagation = "Foreground" if KubernetesFinalizer.FOREGROUND in found.finalizers else "Background"
        await self.kube.delete(
            resource,
            found.name,
            found.namespace,
            propagation=propagation,
            uid=found.uid,
            version=found.resource_version,
        )

    async def owners(self, key: str, found: Metadata) -> Owners:
        """The owners of an object, by their state."""
        solid: list[str] = []
        absent: list[str] = []
        waiting: list[str] = []
        for number, reference in enumerate(found.owner_references, start=1):
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
            owner = await self.owner(found, reference)
            if owner is None:
                absent.append(reference.uid)
            elif owner.waits and reference.block_owner_deletion:
                waiting.append(reference.uid)
            else:
                solid.append(reference.uid)
        return Owners(tuple(solid), tuple(absent), tuple(waiting))

    async def owner(self, found: Metadata, reference: OwnerReference) -> Metadata | None:
        """An owner, if it exists; one of a kind that is not served or not readable is assumed to exist."""
        group = reference.api_version.rpartition("/")[0]
        resource = self.kinds.get((group, reference.kind))
        if resource is None or (resource.namespaced and not found.namespace):
            return Metadata(uid=reference.uid)
        namespace = found.namespace if resource.namespaced else ""
        try:
            owner = read_metadata(await self.kube.get(resource, reference.name, namespace))
        except NotFoundError:
            return None
        if owner.uid != reference.uid:
            return None
        self.ownership.remember(owner.uid)
        return owner

    async def let_go(self, key: str, found: Metadata, finalizer: str, *, wait: bool) -> None:
        """Remove our finalizer from an object in deletion, if no dependent that it waits for is left."""
        if wait:
            kind = self.served[key.split("|")[0]].kind
            for dependent in self.ownership.of(found.uid):
                if found.namespace and dependent.split("|")[1] != found.namespace:
                    # An object of another namespace is no dependent, whatever it says.
                    continue
                other = await self.read(dependent)
                references = () if other is None else other.owner_references
                # Anyone could name this uid with another kind, to which the check of blockOwnerDeletion did not apply.
                claims = [one for one in references if (one.uid, one.kind, one.name) == (found.uid, kind, found.name)]
                if any(one.block_owner_deletion for one in claims):
                    return
        left: list[str] = [one for one in found.finalizers if one != finalizer]
        await self.patch(key, found, {"finalizers": [*left] or None})

    async def leave(self, owner: Metadata) -> None:
        """Remove the references to an owner from all its dependents."""
        for key in self.ownership.of(owner.uid):
            found = await self.read(key)
            if found is not None and any(one.uid == owner.uid for one in found.owner_references):
                left = without(found.owner_references, (owner.uid,))
                await self.patch(key, found, {"ownerReferences": [msgspec.to_builtins(one) for one in left] or None})

    async def read(self, key: str) -> Metadata | None:
        """The present metadata of an object; None if it is gone."""
        kind, namespace, name = key.split("|")
        resource = self.served.get(kind)
        if resource is None:
            return None
        try:
            return read_metadata(await self.kube.get(resource, name, namespace))
        except NotFoundError:
            return None

    async def patch(self, key: str, found: Metadata, change: Tree) -> None:
        """Patch the metadata of an object at the version that was seen."""
        resource = self.served[key.split("|")[0]]
        guard: Tree = {"uid": found.uid, "resourceVersion": found.resource_version, **change}
        body = msgspec.json.encode({"metadata": guard})
        await self.kube.patch(resource, found.name, body, found.namespace, how=Patch.MERGE, manager=MANAGER)


def key_of(resource: Resource, metadata: Metadata) -> str:
    """Kind, namespace and name of an object."""
    return f"{resource}|{metadata.namespace}|{metadata.name}"


def int_of(version: str) -> int:
    """A version as a number."""
    return int(version or 0)
