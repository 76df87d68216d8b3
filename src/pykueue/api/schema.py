"""Schema validation of JSON trees; all limits come from the types' annotations (`core.about`).

The messages are those of a Kubernetes API server. Cross-field rules are in `rules`.
"""

import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Annotated, Final, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import replace

from pykueue.api.convert import V1BETA1, is_newer, is_older, newer_fields, older_mistakes, older_path, to_v1beta2
from pykueue.api.core import LABEL, QUALIFIED, QUANTITY, SUBDOMAIN, Json
from pykueue.api.fields import (
    FieldError,
    body,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    unknown,
    wrong_type,
)
from pykueue.base.struct import Frozen
from pykueue.base.units import parse_instant, parse_quantity

Shape = Literal[
    "object", "map", "array", "string", "integer", "boolean", "integer,string", "integer,number,string", "opaque", "any"
]
"""An opaque object is stored unchanged, without defaults, but its known fields are validated."""

ERRORS_MAX: Final = 1000
"""At most this many mistakes are listed for one object."""
SUGGESTIONS_MAX: Final = 50
"""Unknown fields that get a suggestion; the search is slow, and more of them mean another kind of object."""
RANGES: Final = {"int32": 2**31, "int64": 2**63}
QUANTITIES: Final = frozenset({"integer,string", "integer,number,string"})
JSON_TYPES: Final[dict[type, str]] = {
    bool: "boolean",  # before int, of which bool is a subclass in Python
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    Mapping: "object",
}
ADVICE: Final[Mapping[str, str]] = {
    LABEL: "use lower-case letters, digits and '-', as in team-a",
    SUBDOMAIN: "use lower-case letters, digits, '-' and '.', as in team-a",
    QUALIFIED: "use letters, digits, '-', '_' and '.', after a domain and '/' if need be, as in example.com/rack",
    QUANTITY: "write a number with an optional suffix, as in 500m, 2, 1.5Gi",
}
"""What a pattern asks for, in words."""
RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class Property(Frozen):
    """One field of an object."""

    node: "TypeNode"
    required: bool
    default: "Json | msgspec.UnsetType"
    unread: tuple[str, ...]
    """Fields within it that exist but that we do not use."""


class TypeNode(Frozen):
    """The schema of a value. `limits` holds the OpenAPI keywords, including the description."""

    shape: Shape
    limits: Mapping[str, object]
    properties: Mapping[str, Property] = msgspec.field(default_factory=dict)
    items: "TypeNode | None" = None
    """The items of a list, or the values of a map."""

    def limit(self, keyword: str) -> int | None:
        """The value of a numeric keyword, if set."""
        found = self.limits.get(keyword)
        return found if isinstance(found, int) else None

    def map_keys(self) -> Sequence[str]:
        """The keys of a list-map; empty for other lists."""
        return cast(Sequence[str], self.limits.get("x-kubernetes-list-map-keys", ()))


@lru_cache(maxsize=512)
def node_of(kind: type) -> TypeNode:
    """The schema of a struct, from its annotations."""
    properties = {}
    for field in msgspec.structs.fields(kind):
        described = described_by(field.type)
        node = compiled(field.type)
        unread = cast("tuple[str, ...]", described.get("unread", ()))
        must = field.required or bool(described.get("required"))
        properties[field.encode_name] = Property(node, must, msgspec.UNSET if must else default_of(field, node), unread)
    return TypeNode("object", {"description": (kind.__doc__ or "").strip()}, properties)


def default_of(field: msgspec.structs.FieldInfo, node: TypeNode) -> "Json | msgspec.UnsetType":
    """The server's default for an absent field: a plain value that the struct defaults to.

    For an object it must be declared, because views have defaults where the server leaves a field absent, such as
    `spec`.
    """
    if "default" in node.limits:
        return cast("Json", node.limits["default"])
    if isinstance(field.default, bool | int | str) and field.default != "":
        return field.default
    return msgspec.UNSET


def described_by(hint: object) -> dict[str, object]:
    """Annotations of a type beyond OpenAPI's vocabulary."""
    said: dict[str, object] = {}
    for meta in metas(hint):
        said |= meta.extra or {}
    return said


def metas(hint: object) -> tuple[msgspec.Meta, ...]:
    """The annotations of a type, the innermost first."""
    if get_origin(hint) is not Annotated:
        return ()
    inner, *notes = get_args(hint)
    return (*metas(inner), *(note for note in notes if isinstance(note, msgspec.Meta)))


def compiled(hint: object, outer: Mapping[str, object] | None = None) -> TypeNode:
    """The schema of a type; limits of outer annotations override its own."""
    limits: dict[str, object] = {}
    for meta in metas(hint):
        limits |= {"description": meta.description} if meta.description else {}
        limits |= meta.extra_json_schema or {}
    limits |= outer or {}
    held = described_by(hint).get("holds")
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if held is not None:
        inner = compiled(held, limits)
        return TypeNode("opaque", inner.limits, inner.properties) if hint is msgspec.Raw else inner
    origin = get_origin(hint)
    if origin is Union or origin is types.UnionType:
        members = [one for one in get_args(hint) if one is not type(None)]
        if len(members) == 1:
            return compiled(members[0], limits)
        return TypeNode("integer,number,string" if float in members else "integer,string", limits)
    if origin is Literal:
        return TypeNode("string", {"enum": list(get_args(hint)), **limits})
    if origin is tuple:
        return TypeNode("array", limits, items=compiled(get_args(hint)[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return TypeNode("map", limits, items=compiled(get_args(hint)[1]))
    return plain(hint, limits)


def plain(hint: object, limits: Mapping[str, object]) -> TypeNode:
    """The schema of a type without parameters."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        known = node_of(hint)
        return TypeNode("object", {**known.limits, **limits}, known.properties)
    shapes: dict[object, Shape] = {str: "string", int: "integer", bool: "boolean", object: "any"}
    return TypeNode(shapes[hint], limits)


def problems(kind: type, tree: object, version: str = "v1beta2") -> tuple[FieldError, ...]:
    """All schema errors of this tree, in the order of the schema's fields.

    A tree of an older version is converted and then checked; errors name the fields as written.
    """
    found = islice(mistakes(node_of(kind), as_stored(kind, tree, version), ""), ERRORS_MAX)
    if version != "v1beta1" or not isinstance(tree, Mapping):
        return tuple(found)
    return (*older_mistakes(kind.__name__, tree), *(as_written(error, kind.__name__, tree) for error in found))


def as_stored(kind: type, tree: object, version: str) -> object:
    """The tree in the version that the schema describes."""
    if version != "v1beta1" or not isinstance(tree, Mapping):
        return tree
    return to_v1beta2({**tree, "apiVersion": V1BETA1, "kind": kind.__name__})


def as_written(error: FieldError, kind: str, tree: Mapping[str, object]) -> FieldError:
    """The error with v1beta1's path, and v1beta1's name of the field in its detail."""
    path = older_path(kind, error.path, tree)
    return replace(error, path=path, detail=error.detail.replace(body(error.path), body(path)))


def mistakes(node: TypeNode, value: object, path: str) -> Iterator[FieldError]:
    """The mistakes of the value at this path and below."""
    found = json_type(value)
    wanted = "object" if node.shape in ("map", "opaque") else node.shape
    if wanted == "any":
        return
    if found not in wanted.split(","):
        yield wrong_type(path, wanted=wanted, found=found)
    elif isinstance(value, Mapping):
        yield from object_mistakes(node, value, path)
    elif isinstance(value, list):
        yield from list_mistakes(node, value, path)
    elif isinstance(value, str):
        yield from text_mistakes(node, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from number_mistakes(node, value, path)


def json_type(value: object) -> str:
    """The JSON type of a value, as Kubernetes names it."""
    if value is None:
        return "null"
    return next((name for kind, name in JSON_TYPES.items() if isinstance(value, kind)), type(value).__name__)


def object_mistakes(node: TypeNode, value: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """The mistakes of an object or a map. A null field counts as absent, since a server drops it."""
    for name, known in node.properties.items():
        inner = value.get(name)
        if inner is not None:
            yield from mistakes(known.node, inner, joined(path, name))
        elif known.required:
            yield required(joined(path, name))
    if node.shape != "map" or node.items is None:
        return
    most = node.limit("maxProperties")
    if most is not None and len(value) > most:
        yield too_many(path, len(value), most)
    for key, inner in islice(value.items(), most):
        if not isinstance(key, str):
            yield wrong_type(joined(path, str(key)), wanted="string", found=json_type(key))
        elif inner is not None:
            yield from mistakes(node.items, inner, joined(path, key))


def joined(path: str, name: str) -> str:
    """The path of a field within an object."""
    return f"{path}.{name}" if path else name


def list_mistakes(node: TypeNode, value: list[object], path: str) -> Iterator[FieldError]:
    """The mistakes of a list; items beyond its limit are not checked."""
    least, most = node.limit("minItems"), node.limit("maxItems")
    if least is not None and len(value) < least:
        yield invalid(path, len(value), f"{body(path)} should have at least {least} items")
    if most is not None and len(value) > most:
        yield too_many(path, len(value), most)
    assert node.items is not None, f"{path}: the schema of a list names no items"
    seen: set[str] = set()
    for index, item in enumerate(islice(value, most)):
        at = f"{path}[{index}]"
        yield from mistakes(node.items, item, at)
        identity = identity_of(node, item)
        if identity is None:
            continue
        text = repr(identity)
        if text in seen:
            yield duplicate(at, identity)
        seen.add(text)


def identity_of(node: TypeNode, item: object) -> object | None:
    """What must be unique in the list: the keys of a list-map's item, or a set's item itself."""
    if node.limits.get("x-kubernetes-list-type") == "set":
        return item if isinstance(item, str | int) else None
    keys = node.map_keys()
    if not keys or not isinstance(item, Mapping) or node.items is None:
        return None
    identity: dict[str, object] = {}
    for key in keys:
        part = item.get(key)
        if part is None:
            part = node.items.properties[key].default
        if not isinstance(part, str | int):
            return None
        identity[key] = part
    return identity


def text_mistakes(node: TypeNode, value: str, path: str) -> Iterator[FieldError]:
    """Errors of a text."""
    enum = cast("Sequence[str] | None", node.limits.get("enum"))
    if enum is not None:
        if value not in enum:
            yield not_supported(path, value, enum)
        return
    least, most, pattern = node.limit("minLength"), node.limit("maxLength"), node.limits.get("pattern")
    if least is not None and len(value) < least:
        yield invalid(path, value, f"{body(path)} should be at least {least} chars long")
    elif most is not None and len(value) > most:
        yield too_long(path, most)
    elif isinstance(pattern, str) and not fits(pattern, value):
        yield invalid(path, value, f"{body(path)} should match '{pattern}'")
    elif node.shape in QUANTITIES:
        yield from quantity_mistakes(value, path)
    if node.limits.get("format") == "date-time" and not is_moment(value):
        yield invalid(path, value, f'{body(path)} must be of type date-time: "{value[:64]}"')


def number_mistakes(node: TypeNode, value: float, path: str) -> Iterator[FieldError]:
    """Errors of a number."""
    if node.shape in QUANTITIES:
        yield from quantity_mistakes(value, path)
        return
    form, least = str(node.limits.get("format", "int64")), node.limit("minimum")
    if not -RANGES[form] <= value < RANGES[form]:
        yield invalid(path, value, f"{body(path)} must be of type {form}")
    elif least is not None and value < least:
        yield invalid(path, value, f"{body(path)} should be greater than or equal to {least}")


def quantity_mistakes(value: str | float, path: str) -> Iterator[FieldError]:
    """Errors of a quantity that has valid characters."""
    try:
        parse_quantity(str(value))
    except ValueError as error:
        yield invalid(path, value, str(error))


@lru_cache(maxsize=64)
def anchored(pattern: str) -> re.Pattern[str]:
    """The pattern for `fullmatch`: Python's `$` accepts a final newline, and `(?i)` must come first."""
    inner = pattern.removeprefix("^").removesuffix("$")
    flags = re.ASCII | (re.IGNORECASE if inner.startswith("(?i)") else re.NOFLAG)
    return re.compile(inner.removeprefix("(?i)"), flags)


def fits(pattern: str, value: str) -> bool:
    """Whether the whole text matches a pattern that is anchored at both ends."""
    return anchored(pattern).fullmatch(value) is not None


def is_moment(value: str) -> bool:
    """Whether the text is a date and time of RFC 3339."""
    if RFC3339.fullmatch(value) is None:
        return False
    try:
        parse_instant(value.upper())
    except (ValueError, OverflowError):
        return False
    return True


def helpful(error: FieldError) -> str:
    """The server's message, followed by advice where it gives none."""
    said = error.detail.removeprefix(body(error.path))
    hint = next((words for pattern, words in ADVICE.items() if said == f" should match '{pattern}'"), "")
    if said.startswith(" must be of type string:") and error.value in ("boolean", "integer", "number"):
        hint = "put the value in quotes"
    return f"{error}; {hint}" if hint else str(error)


class UnknownField(Frozen):
    """A field that the schema does not know, its location, and the known fields there."""

    parent: str
    name: str
    known: tuple[str, ...]

    @property
    def path(self) -> str:
        """The path of the field."""
        return joined(self.parent, self.name)


def unknown_fields(kind: type, tree: object, version: str = "v1beta2") -> tuple[str, ...]:
    """Paths of fields unknown in this version: a strict client refuses them, a server drops them."""
    return tuple(error.path for error in unknown_problems(kind, tree, version))


def unknown_problems(kind: type, tree: object, version: str = "v1beta2") -> tuple[FieldError, ...]:
    """Fields unknown in this version, each with advice."""
    found = unknown_in(node_of(kind), as_stored(kind, tree, version), "")
    if version != "v1beta1" or not isinstance(tree, Mapping):
        return tuple(advised(found))
    name = kind.__name__
    older = (older_unknown_field(one, name, tree) for one in found if not is_older(name, one.path))
    return (*advised(older), *newer_fields(name, tree))


def advised(found: Iterable[UnknownField]) -> Iterator[FieldError]:
    """An error for each unknown field; the first ones suggest the nearest known name."""
    for number, one in enumerate(found):
        yield unknown(one.path, one.name, one.known if number < SUGGESTIONS_MAX else ())


def older_unknown_field(one: UnknownField, kind: str, tree: Mapping[str, object]) -> UnknownField:
    """An unknown field with its path in v1beta1 and v1beta1's names there."""
    names = [older_path(kind, joined(one.parent, name), tree).rpartition(".")[2] for name in one.known]
    kept = (name for name in names if not is_newer(kind, joined(one.parent, name)))
    return UnknownField(older_path(kind, one.parent, tree) if one.parent else "", one.name, tuple(kept))


def unknown_in(node: TypeNode, value: object, path: str, unread: tuple[str, ...] = ()) -> Iterator[UnknownField]:
    """Unknown fields at this path and below."""
    if node.shape in ("object", "opaque") and isinstance(value, Mapping):
        for name, inner in value.items():
            known = node.properties.get(name)
            if known is not None:
                yield from unknown_in(known.node, inner, joined(path, name), known.unread)
            elif name not in unread:
                yield UnknownField(path, str(name), (*node.properties, *unread))
    elif node.shape == "array" and isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from unknown_in(node.items, item, f"{path}[{index}]", unread)


def defaults(kind: type, tree: Mapping[str, Json]) -> dict[str, Json]:
    """A copy of the tree as a server stores it: absent fields filled in where their parent exists, nulls dropped."""
    return cast("dict[str, Json]", filled(node_of(kind), cast("Json", tree)))


def filled(node: TypeNode, value: Json) -> Json:
    """The value with its schema's defaults; values of the wrong shape are left unchanged."""
    if isinstance(value, dict) and node.shape == "object":
        kept = {name: inner for name, inner in value.items() if inner is not None or name not in node.properties}
        for name, known in node.properties.items():
            inner = kept.get(name, known.default)
            if not isinstance(inner, msgspec.UnsetType):
                kept[name] = filled(known.node, inner)
        return kept
    if isinstance(value, dict) and node.shape == "map":
        return {key: inner for key, inner in value.items() if inner is not None}
    if isinstance(value, list) and node.items is not None:
        items = node.items
        return [filled(items, item) for item in value]
    return value
