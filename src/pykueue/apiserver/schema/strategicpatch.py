"""Strategic merge patches: lists are merged as the schema says, and by directives in the patch.

A list is replaced or merged: objects by their merge key, plain values as a set. Besides fields, a patch may contain
`$patch` (replace or delete this object), `$retainKeys` (drop all other fields), `$deleteFromPrimitiveList/x` and
`$setElementOrder/x` (for the list in field `x`).
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.pods import without_nulls
from pykueue.apiserver.schema.nodes import SchemaNode
from pykueue.apiserver.schema.typefaults import go_text, go_type

DIRECTIVE: Final = "$patch"
RETAIN: Final = "$retainKeys"
DELETE_FROM: Final = "$deleteFromPrimitiveList"
ORDER: Final = "$setElementOrder"

BAD_ORDER: Final = "invalid patch format of setElementOrder list"
BAD_RETAIN: Final = "invalid patch format of retainKeys"
BAD_PRIMITIVES: Final = "invalid patch format of primitive list"


class PatchError(Exception):
    """A patch that does not apply: the message, the status code, and the reason."""

    def __init__(self, message: str, code: int = 400, detail: str = "") -> None:
        super().__init__(detail or message)
        self.message = message
        self.code = code
        self.detail = detail


def broken(message: str) -> PatchError:
    """The error for a patch on which kube-apiserver fails with a 500."""
    return PatchError(message, 500)


def merged_map(old: Tree, patch: Tree, node: SchemaNode) -> Tree:
    """An object with a patch merged in."""
    if DIRECTIVE in patch:
        return directed(patch)
    made = retained(dict(old), patch)
    left = {name: inner for name, inner in patch.items() if name != RETAIN}
    for name in [name for name in left if name.startswith(ORDER)]:
        order(made, left, name, node)
    for name, new in left.items():
        field, delete = name, name.startswith(DELETE_FROM)
        if delete:
            field = list_named(name, DELETE_FROM, BAD_PRIMITIVES)
        if new is None:
            made.pop(field, None)
            continue
        before = made.get(field)
        if isinstance(before, dict) and isinstance(new, dict):
            made[field] = merged_map(before, new, node.below(field))
        elif isinstance(before, list) and isinstance(new, list):
            made[field] = merged_list(before, new, node.below(field), delete)
        elif not delete:
            put(made, field, undirected(without_nulls(new)))
    return made


def directed(patch: Tree) -> Tree:
    """The result of a `$patch` directive for an object."""
    match patch[DIRECTIVE]:
        case "replace":
            return {name: inner for name, inner in patch.items() if name != DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise broken(f"unknown patch type: {go_text(other)} in map: {go_text(patch)}")


def put(tree: Tree, name: str, value: Json) -> None:
    """Set a field; a value that was only a directive removes it."""
    if isinstance(value, Nothing):
        tree.pop(name, None)
    else:
        tree[name] = value


class Nothing(dict[str, Json]):
    """The result for an object that was only a directive."""


def undirected(value: Json) -> Json:
    """A new value without its directives."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return Nothing()
        kept = {name: undirected(inner) for name, inner in value.items()}
        return {name: inner for name, inner in kept.items() if not isinstance(inner, Nothing)}
    if isinstance(value, list):
        return [inner for inner in map(undirected, value) if not isinstance(inner, Nothing)]
    return value


def retained(made: Tree, patch: Tree) -> Tree:
    """The object with only the fields in the patch's `$retainKeys`, if present."""
    if RETAIN not in patch:
        return made
    keys = patch[RETAIN]
    if not isinstance(keys, list):
        raise PatchError(BAD_RETAIN)
    kept = {key for key in keys if isinstance(key, str)}
    for name, new in patch.items():
        if name != RETAIN and new is not None and not name.startswith((DELETE_FROM, ORDER)) and name not in kept:
            raise PatchError(BAD_RETAIN)
    return {name: inner for name, inner in made.items() if name in kept}


def list_named(name: str, prefix: str, message: str) -> str:
    """The field that a directive such as `$setElementOrder/containers` refers to."""
    before, slash, field = name.partition("/")
    if before != prefix or not slash:
        raise PatchError(message)
    return field


def order(made: Tree, left: Tree, name: str, node: SchemaNode) -> None:
    """Merge the list of a `$setElementOrder` directive and put it in that order; consumes both."""
    wanted = left.pop(name)
    field = list_named(name, ORDER, BAD_ORDER)
    if not isinstance(wanted, list):
        raise broken(f"expected a []interface {{}}, but received a {received(wanted)}")
    for tree in (made, left):
        if field in tree and not isinstance(tree[field], list):
            raise broken(f"expected a []interface {{}}, but received a {received(tree[field])}")
    before, new = made.get(field), left.get(field)
    below = node.below(field)
    key = below.merge_key
    agree(new if isinstance(new, list) else [], wanted, key)
    if isinstance(before, list) and isinstance(new, list):
        both = merged_list(before, new, below, False)
    elif isinstance(new, list):
        bare = undirected(new)
        both = bare if isinstance(bare, list) else []
    elif isinstance(before, list):
        both = before
    else:
        return
    made[field] = arranged(both, wanted, before if isinstance(before, list) else [], key)
    left.pop(field, None)


def received(value: Json) -> str:
    """The Go type of a value."""
    return "%!s(<nil>)" if value is None else go_type(value)


def agree(new: list[Json], wanted: list[Json], key: str) -> None:
    """Raise an error unless all items of a patch are in its `$setElementOrder`, in that order."""
    if not new or not wanted:
        return
    items = [item for item in new if not (isinstance(item, dict) and DIRECTIVE in item)]
    at = 0
    for one in wanted:
        if at < len(items) and identity(items[at], key) == identity(one, key):
            at += 1
    if at < len(items):
        raise broken(f"The order in patch list:\n{go_text(new)}\n doesn't match {ORDER} list:\n{go_text(wanted)}\n")


def identity(item: Json, key: str) -> Json:
    """The merge key of an item, or the item itself if the list has none."""
    if not key:
        return item
    if not isinstance(item, dict):
        raise broken(f"expected a map[string]interface {{}}, but received a {received(item)}")
    if key not in item:
        raise broken(f"map: {go_text(item)} does not contain declared merge key: {key}")
    return item[key]


def merged_list(old: list[Json], new: list[Json], node: SchemaNode, delete: bool) -> list[Json]:
    """A list with a patch merged in, or replaced by it, as the schema says."""
    if delete:
        gone = set(map(mark, new))
        return [item for item in old if mark(item) not in gone]
    if "merge" not in node.strategies:
        return new
    if not old and not new:
        return old
    key = node.merge_key
    if not any(isinstance(item, dict) for item in (*old, *new)):
        added = {mark(item): item for item in reversed(new)}
        for item in old:
            added.pop(mark(item), None)
        return arranged([*old, *reversed(added.values())], new, old, "")
    if not key:
        raise broken(f"cannot merge lists without merge key for {node.items.definition.rpartition('.')[2]}")
    old, new = directed_items(old, new, key)
    both = list(old)
    places = places_of(identity(one, key) for one in both)
    for item in new:
        at = places.setdefault(mark(identity(item, key)), len(both))
        if at == len(both):
            both.append(item)
            continue
        before = both[at]
        if isinstance(before, dict) and isinstance(item, dict):
            both[at] = merged_map(before, item, node.items)
    return arranged(both, new, old, key)


def directed_items(old: list[Json], new: list[Json], key: str) -> tuple[list[Json], list[Json]]:
    """The list and its patch after applying items of the patch that are directives."""
    plain: list[Json] = []
    gone: set[bytes] = set()
    replace = False
    for item in new:
        if not isinstance(item, dict) or DIRECTIVE not in item:
            plain.append(item)
            continue
        match item[DIRECTIVE]:
            case "delete":
                gone.add(mark(identity(item, key)))
            case "replace":
                replace = True
            case "merge":
                raise broken("merging lists cannot yet be specified in the patch")
            case other:
                raise broken(f"unknown patch type: {go_text(other)} in map: {go_text(item)}")
    if replace:
        return plain, []
    return [one for one in old if not (gone and isinstance(one, dict) and mark(one.get(key)) in gone)], plain


def arranged(both: list[Json], wanted: list[Json], old: list[Json], key: str) -> list[Json]:
    """The items in order: those of the patch in its order, the others where they were between them."""
    asked = places_of(identity(item, key) for item in wanted)
    before = places_of(item.get(key) if key and isinstance(item, dict) else item for item in old)
    never = len(old)
    marked = [(mark(identity(item, key)), item) for item in both]
    mine = deque(sorted((one for one in marked if one[0] in asked), key=lambda one: asked[one[0]]))
    theirs = deque(sorted((one for one in marked if one[0] not in asked), key=lambda one: before.get(one[0], never)))
    made: list[Json] = []
    while mine and theirs:
        left, right = before.get(theirs[0][0], never), before.get(mine[0][0], never)
        made.append((theirs if left < right < never else mine).popleft()[1])
    return [*made, *(item for _, item in (*mine, *theirs))]


def places_of(values: Iterable[Json]) -> dict[bytes, int]:
    """The first position of each value, by its mark."""
    found: dict[bytes, int] = {}
    for number, value in enumerate(values):
        found.setdefault(mark(value), number)
    return found


def mark(value: Json) -> bytes:
    """A hashable key that equal values share."""
    return msgspec.json.encode(value, order="sorted")
