"""The schemas of built-in kinds and of CustomResourceDefinitions: unknown fields, pruning, defaults and errors.

The schemas of built-in kinds were recorded from a kube-apiserver into `openapi/`, one file for each package; a file is
read when a kind of it is first used.
"""

from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from itertools import chain, islice
from operator import is_not
from typing import Final, cast

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.fields import FieldError
from pykueue.apiserver.schema.nodes import (
    DEDUCED,
    EITHER,
    MICRO_TIME,
    OBJECT_META,
    PRESERVE,
    QUANTITY,
    REF,
    TIME,
    UNTYPED,
    SchemaNode,
    reference,
    referred,
)
from pykueue.apiserver.schema.validate import duplicates, is_fine, mistakes
from pykueue.apiserver.wire.statuserrors import ERRORS_MAX
from pykueue.base.units import canonical, format_instant, micro_time, parse_instant, parse_quantity

FOLDER: Final = files("pykueue.apiserver.schema") / "openapi"
INDEX: Final = "index"
NOTHING: Final[Tree] = {}
"""An object without fields; never modified."""


class Schema:
    """The schema of a kind in one of its versions."""

    __slots__ = ("loose", "native", "node", "raw", "zero")

    def __init__(self, raw: Tree, node: SchemaNode, *, native: bool) -> None:
        self.raw = raw
        """The OpenAPI tree."""
        self.node = node
        self.native = native
        """Whether it is a built-in kind, which kube-apiserver decodes into typed fields, rather than a custom one."""
        self.loose = not native and is_loose(raw)
        """Whether a value may have any type somewhere."""
        self.zero: Tree = zero(node) if native else {}
        """The empty object."""


def is_loose(raw: Json) -> bool:
    """Whether a schema allows anything somewhere."""
    if not isinstance(raw, dict):
        return False
    if raw.get(PRESERVE) is True or not ("type" in raw or EITHER in raw):
        return True
    properties = raw.get("properties")
    below = properties.values() if isinstance(properties, dict) else ()
    return any(map(is_loose, (*below, raw.get("items"), raw.get("additionalProperties"))))


def builtin(api_version: str, kind: str) -> Schema | None:
    """The schema of a built-in kind; `None` for one that is not recorded."""
    name = index().get(api_version, {}).get(kind)
    return of_definition(name) if name else None


@cache
def of_definition(name: str) -> Schema:
    """The schema of a definition, built once."""
    return Schema(definition(name), referred(name, definition, {}), native=True)


def of_crd(openapi_v3: Tree | None) -> Schema:
    """The schema of a version of a CustomResourceDefinition; one that allows anything if it has none."""
    if not openapi_v3:
        return Schema({}, SchemaNode({"type": "object", PRESERVE: True}, definition), native=False)
    text: Tree = {"type": "string"}
    properties = openapi_v3.get("properties")
    # The schema of metadata is the server's, whatever the definition says.
    known: Tree = {**(properties if isinstance(properties, dict) else {}), "apiVersion": text, "kind": text}
    known["metadata"] = {"$ref": f"{REF}{OBJECT_META}"}
    return Schema(
        openapi_v3, SchemaNode({**openapi_v3, "type": "object", "properties": known}, definition), native=False
    )


@cache
def index() -> dict[str, dict[str, str]]:
    """The definition of each kind, by group version."""
    return msgspec.json.decode((FOLDER / f"{INDEX}.json").read_bytes(), type=dict[str, dict[str, str]])


@cache
def package(name: str) -> dict[str, Tree]:
    """The definitions of a package."""
    return cast("dict[str, Tree]", msgspec.json.decode((FOLDER / f"{name}.json").read_bytes()))


def definition(name: str) -> Tree:
    """A definition by its full name."""
    where, _, short = name.rpartition(".")
    return package(where)[short]


def definitions(api_version: str) -> dict[str, Tree]:
    """The definitions that the kinds of a group version need, by full name, for an OpenAPI document."""
    found: dict[str, Tree] = {}
    waiting = list(index().get(api_version, {}).values())
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definition(name)
            waiting.extend(references(found[name]))
    return dict(sorted(found.items()))


def references(node: Json) -> Iterator[str]:
    """The definitions that a schema refers to."""
    if isinstance(node, dict):
        if name := reference(node):
            yield name
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def zero(node: SchemaNode) -> Tree:
    """An empty object of a built-in kind: the fields that are always written."""
    tree: Tree = {}
    for name, inner in node.fields.items():
        default = node.defaults.get(name)
        if default == {} and isinstance(default, dict):
            tree[name] = zero(inner)
        elif name in node.required and not inner.is_scalar:
            tree[name] = None
        elif not default and always(node, name):
            tree[name] = default
    return tree


def always(node: SchemaNode, name: str) -> bool:
    """Whether a field of a built-in kind is written even if zero; optional empty texts are not."""
    return name in node.required or node.defaults.get(name, "") != ""


def unknown_fields(schema: Schema, tree: Tree) -> list[str]:
    """The paths of the first unknown fields, as strict validation reports them."""
    found = list(islice(unknown_in(schema.node, tree, ""), ERRORS_MAX))
    return found if schema.native else sorted(found)


def unknown_in(node: SchemaNode, value: Json, path: str) -> Iterator[str]:
    """The unknown fields in a value and below it."""
    if isinstance(value, dict) and node.is_map:
        for name, inner in value.items():
            at = f"{path}.{name}" if path else name
            known = node.fields.get(name) or node.element
            if known is None:
                yield at
            else:
                yield from unknown_in(known, inner, at)
    elif isinstance(value, list) and node.is_list:
        for number, inner in enumerate(value):
            yield from unknown_in(node.items, inner, f"{path}[{number}]")


def pruned(schema: Schema, tree: Tree, known: Tree | None = None) -> Tree:
    """The tree as the server stores it: without unknown fields and meaningless nulls.

    Built-in kinds also lose empty lists and maps, which their encoder omits, and get quantities and times in canonical
    form. Unchanged parts are shared; those shared with `known`, a tree that is stored, are skipped.
    """
    kept = decoded(schema.node, tree, known) if schema.native else structural(schema.node, tree)
    return kept if isinstance(kept, dict) else {}


def decoded(node: SchemaNode, value: Json, known: Json = None) -> Json:
    """A value of a built-in kind after decoding and encoding."""
    if value is known:
        return value
    if isinstance(value, list):
        if not node.is_list:
            return value
        return each(node, value, lambda items, inner: blank(items) if inner is None else decoded(items, inner))
    if not isinstance(value, dict):
        return respelled(node.definition, value) if node.definition else value
    if not node.is_map:
        return value
    if not node.fields:
        return decoded_map(node, value)
    made, before = value, known if isinstance(known, dict) else NOTHING
    for name, inner in value.items():
        below = node.fields.get(name)
        new = decoded(below, inner, before.get(name)) if below is not None and inner is not None else inner
        gone = below is None or new is None or (not new and name not in node.required and is_collection(below, new))
        if gone or new is not inner:
            if made is value:
                made = dict(value)
            if gone:
                del made[name]
            else:
                made[name] = new
    return made


def is_collection(node: SchemaNode, value: Json) -> bool:
    """Whether the value is a list or a map, rather than an object with fields or a scalar."""
    return isinstance(value, list) or (isinstance(value, dict) and not node.fields and node.element is not None)


def decoded_map(node: SchemaNode, value: Tree) -> Tree:
    """A map of a built-in kind; null becomes an empty value."""
    element = node.element
    if element is None or (element.is_scalar and not element.definition and None not in value.values()):
        return value
    if element.is_scalar and not element.definition:
        return {name: blank(element) if inner is None else inner for name, inner in value.items()}
    made = {name: decoded(element, inner) for name, inner in value.items()}
    return made if any(made[name] is not inner for name, inner in value.items()) else value


def respelled(name: str, value: Json) -> Json:
    """A scalar with quantities and times in canonical form; others stay."""
    try:
        if name == QUANTITY and isinstance(value, str | int | float) and not isinstance(value, bool):
            return canonical(parse_quantity(str(value)))
        if name == TIME and isinstance(value, str):
            return format_instant(parse_instant(value.upper()))
        if name == MICRO_TIME and isinstance(value, str):
            return micro_time(parse_instant(value.upper()))
    except (ValueError, OverflowError):
        return value
    return value


def blank(node: SchemaNode) -> Json:
    """The value that replaces a null where one is required."""
    empty: dict[str, Json] = {"string": "", "integer": 0, "number": 0, "boolean": False, "object": zero(node)}
    return empty.get(node.type)


def structural(node: SchemaNode, value: Json) -> Json:
    """A value of a custom kind without unknown fields, and without nulls that are not allowed."""
    if node is DEDUCED or node is UNTYPED:
        return value
    if isinstance(value, list):
        return each(node, value, structural) if node.is_list else value
    if not isinstance(value, dict) or not node.is_map:
        return value
    if node.definition == OBJECT_META:
        return decoded(node, value)
    known, element = node.fields, node.element
    made = value
    for name, inner in value.items():
        below = known.get(name) or element
        if below is None or (inner is None and name in known and not below.nullable and name not in node.defaults):
            if made is value:
                made = dict(value)
            del made[name]
        elif isinstance(inner, dict | list) and (new := structural(below, inner)) is not inner:
            if made is value:
                made = dict(value)
            made[name] = new
    return made


def each(node: SchemaNode, value: list[Json], change: Callable[[SchemaNode, Json], Json]) -> list[Json]:
    """The list with each item changed; the same list if no item was."""
    items = node.items
    made = [change(items, inner) for inner in value]
    return made if any(map(is_not, made, value)) else value


def defaulted(schema: Schema, tree: Tree, known: Tree | None = None) -> Tree:
    """The tree with the schema's defaults for absent fields of present objects; shares and skips parts as `pruned`."""
    kept = (filled_native if schema.native else filled)(schema.node, tree, known)
    return kept if isinstance(kept, dict) else tree


def filled(node: SchemaNode, value: Json, known: Json = None) -> Json:
    """A value of a custom kind with the defaults of its schema."""
    if value is known or node is DEDUCED or node is UNTYPED:
        return value
    if isinstance(value, list):
        return each(node, value, filled) if node.is_list else value
    if not isinstance(value, dict) or not node.is_map:
        return value
    missing: Tree = {}
    for name, default in node.defaults.items():
        if value.get(name) is None and not (name in value and node.fields[name].nullable):
            missing[name] = default
    return filled_fields(node, value, known, missing, filled)


def filled_native(node: SchemaNode, value: Json, known: Json = None) -> Json:
    """A value of a built-in kind with the fields that are always written, and its schema's defaults."""
    if value is known:
        return value
    if isinstance(value, list):
        return each(node, value, filled_native) if node.is_list else value
    if not isinstance(value, dict) or not node.is_map:
        return value
    missing: Tree = {}
    for name, default in node.defaults.items():
        if value.get(name) is None and (default or always(node, name)):
            missing[name] = default
    return filled_fields(node, value, known, missing, filled_native)


def filled_fields(
    node: SchemaNode, value: Tree, known: Json, missing: Tree, fill: Callable[[SchemaNode, Json, Json], Json]
) -> Tree:
    """An object with the defaults of missing fields and within each field."""
    fields, element = node.fields, node.element
    made, before = value, known if isinstance(known, dict) else NOTHING
    if missing:
        made = dict(value)
        for name, default in missing.items():
            made[name] = fill(fields[name], msgspec.json.decode(msgspec.json.encode(default)), None)
    for name, inner in value.items():
        if isinstance(inner, dict | list):
            below = fields.get(name) or element
            if below is not None and (new := fill(below, inner, before.get(name))) is not inner:
                if made is value:
                    made = dict(value)
                made[name] = new
    return made


def errors(schema: Schema, tree: Tree) -> list[FieldError]:
    """Schema errors of an object: types, required fields, limits, duplicates."""
    return [*iter_errors(schema, tree)]


def iter_errors(schema: Schema, tree: Tree) -> Iterator[FieldError]:
    """Like `errors`, one by one: there can be as many as the object has fields."""
    if is_fine(schema.node, tree):
        return iter(())
    return chain(mistakes(schema.node, tree, ""), duplicates(schema.node, tree, ""))
