"""Object metadata: the fields that the server sets, and their validation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, cast

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.fields import IMMUTABLE, FieldError, forbidden, invalid, required
from pykueue.api.labels import annotations_errors, labels_errors, qualified_name
from pykueue.api.names import KubernetesFinalizer
from pykueue.api.trees import items, mapping, text
from pykueue.apiserver.kinds.names import dns_label, name_errors, path_trouble
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.kinds.strategy import Dependents
from pykueue.apiserver.wire.options import manager_errors
from pykueue.apiserver.wire.writeterms import DeleteOptions

SYSTEM_FIELDS: Final = (
    "creationTimestamp",
    "uid",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
"""Fields that a creator may not set."""
STANDARD: Final = (KubernetesFinalizer.ORPHAN, KubernetesFinalizer.FOREGROUND, KubernetesFinalizer.NAMESPACE)
"""Finalizers of the server itself."""
NO_EMPTY: Final = "must not be empty"


def meta(tree: Mapping[str, Json]) -> Tree:
    """The metadata of an object, for reading."""
    found = tree.get("metadata")
    return found if isinstance(found, dict) else {}


def with_meta(tree: Tree, **changes: Json) -> Tree:
    """The object with these metadata fields; None removes a field."""
    made = {**meta(tree), **changes}
    return {**tree, "metadata": {name: value for name, value in made.items() if value is not None}}


def finalizers(tree: Mapping[str, Json]) -> list[str]:
    """The finalizers of an object."""
    return [str(one) for one in items(tree, "metadata", "finalizers")]


def collector_finalizers(tree: Tree, options: DeleteOptions, dependents: Dependents) -> list[str]:
    """The finalizers after a delete with these options, including those of the garbage collector."""
    had = finalizers(tree)
    if dependents == "unsupported":
        return had
    kept = [name for name in had if name not in (KubernetesFinalizer.ORPHAN, KubernetesFinalizer.FOREGROUND)]
    if options.orphan_dependents is not None:
        return [*kept, KubernetesFinalizer.ORPHAN] if options.orphan_dependents else kept
    match options.propagation:
        case "Orphan":
            return [*kept, KubernetesFinalizer.ORPHAN]
        case "Foreground":
            return [*kept, KubernetesFinalizer.FOREGROUND]
        case "Background":
            return kept
    if KubernetesFinalizer.ORPHAN in had or KubernetesFinalizer.FOREGROUND in had:
        return had
    return [*kept, KubernetesFinalizer.ORPHAN] if dependents == "orphan" else kept


def create_errors(served: Served, tree: Tree) -> Iterator[FieldError]:
    """Errors in the metadata of a new object, or in that of a changed one apart from the change."""
    said = meta(tree)
    name = text(said, "name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    yield from name_errors(served.strategy.name_messages, name, text(said, "generateName"))
    yield from common_errors(served, said)
    if not served.custom:
        for index, finalizer in enumerate(finalizers(tree)):
            if "/" not in finalizer and finalizer not in STANDARD:
                detail = "name is neither a standard finalizer name nor is it fully qualified"
                yield invalid(f"metadata.finalizers[{index}]", finalizer, detail)


def path_errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of a name that cannot be a path segment."""
    for field in ("generateName", "name"):
        value = text(tree, "metadata", field)
        trouble = path_trouble(value)
        if trouble:
            yield invalid(f"metadata.{field}", value, trouble)


def common_errors(served: Served, said: Tree) -> Iterator[FieldError]:
    """Errors in the metadata of a new or changed object."""
    namespace = text(said, "namespace")
    if served.resource.namespaced:
        if not namespace:
            yield required("metadata.namespace")
        yield from (invalid("metadata.namespace", namespace, message) for message in dns_label(namespace) if namespace)
    elif namespace:
        yield forbidden("metadata.namespace", "not allowed on this type")
    if said.get("labels"):
        yield from labels_errors(said["labels"], "metadata.labels")
    if said.get("annotations"):
        yield from annotations_errors(said["annotations"], "metadata.annotations")
    if said.get("ownerReferences"):
        yield from owner_errors(items(said, "ownerReferences"))
    if said.get("finalizers"):
        yield from finalizer_errors(said["finalizers"])
    for index, entry in enumerate(items(said, "managedFields")):
        yield from manager_entry_errors(entry, f"metadata.managedFields[{index}]")


def owner_errors(owners: Sequence[object]) -> Iterator[FieldError]:
    """Errors in the owner references."""
    path = "metadata.ownerReferences"
    controller = ""
    shown: msgspec.Raw | None = None
    for owner in owners:
        if not text(owner, "apiVersion").rpartition("/")[2]:
            yield invalid(f"{path}.apiVersion", text(owner, "apiVersion"), "version must not be empty")
        for field in ("kind", "name", "uid"):
            if not text(owner, field):
                yield invalid(f"{path}.{field}", "", NO_EMPTY)
        if (text(owner, "apiVersion"), text(owner, "kind")) == ("v1", "Event"):
            yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if mapping(owner).get("controller") is True:
            current = f"{text(owner, 'kind')}/{text(owner, 'name')}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {current}"
                )
                shown = shown or msgspec.Raw(msgspec.json.encode([in_order(one) for one in owners]))
                yield invalid(path, shown, detail)
            controller = controller or current


def in_order(owner: object) -> dict[str, object]:
    """An owner reference with its fields in the order of kube-apiserver."""
    held = mapping(owner)
    order = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    return {name: held[name] for name in order if name in held}


def finalizer_errors(found: Json) -> Iterator[FieldError]:
    """Errors in a list of finalizers."""
    path = "metadata.finalizers"
    names = [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
    for name in names:
        yield from (invalid(path, name, message) for message in qualified_name(name))
    if KubernetesFinalizer.ORPHAN in names and KubernetesFinalizer.FOREGROUND in names:
        yield invalid(
            path,
            names,
            f"finalizer {KubernetesFinalizer.ORPHAN} and {KubernetesFinalizer.FOREGROUND} cannot be both set",
        )


def manager_entry_errors(entry: object, path: str) -> Iterator[FieldError]:
    """Errors in an entry of the managed fields."""
    operation, kind = text(entry, "operation"), text(entry, "fieldsType")
    if operation not in ("Apply", "Update"):
        yield invalid(f"{path}.operation", operation, "must be `Apply` or `Update`")
    if kind and kind != "FieldsV1":
        yield invalid(f"{path}.fieldsType", kind, "must be `FieldsV1`")
    yield from manager_errors(text(entry, "manager"), f"{path}.manager")


def update_errors(served: Served, new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors in the metadata of a changed object of any kind."""
    yield from path_errors(new)
    yield from common_errors(served, meta(new))
    yield from change_errors(meta(new), meta(old))


def change_errors(said: Tree, before: Tree) -> Iterator[FieldError]:
    """Errors for metadata fields that may not change."""
    if before.get("deletionTimestamp"):
        added = sorted(set(map(str, items(said, "finalizers"))) - set(map(str, items(before, "finalizers"))))
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
            yield forbidden("metadata.finalizers", f"{detail}[]string{{{listed}}}")
    if not said.get("resourceVersion"):
        yield invalid("metadata.resourceVersion", "", "must be specified for an update")
    for field in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if said.get(field) != before.get(field):
            yield invalid(f"metadata.{field}", said.get(field), IMMUTABLE)
    yield from labels_errors(said.get("labels"), "metadata.labels")
    yield from annotations_errors(said.get("annotations"), "metadata.annotations")
    yield from owner_errors(items(said, "ownerReferences"))
    for index, entry in enumerate(items(said, "managedFields")):
        yield from manager_entry_errors(entry, f"metadata.managedFields[{index}]")


def deduplicated(tree: Tree, warn: Callable[[str], None], *, admitted: bool) -> Tree:
    """The object without duplicate owner references; adds a warning for the caller."""
    owners = items(tree, "metadata", "ownerReferences")
    if len(owners) < 2:
        return tree
    kept: dict[bytes, Json] = {}
    twice = []
    for owner in owners:
        mark = msgspec.json.encode(owner, order="sorted")
        if mark in kept:
            twice.append(text(owner, "uid"))
        else:
            kept[mark] = cast("Json", owner)
    if not twice:
        return tree
    warn(duplicates_text(twice, admitted=admitted))
    return with_meta(tree, ownerReferences=[*kept.values()])


def duplicates_text(uids: Sequence[str], *, admitted: bool) -> str:
    """The warning about duplicate owner references."""
    after = " after mutating admission happens" if admitted else ""
    return (
        f".metadata.ownerReferences contains duplicate entries{after}; API server dedups owner references in 1.20+, "
        f"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        f"{', '.join(uids)}"
    )
