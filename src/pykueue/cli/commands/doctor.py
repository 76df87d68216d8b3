"""`pykueue doctor`: find misconfigurations on a server or in manifests, each with a remedy."""

import sys
from typing import TYPE_CHECKING

import click

from pykueue.cli.flags import choosing_format, choosing_server, namespaced

if TYPE_CHECKING:
    from pykueue.cli.doctor.inventory import Inventory


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    metavar="FILE",
    multiple=True,
    help="Examine manifests instead of a server: a file, the manifests in a directory, or - for standard input.",
)
@click.option("--skip", metavar="ID", multiple=True, help="Skip this check. Repeatable.")
@namespaced
@choosing_format
@choosing_server
def doctor(
    files: tuple[str, ...],
    skip: tuple[str, ...],
    namespace: str | None,
    output: str | None,
    no_headers: bool,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Find misconfigurations, each with a remedy.

    Examines the queues, flavors, checks, classes, namespaces and pending jobs of a server, and on a cluster also its
    nodes, definitions, webhooks, Configuration and clocks; or, with -f, manifests in YAML or JSON, without a server.
    docs/doctor.md has a section for the id of each finding. Errors prevent jobs from starting, warnings are settings
    that do not have the effect they appear to have, and notes may deserve attention.

    With -f, references to a kind are not checked if there are no manifests of that kind. Checks that need more
    permissions than you have are skipped and reported on standard error.

    \b
    Example:
      pykueue doctor
      pykueue doctor -f manifests/
      pykueue doctor -f queues.yaml --skip flavor-unused -o json
      kubectl get clusterqueues,localqueues,resourceflavors -A -o yaml | pykueue doctor -f -

    Exit codes: 0, no findings, or only notes; 1, errors or warnings; 2, invalid input, or the server rejected the
    request or does not respond.
    """
    from pykueue.cli.doctor.table import CHECKS
    from pykueue.cli.serverstate import fail

    for name in skip:
        if name not in CHECKS:
            from difflib import get_close_matches

            near = get_close_matches(name, CHECKS, n=1)
            fail(f"--skip: there is no check {name!r}; {f'did you mean {near[0]}?' if near else 'see docs/doctor.md'}")
    invalid = False
    if files:
        if kubeconfig or context or data or namespace:
            fail("-f: manifests are examined without a server; omit -n, --kubeconfig, --context and --data")
        inventory, invalid = of_files(files)
    else:
        inventory = of_server(kubeconfig, context, data, namespace)
    sys.exit(max(2 if invalid else 0, told(inventory, skip, output, no_headers=no_headers, complete=not invalid)))


def of_files(files: tuple[str, ...]) -> "tuple[Inventory, bool]":
    """The inventory of manifests, and whether some could not be read, which is reported."""
    from pykueue.base.text import printable
    from pykueue.cli.doctor.manifests import from_files
    from pykueue.cli.manifestfiles import contents
    from pykueue.sim.manifests import Mistake

    mistakes: list[Mistake] = []
    texts = [text for file in files for text in contents(file, mistakes)]
    inventory = from_files(texts, mistakes)
    for one in mistakes:
        click.echo(printable(f"Error: {one}"), err=True)
    return inventory, bool(mistakes)


def of_server(kubeconfig: str | None, context: str | None, data: str | None, namespace: str | None) -> "Inventory":
    """The inventory of the chosen server."""
    from pykueue.base.clock import SystemClock
    from pykueue.cli.doctor.live import from_server
    from pykueue.cli.serverstate import fail
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace

    inventory, narrowed = asked(
        target,
        "doctor",
        lambda kube: from_server(kube, SystemClock(), namespace=within),
        code=2,
    )
    if inventory.lacks_kueue:
        fail(
            f"{target.connection.server}: does not serve ClusterQueues; install pykueue or Kueue first, see "
            "`pykueue manifests --help`"
        )
    if narrowed:
        click.echo(f"you may only read {', '.join(narrowed)} in namespace {within}", err=True)
    return inventory


def told(inventory: "Inventory", skip: tuple[str, ...], output: str | None, *, no_headers: bool, complete: bool) -> int:
    """Print the findings; returns the exit code."""
    import os

    from pykueue.base.text import printable
    from pykueue.cli.doctor.inventory import Severity
    from pykueue.cli.doctor.report import COLUMNS, document, left_out, not_run, paragraphs, summary
    from pykueue.cli.doctor.table import examined
    from pykueue.cli.formats import echo, printed
    from pykueue.cli.tables import wants_colour

    findings, skipped = examined(inventory, skip)
    if output is None:
        echo(
            [
                *paragraphs(findings, colour=wants_colour(sys.stdout, os.environ)),
                summary(findings, skipped, complete=complete),
                *not_run(skipped, live=inventory.live),
            ]
        )
    else:
        echo(
            list(
                printed(
                    findings,
                    COLUMNS,
                    output,
                    name=lambda row: row.id,
                    document=lambda: document(findings, skipped),
                    no_headers=no_headers,
                )
            )
        )
    for line in left_out(skipped, live=inventory.live):
        click.echo(printable(line), err=True)
    return int(any(one.severity is not Severity.NOTE for one in findings))
