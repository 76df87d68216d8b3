"""`pykueue status` and `pykueue down`: show the state of a server, and stop the local one."""

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pykueue.base.clock import SystemClock
from pykueue.base.text import printable
from pykueue.base.units import MICROS
from pykueue.cli.flags import Count
from pykueue.cli.serverstate import ServerRecord, data_folder, data_option, fail, read_record
from pykueue.cli.tables import duration

if TYPE_CHECKING:
    from pykueue.cli.queues.state import ServerState
    from pykueue.kube.client.http import HttpKube

LOOK_AGAIN_MICROS: Final = MICROS // 20


@click.command()
@click.option("--data", metavar="DIR", help="Data directory of the server; see `pykueue up --help` for the default.")
@click.option(
    "--timeout",
    type=Count(1),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the server to stop.",
)
def down(data: str | None, timeout: int) -> None:
    """Stop the server started by `pykueue up`.

    Running jobs continue or are terminated, depending on `pykueue up --on-stop`.

    \b
    Example:
      pykueue down
      pykueue down --data ~/queues

    Exit codes: 0, stopped, or was not running; 1, it did not stop in time.
    """
    folder = data_folder(data)
    standing = read_record(folder)
    if standing is None or not standing.runs:
        click.echo(f"no server is running on {folder}")
        return
    if not stopped(standing, timeout):
        fail(
            f"{standing.server}: process {standing.pid} is still running after {timeout} s, perhaps waiting for a job "
            "to stop; use a longer --timeout, or kill the process: stored data is not lost",
            1,
        )
    click.echo(f"{standing.server} stopped")
    for line in left_behind(folder):
        click.echo(line)


def stopped(standing: ServerRecord, seconds: int) -> bool:
    """Send SIGTERM; return whether the server stopped in time."""
    try:
        os.kill(standing.pid, signal.SIGTERM)
    except ProcessLookupError:
        return True
    except PermissionError:
        fail(f"process {standing.pid} belongs to another user; run this as that user", 1)
    clock = SystemClock()

    async def until_over() -> bool:
        end = clock.moment() + seconds * MICROS
        while standing.runs:
            if clock.moment() > end:
                return False
            await clock.sleep(LOOK_AGAIN_MICROS)
        return True

    return asyncio.run(until_over())


def left_behind(folder: Path) -> list[str]:
    """Lines about processes that still run after the server has stopped."""
    from pykueue.node.attempts import still_running

    found = still_running(folder)
    if not found:
        return []
    return [
        f"processes still running, which the next `pykueue up` picks up: {len(found)}",
        *(f"  {one.pod} {one.container}, process {one.pid}" for one in found),
    ]


@click.command()
@click.option("--data", metavar="DIR", help="Data directory of the server; see `pykueue up --help` for the default.")
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the server; see `pykueue run --help`.")
@click.option("--context", metavar="NAME", help="Context in that kubeconfig, or in kubectl's.")
def status(data: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Show the machine, its queues, and why jobs are pending.

    \b
    Example:
      pykueue status
      pykueue status --context lab

    `pykueue run --help` explains how the server is selected.

    Exit codes: 0, the server is running; 1, it is not; 2, it cannot be reached.
    """
    from pykueue.cli.target import chosen

    target = chosen(kubeconfig, context, data, must_run=True)
    standing = None if target.folder is None else read_record(target.folder)
    if standing is not None and standing.runs:
        since = duration(SystemClock().now() - standing.since)
        click.echo(f"{standing.server}, process {standing.pid}, up for {since}; data directory: {target.folder}")
    else:
        click.echo(target.connection.server)
    from pykueue.cli.messages import tell
    from pykueue.cli.queues.state import shown
    from pykueue.cli.session import asked

    state = asked(target, "status", lambda kube: state_of(kube, target.connection.namespace), code=2)
    for line in shown(state, "" if target.folder is None else data_option(target.folder)):
        click.echo(printable(line))
    for note in state.notes:
        tell(note)


async def state_of(kube: "HttpKube", namespace: str) -> "ServerState":
    """The state of a server; of one namespace where this user may not see the others."""
    from msgspec.structs import replace

    from pykueue.cli.jobs.source import Asked, active
    from pykueue.cli.queues.state import read_state, unread

    missing = await unread(kube)
    if missing:
        # A server lists jobs once it has read them.
        return replace(await read_state(kube, namespace, ()), unread=missing)
    found = await active(kube, Asked("", namespace))
    state = await read_state(kube, namespace, found.rows, cluster=not found.served)
    return replace(state, notes=(*state.notes, *found.notes))
