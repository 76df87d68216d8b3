"""Reads YAML text into plain trees of JSON values, with bounds on size, depth and aliases.

Every YAML text that the product reads goes through `Builder`, which takes libyaml's parser events one by one. So it
counts depth, nodes and expanded aliases as they come, and knows the path and line of a mistake. No graph of nodes is
composed: libyaml's composer calls itself for each level of nesting and overflows the stack.

Scalars have the meaning that `sigs.k8s.io/yaml` gives them, so that a file means the same here and to kubectl: `yes`
and `off` are booleans, and a date or `1:30` stays a text. Only a bare `y` or `n` stays a text too, since PyYAML writes
it so.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import yaml

from pykueue.api.core import Json
from pykueue.api.yamlscalars import key_text, plain_value
from pykueue.base.struct import Frozen
from pykueue.base.text import printable

TEXT_MAX: Final = 256 * 1024
NODES_MAX: Final = 20_000
DEPTH_MAX: Final = 64
KEY_MAX: Final = 80
"""Paths show at most this many characters of a key."""
MISTAKES_MAX: Final = 100
"""At most this many mistakes are collected in one document."""
DIRECTIVES_MAX: Final = 50
"""The most directives of a document; libyaml compares each with all before it in one uninterruptible call."""

PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
CORE_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "bool", "float", "null", "map", "seq")
)
TEXT_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})
MERGE: Final = "<<"
DIRECTIVE: Final = re.compile(r"^%(?:TAG|YAML)\b", re.MULTILINE)
PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Limits(Frozen):
    """How much one document may hold."""

    depth: int
    nodes: int
    """The most nodes, including those that aliases add."""
    aliased: int
    """The most nodes that aliases add."""
    letters: int
    """The most characters of scalars that aliases add."""
    advice: str
    """What to do about too many nodes."""
    strict: bool = True
    """Whether duplicate keys and tags that JSON cannot express are mistakes.

    Otherwise the last key counts, and a tagged scalar is a text.
    """


CONFIGURATION: Final = Limits(
    DEPTH_MAX, NODES_MAX, NODES_MAX, TEXT_MAX, f"more than {NODES_MAX} values; a configuration needs far fewer"
)
FILE: Final = Limits(DEPTH_MAX, 500_000, 100_000, 16 * TEXT_MAX, "more than 500000 values; split it", strict=False)
"""For a user's file that other programs read too, such as a kubeconfig."""
BODY: Final = Limits(1000, 2_000_000, 400_000, 12 * TEXT_MAX, "document contains too many values", strict=False)
"""For a request body of at most 3 MiB: any number of nodes that fit, and as many aliases as kube-apiserver allows."""


class Misread(Frozen):
    """One mistake in the text: where, and what to do."""

    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}" if self.path else self.detail


class Tree(Frozen):
    """The tree of a text, as far as it could be read, and the mistakes in it."""

    value: Json
    mistakes: tuple[Misread, ...] = ()


class Unreadable(Exception):
    """Reading cannot continue; the mistake says why."""

    def __init__(self, mistake: Misread) -> None:
        super().__init__(str(mistake))
        self.mistake = mistake


class Frame:
    """A sequence or mapping that is being read."""

    __slots__ = (
        "anchor",
        "entries",
        "items",
        "key",
        "letters",
        "lines",
        "mapping",
        "merged",
        "merges",
        "parent",
        "seen",
    )

    def __init__(self, parent: "Frame | None", anchor: str | None, *, mapping: bool, seen: int, letters: int) -> None:
        self.parent = parent
        self.anchor = anchor
        self.mapping = mapping
        self.seen = seen
        self.letters = letters
        self.items: list[Json] = []
        self.entries: dict[str, Json] = {}
        self.lines: dict[str, int] | None = None
        """The lines of keys, if duplicates are mistakes."""
        self.merged: dict[str, Json] | None = None
        self.merges = False
        """Whether the next value is merged into it."""
        self.key: str | None = None

    def path(self) -> str:
        """Its path; built only for messages, since it can be long and nodes are many."""
        frames: list[Frame] = []
        frame = self.parent
        while frame is not None:
            frames.append(frame)
            frame = frame.parent
        path = ""
        for one in reversed(frames):
            path = one.step(path)
        return path

    def place(self) -> str:
        """The path of the next value."""
        return self.step(self.path())

    def step(self, path: str) -> str:
        """The path of the next value below a path."""
        return below(path, self.key or "") if self.mapping else f"{path}[{len(self.items)}]"

    def tree(self) -> Json:
        """The value read so far; a merged key gives way to an explicit one."""
        if not self.mapping:
            return self.items
        return {**self.merged, **self.entries} if self.merged else self.entries


class Builder:
    """Builds a tree from the events of one YAML document."""

    def __init__(self, limits: Limits = CONFIGURATION) -> None:
        self.limits = limits
        self.frames: list[Frame] = []
        self.anchors: dict[str, tuple[Json, int, int]] = {}
        """By name: the value, its nodes and its characters."""
        self.mistakes: list[Misread] = []
        self.root: Json = None
        self.nodes = 0
        self.aliased = 0
        self.letters = 0
        self.lent = 0
        """Characters that aliases added."""
        self.documents = 0

    def take(self, event: yaml.Event) -> None:
        """Read one event; raises `Unreadable` if reading cannot continue."""
        read = READERS.get(type(event))
        if read is not None:
            read(self, event)

    def start(self, event: yaml.DocumentStartEvent) -> None:
        """Begin the document."""
        self.documents += 1
        if self.documents > 1:
            stop("", f"line {line_of(event)}: a second document begins here; keep one document in the file")

    def count(self, nodes: int, event: yaml.Event) -> None:
        """Count nodes, expanding aliases: a few lines could stand for millions."""
        self.nodes += nodes
        if self.nodes > self.limits.nodes:
            stop(self.place(), f"line {line_of(event)}: {self.limits.advice}")

    def is_excessive(self) -> bool:
        """Whether the document was too large or too deep, so that reading on is useless."""
        return self.nodes > self.limits.nodes or len(self.frames) >= self.limits.depth

    def place(self) -> str:
        """The path of the next value."""
        return self.frames[-1].place() if self.frames else ""

    def awaits_key(self) -> bool:
        """Whether the next value is the key of a mapping."""
        return bool(self.frames) and self.frames[-1].mapping and self.frames[-1].key is None

    def open(self, event: yaml.CollectionStartEvent) -> None:
        """Begin a sequence or mapping."""
        self.count(1, event)
        if self.awaits_key():
            stop(self.frames[-1].path(), f"line {line_of(event)}: a key must be plain text, not a list or a mapping")
        if len(self.frames) >= self.limits.depth:
            stop(self.place(), f"line {line_of(event)}: nested deeper than {self.limits.depth} levels")
        if event.tag is not None:
            self.check_tag(event.tag, event)
        mapping = isinstance(event, yaml.MappingStartEvent)
        parent = self.frames[-1] if self.frames else None
        self.frames.append(Frame(parent, event.anchor, mapping=mapping, seen=self.nodes, letters=self.letters))

    def close(self, event: yaml.Event) -> None:
        """End a sequence or mapping."""
        frame = self.frames.pop()
        value = frame.tree()
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (value, self.nodes - frame.seen + 1, self.letters - frame.letters)
        self.put(value, event)

    def alias(self, event: yaml.AliasEvent) -> None:
        """Add the value of an anchor."""
        anchor, line = str(event.anchor), line_of(event)
        if anchor not in self.anchors:
            stop(self.place(), f"line {line}: *{anchor[:KEY_MAX]} stands for nothing that is complete by then")
        value, nodes, letters = self.anchors[anchor]
        self.count(1 + nodes, event)
        self.aliased += nodes
        self.letters += letters
        self.lent += letters
        if self.aliased > self.limits.aliased or self.lent > self.limits.letters:
            stop(self.place(), f"line {line}: document contains excessive aliasing")
        if not self.awaits_key():
            self.put(value, event)
        elif isinstance(value, str):
            self.put_key(value, event)
        else:
            stop(self.frames[-1].path(), f"line {line}: a key must be plain text")

    def scalar(self, event: yaml.ScalarEvent) -> None:
        """Add a text, number, boolean or null, or take it as the next key."""
        self.count(1, event)
        text, tag = event.value, event.tag
        if tag is not None:
            self.check_tag(tag, event)
        self.letters += len(text)
        value: Json = text
        frame = self.frames[-1] if self.frames else None
        if frame is not None and frame.mapping and frame.key is None:
            value = key = key_text(text) if event.implicit[0] else text
            self.put_key(key, event, merges=text == MERGE and not event.style)
        else:
            if tag not in TEXT_TAGS and (event.implicit[0] or tag in CORE_TAGS):
                value = plain_value(text)
            if frame is not None and not frame.mapping:
                frame.items.append(value)
            else:
                self.put(value, event)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, 1, len(text))

    def check_tag(self, tag: str, event: yaml.Event) -> None:
        """Record a tag that JSON values cannot express."""
        if self.limits.strict and tag not in CORE_TAGS and tag != "!":
            self.note(self.place(), f"line {line_of(event)}: tag {tag[:KEY_MAX]} is not understood; remove it")

    def note(self, path: str, detail: str) -> None:
        """Record a mistake that does not stop reading."""
        if len(self.mistakes) < MISTAKES_MAX:
            self.mistakes.append(Misread(path, detail))

    def put_key(self, key: str, event: yaml.Event, *, merges: bool = False) -> None:
        """Take the key of the next entry."""
        frame = self.frames[-1]
        frame.key = key
        frame.merges = merges
        if merges or not self.limits.strict:
            return
        if frame.lines is None:
            frame.lines = {}
        line = line_of(event)
        if key in frame.lines:
            self.note(frame.place(), f"duplicate key on line {line}; it is on line {frame.lines[key]} already")
        frame.lines.setdefault(key, line)

    def put(self, value: Json, event: yaml.Event) -> None:
        """Add a complete value to its parent."""
        if not self.frames:
            self.root = value
            return
        frame = self.frames[-1]
        if not frame.mapping:
            frame.items.append(value)
            return
        key = frame.key or ""
        if frame.merges:
            self.merge(frame, value, event)
        elif self.limits.strict:
            frame.entries.setdefault(key, value)
        else:
            frame.entries[key] = value
        frame.key = None

    def merge(self, frame: Frame, value: Json, event: yaml.Event) -> None:
        """Add the entries of the mappings that `<<` names; the first occurrence of a key wins."""
        merged = frame.merged = frame.merged or {}
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                stop(frame.place(), f"line {line_of(event)}: << takes a mapping, or a list of mappings")
            for key, entry in source.items():
                merged.setdefault(key, entry)


READERS: Final[dict[type, Callable[[Builder, Any], None]]] = {
    yaml.ScalarEvent: Builder.scalar,
    yaml.SequenceStartEvent: Builder.open,
    yaml.MappingStartEvent: Builder.open,
    yaml.SequenceEndEvent: Builder.close,
    yaml.MappingEndEvent: Builder.close,
    yaml.AliasEvent: Builder.alias,
    yaml.DocumentStartEvent: Builder.start,
}
"""The handler of each kind of event.

A builder that held bound methods would refer to itself, and keep a tree of megabytes until the next full garbage
collection.
"""


def line_of(event: yaml.Event) -> int:
    """The line on which an event begins, from 1."""
    return event.start_mark.line + 1 if event.start_mark else 0


def stop(path: str, detail: str) -> NoReturn:
    """Stop reading with this mistake."""
    raise Unreadable(Misread(path, detail))


def below(path: str, key: str) -> str:
    """The path of a key under a path; a key that is not a plain word is in brackets."""
    shown = key if len(key) <= KEY_MAX else f"{key[:KEY_MAX]}..."
    if not PLAIN_KEY.fullmatch(shown):
        return f"{path}[{printable(shown)}]"
    return f"{path}.{shown}" if path else shown


def raw_events(text: str) -> Iterator[yaml.Event]:
    """The events of a YAML text; raises `yaml.YAMLError` or `ValueError` if it is malformed."""
    if len(DIRECTIVE.findall(text)) > DIRECTIVES_MAX:
        stop("", f"more than {DIRECTIVES_MAX} directives; remove the lines that begin with %")
    parser = PARSER(text)
    try:
        while not isinstance(event := parser.get_event(), yaml.StreamEndEvent):
            yield event
    finally:
        parser.dispose()


def events(text: str) -> Iterator[yaml.Event]:
    """The events of a YAML text; raises `Unreadable` with the location if it is malformed."""
    try:
        yield from raw_events(text)
    except yaml.MarkedYAMLError as error:
        stop("", marked(error))
    except yaml.YAMLError as error:
        stop("", f"not YAML: {printable(' '.join(str(error).split()))}"[:400])
    except (ValueError, OverflowError, IndexError):
        # The parser does not accept lone surrogates; a parser without libyaml does not check escapes.
        stop("", "not YAML: a character escape or directive is out of range")


def yaml_tree(text: str, limits: Limits = CONFIGURATION) -> Tree:
    """The tree of a YAML text of one document."""
    builder = Builder(limits)
    try:
        for event in events(text):
            builder.take(event)
    except Unreadable as error:
        return Tree(None, (*builder.mistakes, error.mistake))
    return Tree(builder.root, tuple(builder.mistakes))


def yaml_trees(text: str, limits: Limits, number: int = 0) -> Iterator[tuple[int, Tree]]:
    """Each document of a YAML text with its number, after this one; a mistake in one does not hide the next.

    Number 0 is a text of which no document could be read.
    """
    builder, fatal = Builder(limits), False
    try:
        for event in events(text):
            if isinstance(event, yaml.DocumentStartEvent):
                number, builder, fatal = number + 1, Builder(limits), False
            elif isinstance(event, yaml.DocumentEndEvent):
                yield number, Tree(None if fatal else builder.root, tuple(builder.mistakes))
            elif not fatal:
                try:
                    builder.take(event)
                except Unreadable as error:
                    builder.mistakes.append(error.mistake)
                    fatal = True
                    if builder.is_excessive():
                        # The parser would take long for the rest.
                        yield number, Tree(None, tuple(builder.mistakes))
                        return
    except Unreadable as error:
        yield number, Tree(None, (error.mistake,))


def marked(error: yaml.MarkedYAMLError) -> str:
    """Where the YAML is broken, and why."""
    where = (
        f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: " if error.problem_mark else ""
    )
    return f"{where}not YAML: {printable(str(error.problem or error.context or 'unreadable'))[:200]}"
