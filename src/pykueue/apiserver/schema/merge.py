"""Compares, merges, prunes and lists trees field by field according to their schema.

These are the four steps of server-side apply. A list or an object that the schema calls atomic is one value; of all
others, items and fields are visited one by one. Results share unchanged parts with their arguments, so that the next
step can skip them by identity.
"""

from collections.abc import Callable
from functools import lru_cache
from operator import ne
from typing import Final, TypeAlias

from msgspec.json import encode

from pykueue.api.core import Json, Tree
from pykueue.apiserver.schema.fieldsets import LEAF, SELF, FieldSet, key_step, union, value_step
from pykueue.apiserver.schema.nodes import SchemaNode
from pykueue.base.struct import Frozen

MAP: Final = 0
SCALAR: Final = 1
LIST: Final = 2

Items: TypeAlias = dict[str, list[Json]]
"""The items of a list by path element; several if there are duplicates."""


class MergeError(ValueError):
    """A list item without a unique key."""


class Differences(Frozen):
    """The fields that differ between two trees."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet


def shape_of(node: SchemaNode, value: Json) -> int:
    """The shape as which a value is processed: the map, scalar or list that the schema allows here.

    A value of another shape, or null, is processed as the first shape that is allowed.
    """
    if isinstance(value, dict):
        if node.is_map:
            return MAP
    elif isinstance(value, list):
        if node.is_list:
            return LIST
    elif value is not None and node.is_scalar:
        return SCALAR
    return MAP if node.is_map else SCALAR if node.is_scalar else LIST


def step_to(node: SchemaNode, item: Json) -> str:
    """The path element of an item of a set or of a list with keys."""
    keys = node.keys
    if not keys:
        if isinstance(item, dict):
            raise MergeError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise MergeError("not supported: associative list with lists as elements")
        if item is None:
            raise MergeError("associative list without keys has an element that's an explicit null")
        return value_step(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise MergeError(f"associative list with keys may not have {what}")
    if len(keys) == 1 and isinstance(only := item.get(keys[0]), str):
        return keyed(keys[0], only)
    given: Tree = {}
    for key in keys:
        if key in item:
            given[key] = item[key]
        elif (default := node.key_default(key)) is not None:
            given[key] = default
    if not given:
        wanted = " ".join(f'"{key}"' for key in keys)
        raise MergeError(
            f"associative list with keys has an element that omits all key fields [{wanted}]"
            " (and doesn't have default values for any key fields)",
        )
    return key_step(given)


@lru_cache(maxsize=8192)
def keyed(key: str, value: str) -> str:
    """The path element of an item with a single text key, the most common case."""
    return key_step({key: value})


def by_step(node: SchemaNode, items: list[Json]) -> Items:
    """The items of a list by path element, in order."""
    found: Items = {}
    for number, item in enumerate(items):
        try:
            step = step_to(node, item)
        except MergeError as error:
            raise MergeError(f"element {number}: {error}") from None
        if step in found:
            found[step].append(item)
        else:
            found[step] = [item]
    return found


def fields_of(node: SchemaNode, value: Json) -> FieldSet | None:
    """The fields that a value sets, which its applier owns; `None` if it sets none."""
    shape = shape_of(node, value)
    if shape == SCALAR:
        return LEAF
    made: FieldSet = {}
    if shape == MAP:
        if node.map_atomic:
            return LEAF
        known = node.fields
        for name, inner in value.items() if isinstance(value, dict) else ():
            below = fields_of(known.get(name) or node.below(name), inner)
            if inner is None or inner == {} or name not in known:
                below = LEAF if below is None else with_self(below)
            if below is not None:
                made[f"f:{name}"] = below
        return made or None
    if not node.associative:
        return LEAF
    for step, items in by_step(node, value).items() if isinstance(value, list) else ():
        below = fields_of(node.items, items[0]) if len(items) == 1 else None
        made[step] = LEAF if below is None else with_self(below)
    return made or None


def with_self(below: FieldSet) -> FieldSet:
    """A set with the element itself added."""
    return below if not below or SELF in below else {SELF: LEAF, **below}


def whole(node: SchemaNode, value: Json) -> FieldSet:
    """Every path in a value, including containers: what changes when it appears or disappears as a whole."""
    shape = shape_of(node, value)
    made: FieldSet = {}
    if shape == MAP:
        if isinstance(value, dict) and not node.map_atomic:
            made = {f"f:{name}": whole(node.below(name), inner) for name, inner in value.items()}
    elif shape == LIST and isinstance(value, list) and node.associative:
        for step, items in by_step(node, value).items():
            made[step] = whole(node.items, items[0]) if len(items) == 1 else LEAF
    return {SELF: LEAF, **made} if made else LEAF


def differ(one: Json, other: Json) -> bool:
    """Whether two values differ; unlike in Python, a number never equals a boolean."""
    if one is other:
        return False
    if one != other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return encode(one) != encode(other) and any(differ(inner, other[name]) for name, inner in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return any(map(differ, one, other))
    return isinstance(one, bool) is not isinstance(other, bool)


def compared(node: SchemaNode, old: Tree, new: Tree, *, loose: bool) -> Differences:
    """The differences between two trees; in a `loose` one a value may have any type."""
    walk = Comparing(differ if loose else ne)
    if old is not new:
        walk.maps(node, old, new, walk.removed, walk.modified, walk.added)
    return Differences(walk.removed, walk.modified, walk.added)


class Comparing:
    """One comparison; each step adds its findings to the sets of its parent."""

    __slots__ = ("added", "differ", "modified", "removed")

    def __init__(self, differ: Callable[[Json, Json], bool]) -> None:
        self.differ = differ
        self.removed: FieldSet = {}
        self.modified: FieldSet = {}
        self.added: FieldSet = {}

    def maps(self, node: SchemaNode, old: Tree, new: Tree, *sets: FieldSet) -> None:
        """Compare two objects field by field."""
        removed, _, added = sets
        for name, before in old.items():
            if name not in new:
                removed[f"f:{name}"] = whole(node.below(name), before)
            elif before is not (after := new[name]) and self.differ(before, after):
                self.values(node.below(name), f"f:{name}", before, after, *sets)
        for name, after in new.items():
            if name not in old:
                added[f"f:{name}"] = whole(node.below(name), after)

    def lists(self, node: SchemaNode, old: list[Json], new: list[Json], *sets: FieldSet) -> None:
        """Compare two lists item by item; items with the same key are compared together."""
        removed, modified, added = sets
        olds, news = by_step(node, old), by_step(node, new)
        for step, before in olds.items():
            after = news.get(step, [])
            if len(before) == 1 and len(after) == 1:
                if before[0] is not after[0] and self.differ(before[0], after[0]):
                    self.values(node.items, step, before[0], after[0], *sets)
            elif len(before) > 1 and len(after) > 1:
                if self.differ(before, after):
                    modified[step] = LEAF
            elif len(before) > 1:
                removed[step] = LEAF
                if after:
                    added[step] = whole(node.items, after[0])
            else:
                removed[step] = whole(node.items, before[0])
                if after:
                    added[step] = LEAF
        for step, after in news.items():
            if step not in olds:
                added[step] = whole(node.items, after[0]) if len(after) == 1 else LEAF

    def values(self, node: SchemaNode, step: str, old: Json, new: Json, *sets: FieldSet) -> None:
        """Compare two values that are not equal; if their shapes differ, both shapes are compared."""
        first, second = shape_of(node, old), shape_of(node, new)
        self.shaped(first, node, step, old, new, *sets)
        if second != first:
            self.shaped(second, node, step, old, new, *sets)

    def shaped(self, shape: int, node: SchemaNode, step: str, old: Json, new: Json, *sets: FieldSet) -> None:
        """Compare two values as maps, as scalars or as lists."""
        below: tuple[FieldSet, FieldSet, FieldSet] = {}, {}, {}
        if shape == MAP and not node.map_atomic and (is_full(old, dict) or is_full(new, dict)):
            self.maps(node, old if isinstance(old, dict) else {}, new if isinstance(new, dict) else {}, *below)
        elif shape == LIST and node.associative and (is_full(old, list) or is_full(new, list)):
            self.lists(node, old if isinstance(old, list) else [], new if isinstance(new, list) else [], *below)
        else:
            sets[1][step] = LEAF
            return
        for mine, found in zip(sets, below, strict=True):
            if found:
                mine[step] = union(with_self(mine[step]) or OWN, found) if step in mine else found


OWN: Final[FieldSet] = {SELF: LEAF}


def is_full(value: Json, of: type) -> bool:
    """Whether the value is a non-empty list or object."""
    return isinstance(value, of) and bool(value)


def merged(node: SchemaNode, live: Json, wanted: Json) -> Json:
    """The live value with the applied one merged in; fields and items not mentioned stay."""
    shape = shape_of(node, wanted)
    if shape == MAP and not node.map_atomic:
        old = live if isinstance(live, dict) else {}
        if isinstance(wanted, dict) and wanted:
            return merged_maps(node, old, wanted)
        if old:
            return live
    elif shape == LIST and node.associative:
        old_items = live if isinstance(live, list) else []
        if isinstance(wanted, list) and wanted:
            return merged_lists(node, old_items, wanted) if old_items else wanted
        if old_items:
            return live
    # Python considers lists and objects equal that differ in `1` and `true`.
    return live if type(live) is type(wanted) and live == wanted and not isinstance(live, dict | list) else wanted


def merged_maps(node: SchemaNode, live: Tree, wanted: Tree) -> Tree:
    """Two objects field by field."""
    made = live
    for name, new in wanted.items():
        if name in live:
            old = live[name]
            both = merged(node.below(name), old, new)
            if both is old:
                continue
        else:
            both = new
        if made is live:
            made = dict(live)
        made[name] = both
    return made


def merged_lists(node: SchemaNode, live: list[Json], wanted: list[Json]) -> list[Json]:
    """Two lists item by item: applied items in their order, the others where they were between them."""
    olds, news = by_step(node, live), by_step(node, wanted)
    steps = list(olds) if len(olds) == len(live) else [step_to(node, item) for item in live]
    both: dict[str, Json] = {}
    for step, (new, *_) in news.items():
        before = olds.get(step)
        both[step] = new if before is None or len(before) > 1 else merged(node.items, before[0], new)
    made = interleaved(steps, live, list(news), both)
    same = len(made) == len(live) and all(new is old for new, old in zip(made, live, strict=True))
    return live if same else made


def interleaved(steps: list[str], live: list[Json], wanted: list[str], both: dict[str, Json]) -> list[Json]:
    """The items in the order in which kube-apiserver merges two lists.

    Walks both lists at once. Live items that are not applied are taken where they occur; an applied item is taken when
    the live list has reached it, or has nothing to put before it.
    """
    present = set(steps)
    shared = iter([step for step in wanted if step in present])
    due = next(shared, None)
    made: list[Json] = []
    taken: set[str] = set()
    left, right = 0, 0
    while left < len(steps) or right < len(wanted):
        if left < len(steps) and right < len(wanted):
            step = steps[left]
            if step == wanted[right]:
                taken.add(step)
                made.append(both[step])
                left, right = left + 1, right + 1
                due = next(shared, None)
                continue
            if step in both and due is not None and due != step:
                left += 1
                continue
        if left < len(steps):
            step = steps[left]
            if step not in both:
                made.append(live[left])
                left += 1
                continue
            if step in taken:
                left += 1
        if right < len(wanted):
            step = wanted[right]
            taken.add(step)
            made.append(both[step])
            right += 1
            if due == step:
                due = next(shared, None)
    return made


def removed(node: SchemaNode, value: Json, gone: FieldSet) -> Json:
    """The value without these fields; null if nothing is left."""
    shape = shape_of(node, value)
    if shape == SCALAR:
        return value
    if shape == MAP:
        if not isinstance(value, dict) or not value or node.map_atomic:
            return None
        kept: Tree = {}
        for name, inner in value.items():
            below = gone.get(f"f:{name}")
            if below is None:
                kept[name] = inner
            elif below and SELF not in below:
                kept[name] = removed(node.below(name), inner, below)
        return kept or None
    if not isinstance(value, list) or not value or not node.associative:
        return None
    items: list[Json] = []
    for item in value:
        below = gone.get(step_to(node, item))
        if below is None:
            items.append(item)
        elif below and SELF not in below:
            items.append(removed(node.items, item, below))
    return items or None
