"""A Kubernetes API through which only the leader writes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final

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

    @contextlib.contextmanager
    def reporting(self, verb: str, resource: Resource, namespace: str, name: str) -> Iterator[None]:
        """Report a write, especially one that is refused because the object has changed or is gone."""
        self.check(verb, resource, namespace, name)
        result = "ok"
        try:
            yield
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
        with self.reporting("create", resource, namespace, ""):
            return await self.kube.create(resource, body, namespace)

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
        with self.reporting("patch", resource, namespace, name):
            return await self.kube.patch(
                resource, name, body, namespace, how=how, subresource=subresource, manager=manager
            )

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        """Replace an object."""
        with self.reporting("replace", resource, namespace, name):
            return await self.kube.replace(resource, name, body, namespace)

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
        with self.reporting("delete", resource, namespace, name):
            await self.kube.delete(
                resource, name, namespace, propagation=propagation, uid=uid, version=version, grace=grace
            )

    async def close(self) -> None:
        """Close all connections."""
        await self.kube.close()
