"""The steps of a create or an update that are the same for all kinds, with what each kind's `Strategy` adds."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from pykueue.api.core import Tree
from pykueue.api.fields import FieldError, invalid
from pykueue.api.kinds import KINDS
from pykueue.api.rules.table import check_schema, schema_rules
from pykueue.api.trees import items, whole
from pykueue.apiserver.kinds.jobdefaults import INT32_MAX
from pykueue.apiserver.kinds.metadata import (
    STANDARD,
    change_errors,
    create_errors,
    finalizers,
    meta,
    path_errors,
    update_errors,
    with_meta,
)
from pykueue.apiserver.kinds.poddefaults import as_tree
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.kinds.validation import BLOCKING, ErrorWithoutValue, Unchecked
from pykueue.apiserver.schema.schemas import Schema, defaulted, errors, iter_errors, pruned
from pykueue.apiserver.wire.statuserrors import ERRORS_MAX


def complete(served: Served, tree: Tree, *, applied: bool = False, known: Tree | None = None) -> Tree:
    """The object without unknown fields and with all defaults, in the served version.

    The result of an apply to a custom kind has no unknown fields, and keeps fields that became null. Parts that are
    shared with `known`, which is complete, are not completed again.
    """
    schema, original, strategy = served.schema, tree, served.strategy
    if schema is not None:
        tree = defaulted(schema, tree if applied and served.custom else pruned(schema, tree, known), known)
        tree = strategy.restore_pruned(tree, original)
    tree = strategy.complete_status(strategy.default(tree))
    told = meta(original).get("managedFields")
    if told in ([], [{}]):
        # An empty list asks for the managed fields to be reset.
        tree = with_meta(tree, managedFields=told)
    return tree


def prepare_create(served: Served, tree: Tree, now: str) -> Tree:
    """A new object with the fields that the server sets."""
    strategy = served.strategy
    if strategy.is_spec_changed is not None:
        tree = with_meta(tree, generation=1)
    if served.custom:
        return {name: value for name, value in tree.items() if name != "status" or not served.has_status}
    return strategy.prepare_create(tree, now)


def prepare_update(served: Served, new: Tree, old: Tree, subresource: str) -> Tree:
    """A changed object in which fields that a write to this subresource cannot change keep their old values."""
    strategy = served.strategy
    if subresource == "status":
        new = only_status(served, new, old)
    elif subresource == "finalize":
        new = {**old, "metadata": meta(new), "spec": as_tree(new.get("spec"))}
    elif served.has_status and subresource != "binding":
        new = taken(new, old, "status")
    if subresource == "":
        new = strategy.prepare_update(new, old)
    said, before = meta(new), meta(old)
    generation = whole(before, "generation")
    if not subresource and strategy.is_spec_changed is not None and strategy.is_spec_changed(new, old):
        generation = (generation or 0) + 1
    kept: Tree = {"generation": generation, "creationTimestamp": before.get("creationTimestamp")}
    kept["uid"] = said.get("uid") or before.get("uid")
    if before.get("deletionTimestamp"):
        kept["deletionTimestamp"] = before["deletionTimestamp"]
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in said and not said[name]:
            kept[name] = None
    if said.get("deletionGracePeriodSeconds") is None:
        kept["deletionGracePeriodSeconds"] = before.get("deletionGracePeriodSeconds")
    return with_meta(new, **kept)


def only_status(served: Served, new: Tree, old: Tree) -> Tree:
    """The old object with the new status; built-in kinds also take the new metadata."""
    if served.custom:
        metadata = {**meta(old)}
        managed = meta(new).get("managedFields")
        metadata.pop("managedFields", None)
        if managed is not None:
            metadata["managedFields"] = managed
        made = {**old, "metadata": metadata}
        made.pop("status", None)
        return made | ({"status": new["status"]} if "status" in new else {})
    return served.strategy.prepare_status_update(taken(new, old, "spec"), old)


def taken(new: Tree, old: Tree, name: str) -> Tree:
    """The new object with one field of the old one."""
    if new.get(name) is old.get(name):
        return new
    if name in old:
        return {**new, name: old[name]}
    return {key: value for key, value in new.items() if key != name}


def errors_of_new(served: Served, tree: Tree, shown: Tree) -> list[FieldError]:
    """The errors of a new object, at most `ERRORS_MAX`; `shown` is the object in the version of the request."""
    found = [*islice(create_errors(served, tree), ERRORS_MAX)]
    if served.custom:
        found += [*islice(custom_errors(served, shown, None, "", found), ERRORS_MAX)]
    found += islice(served.strategy.validate(tree), ERRORS_MAX)
    return (found or [*path_errors(tree)])[:ERRORS_MAX]


def errors_of_changed(
    served: Served, new: Tree, old: Tree, shown: Tree, before: Tree, subresource: str
) -> list[FieldError]:
    """The errors of a changed object, at most `ERRORS_MAX`.

    `shown` and `before` are the new and the old object in the version of the request.
    """
    return [*islice(all_errors_of_changed(served, new, old, shown, before, subresource), ERRORS_MAX)]


def all_errors_of_changed(
    served: Served, new: Tree, old: Tree, shown: Tree, before: Tree, subresource: str
) -> Iterable[FieldError]:
    """All errors of a changed object, in the order of kube-apiserver."""
    # kube-apiserver validates metadata more than once, and lists the errors of each pass.
    found = [*islice(update_errors(served, new, old), ERRORS_MAX)]
    again = [*islice(change_errors(meta(new), meta(old)), ERRORS_MAX)] if found else []
    if served.custom:
        found += again
        return chain(found, custom_errors(served, shown, before, subresource, found))
    strategy = served.strategy
    if subresource:
        return chain(found, again, strategy.validate_status(new, old) if subresource == "status" else ())
    whole_again = create_errors(served, new) if found or finalizers(new) else ()
    judged = strategy.validate_update(new, old)
    if strategy.repeats_metadata_errors_last:
        return chain(found, whole_again, judged, again)
    return chain(found, again, judged, whole_again)


def custom_errors(
    served: Served, new: Tree, old: Tree | None, subresource: str, others: Sequence[FieldError]
) -> Iterator[FieldError]:
    """The errors of a custom object by its schema and the rules in it; `others` are the errors of its metadata."""
    schema = served.schema
    found: list[FieldError] = []
    if schema is not None:
        wrong = iter_errors(schema, new)
        if old is not None:
            # Errors that the old object has too do not prevent other changes.
            wrong = new_errors(wrong, schema, old)
        if subresource == "status":
            wrong = (within_status(error) for error in wrong if error.path.startswith("status"))
        found += islice(wrong, ERRORS_MAX)
    found += replica_errors(served, new)
    yield from found
    kind, version = served.resource.kind, served.resource.version
    if kind not in KINDS or KINDS[kind].group != served.resource.group:
        return
    if any(error.code in BLOCKING for error in (*others, *found)) and schema_rules(kind, version):
        yield Unchecked
        return
    for error in check_schema(kind, new, old, version=version):
        if error.code == "Invalid" and error.value in ("object", "array"):
            # kube-apiserver shows no value in place of an object or an array.
            yield ErrorWithoutValue(error.path or "<nil>", error.code, None, error.detail)
        else:
            yield error


def new_errors(wrong: Iterator[FieldError], schema: Schema, old: Tree) -> Iterator[FieldError]:
    """The errors that the old object does not have."""
    known: set[str] | None = None
    for error in wrong:
        known = set(map(str, errors(schema, old))) if known is None else known
        if str(error) not in known:
            yield error


def within_status(error: FieldError) -> FieldError:
    """An error as it is worded when only the status is validated."""
    inner = error.path.removeprefix("status").removeprefix(".")
    detail = error.detail.replace(f"{error.path} in body", f"{inner} in body")
    return FieldError(error.path, error.code, error.value, detail)


def replica_errors(served: Served, tree: Tree) -> Iterator[FieldError]:
    """The errors of the replica counts of a custom object."""
    for path in (served.scale.spec, served.scale.status) if served.scale else ():
        count = whole(tree, *path.removeprefix(".").split("."))
        if count is not None and count < 0:
            yield invalid(path, count, "should be a non-negative integer")
        elif count is not None and count > INT32_MAX:
            yield invalid(path, count, f"should be less than or equal to {INT32_MAX}")


def warnings_of(served: Served, tree: Tree, old: Tree | None) -> Iterator[str]:
    """Warnings for the author of an object; `old` is None for a new one."""
    if old is None:
        yield from served.strategy.warnings(tree)
    if served.custom:
        added = {str(one) for one in items(tree, "metadata", "finalizers")}
        known = {str(one) for one in items(old or {}, "metadata", "finalizers")}
        for name in sorted(added - known):
            if "/" not in name and name not in STANDARD:
                qualified = " including a path (/)" if "." in name else ""
                yield (
                    f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name{qualified} to avoid '
                    "accidental conflicts with other finalizer writers"
                )
