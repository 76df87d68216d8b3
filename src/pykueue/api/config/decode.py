"""Strict decoding of a tree into a struct, which continues after a mistake in order to list them all."""

from collections.abc import Iterable
from functools import cache
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, inspect

from pykueue.api.core import Json
from pykueue.api.durations import EXAMPLE, DurationError, Micros, parse_duration
from pykueue.api.fields import FieldError, invalid, nearest, not_supported, required
from pykueue.api.yamltext import (
    KEY_MAX,
    Misread,
    below,
)
from pykueue.base.text import printable
from pykueue.base.units import Quantity, QuantityError, parse_quantity

Mistake: TypeAlias = FieldError | Misread
T = TypeVar("T", bound=msgspec.Struct)

SUGGESTIONS_MAX: Final = 50
"""After this many mistakes no nearest name is suggested: the file is of another kind, and the search is slow."""


def decode(tree: Json, struct: type[T], mistakes: list[Mistake], *, also: Iterable[str] = ()) -> T:
    """Decode a tree into a struct; missing or wrong fields get their defaults.

    `also` names further keys to suggest for a mistyped one.
    """
    value = decoded_struct(tree, type_of(struct), "", mistakes, also=also)
    return value if isinstance(value, struct) else struct()


@cache
def type_of(struct: type[msgspec.Struct]) -> inspect.StructType:
    """The fields of a struct, with their types."""
    kind = inspect.type_info(struct)
    assert isinstance(kind, inspect.StructType), f"{struct} is no struct"
    return kind


def decoded(value: Json, kind: inspect.Type, path: str, mistakes: list[Mistake]) -> object:
    """The value decoded as this type; UNSET, with a mistake recorded, if it does not fit."""
    match kind:
        case inspect.Metadata():
            return decoded_annotated(value, kind, path, mistakes)
        case inspect.UnionType():
            present = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
            return decoded(value, present, path, mistakes)
        case inspect.StructType():
            if kind.cls is Quantity:
                return decoded_quantity(value, path, mistakes)
            return decoded_struct(value, kind, path, mistakes)
        case inspect.VarTupleType():
            return decoded_list(value, kind, path, mistakes)
        case inspect.DictType():
            return decoded_map(value, kind, path, mistakes)
        case _:
            return decoded_scalar(value, kind, path, mistakes)


def decoded_annotated(value: Json, kind: inspect.Metadata, path: str, mistakes: list[Mistake]) -> object:
    """Decode a value whose annotation names its format, or says that an empty one means the default."""
    note = kind.extra or {}
    match note.get("reads"):
        case "duration":
            found = decoded_duration(value, path, mistakes)
        case "nanoseconds":
            number = decoded(value, inspect.IntType(ge=-(2**63), le=2**63 - 1), path, mistakes)
            found = Micros(-(-number // 1_000)) if isinstance(number, int) else UNSET
        case _:
            found = decoded(value, kind.type, path, mistakes)
    return UNSET if note.get("blank") == "default" and not found else found


def decoded_struct(
    value: Json, kind: inspect.StructType, path: str, mistakes: list[Mistake], *, also: Iterable[str] = ()
) -> object:
    """Decode a struct from a mapping; a null entry counts as absent."""
    if not isinstance(value, dict):
        return wrong(value, path, "a mapping", mistakes)
    fields = {field.encode_name: field for field in kind.fields}
    for key in value:
        if key not in fields:
            mistakes.append(Misread(below(path, key), unknown_field(key, (*fields, *also), len(mistakes))))
    found: dict[str, object] = {}
    for name, field in fields.items():
        entry = value.get(name)
        if entry is None:
            if field.required:
                mistakes.append(required(below(path, name)))
            continue
        result = decoded(entry, field.type, below(path, name), mistakes)
        if result is not UNSET:
            found[field.name] = result
    missing = any(field.required and field.name not in found for field in kind.fields)
    return UNSET if missing else kind.cls(**found)


def decoded_list(value: Json, kind: inspect.VarTupleType, path: str, mistakes: list[Mistake]) -> object:
    """The well-formed items, in order."""
    if not isinstance(value, list):
        return wrong(value, path, "a list", mistakes)
    items = [decoded(item, kind.item_type, f"{path}[{index}]", mistakes) for index, item in enumerate(value)]
    return tuple(item for item in items if item is not UNSET)


def decoded_map(value: Json, kind: inspect.DictType, path: str, mistakes: list[Mistake]) -> object:
    """The well-formed entries; keys are not checked, since users choose them."""
    if not isinstance(value, dict):
        return wrong(value, path, "a mapping", mistakes)
    found: dict[str, object] = {}
    for key, entry in value.items():
        place = f"{path}[{printable(key[:KEY_MAX])}]"
        if not encodable(key):
            mistakes.append(Misread(place, "the key is not valid Unicode; write it without surrogate escapes"))
            continue
        result = decoded(entry, kind.value_type, place, mistakes)
        if result is not UNSET:
            found[key] = result
    return found


def decoded_duration(value: Json, path: str, mistakes: list[Mistake]) -> object:
    """Decode the text of a duration."""
    if not isinstance(value, str):
        return wrong(value, path, f"a duration in quotes or with a unit; {EXAMPLE}", mistakes)
    try:
        return parse_duration(value)
    except DurationError as error:
        mistakes.append(invalid(path, brief(value), printable(str(error))))
        return UNSET


def decoded_quantity(value: Json, path: str, mistakes: list[Mistake]) -> object:
    """Decode a quantity from a text or a bare number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return wrong(value, path, "a quantity, as in 500m, 2 or 1.5Gi", mistakes)
    try:
        return parse_quantity(str(value))
    except QuantityError as error:
        mistakes.append(invalid(path, brief(value), printable(str(error))))
        return UNSET


def decoded_scalar(value: Json, kind: inspect.Type, path: str, mistakes: list[Mistake]) -> object:
    """Decode a text, a number, a boolean, or one of a set of words."""
    match kind:
        case inspect.StrType() if isinstance(value, str):
            return value if encodable(value) else wrong(value, path, "valid Unicode, without surrogates", mistakes)
        case inspect.StrType():
            quoted = isinstance(value, bool | int | float)
            return wrong(value, path, "text; put it in quotes" if quoted else "text", mistakes)
        case inspect.BoolType():
            return value if isinstance(value, bool) else wrong(value, path, "true or false", mistakes)
        case inspect.LiteralType():
            if isinstance(value, str) and value in kind.values:
                return value
            mistakes.append(not_supported(path, brief(value), map(str, kind.values)))
            return UNSET
        case inspect.IntType():
            if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
                return wrong(value, path, "a whole number", mistakes)
            return in_range(int(value), kind, path, mistakes)
        case inspect.FloatType():
            if isinstance(value, bool) or not isinstance(value, int | float):
                return wrong(value, path, "a number", mistakes)
            return in_range(float(value), kind, path, mistakes)
        case _:
            raise AssertionError(f"{path}: no way to read a {type(kind).__name__}; add one here")


def in_range(number: float, kind: inspect.IntType | inspect.FloatType, path: str, mistakes: list[Mistake]) -> object:
    """The number, if its type can hold it."""
    low, high = kind.ge, kind.le
    if (low is not None and number < low) or (high is not None and number > high):
        mistakes.append(invalid(path, number, f"must be between {low} and {high}"))
        return UNSET
    return number


def wrong(value: Json, path: str, wanted: str, mistakes: list[Mistake]) -> object:
    """Record a mistake of type, and return UNSET."""
    mistakes.append(FieldError(path, "TypeInvalid", brief(value), f"must be {wanted}"))
    return UNSET


def brief(value: Json) -> str | int | float | bool:
    """The value, shortened for a message."""
    if isinstance(value, str):
        return printable(value if len(value) <= KEY_MAX else f"{value[:KEY_MAX]}...")
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "null" if value is None else value


def encodable(text: str) -> bool:
    """Whether the text can be written as UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def unknown_field(key: str, known: Iterable[str], mistakes_so_far: int) -> str:
    """The mistake of an unknown key, with the nearest known one."""
    names = sorted(set(known))
    if mistakes_so_far < SUGGESTIONS_MAX and len(key) <= KEY_MAX:
        if near := nearest(key, names):
            return f"unknown field; did you mean {near}?"
        return f"unknown field; here are known: {', '.join(names)}"
    return "unknown field"
