"""`pykueue jobs --watch`: repaints a table on a terminal, and prints the rows that change elsewhere."""

import itertools
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, Protocol

import click
import msgspec
from msgspec.structs import replace

from pykueue.api.jobsummary import FINISHED_JOBS, FinishedList, JobSummary
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.text import printable
from pykueue.base.units import MICROS
from pykueue.cli.formats import csv_lines, echo, json_text, printed, table_lines, yaml_text
from pykueue.cli.jobs.rows import columns, resource_name
from pykueue.cli.jobs.source import Asked, Found, active, chosen, own_list, with_reasons
from pykueue.cli.screen import CLEAR, REST, painted
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import UnansweredError

POLL_MICROS: Final = 2 * MICROS
"""How often a server that lists jobs itself is asked."""
TICK_MICROS: Final = 1 * MICROS
"""How often the changes of other servers are shown."""
PLACES_TICKS: Final = 5
"""Ticks after which places in line are asked for again."""
LOOKS: Final = 5
"""How many times a job that is no longer listed is looked up among those that have finished."""
AROUND: Final = 3
"""Lines of the screen besides rows: the counts, the headers, and the number of rows that do not fit."""
GONE: Final = "the server does not respond; waiting for it"
BACK: Final = "the server responds again"

Key = tuple[str, str]


class Look(Frozen):
    """What there is to show at one time."""

    rows: tuple[JobSummary, ...]
    ended: tuple[JobSummary, ...] = ()
    """Jobs that were shown and have ended, with their last state."""
    trouble: str = ""
    """Why the rows are out of date; empty if they are not."""


class Shown(Protocol):
    """Where jobs are shown."""

    def show(self, look: Look) -> None:
        """Show jobs."""


def key_of(row: JobSummary) -> Key:
    """What identifies a row."""
    return row.namespace, row.name


def aspects(row: JobSummary) -> tuple[object, ...]:
    """What makes a row worth printing again; a place in line changes with every start before it."""
    return (row.state, row.submitted, row.queue, row.since, row.progress, row.reason, row.gpus)


async def watch(kube: HttpKube, clock: Clock, asked: Asked, found: Found, shown: Shown) -> None:
    """Show jobs until cancelled, from the first list on; raises `KubeError` if the server refuses us later."""
    looks = polled(kube, clock, asked, found) if found.served else followed(kube, clock, asked, found)
    async for look in looks:
        shown.show(look)


async def polled(kube: HttpKube, clock: Clock, asked: Asked, found: Found) -> AsyncIterator[Look]:
    """The jobs of a server that lists them itself."""
    rows = found.rows
    leaving: dict[Key, tuple[JobSummary, int]] = {}
    yield Look(rows)
    while True:
        await clock.sleep(POLL_MICROS)
        try:
            found = await active(kube, asked)
            now = {key_of(row) for row in found.rows}
            leaving |= {key_of(row): (row, LOOKS) for row in rows if key_of(row) not in now and row.submitted}
            ended = tuple(await endings(kube, asked, leaving)) if leaving else ()
        except UnansweredError:
            yield Look(rows, trouble=GONE)
            continue
        rows = found.rows
        yield Look(rows, ended)


async def endings(kube: HttpKube, asked: Asked, leaving: dict[Key, tuple[JobSummary, int]]) -> list[JobSummary]:
    """The jobs among these whose end is recorded; they, and those that were looked up often enough, are removed."""
    own = await own_list(kube, FINISHED_JOBS, asked, {})
    records = () if own is None else msgspec.json.decode(own[0], type=FinishedList).items
    ends = []
    for record in records:
        row, _ = leaving.get((record.namespace, record.name), (None, 0))
        if row is not None and row.submitted == record.submitted:
            ends.append(
                replace(row, state=record.state, since=record.ended, place=None, deadline="", reason=record.reason)
            )
            del leaving[record.namespace, record.name]
    for key, (row, left) in list(leaving.items()):
        if left > 1:
            leaving[key] = row, left - 1
        else:
            del leaving[key]
    return ends


async def followed(kube: HttpKube, clock: Clock, asked: Asked, found: Found) -> AsyncIterator[Look]:
    """The jobs of a server that does not list them itself, by watches."""
    from pykueue.cli.jobs.clusterwatch import ClusterWatch
    from pykueue.cli.queues.places import places

    where = found.namespace
    followed = ClusterWatch(kube, clock, where, asked.labels)
    known = followed.known
    followed.start()
    rows = found.rows
    try:
        yield Look(rows)
        while not followed.complete:
            await clock.sleep(TICK_MICROS // 10)
        known.ended.clear()
        for tick in itertools.count():
            trouble = GONE if followed.failing else followed.jobs.trouble
            fresh = tick % PLACES_TICKS == 0 and not trouble
            if known.changed or fresh:
                ended = chosen(known.endings(), asked)
                known.update()
                if fresh:
                    known.places = await places(kube, known.waiting_in())
                rows = await with_reasons(kube, chosen(known.in_order(), asked), where)
                yield Look(rows, ended, trouble)
            else:
                yield Look(rows, (), trouble)
            await clock.sleep(TICK_MICROS)
    finally:
        followed.stop()


class Screen:
    """Repaints a table that fits the terminal."""

    def __init__(self, clock: Clock, *, all_namespaces: bool) -> None:
        self.clock = clock
        self.all_namespaces = all_namespaces
        self.began = False

    def show(self, look: Look) -> None:
        """Paint the jobs over those that were there."""
        size = shutil.get_terminal_size()
        text = painted(self.lines(look, size.columns, size.lines), size.columns)
        sys.stdout.write(f"{'' if self.began else CLEAR}{text}{REST}")
        sys.stdout.flush()
        self.began = True

    def lines(self, look: Look, width: int, height: int) -> Iterator[str]:
        """The lines of a screen."""
        counts = Counter(row.state.value for row in look.rows)
        total = ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "no jobs"
        yield f"{total}{f'; {look.trouble}' if look.trouble else ''}"
        room = max(1, height - AROUND - 1)
        rows = look.rows[:room]
        made = columns(rows, None, self.clock.now(), all_namespaces=self.all_namespaces)
        yield from table_lines(rows, made, width=width)
        if len(look.rows) > room:
            yield f"and {len(look.rows) - room} more"


class Changes:
    """Prints each row when it appears, changes or ends, for a pipe or a file."""

    def __init__(self, clock: Clock, output: str | None, *, all_namespaces: bool, no_headers: bool) -> None:
        self.clock = clock
        self.output = output
        self.all_namespaces = all_namespaces
        self.headless = no_headers
        self.known: dict[Key, tuple[object, ...]] = {}
        self.trouble = ""

    def show(self, look: Look) -> None:
        """Print what has changed."""
        if look.trouble != self.trouble:
            click.echo(printable(f"pykueue: {look.trouble or BACK}"), err=True)
            self.trouble = look.trouble
        now = {key_of(row): aspects(row) for row in look.rows}
        changed = [row for row in look.rows if self.known.get(key_of(row)) != now[key_of(row)]]
        self.known = now
        rows = [*look.ended, *changed]
        if rows:
            echo(self.lines(rows))
            self.headless = True

    def lines(self, rows: Sequence[JobSummary]) -> list[str]:
        """The rows as lines; in JSON one object a line."""
        if self.output == "json":
            return [json_text(row, indent=0) for row in rows]
        if self.output == "yaml":
            return [f"---\n{yaml_text(row)}" for row in rows]
        # The header is printed once, so its columns must fit rows that come later.
        made = columns(rows, self.output, self.clock.now(), all_namespaces=self.all_namespaces, tasks=True)
        if self.output == "csv":
            return csv_lines(rows, made, no_headers=self.headless)
        return list(
            printed(rows, made, self.output, name=resource_name, document=lambda: rows, no_headers=self.headless)
        )
