"""`pykueue report`: use, waits, preemptions and lost work of the last days, as a page with plots."""

from typing import TYPE_CHECKING

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced

if TYPE_CHECKING:
    from pykueue.reports.records import Material


@click.command()
@choosing_server
@namespaced
@click.option(
    "--since",
    metavar="DURATION",
    default="7d",
    show_default=True,
    help="The time that the report is about, up to now, e.g. 12h or 30d.",
)
@click.option(
    "--journal",
    metavar="DIR",
    help="Read the journals in DIR, or one and those rotated beside it, instead of asking a server.",
    shell_complete=completion.files,
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write a file that ends with .html, .svg or .csv; html, svg and csv alone go to standard output.",
    shell_complete=completion.files,
)
def report(
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
    namespace: str | None,
    since: str,
    journal: str | None,
    output: str | None,
) -> None:
    """Report on use, waits, preemptions and lost work.

    The report has the use of each quota over time against nominal, by team (ClusterQueue) and flavor; how long jobs
    waited, by queue, as a distribution; preemptions and the work lost to them; the ten longest waits with their
    reasons; and how good the estimates of `pykueue eta` were. Without -o it is a short text.

    On one machine it is made from the records of finished jobs, on a cluster from the Jobs and Workloads that still
    exist, and with --journal from what `pykueue manager` or `pykueue up` recorded with the same option. It says from
    when on it knows. You see the jobs that you may list, in all namespaces or in that of -n; of the rest, numbers
    without names.

    An HTML file contains no scripts and opens without a network. Files are readable by you alone.

    \b
    Example:
      pykueue report
      pykueue report --since 30d -o report.html
      pykueue report -n team-a -o csv > report.csv
      pykueue report --journal /var/log/pykueue -o report.svg

    Exit codes: 0, success; 1, the server refused or does not respond, or the file cannot be written; 2, invalid input,
    or there is no journal.
    """
    # Imported here so that help and usage errors are fast.
    from pykueue.cli.formats import echo
    from pykueue.cli.reports.text import lines
    from pykueue.cli.reports.writing import length_of, output_of, rendered, write
    from pykueue.reports.figures import figures

    target = None if output is None else output_of("-o", output)
    length = length_of(since)
    if journal is not None:
        made = journalled(journal, length, namespace)
    else:
        made = served(kubeconfig, context, data, namespace, length)
    found = figures(made)
    if target is None:
        echo(list(lines(found)))
    else:
        write(target, rendered(found, target.form), "-o")


def journalled(place: str, length: int, namespace: str | None) -> "Material":
    """The material from journals; exits if there are none."""
    from pykueue.cli.reports.journalled import material
    from pykueue.cli.reports.writing import local_offset
    from pykueue.cli.serverstate import fail
    from pykueue.engine.record.journal import JournalError

    try:
        return material(place, length, namespace, local_offset())
    except OSError as error:
        fail(f"--journal: {error.filename}: {error.strerror}")
    except JournalError as error:
        fail(f"--journal: {error}")


def served(
    kubeconfig: str | None, context: str | None, data: str | None, namespace: str | None, length: int
) -> "Material":
    """The material from a server; exits if it does not answer."""
    from pykueue.base.clock import SystemClock
    from pykueue.base.units import Instant
    from pykueue.cli.jobs.source import Asked
    from pykueue.cli.reports.server import Wanted, material
    from pykueue.cli.reports.writing import local_offset
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.kube.client.http import HttpKube
    from pykueue.reports.records import Material, Period

    target = chosen(kubeconfig, context, data)
    now = SystemClock().now()
    wanted = Wanted(
        Asked(namespace or "", namespace or target.connection.namespace),
        Period(Instant(max(0, now - length)), now),
        local_offset(),
        target.connection.server,
    )
    found: list[Material] = []

    async def ask(kube: HttpKube) -> None:
        # Not returned: when a task ends, asyncio prints its whole result for an error message that is not shown.
        found.append(await material(kube, wanted))

    asked(target, "report", ask)
    return found[0]
