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
"""Returns the definition of a name."""


class SchemaNode:
    """The schema of one place. All but the first four attributes are computed on first use."""

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
    """The OpenAPI tree of this place; for a reference, its target merged with sibling keywords."""
    definitions: Definitions
    definition: str
    """The name of the definition; empty for an inline schema."""
    preserving: bool
    """Whether a parent preserves unknown fields."""
    type: str
    """OpenAPI's type; empty if any is allowed."""
    is_map: bool
    is_list: bool
    is_scalar: bool
    fields: dict[str, "SchemaNode"]
    """The named fields of an object."""
    element: "SchemaNode | None"
    """The schema of all other fields of an object; `None` if there may be none."""
    map_atomic: bool
    """Whether an object is atomic."""
    items: "SchemaNode"
    """The schema of a list's items."""
    associative: bool
    """Whether the items of a list are owned separately: a set, or a list with keys."""
    keys: tuple[str, ...]
    """The keys of such a list; empty for a set."""
    preserves: bool
    """Whether unknown fields are preserved here."""
    required: tuple[str, ...]
    defaults: dict[str, Json]
    """The fields with a default."""
    nullable: bool
    merge_key: str
    """The merge key of a list in strategic merge patches."""
    strategies: frozenset[str]
    """The strategy of strategic merge patches here: `merge`, `replace`, `retainKeys`."""
    rules: bool
    """Whether there are limits besides the type."""

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
        """Read this place of the OpenAPI tree; its children stay unread."""
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
        """The schema of fields without a schema of their own."""
        if self.definition == RAW_EXTENSION:
            return UNTYPED
        further = self.raw.get("additionalProperties")
        if isinstance(further, dict):
            return self.child(further, preserving)
        if further is True or (further is None and (preserving or not has_fields)):
            return DEDUCED
        return None

    def settle_list(self, preserving: bool) -> None:
        """Read the schema of a list."""
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
        """The schema of the field of this name; one that allows anything if it is unknown."""
        return self.fields.get(name) or self.element or DEDUCED

    def key_default(self, key: str) -> Json:
        """The default of a key that a list item omits."""
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
    """The definition that this schema refers to; empty for an inline schema."""
    ref = raw.get("$ref")
    if ref is None and isinstance(only := raw.get("allOf"), list) and len(only) == 1 and isinstance(only[0], dict):
        ref = only[0].get("$ref")
    return ref.removeprefix(REF) if isinstance(ref, str) else ""


def referred(name: str, definitions: Definitions, beside: Tree) -> SchemaNode:
    """The node of a definition, shared by all plain references to it."""
    known = SHARED.setdefault(definitions, {})
    if not beside:
        if name not in known:
            known[name] = SchemaNode(definitions(name), definitions, name)
        return known[name]
    return SchemaNode({**definitions(name), **beside}, definitions, name)


def embedded(node: SchemaNode) -> dict[str, SchemaNode]:
    """The fields that every object has, for a place that embeds one."""
    text = SchemaNode({"type": "string"}, node.definitions)
    return {"apiVersion": text, "kind": text, "metadata": referred(OBJECT_META, node.definitions, {})}


def nothing(name: str) -> Tree:
    """No definitions, for schemas without references."""
    raise KeyError(name)


def loose(atomic: bool) -> SchemaNode:
    """A node that allows any value, atomic or field by field."""
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
