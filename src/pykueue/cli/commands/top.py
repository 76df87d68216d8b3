"""`pykueue top`: how much of their quota cohorts and queues use, as bars, live."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pykueue.cli.flags import choosing_format, choosing_server, namespaced

if TYPE_CHECKING:
    from pykueue.cli.queues.usage import Usage
    from pykueue.kube.client.http import HttpKube


@click.command()
@click.option("--once", is_flag=True, help="Print the table once; the default unless standard output is a terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2, max=3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two updates.",
)
@namespaced
@choosing_format
@choosing_server
def top(
    once: bool,
    interval: float,
    namespace: str | None,
    output: str | None,
    no_headers: bool,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Show how much of their quota cohorts and queues use.

    In a bar, # is used quota of the queue itself, + is borrowed, and . is idle. A cohort lends as a whole, so LENT is
    in its row, and BORROWED is what it borrows from its parent. On a terminal the table is updated until Ctrl-C.
    Without permission to read ClusterQueues, you see the usage of the LocalQueues in your namespace. Under fair
    sharing, SHARE is what a queue or cohort borrows, as a part of what its cohort can lend, divided by its WEIGHT.
    With -o csv, amounts are numbers of cores, bytes or units.

    \b
    Example:
      pykueue top
      pykueue top --once
      pykueue top -o json

    Exit codes: 0, success; 1, the server rejected the request or does not respond; 2, invalid input.
    """
    from pykueue.base.text import printable
    from pykueue.cli.formats import echo, printed
    from pykueue.cli.queues.usage import columns, document, object_names
    from pykueue.cli.screen import repaint
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace

    def lines(rows: Sequence["Usage"]) -> list[str]:
        if output == "name":
            # A queue has a row for each resource of each flavor.
            return [printable(name) for name in object_names(rows)]
        shown = printed(
            rows,
            columns(rows, csv=output == "csv"),
            output,
            name=lambda row: row.name,
            document=lambda: document(rows),
            no_headers=no_headers,
        )
        return list(shown)

    if once or output or not sys.stdout.isatty():
        rows, note = asked(target, "top", lambda kube: read(kube, within))
        echo(lines(rows))
        if note:
            click.echo(note, err=True)
        return

    async def live(kube: "HttpKube") -> None:
        async def current() -> tuple[list[str], str]:
            rows, note = await read(kube, within)
            return lines(rows), note

        await repaint(current, interval)

    asked(target, "top", live)


async def read(kube: "HttpKube", namespace: str) -> tuple[list["Usage"], str]:
    """The rows, and a note about what this user may not see."""
    from pykueue.cli.queues.reading import read_queues

    found = await read_queues(kube, namespace, locally=False)
    return found.usage(), found.note
