"""Sets of fields of an object, and the operations on them.

A set has the form in which `fieldsV1` encodes it, so that decoding one costs nothing: a dict from path elements to the
set below them. A path element is `f:name` for a field, `k:{"name":"x"}` for an item of a list with keys, `v:"x"` for
an item of a set. Its value is `{}` if the set contains this path and nothing below it, a dict with `.` if it contains
this path and paths below it, and a dict without `.` if it contains only paths below it. The empty set is `{}` too, so
functions here work on the set of a whole object; `None` stands for nothing below a path element.

Sets are shared and never modified.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.apiserver.schema.nodes import DEDUCED, SchemaNode

FieldSet: TypeAlias = dict[str, "FieldSet"]

LEAF: Final[FieldSet] = {}
SELF: Final = "."
DEPTH_MAX: Final = 100
"""The most path elements in a set of a client; nearly too deep a set would exceed the limits of later steps."""
Path: TypeAlias = tuple[str, ...]


class FieldSetError(ValueError):
    """A malformed `fieldsV1`."""


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields that are in either set."""
    if not other or one is other:
        return one
    if not one:
        return other
    made = dict(one)
    for step, theirs in other.items():
        ours = made.get(step)
        if ours is None:
            made[step] = theirs
        elif ours is not theirs and (ours or theirs):
            made[step] = union(ours or OWN, theirs or OWN)
    return made


OWN: Final[FieldSet] = {SELF: LEAF}
"""The set of a path element that is itself a member, before children are added."""


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields of the first set that are not in the second; fields below a field are separate members."""
    if not one or not other:
        return one
    made: FieldSet = {}
    for step, ours in one.items():
        theirs = other.get(step)
        if theirs is None:
            made[step] = ours
        elif step != SELF and (left := rest(ours, theirs)) is not None:
            made[step] = left
    return made


def rest(ours: FieldSet, theirs: FieldSet) -> FieldSet | None:
    """What is left below a path element after a set difference."""
    if not ours:
        return ours if theirs and SELF not in theirs else None
    left = difference(ours, theirs or OWN)
    if len(left) == 1 and SELF in left:
        return LEAF
    return left or None


def without(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields of the first set that are neither in the second nor below a field of it."""
    if not one or not other:
        return one
    made: FieldSet = {}
    for step, ours in one.items():
        theirs = other.get(step)
        if theirs is None:
            made[step] = ours
        elif theirs and SELF not in theirs:
            left = without(ours, theirs)
            if left or not ours:
                made[step] = LEAF if len(left) == 1 and SELF in left else left
    return made


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields that are in both sets."""
    made: FieldSet = {}
    if len(one) > len(other):
        one, other = other, one
    for step, ours in one.items():
        theirs = other.get(step)
        if theirs is None:
            continue
        if not ours or not theirs:
            if (not ours or SELF in ours) and (not theirs or SELF in theirs):
                made[step] = LEAF
            continue
        if both := intersection(ours, theirs):
            made[step] = LEAF if len(both) == 1 and SELF in both else both
    return made


def within(one: FieldSet, other: FieldSet) -> bool:
    """Whether every field of the first set is in the second."""
    for step, ours in one.items():
        theirs = other.get(step)
        if theirs is None:
            return False
        if ours is theirs:
            continue
        if not ours:
            if theirs and SELF not in theirs:
                return False
        elif not within(ours, theirs or OWN):
            return False
    return True


def named(fields: FieldSet, node: SchemaNode) -> FieldSet:
    """The set with the parents of its fields added, where the schema names them."""
    made: FieldSet = {}
    for step, below in fields.items():
        if not below:
            made[step] = below
            continue
        if step.startswith("f:"):
            inner = node.fields.get(step[2:])
            made[step] = {SELF: LEAF, **named(below, inner)} if inner else named(below, node.element or DEDUCED)
        else:
            made[step] = named(below, node.items if step.startswith("k:") and node.is_list else DEDUCED)
    return made


def fitted(fields: FieldSet, node: SchemaNode) -> FieldSet:
    """The set under the present schema: fields below a place that is now atomic become that place."""
    made = fields
    for step, below in fields.items():
        if not below:
            continue
        inner = node.fields.get(step[2:], node.element) if step.startswith("f:") else node.items
        if inner is None or (inner.is_map and inner.element is DEDUCED and not inner.fields):
            continue
        now = LEAF if is_one_value(inner) else fitted(below, inner)
        if now is not below:
            if made is fields:
                made = dict(fields)
            made[step] = now
    return made


def is_one_value(node: SchemaNode) -> bool:
    """Whether a list or an object here is owned as a whole."""
    return node.map_atomic if node.is_map else node.is_list and not node.associative


def parsed(raw: Json, depth: int = DEPTH_MAX) -> FieldSet:
    """The set in a `fieldsV1`, with path elements in normal form; unknown types of path elements are dropped."""
    if not isinstance(raw, dict):
        raise FieldSetError("fieldsV1 must be an object")
    if not depth:
        raise FieldSetError(f"fieldsV1 is nested deeper than {DEPTH_MAX} levels")
    made: FieldSet = {}
    for step, below in raw.items():
        known = SELF if step == SELF else step_of(step)
        if known is not None:
            made[known] = parsed(below, depth - 1) if below else LEAF
    return made


@lru_cache(maxsize=8192)
def step_of(text: str) -> str | None:
    """A path element in normal form; `None` if its type is unknown."""
    sort, content = text[:2], text[2:]
    if len(text) < 2:
        raise FieldSetError("key must be 2 characters long:")
    if text[1] != ":":
        raise FieldSetError(f"missing colon: {text}")
    if sort == "f:":
        return text
    if sort == "i:":
        return text
    if sort not in ("k:", "v:"):
        return None
    try:
        value = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise FieldSetError(f"{text}: {error}") from None
    if sort == "v:":
        return value_step(value)
    if not isinstance(value, dict):
        raise FieldSetError(f"{text}: the keys of an item are an object")
    return key_step(value)


def value_step(value: Json) -> str:
    """The path element of an item of a set."""
    return f"v:{written(value)}"


def key_step(keys: Tree) -> str:
    """The path element of an item of a list with keys."""
    return "k:{" + ",".join(f'"{name}":{written(keys[name])}' for name in sorted(keys)) + "}"


def written(value: Json) -> str:
    """A value as encoded in a path element: JSON with `<`, `>` and `&` escaped."""
    text = msgspec.json.encode(value).decode()
    if "<" in text or ">" in text or "&" in text:
        text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return text


def paths(fields: FieldSet, above: Path = ()) -> Iterator[Path]:
    """Every field of a set in the server's order: parents before children."""
    steps = sorted((step for step in fields if step != SELF), key=rank)
    for step in steps:
        if not fields[step] or SELF in fields[step]:
            yield (*above, step)
    for step in steps:
        if fields[step]:
            yield from paths(fields[step], (*above, step))


def rank(step: str) -> tuple[str, list[tuple[str, str, float, str]]]:
    """The sort key of a path element: fields, then items by key, then items by value; numbers by size."""
    sort, content = step[0], step[2:]
    if sort == "f":
        return sort, [(content, "", 0.0, "")]
    value = msgspec.json.decode(content)
    if sort == "k" and isinstance(value, dict):
        return sort, [(name, *weight(inner)) for name, inner in value.items()]
    return sort, [("", *weight(value))]


def weight(value: Json) -> tuple[str, float, str]:
    """The sort key of a value of any type."""
    if isinstance(value, bool):
        return "c", float(value), ""
    if isinstance(value, int | float):
        return "a", float(value), ""
    return ("b", 0.0, value) if isinstance(value, str) else ("d", 0.0, "")


def path_text(path: Path) -> str:
    """A path as messages show it: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(step_text(step) for step in path)


def step_text(step: str) -> str:
    """A path element as messages show it."""
    sort, content = step[0], step[2:]
    if sort == "f":
        return f".{content}"
    if sort == "i":
        return f"[{content}]"
    value = msgspec.json.decode(content)
    if sort == "k" and isinstance(value, dict):
        return "[" + ",".join(f"{name}={quoted(inner)}" for name, inner in value.items()) + "]"
    return f"[={quoted(value)}]"


def quoted(value: Json) -> str:
    """A value within a path: texts in quotes, anything else as JSON."""
    return msgspec.json.encode(value).decode()
