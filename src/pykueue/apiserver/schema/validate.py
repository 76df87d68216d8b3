"""Validates a value against its schema: types, required fields, limits and duplicates, in kube-apiserver's words."""

import base64
import re
from collections.abc import Callable, Iterator
from datetime import date
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_interface
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.fields import (
    FieldError,
    body,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    wrong_type,
)
from pykueue.api.schema import is_moment
from pykueue.apiserver.schema.nodes import DEDUCED, EITHER, OBJECT_META, UNTYPED, SchemaNode

RANGES: Final[dict[str, int]] = {"int32": 2**31, "int64": 2**63}
INTEGER_MAX: Final = 2**53
"""The largest number with an exponent that counts as an integer, as in Kubernetes."""


def is_date(value: str) -> bool:
    """Whether a text is a calendar date."""
    try:
        return bool(DATE.fullmatch(value) and date.fromisoformat(value))
    except ValueError:
        return False


def is_base64(value: str) -> bool:
    """Whether a text is base64."""
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        return False
    return True


def is_address(value: str, read: Callable[[str], object]) -> bool:
    """Whether a text is an IP address of this version."""
    try:
        read(value)
    except ValueError:
        return False
    return True


DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
UUID: Final = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
DURATION: Final = re.compile(
    r"[+-]?(0|(\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h|d|w|[a-z]{2,12})\s*)+", re.IGNORECASE
)
EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")

FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date-time": is_moment,
    "date": is_date,
    "duration": lambda value: DURATION.fullmatch(value) is not None,
    "byte": is_base64,
    "uuid": lambda value: UUID.fullmatch(value) is not None,
    "ipv4": lambda value: is_address(value, IPv4Address),
    "ipv6": lambda value: is_address(value, IPv6Address),
    "cidr": lambda value: is_address(value, ip_interface),
    "email": lambda value: EMAIL.fullmatch(value) is not None,
}
"""The validated formats; others are only informative."""


def is_fine(node: SchemaNode, value: Json) -> bool:
    """Whether a value has no `mistakes` and no `duplicates`; a fast path, since nearly all values are valid."""
    if node is DEDUCED or node is UNTYPED:
        return True
    if isinstance(value, dict):
        return is_fine_object(node, value)
    if isinstance(value, list):
        if not fits_type(node, "array") or not all(is_fine(node.items, item) for item in value):
            return False
        if node.associative and any(list_duplicates(node, value, "")):
            return False
        return not node.rules or keeps_rules(node, value)
    if value is None:
        return node.nullable or not node.type
    if node.rules and (not isinstance(value, str) or len(value) <= REMEMBERED):
        return is_fine_scalar(node, value)
    return fits_type(node, type_of(value)) and (not node.rules or keeps_rules(node, value))


@lru_cache(maxsize=16384, typed=True)
def is_fine_scalar(node: SchemaNode, value: str | float | bool) -> bool:
    """Whether a scalar with limits is valid; cached, since the same values recur."""
    return fits_type(node, type_of(value)) and keeps_rules(node, value)


REMEMBERED: Final = 100
"""Longer texts are not cached."""


def is_fine_object(node: SchemaNode, value: Tree) -> bool:
    """Whether an object is valid."""
    if not fits_type(node, "object"):
        return False
    if node.definition == OBJECT_META:
        return True
    for name in node.required:
        if name not in value:
            return False
    known, element = node.fields, node.element
    for name, inner in value.items():
        below = known.get(name) or element
        if below is not None and not is_fine(below, inner):
            return False
    return not node.rules or keeps_rules(node, value)


def keeps_rules(node: SchemaNode, value: Json) -> bool:
    """Whether a value meets all limits beyond its type and its parts."""
    return not any(own_rules(node, value, ""))


def mistakes(node: SchemaNode, value: Json, path: str) -> Iterator[FieldError]:
    """Errors in a value and below it, in the server's order."""
    if value is None:
        if node.type and not node.nullable:
            yield wrong_type(path, wanted=node.type, found="null")
        return
    found = type_of(value)
    if not fits_type(node, found):
        yield wrong_type(path, wanted=wanted_type(node), found=found)
        if isinstance(value, float) and node.type == "integer":
            yield without_path(f"Checked value must be of type integer {form_text(node.raw)} in {path}")
        yield from enum_rules(node.raw, value, path)
    elif isinstance(value, list):
        # Errors of a list as a whole come after those of its items.
        yield from parts_mistakes(node, value, path)
        yield from own_rules(node, value, path)
    else:
        yield from own_rules(node, value, path)
        yield from parts_mistakes(node, value, path)


def own_rules(node: SchemaNode, value: Json, path: str) -> Iterator[FieldError]:
    """Errors for limits on the value itself."""
    if not node.rules:
        return
    yield from combined_rules(node, value, path)
    if isinstance(value, str):
        yield from text_rules(node.raw, value, path)
    elif isinstance(value, list):
        yield from list_rules(node.raw, value, path)
    elif isinstance(value, dict):
        yield from size_rules(node.raw, len(value), path, "Properties", "properties")
    elif value is not None and not isinstance(value, bool):
        yield from number_rules(node.raw, value, path)
    yield from enum_rules(node.raw, value, path)


def enum_rules(raw: Tree, value: Json, path: str) -> Iterator[FieldError]:
    """The error if a value is not in the enumeration."""
    enum = raw.get("enum")
    if isinstance(enum, list) and value not in enum:
        yield not_supported(path, value, (one if isinstance(one, str) else shown(one) for one in enum))


def parts_mistakes(node: SchemaNode, value: Json, path: str) -> Iterator[FieldError]:
    """Errors in the fields of an object or the items of a list."""
    if isinstance(value, dict):
        yield from object_mistakes(node, value, path)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from mistakes(node.items, item, f"{path}[{number}]")


def type_of(value: Json) -> str:
    """The OpenAPI name of a value's JSON type."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() and abs(value) <= INTEGER_MAX else "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "null"


def fits_type(node: SchemaNode, found: str) -> bool:
    """Whether a value of this type is allowed here."""
    if node.raw.get(EITHER) is True:
        return found in ("integer", "string")
    return not node.type or found == node.type or (node.type == "number" and found == "integer")


def wanted_type(node: SchemaNode) -> str:
    """The expected type, as a message names it."""
    return "integer,string" if node.raw.get(EITHER) is True else node.type


def object_mistakes(node: SchemaNode, value: Tree, path: str) -> Iterator[FieldError]:
    """Errors in the fields of an object; metadata is validated elsewhere."""
    if node.definition == OBJECT_META:
        return
    for name in sorted(value):
        known = node.fields.get(name) or node.element
        if known is not None:
            yield from mistakes(known, value[name], joined(path, name))
    for name in node.required:
        if name not in value:
            yield required(joined(path, name))


def joined(path: str, name: str) -> str:
    """The path of a field within an object."""
    return f"{path}.{name}" if path else name


def duplicates(node: SchemaNode, value: Json, path: str) -> Iterator[FieldError]:
    """Duplicate items in sets and lists with keys, which the server reports after all other errors."""
    if isinstance(value, dict):
        if node.definition == OBJECT_META:
            return
        for name in sorted(value):
            known = node.fields.get(name) or node.element
            if known is not None and isinstance(value[name], dict | list):
                yield from duplicates(known, value[name], joined(path, name))
    elif isinstance(value, list):
        if node.associative:
            yield from list_duplicates(node, value, path)
        for number, item in enumerate(value):
            if isinstance(item, dict | list):
                yield from duplicates(node.items, item, f"{path}[{number}]")


def list_duplicates(node: SchemaNode, value: list[Json], path: str) -> Iterator[FieldError]:
    """Duplicate items in this list, each reported once."""
    seen: dict[bytes, int] = {}
    for number, item in enumerate(value):
        identity = identity_of(node, item)
        text = msgspec.json.encode(identity, order="deterministic")
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield duplicate(f"{path}[{number}]", identity)


def identity_of(node: SchemaNode, item: Json) -> Json:
    """The part of an item that must be unique in its list."""
    if not node.keys or not isinstance(item, dict):
        return item
    given = {key: item.get(key, node.key_default(key)) for key in node.keys}
    return {key: value for key, value in given.items() if value is not None}


def shown(value: Json) -> str:
    """A value of an enumeration as a message names it."""
    return msgspec.json.encode(value).decode()


def limit(raw: Tree, name: str) -> float | None:
    """A numeric limit."""
    found = raw.get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def text_rules(raw: Tree, value: str, path: str) -> Iterator[FieldError]:
    """The first error for limits on a text."""
    least, most, pattern = limit(raw, "minLength"), limit(raw, "maxLength"), raw.get("pattern")
    if most is not None and len(value) > most:
        yield too_long(path, int(most))
    elif least is not None and len(value) < least:
        yield invalid(path, value, f"{body(path)} should be at least {int(least)} chars long")
    elif isinstance(pattern, str) and not matches(pattern, value):
        yield invalid(path, value, f"{body(path)} should match '{pattern}'")
    form = raw.get("format")
    if isinstance(form, str) and form in FORMATS and not FORMATS[form](value):
        yield FieldError(path, "TypeInvalid", value, f'{body(path)} must be of type {form}: "{value[:64]}"')


def list_rules(raw: Tree, value: list[Json], path: str) -> Iterator[FieldError]:
    """Errors for limits on a list as a whole."""
    yield from size_rules(raw, len(value), path, "Items", "items")
    if raw.get("uniqueItems") is True and len({msgspec.json.encode(one) for one in value}) < len(value):
        yield invalid(path, value, f"{body(path)} shouldn't contain duplicates")


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str] | None:
    """A pattern compiled as in Go (`$` matches only at the end); `None` if it is malformed."""
    ending = pattern.endswith("$") and not pattern.endswith("\\$")
    text = f"{pattern[:-1]}\\Z" if ending else pattern
    if (flag := text.find("(?i)")) > 0:
        text = "(?i)" + text[:flag] + text[flag + 4 :]
    try:
        return re.compile(text, re.ASCII)
    except re.error:
        return None


def matches(pattern: str, value: str) -> bool:
    """Whether the pattern matches in the text; a malformed one matches everything."""
    known = compiled(pattern)
    return known is None or known.search(value) is not None


def form_text(raw: Tree) -> str:
    """The format of a number, as a message names it."""
    return f"with format {raw['format']}" if raw.get("format") else "(default format)"


def size_rules(raw: Tree, size: int, path: str, limits: str, parts: str) -> Iterator[FieldError]:
    """Errors for limits on the number of items or properties."""
    least, most = limit(raw, f"min{limits}"), limit(raw, f"max{limits}")
    if most is not None and size > most:
        yield too_many(path, size, int(most))
    if least is not None and size < least:
        yield invalid(path, size, f"{body(path)} should have at least {int(least)} {parts}")


def number_rules(raw: Tree, value: float, path: str) -> Iterator[FieldError]:
    """Errors for limits on a number."""
    form = raw.get("format")
    if isinstance(form, str) and form in RANGES and not -RANGES[form] <= value < RANGES[form]:
        yield without_path(f"Checked value must be of type {raw.get('type')} {form_text(raw)} in {path}")
    least, most, factor = limit(raw, "minimum"), limit(raw, "maximum"), limit(raw, "multipleOf")
    if most is not None and (value > most or (value == most and raw.get("exclusiveMaximum") is True)):
        words = "should be less than" if raw.get("exclusiveMaximum") is True else "should be less than or equal to"
        yield invalid(path, value, f"{body(path)} {words} {plain(most)}")
    if least is not None and (value < least or (value == least and raw.get("exclusiveMinimum") is True)):
        exclusive = raw.get("exclusiveMinimum") is True
        words = "should be greater than" if exclusive else "should be greater than or equal to"
        yield invalid(path, value, f"{body(path)} {words} {plain(least)}")
    if factor and value % factor:
        yield invalid(path, value, f"{body(path)} should be a multiple of {plain(factor)}")


def plain(number: float) -> str:
    """A limit as a message names it."""
    return str(int(number)) if float(number).is_integer() else str(number)


def combined_rules(node: SchemaNode, value: Json, path: str) -> Iterator[FieldError]:
    """Errors for `allOf`, `anyOf`, `oneOf` and `not`, except those that only express int-or-string."""
    raw = node.raw
    if raw.get(EITHER) is True or node.definition:
        return
    every, some, one, none = raw.get("allOf"), raw.get("anyOf"), raw.get("oneOf"), raw.get("not")
    if isinstance(some, list) and some:
        tried = [list(judged(node, inner, value, path)) for inner in some]
        if all(tried):
            yield without_path(f'"{path}" must validate at least one schema (anyOf)')
            yield from tried[0]
    if isinstance(one, list) and one:
        tried = [list(judged(node, inner, value, path)) for inner in one]
        count = tried.count([])
        if count != 1:
            found = "Found none valid" if not count else f"Found {count} valid alternatives"
            yield without_path(f'"{path}" must validate one and only one schema (oneOf). {found}')
            yield from tried[0] if not count else ()
    if isinstance(every, list) and every:
        tried = [list(judged(node, inner, value, path)) for inner in every]
        for failed in tried:
            yield from failed
        if any(tried):
            yield without_path(
                f'"{path}" must validate all the schemas (allOf){". None validated" if all(tried) else ""}'
            )
    if isinstance(none, dict) and next(judged(node, none, value, path), None) is None:
        yield without_path(f'"{path}" must not validate the schema (not)')


def without_path(message: str) -> FieldError:
    """An error that the server reports without a path."""
    return invalid("<nil>", "", message)


def judged(node: SchemaNode, raw: Json, value: Json, path: str) -> Iterator[FieldError]:
    """Errors of a value by a nested schema."""
    if isinstance(raw, dict):
        yield from mistakes(SchemaNode(raw, node.definitions), value, path)
