"""`LocalKube`: the `Kube` port over the Registry, for controllers in the same process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.verbs.offload import is_large_body
from pykueue.apiserver.verbs.registry import Registry
from pykueue.apiserver.wire.identity import SYSTEM, Identity
from pykueue.apiserver.wire.statuserrors import StatusError, unserved
from pykueue.apiserver.wire.writeterms import DeleteOptions, Propagation, Terms
from pykueue.kube.client.answers import error_of
from pykueue.kube.client.http import MANAGER, PAGE_ITEMS, called
from pykueue.kube.port import PODS, KubeError, Patch, Resource, Status

POLICIES: Final[dict[str, Propagation]] = {
    "Background": "Background",
    "Foreground": "Foreground",
    "Orphan": "Orphan",
    "": "",
}


class LocalKube:
    """The API of this process, for controllers that are trusted (`SYSTEM`) or admitted like users."""

    def __init__(self, registry: Registry, who: Identity = SYSTEM) -> None:
        self.registry = registry
        self.who = who
        self.terms: dict[str, Terms] = {}
        """The terms of each field manager; their warnings are not read."""
        self.closed = False

    def terms_of(self, manager: str) -> Terms:
        """The write options of a field manager."""
        known = self.terms.get(manager)
        if known is None:
            known = self.terms[manager] = Terms(who=self.who, manager=manager, force=True, validation="Ignore")
        return known

    def served(self, resource: Resource) -> Served:
        """The served kind of a resource."""
        served = self.registry.catalog.of(resource)
        if served is None:
            raise unserved()
        return served

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        """Get an object."""
        try:
            return await self.registry.get(self.served(resource), name, namespace)
        except StatusError as error:
            raise translated(called("get", resource, namespace, name), error) from error

    async def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """List objects, page by page, all of one version."""
        token = ""
        while True:
            try:
                served = self.served(resource)
                found = await self.registry.list(
                    served, namespace, labels=labels, fields=fields, limit=PAGE_ITEMS, continue_=token
                )
            except StatusError as error:
                raise translated(called("list", resource, namespace), error) from error
            yield found.body(served)
            token = found.continue_
            if not token:
                return
            await asyncio.sleep(0)

    async def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """Events after a version, or all objects and then their events; see the port.

        There is no connection that could be lost, so it needs no bookmarks but the one that ends the list.
        """
        try:
            events = self.registry.watch(
                self.served(resource),
                namespace,
                version=version,
                labels=labels,
                fields=fields,
                initial=None if version else True,
            )
            async with aclosing(events):
                async for batch in events:
                    for seen in batch:
                        yield seen.line()
        except StatusError as error:
            raise translated(called("watch", resource, namespace), error) from error

    async def create(
        self, resource: Resource, body: bytes, namespace: str = "", *, name: str = "", subresource: str = ""
    ) -> bytes:
        """Create an object."""
        try:
            tree: Tree = msgspec.json.decode(body)
            return await self.registry.create(
                self.served(resource),
                tree,
                namespace,
                self.terms_of(MANAGER),
                name=name,
                subresource=subresource,
                large=is_large_body(body),
            )
        except StatusError as error:
            raise translated(called("create", resource, namespace, name, subresource), error) from error

    async def bind(self, namespace: str, pod: str, node: str) -> bytes:
        """Bind a pod to a node."""
        try:
            terms = self.terms_of("kube-scheduler")
            return await self.registry.parts.bind(self.served(PODS), pod, node, namespace, terms)
        except StatusError as error:
            raise translated(called("create", PODS, namespace, pod, "binding"), error) from error

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
        """Patch an object; an apply takes over fields that others own."""
        try:
            made, _ = await self.registry.patch(
                self.served(resource),
                name,
                body,
                namespace,
                self.terms_of(manager or MANAGER),
                how=how.value,
                subresource=subresource,
            )
        except StatusError as error:
            raise translated(called("patch", resource, namespace, name, subresource), error) from error
        return made

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        """Replace an object."""
        try:
            tree: Tree = msgspec.json.decode(body)
            return await self.registry.update(self.served(resource), name, tree, namespace, self.terms_of(MANAGER))
        except StatusError as error:
            raise translated(called("replace", resource, namespace, name), error) from error

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
        """Delete an object if it still has the given uid and version; `grace` overrides its grace period in seconds."""
        options = DeleteOptions(grace, POLICIES.get(propagation, ""), uid, version)
        try:
            await self.registry.delete(self.served(resource), name, namespace, options, self.terms_of(MANAGER))
        except StatusError as error:
            raise translated(called("delete", resource, namespace, name), error) from error

    async def close(self) -> None:
        """Do nothing: there is no connection to close."""
        self.closed = True


def translated(what: str, error: StatusError) -> KubeError:
    """A `StatusError` as the `KubeError` that controllers expect."""
    return error_of(what, error.code, Status(message=error.message, reason=error.reason, code=error.code))
