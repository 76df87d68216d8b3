"""Decodes and encodes the entries of `metadata.managedFields`.

An entry belongs to a manager, an operation (`Apply` or `Update`), the API version of the write and its subresource. A
manager that applies has one entry for all versions, since each apply replaces the one before.
"""

from collections.abc import Iterable
from typing import Final, cast

from pykueue.api.core import Json, Tree
from pykueue.apiserver.schema.fieldsets import LEAF, SELF, FieldSet, FieldSetError, difference, parsed, union

APPLY: Final = "Apply"
UPDATE: Final = "Update"
OPERATIONS: Final = (APPLY, UPDATE)
UPDATERS_MAX: Final = 10
"""The most Update entries; older ones are merged."""
ANCIENT: Final = "ancient-changes"
BEFORE: Final = "before-first-apply"

NEVER_OWNED: Final[FieldSet] = {
    "f:apiVersion": LEAF,
    "f:kind": LEAF,
    "f:metadata": {
        SELF: LEAF,
        "f:name": LEAF,
        "f:namespace": LEAF,
        "f:creationTimestamp": LEAF,
        "f:selfLink": LEAF,
        "f:uid": LEAF,
        "f:clusterName": LEAF,
        "f:generation": LEAF,
        "f:managedFields": LEAF,
        "f:resourceVersion": LEAF,
    },
}
STATUS: Final[FieldSet] = {"f:status": LEAF}
SPEC: Final[FieldSet] = {"f:spec": LEAF}
POD_STATUS: Final[FieldSet] = {
    "f:spec": LEAF,
    "f:metadata": {"f:deletionTimestamp": LEAF, "f:ownerReferences": LEAF},
}
CUSTOM_STATUS: Final[FieldSet] = {"f:spec": LEAF, "f:metadata": LEAF}


class ManagersError(ValueError):
    """Malformed entries."""


class Owner:
    """A manager and the fields that it owns."""

    __slots__ = ("api_version", "entry", "fields", "manager", "operation", "subresource", "time")

    def __init__(self, manager: str, operation: str, api_version: str, subresource: str, fields: FieldSet) -> None:
        self.manager = manager
        self.operation = operation
        self.api_version = api_version
        self.subresource = subresource
        self.fields = fields
        self.time: str | None = None
        self.entry: Tree | None = None
        """The entry as it was read, while it is unchanged."""

    @property
    def key(self) -> "Key":
        """What identifies the entry."""
        version = "" if self.operation == APPLY else self.api_version
        return self.manager, self.operation, version, self.subresource

    def own(self, fields: FieldSet) -> None:
        """Replace the owned fields with these."""
        if fields is not self.fields:
            self.fields, self.entry = fields, None

    def written(self) -> Tree:
        """The entry of this owner."""
        if self.entry is None:
            entry: Tree = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
            if self.time is not None:
                entry["time"] = self.time
            entry["fieldsType"] = "FieldsV1"
            entry["fieldsV1"] = cast("Json", self.fields)
            if self.subresource:
                entry["subresource"] = self.subresource
            self.entry = entry
        return self.entry


Key = tuple[str, str, str, str]
Owners = dict[Key, Owner]


def entries_of(tree: Tree | None) -> Json:
    """The managed fields of an object."""
    metadata = tree.get("metadata") if tree else None
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def read_owners(entries: Json, *, ours: bool) -> Owners:
    """Decode entries; with `ours` they are not validated, because the server stored them."""
    owners: Owners = {}
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(entry, dict):
            raise ManagersError(f"managed fields entry {number} is no object")
        if not ours or entry.get("operation") not in OPERATIONS or "apiVersion" not in entry:
            check(number, entry)
        fields = entry.get("fieldsV1")
        try:
            known = cast("FieldSet", fields) if ours else parsed(fields if fields is not None else {})
        except FieldSetError as error:
            raise ManagersError(f"error decoding set: {error}") from None
        owner = Owner(
            str(entry.get("manager", "")),
            str(entry["operation"]),
            str(entry["apiVersion"]),
            str(entry.get("subresource", "")),
            known or LEAF,
        )
        time = entry.get("time")
        owner.time = time if isinstance(time, str) else None
        if ours:
            owner.entry = entry
        owners[owner.key] = owner
    return owners


def check(number: int, entry: Tree) -> None:
    """Raise the server's error for a malformed entry."""
    if entry.get("operation") not in OPERATIONS:
        raise ManagersError("operation must be `Apply` or `Update`")
    if not isinstance(entry.get("apiVersion"), str) or not entry["apiVersion"]:
        raise ManagersError("apiVersion must not be empty")
    match entry.get("fieldsType", ""):
        case "FieldsV1":
            return
        case "":
            raise ManagersError(f"missing fieldsType in managed fields entry {number}")
        case other:
            raise ManagersError(f'invalid fieldsType "{other}" in managed fields entry {number}')


def written(owners: Iterable[Owner]) -> list[Json]:
    """The entries of these owners: Apply entries first, then by time."""
    kept = [owner for owner in owners if owner.fields]
    if len(kept) > 1:
        kept.sort(key=lambda one: (one.operation, one.time or "", one.manager, one.api_version, one.subresource))
    return [owner.written() for owner in kept]


def capped(owners: Owners) -> Owners:
    """The owners with the oldest of too many Update entries merged, per version."""
    updaters = [owner for owner in owners.values() if owner.operation == UPDATE and owner.fields]
    if len(updaters) <= UPDATERS_MAX:
        return owners
    updaters.sort(key=lambda one: (one.time or "", one.key))
    count = len(updaters)
    firsts: dict[str, Owner] = {}
    for owner in updaters:
        if count <= UPDATERS_MAX:
            break
        first = firsts.setdefault(owner.api_version, owner)
        if first is owner:
            continue
        bucket = Owner(ANCIENT, UPDATE, owner.api_version, "", LEAF)
        known = owners.get(bucket.key)
        if known is None:
            bucket.fields = first.fields
            del owners[first.key]
            known = owners[bucket.key] = bucket
        known.own(union(owner.fields, known.fields))
        known.time = owner.time
        owners.pop(owner.key)
        count -= 1
    return owners


def stripped(fields: FieldSet) -> FieldSet:
    """The fields without those that are never managed."""
    return difference(fields, NEVER_OWNED)


def resets(kind: str, subresource: str, *, native: bool, status: bool) -> FieldSet:
    """The fields that a request cannot set, because the server resets them."""
    if subresource == "status":
        if not native:
            return CUSTOM_STATUS
        return POD_STATUS if kind == "Pod" else SPEC
    return STATUS if status and subresource in ("", "finalize") else {}
