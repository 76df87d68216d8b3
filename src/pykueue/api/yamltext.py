"""What does this text say? YAML or JSON as a plain tree, read strictly: one document, no key twice, no surprises.

The text is read as a stream of events, never as a graph of objects: depth and size are bounded while it is read, and
a mistake knows its path and line. Values become what JSON has; a date or `1:30` stays the text that it is.
"""

import json
import re
from typing import Final, NoReturn

import yaml

from pykueue.api.core import Json
from pykueue.base.struct import Frozen

TEXT_MAX: Final = 256 * 1024
NODES_MAX: Final = 20_000
DEPTH_MAX: Final = 64
KEY_MAX: Final = 80
"""Characters of a key that a path shows."""
NUMBER_MAX: Final = 40
"""Digits that a number may have; a longer one stays a text, and whoever wants a number refuses it."""

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
TRUES: Final = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
FALSES: Final = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
BASED: Final = re.compile(r"[-+]?0(?:x[0-9a-fA-F]+|o?[0-7]+|b[01]+)")
FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
CORE_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "bool", "float", "null", "map", "seq")
)
TEXT_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})
MERGE: Final = "<<"


class Misread(Frozen):
    """One mistake in the text itself: where, and what to do about it."""

    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}" if self.path else self.detail


class Tree(Frozen):
    """What a text says, as far as it could be read, and the mistakes in it."""

    value: Json
    mistakes: tuple[Misread, ...] = ()


class Unreadable(Exception):
    """Reading cannot go on; the mistake says why."""

    def __init__(self, mistake: Misread) -> None:
        super().__init__(str(mistake))
        self.mistake = mistake


class Pairs(list[tuple[str, object]]):
    """A JSON object with its keys as written, so that one that stands twice is seen."""


class Frame:
    """A sequence or mapping that is being read."""

    def __init__(self, path: str, anchor: str | None, *, mapping: bool, seen: int) -> None:
        self.path = path
        self.anchor = anchor
        self.mapping = mapping
        self.seen = seen
        self.items: list[Json] = []
        self.entries: dict[str, Json] = {}
        self.lines: dict[str, int] = {}
        self.merged: dict[str, Json] = {}
        self.key: str | None = None

    def place(self) -> str:
        """The path of the value that is read next."""
        if self.mapping:
            return below(self.path, self.key or "")
        return f"{self.path}[{len(self.items)}]"

    def tree(self) -> Json:
        """What has been read; a merged key gives way to one that is written out."""
        return {**self.merged, **self.entries} if self.mapping else self.items


class Builder:
    """Makes a tree of the events of a YAML text."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.anchors: dict[str, tuple[Json, int]] = {}
        self.mistakes: list[Misread] = []
        self.root: Json = None
        self.nodes = 0
        self.documents = 0

    def take(self, event: yaml.Event) -> None:
        """Read one event more."""
        line = event.start_mark.line + 1 if event.start_mark else 0
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    stop("", f"line {line}: a second document begins here; keep one document in the file")
            case yaml.AliasEvent():
                self.count(1, line)
                self.alias(str(event.anchor), line)
            case yaml.ScalarEvent():
                self.count(1, line)
                self.scalar(event, line)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self.count(1, line)
                self.open(event, line)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                frame = self.frames.pop()
                value = frame.tree()
                if frame.anchor is not None:
                    self.anchors[frame.anchor] = (value, self.nodes - frame.seen + 1)
                self.put(value, line)

    def count(self, nodes: int, line: int) -> None:
        """Count what an alias stands for each time it is used, or a few lines would stand for millions."""
        self.nodes += nodes
        if self.nodes > NODES_MAX:
            stop(self.place(), f"line {line}: more than {NODES_MAX} values; a configuration needs far fewer")

    def place(self) -> str:
        """The path of the value that is read next."""
        return self.frames[-1].place() if self.frames else ""

    def awaits_key(self) -> bool:
        """Whether the next value is the key of a mapping."""
        return bool(self.frames) and self.frames[-1].mapping and self.frames[-1].key is None

    def open(self, event: yaml.CollectionStartEvent, line: int) -> None:
        """Begin a sequence or mapping."""
        if self.awaits_key():
            stop(self.frames[-1].path, f"line {line}: a key must be plain text, not a list or a mapping")
        if len(self.frames) >= DEPTH_MAX:
            stop(self.place(), f"line {line}: nested deeper than {DEPTH_MAX} levels")
        self.check_tag(event.tag, line)
        mapping = isinstance(event, yaml.MappingStartEvent)
        self.frames.append(Frame(self.place(), event.anchor, mapping=mapping, seen=self.nodes))

    def alias(self, anchor: str, line: int) -> None:
        """Put what the anchor stands for."""
        if anchor not in self.anchors:
            stop(self.place(), f"line {line}: *{anchor[:KEY_MAX]} stands for nothing that is complete by then")
        value, nodes = self.anchors[anchor]
        self.count(nodes, line)
        if not self.awaits_key():
            self.put(value, line)
        elif isinstance(value, str):
            self.put_key(value, line)
        else:
            stop(self.frames[-1].path, f"line {line}: a key must be plain text")

    def scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        """Put a text, number, truth value or null, or take it as the key of what follows."""
        self.check_tag(event.tag, line)
        if self.awaits_key():
            self.put_key(event.value, line, merges=event.style is None and event.value == MERGE)
            value: Json = event.value
        else:
            plain = event.tag not in TEXT_TAGS and (event.implicit[0] or event.tag in CORE_TAGS)
            value = plain_value(event.value) if plain else str(event.value)
            self.put(value, line)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, 1)

    def check_tag(self, tag: str | None, line: int) -> None:
        """Note a tag that asks for more than plain values."""
        if tag is not None and tag not in CORE_TAGS and tag != "!":
            self.mistakes.append(
                Misread(self.place(), f"line {line}: tag {tag[:KEY_MAX]} is not understood; remove it")
            )

    def put_key(self, key: str, line: int, *, merges: bool = False) -> None:
        """Take the key of the entry that follows."""
        frame = self.frames[-1]
        frame.key = key
        if merges:
            return
        if key in frame.lines:
            first = frame.lines[key]
            self.mistakes.append(Misread(frame.place(), f"duplicate key on line {line}; it is on line {first} already"))
        frame.lines.setdefault(key, line)

    def put(self, value: Json, line: int) -> None:
        """Put a complete value where it belongs."""
        if not self.frames:
            self.root = value
            return
        frame = self.frames[-1]
        if not frame.mapping:
            frame.items.append(value)
            return
        key = frame.key or ""
        if key == MERGE and MERGE not in frame.lines:
            self.merge(frame, value, line)
        else:
            frame.entries.setdefault(key, value)
        frame.key = None

    def merge(self, frame: Frame, value: Json, line: int) -> None:
        """Add the entries of the mappings that `<<` names; the first to have a key wins."""
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                stop(frame.place(), f"line {line}: << takes a mapping, or a list of mappings")
            for key, entry in source.items():
                frame.merged.setdefault(key, entry)


def stop(path: str, detail: str) -> NoReturn:
    """End the reading with this mistake."""
    raise Unreadable(Misread(path, detail))


def below(path: str, key: str) -> str:
    """The path of a key under a path; a key that is no plain word stands in brackets."""
    shown = key if len(key) <= KEY_MAX else f"{key[:KEY_MAX]}..."
    if not PLAIN_KEY.fullmatch(shown):
        return f"{path}[{printable(shown)}]"
    return f"{path}.{shown}" if path else shown


def printable(text: str) -> str:
    """The text with everything escaped that a terminal could stumble over."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain_value(text: str) -> Json:
    """What an unquoted YAML word means in JSON."""
    if text in NULLS:
        return None
    if text in TRUES or text in FALSES:
        return text in TRUES
    if len(text) > NUMBER_MAX:
        return text
    if DECIMAL.fullmatch(text):
        return int(text)
    if BASED.fullmatch(text):
        digits = text if re.search("[xob]", text) else text.replace("0", "0o", 1)
        return int(digits, 0)
    number = float(text) if FLOAT.fullmatch(text) else None
    return number if number is not None and abs(number) != float("inf") else text


def read_tree(text: str | bytes) -> Tree:
    """The tree that the text holds, or the mistakes that keep it from being one."""
    if len(text) > TEXT_MAX:
        return Tree(None, (Misread("", f"the text is longer than {TEXT_MAX // 1024} KiB; is it the right file?"),))
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            return Tree(None, (Misread("", f"byte {error.start} is not UTF-8; is it the right file?"),))
    text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    # JSON is nearly YAML, but for tabs and for pairs of escapes that make one character.
    read = json_tree(text) if text.lstrip().startswith("{") else None
    return read if read is not None else yaml_tree(text)


def json_tree(text: str) -> Tree | None:
    """The tree of a JSON text; nothing where the text is not JSON."""
    mistakes: list[Misread] = []
    try:
        loaded = json.loads(text, object_pairs_hook=Pairs, parse_constant=refuse_constant)
        return Tree(from_json(loaded, "", 0, mistakes), tuple(mistakes))
    except (ValueError, RecursionError):
        # The YAML reader says what is wrong, and where.
        return None
    except Unreadable as error:
        return Tree(None, (*mistakes, error.mistake))


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(name)


def from_json(value: object, path: str, depth: int, mistakes: list[Misread]) -> Json:
    """The tree of a loaded JSON value, with a mistake for each key that stands twice."""
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


def yaml_tree(text: str) -> Tree:
    """The tree of a YAML text."""
    builder = Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            builder.take(event)
    except Unreadable as error:
        return Tree(None, (*builder.mistakes, error.mistake))
    except yaml.MarkedYAMLError as error:
        return Tree(None, (*builder.mistakes, Misread("", marked(error))))
    except yaml.YAMLError as error:
        detail = printable(" ".join(str(error).split()))
        return Tree(None, (*builder.mistakes, Misread("", f"not YAML: {detail}"[:400])))
    except (ValueError, OverflowError, IndexError):
        # PyYAML converts escapes and version numbers unchecked.
        return Tree(None, (*builder.mistakes, Misread("", "not YAML: a character escape or directive is out of range")))
    return Tree(builder.root, tuple(builder.mistakes))


def marked(error: yaml.MarkedYAMLError) -> str:
    """Where the YAML is broken, and why."""
    where = (
        f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: " if error.problem_mark else ""
    )
    return f"{where}not YAML: {printable(str(error.problem or error.context or 'unreadable'))[:200]}"
