"""The journal: facts and `decide` calls as JSON lines, which replay to exactly the same decisions.

A journal begins with the version of its format and a checkpoint, so each file replays by itself.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.decisions import Decision
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact
from pykueue.engine.record.checkpoint import Checkpoint, checkpoint, restore

VERSION: Final = 2
"""The version of the format. Increment it with every change of facts, decisions or the checkpoint."""
REMEDY: Final = "replay it with the pykueue that wrote it, or record a new one with --journal"


class Header(Frozen, tag="Journal"):
    """The first line of a journal; it is the same in every version of the format."""

    version: int


class Observed(Frozen, tag=True):
    """A fact that the engine observed."""

    fact: Fact


class Decided(Frozen, tag=True):
    """A call of `decide`: its instant, and the decisions."""

    now: Instant
    decisions: tuple[Decision, ...]


Line = Header | Checkpoint | Observed | Decided
LINES = msgspec.json.Decoder(Line)
HEADER = msgspec.json.Decoder(Header)
DECIDED: Final = b'{"type":"Decided"'
"""How the line of a call of `decide` begins."""


class JournalError(ValueError):
    """A journal that cannot be replayed."""


class Recorder:
    """Wraps an engine, and writes every call to the journal."""

    def __init__(self, engine: Engine, write: Callable[[bytes], object]) -> None:
        self.engine = engine
        self.write = write
        self.put(Header(VERSION))
        self.put(checkpoint(engine))

    def put(self, line: Line) -> None:
        """Write one line."""
        self.write(msgspec.json.encode(line) + b"\n")

    def observe(self, fact: Fact) -> None:
        """Write a fact to the journal, then pass it to the engine."""
        self.put(Observed(fact))
        self.engine.observe(fact)

    def decide(self, now: Instant) -> list[Decision]:
        """Call the engine, and write its decisions to the journal."""
        decisions = self.engine.decide(now)
        self.put(Decided(now, tuple(decisions)))
        return decisions

    def next_wake(self) -> Instant | None:
        """When to call `decide` again."""
        return self.engine.next_wake()


class Divergence(Frozen):
    """A difference between a replay and the journal."""

    line: int
    recorded: tuple[Decision, ...]
    replayed: tuple[Decision, ...]


def replay(lines: Iterable[bytes]) -> Iterator[Divergence]:
    """Replay a journal; yields each call of `decide` whose decisions differ.

    Raises JournalError for a journal of another version of the format, and for what is no journal.
    """
    for number, line, decisions in steps(lines):
        if isinstance(line, Decided) and msgspec.json.encode(decisions) != msgspec.json.encode(line.decisions):
            yield Divergence(number, line.decisions, decisions)


def last_state(lines: Iterable[bytes]) -> Engine:
    """The engine after everything in a journal; raises JournalError as `replay` does."""
    engine: Engine | None = None
    for _, line, _ in steps(lines):
        engine = line if isinstance(line, Engine) else engine
    if engine is None:
        raise JournalError("line 1: a journal begins with a checkpoint; this one is empty")
    return engine


def steps(lines: Iterable[bytes]) -> Iterator[tuple[int, Engine | Observed | Decided, tuple[Decision, ...]]]:
    """Replay a journal; yields each line with its number and what is decided, and for a checkpoint the engine."""
    engine: Engine | None = None
    for number, line in read(lines):
        if isinstance(line, Checkpoint):
            engine = restore(line)
            yield number, engine, ()
        elif engine is None:
            raise JournalError(f"line {number}: a journal begins with a checkpoint; this one begins in the middle")
        elif isinstance(line, Observed):
            engine.observe(line.fact)
            yield number, line, ()
        else:
            yield number, line, tuple(engine.decide(line.now))


def decisions_in(lines: Iterable[bytes], name: str) -> Iterator[Decision]:
    """The decisions in a journal about workloads in whose keys this occurs.

    Raises JournalError for a journal of another version of the format, and for what is no journal.
    """
    wanted = name.encode()
    # Decoding takes time, and most lines are about others.
    for _, line in read(lines, lambda raw: raw.startswith(DECIDED) and wanted in raw):
        if isinstance(line, Decided):
            yield from (one for one in line.decisions if name in one.workload)


def read(
    lines: Iterable[bytes], wanted: Callable[[bytes], bool] = lambda raw: True
) -> Iterator[tuple[int, Checkpoint | Observed | Decided]]:
    """The lines of a journal with their numbers, as far as they are wanted, after its version is checked."""
    versioned = False
    for number, raw in enumerate(lines, 1):
        if not raw.strip() or (versioned and not wanted(raw)):
            continue
        try:
            line = LINES.decode(raw) if versioned else HEADER.decode(raw)
        except msgspec.DecodeError as error:
            if isinstance(error, msgspec.ValidationError) and not versioned:
                raise JournalError(
                    f"line {number}: no format version; an older pykueue wrote this journal, or its beginning is "
                    f"missing; {REMEDY}"
                ) from error
            raise JournalError(f"line {number}: {error}; this is no line of a journal, or it was cut short") from error
        if not isinstance(line, Header):
            yield number, line
        elif line.version != VERSION:
            raise JournalError(
                f"line {number}: format version {line.version}, and this pykueue reads version {VERSION}; {REMEDY}"
            )
        else:
            versioned = True
