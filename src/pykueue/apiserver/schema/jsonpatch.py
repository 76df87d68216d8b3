"""JSON merge patches (RFC 7386) and JSON patches (RFC 6902), as kube-apiserver applies them.

`strategic_patch` is the entry point for strategic merge patches, whose rules are in `strategicpatch`. Arguments are not
modified; results share the parts that a patch does not touch.
"""

import re
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.pods import without_nulls
from pykueue.apiserver.schema.schemas import Schema
from pykueue.apiserver.schema.strategicpatch import PatchError, merged_map
from pykueue.apiserver.wire.statuserrors import BODY_MAX

OPERATIONS_MAX: Final = 10_000
REJECTED: Final = "the server rejected our request due to an error in our request"
"""The complete message for a JSON patch that does not apply."""
COPIED_MAX: Final = BODY_MAX
"""The most bytes that the copies of one JSON patch may add; each may double the object."""
WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
"""A valid index; longer numbers are not."""

MISSING: Final = "missing value"
BAD_INDEX: Final = "invalid index referenced"
TEST_FAILED: Final = "test failed"


def merge_patch(tree: Tree, patch: Json) -> Tree:
    """The object after a JSON merge patch: null removes, objects are merged, anything else replaces."""
    if patch is None:
        raise PatchError("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise PatchError(f"error decoding patch: {mismatch(patch, 'map[string]interface {}')}")
    return merged(tree, patch)


def merged(tree: Tree, patch: Tree) -> Tree:
    """An object merged with another."""
    made = dict(tree)
    for name, new in patch.items():
        if new is None:
            made.pop(name, None)
            continue
        old = made.get(name)
        made[name] = merged(old, new) if isinstance(old, dict) and isinstance(new, dict) else without_nulls(new)
    return made


def strategic_patch(tree: Tree, patch: Json, schema: Schema) -> Tree:
    """The object after a strategic merge patch, which merges lists as the schema says."""
    if not isinstance(patch, dict):
        raise PatchError(mismatch(patch, "map[string]interface {}"))
    if not schema.native:
        raise PatchError("strategic merge patch format is not supported")
    return merged_map(tree, patch, schema.node)


def mismatch(value: Json, wanted: str) -> str:
    """The error for a body of another type than expected."""
    kinds: dict[type, str] = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    return f"json: cannot unmarshal {kinds.get(type(value), 'number')} into Go value of type {wanted}"


def json_patch(tree: Tree, operations: Json) -> Tree:
    """The object after the operations of a JSON patch, in order; if one fails, none is applied."""
    if not isinstance(operations, list):
        raise PatchError(f"error decoding patch: {mismatch(operations, '[]handlers.jsonPatchOp')}")
    if len(operations) > OPERATIONS_MAX:
        text = f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {len(operations)}"
        raise PatchError(text, 413)
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchError(f"error decoding patch: {mismatch(operation, 'handlers.jsonPatchOp')}")
    document = Document(fresh(tree))
    for operation in operations:
        if isinstance(operation, dict):
            document.do(operation)
    if not isinstance(document.root, dict):
        raise refused("the patch leaves no object")
    return document.root


def fresh(value: Json) -> Json:
    """A copy that may be modified."""
    copied: Json = msgspec.json.decode(msgspec.json.encode(value))
    return copied


def refused(why: str) -> PatchError:
    """The error for an operation that does not apply."""
    return PatchError(REJECTED, 422, why)


def failed(name: str, path: str, why: str) -> PatchError:
    """The error for an operation that found its location but failed there."""
    return refused(f"error in {name} for path: '{path}': {why}")


class Document:
    """A document that operations modify in place."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self.copied = 0
        """Bytes copied so far."""

    def do(self, operation: Tree) -> None:
        """Apply one operation."""
        kind = operation.get("op")
        match kind:
            case "add":
                self.add(pointer(operation, "path", "add"), operation.get("value"), "add")
            case "remove":
                self.remove(pointer(operation, "path", "remove"))
            case "replace":
                self.replace(pointer(operation, "path", "replace"), operation.get("value"))
            case "move":
                self.move(operation)
            case "copy":
                self.copy(operation)
            case "test":
                self.test(pointer(operation, "path", "test"), operation.get("value"))
            case _:
                raise refused(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")

    def place(self, path: str) -> "tuple[Place, str] | None":
        """The object or list that contains a path's target, and the last segment; `None` if it does not exist."""
        steps = path.split("/")
        if len(steps) < 2:
            return None
        at: Json = self.root
        for step in steps[1:-1]:
            if isinstance(at, dict):
                at = at.get(plain(step))
            elif isinstance(at, list) and (number := index(at, plain(step))) is not None:
                at = at[number]
            else:
                return None
        return (at, plain(steps[-1])) if isinstance(at, dict | list) else None

    def add(self, path: str, value: Json, name: str) -> None:
        """Add a value to an object, or insert it into a list."""
        found = self.place(path)
        if found is None:
            where = f'doc is missing path: "{path}"' if name == "add" else f"doc is missing destination path: {path}"
            raise refused(f"{name} operation does not apply: {where}: {MISSING}")
        into, step = found
        if isinstance(into, dict):
            into[step] = value
        elif step == "-":
            into.append(value)
        else:
            if WHOLE.fullmatch(step) is None:
                raise failed(name, path, f"value was not a proper array index: '{step}'")
            number = int(step)
            number += len(into) + 1 if number < 0 else 0
            if not 0 <= number <= len(into):
                raise failed(name, path, f"Unable to access invalid index: {step}: {BAD_INDEX}")
            into.insert(number, value)

    def remove(self, path: str, name: str = "remove") -> None:
        """Remove a value."""
        found = self.place(path)
        if found is None:
            raise refused(f'{name} operation does not apply: doc is missing path: "{path}": {MISSING}')
        within, step = found
        if isinstance(within, dict):
            if step not in within:
                raise failed(name, path, f"Unable to remove nonexistent key: {step}: {MISSING}")
            del within[step]
        else:
            number = index(within, step)
            if number is None:
                raise failed(name, path, f"Unable to access invalid index: {step}: {BAD_INDEX}")
            del within[number]

    def replace(self, path: str, value: Json) -> None:
        """Replace a value; in an object it need not exist."""
        if not path:
            if not isinstance(value, dict | list):
                raise refused("replace operation value must be object or array")
            self.root = value
            return
        found = self.place(path)
        if found is None:
            raise refused(f"replace operation does not apply: doc is missing path: {path}: {MISSING}")
        within, step = found
        if isinstance(within, dict):
            within[step] = value
            return
        number = index(within, step)
        if number is None:
            raise refused(f"replace operation does not apply: doc is missing key: {path}: {MISSING}")
        within[number] = value

    def value(self, path: str, name: str) -> Json:
        """The value at a path; null if the field is absent."""
        found = self.place(path)
        if found is None:
            raise refused(f"{name} operation does not apply: doc is missing from path: {path}: {MISSING}")
        within, step = found
        if isinstance(within, dict):
            return within.get(step)
        number = index(within, step)
        if number is None:
            raise failed(name, step, f"Unable to access invalid index: {step}: {BAD_INDEX}")
        return within[number]

    def move(self, operation: Tree) -> None:
        """Move a value."""
        source = pointer(operation, "from", "move")
        value = self.value(source, "move")
        self.remove(source, "move")
        self.add(pointer(operation, "path", "move"), value, "move")

    def copy(self, operation: Tree) -> None:
        """Copy a value."""
        value = msgspec.json.encode(self.value(pointer(operation, "from", "copy"), "copy"))
        self.copied += len(value)
        if self.copied > COPIED_MAX:
            size = f"the accumulated size increase of copy is {self.copied}, exceeding the limit {COPIED_MAX}"
            raise refused(f"Unable to copy, {size}")
        self.add(pointer(operation, "path", "copy"), msgspec.json.decode(value), "copy")

    def test(self, path: str, value: Json) -> None:
        """Raise an error unless this value is there."""
        if not path:
            there = self.root
        else:
            found = self.place(path)
            if found is None:
                raise refused(f"test operation does not apply: is missing path: {path}: {MISSING}")
            within, step = found
            if isinstance(within, dict):
                there = within.get(step)
            else:
                number = index(within, step)
                if number is None:
                    raise failed("test", path, f"Unable to access invalid index: {step}: {BAD_INDEX}")
                there = within[number]
        if not alike(there, value):
            raise refused(f"testing value {path} failed: {TEST_FAILED}")


Place = dict[str, Json] | list[Json]


def alike(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON, in time proportional to the smaller one."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(
            name in other and alike(inner, other[name]) for name, inner in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other


def pointer(operation: Tree, field: str, name: str) -> str:
    """The path of an operation."""
    found = operation.get(field)
    if not isinstance(found, str):
        missing = "operation missing path field" if field == "path" else "operation, missing from field"
        raise refused(f"{name} operation failed to decode {field}: {missing}: {MISSING}")
    return found


def plain(step: str) -> str:
    """A path segment with its escapes resolved."""
    return step.replace("~1", "/").replace("~0", "~") if "~" in step else step


def index(items: list[Json], step: str) -> int | None:
    """The index that a segment names, counted from the end if negative; `None` if there is none."""
    if WHOLE.fullmatch(step) is None:
        return None
    number = int(step)
    number += len(items) if number < 0 else 0
    return number if 0 <= number < len(items) else None
