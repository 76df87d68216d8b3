"""Carry out `pykueue jobs`: ask for jobs, and print or watch them."""

import contextlib
import sys
from collections.abc import Sequence
from typing import Final, TypeVar

import click
from msgspec.structs import replace

from pykueue.api.jobsummary import FinishedJob, JobSummary
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.text import printable
from pykueue.cli.formats import Column, echo, printed
from pykueue.cli.jobs import source
from pykueue.cli.jobs.rows import columns, document, finished_columns, resource_name
from pykueue.cli.jobs.source import Asked
from pykueue.cli.objects import names
from pykueue.cli.serverstate import UNAUTHORIZED, fail
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import LOCAL_QUEUES, NAMESPACES, DeniedError, Kube, KubeError, NotFoundError, UnansweredError

NO_JOBS: Final = "No running or pending jobs; `pykueue jobs --finished` lists finished jobs."
NO_FINISHED_JOBS: Final = "No finished jobs."
NO_OWNERS: Final = "--mine: this server does not record who created a job; omit it, or select jobs by label with -l"

Row = TypeVar("Row", JobSummary, FinishedJob)


class Listing(Frozen):
    """The options of `pykueue jobs`."""

    asked: Asked
    mine: bool = False
    watch: bool = False
    finished: bool = False
    limit: int = 0
    output: str | None = None
    no_headers: bool = False

    @property
    def all_namespaces(self) -> bool:
        """Whether names are shown with their namespace."""
        return not self.asked.namespace


async def show(kube: HttpKube, wanted: Listing) -> None:
    """Print the jobs, or watch them until cancelled."""
    if wanted.mine:
        asked = replace(wanted.asked, owner=await source.who_am_i(kube))
        wanted = replace(wanted, asked=asked)
    try:
        if wanted.finished:
            await show_finished(kube, wanted)
        else:
            await show_active(kube, wanted)
    except source.OwnersUnknownError:
        fail(NO_OWNERS, 1)


async def check_queue(kube: Kube, asked: Asked, rows: Sequence[Row]) -> None:
    """Exit with code 1 if there are no jobs because the namespace or queue that is asked for does not exist."""
    if rows:
        return
    if asked.namespace:
        # Users may lack the right to read namespaces.
        with contextlib.suppress(DeniedError):
            try:
                await kube.get(NAMESPACES, asked.namespace)
            except NotFoundError:
                fail(f"--namespace: no namespace {asked.namespace}", 1)
    if not asked.queue:
        return
    try:
        known = set(await names(kube, LOCAL_QUEUES, asked.namespace))
    except KubeError as error:
        if error.code == UNAUTHORIZED or isinstance(error, UnansweredError):
            raise
        # Users may lack the right to list queues.
        return
    if asked.queue not in known:
        within = f"in namespace {asked.namespace}" if asked.namespace else "in any namespace"
        advice = f"use one of: {', '.join(sorted(known))}" if known else "there are none"
        fail(f"--queue: no LocalQueue {asked.queue!r} {within}; {advice}", 1)


async def show_finished(kube: HttpKube, wanted: Listing) -> None:
    """Print the jobs that have finished."""
    rows, notes = await source.finished(kube, wanted.asked, wanted.limit, SystemClock().now())
    say(notes)
    await check_queue(kube, wanted.asked, rows)
    made = finished_columns(rows, wanted.output, all_namespaces=wanted.all_namespaces)
    put(rows, made, wanted, "FinishedJobList", NO_FINISHED_JOBS)


async def show_active(kube: HttpKube, wanted: Listing) -> None:
    """Print the jobs that run or wait, or watch them until cancelled."""
    clock = SystemClock()
    found = await source.active(kube, wanted.asked)
    say(found.notes)
    await check_queue(kube, wanted.asked, found.rows)
    if wanted.watch:
        from pykueue.cli.jobs.watch import Changes, Screen, Shown, watch
        from pykueue.cli.screen import until_signal

        shown: Shown = Changes(clock, wanted.output, all_namespaces=wanted.all_namespaces, no_headers=wanted.no_headers)
        if sys.stdout.isatty() and wanted.output is None:
            shown = Screen(clock, all_namespaces=wanted.all_namespaces)
        await until_signal(watch(kube, clock, wanted.asked, found, shown))
        return
    made = columns(found.rows, wanted.output, clock.now(), all_namespaces=wanted.all_namespaces)
    put(found.rows, made, wanted, "JobSummaryList", NO_JOBS)


def put(rows: Sequence[Row], made: Sequence[Column[Row]], wanted: Listing, kind: str, none: str) -> None:
    """Print rows; in a table, a sentence if there are none."""
    if not rows and wanted.output in (None, "wide"):
        click.echo(none, err=True)
        return
    echo(
        printed(
            rows,
            made,
            wanted.output,
            name=resource_name,
            document=lambda: document(kind, rows),
            no_headers=wanted.no_headers,
        )
    )


def say(notes: Sequence[str]) -> None:
    """Print what is left out to standard error."""
    for note in notes:
        click.echo(printable(f"pykueue: {note}"), err=True)
