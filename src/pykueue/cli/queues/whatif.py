"""Previews: the changes that a command line gives, the state in a dump, and the answer as text."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from pykueue.api.config.file import default_configuration
from pykueue.api.core import Tree
from pykueue.api.estimates import SOON_SECONDS
from pykueue.api.previews import (
    HARMFUL,
    IN_NAMESPACES,
    RUNNING,
    Affected,
    Effect,
    PreviewSpec,
    PreviewStatus,
    QueueChange,
    split_target,
)
from pykueue.api.trees import text
from pykueue.base.text import printable
from pykueue.base.units import MICROS, Instant
from pykueue.bridge.previews import Question
from pykueue.cli.formats import Column, table_lines
from pykueue.cli.manifestfiles import contents
from pykueue.cli.tables import duration, hanging, short_time
from pykueue.engine.record.checkpoint import Checkpoint, checkpoint
from pykueue.engine.record.journal import JournalError, last_state
from pykueue.sim.manifests import NAMESPACED, Document, Mistake, documents, is_configuration
from pykueue.sim.preview import settled
from pykueue.sim.trace import Invalid, Setting, configuration_of, limits_of, read_trace

SAME: Final = 0
WORSE: Final = 3
DIFFERENT: Final = 4
"""Exit codes of --exit-code."""
JOURNAL_START: Final = b'{"type":"Journal"'
WORDS: Final = {
    Effect.EVICTED: "is evicted",
    Effect.RESTARTS: "restarts",
    Effect.NOT_STARTED: "does not start",
    Effect.NEVER: "never starts",
    Effect.BLOCKED: "is blocked",
    Effect.DELETED: "is deleted",
    Effect.STARTS: "starts",
    Effect.RESERVES: "gets quota",
    Effect.WAITS: "waits",
    Effect.MOVES: "moves",
    Effect.STARTS_LATER: "starts later",
    Effect.STARTS_EARLIER: "starts earlier",
}
SHIFTS: Final = (Effect.STARTS_LATER, Effect.STARTS_EARLIER)
COLOURS: Final = {
    Effect.STARTS: "green",
    Effect.RESERVES: "green",
    Effect.STARTS_EARLIER: "green",
    Effect.WAITS: "yellow",
    Effect.STARTS_LATER: "yellow",
    Effect.NEVER: "red",
}


def manifests(files: Iterable[str], mistakes: list[Mistake]) -> list[Document]:
    """The objects in files."""
    found: list[Document] = []
    for file in files:
        for name, raw in contents(file, mistakes):
            read, errors = documents(name, raw)
            found += read
            mistakes += errors
    return found


def in_namespace(tree: Tree, namespace: str) -> Tree:
    """The object in this namespace, if its kind has one and it names none."""
    metadata = tree.get("metadata")
    if tree.get("kind") not in NAMESPACED or not isinstance(metadata, dict) or metadata.get("namespace"):
        return tree
    return {**tree, "metadata": {**metadata, "namespace": namespace}}


def full_target(target: str, namespace: str) -> str:
    """An object, or an assignment to one, with its namespace."""
    split = split_target(target)
    if split is None or split[0] not in IN_NAMESPACES or "/" in split[1].partition("=")[0]:
        return target
    word = target.partition("/")[0]
    return f"{word}/{namespace}/{split[1]}"


def spec_of(
    found: Sequence[Document],
    namespace: str,
    *,
    set_: Sequence[str],
    delete: Sequence[str],
    drain: Sequence[str],
    waits: bool = False,
) -> PreviewSpec:
    """The changes; what names no namespace is in this one."""

    def full(targets: Sequence[str]) -> tuple[str, ...]:
        return tuple(full_target(one, namespace) for one in targets)

    trees = tuple(in_namespace(one.tree, namespace) for one in found)
    return PreviewSpec(trees, full(set_), full(delete), full(drain), waits)


def own_namespace(spec: PreviewSpec) -> str:
    """The namespace of all changes, if they are new jobs of a single one; empty otherwise."""
    spaces = {text(one, "metadata", "namespace") for one in spec.objects}
    jobs = all(one.get("kind") in ("Job", "Workload") for one in spec.objects)
    return spaces.pop() if jobs and len(spaces) == 1 and not (spec.set or spec.delete or spec.drain) else ""


def dumped(file: str, config: str | None, spec: PreviewSpec, mistakes: list[Mistake]) -> tuple[Question, Checkpoint]:
    """The question about a dump: a journal, or manifests in a file or directory."""
    texts = [*contents(file, mistakes)]
    configuration = None if config is None else next(contents(config, mistakes), None)
    if mistakes:
        raise Invalid(mistakes)
    if texts[0][1].lstrip().startswith(JOURNAL_START):
        return journalled(file, spec)
    setting = Setting(configuration)
    trace = read_trace(texts, setting)
    found = [one for name, raw in texts for one in documents(name, raw)[0]]
    loaded = configuration_of(setting, [one for one in found if is_configuration(one)], [])
    jobs = {one.name: one.workload.key for one in trace.arrivals if one.of_job}
    trees = tuple(one.tree for one in found if not is_configuration(one))
    # New jobs come after those of the dump.
    now = Instant(max((trace.start, *(one.workload.created for one in trace.arrivals))) + MICROS)
    return Question(spec, loaded, now, trees, jobs, limits=limits_of(trace.arrivals)), settled(trace)


def journalled(file: str, spec: PreviewSpec) -> tuple[Question, Checkpoint]:
    """The question about the last state in a journal."""
    try:
        with Path(file).open("rb") as lines:
            # A manager that was killed may have left an incomplete last line.
            engine = last_state(line for line in lines if line.endswith(b"\n"))
    except JournalError as error:
        raise Invalid([Mistake(file, str(error))]) from error
    return Question(spec, default_configuration(), engine.now), checkpoint(engine)


def exit_code(found: PreviewStatus) -> int:
    """What --exit-code says."""
    if found.count(*HARMFUL):
        return WORSE
    return DIFFERENT if found.count(*RUNNING) else SAME


def who(one: Affected) -> str:
    """The name of a workload that a user knows: that of its job."""
    return f"{one.workload.partition('/')[0]}/{one.job}" if one.job else one.workload


def why(one: Affected, names: dict[str, str]) -> str:
    """Why, with the name of the workload that it leaves for."""
    if one.clause:
        return f"{names.get(one.by, one.by) or 'another workload'} {one.reason}"
    return one.reason


def place(one: Affected) -> str:
    """The place in line, and the one before."""
    now, was = (str(each) if each is not None else "-" for each in (one.place, one.place_before))
    return now if one.place_before is None or one.effect in SHIFTS else f"{was} > {now}"


def start(one: Affected, now: datetime) -> str:
    """When it starts, and when it would have; `-` if that is not known."""
    after = start_text(one.start, one.wait_seconds, now)
    if one.effect in (Effect.EVICTED, Effect.RESTARTS):
        return f"running > {after}"
    if not one.start_before and one.place_before is None:
        return after
    return changed(start_text(one.start_before, one.wait_seconds_before, now), after)


def start_text(time: str, wait_seconds: int | None, now: datetime) -> str:
    """A start, as short as it is clear."""
    if not time or wait_seconds is None:
        return "-"
    return "now" if wait_seconds < SOON_SECONDS else short_time(time, now)


def columns(found: PreviewStatus) -> tuple[Column[Affected], ...]:
    """The columns of affected workloads; with the time at which they start if that was asked for."""
    names = {one.workload: who(one) for one in found.affected}
    now = datetime.fromisoformat(found.at).astimezone() if found.runs else datetime.min
    starts: tuple[Column[Affected], ...] = (Column("START", lambda one: start(one, now)),) if found.runs else ()
    return (
        Column("JOB", who, shrinks=True),
        Column("CLUSTERQUEUE", lambda one: one.queue or "-"),
        Column("EFFECT", lambda one: WORDS[one.effect], colour=lambda one: COLOURS.get(one.effect, "red")),
        Column("PLACE", place),
        *starts,
        Column("FLAVOR", lambda one: ",".join(one.flavors) or "-"),
        Column("WHY", lambda one: why(one, names) or "-", shrinks=True),
        Column("WORKLOAD", lambda one: one.workload, wide=True),
    )


def changed(was: object, now: object) -> str:
    """A value before and after."""
    return str(now) if was == now else f"{was} > {now}"


def wait_text(seconds: int | UnsetType) -> str:
    """A wait of a queue."""
    return "-" if seconds is UNSET else duration(seconds * MICROS)


WAIT: Final[Column[QueueChange]] = Column(
    "MEDIAN WAIT",
    lambda one: changed(wait_text(one.median_wait_seconds_before), wait_text(one.median_wait_seconds)),
    ">",
)
QUEUES: Final[tuple[Column[QueueChange], ...]] = (
    Column("CLUSTERQUEUE", lambda one: one.name),
    Column("RUNNING", lambda one: changed(one.running_before, one.running), ">"),
    Column("PENDING", lambda one: changed(one.pending_before, one.pending), ">"),
    Column(
        "QUOTA",
        lambda one: (
            ", ".join(
                f"{quota.resource} of {quota.flavor}: {changed(quota.used_before, quota.used)}"
                f" of {changed(quota.nominal_before, quota.nominal)}"
                for quota in one.quotas
            )
            or "-"
        ),
        shrinks=True,
    ),
)


def rendered(found: PreviewStatus, output: str | None, *, no_headers: bool) -> Iterator[str]:
    """The answer for people: who is affected, each queue before and after, and a summary."""
    if found.affected:
        yield from table_lines(found.affected, columns(found), wide=output == "wide", no_headers=no_headers)
        yield ""
    if found.queues:
        shown = (*QUEUES[:-1], WAIT, QUEUES[-1]) if found.runs else QUEUES
        yield from table_lines(found.queues, shown, wide=output == "wide", no_headers=no_headers)
        yield ""
    yield from hanging("", summary(found))
    yield from (line for note in found.notes for line in hanging("Note: ", printable(note)))


def summary(found: PreviewStatus) -> str:
    """How many workloads are affected, in a sentence."""
    counts = {effect: found.count(effect) for effect in Effect}
    parts = [f"{WORDS[effect]}: {count}" for effect, count in counts.items() if count]
    if not parts:
        same = ", and start at the same times" if found.runs else ""
        return f"Nothing changes: the same workloads run, in the same order{same}."
    text_of = f"Workloads affected: {'; '.join(parts)}."
    if found.hidden:
        text_of += f" {sum(found.hidden.values())} of them are not shown: they are in namespaces that you may not read."
    if found.more:
        text_of += f" {sum(found.more.values())} of them are left out here."
    return text_of


def with_positions(message: str, found: Sequence[Document]) -> str:
    """The server's message, with the files and documents of the objects that it counts."""
    lines = []
    for line in message.splitlines():
        head, colon, rest = line.partition(":")
        number = head.removeprefix("object ")
        if head != number and number.isdigit() and 0 < int(number) <= len(found):
            lines.append(f"{found[int(number) - 1].where}{colon}{rest}")
        else:
            lines.append(line)
    return "\n".join(lines)


def as_typed(message: str, targets: Iterable[str], namespace: str) -> str:
    """The message, with the targets as they were typed."""
    for one in targets:
        for option in ("set", "delete", "drain"):
            message = message.replace(f"--{option} {full_target(one, namespace)}:", f"--{option} {one}:")
    return message


def positioned(status: PreviewStatus, found: Sequence[Document]) -> PreviewStatus:
    """The status, with such positions in its notes."""
    return replace(status, notes=tuple(with_positions(one, found) for one in status.notes))


def noting_an_older_server(status: PreviewStatus, asked: PreviewSpec, repeated: PreviewSpec) -> PreviewStatus:
    """The status, with a note if the server does not know --waits: then it does not repeat the field."""
    if asked.waits == repeated.waits:
        return status
    return replace(status, notes=(*status.notes, "this server is older than --waits, and does not estimate starts"))
