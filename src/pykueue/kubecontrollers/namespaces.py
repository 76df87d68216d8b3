"""Deletion of namespaces: delete their content, pods first, then remove the finalizer."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import msgspec

from pykueue.api.core import Condition, KubeObject, Tree
from pykueue.api.names import KubernetesFinalizer
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import Instant, format_instant
from pykueue.kube.controller import Controller
from pykueue.kube.informer import PAGE, Change, Informer
from pykueue.kube.port import NAMESPACES, PODS, ConflictError, Kube, KubeError, NotFoundError, Patch, Resource
from pykueue.kubecontrollers.ownership import Metadata, read_metadata

MANAGER: Final = "kube-controller-manager"
WORKERS: Final = 2
AT_ONCE: Final = 50
FIRST_SECONDS: Final = 0.05
LAST_SECONDS: Final = 1.0
"""The longest delay between two checks of a namespace that is not empty; shorter at first."""
FINE: Final = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)
"""The conditions of a namespace in deletion while nothing is in the way."""


class Spec(Wire):
    """The finalizers of a namespace."""

    finalizers: tuple[str, ...] = ()


class Status(Wire):
    """The progress of its deletion."""

    conditions: tuple[Condition, ...] = ()


class Namespace(KubeObject):
    """A namespace."""

    spec: Spec = Spec()
    status: Status = Status()


class Left(Frozen):
    """Remaining objects of a kind in a namespace."""

    resource: Resource
    count: int
    finalizers: tuple[str, ...] = ()
    """The finalizers of all objects, with their counts."""


NAMESPACE: Final = msgspec.json.Decoder(Namespace)


class Namespaces:
    """Empties namespaces that are being deleted, and finalizes them."""

    def __init__(self, kube: Kube, clock: Clock, resources: Callable[[], Iterable[Resource]]) -> None:
        self.kube = kube
        self.clock = clock
        self.resources = resources
        self.namespaces: Informer[Namespace] = Informer(kube, NAMESPACES, NAMESPACE.decode, clock)
        self.waits: dict[str, float] = {}
        """The last delay in seconds for each namespace that is not empty."""
        self.controller = Controller("namespace", self.reconcile, clock, WORKERS)
        self.namespaces.listen(self.changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.namespaces.run(), name="namespaces")
            tasks.create_task(self.controller.run(), name="namespace controller")

    def changed(self, change: Change[Namespace]) -> None:
        """Handle a namespace whose deletion begins."""
        old, new = change.old, change.new
        begun = old is not None and old.metadata.deletion_timestamp is not None
        if new is not None and new.metadata.deletion_timestamp is not None and not begun:
            self.controller.add(change.key)

    async def reconcile(self, name: str) -> float | None:
        """Delete the content of a namespace; returns the seconds after which to look again."""
        namespace = self.namespaces.get(name)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return None
        if KubernetesFinalizer.NAMESPACE not in namespace.spec.finalizers:
            return None
        failures: list[str] = []
        left = await self.emptied(name, [PODS], failures)
        if not left:
            others = sorted((one for one in self.resources() if one.namespaced and one.plural != "pods"), key=str)
            left = await self.emptied(name, others, failures)
        await self.report(namespace, left, failures)
        if left or failures:
            self.waits[name] = min(LAST_SECONDS, 2 * self.waits.get(name, FIRST_SECONDS / 2))
            return self.waits[name]
        self.waits.pop(name, None)
        await self.finalize(name)
        return None

    async def emptied(self, name: str, resources: Sequence[Resource], failures: list[str]) -> list[Left]:
        """Delete all objects of some kinds; returns what is left."""
        found: list[Left] = []
        for resource in resources:
            try:
                there = await self.there(resource, name)
                fresh = [one for one in there if one.deletion_timestamp is None]
                for begin in range(0, len(fresh), AT_ONCE):
                    batch = fresh[begin : begin + AT_ONCE]
                    await asyncio.gather(*(self.delete(resource, one) for one in batch))
                left = await self.there(resource, name) if fresh else there
            except KubeError as error:
                failures.append(error.message)
                continue
            if left:
                finalizers = tuple(finalizer for one in left for finalizer in one.finalizers)
                found.append(Left(resource, len(left), finalizers))
        return found

    async def there(self, resource: Resource, name: str) -> list[Metadata]:
        """The objects of a kind in a namespace."""
        return [
            read_metadata(item)
            async for raw in self.kube.pages(resource, name)
            for item in PAGE.decode(raw).items or ()
        ]

    async def delete(self, resource: Resource, found: Metadata) -> None:
        """Delete an object."""
        try:
            await self.kube.delete(resource, found.name, found.namespace, uid=found.uid)
        except (NotFoundError, ConflictError):
            return

    async def report(self, namespace: Namespace, left: Sequence[Left], failures: Sequence[str]) -> None:
        """Write the conditions, once something is in the way."""
        known = namespace.status.conditions
        if not known and not left and not failures:
            return
        wanted = conditions(known, left, failures, self.clock.now())
        if wanted == known:
            return
        body = msgspec.json.encode({"status": {"conditions": wanted}})
        raw = await self.kube.patch(
            NAMESPACES, namespace.name, body, how=Patch.MERGE, subresource="status", manager=MANAGER
        )
        self.namespaces.learn(raw)

    async def finalize(self, name: str) -> None:
        """Remove our finalizer from a namespace; others may remain."""
        namespace = self.namespaces.get(name)
        if namespace is None:
            return
        left = [one for one in namespace.spec.finalizers if one != KubernetesFinalizer.NAMESPACE]
        guard: Tree = {"uid": namespace.metadata.uid, "resourceVersion": namespace.metadata.resource_version}
        body = msgspec.json.encode({"metadata": guard, "spec": {"finalizers": left}})
        try:
            await self.kube.patch(NAMESPACES, name, body, how=Patch.MERGE, subresource="finalize", manager=MANAGER)
        except NotFoundError:
            return


def conditions(
    known: tuple[Condition, ...], left: Sequence[Left], failures: Sequence[str], now: Instant
) -> tuple[Condition, ...]:
    """The conditions of a namespace with these remaining objects."""
    trouble: dict[str, tuple[str, str]] = {}
    if failures:
        listed = ", ".join(sorted(failures))
        trouble["NamespaceDeletionContentFailure"] = (
            "ContentDeletionFailed",
            f"Failed to delete all resource types, {len(failures)} remaining: {listed}",
        )
    if left:
        listed = ", ".join(
            sorted(f"{one.resource.plural}.{one.resource.group} has {one.count} resource instances" for one in left)
        )
        trouble["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {listed}")
    finalizers = [finalizer for one in left for finalizer in one.finalizers]
    if finalizers:
        listed = ", ".join(sorted(f"{one} in {finalizers.count(one)} resource instances" for one in set(finalizers)))
        trouble["NamespaceFinalizersRemaining"] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {listed}",
        )
    before = {one.type: one for one in known}
    made: list[Condition] = []
    for kind, *fine in FINE:
        reason, message = trouble.get(kind, fine)
        old = before.pop(kind, None)
        status: Literal["True", "False"] = "True" if kind in trouble else "False"
        since = old.last_transition_time if old is not None and old.status == status else format_instant(now)
        made.append(Condition(kind, status, reason, message, since))
    return (*before.values(), *made)
