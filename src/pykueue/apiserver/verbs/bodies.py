"""Checks of a request body: kind and version, types of fields, unknown fields, name and namespace."""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.fields import FieldError, invalid
from pykueue.apiserver.kinds.metadata import meta
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.schema.godecoder import unreadable, wrong
from pykueue.apiserver.schema.jsonpatch import mismatch
from pykueue.apiserver.schema.schemas import builtin, unknown_fields
from pykueue.apiserver.wire.negotiation import from_yaml
from pykueue.apiserver.wire.statuserrors import StatusError, bad_request, quoted
from pykueue.apiserver.wire.statuserrors import invalid as refused
from pykueue.apiserver.wire.writeterms import Terms
from pykueue.kube.port import Resource

SUMMARY_MAX: Final = 30
"""The most characters of a body that an error shows."""
BASE64: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
NAMESPACE_DIFFERS: Final = "the namespace of the provided object does not match the namespace sent on the request"
STRICT: Final = "strict decoding error: "


def check_kind(served: Served, tree: Tree) -> Tree:
    """The object, if it has the expected kind and version; both are filled in if missing."""
    resource = served.resource
    for field in ("apiVersion", "kind"):
        value = tree.get(field)
        if value is not None and not isinstance(value, str):
            raise untyped(served, tree, mismatch(value, "string").replace("Go value", f"Go struct field .{field}"))
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if served.custom and not kind:
        raise bad_request(f"Object 'Kind' is missing in '{msgspec.json.encode(tree).decode()}'")
    if not version and not served.custom:
        version = resource.api_version
    version, kind = str(version or ""), str(kind or resource.kind)
    if version != resource.api_version:
        if not served.custom and builtin(version, kind) is None:
            raise unregistered(served, version, kind)
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    if kind != resource.kind:
        if served.custom:
            raise invalid_type(served, tree, invalid("kind", kind, f"must be {resource.kind}"))
        if builtin(version, kind) is None:
            raise unregistered(served, version, kind)
        raise bad_request(
            f"{kind} in version {quoted(resource.version)} cannot be handled as a {resource.kind}: converting "
            f"({go_type(resource.version, kind)}) to ({go_package(resource.group)}.{resource.kind}): unknown conversion"
        )
    return {**tree, "apiVersion": version, "kind": kind}


def unregistered(served: Served, version: str, kind: str) -> StatusError:
    """The error for an unknown kind."""
    return bad_request(
        f"{kind} in version {quoted(version.rpartition('/')[2])} cannot be handled as a {served.resource.kind}: no "
        f'kind {quoted(kind)} is registered for version {quoted(version)} in scheme "pkg/runtime/scheme.go:111"'
    )


def untyped(served: Served, tree: Tree, trouble: str) -> StatusError:
    """The error for an object without kind or apiVersion."""
    raw = msgspec.json.encode(tree).decode()
    summary = f"{raw[:SUMMARY_MAX]} ..." if len(raw) > SUMMARY_MAX else raw
    return bad_request(
        f"the object provided is unrecognized (must be of type {served.resource.kind}): couldn't get version/kind; "
        f"json parse error: {trouble} ({summary})"
    )


def other_kind(served: Served, tree: Tree) -> str:
    """Why a patched object cannot be decoded as its kind; empty if its `kind` is unchanged, or can be decoded."""
    resource, kind = served.resource, str(tree.get("kind") or "")
    if kind == resource.kind:
        return ""
    if kind == "Secret":
        return uncoded("data", tree)
    return (
        f"converting ({go_type(resource.version, kind)}) to ({go_package(resource.group)}.{resource.kind}): unknown "
        "conversion"
    )


def go_type(version: str, kind: str) -> str:
    """The Go type of a kind."""
    return f"{version}.{kind}"


def go_package(group: str) -> str:
    """The Go package of a group's internal types."""
    return group.partition(".")[0] or "core"


def invalid_type(served: Served, tree: Tree, error: FieldError) -> StatusError:
    """The error for an object of another kind."""
    resource = served.resource
    given = Resource(resource.group, resource.version, resource.plural, str(tree.get("kind")))
    return refused(given, str(meta(tree).get("name") or ""), [error])


def check_types(served: Served, tree: Tree) -> None:
    """Refuse an object that does not fit the types of its kind; for a custom kind only metadata is checked."""
    schema = served.schema
    if schema is None:
        return
    if not schema.native:
        trouble = wrong(schema.node.fields["metadata"], tree.get("metadata"), "", "")
        if trouble:
            raise bad_request(handled(served, trouble))
        return
    trouble = unreadable(schema, tree) or uncoded(served.strategy.bytes_field, tree)
    if trouble:
        raise bad_request(handled(served, trouble))


def uncoded(field: str, tree: Tree) -> str:
    """Why the base64 values in a field cannot be decoded; empty if they can, or if there is no such field."""
    held = tree.get(field)
    for value in held.values() if isinstance(held, dict) else ():
        if isinstance(value, str):
            bare = value.rstrip("=")
            place = next((index for index, letter in enumerate(bare) if letter not in BASE64), None)
            if place is not None or len(value) % 4 or len(value) - len(bare) > 2:
                return f"illegal base64 data at input byte {len(bare) // 4 * 4 if place is None else place}"
    return ""


def handled(served: Served, trouble: str) -> str:
    """kube-apiserver's message for a body that does not fit its kind."""
    resource = served.resource
    return f"{resource.kind} in version {quoted(resource.version)} cannot be handled as a {resource.kind}: {trouble}"


def check_fields(served: Served, tree: Tree, terms: Terms, *, patched: Callable[[], str] | None = None) -> None:
    """Refuse unknown fields or warn about them, as the request asks.

    For a patch, `patched` returns the text that the error shows.
    """
    schema = served.schema
    if schema is None or terms.validation == "Ignore":
        return
    unknown = [f"unknown field {quoted(path)}" for path in unknown_fields(schema, tree)]
    if not unknown:
        return
    if terms.validation == "Warn":
        for text in unknown:
            terms.warn(text)
        return
    told = STRICT + ", ".join(unknown)
    raise bad_request(handled(served, told)) if patched is None else unfit(patched(), told)


def unfit(shown: str, trouble: str) -> StatusError:
    """The error for a patch whose result cannot be decoded."""
    error = invalid("patch", shown, trouble)
    cause: Tree = {"reason": "FieldValueInvalid", "message": str(error).removeprefix("patch: "), "field": "patch"}
    return StatusError(422, "Invalid", f' "" is invalid: {error}', {"causes": [cause]})


def check_namespace(served: Served, tree: Tree, namespace: str) -> Tree:
    """The object in the namespace of the request; refuses one that names another."""
    wanted = namespace if served.resource.namespaced else ""
    named = meta(tree).get("namespace")
    if named == wanted:
        return tree
    if named and wanted:
        raise bad_request(NAMESPACE_DIFFERS)
    metadata = {**meta(tree)}
    metadata.pop("namespace", None)
    if wanted:
        metadata["namespace"] = wanted
    return {**tree, "metadata": metadata}


def check_name(tree: Tree, name: str, namespace: str) -> None:
    """Refuse an object whose name differs from that in its path."""
    named, inside = meta(tree).get("name"), meta(tree).get("namespace")
    if not named:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if named != name:
        raise bad_request(f"the name of the object ({named}) does not match the name on the URL ({name})")
    if namespace and inside and inside != namespace:
        raise bad_request(
            f"the namespace of the object ({inside}) does not match the namespace on the request ({namespace})"
        )


def json_in(body: bytes) -> Json:
    """Decode a JSON body."""
    try:
        value: Json = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {json_trouble(body, error)}") from None
    return value


def json_trouble(body: bytes, error: Exception) -> str:
    """Go's message for malformed JSON."""
    place = re.search(r"\(byte (\d+)\)", str(error))
    if "truncated" in str(error) or place is None or int(place.group(1)) >= len(body):
        return "unexpected end of JSON input"
    letter = chr(body[int(place.group(1))])
    shown = letter if letter.isprintable() and letter.isascii() else f"\\u{ord(letter):04x}"
    return f"invalid character '{shown}' looking for beginning of value"


def yaml_in(body: bytes) -> Json:
    """Decode a YAML body, of which JSON is a subset."""
    try:
        value: Json = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            value = from_yaml(body)
        except StatusError as error:
            raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error.message}") from None
    return value
