"""CustomResourceDefinitions: defaults, validation, and the conditions that say whether a kind is served."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.fields import FieldError, invalid, not_supported, required
from pykueue.api.names import GROUP
from pykueue.api.trees import items, mapping, mappings, member, text
from pykueue.apiserver.kinds.metadata import finalizers, with_meta
from pykueue.apiserver.kinds.names import dns_label, dns_subdomain
from pykueue.apiserver.kinds.poddefaults import as_list, as_tree, each
from pykueue.apiserver.wire.writeterms import DeleteOptions

STORAGE: Final = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
SCOPES: Final = ("Cluster", "Namespaced")
STRATEGIES: Final = ("None", "Webhook")
RULES: Final = "x-kubernetes-validations"
VERSION_FIELDS: Final = (
    "name",
    "served",
    "storage",
    "deprecated",
    "deprecationWarning",
    "schema",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
)
DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
DNS_1035_SAYS: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def default(tree: Tree) -> Tree:
    """A definition with its defaults."""
    spec = {**as_tree(tree.get("spec"))}
    names = {**as_tree(spec.get("names"))}
    kind = text(names, "kind")
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    spec["names"] = names
    if not isinstance(spec.get("conversion"), dict):
        spec["conversion"] = {"strategy": "None"}
    return {**tree, "spec": spec}


def restored(tree: Tree, original: Tree) -> Tree:
    """A definition with the empty `status` subresources that its author wrote."""
    given = {text(one, "name"): mapping(one, "subresources") for _, one in mappings(original, "spec", "versions")}

    def change(version: Tree) -> Tree:
        asked = given.get(text(version, "name"), {})
        if "status" not in asked:
            return version
        return {**version, "subresources": {**as_tree(version.get("subresources")), "status": {}}}

    spec = as_tree(tree.get("spec"))
    return {**tree, "spec": {**spec, "versions": each(spec.get("versions"), change)}} if "versions" in spec else tree


def created(tree: Tree, now: str) -> Tree:
    """A new definition with its initial status."""
    stored: list[Json] = [
        text(one, "name") for _, one in mappings(tree, "spec", "versions") if one.get("storage") is True
    ]
    status: Tree = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}
    return {**tree, "status": status}


def errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of a definition, except in its metadata."""
    spec, name = mapping(tree, "spec"), text(tree, "metadata", "name")
    names, group = mapping(spec, "names"), text(spec, "group")
    plural = text(names, "plural")
    if plural and group and name != f"{plural}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    elif dns_subdomain(group):
        yield from (invalid("spec.group", group, message) for message in dns_subdomain(group))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from one_of(text(spec, "scope"), SCOPES, "spec.scope")
    yield from version_errors(spec)
    yield from name_errors(names)
    strategy = text(spec, "conversion", "strategy")
    if strategy not in STRATEGIES:
        yield not_supported("spec.conversion.strategy", strategy, STRATEGIES)


def one_of(value: str, offered: tuple[str, ...], path: str) -> Iterator[FieldError]:
    """Errors of a value that must be one of a set."""
    if not value:
        yield required(path)
    if value not in offered:
        yield not_supported(path, value, offered)


def version_errors(spec: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors in the versions of a definition."""
    versions = mappings(spec, "versions")
    stored = [text(one, "name") for _, one in versions if one.get("storage") is True]
    seen: set[str] = set()
    for index, one in versions:
        path, name = f"spec.versions[{index}]", text(one, "name")
        if not DNS_1035.fullmatch(name):
            yield invalid(f"{path}.name", name, DNS_1035_SAYS)
        if name in seen:
            yield invalid(
                "spec.versions", [text(other, "name") for _, other in versions], "must contain unique version names"
            )
        seen.add(name)
        if member(one, "schema", "openAPIV3Schema") is None:
            yield required(f"{path}.schema.openAPIV3Schema")
        elif text(one, "schema", "openAPIV3Schema", "type") != "object":
            kind = text(one, "schema", "openAPIV3Schema", "type")
            path = f"{path}.schema.openAPIV3Schema.type"
            if kind:
                yield invalid(path, kind, "must be object at the root")
            else:
                yield required(path, "must not be empty at the root")
    if len(stored) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid(
            "spec.versions", msgspec.Raw(msgspec.json.encode([internal_form(one) for _, one in versions])), detail
        )
        if not stored:
            none = msgspec.Raw(b"null")
            yield invalid("status.storedVersions", none, "must have at least one stored version")


def internal_form(version: Mapping[str, object]) -> dict[str, object]:
    """A version as kube-apiserver prints its internal type in messages."""
    shown = {field[0].upper() + field[1:]: version.get(field) for field in VERSION_FIELDS}
    return {**shown, "Deprecated": bool(version.get("deprecated")), "Schema": None}


def name_errors(names: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors in the names of a kind."""
    for field in ("plural", "singular", "kind", "listKind"):
        value = text(names, field)
        if not value:
            if field in ("plural", "kind"):
                yield required(f"spec.names.{field}")
            continue
        judged = value if field in ("plural", "singular") else value.lower()
        if not DNS_1035.fullmatch(judged) or dns_label(judged):
            note = "" if field in ("plural", "singular") else "may have mixed case, but should otherwise match: "
            yield invalid(f"spec.names.{field}", value, note + DNS_1035_SAYS)
    if text(names, "kind") and text(names, "kind") == text(names, "listKind"):
        yield invalid("spec.names.listKind", text(names, "listKind"), "kind and listKind may not be the same")


def change_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors of a changed definition, except in its metadata."""
    yield from errors(new)
    if established(old):
        for path in (("scope",), ("names", "kind")):
            if member(new, "spec", *path) != member(old, "spec", *path):
                yield invalid(f"spec.{'.'.join(path)}", member(new, "spec", *path), "field is immutable")
    for path in (("group",), ("names", "plural")):
        if member(new, "spec", *path) != member(old, "spec", *path):
            yield invalid(f"spec.{'.'.join(path)}", member(new, "spec", *path), "field is immutable")


def warnings(tree: Tree) -> Iterator[str]:
    """Warnings for the author of a definition about features that this server lacks."""
    if has_rules(mapping(tree, "spec").get("versions")) and text(tree, "spec", "group") != GROUP:
        yield "x-kubernetes-validations rules are not evaluated by this server"


def has_rules(node: object) -> bool:
    """Whether a schema contains validation rules."""
    if isinstance(node, Mapping):
        return RULES in node or any(map(has_rules, node.values()))
    return isinstance(node, list) and any(map(has_rules, node))


def established(tree: Tree) -> bool:
    """Whether the kind of a definition is served."""
    return any(
        text(one, "type") == "Established" and text(one, "status") == "True"
        for _, one in mappings(tree, "status", "conditions")
    )


def with_conditions(tree: Tree, now: str, taken: str) -> Tree:
    """A definition with its conditions; `taken` says why its names cannot be accepted."""
    spec = as_tree(tree.get("spec"))
    converts = text(spec, "conversion", "strategy") == "Webhook" and text(spec, "group") != GROUP
    accepted = condition("NamesAccepted", not taken, "NoConflicts", "no conflicts found", now)
    ready = condition("Established", True, "InitialNamesAccepted", "the initial names have been accepted", now)
    if taken:
        accepted = condition("NamesAccepted", False, "ListKindConflict", taken, now)
        ready = condition("Established", False, "NotAccepted", "not all names are accepted", now)
    elif converts:
        why = "conversion by a webhook is not supported by this server; use strategy None"
        ready = condition("Established", False, "ConversionUnsupported", why, now)
    status = as_tree(tree.get("status"))
    before = {text(one, "type"): one for one in as_list(status.get("conditions")) if isinstance(one, dict)}
    conditions = [since(one, before.get(text(one, "type"))) for one in (accepted, ready)]
    kept = [one for kind, one in before.items() if kind not in ("NamesAccepted", "Established")]
    stored = [str(one) for one in items(status, "storedVersions")]
    stored += [
        text(one, "name")
        for _, one in mappings(spec, "versions")
        if one.get("storage") is True and text(one, "name") not in stored
    ]
    names = status.get("acceptedNames") if taken else spec.get("names")
    listed: list[Json] = [*conditions, *kept]
    return {**tree, "status": {"conditions": listed, "acceptedNames": names, "storedVersions": [*stored]}}


def terminate(tree: Tree, options: DeleteOptions, now: str) -> Tree:
    """A definition that is being deleted; it is removed once its objects are."""
    status = as_tree(tree.get("status"))
    why = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    told = condition("Terminating", True, "InstanceDeletionPending", why, now)
    kept = as_list(status.get("conditions"))
    new: Tree = {**tree, "status": {**status, "conditions": [*kept, told]}}
    return with_meta(new, deletionTimestamp=now, finalizers=[*finalizers(tree), CLEANUP])


def condition(kind: str, true: bool, reason: str, message: str, now: str) -> Tree:
    """A condition of a definition."""
    return {
        "type": kind,
        "status": "True" if true else "False",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def since(new: Tree, old: Mapping[str, object] | None) -> Tree:
    """A condition that keeps its transition time if its status has not changed."""
    if old is not None and old.get("status") == new["status"]:
        return {**new, "lastTransitionTime": str(old.get("lastTransitionTime", ""))}
    return new
