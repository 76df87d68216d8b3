"""Decode and encode objects: bytes or JSON trees of any served version to typed views."""

from collections.abc import Mapping
from typing import Final, TypeVar, cast

import msgspec

from pykueue.api.convert import to_v1beta2
from pykueue.api.core import Json, KubeObject, Tree, TypeMeta
from pykueue.api.fields import located, nearest
from pykueue.api.kinds import KINDS, Kind
from pykueue.api.schema import defaults

View = TypeVar("View", bound=KubeObject)


class DecodeError(ValueError):
    """An object that cannot be decoded: where, what, and what to do."""


TYPE_META: Final = msgspec.json.Decoder(TypeMeta)
TREE: Final = msgspec.json.Decoder(dict[str, object])
READERS: Final = {kind.view: msgspec.json.Decoder(kind.view) for kind in KINDS.values()}


def reader(view: type[View]) -> msgspec.json.Decoder[View]:
    """The decoder of a view."""
    return cast("msgspec.json.Decoder[View]", READERS[view])


def decode(source: bytes | Tree) -> KubeObject:
    """Decode an object into the view of its kind."""
    return decode_as(kind_of(source).view, source)


def decode_as(view: type[View], source: bytes | Tree) -> View:
    """Decode an object of a known kind from any of its served versions."""
    known = KINDS[view.__name__]
    raw = source if isinstance(source, bytes) else encoded(source, where=known.kind)
    try:
        found = reader(view).decode(raw)
        if found.api_version in known.api_versions[1:]:
            found = reader(view).decode(encoded(to_v1beta2(parsed(raw)), where=known.kind))
        return found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return decode_again(known, view, raw, first=error)


def decode_again(known: Kind, view: type[View], raw: bytes, *, first: Exception) -> View:
    """Decode an object that does not decode as it is: convert older versions, drop nulls."""
    tree = to_v1beta2(parsed(raw))
    try:
        return reader(view).decode(encoded(defaults(view, tree), where=known.kind))
    except msgspec.ValidationError as error:
        metadata = tree.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        path, problem = located(error)
        says = f"{path or 'the object'}: {problem[:1].lower()}{problem[1:]}; correct it or leave the field out"
        raise DecodeError(f"{known.kind} {name or '(without a name)'}: {says}") from first


def kind_of(source: bytes | Tree) -> Kind:
    """The kind that an object names in `apiVersion` and `kind`."""
    if isinstance(source, bytes):
        try:
            said = TYPE_META.decode(source)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError(f"apiVersion and kind cannot be read: {error}; send one JSON object") from error
        version, name = said.api_version, said.kind
    else:
        version, name = (str(source.get(key) or "") for key in ("apiVersion", "kind"))
    known = KINDS.get(name)
    if known is None:
        raise DecodeError(f"kind: {unknown_kind(name)}")
    if version not in known.api_versions:
        served = " or ".join(known.api_versions)
        raise DecodeError(f"apiVersion: {version[:253]!r} does not serve {name}; write {served}")
    return known


def unknown_kind(name: str) -> str:
    """The error for a kind that does not exist."""
    if not name:
        return f"is missing; write one of: {', '.join(KINDS)}"
    near = nearest(name, KINDS)
    advice = f"did you mean {near}?" if near else f"write one of: {', '.join(KINDS)}"
    return f"{name[:253]!r} is not known; {advice}"


def encoded(tree: Mapping[str, Json], *, where: str) -> bytes:
    """The tree as JSON."""
    try:
        return msgspec.json.encode(tree)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DecodeError(
            f"{where}: cannot be written as JSON: {error}; use plain JSON values, not nested too deep"
        ) from error


def parsed(raw: bytes) -> Tree:
    """The JSON object in these bytes."""
    try:
        return TREE.decode(raw)  # type: ignore[return-value]  # decoded JSON is Json
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"the object cannot be read: {error}; send one JSON object") from error
