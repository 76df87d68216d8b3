"""Ask a server for the objects that `pykueue list` shows, and follow their changes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import click
import msgspec

from pykueue.api.names import Label
from pykueue.api.trees import Tree, mapping, mappings, text
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.text import printable
from pykueue.base.timers import doze
from pykueue.base.units import Instant
from pykueue.cli.formats import echo, printed
from pykueue.cli.kueuectl.discovery import Served, kinds_of
from pykueue.cli.kueuectl.listing import Listed, Row, Wanted, job_type, nothing_found, owners, status
from pykueue.cli.kueuectl.writes import bare
from pykueue.cli.objects import each
from pykueue.cli.queues.places import positions
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.cli.tables import KUBECTL_GAP
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import LOCAL_QUEUES, WORKLOADS, DeniedError, GoneError, RejectedError, UnansweredError

AGAIN_SECONDS: Final = 1.0
"""How long to wait before a watch that was lost is started again."""


class Question(Frozen):
    """What to list."""

    listed: Listed
    namespace: str
    """Empty for all namespaces, and for objects without one."""
    labels: str = ""
    fields: str = ""
    wanted: Wanted = Wanted()
    own_namespace: str = ""
    """Listed if the user may not list all namespaces."""


class Answer(Frozen):
    """The objects, where they are, and the version of the list."""

    rows: tuple[Row, ...]
    namespace: str
    version: str = ""


def tell(text: str) -> None:
    """Print a line to standard error."""
    click.echo(printable(text), err=True)


async def answer(kube: HttpKube, question: Question) -> Answer:
    """The objects that a question asks for, as far as the user may see them."""
    namespace = question.namespace
    try:
        trees, version = await trees_of(kube, question, namespace)
    except DeniedError as error:
        if error.code == UNAUTHORIZED or namespace or not question.listed.resource.namespaced:
            raise
        namespace = question.own_namespace
        tell(f"{error.message}; only namespace {namespace} is listed")
        trees, version = await trees_of(kube, question, namespace)
    rows = await rows_of(kube, question.listed, trees)
    return Answer(tuple(row for row in rows if question.wanted(row)), namespace, version)


async def trees_of(kube: HttpKube, question: Question, namespace: str) -> tuple[list[Tree], str]:
    """The objects of a list, and its version. The Workloads of a job are found by their label if they have it."""
    version = ""
    label = f"{Label.JOB_UID}={question.wanted.owner}" if question.wanted.owner else ""
    for labels in dict.fromkeys((",".join(filter(None, (question.labels, label))), question.labels)):
        found: list[Tree] = []
        async for page in kube.pages(question.listed.resource, namespace, labels=labels, fields=question.fields):
            document = msgspec.json.decode(page)
            version = version or text(document, "metadata", "resourceVersion")
            found += (one for _, one in mappings(document, "items"))
        if found:
            return found, version
    return [], version


async def rows_of(kube: HttpKube, listed: Listed, trees: Sequence[Tree]) -> list[Row]:
    """The rows of these objects; Workloads get what other objects say about them."""
    now = SystemClock().now()
    if listed.resource != WORKLOADS:
        return [Row(tree, now) for tree in trees]
    known, places, queues = await asyncio.gather(
        kinds_of(kube, (text(one, "apiVersion") for tree in trees for one in owners(tree))),
        positions(kube, sorted({queue_of(tree) for tree in trees if status(tree) == "pending"})),
        cluster_queues(kube, trees),
    )
    kinds = {(version, one.resource.kind): one for version, found in known.items() for one in found}
    return [workload_row(tree, now, kinds, places, queues) for tree in trees]


def queue_of(tree: Tree) -> tuple[str, str]:
    """Namespace and name of a Workload's LocalQueue."""
    return text(tree, "metadata", "namespace"), text(tree, "spec", "queueName")


def workload_row(
    tree: Tree,
    now: Instant,
    kinds: dict[tuple[str, str], Served],
    places: dict[tuple[str, str], int],
    queues: dict[tuple[str, str], str],
) -> Row:
    """The row of a Workload."""
    jobs = (kinds.get((text(one, "apiVersion"), text(one, "kind"))) for one in owners(tree))
    place = places.get((text(tree, "metadata", "namespace"), text(tree, "metadata", "name")))
    return Row(
        tree,
        now,
        queues.get(queue_of(tree), ""),
        tuple(dict.fromkeys(job_type(one.singular) for one in jobs if one is not None)),
        "" if place is None or status(tree) != "pending" else str(place),
    )


async def cluster_queues(kube: HttpKube, trees: Sequence[Tree]) -> dict[tuple[str, str], str]:
    """The ClusterQueues of the LocalQueues of Workloads that are not admitted, where the user may read them."""
    waiting = {queue_of(tree)[0] for tree in trees if not text(tree, "status", "admission", "clusterQueue")}
    found: dict[tuple[str, str], str] = {}
    for namespace in sorted(waiting):
        try:
            async for one in each(kube, LOCAL_QUEUES, namespace):
                found[namespace, text(one, "metadata", "name")] = text(one, "spec", "clusterQueue")
        except DeniedError:
            continue
    return found


async def show(kube: HttpKube, question: Question, *, output: str | None, no_headers: bool, watch: bool) -> None:
    """Print the list, and with `watch` each change after it."""
    found = await answer(kube, question)
    listed, spread = question.listed, listed_namespaces(question)
    columns = listed.shown(namespaces=spread)
    if not found.rows and not watch:
        if output in ("json", "yaml"):
            echo(printed((), columns, output, name=listed.name, document=lambda: document(question, ())))
        tell(nothing_found(found.namespace))
        return
    if not watch:
        echo(
            printed(
                found.rows,
                columns,
                output,
                name=listed.name,
                document=lambda: document(question, found.rows),
                no_headers=no_headers,
                gap=KUBECTL_GAP,
            )
        )
        return
    if output in ("json", "yaml", "name", "csv"):
        writer: Callable[[Row], None] = lambda row: echo(  # noqa: E731
            printed([row], columns, output, name=listed.name, document=lambda: shown_tree(listed, row), no_headers=True)
        )
        for row in found.rows:
            writer(row)
    else:
        shown = [one for one in columns if output == "wide" or not one.wide]
        lines = Lines([one.header for one in shown], [[one.cell(row) for one in shown] for row in found.rows])
        for line in lines.first(no_headers=no_headers):
            click.echo(line)
        writer = lambda row: click.echo(lines.line([one.cell(row) for one in shown]))  # noqa: E731
    async for row in changes(kube, question, found):
        writer(row)


def listed_namespaces(question: Question) -> bool:
    """Whether objects of several namespaces are listed."""
    return question.listed.resource.namespaced and not question.namespace


class Lines:
    """A table to which lines are added: the columns keep the widths of its beginning."""

    def __init__(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.headers = headers
        self.rows = [[printable(cell) for cell in row] for row in rows]
        self.widths = [max(len(row[index]) for row in (headers, *self.rows)) for index in range(len(headers))]

    def first(self, *, no_headers: bool) -> list[str]:
        """The lines of the beginning."""
        return [self.line(row) for row in (*(() if no_headers else (self.headers,)), *self.rows)]

    def line(self, cells: Sequence[str]) -> str:
        """One more line."""
        padded = (printable(cell).ljust(width) for cell, width in zip(cells, self.widths, strict=True))
        return KUBECTL_GAP.join(padded).rstrip()


async def changes(kube: HttpKube, question: Question, since: Answer) -> AsyncIterator[Row]:
    """The objects that change after a list, also while the server restarts."""
    version, lost = since.version, False
    seen = {uid_of(row): text(row.tree, "metadata", "resourceVersion") for row in since.rows}
    while True:
        try:
            async for line in kube.watch(
                question.listed.resource,
                since.namespace,
                version=version,
                labels=question.labels,
                fields=question.fields,
            ):
                lost = False
                event = msgspec.json.decode(line)
                tree = mapping(event, "object")
                version = text(tree, "metadata", "resourceVersion") or version
                if text(event, "type") == "BOOKMARK":
                    continue
                for row in await rows_of(kube, question.listed, [tree]):
                    if question.wanted(row):
                        seen[uid_of(row)] = version
                        yield row
        except (GoneError, RejectedError):
            version = ""
        except UnansweredError as error:
            if not lost:
                tell(f"{error}; waiting for the server")
            lost = True
            await doze(AGAIN_SECONDS)
        if version:
            continue
        try:
            fresh = await answer(kube, question)
        except UnansweredError:
            continue
        version = fresh.version
        for row in fresh.rows:
            if seen.get(uid_of(row)) != text(row.tree, "metadata", "resourceVersion"):
                seen[uid_of(row)] = text(row.tree, "metadata", "resourceVersion")
                yield row


def uid_of(row: Row) -> str:
    """The uid of an object."""
    return text(row.tree, "metadata", "uid")


def shown_tree(listed: Listed, row: Row) -> Tree:
    """An object as json and yaml show it."""
    return {"apiVersion": listed.resource.api_version, "kind": listed.resource.kind, **bare(row.tree)}


def document(question: Question, rows: Sequence[Row]) -> Tree:
    """The list as json and yaml show it."""
    resource = question.listed.resource
    return {
        "apiVersion": resource.api_version,
        "kind": f"{resource.kind}List",
        "metadata": {},
        "items": [shown_tree(question.listed, row) for row in rows],
    }
