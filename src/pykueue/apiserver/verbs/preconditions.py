"""Checks the uid and the resourceVersion that a write expects against the stored object."""

from pykueue.api.core import Tree
from pykueue.api.fields import invalid
from pykueue.apiserver.kinds.metadata import meta
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.storage.store import StoredObject
from pykueue.apiserver.verbs.reading import version_trouble
from pykueue.apiserver.wire.statuserrors import StatusError, conflict
from pykueue.apiserver.wire.statuserrors import invalid as refused
from pykueue.kube.port import Resource


def check_version(served: Served, new: Tree, there: StoredObject, name: str) -> None:
    """Refuse a write whose resourceVersion is not the stored one, or is missing where the kind requires it."""
    given = str(meta(new).get("resourceVersion") or "")
    trouble = version_trouble(given)
    if trouble:
        raise StatusError(500, "", trouble)
    wanted = int(given or 0)
    if not wanted:
        if served.strategy.allow_unconditional_update:
            return
        resource = served.resource
        named = Resource(resource.group, resource.version, resource.plural, resource.plural)
        raise refused(named, name, [invalid("metadata.resourceVersion", 0, "must be specified for an update")])
    if wanted != there.version:
        raise conflict(served.resource, name)


def check_identity(served: Served, new: Tree, there: StoredObject, name: str) -> None:
    """Refuse a write whose uid is not that of the stored object.

    For our controllers, whose writes are not validated; for users, validation rejects a changed uid.
    """
    wanted = str(meta(new).get("uid") or "")
    if wanted and wanted != there.uid:
        why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {there.uid}"
        raise conflict(served.resource, name, why)
