"""The pure steps of a write, without the store."""

from collections.abc import Callable
from typing import TypeAlias

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.conversion import to_served, to_stored
from pykueue.apiserver.kinds.metadata import deduplicated, with_meta
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.storage.store import Key, StoredObject
from pykueue.apiserver.verbs.bodies import check_fields, check_kind, check_name, check_namespace, check_types
from pykueue.apiserver.verbs.preconditions import check_identity, check_version
from pykueue.apiserver.wire.statuserrors import BODY_MAX
from pykueue.apiserver.wire.writeterms import Terms
from pykueue.kube.port import Resource

Read: TypeAlias = Callable[[StoredObject], Tree]
"""Returns the tree of a stored object."""
Make: TypeAlias = Callable[[Tree], Tree]
"""Makes the new object from the existing one, in the version of the request, with managed fields."""


def replacing(served: Served, name: str, tree: Tree, namespace: str, terms: Terms) -> Tree:
    """The object in an update; a `StatusError` if the body does not fit the kind, the name or the namespace."""
    tree = check_kind(served, tree)
    if not terms.who.is_controller:
        check_types(served, tree)
        check_fields(served, tree, terms)
    tree = check_namespace(served, tree, namespace)
    check_name(tree, name, namespace)
    return tree


def changed(served: Served, there: StoredObject, read: Read, make: Make, terms: Terms) -> tuple[Tree, Tree, Tree, Tree]:
    """The old object, stored and in the version of the request, and the new one, in that version and as stored."""
    old = read(there)
    live = to_served(served, old)
    made = make(live)
    if terms.who.is_controller:
        check_identity(served, made, there, there.key.name)
    check_version(served, made, there, there.key.name)
    stored = to_stored(served, with_meta(made, resourceVersion=str(there.version)))
    return old, live, made, deduplicated(stored, terms.warn, admitted=True)


def canonical(served: Served, new: Tree, old: Tree | None = None) -> Tree:
    """An object as it is stored, or the old one if it is the same."""
    new = served.strategy.canonicalize(new)
    return old if old is not None and new == old else new


def unmanaged(served: Served, terms: Terms, subresource: str) -> bool:
    """Whether managed fields are not tracked: for kinds that our controllers write often and users do not apply."""
    if not terms.who.is_controller:
        return False
    strategy = served.strategy
    return not strategy.tracks_controllers or (subresource == "status" and not strategy.tracks_controller_status)


def stored_bytes_max(terms: Terms) -> int:
    """The size limit of a stored object's JSON; 0 means none.

    Our controllers have no limit: they must be able to add to an object that is nearly too large.
    """
    return 0 if terms.who.is_controller else BODY_MAX


def stored_trouble(served: Served, key: Key, why: str) -> str:
    """The message for a precondition that the stored object does not meet."""
    place = f"{served.resource.group}/{served.resource.plural}" if served.custom else served.resource.plural
    within = f"{key.namespace}/" if key.namespace else ""
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}/{within}{key.name}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: {why}"
    )


def judged_as(served: Served) -> Resource:
    """The resource that the error for an invalid object names."""
    return served.strategy.refused_as or served.resource
