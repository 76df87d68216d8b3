"""Writes a response as YAML event by event, so that a long one can be sent in chunks."""

from collections.abc import AsyncIterator, Iterator
from enum import Enum
from functools import lru_cache
from heapq import merge
from io import StringIO
from itertools import islice
from typing import Final, Protocol, cast

import yaml

from pykueue.api.core import Json
from pykueue.base.turns import Turns

DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
STEP: Final = 400
"""Events written in one step."""
EVENT_MICROS: Final = 4
"""The cost of an event."""
SORTED: Final = 10_000
"""Keys sorted in one step; a larger mapping is sorted in parts, which are then merged."""
TEXT_TAG: Final = "tag:yaml.org,2002:str"
MAP_TAG: Final = "tag:yaml.org,2002:map"
LIST_TAG: Final = "tag:yaml.org,2002:seq"
SHORT: Final = 64
"""Longer texts are not cached."""
PLAIN: Final = (True, False)
NUMBERS: Final = yaml.SafeDumper


class Pause(Enum):
    """A marker that ends a step without writing anything."""

    HERE = 0


class Emitter(Protocol):
    """The interface of PyYAML's emitter."""

    def emit(self, event: yaml.Event) -> None:
        """Write one event."""


class YamlWriter:
    """Writes one document, as `yaml.dump` does with sorted keys and without flow style; `taken` is what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.emitter: Emitter = DUMPER(self, allow_unicode=True, encoding="utf-8")
        self.emitter.emit(yaml.StreamStartEvent(encoding="utf-8"))
        self.emitter.emit(yaml.DocumentStartEvent(explicit=False))

    def write(self, data: bytes) -> None:
        """Called by the emitter with its output."""
        self.written.append(data)

    def flush(self) -> None:
        """Called by the emitter at the end of a document."""

    def taken(self) -> bytes:
        """Return and clear the output written so far."""
        found, self.written = self.written, []
        return b"".join(found)

    def end(self) -> None:
        """End the document."""
        self.emitter.emit(yaml.DocumentEndEvent(explicit=False))
        self.emitter.emit(yaml.StreamEndEvent())

    def steps(self, value: Json) -> Iterator[int]:
        """Write a value step by step; each step yields the number of events written."""
        emit = self.emitter.emit
        events = events_of(value)
        while True:
            count = 0
            for event in islice(events, STEP):
                if event is Pause.HERE:
                    count = STEP
                    break
                emit(event)
                count += 1
            if not count:
                return
            yield count

    def whole(self, value: Json) -> None:
        """Write a small value at once."""
        for _ in self.steps(value):
            pass

    def begin_mapping(self) -> None:
        """Write the start of a mapping."""
        self.emitter.emit(mapping_start())

    def end_mapping(self) -> None:
        """Write the end of a mapping."""
        self.emitter.emit(yaml.MappingEndEvent())

    def begin_sequence(self) -> None:
        """Write the start of a sequence."""
        self.emitter.emit(sequence_start())

    def end_sequence(self) -> None:
        """Write the end of a sequence."""
        self.emitter.emit(yaml.SequenceEndEvent())


def mapping_start() -> yaml.Event:
    """The start of a mapping in block style."""
    return yaml.MappingStartEvent(anchor=None, tag=MAP_TAG, implicit=True, flow_style=False)


def sequence_start() -> yaml.Event:
    """The start of a sequence in block style."""
    return yaml.SequenceStartEvent(anchor=None, tag=LIST_TAG, implicit=True, flow_style=False)


def events_of(value: Json) -> Iterator[yaml.Event | Pause]:
    """The events of a value, without recursion."""
    opened: list[Iterator[Json | Pause]] = [iter((value,))]
    ends: list[yaml.Event | None] = [None]
    while opened:
        for one in opened[-1]:
            if isinstance(one, dict):
                yield mapping_start()
                opened.append(flat(one))
                ends.append(yaml.MappingEndEvent())
                break
            if isinstance(one, list):
                yield sequence_start()
                opened.append(iter(one))
                ends.append(yaml.SequenceEndEvent())
                break
            yield one if isinstance(one, Pause) else scalar(one)
        else:
            opened.pop()
            end = ends.pop()
            if end is not None:
                yield end


def flat(mapping: dict[str, Json]) -> "Iterator[Json | Pause]":
    """The keys and values of a mapping, alternating, sorted by key."""
    keys = iter(mapping)
    parts: list[list[str]] = []
    while part := sorted(islice(keys, SORTED)):
        if parts:
            yield Pause.HERE
        parts.append(part)
    for key in merge(*parts) if len(parts) > 1 else parts[0] if parts else ():
        yield key
        yield mapping[key]


def scalar(value: Json) -> yaml.Event:
    """The event of a scalar."""
    match value:
        case str():
            plain = is_plain(value) if len(value) <= SHORT else resolved_as_text(value)
            return yaml.ScalarEvent(None, TEXT_TAG, (plain, True), value)
        case None:
            return yaml.ScalarEvent(None, "tag:yaml.org,2002:null", PLAIN, "null")
        case bool():
            return yaml.ScalarEvent(None, "tag:yaml.org,2002:bool", PLAIN, "true" if value else "false")
        case int():
            return yaml.ScalarEvent(None, "tag:yaml.org,2002:int", PLAIN, str(value))
        case _:
            node = NUMBERS.represent_float(representer(), cast("float", value))
            return yaml.ScalarEvent(None, node.tag, PLAIN, node.value)


@lru_cache(maxsize=1)
def representer() -> yaml.SafeDumper:
    """PyYAML's representer, which formats numbers."""
    return yaml.SafeDumper(StringIO())


@lru_cache(maxsize=1)
def resolver() -> yaml.resolver.Resolver:
    """PyYAML's resolver, which determines the type of a plain scalar."""
    return yaml.resolver.Resolver()


def resolved_as_text(value: str) -> bool:
    """Whether a plain scalar with this text is read as a string."""
    found = resolver().resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]  # the stubs
    return bool(found == TEXT_TAG)


is_plain: Final = lru_cache(maxsize=4096)(resolved_as_text)


async def pieces_of(value: Json, turns: Turns) -> AsyncIterator[bytes]:
    """The YAML of a value in chunks, within the budget of the event loop."""
    writer = YamlWriter()
    for events in writer.steps(value):
        if piece := writer.taken():
            yield piece
        await turns.take(events * EVENT_MICROS)
    writer.end()
    yield writer.taken()
