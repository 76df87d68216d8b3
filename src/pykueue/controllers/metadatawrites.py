"""Changes of an object's metadata under roles that allow `patch`, or only `update` as Kueue's own roles do."""

from typing import Any, Final

import msgspec

from pykueue.api.core import Tree
from pykueue.controllers.workloadwrites import MANAGER
from pykueue.kube.port import ConflictError, DeniedError, Kube, Patch, Resource

CONFLICT: Final = 409
TREE: Final = msgspec.json.Decoder(dict[str, Any])


async def set_metadata(
    kube: Kube, resource: Resource, name: str, namespace: str, changes: Tree, preconditions: Tree
) -> bytes:
    """The object after these fields of its metadata are set; None removes a field.

    Sends a merge patch, or an update if the role allows no patch. `preconditions` are the uid and the resourceVersion
    that the object must have; `ConflictError` if it has others.
    """
    body = msgspec.json.encode({"metadata": {**changes, **preconditions}})
    try:
        return await kube.patch(resource, name, body, namespace, how=Patch.MERGE, manager=MANAGER)
    except DeniedError:
        tree = TREE.decode(await kube.get(resource, name, namespace))
        metadata = tree["metadata"]
        if any(metadata.get(field) != value for field, value in preconditions.items()):
            what = f"update {resource.plural} {name}"
            raise ConflictError(what, CONFLICT, "Conflict", "the object has changed since it was read") from None
        changed = {**metadata, **changes}
        tree["metadata"] = {field: value for field, value in changed.items() if value is not None}
        return await kube.replace(resource, name, msgspec.json.encode(tree), namespace)
