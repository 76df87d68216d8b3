"""Reads JSON text, or text that is JSON or YAML, into plain trees of JSON values."""

import json
from typing import NoReturn

from pykueue.api.core import Json
from pykueue.api.yamlscalars import NUMBER_MAX
from pykueue.api.yamltext import DEPTH_MAX, TEXT_MAX, Misread, Tree, Unreadable, below, stop, yaml_tree


class Pairs(list[tuple[str, object]]):
    """A JSON object as a list of pairs, so that duplicate keys are visible."""


class Unusual(Exception):
    """JSON has a duplicate key, or a number that is not taken as it is."""


def read_tree(text: str | bytes) -> Tree:
    """The tree of a text, or the mistakes in it."""
    if len(text) > TEXT_MAX:
        return Tree(None, (Misread("", f"the text is longer than {TEXT_MAX // 1024} KiB; is it the right file?"),))
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            return Tree(None, (Misread("", f"byte {error.start} is not UTF-8; is it the right file?"),))
    text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    # JSON is nearly a subset of YAML, except for tabs and for pairs of escapes that form one character.
    read = json_tree(text) if text.lstrip().startswith("{") else None
    return read if read is not None else yaml_tree(text)


def json_tree(text: str) -> Tree | None:
    """The tree of a JSON text; None if the text is not JSON."""
    try:
        try:
            found = plain_json(text)
        except Unusual:
            return unusual_json(text)
        # The walk finds the path of what is nested too deep.
        return unusual_json(text) if has_depth(found, DEPTH_MAX) else Tree(found)
    except (ValueError, RecursionError):
        # The YAML reader reports what is wrong, and where.
        return None


def plain_json(text: str) -> Json:
    """The value of a JSON text that `from_json` would not change; raises `Unusual` for another."""
    found: Json = json.loads(
        text,
        object_pairs_hook=unrepeated,
        parse_int=short_integer,
        parse_float=finite,
        parse_constant=refuse_constant,
    )
    return found


def unrepeated(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """A JSON object without duplicate keys."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise Unusual
    return entries


def short_integer(text: str) -> int:
    """An integer with so few digits that it stays one."""
    if len(text) > NUMBER_MAX:
        raise Unusual
    return int(text)


def finite(text: str) -> float:
    """A number that a float can express."""
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise Unusual
    return number


def has_depth(value: Json, depth: int) -> bool:
    """Whether lists and objects are nested at least this deep."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(depth):
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for values in inner for one in values if isinstance(one, dict | list)]
    return bool(level)


def unusual_json(text: str) -> Tree:
    """The tree of a JSON text, with the mistakes that only a walk through all of it finds."""
    mistakes: list[Misread] = []
    try:
        loaded = json.loads(text, object_pairs_hook=Pairs, parse_constant=refuse_constant)
        return Tree(from_json(loaded, "", 0, mistakes), tuple(mistakes))
    except Unreadable as error:
        return Tree(None, (*mistakes, error.mistake))


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(name)


def from_json(value: object, path: str, depth: int, mistakes: list[Misread]) -> Json:
    """The tree of a loaded JSON value, with a mistake for each duplicate key."""
    if depth > DEPTH_MAX:
        stop(path, f"nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, Pairs):
        entries: dict[str, Json] = {}
        for key, entry in value:
            place = below(path, key)
            if key in entries:
                mistakes.append(Misread(place, "duplicate key; keep one"))
            entries.setdefault(key, from_json(entry, place, depth + 1, mistakes))
        return entries
    if isinstance(value, list):
        return [from_json(item, f"{path}[{index}]", depth + 1, mistakes) for index, item in enumerate(value)]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    if isinstance(value, int) and len(f"{value:x}") > NUMBER_MAX:
        return f"{value:#x}"[:NUMBER_MAX]
    return value if isinstance(value, str | int | float | bool) else None
