"""Reads YAML text of many documents that repeat each other, such as the jobs of a trace, without parsing each of them.

Of documents that are equal but for some words, one is parsed with marks in place of the words, as a template; each
further document is the template with its own words. Anything unusual is left to `yaml_trees`, which words all mistakes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final, TypeAlias

from pykueue.api.core import Json
from pykueue.api.yamlscalars import plain_value
from pykueue.api.yamltext import Limits, Tree, yaml_trees
from pykueue.base.struct import Frozen

BEGINNING: Final = re.compile(r"^---(?=[ \t\n]|\Z)", re.MULTILINE)
"""The beginning of a document; YAML does not allow it within one, not even in a quoted or block text."""
OTHER_LINES: Final = ("%", "...")
"""How directives and explicit ends of documents begin."""
OTHER_CHARACTERS: Final = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""Line breaks other than a newline, and characters that YAML does not accept."""
WORD: Final = re.compile(r"([:-] [\"']?)([A-Za-z0-9][A-Za-z0-9_./-]{0,200})(?=[\"']?$)", re.MULTILINE)
"""A word at the end of a line, and what is before it.

If the word is a value by itself, any other such word can stand there as well.
"""
QUOTES: Final = ("'", '"')
MARK: Final = "pykueueslot"
SEPARATOR: Final = "\0"
"""Stands for a word in the text of a template; not a character of YAML."""
TEMPLATES_MAX: Final = 2_000
VALUES_MAX: Final = 500
"""At most this many values of one part of a template are kept."""


class Slot(Frozen):
    """A word of a template."""

    index: int
    quoted: bool


Filling: TypeAlias = "Json | Slot | dict[str, Filling] | list[Filling]"
"""A value with slots in it."""


class Part(Frozen):
    """An entry of a template: its value, and the indexes of the words in it."""

    filling: Filling
    indexes: tuple[int, ...]
    values: dict[tuple[str, ...], Json]
    """Values by their words; documents share them."""

    def value(self, words: Sequence[str]) -> Json:
        """The value with these words of a document."""
        own = tuple([words[index] for index in self.indexes])
        if own in self.values:
            return self.values[own]
        found = filled(self.filling, words)
        if len(self.values) < VALUES_MAX:
            self.values[own] = found
        return found


Template: TypeAlias = Mapping[str, Part]


class Repeats:
    """Reads documents one by one; those that came before serve as templates."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.seen: set[str] = set()
        """The text of documents without their words."""
        self.templates: dict[str, Template | None] = {}
        """By that text, if it came again; None if no template can be made."""

    def read(self, text: str) -> tuple[Json, ...] | None:
        """The value of the document, none for a text of comments alone; None if anything is unusual."""
        pieces = WORD.split(text)
        words = pieces[2::3]
        del pieces[2::3]
        frame = SEPARATOR.join(pieces)
        if frame not in self.seen:
            if len(self.seen) < TEMPLATES_MAX:
                self.seen.add(frame)
            return self.parsed(text)
        if frame not in self.templates:
            self.templates[frame] = self.template(frame, len(words))
        template = self.templates[frame]
        if template is None:
            return self.parsed(text)
        return ({key: part.value(words) for key, part in template.items()},)

    def parsed(self, text: str) -> tuple[Json, ...] | None:
        """The value of the document by the parser; None if there is a mistake."""
        found = [tree for _, tree in yaml_trees(text, self.limits)]
        return None if any(tree.mistakes for tree in found) else tuple(tree.value for tree in found)

    def template(self, frame: str, words: int) -> Template | None:
        """The template of documents with this text around so many words; None if a word is not a value by itself."""
        if MARK in frame:
            return None
        pieces = frame.split(SEPARATOR)
        marked: list[str] = []
        slots: dict[str, Slot] = {}
        for index in range(words):
            mark, before = f"{MARK}{index}x", pieces[2 * index + 1]
            marked += (pieces[2 * index], before, mark)
            slots[mark] = Slot(index, before.endswith(QUOTES))
        marked.append(pieces[-1])
        read = self.parsed("".join(marked))
        root = read[0] if read else None
        if not isinstance(root, dict):
            return None
        try:
            return {key: part(value, slots) for key, value in root.items()}
        except KeyError:
            return None


def part(value: Json, slots: dict[str, Slot]) -> Part:
    """The part of a template with this value; raises `KeyError` if a mark in it is not a value by itself."""
    indexes: list[int] = []
    return Part(with_slots(value, slots, indexes), tuple(indexes), {})


def with_slots(value: Json, slots: dict[str, Slot], indexes: list[int]) -> Filling:
    """The value with slots in place of marks, each of which may occur once, and their indexes."""
    if isinstance(value, str) and MARK in value:
        slot = slots.pop(value)
        indexes.append(slot.index)
        return slot
    if isinstance(value, dict):
        return {plain_key(key): with_slots(inner, slots, indexes) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_slots(inner, slots, indexes) for inner in value]
    return value


def plain_key(key: str) -> str:
    """The key, which must not contain a mark."""
    if MARK in key:
        raise KeyError(key)
    return key


def filled(filling: Filling, words: Sequence[str]) -> Json:
    """The value with these words in its slots."""
    if isinstance(filling, Slot):
        word = words[filling.index]
        return word if filling.quoted else plain_value(word)
    if isinstance(filling, dict):
        return {key: filled(inner, words) for key, inner in filling.items()}
    if isinstance(filling, list):
        return [filled(inner, words) for inner in filling]
    return filling


def repeated_trees(text: str, limits: Limits) -> Iterator[tuple[int, Tree]]:
    """What `yaml_trees` returns; values that are equal in several documents may be the same object."""
    lines = any(text.startswith(line) or f"\n{line}" in text for line in OTHER_LINES)
    if lines or BEGINNING.search(text) is None or OTHER_CHARACTERS.search(text):
        yield from yaml_trees(text, limits)
        return
    starts = (found.start() for found in BEGINNING.finditer(text))
    number, repeats = 0, Repeats(limits)
    for start, end in pairwise(chain((0,), starts, (len(text),))):
        read = repeats.read(text[start:end])
        if read is None:
            # The empty lines stand for the documents so far, so that messages have the right line.
            rest = "\n" * text.count("\n", 0, start) + text[start:]
            yield from yaml_trees(rest, limits, number)
            return
        for value in read:
            number += 1
            yield number, Tree(value)
