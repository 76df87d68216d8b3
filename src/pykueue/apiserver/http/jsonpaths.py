"""Evaluates the subset of JSONPath that printer columns of CustomResourceDefinitions use."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

from pykueue.api.core import Json
from pykueue.base.struct import Frozen

STEP: Final = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)
    |\[\s*(?P<quote>['"])(?P<key>(?:(?!(?P=quote)).)*)(?P=quote)\s*\]
    |\[\s*(?P<index>-?\d+|\*)\s*\]
    |\[\?\(\s*@(?P<at>(?:\.(?:[^.\[\]\\=!<>\s]|\\.)+)+)\s*(?P<how>==|!=)\s*(?P<value>'[^']*'|"[^"]*"|[^\s)]+)\s*\)\s*\]""",
    re.VERBOSE,
)
PATH_MAX: Final = 1024
"""Longer paths are not evaluated."""


class Field(Frozen):
    """A step to the field of this name; `*` for all fields."""

    name: str


class Index(Frozen):
    """A step to an item of a list."""

    place: int


class Every(Frozen):
    """A step to all items of a list or values of an object."""


class Where(Frozen):
    """A step to the items whose value at a path equals, or differs from, a literal."""

    path: tuple[Field, ...]
    value: Json
    equal: bool


PathStep: TypeAlias = Field | Index | Every | Where


class PathError(ValueError):
    """A malformed JSONPath."""


@lru_cache(maxsize=1024)
def steps(path: str) -> tuple[PathStep, ...]:
    """The steps of a path such as `.status.conditions[?(@.type=="Ready")].status`."""
    text = path.strip()
    text = text.removeprefix("{").removesuffix("}").removeprefix("$") if len(text) <= PATH_MAX else ""
    if not text or text == ".":
        if text == ".":
            return ()
        raise PathError(f"{path[:80]!r} is no path; write one as in .status.phase")
    found: list[PathStep] = []
    place = 0
    while place < len(text):
        match = STEP.match(text, place)
        if match is None:
            raise PathError(f"{path[:80]!r} cannot be read from character {place + 1} on")
        found.append(step_of(match))
        place = match.end()
    return tuple(found)


def step_of(match: re.Match[str]) -> PathStep:
    """Parse one segment of a path."""
    if match["name"] is not None:
        return Every() if match["name"] == "*" else Field(plain(match["name"]))
    if match["key"] is not None:
        return Field(match["key"])
    if match["index"] is not None:
        return Every() if match["index"] == "*" else Index(int(match["index"]))
    names = (plain(name) for name in re.findall(r"\.((?:[^.\\]|\\.)+)", match["at"]))
    return Where(tuple(Field(name) for name in names), literal(match["value"]), match["how"] == "==")


def plain(name: str) -> str:
    """A name with its escaped dots unescaped."""
    return re.sub(r"\\(.)", r"\1", name)


def literal(text: str) -> Json:
    """Parse the literal of a filter."""
    if text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def found(tree: Json, path: str) -> list[Json]:
    """The values at a path; empty if there are none or the path is malformed."""
    try:
        wanted = steps(path)
    except PathError:
        return []
    values = [tree]
    for step in wanted:
        values = [inner for value in values for inner in taken(value, step)]
    return values


def taken(value: Json, step: PathStep) -> Iterator[Json]:
    """The values that one step leads to."""
    match step:
        case Field(name):
            if isinstance(value, dict) and name in value:
                yield value[name]
        case Index(place):
            if isinstance(value, list) and -len(value) <= place < len(value):
                yield value[place]
        case Every():
            yield from value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
        case Where(path, wanted, equal):
            for item in value if isinstance(value, list) else ():
                inner: list[Json] = [item]
                for field in path:
                    inner = [one for held in inner for one in taken(held, field)]
                if inner and (inner[0] == wanted) == equal:
                    yield item
