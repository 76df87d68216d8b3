"""Lists of objects, page by page."""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from pykueue.api.core import Tree
from pykueue.api.trees import mappings, text
from pykueue.kube.port import Kube, Resource


async def each(
    kube: Kube, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
) -> AsyncIterator[Tree]:
    """The objects of a kind, one by one, of one namespace or of all.

    Each names its kind, which the items of a list need not.
    """
    kind: Tree = {"apiVersion": resource.api_version, "kind": resource.kind}
    async for page in kube.pages(resource, namespace, labels=labels, fields=fields):
        # A server in the same process may answer without waiting for anything.
        await asyncio.sleep(0)
        for _, one in mappings(msgspec.json.decode(page), "items"):
            yield {**kind, **one}  # type: ignore[dict-item]  # decoded JSON is Json


async def everything(
    kube: Kube, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
) -> list[Tree]:
    """All objects of a kind, of one namespace or of all."""
    return [one async for one in each(kube, resource, namespace, labels=labels, fields=fields)]


async def names(kube: Kube, resource: Resource, namespace: str = "") -> list[str]:
    """The names of all objects of a kind, in the server's order."""
    return [text(one, "metadata", "name") async for one in each(kube, resource, namespace)]
