"""Explains why an object cannot be applied: type mismatches with its schema, in the words of kube-apiserver and Go."""

from collections.abc import Iterator
from typing import Final

from pykueue.api.core import Json
from pykueue.apiserver.schema.fieldsets import step_text
from pykueue.apiserver.schema.merge import MAP, SCALAR, MergeError, by_step, shape_of, step_to
from pykueue.apiserver.schema.nodes import SchemaNode


def is_sound(node: SchemaNode, value: Json) -> bool:
    """Whether a value has no `faults`; a fast path."""
    if isinstance(value, dict):
        if not node.is_map:
            return False
        known, element = node.fields, node.element
        for name, inner in value.items():
            below = known.get(name) or element
            if below is None or not is_sound(below, inner):
                return False
        return True
    if isinstance(value, list):
        if not node.is_list:
            return False
        items = node.items
        if node.associative:
            try:
                if len(by_step(node, value)) != len(value):
                    return False
            except MergeError:
                return False
        return all(is_sound(items, inner) for inner in value)
    return value is None or (node.is_scalar and type(value) in SUITABLE[node.type])


SUITABLE: Final[dict[str, tuple[type, ...]]] = {
    "": (str, int, float, bool),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
}
"""The possible types of a scalar."""


def faults(node: SchemaNode, value: Json, path: str = "") -> Iterator[str]:
    """Why a value cannot be applied: unknown fields, type mismatches, duplicate items."""
    shape = shape_of(node, value)
    at = f"{path}: " if path else ""
    if value is None:
        return
    if shape == SCALAR:
        if type(value) not in SUITABLE[node.type]:
            yield f"{at}{expectation(node.type, value)}"
    elif shape == MAP:
        if not isinstance(value, dict):
            yield f"{at}expected map, got &{{{go_text(value)}}}"
            return
        for name, inner in value.items():
            below = node.fields.get(name) or node.element
            if below is None:
                yield f"{path}.{name}: field not declared in schema"
            else:
                yield from faults(below, inner, f"{path}.{name}")
    elif isinstance(value, list):
        yield from list_faults(node, value, path)
    else:
        yield f"{at}expected list, got &{{{go_text(value)}}}"


def list_faults(node: SchemaNode, value: list[Json], path: str) -> Iterator[str]:
    """Why the items of a list cannot be applied."""
    seen: set[str] = set()
    for number, item in enumerate(value):
        step = f"i:{number}"
        if node.associative:
            try:
                step = step_to(node, item)
            except MergeError as error:
                yield f"{path}: element {number}: {error}"
                return
            if step in seen:
                yield f"{path}: duplicate entries for key {step_text(step)}"
            seen.add(step)
        yield from faults(node.items, item, f"{path}{step_text(step)}")


def expectation(wanted: str, value: Json) -> str:
    """Kubernetes' message for a scalar of another type."""
    match wanted:
        case "string":
            return f"expected string, got &value.valueUnstructured{{Value:{go_literal(value)}}}"
        case "boolean":
            return f"expected boolean, got &{{{go_text(value)}}}"
        case "integer" | "number":
            return f"expected numeric (int or float), got {go_type(value)}"
    return f"expected any scalar, got &{{{go_text(value)}}}"


def go_type(value: Json) -> str:
    """The Go type of a value."""
    names: dict[type, str] = {bool: "bool", int: "int64", float: "float64", str: "string"}
    return names.get(type(value), "map[string]interface {}" if isinstance(value, dict) else "[]interface {}")


def go_text(value: Json) -> str:
    """A value as Go prints it with %v."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[" + " ".join(f"{name}:{go_text(inner)}" for name, inner in sorted(value.items())) + "]"
        case list():
            return "[" + " ".join(go_text(inner) for inner in value) + "]"
    return "<nil>" if value is None else str(value)


def go_literal(value: Json) -> str:
    """A value as Go prints it with %#v."""
    match value:
        case dict():
            inner = ", ".join(f'"{name}":{go_literal(one)}' for name, one in sorted(value.items()))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return "[]interface {}{" + ", ".join(go_literal(one) for one in value) + "}"
        case str():
            return f'"{value}"'
    return go_text(value)
