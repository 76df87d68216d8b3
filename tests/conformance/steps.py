"""What is asked of both servers? Chapters of calls, as data: `chapters/*.yaml`, one call after the other.

| key | meaning |
| --- | --- |
| `what` | the call in words; its name in reports |
| `ask` | verb and target; `WATCH` is a GET with `watch=1` |
| `body`, `text` | what is sent: a tree as JSON, or these very words |
| `fill` | a body in which `@` is replaced by `of` (or `x`), so many `times` |
| `type`, `accept`, `token` | headers: of the content, of the answer, and who asks (an administrator) |
| `keep` | variables from the answer, by their path: `${name}` in later calls |
| `events` | how many events of a watch are read |
| `until` | ask again until a value `is` in the answer; only the last answer counts |
| `patient` | ask again while the server says that it does not know the kind yet |

`${ns}` is the chapter's own namespace, which is there from the start.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from pykueue.base.struct import Frozen

HERE = Path(__file__).resolve().parent
CHAPTERS = HERE / "chapters"
VARIABLE = re.compile(r"\$\{(\w+)\}")
KEYS = frozenset(
    {"what", "ask", "body", "text", "fill", "type", "accept", "token", "keep", "events", "until", "patient"}
)


class Until(Frozen):
    """What is waited for in an answer."""

    path: str
    value: object


class Step(Frozen):
    """A call, with variables in it."""

    what: str
    verb: str
    target: str
    body: str = ""
    type: str = "application/json"
    accept: str = "application/json"
    token: str | None = None
    keep: Mapping[str, str] = {}
    events: int = 0
    until: Until | None = None
    patient: bool = False


class Chapter(Frozen):
    """Calls that follow one another in a namespace of their own."""

    name: str
    steps: tuple[Step, ...]

    @property
    def namespace(self) -> str:
        return f"conformance-{self.name}"


def chapters() -> Iterator[Chapter]:
    """All of them, in the order of their names."""
    for file in sorted(CHAPTERS.glob("*.yaml")):
        trees = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        yield Chapter(file.stem, tuple(step(tree) for tree in trees))


def step(tree: Mapping[str, Any]) -> Step:
    """A call as its chapter writes it."""
    unknown = tree.keys() - KEYS
    if unknown:
        raise ValueError(f"{tree['what']}: {sorted(unknown)} means nothing")
    verb, target = tree["ask"].split(" ", 1)
    until = tree.get("until")
    return Step(
        tree["what"],
        verb,
        target,
        body_of(tree),
        tree.get("type", "application/json"),
        tree.get("accept", "application/json"),
        tree.get("token"),
        tree.get("keep", {}),
        tree.get("events", 0),
        Until(until["path"], until["is"]) if until else None,
        tree.get("patient", False),
    )


def body_of(tree: Mapping[str, Any]) -> str:
    """What a call sends."""
    if "fill" in tree:
        fill = tree["fill"]
        text = fill["text"] if "text" in fill else json.dumps(fill["body"])
        return str(text.replace("@", fill.get("of", "x") * fill["times"]))
    return str(tree["text"]) if "text" in tree else json.dumps(tree["body"]) if "body" in tree else ""


def filled(text: str, known: Mapping[str, str]) -> str:
    """A text with the values of its variables."""
    return VARIABLE.sub(lambda found: known[found[1]], text)


def found(tree: object, path: str) -> list[object]:
    """The values at a path, in which `*` stands for every element of a list."""
    here = [tree]
    for part in path.split("."):
        nearer: list[object] = []
        for one in here:
            if isinstance(one, list):
                nearer += one if part == "*" else one[int(part) : int(part) + 1]
            elif isinstance(one, dict) and part in one:
                nearer.append(one[part])
        here = nearer
    return here
