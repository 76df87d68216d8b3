"""A Kubernetes API through which only the leader writes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

from pykueue.kube.lease import Leadership
from pykueue.kube.port import (
    ConflictError,
    DeniedError,
    ExistsError,
    Kube,
    KubeError,
    NotFoundError,
    NotLeadingError,
    Patch,
    RejectedError,
    Resource,
    UnansweredError,
)

T = TypeVar("T")

FAILURES: Final[Mapping[type[KubeError], str]] = {
    ConflictError: "conflict",
    ExistsError: "exists",
    NotFoundError: "not_found",
    DeniedError: "denied",
    RejectedError: "rejected",
    UnansweredError: "unanswered",
}
"""The results of writes that failed; others are `error`."""


class Fenced:
    """A Kubernetes API that allows writes only while leading."""

    def __init__(self, kube: Kube, election: Leadership) -> None:
        self.kube = kube
        self.election = election
        self.closing: asyncio.Task[None] | None = None
        self.refused: Callable[[Resource, str], None] | None = None
        """Called with the key of an object that a write found changed or gone."""
        self.wrote: Callable[[str, str, str], None] | None = None
        """Called with the kind and verb of each write, and `ok` or why it failed."""
        election.at_loss(self.cut)

    def cut(self) -> None:
        """Close all connections, so that no waiting request is sent."""
        self.closing = asyncio.get_running_loop().create_task(self.kube.close())

    def check(self, verb: str, resource: Resource, namespace: str, name: str) -> None:
        """Raise `NotLeadingError` if this process does not lead."""
        if not self.election.leading:
            what = f"{verb} {resource} {namespace}/{name}" if namespace else f"{verb} {resource} {name}"
            raise NotLeadingError(what, 0, "NotLeading", "nothing was sent: this process does not lead")

    async def reported(self, call: Awaitable[T], verb: str, resource: Resource, namespace: str, name: str) -> T:
        """Await a write and report it, especially if it is refused because the object has changed or is gone."""
        result = "ok"
        try:
            return await call
        except KubeError as error:
            result = FAILURES.get(type(error), "error")
            if name and isinstance(error, ConflictError | NotFoundError) and self.refused is not None:
                self.refused(resource, f"{namespace}/{name}" if namespace else name)
            raise
        except BaseException:
            result = "interrupted"
            raise
        finally:
            if self.wrote is not None:
                self.wrote(resource.kind, verb, result)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        """Get an object."""
        return await self.kube.get(resource, name, namespace)

    def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """List objects, page by page."""
        return self.kube.pages(resource, namespace, labels=labels, fields=fields)

    def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """Events after a version."""
        return self.kube.watch(resource, namespace, version=version, labels=labels, fields=fields)

    async def create(self, resource: Resource, body: bytes, namespace: str = "") -> bytes:
        """Create an object."""
        self.check("create", resource, namespace, "")
        call = self.kube.create(resource, body, namespace)
        return await self.reported(call, "create", resource, namespace, "")

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
        """Patch an object."""
        self.check("patch", resource, namespace, name)
        call = self.kube.patch(resource, name, body, namespace, how=how, subresource=subresource, manager=manager)
        return await self.reported(call, "patch", resource, namespace, name)

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        """Replace an object."""
        self.check("replace", resource, namespace, name)
        call = self.kube.replace(resource, name, body, namespace)
        return await self.reported(call, "replace", resource, namespace, name)

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
        """Delete an object."""
        self.check("delete", resource, namespace, name)
        call = self.kube.delete(
            resource, name, namespace, propagation=propagation, uid=uid, version=version, grace=grace
        )
        await self.reported(call, "delete", resource, namespace, name)

    async def close(self) -> None:
        """Close all connections."""
        await self.kube.close()
