"""Schema nodes: what the schema says about one place in an object, built from OpenAPI on demand.

A `Node` describes a value for server-side apply, patches, pruning and validation: its possible types and fields,
whether a list is atomic, and the keys of its items. Kinds refer to each other and to themselves, and a kind with a pod
template has thousands of places; so a node reads its part of the OpenAPI tree when it is first used.
"""

from collections.abc import Callable
from typing import Final, cast

from pykueue.api.core import Json, Tree

REF: Final = "#/components/schemas/"
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
RAW_EXTENSION: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
TIME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
MICRO_TIME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

SCALARS: Final = frozenset({"boolean", "integer", "number", "string"})
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
EITHER: Final = "x-kubernetes-int-or-string"

Definitions = Callable[[str], Tree]
"""The definition of a name."""


class SchemaNode:
    """What the schema says of one place. All but the first four are worked out when one of them is first read."""

    __slots__ = (
        "associative",
        "defaults",
        "definition",
        "definitions",
        "element",
        "fields",
        "is_list",
        "is_map",
        "is_scalar",
        "items",
        "keys",
        "map_atomic",
        "merge_key",
        "nullable",
        "preserves",
        "preserving",
        "raw",
        "required",
        "rules",
        "strategies",
        "type",
    )
    raw: Tree
    """The OpenAPI tree of this place; for a reference, of what it refers to, with what is said beside it."""
    definitions: Definitions
    definition: str
    """The name under which it is defined; empty for one that is written where it is used."""
    preserving: bool
    """Whether a place above it keeps fields that no schema knows."""
    type: str
    """OpenAPI's type; empty where any will do."""
    is_map: bool
    is_list: bool
    is_scalar: bool
    fields: dict[str, "SchemaNode"]
    """The named fields of an object."""
    element: "SchemaNode | None"
    """What all other fields of an object are; `None` where there may be none."""
    map_atomic: bool
    """Whether an object is owned and replaced as a whole."""
    items: "SchemaNode"
    """What the items of a list are."""
    associative: bool
    """Whether the items of a list are owned one by one: a set, or a list with keys."""
    keys: tuple[str, ...]
    """By which fields the items of such a list are told apart; none for a set."""
    preserves: bool
    """Whether fields that the schema does not know are kept here."""
    required: tuple[str, ...]
    defaults: dict[str, Json]
    """The fields that have a default, with it."""
    nullable: bool
    merge_key: str
    """The field by which a strategic merge patch tells the items of a list apart."""
    strategies: frozenset[str]
    """How a strategic merge patch treats the place: `merge`, `replace`, `retainKeys`."""
    rules: bool
    """Whether values have to meet more than their type."""

    def __init__(self, raw: Tree, definitions: Definitions, definition: str = "", preserving: bool = False) -> None:
        self.raw = raw
        self.definitions = definitions
        self.definition = definition
        self.preserving = preserving

    def __getattr__(self, name: str) -> object:
        if name not in SchemaNode.__slots__:
            raise AttributeError(name)
        self.settle()
        return object.__getattribute__(self, name)

    def settle(self) -> None:
        """Read this place of the OpenAPI tree; the places below it wait for their turn."""
        raw = self.raw
        raw_extension = self.definition == RAW_EXTENSION
        self.type = kind = "" if raw_extension else str(raw.get("type", ""))
        scalar = self.definition in (QUANTITY, INT_OR_STRING)
        self.is_scalar = not kind or kind in SCALARS
        self.is_list = (not kind and not scalar) or kind == "array"
        self.is_map = (not kind and not scalar) or kind == "object"
        self.preserves = raw.get(PRESERVE) is True
        preserving = self.preserving or self.preserves
        properties = cast("dict[str, Tree]", raw.get("properties") or {})
        self.fields = {name: self.child(inner, preserving) for name, inner in properties.items()}
        if raw.get(EMBEDDED) is True:
            self.fields |= embedded(self)
        self.required = tuple(cast("list[str]", raw.get("required") or ()))
        self.defaults = {name: inner["default"] for name, inner in properties.items() if "default" in inner}
        self.nullable = raw.get("nullable") is True
        self.map_atomic = raw.get("x-kubernetes-map-type") == "atomic" or raw_extension
        self.element = self.others(bool(properties), preserving)
        self.settle_list(preserving)
        strategy = raw.get("x-kubernetes-patch-strategy")
        self.strategies = frozenset(strategy.split(",")) if isinstance(strategy, str) else frozenset()
        self.merge_key = str(raw.get("x-kubernetes-patch-merge-key", ""))
        self.rules = not RULES.isdisjoint(raw)

    def others(self, has_fields: bool, preserving: bool) -> "SchemaNode | None":
        """What the fields are that have no schema of their own."""
        if self.definition == RAW_EXTENSION:
            return UNTYPED
        further = self.raw.get("additionalProperties")
        if isinstance(further, dict):
            return self.child(further, preserving)
        if further is True or (further is None and (preserving or not has_fields)):
            return DEDUCED
        return None

    def settle_list(self, preserving: bool) -> None:
        """Read what is said of a list."""
        raw = self.raw
        items = raw.get("items")
        self.items = self.child(items, preserving) if isinstance(items, dict) else UNTYPED
        self.associative, self.keys = False, ()
        listed = raw.get("x-kubernetes-list-type")
        if listed == "map":
            self.associative, self.keys = True, tuple(cast("list[str]", raw.get("x-kubernetes-list-map-keys") or ()))
        elif listed == "set":
            self.associative = True
        elif listed is None and "merge" in str(raw.get("x-kubernetes-patch-strategy", "")).split(","):
            key = raw.get("x-kubernetes-patch-merge-key")
            self.associative, self.keys = True, (key,) if isinstance(key, str) else ()

    def child(self, raw: Tree, preserving: bool) -> "SchemaNode":
        """The node of a place below this one."""
        name = reference(raw)
        if not name:
            return SchemaNode(raw, self.definitions, "", preserving)
        beside = {key: value for key, value in raw.items() if key not in ("$ref", "allOf", "default")}
        return referred(name, self.definitions, beside)

    def below(self, name: str) -> "SchemaNode":
        """What the field of this name is; anything at all where the schema does not know it."""
        return self.fields.get(name) or self.element or DEDUCED

    def key_default(self, key: str) -> Json:
        """The value that stands for a key which an item of a list leaves out."""
        return self.items.defaults.get(key)


RULES: Final = frozenset(
    {
        "enum",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        EITHER,
    }
)


def reference(raw: Tree) -> str:
    """The name of the definition that stands here by reference; empty for a schema that is written out."""
    ref = raw.get("$ref")
    if ref is None and isinstance(only := raw.get("allOf"), list) and len(only) == 1 and isinstance(only[0], dict):
        ref = only[0].get("$ref")
    return ref.removeprefix(REF) if isinstance(ref, str) else ""


def referred(name: str, definitions: Definitions, beside: Tree) -> SchemaNode:
    """The node of a definition, shared by all who refer to it and say nothing more."""
    known = SHARED.setdefault(definitions, {})
    if not beside:
        if name not in known:
            known[name] = SchemaNode(definitions(name), definitions, name)
        return known[name]
    return SchemaNode({**definitions(name), **beside}, definitions, name)


def embedded(node: SchemaNode) -> dict[str, SchemaNode]:
    """The fields that every object has, for a place that holds one."""
    text = SchemaNode({"type": "string"}, node.definitions)
    return {"apiVersion": text, "kind": text, "metadata": referred(OBJECT_META, node.definitions, {})}


def nothing(name: str) -> Tree:
    """No definitions, for schemas that refer to none."""
    raise KeyError(name)


def loose(atomic: bool) -> SchemaNode:
    """A node that takes any value: as one whole, or object by object down to what is no object."""
    node = SchemaNode({}, nothing)
    node.type = ""
    node.is_map = node.is_list = node.is_scalar = True
    node.fields, node.defaults, node.required = {}, {}, ()
    node.map_atomic = atomic
    node.associative, node.keys = False, ()
    node.nullable, node.preserves, node.rules = True, True, False
    node.strategies, node.merge_key = frozenset(), ""
    return node


SHARED: Final[dict[Definitions, dict[str, SchemaNode]]] = {}
UNTYPED: Final = loose(atomic=True)
UNTYPED.element = UNTYPED.items = UNTYPED
DEDUCED: Final = loose(atomic=False)
DEDUCED.element, DEDUCED.items = DEDUCED, UNTYPED
