"""The errors of kube-apiserver's decoder for bodies that do not fit the types of a built-in kind.

kube-apiserver decodes the body of a built-in kind into typed fields before it validates anything, and reports the first
field that cannot hold its value.
"""

from typing import Final

from pykueue.api.core import Json, Tree
from pykueue.api.schema import is_moment
from pykueue.apiserver.schema.nodes import INT_OR_STRING, MICRO_TIME, QUANTITY, TIME, SchemaNode
from pykueue.apiserver.schema.schemas import Schema
from pykueue.apiserver.schema.typefaults import go_type
from pykueue.base.units import QuantityError, parse_quantity

BITS: Final = {"int32": 31, "int64": 63}
GO_SCALARS: Final = {"string": "string", "boolean": "bool", "number": "float64"}
MOMENTS: Final = frozenset({TIME, MICRO_TIME})
INLINE: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "Probe": (
        "ProbeHandler",
        frozenset(
            {
                "failureThreshold",
                "initialDelaySeconds",
                "periodSeconds",
                "successThreshold",
                "terminationGracePeriodSeconds",
                "timeoutSeconds",
            }
        ),
    ),
    "Volume": ("VolumeSource", frozenset({"name"})),
}
"""Go types with an embedded type that the decoder names, and their fields outside of it."""
CONVERTED: Final = frozenset({QUANTITY, INT_OR_STRING, TIME, MICRO_TIME})
"""Types with a decoder of their own."""
LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
WORDED: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def unreadable(schema: Schema, tree: Tree) -> str:
    """Why a body cannot be decoded as this built-in kind; empty if it can. The caller adds the kind."""
    return wrong(schema.node, tree, "", "")


def wrong(node: SchemaNode, value: Json, owner: str, path: str) -> str:
    """The first type error in a value and below it; `owner` is the type whose field it is."""
    if value is None:
        return ""
    if node.definition in MOMENTS:
        return wrong_moment(node, value, owner, path)
    if node.definition == QUANTITY:
        return wrong_quantity(value)
    if node.definition == INT_OR_STRING:
        fits = isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
        return (
            ""
            if fits
            else mismatch(value, owner, path, "intstr.IntOrString" if isinstance(value, dict | list) else "int32")
        )
    if isinstance(value, dict):
        return wrong_object(node, value, owner, path)
    if isinstance(value, list):
        if not node.is_list:
            return mismatch(value, owner, path, go_name(node))
        found = (wrong(node.items, inner, owner, path) for inner in value)
        return next(filter(None, found), "")
    return wrong_scalar(node, value, owner, path)


def wrong_object(node: SchemaNode, value: Tree, owner: str, path: str) -> str:
    """The first type error in the fields of an object; unknown fields are ignored."""
    if not node.is_map:
        return mismatch(value, owner, path, go_name(node))
    own = node.definition.rpartition(".")[2] or owner
    inline, but = INLINE.get(own, ("", frozenset()))
    for name, inner in value.items():
        below = node.fields.get(name)
        if below is not None:
            part = f"{inline}.{name}" if inline and name not in but else name
            found = wrong(below, inner, own, f"{path}.{part}" if path else part)
        else:
            found = wrong(node.element, inner, owner, path) if node.element is not None else ""
        if found:
            return found
    return ""


def wrong_scalar(node: SchemaNode, value: str | float | bool, owner: str, path: str) -> str:
    """The error if a scalar has another type than its field, or is too large for it."""
    match node.type:
        case "integer":
            bits = BITS.get(str(node.raw.get("format")), 63)
            if isinstance(value, bool) or not isinstance(value, int | float):
                return mismatch(value, owner, path, go_name(node))
            if not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
                return mismatch(value, owner, path, go_name(node), f" {value}")
            return ""
        case "number":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            fits = isinstance(value, bool)
        case "string":
            fits = isinstance(value, str)
        case "":
            fits = True
        case _:
            fits = False
    return "" if fits else mismatch(value, owner, path, go_name(node))


def wrong_moment(node: SchemaNode, value: Json, owner: str, path: str) -> str:
    """The error if a value is not a time."""
    if not isinstance(value, str):
        return mismatch(value, owner, path, "string")
    if is_moment(value):
        return ""
    layout = MICRO_LAYOUT if node.definition.endswith("MicroTime") else LAYOUT
    return f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"'


def wrong_quantity(value: Json) -> str:
    """The error if a value is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return WORDED
    try:
        parse_quantity(str(value))
    except QuantityError:
        return WORDED
    return ""


def mismatch(value: Json, owner: str, path: str, wanted: str, shown: str = "") -> str:
    """The decoder's message for a value of another type."""
    into = f"Go struct field {owner}.{path}" if path else "Go value"
    return f"json: cannot unmarshal {json_name(value)}{shown} into {into} of type {wanted}"


def json_name(value: Json) -> str:
    """The decoder's name of a JSON type."""
    names: dict[type, str] = {dict: "object", list: "array", str: "string", bool: "bool"}
    return names.get(type(value), "number")


def go_name(node: SchemaNode) -> str:
    """The decoder's name of a field's type."""
    if node.definition:
        package, _, name = node.definition.rpartition(".")
        return f"{package.rpartition('.')[2]}.{name}"
    if node.type == "array":
        return f"[]{go_name(node.items)}"
    if node.type == "object":
        if node.element is not None and node.element.definition == QUANTITY:
            return "v1.ResourceList"
        return f"map[string]{go_name(node.element)}" if node.element is not None else "map[string]interface {}"
    if node.type == "integer":
        return str(node.raw.get("format", "int64"))
    return GO_SCALARS.get(node.type, "interface {}")


def unconvertible(schema: Schema, tree: Tree) -> str:
    """Like `unreadable`, for the result of a strategic merge patch, which another decoder reads."""
    return unfit(schema.node, tree)


def unfit(node: SchemaNode, value: Json) -> str:
    """The first value that this decoder cannot convert."""
    if value is None or node.definition in CONVERTED:
        return wrong(node, value, "", "")
    if isinstance(value, dict) and node.is_map:
        below = ((node.fields.get(name) or node.element, inner) for name, inner in value.items())
        return next(filter(None, (unfit(one, inner) for one, inner in below if one is not None)), "")
    if isinstance(value, list) and node.is_list:
        return next(filter(None, (unfit(node.items, inner) for inner in value)), "")
    if node.is_scalar:
        fits = not isinstance(value, dict | list) and not wrong_scalar(node, value, "", "")
        return "" if fits else f"cannot convert {go_type(value)} to {go_name(node)}"
    kind = "map" if isinstance(value, dict) else "slice" if isinstance(value, list) else go_type(value)
    if node.is_list:
        return f"cannot restore slice from {kind}"
    return f"cannot restore struct from: {kind}" if node.fields else f"cannot restore map from {kind}"
