"""What runs here, and how do I stop it? `pykueue status` and `pykueue down`."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

import click

from pykueue.base.clock import SystemClock
from pykueue.base.text import printable
from pykueue.base.units import MICROS
from pykueue.cli.serverstate import Standing, data_folder, fail, read_standing
from pykueue.cli.tables import duration

LOOK_AGAIN_MICROS: Final = MICROS // 20


@click.command()
@click.option("--data", metavar="DIR", help="The data folder, if not the usual one.")
@click.option("--timeout", type=click.IntRange(min=1), default=120, show_default=True, metavar="SECONDS")
def down(data: str | None, timeout: int) -> None:
    """Stop what `pykueue up` started.

    Jobs that run go on, or are ended, as `pykueue up --on-stop` said.

    \b
    Example:
      pykueue down
      pykueue down --data ~/queues

    Exit codes: 0, it is stopped, or did not run; 1, it did not stop in time.
    """
    folder = data_folder(data)
    standing = read_standing(folder)
    if standing is None or not standing.runs:
        click.echo(f"nothing runs on {folder}")
        return
    if not stopped(standing, timeout):
        fail(
            f"{standing.server}: process {standing.pid} still runs after {timeout} s; it may wait for a job to end: "
            "give a longer --timeout, or kill it, which loses nothing that is stored",
            1,
        )
    click.echo(f"{standing.server} is stopped")
    for line in left_behind(folder):
        click.echo(line)


def stopped(standing: Standing, seconds: int) -> bool:
    """Ask it to stop; whether it did in time."""
    try:
        os.kill(standing.pid, signal.SIGTERM)
    except ProcessLookupError:
        return True
    except PermissionError:
        fail(f"process {standing.pid} belongs to another user; stop it as that user", 1)
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
    """What still runs after the server has stopped, and what becomes of it."""
    from pykueue.node.attempts import still_running

    found = still_running(folder)
    if not found:
        return []
    return [
        f"still running, to be found again by the next `pykueue up`: {len(found)}",
        *(f"  {one.pod} {one.container}, process {one.pid}" for one in found),
    ]


@click.command()
@click.option("--data", metavar="DIR", help="The data folder, if not the usual one.")
@click.option("--kubeconfig", metavar="FILE", help="Ask the server of this kubeconfig.")
@click.option("--context", metavar="NAME", help="Ask this context of the kubeconfig, or of kubectl's own.")
def status(data: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Show what runs here: the machine, its queues, who waits and why.

    \b
    Example:
      pykueue status
      pykueue status --context lab

    Which server is asked: see `pykueue run --help`.

    Exit codes: 0, it runs; 1, it does not; 2, it cannot be asked.
    """
    from pykueue.cli.target import chosen

    target = chosen(kubeconfig, context, data, must_run=True)
    standing = None if target.folder is None else read_standing(target.folder)
    if standing is not None:
        since = duration(SystemClock().now() - standing.since)
        click.echo(f"{standing.server}, process {standing.pid}, up for {since}; data in {target.folder}")
    else:
        click.echo(target.connection.server)
    from pykueue.cli.queuestate import AskError, ask, shown
    from pykueue.kube.port import UnansweredError

    try:
        picture = asyncio.run(ask(target.connection, target.file))
    except AskError as error:
        fail(f"{error}{target.hint() if isinstance(error.__cause__, UnansweredError) else ''}")
    for line in shown(picture):
        click.echo(printable(line))
