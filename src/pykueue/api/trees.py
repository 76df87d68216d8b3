"""Read values from JSON trees; absent values and those of the wrong type read as empty."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias, overload

from pykueue.api.core import Json
from pykueue.base.units import Quantity, QuantityError, parse_quantity

Tree: TypeAlias = Mapping[str, object]

NOTHING: Final[Tree] = {}
OBJECT: Final = (dict, Mapping)
"""The types of a JSON object. Most are dictionaries, and that check is ten times faster than the abstract one."""
WHOLE_MAX: Final = 10**60
"""No quantity has this many digits; longer numbers are not converted to text."""


@overload
def member(tree: Json, *keys: str) -> Json: ...
@overload
def member(tree: object, *keys: str) -> object: ...
def member(tree: object, *keys: str) -> object:
    """The value under these keys; `None` if absent."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, OBJECT) else None
    return tree


def has(tree: object, *keys: str) -> bool:
    """Whether there is a value under these keys."""
    return member(tree, *keys) is not None


def mapping(tree: object, *keys: str) -> Tree:
    """The object under these keys; empty if absent."""
    found = member(tree, *keys)
    return found if isinstance(found, OBJECT) else NOTHING


def items(tree: object, *keys: str) -> list[object]:
    """The list under these keys; empty if absent."""
    found = member(tree, *keys)
    return found if isinstance(found, list) else []


def mappings(tree: object, *keys: str) -> list[tuple[int, Tree]]:
    """The objects in the list under these keys, each with its index."""
    return [(index, item) for index, item in enumerate(items(tree, *keys)) if isinstance(item, OBJECT)]


def text(tree: object, *keys: str) -> str:
    """The text under these keys; empty if absent."""
    found = member(tree, *keys)
    return found if isinstance(found, str) else ""


def whole(tree: object, *keys: str) -> int | None:
    """The whole number under these keys; None if absent."""
    found = member(tree, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def amount(value: object) -> Quantity | None:
    """The quantity that a text or number gives."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < WHOLE_MAX:
        value = str(value)
    if not isinstance(value, str):
        return None
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def nodes(at: str, new: object, old: object = None, path: str = "") -> Iterator[tuple[str, object, object]]:
    """The existing nodes that a schema path such as `spec.levels[]` names: (path, value, previous value)."""
    if not at:
        yield path, new, old
        return
    step, _, rest = at.partition(".")
    name = step.removesuffix("[]")
    node = member(new, name)
    if node is None:
        return
    inner = f"{path}.{name}" if path else name
    if step == name:
        yield from nodes(rest, node, member(old, name), inner)
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from nodes(rest, item, None, f"{inner}[{index}]")
