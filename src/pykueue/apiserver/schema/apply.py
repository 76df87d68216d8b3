"""Server-side apply, and the tracking of managed fields in all other writes.

`applied` merges the fields that a manager wants into the object, removes fields that it no longer asks for and no other
manager owns, and refuses to override other managers unless forced. `tracked` records who changed which field in any
other write. Both return the whole object with its `metadata.managedFields`, and do not modify their arguments.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.apiserver.schema.fieldsets import (
    LEAF,
    FieldSet,
    difference,
    fitted,
    intersection,
    named,
    path_text,
    paths,
    union,
    within,
    without,
)
from pykueue.apiserver.schema.managedfields import (
    APPLY,
    BEFORE,
    UPDATE,
    ManagersError,
    Owner,
    Owners,
    capped,
    entries_of,
    read_owners,
    resets,
    stripped,
    written,
)
from pykueue.apiserver.schema.merge import (
    Differences,
    MergeError,
    compared,
    differ,
    fields_of,
    merged_maps,
    removed,
)
from pykueue.apiserver.schema.schemas import Schema
from pykueue.apiserver.schema.typefaults import faults, is_sound
from pykueue.apiserver.wire.statuserrors import ERRORS_MAX
from pykueue.base.struct import Frozen

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
ANNOTATIONS_MAX: Final = 256 * 1024
"""The size limit of all annotations of an object together."""
SAME: Final = Differences({}, {}, {})

Lift: TypeAlias = Callable[[Tree, str], "tuple[Tree, Schema] | None"]
"""Converts an object to another version of its kind, with that version's schema; `None` if it is no longer served."""


class Conflict(Frozen):
    """A field that another manager owns."""

    manager: str
    path: str
    operation: str
    api_version: str
    subresource: str = ""
    time: str = ""

    @property
    def who(self) -> str:
        """The other manager, as messages name it."""
        text = msgspec.json.encode(self.manager).decode()
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class ApplyConflictError(Exception):
    """An apply that conflicts with other managers; has the message and causes of the 409 response."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        self.conflicts = conflicts
        self.message = conflict_message(conflicts)
        self.causes: list[Json] = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {one.who}", "field": one.path}
            for one in conflicts[:ERRORS_MAX]
        ]
        super().__init__(self.message)


class ApplyError(Exception):
    """An apply that is invalid: the server's message, and the status code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def conflict_message(conflicts: list[Conflict]) -> str:
    """Kubernetes' message for these conflicts; only the first are listed."""
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: conflict with {conflicts[0].who}: {conflicts[0].path}"
    lines: list[str] = []
    for number, one in enumerate(conflicts[:ERRORS_MAX]):
        if number == 0 or conflicts[number - 1].who != one.who:
            lines.append(f"conflicts with {one.who}:")
        lines.append(f"- {one.path}")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


class Request(Frozen):
    """One write: its manager, time, version and subresource."""

    manager: str
    api_version: str
    kind: str
    schema: Schema
    now: str
    subresource: str
    status: bool
    lift: Lift | None

    def resets(self) -> FieldSet:
        """The fields that the write cannot set."""
        return resets(self.kind, self.subresource, native=self.schema.native, status=self.status)

    def differ(self, old: Tree, new: Tree) -> bool:
        """Whether the write changes anything."""
        return differ(old, new) if self.schema.loose else old != new

    def stamp(self, owner: Owner) -> None:
        """Set the time of the owner's entry. Entries of `scale` have no time, as in kube-apiserver."""
        if self.subresource != "scale":
            owner.time = self.now
        owner.entry = None

    def owner(self, operation: str, manager: str = "") -> Owner:
        """The manager of this write, without any fields yet."""
        return Owner(manager or self.manager or "unknown", operation, self.api_version, self.subresource, LEAF)


def applied(
    live: Tree | None,
    wanted: Tree,
    *,
    manager: str,
    force: bool,
    api_version: str,
    schema: Schema,
    now: str,
    subresource: str = "",
    status: bool = True,
    lift: Lift | None = None,
) -> Tree:
    """The object after a manager applied its fields, before defaulting.

    `status` says whether the kind has a status subresource. With `lift`, fields that managers own in other versions of
    the kind are compared in those. Raises `ApplyConflictError`, and `ApplyError` if the body is invalid.
    """
    request = Request(manager, api_version, kind_of(wanted), schema, now, subresource, status, lift)
    refuse(live, wanted, api_version)
    base = bare(live) if live is not None else {}
    try:
        return apply(request, starting(request, live, base), base, wanted, force)
    except ApplyConflictError as error:
        allowed = carried_over(request, base) if manager == "kubectl" else None
        if allowed is None:
            raise
        left = [one for one in error.conflicts if one.path not in allowed]
        if left:
            raise ApplyConflictError(left) from None
        return apply(request, starting(request, live, base), base, wanted, True)
    except MergeError as error:
        raise ApplyError(str(error), 500) from None
    except ManagersError as error:
        raise ApplyError(f"failed to decode managed fields: {error}", 500) from None


def starting(request: Request, live: Tree | None, base: Tree) -> Owners:
    """The managers before an apply; fields without a manager belong to `before-first-apply`."""
    owners = read_owners(entries_of(live), ours=True)
    if not owners and live is not None:
        track(request, owners, request.schema.zero, base, BEFORE)
    return owners


def kind_of(tree: Tree) -> str:
    """The kind that an object names."""
    return str(tree.get("kind", ""))


def refuse(live: Tree | None, wanted: Tree, api_version: str) -> None:
    """Raise the server's error if a body cannot be applied here."""
    version, kind = wanted.get("apiVersion"), kind_of(wanted)
    if version != api_version or not kind or (live is not None and "kind" in live and live["kind"] != kind):
        raise ApplyError(f"invalid object type: {kind_text(str(version or ''), kind)}", 400)
    if entries_of(wanted) is not None:
        raise ApplyError("metadata.managedFields must be nil", 400)


def kind_text(api_version: str, kind: str) -> str:
    """A kind as the server's messages name it."""
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def bare(tree: Tree) -> Tree:
    """The object without its managed fields."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return tree
    return {**tree, "metadata": {name: inner for name, inner in metadata.items() if name != "managedFields"}}


def managed(tree: Tree, owners: Owners) -> Tree:
    """The object with the managed fields of these owners."""
    entries = written(owners.values())
    metadata = tree.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    if entries:
        return {**tree, "metadata": {**known, "managedFields": entries}}
    return bare(tree)


def apply(request: Request, owners: Owners, base: Tree, wanted: Tree, force: bool) -> Tree:
    """The object with the applied fields merged in, and its managers."""
    node = request.schema.node
    if not is_sound(node, wanted):
        raise ApplyError(untyped(request, wanted, list(islice(faults(node, wanted), ERRORS_MAX))), 500)
    refit(request, owners)
    new = merged_maps(node, base, wanted)
    mine = request.owner(APPLY)
    last = owners.get(mine.key)
    fields = without(fields_of(node, wanted) or {}, request.resets())
    if last is not None:
        mine.time = last.time
        mine.entry = last.entry
        mine.fields = last.fields
    owners[mine.key] = mine
    kept = stripped(fields)
    if last is not None and last.fields and last.fields != kept and not within(last.fields, fields):
        mine.fields = fields
        new = given_up(request, owners, new, last)
        mine.fields = last.fields
    if new is not base and request.differ(base, new):
        settle(request, owners, mine, base, new, force)
        request.stamp(mine)
    if mine.fields != kept or (last is not None and last.api_version != mine.api_version):
        mine.own(kept)
    if not kept:
        del owners[mine.key]
    return managed(noted(request, new, wanted), owners)


def untyped(request: Request, wanted: Tree, problems: list[str]) -> str:
    """Kubernetes' message for an object that does not fit its schema."""
    metadata = wanted.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    where = f"{known.get('namespace', '')}/{known.get('name', '')}; {kind_text(request.api_version, request.kind)}"
    text = problems[0] if len(problems) == 1 else "\n".join(["errors:", *(f"  {one}" for one in problems)])
    return f"failed to create typed patch object ({where}): {text}"


def refit(request: Request, owners: Owners) -> None:
    """Adapt managed fields to the present schema."""
    for owner in owners.values():
        if owner.api_version == request.api_version:
            owner.own(fitted(owner.fields, request.schema.node))


def settle(request: Request, owners: Owners, mine: Owner, old: Tree, new: Tree, force: bool) -> Differences:
    """Take changed and removed fields from other managers; raises `ApplyConflictError` unless forced."""
    node = request.schema.node
    found: dict[str, Differences] = {
        request.api_version: masked(compared(node, old, new, loose=request.schema.loose), request.resets())
    }
    conflicts: list[Conflict] = []
    losses: list[tuple[Owner, FieldSet]] = []
    for key, owner in sorted(owners.items()):
        if owner is mine:
            continue
        changes = in_version(request, found, owner.api_version, old, new)
        if changes is None:
            del owners[key]
            continue
        lost = intersection(owner.fields, union(changes.modified, changes.added))
        if lost:
            conflicts.extend(conflict(owner, path_text(path)) for path in paths(lost))
        if lost or changes.removed:
            losses.append((owner, union(lost, changes.removed)))
    if conflicts and not force:
        raise ApplyConflictError(conflicts)
    for owner, lost in losses:
        left = difference(owner.fields, lost)
        if left != owner.fields:
            owner.own(left)
    return found[request.api_version]


def conflict(owner: Owner, path: str) -> Conflict:
    """The conflict with a manager over a field."""
    return Conflict(owner.manager, path, owner.operation, owner.api_version, owner.subresource, owner.time or "")


def masked(changes: Differences, mask: FieldSet) -> Differences:
    """The differences without fields that the server resets."""
    if not mask:
        return changes
    return Differences(without(changes.removed, mask), without(changes.modified, mask), without(changes.added, mask))


def in_version(
    request: Request, found: dict[str, Differences], version: str, old: Tree, new: Tree
) -> Differences | None:
    """The differences of two objects in a version; `None` if it is no longer served."""
    if version in found or request.lift is None:
        return found.get(version) or found[request.api_version]
    before, after = request.lift(old, version), request.lift(new, version)
    if before is None or after is None:
        return None
    found[version] = compared(after[1].node, before[0], after[0], loose=after[1].loose)
    return found[version]


def given_up(request: Request, owners: Owners, new: Tree, last: Owner) -> Tree:
    """The object without fields that its manager no longer applies and no other manager owns."""
    version, schema, both = last.api_version, request.schema, new
    lifted = request.lift(new, version) if request.lift and version != request.api_version else None
    if lifted is not None:
        both, schema = lifted
    node = schema.node
    before = named(last.fields, node)
    everything = named(fields_of(node, both) or {}, node)
    less = tree_of(removed(node, both, before))
    owned: FieldSet = {}
    for owner in owners.values():
        owned = union(owned, owner.fields)
    # Remove all fields without an owner first, then restore those that this manager did not own.
    spare = difference(everything, union(named(fields_of(node, less) or {}, node), named(owned, node)))
    less = tree_of(removed(node, both, spare))
    gone = intersection(difference(everything, named(fields_of(node, less) or {}, node)), before)
    if not gone:
        return new
    less = tree_of(removed(node, both, gone))
    if lifted is None or request.lift is None:
        return less
    back = request.lift(less, request.api_version)
    return back[0] if back else new


def tree_of(value: Json) -> Tree:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def carried_over(request: Request, live: Tree) -> frozenset[str] | None:
    """The fields unchanged since a client-side `kubectl apply`, whose ownership this manager may take over."""
    text = annotations_of(live).get(LAST_APPLIED)
    if not isinstance(text, str) or not text:
        return None
    try:
        before = msgspec.json.decode(text)
        if not isinstance(before, dict) or before.get("apiVersion") != request.api_version:
            return None
        node = request.schema.node
        changes = compared(node, before, live, loose=request.schema.loose)
        fields = fields_of(node, before) or {}
    except (msgspec.DecodeError, MergeError):
        return None
    for changed in (changes.modified, changes.added, changes.removed):
        fields = difference(fields, changed)
    return frozenset(path_text(path) for path in paths(fields))


def annotations_of(tree: Tree) -> Tree:
    """The annotations of an object."""
    metadata = tree.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def noted(request: Request, new: Tree, wanted: Tree) -> Tree:
    """The object with its last-applied-configuration annotation updated, if it has one."""
    known = annotations_of(new)
    if request.manager != "kubectl" or not known.get(LAST_APPLIED):
        return new
    metadata = tree_of(wanted.get("metadata"))
    plain = dict(wanted)
    if "annotations" in metadata:
        others = {name: text for name, text in annotations_of(wanted).items() if name != LAST_APPLIED}
        plain["metadata"] = {**metadata, "annotations": others}
    text = msgspec.json.encode(plain, order="sorted").decode() + "\n"
    annotations: Tree = {**known, LAST_APPLIED: text}
    if sum(len(name) + len(str(value)) for name, value in annotations.items()) > ANNOTATIONS_MAX:
        annotations = without_key(known, LAST_APPLIED)
    return {**new, "metadata": {**tree_of(new.get("metadata")), "annotations": annotations}}


def without_key(tree: Tree, key: str) -> Tree:
    """The tree without one key."""
    return {name: inner for name, inner in tree.items() if name != key}


def tracked(
    before: Tree | None,
    after: Tree,
    *,
    manager: str,
    api_version: str,
    schema: Schema,
    now: str,
    subresource: str = "",
    status: bool = True,
    lift: Lift | None = None,
) -> Tree:
    """The object after a create, an update or a patch, with updated managed fields.

    `before` is `None` for a create. An update may set managedFields itself, and `[]` or `[{}]` resets them.
    """
    request = Request(manager, api_version, kind_of(after), schema, now, subresource, status, lift)
    owners = owners_after(before, after, subresource)
    new = bare(after)
    if not owners and before is not None:
        return new
    try:
        track(request, owners, bare(before) if before is not None else schema.zero, new, "")
    except MergeError:
        # Validation refuses lists with duplicate keys later; until then no fields are tracked.
        return new
    return managed(new, capped(owners))


def owners_after(before: Tree | None, after: Tree, subresource: str) -> Owners:
    """The managers that an update starts from: those in the body, or else those of the stored object."""
    known, brought = entries_of(before), entries_of(after)
    if not subresource and brought is not None and brought != known:
        if brought in ([], [{}]):
            return {}
        with suppress(ManagersError):
            if owners := read_owners(brought, ours=False):
                return owners
    with suppress(ManagersError):
        return read_owners(known, ours=True)
    return {}


def track(request: Request, owners: Owners, old: Tree, new: Tree, manager: str) -> None:
    """Assign the changed fields to the manager that changed them."""
    if old is new or not request.differ(old, new):
        return
    refit(request, owners)
    mine = request.owner(UPDATE, manager)
    changes = settle(request, owners, mine, old, new, True)
    fields = stripped(union(changes.modified, changes.added))
    if not fields:
        return
    known = owners.setdefault(mine.key, mine)
    known.own(union(fields, known.fields))
    request.stamp(known)


def kept_times(old: Tree, new: Tree) -> Tree:
    """The new object with the old managed fields, if only their times have changed."""
    before, after = entries_of(old), entries_of(new)
    if not isinstance(before, list) or not isinstance(after, list) or len(before) != len(after) or before == after:
        return new
    timeless = [[without_key(tree_of(entry), "time") for entry in entries] for entries in (before, after)]
    if timeless[0] != timeless[1] or differ(bare(old), bare(new)):
        return new
    return {**new, "metadata": {**tree_of(new.get("metadata")), "managedFields": before}}
